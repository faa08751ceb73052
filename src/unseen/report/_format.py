"""Numbers and settings as a reader wants to see them. None and values that are not finite become a dash."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

MISSING_TEXT = "–"  # noqa: RUF001 (an en dash, as tables print it)
MINUS = "\u2212"  # as wide as a plus sign, and read aloud as "minus"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether the value can be placed on a scale."""
    return value is not None and not isinstance(value, str) and math.isfinite(value)


def format_number(value: Any, digits: int = 1) -> str:
    """A fixed number of decimals."""
    if not is_number(value):
        return MISSING_TEXT
    rounded = round(float(value), digits) + 0.0  # adding zero turns -0.0 into 0.0
    return f"{rounded:,.{digits}f}".replace("-", MINUS)


def format_signed(value: Any, digits: int = 1) -> str:
    """A difference: with its sign, unless it rounds to zero."""
    text = format_number(value, digits)
    return f"+{text}" if is_number(value) and round(float(value), digits) > 0 else text


def format_value(value: Any) -> str:
    """A number of unknown size, to four digits; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return MISSING_TEXT if value is None else str(value)
    if isinstance(value, float) and not is_number(value):
        return MISSING_TEXT
    return (f"{value:,}" if isinstance(value, int) else f"{value:.4g}").replace("-", MINUS)


def format_percent(share: float) -> str:
    """A share from 0 to 1, in per cent."""
    if 0 < share < 0.0005:
        return "less than 0.1%"
    return f"{100 * share:.0f}%" if share >= 0.0995 or share == 0 else f"{100 * share:.1f}%"


def format_p_value(value: Any) -> str:
    """Three decimals, and never zero: no permutation test can say that."""
    if not is_number(value):
        return MISSING_TEXT
    return "< 0.001" if value < 0.0005 else f"{value:.3f}"


def format_duration(seconds: Any) -> str:
    """Seconds below a minute, minutes below an hour, then hours."""
    if not is_number(seconds):
        return MISSING_TEXT
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def rank_methods(methods: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Methods of a comparison: the automatic one, then the best first; those that failed come last."""
    return sorted(methods, key=lambda m: (m["kind"] != "auto", math.inf if m["mean"] is None else -m["mean"]))


def format_settings(settings: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Names of settings and their values as they could be typed."""
    found = (settings or {}).items()
    return [(str(name), f"{value:g}" if isinstance(value, float) else str(value)) for name, value in found]


MAX_LISTED_COLUMNS = 100  # columns of one use; more of them than this are listed in one line


def describe_columns(uses: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The columns of a table, each with its use and, if it was left out, why: those of a long list in one line."""
    told: dict[str, list[str]] = {}
    for use in uses:
        levels = f" with {use['levels']:,} level{'' if use['levels'] == 1 else 's'}" if use["levels"] else ""
        told.setdefault(f"{use['use']}{levels}{': ' + use['why'] if use['why'] else ''}", []).append(use["column"])
    lines = []
    for text, names in told.items():
        many = len(names) > MAX_LISTED_COLUMNS
        lines += [(f"{names[0]} to {names[-1]}, {len(names):,} columns", text)] if many else [(n, text) for n in names]
    return lines


FILTERS = {
    filter.__name__: filter
    for filter in (
        format_number,
        format_signed,
        format_value,
        format_p_value,
        format_duration,
        format_settings,
        describe_columns,
    )
}
