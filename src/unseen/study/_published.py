"""What the CIDG paper prints, for comparison."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from importlib.resources import files

from ._tasks import Task


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
    methods = dict.fromkeys(method for *_, method in printed)
    found = {}
    for task in tasks:
        sources, targets = (frozenset(name[0].upper() for name in names) for names in (task.sources, task.targets))
        for method in methods:
            if (sources, targets, method) in printed:
                found[task.name, method] = printed[sources, targets, method]
    return found
