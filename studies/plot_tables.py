"""Draw how far each model is from the best one of each table, from the results of `studies.tables`.

A dot is one table: the mean over its held-out domains, minus that of the model that is best there. A bar is the mean
over tables. AutoGluon has one held-out domain of each table; the last two rows have these domains only.

    python -m studies.plot_tables docs/results/tables_by_domain.csv docs/_static/tables.png
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from .baselines import AUTOGLUON
from .tables import IS_LOSS, OURS

PANELS = {"AUC": "AUC: points below the best model", "log loss": "log loss above the best model"}
OURS_ON_ONE_DOMAIN = f"{OURS}, one domain"
ON_ONE_DOMAIN = (OURS_ON_ONE_DOMAIN, AUTOGLUON)
LABELS = {
    OURS: "unseen.fit",
    "gradient boosting": "histogram boosting",
    AUTOGLUON: "AutoGluon, 60 s*",
    OURS_ON_ONE_DOMAIN: "unseen.fit*",
}
OURS_COLOR, COLOR = "#c8501e", "#3b6ea5"


def regrets(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the distance to the best model, with tables as rows and methods as columns; 0 is the best model."""
    one_domain = results[results["method"] == AUTOGLUON][["data", "held out"]]
    everywhere = _distances(results[results["method"] != AUTOGLUON], metric)
    on_one_domain = _distances(results.merge(one_domain), metric)
    return everywhere.assign(**{OURS_ON_ONE_DOMAIN: on_one_domain[OURS], AUTOGLUON: on_one_domain[AUTOGLUON]})


def _distances(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    means = results.pivot_table(index="data", columns="method", values=metric)
    return means.sub(means.min(axis=1), axis=0) if IS_LOSS[metric] else means.rsub(means.max(axis=1), axis=0)


def draw(results: pd.DataFrame) -> plt.Figure:
    """Draw one panel for each metric, with methods in the order of their mean distance in log loss."""
    means = regrets(results, "log loss").mean()
    order = [*reversed(ON_ONE_DOMAIN), *means.drop([*ON_ONE_DOMAIN]).sort_values(ascending=False).index]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.1), sharey=True, layout="constrained")
    for axis, (metric, title) in zip(axes, PANELS.items(), strict=True):
        distances = regrets(results, metric)[order]
        for height, method in enumerate(order):
            values = distances[method].dropna()
            color = OURS_COLOR if method in (OURS, OURS_ON_ONE_DOMAIN) else COLOR
            axis.scatter(values, [height] * len(values), s=26, color=color, alpha=0.55, linewidths=0)
            axis.scatter(values.mean(), height, marker="|", s=260, linewidths=2.5, color=color)
        axis.axhline(len(ON_ONE_DOMAIN) - 0.5, color="#999999", linewidth=0.8, linestyle=":")
        axis.set_title(title, fontsize=11, loc="left")
        axis.set_xlim(left=-0.02 * distances.max(axis=None))
        axis.grid(axis="x", color="#dddddd")
        axis.set_axisbelow(True)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(order)), [LABELS.get(method, method) for method in order], fontsize=10)
    axes[0].get_yticklabels()[order.index(OURS)].set_fontweight("bold")
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Read results, print mean and largest distances, and write the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="tables_by_domain.csv of studies.tables")
    parser.add_argument("figure", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    results = pd.read_csv(options.results, keep_default_na=False)
    for metric in PANELS:
        distances = regrets(results, metric)
        print(PANELS[metric])
        print(distances.agg(["mean", "max"]).T.sort_values("mean").round(3).to_string(), end="\n\n")
    draw(results).savefig(options.figure, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main()
