"""Positions along an axis, paths of curves, shades of a heat map and points of a scatter plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._format import is_number

N_SHADES = 10  # report.css defines one color for each
CANVAS_SIDE = 1000  # points are sent as integers on a square of this size, which is finer than a screen
ROUND_RATIOS = (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 5, 10)


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, measured in percent of its length; `is_log` is that of ratios."""

    low: float
    high: float
    is_log: bool = False

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
        if not is_number(value) or (self.is_log and value <= 0):
            return None
        low, high, value = map(math.log, (self.low, self.high, value)) if self.is_log else (self.low, self.high, value)
        return round(100 * (value - low) / (high - low), 3)

    def end(self, value: Any, otherwise: float) -> float:
        """Return the position of the end of an interval, within the axis; `otherwise` for an infinite one."""
        position = self.position(value)
        return otherwise if position is None else min(max(position, 0.0), 100.0)

    def contains(self, value: Any) -> bool:
        """Whether a value lies on the axis."""
        return is_number(value) and self.low <= value <= self.high

    def ticks(self, n_ticks: int = 6) -> list[tuple[float, float]]:
        """Return about `n_ticks` round values with their positions; zero, or the ratio 1, is one of them."""
        if self.is_log:
            ratios = [ratio for ratio in ROUND_RATIOS if self.contains(ratio)]
            step = max(1, math.ceil(len(ratios) / n_ticks))
            first = ratios.index(1) % step if 1 in ratios else 0
            values = ratios[first::step]
        else:
            rough_step = (self.high - self.low) / n_ticks
            magnitude = 10.0 ** math.floor(math.log10(rough_step))
            size = next(magnitude * factor for factor in (1, 2, 5, 10) if magnitude * factor >= rough_step)
            multiples = range(math.ceil(self.low / size), math.floor(self.high / size) + 1)
            values = [float(f"{i * size:.10g}") for i in multiples]
        return [(value, self.position(value) or 0.0) for value in values]


@dataclass(frozen=True)
class Panel:
    """A plot with two axes; points are in percent of its size, from the upper left corner."""

    x: Axis
    y: Axis

    def line(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        """Return a path through points; it is interrupted where points lie outside of the panel."""
        parts = []
        command = "M"
        for x, y in zip(xs, ys, strict=True):
            is_inside = self.x.contains(x) and self.y.contains(y)
            if is_inside:
                parts.append(f"{command}{self._point(x, y)}")
            command = "L" if is_inside else "M"
        return "".join(parts)

    def area(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
        """Return a closed path between two curves."""
        points = [*zip(xs, high, strict=True), *zip(reversed(xs), reversed(low), strict=True)]
        inside = [self._point(x, y) for x, y in points if is_number(y) and self.x.contains(x)]
        return f"M{'L'.join(inside)}Z"

    def _point(self, x: float, y: float) -> str:
        return f"{self.x.end(x, 0.0):g},{100 - self.y.end(y, 0.0):g}"


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


def shade_cells(
    rows: Sequence[Sequence[Any]], *, high: float, size: Callable[[float], float] = float
) -> list[list[dict[str, Any]]]:
    """Return each entry with the shade of its size between zero and `high`."""
    sizes = [[size(value) if is_number(value) else None for value in row] for row in rows]
    return [
        [{"value": value, "shade": shade} for value, shade in zip(row, row_shades, strict=True)]
        for row, row_shades in zip(rows, compute_shades(sizes, low=0.0, high=high), strict=True)
    ]


def largest_entry(rows: Iterable[Iterable[Any]], default: float) -> float:
    """Return the largest size among the entries that are numbers."""
    return max((abs(value) for row in rows for value in row if is_number(value)), default=default)


def scale_to_canvas(points: Sequence[Sequence[Any]]) -> list[list[int] | None]:
    """Scale points to fill the canvas, each axis separately; a point with a missing coordinate becomes None."""
    complete = [point for point in points if all(map(is_number, point))]
    axes = [(min(values), max(values) - min(values)) for values in zip(*complete, strict=True)]

    def scale(value: float, low: float, width: float) -> int:
        return round(CANVAS_SIDE * (value - low) / width) if width > 0 else CANVAS_SIDE // 2

    return [
        [scale(value, *axis) for value, axis in zip(point, axes, strict=True)] if all(map(is_number, point)) else None
        for point in points
    ]
