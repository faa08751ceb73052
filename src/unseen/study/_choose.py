"""Choosing the settings of every method on given splits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.neighbors import KNeighborsClassifier

from ..algebra import Array
from ..labels import Samples
from ..selection import TIE, Candidate, preferred, score_candidates, tabulate
from ._methods import TUNED, Problem, Settings

EXPECTED = (ValueError, ArithmeticError, np.linalg.LinAlgError)  # what unfit data or settings may raise


@dataclass(frozen=True)
class Choice:
    """The settings of a method, their score, and how many others had the same one."""

    settings: Settings
    validation: float
    ties: int
    seconds: float


def choose(methods: Sequence[str], problem: Problem) -> Iterator[tuple[str, Choice | str]]:
    """The choice of each method, or the reason why there is none."""
    projections = [method for method in methods if problem.projects(method)]
    if projections:
        yield from _projections(projections, problem)
    for method in methods:
        if method not in projections:
            try:
                yield method, _tuned(method, problem)
            except EXPECTED as error:
                yield method, explained(error)


def explained(error: Exception) -> str:
    """What goes into the table."""
    return f"{type(error).__name__}: {error}"


def _projections(methods: list[str], problem: Problem) -> Iterator[tuple[str, Choice | str]]:
    """All projections with 1-NN, in one pass over the decompositions that they share."""
    start = time.perf_counter()
    one_nn = KNeighborsClassifier(n_neighbors=1)
    candidates: list[Candidate] = []
    owners: list[tuple[str, Settings]] = []
    for method in methods:
        estimator, grid = problem.projection(method)
        for setting in ParameterGrid(grid):
            projection = clone(estimator).set_params(centering=problem.centering, **setting)
            candidates.append(Candidate(len(candidates), projection, one_nn))
            owners.append((method, setting))
    scores = score_candidates(candidates, Samples(problem.X, problem.y, problem.domain), problem.splits, "accuracy")
    results = tabulate(candidates, [setting for _, setting in owners], scores)
    seconds = (time.perf_counter() - start) / len(methods)
    for method in methods:
        among = np.array([owner == method for owner, _ in owners])
        means = results["mean_test_score"]
        if not np.isfinite(means[among]).any():
            reason = next(s.error for split in scores for s in split if among[s.index] and s.error)
            yield method, f"ValueError: {reason}"
            continue
        best = preferred(results, among)
        yield method, Choice(owners[best][1], float(means[best]), _ties(means[among]), seconds)


def _tuned(method: str, problem: Problem) -> Choice:
    """A method that is fitted anew for every setting."""
    start = time.perf_counter()
    settings, score, build = TUNED[method]
    grid = list(ParameterGrid(settings))
    grid = grid[:: max(1, len(grid) - 1)] if problem.quick else grid  # the two ends
    means = np.mean([score(build, grid, problem, *split) for split in problem.splits], axis=0)
    return Choice(grid[int(np.argmax(means))], float(means.max()), _ties(means), time.perf_counter() - start)


def _ties(means: Array) -> int:
    """How many settings share the best mean, besides the chosen one."""
    return int(np.sum(means >= np.nanmax(means) - TIE)) - 1
