"""Tables of a comparison: tasks by methods, with ranks and wins, as Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ..model_selection import METHODS
from ._protocol import Task
from ._store import Row

EQUALITY_DECIMALS = 9  # decimal places to which means are compared, since they may differ by rounding
MARKDOWN_ESCAPES = str.maketrans({mark: f"\\{mark}" for mark in "\\|*_`<"})
LATEX_ESCAPES = str.maketrans(
    {mark: f"\\{mark}" for mark in "_&%#${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


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

    def text(self, format: str) -> str:
        """Return the table as markdown, latex, csv or json."""
        writers = {"markdown": _markdown, "latex": _latex, "csv": _csv, "json": _json}
        if format not in writers:
            raise ValueError(f"format must be one of {', '.join(writers)}; got {format!r}.")
        return writers[format](self)


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


def _make_sections(
    table: AccuracyTable, format_cell: Callable[[Cell], str], escape: Callable[[str], str]
) -> list[list[list[str]]]:
    """Return the header, the rows of tasks and the summary rows, as texts."""
    header = ["Task", *map(escape, table.methods)]
    tasks = [[escape(task), *(format_cell(table.cells[task, m]) for m in table.methods)] for task in table.tasks]
    summary = [[name, *values] for name, values in make_summary_rows(table)]
    return [[header], tasks, summary]


def _markdown(table: AccuracyTable) -> str:
    def format_cell(cell: Cell) -> str:
        mark = "\\*" if cell.transductive else ""
        text = f"{cell.mean:.2f} ± {cell.sd:.2f}{mark}" if cell.repeats else cell.status_text
        text = f"**{text}**" if cell.best else text
        return text if cell.published is None else f"{text} ({cell.published:.2f})"

    sections = _make_sections(table, format_cell, lambda text: text.translate(MARKDOWN_ESCAPES))
    header, *lines = (f"| {' | '.join(row)} |" for section in sections for row in section)
    notes = [f"- {note}".replace("- *", "- \\*") for note in _notes(table)]
    rule = "|---" * (1 + len(table.methods)) + "|"
    return "\n".join([header, rule, *lines, *([""] if notes else []), *notes]) + "\n"


def _latex(table: AccuracyTable) -> str:
    def format_cell(cell: Cell) -> str:
        published = "" if cell.published is None else f" ({cell.published:.2f})"
        if not cell.repeats:
            return f"{cell.status_text}{published}"
        body = f"{cell.mean:.2f} \\pm {cell.sd:.2f}"
        body = f"\\mathbf{{{body}}}" if cell.best else body
        return f"${body}{'^*' if cell.transductive else ''}${published}"

    lines = [f"\\begin{{tabular}}{{l{'c' * len(table.methods)}}}", "\\hline"]
    sections = _make_sections(table, format_cell, lambda text: text.translate(LATEX_ESCAPES).replace("->", "$\\to$"))
    for section in sections:
        lines += [" & ".join(row) + " \\\\" for row in section]
        lines.append("\\hline")
    return "\n".join([*lines, "\\end{tabular}", *(f"% {note}" for note in _notes(table))]) + "\n"


def _notes(table: AccuracyTable) -> Iterator[str]:
    if any(cell.transductive for cell in table.cells.values()):
        yield "* transductive: centered on unlabeled target data."
    if any(cell.published is not None for cell in table.cells.values()):
        yield f"In parentheses: {table.published_label}."
    for method in table.methods:
        cells = [table.cells[task, method] for task in table.tasks]
        failed = [cell for cell in cells if cell.failed]
        if failed:
            reason = " ".join(failed[0].failed.split())
            yield f"{method} {failed[0].status_text} in {len(failed)} of {len(table.tasks)} tasks: {reason}"


def to_records(table: AccuracyTable) -> list[dict[str, Any]]:
    """Return one dict for each task and method."""
    return [{"task": t, "method": m, **asdict(table.cells[t, m])} for t in table.tasks for m in table.methods]


def _csv(table: AccuracyTable) -> str:
    records = to_records(table)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()


def _json(table: AccuracyTable) -> str:
    summary = {"mean": table.means(), "mean_rank": table.ranks(), "wins": table.wins()}
    text = json.dumps({"cells": to_records(table), "summary": summary})
    # Python writes NaN, which is not JSON. The second pass converts it to null.
    return json.dumps(json.loads(text, parse_constant=lambda _: None), indent=2, allow_nan=False) + "\n"
