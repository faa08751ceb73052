"""Decompositions of splits in the eigenbasis of their kernel matrices, shared by weights, ridges and components."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
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
from ..kernels import Kernel, check_square_memory, is_multiple, squared_distances
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


class SplitGrams:
    """Kernel values between subsets of the samples; values that several splits or widths share are computed once.

    Squared distances serve every width of the rbf kernel on a split. The values of a split depend on its own samples
    only: kernels that are evaluated about the mean of the training samples are evaluated for each split, the others
    once for all splits.
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
        """The kernel of a split, with parameters that depend on the training samples resolved."""
        kernel = Kernel.from_estimator(projection)
        return kernel.resolve(_safe_indexing(self.X, train)) if self._whole is None else kernel

    def between(self, kernel: Kernel, rows: Ints, columns: Ints) -> Array:
        """Kernel values, in a new array, of the split whose training samples are `columns`."""
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

    def __init__(self, samples: Samples, train: Ints, test: Ints, spectrum: Spectrum, combine: Combine) -> None:
        self.counts = get_membership(samples, train).counts
        self.spectrum = replace(spectrum, lift=None)
        self.combine = combine
        self.size = float(np.linalg.norm(spectrum.values))
        self._test_domain = samples.domain[test]
        self.source_domains = EncodedLabels.from_domains(samples.domain[train], len(train)).names.tolist()
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
    ) -> tuple[Array, Any]:
        """Training and test samples as the projection transforms them; a list of parts if these are centered apart.

        The projection may differ from the solved one in the number of components, their scale and their centering.
        """
        problem = replace(solved.problem, n_components=projection.n_components, scaling=projection.scaling)
        projected = solved.combine(problem.select_components(solved.solution).coefficients)
        if projection.centering == "source":
            return projected.train, projected.test - projected.offset
        stored = dict.fromkeys(self.source_domains, projected.offset)
        centering = DomainCenters(stored, 'centering="target"', "Leave it out, or merge it with another.")
        batches = zip(parts(projected.test), parts(self._test_domain), strict=True)
        return projected.train, [
            centering.center_batch(Z, EncodedLabels.from_domains(domains, len(Z))) for Z, domains in batches
        ]


class DecompositionSource:
    """Source of the decompositions of one kernel or feature map; what all splits share is computed once."""

    def __init__(self, projection: Projection, samples: Samples, grams: SplitGrams | None) -> None:
        self.projection = projection
        self.samples = samples
        self.grams = grams
        self.features: Array | None = None
        self.by_domain: dict[int, CellStatistics] = {}
        # A fitted map gives all splits the same features, and statistics that are additive over domains.
        if is_fitted_map(getattr(projection, "feature_map", None)):
            self.features = self._features(samples.X)
            shape = samples.counts().shape
            for code in range(shape[0]):
                rows = samples.domain_codes == code
                membership = Membership.from_codes(samples.codes[rows], samples.domain_codes[rows], shape)
                self.by_domain[code] = CellStatistics.from_features(self.features[rows], membership)

    def decompose(self, train: Ints, test: Ints) -> Decomposition:
        """Decompose one split."""
        if self.grams is None:
            return self._decompose_features(train, test)
        return self._decompose_kernel(self.grams, train, test)

    def _decompose_kernel(self, grams: SplitGrams, train: Ints, test: Ints) -> Decomposition:
        kernel = grams.kernel(self.projection, train)
        K = grams.between(kernel, train, train)
        X_train = _safe_indexing(grams.X, train)
        means, _, precision = kernel.center(K, X_train, type(self.projection).__name__)
        spectrum = gram_spectrum(K, get_membership(self.samples, train), precision=precision)
        # Eigenvectors of a centered matrix are orthogonal to constants, except in the null space, which is not used.
        lift = spectrum.lift
        assert lift is not None  # gram_spectrum always returns it
        vectors = lift - lift.mean(axis=0)
        projected = product(grams.between(kernel, test, train), vectors)
        basis = KernelBasis(lift * spectrum.values, projected, means @ vectors)
        return Decomposition(self.samples, train, test, spectrum, basis.combine)

    def _decompose_features(self, train: Ints, test: Ints) -> Decomposition:
        features = self._features(_safe_indexing(self.samples.X, train)) if self.features is None else self.features
        cells = self._statistics(features, train)
        spectrum = feature_spectrum(cells, type(self.projection).__name__)
        mean = cells.mean

        def combine(coefficients: Array) -> KernelBasis:
            # All splits share the features, so that no array of their size is made for a single split.
            weights = spectrum.to_coefficients(coefficients)
            values = product(features, weights)
            offset = mean @ weights
            return KernelBasis(values[train] - offset, values[test], offset)

        return Decomposition(self.samples, train, test, spectrum, combine)

    def _features(self, train: Any) -> Array:
        """Features of all samples under the map fitted to some of them."""
        feature_map = self.projection.feature_map
        fitted = feature_map if isinstance(feature_map, str) else clone(feature_map).fit(train, None)
        return map_features(fitted, self.samples.X)

    def _statistics(self, features: Array, train: Ints) -> CellStatistics:
        """Sum the statistics of whole domains if a split trains on whole domains; else compute those of its rows."""
        distinct = np.unique(train)  # a split may contain a sample more than once
        domains, sizes = np.unique(self.samples.domain_codes[distinct], return_counts=True)
        whole = [self.by_domain.get(int(name)) for name in domains]
        parts = [part for part, size in zip(whole, sizes, strict=True) if part and part.counts.sum() == size]
        if len(parts) == len(domains) and len(distinct) == len(train):
            return reduce(operator.add, parts)
        return CellStatistics.from_features(features[train], get_membership(self.samples, train))


class FeatureStage:
    """Features that candidates are fitted to, with cached distances, kernels and decompositions that they share."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self._train = b""
        self._distances: dict[bytes, Array] = {}
        self._grams: dict[Hashable, SplitGrams] = {}
        self._sources: dict[Hashable, DecompositionSource] = {}
        self._frozen: dict[int, FeatureStage] = {}

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
        return self.source(projection).decompose(rows.train, rows.test)

    def source(self, projection: Projection) -> DecompositionSource:
        """The source of decompositions for a kernel or feature map; all widths of the rbf kernel share distances."""
        key = kernel_key(projection)
        if key not in self._sources:
            grams = None
            if getattr(projection, "feature_map", None) is None:
                family = "rbf" if projection.kernel == "rbf" else key
                if family not in self._grams:
                    self._grams = {family: SplitGrams(projection, self.samples.X, self.distances_to)}
                grams = self._grams[family]
            self._sources = {key: DecompositionSource(projection, self.samples, grams)}
        return self._sources[key]

    def after(self, transformer: Any, rows: SplitRows) -> tuple[FeatureStage, SplitRows]:
        """The stage after a transformer that is fitted to the training samples; a frozen one serves all splits."""
        if transformer is None:
            return self, rows
        samples = self.samples
        if is_fitted_map(transformer):
            if id(transformer) not in self._frozen:
                self._frozen[id(transformer)] = FeatureStage(replace(samples, X=map_features(transformer, samples.X)))
            return self._frozen[id(transformer)], rows
        train = rows.train
        X = _safe_indexing(samples.X, train)
        fitted = resolve_width(transformer, X)
        if not accepts_domains(fitted.fit):
            fitted.fit(X, samples.y[train])
            features = map_features(fitted, _safe_indexing(samples.X, rows.all))
            return FeatureStage(replace(samples.take(rows.all), X=features)), rows.in_order
        fitted.set_output(transform="default").fit(X, samples.y[train], sample_domain=samples.domain[train])
        # The features of a sample may depend on the other held-out samples of its split, so rows are repeated.
        features_by_part = [
            fitted.transform(_safe_indexing(samples.X, part), sample_domain=samples.domain[part]) for part in rows
        ]
        ends = np.cumsum([len(part) for part in rows])
        train_positions, *test_positions = np.split(np.arange(ends[-1]), ends[:-1])
        repeated = replace(samples.take(np.concatenate(tuple(rows))), X=np.vstack(features_by_part))
        return FeatureStage(repeated), SplitRows(train_positions, tuple(test_positions))


@dataclass(frozen=True)
class SplitRows:
    """Training rows, and the held-out rows of each split with these training rows."""

    train: Ints
    tests: tuple[Ints, ...]

    def __iter__(self) -> Iterator[Ints]:
        return iter((self.train, *self.tests))

    @cached_property
    def test(self) -> Ints:
        """All held-out rows, each once."""
        return self.tests[0] if len(self.tests) == 1 else np.unique(np.concatenate(self.tests))

    @cached_property
    def places(self) -> tuple[Ints, ...]:
        """Positions of the held-out rows of each split among all held-out rows."""
        if len(self.tests) == 1:
            return (np.arange(len(self.test)),)
        return tuple(np.searchsorted(self.test, test) for test in self.tests)

    @cached_property
    def all(self) -> Ints:
        """The training rows, then all held-out rows."""
        return np.concatenate([self.train, self.test])

    @cached_property
    def in_order(self) -> SplitRows:
        """Positions of these rows after they are taken in the order of `all`."""
        n = len(self.train)
        return SplitRows(np.arange(n), tuple(n + place for place in self.places))

    def parts(self, Z: Any) -> list[Any]:
        """Rows of each split, from an array with a row for each held-out row."""
        return [Z] if len(self.tests) == 1 else [Z[place] for place in self.places]


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
