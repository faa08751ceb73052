"""Parameters that follow the data: "scale", "median", and multiples of them such as "0.1*median"."""

from __future__ import annotations

import math


def is_multiple(value: object, unit: str) -> bool:
    """Whether a parameter is the unit or a multiple of it, rather than a number."""
    return isinstance(value, str) and value.strip().endswith(unit)


def factor(value: str, unit: str, parameter: str) -> float:
    """Return the factor of a multiple: 1 for "scale", 0.1 for "0.1*scale"."""
    number, star, name = value.rpartition("*")
    try:
        result = float(number) if star else 1.0
    except ValueError:
        result = math.nan
    if name.strip() != unit or not 0 < result < math.inf:
        raise ValueError(
            f'{parameter} must be a number, "{unit}" or a positive multiple such as "0.1*{unit}"; got {value!r}.'
        )
    return result
