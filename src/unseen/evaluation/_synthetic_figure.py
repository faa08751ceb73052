"""The figure of the paper: raw and learned features of the synthetic data, by domain and by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..report import import_pyplot
from ._method_evaluation import Problem
from ._store import Row

COLUMNS = ("1-NN", "KPCA", "DICA", "SCA", "CIDG")
TITLES = {"1-NN": "raw features"}
# The palette of Okabe and Ito, which color-blind readers can distinguish; markers distinguish domains without color.
DOMAIN_COLORS = ("#E69F00", "#CC79A7", "#56B4E9")
CLASS_COLORS = ("#009E73", "#D55E00", "#0072B2")
MARKERS = ("*", "o", "x")


def draw_synthetic_figure(problem: Problem, rows: Sequence[Row]) -> Any:
    """Draw one column for each method, from the settings and accuracies of its row, which is a result of the problem.

    The first row is colored by domain, the second by class with one marker per domain.
    """
    by_method = {row.method: row for row in rows}
    figure = import_pyplot().Figure(figsize=(3 * len(COLUMNS), 6), layout="constrained")
    axes = figure.subplots(2, len(COLUMNS))
    y, domain = problem.prepared.y, problem.prepared.domain
    for column, method in enumerate(COLUMNS):
        row = by_method[method]
        Z = problem.features(method, row.settings)[:, :2]
        for is_by_domain, ax in zip((True, False), axes[:, column], strict=True):
            for s, name in enumerate(np.unique(domain)):
                for j, label in enumerate(np.unique(y)):
                    points = Z[(domain == name) & (y == label)]
                    color = DOMAIN_COLORS[s] if is_by_domain else CLASS_COLORS[j]
                    ax.scatter(*points.T, s=22, marker=MARKERS[s], color=color, alpha=0.75, linewidths=0.9)
            ax.set_xticks([])
            ax.set_yticks([])
        accuracy = f"{100 * (row.accuracy or 0):.1f}%{', transductive' if row.transductive else ''}"
        axes[0, column].set_title(f"{TITLES.get(method, method)}\n{accuracy}", fontsize=11)
    targets = set(problem.samples.domain[problem.test])
    names = [f"{name}, unseen" if name in targets else str(name) for name in np.unique(domain)]
    _add_legend(axes[0, -1], names, DOMAIN_COLORS, MARKERS)
    _add_legend(axes[1, -1], [f"class {label}" for label in np.unique(y)], CLASS_COLORS, ("s",) * 3)
    return figure


def _add_legend(ax: Any, names: list[str], colors: Sequence[str], markers: Sequence[str]) -> None:
    """Add a legend to the right of the axes, so that it covers no samples."""
    for name, color, marker in zip(names, colors, markers, strict=False):
        ax.scatter([], [], s=30, color=color, marker=marker, label=name)
    ax.legend(fontsize=10, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
