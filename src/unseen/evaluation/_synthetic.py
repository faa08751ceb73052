"""The synthetic experiment of the paper, with three validation schemes that select the settings."""

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

Draw = tuple[Array, Labels, Labels]  # samples, classes and domains of one random draw
Grid = dict[str, list[Any]]

CHOSEN_BY = ("within the sources", "a held-out domain", "the target (oracle)")
SYNTHETIC_METHODS = ("1-NN", "KPCA", "KFDA", "DICA", "SCA", "CIDG", "MDA", "CIDG as printed")
SOURCE_DOMAINS = ("domain 1", "domain 2")
TARGET_DOMAIN = "domain 3"
VALIDATION_DOMAIN = "validation"

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


def make_synthetic_methods(grid: str) -> dict[str, Method]:
    """Return the methods with grids for these data, with CIDG as in its authors' code and as printed in the paper."""
    methods = {
        name: replace(METHODS[name], grid=method_grid, component_multiples=()) for name, method_grid in GRIDS.items()
    }
    printed = replace(METHODS["CIDG"], grid=CIDG_GRIDS[grid])
    # The authors' code has a penalty on the RKHS norm and unit columns.
    released = replace(printed, transformer=CIDG(norm_weight=1, scaling="unit_norm"))
    return {**METHODS, **methods, "CIDG": released, "CIDG as printed": replace(printed, name="CIDG as printed")}


def draw_synthetic(seed: int) -> Draw:
    """Draw the synthetic data, with a validation domain."""
    data = make_synthetic(validation_domain=True, random_state=seed)
    return data.data, data.target, data.domain


def check_draw(X: Array, y: Labels, domain: Labels) -> Draw:
    """Raise ValueError if the data do not have the features, classes and domains of the synthetic data."""
    X = check_array(X, input_name="X")
    n_classes = len(set(y.tolist()))
    domains = sorted(set(domain.tolist()))
    expected_domains = [*SOURCE_DOMAINS, TARGET_DOMAIN, VALIDATION_DOMAIN]
    if X.shape[1] != 2 or n_classes != 3 or domains != expected_domains:
        raise ValueError(
            f"A draw of the synthetic data has 2 features, 3 classes and the domains {', '.join(expected_domains)}; "
            f"this one has {X.shape[1]}, {n_classes} and {', '.join(domains)}. Rename the domains, or use "
            "unseen.compare."
        )
    return X, y, domain


def make_synthetic_problem(
    draw: Draw, chosen_by: str, *, grid: str = "ours", seed: int = 0, quick: bool = False
) -> Problem:
    """Make the problem that trains on domains 1 and 2, tests on domain 3, and selects settings by `chosen_by`."""
    X, y, domain = draw
    samples = Samples(X, y, domain)
    source = np.concatenate([np.flatnonzero(domain == name) for name in SOURCE_DOMAINS])
    target = np.flatnonzero(domain == TARGET_DOMAIN)
    validation = np.flatnonzero(domain == VALIDATION_DOMAIN)
    within = WithinDomainSplit(0.7, n_splits=1, random_state=seed).split(source, y[source], domain[source])
    splits = {
        "within the sources": [(source[a], source[b]) for a, b in within],
        "a held-out domain": [(source, validation)],
        "the target (oracle)": [(source, target)],
    }[chosen_by]
    return Problem(samples, source, target, splits, quick=quick, methods=make_synthetic_methods(grid))


def tied_target_accuracies(method: str, problem: Problem) -> Array:
    """Return the target accuracies of the settings with the best score on the first split, which are tied."""
    candidates = problem.candidates(method)
    splits = [problem.splits[0], (problem.train, problem.test)]
    validation_scores, target_scores = problem.scores(candidates, splits)["scores"].T
    return target_scores[validation_scores >= validation_scores.max() - TIE_TOLERANCE]


def run_synthetic(
    draws: Sequence[Draw],
    *,
    selections: Sequence[str] = CHOSEN_BY,
    grid: str = "ours",
    quick: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> list[Row]:
    """Repeat the experiment on several draws; the task of a row is the validation that selected its settings.

    The draws have the domains of the paper and a validation domain; `grid` is the key of the CIDG grid in CIDG_GRIDS.
    """
    jobs = [
        delayed(_run_draw)(draw, chosen_by, seed, grid, quick)
        for seed, draw in enumerate(draws)
        for chosen_by in selections
    ]
    results = parallel(n_jobs)(jobs)
    return [row for rows in track(results, len(jobs), "synthetic", verbose) for row in rows]


def _run_draw(draw: Draw, chosen_by: str, seed: int, grid: str, quick: bool) -> list[Row]:
    problem = make_synthetic_problem(draw, chosen_by, grid=grid, seed=seed, quick=quick)
    with single_thread():
        return [result.row for result in result_rows(SYNTHETIC_METHODS, problem, chosen_by, seed, seed)]
