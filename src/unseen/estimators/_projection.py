"""What every projection shares: validation, fitting, centering, transforming, and the eigenproblem it poses."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..exceptions import FewerComponentsWarning, warn
from ..kernels import CenteredKernel, Kernel, KernelTransformer, check_cell_memory, check_square_memory, parse_multiple
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
    Whitened,
    cholesky_is_sound,
    component_errors,
    gram_spectrum,
    krylov_spectra,
    residuals,
    solve,
    solve_with_total,
    whiten_by_cholesky,
    whiten_by_eigh,
)
from ..utils.estimator_mixins import keyword_parameters, reset_fitted_attributes
from ..utils.optional_imports import is_dask
from ..utils.validation import (
    EncodedLabels,
    Labels,
    check_domains,
    encode_classes,
    require_named_domains,
    warn_masked_labels,
    warn_single_domain,
)
from ._docs import shared_docs
from ._domain_centering import DomainCenters, DomainTransformer
from ._feature_space import FeatureSpace, KernelSpace, check_gram, check_same_map, map_in_blocks
from ._statistics import (
    Statistics,
    UnsolvedError,
    collect_statistics,
    declared_classes,
    feature_spectrum,
    store_statistics,
)

NON_NEGATIVE = Interval(Real, 0, None, closed="left")
FEATURE_MAPS: list[Any] = [StrOptions({"linear"}), HasMethods(["fit", "transform"]), None]
EXACT_BELOW = 500  # samples up to which an eigendecomposition is cheap enough to be preferred for its accuracy
KRYLOV_CELLS = 150  # samples for each cell from which a space of some powers of the kernel matrix is a small one
EPS = float(np.finfo(float).eps)
EIGENVALUE_ACCURACY = 1e-9  # relative, of a solution in a Krylov space
COMPONENT_ACCURACY = 1e-7  # of components without an eigendecomposition: the sine of the angle to the exact ones


def _has_feature_map(projection: Projection) -> bool:
    if projection.feature_map is None:
        raise AttributeError(
            "partial_fit needs explicit features, which a kernel's are not: set feature_map, for example to "
            "unseen.PivotedNystroem(1000)."
        )
    return True


@keyword_parameters
class Projection(DomainTransformer, KernelTransformer):
    """Base class: a subclass supplies its own parameters and its `_recipe`."""

    feature_map: Any = None
    n_components: int | None = field(default=None, kw_only=False)
    ridge: float | str = "scale"
    scaling: Literal["paper", "unit_norm"] = "paper"
    centering: Literal["source", "target"] = "source"

    # What solving sets; while a stream is not solved, the first of them that is asked for has it solved.
    eigenvalues_ = cached_property(lambda self: self._solution("eigenvalues_"))
    coef_ = cached_property(lambda self: self._solution("coef_"))
    offset_ = cached_property(lambda self: self._solution("offset_"))
    recentered_ = cached_property(lambda self: self._solution("recentered_"))

    __metadata_request__partial_fit: ClassVar = {"sample_domain": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelTransformer._parameter_constraints,
        "feature_map": FEATURE_MAPS,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "ridge": [NON_NEGATIVE, str],
        "scaling": [StrOptions({"paper", "unit_norm"})],
        "centering": [StrOptions({"source", "target"})],
    }
    # The denominator's largest term grows like this power of the kernel matrix, and so must its ridge.
    _ridge_power: ClassVar[int] = 2
    # Which parameters weigh invariance across domains; of two equal settings the more invariant one is preferred.
    _invariance_weights: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        cls._shared_docs = {**shared_docs(cls._ridge_power), **Projection._shared_docs}
        super().__init_subclass__(**options)

    @abstractmethod
    def _recipe(self, counts: Ints, ridge: float) -> ScatterProblem:
        """State the method for a table of counts."""

    def _default_components(self, counts: Ints) -> int | None:
        """How many components None stands for; None for all that the numerator supports."""
        return None

    @require_named_domains
    def fit(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Self:
        """Learn the projection.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of all source domains; the Gram matrix for ``kernel="precomputed"``. With `feature_map` also a Dask
            array or dataframe, which is not collected.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain each sample comes from: strings, integers or other hashable scalars. None means one
            domain, with a `SingleDomainWarning`.

        Returns
        -------
        self : object
            The fitted projection.
        """
        self._validate_params()
        reset_fitted_attributes(self)
        if self.feature_map is not None:
            store_statistics(self, collect_statistics(self, X, y, sample_domain, whole=True))
            self._solve_statistics()
            return self
        if is_dask(X):
            raise ValueError(
                f"{type(self).__name__} with kernel={self.kernel!r} needs all samples in memory, but X is a Dask "
                "collection. Set feature_map, for example to unseen.PivotedNystroem(1000) "
                'or to "linear", whose statistics are added up block by block.'
            )
        X, classes, domains = self._check_training_data(X, y, sample_domain, whole=True)
        if self.kernel == "precomputed":
            check_gram(X)
        membership = Membership.from_codes(classes.codes, domains.codes)
        self._remember(classes.names, domains.names, membership.counts)
        self._warn_of_table()
        self._solve_kernel(X, membership)
        return self

    @available_if(_has_feature_map)
    @require_named_domains
    def partial_fit(self, X: Any, y: Any = None, *, sample_domain: Any = None, classes: Any = None) -> Self:
        """Learn from one more chunk of samples; needs `feature_map`.

        Chunks of any size, in any order, give the answer of one `fit` on all samples. Each costs its features and one
        matrix product; the eigenproblem is solved when the projection is first used. A map that learns from data learns
        from the first chunk alone: give it a chunk that stands for all, or freeze a fitted map with
        :class:`sklearn.frozen.FrozenEstimator`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; of any domains and any classes, also of new ones.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain each sample comes from. None, in every chunk, means one domain.
        classes : array-like, default=None
            All classes that may appear, in the first call, to have others refused. None lets new ones appear.

        Returns
        -------
        self : object
            The projection.
        """
        self._validate_params()
        seen = vars(self).get("statistics_")
        if seen is None:
            reset_fitted_attributes(self)
        else:
            check_same_map(self)
        declared = declared_classes(self, classes)
        statistics = collect_statistics(self, X, y, sample_domain, declared=declared, reset=seen is None)
        store_statistics(
            self, statistics if seen is None else Statistics.from_arrays(seen).plus(statistics, self._space.gram)
        )
        self.declared_classes_ = declared
        return self

    def transform(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Project samples onto the learned components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; for ``kernel="precomputed"`` their kernel values with the training samples. A Dask array or
            dataframe is transformed lazily.
        sample_domain : array-like of shape (n_samples,), default=None
            Matters for ``centering="target"`` only: domains seen in training keep the source mean, each other one
            is centered on its own mean. None means one new domain.

        Returns
        -------
        Z : ndarray or dask array of shape (n_samples, n_components)
            Learned features.
        """
        self._require_solution()
        if is_dask(X):
            from . import _dask as distributed

            return distributed.transform(self, X, sample_domain)
        X = self._check_samples(X, reset=False)
        labels = None if sample_domain is None else check_domains(sample_domain, X.shape[0])
        Z = self._project(X)
        if self._centers_batches():
            self._centering().of_batch(Z, labels)
        else:
            Z -= self.offset_
        return Z.astype(X.dtype, copy=False)

    def recentered(self, X: Any) -> Self:
        """Return a fitted copy that is centered on an unlabeled batch of a new domain.

        The copy transforms single samples of that domain as ``centering="target"`` would have transformed the whole
        batch. Results obtained with it are transductive: they used unlabeled target data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            At least two unlabeled samples of the new domain.

        Returns
        -------
        projection : object
            A copy; this one is left as it is.
        """
        self._require_solution()
        if is_dask(X):
            from . import _dask as distributed

            found = distributed.moments(self, X)[None]
        else:
            found = Moments.from_values(self._uncentered(X))
        if found.count < 2:
            raise ValueError(
                f"recentered needs a batch of at least 2 samples to estimate a mean; got X with {found.count}. "
                "Centered "
                "on itself, a single sample would always land on the origin."
            )
        return self._moved(found.mean)

    def _moved(self, mean: Array) -> Self:
        """A copy that subtracts a mean of somebody else's."""
        twin = copy.copy(self)
        twin.__dict__.update(offset_=mean, recentered_=True)
        return twin

    @property
    def _samples(self) -> Kernel:
        """What samples must be: as the kernel wants them, or as any feature map takes them."""
        return Kernel.from_estimator(self) if self.feature_map is None else FeatureSpace.kernel

    @property
    def _space(self) -> Any:
        """Where the components of a fitted projection live: it combines what it knows of samples by weights."""
        if "feature_map_" in vars(self):
            return FeatureSpace(self.feature_map_)
        return KernelSpace(Kernel.from_estimator(self, gamma=self.gamma_), self.X_fit_)

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def _check_samples(self, X: Any, **options: Any) -> Any:
        """Validate samples, with labels if `options` hold `y`."""
        return self._samples.check(self, X, **options)

    def _check_training_data(
        self, X: Any, y: Any, domain: Any, *, declared: Labels | None = None, reset: bool = True, whole: bool = False
    ) -> tuple[Any, EncodedLabels, EncodedLabels]:
        """Samples, their classes and their domains; what cannot be the `whole` of the training data is refused."""
        if self._needs_labels():
            X, y = self._check_samples(X, y=y, reset=reset, ensure_min_samples=1 + whole)
            classes = (
                EncodedLabels(*encode_classes(y, type(self).__name__))
                if whole
                else EncodedLabels.from_classes(y, declared)
            )
        else:
            X = self._check_samples(X, reset=reset, ensure_min_samples=1 + whole)
            classes = EncodedLabels.unnamed(X.shape[0])
        return X, classes, EncodedLabels.from_domains(domain, X.shape[0])

    def _remember(self, classes: Labels, domains: Labels, counts: Ints) -> None:
        """Set what a table of counts tells."""
        self.domains_, self.cell_counts_ = domains, counts
        if self._needs_labels():
            self.classes_ = classes

    def _warn_of_table(self) -> None:
        """Warn of a single domain, and of domains whose labels look masked."""
        warn_single_domain(self.domains_, type(self).__name__)
        if self._needs_labels():
            warn_masked_labels(self.classes_, self.domains_, self.cell_counts_, type(self).__name__)

    def _require_solution(self) -> None:
        """Raise unless there are components; a stream that has none yet says why."""
        if "statistics_" in vars(self) and "offset_" not in vars(self):
            self._solve_statistics()
        check_is_fitted(self, "offset_")

    def _solution(self, name: str) -> Any:
        """A fitted attribute of a stream, solved for it: O(r^3) once, not for chunks whose solution nobody looks at.

        Before two classes have been seen there is nothing to solve, which `hasattr` is told.
        """
        if "statistics_" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            self._solve_statistics()
        except ValueError as error:
            raise UnsolvedError(str(error)) from error
        return vars(self)[name]

    def _solve_statistics(self) -> None:
        """Solve the eigenproblem for the features that have been seen: the step that a stream puts off."""
        cells = Statistics.from_arrays(self.statistics_).cells
        if self._needs_labels():
            encode_classes(self.classes_, type(self).__name__)  # refuses a single one
        self._warn_of_table()
        spectrum = feature_spectrum(cells, type(self).__name__)
        equation = ProjectionProblem.from_projection(self, cells.counts, float(np.linalg.norm(spectrum.values)))
        solution = equation.finish(equation.solve(*equation.whitened(spectrum)))
        B = solution.coefficients
        self.__dict__.update(eigenvalues_=solution.eigenvalues, coef_=B, offset_=cells.mean @ B, recentered_=False)

    def _solve_kernel(self, X: Any, membership: Membership) -> None:
        """Solve the eigenproblem in the kernel's space."""
        check_square_memory(X.shape[0], copies=3, caller=type(self).__name__)
        kernel = Kernel.from_estimator(self).fitted(X)
        K = kernel.values_to_center(X)
        centered = kernel.center(K, type(self).__name__)
        equation = ProjectionProblem.from_projection(self, membership.counts, centered.size)
        solution = equation.solve_gram(K, centered, membership)
        solution = equation.finish(solution, None if kernel.is_precomputed else X)
        self.gamma_ = kernel.gamma
        # A copy: what happens to X after the fit is its owner's business.
        self.X_fit_ = None if kernel.is_precomputed else X.copy()
        # Centered coefficients make constants in the kernel vanish: one offset is all the centering there is.
        self.dual_coef_ = solution.coefficients - solution.coefficients.mean(axis=0)
        offset = centered.means @ self.dual_coef_
        self.__dict__.update(eigenvalues_=solution.eigenvalues, offset_=offset, recentered_=False)

    def _solve_pencil(self, spectrum: Spectrum, pencil: Whitened, recipe: ScatterProblem, counts: Ints) -> Solution:
        if recipe.total:
            wanted = self._wanted(counts) or len(spectrum.values)
            return solve_with_total(spectrum, pencil, recipe, counts, wanted)
        return solve(pencil, recipe, counts)

    def _weight(self, parameter: str, counts: Ints) -> float:
        """A weight as a number: scatters of means need the number of samples to stand up to sums over samples."""
        weight = getattr(self, parameter)
        return parse_multiple(weight, "scale", parameter) * counts.sum() if isinstance(weight, str) else float(weight)

    def _wanted(self, counts: Ints) -> int | None:
        return self._default_components(counts) if self.n_components is None else self.n_components

    def _needs_labels(self) -> bool:
        return True

    @property
    def _weights(self) -> Array:
        return self.coef_ if "feature_map_" in vars(self) else self.dual_coef_

    def _project(self, X: Any, weights: Array | None = None) -> Array:
        """Components of validated samples before centering, or other combinations in the same space."""
        space, weights = self._space, self._weights if weights is None else weights
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
            widest = max(len(weights), X.shape[1])  # kernel values and samples have their copies
            Z = map_in_blocks(lambda rows: space.combine(rows, weights), X, weights.shape[1], widest)
        return space.kernel.finite(Z)

    def _uncentered(self, X: Any) -> Array:
        return self._project(self._check_samples(X, reset=False))

    def _uncentered_beside(self, others: Sequence[Any], X: Any) -> list[Array]:
        weights = [other._weights for other in others]
        Z = self._project(self._check_samples(X, reset=False), np.hstack(weights))
        return np.split(Z, np.cumsum([own.shape[1] for own in weights])[:-1], axis=1)

    def _place(self) -> Hashable:
        self._require_solution()
        if "feature_map_" in vars(self):
            return id(getattr(self.feature_map_, "estimator", self.feature_map_))
        return id(self.X_fit_), self.gamma_, self.kernel, self.degree, self.coef0, id(self.kernel_params)

    def _centers_batches(self) -> bool:
        return self.centering == "target" and not self.recentered_

    def _centering(self) -> DomainCenters:
        return DomainCenters(
            dict.fromkeys(self.domains_.tolist(), self.offset_),
            'centering="target"',
            "Transform a batch of that domain, use recentered(batch) once and then transform single samples, or set "
            'centering="source".',
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels()
        return tags


@dataclass(frozen=True)
class ProjectionProblem:
    """The eigenproblem that a projection poses on a table of counts of each class in each domain, the ridge a number.

    It is solved from a decomposition of centered data, and `finish` makes of its solution what a fitted projection has.
    """

    projection: Projection
    counts: Ints
    ridge: float

    @classmethod
    def from_projection(cls, projection: Projection, counts: Ints, size: float) -> ProjectionProblem:
        """The eigenproblem for a centered kernel matrix of Frobenius norm `size`, of which a ridge may be a "
        "multiple.
        """
        ridge = projection.ridge
        check_cell_memory(int(np.count_nonzero(counts)), type(projection).__name__)
        if isinstance(ridge, str):
            ridge = parse_multiple(ridge, "scale", "ridge") * (0.01 * size) ** projection._ridge_power
        return cls(projection, counts, float(ridge))

    @cached_property
    def recipe(self) -> ScatterProblem:
        """The method, stated for these counts."""
        return self.projection._recipe(self.counts, self.ridge)

    @property
    def invariance(self) -> float:
        """Sum of the weights that ask for invariance across domains."""
        return sum(self.projection._weight(name, self.counts) for name in self.projection._invariance_weights)

    def whitened(self, spectrum: Spectrum) -> tuple[Spectrum, Whitened]:
        """Reduce to cell space what varies in a decomposition of the centered data; weights have no say in it."""
        with self._singularity_explained():
            varying = spectrum.without_negative_rounding() if self.recipe.norm else spectrum
            if not self.ridge:
                varying = varying.without_null()
            return varying, whiten_by_eigh(varying, self.recipe)

    def solve(self, varying: Spectrum, pencil: Whitened) -> Solution:
        """All components, from what `whitened` gives."""
        with self._singularity_explained():
            return self.projection._solve_pencil(varying, pencil, self.recipe, self.counts)

    def solve_gram(self, K: Array, centered: CenteredKernel, membership: Membership) -> Solution:
        """The same from a centered kernel matrix, which is destroyed, and what is known of it."""
        recipe, size = self.recipe, centered.size
        solution = None
        if len(K) > EXACT_BELOW and recipe.symmetric and self.ridge:
            cells, top = np.count_nonzero(self.counts), recipe.inside * size**2 + recipe.norm * size
            # Beside the cubes of a Cholesky factorization, spaces pay that are small and that a ridge keeps small.
            if recipe.total or (KRYLOV_CELLS * cells < len(K) and self.ridge > 1e-5 * top):
                solution = self._solve_in_krylov_spaces(K, membership, centered.precision)
            if solution is None and cholesky_is_sound(recipe, size):
                solution = self._solve_by_cholesky(K, membership, centered.precision, EPS * top / self.ridge)
        if solution is None:
            spectrum = gram_spectrum(K, membership, precision=centered.precision)
            solution = self.solve(*self.whitened(spectrum))
        return solution

    def _solve_by_cholesky(self, K: Array, membership: Membership, precision: float, error: float) -> Solution | None:
        """The components, of which eigenvalues have this relative error; None if that is too much for components."""
        pencil = whiten_by_cholesky(K, membership, self.recipe, precision)
        if pencil is None:
            return None
        solution = solve(pencil, self.recipe, self.counts)
        errors = np.full(len(solution.eigenvalues), error)
        return solution if self._are_accurate(solution, errors) else None

    def _solve_in_krylov_spaces(self, K: Array, membership: Membership, precision: float) -> Solution | None:
        """The components, from a space that holds them to the accuracy below; None if no small one does."""
        recipe, wanted = self.recipe, self.projection._wanted(self.counts)
        for spectrum in krylov_spectra(K, membership, wanted or len(K) if recipe.total else 0, precision):
            # The residual says nothing of an indefinite denominator.
            if recipe.norm and spectrum.values.min() < -spectrum.rounding:
                return None
            varying, pencil = self.whitened(spectrum)
            if recipe.total and wanted is not None:
                # One more than wanted: the gap to the next eigenvalue decides how accurate the last component is.
                solution = solve_with_total(varying, pencil, recipe, self.counts, wanted + 1)
            else:
                solution = self.solve(varying, pencil)
            errors = residuals(K, membership, recipe, solution)
            if errors[:wanted].max(initial=0.0) < EIGENVALUE_ACCURACY and self._are_accurate(solution, errors):
                return solution
            if not self._are_accurate(solution, np.full(len(errors), EPS)):  # no residual would be small enough
                return None
        return None

    def _are_accurate(self, solution: Solution, errors: Array) -> bool:
        """Whether components are known well enough, if eigenvalues have such relative errors."""
        bounds = component_errors(solution.eigenvalues, errors)[: self.projection._wanted(self.counts)]
        return bool(bounds.max(initial=0.0) < COMPONENT_ACCURACY)

    def finish(self, solution: Solution, X: Any = None) -> Solution:
        """Keep the components asked for, with their scale and their sign; `X` are what they weigh, if known."""
        wanted, available = self.projection.n_components, len(solution.eigenvalues)
        if wanted is not None and wanted > available:
            warn(
                f"n_components={wanted}, but only {available} carry information and are kept: what "
                f"{type(self.projection).__name__} makes large has numerical rank {available} on these data, and "
                "further components would be amplified noise.",
                FewerComponentsWarning,
            )
        kept = solution.first(self.projection._wanted(self.counts))
        return kept.scaled(self.projection.scaling).oriented(self.counts, X)

    @contextmanager
    def _singularity_explained(self) -> Iterator[None]:
        try:
            yield
        except IndefiniteKernelError as error:
            raise ValueError(self._indefinite_kernel(error.smallest)) from error
        except SingularProblemError as error:
            name, ridge = type(self.projection).__name__, self.projection.ridge
            raise ValueError(
                f"The generalized eigenproblem of {name} is singular with ridge={ridge!r}: {error} "
                "Set ridge to a larger positive number; it is on the scale of the squared eigenvalues of the kernel "
                "matrix."
            ) from error

    def _indefinite_kernel(self, smallest: float) -> str:
        """Why a norm penalty does not go with an indefinite kernel, and what to do."""
        projection, name = self.projection, type(self.projection).__name__
        weight, advice = "", ""
        if hasattr(projection, "norm_weight"):
            weight, advice = f" (norm_weight={projection.norm_weight!r})", ", or norm_weight=0"
        return (
            f"kernel={projection.kernel!r} is not positive semi-definite on X: its centered matrix has the eigenvalue "
            f"{smallest:.3g}. The norm penalty of {name}{weight} is then negative in some directions, and "
            f"ridge={projection.ridge!r}, a value of {self.ridge:.3g}, does not outweigh it there. Use a positive "
            f'semi-definite kernel such as "rbf", or a ridge above {-self.recipe.norm * smallest:.3g}{advice}.'
        )


def invariance_weights(projection: Projection) -> tuple[str, ...]:
    """Names of the parameters that weigh invariance across domains."""
    return projection._invariance_weights


def validation_options(projection: Projection) -> dict[str, Any]:
    """What `validate_data` should ask of the samples of a projection."""
    return projection._samples.validation
