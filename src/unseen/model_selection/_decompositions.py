"""Decompositions of splits in the eigenbasis of their kernel matrices, shared by weights, ridges and components."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache, cached_property
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
from ..kernels import Kernel, check_square_memory, squared_distances
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
from ._candidate import accepts_domains, resolve_width
from ._preparation import tree_samples

KERNEL_PARAMS = ("kernel", "gamma", "degree", "coef0", "kernel_params", "feature_map")
SHAPE_PARAMS = ("scaling", "centering", "n_components")


def get_membership(samples: Samples, rows: Ints) -> Membership:
    """Cells of some samples, without absent classes and domains."""
    classes, domains = (
        np.unique(codes[rows], return_inverse=True)[1].astype(np.intp)
        for codes in (samples.codes, samples.domain_codes)
    )
    return Membership.from_codes(classes, domains)


@dataclass(frozen=True)
class KernelBasis:
    """Coordinates of training and test samples of which components are combinations.

    `train` is centered on the training data; `test` is centered when `offset`, the training mean, is subtracted.
    """

    train: Array
    test: Array
    offset: Array

    def combine(self, coefficients: Array) -> KernelBasis:
        """Combine the coordinates into new ones."""
        return KernelBasis(
            product(self.train, coefficients), product(self.test, coefficients), self.offset @ coefficients
        )


Combine = Callable[[Array], KernelBasis]  # coordinates of the samples of a fold, combined by coefficients


class SolvedProjection(NamedTuple):
    """All components of a setting, the function that combines coordinates, and the eigenproblem that they solve."""

    solution: Solution
    combine: Combine
    problem: ProjectionProblem


class Decomposition:
    """Training and test rows of a split under one kernel, decomposed once; `project` then costs O(cells^3)."""

    max_reductions: float = np.inf  # cached reductions to cell space, one for each ridge

    def __init__(self, samples: Samples, rows: SplitRows, spectrum: Spectrum, combine: Combine) -> None:
        self.counts = get_membership(samples, rows.train).counts
        self.spectrum = replace(spectrum, lift=None)
        self.combine = combine
        self.size = float(np.linalg.norm(spectrum.values))
        self._test_domain = samples.domain[rows.test]
        source_domain = samples.domain[rows.train]
        self.source_domains = EncodedLabels.from_domains(source_domain, len(source_domain)).names.tolist()
        self._reductions: dict[tuple[float, float, float], tuple[Spectrum, WhitenedProblem, Combine]] = {}

    def solve(self, projection: Projection) -> SolvedProjection:
        """Solve the eigenproblem of a setting."""
        problem = make_problem(projection, self.counts, self.size)
        varying, whitened, combine = self._reduction(problem)
        solution = problem.solve(varying, whitened)
        return SolvedProjection(solution, combine if problem.scatter_problem.is_low_rank else self.combine, problem)

    def _reduction(self, problem: ProjectionProblem) -> tuple[Spectrum, WhitenedProblem, Combine]:
        """Reduce to cell space, once for each weight of the within scatter, norm weight and ridge."""
        scatter_problem = problem.scatter_problem
        key = (scatter_problem.within_weight, scatter_problem.norm_weight, scatter_problem.ridge)
        if key not in self._reductions:
            varying, whitened = problem.whiten(self.spectrum)
            (norms,) = linalg.qr(whitened.norm_factor, mode="r")
            reduced = replace(whitened, directions=np.eye(whitened.directions.shape[1]), norm_factor=norms)
            if len(self._reductions) >= self.max_reductions:
                del self._reductions[next(iter(self._reductions))]
            self._reductions[key] = varying, reduced, self.combine(whitened.directions).combine
        return self._reductions[key]

    def principal(self, max_components: int) -> KernelBasis:
        """Kernel principal components: the eigenbasis itself, each direction with the spread of the data along it."""
        values = self.spectrum.values
        order = np.argsort(-values)[: min(max_components, np.count_nonzero(values > 0))]
        coefficients = np.zeros((len(values), len(order)))
        coefficients[order, np.arange(len(order))] = values[order] ** -0.5
        return self.combine(coefficients)

    def project(
        self, projection: Projection, solved: SolvedProjection, parts: Callable[[Any], list[Any]]
    ) -> tuple[Array, list[Array]]:
        """Training samples and the parts of the test samples as the projection transforms them.

        The projection may differ from the solved one in the number of components, their scale and their centering.
        """
        problem = replace(solved.problem, n_components=projection.n_components, scaling=projection.scaling)
        projected = solved.combine(problem.select_components(solved.solution).coefficients)
        if projection.centering == "source":
            return projected.train, parts(projected.test - projected.offset)
        stored = dict.fromkeys(self.source_domains, projected.offset)
        centering = DomainCenters(stored, 'centering="target"', "Leave it out, or merge it with another.")
        batches = zip(parts(projected.test), parts(self._test_domain), strict=True)
        return projected.train, [
            centering.center_batch(Z, EncodedLabels.from_domains(domains, len(Z))) for Z, domains in batches
        ]


class FeatureStage:
    """Features that candidates are fitted to, with distances and decompositions that they share."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self._train = b""
        self._distances: dict[bytes, Array] = {}
        self._mapped: dict[Any, FeatureStage] = {}

    @cached_property
    def for_trees(self) -> FeatureStage:
        """The stage of the features for trees."""
        return FeatureStage(tree_samples(self.samples))

    def distances_to(self, train: Ints, rows: Ints) -> Array:
        """Squared distances of some samples from the training samples; a cached array that must not be modified.

        They are computed about the mean of the training samples: a distant row in another split must not change their
        rounding. All kernel widths of a split share them, so those of the last training set are kept.
        """
        if train.tobytes() != self._train:
            self._train, self._distances = train.tobytes(), {}
        key = rows.tobytes()
        if key not in self._distances:
            check_square_memory(math.isqrt(len(train) * len(rows)), copies=2, caller="An rbf SVM")
            X_train = _safe_indexing(self.samples.X, train)
            if key == self._train:
                self._distances[key] = squared_distances(X_train)
            else:
                self._distances[key] = squared_distances(_safe_indexing(self.samples.X, rows), X_train)
        return self._distances[key]

    def decompose(self, projection: Projection, rows: SplitRows) -> Decomposition:
        """The decomposition of a split that all settings of a kernel or feature map share."""
        feature_map = getattr(projection, "feature_map", None)
        if feature_map is None:
            return self._decompose_kernel(projection, rows)
        if is_fitted_map(feature_map):  # all splits have the same features
            features = self._map(feature_map).samples.X
        else:
            fitted = clone(feature_map).fit(_safe_indexing(self.samples.X, rows.train), None)
            features = map_features(fitted, self.samples.X)
        cells = CellStatistics.from_features(features[rows.train], get_membership(self.samples, rows.train))
        spectrum = feature_spectrum(cells, type(projection).__name__)

        def combine(coefficients: Array) -> KernelBasis:
            # All splits share the features, so that no array of their size is made for a single split.
            weights = spectrum.to_coefficients(coefficients)
            values = product(features, weights)
            offset = cells.mean @ weights
            return KernelBasis(values[rows.train] - offset, values[rows.test], offset)

        return Decomposition(self.samples, rows, spectrum, combine)

    def _decompose_kernel(self, projection: Projection, rows: SplitRows) -> Decomposition:
        name = type(projection).__name__
        check_square_memory(len(self.samples), copies=3, caller=f"A search over {name}")
        X_train = _safe_indexing(self.samples.X, rows.train)
        kernel = Kernel.from_estimator(projection)
        if not kernel.is_precomputed:
            kernel = kernel.resolve(X_train)
        K = self._kernel_values(kernel, rows.train, rows.train)
        means, _, precision = kernel.center(K, X_train, name)
        spectrum = gram_spectrum(K, get_membership(self.samples, rows.train), precision=precision)
        # Eigenvectors of a centered matrix are orthogonal to constants, except in the null space, which is not used.
        lift = spectrum.lift
        assert lift is not None  # gram_spectrum always returns it
        vectors = lift - lift.mean(axis=0)
        projected = product(self._kernel_values(kernel, rows.train, rows.test), vectors)
        basis = KernelBasis(lift * spectrum.values, projected, means @ vectors)
        return Decomposition(self.samples, rows, spectrum, basis.combine)

    def _kernel_values(self, kernel: Kernel, train: Ints, rows: Ints) -> Array:
        """Kernel values between some samples and the training samples, in a new array."""
        X = self.samples.X
        if kernel.is_precomputed:
            return X[np.ix_(rows, train)].astype(np.float64, copy=False)
        if kernel.kernel == "rbf":
            return kernel.evaluate_from_distances(self.distances_to(train, rows).copy(), X.shape[1])
        X_train = _safe_indexing(X, train)
        if rows is train:
            return kernel.evaluate_for_centering(X_train)
        return kernel.evaluate_for_centering(_safe_indexing(X, rows), X_train)

    def _map(self, fitted_map: Any) -> FeatureStage:
        """The stage of the features of a map that is not fitted again, which serves all splits."""
        key = hashable_key(fitted_map)
        if key not in self._mapped:
            self._mapped[key] = FeatureStage(replace(self.samples, X=map_features(fitted_map, self.samples.X)))
        return self._mapped[key]

    def after(self, transformer: Any, rows: SplitRows) -> tuple[FeatureStage, SplitRows]:
        """The stage after a transformer that is fitted to the training samples."""
        if transformer is None:
            return self, rows
        if is_fitted_map(transformer):
            return self._map(transformer), rows
        samples = self.samples
        train = rows.train
        X = _safe_indexing(samples.X, train)
        fitted = resolve_width(transformer, X)
        if not accepts_domains(fitted.fit):
            fitted.fit(X, samples.y[train])
            features = map_features(fitted, _safe_indexing(samples.X, rows.all))
            return FeatureStage(replace(samples.take(rows.all), X=features)), rows.in_order
        fitted.set_output(transform="default").fit(X, samples.y[train], sample_domain=samples.domain[train])
        # The features of a sample may depend on the other held-out samples of its split, so rows are repeated.
        parts = (train, *rows.tests)
        features_by_part = [
            fitted.transform(_safe_indexing(samples.X, part), sample_domain=samples.domain[part]) for part in parts
        ]
        ends = np.cumsum([len(part) for part in parts])
        train_positions, *test_positions = np.split(np.arange(ends[-1]), ends[:-1])
        repeated = replace(samples.take(np.concatenate(parts)), X=np.vstack(features_by_part))
        return FeatureStage(repeated), SplitRows(train_positions, tuple(test_positions))


@dataclass(frozen=True)
class SplitRows:
    """Training rows, and the held-out rows of each split with these training rows."""

    train: Ints
    tests: tuple[Ints, ...]

    @cached_property
    def test(self) -> Ints:
        """All held-out rows, each once."""
        return self.tests[0] if len(self.tests) == 1 else np.unique(np.concatenate(self.tests))

    @cached_property
    def all(self) -> Ints:
        """The training rows, then all held-out rows."""
        return np.concatenate([self.train, self.test])

    @cached_property
    def in_order(self) -> SplitRows:
        """Positions of these rows after they are taken in the order of `all`."""
        n = len(self.train)
        return SplitRows(np.arange(n), tuple(self.parts(np.arange(n, len(self.all)))))

    def parts(self, Z: Any) -> list[Any]:
        """Rows of each split, from an array with a row for each held-out row."""
        return [Z] if len(self.tests) == 1 else [Z[np.searchsorted(self.test, test)] for test in self.tests]


def kernel_key(projection: Any) -> Hashable:
    """Parameters on which kernel methods must agree to share a decomposition."""
    return tuple(hashable_key(getattr(projection, name, None)) for name in KERNEL_PARAMS)


def hashable_key(value: Any) -> Any:
    """The value if it is hashable, else its identity."""
    return value if value.__hash__ else id(value)


@cache
def solution_params(kind: Any) -> tuple[str, ...]:
    """Names of the parameters that change the solution, given the decomposition."""
    return ("__class__", *sorted({*kind._get_param_names()} - {*KERNEL_PARAMS, *SHAPE_PARAMS}))
