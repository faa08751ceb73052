"""The first pass over a table: statistics of each column, collected in batches without keeping the table in memory."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..linalg import Ints
from ..utils.validation import MAX_LABEL_LENGTH
from ._column_roles import ID_ENDING, ColumnRoles, TableOptions, is_group_name
from ._files import Source, TableFile, iter_file_batches
from ._values import (
    DATE_FORMATS,
    MAX_SHOWN,
    MISSING_MARKS,
    TableError,
    as_levels,
    as_text,
    list_distinct,
    mark_missing,
    parse_days,
    parse_numbers,
    translate_read_errors,
)

MAX_DISTINCT_NAMES = 1_000_000  # distinct labels, domains or groups kept in memory
MAX_LEVELS = 1000  # of a categorical column
VALUES_PER_BATCH = 500_000  # about 40 bytes each while they are text, and polars reads several batches ahead
MAX_BATCH_ROWS = 50_000
MIN_BATCH_ROWS = 100
MIN_PART_ROWS = 250_000  # of a part of a Parquet file, which one worker reads in the second pass
MAX_IDENTIFIER_ROWS = 1_000_000  # rows from which it is determined whether integers identify samples
MIN_UNIQUE_INTEGERS = 50  # fewer integers may all differ by chance
MAX_IDENTIFIER_SHARE = 0.9  # text columns with more levels than this share of their values identify samples
MIN_SENTENCE_WORDS = 4  # of text that is not a name or an identifier
MIN_GROUPS_PER_DOMAIN = 5  # with fewer, rows of a domain cannot be assumed to come from several groups
# A column that is named like an identifier, but not like a patient, contains groups if most of its values occur in a
# single domain, or if it has more values than a list of codes, with few rows each.
MAX_DOMAINS_PER_GROUP = 1.1  # on average
MAX_CODES = 50
MAX_ROWS_PER_GROUP = 20  # on average
ID_NAME = re.compile(rf"^(?i:index|idx|key|row|)$|{ID_ENDING.pattern}")


def check_name_lengths(text: pl.Series, column: str) -> None:
    """Raise for a label, domain or group that is too long: NumPy would allocate its width for every row."""
    longest = int(text.str.len_chars().fill_null(0).to_numpy().max(initial=0))
    if longest > MAX_LABEL_LENGTH:
        raise TableError(
            [
                f"column {column!r} holds a value of {longest:,} characters; labels, domains and groups may have at "
                f"most {MAX_LABEL_LENGTH:,}. Shorten its values, or choose another column."
            ]
        )


class ValueEncoder:
    """Encodes the distinct values of a column as integers from 1 on, in order of appearance; 0 is a missing value.

    Rows whose value is `ignored` are left out; a mark of missing values such as NA stands for all missing values.
    Without a column, all rows have the same code.
    """

    def __init__(self, column: str | None, ignored: str | None = None) -> None:
        self.column = column
        self.ignored = None if ignored is None else ignored.strip()
        self.code_of_name: dict[str, int] = {}
        self.n_missing = 0
        self.first_missing: list[int] = []  # the first rows with a missing value

    @property
    def names(self) -> list[str]:
        """The distinct values as text, in the order of their codes."""
        return list(self.code_of_name)

    @property
    def ignores_missing(self) -> bool:
        """Whether rows with a missing value are left out."""
        return self.ignored is not None and self.ignored.lower() in MISSING_MARKS

    def add_names(self, names: Sequence[str]) -> None:
        """Assign codes to values that have none yet."""
        for name in names:
            self.code_of_name.setdefault(name, len(self.code_of_name) + 1)

    def drop_ignored(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
        """Return the rows of a frame that are not ignored, and their indices."""
        if self.ignored is None or self.column is None:
            return frame, np.arange(frame.height)
        text = as_text(frame[self.column])
        is_ignored = text.is_null()
        if not self.ignores_missing:
            is_ignored = (text.str.strip_chars() == self.ignored).fill_null(False)
        return frame.filter(~is_ignored), np.flatnonzero(~is_ignored.to_numpy())

    def fit(self, frame: pl.DataFrame) -> None:
        """Assign codes to the values of new rows."""
        if self.column is None:
            return
        text = as_text(frame[self.column])
        check_name_lengths(text, self.column)
        self.add_names(list_distinct(text))
        if len(self.code_of_name) > MAX_DISTINCT_NAMES:
            raise TableError(
                [
                    f"the column {self.column!r} has more than {MAX_DISTINCT_NAMES:,} distinct values, too many "
                    "for labels, domains or groups. Choose another column."
                ]
            )

    def count_missing(self, codes: Ints, rows: Ints) -> None:
        """Count missing values among the codes of rows with the given indices."""
        missing = rows[codes == 0] if self.column is not None else rows[:0]
        self.first_missing += missing[: MAX_SHOWN - len(self.first_missing)].tolist()
        self.n_missing += len(missing)

    def encode(self, frame: pl.DataFrame, default: int = 0) -> Ints:
        """Encode values that `fit` has seen before; `default` is the code without a column."""
        if self.column is None:
            return np.full(frame.height, default)
        text = as_text(frame[self.column])
        names = text.drop_nulls().unique().sort().to_list()
        new_names = [name for name in names if name not in self.code_of_name]
        if new_names:
            raise TableError(
                [
                    f"the column {self.column!r} holds {new_names[0]!r}, which it did not in the first pass: the "
                    "file has changed. Read it again."
                ]
            )
        codes = np.array([0, *(self.code_of_name[name] for name in names)], dtype=np.intp)
        return codes[text.rank("dense").fill_null(0).to_numpy()]


class ColumnStatistics:
    """Statistics of the columns of a table, updated with batches of rows. Columns are identified by their positions.

    Columns that are `declared` as categories have levels, even if all their values are numbers or dates.
    """

    def __init__(self, names: Sequence[str], declared: Collection[str] = ()) -> None:
        self.names = list(names)
        width = len(self.names)
        self.declared = np.array([name in declared for name in self.names], dtype=bool)
        self.n_rows = 0
        self.n_missing = np.zeros(width, dtype=np.int64)
        self.n_infinite = np.zeros(width, dtype=np.int64)
        self.n_not_numbers = np.zeros(width, dtype=np.int64)
        self.low = np.full(width, np.inf)
        self.high = np.full(width, -np.inf)
        self.first_not_number: dict[int, tuple[str, int]] = {}  # the value and its row
        self.date_formats: dict[int, list[str]] = {}  # in which all text of a column is a date, the preferred one first
        self.levels: list[set[str]] = [set() for _ in self.names]
        self.too_many_levels = np.zeros(width, dtype=bool)
        # Whether a column may number the rows of each file, from 0 or from 1.
        self.may_be_numbering = {first: np.ones(width, dtype=bool) for first in (0, 1)}
        # Values of columns that hold only distinct integers so far.
        self.unique_values: dict[int, list[NDArray[np.float64]]] = {position: [] for position in range(width)}

    def n_present(self, position: int) -> int:
        """Return the number of values of a column, infinite numbers included."""
        return int(self.n_rows - self.n_missing[position])

    def is_numeric(self, position: int) -> bool:
        """Whether a column holds only numbers and missing values."""
        return not (self.n_not_numbers[position] or self.declared[position])

    def is_date(self, position: int) -> bool:
        """Whether a column holds only dates in one format and missing values."""
        has_only_text = self.n_not_numbers[position] == self.n_present(position)
        return bool(self.date_formats.get(position) and has_only_text and not self.declared[position])

    def is_constant(self, position: int) -> bool:
        """Whether a column holds a single value or none; missing numbers are imputed, so they do not count as one."""
        if self.is_numeric(position):
            return bool(self.low[position] >= self.high[position])
        return len(self.levels[position]) == 1 and (not self.n_missing[position] or self.is_date(position))

    def has_unique_integers(self, position: int) -> bool:
        """Whether a column holds a different integer in every row."""
        if position not in self.unique_values:
            return False
        values = np.concatenate([np.empty(0), *self.unique_values[position]])
        return len(np.unique(values)) == len(values)

    def is_identifier(self, position: int) -> bool:
        """Whether a column identifies samples rather than describes them."""
        if not self.is_numeric(position):
            n_levels = len(self.levels[position])
            return bool(self.too_many_levels[position]) or n_levels > MAX_IDENTIFIER_SHARE * self.n_present(position)
        name = self.names[position]
        is_numbering = any(possible[position] for possible in self.may_be_numbering.values())
        is_named_so = bool(ID_NAME.search(name.strip())) or is_group_name(name)
        return is_numbering or (is_named_so and self.has_unique_integers(position))

    def is_free_text(self, position: int) -> bool:
        """Whether a column holds text of several words, judged by the first text."""
        text, _ = self.first_not_number.get(position, ("", 0))
        return len(text.split()) >= MIN_SENTENCE_WORDS

    def update(self, frame: pl.DataFrame, rows: Ints, rows_in_file: Ints) -> None:
        """Add a batch of rows, given their indices in the table and in their file."""
        frame = frame[self.names]
        values, not_numbers = parse_numbers(frame)
        is_missing = np.isnan(values)
        for position, is_wrong in not_numbers.items():
            wrong = frame.to_series(position).filter(is_wrong)
            if position not in self.first_not_number:
                self.first_not_number[position] = as_text(wrong[:1]).item(), int(rows[is_wrong.argmax()])
            formats = self.date_formats.get(position, list(DATE_FORMATS))
            self.date_formats[position] = [name for name in formats if not parse_days(wrong, name).null_count()]
            self.n_not_numbers[position] += len(wrong)
            is_missing[:, position] &= ~is_wrong
        is_infinite = np.isinf(values)
        self.n_rows += len(values)
        self.n_missing += is_missing.sum(axis=0)
        self.n_infinite += is_infinite.sum(axis=0)
        values[is_infinite] = np.nan
        self.low = np.fmin(self.low, np.fmin.reduce(values, axis=0))
        self.high = np.fmax(self.high, np.fmax.reduce(values, axis=0))
        for first, possible in self.may_be_numbering.items():
            candidates = np.flatnonzero(possible & (values[0] == first + rows_in_file[0]))
            possible[:] = False
            possible[candidates] = (values[:, candidates] == first + rows_in_file[:, None]).all(axis=0)
        if rows[0] < MAX_IDENTIFIER_ROWS:
            self._add_unique_values(values)

    def _add_unique_values(self, values: NDArray[np.float64]) -> None:
        """Keep the values of columns that may hold a different integer in every row: few, after the first batch."""
        positions = list(self.unique_values)
        batch = values[:, positions]
        all_integers = (batch == np.round(batch)).all(axis=0)  # False for NaN, which differs from itself
        for i, position in enumerate(positions):
            if all_integers[i] and len(np.unique(batch[:, i])) == len(batch):
                self.unique_values[position].append(batch[:, i].copy())
            else:
                del self.unique_values[position]

    def update_levels(self, frame: pl.DataFrame) -> None:
        """Add the levels of a batch of rows, of all columns that are not numeric."""
        has_levels = (self.n_not_numbers > 0) | self.declared
        for position in np.flatnonzero(has_levels & ~self.too_many_levels).tolist():
            has_codes = not self.n_not_numbers[position]
            distinct = frame[self.names[position]].unique()
            new_levels = list_distinct(as_levels(distinct) if has_codes else as_text(distinct))
            levels = self.levels[position]
            if len(new_levels) <= MAX_LEVELS:
                levels.update(new_levels)
            if max(len(new_levels), len(levels)) > MAX_LEVELS:
                self.too_many_levels[position] = True
                levels.clear()


Cell = tuple[int, int]  # the codes of a domain and of a label


@dataclass
class Part:
    """Consecutive rows of one file, which are read together."""

    path: Source
    domain: int  # the code of the domain if the file is a domain; 0 if a column holds the domains
    first: int  # the first row, counted in the file
    start: int  # the first row, counted through all files
    cells_before: dict[Cell, int]  # rows of each cell in the preceding parts
    rows: int = 0


@dataclass
class Survey:
    """Result of the first pass: the rows of the files, their distinct labels, domains and groups, and their cells."""

    label: ValueEncoder
    domain: ValueEncoder
    group: ValueEncoder
    cells: Counter[Cell] = field(default_factory=Counter)
    parts: list[Part] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # the first row of each file
    rows: int = 0
    unlabeled: int = 0  # rows that are left out because they have no label
    small_domains: list[str] = field(default_factory=list)  # which are left out

    @property
    def present_domains(self) -> list[str]:
        """The domains that have rows."""
        codes = {domain for domain, _ in self.cells}
        return [name for name, code in self.domain.code_of_name.items() if code in codes]

    def leave_out_small_domains(self, min_rows: int) -> None:
        """Leave out the domains with fewer rows."""
        sizes: Counter[int] = Counter()
        for (domain, _), rows in self.cells.items():
            sizes[domain] += rows
        names = self.domain.names
        self.small_domains = [names[domain - 1] for domain, rows in sizes.items() if domain and rows < min_rows]
        self.cells = Counter({cell: rows for cell, rows in self.cells.items() if sizes[cell[0]] >= min_rows})

    def format_rows(self, rows: Sequence[int], total: int) -> str:
        """Format the first of some rows as users count them: from 1, below the header, in each file."""
        texts = []
        for row in rows[:MAX_SHOWN]:
            file = bisect_right(self.starts, row) - 1
            file_text = f" of {self.files[file]}" if len(self.files) > 1 else ""
            texts.append(f"{row - self.starts[file] + 1}{file_text}")
        more = f" and {total - MAX_SHOWN:,} more" if total > MAX_SHOWN else ""
        return f"row{'s' if total > 1 else ''} {', '.join(texts)}{more}"

    def counts(self, classes: NDArray[Any]) -> Ints:
        """Count the rows of each domain and class, given the class of each distinct label."""
        return sum_cells(self.cells, len(self.domain.code_of_name), np.unique(classes, return_inverse=True)[1])


class GroupCandidate:
    """A column that may name groups of rows, such as patients: its hashed values and the domains of their rows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._batches: list[pl.DataFrame] = []

    def update(self, frame: pl.DataFrame, domains: Ints) -> None:
        """Add a batch of rows, given the codes of their domains."""
        text = as_text(frame[self.name])
        pairs = pl.DataFrame({"value": text.hash(), "domain": domains})
        self._batches.append(pairs.filter(text.is_not_null()))

    def has_groups(self, n_domains: int) -> bool:
        """Whether values repeat within domains, as patient identifiers do if patients have several rows."""
        if not self._batches:
            return False
        pairs = pl.concat(self._batches)
        n_values = pairs["value"].n_unique()
        n_groups = pairs.n_unique()
        if not MIN_GROUPS_PER_DOMAIN * n_domains <= n_groups < pairs.height:
            return False
        is_nested = n_groups <= MAX_DOMAINS_PER_GROUP * n_values
        has_many_values = n_values > MAX_CODES and pairs.height <= MAX_ROWS_PER_GROUP * n_groups
        return is_group_name(self.name) or is_nested or has_many_values


def survey_batches(
    tables: Sequence[TableFile], roles: ColumnRoles, options: TableOptions
) -> tuple[Survey, ColumnStatistics, list[GroupCandidate]]:
    """Read all files once, and columns that are not numeric a second time, for their levels."""
    unlabeled = None if options.unlabeled is None else str(options.unlabeled)
    survey = Survey(ValueEncoder(roles.label, unlabeled), ValueEncoder(roles.domain), ValueEncoder(roles.group))
    statistics = ColumnStatistics(roles.features, roles.categories)
    candidates = [GroupCandidate(name) for name in roles.maybe_groups]
    role_columns = [name for name in (roles.label, roles.domain, roles.group) if name is not None]
    columns = list(dict.fromkeys([*roles.features, *role_columns, *roles.maybe_groups]))
    for table in tables:
        survey.files.append(table.path.name)
        survey.starts.append(survey.rows)
        file_domain = 0
        if roles.files_are_domains:
            survey.domain.add_names([table.name])
            file_domain = survey.domain.code_of_name[table.name]
        part = None
        for frame in _iter_frames(table, columns, options):
            if part is None or (part.rows >= MIN_PART_ROWS and table.path.suffix.lower() == ".parquet"):
                first = survey.rows - survey.starts[-1]
                part = Part(table.path.absolute(), file_domain, first, survey.rows, dict(survey.cells))
                survey.parts.append(part)
            part.rows += frame.height
            with translate_read_errors(table.path):
                _add_rows(survey, statistics, candidates, frame, file_domain)
    survey.parts = [part for part in survey.parts if part.rows]
    with_levels = [name for position, name in enumerate(statistics.names) if not statistics.is_numeric(position)]
    if with_levels:
        label_columns = [roles.label] if roles.label is not None and unlabeled is not None else []
        for table in tables:
            for frame in _iter_frames(table, [*with_levels, *label_columns], options):
                with translate_read_errors(table.path):
                    statistics.update_levels(survey.label.drop_ignored(frame)[0])
    return survey, statistics, candidates


def _iter_frames(table: TableFile, columns: list[str], options: TableOptions) -> Iterator[pl.DataFrame]:
    for frame in iter_file_batches(table.path, columns, choose_batch_size(len(columns))):
        with translate_read_errors(table.path):
            marked = mark_missing(frame, options.missing or {})
        yield marked


def _add_rows(
    survey: Survey,
    statistics: ColumnStatistics,
    candidates: Sequence[GroupCandidate],
    frame: pl.DataFrame,
    file_domain: int,
) -> None:
    start = survey.rows
    survey.rows += frame.height
    survey.domain.fit(frame)  # domains without labeled rows as well, so that a notice can name them
    labeled, kept = survey.label.drop_ignored(frame)
    survey.unlabeled += frame.height - labeled.height
    if not labeled.height:
        return
    rows = start + kept
    if statistics.names:
        statistics.update(labeled, rows, rows - survey.starts[-1])
    domains = survey.domain.encode(labeled, file_domain)
    survey.label.fit(labeled)
    labels = survey.label.encode(labeled)
    survey.group.fit(labeled)
    groups = survey.group.encode(labeled)
    for encoder, codes in ((survey.domain, domains), (survey.label, labels), (survey.group, groups)):
        encoder.count_missing(codes, rows)
    if rows[0] < MAX_IDENTIFIER_ROWS:
        for candidate in candidates:
            candidate.update(labeled, domains)
    survey.cells.update(dict(count_cells(domains, labels)))


def sum_cells(cells: Mapping[Cell, int], n_domains: int, classes: Ints) -> Ints:
    """Sum the rows of each domain and class, given the index of the class of each label."""
    table = np.zeros((n_domains, classes.max(initial=-1) + 1), dtype=np.intp)
    for (domain, label), rows in cells.items():
        if domain and label:
            table[domain - 1, classes[label - 1]] += rows
    return table


def count_cells(domains: Ints, labels: Ints) -> list[tuple[Cell, int]]:
    """Count the rows of each cell, given the codes of their domains and labels."""
    width = int(labels.max(initial=0)) + 1
    cells, counts = np.unique(domains * width + labels, return_counts=True)
    return [((cell // width, cell % width), n) for cell, n in zip(cells.tolist(), counts.tolist(), strict=True)]


def choose_batch_size(width: int) -> int:
    """Choose the number of rows to read at a time, fewer for wider tables."""
    return min(MAX_BATCH_ROWS, max(MIN_BATCH_ROWS, VALUES_PER_BATCH // max(width, 1)))
