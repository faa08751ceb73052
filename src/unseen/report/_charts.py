"""Where things go in a picture: positions along an axis, shades of a heat map, points of a scatter plot."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._format import is_number

N_SHADES = 10  # report.css has as many colors
CANVAS_SIDE = 1000  # points are sent as whole numbers on a square of this size: smaller, and finer than a screen


@dataclass(frozen=True)
class Axis:
    """A horizontal axis from `low` to `high`, measured in percent of its width."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[Any], zero: bool = True) -> Axis:
        """Room for all values, and for zero if it matters, with a margin on both sides."""
        known = [float(value) for value in values if is_number(value)]
        known += [0.0] if zero or not known else []
        low, high = min(known), max(known)
        margin = 0.08 * (high - low) or 1.0
        return cls(low - margin, high + margin)

    def at(self, value: Any) -> float | None:
        """Position of a value."""
        return round(100 * (value - self.low) / (self.high - self.low), 3) if is_number(value) else None

    def ticks(self, about: int = 6) -> list[tuple[float, float]]:
        """Round values and their positions, zero among them if it is on the axis."""
        rough = (self.high - self.low) / about
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        values = [float(f"{i * step:.10g}") for i in range(first, last + 1)]
        return [(value, self.at(value) or 0.0) for value in values]


def compute_shades(
    rows: Sequence[Sequence[Any]], *, low: float | None = None, high: float | None = None
) -> list[list[Any]]:
    """The shade of each entry, 0 to SHADES - 1 between the smallest and the largest; None where there is no number."""
    known = [float(value) for row in rows for value in row if is_number(value)]
    bottom = low if low is not None else min(known, default=0.0)
    width = (high if high is not None else max(known, default=1.0)) - bottom or 1.0
    return [
        [min(max(int((v - bottom) / width * N_SHADES), 0), N_SHADES - 1) if is_number(v) else None for v in row]
        for row in rows
    ]


def count_decimals(rows: Sequence[Sequence[Any]], digits: int = 3) -> int:
    """How many decimals show the largest entry with so many digits."""
    largest = max((abs(value) for row in rows for value in row if is_number(value)), default=0.0)
    return min(max(digits - 1 - math.floor(math.log10(largest)), 0), 6) if largest > 0 else digits - 1


def scale_to_canvas(points: Sequence[Sequence[Any]]) -> list[list[int] | None]:
    """Points scaled to fill the canvas, each axis on its own; None for a point without a place."""
    known = [point for point in points if all(map(is_number, point))]
    spans = [(min(values), max(values) - min(values)) for values in zip(*known, strict=True)]

    def place(value: float, low: float, width: float) -> int:
        return round(CANVAS_SIDE * (value - low) / width) if width > 0 else CANVAS_SIDE // 2

    return [
        [place(value, *span) for value, span in zip(point, spans, strict=True)] if all(map(is_number, point)) else None
        for point in points
    ]
