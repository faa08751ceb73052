"""The picture of a diagnosis: distances between domains, and how large every shift is."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..citizen import optional_import
from ._words import NAMES, percent

DETECTED = "#0072B2"  # of Okabe and Ito's palette; a filled bar says the same without colour
CELLS_WITH_NUMBERS = 100  # in one panel; more would not be legible
CLASSES_SHOWN = 12
LEAST_SCALE = 0.25  # of the colours, so that distances near zero do not look large


def draw(summary: dict[str, Any], figure: Any = None) -> Any:
    """Draw the summary of a diagnosis on three axes of a figure."""
    rows = _rows(summary)
    n_domains = len(summary["domains"])
    if figure is None:
        plt = optional_import("matplotlib.pyplot", "Drawing")
        height = max(3.6, 1.6 + 0.3 * max(len(rows), n_domains))
        figure = plt.figure(figsize=(13, height), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1.15])
    distances = {kind: np.array(values, dtype=float) for kind, values in summary["distances"].items()}
    top = max(LEAST_SCALE, *(np.nanmax(values, initial=0.0) for values in distances.values()))
    for ax, kind, title in ((left, "marginal", "P(X)"), (middle, "conditional", "P(X|Y), over shared classes")):
        image = _heat_map(ax, distances[kind], summary["domains"], top)
        ax.set_title(f"Distances of {title}", fontsize="medium")
    middle.set_yticklabels([])
    bar = figure.colorbar(image, ax=[left, middle], shrink=0.8, label="distance (0: alike)")
    bar.outline.set_visible(False)
    _effects(right, rows, summary["alpha"])
    return figure


def _heat_map(ax: Any, distances: Any, names: list[str], top: float) -> Any:
    import matplotlib as mpl

    between = np.where(np.eye(len(names), dtype=bool), np.nan, distances)
    image = ax.imshow(between, cmap=mpl.colormaps["cividis"].with_extremes(bad="0.92"), vmin=0, vmax=top)
    ticks, texts = range(len(names)), [_short(name) for name in names]
    tilted = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if max(map(len, texts)) > 6 else {}
    ax.set_yticks(ticks, texts, parse_math=False)  # a name may hold dollar signs
    ax.set_xticks(ticks, texts, parse_math=False, **tilted)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if distances.size <= CELLS_WITH_NUMBERS:
        for (s, t), value in np.ndenumerate(distances):
            text = "" if s == t else f"{value:.2f}" if np.isfinite(value) else "none"
            ax.text(t, s, text, ha="center", va="center", color="black" if not value < top / 2 else "white")
    return image


def _effects(ax: Any, rows: list[tuple[str, float, str, bool]], alpha: float) -> None:
    longest = max(1.0, *(size for _, size, *_ in rows))
    levels = [level + (level >= len(NAMES)) * 0.4 for level in range(len(rows))]  # classes stand below the four kinds
    for level, (_, size, text, detected) in zip(levels, rows, strict=True):
        ax.barh(level, size, height=0.6, color=DETECTED if detected else "white", edgecolor=DETECTED)
        ax.text(size + 0.02 * longest, level, text, va="center", fontsize="small")
    ax.set_yticks(levels, [name for name, *_ in rows], parse_math=False)
    ax.set_ylim(levels[-1] + 0.6, -0.6)
    ax.set_xlim(0, 1.6 * longest)
    ax.set_xticks([tick for tick in ax.get_xticks() if tick <= longest])
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_xlabel("% of the kernel variance that domains explain\n(P(Y): percentage points)")
    ax.set_title(f"Size of shifts (filled: detected at level {alpha:g})", fontsize="medium")


def _rows(summary: dict[str, Any]) -> list[tuple[str, float, str, bool]]:
    """Name, size in per cent, label and flag of every bar; the classes that move most, if there are many."""
    rows = []
    for test in summary["tests"]:
        size = (test["effect"] or 0.0) * (1 if test["key"] == "label" else 100)
        text = f"{size:.0f} points" if test["key"] == "label" else percent(size / 100)
        text = "not testable" if test["p_value"] is None else f"{text}, p = {test['p_value']:.2g}"
        rows.append((test["name"], size, text, test["flagged"]))
    classes = sorted(summary["classes_tests"], key=lambda test: -(test["effect"] or 0.0))[:CLASSES_SHOWN]
    shown = {test["class"] for test in classes}
    for test in summary["classes_tests"]:
        if test["class"] in shown:
            size = 100 * (test["effect"] or 0.0)
            p = test["p_adjusted"]
            text = "not testable" if p is None else f"{percent(size / 100)}, adjusted p = {p:.2g}"
            rows.append((f"P(X|Y = {_short(test['class'])})", size, text, test["flagged"]))
    if len(shown) < len(summary["classes_tests"]):
        rows.append((f"... {len(summary['classes_tests']) - len(shown)} classes that move less", 0.0, "", False))
    return rows


def _short(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:18]}..."
