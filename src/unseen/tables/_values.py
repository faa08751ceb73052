"""Conversion of columns of any type to numbers, text or dates, with one definition of missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

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
WHOLE_NUMBER = r"^\s*([+-]?\d+)\.0*\s*$"  # an integer written with a decimal point
MIDNIGHT = r" 00:00:00(\.0+)?$"
TICKS_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}  # by the time unit of a duration


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
    dtype: Any = series.dtype
    if dtype != pl.Duration:
        return series
    ticks = series.to_physical()
    ticks_per_second = TICKS_PER_SECOND[dtype.time_unit]
    # polars divides by multiplying with the inverse, which is inexact; the integer part is divided separately.
    return ticks // ticks_per_second + (ticks % ticks_per_second) / ticks_per_second


def select_formulas(text: pl.Series) -> pl.Series:
    """Select the text that a spreadsheet takes for a formula, which numbers such as -1 are not."""
    is_number = text.cast(pl.Float64, strict=False).is_not_null()
    return text.filter(text.str.contains(r"^[=+\-@\t\r]") & ~is_number)


def list_distinct(text: pl.Series) -> list[str]:
    """List the distinct values of a text column in order of appearance, without missing values."""
    return text.drop_nulls().unique(maintain_order=True).to_list()


def parse_labels(names: Sequence[str]) -> NDArray[Any]:
    """Convert distinct labels from text to booleans or integers if all of them are, else return them as text."""
    text = pl.Series(names, dtype=pl.String)
    booleans = parse_booleans(text)
    if len(names) and not booleans.null_count():
        return booleans.to_numpy()
    integers = parse_whole_numbers(text)
    has_codes = text.str.contains(r"^\s*[+-]?0\d").any()  # 007 is a code, not the number 7
    return np.array(names, dtype=str) if integers.null_count() or has_codes else integers.to_numpy()


def parse_booleans(text: pl.Series) -> pl.Series:
    """Parse text such as True or false as booleans; null if it is not a boolean."""
    words = text.str.strip_chars().str.to_lowercase()
    return words.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)


def parse_whole_numbers(text: pl.Series) -> pl.Series:
    """Parse text such as 7 or 7.0 as integers; null if it is not an integer."""
    stripped = text.str.strip_chars()
    numbers = stripped.cast(pl.Float64, strict=False)
    is_exact = numbers.is_finite() & (numbers == numbers.round()) & (numbers.abs() < 2**53)
    return stripped.cast(pl.Int64, strict=False).fill_null(numbers.set(~is_exact, None).cast(pl.Int64))
