"""What every projection shares: validation, fitting, centring, transforming."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from .. import kernels, memory
from ..cells import Array, Cells, Ints, Membership, Spectrum, gram_spectrum
from ..exceptions import FewerComponentsWarning
from ..labels import Labels, check_domains, encode_classes, encode_domains, training_domains
from ..pencil import (
    Recipe,
    SingularPencilError,
    cholesky_is_sound,
    solve,
    solve_with_total,
    whiten,
    whiten_by_cholesky,
)
from ..scales import factor
from ..solution import Solution

NON_NEGATIVE = Interval(Real, 0, None, closed="left")
BLOCK_ENTRIES = 2**22  # kernel values evaluated at a time in transform: 32 MiB
EXACT_BELOW = 500  # samples up to which an eigendecomposition is cheap enough to be preferred for its accuracy


# Dataclasses write the constructor that scikit-learn asks for: explicit keywords, assigned and nothing else.
parameters = dataclass(kw_only=True, eq=False, repr=False)


@parameters
class Projection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class: a subclass supplies its own parameters and its `_recipe`."""

    n_components: int | None = field(default=None, kw_only=False)
    ridge: float | str = "scale"
    kernel: str | Callable[..., float] = "rbf"
    gamma: float | str | None = "median"
    degree: float = 3
    coef0: float = 1
    kernel_params: Mapping[str, Any] | None = None
    scaling: Literal["paper", "unit_norm"] = "paper"
    centering: Literal["source", "target"] = "source"
    feature_map: Any = None

    __metadata_request__fit: ClassVar = {"sample_domain": True}
    __metadata_request__transform: ClassVar = {"sample_domain": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions(set(kernels.KERNELS)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), str, None],
        "degree": [NON_NEGATIVE],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "ridge": [NON_NEGATIVE, str],
        "scaling": [StrOptions({"paper", "unit_norm"})],
        "centering": [StrOptions({"source", "target"})],
        "feature_map": [StrOptions({"linear"}), HasMethods(["fit", "transform"]), None],
    }
    # The denominator's largest term grows like this power of the kernel matrix, and so must its ridge.
    _ridge_power: ClassVar[int] = 2
    # Which parameters weigh invariance across domains; of two equal settings the more invariant one is preferred.
    _invariance_weights: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def _recipe(self, counts: Ints, ridge: float) -> Recipe:
        """State the method for a table of counts."""

    def _default_components(self, counts: Ints) -> int | None:
        """How many components None stands for; None for all that the numerator supports."""
        return None

    def fit(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Self:
        """Learn the projection.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of all source domains; the Gram matrix for ``kernel="precomputed"``.
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
        forget(self)
        X, membership = self._check_training_data(X, y, sample_domain)
        solution, source_means = self._solve(X, membership)
        solution = self._trimmed(solution, membership.counts).scaled(self.scaling).oriented(membership.counts)
        self.eigenvalues_ = solution.eigenvalues
        # Centred coefficients make constants in the kernel vanish: one offset is all the centring there is.
        coefficients = solution.coefficients
        if self.feature_map is None:
            self.dual_coef_ = coefficients - coefficients.mean(axis=0)
            self.offset_ = source_means @ self.dual_coef_
        else:
            self.coef_ = coefficients
            self.offset_ = source_means @ self.coef_
        self.cell_counts_ = membership.counts
        self.recentered_ = False
        self._n_features_out = len(self.eigenvalues_)
        return self

    def transform(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Project samples onto the learned components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; for ``kernel="precomputed"`` their kernel values with the training samples.
        sample_domain : array-like of shape (n_samples,), default=None
            Matters for ``centering="target"`` only: domains seen in training keep the source mean, each other one
            is centred on its own mean. None means one new domain.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Learned features.
        """
        check_is_fitted(self, "offset_")
        X = self._check_features(X)
        labels = None if sample_domain is None else check_domains(sample_domain, X.shape[0])
        Z = self._project(X)
        Z -= self._offsets(Z, labels)
        return Z.astype(X.dtype, copy=False)

    def fit_transform(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Any:
        """Fit, then transform the same samples.

        Parameters
        ----------
        X, y, sample_domain
            As for `fit`.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Learned features of the training samples.
        """
        return self.fit(X, y, sample_domain=sample_domain).transform(X, sample_domain=sample_domain)

    def recentered(self, X: Any) -> Self:
        """Return a fitted copy that is centred on an unlabelled batch of a new domain.

        The copy transforms single samples of that domain as ``centering="target"`` would have transformed the whole
        batch. Results obtained with it are transductive: they used unlabelled target data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            At least two unlabelled samples of the new domain.

        Returns
        -------
        projection : object
            A copy; this one is left as it is.
        """
        check_is_fitted(self, "offset_")
        Z = self._project(self._check_features(X))
        if len(Z) < 2:
            raise ValueError(
                f"recentered needs a batch of at least 2 samples to estimate a mean; got X with {len(Z)}. Centred on "
                "itself, a single sample would always land on the origin."
            )
        twin = copy.copy(self)
        twin.offset_ = Z.mean(axis=0)
        twin.recentered_ = True
        return twin

    def _check_training_data(self, X: Any, y: Any, sample_domain: Any) -> tuple[Any, Membership]:
        name = type(self).__name__
        options = {**self._validation(), "ensure_min_samples": 2}
        if self._needs_labels():
            X, y = validate_data(self, X, y, **options)
            self.classes_, class_codes = encode_classes(y, name)
        else:
            X = validate_data(self, X, **options)
            class_codes = np.zeros(X.shape[0], dtype=np.intp)
        if self._needs_non_negative():
            check_non_negative(X, f"{name} with kernel={self.kernel!r}")
        if self.kernel == "precomputed" and self.feature_map is None:
            _check_gram(X)
        self.domains_, domain_codes = training_domains(sample_domain, X.shape[0], name)
        return X, Membership.of(class_codes, domain_codes)

    def _check_features(self, X: Any) -> Any:
        X = validate_data(self, X, reset=False, **self._validation())
        if self._needs_non_negative():
            check_non_negative(X, f"{type(self).__name__} with kernel={self.kernel!r}")
        return X

    def _validation(self) -> dict[str, Any]:
        # scikit-learn's Laplacian kernel cannot read sparse matrices with 64-bit indices.
        large = self.feature_map is not None or self.kernel != "laplacian"
        return {
            "dtype": (np.float64, np.float32),
            "accept_sparse": self._accepts_sparse(),
            "accept_large_sparse": large,
        }

    def _solve(self, X: Any, membership: Membership) -> tuple[Solution, Array]:
        """Solve the pencil in the kernel's or the feature map's space; also return the mean that centres it."""
        try:
            if self.feature_map is None:
                return self._solve_gram(X, membership)
            return self._solve_features(X, membership)
        except SingularPencilError as error:
            raise ValueError(
                f"The generalised eigenproblem of {type(self).__name__} is singular with ridge={self.ridge!r}: {error} "
                "Set ridge to a larger positive number; it is on the scale of the squared eigenvalues of the kernel "
                "matrix. With norm penalties, the kernel must be positive semi-definite."
            ) from error

    def _solve_gram(self, X: Any, membership: Membership) -> tuple[Solution, Array]:
        n = X.shape[0]
        memory.require_square(n, copies=3, caller=type(self).__name__)
        self.gamma_ = kernels.resolve_gamma(self.gamma, self.kernel, X)
        # A copy: what happens to X after the fit is its owner's business.
        self.X_fit_ = None if self.kernel == "precomputed" else X.copy()
        K = self._kernel_values(X, training=True)
        means = kernels.centre(K)
        self._require_finite(means)
        size = float(np.linalg.norm(K))
        self._require_spread(size, n * np.abs(means).max())
        recipe = self._recipe(membership.counts, self._ridge(size))
        if n > EXACT_BELOW and cholesky_is_sound(recipe, size):
            return solve(whiten_by_cholesky(K, membership, recipe), recipe, membership.counts), means
        return self._solve_spectrum(gram_spectrum(K, membership), recipe, membership.counts), means

    def _solve_features(self, X: Any, membership: Membership) -> tuple[Solution, Array]:
        self.feature_map_ = None if self.feature_map == "linear" else clone(self.feature_map).fit(X, None)
        statistics = Cells.of(self._features(X), membership)
        spectrum = statistics.spectrum()
        self._require_spread(np.sqrt(spectrum.values.sum()), np.sqrt(X.shape[0]) * np.linalg.norm(statistics.mean))
        recipe = self._recipe(membership.counts, self._ridge(float(np.linalg.norm(spectrum.values))))
        return self._solve_spectrum(spectrum, recipe, membership.counts), statistics.mean

    def _solve_spectrum(self, spectrum: Spectrum, recipe: Recipe, counts: Ints) -> Solution:
        if recipe.ridge == 0:
            spectrum = spectrum.without_null()
        pencil = whiten(spectrum, recipe)
        if recipe.total:
            wanted = self._wanted(counts) or len(spectrum.values)
            return solve_with_total(spectrum, pencil, recipe, counts, wanted)
        return solve(pencil, recipe, counts)

    def _is_low_rank(self, recipe: Recipe) -> bool:
        """Whether a solution is a matter of the cells alone, however many samples there are."""
        return recipe.total == 0

    def _require_finite(self, values: Array) -> None:
        if not np.isfinite(values).all():
            raise ValueError(
                f"kernel={self.kernel!r} gave NaN or infinite values on X. Scale X, or change the kernel's parameters."
            )

    def _require_spread(self, centred: float, uncentred: float) -> None:
        """Raise if nothing but rounding is left of a norm after centring."""
        if centred <= 4 * np.finfo(float).eps * uncentred:
            raise ValueError(
                f"All samples look the same to {type(self).__name__}: the centred kernel matrix is zero. Check X, the "
                "kernel and its gamma."
            )

    def _ridge(self, size: float) -> float:
        """Return the ridge as a number; `size` is the Frobenius norm of the centred kernel matrix."""
        if isinstance(self.ridge, str):
            return factor(self.ridge, "scale", "ridge") * (0.01 * size) ** self._ridge_power
        return float(self.ridge)

    def _weight(self, parameter: str, counts: Ints) -> float:
        """A weight as a number: scatters of means need the number of samples to stand up to sums over samples."""
        weight = getattr(self, parameter)
        return factor(weight, "scale", parameter) * counts.sum() if isinstance(weight, str) else float(weight)

    def _invariance(self, counts: Ints) -> float:
        """Sum of the weights that ask for invariance across domains."""
        return sum(self._weight(parameter, counts) for parameter in self._invariance_weights)

    def _wanted(self, counts: Ints) -> int | None:
        return self._default_components(counts) if self.n_components is None else self.n_components

    def _trimmed(self, solution: Solution, counts: Ints) -> Solution:
        """Keep the components asked for; say so if there are fewer."""
        available = len(solution.eigenvalues)
        if self.n_components is not None and self.n_components > available:
            warnings.warn(
                f"n_components={self.n_components}, but only {available} carry information and are kept: what "
                f"{type(self).__name__} makes large has numerical rank {available} on these data, and further "
                "components would be amplified noise.",
                FewerComponentsWarning,
                stacklevel=3,
            )
        return solution.first(self._wanted(counts))

    def _needs_labels(self) -> bool:
        return True

    def _needs_non_negative(self) -> bool:
        return self.feature_map is None and self.kernel in kernels.NON_NEGATIVE_KERNELS

    def _accepts_sparse(self) -> str | bool:
        if self.feature_map is not None:
            return "csr" if self.feature_map != "linear" else False
        return "csr" if callable(self.kernel) or self.kernel in kernels.SPARSE_KERNELS else False

    def _kernel_values(self, X: Any, *, training: bool = False) -> Array:
        """Kernel values with the training samples."""
        reference = None if training or self.X_fit_ is None else self.X_fit_.astype(np.float64, copy=False)
        return kernels.evaluate(
            X.astype(np.float64, copy=False),
            reference,
            kernel=self.kernel,
            gamma=self.gamma_,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
        )

    def _features(self, X: Any) -> Array:
        features = X if self.feature_map_ is None else self.feature_map_.transform(X)
        if sparse.issparse(features):
            features = features.toarray()
        features = np.asarray(features, dtype=np.float64)
        if features.ndim != 2 or len(features) != X.shape[0] or not np.isfinite(features).all():
            raise ValueError(
                f"feature_map={self.feature_map!r} must turn X into finite features, one row per sample; for X of "
                f"shape {X.shape} it gave an array of shape {features.shape} with "
                f"{np.count_nonzero(~np.isfinite(features))} NaN or infinite values."
            )
        return features

    def _project(self, X: Any) -> Array:
        """Components before centring, in blocks of rows so that memory does not grow with the batch."""
        weights = self.dual_coef_ if self.feature_map is None else self.coef_
        values = self._kernel_values if self.feature_map is None else self._features
        step = max(1, BLOCK_ENTRIES // len(weights))
        Z = np.empty((X.shape[0], weights.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
            for start in range(0, X.shape[0], step):
                Z[start : start + step] = values(X[start : start + step]) @ weights
        self._require_finite(Z)
        return Z

    def _offsets(self, Z: Array, sample_domain: Labels | None) -> Array:
        """What centring subtracts from each row (or from all) of the projected samples."""
        if self.centering == "source" or self.recentered_:
            return self.offset_
        names, codes = encode_domains(np.zeros(len(Z)) if sample_domain is None else sample_domain)
        known = set() if sample_domain is None else set(self.domains_.tolist())
        offsets = np.empty((len(names), Z.shape[1]))
        for i, name in enumerate(names.tolist()):
            rows = Z[codes == i]
            if name not in known and len(rows) == 1:
                which = "X" if sample_domain is None else f"domain {name!r}"
                raise ValueError(
                    f'centering="target" subtracts the mean of each new domain, but {which} has a single sample, which '
                    "would become all zeros whatever it is. Transform a batch of that domain, use "
                    'recentered(batch) once and then transform single samples, or set centering="source".'
                )
            offsets[i] = self.offset_ if name in known else rows.mean(axis=0)
        return offsets[codes]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels()
        tags.input_tags.sparse = bool(self._accepts_sparse())
        tags.input_tags.positive_only = self._needs_non_negative()
        tags.input_tags.pairwise = self.kernel == "precomputed" and self.feature_map is None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def forget(estimator: BaseEstimator) -> None:
    """Delete what an earlier fit learned, so that nothing of it survives under other parameters."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)


def _check_gram(K: Array) -> None:
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            'kernel="precomputed" needs the square matrix of kernel values between all training samples as X; got '
            f"shape {K.shape}."
        )
    gap = np.abs(K - K.T).max()
    if gap > 1e-6 * np.abs(K).max():
        raise ValueError(
            'kernel="precomputed" needs a symmetric matrix as X, but entries differ from their mirror images by up to '
            f"{gap:.3g}. Symmetrise it, or check that rows and columns are in the same order."
        )
