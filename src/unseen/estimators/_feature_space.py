"""The feature spaces of projections: the space of a kernel, or of an explicit feature map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import gen_batches

from ..exceptions import ignore_warnings
from ..kernels import Kernel, check_scatter_memory
from ..linalg import Array, Gram, gram, gram_by_numpy, product
from ..utils.validation import format_list

# Projections compare column names once and then pass plain arrays to the feature map.
MISSING_NAMES_WARNING = (UserWarning, "X does not have valid feature names")
BLOCK_ENTRIES = 2**22  # kernel values or features per block: 32 MiB


@dataclass(frozen=True)
class KernelSpace:
    """The space of a kernel, spanned by training samples; `samples` is None for a precomputed kernel."""

    kernel: Kernel
    samples: Any

    def combine(self, X: Any, weights: Array) -> Array:
        """Return weighted sums of the kernel values between samples and training samples."""
        return product(self.kernel.evaluate_for_centering(X, self.samples), weights)


@dataclass(frozen=True)
class FeatureSpace:
    """The space of a fitted feature map; None is the identity."""

    feature_map: Any

    kernel: ClassVar[Kernel] = Kernel(
        "linear"
    )  # The kernel of the features; it validates samples like any feature map.

    def combine(self, X: Any, weights: Array) -> Array:
        """Return weighted sums of the features of samples; a map with a method `combine` need not compute features."""
        if hasattr(self.feature_map, "combine"):
            with ignore_warnings(MISSING_NAMES_WARNING):
                return self.feature_map.combine(X, weights)
        return product(self.features(X), weights) if self.feature_map is None else self.features(X) @ weights

    def features(self, X: Any) -> Array:
        """Return the features of samples."""
        with ignore_warnings(MISSING_NAMES_WARNING):
            features = X if self.feature_map is None else self.feature_map.transform(X)
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

    @property
    def gram(self) -> Gram:
        """The Gram function that uses the same BLAS as the feature map."""
        return gram if self.feature_map is None or hasattr(self.feature_map, "combine") else gram_by_numpy


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
    space = FeatureSpace(None if isinstance(fitted, str) else fitted)
    width = space.features(X[:1]).shape[1]
    check_scatter_memory(width)
    return map_in_blocks(space.features, X, width)


def is_fitted_map(feature_map: Any) -> bool:
    """Whether fitting does not change a feature map: "linear" or a FrozenEstimator."""
    return isinstance(feature_map, (str, FrozenEstimator))


def fit_feature_map(feature_map: Any, X: Any, feature_names: Any = None) -> tuple[Any, Array | None]:
    """Fit a feature map to samples whose columns have these names, if any.

    Returns the fitted map, None for "linear", and the features of X if fitting computes them (`fit_features`).
    """
    if isinstance(feature_map, str):
        return None, None
    features = None
    if hasattr(feature_map, "fit_features") and not is_fitted_map(feature_map):
        fitted = clone(feature_map)
        features = fitted.fit_features(X)
    else:
        fitted = clone(feature_map).fit(X, None)
    map_names = getattr(fitted, "feature_names_in_", None)
    if map_names is not None and feature_names is not None and list(map_names) != list(feature_names):
        raise ValueError(
            f"feature_map was fitted to columns {format_list(map_names, quote=False)}, but X has "
            f"{format_list(feature_names, quote=False)}. Fit both to the same columns in the same order."
        )
    return fitted, features


def check_same_map(feature_map: Any, fitted: Any) -> None:
    """Raise if `feature_map` was changed during a stream: its statistics would mix two feature spaces."""
    if _describe_map(feature_map) != _describe_map(fitted):
        raise ValueError(
            f"feature_map={feature_map!r} is not the map that this stream began with, {fitted or 'linear'!r}. Start a "
            "new stream with a clone."
        )


def _describe_map(feature_map: Any) -> Any:
    """Return the type and the plain parameters of a feature map, to compare maps by."""
    if feature_map is None or isinstance(feature_map, str):
        return "linear"
    if isinstance(feature_map, FrozenEstimator):
        feature_map = feature_map.estimator
    params = feature_map.get_params() if hasattr(feature_map, "get_params") else {}
    plain_types = (bool, int, float, str, type(None))
    return type(feature_map), {name: value for name, value in params.items() if isinstance(value, plain_types)}


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
