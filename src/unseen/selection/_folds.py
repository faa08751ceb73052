"""A fold in the eigenbasis of its kernel matrix: what all settings of weights, ridge and components share."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ..algebra import (
    Array,
    Cells,
    Ints,
    Membership,
    Recipe,
    Solution,
    Spectrum,
    Whitened,
    gram_spectrum,
    norm,
    product,
    require_range,
    solve,
    whiten,
)
from ..estimators import Projection, Space, learns_nothing
from ..kernels import centre, is_multiple, require_square, resolve_gamma
from ..labels import Samples

KERNEL_PARAMS = ("kernel", "gamma", "degree", "coef0", "kernel_params", "feature_map")
SHAPE_PARAMS = ("scaling", "centering", "n_components")


def _membership(samples: Samples, rows: Ints) -> Membership:
    """Cells of some samples; classes and domains that these lack are dropped."""
    codes = (samples.codes[rows], samples.domain_codes[rows])
    return Membership.of(*(np.unique(part, return_inverse=True)[1].astype(np.intp) for part in codes))


class Grams:
    """Kernel values between subsets of the samples, with the costly part computed once for all subsets.

    Squared distances serve every width of the rbf kernel; other kernels are evaluated once for all folds.
    """

    def __init__(self, estimator: Projection, X: Any, distances: Callable[[], Array]) -> None:
        require_square(X.shape[0], copies=3, caller=f"A search over {type(estimator).__name__}")
        self.X = X
        self._distances: Array | None = None
        self._whole: Array | None = None
        if estimator.kernel == "rbf":
            self._distances = distances()
        elif estimator.kernel == "precomputed":
            self._whole = X
        elif not is_multiple(estimator.gamma, "scale"):  # otherwise each fold has its own coefficient
            self._whole = _fold_estimator(estimator, X)._kernel_values(X, training=True)

    def between(self, estimator: Projection, rows: Ints, columns: Ints) -> Array:
        """Kernel values of the fold whose training samples are `columns`; a new array."""
        block = np.ix_(rows, columns)
        if self._whole is not None:
            return self._whole[block].astype(np.float64, copy=False)
        train = _safe_indexing(self.X, columns)
        fitted = _fold_estimator(estimator, train)
        if self._distances is not None:
            values = self._distances[block]
            values *= -(1 / self.X.shape[1] if fitted.gamma_ is None else fitted.gamma_)  # None as scikit-learn has it
            return np.exp(values, out=values)
        return fitted._kernel_values(_safe_indexing(self.X, rows))


def _fold_estimator(estimator: Projection, train: Any) -> Projection:
    """Copy an estimator and give it what its kernel learns from training samples: the coefficient, and the samples."""
    estimator = copy.copy(estimator)  # folds may run in threads that share the original
    estimator.gamma_ = resolve_gamma(estimator.gamma, estimator.kernel, train)
    estimator.X_fit_ = train
    return estimator


@dataclass(frozen=True)
class Basis:
    """Coordinates of training and test samples of which components are combinations.

    `train` is centred on the training data; `test` is centred when `offset`, the training mean, is subtracted.
    """

    train: Array
    test: Array
    offset: Array

    def combined(self, coefficients: Array) -> Basis:
        """Combine the coordinates into new ones."""
        return Basis(product(self.train, coefficients), product(self.test, coefficients), self.offset @ coefficients)


@dataclass(frozen=True)
class FeatureBasis:
    """The same for explicit features, which all folds share: nothing as large as they are is made for a fold.

    The coordinates are the features of a sample less the mean of the training features, combined by `lift`.
    """

    features: Array
    train: Ints
    test: Ints
    mean: Array
    lift: Array

    def combined(self, coefficients: Array) -> Basis:
        """Combine the coordinates into new ones."""
        weights = product(self.lift, coefficients)
        values, offset = product(self.features, weights), self.mean @ weights
        return Basis(values[self.train] - offset, values[self.test], offset)


class Fold:
    """One training set and one test set under one kernel, decomposed once; `project` then costs O(cells^3)."""

    def __init__(
        self, counts: Ints, spectrum: Spectrum, basis: Basis | FeatureBasis, test_domain: Ints, known: set[int]
    ) -> None:
        self.counts = counts
        self.spectrum = spectrum
        self.basis = basis
        self.size = float(np.linalg.norm(spectrum.values))
        self.test_domain = test_domain
        self.known = known
        self._pencils: dict[tuple[float, float, float], tuple[Whitened, Basis]] = {}

    def solve(self, estimator: Projection) -> tuple[Solution, Basis | FeatureBasis]:
        """All components of a setting, and the coordinates that they combine."""
        recipe = estimator._recipe(self.counts, estimator._ridge(self.size))
        if not estimator._is_low_rank(recipe):
            return estimator._solve_spectrum(self.spectrum, recipe, self.counts), self.basis
        pencil, basis = self._pencil(recipe)
        return solve(pencil, recipe, self.counts), basis

    def _pencil(self, recipe: Recipe) -> tuple[Whitened, Basis]:
        """Reduce to cell space, once for each (inside, norm, ridge)."""
        key = (recipe.inside, recipe.norm, recipe.ridge)
        if key not in self._pencils:
            pencil = whiten(self.spectrum if recipe.ridge else self.spectrum.without_null(), recipe)
            (norms,) = linalg.qr(pencil.norm_factor, mode="r")
            reduced = replace(pencil, directions=np.eye(pencil.directions.shape[1]), norm_factor=norms)
            self._pencils[key] = reduced, self.basis.combined(pencil.directions)
        return self._pencils[key]

    def ridge_and_weight(self, estimator: Projection) -> tuple[float, float]:
        """The ridge as a number, and the sum of the invariance weights."""
        return estimator._ridge(self.size), estimator._invariance(self.counts)

    def project(self, estimator: Projection, solution: Solution, basis: Basis | FeatureBasis) -> tuple[Array, Array]:
        """Training and test samples as the fitted estimator would transform them."""
        kept = estimator._trimmed(solution, self.counts).scaled(estimator.scaling).oriented(self.counts)
        projected = basis.combined(kept.coefficients)
        offsets = np.broadcast_to(projected.offset, projected.test.shape)
        if estimator.centering == "target":
            offsets = np.empty_like(projected.test)
            for domain in np.unique(self.test_domain):
                rows = self.test_domain == domain
                if domain not in self.known and rows.sum() == 1:
                    raise ValueError('a held-out domain has a single sample, which centering="target" cannot centre')
                offsets[rows] = projected.offset if domain in self.known else projected.test[rows].mean(axis=0)
        return projected.train, projected.test - offsets


def kernel_fold(estimator: Projection, samples: Samples, grams: Grams, train: Ints, test: Ints) -> Fold:
    """Decompose a fold under an exact kernel."""
    membership = _membership(samples, train)
    K = grams.between(estimator, train, train)
    means = centre(K)
    estimator._require_finite(means)
    size = norm(K)
    require_range(size)
    estimator._require_spread(size, len(K) * float(np.abs(means).max()))
    spectrum = gram_spectrum(K, membership)
    # Directions of a centred matrix are orthogonal to constants, but for the null space, which is of no use.
    vectors = spectrum.lift - spectrum.lift.mean(axis=0)
    projected = product(grams.between(estimator, test, train), vectors)
    basis = Basis(spectrum.lift * spectrum.values, projected, means @ vectors)
    return _fold(membership, spectrum, basis, samples, train, test)


def feature_fold(
    estimator: Projection, samples: Samples, features: Array, statistics: Cells, train: Ints, test: Ints
) -> Fold:
    """Decompose a fold of explicit features from the statistics of its training samples."""
    membership = _membership(samples, train)
    spectrum = statistics.spectrum()
    estimator._require_spread(np.sqrt(spectrum.values.sum()), np.sqrt(len(train)) * np.linalg.norm(statistics.mean))
    basis = FeatureBasis(features, train, test, statistics.mean, spectrum.lift)
    return _fold(membership, spectrum, basis, samples, train, test)


def _fold(
    membership: Membership, spectrum: Spectrum, basis: Basis | FeatureBasis, samples: Samples, train: Ints, test: Ints
) -> Fold:
    in_eigenbasis = replace(spectrum, lift=np.eye(len(spectrum.values)))
    return Fold(
        membership.counts, in_eigenbasis, basis, samples.domain_codes[test], set(samples.domain_codes[train].tolist())
    )


class Source:
    """Where the folds of one kernel or feature map come from; what all folds share is computed here, once."""

    def __init__(self, projection: Projection, samples: Samples, grams: Grams | None) -> None:
        self.projection = projection
        self.samples = samples
        self.grams = grams
        self.features: Array | None = None
        self.by_domain: dict[int, Cells] = {}
        # A map that learns nothing from the data gives all folds the same features, and statistics that add up.
        if learns_nothing(projection.feature_map):
            self.features = self._mapped(samples.X)
            whole = Membership.of(samples.codes, samples.domain_codes)
            for code in np.unique(samples.domain_codes):
                rows = samples.domain_codes == code
                counts = np.where(np.arange(len(whole.counts))[:, None] == code, whole.counts, 0)
                self.by_domain[int(code)] = Cells.of(self.features[rows], Membership(counts, whole.cell[rows]))

    def _mapped(self, train: Any) -> Array:
        """Features of all samples under the map fitted to some of them."""
        projection = copy.copy(self.projection)  # folds may run in threads that share the original
        feature_map = projection.feature_map
        projection.feature_map_ = None if isinstance(feature_map, str) else clone(feature_map).fit(train, None)
        return projection._all_features(self.samples.X)

    def fold(self, train: Ints, test: Ints) -> Fold:
        """Decompose one fold."""
        if self.grams is not None:
            return kernel_fold(self.projection, self.samples, self.grams, train, test)
        features = self._mapped(_safe_indexing(self.samples.X, train)) if self.features is None else self.features
        statistics = self._statistics(features, train)
        return feature_fold(self.projection, self.samples, features, statistics, train, test)

    def _statistics(self, features: Array, train: Ints) -> Cells:
        """Add up the statistics of whole domains where a fold trains on such; no other sample then has any say."""
        distinct = np.unique(train)  # a fold may hold a sample more than once
        domains, sizes = np.unique(self.samples.domain_codes[distinct], return_counts=True)
        whole = [self.by_domain.get(int(name)) for name in domains]
        parts = [part for part, size in zip(whole, sizes, strict=True) if part and part.counts.sum() == size]
        if len(parts) == len(domains) and len(distinct) == len(train):
            return reduce(operator.add, parts)
        return Cells.of(features[train], _membership(self.samples, train))


def solution_params(projection: Projection) -> tuple[str, ...]:
    """Names of what changes the solution, given the decomposition: the method and its own parameters."""
    recipe = projection._recipe(np.ones((2, 2), dtype=np.intp), 1.0)
    shape = SHAPE_PARAMS if projection._is_low_rank(recipe) else SHAPE_PARAMS[:2]
    own = set(projection._parameter_constraints) - {*KERNEL_PARAMS, *shape}
    return ("__class__", *sorted(own))


def features_of(fitted: Any, X: Any) -> Array:
    """Features of samples under a fitted map, as projections see them."""
    space = Space(feature_map=fitted)
    space.feature_map_ = fitted
    return space._all_features(X)
