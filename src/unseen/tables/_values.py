"""Columns of any type as numbers or as text, with one idea of what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..utils.optional_imports import optional_import

if TYPE_CHECKING:
    import polars as pl

# What stands for a missing value in text, whatever its case and the spaces around it.
MISSING_MARKS = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "?")
MAX_CELL_VALUE = 1e150  # larger numbers count as infinite: their squares, and so all distances, would be
# A time, perhaps with its distance from Greenwich, after a date.
ZONE = r"(?:Z|(?P<sign>[+-])(?P<away>\d\d):?(?P<off>\d\d))?"
TIME = rf"(?:[T ]+(?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d(?:\.\d+)?))?\s*{ZONE})?"
# How dates are written, by the name of the format, in the order in which formats are preferred: where both of the last
# two fit all values, the month comes first, as pandas has it.
DATE_FORMATS = {
    "yyyy-mm-dd": r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)",
    "dd.mm.yyyy": r"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4})",
    "mm/dd/yyyy": r"(?P<month>\d\d?)/(?P<day>\d\d?)/(?P<year>\d{4})",
    "dd/mm/yyyy": r"(?P<day>\d\d?)/(?P<month>\d\d?)/(?P<year>\d{4})",
}
ISO_FORMAT = "yyyy-mm-dd"
WHOLE_NUMBER = r"^\s*([+-]?\d+)\.0*\s*$"  # a whole number written with a decimal point
MIDNIGHT = r" 00:00:00(\.0+)?$"
TICKS_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}  # of durations, in a second


def import_polars() -> Any:
    """The polars package, or an error that says how to install it."""
    return optional_import("polars", "Reading tables")


def is_text(dtype: Any) -> bool:
    """Whether a column's values are neither numbers, nor durations, nor truth values."""
    return not (dtype.is_numeric() or dtype in (import_polars().Boolean, import_polars().Duration))


def is_category(dtype: Any) -> bool:
    """Whether a column is declared to hold categories by its type."""
    return dtype in (import_polars().Categorical, import_polars().Enum)


def is_readable(dtype: Any) -> bool:
    """Whether a column holds a value in each row, rather than lists, records or raw bytes."""
    pl = import_polars()
    return not (dtype.is_nested() or dtype in (pl.Binary, pl.Object))


def as_text(series: pl.Series) -> pl.Series:
    """The values as text, unchanged if they are text already; missing ones are null.

    Whole numbers are written without a decimal point, so that 1 and 1.0 are the same level.
    """
    pl = import_polars()
    series = _convert_durations(series)
    if series.dtype == pl.Boolean:
        return series.replace_strict([True, False], ["True", "False"], return_dtype=pl.String)
    if series.dtype.is_float():
        series = series.fill_nan(None)
        whole = ((series == series.round()) & (series.abs() < 2**53)).fill_null(False)
        return series.cast(pl.Int64, strict=False).cast(pl.String).zip_with(whole, series.cast(pl.String))
    if series.dtype == pl.Datetime:  # in Greenwich, and a day is written as one, as it would be in a text file
        return series.dt.convert_time_zone("UTC").dt.replace_time_zone(None).cast(pl.String).str.replace(MIDNIGHT, "")
    text = series.cast(pl.String)
    if not is_text(series.dtype):
        return text
    different = text.unique()  # few, as a rule, and each of them is looked at once
    marks = different.filter(is_missing_mark(different)).drop_nulls()
    return text.set(text.is_in(marks.to_list()), None) if len(marks) else text


def parse_days(series: pl.Series, date_format: str = ISO_FORMAT) -> pl.Series:
    """Dates, typed or written in a format, as days since 1970, a time as a part of one; null if there is none."""
    pl, text = import_polars(), as_text(series)
    parts = text.str.extract_groups(rf"^\s*{DATE_FORMATS[date_format]}{TIME}\s*$").struct.unnest()
    hours, minutes, seconds, away_hours, away_minutes = (
        parts[name].cast(pl.Float64).fill_null(0.0) for name in ("hour", "minute", "second", "away", "off")
    )
    ahead = (60 * away_hours + away_minutes) * parts["sign"].replace_strict({"+": 1.0, "-": -1.0}, default=0.0)
    day = parts["year"] + "-" + parts["month"].str.zfill(2) + "-" + parts["day"].str.zfill(2)
    since = day.str.to_date("%Y-%m-%d", strict=False).to_physical().cast(pl.Float64)
    found = since + (60 * (60 * hours + minutes - ahead) + seconds) / 86_400
    return found.set((hours >= 24) | (minutes >= 60) | (seconds > 60), None)


def as_levels(series: pl.Series) -> pl.Series:
    """Codes as text: a whole number is the same level whether it is written 1, 1.0 or as a number."""
    return as_text(series).str.replace(WHOLE_NUMBER, "$1")


def is_missing_mark(text: pl.Series) -> pl.Series:
    """Which entries of a column of text stand for a missing value."""
    return text.is_null() | text.str.strip_chars().str.to_lowercase().is_in(MISSING_MARKS).fill_null(True)


def parse_numbers(frame: pl.DataFrame) -> tuple[NDArray[np.float64], dict[int, NDArray[np.bool_]]]:
    """All columns as numbers, and where they are none, by the position of each column that is not wholly numbers.

    Missing ones are NaN, and so is what is no number; true and false, also as text, are 1 and 0. Most columns are
    numbers at first sight, and thousands of those are read at once, not one by one.
    """
    pl = import_polars()
    if not frame.width:
        return np.empty((frame.height, 0)), {}
    if pl.Duration in frame.dtypes:
        frame = frame.select(_convert_durations(series) for series in frame)
    typed = [name for name, kind in frame.schema.items() if kind != pl.String and is_text(kind)]
    plain = frame.with_columns(pl.col(typed).cast(pl.String)) if typed else frame
    numbers = plain.cast(pl.Float64, strict=False)
    values = numbers.to_numpy(order="fortran", writable=True)
    not_numbers = {}
    unread = np.array(numbers.null_count().row(0)) > np.array(plain.null_count().row(0))
    for position in np.flatnonzero(unread).tolist():
        text = plain.to_series(position)
        words = text.str.strip_chars().str.to_lowercase().replace({"true": "1", "false": "0"})
        column = words.cast(pl.Float64, strict=False)
        values[:, position] = column.to_numpy()
        wrong = (column.is_null() & ~is_missing_mark(text)).to_numpy()
        if wrong.any():
            not_numbers[position] = wrong
    large = np.abs(values) > MAX_CELL_VALUE
    values[large] = np.copysign(np.inf, values[large])
    return values, not_numbers


def _convert_durations(series: pl.Series) -> pl.Series:
    """Durations as numbers of seconds, anything else as it is."""
    kind: Any = series.dtype
    if kind != import_polars().Duration:
        return series
    ticks, unit = series.to_physical(), TICKS_PER_SECOND[kind.time_unit]
    return ticks // unit + (ticks % unit) / unit  # polars multiplies by an inverse, so whole seconds go apart
