"""Decision scores of the members of an ensemble for a few rows, which are validated once and not by each member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ..estimators import Projection, apply_centering, transform_without_centering
from ..linalg import Array, Ints
from ..model_selection import EnsembleClassifier, bind_domains, decision_scores, tree_features
from ..utils.validation import Labels
from ._row_preparation import ColumnLookup, tabulate_categories

# Of more rows the checks of scikit-learn take a small part of the time, and its threads help.
MAX_ROWS = 32
Scores = Callable[[Array], Array]  # of samples, for each class


@dataclass(frozen=True, eq=False)
class RowScores:
    """The members of a fitted ensemble, ready for a few rows.

    The scores are those of the members up to rounding errors. Members of other types than those of the default ensemble
    are called as they are.

    Attributes
    ----------
    ensemble : EnsembleClassifier
        The ensemble.
    scores : list of callable
        The scores of each member; of a projection, those of the classifier behind it.
    projections : dict of int to Projection
        Projections by member.
    """

    ensemble: EnsembleClassifier
    scores: list[Scores]
    projections: dict[int, Projection]

    @classmethod
    def from_ensemble(cls, ensemble: EnsembleClassifier) -> RowScores | None:
        """Prepare the members; None if predictions of rows depend on other rows."""
        if ensemble.transductive:
            return None
        projections = {}
        scores = []
        for j, member in enumerate(ensemble.members_):
            if isinstance(member[0], Projection) and len(member) == 2:
                projections[j] = member[0]
                scores.append(make_scores(member[1], ensemble.classes_))
            else:
                scores.append(make_scores(member, ensemble.classes_))
        return cls(ensemble, scores, projections)

    def decision_proba(self, prepared: Array) -> Array:
        """Return what `EnsembleClassifier.decision_proba` returns for prepared rows of one new domain."""
        ensemble = self.ensemble
        X = ensemble.prepared_features(prepared)
        if not np.isfinite(X).all():
            return ensemble.decision_proba(prepared)  # raises an error
        columns = tree_features(X if X.shape[1] == prepared.shape[1] else prepared[:, X.shape[1] :])
        projected = self._project(X)
        member_scores = []
        for j, scores in enumerate(self.scores):
            features = columns if j in ensemble.raw_members else projected.get(j, X)
            member_scores.append(scores(features))
        if not all((np.inf > S).all() for S in member_scores):
            return ensemble.decision_proba(prepared)  # raises an error
        return ensemble.combine_scores(member_scores, prepared)

    def _project(self, X: Array) -> dict[int, Array]:
        """Components of each projection; distances to the training samples are computed once for all kernel widths."""
        distances: dict[int, Array] = {}
        kernels: dict[tuple[int, float], Array] = {}
        components = {}
        for j, projection in self.projections.items():
            samples = vars(projection).get("X_fit_")
            gamma = vars(projection).get("gamma_")
            if isinstance(samples, np.ndarray) and projection.kernel == "rbf" and isinstance(gamma, float):
                if id(samples) not in distances:
                    distances[id(samples)] = cdist(X, samples, "sqeuclidean")
                key = (id(samples), gamma)
                if key not in kernels:
                    # Less 1, as in the projection: its coefficients sum to 0, and small differences keep their digits.
                    kernels[key] = np.expm1(-gamma * distances[id(samples)])
                Z = kernels[key] @ projection.dual_coef_
            else:
                Z = transform_without_centering(projection, X)
            components[j] = apply_centering(projection, Z, None)
        return components


def make_scores(classifier: Any, classes: Labels) -> Scores:
    """Make the scores of a fitted classifier, which is called with its own checks if it is of another type."""
    steps = [step for _, step in classifier.steps] if type(classifier) is Pipeline else [classifier]
    last = steps[-1]
    if np.array_equal(getattr(last, "classes_", []), classes):
        kinds = [type(step) for step in steps]
        if kinds == [LogisticRegression]:
            return LinearScores(last.coef_.T, last.intercept_)
        if kinds == [StandardScaler, LogisticRegression]:
            return StandardizedScores(steps[0].mean_, steps[0].scale_, LinearScores(last.coef_.T, last.intercept_))
        if kinds == [SVC] and last.kernel == "rbf" and len(classes) == 2 and not last._sparse:
            return KernelScores(last.support_vectors_, last._gamma, LinearScores(last.dual_coef_.T, last.intercept_))
        if kinds == [HistGradientBoostingClassifier]:
            return BoostingScores.from_classifier(last) or CheckedScores(classifier, classes)
    return CheckedScores(classifier, classes)


@dataclass(frozen=True, eq=False)
class CheckedScores:
    """Scores of any classifier, by its own methods."""

    classifier: Any
    classes: Labels

    def __call__(self, X: Array) -> Array:
        """Return the scores of all classes."""
        classifier, features = bind_domains(self.classifier, X, None)
        return decision_scores(classifier, features, None, self.classes)


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Scores of a linear classifier."""

    coefficients: Array
    intercepts: Array

    def __call__(self, X: Array) -> Array:
        """Return the scores of all classes."""
        return _class_scores(X @ self.coefficients + self.intercepts)


@dataclass(frozen=True, eq=False)
class StandardizedScores:
    """Scores of a classifier of standardized features."""

    means: Array
    scales: Array
    scores: Scores

    def __call__(self, X: Array) -> Array:
        """Return the scores of all classes."""
        return self.scores((X - self.means) / self.scales)


@dataclass(frozen=True, eq=False)
class KernelScores:
    """Scores of a support vector machine of two classes with a Gaussian kernel."""

    support_vectors: Array
    gamma: float
    scores: Scores

    def __call__(self, X: Array) -> Array:
        """Return the scores of all classes."""
        return self.scores(np.exp(-self.gamma * cdist(X, self.support_vectors, "sqeuclidean")))


@dataclass(frozen=True, eq=False)
class BoostingScores:
    """Scores of boosted trees.

    Attributes
    ----------
    baseline : ndarray of shape (1, n_trees_per_iteration)
        Scores without any tree.
    predictors : list of list of TreePredictor
        Trees of each iteration.
    bitsets : tuple of ndarray
        Known categories, and the positions of columns in them.
    levels : ColumnLookup or None
        Codes of the categories in the trees.
    categorical, numeric : ndarray of int
        Columns of levels and of numbers, in this order in the trees.
    """

    baseline: Array
    predictors: list[list[Any]]
    bitsets: tuple[Any, Any]
    levels: ColumnLookup | None
    categorical: Ints
    numeric: Ints

    @classmethod
    def from_classifier(cls, classifier: Any) -> BoostingScores | None:
        """Read the trees and the categories; None for categories that are not integers."""
        levels = None
        is_categorical = np.zeros(classifier.n_features_in_, dtype=bool)
        if classifier._preprocessor is not None:
            is_categorical[:] = classifier.is_categorical_
            categories = classifier._preprocessor.named_transformers_["encoder"].categories_
            known = [column[~np.isnan(column)] for column in categories]
            values = [np.append(np.arange(float(len(column))), [np.nan, np.nan]) for column in known]
            levels = tabulate_categories(known, values)
            if levels is None:
                return None
        return cls(
            baseline=classifier._baseline_prediction,
            predictors=classifier._predictors,
            bitsets=classifier._bin_mapper.make_known_categories_bitsets(),
            levels=levels,
            categorical=np.flatnonzero(is_categorical),
            numeric=np.flatnonzero(~is_categorical),
        )

    def __call__(self, X: Array) -> Array:
        """Return the scores of all classes."""
        if self.levels is not None:
            X = np.hstack([self.levels(X[:, self.categorical]), X[:, self.numeric]])
        total = np.zeros((len(X), self.baseline.shape[1]), order="F")
        total += self.baseline
        known, positions = self.bitsets
        for iteration in self.predictors:
            for k, predictor in enumerate(iteration):
                total[:, k] += predictor.predict(X, known, positions, 1)
        return _class_scores(total)


def _class_scores(S: Array) -> Array:
    """Scores of all classes; a single column is the difference of the scores of two classes."""
    return np.hstack([-S, S]) / 2 if S.shape[1] == 1 else S
