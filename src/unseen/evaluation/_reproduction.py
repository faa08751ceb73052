"""Experiments of the CIDG paper: tables of tasks by methods, published scores, the synthetic data and their figure."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np
from joblib import delayed  # type: ignore[import-untyped, unused-ignore]
from scipy.stats import rankdata

from ..datasets import make_synthetic
from ..estimators import CIDG, parallel
from ..model_selection import METHODS, Method
from ..report import import_pyplot
from ..tables import Table, table_from_arrays
from ..utils.progress import track
from ._comparison import project_rows
from ._protocol import Protocol, Task
from ._run import HeldOutPredictions, Job, Study, parse_models
from ._store import Row

EQUALITY_DECIMALS = 9  # decimal places to which means are compared, since they may differ by rounding


@dataclass(frozen=True)
class Cell:
    """One method on one task: mean and standard deviation over repeats, in percent, and the published accuracy."""

    mean: float
    sd: float
    repeats: int
    transductive: bool
    best: bool = False
    published: float | None = None
    failed: str = ""
    skipped: bool = False

    @property
    def status_text(self) -> str:
        """Text of a cell without accuracy."""
        if self.skipped:
            return "skipped"
        return "failed" if self.failed else "undefined"


@dataclass(frozen=True)
class AccuracyTable:
    """Cells by task and method, and summaries of the methods over all tasks."""

    tasks: list[str]
    methods: list[str]
    cells: dict[tuple[str, str], Cell]
    published_label: str = "the paper's figure"

    def means(self) -> dict[str, float]:
        """Compute the mean over tasks of each method; NaN if it failed on one. Tasks without a score are left out."""
        means = {}
        for method in self.methods:
            cells = [self.cells[task, method] for task in self.tasks]
            values = [cell.mean for cell in cells if cell.repeats or cell.failed]
            means[method] = float(np.mean(values or [np.nan]))
        return means

    def ranks(self) -> dict[str, float]:
        """Compute the mean rank of each method over tasks; 1 is best, and ties get the average rank."""
        matrix = np.array([[self.cells[t, m].mean for m in self.methods] for t in self.tasks])
        matrix = np.nan_to_num(matrix.round(EQUALITY_DECIMALS), nan=-np.inf)  # methods that failed rank last
        return dict(zip(self.methods, rankdata(-matrix, axis=1).mean(axis=0).tolist(), strict=True))

    def wins(self) -> dict[str, int]:
        """Count the tasks on which each method is best."""
        return {m: sum(self.cells[t, m].best for t in self.tasks) for m in self.methods}

    def records(self) -> list[dict[str, Any]]:
        """Return one dict for each task and method, with None for a mean that is not known."""
        return [
            {"task": task, "method": method, **asdict(cell), "mean": _known(cell.mean)}
            for (task, method), cell in self.cells.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the cells and the summaries, in values that JSON can represent."""
        means = {method: _known(mean) for method, mean in self.means().items()}
        summary = {"mean": means, "mean_rank": self.ranks(), "wins": self.wins()}
        return {"cells": self.records(), "summary": summary}


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def make_accuracy_table(
    rows: Sequence[Row],
    published: dict[tuple[str, str], float] | None = None,
    published_label: str = AccuracyTable.published_label,
) -> AccuracyTable:
    """Make a table of rows, in percent.

    `published` maps (task, method) to a published accuracy, and `published_label` describes these.
    """
    if not rows:
        raise ValueError("rows is empty: there are no rows to tabulate.")
    tasks = list(dict.fromkeys(row.task for row in rows))
    present = dict.fromkeys(row.method for row in rows)
    methods = [name for name in METHODS if name in present] + [name for name in present if name not in METHODS]
    cells = {}
    for task in tasks:
        rows_by_method = {name: [row for row in rows if row.task == task and row.method == name] for name in methods}
        means = {
            name: np.mean([row.accuracy for row in method_rows if row.has_score] or [np.nan])
            for name, method_rows in rows_by_method.items()
        }
        best_mean = np.fmax.reduce(list(means.values()))  # ignores NaN, the mean of methods that failed
        for method, method_rows in rows_by_method.items():
            values = [100 * row.accuracy for row in method_rows if row.has_score and row.accuracy is not None]
            reasons = [row.reason for row in method_rows if row.status != "ok"]
            if not method_rows:
                reasons = ["the method has no result"]
            cells[task, method] = Cell(
                mean=float(100 * means[method]),
                sd=float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
                repeats=len(values),
                transductive=any(row.transductive for row in method_rows),
                best=bool(means[method] >= best_mean - 10.0**-EQUALITY_DECIMALS),
                published=(published or {}).get((task, method)),
                failed=reasons[0] if reasons else "",
                skipped=any(row.status == "skipped" for row in method_rows),
            )
    return AccuracyTable(tasks, methods, cells, published_label)


PAPER_NAMES = {"1NN": "1-NN"}  # names of methods in the paper that differ from those of the registry


def load_published(data: str, tasks: Sequence[Task]) -> dict[tuple[str, str], float]:
    """Load the published accuracies of a data set, "office-caltech" or "vlcs", by task name and method.

    The paper names domains by their initials, in another order.
    """
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    printed = {
        (frozenset(row["source"]), frozenset(row["target"]), PAPER_NAMES.get(row["method"], row["method"])): float(
            row["accuracy"]
        )
        for row in csv.DictReader(text.splitlines())
        if row["data"] == data
    }
    published: dict[tuple[str, str], float] = {}
    for task in tasks:
        sources = frozenset(name[0].upper() for name in task.sources)
        targets = frozenset(name[0].upper() for name in task.targets)
        for (printed_sources, printed_targets, method), accuracy in printed.items():
            if (printed_sources, printed_targets) == (sources, targets):
                published[task.name, method] = accuracy
    return published


def make_summary_rows(table: AccuracyTable) -> list[tuple[str, list[str]]]:
    """Make the rows below the tasks: mean, mean rank, wins."""
    return [
        ("mean", [f"{v:.2f}" if np.isfinite(v) else "failed" for v in table.means().values()]),
        ("mean rank", [f"{v:.1f}" for v in table.ranks().values()]),
        ("wins", [str(v) for v in table.wins().values()]),
    ]


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


def draw_synthetic_figure(table: Table, rows: Sequence[Row], *, grid: str = "ours", quick: bool = False) -> Any:
    """Draw one column for each method, from the settings and accuracies of its row, which is a result on the table.

    The first row is colored by domain, the second by class with one marker per domain.
    """
    by_method = {row.method: row for row in rows}
    figure = import_pyplot().Figure(figsize=(3 * len(COLUMNS), 6), layout="constrained")
    axes = figure.subplots(2, len(COLUMNS))
    predictions = HeldOutPredictions(table, [SYNTHETIC_TASK], [])
    protocol = make_synthetic_protocol("a held-out domain", quick)
    methods = make_synthetic_methods(grid)
    for column, method in enumerate(COLUMNS):
        row = by_method[method]
        drawn_row = replace(row, task=SYNTHETIC_TASK.name, repeat=0)
        samples, features, _, _ = project_rows(predictions, protocol, drawn_row, methods)
        Z = features[:, :2]
        y = samples.y
        domain = samples.domain
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
    names = [f"{name}, unseen" if name == TARGET_DOMAIN else str(name) for name in np.unique(domain)]
    _add_legend(axes[0, -1], names, DOMAIN_COLORS, MARKERS)
    _add_legend(axes[1, -1], [f"class {label}" for label in np.unique(y)], CLASS_COLORS, ("s",) * 3)
    return figure


def _add_legend(ax: Any, names: list[str], colors: Sequence[str], markers: Sequence[str]) -> None:
    """Add a legend to the right of the axes, so that it covers no samples."""
    for name, color, marker in zip(names, colors, markers, strict=False):
        ax.scatter([], [], s=30, color=color, marker=marker, label=name)
    ax.legend(fontsize=10, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
