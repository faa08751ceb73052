"""A comparison as plain values: the one source of the printed table, ``--json`` and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..kernels import Plan
from ..labels import encode_domains
from ..models import machine_facts
from ..selection import METHODS
from ..tables import Table, preprocessor
from ._pictures import embedding_facts, showpiece, surface_facts
from ._protocol import Protocol
from ._run import problem_of
from ._store import Row
from ._tables import Cell, accuracy_table
from ._tasks import Task
from ._verdict import Interval, Verdict

VERSIONS = ("unseen", "python", "numpy", "scipy", "scikit-learn")


def data_facts(table: Table) -> dict[str, Any]:
    """Sizes, classes, and who has how many of which."""
    samples = table.samples
    counts = dict(zip(encode_domains(samples.domain)[0].tolist(), samples.counts().tolist(), strict=True))
    names = dict.fromkeys(samples.domain.tolist())  # in the order of the table
    return {
        "name": table.name,
        "n_samples": len(samples),
        "n_features": samples.X.shape[1],
        "classes": [str(label) for label in samples.classes],
        "domains": [{"name": name, "n": sum(counts[name]), "counts": counts[name]} for name in names],
        "notices": list(table.notices),
    }


def verdict_facts(verdict: Verdict) -> dict[str, Any]:
    """The verdict, in percentage points and in words."""
    return {
        "decision": verdict.decision,
        "headline": verdict.headline,
        "sentences": verdict.sentences,
        **_points(verdict.interval),
        "level": 0.95,
        "per_domain": [
            {"domain": d.domain, "invariant": d.invariant, "plain": d.plain, **_points(d.interval)}
            for d in verdict.per_domain
        ],
    }


def _points(interval: Interval | None) -> dict[str, Any]:
    return {name: interval and round(getattr(interval, name), 3) for name in ("difference", "low", "high")}


def method_facts(rows: Sequence[Row], tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Each method's accuracies in percent: mean and sd over repeats on each domain, then over domains."""
    table, records = accuracy_table(rows), []
    for method in table.methods:
        cells = {task.targets[0]: table.cells[task.name, method] for task in tasks}
        means = [cell.mean for cell in cells.values() if cell.repeats]
        complete = len(means) == len(cells)
        records.append(
            {
                "name": method,
                "kind": METHODS[method].kind if method in METHODS else "reference",
                "transductive": any(cell.transductive for cell in cells.values()),
                "mean": round(float(np.mean(means)), 3) if complete else None,
                "sd": round(float(np.std(means, ddof=1)), 3) if complete and len(means) > 1 else None,
                "seconds": round(sum(row.seconds for row in rows if row.method == method), 3),
                "failed": next((cell.failed for cell in cells.values() if cell.failed), ""),
                "skipped": any(cell.skipped for cell in cells.values()),
                "accuracies": {name: _accuracy(cell) for name, cell in cells.items()},
            }
        )
    return records


def _accuracy(cell: Cell) -> dict[str, float | None] | None:
    if not cell.repeats:
        return None
    return {"mean": round(cell.mean, 3), "sd": round(cell.sd, 3) if cell.repeats > 1 else None}


def views(rows: Sequence[Row], table: Table, tasks: Sequence[Task], how: Protocol) -> dict[str, Any]:
    """The embedding and the validation surface of the row worth looking at, if there is one."""
    row = showpiece(rows)
    if row is None:
        return {"embedding": None, "surface": None}
    task = next(task for task in tasks if task.name == row.task)
    samples, prepare = table.samples, preprocessor(table.schema, how.preprocess)
    problem = problem_of(samples, task, row.repeat, how, prepare)
    plan = Plan.of(len(problem.train) + len(problem.test))
    if not plan.exact:  # a picture needs no more, and draws exact kernels
        problem = problem.thinned(plan.choice_rows)
    numbers = table.rows[np.concatenate([problem.train, problem.test])] + 1
    return {
        "embedding": embedding_facts(problem, row, numbers, list(map(str, samples.classes)), how.seed),
        "surface": surface_facts(problem, row, how.chooses(len(task.sources))),
    }


def settings_facts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What each method chose on each held-out domain."""
    told = ("repeat", "method", "settings", "ties")
    return [
        {"domain": ", ".join(row.accuracies), **{name: getattr(row, name) for name in told}}
        for row in rows
        if row.status == "ok"
    ]


def provenance(protocol: Protocol, command: str, seconds: float) -> dict[str, Any]:
    """How it was made."""
    facts = machine_facts()
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(seconds, 1),
        "seed": protocol.seed,
        "protocol": {name: value for name, value in asdict(protocol).items() if name != "seed"},
        "versions": {name: facts[name] for name in VERSIONS},
        "machine": {name: value for name, value in facts.items() if name not in VERSIONS},
    }
