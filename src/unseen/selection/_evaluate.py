"""Scoring a grid of settings on one fold, computing each thing once: kernel, decomposition, solution, projection."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring
from sklearn.utils.parallel import delayed
from threadpoolctl import ThreadpoolController

from ..algebra import Ints
from ..estimators import Projection, processes
from ..exceptions import FewerComponentsWarning
from ..kernels import squared_distances
from ..labels import Samples
from ..progress import track
from ._folds import KERNEL_PARAMS, SHAPE_PARAMS, Fold, Grams, Source, solution_params
from ._nearest import is_one_nearest, nearest

Scorer = Callable[[Any, Any, Any], float]
BLAS_THREADS = ThreadpoolController()


@dataclass(frozen=True)
class Candidate:
    """One setting of the grid: a projection and a classifier."""

    index: int
    projection: Projection
    classifier: BaseEstimator


@dataclass(frozen=True)
class Score:
    """What a candidate reached on a fold; `error` says why where it reached nothing."""

    index: int
    value: float
    fit_seconds: float
    score_seconds: float
    n_components: int = 0
    ridge: float = np.nan
    weight: float = np.nan
    error: str = ""


def grouped(candidates: list[Candidate], names: Callable[[Projection], tuple[str, ...]]) -> list[list[Candidate]]:
    """Collect the candidates whose projections agree on the named parameters."""
    groups: dict[tuple[Any, ...], list[Candidate]] = {}
    for candidate in candidates:
        values = [getattr(candidate.projection, name) for name in names(candidate.projection)]
        groups.setdefault(tuple(map(as_key, values)), []).append(candidate)
    return list(groups.values())


def as_key(value: Any) -> Any:
    """A value by which to tell parameters apart; what cannot be hashed is told by its identity."""
    return value if value.__hash__ else id(value)


def score_candidates(
    candidates: list[Candidate],
    data: Samples,
    splits: list[tuple[Ints, Ints]],
    scoring: str | Scorer,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
    name: str = "",
    owner: Any = None,
) -> list[list[Score]]:
    """Score all candidates, one list for each split; a task is one kernel on one split, whatever the methods."""
    scorer = check_scoring(candidates[0].classifier, scoring=scoring)
    groups = grouped(candidates, lambda _: KERNEL_PARAMS)
    sources = _sources([group[0].projection for group in groups], data)
    tasks = [(group, k) for group in range(len(groups)) for k in range(len(splits))]
    found = processes(n_jobs, pre_dispatch="n_jobs")(
        delayed(score_fold)(groups[group], sources(group), *splits[k], scorer, scoring == "accuracy")
        for group, k in tasks
    )
    scores: list[list[Score]] = [[] for _ in splits]
    for (_, k), result in zip(tasks, track(found, len(tasks), name, verbose, owner), strict=True):
        scores[k] += result
    return scores


def score_fold(
    candidates: list[Candidate], source: Source, train: Ints, test: Ints, scorer: Scorer, accuracy: bool
) -> list[Score]:
    """Score on one fold all candidates that share its decomposition."""
    start = time.perf_counter()
    try:
        fold = source.fold(train, test)
    except (ValueError, np.linalg.LinAlgError) as error:
        return [Score(c.index, np.nan, 0.0, 0.0, error=str(error)) for c in candidates]
    shared = (time.perf_counter() - start) / len(candidates)
    y_train, y_test = source.samples.y[train], source.samples.y[test]
    with warnings.catch_warnings():
        # A grid may ask for more components than a fold has; the refitted estimator says so if it matters.
        warnings.simplefilter("ignore", FewerComponentsWarning)
        return [
            score
            for group in grouped(candidates, solution_params)
            for score in _score_solution(group, fold, shared, y_train, y_test, scorer, accuracy)
        ]


def correct(model: Any, X: Any, y: Any) -> float:
    """Accuracy, without the checks of scikit-learn's scorer: they take longer than a few predictions."""
    return float(np.mean(model.predict(X) == y))


def _score_solution(
    group: list[Candidate],
    fold: Fold,
    shared: float,
    y_train: Any,
    y_test: Any,
    scorer: Scorer,
    accuracy: bool,
) -> Iterator[Score]:
    start = time.perf_counter()
    first = group[0].projection
    try:
        solution, basis = fold.solve(first)
    except (ValueError, np.linalg.LinAlgError) as error:
        yield from (Score(c.index, np.nan, 0.0, 0.0, error=str(error)) for c in group)
        return
    shared += (time.perf_counter() - start) / len(group)
    ridge, weight = fold.ridge_and_weight(first)
    for alike in grouped(group, lambda _: SHAPE_PARAMS):
        try:
            Z_train, Z_test = fold.project(alike[0].projection, solution, basis)
        except ValueError as error:
            yield from (Score(c.index, np.nan, 0.0, 0.0, error=str(error)) for c in alike)
            continue
        for candidate in alike:
            start = time.perf_counter()
            try:
                if accuracy and is_one_nearest(candidate.classifier):
                    middle = start
                    value = float(np.mean(y_train[nearest(Z_train, Z_test)] == y_test))
                else:
                    with BLAS_THREADS.limit(limits=1):  # a few columns: more threads cost more than they save
                        model = clone(candidate.classifier).fit(Z_train, y_train)
                        middle = time.perf_counter()
                        value = correct(model, Z_test, y_test) if accuracy else float(scorer(model, Z_test, y_test))
            except (ValueError, AttributeError) as error:  # a classifier or scorer that cannot take these data
                yield Score(candidate.index, np.nan, 0.0, 0.0, error=str(error))
                continue
            fit_seconds, score_seconds = shared + middle - start, time.perf_counter() - middle
            yield Score(candidate.index, value, fit_seconds, score_seconds, Z_train.shape[1], ridge, weight)


def _sources(projections: list[Projection], data: Samples) -> Callable[[int], Source]:
    """Sources of folds, made when first asked for; kernels of one family share their Gram matrices."""
    made: dict[int, Source] = {}
    grams: dict[Any, Grams] = {}

    def source(group: int) -> Source:
        if group not in made:
            made.clear()
            projection = projections[group]
            shared = None
            if projection.feature_map is None:
                family = "rbf" if projection.kernel == "rbf" else group
                if family not in grams:
                    grams.clear()
                    grams[family] = Grams(projection, data.X, lambda: squared_distances(data.X))
                shared = grams[family]
            made[group] = Source(projection, data, shared)
        return made[group]

    return source
