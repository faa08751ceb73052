"""Encoding of one row without a DataFrame, so that a service answers within milliseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..linalg import Array
from ..tables import Schema


def encode_row(schema: Schema, row: Mapping[str, Any]) -> Array | None:
    """Encode one row as `Schema.encode` does; None if a value needs more than a lookup, such as a date or a new level.

    Numbers stay as they are, missing values are None or NaN, and a level becomes its index among the levels of
    training. Anything else, a missing column included, is left to `Schema.encode` and its error messages.
    """
    encoded = np.empty((1, len(schema.columns)))
    for position, column in enumerate(schema.columns):
        if column.name not in row:
            return None
        value = row[column.name]
        if value is None:
            encoded[0, position] = np.nan
        elif column.kind == "numeric" and type(value) in (int, float) and not math.isinf(value):
            encoded[0, position] = value
        elif column.kind == "categorical" and type(value) is str and value in column.levels:
            encoded[0, position] = column.levels.index(value)
        else:
            return None
    return encoded
