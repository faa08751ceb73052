"""Figures made from summaries with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..utils.optional_imports import optional_import
from ._format import arrange_scores, format_percent
from ._sections import prepare_key_figures, prepare_summary

ACCENT_COLOR = "#D55E00"  # from Okabe and Ito's palette, which color-blind readers can distinguish
DETECTED_COLOR = "#0072B2"  # from the same palette; bars of detected shifts are also filled
LEVEL_COLORS = (DETECTED_COLOR, ACCENT_COLOR, "#009E73", "#CC79A7")  # from the same palette
LEVEL_MARKERS = ("o", "s", "^", "D")
MAX_CELLS_WITH_NUMBERS = 100  # in one panel; more numbers would not be legible
MAX_SHOWN_CLASSES = 12
LONGEST_NAME = 24
MIN_COLOR_RANGE = 0.25  # distances near zero must not look large


def import_pyplot() -> Any:
    """Import matplotlib's pyplot, or raise an error that names the extra to install."""
    return optional_import("matplotlib.pyplot", "Drawing")


def draw_heat_map(
    ax: Any,
    values: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    colors: str = "cividis",
    vmin: float | None = None,
    vmax: float | None = None,
) -> Any:
    """Draw a matrix in colors from `vmin` to `vmax`, NaN in gray, with names along both axes."""
    colors = import_pyplot().get_cmap(colors).with_extremes(bad="0.9")
    image = ax.imshow(values, cmap=colors, aspect="auto", vmin=vmin, vmax=vmax)
    # A name may contain dollar signs, which are not mathematics.
    if max(map(len, columns)) > 6:
        ax.set_xticks(range(len(columns)), columns, parse_math=False, rotation=30, ha="right", rotation_mode="anchor")
    else:
        ax.set_xticks(range(len(columns)), columns, parse_math=False)
    ax.set_yticks(range(len(rows)), rows, parse_math=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return image


def write_cells(image: Any, texts: Sequence[Sequence[str]]) -> None:
    """Write texts into the cells of a heat map, in black or white, whichever is legible."""
    brightness = image.to_rgba(image.get_array())[..., :3] @ (0.299, 0.587, 0.114)
    for (i, j), value in np.ndenumerate(brightness):
        color = "white" if value < 0.5 else "black"
        image.axes.text(j, i, texts[i][j], ha="center", va="center", fontsize="small", color=color)


def _number_texts(values: Any, digits: int) -> list[list[str]]:
    return [[f"{value:.{digits}f}" if np.isfinite(value) else "none" for value in row] for row in values]


def draw_comparison(summary: dict[str, Any], figure: Any = None) -> Any:
    """Draw the scores of methods by held-out domains, below the verdict."""
    methods = arrange_scores(summary)
    domains = summary["domains"]
    verdict = summary["verdict"]
    is_percentage = verdict.get("share", True)
    if figure is None:
        size = (3.5 + 0.9 * len(domains), 1.8 + 0.32 * len(methods))
        figure = import_pyplot().figure(figsize=size, layout="constrained")
    ax = figure.subplots()
    factor = 100 if is_percentage else 1
    cells = [cell for method in methods for cell in method["cells"][1:]]
    values = factor * np.array([cell["mean"] for cell in cells], float).reshape(len(methods), len(domains))
    names = [method["name"] + ("*" if method["transductive"] else "") for method in methods]
    image = draw_heat_map(ax, values, names, domains)
    write_cells(image, _number_texts(values, 1 if is_percentage else 3))
    for text, cell in zip(ax.texts, cells, strict=True):
        text.set_weight("bold" if cell["best"] else "normal")
    metric = str(verdict.get("metric", "accuracy")).replace("_", " ")
    ax.set_title(f"{metric} on the held-out domain{', %' if is_percentage else ''}", fontsize="medium")
    if any(method["transductive"] for method in methods):
        ax.set_xlabel("* transductive: uses unlabeled samples of that domain", fontsize="small")
    figure.colorbar(image, ax=ax, pad=0.01).outline.set_visible(False)
    figure.suptitle(verdict["headline"], fontsize="medium", wrap=True)
    return figure


def draw_diagnosis(summary: dict[str, Any], figure: Any = None) -> Any:
    """Draw the distances of P(X), those of P(X|Y), and the effects with their p-values."""
    # The classes with the largest shifts.
    classes = sorted(summary["classes_tests"], key=lambda test: -(test["effect"] or 0.0))[:MAX_SHOWN_CLASSES]
    names = [shorten_name(name) for name in summary["domains"]]
    if figure is None:
        size = (13, max(3.6, 1.6 + 0.3 * max(len(summary["tests"]) + len(classes), len(names))))
        figure = import_pyplot().figure(figsize=size, layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1.15])
    distances = {kind: np.array(values, dtype=float) for kind, values in summary["distances"].items()}
    largest = max(MIN_COLOR_RANGE, *(np.nanmax(values, initial=0.0) for values in distances.values()))
    diagonal = np.eye(len(names), dtype=bool)
    for ax, kind, title in ((left, "marginal", "P(X)"), (middle, "conditional", "P(X|Y), over shared classes")):
        image = draw_heat_map(ax, np.where(diagonal, np.nan, distances[kind]), names, names, vmin=0, vmax=largest)
        ax.set_aspect("equal")
        ax.set_title(f"Distances of {title}", fontsize="medium")
        if diagonal.size <= MAX_CELLS_WITH_NUMBERS:
            write_cells(image, np.where(diagonal, "", _number_texts(distances[kind], 2)).tolist())
    middle.set_yticklabels([])
    color_bar = figure.colorbar(image, ax=[left, middle], shrink=0.8, label="distance (0: equal distributions)")
    color_bar.outline.set_visible(False)
    _draw_effects(right, summary, classes)
    right.set_title(f"Size of shifts (filled: detected at level {summary['alpha']:g})", fontsize="medium")
    return figure


def _draw_effects(ax: Any, summary: dict[str, Any], classes: Sequence[dict[str, Any]]) -> None:
    """Draw a bar for each test, and below them one for each of the classes."""
    names = [test["name"] for test in summary["tests"]]
    names += [f"P(X|Y = {shorten_name(test['class'])})" for test in classes]
    tests = [*summary["tests"], *classes]
    effects = [test["effect"] or 0.0 for test in tests]
    longest = max(1.0, 100 * max(effects))
    for level, (test, effect) in enumerate(zip(tests, effects, strict=True)):
        p_value = test.get("p_adjusted", test["p_value"])
        size = f"{100 * effect:.0f} points" if test.get("key") == "label" else format_percent(effect)
        text = "not testable" if p_value is None else f"{size}, p = {p_value:.2g}"
        fill = DETECTED_COLOR if test["flagged"] else "white"
        ax.barh(level, 100 * effect, height=0.6, color=fill, edgecolor=DETECTED_COLOR)
        ax.text(100 * effect + 0.02 * longest, level, text, va="center", fontsize="small")
    n_hidden = len(summary["classes_tests"]) - len(classes)
    if n_hidden:
        names.append(f"... {n_hidden} classes with smaller shifts")
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0, 1.6 * longest)
    ax.set_xticks([tick for tick in ax.get_xticks() if tick <= longest])
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_xlabel(
        "% of the kernel variance that domains explain\n(P(Y): percentage points; p-values of classes are adjusted)"
    )


def shorten_name(name: str) -> str:
    """Cut a long name, for the axis of a figure."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."


def draw_validation(summary: dict[str, Any], figure: Any = None) -> Any:
    """Draw a forest plot of each key measure: the sites with their intervals, and the summary over sites."""
    rows = prepare_key_figures(prepare_summary(summary)["rows"])
    if figure is None:
        size = (1.5 + 2.4 * len(rows), 1.6 + 0.25 * len(summary["sites"]))
        figure = import_pyplot().figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, max(len(rows), 1), sharey=True, squeeze=False)[0]
    names = [*(shorten_name(site["site"]) for site in summary["sites"]), "summary"]
    for ax, row in zip(axes, rows, strict=False):
        estimates = [*((site["value"], site["low"], site["high"]) for site in row["sites"])]
        estimates.append((row["estimate"], row["low"], row["high"]))
        for level, values in enumerate(np.array(estimates, dtype=float)):
            color = ACCENT_COLOR if level == len(row["sites"]) else DETECTED_COLOR
            ax.plot(values[1:], [level, level], color=color)
            ax.plot(values[0], level, "o", color=color)
        if row["ideal"] is not None:
            ax.axvline(row["ideal"], color="0.6", linestyle="--", linewidth=0.8)
        ax.set_title(row["label"], fontsize="medium")
        ax.set_yticks(range(len(names)), names, parse_math=False)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    return figure


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
        means, lower, upper = ([factor * point[key] for point in points] for key in ("mean", "lower", "upper"))
        ax.plot(sizes, means, line_style, color=color, marker="o", mfc=face_color, label=label)
        ax.fill_between(sizes, lower, upper, color=color, alpha=0.15, lw=0)
    ax.set_xlabel("training domains")
    unit = " (%)" if data["is_percent"] else ""
    ax.set_ylabel(f"{data['metric']} on a new domain{unit}")
    ax.set_title("Mean and 95% prediction interval for a new domain", fontsize="medium")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="lower right")
    return figure


def draw_adaptation_plan(summary: dict[str, Any], figure: Any = None) -> Any:
    """Draw the expected gain of each level of adaptation against the number of labels.

    The band is the 90% prediction interval of the first level, class offsets and temperature.
    """
    figure = figure or import_pyplot().figure(figsize=(9.5, 4.6), layout="constrained")
    axes = figure.subplots(1, 2)
    panels = (("accuracy", "gain in accuracy, points", 100.0), ("log_loss", "decrease of log loss", 1.0))
    for ax, (metric, title, factor) in zip(axes, panels, strict=True):
        ends = [0.0]
        for i, curve in enumerate(summary["curves"]):
            points = [point for point in curve["points"] if point[metric] is not None]
            labels = [point["labels"] for point in points]
            means, lows, highs = ([factor * point[metric][key] for point in points] for key in ("mean", "low", "high"))
            marker, color = LEVEL_MARKERS[i % 4], LEVEL_COLORS[i % 4]
            ax.plot(labels, means, marker=marker, markersize=4, color=color, label=curve["name"])
            if i == 0:
                name = f"90% prediction interval of {curve['name']}"
                ax.fill_between(labels, lows, highs, color=color, alpha=0.15, linewidth=0, label=name)
                ends += [*lows, *highs]
        ax.axhline(0, color="0.4", linewidth=0.8)
        margin = 0.05 * (max(ends) - min(ends)) or 1.0
        ax.set_ylim(min(ends) - margin, max(ends) + margin)  # a local model with few labels may lie far below
        ax.set_xscale("log")
        sizes = [point["labels"] for curve in summary["curves"][:1] for point in curve["points"]]
        ax.set_xticks(sizes, [str(n) for n in sizes])
        ax.minorticks_off()
        ax.set_xlabel("labels from the new domain")
        ax.set_title(title, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize="small", loc="outside lower center", ncols=2)
    return figure
