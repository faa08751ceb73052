"""Explicit feature maps of projections, and the check of a precomputed kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import gen_batches

from ..exceptions import ignore_warnings
from ..kernels import check_scatter_memory
from ..linalg import Array, product
from ..utils.validation import format_list

# Projections compare column names once and then pass plain arrays to the feature map.
MISSING_NAMES_WARNING = (UserWarning, "X does not have valid feature names")
BLOCK_ENTRIES = 2**22  # kernel values or features per block: 32 MiB


def compute_features(feature_map: Any, X: Any) -> Array:
    """Return the features of samples for a fitted map; None is the identity."""
    with ignore_warnings(MISSING_NAMES_WARNING):
        features = X if feature_map is None else feature_map.transform(X)
    if sparse.issparse(features):
        features = features.toarray()
    features = np.asarray(features, dtype=np.float64)
    if features.ndim != 2 or len(features) != X.shape[0] or not np.isfinite(features).all():
        raise ValueError(
            f"feature_map={feature_map!r} must turn X into finite features, one row per sample; for X of shape "
            f"{X.shape} it gave an array of shape {features.shape} with {np.count_nonzero(~np.isfinite(features))} NaN "
            "or infinite values."
        )
    return features


def combine_features(feature_map: Any, X: Any, weights: Array) -> Array:
    """Return weighted sums of the features of samples; a map with a method `combine` need not compute features."""
    if hasattr(feature_map, "combine"):
        with ignore_warnings(MISSING_NAMES_WARNING):
            return feature_map.combine(X, weights)
    return product(compute_features(feature_map, X), weights)


def map_in_blocks(function: Callable[[Any], Array], X: Any, width: int, inner_width: int = 1) -> Array:
    """Apply a row-wise function that returns `width` columns, block by block, to bound its temporary memory.

    `inner_width` is the number of columns of its largest temporary array.
    """
    values = np.empty((X.shape[0], width))
    step = max(1, BLOCK_ENTRIES // max(width, inner_width))
    for rows in gen_batches(X.shape[0], step):
        values[rows] = function(X[rows])
    return values


def map_features(fitted: Any, X: Any) -> Array:
    """Return the features of samples for a fitted map or "linear", computed in blocks."""
    features = partial(compute_features, None if isinstance(fitted, str) else fitted)
    width = features(X[:1]).shape[1]
    check_scatter_memory(width)
    return map_in_blocks(features, X, width)


def is_fitted_map(feature_map: Any) -> bool:
    """Whether fitting does not change a feature map: "linear" or a FrozenEstimator."""
    return isinstance(feature_map, (str, FrozenEstimator))


def fit_feature_map(feature_map: Any, X: Any, feature_names: Any = None) -> Any:
    """Fit a feature map to samples whose columns have these names, if any; None for "linear"."""
    if isinstance(feature_map, str):
        return None
    fitted = clone(feature_map).fit(X, None)
    map_names = getattr(fitted, "feature_names_in_", None)
    if map_names is not None and feature_names is not None and list(map_names) != list(feature_names):
        raise ValueError(
            f"feature_map was fitted to columns {format_list(map_names, quote=False)}, but X has "
            f"{format_list(feature_names, quote=False)}. Fit both to the same columns in the same order."
        )
    return fitted


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
