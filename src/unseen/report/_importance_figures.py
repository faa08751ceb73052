"""Importance of columns, drawn by matplotlib from plain data."""

from __future__ import annotations

from typing import Any

from ._column_figures import shorten_name
from ._figures import ACCENT_COLOR, DETECTED_COLOR, import_pyplot

COLUMNS_SHOWN = 30


def draw_importance(data: dict[str, Any], figure: Any = None) -> Any:
    """Draw the mean importance of each column as a bar, with its interval and a dot for each domain.

    Parameters
    ----------
    data : dict
        What ``Importance.summary()`` returns.
    figure : matplotlib Figure or SubFigure, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    figure : matplotlib Figure or SubFigure
        The figure.
    """
    shown = data["columns"][:COLUMNS_SHOWN]
    figure = figure or import_pyplot().figure(figsize=(6.4, 1.4 + 0.3 * len(shown)), layout="constrained")
    ax = figure.subplots()
    factor = 100 if data["is_percent"] else 1
    for position, entry in enumerate(shown):
        ax.barh(position, factor * entry["mean"], color=DETECTED_COLOR, alpha=0.35)
        losses = [factor * loss for loss in entry["by_domain"].values() if loss is not None]
        ax.plot(losses, [position] * len(losses), "o", ms=4, color=ACCENT_COLOR, alpha=0.7)
        if entry["lower"] is not None:
            ax.plot([factor * entry["lower"], factor * entry["upper"]], [position, position], color="black", lw=1.2)
    ax.axvline(0, color="0.6", lw=0.8)
    ax.set_yticks(range(len(shown)), [shorten_name(entry["column"]) for entry in shown], parse_math=False)
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    unit = ", percentage points" if data["is_percent"] else ""
    ax.set_xlabel(
        f"loss of {data['metric']} if the column is permuted{unit}\n(bar: mean; line: 95% interval; dots: domains)"
    )
    return figure
