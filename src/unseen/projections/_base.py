"""What every projection shares: validation, fitting, centring, transforming."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .. import kernels, memory
from .._doc_links import DocLinkMixin
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
from ._space import NON_NEGATIVE, Space, check_gram, forget, parameters

EXACT_BELOW = 500  # samples up to which an eigendecomposition is cheap enough to be preferred for its accuracy


@parameters
class Projection(DocLinkMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Space):
    """Base class: a subclass supplies its own parameters and its `_recipe`."""

    n_components: int | None = field(default=None, kw_only=False)
    ridge: float | str = "scale"
    scaling: Literal["paper", "unit_norm"] = "paper"
    centering: Literal["source", "target"] = "source"

    __metadata_request__fit: ClassVar = {"sample_domain": True}
    __metadata_request__transform: ClassVar = {"sample_domain": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Space._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "ridge": [NON_NEGATIVE, str],
        "scaling": [StrOptions({"paper", "unit_norm"})],
        "centering": [StrOptions({"source", "target"})],
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
        solution = (
            self._trimmed(solution, membership.counts)
            .scaled(self.scaling)
            .oriented(membership.counts, self._landmarks(X))
        )
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
        X = self._check_samples(X, reset=False)
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
        Z = self._project(self._check_samples(X, reset=False))
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
        if self._needs_labels():
            X, y = self._check_samples(X, y=y, ensure_min_samples=2)
            self.classes_, class_codes = encode_classes(y, name)
        else:
            X = self._check_samples(X, ensure_min_samples=2)
            class_codes = np.zeros(X.shape[0], dtype=np.intp)
        if self.kernel == "precomputed" and self.feature_map is None:
            check_gram(X)
        self.domains_, domain_codes = training_domains(sample_domain, X.shape[0], name)
        return X, Membership.of(class_codes, domain_codes)

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

    def _landmarks(self, X: Any) -> Any:
        """What the coefficients weigh, where that is known."""
        return X if self.feature_map is None and self.kernel != "precomputed" else None

    def _is_low_rank(self, recipe: Recipe) -> bool:
        """Whether a solution is a matter of the cells alone, however many samples there are."""
        return recipe.total == 0

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
