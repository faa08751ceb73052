"""Figures made from summaries with matplotlib: the scores of a comparison, and the distances of a diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..utils.optional_imports import optional_import
from ._format import format_percent, rank_methods

ACCENT_COLOR = "#D55E00"  # from Okabe and Ito's palette, which color-blind readers can distinguish
DETECTED_COLOR = "#0072B2"  # from the same palette; bars of detected shifts are also filled
MAX_CELLS_WITH_NUMBERS = 100  # in one panel; more numbers would not be legible
MAX_SHOWN_CLASSES = 12
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
    vmin: float | None = None,
    vmax: float | None = None,
) -> Any:
    """Draw a matrix in colors from `vmin` to `vmax`, NaN in gray, with names along both axes."""
    colors = import_pyplot().get_cmap("cividis").with_extremes(bad="0.9")
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
    values = np.ma.filled(image.get_array(), np.nan)
    middle = np.mean(image.get_clim()) if np.isfinite(values).any() else 0.0
    for (i, j), value in np.ndenumerate(values):
        color = "white" if value < middle else "black"
        image.axes.text(j, i, texts[i][j], ha="center", va="center", fontsize="small", color=color)


def draw_comparison(summary: dict[str, Any], figure: Any = None) -> Any:
    """Draw methods by held-out domains on the left, paired differences with their intervals on the right."""
    methods = rank_methods(summary["methods"])
    domains = summary["domains"]
    verdict = summary["verdict"]
    is_percentage = verdict.get("share", True)
    if figure is None:
        size = (5.5 + 0.9 * len(domains), 1.8 + 0.32 * len(methods))
        figure = import_pyplot().figure(figsize=size, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    factor = 100 if is_percentage else 1
    cells = [[method["accuracies"][name] or {"mean": np.nan} for name in domains] for method in methods]
    values = factor * np.array([[cell["mean"] for cell in row] for row in cells], float)
    names = [method["name"] + ("*" if method["transductive"] else "") for method in methods]
    image = draw_heat_map(left, values, names, domains)
    digits = 1 if is_percentage else 3
    texts = [[f"{value:.{digits}f}" if np.isfinite(value) else "none" for value in row] for row in values]
    write_cells(image, texts)
    best = values == np.nanmax(values, axis=0, initial=-np.inf)
    for text, is_best in zip(left.texts, best.ravel(), strict=True):
        text.set_weight("bold" if is_best else "normal")
    metric = str(verdict.get("metric", "accuracy")).replace("_", " ")
    left.set_title(f"{metric} on the held-out domain{', %' if is_percentage else ''}", fontsize="medium")
    if any(method["transductive"] for method in methods):
        left.set_xlabel("* transductive: uses unlabeled samples of that domain", fontsize="small")
    figure.colorbar(image, ax=left, pad=0.01).outline.set_visible(False)
    _draw_differences(right, verdict, is_percentage)
    figure.suptitle(verdict["headline"], fontsize="medium", wrap=True)
    return figure


def _draw_differences(ax: Any, verdict: dict[str, Any], is_percentage: bool) -> None:
    """Draw the difference of each domain with its interval, and below them that over all domains."""
    factor = 100 if is_percentage else 1
    differences = list(verdict["per_domain"])
    if verdict["difference"] is not None:
        differences.append({**verdict, "domain": "all domains"})
    for position, entry in enumerate(differences):
        is_overall = position == len(verdict["per_domain"])
        color = ACCENT_COLOR if is_overall else "0.35"
        if entry["low"] is not None and entry["high"] is not None:
            line_width = 3 if is_overall else 1.5
            ends = [factor * entry["low"], factor * entry["high"]]
            ax.plot(ends, [position, position], color=color, lw=line_width)
        ax.plot(factor * entry["difference"], position, "D" if is_overall else "o", color=color)
    ax.axvline(0, color="0.6", lw=1, zorder=0)
    ax.set_yticks(range(len(differences)), [entry["domain"] for entry in differences], parse_math=False)
    ax.set_ylim(len(differences) - 0.4, -0.6)
    ax.set_title(f"invariant minus plain{', points' if is_percentage else ''}", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)


def draw_diagnosis(summary: dict[str, Any], figure: Any = None) -> Any:
    """Draw the distances of P(X), those of P(X|Y), and the effects with their p-values."""
    bars = _effect_bars(summary)
    names = [_shorten(name) for name in summary["domains"]]
    if figure is None:
        size = (13, max(3.6, 1.6 + 0.3 * max(len(bars), len(names))))
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
            texts = np.where(np.isnan(distances[kind]), "none", np.char.mod("%.2f", distances[kind]))
            write_cells(image, np.where(diagonal, "", texts).tolist())
    middle.set_yticklabels([])
    color_bar = figure.colorbar(image, ax=[left, middle], shrink=0.8, label="distance (0: equal distributions)")
    color_bar.outline.set_visible(False)
    _draw_effects(right, bars, n_tests=len(summary["tests"]))
    right.set_title(f"Size of shifts (filled: detected at level {summary['alpha']:g})", fontsize="medium")
    return figure


class _EffectBar(NamedTuple):
    """One bar of the figure of effects, of a size in percent."""

    name: str
    size: float
    text: str
    is_detected: bool


def _draw_effects(ax: Any, bars: list[_EffectBar], n_tests: int) -> None:
    longest = max(1.0, *(bar.size for bar in bars))
    # The bars of the classes follow below those of the tests, after a gap.
    levels = [level + (0.4 if level >= n_tests else 0.0) for level in range(len(bars))]
    for level, bar in zip(levels, bars, strict=True):
        fill = DETECTED_COLOR if bar.is_detected else "white"
        ax.barh(level, bar.size, height=0.6, color=fill, edgecolor=DETECTED_COLOR)
        ax.text(bar.size + 0.02 * longest, level, bar.text, va="center", fontsize="small")
    ax.set_yticks(levels, [bar.name for bar in bars], parse_math=False)
    ax.set_ylim(levels[-1] + 0.6, -0.6)
    ax.set_xlim(0, 1.6 * longest)
    ax.set_xticks([tick for tick in ax.get_xticks() if tick <= longest])
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_xlabel("% of the kernel variance that domains explain\n(P(Y): percentage points)")


def _effect_bars(summary: dict[str, Any]) -> list[_EffectBar]:
    """Make a bar for each test, and for the classes with the largest shifts."""
    bars = []
    for test in summary["tests"]:
        effect = test["effect"] or 0.0
        if test["p_value"] is None:
            text = "not testable"
        elif test["key"] == "label":
            text = f"{100 * effect:.0f} points, p = {test['p_value']:.2g}"
        else:
            text = f"{format_percent(effect)}, p = {test['p_value']:.2g}"
        size = 100 * effect
        bars.append(_EffectBar(test["name"], size, text, test["flagged"]))
    classes = summary["classes_tests"]
    shown = sorted(classes, key=lambda test: -(test["effect"] or 0.0))[:MAX_SHOWN_CLASSES]
    for test in classes:
        if test not in shown:
            continue
        share = test["effect"] or 0.0
        p_value = test["p_adjusted"]
        text = "not testable" if p_value is None else f"{format_percent(share)}, adjusted p = {p_value:.2g}"
        bars.append(_EffectBar(f"P(X|Y = {_shorten(test['class'])})", 100 * share, text, test["flagged"]))
    if len(shown) < len(classes):
        bars.append(_EffectBar(f"... {len(classes) - len(shown)} classes with smaller shifts", 0.0, "", False))
    return bars


def _shorten(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:18]}..."
