"""Explicit features of a kernel from landmarks that a randomly pivoted Cholesky factorization picks."""

from __future__ import annotations

import warnings
from dataclasses import field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from ..linalg import Array, product
from ..utils.estimator_mixins import keyword_parameters, reset_fitted_attributes
from ._cholesky import NotPositiveError, pivoted_cholesky
from ._kernel import EPS, Kernel, KernelTransformer


@keyword_parameters
class PivotedNystroem(KernelTransformer):
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
    {kernel_parameters}
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
    {features_in}

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

    n_components: int = field(default=100, kw_only=False)
    tolerance: float | None = None
    block_size: int = 64
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelTransformer._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "tolerance": [Interval(Real, 0, 1, closed="neither"), None],
        "block_size": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

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
        self.fit_features(X)
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
        X, kernel, values = self._on_landmarks(X)
        features = linalg.solve_triangular(self.cholesky_, values.T, lower=True, overwrite_b=True, check_finite=False).T
        return kernel.finite(features).astype(X.dtype, copy=False)

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
        _, kernel, values = self._on_landmarks(X)
        on_landmarks = linalg.solve_triangular(self.cholesky_, weights, lower=True, trans=1)
        return kernel.finite(product(values, on_landmarks))

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
        features = self.fit_features(X)
        return features.astype(self.components_.dtype, copy=False)

    def fit_features(self, X: Any) -> Array:
        """Fit and return the features in double precision, whatever the samples are: what a projection adds up.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As for `fit`.

        Returns
        -------
        features : ndarray of shape (n_samples, `n_components_`)
            One feature per landmark.
        """
        self._validate_params()
        reset_fitted_attributes(self)
        kernel = Kernel.from_estimator(self)
        if kernel.is_precomputed:
            raise ValueError(
                'PivotedNystroem does not take kernel="precomputed": it exists so that the full kernel matrix is never '
                "computed. Where there is one already, fit the projection on it, for example "
                'CIDG(kernel="precomputed").'
            )
        X = kernel.check(self, X)
        (samples,) = kernel.about_origin(X)
        kernel = kernel.fitted(X)
        self.gamma_ = kernel.gamma
        diagonal = kernel.finite(kernel.diagonal(samples))
        if diagonal.min() < 0 or not diagonal.any():
            raise ValueError(
                f"kernel={self.kernel!r} must give samples a positive value with themselves; on X these values lie "
                f"between {diagonal.min():.3g} and {diagonal.max():.3g}. Check X, or use a positive semi-definite "
                "kernel."
            )
        try:
            factor, pivots, residual = pivoted_cholesky(
                lambda rows, columns: kernel.finite(kernel.values(samples[rows], samples[columns])),
                diagonal,
                n_pivots=min(self.n_components, len(diagonal)),
                tolerance=self.tolerance or 0.0,
                block_size=1 if callable(self.kernel) else self.block_size,
                rounding=self._rounding(kernel, samples) * diagonal,
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

    def _on_landmarks(self, X: Any) -> tuple[Any, Kernel, Array]:
        """Samples, the kernel, and its values between samples and landmarks."""
        check_is_fitted(self)
        kernel = Kernel.from_estimator(self, gamma=self.gamma_)
        X = kernel.check(self, X, reset=False)
        return X, kernel, kernel.values(*kernel.about_origin(X, self.components_))

    def _rounding(self, kernel: Kernel, X: Any) -> Array | float:
        """How far computed kernel values can be trusted, relative to those on the diagonal."""
        steps = 100 * max(10, X.shape[1], min(self.n_components, X.shape[0]))
        if kernel.kernel != "rbf":
            return steps * EPS
        # What cancels in a squared distance. With a kernel this narrow, digits lost at large distances do not matter.
        return np.clip(steps * EPS * kernel.width(X.shape[1]) * row_norms(X, squared=True), steps * EPS, 1e-3)
