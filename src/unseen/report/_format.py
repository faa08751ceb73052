"""Numbers and settings as text. None and values that are not finite become a dash."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from ..utils.jobs import format_duration

MISSING_TEXT = "–"  # noqa: RUF001 (an en dash, as tables print it)
MINUS = "\u2212"  # as wide as a plus sign, and screen readers pronounce it "minus"
NO_SCORE = {"mean": None, "sd": None}
SCORE_DIGITS = 3  # of fractions; percentages are shown with one digit
MAX_LISTED_COLUMNS = 100  # columns with the same use; more are summarized in one line


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether the value is a finite number."""
    return value is not None and not isinstance(value, str) and math.isfinite(value)


def format_number(value: Any, digits: int = 1) -> str:
    """Format a number with a fixed number of decimals."""
    if not is_number(value):
        return MISSING_TEXT
    rounded = round(float(value), digits) + 0.0  # adding zero turns -0.0 into 0.0
    return f"{rounded:,.{digits}f}".replace("-", MINUS)


def format_signed(value: Any, digits: int = 1) -> str:
    """Format a difference: with its sign, unless it rounds to zero."""
    text = format_number(value, digits)
    if is_number(value) and round(float(value), digits) > 0:
        return f"+{text}"
    return text


def format_score(value: Any, is_percentage: bool, *, signed: bool = False) -> str:
    """Format a score, or a difference of scores, in percent with one decimal, or as it is with three."""
    if is_percentage and is_number(value):
        value = 100 * value
    return (format_signed if signed else format_number)(value, 1 if is_percentage else 3)


def format_interval(low: Any, high: Any, digits: int = 2) -> str:
    """Format an interval; a dash if both ends are missing."""
    if not is_number(low) and not is_number(high):
        return MISSING_TEXT
    return f"{format_number(low, digits)} to {format_number(high, digits)}"


def format_value(value: Any) -> str:
    """Format a number of unknown magnitude with four digits; return any other value as text."""
    if isinstance(value, bool | str):
        return str(value)
    if not is_number(value):
        return MISSING_TEXT
    text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return text.replace("-", MINUS)


def format_percent(share: float) -> str:
    """Format a share from 0 to 1 in percent."""
    if 0 < share < 0.0005:
        return "less than 0.1%"
    if share >= 0.0995 or share == 0:
        return f"{100 * share:.0f}%"
    return f"{100 * share:.1f}%"


def format_p_value(value: Any) -> str:
    """Format a p-value with three decimals, but never as zero, which a permutation test cannot yield."""
    if not is_number(value):
        return MISSING_TEXT
    return "< 0.001" if value < 0.0005 else f"{value:.3f}"


def format_settings(settings: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the names of settings with their values as they are typed in Python."""
    return [
        (str(name), f"{value:g}" if isinstance(value, float) else str(value))
        for name, value in (settings or {}).items()
    ]


def arrange_scores(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sort the methods of a comparison, and add their `cells`: the mean score and that of each domain.

    Automatic methods come first, the others by mean score, and those that failed last. The best score of each column is
    marked: ties at the displayed precision are all best, and references do not compete.
    """

    def rank(method: Mapping[str, Any]) -> float:
        if method["kind"] == "auto":
            return -math.inf
        return math.inf if method["mean"] is None else -method["mean"]

    methods = sorted(summary["methods"], key=rank)
    columns = []
    for name in (None, *summary["domains"]):
        scores = [method if name is None else method["accuracies"][name] or NO_SCORE for method in methods]
        shown = [
            round(score["mean"], SCORE_DIGITS) if method["kind"] != "reference" and is_number(score["mean"]) else None
            for method, score in zip(methods, scores, strict=True)
        ]
        best = max(filter(is_number, shown), default=math.inf)
        columns.append(
            [{**score, "best": mean == best} for score, mean in zip(scores, shown, strict=True)],
        )
    return [{**method, "cells": cells} for method, *cells in zip(methods, *columns, strict=True)]


def describe_columns(uses: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """List the columns of a table with their use and, for a column that was left out, the reason."""
    columns_by_use: dict[str, list[str]] = {}
    for use in uses:
        text = use["use"]
        if use["levels"]:
            text += f" with {use['levels']:,} level{'' if use['levels'] == 1 else 's'}"
        if use["why"]:
            text += f": {use['why']}"
        columns_by_use.setdefault(text, []).append(use["column"])
    lines = []
    for text, names in columns_by_use.items():
        if len(names) > MAX_LISTED_COLUMNS:
            lines.append((f"{names[0]} to {names[-1]}, {len(names):,} columns", text))
        else:
            lines += [(name, text) for name in names]
    return lines


# Filters of the templates, by the names that the templates use.
FILTERS = {
    "number": format_number,
    "signed": format_signed,
    "score": format_score,
    "twice": lambda values: [value for value in values for _ in range(2)],
    "value": format_value,
    "p_value": format_p_value,
    "interval": format_interval,
    "duration": lambda seconds: format_duration(seconds) if is_number(seconds) else MISSING_TEXT,
    "settings": format_settings,
    "column_uses": describe_columns,
}
