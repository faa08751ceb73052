"""Explicit features of a kernel from landmarks that a randomly pivoted Cholesky factorisation picks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import linalg, sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from ..algebra import Array, product
from ..citizen import DocLinkMixin, forget
from . import _kernel as kernels
from ._cholesky import NotPositiveError, pivoted_cholesky

EPS = float(np.finfo(float).eps)
SELF_SIMILAR = frozenset({"rbf", "laplacian", "chi2"})  # kernels whose value for a sample with itself is 1


class PivotedNystroem(DocLinkMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Nystroem features whose landmarks are picked one by one where the approximation is still poor.

    A landmark is drawn with a probability proportional to what the landmarks before it miss of each sample: the
    diagonal of the residual kernel matrix. This is randomly pivoted Cholesky (Chen et al., 2023). Small far clusters
    are found, copies are never picked twice, and the error of the result is known exactly. A fit evaluates the kernel
    between the samples and the landmarks and stores `n_components` numbers per sample, never the full matrix.

    Landmarks are drawn in blocks, with rejections that leave their law as it is for one at a time (Epperly et al.,
    2024). `block_size` thus changes the speed and which random landmarks come out, not their distribution.

    Parameters
    ----------
    n_components : int, default=100
        Number of landmarks; fewer if the kernel matrix has a lower rank or `tolerance` is met sooner.
    kernel : str or callable, default="rbf"
        Any positive semi-definite kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, or a function of two
        samples.
    gamma : float, "median", "scale", a multiple such as "0.1*median", or None, default="median"
        Kernel coefficient, with scikit-learn's meaning. "median" is, for "rbf", one over the median of the squared
        distances between samples; for other kernels it is None, scikit-learn's default for the kernel. "scale" is
        ``1 / (n_features * X.var())``.
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1
        Constant of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Keyword arguments for a callable kernel.
    tolerance : float, default=None
        Stop as soon as `trace_error_` is at most this, a number between 0 and 1; `n_components` is then the most that
        there may be, and a warning says if they did not suffice. None picks all `n_components`.
    block_size : int, default=64
        Landmarks proposed at a time; the kernel is evaluated between all of them. A callable kernel is expensive, so
        it gets them one by one.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws.

    Attributes
    ----------
    components_ : {ndarray, sparse matrix} of shape (`n_components_`, n_features)
        The landmarks, in the order in which they were picked.
    component_indices_ : ndarray of shape (`n_components_`,)
        Which training samples they are.
    n_components_ : int
        Their number.
    cholesky_ : ndarray of shape (`n_components_`, `n_components_`)
        Lower Cholesky factor of the kernel matrix of the landmarks.
    trace_error_ : float
        What the features miss of the training samples: the trace of the kernel matrix minus that of its approximation,
        over the former. 0 means exact, up to rounding.
    gamma_ : float or None
        The kernel coefficient that was used.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, if `X` had string column names.

    See Also
    --------
    sklearn.kernel_approximation.Nystroem : Landmarks drawn uniformly.

    References
    ----------
    Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber. "Randomly pivoted Cholesky: Practical approximation of a kernel
    matrix with few entry evaluations". Communications on Pure and Applied Mathematics, 2025 (arXiv 2023).

    E. N. Epperly, J. A. Tropp, R. J. Webber. "Embrace rejection: Kernel matrix approximation by accelerated randomly
    pivoted Cholesky". arXiv 2024.

    Examples
    --------
    >>> from unseen import CIDG, PivotedNystroem
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> features = PivotedNystroem(300, tolerance=1e-6, random_state=0).fit(data.data)
    >>> bool(features.n_components_ < 100), bool(features.trace_error_ <= 1e-6)
    (True, True)
    >>> cidg = CIDG(feature_map=PivotedNystroem(50, random_state=0))
    >>> cidg.fit_transform(data.data, data.target, sample_domain=data.domain).shape
    (320, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "kernel": [StrOptions(set(kernels.KERNELS)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), str, None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "tolerance": [Interval(Real, 0, 1, closed="neither"), None],
        "block_size": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | str | None = "median",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: Mapping[str, Any] | None = None,
        tolerance: float | None = None,
        block_size: int = 64,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.tolerance = tolerance
        self.block_size = block_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Pick the landmarks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples: all of them, or as many as memory allows `n_components` numbers each.
        y : None
            Not used.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        self._factorise(X)
        return self

    def transform(self, X: Any) -> Any:
        """Features of samples; their inner products approximate the kernel.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, whole or chunk by chunk: each row is transformed on its own.

        Returns
        -------
        features : ndarray of shape (n_samples, `n_components_`)
            One feature per landmark.
        """
        check_is_fitted(self)
        X = self._check_samples(X, reset=False)
        values = self._values(*kernels.about_origin(self.kernel, X, self.components_))
        features = linalg.solve_triangular(self.cholesky_, values.T, lower=True, overwrite_b=True, check_finite=False).T
        return self._finite(features).astype(X.dtype, copy=False)

    def combine(self, X: Any, weights: Any) -> Array:
        """Combinations of the features of samples, without the features: much sooner for a few combinations.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        weights : array-like of shape (`n_components_`, n_combinations)
            Weight of each feature in each combination.

        Returns
        -------
        combined : ndarray of shape (n_samples, n_combinations)
            ``transform(X) @ weights``, up to rounding, in double precision.
        """
        check_is_fitted(self)
        X = self._check_samples(X, reset=False)
        on_landmarks = linalg.solve_triangular(self.cholesky_, weights, lower=True, trans=1)
        values = self._values(*kernels.about_origin(self.kernel, X, self.components_))
        return self._finite(product(values, on_landmarks))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit and return the features of the same samples, which are a by-product of picking the landmarks.

        Parameters
        ----------
        X, y
            As for `fit`.

        Returns
        -------
        features : ndarray of shape (n_samples, `n_components_`)
            One feature per landmark.
        """
        features = self._factorise(X)
        return features.astype(self.components_.dtype, copy=False)

    def _factorise(self, X: Any) -> Array:
        """Pick the landmarks, and return the features that come with them."""
        self._validate_params()
        forget(self)
        if self.kernel == "precomputed":
            raise ValueError(
                'PivotedNystroem does not take kernel="precomputed": it exists so that the full kernel matrix is never '
                "computed. Where there is one already, fit the projection on it, for example "
                'CIDG(kernel="precomputed").'
            )
        X = self._check_samples(X)
        (samples,) = kernels.about_origin(self.kernel, X)
        self.gamma_ = kernels.resolve_gamma(self.gamma, self.kernel, X)
        diagonal = self._finite(self._diagonal(samples))
        if diagonal.min() < 0 or not diagonal.any():
            raise ValueError(
                f"kernel={self.kernel!r} must give samples a positive value with themselves; on X these values lie "
                f"between {diagonal.min():.3g} and {diagonal.max():.3g}. Check X, or use a positive semi-definite "
                "kernel."
            )
        try:
            factor, pivots, residual = pivoted_cholesky(
                lambda rows, columns: self._finite(self._values(samples[rows], samples[columns])),
                diagonal,
                n_pivots=min(self.n_components, len(diagonal)),
                tolerance=self.tolerance or 0.0,
                block_size=1 if callable(self.kernel) else self.block_size,
                rounding=self._rounding(samples) * diagonal,
                random=check_random_state(self.random_state),
            )
        except NotPositiveError as error:
            raise ValueError(
                f"kernel={self.kernel!r} is not positive semi-definite on X: {error} Use another kernel or other "
                "parameters. If the kernel is positive but computed inexactly, set a larger tolerance or fewer "
                "n_components."
            ) from error
        self.components_ = X[pivots]
        self.component_indices_ = pivots
        self.n_components_ = self._n_features_out = len(pivots)
        self.cholesky_ = factor[:, pivots].T.copy()
        self.trace_error_ = float(residual.sum() / diagonal.sum())
        if self.tolerance is not None and self.trace_error_ > self.tolerance and len(pivots) == self.n_components:
            warnings.warn(
                f"PivotedNystroem stopped at n_components={self.n_components} with a trace error of "
                f"{self.trace_error_:.2g}, above tolerance={self.tolerance:g}. Allow more landmarks, or tolerate more.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return factor.T

    def _check_samples(self, X: Any, **options: Any) -> Any:
        X = validate_data(
            self,
            X,
            dtype=(np.float64, np.float32),
            accept_sparse="csr" if self._accepts_sparse() else False,
            # scikit-learn's Laplacian kernel cannot read sparse matrices with 64-bit indices.
            accept_large_sparse=self.kernel != "laplacian",
            **options,
        )
        if self.kernel in kernels.NON_NEGATIVE_KERNELS:
            check_non_negative(X, f"PivotedNystroem with kernel={self.kernel!r}")
        return X

    def _accepts_sparse(self) -> bool:
        return callable(self.kernel) or self.kernel in kernels.SPARSE_KERNELS

    def _values(self, X: Any, Y: Any) -> Array:
        return kernels.evaluate(
            X,
            Y,
            kernel=self.kernel,
            gamma=self.gamma_,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
        )

    def _diagonal(self, X: Any) -> Array:
        """Kernel values of the samples with themselves, at one evaluation each."""
        if callable(self.kernel):
            params = self.kernel_params or {}
            rows = (X[[i]] if sparse.issparse(X) else X[i] for i in range(X.shape[0]))
            return np.array([self.kernel(row, row, **params) for row in rows], dtype=np.float64)
        if self.kernel in SELF_SIMILAR:
            return np.ones(X.shape[0])
        squares = row_norms(X, squared=True)
        if self.kernel == "cosine":
            return (squares > 0).astype(np.float64)
        if self.kernel == "additive_chi2":
            return np.zeros(X.shape[0])
        # The others are functions of gamma times the inner product, here of a squared norm with 1.
        return kernels.evaluate(
            self._finite(squares)[:, None],
            np.ones((1, 1)),
            kernel=self.kernel,
            gamma=1 / X.shape[1] if self.gamma_ is None else self.gamma_,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=None,
        )[:, 0]

    def _rounding(self, X: Any) -> Array | float:
        """How far computed kernel values can be trusted, relative to those on the diagonal."""
        steps = 100 * max(10, X.shape[1], min(self.n_components, X.shape[0]))
        if self.kernel != "rbf":
            return steps * EPS
        gamma = 1 / X.shape[1] if self.gamma_ is None else self.gamma_
        # What cancels in a squared distance. With a kernel this narrow, digits lost at large distances do not matter.
        return np.clip(steps * EPS * gamma * row_norms(X, squared=True), steps * EPS, 1e-3)

    def _finite(self, values: Array) -> Array:
        if not np.isfinite(values).all():
            raise ValueError(
                f"kernel={self.kernel!r} gave NaN or infinite values on X. Scale X, or change the kernel's parameters."
            )
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._accepts_sparse()
        tags.input_tags.positive_only = self.kernel in kernels.NON_NEGATIVE_KERNELS
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
