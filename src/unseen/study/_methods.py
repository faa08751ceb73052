"""The methods of a comparison: how each is tuned on given splits, fitted, and asked to predict."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import ParameterGrid
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from ..cells import Array, Ints
from ..exceptions import FewerComponentsWarning, SingleDomainWarning
from ..kernels import median_squared_distance
from ..labels import Labels
from ..projections import CIDG, DICA, KFDA, MDA, SCA
from ..projections._base import Projection
from ..selection._evaluate import Candidate, score_candidates
from ..selection._folds import Data
from ..selection._grids import default_grid
from ..selection._nearest import nearest
from ..selection._results import TIE, preferred, tabulate
from ..undo_bias import UndoBias

Splits = list[tuple[Ints, Ints]]
Settings = dict[str, Any]

PROJECTIONS: dict[str, Projection] = {"KFDA": KFDA(), "DICA": DICA(), "SCA": SCA(), "CIDG": CIDG(), "MDA": MDA()}
COSTS = [0.01, 0.1, 1.0, 10.0, 100.0]
METHODS = ("1NN", "KPCA", "KFDA", "DICA", "Undo-Bias", "SCA", "CIDG", "MDA", "logistic", "linear SVM", "RBF SVM")
# Invariant methods use the domain labels. KFDA is CIDG without them: it tells what centring alone does.
INVARIANT = ("DICA", "Undo-Bias", "SCA", "CIDG", "MDA")
PLAIN = ("1NN", "KPCA", "logistic", "linear SVM", "RBF SVM")
BATCHES = (("1NN", "KPCA"), tuple(PROJECTIONS), ("Undo-Bias",), ("logistic",), ("linear SVM", "RBF SVM"))


@dataclass(frozen=True)
class Outcome:
    """A method's predictions for the targets, and how it came to its settings."""

    method: str
    predictions: Labels
    validation: float
    settings: Settings
    ties: int
    transductive: bool
    seconds: float


@dataclass(frozen=True)
class Problem:
    """Samples to train on and to test on, and the splits that choose settings."""

    X: Array
    y: Labels
    domain: Labels
    train: slice
    test: slice
    splits: Splits
    centering: str = "target"
    quick: bool = False
    grids: dict[str, tuple[Projection, dict[str, list[Any]]]] = field(default_factory=dict)

    def projection(self, method: str) -> tuple[Projection, dict[str, list[Any]]]:
        """A projection and its grid: the problem's own, or the default."""
        default = PROJECTIONS[method]
        estimator, grid = self.grids.get(method) or (default, default_grid(default, len(np.unique(self.y[self.train]))))
        return estimator, {name: values[-2:] for name, values in grid.items()} if self.quick else grid


def outcomes(methods: tuple[str, ...], problem: Problem) -> Iterator[Outcome | tuple[str, str]]:
    """Run some methods; one that fails gives its name and the reason."""
    with warnings.catch_warnings():
        for category in (SingleDomainWarning, FewerComponentsWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)  # expected in small folds, and judged by the scores
        projections = [method for method in methods if method in PROJECTIONS]
        if projections:
            yield from _projections(projections, problem)
        for method in methods:
            if method not in PROJECTIONS:
                try:
                    yield _tuned(method, problem)
                except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
                    yield method, f"{type(error).__name__}: {error}"


def _projections(methods: list[str], problem: Problem) -> Iterator[Outcome | tuple[str, str]]:
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
    codes = [np.unique(labels, return_inverse=True)[1].astype(np.intp) for labels in (problem.y, problem.domain)]
    scores = score_candidates(candidates, Data(problem.X, problem.y, *codes), problem.splits, "accuracy")
    results = tabulate(candidates, [setting for _, setting in owners], scores)
    shared = (time.perf_counter() - start) / len(methods)
    for method in methods:
        begin = time.perf_counter()
        among = np.array([owner == method for owner, _ in owners])
        try:
            if not np.isfinite(results["mean_test_score"][among]).any():
                raise ValueError(next(s.error for split in scores for s in split if among[s.index] and s.error))
            best = preferred(results, among)
            model = clone(candidates[best].projection)
            train, test = problem.train, problem.test
            Z = model.fit_transform(problem.X[train], problem.y[train], sample_domain=problem.domain[train])
            Z_test = model.transform(problem.X[test], sample_domain=problem.domain[test])
            labels = problem.y[train][nearest(Z, Z_test)]
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            yield method, f"{type(error).__name__}: {error}"
            continue
        ties = _ties(results["mean_test_score"][among])
        seconds = shared + time.perf_counter() - begin
        validation = float(results["mean_test_score"][best])
        transductive = problem.centering == "target"
        yield Outcome(method, labels, validation, owners[best][1], ties, transductive, seconds)


def _ties(means: Array) -> int:
    """How many settings share the best mean, besides the chosen one."""
    return int(np.sum(means >= np.nanmax(means) - TIE)) - 1


def _tuned(method: str, problem: Problem) -> Outcome:
    """A method that is fitted anew for every setting."""
    start = time.perf_counter()
    settings, score, build = TUNED[method]
    grid = list(ParameterGrid(settings))
    grid = grid[:: max(1, len(grid) - 1)] if problem.quick else grid  # the two ends
    means = np.mean([score(build, grid, problem, *split) for split in problem.splits], axis=0)
    chosen, ties = grid[int(np.argmax(means))], _ties(means)
    model = _fit(build(chosen, problem.X[problem.train]), problem, problem.train)
    labels = model.predict(problem.X[problem.test])
    return Outcome(method, labels, float(means.max()), chosen, ties, False, time.perf_counter() - start)


def _fit(model: Any, problem: Problem, rows: Any) -> Any:
    domains = {"sample_domain": problem.domain[rows]} if isinstance(model, UndoBias) else {}
    return model.fit(problem.X[rows], problem.y[rows], **domains)


def _score_each(build: Any, grid: list[Settings], problem: Problem, train: Ints, test: Ints) -> list[float]:
    return [
        float(np.mean(_fit(build(s, problem.X[train]), problem, train).predict(problem.X[test]) == problem.y[test]))
        for s in grid
    ]


def _score_kpca(build: Any, grid: list[Settings], problem: Problem, train: Ints, test: Ints) -> list[float]:
    """One decomposition for each width; fewer components are a prefix of more."""
    scores = []
    projected: dict[float, tuple[Array, Array]] = {}
    for setting in grid:
        width = setting["width"]
        if width not in projected:
            most = max(s["n_components"] for s in grid if s["width"] == width)
            kpca = build({**setting, "n_components": most}, problem.X[train])[0].fit(problem.X[train])
            projected[width] = kpca.transform(problem.X[train]), kpca.transform(problem.X[test])
        Z, Z_test = (part[:, : setting["n_components"]] for part in projected[width])
        scores.append(float(np.mean(problem.y[train][nearest(Z, Z_test)] == problem.y[test])))
    return scores


def _score_rbf_svm(build: Any, grid: list[Settings], problem: Problem, train: Ints, test: Ints) -> list[float]:
    """One kernel matrix for each width serves every cost."""
    X, y = problem.X, problem.y
    gamma = 1 / median_squared_distance(X[train])
    distances = euclidean_distances(X[np.concatenate([train, test])], X[train], squared=True)
    kernels = {width: np.exp(-width * gamma * distances) for width in {setting["width"] for setting in grid}}
    scores = []
    for setting in grid:
        K, K_test = np.split(kernels[setting["width"]], [len(train)])
        model = SVC(C=setting["C"], kernel="precomputed").fit(K, y[train])
        scores.append(float(np.mean(model.predict(K_test) == y[test])))
    return scores


def _kpca(setting: Settings, X: Array) -> Any:
    n_components = min(setting["n_components"], len(X) - 1)
    gamma = setting["width"] / median_squared_distance(X)
    return make_pipeline(
        KernelPCA(n_components, kernel="rbf", gamma=gamma, eigen_solver="dense"), KNeighborsClassifier(1)
    )


def _rbf_svm(setting: Settings, X: Array) -> Any:
    return SVC(C=setting["C"], gamma=setting["width"] / median_squared_distance(X))


Build = Callable[[Settings, Array], Any]
Scorer = Callable[[Build, list[Settings], Problem, Ints, Ints], list[float]]
TUNED: dict[str, tuple[dict[str, list[Any]], Scorer, Build]] = {
    "1NN": ({}, _score_each, lambda s, X: KNeighborsClassifier(n_neighbors=1)),
    "KPCA": ({"width": [0.01, 0.1, 1.0], "n_components": [10, 30, 100]}, _score_kpca, _kpca),
    "Undo-Bias": (
        {"cost": [1e-4, 1e-3], "offset_penalty": [1.0, 10.0]},
        _score_each,
        lambda s, X: UndoBias(
            shared_cost=s["cost"], domain_cost=s["cost"], offset_penalty=s["offset_penalty"], tol=1e-2
        ),
    ),
    "logistic": ({"C": COSTS}, _score_each, lambda s, X: LogisticRegression(C=s["C"], max_iter=2000)),
    "linear SVM": ({"C": COSTS}, _score_each, lambda s, X: LinearSVC(C=s["C"], max_iter=5000, random_state=0)),
    "RBF SVM": ({"C": [1.0, 10.0, 100.0], "width": [0.1, 1.0]}, _score_rbf_svm, _rbf_svm),
}


def all_grids(n_classes: int) -> dict[str, dict[str, list[Any]]]:
    """The settings that each method chooses from."""
    projections = {name: default_grid(projection, n_classes) for name, projection in PROJECTIONS.items()}
    return {**{name: settings for name, (settings, _, _) in TUNED.items()}, **projections}
