"""Frames of NumPy arrays, for DataFrames of pandas where polars is not installed.

Columns are arrays of numbers, booleans, dates or durations, or of objects: text, and None for missing values. The
functions here are the versions for arrays of those in ``_values``, which read the same values from columns of polars.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ._values import (
    DATE_FORMATS,
    ISO_FORMAT,
    MAX_CELL_VALUE,
    MIDNIGHT,
    MISSING_MARKS,
    TIME,
    WHOLE_NUMBER,
    as_floats,
    as_levels,
    as_text,
    count_missing,
    find_missing,
    hash_text,
    list_distinct,
    list_levels,
    list_marks,
    longest_text,
    mark_missing,
    parse_days,
    parse_numbers,
    rank_text,
)

Column = NDArray[Any]
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?|nan", re.IGNORECASE)
TEXT = "text"
CATEGORY = "category"
UNREADABLE = "lists, records or bytes"
SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, eq=False)
class ArrayFrame:
    """Named columns of equal length, with the part of the interface of a polars frame that surveys use.

    Parameters
    ----------
    data : dict of str to ndarray
        The columns.
    special : dict of str to str
        Columns whose type is "category", or "lists, records or bytes".
    """

    data: Mapping[str, Column]
    special: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def height(self) -> int:
        """Number of rows."""
        return len(next(iter(self.data.values()))) if self.data else 0

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.data)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.data)

    @property
    def types(self) -> dict[str, str]:
        """Type of each column in a word."""
        kinds = {name: TEXT if column.dtype == object else str(column.dtype) for name, column in self.data.items()}
        return {**kinds, **self.special}

    @overload
    def __getitem__(self, name: str) -> Column: ...
    @overload
    def __getitem__(self, name: list[str]) -> ArrayFrame: ...
    def __getitem__(self, name: str | list[str]) -> Column | ArrayFrame:
        if isinstance(name, str):
            return self.data[name]
        return ArrayFrame({key: self.data[key] for key in name}, self.special)

    def to_series(self, position: int) -> Column:
        """Return a column by its position."""
        return list(self.data.values())[position]

    def filter(self, mask: NDArray[np.bool_]) -> ArrayFrame:
        """Select rows."""
        return ArrayFrame({name: column[mask] for name, column in self.data.items()}, self.special)

    def iter_slices(self, size: int) -> Iterator[ArrayFrame]:
        """Iterate over consecutive rows."""
        for start in range(0, self.height, size):
            rows = slice(start, start + size)
            yield ArrayFrame({name: column[rows] for name, column in self.data.items()}, self.special)

    def with_columns(self, columns: Mapping[str, Column]) -> ArrayFrame:
        """Add or replace columns."""
        return ArrayFrame({**self.data, **columns}, self.special)


def make_column(values: Any) -> tuple[Column, str | None]:
    """Convert an array, or a list of values of one type and None, to a column and its special type."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufmM":
        return values, None
    present = [value for value in values if value is not None]
    types = {type(value) for value in present}
    if types <= {bool} and len(present) == len(values):
        return np.array(values, dtype=bool), None
    if all(issubclass(kind, (int, float, Decimal)) and kind is not bool for kind in types):
        return np.array([np.nan if value is None else float(value) for value in values]), None
    if all(issubclass(kind, date) for kind in types):
        return np.array([_without_zone(value) for value in values], dtype="datetime64[us]"), None
    if all(issubclass(kind, timedelta) for kind in types):
        return np.array(values, dtype="timedelta64[us]"), None
    column = np.empty(len(values), dtype=object)
    if any(issubclass(kind, (bytes, list, tuple, dict, np.ndarray)) for kind in types):
        return column, UNREADABLE
    column[:] = [None if value is None else str(value) for value in values]
    return column, None


def _without_zone(value: Any) -> Any:
    """Convert a time to UTC, without its zone."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def is_missing_text(value: str) -> bool:
    """Whether a text stands for a missing value."""
    return value.strip().lower() in MISSING_MARKS


def parse_number(text: str) -> float | None:
    """Parse a number; true and false count as 1 and 0. None if the text is not a number."""
    word = text.strip().lower()
    word = {"true": "1", "false": "0"}.get(word, word)
    return float(word) if NUMBER.fullmatch(word) else None


@as_text.register
def _as_text(column: np.ndarray) -> Column:
    result = np.empty(len(column), dtype=object)
    kind = column.dtype.kind
    if kind == "m":
        column = _in_seconds(column)
        kind = "f"
    if kind == "M":
        unit = np.datetime_data(column.dtype)[0]
        shown_unit: Any = unit if unit in ("D", "ms", "us", "ns") else "ms"
        texts = np.datetime_as_string(column, unit=shown_unit)
        for i, text in enumerate(texts.tolist()):
            result[i] = None if text == "NaT" else re.sub(MIDNIGHT, "", text.replace("T", " "))
    elif kind == "f":
        result[:] = [_format_float(value) for value in column.tolist()]
    elif kind in "biu":
        result[:] = [str(value) for value in column.tolist()]
    else:
        result[:] = [None if value is None or is_missing_text(value) else value for value in column.tolist()]
    return result


def _format_float(value: float) -> str | None:
    """Format a number; an integer is written without a decimal point."""
    if value != value:
        return None
    return str(int(value)) if abs(value) < 2**53 and value == round(value) else repr(value)


def _in_seconds(column: Column) -> Column:
    return column / np.timedelta64(1, "s")


@as_levels.register
def _as_levels(column: np.ndarray) -> Column:
    text = as_text(column)
    text[:] = [None if value is None else re.sub(WHOLE_NUMBER, r"\1", value) for value in text.tolist()]
    return text


@parse_days.register
def _parse_days(column: np.ndarray, date_format: str = ISO_FORMAT) -> NDArray[np.float64]:
    pattern = re.compile(rf"\s*{DATE_FORMATS[date_format]}{TIME}\s*")
    days = {text: _parse_day(pattern, text) for text in list_distinct(as_text(column))}
    return np.array([np.nan if text is None else days[text] for text in as_text(column).tolist()], dtype=np.float64)


def _parse_day(pattern: re.Pattern[str], text: str) -> float:
    """Parse a date as days since 1970, with a fraction for the time; NaN if it is not valid."""
    match = pattern.fullmatch(text)
    if match is None:
        return np.nan
    parts = match.groupdict()
    try:
        day = date(int(parts["year"]), int(parts["month"]), int(parts["day"]))
    except ValueError:
        return np.nan
    hours, minutes, seconds, offset_hours, offset_minutes = (
        float(parts[name] or 0) for name in ("hour", "minute", "second", "offset_hour", "offset_minute")
    )
    if hours >= 24 or minutes >= 60 or seconds > 60:
        return np.nan
    sign = {"+": 1.0, "-": -1.0}.get(parts["sign"] or "", 0.0)
    offset = sign * (60 * offset_hours + offset_minutes)
    return (day - date(1970, 1, 1)).days + (60 * (60 * hours + minutes - offset) + seconds) / SECONDS_PER_DAY


@mark_missing.register
def _mark_missing(frame: ArrayFrame, missing: Mapping[str, Sequence[str]]) -> ArrayFrame:
    replaced = {}
    for name, values in missing.items():
        if name not in frame.data:
            continue
        numbers = {parse_number(value) for value in values} - {None}
        is_marked = np.zeros(frame.height, dtype=bool)
        for i, text in enumerate(as_text(frame.data[name]).tolist()):
            is_marked[i] = text is not None and (text.strip() in values or parse_number(text) in numbers)
        if is_marked.any():
            column = frame.data[name]
            column = column.astype(np.float64) if column.dtype.kind in "biu" else column.copy()
            column[is_marked] = {"f": np.nan, "m": np.timedelta64("NaT"), "M": np.datetime64("NaT")}.get(
                column.dtype.kind
            )
            replaced[name] = column
    return frame.with_columns(replaced)


@parse_numbers.register
def _parse_numbers(frame: ArrayFrame) -> tuple[NDArray[np.float64], dict[int, NDArray[np.bool_]]]:
    values = np.empty((frame.height, frame.width), order="F")
    not_numbers = {}
    for position, column in enumerate(frame.data.values()):
        if column.dtype.kind in "biuf":
            values[:, position] = column
            continue
        if column.dtype.kind == "m":
            values[:, position] = _in_seconds(column)
            continue
        texts = as_text(column).tolist()
        numbers = {text: None if text is None else parse_number(text) for text in set(texts)}
        values[:, position] = [np.nan if numbers[text] is None else numbers[text] for text in texts]
        is_wrong = np.array([text is not None and numbers[text] is None for text in texts], dtype=bool)
        if is_wrong.any():
            not_numbers[position] = is_wrong
    is_large = np.abs(values) > MAX_CELL_VALUE
    values[is_large] = np.copysign(np.inf, values[is_large])
    return values, not_numbers


@find_missing.register
def _find_missing(column: np.ndarray) -> NDArray[np.bool_]:
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind in "mM":
        return np.isnat(column)
    if column.dtype != object:
        return np.zeros(len(column), dtype=bool)
    return np.array([value is None for value in column.tolist()], dtype=bool)


@count_missing.register
def _count_missing(frame: ArrayFrame) -> NDArray[np.intp]:
    return np.array([find_missing(column).sum() for column in frame.data.values()], dtype=np.intp)


@list_distinct.register
def _list_distinct(text: np.ndarray) -> list[str]:
    return [value for value in dict.fromkeys(text.tolist()) if value is not None]


@list_levels.register
def _list_levels(column: np.ndarray, *, as_codes: bool) -> list[str]:
    return list_distinct(as_levels(column) if as_codes else as_text(column))


@list_marks.register
def _list_marks(column: np.ndarray, rows: NDArray[np.bool_]) -> list[str]:
    return list_distinct(column[rows]) if column.dtype == object else []


@rank_text.register
def _rank_text(text: np.ndarray) -> tuple[list[str], NDArray[np.intp]]:
    names = sorted(list_distinct(text))
    ranks: dict[Any, int] = {name: rank for rank, name in enumerate(names, start=1)}
    return names, np.array([ranks.get(value, 0) for value in text.tolist()], dtype=np.intp)


@longest_text.register
def _longest_text(text: np.ndarray) -> int:
    return max((len(value) for value in text.tolist() if value is not None), default=0)


@hash_text.register
def _hash_text(text: np.ndarray) -> NDArray[np.uint64]:
    return np.array([hash(value) & (2**64 - 1) for value in text.tolist()], dtype=np.uint64)


@as_floats.register
def _as_floats(column: np.ndarray) -> NDArray[np.float64]:
    return np.asarray(column, dtype=np.float64)
