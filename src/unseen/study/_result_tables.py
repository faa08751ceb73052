"""Tables of a comparison: tasks by methods, with ranks and wins, in the formats people paste."""

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

DIGITS = 9  # means of the same accuracies may differ by rounding
MARKDOWN = str.maketrans({mark: f"\\{mark}" for mark in "\\|*_`<"})
LATEX = str.maketrans(
    {mark: f"\\{mark}" for mark in "_&%#${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


@dataclass(frozen=True)
class Cell:
    """One method on one task: mean and standard deviation over repeats, in percent, and what the paper prints."""

    mean: float
    sd: float
    repeats: int
    transductive: bool
    best: bool = False
    published: float | None = None
    failed: str = ""
    skipped: bool = False

    @property
    def word(self) -> str:
        """What stands where there is no accuracy."""
        return "skipped" if self.skipped else "failed" if self.failed else "undefined"


@dataclass(frozen=True)
class AccuracyTable:
    """Cells by task and method, and how the methods compare over all tasks."""

    tasks: list[str]
    methods: list[str]
    cells: dict[tuple[str, str], Cell]
    printed: str = "the paper's figure"

    def means(self) -> dict[str, float]:
        """Mean over tasks of each method; NaN if it failed on one, while tasks without a score are left out."""
        found = {m: [c.mean for t in self.tasks if (c := self.cells[t, m]).repeats or c.failed] for m in self.methods}
        return {m: float(np.mean(values or [np.nan])) for m, values in found.items()}

    def ranks(self) -> dict[str, float]:
        """Mean rank of each method over tasks; 1 is best, and equals share."""
        matrix = np.array([[self.cells[t, m].mean for m in self.methods] for t in self.tasks])
        matrix = np.nan_to_num(matrix.round(DIGITS), nan=-np.inf)  # what failed comes last
        return dict(zip(self.methods, rankdata(-matrix, axis=1).mean(axis=0).tolist(), strict=True))

    def wins(self) -> dict[str, int]:
        """On how many tasks each method is best."""
        return {m: sum(self.cells[t, m].best for t in self.tasks) for m in self.methods}

    def text(self, format: str) -> str:
        """Return the table as markdown, latex, csv or json."""
        writers = {"markdown": _markdown, "latex": _latex, "csv": _csv, "json": _json}
        if format not in writers:
            raise ValueError(f"format must be one of {', '.join(writers)}; got {format!r}.")
        return writers[format](self)


def defined(row: Row) -> bool:
    """Whether a row has a score; some metrics have none where a class is missing."""
    return row.accuracy is not None and bool(np.isfinite(row.accuracy))


def accuracy_table(
    rows: Sequence[Row],
    published: dict[tuple[str, str], float] | None = None,
    printed: str = AccuracyTable.printed,
    share: bool = True,
) -> AccuracyTable:
    """Summarize rows, in percent if their scores are shares.

    `published` maps (task, method) to the paper's figure, and `printed` says what that is.
    """
    if not rows:
        raise ValueError("There are no rows to tabulate.")
    tasks = list(dict.fromkeys(row.task for row in rows))
    present = dict.fromkeys(row.method for row in rows)
    methods = [m for m in METHODS if m in present] + [m for m in present if m not in METHODS]
    cells, factor = {}, 100 if share else 1
    for task in tasks:
        found = {m: [r for r in rows if r.task == task and r.method == m] for m in methods}
        means = {m: np.mean([r.accuracy for r in f if defined(r)] or [np.nan]) for m, f in found.items()}
        top = np.fmax.reduce(list(means.values()))  # of those that did not fail
        for method, own in found.items():
            values = [factor * r.accuracy for r in own if r.accuracy is not None and defined(r)]
            cells[task, method] = Cell(
                float(factor * means[method]),
                float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
                len(values),
                any(r.transductive for r in own),
                bool(means[method] >= top - 10.0**-DIGITS),
                (published or {}).get((task, method)),
                next((r.reason for r in own if r.status != "ok"), "" if own else "there is no result"),
                any(r.status == "skipped" for r in own),
            )
    return AccuracyTable(tasks, methods, cells, printed)


def published(data: str, tasks: Sequence[Task]) -> dict[tuple[str, str], float]:
    """Printed accuracies of a data set, "office-caltech" or "vlcs", by task name and method.

    The paper names domains by their initials, in an order of its own.
    """
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    printed = {
        (frozenset(row["source"]), frozenset(row["target"]), row["method"]): float(row["accuracy"])
        for row in csv.DictReader(text.splitlines())
        if row["data"] == data
    }
    found: dict[tuple[str, str], float] = {}
    for task in tasks:
        sides = [frozenset(name[0].upper() for name in names) for names in (task.sources, task.targets)]
        found |= {(task.name, method): value for (*at, method), value in printed.items() if at == sides}
    return found


def summary_lines(table: AccuracyTable) -> list[tuple[str, list[str]]]:
    """Rows below the tasks: mean, mean rank, wins."""
    return [
        ("mean", [f"{v:.2f}" if np.isfinite(v) else "failed" for v in table.means().values()]),
        ("mean rank", [f"{v:.1f}" for v in table.ranks().values()]),
        ("wins", [str(v) for v in table.wins().values()]),
    ]


def _grid(table: AccuracyTable, entry: Callable[[Cell], str], escaped: Callable[[str], str]) -> list[list[list[str]]]:
    """The names of the columns, the rows of tasks and the rows below them, as texts."""
    tasks = [[escaped(task), *(entry(table.cells[task, m]) for m in table.methods)] for task in table.tasks]
    below = [[name, *values] for name, values in summary_lines(table)]
    return [[["Task", *map(escaped, table.methods)]], tasks, below]


def _markdown(table: AccuracyTable) -> str:
    def entry(cell: Cell) -> str:
        mark = "\\*" if cell.transductive else ""
        text = f"{cell.mean:.2f} ± {cell.sd:.2f}{mark}" if cell.repeats else cell.word
        text = f"**{text}**" if cell.best else text
        return text if cell.published is None else f"{text} ({cell.published:.2f})"

    parts = _grid(table, entry, lambda text: text.translate(MARKDOWN))
    head, *lines = (f"| {' | '.join(row)} |" for part in parts for row in part)
    notes = [f"- {note}".replace("- *", "- \\*") for note in _notes(table)]
    rule = "|---" * (1 + len(table.methods)) + "|"
    return "\n".join([head, rule, *lines, *([""] if notes else []), *notes]) + "\n"


def _latex(table: AccuracyTable) -> str:
    def entry(cell: Cell) -> str:
        printed = "" if cell.published is None else f" ({cell.published:.2f})"
        if not cell.repeats:
            return f"{cell.word}{printed}"
        body = f"{cell.mean:.2f} \\pm {cell.sd:.2f}"
        body = f"\\mathbf{{{body}}}" if cell.best else body
        return f"${body}{'^*' if cell.transductive else ''}${printed}"

    lines = [f"\\begin{{tabular}}{{l{'c' * len(table.methods)}}}", "\\hline"]
    for part in _grid(table, entry, lambda text: text.translate(LATEX).replace("->", "$\\to$")):
        lines += [*(" & ".join(row) + " \\\\" for row in part), "\\hline"]
    return "\n".join([*lines, "\\end{tabular}", *(f"% {note}" for note in _notes(table))]) + "\n"


def _notes(table: AccuracyTable) -> Iterator[str]:
    if any(cell.transductive for cell in table.cells.values()):
        yield "* transductive: centered on unlabeled target data."
    if any(cell.published is not None for cell in table.cells.values()):
        yield f"In parentheses: {table.printed}."
    for method in table.methods:
        failed = [cell for task in table.tasks if (cell := table.cells[task, method]).failed]
        if failed:
            reason = " ".join(failed[0].failed.split())
            yield f"{method} {failed[0].word} in {len(failed)} of {len(table.tasks)} tasks: {reason}"


def records(table: AccuracyTable) -> list[dict[str, Any]]:
    """One plain dict for each task and method."""
    return [{"task": t, "method": m, **asdict(table.cells[t, m])} for t in table.tasks for m in table.methods]


def _csv(table: AccuracyTable) -> str:
    found, buffer = records(table), io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return buffer.getvalue()


def _json(table: AccuracyTable) -> str:
    summary = {"mean": table.means(), "mean_rank": table.ranks(), "wins": table.wins()}
    text = json.dumps({"cells": records(table), "summary": summary})
    # JSON has no NaN, though Python writes and reads it: what could not be computed is null.
    return json.dumps(json.loads(text, parse_constant=lambda _: None), indent=2, allow_nan=False) + "\n"
