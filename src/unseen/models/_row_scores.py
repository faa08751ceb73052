"""Decision scores of the members of an ensemble for a few rows, which are validated once and not by each member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg
from scipy.spatial.distance import cdist
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ..estimators import Projection, apply_centering, transform_without_centering
from ..kernels import PivotedNystroem
from ..linalg import Array, Ints
from ..model_selection import EnsembleClassifier, bind_domains, decision_scores, tree_features
from ..utils.validation import Labels
from ._row_preparation import ColumnLookup, tabulate_categories

# Of more rows the checks of scikit-learn take a smaller part of the time, and its threads help.
MAX_ROWS = 32
Scores = Callable[[Array], Array]  # of samples, for each class


@dataclass(frozen=True, eq=False)
class KernelComponents:
    """Components of a projection with a Gaussian kernel, before centering.

    Attributes
    ----------
    samples : ndarray of shape (n_training, n_features)
        The training samples or landmarks of the kernel.
    gamma : float
        Coefficient of the kernel.
    weights : ndarray of shape (n_training, n_components)
        Weights of the kernel values.
    is_exact : bool
        Whether the kernel values are less 1, as in a projection without landmarks: its weights sum to 0, and small
        differences of the values keep their digits.
    """

    samples: Array
    gamma: float
    weights: Array
    is_exact: bool

    @classmethod
    def from_projection(cls, projection: Projection) -> KernelComponents | None:
        """Read the weights; None for other kernels and feature maps."""
        fitted = vars(projection.finalize())
        if "feature_map_" in fitted:
            landmarks = getattr(fitted["feature_map_"], "estimator", fitted["feature_map_"])  # may be frozen
            if type(landmarks) is not PivotedNystroem or landmarks.kernel != "rbf":
                return None
            weights = linalg.solve_triangular(landmarks.cholesky_, projection.coef_, lower=True, trans=1)
            samples, gamma = (landmarks.components_, landmarks.gamma_)
        else:
            weights = projection.dual_coef_
            samples, gamma = (fitted.get("X_fit_"), fitted.get("gamma_"))
        if projection.kernel != "rbf" or not isinstance(samples, np.ndarray) or not isinstance(gamma, float):
            return None
        return cls(samples, gamma, weights, is_exact="feature_map_" not in fitted)


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
    components : dict of int to KernelComponents
        Their components, for Gaussian kernels. Projections of the same training samples share one array of them.
    """

    ensemble: EnsembleClassifier
    scores: list[Scores]
    projections: dict[int, Projection]
    components: dict[int, KernelComponents]

    @classmethod
    def from_ensemble(cls, ensemble: EnsembleClassifier) -> RowScores | None:
        """Prepare the members; None if predictions of rows depend on other rows."""
        if ensemble.transductive:
            return None
        scores = []
        projections = {}
        components: dict[int, KernelComponents] = {}
        for j, member in enumerate(ensemble.members_):
            if not isinstance(member[0], Projection) or len(member) != 2:
                scores.append(make_scores(member, ensemble.classes_))
                continue
            scores.append(make_scores(member[1], ensemble.classes_))
            projections[j] = member[0]
            kernel = KernelComponents.from_projection(member[0])
            if kernel is not None:
                same = [other.samples for other in components.values() if np.array_equal(other.samples, kernel.samples)]
                components[j] = replace(kernel, samples=same[0]) if same else kernel
        return cls(ensemble, scores, projections, components)

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
        """Components of each projection; distances and kernel values that several of them need are computed once."""
        distances: dict[int, Array] = {}
        values: dict[tuple[int, float, bool], Array] = {}
        projected = {}
        for j, projection in self.projections.items():
            kernel = self.components.get(j)
            if kernel is None:
                Z = transform_without_centering(projection, X)
            else:
                samples = id(kernel.samples)
                if samples not in distances:
                    distances[samples] = cdist(X, kernel.samples, "sqeuclidean")
                key = (samples, kernel.gamma, kernel.is_exact)
                if key not in values:
                    exponential = np.expm1 if kernel.is_exact else np.exp
                    values[key] = exponential(-kernel.gamma * distances[samples])
                Z = values[key] @ kernel.weights
            projected[j] = apply_centering(projection, Z, None)
        return projected


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
    """Scores of boosted trees, which are descended together, level by level.

    Attributes
    ----------
    baseline : ndarray of shape (1, n_trees_per_iteration)
        Scores without any tree.
    levels : ColumnLookup or None
        Codes of the categories in the trees; missing and unknown categories are NaN.
    categorical, numeric : ndarray of int
        Columns of levels and of numbers, in this order in the trees.
    roots : ndarray of shape (n_trees,)
        First node of each tree: in each iteration one tree, or one for each class.
    depth : int
        Number of splits on the longest path.
    feature, threshold, missing_goes_left, value : ndarray of shape (n_nodes,)
        Nodes of all trees.
    children : ndarray of shape (2 * n_nodes,)
        The right and the left child of each node; a leaf is its own child.
    left_set : ndarray of shape (n_nodes,)
        Row of `left_sets` of splits by categories; -1 for other nodes.
    left_sets : ndarray of bool of shape (n_splits, n_codes)
        Which codes go to the left.
    """

    baseline: Array
    levels: ColumnLookup | None
    categorical: Ints
    numeric: Ints
    roots: Ints
    depth: int
    feature: Ints
    threshold: Array
    missing_goes_left: Any
    value: Array
    children: Ints
    left_set: Ints
    left_sets: Any

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
        trees = [tree for iteration in classifier._predictors for tree in iteration]
        nodes = np.concatenate([tree.nodes for tree in trees])
        sizes = [len(tree.nodes) for tree in trees]
        roots = np.cumsum([0, *sizes[:-1]])
        is_leaf = nodes["is_leaf"] == 1
        children = np.column_stack([nodes["right"], nodes["left"]]) + np.repeat(roots, sizes)[:, None]
        children[is_leaf] = np.flatnonzero(is_leaf)[:, None]
        # A set of codes is stored as the bits of eight words of 32 bits, the lowest bit first.
        words = np.concatenate([tree.raw_left_cat_bitsets for tree in trees])
        bits = words[:, :, None] >> np.arange(32, dtype=np.uint32) & 1
        first_sets = np.cumsum([0, *(len(tree.raw_left_cat_bitsets) for tree in trees)])[:-1]
        left_set = nodes["bitset_idx"].astype(np.intp) + np.repeat(first_sets, sizes)
        left_set[is_leaf | (nodes["is_categorical"] == 0)] = -1
        return cls(
            baseline=classifier._baseline_prediction,
            levels=levels,
            categorical=np.flatnonzero(is_categorical),
            numeric=np.flatnonzero(~is_categorical),
            roots=roots,
            depth=int(nodes["depth"].max()),
            feature=nodes["feature_idx"].astype(np.intp),
            threshold=nodes["num_threshold"].copy(),
            missing_goes_left=nodes["missing_go_to_left"] == 1,
            value=nodes["value"].copy(),
            children=children.astype(np.intp).ravel(),
            left_set=left_set,
            left_sets=bits.reshape(len(words), 32 * words.shape[1]) == 1,
        )

    def __call__(self, X: Array) -> Array:
        """Return the scores of all classes."""
        if self.levels is not None:
            X = np.hstack([self.levels(X[:, self.categorical]), X[:, self.numeric]])
        row = np.arange(len(X))[:, None]
        node = np.tile(self.roots, (len(X), 1))
        for _ in range(self.depth):
            x = X[row, self.feature[node]]
            goes_left = x <= self.threshold[node]
            is_missing = np.isnan(x)
            if len(self.left_sets):
                left_set = self.left_set[node]
                is_split = left_set >= 0
                code = np.where(is_split & ~is_missing, x, 0.0).astype(np.intp)
                goes_left = np.where(is_split, self.left_sets[left_set, code], goes_left)
            if is_missing.any():
                goes_left = np.where(is_missing, self.missing_goes_left[node], goes_left)
            node = self.children[2 * node + goes_left]
        n_columns = self.baseline.shape[1]
        values = self.value[node].reshape(len(X), -1, n_columns)
        start = np.broadcast_to(self.baseline, (len(X), 1, n_columns))
        # A cumulative sum adds the trees in their order, so that rounding errors are those of scikit-learn.
        return _class_scores(np.concatenate([start, values], axis=1).cumsum(axis=1)[:, -1])


def _class_scores(S: Array) -> Array:
    """Scores of all classes; a single column is the difference of the scores of two classes."""
    return np.hstack([-S, S]) / 2 if S.shape[1] == 1 else S
