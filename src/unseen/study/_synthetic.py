"""The paper's synthetic experiment, under three ways to choose the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import delayed  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils import check_array

from ..datasets import make_synthetic
from ..estimators import CIDG, parallel
from ..linalg import Array
from ..model_selection import METHODS, TIE_TOLERANCE, Method, WithinDomainSplit, single_thread
from ..utils.progress import track
from ..utils.samples import Samples
from ..utils.validation import Labels
from ._method_evaluation import Problem
from ._run import result_rows
from ._store import Row

Draw = tuple[Array, Labels, Labels]  # samples, classes and domains
Grid = dict[str, list[Any]]

CHOSEN_BY = ("within the sources", "a held-out domain", "the target (oracle)")
SYNTHETIC_METHODS = ("1NN", "KPCA", "KFDA", "DICA", "SCA", "CIDG", "MDA", "CIDG as printed")
SOURCES, TARGET, HELD_OUT = ("domain 1", "domain 2"), "domain 3", "validation"

# The target lies beyond the sources, where a narrow kernel sees nothing: only widths that span the domains make sense.
WIDTHS = ["0.003*median", "0.01*median", "0.03*median"]
RIDGES = ["1e-4*scale", "1e-2*scale", "scale", "100*scale"]
WEIGHTS = [0, 1e3, 1e4, 1e5, 1e6]
FINE_WEIGHTS = [0, 1, 10, 1e2, 1e3, 1e4, 1e5, 1e6]
COMMON: Grid = {"gamma": WIDTHS, "ridge": RIDGES}
OURS: Grid = {**COMMON, "conditional_weight": WEIGHTS, "prior_weight": WEIGHTS}
CIDG_GRIDS: dict[str, Grid] = {
    "ours": OURS,
    "fine": {**OURS, "conditional_weight": FINE_WEIGHTS, "prior_weight": FINE_WEIGHTS},
    # Of the authors' program, whose kernel is exp(-d² / (2 sigma²)).
    "authors": {
        "gamma": [0.5 / 10.0 ** (2 * k) for k in range(-3, 4)],
        "ridge": [1e-5],
        "conditional_weight": [10.0**k for k in range(-3, 7)],
        "prior_weight": [10.0**k for k in range(10)],
    },
}
GRIDS: dict[str, Grid] = {
    "KFDA": COMMON,
    "DICA": {**COMMON, "output_ridge": [1e-3, 1.0]},
    "SCA": {**COMMON, "between_weight": [0.5, 0.9], "domain_weight": [1, 1e2, 1e4], "n_components": [2, 4]},
    "MDA": {**COMMON, "conditional_weight": FINE_WEIGHTS[::2], "within_weight": [1.0, 1e2]},
}


def synthetic_methods(grid: str) -> dict[str, Method]:
    """The methods with grids for these data; CIDG as its authors' code has it, and as the paper prints it."""
    table = {name: replace(METHODS[name], grid=own, component_multiples=()) for name, own in GRIDS.items()}
    own = replace(METHODS["CIDG"], grid=CIDG_GRIDS[grid])
    # The authors' code has a penalty on the RKHS norm and unit columns.
    released = replace(own, transformer=CIDG(norm_weight=1, scaling="unit_norm"))
    return {**METHODS, **table, "CIDG": released, "CIDG as printed": replace(own, name="CIDG as printed")}


def fresh_draw(seed: int) -> Draw:
    """A draw of the data, with a validation domain."""
    data = make_synthetic(validation_domain=True, random_state=seed)
    return data.data, data.target, data.domain


def check_draw(X: Array, y: Labels, domain: Labels) -> Draw:
    """Refuse what is no draw of the paper's data: two features, three classes, two sources, a target, a validation."""
    X = check_array(X, input_name="X")
    domains, wanted = sorted(set(domain.tolist())), [*SOURCES, TARGET, HELD_OUT]
    if X.shape[1] != 2 or len(set(y.tolist())) != 3 or domains != wanted:
        raise ValueError(
            f"A draw of the synthetic data has 2 features, 3 classes and the domains {', '.join(wanted)}; this one has "
            f"{X.shape[1]}, {len(set(y.tolist()))} and {', '.join(domains)}. Rename the domains, or use unseen compare."
        )
    return X, y, domain


def synthetic_problem(draw: Draw, chosen_by: str, *, grid: str = "ours", seed: int = 0, quick: bool = False) -> Problem:
    """Train on domains 1 and 2, test on domain 3, and choose as asked."""
    samples = Samples(*draw)
    y, domain = samples.y, samples.domain
    *parts, target, held_out = (np.flatnonzero(domain == name) for name in (*SOURCES, TARGET, HELD_OUT))
    source = np.concatenate(parts)
    within = WithinDomainSplit(0.7, n_splits=1, random_state=seed).split(source, y[source], domain[source])
    splits = {
        "within the sources": [(source[a], source[b]) for a, b in within],
        "a held-out domain": [(source, held_out)],
        "the target (oracle)": [(source, target)],
    }[chosen_by]
    return Problem(samples, source, target, splits, quick=quick, methods=synthetic_methods(grid))


def ties(method: str, problem: Problem) -> Array:
    """Accuracies on the target of the settings that share the best score on the first split: luck lies among them."""
    candidates, splits = problem.candidates(method), [problem.splits[0], (problem.train, problem.test)]
    chosen, target = problem.scores(candidates, splits)["scores"].T
    return target[chosen >= chosen.max() - TIE_TOLERANCE]


def run_synthetic(
    draws: Sequence[Draw], *, grid: str = "ours", quick: bool = False, n_jobs: int | None = None, verbose: int = 0
) -> list[Row]:
    """Repeat the experiment on several draws; the task of a row says who chose its settings.

    The draws have the domains of the paper and a validation domain; `grid`, of CIDG_GRIDS, is what CIDG chooses from.
    """
    units = [(draw, chosen_by, seed) for seed, draw in enumerate(draws) for chosen_by in CHOSEN_BY]
    found = parallel(n_jobs)(delayed(_run)(*unit, grid, quick) for unit in units)
    return [row for rows in track(found, len(units), "synthetic", verbose) for row in rows]


def _run(draw: Draw, chosen_by: str, seed: int, grid: str, quick: bool) -> list[Row]:
    problem = synthetic_problem(draw, chosen_by, grid=grid, seed=seed, quick=quick)
    with single_thread():
        return [row for row, _ in result_rows(SYNTHETIC_METHODS, problem, chosen_by, seed, seed)]
