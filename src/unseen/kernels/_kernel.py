"""Kernels: evaluation, the bandwidth rule and centring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import (
    PAIRWISE_KERNEL_FUNCTIONS,
    euclidean_distances,
    pairwise_kernels,
)
from sklearn.utils.extmath import row_norms

from ..algebra import Array, product
from ._scales import factor, is_multiple

KERNELS = (*sorted(PAIRWISE_KERNEL_FUNCTIONS), "precomputed")
SPARSE_KERNELS = frozenset({"cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid"})
NON_NEGATIVE_KERNELS = ("additive_chi2", "chi2")

# 1,000 rows are half a million pairs: their median has a standard error of one per cent for twenty normal features,
# less for more features and five per cent for a single one.
MEDIAN_ROWS = 1000


def evaluate(
    X: Any,
    Y: Any,
    *,
    kernel: str | Callable[..., float],
    gamma: float | None,
    degree: float,
    coef0: float,
    kernel_params: Mapping[str, Any] | None,
) -> Array:
    """Kernel matrix between the rows of `X` and of `Y` (of `X` and itself for None), in float64."""
    if kernel == "precomputed":
        return np.array(X, dtype=np.float64) if Y is None else np.asarray(X, dtype=np.float64)
    if kernel in NON_NEGATIVE_KERNELS:  # scikit-learn's code for these refuses read-only memory, such as joblib's
        X, Y = (None if part is None else np.require(part, requirements="W") for part in (X, Y))
    if kernel == "rbf" and not any(map(sparse.issparse, (X, Y))):
        return _rbf(X, X if Y is None else Y, 1 / X.shape[1] if gamma is None else gamma)
    if callable(kernel):
        params = dict(kernel_params or {})
    else:
        params = {"degree": degree, "coef0": coef0}
        if gamma is not None:  # the chi-squared kernel has a default of its own and takes no None
            params["gamma"] = gamma
    with np.errstate(over="ignore", invalid="ignore"):  # the caller refuses values that are not finite
        return np.asarray(pairwise_kernels(X, Y, metric=kernel, filter_params=True, **params), dtype=np.float64)


def _rbf(X: Array, Y: Array, gamma: float) -> Array:
    """``exp(-gamma |x - y|^2)``, without the memory of a matrix of distances beside it."""
    K = _multiple_of_distances(X, Y, -gamma)
    return np.exp(K, out=K)


def _multiple_of_distances(X: Array, Y: Array, factor: float) -> Array:
    """``factor |x - y|^2``; what rounding makes of zero has no other sign."""
    with np.errstate(over="ignore", invalid="ignore"):  # as above
        D = product(-2 * factor * X, Y.T)
        D += factor * row_norms(X, squared=True)[:, None]
        D += factor * row_norms(Y, squared=True)
    (np.minimum if factor < 0 else np.maximum)(D, 0.0, out=D)
    if X is Y:
        np.fill_diagonal(D, 0.0)
    return D


def about_origin(kernel: str | Callable[..., float], *parts: Any) -> list[Any]:
    """Samples in double precision and, where the kernel allows, about the mean of the last part.

    "rbf" depends on differences alone, and computes them as ``|x|^2 + |y|^2 - 2 x'y``: far from the origin most digits
    would cancel, and what is left would not be positive semi-definite.
    """
    double = [part.astype(np.float64, copy=False) for part in parts]
    if kernel != "rbf" or any(map(sparse.issparse, double)):
        return double
    origin = double[-1].mean(axis=0)
    return [part - origin for part in double]


def polynomial_to_centre(X: Any, Y: Array, gamma: float, degree: int, coef0: float) -> Array:
    """``(gamma x'y + coef0)^degree`` without what depends on x alone or on y alone, which centring takes away.

    Far from the origin that is nearly all of it, and beside it the rest would lose its digits. With a and b about the
    mean of `Y`, ``gamma x'y + coef0 = s + t(a) + t(b) + w(a, b)``. Call a power of it ``s^p + f(a) + f(b) + D(a, b)``:
    times one factor more, f and D follow without a difference.
    """
    origin = Y.mean(axis=0)
    A, B = (X.toarray() if sparse.issparse(X) else X) - origin, Y - origin
    values = product(gamma * A, B.T)
    if degree == 1:
        return values
    with np.errstate(over="ignore", invalid="ignore"):  # as above
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


def squared_distances(X: Any) -> Array:
    """Squared Euclidean distances between all rows."""
    (rows,) = about_origin("rbf", X)
    return euclidean_distances(rows, squared=True) if sparse.issparse(rows) else _multiple_of_distances(rows, rows, 1.0)


def resolve_gamma(gamma: float | str | None, kernel: str | Callable[..., float], X: Any) -> float | None:
    """Turn the `gamma` parameter into a number, or None for kernels and settings where scikit-learn's own rule applies.

    "median" is a statement about squared Euclidean distances, so it applies to "rbf" alone.
    """
    if callable(kernel) or kernel == "precomputed" or gamma is None:
        return None
    if not isinstance(gamma, str):
        return float(gamma)
    if is_multiple(gamma, "scale"):
        variance = X.multiply(X).mean() - X.mean() ** 2 if sparse.issparse(X) else X.var()
        return factor(gamma, "scale", "gamma") / (X.shape[1] * variance if variance > 0 else 1.0)
    multiple = factor(gamma, "median", "gamma")
    return multiple / median_squared_distance(X) if kernel == "rbf" else None


def median_squared_distance(X: Any) -> float:
    """Median of the squared distances between different rows; 1 if there are none.

    Above `MEDIAN_ROWS` rows a subsample stands for all. It is chosen by hashing the content of the rows, so the result
    is deterministic and does not depend on their order.
    """
    if X.shape[0] > MEDIAN_ROWS:
        X = X[np.argpartition(_ranks(_row_hashes(X)), MEDIAN_ROWS)[:MEDIAN_ROWS]]
    (X,) = about_origin("rbf", X)
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


def centre(K: Array) -> Array:
    """Centre a Gram matrix in place (Algorithm 1, step 2) and return the column means it had before."""
    step = max(1, 2**22 // max(len(K), 1))  # a block that stays in cache while both subtractions pass over it
    with np.errstate(over="ignore", invalid="ignore"):  # infinite entries show in the means: the caller decides
        means: Array = K.mean(axis=0)
        rows = means - means.mean()
        for start in range(0, len(K), step):
            block = K[start : start + step]
            block -= means
            block -= rows[start : start + step, None]
    return means
