"""A fold in the eigenbasis of its kernel matrix: what all settings of weights, ridge and components share."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ..estimators import (
    DomainCenters,
    Projection,
    ProjectionProblem,
    feature_spectrum,
    is_fitted_map,
    make_problem,
    map_features,
)
from ..kernels import Kernel, check_square_memory, is_multiple
from ..linalg import (
    Array,
    CellStatistics,
    Ints,
    Membership,
    Solution,
    Spectrum,
    WhitenedProblem,
    gram_spectrum,
    product,
)
from ..utils.samples import Samples
from ..utils.validation import EncodedLabels

__all__ = [
    "KERNEL_PARAMS",
    "SHAPE_PARAMS",
    "Decomposition",
    "DecompositionSource",
    "SplitGrams",
    "get_membership",
    "map_features",
    "solution_params",
]

KERNEL_PARAMS = ("kernel", "gamma", "degree", "coef0", "kernel_params", "feature_map")
SHAPE_PARAMS = ("scaling", "centering", "n_components")


def get_membership(samples: Samples, rows: Ints) -> Membership:
    """Cells of some samples; classes and domains that these lack are dropped."""
    classes, domains = (
        np.unique(codes[rows], return_inverse=True)[1].astype(np.intp)
        for codes in (samples.codes, samples.domain_codes)
    )
    return Membership.from_codes(classes, domains)


class SplitGrams:
    """Kernel values between subsets of the samples; what several folds or widths can share is computed once.

    Squared distances serve every width of the rbf kernel on a fold. The values of a fold depend on its own samples
    alone: kernels that are evaluated about the mean of the training samples are evaluated for each fold, the others
    once for all folds.
    """

    def __init__(self, projection: Projection, X: Any, distances_to: Callable[[Ints, Ints], Array]) -> None:
        check_square_memory(X.shape[0], copies=3, caller=f"A search over {type(projection).__name__}")
        self.X = X
        self._distances_to = distances_to
        self._whole: Array | None = None
        kernel = Kernel.from_estimator(projection)
        if kernel.is_precomputed:
            self._whole = X
        elif not kernel.has_origin and not is_multiple(projection.gamma, "scale"):
            self._whole = kernel.resolve(X).evaluate_for_centering(X)

    def kernel(self, projection: Projection, train: Ints) -> Kernel:
        """The kernel of a fold, as far as it depends on the training samples."""
        kernel = Kernel.from_estimator(projection)
        return kernel.resolve(_safe_indexing(self.X, train)) if self._whole is None else kernel

    def between(self, kernel: Kernel, rows: Ints, columns: Ints) -> Array:
        """Kernel values of the fold whose training samples are `columns`; a new array."""
        if self._whole is not None:
            return self._whole[np.ix_(rows, columns)].astype(np.float64, copy=False)
        if kernel.kernel == "rbf":
            return kernel.evaluate_from_distances(self._distances_to(columns, rows).copy(), self.X.shape[1])
        return kernel.evaluate_for_centering(_safe_indexing(self.X, rows), _safe_indexing(self.X, columns))


@dataclass(frozen=True)
class KernelBasis:
    """Coordinates of training and test samples of which components are combinations.

    `train` is centered on the training data; `test` is centered when `offset`, the training mean, is subtracted.
    """

    train: Array
    test: Array
    offset: Array

    def combined(self, coefficients: Array) -> KernelBasis:
        """Combine the coordinates into new ones."""
        return KernelBasis(
            product(self.train, coefficients), product(self.test, coefficients), self.offset @ coefficients
        )


Combine = Callable[[Array], KernelBasis]  # coordinates of the samples of a fold, combined by coefficients


class SolvedProjection(NamedTuple):
    """All components of a setting, the function that combines coordinates, and the eigenproblem."""

    solution: Solution
    combine: Combine
    problem: ProjectionProblem


class Decomposition:
    """One training set and one test set under one kernel, decomposed once; `project` then costs O(cells^3)."""

    max_whitened: float = np.inf  # number of cached reductions to cell space, one for each ridge

    def __init__(self, samples: Samples, train: Ints, test: Ints, spectrum: Spectrum, combine: Combine) -> None:
        self.counts = get_membership(samples, train).counts
        self.spectrum = replace(spectrum, lift=None)
        self.combine = combine
        self.size = float(np.linalg.norm(spectrum.values))
        self._test_domain = samples.domain[test]
        self._known = EncodedLabels.domains(samples.domain[train], len(train)).names.tolist()
        self._whitened: dict[tuple[float, float, float], tuple[Spectrum, WhitenedProblem, Combine]] = {}

    def solve(self, projection: Projection) -> SolvedProjection:
        """Solve the eigenproblem of a setting."""
        problem = make_problem(projection, self.counts, self.size)
        varying, whitened, combine = self._whiten(problem)
        solution = problem.solve(varying, whitened)
        return SolvedProjection(solution, combine if problem.scatter_problem.is_low_rank else self.combine, problem)

    def _whiten(self, problem: ProjectionProblem) -> tuple[Spectrum, WhitenedProblem, Combine]:
        """Reduce to cell space, once for each (within_weight, norm_weight, ridge)."""
        scatter_problem = problem.scatter_problem
        key = (scatter_problem.within_weight, scatter_problem.norm_weight, scatter_problem.ridge)
        if key not in self._whitened:
            varying, whitened = problem.whiten(self.spectrum)
            (norms,) = linalg.qr(whitened.norm_factor, mode="r")
            reduced = replace(whitened, directions=np.eye(whitened.directions.shape[1]), norm_factor=norms)
            if len(self._whitened) >= self.max_whitened:
                del self._whitened[next(iter(self._whitened))]
            self._whitened[key] = varying, reduced, self.combine(whitened.directions).combined
        return self._whitened[key]

    def principal(self, most: int) -> KernelBasis:
        """Kernel principal components: the eigenbasis itself, each direction with the spread of the data along it."""
        values = self.spectrum.values
        order = np.argsort(-values)[: min(most, np.count_nonzero(values > 0))]
        coefficients = np.zeros((len(values), len(order)))
        coefficients[order, np.arange(len(order))] = values[order] ** -0.5
        return self.combine(coefficients)

    def project(
        self, projection: Projection, solved: SolvedProjection, parts: Callable[[Any], list[Any]]
    ) -> tuple[Array, Any]:
        """Training samples and test samples, each part apart if it matters, as the projection would transform them.

        It may differ from the one that was solved in the number of components, their scale and their center.
        """
        problem = replace(solved.problem, n_components=projection.n_components, scaling=projection.scaling)
        projected = solved.combine(problem.select_components(solved.solution).coefficients)
        if projection.centering == "source":
            return projected.train, projected.test - projected.offset
        stored = dict.fromkeys(self._known, projected.offset)
        centering = DomainCenters(stored, 'centering="target"', "Leave it out, or merge it with another.")
        batches = zip(parts(projected.test), parts(self._test_domain), strict=True)
        return projected.train, [centering.center_batch(Z, EncodedLabels.domains(of, len(Z))) for Z, of in batches]


class DecompositionSource:
    """Where the folds of one kernel or feature map come from; what all folds share is computed here, once."""

    def __init__(self, projection: Projection, samples: Samples, grams: SplitGrams | None) -> None:
        self.projection = projection
        self.samples = samples
        self.grams = grams
        self.features: Array | None = None
        self.by_domain: dict[int, CellStatistics] = {}
        # A map that learns nothing from the data gives all folds the same features, and statistics that add up.
        if is_fitted_map(getattr(projection, "feature_map", None)):
            self.features = self._features(samples.X)
            shape = samples.counts().shape
            for code in range(shape[0]):
                rows = samples.domain_codes == code
                membership = Membership.from_codes(samples.codes[rows], samples.domain_codes[rows], shape)
                self.by_domain[code] = CellStatistics.from_features(self.features[rows], membership)

    def fold(self, train: Ints, test: Ints) -> Decomposition:
        """Decompose one fold."""
        return self._feature_fold(train, test) if self.grams is None else self._kernel_fold(self.grams, train, test)

    def _kernel_fold(self, grams: SplitGrams, train: Ints, test: Ints) -> Decomposition:
        kernel = grams.kernel(self.projection, train)
        K = grams.between(kernel, train, train)
        means, _, precision = kernel.center(K, type(self.projection).__name__)
        spectrum = gram_spectrum(K, get_membership(self.samples, train), precision=precision)
        # Directions of a centered matrix are orthogonal to constants, but for the null space, which is of no use.
        lift = spectrum.lift
        assert lift is not None  # as of every decomposition
        vectors = lift - lift.mean(axis=0)
        projected = product(grams.between(kernel, test, train), vectors)
        basis = KernelBasis(lift * spectrum.values, projected, means @ vectors)
        return Decomposition(self.samples, train, test, spectrum, basis.combined)

    def _feature_fold(self, train: Ints, test: Ints) -> Decomposition:
        features = self._features(_safe_indexing(self.samples.X, train)) if self.features is None else self.features
        cells = self._statistics(features, train)
        spectrum = feature_spectrum(cells, type(self.projection).__name__)
        mean = cells.mean

        def combine(
            coefficients: Array,
        ) -> KernelBasis:  # all folds share the features: nothing as large is made for one
            weights = spectrum.to_coefficients(coefficients)
            values, offset = product(features, weights), mean @ weights
            return KernelBasis(values[train] - offset, values[test], offset)

        return Decomposition(self.samples, train, test, spectrum, combine)

    def _features(self, train: Any) -> Array:
        """Features of all samples under the map fitted to some of them."""
        feature_map = self.projection.feature_map
        fitted = feature_map if isinstance(feature_map, str) else clone(feature_map).fit(train, None)
        return map_features(fitted, self.samples.X)

    def _statistics(self, features: Array, train: Ints) -> CellStatistics:
        """Add up the statistics of whole domains where a fold trains on such; no other sample then has any say."""
        distinct = np.unique(train)  # a fold may hold a sample more than once
        domains, sizes = np.unique(self.samples.domain_codes[distinct], return_counts=True)
        whole = [self.by_domain.get(int(name)) for name in domains]
        parts = [part for part, size in zip(whole, sizes, strict=True) if part and part.counts.sum() == size]
        if len(parts) == len(domains) and len(distinct) == len(train):
            return reduce(operator.add, parts)
        return CellStatistics.from_features(features[train], get_membership(self.samples, train))


@cache
def solution_params(kind: Any) -> tuple[str, ...]:
    """Names of what changes the solution, given the decomposition: the method and its own parameters."""
    return ("__class__", *sorted({*kind._get_param_names()} - {*KERNEL_PARAMS, *SHAPE_PARAMS}))
