"""The spaces that components live in: a kernel's, or that of an explicit feature map."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import gen_batches

from ..kernels import Kernel, check_scatter_memory
from ..linalg import Array, Gram, gram, gram_by_numpy, product
from ..utils.validation import format_list
from ..utils.warnings import ignore_warnings

BLOCK_ENTRIES = 2**22  # kernel values or features computed at a time: 32 MiB


@dataclass(frozen=True)
class KernelSpace:
    """The space of a kernel, as training samples span it; None for samples that are given by their kernel values."""

    kernel: Kernel
    samples: Any

    def combine(self, X: Any, weights: Array) -> Array:
        """Combinations of the kernel values of samples with the training samples."""
        return product(self.kernel.values_to_center(X, self.samples), weights)


@dataclass(frozen=True)
class FeatureSpace:
    """The space of a fitted feature map; None stands for the samples themselves."""

    feature_map: Any

    kernel: ClassVar[Kernel] = Kernel("linear")  # of the features, and it takes the same samples as any map

    def combine(self, X: Any, weights: Array) -> Array:
        """Combinations of the features of samples; a map that needs no features for them has a method `combine`."""
        if hasattr(self.feature_map, "combine"):
            with _names_ignored():
                return self.feature_map.combine(X, weights)
        return product(self.features(X), weights) if self.feature_map is None else self.features(X) @ weights

    def features(self, X: Any) -> Array:
        """Features of samples, all at once."""
        with _names_ignored():
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
        """Whose BLAS goes with that of the feature map."""
        return gram if self.feature_map is None or hasattr(self.feature_map, "combine") else gram_by_numpy


def map_in_blocks(function: Callable[[Any], Array], X: Any, width: int, widest: int = 1) -> Array:
    """Apply a row-wise function of `width` columns so that memory for what it works with does not grow with X."""
    values = np.empty((X.shape[0], width))
    step = max(1, BLOCK_ENTRIES // max(width, widest))
    for rows in gen_batches(X.shape[0], step):
        values[rows] = function(X[rows])
    return values


def map_features(fitted: Any, X: Any) -> Array:
    """Features of samples under a fitted map, or "linear", as projections see them: nothing beside them is as large."""
    space = FeatureSpace(None if isinstance(fitted, str) else fitted)
    width = space.features(X[:1]).shape[1]
    check_scatter_memory(width)
    return map_in_blocks(space.features, X, width)


def _names_ignored() -> AbstractContextManager[None]:
    """Use a map that knows the names of columns: they were compared when it was taken, and X has lost them."""
    return ignore_warnings((UserWarning, "X does not have valid feature names"))


def is_fitted_map(feature_map: Any) -> bool:
    """Whether a feature map is the same whatever samples it is fitted to: "linear", or frozen."""
    return isinstance(feature_map, (str, FrozenEstimator))


def fit_feature_map(projection: Any, X: Any) -> Array | None:
    """Fit the map of a projection, and return the features of X if they come with it: such maps have `fit_features`."""
    feature_map, features = projection.feature_map, None
    if isinstance(feature_map, str):
        fitted = None
    elif hasattr(feature_map, "fit_features") and not is_fitted_map(feature_map):
        fitted = clone(feature_map)
        features = fitted.fit_features(X)
    else:
        fitted = clone(feature_map).fit(X, None)
    projection.feature_map_ = fitted
    theirs, own = (getattr(part, "feature_names_in_", None) for part in (fitted, projection))
    if theirs is not None and own is not None and list(theirs) != list(own):
        raise ValueError(
            f"feature_map was fitted to columns {format_list(theirs, quote=False)}, but X has "
            f"{format_list(own, quote=False)}. Fit both to the same columns in the same order."
        )
    return features


def check_same_map(projection: Any) -> None:
    """Raise if `feature_map` is not the map that a stream began with: its statistics would mix two spaces."""
    asked, fitted = (_described(part) for part in (projection.feature_map, projection.feature_map_))
    if asked != fitted:
        raise ValueError(
            f"feature_map={projection.feature_map!r} is not the map that this stream began with, "
            f"{projection.feature_map_ or 'linear'!r}. Start a new stream with a clone."
        )


def _described(feature_map: Any) -> Any:
    """What tells feature maps apart: their kind and their parameters, as far as these are plain values."""
    if feature_map is None or isinstance(feature_map, str):
        return "linear"
    feature_map = feature_map.estimator if isinstance(feature_map, FrozenEstimator) else feature_map
    params = feature_map.get_params() if hasattr(feature_map, "get_params") else {}
    plain = (bool, int, float, str, type(None))
    return type(feature_map), {name: value for name, value in params.items() if isinstance(value, plain)}


def check_gram(K: Array) -> None:
    """Raise unless a matrix can be one of kernel values between all training samples."""
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
