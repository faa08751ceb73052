"""Kernels: parameters, bandwidth rules, validation of samples, evaluation and centering."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances, pairwise_kernels
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import validate_data

from ..linalg import Array, check_gram_norm, check_squares, largest_entry, norm, product
from ..utils.validation import DocLinkMixin, keyword_parameters

# 1,000 rows have half a million pairs. The standard error of their median is 1% for twenty normal features, less for
# more features, and 5% for a single feature.
MEDIAN_ROWS = 1000
EPS = float(np.finfo(float).eps)


def parse_multiple(value: str, unit: str, parameter: str) -> float:
    """Return the factor of a multiple: 1 for "scale", 0.1 for "0.1*scale"."""
    number, star, name = value.rpartition("*")
    try:
        result = float(number) if star else 1.0
    except ValueError:
        result = math.nan
    if name.strip() != unit or not 0 < result < math.inf:
        raise ValueError(
            f'{parameter} must be a number, "{unit}" or a positive multiple such as "0.1*{unit}"; got {value!r}.'
        )
    return result


def shift_to_mean(*parts: Any) -> list[Any]:
    """Return samples in double precision and, if all are dense, about the mean of the last part.

    Distances are computed as ``|x|^2 + |y|^2 - 2 x'y``. Far from the origin most digits would cancel, and the kernel
    matrix would not be positive semi-definite.
    """
    parts_in_double = [part.astype(np.float64, copy=False) for part in parts]
    if any(map(sparse.issparse, parts_in_double)):
        return parts_in_double
    origin = parts_in_double[-1].mean(axis=0)
    return [part - origin for part in parts_in_double]


def squared_distances(X: Any, Y: Any = None) -> Array:
    """Return the squared Euclidean distances between all rows of X, or between the rows of X and of Y.

    No distance is negative, in spite of rounding errors.
    """
    rows, columns = shift_to_mean(X) * 2 if Y is None else shift_to_mean(X, Y)
    if sparse.issparse(rows) or sparse.issparse(columns):
        return euclidean_distances(rows, columns, squared=True)
    with np.errstate(over="ignore", invalid="ignore"):  # The caller raises for values that are not finite.
        D = product(-2 * rows, columns.T)
        D += row_norms(rows, squared=True)[:, None]
        D += row_norms(columns, squared=True)
    np.maximum(D, 0.0, out=D)
    if Y is None:
        np.fill_diagonal(D, 0.0)
    return D


def median_squared_distance(X: Any) -> float:
    """Return the median of the squared distances between different rows, or 1 if all rows are equal.

    Above `MEDIAN_ROWS` rows a subsample is used, which does not depend on the order of rows: rows at equal distances in
    the order of a fixed random projection.
    """
    if X.shape[0] > MEDIAN_ROWS:
        direction = np.random.default_rng(0).normal(size=X.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):  # The check below raises for values that are too large.
            order = np.argsort(X @ direction)
        X = X[order[((np.arange(MEDIAN_ROWS) + 0.5) * X.shape[0] / MEDIAN_ROWS).astype(np.intp)]]
    (X,) = shift_to_mean(X)
    check_squares(largest_entry(X))
    distances = squared_distances(X)[np.tri(X.shape[0], k=-1, dtype=bool)]
    # Distances between copies of a row are zero up to the rounding errors of |x|^2 + |y|^2 - 2 x'y.
    rounding = 4 * np.finfo(float).eps * X.shape[1] ** 0.5 * row_norms(X, squared=True).max()
    distances = distances[distances > max(rounding, 1e-12 * distances.max(initial=0.0))]
    return float(np.median(distances)) if len(distances) else 1.0


KERNELS = ("cosine", "laplacian", "linear", "poly", "polynomial", "precomputed", "rbf", "sigmoid")
DIAGONAL_ROWS = 64  # rows of a block of which the kernel matrix is evaluated for its diagonal
KERNEL_PARAMETERS = """\
gamma : float, "median", a multiple such as "0.1*median", or None, default="median"
    Kernel coefficient, with scikit-learn's meaning. "median" is, for "rbf", one over the median of the squared
    distances between samples; for other kernels it is None, scikit-learn's default for the kernel.
degree : float, default=3
    Degree of the polynomial kernel.
coef0 : float, default=1
    Constant of the polynomial and sigmoid kernels."""


@dataclass(frozen=True)
class Kernel:
    """A kernel and its parameters, as estimators take them; `resolve` turns a rule for gamma into a number.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.kernels import Kernel
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> kernel = Kernel(gamma="2*median").resolve(X)
    >>> kernel.gamma
    0.5
    >>> kernel.evaluate(X[:1], X).round(2)
    array([[1.  , 0.61, 0.01]])
    """

    kernel: str | Callable[..., float] = "rbf"
    gamma: float | str | None = "median"
    degree: float = 3
    coef0: float = 1

    @classmethod
    def from_estimator(cls, estimator: Any, **changes: Any) -> Self:
        """Return the kernel of an estimator, with some parameters replaced."""
        parameters = {name: getattr(estimator, name) for name in cls.__match_args__}
        return cls(**parameters | changes)

    def resolve(self, X: Any) -> Self:
        """Return a copy with gamma as a number, or None if the default of scikit-learn applies.

        "median" refers to squared Euclidean distances, so it applies to "rbf" only.
        """
        gamma = self.gamma
        if callable(self.kernel) or self.kernel == "precomputed":
            gamma = None
        elif isinstance(gamma, str):
            multiple = parse_multiple(gamma, "median", "gamma")
            gamma = multiple / median_squared_distance(X) if self.kernel == "rbf" else None
        return replace(self, gamma=None if gamma is None else float(gamma))

    @property
    def validation_options(self) -> dict[str, Any]:
        """Options of `validate_data` for samples."""
        return {
            "dtype": (np.float64, np.float32),
            "accept_sparse": False if self.kernel == "precomputed" else "csr",
            # The Laplacian kernel of scikit-learn cannot read sparse matrices with 64-bit indices.
            "accept_large_sparse": self.kernel != "laplacian",
        }

    def check_finite(self, values: Array) -> Array:
        """Return the values; raise if some are not finite."""
        if not np.isfinite(values).all():
            raise ValueError(
                f"kernel={self.kernel!r} gave NaN or infinite values on X. Scale X, or change the parameters of the "
                "kernel."
            )
        return values

    def gamma_value(self, n_features: int) -> float:
        """Return gamma as a number; None means the default of scikit-learn."""
        return 1 / n_features if self.gamma is None else float(self.gamma)

    def evaluate(self, X: Any, Y: Any = None) -> Array:
        """Return the kernel matrix between the rows of X and of Y, or of X and X for None, in float64."""
        if self.kernel == "precomputed":
            return np.array(X, dtype=np.float64) if Y is None else np.asarray(X, dtype=np.float64)
        if self.kernel == "rbf":
            K = squared_distances(X, Y)
            K *= -self.gamma_value(X.shape[1])
            return np.exp(K, out=K)  # In place, without a second matrix for the distances.
        parts = (X,) if Y is None else (X, Y)
        parts = tuple(part.astype(np.float64, copy=False) for part in parts)
        params = {} if callable(self.kernel) else {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        with np.errstate(over="ignore", invalid="ignore"):  # The caller raises for values that are not finite.
            K = pairwise_kernels(*parts, metric=self.kernel, filter_params=True, **params)
        return np.asarray(K, dtype=np.float64)

    def evaluate_for_centering(self, X: Any, Y: Any = None) -> Array:
        """Return kernel values up to terms that depend on one sample only, which centering removes.

        For the rbf and the linear kernel these terms are left out, so that centering does not cancel digits.
        """
        if self.kernel == "rbf":
            return self.evaluate_from_distances(squared_distances(X, Y), X.shape[1])
        columns = X if Y is None else Y
        if self.kernel != "linear" or sparse.issparse(columns):
            return self.evaluate(X, Y)
        origin = columns.mean(axis=0, dtype=np.float64)
        rows = (X.toarray() if sparse.issparse(X) else X) - origin
        return product(rows, rows.T if Y is None else (Y - origin).T)

    def evaluate_from_distances(self, distances: Array, n_features: int) -> Array:
        """Return ``exp(-gamma distance) - 1`` of squared distances, in place: the rbf kernel for centering.

        The values of a wide kernel are all close to 1; the difference from 1 keeps their digits.
        """
        distances *= -self.gamma_value(n_features)
        return np.expm1(distances, out=distances)

    def evaluate_diagonal(self, X: Any) -> Array:
        """Return the kernel values of the samples with themselves."""
        step = 1 if callable(self.kernel) else DIAGONAL_ROWS
        blocks = (X[rows] for rows in gen_batches(X.shape[0], step))
        return np.concatenate([self.evaluate(block).diagonal() for block in blocks])

    def center(self, K: Array, X: Any, caller: str) -> CenteredKernel:
        """Center the kernel values of X in place; raise if the result consists of rounding errors."""
        cancellation = 0.0
        if self.kernel == "rbf":
            # A squared distance |x|^2 + |y|^2 - 2 x'y has the rounding error of its terms, which may be larger than the
            # distance. So copies of a sample far from the mean have slightly different kernel values.
            (samples,) = shift_to_mean(X)
            squares = self.gamma_value(X.shape[1]) * row_norms(samples, squared=True)
            errors = K + 1
            errors *= squares[:, None] + squares
            np.fill_diagonal(errors, 0.0)
            cancellation = norm(errors)  # in units of EPS
        means = self.check_finite(center_kernel(K))
        size = norm(K)
        uncentered = len(K) * float(np.abs(means).max())
        check_gram_norm(size)
        check_spread(size, uncentered, caller)
        return CenteredKernel(means, size, EPS * max(len(K), uncentered / size, cancellation / size))


class CenteredKernel(NamedTuple):
    """Properties of a centered kernel matrix.

    Attributes
    ----------
    means : ndarray of shape (n_samples,)
        Means of the columns before centering.
    size : float
        Frobenius norm.
    precision : float
        Bound on the rounding errors relative to `size`: those of arithmetic with a matrix of n rows, those of the
        values before centering, and those of squared distances.
    """

    means: Array
    size: float
    precision: float


@keyword_parameters
class KernelTransformer(DocLinkMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of transformers that have the parameters of a kernel."""

    kernel: str | Callable[..., float] = "rbf"
    gamma: float | str | None = "median"
    degree: float = 3
    coef0: float = 1

    _shared_docs: ClassVar[dict[str, str]] = {"kernel_parameters": KERNEL_PARAMETERS, **DocLinkMixin._shared_docs}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), str, None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
    }

    @property
    def _sample_kernel(self) -> Kernel:
        """The kernel that validates samples."""
        return Kernel.from_estimator(self)

    def _check_samples(
        self, X: Any, *, y: Any = "no_validation", reset: bool = True, ensure_min_samples: int = 1
    ) -> Any:
        """Validate samples, with labels if these are given."""
        return validate_data(
            self, X, y, reset=reset, ensure_min_samples=ensure_min_samples, **self._sample_kernel.validation_options
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._sample_kernel.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_gram(K: Array) -> None:
    """Raise unless a matrix is square and symmetric, as the kernel values between all training samples are."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            'kernel="precomputed" needs the square matrix of kernel values between all training samples as X; got '
            f"shape {K.shape}."
        )
    gap = np.abs(K - K.T).max()
    if gap > 1e-6 * np.abs(K).max():
        raise ValueError(
            'kernel="precomputed" needs a symmetric matrix as X, but entries differ from their mirror images by up to '
            f"{gap:.3g}. Symmetrize it, or check that rows and columns are in the same order."
        )


def check_spread(centered: float, uncentered: float, caller: str) -> None:
    """Raise if a norm after centering consists of rounding errors."""
    if centered <= 4 * np.finfo(float).eps * uncentered:
        raise ValueError(
            f"All samples look the same to {caller}: the centered kernel matrix is zero. Check X, the kernel and "
            "gamma. If samples differ by so little that their squares underflow, scale X."
        )


def center_kernel(K: Array) -> Array:
    """Center a Gram matrix in place (Algorithm 1, step 2) and return the column means it had before.

    The means have rounding errors. The values of a wide kernel are all close to 1, so that these errors may be as large
    as the centered values; a second pass removes them.
    """
    step = max(1, 2**22 // max(len(K), 1))  # rows of a block that stays in cache during both subtractions
    total = np.zeros(len(K))
    with np.errstate(over="ignore", invalid="ignore"):  # The means show infinite entries; the caller raises.
        for _ in range(2):
            means = K.mean(axis=0)
            rows = means - means.mean()
            for start in range(0, len(K), step):
                block = K[start : start + step]
                block -= means
                block -= rows[start : start + step, None]
            total += means
    return total
