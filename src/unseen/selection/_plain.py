"""Plain classifiers, also behind a DomainCenterer or a feature map: tuned on splits, with what they share done once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import SVC, LinearSVC

from ..algebra import Array, Ints
from ..estimators import DomainCenterer, features_of, learns_nothing
from ..kernels import median_squared_distance, require_square, squared_distances
from ._evaluate import correct

Kind = Literal["plain", "inductive", "transductive"]
Splits = list[tuple[Ints, Ints]]
Entry = tuple[str, Kind, Array, dict[str, Any], Pipeline]  # name, kind, scores, settings, model

COSTS = [0.01, 0.1, 1.0, 10.0, 100.0]  # from most to least regularised: of equals the first is chosen
PLAIN: dict[str, tuple[BaseEstimator, dict[str, list[Any]]]] = {
    "logistic": (LogisticRegression(max_iter=2000), {"C": COSTS}),
    "linear_svm": (LinearSVC(max_iter=5000, random_state=0), {"C": COSTS}),
    "rbf_svm": (SVC(kernel="precomputed"), {"C": [1.0, 10.0, 100.0], "width": [0.1, 1.0]}),
}
CENTERED = {f"centered_{name}": name for name in PLAIN}
# Behind a feature map a plain classifier with curved boundaries stands beside the projections, as the rbf SVM does
# beside kernels: otherwise invariance would be praised for what the map alone does.
MAPPED = "mapped_ridge"
RIDGE = RidgeClassifier()
ALPHAS = [1e4, 1e2, 1.0, 1e-2]


def plain_entry(method: str, X: Any, y: Any, domain: Ints, splits: Splits, scoring: Any) -> Entry:
    """A plain classifier, or the same behind a DomainCenterer, with its best settings."""
    name = CENTERED.get(method, method)
    model, grid = PLAIN[name]
    settings = list(ParameterGrid(grid))
    score = _score_kernel_svm if name == "rbf_svm" else _score_each
    parts = (_centered(X, y, domain, *split) for split in splits) if method in CENTERED else [(X, y, splits)]
    best, scores = _best(method, model, settings, parts, score, scoring, len(splits))
    params = dict(settings[best])
    centerer = DomainCenterer().set_output(transform="default")
    if name == "rbf_svm":
        data = centerer.fit_transform(X, sample_domain=domain) if method in CENTERED else X
        params = {"kernel": "rbf", "gamma": params.pop("width") / median_squared_distance(data), **params}
    steps = [("centerer", clone(centerer))] if method in CENTERED else []
    pipeline = Pipeline([*steps, ("classifier", clone(model).set_params(**params))])
    kind: Kind = "transductive" if method in CENTERED else "plain"
    return method, kind, scores, params, pipeline


def mapped_entry(feature_map: Any, X: Any, y: Any, splits: Splits, scoring: Any) -> Entry:
    """Ridge classification behind a feature map; each fold fits the map anew unless it is frozen."""
    settings = [{"alpha": alpha} for alpha in ALPHAS]
    if learns_nothing(feature_map):
        parts: Any = [(features_of(feature_map, X), y, splits)]
    else:
        parts = (_behind(feature_map, X, y, *split) for split in splits)
    best, scores = _best(MAPPED, RIDGE, settings, parts, _score_each, scoring, len(splits))
    classifier = make_pipeline(clone(feature_map), clone(RIDGE).set_params(**settings[best]))
    return MAPPED, "plain", scores, settings[best], Pipeline([("classifier", classifier)])


def _best(
    method: str, model: Any, settings: list[Any], parts: Iterable[Any], score: Any, scoring: Any, n_splits: int
) -> tuple[int, Array]:
    """Which setting has the best mean over the splits of all parts, and its scores."""
    try:
        scores = np.hstack([score(model, settings, *part, scoring) for part in parts])
    except (ValueError, AttributeError) as error:  # such as a scorer that needs probabilities: listed, never chosen
        warnings.warn(f"{method} cannot be scored and is left out of the choice: {error}", RuntimeWarning, stacklevel=2)
        scores = np.full((len(settings), n_splits), np.nan)
    best = int(np.argmax(np.nan_to_num(scores.mean(axis=1), nan=-np.inf)))
    return best, scores[best]


def _centered(X: Any, y: Any, domain: Ints, train: Ints, test: Ints) -> tuple[Any, Any, Splits]:
    """One fold behind a DomainCenterer: samples, classes, and where training ends and testing begins."""
    centerer = DomainCenterer().set_output(transform="default")
    Z = centerer.fit_transform(X[train], sample_domain=domain[train])
    Z_test = centerer.transform(X[test], sample_domain=domain[test])
    return _joined(Z, Z_test, y, train, test)


def _behind(feature_map: Any, X: Any, y: Any, train: Ints, test: Ints) -> tuple[Any, Any, Splits]:
    """The same behind a feature map."""
    fitted = clone(feature_map).fit(X[train])
    return _joined(features_of(fitted, X[train]), features_of(fitted, X[test]), y, train, test)


def _joined(Z: Any, Z_test: Any, y: Any, train: Ints, test: Ints) -> tuple[Any, Any, Splits]:
    rows, n = np.arange(len(train) + len(test)), len(train)
    return np.vstack([Z, Z_test]), y[np.concatenate([train, test])], [(rows[:n], rows[n:])]


def _score_each(model: Any, settings: list[Any], X: Any, y: Any, splits: Splits, scoring: Any) -> Array:
    scorer = correct if scoring == "accuracy" else check_scoring(model, scoring=scoring)
    scores = np.empty((len(settings), len(splits)))
    for i, setting in enumerate(settings):
        for k, (train, test) in enumerate(splits):
            fitted = clone(model).set_params(**setting).fit(X[train], y[train])
            scores[i, k] = scorer(fitted, X[test], y[test])
    return scores


def _score_kernel_svm(model: Any, settings: list[Any], X: Any, y: Any, splits: Splits, scoring: Any) -> Array:
    """The same for the rbf SVM, with one distance matrix for all folds and one kernel matrix for all costs."""
    scorer = correct if scoring == "accuracy" else check_scoring(model, scoring=scoring)
    require_square(X.shape[0], copies=2, caller="An rbf SVM")
    distances = squared_distances(X)
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
