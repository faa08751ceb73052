"""Figures from a summary, drawn by matplotlib: the accuracies of a comparison, and the distances of a diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..utils.optional_imports import optional_import
from ._format import format_percent, rank_methods

ACCENT_COLOR = "#D55E00"  # of Okabe and Ito's palette, which color-blind readers tell apart
DETECTED_COLOR = "#0072B2"  # likewise; a filled bar says the same without color
MAX_CELLS_WITH_NUMBERS = 100  # in one panel; more would not be legible
MAX_SHOWN_CLASSES = 12
MIN_COLOR_RANGE = 0.25  # of the colors, so that distances near zero do not look large


def import_pyplot() -> Any:
    """Matplotlib's pyplot, or an error that says how to install it."""
    return optional_import("matplotlib.pyplot", "Drawing")


def draw_heat_map(ax: Any, values: Any, rows: Sequence[str], columns: Sequence[str], **limits: float) -> Any:
    """Draw a matrix in colors, NaN in gray, with names along both axes; `vmin` and `vmax` limit the colors."""
    colors = import_pyplot().get_cmap("cividis").with_extremes(bad="0.9")
    image = ax.imshow(values, cmap=colors, aspect="auto", **limits)
    tilted = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if max(map(len, columns)) > 6 else {}
    ax.set_xticks(range(len(columns)), columns, parse_math=False, **tilted)  # a name may hold dollar signs
    ax.set_yticks(range(len(rows)), rows, parse_math=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return image


def write_cells(image: Any, texts: Sequence[Sequence[str]]) -> None:
    """Write into the cells of a heat map, in black or white, whichever can be read there."""
    values = np.ma.filled(image.get_array(), np.nan)
    middle = np.mean(image.get_clim()) if np.isfinite(values).any() else 0.0
    for (i, j), value in np.ndenumerate(values):
        color = "white" if value < middle else "black"
        image.axes.text(j, i, texts[i][j], ha="center", va="center", fontsize="small", color=color)


def draw_comparison(summary: dict[str, Any], figure: Any = None) -> Any:
    """Draw methods by held-out domains on the left, paired differences with their intervals on the right."""
    methods = rank_methods(summary["methods"])
    domains, share = summary["domains"], summary["verdict"].get("share", True)
    size = (5.5 + 0.9 * len(domains), 1.8 + 0.32 * len(methods))
    figure = figure or import_pyplot().figure(figsize=size, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    values = np.array([[(m["accuracies"][d] or {"mean": np.nan})["mean"] for d in domains] for m in methods], float)
    image = draw_heat_map(left, values, [m["name"] + ("*" if m["transductive"] else "") for m in methods], domains)
    texts = [[f"{value:.{1 if share else 3}f}" if np.isfinite(value) else "none" for value in row] for row in values]
    write_cells(image, texts)
    best = values == np.nanmax(values, axis=0, initial=-np.inf)
    for text, bold in zip(left.texts, best.ravel(), strict=True):
        text.set_weight("bold" if bold else "normal")
    metric = str(summary["verdict"].get("metric", "accuracy")).replace("_", " ")
    left.set_title(f"{metric} on the held-out domain{', %' * share}", fontsize="medium")
    if any(m["transductive"] for m in methods):
        left.set_xlabel("* transductive: saw unlabeled samples of that domain", fontsize="small")
    figure.colorbar(image, ax=left, pad=0.01).outline.set_visible(False)
    _draw_differences(right, summary["verdict"])
    figure.suptitle(summary["verdict"]["headline"], fontsize="medium", wrap=True)
    return figure


def _draw_differences(ax: Any, verdict: dict[str, Any]) -> None:
    lines = [(line, "0.35") for line in verdict["per_domain"]]
    if verdict["difference"] is not None:
        lines.append(({**verdict, "domain": "all domains"}, ACCENT_COLOR))
    for position, (line, color) in enumerate(lines):
        last = color == ACCENT_COLOR
        if None not in (line["low"], line["high"]):
            ax.plot([line["low"], line["high"]], [position, position], color=color, lw=3 if last else 1.5)
        ax.plot(line["difference"], position, "D" if last else "o", color=color)
    ax.axvline(0, color="0.6", lw=1, zorder=0)
    ax.set_yticks(range(len(lines)), [line["domain"] for line, _ in lines], parse_math=False)
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.set_title(f"invariant minus plain{', points' * verdict.get('share', True)}", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)


def draw_diagnosis(summary: dict[str, Any], figure: Any = None) -> Any:
    """Draw the distances of P(X), those of P(X|Y), and the effects with their p-values."""
    bars, names = _effect_bars(summary), [_shorten(name) for name in summary["domains"]]
    size = (13, max(3.6, 1.6 + 0.3 * max(len(bars), len(names))))
    figure = figure or import_pyplot().figure(figsize=size, layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1.15])
    distances = {kind: np.array(values, dtype=float) for kind, values in summary["distances"].items()}
    top = max(MIN_COLOR_RANGE, *(np.nanmax(values, initial=0.0) for values in distances.values()))
    diagonal = np.eye(len(names), dtype=bool)
    for ax, kind, title in ((left, "marginal", "P(X)"), (middle, "conditional", "P(X|Y), over shared classes")):
        image = draw_heat_map(ax, np.where(diagonal, np.nan, distances[kind]), names, names, vmin=0, vmax=top)
        ax.set_aspect("equal")
        ax.set_title(f"Distances of {title}", fontsize="medium")
        if diagonal.size <= MAX_CELLS_WITH_NUMBERS:
            texts = np.where(np.isnan(distances[kind]), "none", np.char.mod("%.2f", distances[kind]))
            write_cells(image, np.where(diagonal, "", texts).tolist())
    middle.set_yticklabels([])
    bar = figure.colorbar(image, ax=[left, middle], shrink=0.8, label="distance (0: alike)")
    bar.outline.set_visible(False)
    _draw_effects(right, bars, len(summary["tests"]))
    right.set_title(f"Size of shifts (filled: detected at level {summary['alpha']:g})", fontsize="medium")
    return figure


def _draw_effects(ax: Any, bars: list[tuple[str, float, str, bool]], kinds: int) -> None:
    longest = max(1.0, *(size for _, size, *_ in bars))
    levels = [level + (level >= kinds) * 0.4 for level in range(len(bars))]  # classes stand below the four kinds
    for level, (_, size, text, detected) in zip(levels, bars, strict=True):
        ax.barh(level, size, height=0.6, color=DETECTED_COLOR if detected else "white", edgecolor=DETECTED_COLOR)
        ax.text(size + 0.02 * longest, level, text, va="center", fontsize="small")
    ax.set_yticks(levels, [name for name, *_ in bars], parse_math=False)
    ax.set_ylim(levels[-1] + 0.6, -0.6)
    ax.set_xlim(0, 1.6 * longest)
    ax.set_xticks([tick for tick in ax.get_xticks() if tick <= longest])
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_xlabel("% of the kernel variance that domains explain\n(P(Y): percentage points)")


def _effect_bars(summary: dict[str, Any]) -> list[tuple[str, float, str, bool]]:
    """Name, size in per cent, label and flag of every bar; the classes that move most, if there are many."""
    bars = []
    for test in summary["tests"]:
        size = (test["effect"] or 0.0) * (1 if test["key"] == "label" else 100)
        text = f"{size:.0f} points" if test["key"] == "label" else format_percent(size / 100)
        text = "not testable" if test["p_value"] is None else f"{text}, p = {test['p_value']:.2g}"
        bars.append((test["name"], size, text, test["flagged"]))
    classes = summary["classes_tests"]
    shown = sorted(classes, key=lambda test: -(test["effect"] or 0.0))[:MAX_SHOWN_CLASSES]
    for test in (test for test in classes if test in shown):
        share, p = test["effect"] or 0.0, test["p_adjusted"]
        text = "not testable" if p is None else f"{format_percent(share)}, adjusted p = {p:.2g}"
        bars.append((f"P(X|Y = {_shorten(test['class'])})", 100 * share, text, test["flagged"]))
    if len(shown) < len(classes):
        bars.append((f"... {len(classes) - len(shown)} classes that move less", 0.0, "", False))
    return bars


def _shorten(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:18]}..."
