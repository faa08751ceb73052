"""Heat map of the shift of columns, drawn by matplotlib from plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._figures import MAX_CELLS_WITH_NUMBERS, import_pyplot

COLUMNS_SHOWN = 40  # those that shift most; more rows are not legible on a page
LEAST_SCALE = 0.5  # standard deviations at the ends of the colors, so that small differences do not look large
MOST_SCALE = 3.0  # beyond, all differences have the same color, so that one broken column does not hide the others
LONGEST_NAME = 24


def draw_column_shift(data: dict[str, Any], figure: Any = None) -> Any:
    """Draw columns by domains: standardized differences within classes.

    Parameters
    ----------
    data : dict
        What ``ColumnDiagnosis.heat_map()`` returns.
    figure : matplotlib Figure or SubFigure, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    figure : matplotlib Figure or SubFigure
        With the heat map and its color bar.
    """
    columns = [shorten_name(name) for name in data["columns"][:COLUMNS_SHOWN]]
    domains = [shorten_name(name) for name in data["domains"]]
    values = np.array(data["differences"][:COLUMNS_SHOWN], dtype=float).reshape(len(columns), len(domains))
    size = (3.2 + 0.55 * len(domains), 1.8 + 0.3 * len(columns))
    figure = figure or import_pyplot().figure(figsize=size, layout="constrained")
    ax = figure.subplots()
    known = np.abs(values[np.isfinite(values)])
    limit = float(np.clip(known.max(initial=0.0), LEAST_SCALE, MOST_SCALE))
    # Differences have a sign: a diverging map, whose middle is white, that color-blind readers can read.
    colors = import_pyplot().get_cmap("PuOr").with_extremes(bad="0.9")
    image = ax.imshow(values, cmap=colors, aspect="auto", vmin=-limit, vmax=limit)
    ax.set_xticks(range(len(domains)), domains, parse_math=False)
    if max(map(len, domains)) > 6:
        for label in ax.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(columns)), columns, parse_math=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if values.size <= MAX_CELLS_WITH_NUMBERS:
        for (row, column), value in np.ndenumerate(values):
            text = f"{value:.1f}" if np.isfinite(value) else "none"
            color = "white" if np.isfinite(value) and abs(value) > 0.7 * limit else "black"
            ax.text(column, row, text, ha="center", va="center", fontsize="small", color=color)
    rest = len(data["columns"]) - len(columns)
    more = f"; {rest} columns that shift less are not shown" if rest > 0 else ""
    ax.set_title(f"Shift within classes, by column and domain{more}", fontsize="medium", wrap=True)
    bar = figure.colorbar(image, ax=ax, pad=0.02, extend="both" if known.max(initial=0.0) > limit else "neither")
    bar.set_label("difference from the other domains, standard deviations", fontsize="small")
    bar.outline.set_visible(False)
    return figure


def shorten_name(name: str) -> str:
    """Cut a long name of a column, for the axis of a figure."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."
