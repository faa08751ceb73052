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
from ._arrays import ArrayNames
from ._column_roles import ID_ENDING, ColumnRoles, is_group_name
from ._errors import MAX_SHOWN, TableError, translate_read_errors
from ._files import Source, TableFile, iter_file_batches
from ._values import (
    DATE_FORMATS,
    MISSING_MARKS,
    as_levels,
    as_text,
    is_text,
    list_distinct,
    mark_missing,
    parse_days,
    parse_numbers,
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
DOMAIN_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # an odd number, so that equal values differ between domains
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

    def add_name(self, name: str) -> int:
        """Return the code of a value, and assign a new one if it has none yet."""
        return self.code_of_name.setdefault(name, len(self.code_of_name) + 1)

    def add_names(self, text: pl.Series) -> None:
        """Assign codes to the values of a text column, without counting rows."""
        for name in list_distinct(text):
            self.add_name(name)

    def drop_ignored(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
        """Return the rows of a frame that are not ignored, and their indices."""
        if self.ignored is None or self.column is None:
            return frame, np.arange(frame.height)
        text = as_text(frame[self.column])
        is_ignored = text.is_null()
        if not self.ignores_missing:
            is_ignored = (text.str.strip_chars() == self.ignored).fill_null(False)
        return frame.filter(~is_ignored), np.flatnonzero(~is_ignored.to_numpy())

    def fit_encode(self, frame: pl.DataFrame, rows: Ints, default: int = 0) -> Ints:
        """Encode the values of new rows, which have the given indices; `default` is the code without a column."""
        if self.column is not None:
            text = as_text(frame[self.column])
            check_name_lengths(text, self.column)
            self.add_names(text)
            if len(self.code_of_name) > MAX_DISTINCT_NAMES:
                raise TableError(
                    [
                        f"the column {self.column!r} has more than {MAX_DISTINCT_NAMES:,} distinct values, too many "
                        "for labels, domains or groups. Choose another column."
                    ]
                )
            missing = rows[text.is_null().to_numpy()]
            self.first_missing += missing[: MAX_SHOWN - len(self.first_missing)].tolist()
            self.n_missing += len(missing)
        return self.encode(frame, default)

    def encode(self, frame: pl.DataFrame, default: int = 0) -> Ints:
        """Encode values that `fit_encode` has encoded before."""
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
        self.n_present = np.zeros(width, dtype=np.int64)
        self.n_missing = np.zeros(width, dtype=np.int64)
        self.n_infinite = np.zeros(width, dtype=np.int64)
        self.n_not_numbers = np.zeros(width, dtype=np.int64)
        self.low = np.full(width, np.inf)
        self.high = np.full(width, -np.inf)
        self.first_not_number: dict[int, tuple[str, int]] = {}  # the value and its row
        self.missing_marks: dict[int, set[str]] = {}  # text that stands for missing values, such as NA
        self.levels: list[set[str]] = [set() for _ in self.names]
        self.too_many_levels = np.zeros(width, dtype=bool)
        self.may_be_dates = {date_format: np.ones(width, dtype=bool) for date_format in DATE_FORMATS}
        # Whether a column may number the rows: from 0 or 1, within each file or through all files.
        self.may_be_numbering = {
            (scope, first): np.ones(width, dtype=bool) for scope in ("file", "all") for first in (0, 1)
        }
        named_like_ids = [bool(ID_NAME.search(name.strip())) or is_group_name(name) for name in self.names]
        self.named_like_ids = np.array(named_like_ids, dtype=bool)
        # Values of columns that hold only distinct integers so far.
        self.unique_values: dict[int, list[NDArray[np.float64]]] = {position: [] for position in range(width)}

    @property
    def numeric(self) -> NDArray[np.bool_]:
        """Which columns hold only numbers and missing values."""
        return (self.n_not_numbers == 0) & ~self.declared

    @property
    def dates(self) -> NDArray[np.bool_]:
        """Which columns hold only dates in one format and missing values."""
        has_format = np.logical_or.reduce(list(self.may_be_dates.values()))
        return has_format & (self.n_not_numbers == self.n_present) & ~self.numeric & ~self.declared

    def date_formats(self, position: int) -> list[str]:
        """List the formats in which all values of a column are dates, the preferred one first."""
        return [date_format for date_format, possible in self.may_be_dates.items() if possible[position]]

    @property
    def has_sentences(self) -> NDArray[np.bool_]:
        """Which columns hold text of several words, judged by the first text."""
        examples = [self.first_not_number.get(position, ("", 0))[0] for position in range(len(self.names))]
        return np.array([len(text.split()) >= MIN_SENTENCE_WORDS for text in examples], dtype=bool)

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns hold a single value or none; missing numbers are imputed, so they do not count as a value."""
        single_level = (self._n_levels() == 1) & ((self.n_missing == 0) | self.dates)
        return np.where(self.numeric, self.low >= self.high, single_level)

    @property
    def identifies(self) -> NDArray[np.bool_]:
        """Which columns identify samples rather than describe them."""
        is_numbering = np.logical_or.reduce(list(self.may_be_numbering.values()))
        is_identifier = is_numbering | (self._find_unique_integers() & self.named_like_ids)
        has_unique_text = self._n_levels() > MAX_IDENTIFIER_SHARE * self.n_present
        return np.where(self.numeric, is_identifier, self.too_many_levels | has_unique_text)

    @property
    def all_different(self) -> NDArray[np.bool_]:
        """Which columns hold a different integer in every row, as identifiers do."""
        return self._find_unique_integers() & self.numeric & (self.n_present >= MIN_UNIQUE_INTEGERS)

    def _find_unique_integers(self) -> NDArray[np.bool_]:
        is_unique = np.zeros(len(self.names), dtype=bool)
        for position, batches in self.unique_values.items():
            values = np.concatenate([np.empty(0), *batches])
            is_unique[position] = len(np.unique(values)) == len(values)
        return is_unique

    def _n_levels(self) -> Ints:
        return np.array([len(levels) for levels in self.levels], dtype=np.intp)

    def update(self, frame: pl.DataFrame, rows: Ints, rows_in_file: Ints) -> None:
        """Add a batch of rows, given their indices in the table and in their file."""
        values, not_numbers = parse_numbers(frame)
        is_missing = np.isnan(values)
        for position, is_wrong in not_numbers.items():
            if position not in self.first_not_number:
                first = int(is_wrong.argmax())
                value = as_text(frame.to_series(position)[first : first + 1]).item()
                self.first_not_number[position] = value, int(rows[first])
            for date_format, possible in self.may_be_dates.items():
                if possible[position]:
                    is_no_date = parse_days(frame.to_series(position), date_format).is_null().to_numpy()
                    possible[position] = not (is_wrong & is_no_date).any()
            self.n_not_numbers[position] += is_wrong.sum()
            self.n_present[position] += is_wrong.sum()
            is_missing[:, position] &= ~is_wrong
        self._add_missing_marks(frame, is_missing)
        is_infinite = np.isinf(values)
        self.n_missing += is_missing.sum(axis=0)
        self.n_present += (~np.isnan(values)).sum(axis=0)
        self.n_infinite += is_infinite.sum(axis=0)
        values[is_infinite] = np.nan
        self.low = np.fmin(self.low, np.fmin.reduce(values, axis=0))
        self.high = np.fmax(self.high, np.fmax.reduce(values, axis=0))
        for (scope, first), possible in self.may_be_numbering.items():
            numbering = first + (rows_in_file if scope == "file" else rows)
            possible &= values[0] == numbering[0]
            candidates = np.flatnonzero(possible)
            possible[candidates] = (values[:, candidates] == numbering[:, None]).all(axis=0)
        if rows[0] < MAX_IDENTIFIER_ROWS:
            self._add_unique_values(values)

    def _add_missing_marks(self, frame: pl.DataFrame, is_missing: NDArray[np.bool_]) -> None:
        """Collect the text that stands for missing values, from columns with more missing values than nulls."""
        n_null = np.array(frame.null_count().row(0))
        for position in np.flatnonzero(is_missing.sum(axis=0) > n_null).tolist():
            series = frame.to_series(position)
            if is_text(series.dtype):
                marks = list_distinct(series.cast(pl.String).filter(is_missing[:, position]))
                self.missing_marks.setdefault(position, set()).update(mark for mark in marks if mark.strip())

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
        for position in np.flatnonzero(~self.numeric & ~self.too_many_levels).tolist():
            has_codes = bool(self.declared[position] and not self.n_not_numbers[position])
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
    names: ArrayNames | None = None  # of its arrays, if it is a file of arrays
    rows: int = 0


@dataclass
class Survey:
    """Result of the first pass: column statistics, distinct labels and domains, and the rows of each cell."""

    label: ValueEncoder
    domain: ValueEncoder
    columns: ColumnStatistics
    group: ValueEncoder = field(default_factory=lambda: ValueEncoder(None))
    # Hashed values of the columns that may name groups, and the domains of their rows.
    group_hashes: dict[str, list[tuple[NDArray[np.uint64], Ints]]] = field(default_factory=dict)
    cells: Counter[Cell] = field(default_factory=Counter)
    parts: list[Part] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # the first row of each file
    rows: int = 0
    unlabeled: int = 0  # rows that are left out because they have no label
    min_domain_rows: int = 0
    small_domains: list[str] = field(default_factory=list)  # with fewer rows, which are left out

    @property
    def present_domains(self) -> list[str]:
        """The domains that have rows."""
        codes = {domain for domain, _ in self.cells}
        return [name for name, code in self.domain.code_of_name.items() if code in codes]

    def leave_out_small_domains(self, min_rows: int) -> None:
        """Leave out the domains with fewer rows."""
        self.min_domain_rows = min_rows
        sizes: Counter[int] = Counter()
        for (domain, _), rows in self.cells.items():
            sizes[domain] += rows
        names = self.domain.names
        self.small_domains = [names[domain - 1] for domain, rows in sizes.items() if domain and rows < min_rows]
        self.cells = Counter({cell: rows for cell, rows in self.cells.items() if sizes[cell[0]] >= min_rows})

    def count_values(self, name: str) -> int:
        """Count the distinct values of a column that may name groups."""
        return len({value for hashes, _ in self.group_hashes[name] for value in np.unique(hashes).tolist()})

    def find_group_columns(self) -> list[str]:
        """Find columns whose values repeat within domains, as patient identifiers do if patients have several rows."""
        return [name for name, batches in self.group_hashes.items() if batches and self._has_groups(name, batches)]

    def _has_groups(self, name: str, batches: list[tuple[NDArray[np.uint64], Ints]]) -> bool:
        values = np.concatenate([hashes for hashes, _ in batches])
        domains = np.concatenate([codes for _, codes in batches])
        if not len(values):
            return False
        n_values = len(np.unique(values))
        n_groups = len(np.unique(values + domains.astype(np.uint64) * DOMAIN_HASH_FACTOR))
        if not MIN_GROUPS_PER_DOMAIN * len(self.present_domains) <= n_groups < len(values):
            return False
        is_nested = n_groups <= MAX_DOMAINS_PER_GROUP * n_values
        has_many_values = n_values > MAX_CODES and len(values) <= MAX_ROWS_PER_GROUP * n_groups
        return is_group_name(name) or is_nested or has_many_values

    def format_rows(self, rows: Sequence[int], total: int | None = None) -> str:
        """Format the first of some rows as users count them: from 1, below the header, in each file."""
        total = len(rows) if total is None else total
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


def survey_batches(tables: Sequence[TableFile], roles: ColumnRoles, unlabeled: str | None = None) -> Survey:
    """Read all files once, and columns that are not numeric a second time, for their levels."""
    survey = Survey(
        label=ValueEncoder(roles.label, unlabeled),
        domain=ValueEncoder(roles.domain),
        columns=ColumnStatistics(roles.features, roles.categories),
        group=ValueEncoder(roles.group),
        group_hashes={name: [] for name in roles.maybe_groups},
    )
    role_columns = [name for name in (roles.label, roles.domain, roles.group) if name is not None]
    columns = list(dict.fromkeys([*roles.features, *role_columns, *roles.maybe_groups]))
    for table in tables:
        survey.files.append(table.path.name)
        survey.starts.append(survey.rows)
        file_domain = survey.domain.add_name(table.name) if roles.files_are_domains else 0
        part = None
        for frame in _iter_frames(table, columns, roles):
            if part is None or (part.rows >= MIN_PART_ROWS and table.path.suffix.lower() == ".parquet"):
                part = Part(
                    table.path.absolute(),
                    file_domain,
                    first=survey.rows - survey.starts[-1],
                    start=survey.rows,
                    cells_before=dict(survey.cells),
                    names=table.names,
                )
                survey.parts.append(part)
            part.rows += frame.height
            with translate_read_errors(table.path):
                _add_rows(survey, frame, file_domain)
    survey.parts = [part for part in survey.parts if part.rows]
    with_levels = [
        name for name, is_numeric in zip(roles.features, survey.columns.numeric, strict=True) if not is_numeric
    ]
    if not with_levels:
        return survey
    label_columns = [roles.label] if roles.label is not None and unlabeled is not None else []
    for table in tables:
        for frame in _iter_frames(table, [*with_levels, *label_columns], roles):
            with translate_read_errors(table.path):
                survey.columns.update_levels(survey.label.drop_ignored(frame)[0])
    return survey


def _iter_frames(table: TableFile, columns: list[str], roles: ColumnRoles) -> Iterator[pl.DataFrame]:
    for frame in iter_file_batches(table.path, columns, choose_batch_size(len(columns)), names=table.names):
        with translate_read_errors(table.path):
            marked = mark_missing(frame, roles.missing)
        yield marked


def _add_rows(survey: Survey, frame: pl.DataFrame, file_domain: int) -> None:
    start = survey.rows
    n_rows = frame.height
    survey.rows += n_rows
    if survey.label.ignored is not None and survey.domain.column is not None:
        # Domains without labeled rows have a code as well, so that a notice can name them.
        names = as_text(frame[survey.domain.column])
        check_name_lengths(names, survey.domain.column)
        survey.domain.add_names(names)
    frame, kept = survey.label.drop_ignored(frame)
    survey.unlabeled += n_rows - frame.height
    if not frame.height:
        return
    rows = start + kept
    if survey.columns.names:
        survey.columns.update(frame[survey.columns.names], rows, rows - survey.starts[-1])
    domains = survey.domain.fit_encode(frame, rows, file_domain)
    labels = survey.label.fit_encode(frame, rows)
    survey.group.fit_encode(frame, rows)
    if rows[0] < MAX_IDENTIFIER_ROWS:
        for name, batches in survey.group_hashes.items():
            text = as_text(frame[name])
            is_present = text.is_not_null().to_numpy()
            batches.append((text.hash().to_numpy()[is_present], domains[is_present]))
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
