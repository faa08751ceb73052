"""The models that UnseenClassifier compares: plain classifiers, the same behind a DomainCenterer, and projections."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import check_scoring
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import ParameterGrid
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from .. import memory
from ..cells import Array, Ints
from ..exceptions import SingleDomainWarning
from ..feature_maps import DomainCenterer
from ..kernels import median_squared_distance
from ..projections import CIDG, DICA, MDA, SCA
from ..projections._base import Projection
from ._evaluate import Candidate, score_candidates
from ._folds import Data
from ._grids import component_grid
from ._results import preferred, tabulate

Kind = Literal["plain", "inductive", "transductive"]
Splits = list[tuple[Ints, Ints]]

COSTS = [0.01, 0.1, 1.0, 10.0, 100.0]  # from most to least regularised: of equals the first is chosen
PLAIN: dict[str, tuple[BaseEstimator, dict[str, list[Any]]]] = {
    "logistic": (LogisticRegression(max_iter=2000), {"C": COSTS}),
    "linear_svm": (LinearSVC(max_iter=5000, random_state=0), {"C": COSTS}),
    "rbf_svm": (SVC(kernel="precomputed"), {"C": [1.0, 10.0, 100.0], "width": [0.1, 1.0]}),
}
WIDTHS, RIDGES = ["0.1*median", "median"], ["1e-2*scale", "scale", "1e2*scale"]
PROJECTIONS: dict[str, tuple[Projection, dict[str, list[Any]]]] = {
    "cidg": (CIDG(), {"conditional_weight": ["scale", "1e2*scale"], "prior_weight": [0.0, "scale"]}),
    "mda": (MDA(), {"conditional_weight": [1.0, 1e2]}),
    "sca": (SCA(), {"domain_weight": ["scale", "1e2*scale"]}),
    "dica": (DICA(), {}),
}
HEADS = {
    "1-NN": KNeighborsClassifier(n_neighbors=1, algorithm="brute"),  # trees are not trusted in model files
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
}
CENTERED = {f"centered_{name}": name for name in PLAIN}
METHODS = (*PLAIN, *CENTERED, *PROJECTIONS)


@dataclass(frozen=True)
class Contender:
    """A model with its best settings: how it did on each held-out part, and how to build it."""

    model: str
    kind: Kind
    scores: Array
    params: dict[str, Any]
    seconds: float
    pipeline: Pipeline = field(repr=False)

    @property
    def mean(self) -> float:
        """Mean score over held-out domains."""
        return float(np.mean(self.scores))


def contenders(
    methods: Sequence[str],
    X: Any,
    y: Any,
    domain: Ints,
    splits: Splits,
    scoring: str | Callable[..., float],
    transductive: bool = True,
) -> list[Contender]:
    """Tune methods on the splits; the best settings of each variant contend."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Said once by the caller; and a model that has not converged is judged by its score like any other.
        warnings.simplefilter("ignore", SingleDomainWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        projections = [method for method in methods if method in PROJECTIONS]
        found = [_plain(method, X, y, domain, splits, scoring) for method in methods if method not in PROJECTIONS]
        if projections:
            centerings = ("source", "target") if transductive else ("source",)
            found += _projections(projections, X, y, domain, splits, scoring, centerings)
    seconds = (time.perf_counter() - start) / len(found)
    return [Contender(*entry[:4], seconds, entry[4]) for entry in found]


def batches(methods: Sequence[str]) -> list[list[str]]:
    """Methods that are best tuned together: projections share the decompositions of their kernel matrices."""
    projections = [method for method in methods if method in PROJECTIONS]
    plain = [[method] for method in methods if method not in PROJECTIONS]
    return [*plain, projections] if projections else plain


Entry = tuple[str, Kind, Array, dict[str, Any], Pipeline]


def _plain(method: str, X: Any, y: Any, domain: Ints, splits: Splits, scoring: Any) -> Entry:
    name = CENTERED.get(method, method)
    model, grid = PLAIN[name]
    settings = list(ParameterGrid(grid))
    score = _score_kernel_svm if name == "rbf_svm" else _score_each
    try:
        if method in CENTERED:
            parts = [_centered(X, y, domain, *split) for split in splits]
            scores = np.hstack([score(model, settings, *part, scoring) for part in parts])
        else:
            scores = score(model, settings, X, y, splits, scoring)
    except (ValueError, AttributeError) as error:  # such as a scorer that needs probabilities: listed, never chosen
        warnings.warn(f"{method} cannot be scored and is left out of the choice: {error}", RuntimeWarning, stacklevel=2)
        scores = np.full((len(settings), len(splits)), np.nan)
    best = int(np.argmax(np.nan_to_num(scores.mean(axis=1), nan=-np.inf)))
    params = dict(settings[best])
    centerer = DomainCenterer().set_output(transform="default")
    if name == "rbf_svm":
        data = centerer.fit_transform(X, sample_domain=domain) if method in CENTERED else X
        params = {"kernel": "rbf", "gamma": params.pop("width") / median_squared_distance(data), **params}
    steps = [("centerer", clone(centerer))] if method in CENTERED else []
    pipeline = Pipeline([*steps, ("classifier", clone(model).set_params(**params))])
    kind: Kind = "transductive" if method in CENTERED else "plain"
    return method, kind, scores[best], params, pipeline


def _centered(X: Any, y: Any, domain: Ints, train: Ints, test: Ints) -> tuple[Any, Any, Splits]:
    """One fold behind a DomainCenterer: samples, classes, and where training ends and testing begins."""
    centerer = DomainCenterer().set_output(transform="default")
    Z = centerer.fit_transform(X[train], sample_domain=domain[train])
    Z_test = centerer.transform(X[test], sample_domain=domain[test])
    n = len(train)
    rows = np.arange(n + len(test))
    return np.vstack([Z, Z_test]), y[np.concatenate([train, test])], [(rows[:n], rows[n:])]


def _score_each(model: Any, settings: list[Any], X: Any, y: Any, splits: Splits, scoring: Any) -> Array:
    scorer = check_scoring(model, scoring=scoring)
    scores = np.empty((len(settings), len(splits)))
    for i, setting in enumerate(settings):
        for k, (train, test) in enumerate(splits):
            fitted = clone(model).set_params(**setting).fit(X[train], y[train])
            scores[i, k] = scorer(fitted, X[test], y[test])
    return scores


def _score_kernel_svm(model: Any, settings: list[Any], X: Any, y: Any, splits: Splits, scoring: Any) -> Array:
    """The same for the rbf SVM, with one distance matrix for all folds and one kernel matrix for all costs."""
    scorer = check_scoring(model, scoring=scoring)
    memory.require_square(X.shape[0], copies=2, caller="An rbf SVM")
    distances = euclidean_distances(X, squared=True)
    scores = np.empty((len(settings), len(splits)))
    for k, (train, test) in enumerate(splits):
        gamma = 1 / median_squared_distance(X[train])
        for width in {setting["width"] for setting in settings}:
            K = np.exp(-width * gamma * distances[:, train])
            for i, setting in enumerate(settings):
                if setting["width"] == width:
                    fitted = clone(model).set_params(C=setting["C"]).fit(K[train], y[train])
                    scores[i, k] = scorer(fitted, K[test], y[test])
    return scores


def _projections(
    methods: list[str], X: Any, y: Any, domain: Ints, splits: Splits, scoring: Any, centerings: tuple[str, ...]
) -> Iterator[Entry]:
    """All projections with all heads, in one pass over the decompositions that they share."""
    data = Data(X, y, np.unique(y, return_inverse=True)[1].astype(np.intp), domain)
    candidates: list[Candidate] = []
    variants: list[tuple[str, str, dict[str, Any]]] = []
    for method in methods:
        projection, weights = PROJECTIONS[method]
        components = component_grid(projection, len(np.unique(y)))
        grid = {"gamma": WIDTHS, "ridge": RIDGES, **weights, **components, "centering": list(centerings)}
        for params in ParameterGrid(grid):
            tuned = clone(projection).set_params(**params)
            for head, classifier in HEADS.items():
                candidates.append(Candidate(len(candidates), tuned, classifier))
                variants.append((method, head, params))
    found = score_candidates(candidates, data, splits, scoring)
    errors = {score.error for split in found for score in split if score.error}
    results = tabulate(candidates, [params for *_, params in variants], found)
    if errors and np.isfinite(results["mean_test_score"]).any():
        reason = f"Some projections cannot be scored and are left out of the choice: {min(errors)}"
        warnings.warn(reason, RuntimeWarning, stacklevel=2)
    scores = np.column_stack([results[f"split{k}_test_score"] for k in range(len(splits))])
    for method, head, centering in product(methods, HEADS, centerings):
        among = np.array([v[:2] == (method, head) and v[2]["centering"] == centering for v in variants])
        best = preferred(results, among)
        pipeline = Pipeline([("projection", clone(candidates[best].projection)), ("classifier", clone(HEADS[head]))])
        name = f"{method} + {head}" + (", target-centred" if centering == "target" else "")
        kind: Kind = "transductive" if centering == "target" else "inductive"
        yield name, kind, scores[best], variants[best][2], pipeline


def offered(X: Any, transductive: bool) -> tuple[str, ...]:
    """Methods that can take these data: sparse ones cannot be centred."""
    return tuple(m for m in METHODS if m not in CENTERED or (transductive and not sparse.issparse(X)))
