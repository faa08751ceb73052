"""Distances between samples, and the parameters that follow the data: "scale", "median" and multiples of these."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.extmath import row_norms

from ..algebra import Array, product

# 1,000 rows are half a million pairs: their median has a standard error of one per cent for twenty normal features,
# less for more features and five per cent for a single one.
MEDIAN_ROWS = 1000


def is_multiple(value: object, unit: str) -> bool:
    """Whether a parameter is the unit or a multiple of it, rather than a number."""
    return isinstance(value, str) and value.strip().endswith(unit)


def factor(value: str, unit: str, parameter: str) -> float:
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


def about_mean(*parts: Any) -> list[Any]:
    """Samples in double precision and, unless there are sparse ones, about the mean of the last part.

    Distances are computed as ``|x|^2 + |y|^2 - 2 x'y``: far from the origin most digits would cancel, and kernels of
    what is left would not be positive semi-definite.
    """
    double = [part.astype(np.float64, copy=False) for part in parts]
    if any(map(sparse.issparse, double)):
        return double
    origin = double[-1].mean(axis=0)
    return [part - origin for part in double]


def multiple_of_distances(X: Array, Y: Array, factor: float) -> Array:
    """``factor |x - y|^2``; what rounding makes of zero has no other sign."""
    with np.errstate(over="ignore", invalid="ignore"):  # the caller refuses values that are not finite
        D = product(-2 * factor * X, Y.T)
        D += factor * row_norms(X, squared=True)[:, None]
        D += factor * row_norms(Y, squared=True)
    (np.minimum if factor < 0 else np.maximum)(D, 0.0, out=D)
    if X is Y:
        np.fill_diagonal(D, 0.0)
    return D


def squared_distances(X: Any) -> Array:
    """Squared Euclidean distances between all rows."""
    (rows,) = about_mean(X)
    return euclidean_distances(rows, squared=True) if sparse.issparse(rows) else multiple_of_distances(rows, rows, 1.0)


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
    (X,) = about_mean(X)
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
