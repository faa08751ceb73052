"""The methods of a comparison: what each chooses from, and how it is built and scored."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from ..algebra import Array, Ints
from ..estimators import CIDG, DICA, KFDA, MDA, SCA, Projection, UndoBias
from ..kernels import median_squared_distance
from ..labels import Labels
from ..selection import default_grid, nearest

Splits = list[tuple[Ints, Ints]]
Settings = dict[str, Any]

PROJECTIONS: dict[str, Projection] = {"KFDA": KFDA(), "DICA": DICA(), "SCA": SCA(), "CIDG": CIDG(), "MDA": MDA()}
FEWEST = 10  # samples of a cell that thinning leaves
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
class Skipped:
    """A method that was not tried, and why."""

    method: str
    reason: str


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

    def projects(self, method: str) -> bool:
        """Whether the method is a projection, by the name that all know or by one of the problem's own."""
        return method in PROJECTIONS or method in self.grids

    def projection(self, method: str) -> tuple[Projection, dict[str, list[Any]]]:
        """A projection and its grid: the problem's own, or the default."""
        if method in self.grids:
            estimator, grid = self.grids[method]
        else:
            estimator = PROJECTIONS[method]
            grid = default_grid(estimator, len(np.unique(self.y[self.train])))
        return estimator, {name: values[-2:] for name, values in grid.items()} if self.quick else grid

    def thinned(self, most: int, seed: int = 0) -> tuple[Problem, Ints]:
        """The same problem with about so many samples to train on, and to test on; and which samples were kept.

        Each class of each domain gives its share, and a few where that would be too few to hold the domain out.
        """
        n_train = len(self.y[self.train])
        rng = np.random.default_rng(seed)
        share = np.full(len(self.y), most / n_train)
        share[n_train:] = most / max(1, len(self.y) - n_train)
        classes, domains = (np.unique(labels, return_inverse=True)[1] for labels in (self.y, self.domain))
        _, cells = np.unique(domains * (classes.max() + 1) + classes, return_inverse=True)
        kept = np.sort(np.concatenate([_draw(rng, np.flatnonzero(cells == c), share) for c in range(cells.max() + 1)]))
        at = np.full(len(self.y), -1)
        at[kept] = np.arange(len(kept))
        splits = [(at[a][at[a] >= 0], at[b][at[b] >= 0]) for a, b in self.splits]
        trained = int(np.sum(kept < n_train))
        return replace(
            self,
            X=self.X[kept],
            y=self.y[kept],
            domain=self.domain[kept],
            train=slice(0, trained),
            test=slice(trained, None),
            splits=splits,
        ), kept


def _draw(rng: np.random.Generator, rows: Ints, share: Array) -> Ints:
    """A share of the samples of one cell, all of which are trained on or all tested on."""
    return rng.permutation(rows)[: max(FEWEST, math.ceil(share[rows[0]] * len(rows)))]


def fit_on(model: Any, problem: Problem, rows: Any) -> Any:
    domains = {"sample_domain": problem.domain[rows]} if isinstance(model, UndoBias) else {}
    return model.fit(problem.X[rows], problem.y[rows], **domains)


def _score_each(build: Any, grid: list[Settings], problem: Problem, train: Ints, test: Ints) -> list[float]:
    return [
        float(np.mean(fit_on(build(s, problem.X[train]), problem, train).predict(problem.X[test]) == problem.y[test]))
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
