"""Positions along an axis, shades of a heat map and points of a scatter plot."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._format import is_number

N_SHADES = 10  # report.css defines one color for each
CANVAS_SIDE = 1000  # points are sent as integers on a square of this size, which is finer than a screen


@dataclass(frozen=True)
class Axis:
    """A horizontal axis from `low` to `high`, measured in percent of its width."""

    low: float
    high: float

    @classmethod
    def from_values(cls, values: Iterable[Any], *, include_zero: bool = True) -> Axis:
        """Make an axis that contains all values, and zero if requested, with a margin on both sides."""
        numbers = [float(value) for value in values if is_number(value)]
        if include_zero or not numbers:
            numbers.append(0.0)
        low = min(numbers)
        high = max(numbers)
        margin = 0.08 * (high - low) or 1.0
        return cls(low - margin, high + margin)

    def position(self, value: Any) -> float | None:
        """Return the position of a value in percent, or None for a missing value."""
        if not is_number(value):
            return None
        return round(100 * (value - self.low) / (self.high - self.low), 3)

    def ticks(self, n_ticks: int = 6) -> list[tuple[float, float]]:
        """Return about `n_ticks` round values with their positions; zero is one of them if the axis contains it."""
        rough_step = (self.high - self.low) / n_ticks
        magnitude = 10.0 ** math.floor(math.log10(rough_step))
        step = next(magnitude * factor for factor in (1, 2, 5, 10) if magnitude * factor >= rough_step)
        first = math.ceil(self.low / step)
        last = math.floor(self.high / step)
        values = [float(f"{i * step:.10g}") for i in range(first, last + 1)]
        return [(value, self.position(value) or 0.0) for value in values]


def compute_shades(
    rows: Sequence[Sequence[Any]], *, low: float | None = None, high: float | None = None
) -> list[list[int | None]]:
    """Map each entry to a shade from 0 to N_SHADES - 1; missing entries to None.

    The shades are spread from `low` to `high`, by default from the smallest to the largest entry.
    """
    numbers = [float(value) for row in rows for value in row if is_number(value)]
    if low is None:
        low = min(numbers, default=0.0)
    if high is None:
        high = max(numbers, default=1.0)
    width = high - low or 1.0

    def shade(value: Any) -> int | None:
        if not is_number(value):
            return None
        return min(max(int((value - low) / width * N_SHADES), 0), N_SHADES - 1)

    return [[shade(value) for value in row] for row in rows]


def count_decimals(rows: Sequence[Sequence[Any]], n_digits: int = 3) -> int:
    """Return the number of decimals that shows the largest entry with `n_digits` significant digits."""
    largest = max((abs(value) for row in rows for value in row if is_number(value)), default=0.0)
    if largest == 0:
        return n_digits - 1
    return min(max(n_digits - 1 - math.floor(math.log10(largest)), 0), 6)


def scale_to_canvas(points: Sequence[Sequence[Any]]) -> list[list[int] | None]:
    """Scale points to fill the canvas, each axis separately; a point with a missing coordinate becomes None."""
    complete = [point for point in points if all(map(is_number, point))]
    ranges = [(min(values), max(values) - min(values)) for values in zip(*complete, strict=True)]

    def scale(value: float, low: float, width: float) -> int:
        return round(CANVAS_SIDE * (value - low) / width) if width > 0 else CANVAS_SIDE // 2

    scaled: list[list[int] | None] = []
    for point in points:
        if all(map(is_number, point)):
            scaled.append([scale(value, low, width) for value, (low, width) in zip(point, ranges, strict=True)])
        else:
            scaled.append(None)
    return scaled
