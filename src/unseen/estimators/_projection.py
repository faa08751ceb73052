"""The base class of projections, and their eigenproblem: validation, fitting, checks of accuracy, transforming."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..exceptions import FewerComponentsWarning, warn
from ..kernels import (
    CenteredKernel,
    Kernel,
    KernelTransformer,
    check_gram,
    check_square_memory,
    combine_features,
    compute_features,
    fit_feature_map,
    is_fitted_map,
    map_in_blocks,
    parse_multiple,
)
from ..linalg import (
    Array,
    IndefiniteKernelError,
    Ints,
    Membership,
    Moments,
    ScatterProblem,
    SingularProblemError,
    Solution,
    Spectrum,
    WhitenedProblem,
    bound_component_errors,
    gram_spectrum,
    krylov_spectra,
    merge_moments,
    product,
    residuals,
    solve,
    solve_with_total,
    whiten,
)
from ..utils.validation import (
    EncodedLabels,
    Labels,
    check_domains,
    encode_classes,
    is_dask,
    keyword_parameters,
    require_named_domains,
    reset_fitted_attributes,
)
from ._dask import (
    align_blocks,
    copy_for_workers,
    describe_columns,
    map_blocks,
    reduce_blocks,
    row_blocks,
    sample_rows,
)
from ._domain_centering import DomainCenters, DomainTransformer, apply_centering, warn_about_labels
from ._statistics import Statistics, feature_spectrum, sum_statistics

NON_NEGATIVE = Interval(Real, 0, None, closed="left")
FEATURE_MAPS: list[Any] = [StrOptions({"linear"}), HasMethods(["fit", "transform"]), None]
RIDGE_SCALE = 0.01  # The ridge "scale" is a power of this share of the norm of the centered kernel matrix.

MAX_EIGH_ROWS = 500  # Up to this size an eigendecomposition is cheap enough to be preferred for its accuracy.
MIN_KRYLOV_RIDGE = 1e-8  # relative to the denominator; a smaller ridge needs large Krylov spaces
EIGENVALUE_ACCURACY = 1e-9  # relative, of a solution in a Krylov space
COMPONENT_ACCURACY = 1e-7  # sine of the angle to the exact component, of a solution in a Krylov space
EPS = float(np.finfo(float).eps)

# Attributes that `finalize` sets, and that a further chunk makes obsolete.
SOLUTION_ATTRIBUTES = ("eigenvalues_", "residual_", "coef_", "offset_", "recentered_")


COMMON = """\
ridge : float, "scale" or a multiple such as "0.1*scale", default="scale"
    Weight of ``tr(B'B)`` in the denominator, on the scale of the squared eigenvalues of the centered kernel matrix Kc
    (MDA and DICA: of its eigenvalues). "scale" is ``1e-4 * norm(Kc) ** 2`` (MDA and DICA: ``1e-2 * norm(Kc)``).
kernel : str or callable, default="rbf"
    "cosine", "laplacian", "linear", "poly", "rbf" or "sigmoid", as in scikit-learn, "precomputed", or a function of two
    samples.
{kernel_parameters}
scaling : {"paper", "unit_norm"}, default="paper"
    Length of the columns of B before they are divided by the square roots of their eigenvalues: "paper" makes
    ``B'AB = I`` for the denominator A, "unit_norm" makes them unit vectors, as released code does.
centering : {"source", "target"}, default="source"
    Which mean is subtracted from new samples: "source" subtracts the mean of the training data, "target" the mean of
    the batch of each new domain, as Algorithm 1 of the paper does. Results with "target" are transductive, and they
    assume that class proportions in the batch resemble those of the source domains.
feature_map : transformer, "linear" or None, default=None
    Explicit features instead of `kernel`, such as :class:`~unseen.PivotedNystroem`: memory no longer grows with the
    square of the number of samples. "linear" uses X itself. A map must work row by row; for `partial_fit`, freeze a
    fitted one with :class:`sklearn.frozen.FrozenEstimator`."""

ATTRIBUTES = """\
eigenvalues_ : ndarray of shape (n_components,)
    Ratio of numerator to denominator for each component, in decreasing order. After `partial_fit`, this and the other
    attributes of the solution exist once `finalize` or `transform` was called.
residual_ : ndarray of shape (n_components,)
    Bounds on the relative errors of the eigenvalues, from the residuals of the solution; infinite without a ridge.
classes_ : ndarray of shape (n_classes,)
    Class labels.
domains_ : ndarray of shape (n_domains,)
    Domains seen in training; a single None if they were not named.
cell_counts_ : ndarray of shape (n_domains, n_classes)
    Number of training samples of each class in each domain.
gamma_ : float or None
    The kernel coefficient that was used; only without `feature_map`.
X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
    Training samples, needed to evaluate the kernel; only without `feature_map`, None for a precomputed kernel.
dual_coef_ : ndarray of shape (n_samples, n_components)
    Weight of each training sample in each component; only without `feature_map`.
feature_map_ : transformer or None
    The fitted feature map; None for "linear". Only with `feature_map`.
coef_ : ndarray of shape (n_map_features, n_components)
    Weight of each feature in each component; only with `feature_map`.
statistics_ : dict of ndarrays
    Statistics of the training samples as plain arrays: names, counts, cell means and the scatter within cells; only
    with `feature_map`.
offset_ : ndarray of shape (n_components,)
    The mean that is subtracted from projected samples.
recentered_ : bool
    Whether `recenter` estimated `offset_` on unlabeled target data.
{features_in}"""


def _has_feature_map(projection: Projection) -> bool:
    if projection.feature_map is None:
        raise AttributeError(
            "partial_fit needs explicit features, which a kernel does not have. Set feature_map, for example to "
            "unseen.PivotedNystroem(1000)."
        )
    return True


@keyword_parameters
class Projection(DomainTransformer, KernelTransformer):
    """Base class of projections; a subclass defines its parameters and its `_scatter_problem`.

    With explicit features it is fitted from statistics, which can be collected in chunks: `statistics_` are plain
    arrays that any file format can store.
    """

    feature_map: Any = None
    n_components: int | None = field(default=None, kw_only=False)
    ridge: float | str = "scale"
    scaling: Literal["paper", "unit_norm"] = "paper"
    centering: Literal["source", "target"] = "source"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelTransformer._parameter_constraints,
        "feature_map": FEATURE_MAPS,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "ridge": [NON_NEGATIVE, str],
        "scaling": [StrOptions({"paper", "unit_norm"})],
        "centering": [StrOptions({"source", "target"})],
    }
    _shared_docs: ClassVar[dict[str, str]] = {
        "common": COMMON,
        "attributes": ATTRIBUTES,
        **KernelTransformer._shared_docs,
    }
    # The largest term of the denominator grows like this power of the kernel matrix, and so must its ridge.
    _ridge_power: ClassVar[int] = 2
    # Parameters that weigh invariance across domains. Of two settings with equal scores the more invariant one is
    # preferred.
    _invariance_weights: ClassVar[tuple[str, ...]] = ()
    __metadata_request__partial_fit: ClassVar = {"sample_domain": True}

    @abstractmethod
    def _scatter_problem(self, counts: Ints, ridge: float) -> ScatterProblem:
        """Return the eigenproblem of the method for a table of counts."""

    def _default_components(self, counts: Ints) -> int | None:
        """Return the number of components for ``n_components=None``; None keeps all."""
        return None

    def _needs_labels(self) -> bool:
        return True

    def _weight(self, parameter: str, counts: Ints) -> float:
        """Return a weight as a number; the unit "scale" is the number of samples.

        Scatters of means need that factor to be comparable with sums over samples.
        """
        weight = getattr(self, parameter)
        return parse_multiple(weight, "scale", parameter) * counts.sum() if isinstance(weight, str) else float(weight)

    @require_named_domains
    def fit(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Self:
        """Learn the projection.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of all source domains; the Gram matrix for ``kernel="precomputed"``. With `feature_map` also a Dask
            array or dataframe, which is not loaded into memory.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample: strings, integers or other hashable scalars. None means one domain, with a
            `SingleDomainWarning`.

        Returns
        -------
        self : object
            The fitted projection.
        """
        self._validate_params()
        reset_fitted_attributes(self)
        if self.feature_map is not None:
            self._store_statistics(self._collect_statistics(X, y, sample_domain, min_samples=2))
            return self.finalize()
        if is_dask(X):
            raise ValueError(
                f"{type(self).__name__} with kernel={self.kernel!r} needs all samples in memory, but X is a Dask "
                'collection. Set feature_map, for example to unseen.PivotedNystroem(1000) or to "linear", whose '
                "statistics are summed over blocks."
            )
        X, classes, domains = self._check_training_data(X, y, sample_domain, min_samples=2)
        if self.kernel == "precomputed":
            check_gram(X)
        membership = Membership.from_codes(classes.codes, domains.codes)
        self._set_cell_counts(classes.names, domains.names, membership.counts)
        self._check_labels()
        self._solve_kernel(X, membership)
        return self

    @available_if(_has_feature_map)
    @require_named_domains
    def partial_fit(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Self:
        """Learn from one more chunk of samples; needs `feature_map`.

        Chunks of any size, in any order, give the result of one `fit` on all samples. A chunk costs its features and
        one matrix product. The eigenproblem is not solved for every chunk: `transform`, `recenter` and
        `get_feature_names_out` solve it when they are called, and `finalize` solves it at once, so that attributes such
        as `eigenvalues_` can be read. A map that learns from data learns from the first chunk only: pass a
        representative first chunk, or freeze a fitted map with :class:`sklearn.frozen.FrozenEstimator`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of any domains and any classes, including new ones.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample. None, in every chunk, means one domain.

        Returns
        -------
        self : object
            The projection.
        """
        self._validate_params()
        previous = vars(self).get("statistics_")
        if previous is None:
            reset_fitted_attributes(self)
        statistics = self._collect_statistics(X, y, sample_domain, reset=previous is None)
        if previous is not None:
            statistics = Statistics.from_arrays(previous) + statistics
        self._store_statistics(statistics)
        return self

    def finalize(self) -> Self:
        """Solve the eigenproblem for the chunks that `partial_fit` has seen.

        `fit` and `transform` include this step. After `partial_fit`, call it before reading attributes such as
        `eigenvalues_` or `coef_`. Has no effect without a new chunk.

        Returns
        -------
        self : object
            The fitted projection.
        """
        if "statistics_" in vars(self) and "offset_" not in vars(self):
            self._solve_statistics(Statistics.from_arrays(self.statistics_))
        check_is_fitted(self, "offset_")
        return self

    def transform(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Project samples onto the learned components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; for ``kernel="precomputed"`` their kernel values with the training samples. A Dask array or
            dataframe is transformed lazily.
        sample_domain : array-like of shape (n_samples,), default=None
            Matters for ``centering="target"`` only: domains seen in training keep the source mean, every other domain
            is centered on its mean in X. None means one new domain.

        Returns
        -------
        Z : ndarray or dask array of shape (n_samples, n_components)
            Learned features.
        """
        self.finalize()
        if is_dask(X):
            output = _get_output_config("transform", self)["dense"]
            if output != "default":
                raise ValueError(
                    f"transform of a Dask collection is lazy, but set_output requests {output!r}, which would load it "
                    'into memory. Call set_output(transform="default"), or transform data in memory.'
                )
            validate_data(self, describe_columns(X), reset=False, skip_check_array=True)
            return self._transform_dask(X, sample_domain)
        X = self._check_samples(X, reset=False)
        labels = None if sample_domain is None else check_domains(sample_domain, X.shape[0])
        return apply_centering(self, self._project(X), labels).astype(X.dtype, copy=False)

    def recenter(self, X: Any) -> Self:
        """Return a fitted copy that is centered on an unlabeled batch of a new domain.

        The copy transforms single samples of that domain as ``centering="target"`` would transform the entire batch.
        Results of the copy are transductive: they use unlabeled target data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            At least two unlabeled samples of the new domain.

        Returns
        -------
        projection : object
            A copy; this projection does not change.
        """
        self.finalize()
        if is_dask(X):
            moments = self._collect_dask_moments(row_blocks(X))[None]
        else:
            moments = Moments.from_values(self._transform_uncentered(X))
        if moments.count < 2:
            raise ValueError(
                f"recenter needs a batch of at least 2 samples to estimate a mean; got X with {moments.count}. A "
                "single sample, centered on itself, is always projected to the origin."
            )
        recentered = copy.copy(self)
        recentered.offset_ = moments.mean
        recentered.recentered_ = True
        return recentered

    @property
    def _sample_kernel(self) -> Kernel:
        """The kernel that validates samples; any feature map takes the samples of the linear kernel."""
        return Kernel.from_estimator(self) if self.feature_map is None else Kernel("linear")

    @property
    def _has_fitted_map(self) -> bool:
        return "feature_map_" in vars(self)

    @property
    def _weights(self) -> Array:
        """The weights of the components in the space of the kernel or of the feature map."""
        return self.coef_ if self._has_fitted_map else self.dual_coef_

    @property
    def _n_features_out(self) -> int:
        return len(self.finalize().eigenvalues_)

    def _check_training_data(
        self, X: Any, y: Any, domain: Any, *, reset: bool = True, min_samples: int = 1
    ) -> tuple[Any, EncodedLabels, EncodedLabels]:
        """Return validated samples, their classes and their domains."""
        if self._needs_labels():
            X, y = self._check_samples(X, y=y, reset=reset, ensure_min_samples=min_samples)
            classes = EncodedLabels.from_classes(y)
        else:
            X = self._check_samples(X, reset=reset, ensure_min_samples=min_samples)
            classes = EncodedLabels.unnamed(X.shape[0])
        return X, classes, EncodedLabels.from_domains(domain, X.shape[0])

    def _set_cell_counts(self, classes: Labels, domains: Labels, counts: Ints) -> None:
        """Set the fitted attributes that follow from the labels."""
        self.domains_ = domains
        self.cell_counts_ = counts
        if self._needs_labels():
            self.classes_ = classes

    def _check_labels(self) -> None:
        """Raise for a single class; warn about a single domain, and about domains whose labels look masked."""
        classes = np.array([None])
        if self._needs_labels():
            classes, _ = encode_classes(self.classes_, type(self).__name__)
        warn_about_labels(classes, self.domains_, self.cell_counts_, self)

    def _collect_statistics(
        self, X: Any, y: Any, sample_domain: Any, *, reset: bool = True, min_samples: int = 1
    ) -> Statistics:
        """Return the statistics of the features of samples; with `reset` the feature map is fitted first."""
        if is_dask(X):
            return self._collect_dask_statistics(X, y, sample_domain, reset=reset)
        X, classes, domains = self._check_training_data(X, y, sample_domain, reset=reset, min_samples=min_samples)
        if reset:
            self._fit_feature_map(X)
        return Statistics.from_features(lambda rows: compute_features(self.feature_map_, X[rows]), classes, domains)

    def _collect_dask_statistics(self, X: Any, y: Any, sample_domain: Any, *, reset: bool) -> Statistics:
        """Return the statistics of a Dask collection; each block is reduced to its statistics where it is stored."""
        name = type(self).__name__
        if self._needs_labels() and y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        columns = describe_columns(X)
        rows = row_blocks(X)
        if reset:
            # A map that has nothing to learn does not need a pass over the data.
            needs_sample = not is_fitted_map(self.feature_map)
            self._fit_feature_map(self._check_samples(sample_rows(rows)) if needs_sample else None)
        # Last, because the sample has no column names.
        validate_data(self, columns, reset=reset, skip_check_array=True)
        worker = copy_for_workers(self)

        def collect_block(block: Any, y: Any, domain: Any) -> Statistics | None:
            return worker._collect_statistics(block, y, domain, reset=False) if block.shape[0] else None

        labels = {"y": y if self._needs_labels() else None, "sample_domain": sample_domain}
        statistics = reduce_blocks(collect_block, rows, labels, sum_statistics)
        if statistics is None:
            raise ValueError(f"X holds no samples; {name} needs at least 2.")
        return statistics

    def _fit_feature_map(self, X: Any) -> None:
        self.feature_map_ = fit_feature_map(self.feature_map, X, getattr(self, "feature_names_in_", None))

    def _store_statistics(self, statistics: Statistics) -> None:
        """Store statistics as plain arrays, and delete the solution for earlier statistics."""
        self.statistics_ = statistics.arrays()
        self._set_cell_counts(statistics.classes, statistics.domains, statistics.cells.counts)
        for name in SOLUTION_ATTRIBUTES:
            self.__dict__.pop(name, None)

    def _solve_statistics(self, statistics: Statistics) -> None:
        """Solve the eigenproblem in the space of the feature map."""
        self._check_labels()
        cells = statistics.cells
        spectrum = feature_spectrum(cells, type(self).__name__)
        problem = make_problem(self, cells.counts, float(np.linalg.norm(spectrum.values)))
        self.coef_ = self._select_components(problem, *problem.solve_spectrum(spectrum))
        self.offset_ = cells.mean @ self.coef_

    def _solve_kernel(self, X: Any, membership: Membership) -> None:
        """Solve the eigenproblem in the space of the kernel."""
        check_square_memory(X.shape[0], copies=3, caller=type(self).__name__)
        kernel = Kernel.from_estimator(self).resolve(X)
        K = kernel.evaluate_for_centering(X)
        centered = kernel.center(K, X, type(self).__name__)
        problem = make_problem(self, membership.counts, centered.size)
        samples = None if kernel.kernel == "precomputed" else X
        coefficients = self._select_components(problem, *problem.solve_gram(K, centered, membership), samples)
        self.gamma_ = kernel.gamma
        # A copy, because the caller may modify X after the fit.
        self.X_fit_ = None if samples is None else samples.copy()
        # Constants in the kernel have no effect on centered coefficients, so that a single offset centers new samples.
        self.dual_coef_ = coefficients - coefficients.mean(axis=0)
        self.offset_ = centered.means @ self.dual_coef_

    def _select_components(
        self, problem: ProjectionProblem, solution: Solution, residual: Array, X: Any = None
    ) -> Array:
        """Set the attributes that describe a solution, and return the coefficients of its components."""
        solution = problem.select_components(solution, X)
        self.eigenvalues_ = solution.eigenvalues
        self.residual_ = residual
        self.recentered_ = False
        return solution.coefficients

    def _project(self, X: Any, weights: Array | None = None) -> Array:
        """Return the components of validated samples before centering, or other combinations in the same space."""
        if weights is None:
            weights = self._weights
        kernel = Kernel("linear") if self._has_fitted_map else Kernel.from_estimator(self, gamma=self.gamma_)

        def combine(rows: Any) -> Array:
            if self._has_fitted_map:
                return combine_features(self.feature_map_, rows, weights)
            return product(kernel.evaluate_for_centering(rows, self.X_fit_), weights)

        inner_width = max(len(weights), X.shape[1])  # columns of the kernel values and of a copy of the samples
        with np.errstate(over="ignore", invalid="ignore"):  # The check below raises for values that are not finite.
            Z = map_in_blocks(combine, X, weights.shape[1], inner_width)
        return kernel.check_finite(Z)

    def _transform_uncentered(self, X: Any) -> Array:
        self.finalize()
        return self._project(self._check_samples(X, reset=False))

    def _transform_group_uncentered(self, group: Sequence[Any], X: Any) -> list[Array]:
        weights = [member._weights for member in group]
        Z = self._project(self._check_samples(X, reset=False), np.hstack(weights))
        return np.split(Z, np.cumsum([columns.shape[1] for columns in weights])[:-1], axis=1)

    def _space_key(self) -> Hashable:
        self.finalize()
        if self._has_fitted_map:
            return id(getattr(self.feature_map_, "estimator", self.feature_map_))
        return id(self.X_fit_), self.gamma_, self.kernel, self.degree, self.coef0

    def _centers_batches(self) -> bool:
        return self.centering == "target" and not self.finalize().recentered_

    def _domain_centers(self) -> DomainCenters:
        self.finalize()
        return DomainCenters(
            stored_means=dict.fromkeys(self.domains_.tolist(), self.offset_),
            owner='centering="target"',
            advice="Transform a batch of that domain, use recenter(batch) once and then transform single samples, or "
            'set centering="source".',
        )

    def _transform_dask(self, X: Any, sample_domain: Any) -> Any:
        """Project a Dask collection lazily; target centering first computes the means of new domains, in one pass."""
        self.finalize()
        rows = row_blocks(X)
        worker = copy_for_workers(self)
        dtype = np.float32 if rows.dtype == np.float32 else np.float64
        empty = np.empty((0, len(self.eigenvalues_)), dtype=dtype)
        if not self._centers_batches():
            return map_blocks(worker.transform, rows, empty)
        centers = self._domain_centers()
        # Lengths are compared now: a lazy computation could raise only much later.
        rows, domains = align_blocks(rows, {"sample_domain": sample_domain})
        moments = self._collect_dask_moments(rows, domains)
        centers.check_batch_sizes(moments)

        def transform_block(block: Any, domain: Any = None) -> Any:
            Z = worker._transform_uncentered(block)
            labels = None if domain is None else domain[:, 0]
            return centers.subtract(Z, labels, moments).astype(dtype, copy=False)

        return map_blocks(transform_block, rows, empty, *([] if domains is None else [domains[:, None]]))

    def _collect_dask_moments(self, rows: Any, sample_domain: Any = None) -> dict[Any, Moments]:
        """Return the moments of the components of each new domain in a Dask collection."""
        worker = copy_for_workers(self)
        centers = self._domain_centers()
        empty = {} if sample_domain is not None else centers.moments(np.empty((0, len(self.eigenvalues_))))

        def collect_block(block: Any, domain: Any) -> dict[Any, Moments]:
            return centers.moments(worker._transform_uncentered(block), domain) if block.shape[0] else empty

        return reduce_blocks(collect_block, rows, {"sample_domain": sample_domain}, partial(reduce, merge_moments))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels()
        return tags


@dataclass(frozen=True)
class ProjectionProblem:
    """The eigenproblem of a projection for a table of counts, with all parameters resolved to numbers.

    Attributes
    ----------
    scatter_problem : ScatterProblem
        The scatters of the numerator and the denominator, and the ridge.
    counts : ndarray of shape (n_domains, n_classes)
        Number of samples of each class in each domain.
    invariance : float
        Sum of the weights of the terms that penalize differences between domains.
    max_components : int or None
        Number of components to keep; None keeps all.
    estimator : Projection
        The estimator, whose parameters error messages state.
    """

    scatter_problem: ScatterProblem
    counts: Ints
    invariance: float
    max_components: int | None
    estimator: Any

    @property
    def name(self) -> str:
        """The name of the method."""
        return type(self.estimator).__name__

    def whiten(self, spectrum: Spectrum) -> tuple[Spectrum, WhitenedProblem]:
        """Reduce the eigenproblem to cell space; the result does not depend on the weights of the penalties.

        Returns the part of the spectrum in which the data vary, and the reduced problem.
        """
        with self._explain_singularity():
            varying = spectrum.without_negative_rounding() if self.scatter_problem.norm_weight else spectrum
            if not self.scatter_problem.ridge:
                varying = varying.without_null()
            return varying, whiten(varying, self.scatter_problem)

    def solve(self, varying: Spectrum, whitened: WhitenedProblem, n_more: int = 0) -> Solution:
        """Return all components, from the result of `whiten`; with the total scatter, `n_more` than are kept."""
        problem = self.scatter_problem
        with self._explain_singularity():
            if problem.is_low_rank:
                return solve(whitened, problem, self.counts)
            n_components = len(varying.values) if self.max_components is None else self.max_components + n_more
            return solve_with_total(varying, whitened, problem, self.counts, n_components)

    def solve_spectrum(self, spectrum: Spectrum) -> tuple[Solution, Array]:
        """Return all components, from a complete spectrum, and bounds on the relative errors of their eigenvalues."""
        varying, whitened = self.whiten(spectrum)
        solution = self.solve(varying, whitened)
        kept = solution.keep(slice(self.max_components))
        in_eigenbasis = replace(kept, coefficients=varying.to_coordinates(kept.coefficients))
        with np.errstate(over="ignore", invalid="ignore"):  # Weights of 1e300 overflow; there is no bound then.
            errors = residuals(
                lambda B: varying.values[:, None] * B, varying.cells.T, self.counts, self.scatter_problem, in_eigenbasis
            )
        return solution, np.where(np.isnan(errors), np.inf, errors)

    def solve_gram(self, K: Array, centered: CenteredKernel, membership: Membership) -> tuple[Solution, Array]:
        """Return the result of `solve_spectrum` for a centered kernel matrix, which is overwritten."""
        problem = self.scatter_problem
        denominator_norm = problem.within_weight * centered.size**2 + problem.norm_weight * centered.size
        if len(K) > MAX_EIGH_ROWS and problem.ridge > MIN_KRYLOV_RIDGE * denominator_norm:
            accurate = self._solve_in_krylov_spaces(K, membership, centered.precision)
            if accurate is not None:
                return accurate
        return self.solve_spectrum(gram_spectrum(K, membership, precision=centered.precision))

    def select_components(self, solution: Solution, X: Any = None) -> Solution:
        """Keep the requested components, and fix their scale and sign; `X` are the samples that they weigh, if any."""
        n_available = len(solution.eigenvalues)
        requested = self.estimator.n_components
        if requested is not None and requested > n_available:
            warn(
                f"n_components={requested}, but only {n_available} carry information and are kept: the "
                f"numerator of {self.name} has numerical rank {n_available} on these data, and further "
                "components would be amplified noise.",
                FewerComponentsWarning,
            )
        leading = solution.keep(slice(self.max_components))
        return leading.normalize(self.estimator.scaling, self.counts, X)

    def _solve_in_krylov_spaces(
        self, K: Array, membership: Membership, precision: float
    ) -> tuple[Solution, Array] | None:
        """Solve in the smallest Krylov space that is accurate enough; None if no small space is."""
        n_components = self.max_components
        problem = self.scatter_problem
        n_random = 0 if problem.is_low_rank else n_components or len(K)
        for spectrum in krylov_spectra(K, membership, n_random, precision):
            # The residuals do not show that a denominator is indefinite.
            if problem.norm_weight and spectrum.values.min() < -spectrum.rounding:
                return None
            # One component more than requested: the gap to the next eigenvalue bounds the error of the last one.
            solution = self.solve(*self.whiten(spectrum), n_more=1)
            errors = residuals(lambda B: product(K, B), membership.indicators, self.counts, problem, solution)
            if errors[:n_components].max(initial=0.0) < EIGENVALUE_ACCURACY and self._are_accurate(solution, errors):
                return solution, errors[:n_components]
            if not self._are_accurate(solution, np.full(len(errors), EPS)):
                return None  # Even the smallest possible residuals would not be enough.
        return None

    def _are_accurate(self, solution: Solution, errors: Array) -> bool:
        """Whether components are accurate enough if eigenvalues have these relative errors."""
        bounds = bound_component_errors(solution.eigenvalues, errors)[: self.max_components]
        return bool(bounds.max(initial=0.0) < COMPONENT_ACCURACY)

    @contextmanager
    def _explain_singularity(self) -> Iterator[None]:
        """Turn errors of the solver into errors that name the parameters of the estimator."""
        try:
            yield
        except IndefiniteKernelError as error:
            weight = self.scatter_problem.norm_weight
            ridge = self.scatter_problem.ridge
            raise ValueError(
                f"kernel={self.estimator.kernel!r} is not positive semi-definite on X: its centered matrix has the "
                f"eigenvalue {error.smallest:.3g}. The norm penalty of {self.name} (weight {weight:g}) is then "
                f"negative in some directions, and ridge={self.estimator.ridge!r}, a value of {ridge:.3g}, does "
                'not outweigh it there. Use a positive semi-definite kernel such as "rbf", a ridge above '
                f"{-weight * error.smallest:.3g}, or a method without that penalty."
            ) from error
        except SingularProblemError as error:
            raise ValueError(
                f"The generalized eigenproblem of {self.name} is singular with ridge="
                f"{self.estimator.ridge!r}: {error} Set ridge to a larger positive number; it is on the scale of the "
                "squared eigenvalues of the kernel matrix."
            ) from error


def make_problem(projection: Projection, counts: Ints, size: float) -> ProjectionProblem:
    """Return the eigenproblem of a projection for a table of counts.

    `size` is the Frobenius norm of the centered kernel matrix, which the unit "scale" of the ridge refers to.
    """
    ridge = projection.ridge
    n_components = projection.n_components
    if isinstance(ridge, str):
        ridge = parse_multiple(ridge, "scale", "ridge") * (RIDGE_SCALE * size) ** projection._ridge_power
    return ProjectionProblem(
        scatter_problem=projection._scatter_problem(counts, float(ridge)),
        counts=counts,
        invariance=sum(projection._weight(parameter, counts) for parameter in projection._invariance_weights),
        max_components=projection._default_components(counts) if n_components is None else n_components,
        estimator=projection,
    )


def collect_statistics(projection: Projection, X: Any, y: Any = None, sample_domain: Any = None) -> Statistics:
    """Fit the feature map of a projection to samples, and return the statistics of their features."""
    return projection._collect_statistics(X, y, sample_domain)


def fit_from_statistics(projection: Projection, statistics: Statistics, n_features: int) -> None:
    """Fit a projection to statistics that were collected before, of a feature map that has nothing to learn."""
    projection.n_features_in_ = n_features
    projection._fit_feature_map(None)
    projection._store_statistics(statistics)
    projection.finalize()


def validation_options(projection: Projection) -> dict[str, Any]:
    """Return the options of `validate_data` for the samples of a projection."""
    return projection._sample_kernel.validation_options
