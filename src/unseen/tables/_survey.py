"""The first pass over a table: what each column holds, without holding the table."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..linalg import Ints
from ..utils.validation import MAX_LABEL_LENGTH
from ._arrays import ArrayNames
from ._column_roles import ID_ENDING, ColumnRoles, is_group_name
from ._errors import MAX_SHOWN, TableError, translate_read_errors
from ._files import Source, TableFile, iter_file_batches
from ._values import DATE_FORMATS, MISSING_MARKS, as_levels, as_text, import_polars, is_text, parse_days, parse_numbers

if TYPE_CHECKING:
    import polars as pl

MAX_DISTINCT_NAMES = 1_000_000  # different labels or domains; more are not kept in memory


def check_name_lengths(text: pl.Series, column: str) -> None:
    """Raise for a label, domain or group that is too long: NumPy would allocate its width for every row."""
    longest: Any = text.str.len_chars().max() or 0
    if longest > MAX_LABEL_LENGTH:
        raise TableError(
            [
                f"column {column!r} holds a value of {longest:,} characters; labels, domains and groups have at most "
                f"{MAX_LABEL_LENGTH:,}. Shorten its values, or name another column."
            ]
        )


class ValueEncoder:
    """Numbers the different values of a column from 1 on, as they appear; 0 stands for a missing one.

    Rows with the value `ignored` are not there for it; a mark of missing values such as NA stands for all of them.
    """

    def __init__(self, column: str | None, ignored: str | None = None) -> None:
        self.column = column
        self.ignored = None if ignored is None else ignored.strip()
        self.numbers: dict[str, int] = {}
        self.missing = 0
        self.first_missing: list[int] = []  # rows, the first few

    @property
    def names(self) -> list[str]:
        """The different values as text, in the order of their numbers."""
        return list(self.numbers)

    def number(self, name: str) -> int:
        """The number of a value, a new one if it has none yet."""
        return self.numbers.setdefault(name, len(self.numbers) + 1)

    @property
    def ignores_missing(self) -> bool:
        """Whether the value to be ignored is a missing one."""
        return self.ignored is not None and self.ignored.lower() in MISSING_MARKS

    def counting(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
        """The rows of a frame that are not to be ignored, and which ones they are."""
        if self.ignored is None or self.column is None:
            return frame, np.arange(frame.height)
        text = as_text(frame[self.column])
        ignored = text.is_null() if self.ignores_missing else text.str.strip_chars().eq_missing(self.ignored)
        return frame.filter(~ignored), np.flatnonzero(~ignored.to_numpy())

    def meet(self, text: pl.Series) -> None:
        """Number the values of some text, without a row for them."""
        for name in text.drop_nulls().unique(maintain_order=True).to_list():
            self.number(name)

    def add(self, frame: pl.DataFrame, rows: Ints, otherwise: int = 0) -> Ints:
        """Number the values of some more rows, which have the given places; all have one number without a column."""
        if self.column is not None:
            text = as_text(frame[self.column])
            check_name_lengths(text, self.column)
            self.meet(text)
            if len(self.numbers) > MAX_DISTINCT_NAMES:
                many = f"more than {MAX_DISTINCT_NAMES:,} different values"
                raise TableError([f"the column {self.column!r} has {many}: they are no names."])
            missing = rows[text.is_null().to_numpy()]
            self.first_missing += missing[: MAX_SHOWN - len(self.first_missing)].tolist()
            self.missing += len(missing)
        return self.codes(frame, otherwise)

    def codes(self, frame: pl.DataFrame, otherwise: int = 0) -> Ints:
        """The numbers of values that all have been added before."""
        if self.column is None:
            return np.full(frame.height, otherwise)
        text = as_text(frame[self.column])
        names = text.drop_nulls().unique().sort().to_list()
        new = [name for name in names if name not in self.numbers]
        if new:
            raise TableError([f"the column {self.column!r} holds {new[0]!r}, which it did not before. Begin again."])
        numbers = np.array([0, *(self.numbers[name] for name in names)], dtype=np.intp)
        return numbers[text.rank("dense").fill_null(0).to_numpy()]


MAX_LEVELS = 1000
VALUES_PER_BATCH = 500_000  # some 40 bytes each while they are text, and polars reads several batches ahead
MIN_PART_ROWS = 250_000  # of a Parquet file, to be read again by one worker
MAX_IDENTIFIER_ROWS = 1_000_000  # rows on which it is decided whether integers identify samples
MIN_GROUPS_PER_DOMAIN = 5  # of fewer one cannot say that rows of a domain come from several
# A column that is called an id, but not a patient or the like, names groups only if its values belong to single domains
# (up to so many domains per value, on average), or if it has more values than a list of codes has, with few rows each.
MAX_DOMAINS_PER_GROUP = 1.1
MAX_CODES = 50
MAX_ROWS_PER_GROUP = 20
MIN_UNIQUE_INTEGERS = 50  # integers that all differ: fewer of them may differ by chance
ID_NAME = re.compile(rf"^(?i:index|idx|key|row|)$|{ID_ENDING.pattern}")


class ColumnStatistics:
    """What many columns hold, counted at once, a few rows at a time. Columns are called by their positions.

    Those that are `declared` categories hold levels, even if all their values are numbers or dates.
    """

    def __init__(self, names: Sequence[str], declared: Collection[str] = ()) -> None:
        self.names = list(names)
        width = len(self.names)
        self.declared = np.array([name in declared for name in self.names], dtype=bool)
        self.present, self.absent, self.infinite, self.not_numbers = np.zeros((4, width), dtype=np.int64)
        self.low, self.high = np.full(width, np.inf), np.full(width, -np.inf)
        self.first_not_number: dict[int, tuple[str, int]] = {}  # the value, and its row
        self.marks: dict[int, set[str]] = {}  # of missing values, such as NA
        self.levels: list[set[str]] = [set() for _ in self.names]
        self.too_many_levels = np.zeros(width, dtype=bool)
        self.may_be_dates = {date_format: np.ones(width, dtype=bool) for date_format in DATE_FORMATS}
        # Whether a column may number the rows: from 0 or 1, in each file or through all.
        self.numberings = {(where, first): np.ones(width, dtype=bool) for where in ("file", "all") for first in (0, 1)}
        # Values of the columns that are called like identifiers, and of all that hold different integers so far.
        called_so = [i for i, name in enumerate(names) if ID_NAME.search(name.strip()) or is_group_name(name)]
        self.kept: dict[int, list[NDArray[np.float64]]] = {position: [] for position in called_so}
        self.unique: dict[int, list[NDArray[np.float64]]] = {position: [] for position in range(width)}

    @property
    def numeric(self) -> NDArray[np.bool_]:
        """Where all that is not missing is a number."""
        return (self.not_numbers == 0) & ~self.declared

    @property
    def dates(self) -> NDArray[np.bool_]:
        """Where all that is not missing is a date, in one format."""
        some_format = np.logical_or.reduce(list(self.may_be_dates.values()))
        return some_format & (self.not_numbers == self.present) & ~self.numeric & ~self.declared

    def date_formats(self, position: int) -> list[str]:
        """The formats in which all values of a column are dates, the preferred one first."""
        return [date_format for date_format, possible in self.may_be_dates.items() if possible[position]]

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns tell nothing: the same everywhere (missing numbers are filled in), or nothing at all."""
        single_level = (self._n_levels() == 1) & ((self.absent == 0) | self.dates)
        return np.where(self.numeric, self.low >= self.high, single_level)

    @property
    def identifies(self) -> NDArray[np.bool_]:
        """Which columns name samples rather than describe them."""
        counting = np.logical_or.reduce(list(self.numberings.values()))
        for position, pieces in self.kept.items():  # integers, none missing, each of them once
            values = np.concatenate([np.empty(0), *pieces])
            counting[position] |= (values == np.round(values)).all() and len(np.unique(values)) == len(values)
        return np.where(self.numeric, counting, self.too_many_levels | (self._n_levels() > 0.9 * self.present))

    @property
    def all_different(self) -> NDArray[np.bool_]:
        """Which columns hold a different integer in every row, as identifiers do."""
        found = np.zeros(len(self.names), dtype=bool)
        for position, pieces in self.unique.items():
            values = np.concatenate([np.empty(0), *pieces])
            found[position] = len(values) >= MIN_UNIQUE_INTEGERS and len(np.unique(values)) == len(values)
        return found & self.numeric

    def n_codes(self, position: int) -> int | None:
        """How many different integers a column that is called like an identifier holds; None if other values."""
        values = np.concatenate([np.empty(0), *self.kept.get(position, [])])
        values = values[~np.isnan(values)]
        return len(np.unique(values)) if len(values) and (values == np.round(values)).all() else None

    def _n_levels(self) -> Ints:
        return np.array([len(levels) for levels in self.levels], dtype=np.intp)

    def add(self, frame: pl.DataFrame, rows: Ints, rows_in_file: Ints) -> None:
        """Take in the next rows, which have the given places."""
        values, not_numbers = parse_numbers(frame)
        nothing = np.isnan(values)
        for position, wrong in not_numbers.items():
            if position not in self.first_not_number:
                first = int(wrong.argmax())
                value = as_text(frame.to_series(position).slice(first, 1)).item()
                self.first_not_number[position] = value, int(rows[first])
            for date_format, possible in self.may_be_dates.items():
                if possible[position]:
                    no_date = parse_days(frame.to_series(position), date_format).is_null().to_numpy()
                    possible[position] = not (wrong & no_date).any()
            self.not_numbers[position] += wrong.sum()
            self.present[position] += wrong.sum()
            nothing[:, position] &= ~wrong
        for position in np.flatnonzero(nothing.sum(axis=0) > np.array(frame.null_count().row(0))).tolist():
            series = frame.to_series(position)
            if is_text(series.dtype):
                marks = series.cast(import_polars().String).filter(nothing[:, position]).drop_nulls().unique().to_list()
                self.marks.setdefault(position, set()).update(mark for mark in marks if mark.strip())
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
        if rows[0] < MAX_IDENTIFIER_ROWS:
            for position, pieces in self.kept.items():
                pieces.append(values[:, position].copy())
            self._keep_unique(values)

    def _keep_unique(self, values: NDArray[np.float64]) -> None:
        """Keep values of columns that still may hold a different integer in every row: few, after the first rows."""
        positions = list(self.unique)
        here = values[:, positions]
        whole = (here == np.round(here)).all(axis=0)  # which NaN is not, as it is not equal to itself
        for i, position in enumerate(positions):
            if whole[i] and len(np.unique(here[:, i])) == len(here):
                self.unique[position].append(here[:, i].copy())
            else:
                del self.unique[position]

    def add_levels(self, frame: pl.DataFrame) -> None:
        """Take in the levels of some rows, of all columns that are not numbers."""
        for position in np.flatnonzero(~self.numeric & ~self.too_many_levels).tolist():
            series = frame[self.names[position]].unique()
            codes = self.declared[position] and not self.not_numbers[position]
            new = (as_levels(series).unique() if codes else as_text(series)).drop_nulls()
            levels = self.levels[position]
            if len(new) <= MAX_LEVELS:
                levels.update(new.to_list())
            if max(len(new), len(levels)) > MAX_LEVELS:
                self.too_many_levels[position] = True
                levels.clear()


Cell = tuple[int, int]  # the numbers of a domain and of a label


@dataclass
class Part:
    """Rows of one file that are read in one go."""

    path: Source
    domain: int  # the number of the domain that the file is; 0 if a column tells
    first: int  # row of the file
    start: int  # the same, counted through all files
    before: dict[Cell, int]  # rows of each cell in the parts before this one
    names: ArrayNames | None = None  # of its arrays, if it has any
    rows: int = 0


@dataclass
class Survey:
    """The first pass: a tally per feature, the different labels and domains, and how many rows have which."""

    label: ValueEncoder
    domain: ValueEncoder
    tallies: ColumnStatistics
    group: ValueEncoder = field(default_factory=lambda: ValueEncoder(None))
    # Values of the columns that may name groups, as hashes, and the domains of their rows.
    named: dict[str, list[tuple[NDArray[np.uint64], Ints]]] = field(default_factory=dict)
    cells: Counter[Cell] = field(default_factory=Counter)
    parts: list[Part] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # the first row of each file
    rows: int = 0
    unlabeled: int = 0  # rows that are left out

    @property
    def present(self) -> list[str]:
        """The domains that have rows."""
        numbers = {domain for domain, _ in self.cells}
        return [name for name, number in self.domain.numbers.items() if number in numbers]

    def groups(self) -> list[str]:
        """The columns whose values repeat within domains, as those of patients do who came more than once."""
        return [name for name, pieces in self.named.items() if pieces and self._names_groups(name, pieces)]

    def _names_groups(self, name: str, pieces: list[tuple[NDArray[np.uint64], Ints]]) -> bool:
        values, domains = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        if not len(values):
            return False
        n_values = len(np.unique(values))
        n_groups = len(np.unique(values + domains.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)))
        if not MIN_GROUPS_PER_DOMAIN * len(self.present) <= n_groups < len(values):
            return False
        nested = n_groups <= MAX_DOMAINS_PER_GROUP * n_values
        many = n_values > MAX_CODES and len(values) <= MAX_ROWS_PER_GROUP * n_groups
        return is_group_name(name) or nested or many

    def where(self, rows: Sequence[int], total: int | None = None) -> str:
        """The first few of some rows, as people count them: from 1, below the header, in each file."""
        total = len(rows) if total is None else total
        found = [(row, bisect_right(self.starts, row) - 1) for row in rows[:MAX_SHOWN]]
        own = [f" of {file}" if len(self.files) > 1 else "" for file in self.files]
        shown = ", ".join(f"{row - self.starts[file] + 1}{own[file]}" for row, file in found)
        return f"row{'s' if total > 1 else ''} {shown}" + (
            f" and {total - MAX_SHOWN:,} more" if total > MAX_SHOWN else ""
        )

    def counts(self, classes: NDArray[Any]) -> Ints:
        """The rows of each domain and each class, given the class that each different label is."""
        return sum_cells(self.cells, len(self.domain.numbers), np.unique(classes, return_inverse=True)[1])


def survey_batches(tables: Sequence[TableFile], roles: ColumnRoles, unlabeled: str | None = None) -> Survey:
    """Read all files once, and columns that turn out not to be numbers once more, for their levels."""
    tallies = ColumnStatistics(roles.features, roles.categories)
    result = Survey(
        ValueEncoder(roles.label, unlabeled), ValueEncoder(roles.domain), tallies, ValueEncoder(roles.group)
    )
    result.named = {name: [] for name in roles.maybe_groups}
    others = (name for name in (roles.label, roles.domain, roles.group) if name is not None)
    wanted = dict.fromkeys([*roles.features, *others, *roles.maybe_groups])
    for table in tables:
        result.files.append(table.path.name)
        result.starts.append(result.rows)
        own = result.domain.number(table.name) if roles.by_file else 0
        part = None
        for frame in _frames(table, list(wanted)):
            if part is None or (part.rows >= MIN_PART_ROWS and table.path.suffix.lower() == ".parquet"):
                first = result.rows - result.starts[-1]
                part = Part(table.path.absolute(), own, first, result.rows, dict(result.cells), table.names)
                result.parts.append(part)
            part.rows += frame.height
            with translate_read_errors(table.path):
                _add_rows(result, frame, own)
    result.parts = [part for part in result.parts if part.rows]
    levels = [name for name, numeric in zip(roles.features, result.tallies.numeric, strict=True) if not numeric]
    ignoring = [roles.label] if roles.label is not None and unlabeled is not None else []
    for table in tables if levels else ():
        for frame in _frames(table, [*levels, *ignoring]):
            with translate_read_errors(table.path):
                result.tallies.add_levels(result.label.counting(frame)[0])
    return result


def _frames(table: TableFile, columns: list[str]) -> Iterator[pl.DataFrame]:
    return iter_file_batches(table.path, columns, choose_batch_size(len(columns)), names=table.names)


def _add_rows(result: Survey, frame: pl.DataFrame, own: int) -> None:
    start, height, domain, tallies = result.rows, frame.height, result.domain.column, result.tallies
    result.rows += height
    if result.label.ignored is not None and domain is not None:
        names = as_text(frame[domain])
        check_name_lengths(names, domain)
        result.domain.meet(names)  # also those of which nothing is left
    frame, kept = result.label.counting(frame)
    result.unlabeled += height - frame.height
    if not frame.height:
        return
    rows = start + kept
    if tallies.names:
        tallies.add(frame.select(import_polars().col(tallies.names)), rows, rows - result.starts[-1])
    domains, labels = result.domain.add(frame, rows, own), result.label.add(frame, rows)
    result.group.add(frame, rows)
    for name, pieces in result.named.items() if rows[0] < MAX_IDENTIFIER_ROWS else ():
        text = as_text(frame[name])
        present = text.is_not_null().to_numpy()
        pieces.append((text.hash().to_numpy()[present], domains[present]))
    result.cells.update(dict(count_cells(domains, labels)))


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


def choose_batch_size(width: int) -> int:
    """Rows that can be read at a time, fewer the wider they are."""
    return min(50_000, max(100, VALUES_PER_BATCH // max(width, 1)))
