"""The first pass over a table: its rows, and statistics of its columns, without keeping the table in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..linalg import Ints
from ..utils.validation import MAX_LABEL_LENGTH
from ._column_roles import ROLES, ColumnRoles, TableOptions
from ._files import Source, TableFile, iter_file_batches
from ._values import (
    DATE_FORMATS,
    MAX_SHOWN,
    TableError,
    as_levels,
    as_text,
    is_missing_mark,
    list_distinct,
    mark_missing,
    parse_days,
    parse_numbers,
    translate_read_errors,
)

MAX_DISTINCT_NAMES = 1_000_000  # distinct labels, domains or groups
MAX_LEVELS = 1000  # of a categorical column
VALUES_PER_BATCH = 500_000  # about 40 bytes each while they are text, and polars reads several batches ahead
MAX_BATCH_ROWS = 50_000
MIN_BATCH_ROWS = 100
PART_ROWS = 250_000  # of a part of a Parquet file, which one worker reads in the second pass
MAX_IDENTIFIER_ROWS = 1_000_000  # rows from which it is determined whether values identify samples


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


@dataclass(frozen=True)
class Part:
    """Consecutive rows of one file, which are read together.

    `rows` has the columns label, domain and group, whose types enumerate all names in order of appearance, null where
    they are missing; and is_used, which is false for rows that are left out.
    """

    path: Source
    first: int  # the first row, counted in the file
    rows: pl.DataFrame


@dataclass(frozen=True)
class Survey:
    """Result of the first pass.

    `columns` has statistics of each column that may be a feature, `levels` the levels of those that are not numeric,
    None if they are too many, and `named_values` the values and domains of columns that are named like identifiers.
    """

    files: list[Source]
    starts: list[int]  # the first row of each file
    rows: pl.DataFrame  # of all files, with the columns of `Part.rows`
    columns: pl.DataFrame
    levels: dict[str, set[str] | None]
    named_values: pl.DataFrame
    n_unlabeled: int  # rows that are left out because they have no label
    small_domains: tuple[str, ...] = ()  # which are left out

    @property
    def parts(self) -> list[Part]:
        """The rows as parts of files, which are read one by one or by several workers."""
        parts = []
        for path, start, end in zip(self.files, self.starts, [*self.starts[1:], self.rows.height], strict=True):
            step = PART_ROWS if path.suffix.lower() == ".parquet" else max(end - start, 1)
            for first in range(start, end, step) or (start,):
                parts.append(Part(path, first - start, self.rows[first : min(first + step, end)]))
        return parts

    def get_names(self, role: str) -> list[str]:
        """Return the distinct labels, domains or groups in order of appearance."""
        kind: Any = self.rows.schema[role]
        return kind.categories.to_list()

    @property
    def present_domains(self) -> list[str]:
        """The domains that have rows."""
        present = set(self.rows.filter("is_used")["domain"].unique())
        return [name for name in self.get_names("domain") if name in present]

    def select(self, is_used: Any) -> Survey:
        """Select rows, by a mark for each row of the files."""
        return replace(self, rows=self.rows.with_columns(is_used=is_used))

    def leave_out_small_domains(self, min_rows: int) -> Survey:
        """Leave out the domains with fewer rows; missing domains are a problem, and remain."""
        sizes = self.rows.filter("is_used")["domain"].drop_nulls().value_counts()
        small = set(sizes.filter(pl.col("count") < min_rows)["domain"])
        names = tuple(name for name in self.get_names("domain") if name in small)
        is_small = pl.col("domain").cast(pl.String).is_in(names).fill_null(False)
        return replace(self.select(pl.col("is_used") & ~is_small), small_domains=names)

    def find_missing(self, role: str) -> list[int]:
        """Find the rows without a label, domain or group, unless they are left out."""
        return self.rows.select((pl.col(role).is_null() & pl.col("is_used")).arg_true()).to_series().to_list()

    def format_rows(self, rows: Sequence[int]) -> str:
        """Format the first of some rows as users count them: from 1, below the header, in each file."""
        texts = []
        for row in rows[:MAX_SHOWN]:
            file = bisect_right(self.starts, row) - 1
            file_text = f" of {self.files[file].name}" if len(self.files) > 1 else ""
            texts.append(f"{row - self.starts[file] + 1}{file_text}")
        more = f" and {len(rows) - MAX_SHOWN:,} more" if len(rows) > MAX_SHOWN else ""
        return f"row{'s' if len(rows) > 1 else ''} {', '.join(texts)}{more}"

    def counts(self, classes: NDArray[Any]) -> Ints:
        """Count the rows of each domain and class, given the class of each distinct label."""
        rows = self.rows.filter("is_used").select(pl.col("domain", "label").to_physical()).drop_nulls()
        codes = np.unique(classes, return_inverse=True)[1]
        table = np.zeros((len(self.get_names("domain")), codes.max(initial=-1) + 1), dtype=np.intp)
        np.add.at(table, (rows["domain"].to_numpy(), codes[rows["label"].to_numpy()]), 1)
        return table


def survey_batches(tables: Sequence[TableFile], roles: ColumnRoles, options: TableOptions) -> Survey:
    """Read all files once, and columns that are not numeric a second time, for their levels."""
    role_columns = {role: getattr(roles, role) for role in ROLES}
    columns = [*roles.features, *filter(None, role_columns.values()), *roles.named_like_ids]
    with translate_read_errors(tables[0].path):
        statistics = _measure_columns(pl.DataFrame(schema=dict.fromkeys(roles.features, pl.Float64)), np.arange(0), 0)
    named_values = [pl.DataFrame(schema=dict.fromkeys([*roles.named_like_ids, "domains"], pl.Categorical))]
    batches = [pl.DataFrame(schema={**dict.fromkeys(ROLES, pl.Categorical), "is_used": pl.Boolean})]
    starts = []
    n_rows = 0
    for table in tables:
        starts.append(n_rows)
        for frame in _iter_frames(table, columns, options):
            with translate_read_errors(table.path):
                is_used = find_labeled(frame, roles.label, options)
                names = {role: _get_names(frame, column) for role, column in role_columns.items()}
                if roles.files_are_domains:
                    names["domain"] = pl.repeat(table.name, frame.height, eager=True).cast(pl.Categorical)
                names["label"] = names["label"].set(~is_used, None)
                batches.append(pl.DataFrame({**names, "is_used": is_used}))
                used = frame.filter(is_used)
                if used.height and roles.features:
                    rows_in_file = n_rows - starts[-1] + is_used.arg_true().to_numpy()
                    batch = _measure_columns(used.select(roles.features), rows_in_file, starts[-1])
                    statistics = _merge_statistics(pl.concat([statistics, batch]))
                if n_rows < MAX_IDENTIFIER_ROWS:
                    values = {name: as_text(used[name]).cast(pl.Categorical) for name in roles.named_like_ids}
                    named_values.append(pl.DataFrame({**values, "domains": names["domain"].filter(is_used)}))
            n_rows += frame.height
    rows = pl.concat(batches)
    return Survey(
        [table.path.absolute() for table in tables],
        starts,
        rows.with_columns(
            rows[role].cast(pl.Enum(_list_names(rows[role], column))) for role, column in role_columns.items()
        ),
        statistics.with_columns(is_declared=pl.col("column").is_in(list(roles.categories))),
        _collect_levels(tables, statistics, roles, options),
        pl.concat(named_values),
        int((~rows["is_used"]).sum()),
    )


def _get_names(frame: pl.DataFrame, column: str | None) -> pl.Series:
    """Return the labels, domains or groups of rows; null without such a column."""
    if column is None:
        return pl.repeat(None, frame.height, dtype=pl.Categorical, eager=True)
    text = as_text(frame[column])
    check_name_lengths(text, column)
    return text.cast(pl.Categorical)


def _list_names(values: pl.Series, column: str | None) -> pl.Series:
    names = values.drop_nulls().unique(maintain_order=True).cast(pl.String)
    if len(names) > MAX_DISTINCT_NAMES:
        raise TableError(
            [
                f"the column {column!r} has more than {MAX_DISTINCT_NAMES:,} distinct values, too many for labels, "
                "domains or groups. Choose another column."
            ]
        )
    return names


def _measure_columns(frame: pl.DataFrame, rows_in_file: Ints, start: int) -> pl.DataFrame:
    """Measure the columns of a batch, given the indices of its rows in their file, which begins at row `start`."""
    values, not_numbers = parse_numbers(frame)
    is_missing = np.isnan(values)
    n_not_numbers = np.zeros(frame.width, dtype=np.int64)
    examples: list[str | None] = [None] * frame.width
    example_rows: list[int | None] = [None] * frame.width
    is_date = {name: np.ones(frame.width, dtype=bool) for name in DATE_FORMATS}
    for position, is_wrong in not_numbers.items():
        text = frame.to_series(position).filter(is_wrong)
        n_not_numbers[position] = len(text)
        examples[position] = as_text(text[:1]).item()
        example_rows[position] = start + int(rows_in_file[is_wrong.argmax()])
        is_missing[:, position] &= ~is_wrong
        for name, is_possible in is_date.items():  # most text is not, which the first value shows
            is_possible[position] = not any(parse_days(own, name).null_count() for own in (text[:1], text))
    is_infinite = np.isinf(values)
    values[is_infinite] = np.nan
    numbered = rows_in_file[:, None]
    return pl.DataFrame(
        {
            "column": pl.Series(frame.columns, dtype=pl.String),
            "n_rows": np.full(frame.width, frame.height),
            "n_missing": is_missing.sum(axis=0),
            "n_infinite": is_infinite.sum(axis=0),
            "n_not_numbers": n_not_numbers,
            "low": np.fmin.reduce(values, axis=0, initial=np.inf),
            "high": np.fmax.reduce(values, axis=0, initial=-np.inf),
            "is_integer": (values == np.round(values)).all(axis=0),  # False for NaN, which differs from itself
            "counts_from_0": (values == numbered).all(axis=0),
            "counts_from_1": (values == numbered + 1).all(axis=0),
            **is_date,
            "example": pl.Series(examples, dtype=pl.String),  # of a value that is not a number
            "example_row": pl.Series(example_rows, dtype=pl.Int64),
        }
    )


def _merge_statistics(statistics: pl.DataFrame) -> pl.DataFrame:
    """Merge the statistics of batches."""
    return statistics.group_by("column", maintain_order=True).agg(
        pl.col("n_rows", "n_missing", "n_infinite", "n_not_numbers").sum(),
        pl.col("low").min(),
        pl.col("high").max(),
        pl.col("is_integer", "counts_from_0", "counts_from_1", *DATE_FORMATS).all(),
        pl.col("example", "example_row").drop_nulls().first(),
    )


def _collect_levels(
    tables: Sequence[TableFile], statistics: pl.DataFrame, roles: ColumnRoles, options: TableOptions
) -> dict[str, set[str] | None]:
    """Collect the levels of columns that are not numeric; None for columns with too many."""
    has_text = dict(statistics.select("column", pl.col("n_not_numbers") > 0).iter_rows())
    levels: dict[str, set[str] | None] = {
        name: set() for name, is_text in has_text.items() if is_text or name in roles.categories
    }
    if not levels:
        return levels
    columns = [*levels, *([] if roles.label is None else [roles.label])]
    for table in tables:
        for frame in _iter_frames(table, columns, options):
            with translate_read_errors(table.path):
                used = frame.filter(find_labeled(frame, roles.label, options))
                for name, known in levels.items():
                    if known is None:
                        continue
                    distinct = used[name].unique()
                    new = list_distinct(as_text(distinct) if has_text[name] else as_levels(distinct))
                    known.update(new[: MAX_LEVELS + 1])
                    if len(known) > MAX_LEVELS:
                        levels[name] = None
    return levels


def find_labeled(frame: pl.DataFrame, label: str | None, options: TableOptions) -> pl.Series:
    """Mark the rows whose label is not the value of unlabeled rows; NA or the like stands for all missing values."""
    if options.unlabeled is None or label is None:
        return pl.repeat(True, frame.height, eager=True)
    text = as_text(frame[label])
    if marks_missing_labels(options):
        return text.is_not_null()
    return (text.str.strip_chars() != options.unlabeled).fill_null(True)


def marks_missing_labels(options: TableOptions) -> bool:
    """Whether the value of unlabeled rows stands for missing labels."""
    return bool(is_missing_mark(pl.Series([options.unlabeled])).item())


def _iter_frames(table: TableFile, columns: Sequence[str], options: TableOptions) -> Iterator[pl.DataFrame]:
    columns = list(dict.fromkeys(columns))
    for frame in iter_file_batches(table.path, columns, choose_batch_size(len(columns))):
        with translate_read_errors(table.path):
            marked = mark_missing(frame, options.missing or {})
        yield marked


def choose_batch_size(width: int) -> int:
    """Choose the number of rows to read at a time, fewer for wider tables."""
    return min(MAX_BATCH_ROWS, max(MIN_BATCH_ROWS, VALUES_PER_BATCH // max(width, 1)))
