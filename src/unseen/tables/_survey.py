"""The first pass over a table: what each column holds, without holding the table."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algebra import Ints
from ._arrays import ArrayNames
from ._coding import Coding
from ._errors import SHOWN, understanding
from ._files import TableFile, file_batches
from ._roles import Roles
from ._values import as_text, frame_numbers, is_text, polars

if TYPE_CHECKING:
    import polars as pl

MOST_LEVELS = 1000
VALUES_PER_BATCH = 500_000  # some 40 bytes each while they are text, and polars reads several batches ahead
PART_ROWS = 250_000  # of a Parquet file, to be read again by one worker
KEPT_IDS = 1_000_000  # rows on which it is decided whether integers identify samples
ID_NAME = re.compile(r"^(index|idx|key|row|)$|(^|[\s_.\-])(id|uuid|guid)$", re.IGNORECASE)
CAMEL_ID_NAME = re.compile(r"[a-z](ID|Id)$")


@dataclass
class Tally:
    """What a column holds."""

    name: str
    present: int
    absent: int
    infinite: int
    low: float
    high: float
    not_numbers: int
    first_not_number: tuple[str, int]  # the value, and its row
    marks: set[str]  # of missing values, such as NA
    numbers_rows: bool
    numbers_samples: bool  # has the name of an identifier, and integers that all differ
    levels: set[str] = field(default_factory=set)
    too_many_levels: bool = False

    @property
    def numeric(self) -> bool:
        """Whether all that is not missing is a number."""
        return self.not_numbers == 0

    @property
    def constant(self) -> bool:
        """Whether the column tells nothing: the same everywhere (missing numbers are filled in), or nothing at all."""
        if self.numeric:
            return self.low >= self.high
        return len(self.levels) == 1 and not self.absent

    @property
    def identifies(self) -> bool:
        """Whether the column names samples rather than describes them."""
        if self.numeric:
            return self.numbers_rows or self.numbers_samples
        return self.too_many_levels or len(self.levels) > 0.9 * self.present


class Tallies:
    """Counts and ranges of many columns at once, row by row."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        width = len(self.names)
        self.present, self.absent, self.infinite, self.not_numbers = np.zeros((4, width), dtype=np.int64)
        self.low, self.high = np.full(width, np.inf), np.full(width, -np.inf)
        self.first_not_number: dict[int, tuple[str, int]] = {}
        self.marks: dict[int, set[str]] = {}
        # Whether a column may number the rows: from 0 or 1, in each file or through all.
        self.numberings = {(where, first): np.ones(width, dtype=bool) for where in ("file", "all") for first in (0, 1)}
        # Values of the columns that are called like identifiers.
        self.kept: dict[int, list[NDArray[np.float64]]] = {i: [] for i, name in enumerate(names) if has_id_name(name)}

    def add(self, frame: pl.DataFrame, rows: Ints, rows_in_file: Ints) -> None:
        """Take in the next rows, which have the given places."""
        values, not_numbers = frame_numbers(frame)
        nothing = np.isnan(values)
        for position, wrong in not_numbers.items():
            if position not in self.first_not_number:
                first = int(wrong.argmax())
                self.first_not_number[position] = (
                    as_text(frame.to_series(position).slice(first, 1)).item(),
                    int(rows[first]),
                )
            self.not_numbers[position] += wrong.sum()
            self.present[position] += wrong.sum()
            nothing[:, position] &= ~wrong
        self._add_marks(frame, nothing)
        infinite = np.isinf(values)
        self.absent += nothing.sum(axis=0)
        self.present += (~np.isnan(values)).sum(axis=0)
        self.infinite += infinite.sum(axis=0)
        values[infinite] = np.nan
        self.low = np.fmin(self.low, np.fmin.reduce(values, axis=0))
        self.high = np.fmax(self.high, np.fmax.reduce(values, axis=0))
        for (where, first), possible in self.numberings.items():
            counting = first + (rows_in_file if where == "file" else rows)
            possible &= values[0] == counting[0]
            candidates = np.flatnonzero(possible)
            possible[candidates] = (values[:, candidates] == counting[:, None]).all(axis=0)
        for position, pieces in self.kept.items() if rows[0] < KEPT_IDS else ():
            pieces.append(values[:, position].copy())

    def _add_marks(self, frame: pl.DataFrame, nothing: NDArray[np.bool_]) -> None:
        marked = nothing.sum(axis=0) > np.array(frame.null_count().row(0))
        for position in np.flatnonzero(marked):
            series = frame.to_series(int(position))
            if is_text(series.dtype):
                marks = series.cast(polars().String).filter(nothing[:, position]).drop_nulls().unique().to_list()
                self.marks.setdefault(int(position), set()).update(mark for mark in marks if mark.strip())

    def tallies(self) -> list[Tally]:
        """What was found out about each column."""
        return [
            Tally(
                name,
                present=int(self.present[i]),
                absent=int(self.absent[i]),
                infinite=int(self.infinite[i]),
                low=float(self.low[i]),
                high=float(self.high[i]),
                not_numbers=int(self.not_numbers[i]),
                first_not_number=self.first_not_number.get(i, ("", 0)),
                marks=self.marks.get(i, set()),
                numbers_rows=any(possible[i] for possible in self.numberings.values()),
                numbers_samples=i in self.kept and _all_differ(self.kept[i]),
            )
            for i, name in enumerate(self.names)
        ]


def has_id_name(name: str) -> bool:
    """Whether a column is called like an identifier."""
    return bool(ID_NAME.search(name.strip()) or CAMEL_ID_NAME.search(name.strip()))


def _all_differ(pieces: list[NDArray[np.float64]]) -> bool:
    """Whether the values are integers, none missing, each of them once."""
    values = np.concatenate(pieces) if pieces else np.empty(0)
    return bool((values == np.round(values)).all()) and len(np.unique(values)) == len(values)


Cell = tuple[int, int]  # the numbers of a domain and of a label


class Part(NamedTuple):
    """Rows of one file that are read in one go."""

    path: Path
    domain: int  # the number of the domain that the file is; 0 if a column tells
    first: int  # row of the file
    rows: int
    start: int  # its first row, counted through all files
    before: dict[Cell, int]  # rows of each cell in the parts before this one
    names: ArrayNames | None = None  # of its arrays, if it has any


@dataclass
class Survey:
    """The first pass: a tally per feature, the different labels and domains, and how many rows have which."""

    label: Coding
    domain: Coding
    tallies: list[Tally] = field(default_factory=list)
    cells: Counter[Cell] = field(default_factory=Counter)
    parts: list[Part] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # the first row of each file
    rows: int = 0
    unlabelled: int = 0  # rows that are left out

    @property
    def present(self) -> pl.Series:
        """The domains that have rows."""
        return self.domain.names.gather(sorted({domain - 1 for domain, _ in self.cells if domain}))

    def where(self, rows: Sequence[int], total: int | None = None) -> str:
        """The first few of some rows, as people count them: from 1, below the header, in each file."""
        total = len(rows) if total is None else total
        shown = [self._where(int(row)) for row in rows[:SHOWN]]
        more = f" and {total - SHOWN:,} more" if total > SHOWN else ""
        return f"row{'s' if total > 1 else ''} {', '.join(shown)}{more}"

    def _where(self, row: int) -> str:
        file = bisect_right(self.starts, row) - 1
        return f"{row - self.starts[file] + 1}" + (f" of {self.files[file]}" if len(self.files) > 1 else "")

    def counts(self, classes: NDArray[Any]) -> Ints:
        """The rows of each domain and each class, given the class that each different label is."""
        return sum_cells(self.cells, len(self.domain.numbers), np.unique(classes, return_inverse=True)[1])


def look_through(tables: Sequence[TableFile], roles: Roles, unlabelled: str | None = None) -> Survey:
    """Read all files once, and columns that turn out not to be numbers once more, for their levels."""
    result, numbers = Survey(Coding(roles.label, unlabelled), Coding(roles.domain)), Tallies(roles.features)
    wanted = dict.fromkeys([*roles.features, *(name for name in (roles.label, roles.domain) if name is not None)])
    for table in tables:
        result.files.append(table.path.name)
        result.starts.append(result.rows)
        own = result.domain.number(table.name) if roles.by_file else 0
        start, before = result.rows, dict(result.cells)
        with understanding(table.path):
            for frame in file_batches(table.path, list(wanted), batch_size(len(wanted)), names=table.names):
                _add_rows(result, numbers, frame, own)
                if result.rows - start >= PART_ROWS and table.path.suffix.lower() == ".parquet":
                    _add_part(result, table, own, start, before)
                    start, before = result.rows, dict(result.cells)
        if result.rows > start:
            _add_part(result, table, own, start, before)
    result.tallies = numbers.tallies()
    _add_levels(tables, [tally for tally in result.tallies if not tally.numeric], result.label)
    return result


def _add_rows(result: Survey, numbers: Tallies, frame: pl.DataFrame, own: int) -> None:
    start, height, domain = result.rows, frame.height, result.domain.column
    result.rows += height
    if result.label.ignored is not None and domain is not None:
        result.domain.meet(as_text(frame[domain]))  # also those of which nothing is left
    frame, kept = result.label.counting(frame)
    result.unlabelled += height - frame.height
    if not frame.height:
        return
    rows = start + kept
    if numbers.names:
        numbers.add(frame.select(polars().col(numbers.names)), rows, rows - result.starts[-1])
    domains, labels = result.domain.add(frame, rows, own), result.label.add(frame, rows)
    result.cells.update(dict(count_cells(domains, labels)))


def _add_part(result: Survey, table: TableFile, own: int, start: int, before: dict[Cell, int]) -> None:
    first, rows = start - result.starts[-1], result.rows - start
    result.parts.append(Part(table.path.absolute(), own, first, rows, start, before, table.names))


def sum_cells(cells: Mapping[Cell, int], n_domains: int, classes: Ints) -> Ints:
    """The rows of each domain and class, in their order, given the code of the class that each label is."""
    table = np.zeros((n_domains, classes.max(initial=-1) + 1), dtype=np.intp)
    for (domain, label), rows in cells.items():
        if domain and label:
            table[domain - 1, classes[label - 1]] += rows
    return table


def count_cells(domains: Ints, labels: Ints) -> list[tuple[Cell, int]]:
    """How many rows each cell has, by the numbers of the domain and the label."""
    width = int(labels.max(initial=0)) + 1
    cells, counts = np.unique(domains * width + labels, return_counts=True)
    return [((cell // width, cell % width), n) for cell, n in zip(cells.tolist(), counts.tolist(), strict=True)]


def _add_levels(tables: Sequence[TableFile], tallies: Sequence[Tally], label: Coding) -> None:
    names = [tally.name for tally in tallies] + [name for name in [label.column] if name and label.ignored is not None]
    for table in tables if tallies else ():
        with understanding(table.path):
            for frame in file_batches(table.path, names, batch_size(len(names)), names=table.names):
                _add_levels_of(label.counting(frame)[0], tallies)


def _add_levels_of(frame: pl.DataFrame, tallies: Sequence[Tally]) -> None:
    for tally in tallies:
        if tally.too_many_levels:
            continue
        levels = as_text(frame[tally.name].unique()).drop_nulls()
        if len(levels) <= MOST_LEVELS:
            tally.levels.update(levels.to_list())
        if max(len(levels), len(tally.levels)) > MOST_LEVELS:
            tally.too_many_levels, tally.levels = True, set()


def batch_size(width: int) -> int:
    """Rows that can be read at a time, fewer the wider they are."""
    return min(50_000, max(100, VALUES_PER_BATCH // max(width, 1)))
