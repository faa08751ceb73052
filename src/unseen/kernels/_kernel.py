"""Kernels as values: what they need of samples, the rules for their width, their evaluation, and centering."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, euclidean_distances, pairwise_kernels
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_non_negative, validate_data

from ..linalg import Array, check_gram_norm, check_squares, largest_entry, norm, product
from ..utils.estimator_mixins import DocLinkMixin, keyword_parameters

# 1,000 rows are half a million pairs: their median has a standard error of one per cent for twenty normal features,
# less for more features and five per cent for a single one.
MEDIAN_ROWS = 1000
EPS = float(np.finfo(float).eps)


def is_multiple(value: object, unit: str) -> bool:
    """Whether a parameter is the unit or a multiple of it, rather than a number."""
    return isinstance(value, str) and value.strip().endswith(unit)


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


def center_on_mean(*parts: Any) -> list[Any]:
    """Samples in double precision and, unless there are sparse ones, about the mean of the last part.

    Distances are computed as ``|x|^2 + |y|^2 - 2 x'y``: far from the origin most digits would cancel, and kernels of
    what is left would not be positive semi-definite.
    """
    double = [part.astype(np.float64, copy=False) for part in parts]
    if any(map(sparse.issparse, double)):
        return double
    origin = double[-1].mean(axis=0)
    return [part - origin for part in double]


def resolve_multiple_of_distances(X: Array, Y: Array, factor: float) -> Array:
    """``factor |x - y|^2``; what rounding makes of zero has no other sign."""
    with np.errstate(over="ignore", invalid="ignore"):  # the caller refuses values that are not finite
        D = product(-2 * factor * X, Y.T)
        D += factor * row_norms(X, squared=True)[:, None]
        D += factor * row_norms(Y, squared=True)
    (np.minimum if factor < 0 else np.maximum)(D, 0.0, out=D)
    if X is Y:
        np.fill_diagonal(D, 0.0)
    return D


def squared_distances(X: Any, Y: Any = None) -> Array:
    """Squared Euclidean distances between all rows, or of the rows of X from those of Y."""
    rows, *others = center_on_mean(X) if Y is None else center_on_mean(X, Y)
    columns = others[0] if others else rows
    if sparse.issparse(rows) or sparse.issparse(columns):
        return euclidean_distances(rows, columns, squared=True)
    return resolve_multiple_of_distances(rows, columns, 1.0)


def resolve_gamma(gamma: float | str | None, kernel: str | Callable[..., float], X: Any) -> float | None:
    """Turn the `gamma` parameter into a number, or None for kernels and settings where scikit-learn's own rule applies.

    "median" is a statement about squared Euclidean distances, so it applies to "rbf" alone.
    """
    if callable(kernel) or kernel == "precomputed" or gamma is None:
        return None
    if not isinstance(gamma, str):
        return float(gamma)
    if is_multiple(gamma, "scale"):
        check_squares(largest_entry(X))
        variance = _variance(X)
        return parse_multiple(gamma, "scale", "gamma") / (X.shape[1] * variance if variance > 0 else 1.0)
    multiple = parse_multiple(gamma, "median", "gamma")
    return multiple / median_squared_distance(X) if kernel == "rbf" else None


def _variance(X: Any) -> float:
    """Variance of all entries, without cancellation for sparse samples too; 0 if it is nothing but rounding."""
    mean, n_entries = X.mean(), X.shape[0] * X.shape[1]
    if sparse.issparse(X):
        X = X.tocsr(copy=True)
        X.sum_duplicates()
        variance = (np.square(X.data - mean).sum() + (n_entries - X.nnz) * mean**2) / n_entries
    else:
        variance = X.var()
    return float(variance) if variance > (16 * np.finfo(X.dtype).eps * mean) ** 2 else 0.0


def median_squared_distance(X: Any) -> float:
    """Median of the squared distances between different rows; 1 if there are none.

    Above `MEDIAN_ROWS` rows a subsample stands for all. It is chosen by hashing the content of the rows, so the result
    is deterministic and does not depend on their order.
    """
    if X.shape[0] > MEDIAN_ROWS:
        X = X[np.argpartition(_ranks(_row_hashes(X)), MEDIAN_ROWS)[:MEDIAN_ROWS]]
    (X,) = center_on_mean(X)
    check_squares(largest_entry(X))
    distances = squared_distances(X)[np.tri(X.shape[0], k=-1, dtype=bool)]
    # Copies of one row are at distance zero, up to the rounding of |x|^2 + |y|^2 - 2 x'y.
    rounding = 4 * np.finfo(float).eps * X.shape[1] ** 0.5 * row_norms(X, squared=True).max()
    distances = distances[distances > max(rounding, 1e-12 * distances.max(initial=0.0))]
    return float(np.median(distances)) if len(distances) else 1.0


def _ranks(hashes: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Numbers to draw rows by: copies of one row are drawn independently, not all or none of them."""
    order = np.argsort(hashes, kind="stable")
    position = np.arange(len(hashes))
    first = np.append(True, np.diff(hashes[order]) != 0)
    copy = np.empty(len(hashes), dtype=np.uint64)
    copy[order] = position - np.maximum.accumulate(np.where(first, position, 0))
    return _mix(hashes + _mix(copy + np.uint64(1)))


def _row_hashes(X: Any) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """One well-mixed 64-bit number per row, a function of the row's values alone."""
    if sparse.issparse(X):
        X = X.tocsr().astype(np.float64)
        X.sum_duplicates()
        entries, columns = X.data, X.indices.astype(np.uint64)
    else:
        entries = np.ascontiguousarray(X, dtype=np.float64)
        columns = np.arange(X.shape[1], dtype=np.uint64)
    # Zeros of either sign hash to nothing, so that dense and sparse copies of the same data choose the same rows.
    bits = np.where(entries == 0, np.uint64(0), _mix(entries.view(np.uint64) ^ _mix(columns + np.uint64(1))))
    if sparse.issparse(X):
        sums = np.concatenate([[np.uint64(0)], np.cumsum(bits, dtype=np.uint64)])
        return _mix(sums[X.indptr[1:]] - sums[X.indptr[:-1]])
    return _mix(bits.sum(axis=1, dtype=np.uint64))


def _mix(x: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Scramble 64-bit integers (the finaliser of the SplitMix64 generator); overflow wraps, as it should."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


KERNELS = (*sorted(PAIRWISE_KERNEL_FUNCTIONS), "precomputed")
SPARSE_KERNELS = frozenset({"cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid"})
NON_NEGATIVE_KERNELS = ("additive_chi2", "chi2")
SELF_SIMILAR = frozenset({"rbf", "laplacian", "chi2"})  # kernels whose value for a sample with itself is 1
KERNEL_PARAMETERS = """\
gamma : float, "median", "scale", a multiple such as "0.1*median", or None, default="median"
    Kernel coefficient, with scikit-learn's meaning. "median" is, for "rbf", one over the median of the squared
    distances between samples; for other kernels it is None, scikit-learn's default for the kernel. "scale" is
    ``1 / (n_features * X.var())``.
degree : float, default=3
    Degree of the polynomial kernel.
coef0 : float, default=1
    Constant of the polynomial and sigmoid kernels.
kernel_params : dict, default=None
    Keyword arguments for a callable kernel."""


@dataclass(frozen=True)
class Kernel:
    """A kernel and its parameters, which mean what they mean to estimators; `fitted` turns a rule for gamma into gamma.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.kernels import Kernel
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> kernel = Kernel(gamma="2*median").fitted(X)
    >>> kernel.gamma
    0.5
    >>> kernel.values(X[:1], X).round(2)
    array([[1.  , 0.61, 0.01]])
    """

    kernel: str | Callable[..., float] = "rbf"
    gamma: float | str | None = "median"
    degree: float = 3
    coef0: float = 1
    kernel_params: Mapping[str, Any] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, **changes: Any) -> Self:
        """The kernel that the parameters of an estimator describe, but for some of them."""
        return cls(**{name: getattr(estimator, name) for name in cls.__match_args__} | changes)

    def fitted(self, X: Any) -> Self:
        """The same with a number for gamma, or None where scikit-learn's own rule applies."""
        return replace(self, gamma=resolve_gamma(self.gamma, self.kernel, X))

    @property
    def is_precomputed(self) -> bool:
        """Whether samples are given by their kernel values."""
        return self.kernel == "precomputed"

    @property
    def accepts_sparse(self) -> bool:
        """Whether samples may be sparse."""
        return callable(self.kernel) or self.kernel in SPARSE_KERNELS

    @property
    def needs_non_negative(self) -> bool:
        """Whether samples may not be negative."""
        return self.kernel in NON_NEGATIVE_KERNELS

    @property
    def validation(self) -> dict[str, Any]:
        """What `validate_data` should ask of samples."""
        return {
            "dtype": (np.float64, np.float32),
            "accept_sparse": "csr" if self.accepts_sparse else False,
            # scikit-learn's Laplacian kernel cannot read sparse matrices with 64-bit indices.
            "accept_large_sparse": self.kernel != "laplacian",
        }

    def check(self, estimator: Any, X: Any, **options: Any) -> Any:
        """Validate samples of an estimator, with labels if `options` hold `y`, as the kernel wants them."""
        checked = validate_data(estimator, X, **self.validation, **options)
        if self.needs_non_negative:
            samples = checked[0] if "y" in options else checked
            check_non_negative(samples, f"{type(estimator).__name__} with kernel={self.kernel!r}")
        return checked

    def finite(self, values: Array) -> Array:
        """The same values, if they are finite."""
        if not np.isfinite(values).all():
            raise ValueError(
                f"kernel={self.kernel!r} gave NaN or infinite values on X. Scale X, or change the kernel's parameters."
            )
        return values

    def about_origin(self, *parts: Any) -> list[Any]:
        """Samples in double precision and, for a kernel of differences alone, about the mean of the last part."""
        if self.kernel == "rbf":
            return center_on_mean(*parts)
        return [part.astype(np.float64, copy=False) for part in parts]

    def width(self, n_features: int) -> float:
        """The coefficient as a number: None is what it is to scikit-learn."""
        return 1 / n_features if self.gamma is None else float(self.gamma)

    def values(self, X: Any, Y: Any = None) -> Array:
        """Kernel matrix between the rows of `X` and of `Y` (of `X` and itself for None), in float64."""
        if self.is_precomputed:
            return np.array(X, dtype=np.float64) if Y is None else np.asarray(X, dtype=np.float64)
        if self.needs_non_negative:  # scikit-learn's code for these refuses read-only memory, such as joblib's
            X, Y = (None if part is None else np.require(part, requirements="W") for part in (X, Y))
        if self.kernel == "rbf" and not any(map(sparse.issparse, (X, Y))):
            K = resolve_multiple_of_distances(X, X if Y is None else Y, -self.width(X.shape[1]))
            return np.exp(K, out=K)  # without the memory of a matrix of distances beside it
        if callable(self.kernel):
            params = dict(self.kernel_params or {})
        else:
            params = {"degree": self.degree, "coef0": self.coef0}
            if self.gamma is not None:  # the chi-squared kernel has a default of its own and takes no None
                params["gamma"] = self.gamma
        with np.errstate(over="ignore", invalid="ignore"):  # the caller refuses values that are not finite
            K = pairwise_kernels(X, Y, metric=self.kernel, filter_params=True, **params)
        return np.asarray(K, dtype=np.float64)

    def values_to_center(self, X: Any, Y: Any = None) -> Array:
        """The same about a good origin, up to what depends on a sample alone, which centering takes away."""
        if self.kernel == "rbf":
            return self.values_to_center_from(squared_distances(X, Y), X.shape[1])
        *rows, others = self.about_origin(X) if Y is None else self.about_origin(X, Y)
        own = rows[0] if rows else others
        power = self._power(X.shape[1])
        if power and not sparse.issparse(others):
            return _polynomial_to_center(own, others, *power)
        return self.values(own, others if rows else None)

    def values_to_center_from(self, distances: Array, n_features: int) -> Array:
        """The same of the rbf kernel from squared distances, in place: ``exp(-gamma distance) - 1``.

        Of a wide kernel, whose values are all close to one, the difference from one keeps its digits.
        """
        distances *= -self.width(n_features)
        return np.expm1(distances, out=distances)

    @property
    def has_origin(self) -> bool:
        """Whether `values_to_center` depends on the mean of its second argument, by rounding."""
        return self.kernel in ("rbf", "linear") or self._is_low_power

    @property
    def _is_low_power(self) -> bool:
        return self.kernel in ("poly", "polynomial") and self.degree in range(1, 10)

    def _power(self, n_features: int) -> tuple[float, int, float] | None:
        """gamma, degree and coef0 of a kernel that is a low power of inner products."""
        if self.kernel == "linear":
            return 1.0, 1, 0.0
        if self._is_low_power:
            return self.width(n_features), int(self.degree), self.coef0
        return None

    def diagonal(self, X: Any) -> Array:
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
        of_products = replace(self, gamma=self.width(X.shape[1]))
        return of_products.values(self.finite(squares)[:, None], np.ones((1, 1)))[:, 0]

    def center(self, K: Array, caller: str) -> CenteredKernel:
        """Center kernel values in place; what is left must be more than rounding errors."""
        means = self.finite(center_kernel(K))
        size = norm(K)
        uncentered = len(K) * float(np.abs(means).max())
        check_gram_norm(size)
        check_spread(size, uncentered, caller)
        return CenteredKernel(means, size, EPS * max(len(K), uncentered / size))


class CenteredKernel(NamedTuple):
    """What is known of a kernel matrix once it is centered.

    Attributes
    ----------
    means : ndarray of shape (n_samples,)
        Means of its columns before.
    size : float
        Its Frobenius norm.
    precision : float
        Bound on its rounding errors, relative to `size`: those of arithmetic with a matrix of n rows, and those of the
        values before centering.
    """

    means: Array
    size: float
    precision: float


@keyword_parameters
class KernelTransformer(DocLinkMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer that has the parameters of a kernel."""

    kernel: str | Callable[..., float] = "rbf"
    gamma: float | str | None = "median"
    degree: float = 3
    coef0: float = 1
    kernel_params: Mapping[str, Any] | None = None

    _shared_docs: ClassVar[dict[str, str]] = {"kernel_parameters": KERNEL_PARAMETERS, **DocLinkMixin._shared_docs}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), str, None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
    }

    @property
    def _sample_kernel(self) -> Kernel:
        """What samples must be: as the kernel wants them."""
        return Kernel.from_estimator(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sample_kernel.accepts_sparse
        tags.input_tags.positive_only = self._sample_kernel.needs_non_negative
        tags.input_tags.pairwise = self._sample_kernel.is_precomputed
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_spread(centered: float, uncentered: float, caller: str) -> None:
    """Raise if nothing but rounding is left of a norm after centering."""
    if centered <= 4 * np.finfo(float).eps * uncentered:
        raise ValueError(
            f"All samples look the same to {caller}: the centered kernel matrix is zero. Check X, the kernel and its "
            "gamma; if samples differ, by too little for their squares to be seen, scale X."
        )


def _polynomial_to_center(X: Any, Y: Array, gamma: float, degree: int, coef0: float) -> Array:
    """``(gamma x'y + coef0)^degree`` without what depends on x alone or on y alone, which centering takes away.

    Far from the origin that is nearly all of it, and beside it the rest would lose its digits. With a and b about the
    mean of `Y`, ``gamma x'y + coef0 = s + t(a) + t(b) + w(a, b)``. Call a power of it ``s^p + f(a) + f(b) + D(a, b)``:
    times one factor more, f and D follow without a difference.
    """
    origin = Y.mean(axis=0)
    A, B = (X.toarray() if sparse.issparse(X) else X) - origin, Y - origin
    values = product(gamma * A, B.T)
    if degree == 1:
        return values
    with np.errstate(over="ignore", invalid="ignore"):  # as in `values`
        s = gamma * (origin @ origin) + coef0
        rows, columns = gamma * (A @ origin), gamma * (B @ origin)
        step = max(1, 2**18 // len(Y))
        for start in range(0, len(A), step):
            block = slice(start, start + step)
            t, u, w = rows[block, None], columns, values[block]
            f, g, D, power = t, u, w, s
            for _ in range(degree - 1):
                D = t * g + u * f + (s + t + u) * D + w * (power + f + g + D)
                f, g, power = (s + t) * f + t * power, (s + u) * g + u * power, power * s
            values[block] = D
    return values


def center_kernel(K: Array) -> Array:
    """Center a Gram matrix in place (Algorithm 1, step 2) and return the column means it had before.

    Means are rounded as the values are. Of a wide kernel, whose values are all close to one, little more than that may
    be left; a second time takes what the first has missed.
    """
    return _centered_once(K) + _centered_once(K)


def _centered_once(K: Array) -> Array:
    step = max(1, 2**22 // max(len(K), 1))  # a block that stays in cache while both subtractions pass over it
    with np.errstate(over="ignore", invalid="ignore"):  # infinite entries show in the means: the caller decides
        means: Array = K.mean(axis=0)
        rows = means - means.mean()
        for start in range(0, len(K), step):
            block = K[start : start + step]
            block -= means
            block -= rows[start : start + step, None]
    return means
