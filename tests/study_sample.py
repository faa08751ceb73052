"""A small problem of four domains for the study engine, and how the tests run it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from helpers import three_domains
from unseen.evaluation import Protocol, Task, run
from unseen.evaluation._run import make_problem
from unseen.model_selection import method_names
from unseen.utils.samples import Samples

METHODS = method_names(in_comparison=True)
PROJECTIONS = method_names(is_projection=True)
X, Y, CODES = three_domains(n_per_cell=7, n_domains=4, seed=3)
D = np.array(["a", "b", "c", "d"])[CODES]
SAMPLES = Samples(X, Y, D)
PAIR = Task(("a", "b"), ("c", "d"))
QUICK = Protocol(repeats=2, quick=True)
ONCE = replace(QUICK, repeats=1)
FEW = ["1-NN", "KFDA", "logistic"]


def facts(rows):
    """What must not depend on how often, in how many processes or when a study ran."""
    return {(r.task, r.repeat, r.method): (r.accuracy, r.accuracies, r.settings, r.ties, r.status) for r in rows}


def problem(protocol, task=PAIR, y=Y):
    return make_problem(Samples(X, y, D), task, 0, protocol)


def study(tmp_path, protocol=QUICK, methods=FEW, todo=(PAIR,), data=(X, Y, D), name="results.sqlite", **options):
    return run(*data, todo, store=tmp_path / name, protocol=protocol, methods=methods, **options)
