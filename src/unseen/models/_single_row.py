"""Encoding of one row without a DataFrame, so that a service answers within milliseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from ..linalg import Array
from ..tables import Schema

NUMBERS = (int, float, np.float64, np.float32, np.int64, np.int32)


def encode_row(schema: Schema, row: Mapping[str, Any]) -> Array | None:
    """Encode one row as `Schema.encode` does; None if a value needs more than a lookup, such as a date or a new level.

    Numbers stay as they are, missing values are None, NaN or a number that stands for them in the schema, and a level
    becomes its index among the levels of training. Anything else, a missing column included, is left to `Schema.encode`
    and its error messages.
    """
    encoded = np.empty((1, len(schema.columns)))
    for position, column in enumerate(schema.columns):
        if column.name not in row:
            return None
        value = row[column.name]
        if value is None:
            encoded[0, position] = np.nan
        elif column.kind == "numeric" and type(value) in NUMBERS and not math.isinf(value):
            is_missing = bool(column.missing_values) and value in _parse_marks(column.missing_values)
            encoded[0, position] = np.nan if is_missing else value
        elif column.kind == "categorical" and type(value) is str and value in column.levels:
            encoded[0, position] = column.levels.index(value)
        else:
            return None
    return encoded


@lru_cache(maxsize=1000)
def _parse_marks(texts: tuple[str, ...]) -> frozenset[float]:
    """Return the numbers among values that stand for missing values."""
    numbers = set()
    for text in texts:
        with suppress(ValueError):
            numbers.add(float(text))
    return frozenset(numbers)
