"""Tables of a comparison: tasks by methods, with ranks and wins."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ..model_selection import METHODS
from ..utils.io import plain_values
from ._protocol import Task
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
            {"task": task, "method": method, **asdict(cell), "mean": plain_values(cell.mean)}
            for (task, method), cell in self.cells.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the cells and the summaries, in values that JSON can represent."""
        summary = {"mean": plain_values(self.means()), "mean_rank": self.ranks(), "wins": self.wins()}
        return {"cells": self.records(), "summary": summary}


def has_score(row: Row) -> bool:
    """Whether a row has a score; some metrics are undefined if a class is missing."""
    return row.accuracy is not None and bool(np.isfinite(row.accuracy))


def make_accuracy_table(
    rows: Sequence[Row],
    published: dict[tuple[str, str], float] | None = None,
    published_label: str = AccuracyTable.published_label,
    share: bool = True,
) -> AccuracyTable:
    """Make a table of rows, in percent if their scores are shares.

    `published` maps (task, method) to a published accuracy, and `published_label` describes these.
    """
    if not rows:
        raise ValueError("rows is empty: there are no rows to tabulate.")
    tasks = list(dict.fromkeys(row.task for row in rows))
    present = dict.fromkeys(row.method for row in rows)
    methods = [name for name in METHODS if name in present] + [name for name in present if name not in METHODS]
    factor = 100 if share else 1
    cells = {}
    for task in tasks:
        rows_by_method = {name: [row for row in rows if row.task == task and row.method == name] for name in methods}
        means = {
            name: np.mean([row.accuracy for row in method_rows if has_score(row)] or [np.nan])
            for name, method_rows in rows_by_method.items()
        }
        best_mean = np.fmax.reduce(list(means.values()))  # ignores NaN, the mean of methods that failed
        for method, method_rows in rows_by_method.items():
            values = [factor * row.accuracy for row in method_rows if row.accuracy is not None and has_score(row)]
            reasons = [row.reason for row in method_rows if row.status != "ok"]
            if not method_rows:
                reasons = ["the method has no result"]
            cells[task, method] = Cell(
                mean=float(factor * means[method]),
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
