"""The paper's synthetic experiment, under three ways to choose the settings."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.parallel import delayed

from ..datasets import make_synthetic
from ..estimators import CIDG, DICA, KFDA, MDA, SCA, Projection, processes
from ..models import machine_facts
from ..progress import track
from ..selection import WithinDomainSplit
from ._methods import Problem
from ._outcomes import outcomes
from ._run import as_row
from ._store import Row

CHOSEN_BY = ("within the sources", "a held-out domain", "the target (oracle)")
SYNTHETIC_METHODS = ("1NN", "KPCA", "KFDA", "DICA", "SCA", "CIDG", "MDA")

# The target lies beyond the sources, where a narrow kernel sees nothing: only widths that span the domains make sense.
WIDTHS = ["0.003*median", "0.01*median", "0.03*median"]
RIDGES = ["1e-4*scale", "1e-2*scale", "scale", "100*scale"]
WEIGHTS = [0, 1, 10, 1e2, 1e3, 1e4, 1e5, 1e6]
GRIDS: dict[str, tuple[Projection, dict[str, list[Any]]]] = {
    # As the authors' code has it: a penalty on the RKHS norm and unit columns.
    "CIDG": (
        CIDG(norm_weight=1, scaling="unit_norm"),
        {"gamma": WIDTHS, "ridge": RIDGES, "conditional_weight": WEIGHTS, "prior_weight": WEIGHTS},
    ),
    "KFDA": (KFDA(), {"gamma": WIDTHS, "ridge": RIDGES}),
    "DICA": (DICA(), {"gamma": WIDTHS, "ridge": RIDGES, "output_ridge": [1e-3, 1.0]}),
    "SCA": (
        SCA(),
        {
            "gamma": WIDTHS,
            "ridge": RIDGES,
            "between_weight": [0.5, 0.9],
            "domain_weight": [1, 1e2, 1e4],
            "n_components": [2, 4],
        },
    ),
    "MDA": (
        MDA(),
        {"gamma": WIDTHS, "ridge": RIDGES, "conditional_weight": WEIGHTS[::2], "within_weight": [1.0, 1e2]},
    ),
}


def synthetic_problem(seed: int, chosen_by: str, quick: bool = False) -> Problem:
    """Train on domains 1 and 2, test on domain 3, and choose as asked."""
    data = make_synthetic(validation_domain=True, random_state=seed)
    order = np.argsort([data.domain_names.index(name) for name in data.domain], kind="stable")
    X, y, domain = data.data[order], data.target[order], data.domain[order]
    source, target, held_out = (
        np.flatnonzero(np.isin(domain, names)) for names in (["domain 1", "domain 2"], ["domain 3"], ["validation"])
    )
    splits = {
        "within the sources": list(
            WithinDomainSplit(0.7, n_splits=1, random_state=seed).split(source, y[source], domain[source])
        ),
        "a held-out domain": [(source, held_out)],
        "the target (oracle)": [(source, target)],
    }[chosen_by]
    train, test = slice(0, len(source)), slice(len(source), len(source) + len(target))
    return Problem(X, y, domain, train, test, splits, quick=quick, grids=GRIDS)


def run_synthetic(seeds: int = 10, *, quick: bool = False, n_jobs: int | None = None, verbose: int = 0) -> list[Row]:
    """Repeat the experiment on several draws; the task of a row says who chose its settings.

    Parameters
    ----------
    seeds : int, default=10
        Number of draws.
    quick : bool, default=False
        Small grids, for a smoke test.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    rows : list of Row
        One for each draw, way of choosing and method.
    """
    units = [(seed, chosen_by) for seed in range(seeds) for chosen_by in CHOSEN_BY]
    found = processes(n_jobs)(delayed(_run)(seed, chosen_by, quick) for seed, chosen_by in units)
    return [row for rows in track(found, len(units), "synthetic", verbose) for row in rows]


def _run(seed: int, chosen_by: str, quick: bool) -> list[Row]:
    problem = synthetic_problem(seed, chosen_by, quick)
    facts = machine_facts()
    return [as_row(o, problem, chosen_by, seed, seed, facts) for o in outcomes(SYNTHETIC_METHODS, problem)]
