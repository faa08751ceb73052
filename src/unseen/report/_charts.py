"""Positions along an axis, paths of curves and shades of a heat map, which the templates ask for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._format import is_number

N_SHADES = 10  # report.css defines one color for each
ROUND_RATIOS = (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 5, 10)


@dataclass(frozen=True)
class Axis:
    """An axis, measured in percent of its length; on a logarithmic one, `low` and `high` are logarithms."""

    low: float
    high: float
    is_log: bool = False

    @classmethod
    def from_values(cls, values: Iterable[Any]) -> Axis:
        """Make an axis that contains all values, with a margin on both sides."""
        numbers = list(filter(is_number, values)) or [0.0]
        margin = 0.08 * (max(numbers) - min(numbers)) or 1.0
        return cls(min(numbers) - margin, max(numbers) + margin)

    def position(self, value: Any) -> float | None:
        """Return the position of a value in percent, or None for a missing value."""
        if not is_number(value) or (self.is_log and value <= 0):
            return None
        value = math.log(value) if self.is_log else value
        return round(100 * (value - self.low) / (self.high - self.low), 3)

    def end(self, value: Any, otherwise: float) -> float:
        """Return the position of the end of an interval, within the axis; `otherwise` for an infinite one."""
        position = self.position(value)
        return otherwise if position is None else min(max(position, 0.0), 100.0)

    def contains(self, value: Any) -> bool:
        """Whether a value lies on the axis."""
        position = self.position(value)
        return position is not None and 0 <= position <= 100

    def ticks(self, n_ticks: int = 6) -> list[tuple[float, float | None]]:
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
        return [(value, self.position(value)) for value in values]


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


def shade(value: Any, low: float, high: float) -> str:
    """Return the class of a cell whose color shows the value between `low` and `high`; none for a missing value."""
    if not is_number(value):
        return ""
    level = int((value - low) / (high - low or 1.0) * N_SHADES)
    return f" h{min(max(level, 0), N_SHADES - 1)}"


def largest_entry(rows: Iterable[Iterable[Any]], least: float) -> float:
    """Return the largest size among the entries that are numbers, and at least `least`."""
    return max([least, *(abs(value) for row in rows for value in row if is_number(value))])
