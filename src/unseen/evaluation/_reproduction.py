"""Experiments of the CIDG paper: tables of tasks by methods, published scores, the synthetic data and their figure."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import product
from typing import Any

import numpy as np
from joblib import delayed  # type: ignore[import-untyped, unused-ignore]
from scipy.stats import rankdata
from sklearn.base import clone

from ..datasets import make_synthetic
from ..estimators import CIDG
from ..linalg import Array
from ..model_selection import METHODS, Method, ignore_expected_warnings, prepare_samples, transform_for_classifier
from ..report import import_pyplot
from ..tables import Table, table_from_arrays
from ..utils.jobs import parallel, track
from ..utils.samples import Samples
from ._protocol import Protocol, Task
from ._run import Entry, Job, Study, parse_models
from ._store import Row, describe_failures, summarize_scores

EQUALITY_DECIMALS = 9  # decimal places to which means are compared, since they may differ by rounding


def make_accuracy_table(
    rows: Sequence[Row],
    published: Mapping[tuple[str, str], float] | None = None,
    published_label: str = "the paper's figure",
) -> dict[str, Any]:
    """Make a table of tasks by methods in plain values: means and standard deviations over repeats, in percent.

    `published` maps (task, method) to a published accuracy, and `published_label` describes these. The summary has the
    mean of each method over tasks, None if it failed on one; its mean rank, where 1 is best and ties get the average
    rank; and the number of tasks on which it is best.
    """
    if not rows:
        raise ValueError("rows is empty: there are no rows to tabulate.")
    tasks = list(dict.fromkeys(row.task for row in rows))
    present = dict.fromkeys(row.method for row in rows)
    methods = [name for name in METHODS if name in present] + [name for name in present if name not in METHODS]
    cells: list[dict[str, Any]] = []
    for task, method in product(tasks, methods):
        own = [row for row in rows if (row.task, row.method) == (task, method)]
        scores = [100 * row.accuracy for row in own if row.has_score and row.accuracy is not None]
        cells.append(
            {
                "task": task,
                "method": method,
                **summarize_scores(scores),
                "repeats": len(scores),
                "transductive": any(row.transductive for row in own),
                "published": (published or {}).get((task, method)),
                **describe_failures(own),
            }
        )
    means = np.array([cell["mean"] for cell in cells], dtype=float).round(EQUALITY_DECIMALS)
    by_task = means.reshape(len(tasks), len(methods))
    is_best = by_task == np.fmax.reduce(by_task, axis=1, keepdims=True)  # ignores NaN, the mean of methods that failed
    for cell, best in zip(cells, is_best.ravel().tolist(), strict=True):
        cell["best"] = best
    ranks = rankdata(-np.nan_to_num(by_task, nan=-np.inf), axis=1).mean(axis=0)
    summary: dict[str, dict[str, Any]] = {
        "mean": {},
        "mean_rank": dict(zip(methods, ranks.tolist(), strict=True)),
        "wins": dict(zip(methods, is_best.sum(axis=0).tolist(), strict=True)),
    }
    for method in methods:
        # A task on which the metric is not defined is left out.
        known = [cell["mean"] for cell in cells if cell["method"] == method and (cell["repeats"] or cell["failed"])]
        summary["mean"][method] = float(np.mean(known)) if known and None not in known else None
    return {
        "tasks": tasks,
        "methods": methods,
        "published_label": published_label,
        "cells": cells,
        "summary": summary,
    }


PAPER_NAMES = {"1NN": "1-NN"}  # names of methods in the paper that differ from those of the registry


def load_published(data: str, tasks: Sequence[Task]) -> dict[tuple[str, str], float]:
    """Load the published accuracies of a data set, "office-caltech" or "vlcs", by task name and method.

    The paper names domains by their initials, in another order.
    """

    def initials(names: Sequence[str]) -> frozenset[str]:
        return frozenset(name[0].upper() for name in names)

    names = {(initials(task.sources), initials(task.targets)): task.name for task in tasks}
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    published: dict[tuple[str, str], float] = {}
    for row in csv.DictReader(text.splitlines()):
        task = names.get((initials(row["source"]), initials(row["target"])))
        if row["data"] == data and task is not None:
            published[task, PAPER_NAMES.get(row["method"], row["method"])] = float(row["accuracy"])
    return published


Grid = dict[str, list[Any]]

# The validation that selects the settings, by its name in tables.
CHOSEN_BY: dict[str, Any] = {
    "within the sources": "within",
    "a held-out domain": "domain",
    "the target (oracle)": "oracle",
}
SYNTHETIC_METHODS = ("1-NN", "KPCA", "KFDA", "DICA", "SCA", "CIDG", "MDA", "CIDG as printed")
SOURCE_DOMAINS = ("domain 1", "domain 2")
TARGET_DOMAIN = "domain 3"
VALIDATION_DOMAIN = "validation"
SYNTHETIC_TASK = Task(SOURCE_DOMAINS, (TARGET_DOMAIN,), (VALIDATION_DOMAIN,))

# The target lies far from the sources, where a narrow kernel is zero: the kernel must be as wide as the domains.
WIDTHS = ["0.003*median", "0.01*median", "0.03*median"]
RIDGES = ["1e-4*scale", "1e-2*scale", "scale", "100*scale"]
WEIGHTS = [0, 1e3, 1e4, 1e5, 1e6]
FINE_WEIGHTS = [0, 1, 10, 1e2, 1e3, 1e4, 1e5, 1e6]
COMMON_GRID: Grid = {"gamma": WIDTHS, "ridge": RIDGES}
DEFAULT_CIDG_GRID: Grid = {**COMMON_GRID, "conditional_weight": WEIGHTS, "prior_weight": WEIGHTS}
CIDG_GRIDS: dict[str, Grid] = {
    "ours": DEFAULT_CIDG_GRID,
    "fine": {**DEFAULT_CIDG_GRID, "conditional_weight": FINE_WEIGHTS, "prior_weight": FINE_WEIGHTS},
    # The grid of the authors' program, whose kernel is exp(-d² / (2 sigma²)).
    "authors": {
        "gamma": [0.5 / 10.0 ** (2 * k) for k in range(-3, 4)],
        "ridge": [1e-5],
        "conditional_weight": [10.0**k for k in range(-3, 7)],
        "prior_weight": [10.0**k for k in range(10)],
    },
}
GRIDS: dict[str, Grid] = {
    "KFDA": COMMON_GRID,
    "DICA": {**COMMON_GRID, "output_ridge": [1e-3, 1.0]},
    "SCA": {**COMMON_GRID, "between_weight": [0.5, 0.9], "domain_weight": [1, 1e2, 1e4], "n_components": [2, 4]},
    "MDA": {**COMMON_GRID, "conditional_weight": FINE_WEIGHTS[::2], "within_weight": [1.0, 1e2]},
}


def make_synthetic_methods(grid: str) -> list[Method]:
    """Return the methods with grids for these data, with CIDG as in its authors' code and as printed in the paper."""
    methods = {
        name: replace(METHODS[name], grid=method_grid, component_multiples=()) for name, method_grid in GRIDS.items()
    }
    printed = replace(METHODS["CIDG"], grid=CIDG_GRIDS[grid])
    # The authors' code has a penalty on the RKHS norm and unit columns.
    methods["CIDG"] = replace(printed, transformer=CIDG(norm_weight=1, scaling="unit_norm"))
    methods["CIDG as printed"] = replace(printed, name="CIDG as printed")
    return [methods.get(name, METHODS.get(name)) for name in SYNTHETIC_METHODS]  # type: ignore[misc]


def draw_synthetic(seed: int) -> Table:
    """Draw the synthetic data, with a validation domain."""
    data = make_synthetic(validation_domain=True, random_state=seed)
    return table_from_arrays(data.data, data.target, data.domain)


def check_draw(table: Table) -> Table:
    """Raise ValueError if the data do not have the features, classes and domains of the synthetic data."""
    n_classes = len(table.samples.classes)
    domains = sorted(set(table.domain.tolist()))
    expected_domains = [*SOURCE_DOMAINS, TARGET_DOMAIN, VALIDATION_DOMAIN]
    if table.X.shape[1] != 2 or n_classes != 3 or domains != expected_domains:
        raise ValueError(
            f"A draw of the synthetic data has 2 features, 3 classes and the domains {', '.join(expected_domains)}; "
            f"this one has {table.X.shape[1]}, {n_classes} and {', '.join(domains)}. Rename the domains, or use "
            "unseen.compare."
        )
    return table


def run_synthetic(
    draws: Sequence[Table],
    *,
    selections: Sequence[str] = tuple(CHOSEN_BY),
    grid: str = "ours",
    quick: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> list[Row]:
    """Repeat the experiment on several draws; the task of a row is the validation that selected its settings.

    The draws have the domains of the paper and a validation domain; `grid` is the key of the CIDG grid in CIDG_GRIDS.
    """
    jobs = [
        delayed(_run_draw)(table, chosen_by, seed, grid, quick)
        for seed, table in enumerate(draws)
        for chosen_by in selections
    ]
    results = parallel(n_jobs)(jobs)
    return [row for rows in track(results, len(jobs), "synthetic", verbose) for row in rows]


def _run_draw(table: Table, chosen_by: str, seed: int, grid: str, quick: bool) -> list[Row]:
    study = Study(table, make_synthetic_protocol(chosen_by, quick, seed), parse_models(make_synthetic_methods(grid)))
    rows = study.predict(Job(SYNTHETIC_TASK, 0, SYNTHETIC_METHODS))
    return [replace(row, task=chosen_by, repeat=seed) for row in rows]


def make_synthetic_protocol(chosen_by: str, quick: bool = False, seed: int = 0) -> Protocol:
    """Make the protocol that selects settings by `chosen_by`; its first validation split is drawn with the seed."""
    return Protocol.paper(selection=CHOSEN_BY[chosen_by], train_size=1, repeats=1, scale="none", quick=quick, seed=seed)


COLUMNS = ("1-NN", "KPCA", "DICA", "SCA", "CIDG")
TITLES = {"1-NN": "raw features"}
# The palette of Okabe and Ito, which color-blind readers can distinguish; markers distinguish domains without color.
DOMAIN_COLORS = ("#E69F00", "#CC79A7", "#56B4E9")
CLASS_COLORS = ("#009E73", "#D55E00", "#0072B2")
MARKERS = ("*", "o", "x")


def _project(study: Study, row: Row) -> tuple[Samples, Array]:
    """Fit the projection of a row again, and project source and target rows: prepared samples and their features."""
    train, test = study.protocol.draw_rows(study.table.samples, SYNTHETIC_TASK, 0)
    entry = Entry.make(study.models[row.method], study.protocol, study.table.take(train).samples)
    candidate = next(one for one in entry.candidates if row.settings.items() >= one.settings.items())
    preparation = clone(study.config.preparation).fit(study.table.X[train])
    samples = prepare_samples(preparation, study.table.samples.take(np.concatenate([train, test])))
    with ignore_expected_warnings():
        pipeline = candidate.fit_samples(samples.take(np.arange(len(train))), study.protocol.balance)
    return samples, transform_for_classifier(pipeline, samples.X, samples.domain)


def draw_synthetic_figure(table: Table, rows: Sequence[Row], *, grid: str = "ours", quick: bool = False) -> Any:
    """Draw one column for each method, from the settings and accuracies of its row, which is a result on the table.

    The first row is colored by domain, the second by class with one marker per domain.
    """
    by_method = {row.method: row for row in rows}
    figure = import_pyplot().Figure(figsize=(3 * len(COLUMNS), 6), layout="constrained")
    axes = figure.subplots(2, len(COLUMNS))
    protocol = make_synthetic_protocol("a held-out domain", quick)
    study = Study(table, protocol, parse_models(make_synthetic_methods(grid)))
    for column, method in enumerate(COLUMNS):
        row = by_method[method]
        samples, features = _project(study, row)
        domains = np.unique(samples.domain)
        for (s, name), (j, label) in product(enumerate(domains), enumerate(samples.classes)):
            points = features[(samples.domain == name) & (samples.y == label), :2].T
            style = {"s": 22, "marker": MARKERS[s], "alpha": 0.75, "linewidths": 0.9}
            shown = f"{name}, unseen" if name == TARGET_DOMAIN else name
            # One entry of the legend for each domain, and one for each class.
            axes[0, column].scatter(*points, **style, color=DOMAIN_COLORS[s], label=None if j else shown)
            axes[1, column].scatter(*points, **style, color=CLASS_COLORS[j], label=None if s else f"class {label}")
        accuracy = f"{100 * (row.accuracy or 0):.1f}%{', transductive' if row.transductive else ''}"
        axes[0, column].set_title(f"{TITLES.get(method, method)}\n{accuracy}", fontsize=11)
    for ax in axes.ravel():
        ax.set_xticks([])
        ax.set_yticks([])
    for ax in axes[:, -1]:  # to the right of the axes, so that it covers no samples
        ax.legend(fontsize=10, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure
