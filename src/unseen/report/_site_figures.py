"""The figure of an adaptation plan."""

from __future__ import annotations

from typing import Any

from ._figures import ACCENT_COLOR, DETECTED_COLOR, import_pyplot

PANELS = (("accuracy", "gain in accuracy, points", 100.0), ("log_loss", "decrease of log loss", 1.0))
COLORS = (DETECTED_COLOR, ACCENT_COLOR, "#009E73", "#CC79A7")  # from Okabe and Ito's palette
MARKERS = ("o", "s", "^", "D")


def draw_adaptation_plan(summary: dict[str, Any], figure: Any = None) -> Any:
    """Draw the expected gain of each level of adaptation against the number of labels.

    The band is the 90% prediction interval of the first level, class offsets and temperature.
    """
    if figure is None:
        figure = import_pyplot().figure(figsize=(9.5, 4.6), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, (metric, title, factor) in zip(axes, PANELS, strict=True):
        low = 0.0
        high = 0.0
        for i, curve in enumerate(summary["curves"]):
            points = [point for point in curve["points"] if point[metric] is not None]
            labels = [point["labels"] for point in points]
            means = [factor * point[metric]["mean"] for point in points]
            ax.plot(labels, means, marker=MARKERS[i % 4], markersize=4, color=COLORS[i % 4], label=curve["name"])
            if i == 0 and points:
                lows = [factor * point[metric]["low"] for point in points]
                highs = [factor * point[metric]["high"] for point in points]
                name = f"90% prediction interval of {curve['name']}"
                ax.fill_between(labels, lows, highs, color=COLORS[0], alpha=0.15, linewidth=0, label=name)
                low = min(lows)
                high = max(highs)
        ax.axhline(0, color="0.4", linewidth=0.8)
        margin = 0.05 * (high - low) or 1.0
        ax.set_ylim(low - margin, high + margin)  # a local model with few labels may lie far below
        ax.set_xscale("log")
        sizes = [point["labels"] for point in summary["curves"][0]["points"]] if summary["curves"] else []
        ax.set_xticks(sizes, [str(n) for n in sizes])
        ax.minorticks_off()
        ax.set_xlabel("labels from the new domain")
        ax.set_title(title, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize="small", loc="outside lower center", ncols=2)
    return figure
