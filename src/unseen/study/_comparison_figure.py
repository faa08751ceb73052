"""The picture of a comparison: accuracies of all methods, and what invariance gains on each domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..citizen import optional_import

ACCENT = "#D55E00"  # Okabe and Ito's vermilion: seen by colour-blind readers


def draw(summary: dict[str, Any], figure: Any = None) -> Any:
    """Draw methods by held-out domains on the left, paired differences with their intervals on the right."""
    Figure = optional_import("matplotlib.figure", "Drawing").Figure
    methods = sorted(summary["methods"], key=lambda method: -(method["mean"] or 0.0))
    height = 1.8 + 0.32 * len(methods)
    figure = figure or Figure(figsize=(5.5 + 0.9 * len(summary["domains"]), height), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    _heat_map(left, methods, summary["domains"])
    _forest(right, summary["verdict"])
    figure.suptitle(summary["verdict"]["headline"], fontsize=10, wrap=True)
    return figure


def _heat_map(ax: Any, methods: list[dict[str, Any]], domains: list[str]) -> None:
    values = np.array([[(m["accuracies"][d] or {"mean": np.nan})["mean"] for d in domains] for m in methods], float)
    image = ax.imshow(values, cmap="cividis", aspect="auto")
    middle = np.nanmean([np.nanmin(values), np.nanmax(values)]) if np.isfinite(values).any() else 0.0
    for (i, j), value in np.ndenumerate(values):
        best = value == np.nanmax(values[:, j])
        ax.text(
            j,
            i,
            f"{value:.1f}" if np.isfinite(value) else "failed",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if value < middle else "black",
            weight="bold" if best else "normal",
        )
    ax.set_xticks(range(len(domains)), domains, rotation=30, ha="right", parse_math=False)
    ax.set_yticks(range(len(methods)), [m["name"] + ("*" if m["transductive"] else "") for m in methods])
    ax.set_title("accuracy on the held-out domain, %", fontsize=9)
    if any(m["transductive"] for m in methods):
        ax.set_xlabel("* transductive: saw unlabelled samples of that domain", fontsize=8)
    ax.figure.colorbar(image, ax=ax, pad=0.01)


def _forest(ax: Any, verdict: dict[str, Any]) -> None:
    lines = [*verdict["per_domain"]]
    if verdict["difference"] is not None:
        lines.append({**verdict, "domain": "all domains"})
    for position, line in enumerate(lines):
        last = line.get("domain") == "all domains" and position == len(lines) - 1
        low, high = (float(np.clip(line[name], -100, 100)) for name in ("low", "high"))
        ax.plot([low, high], [position, position], color=ACCENT if last else "0.35", lw=3 if last else 1.5)
        ax.plot(line["difference"], position, "D" if last else "o", color=ACCENT if last else "0.2")
    ax.axvline(0, color="0.6", lw=1, zorder=0)
    ax.set_yticks(range(len(lines)), [line["domain"] for line in lines], parse_math=False)
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.set_title("invariant minus plain, points", fontsize=9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
