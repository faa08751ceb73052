"""Data in memory: frames of any library, values as numbers, text and dates, missing values, and errors of tables."""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..utils.validation import format_list, is_dask, is_missing

# Text that stands for a missing value, regardless of case and surrounding spaces.
MISSING_MARKS = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "?")
MAX_CELL_VALUE = 1e150  # larger numbers count as infinite, because their squares are, and so are distances
# A time after a date, optionally with its offset from UTC.
ZONE = r"(?:Z|(?P<sign>[+-])(?P<offset_hour>\d\d):?(?P<offset_minute>\d\d))?"
TIME = rf"(?:[T ]+(?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d(?:\.\d+)?))?\s*{ZONE})?"
# Date formats, in order of preference: if both of the last two match all values, the month comes first, as in pandas.
DATE_FORMATS = {
    "yyyy-mm-dd": r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)",
    "dd.mm.yyyy": r"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4})",
    "mm/dd/yyyy": r"(?P<month>\d\d?)/(?P<day>\d\d?)/(?P<year>\d{4})",
    "dd/mm/yyyy": r"(?P<day>\d\d?)/(?P<month>\d\d?)/(?P<year>\d{4})",
}
ISO_FORMAT = "yyyy-mm-dd"
WHOLE_NUMBER = r"^\s*([+-]?\d+)(\.0*)?\s*$"  # an integer, also if it is written with a decimal point
MIDNIGHT = r" 00:00:00(\.0+)?$"
TIME_UNITS = ("ms", "us", "ns")  # of polars
MAX_SHOWN = 8  # names, values or rows listed in a message
REASONS = {  # by a phrase in the message of a reader
    "(?i)utf-?8": "it is not UTF-8 text. Save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')",
    "not properly escaped": "a quotation mark is opened but never closed",
    "field limit": "its header is too long; a quotation mark may be opened but never closed",
    "more fields": "a row has more values than the header has names",
    "new_columns": "its header has no line ending that is recognized. Save it with line endings of Unix or Windows",
}


class TableError(ValueError):
    """A table that cannot be used.

    Parameters
    ----------
    problems : iterable of str
        The problems, one sentence each.
    source : str, default="The table"
        The file or table that has the problems.

    Attributes
    ----------
    problems : list of str
        The problems. The message has one line for each.

    Examples
    --------
    >>> from unseen.tables import TableError
    >>> print(TableError(["it has no column 'age'.", "it has one row."], source="new.csv"))
    new.csv cannot be used:
    - it has no column 'age'.
    - it has one row.
    """

    def __init__(self, problems: Iterable[str], source: str = "The table") -> None:
        self.problems = list(problems)
        self.source = source
        super().__init__(f"{source} cannot be used:\n" + "\n".join(f"- {problem}" for problem in self.problems))

    def __reduce__(self) -> tuple[type[TableError], tuple[list[str], str]]:
        # By default, exceptions are unpickled from their message, which here is built from the problems.
        return type(self), (self.problems, self.source)


def raise_table_error(problems: Sequence[str], source: str = "The table") -> None:
    """Raise a TableError if there are problems."""
    if problems:
        raise TableError(problems, source)


@contextmanager
def translate_read_errors(path: Any, *, all_exceptions: bool = False) -> Iterator[None]:
    """Turn exceptions of polars, or with `all_exceptions` those of any reader of files, into a TableError."""
    kinds: tuple[type[BaseException], ...] = (pl.exceptions.PanicException, pl.exceptions.PolarsError)
    if all_exceptions:
        kinds = (*kinds, Exception)
    try:
        yield
    except (ImportError, MemoryError, TableError):
        raise
    except kinds as error:
        text = str(error).strip() or type(error).__name__
        known_reasons = (reason for phrase, reason in REASONS.items() if re.search(phrase, text))
        reason = next(known_reasons, text.splitlines()[0].rstrip(".:"))
        raise TableError([f"it cannot be read: {reason}."], source=path.name) from error


_reading_process: int | None = None  # which has read tables, itself or before it was forked


def check_not_forked() -> None:
    """Raise RuntimeError in a process that was forked after tables were read, where polars would wait forever."""
    global _reading_process
    if _reading_process is None:
        _reading_process = os.getpid()
    if _reading_process != os.getpid():
        raise RuntimeError(
            "Tables cannot be read in a process that was forked after tables were read, because the threads of polars "
            "are not in it. Start processes with joblib, or with multiprocessing.get_context('spawn')."
        )


def format_count(number: int, noun: str) -> str:
    """Format a number with its noun, in the plural if needed."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def format_unknown_column(
    name: str, names: Iterable[str], subject: str = "it has no", *, candidates: Iterable[str] | None = None
) -> str:
    """Report that a column is not among the names, and suggest a similar one of the candidates, or of all names."""
    names = list(names)
    similar = find_similar_column(name, names if candidates is None else candidates)
    hint = f"the columns are {format_list(names)}." if similar is None else f"did you mean {similar!r}?"
    return f"{subject} column {name!r}: {hint}"


def find_similar_column(name: str, candidates: Iterable[str]) -> str | None:
    """Find the candidate most similar to a name, ignoring case; None if none is similar."""
    by_lower = {other.lower(): other for other in candidates}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def find_repeated_names(names: Iterable[str]) -> list[str]:
    """Report names that several columns have."""
    repeated = sorted((name, count) for name, count in Counter(names).items() if count > 1)
    return [f"{format_count(count, 'column')} are called {name!r}. Rename them." for name, count in repeated]


# Types that polars can hold. Columns of lists and the like are not used; a notice reports them.
POLARS_TYPES = (str, int, float, date, timedelta, Decimal, bytes, list, tuple, dict, np.ndarray)


def has_columns(data: Any) -> bool:
    """Whether data in memory have named columns: a frame of any library, or data that `as_frame` converts."""
    # The type is inspected and not the data, because the columns of a lazy frame would be computed.
    return (
        hasattr(type(data), "columns") or isinstance(data, Mapping) or is_pandas_series(data) or is_list_of_rows(data)
    )


def is_pandas_series(data: Any) -> bool:
    """Whether data are a pandas Series: a column, or one row with the names of its columns."""
    return hasattr(type(data), "to_frame") and hasattr(type(data), "index")


def is_list_of_rows(data: Any) -> bool:
    """Whether data are a list of mappings, one per row."""
    return isinstance(data, (list, tuple)) and bool(data) and all(isinstance(row, Mapping) for row in data)


def as_frame(data: Any, name: str) -> pl.DataFrame:
    """Convert data with named columns to a polars frame, column by column, so that pyarrow is not needed.

    Accepts frames of pandas, polars and Arrow, dicts of columns and lists of dicts. A dict of scalars or a pandas
    Series is one row.
    """
    check_not_forked()
    if isinstance(data, pl.LazyFrame):
        return data.collect()
    if isinstance(data, pl.DataFrame):
        return data
    if is_dask(data):
        raise TypeError("A Dask dataframe cannot be read as a table. Pass the path of its files, or call compute().")
    if not has_columns(data):
        raise TypeError(
            "A table must be a path, a DataFrame of pandas or polars, a dict of columns or a list of dicts; got "
            f"{type(data).__name__}."
        )
    with translate_read_errors(Path(name)):
        if is_list_of_rows(data):  # a value that a row does not have is missing
            names = dict.fromkeys(column for row in data for column in row)
            data = {column: [row.get(column) for row in data] for column in names}
        columns = [(str(column), values) for column, values in data.items()] if hasattr(data, "items") else None
        if columns is None:  # an Arrow table, which polars converts
            return pl.DataFrame(data)
        raise_table_error(find_repeated_names(column for column, _ in columns), name)
        is_scalar = [isinstance(values, (str, bytes)) or np.ndim(values) == 0 for _, values in columns]
        if any(is_scalar) and not all(is_scalar):
            raise TableError(["a dict must hold either columns or the values of one row, not both."], source=name)
        return pl.DataFrame(
            [convert_column(column, [values] if any(is_scalar) else values) for column, values in columns]
        )


def convert_column(name: str, values: Any) -> pl.Series:
    """Convert a column of values in any container; a categorical column of pandas remains categorical."""
    if isinstance(values, pl.Series):
        return values.alias(name)
    if hasattr(values, "cat"):
        levels = as_text(convert_column(name, values.cat.categories.tolist()))
        codes = pl.Series(values.cat.codes.to_numpy(), dtype=pl.Int64)
        return levels.gather(codes.set(codes < 0, None)).cast(pl.Categorical)
    if is_pandas_series(values):
        values = values.to_numpy() if isinstance(values.dtype, np.dtype) else values.tolist()
    kind = values.dtype.kind if isinstance(values, np.ndarray) and values.ndim == 1 else ""
    if kind in ("m", "M"):  # polars does not support all units of time
        unit = np.datetime_data(values.dtype)[0]
        return pl.Series(name, values.astype(f"{kind}8[{unit if unit in TIME_UNITS else 'ms'}]"))
    if kind and kind in "biuf":
        return pl.Series(name, values)
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    plain = [None if is_missing(value) else value for value in plain]
    types = {type(value) for value in plain if value is not None}
    # Values of several types, and those that polars does not know, such as intervals, become text, as in a text file.
    is_uniform = len(types) <= 1 and all(issubclass(kind, POLARS_TYPES) for kind in types)
    if not (is_uniform or types == {int, float}):
        plain = [None if value is None else str(value) for value in plain]
    return pl.Series(name, plain, strict=False)


def is_text(dtype: Any) -> bool:
    """Whether a column's values are neither numbers, nor durations, nor booleans."""
    return not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Duration))


def is_category(dtype: Any) -> bool:
    """Whether the type of a column is categorical."""
    return dtype in (pl.Categorical, pl.Enum)


def is_readable(dtype: Any) -> bool:
    """Whether a column holds scalar values, rather than lists, records or bytes."""
    return not (dtype.is_nested() or dtype in (pl.Binary, pl.Object))


def as_text(series: pl.Series) -> pl.Series:
    """Convert values to text, with null for missing values; text is not changed.

    Integers are written without a decimal point, so that 1 and 1.0 are the same level.
    """
    series = _convert_durations(series)
    if series.dtype == pl.Boolean:
        return series.replace_strict([True, False], ["True", "False"], return_dtype=pl.String)
    if series.dtype.is_float():
        series = series.fill_nan(None)
        is_integer = ((series == series.round()) & (series.abs() < 2**53)).fill_null(False)
        return series.cast(pl.Int64, strict=False).cast(pl.String).zip_with(is_integer, series.cast(pl.String))
    if series.dtype == pl.Datetime:  # in UTC, and midnight as a date alone, as in a text file
        return series.dt.convert_time_zone("UTC").dt.replace_time_zone(None).cast(pl.String).str.replace(MIDNIGHT, "")
    text = series.cast(pl.String)
    if not is_text(series.dtype):
        return text
    distinct = text.unique()  # usually few, so that few values are compared with the marks
    marks = distinct.filter(is_missing_mark(distinct)).drop_nulls()
    return text.set(text.is_in(marks.to_list()), None) if len(marks) else text


def parse_days(series: pl.Series, date_format: str = ISO_FORMAT) -> pl.Series:
    """Parse dates, typed or as text in a format, as days since 1970 with a fraction for the time; null if invalid."""
    parts = as_text(series).str.extract_groups(rf"^\s*{DATE_FORMATS[date_format]}{TIME}\s*$").struct.unnest()
    hours, minutes, seconds, offset_hours, offset_minutes = (
        parts[name].cast(pl.Float64).fill_null(0.0)
        for name in ("hour", "minute", "second", "offset_hour", "offset_minute")
    )
    offset = (60 * offset_hours + offset_minutes) * parts["sign"].replace_strict({"+": 1.0, "-": -1.0}, default=0.0)
    date = parts["year"] + "-" + parts["month"].str.zfill(2) + "-" + parts["day"].str.zfill(2)
    whole_days = date.str.to_date("%Y-%m-%d", strict=False).to_physical().cast(pl.Float64)
    days = whole_days + (60 * (60 * hours + minutes - offset) + seconds) / 86_400
    return days.set((hours >= 24) | (minutes >= 60) | (seconds > 60), None)


def as_levels(series: pl.Series) -> pl.Series:
    """Convert codes to text: an integer is the same level whether it is a number or the text 1 or 1.0."""
    return as_text(series).str.replace(WHOLE_NUMBER, "$1")


def is_missing_mark(text: pl.Series) -> pl.Series:
    """Mark the entries of a text column that stand for a missing value."""
    return text.is_null() | text.str.strip_chars().str.to_lowercase().is_in(MISSING_MARKS).fill_null(True)


def mark_missing(frame: pl.DataFrame, missing: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Replace values that stand for missing values, given as text by column, by null.

    Numbers are compared as numbers, so that 0, 0.0 and the text "0" are the same value.
    """
    replaced = []
    for name, values in missing.items():
        if name in frame.columns:
            text = as_text(frame[name]).str.strip_chars()
            numbers = pl.Series(values, dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
            is_marked = text.is_in(list(values)) | text.cast(pl.Float64, strict=False).is_in(numbers.to_list())
            replaced.append(frame[name].set(is_marked.fill_null(False), None))
    return frame.with_columns(replaced) if replaced else frame


def parse_numbers(frame: pl.DataFrame) -> tuple[NDArray[np.float64], dict[int, NDArray[np.bool_]]]:
    """Convert all columns to numbers, and mark values that are not numbers, by the position of their column.

    Missing values and values that are not numbers become NaN; true and false, also as text, become 1 and 0. Columns
    that hold only numbers are converted at once, because there may be thousands of them.
    """
    if not frame.width:
        return np.empty((frame.height, 0)), {}
    if pl.Duration in frame.dtypes:
        frame = frame.select(_convert_durations(series) for series in frame)
    typed = [name for name, kind in frame.schema.items() if kind != pl.String and is_text(kind)]
    plain = frame.with_columns(pl.col(typed).cast(pl.String)) if typed else frame
    numbers = plain.cast(pl.Float64, strict=False)
    values = numbers.to_numpy(order="fortran", writable=True)
    not_numbers = {}
    has_new_nulls = np.array(numbers.null_count().row(0)) > np.array(plain.null_count().row(0))
    for position in np.flatnonzero(has_new_nulls).tolist():
        text = plain.to_series(position)
        words = text.str.strip_chars().str.to_lowercase().replace({"true": "1", "false": "0"})
        column = words.cast(pl.Float64, strict=False)
        values[:, position] = column.to_numpy()
        is_wrong = (column.is_null() & ~is_missing_mark(text)).to_numpy()
        if is_wrong.any():
            not_numbers[position] = is_wrong
    is_large = np.abs(values) > MAX_CELL_VALUE
    values[is_large] = np.copysign(np.inf, values[is_large])
    return values, not_numbers


def _convert_durations(series: pl.Series) -> pl.Series:
    """Convert durations to seconds; other columns are not changed."""
    if series.dtype != pl.Duration:
        return series
    # polars divides by multiplying with the inverse, which is inexact.
    return pl.Series(series.name, series.dt.total_microseconds().cast(pl.Float64).to_numpy() / 1e6, nan_to_null=True)


def list_distinct(text: pl.Series) -> list[str]:
    """List the distinct values of a text column in order of appearance, without missing values."""
    return text.drop_nulls().unique(maintain_order=True).to_list()


def parse_labels(names: Sequence[str]) -> NDArray[Any]:
    """Convert distinct labels from text to booleans or integers if all of them are, else return them as text."""
    text = pl.Series(names, dtype=pl.String)
    booleans = parse_booleans(text)
    if len(names) and not booleans.null_count():
        return booleans.to_numpy()
    integers = as_levels(text).cast(pl.Int64, strict=False)
    has_codes = text.str.contains(r"^\s*[+-]?0\d").any()  # 007 is a code, not the number 7
    return np.array(names, dtype=str) if integers.null_count() or has_codes else integers.to_numpy()


def parse_booleans(text: pl.Series) -> pl.Series:
    """Parse text such as True or false as booleans; null if it is not a boolean."""
    words = text.str.strip_chars().str.to_lowercase()
    return words.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
