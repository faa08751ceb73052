"""Learning curve over domains, drawn by matplotlib from plain data."""

from __future__ import annotations

from typing import Any

from ._figures import ACCENT_COLOR, DETECTED_COLOR, import_pyplot


def draw_site_curve(data: dict[str, Any], figure: Any = None) -> Any:
    """Draw the score on a new domain against the number of training domains.

    Parameters
    ----------
    data : dict
        What ``SiteLearningCurve.summary()`` returns.
    figure : matplotlib Figure or SubFigure, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    figure : matplotlib Figure or SubFigure
        Means and 95% prediction intervals, extrapolated ones with open markers.
    """
    figure = figure or import_pyplot().figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    factor = 100 if data["is_percent"] else 1
    extrapolated = [data["points"][-1], *data["extrapolated"]]
    for points, color, face_color, line_style, label in (
        (data["points"], DETECTED_COLOR, DETECTED_COLOR, "-", "evaluated"),
        (extrapolated, ACCENT_COLOR, "white", "--", "power law"),
    ):
        sizes = [point["n_domains"] for point in points]
        means = [factor * point["mean"] for point in points]
        ax.plot(sizes, means, line_style, color=color, marker="o", mfc=face_color, label=label)
        lower = [factor * point["lower"] for point in points]
        upper = [factor * point["upper"] for point in points]
        ax.fill_between(sizes, lower, upper, color=color, alpha=0.15, lw=0)
    ax.set_xlabel("training domains")
    unit = " (%)" if data["is_percent"] else ""
    ax.set_ylabel(f"{data['metric']} on a new domain{unit}")
    ax.set_title("Mean and 95% prediction interval for a new domain", fontsize="medium")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="lower right")
    return figure
