"""The first pass over a table: statistics of each column, collected in batches without keeping the table in memory."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
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
Codes = NDArray[np.int32]
ROW_FIELDS = ("labels", "domains", "groups", "is_used")  # of a part, with an entry for each row
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

    Without a column, all rows of a file have the same value.
    """

    def __init__(self, column: str | None) -> None:
        self.column = column
        self.code_of_name: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """The distinct values as text, in the order of their codes."""
        return list(self.code_of_name)

    def encode(self, frame: pl.DataFrame, file_value: str | None = None) -> Codes:
        """Encode the values of new rows; `file_value` is their value without a column, None if it is missing."""
        text = pl.repeat(file_value, frame.height, dtype=pl.String, eager=True)
        if self.column is not None:
            text = as_text(frame[self.column])
            check_name_lengths(text, self.column)
        for name in list_distinct(text):
            self.code_of_name.setdefault(name, len(self.code_of_name) + 1)
        if len(self.code_of_name) > MAX_DISTINCT_NAMES:
            raise TableError(
                [
                    f"the column {self.column!r} has more than {MAX_DISTINCT_NAMES:,} distinct values, too many "
                    "for labels, domains or groups. Choose another column."
                ]
            )
        names = text.drop_nulls().unique().sort().to_list()
        codes = np.array([0, *(self.code_of_name[name] for name in names)], dtype=np.int32)
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


@dataclass(frozen=True)
class Part:
    """Consecutive rows of one file, which are read together, and the codes of their labels, domains and groups."""

    path: Source
    first: int  # the first row, counted in the file
    start: int  # the first row, counted through all files
    labels: Codes
    domains: Codes
    groups: Codes
    is_used: NDArray[np.bool_]  # which rows are not left out


@dataclass(frozen=True)
class Survey:
    """Result of the first pass: the rows of the files, and their distinct labels, domains and groups."""

    label: ValueEncoder
    domain: ValueEncoder
    group: ValueEncoder
    parts: list[Part]
    files: list[str]
    starts: list[int]  # the first row of each file
    unlabeled: int = 0  # rows that are left out because they have no label
    small_domains: tuple[str, ...] = ()  # which are left out

    def collect(self, name: str) -> NDArray[Any]:
        """Collect an attribute of all parts, such as "labels", by row."""
        return np.concatenate([getattr(part, name) for part in self.parts] or [np.empty(0, dtype=np.int32)])

    @property
    def rows(self) -> int:
        """The number of rows, those that are left out included."""
        return sum(len(part.labels) for part in self.parts)

    @property
    def present_domains(self) -> list[str]:
        """The domains that have rows."""
        codes = set(self.collect("domains")[self.collect("is_used")].tolist())
        return [name for name, code in self.domain.code_of_name.items() if code in codes]

    def select(self, is_used: NDArray[np.bool_]) -> Survey:
        """Select rows, by a mark for each row of the files."""
        marks = [is_used[part.start : part.start + len(part.labels)] for part in self.parts]
        parts = [replace(part, is_used=own) for part, own in zip(self.parts, marks, strict=True)]
        return replace(self, parts=parts)

    def leave_out_small_domains(self, min_rows: int) -> Survey:
        """Leave out the domains with fewer rows."""
        domains = self.collect("domains")
        is_used = self.collect("is_used")
        sizes = np.bincount(domains[is_used], minlength=len(self.domain.names) + 1)
        is_small = (sizes > 0) & (sizes < min_rows)
        is_small[0] = False  # missing domains, which are a problem
        names = tuple(self.domain.names[code - 1] for code in np.flatnonzero(is_small))
        return replace(self.select(is_used & ~is_small[domains]), small_domains=names)

    def find_missing(self, role: str) -> Ints:
        """Find the rows without a label, domain or group, unless they are left out."""
        return np.flatnonzero((self.collect(f"{role}s") == 0) & self.collect("is_used"))

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
        labels = self.collect("labels")
        domains = self.collect("domains")
        is_counted = self.collect("is_used") & (labels > 0) & (domains > 0)
        codes = np.unique(classes, return_inverse=True)[1]
        table = np.zeros((len(self.domain.names), codes.max(initial=-1) + 1), dtype=np.intp)
        np.add.at(table, (domains[is_counted] - 1, codes[labels[is_counted] - 1]), 1)
        return table


class GroupCandidate:
    """A column that may name groups of rows, such as patients: its hashed values and the domains of their rows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._batches: list[pl.DataFrame] = []

    def update(self, frame: pl.DataFrame, domains: Codes) -> None:
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
    survey = Survey(ValueEncoder(roles.label), ValueEncoder(roles.domain), ValueEncoder(roles.group), [], [], [])
    statistics = ColumnStatistics(roles.features, roles.categories)
    candidates = [GroupCandidate(name) for name in roles.maybe_groups]
    role_columns = [name for name in (roles.label, roles.domain, roles.group) if name is not None]
    columns = list(dict.fromkeys([*roles.features, *role_columns, *roles.maybe_groups]))
    start = 0
    for table in tables:
        survey.files.append(table.path.name)
        survey.starts.append(start)
        file_domain = table.name if roles.files_are_domains else None
        batches: list[Part] = []
        for frame in _iter_frames(table, columns, options):
            with translate_read_errors(table.path):
                is_used = find_labeled(frame, roles.label, options)
                domains = survey.domain.encode(frame, file_domain)
                labels = np.zeros(frame.height, dtype=np.int32)
                labels[is_used] = survey.label.encode(frame.filter(is_used))
                groups = survey.group.encode(frame)
                first = start - survey.starts[-1]
                part = Part(table.path.absolute(), first, start, labels, domains, groups, is_used)
                rows = np.flatnonzero(is_used)
                if len(rows):
                    labeled = frame.filter(is_used)
                    if statistics.names:
                        statistics.update(labeled, start + rows, first + rows)
                    for candidate in candidates if start < MAX_IDENTIFIER_ROWS else ():
                        candidate.update(labeled, domains[is_used])
            if sum(len(batch.labels) for batch in batches) >= MIN_PART_ROWS and table.path.suffix.lower() == ".parquet":
                survey.parts.append(_merge_parts(batches))
                batches = []
            batches.append(part)
            start += frame.height
        if batches:
            survey.parts.append(_merge_parts(batches))
    with_levels = [name for position, name in enumerate(statistics.names) if not statistics.is_numeric(position)]
    if with_levels:
        columns = list(dict.fromkeys([*with_levels, roles.label or with_levels[0]]))
        for table in tables:
            for frame in _iter_frames(table, columns, options):
                with translate_read_errors(table.path):
                    statistics.update_levels(frame.filter(find_labeled(frame, roles.label, options)))
    parts = [part for part in survey.parts if len(part.labels)]
    unlabeled = sum(int((~part.is_used).sum()) for part in parts)
    return replace(survey, parts=parts, unlabeled=unlabeled), statistics, candidates


def _merge_parts(batches: Sequence[Part]) -> Part:
    """Merge batches of consecutive rows."""
    codes: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in batches]) for name in ROW_FIELDS}
    return replace(batches[0], **codes)


def find_labeled(frame: pl.DataFrame, label: str | None, options: TableOptions) -> NDArray[np.bool_]:
    """Mark the rows whose label is not the value of unlabeled rows; NA or the like stands for all missing values."""
    if options.unlabeled is None or label is None:
        return np.ones(frame.height, dtype=bool)
    text = as_text(frame[label])
    if is_missing_mark(options.unlabeled):
        return text.is_not_null().to_numpy()
    return (text.str.strip_chars() != options.unlabeled).fill_null(True).to_numpy()


def is_missing_mark(value: Any) -> bool:
    """Whether the value of unlabeled rows stands for missing labels."""
    return str(value).lower() in MISSING_MARKS


def _iter_frames(table: TableFile, columns: list[str], options: TableOptions) -> Iterator[pl.DataFrame]:
    for frame in iter_file_batches(table.path, columns, choose_batch_size(len(columns))):
        with translate_read_errors(table.path):
            marked = mark_missing(frame, options.missing or {})
        yield marked


def choose_batch_size(width: int) -> int:
    """Choose the number of rows to read at a time, fewer for wider tables."""
    return min(MAX_BATCH_ROWS, max(MIN_BATCH_ROWS, VALUES_PER_BATCH // max(width, 1)))
