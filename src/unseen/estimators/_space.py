"""The space that components live in: a kernel's, or that of an explicit feature map."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_non_negative, validate_data

from .. import kernels
from ..algebra import Array, Gram, gram, gram_by_numpy, product
from ..kernels import PivotedNystroem
from ..labels import listed
from ._dask_blocks import is_dask

NON_NEGATIVE = Interval(Real, 0, None, closed="left")
BLOCK_ENTRIES = 2**22  # kernel values evaluated at a time in transform: 32 MiB


def _thawed(feature_map: Any) -> Any:
    return feature_map.estimator if isinstance(feature_map, FrozenEstimator) else feature_map


@contextmanager
def _names_ignored() -> Iterator[None]:
    """Use a map that knows the names of columns: they were compared when it was taken, and X has lost them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield


def learns_nothing(feature_map: Any) -> bool:
    """Whether a feature map is the same whatever samples it is fitted to: "linear", or frozen."""
    return isinstance(feature_map, (str, FrozenEstimator))


def _described(feature_map: Any) -> Any:
    """What tells feature maps apart: their kind and their parameters, as far as these are plain values."""
    if feature_map is None or isinstance(feature_map, str):
        return "linear"
    feature_map = _thawed(feature_map)
    params = feature_map.get_params() if hasattr(feature_map, "get_params") else {}
    plain = (bool, int, float, str, type(None))
    return type(feature_map), {name: value for name, value in params.items() if isinstance(value, plain)}


# Dataclasses write the constructor that scikit-learn asks for: explicit keywords, assigned and nothing else.
parameters = dataclass(kw_only=True, eq=False, repr=False)


@parameters
class Space(BaseEstimator):
    """Validates samples and evaluates the kernel, or the feature map, on them."""

    kernel: str | Callable[..., float] = "rbf"
    gamma: float | str | None = "median"
    degree: float = 3
    coef0: float = 1
    kernel_params: Mapping[str, Any] | None = None
    feature_map: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(kernels.KERNELS)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), str, None],
        "degree": [NON_NEGATIVE],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "feature_map": [StrOptions({"linear"}), HasMethods(["fit", "transform"]), None],
    }

    def _check_samples(self, X: Any, **options: Any) -> Any:
        """Validate samples, with labels if `options` hold `y`, as the kernel or the feature map wants them."""
        checked = validate_data(self, X, **self._validation(), **options)
        if self._needs_non_negative():
            samples = checked[0] if "y" in options else checked
            check_non_negative(samples, f"{type(self).__name__} with kernel={self.kernel!r}")
        return checked

    def _validation(self) -> dict[str, Any]:
        # scikit-learn's Laplacian kernel cannot read sparse matrices with 64-bit indices.
        large = self.feature_map is not None or self.kernel != "laplacian"
        return {
            "dtype": (np.float64, np.float32),
            "accept_sparse": self._accepts_sparse(),
            "accept_large_sparse": large,
        }

    def _require_finite(self, values: Array) -> None:
        if not np.isfinite(values).all():
            raise ValueError(
                f"kernel={self.kernel!r} gave NaN or infinite values on X. Scale X, or change the kernel's parameters."
            )

    def _require_spread(self, centred: float, uncentred: float) -> None:
        """Raise if nothing but rounding is left of a norm after centring."""
        if centred <= 4 * np.finfo(float).eps * uncentred:
            raise ValueError(
                f"All samples look the same to {type(self).__name__}: the centred kernel matrix is zero. Check X, the "
                "kernel and its gamma."
            )

    def _needs_non_negative(self) -> bool:
        return self.feature_map is None and self.kernel in kernels.NON_NEGATIVE_KERNELS

    def _accepts_sparse(self) -> str | bool:
        if self.feature_map is not None:
            return "csr"
        return "csr" if callable(self.kernel) or self.kernel in kernels.SPARSE_KERNELS else False

    def _kernel_values(self, X: Any, *, training: bool = False) -> Array:
        """Kernel values with the training samples, up to terms that centring takes away."""
        parts = [X] if training or self.X_fit_ is None else [X, self.X_fit_]
        rows, *reference = kernels.about_origin(self.kernel, *parts)
        training_rows, power = reference[0] if reference else rows, self._power(X.shape[1])
        if power and not sparse.issparse(training_rows):
            return kernels.polynomial_to_centre(rows, training_rows, *power)
        return kernels.evaluate(
            rows,
            reference[0] if reference else None,
            kernel=self.kernel,
            gamma=self.gamma_,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
        )

    def _power(self, n_features: int) -> tuple[float, int, float] | None:
        """gamma, degree and coef0 of a kernel that is a low power of inner products."""
        if self.kernel == "linear":
            return 1.0, 1, 0.0
        if self.kernel in ("poly", "polynomial") and self.degree in range(1, 10):
            return 1 / n_features if self.gamma_ is None else self.gamma_, int(self.degree), self.coef0
        return None

    def _fit_feature_map(self, X: Any) -> Array | None:
        """Fit the map, and return the features of X if they came with it."""
        features = None
        if isinstance(self.feature_map, str):
            self.feature_map_ = None
        elif isinstance(self.feature_map, PivotedNystroem):
            self.feature_map_ = clone(self.feature_map)
            features = self.feature_map_._factorise(X)
        else:
            self.feature_map_ = clone(self.feature_map).fit(X, None)
        theirs, own = (getattr(part, "feature_names_in_", None) for part in (self.feature_map_, self))
        if theirs is not None and own is not None and list(theirs) != list(own):
            raise ValueError(
                f"feature_map was fitted to columns {listed(theirs, quote=False)}, but X has "
                f"{listed(own, quote=False)}. Fit both to the same columns in the same order."
            )
        return features

    def _require_same_map(self) -> None:
        """Raise if `feature_map` is not the map that a stream began with: its statistics would mix two spaces."""
        asked, fitted = (_described(part) for part in (self.feature_map, self.feature_map_))
        if asked != fitted:
            raise ValueError(
                f"feature_map={self.feature_map!r} is not the map that this stream began with, "
                f"{self.feature_map_ or 'linear'!r}. Start a new stream with a clone."
            )

    def _require_lazy_output(self) -> None:
        """Raise if `set_output` would collect a Dask collection to make a data frame of it."""
        wanted = _get_output_config("transform", self)["dense"]
        if wanted != "default":
            raise ValueError(
                f"transform of a Dask collection is lazy, but set_output asks for {wanted!r}, which would collect it. "
                'Call set_output(transform="default"), or transform data in memory.'
            )

    def _refuse_dask(self, X: Any) -> None:
        """Raise for samples that an exact kernel would have to collect in one place."""
        if is_dask(X):
            raise ValueError(
                f"{type(self).__name__} with kernel={self.kernel!r} needs all samples in memory, but X is a Dask "
                "collection. Set feature_map, for example to unseen.PivotedNystroem(1000) "
                'or to "linear", whose statistics are added up block by block.'
            )

    def _features(self, X: Any) -> Array:
        with _names_ignored():
            features = X if self.feature_map_ is None else self.feature_map_.transform(X)
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

    def _all_features(self, X: Any) -> Array:
        """Features of all samples, mapped in blocks of rows: beside them there is nothing as large as they are."""
        first = self._features(X[:1])
        features = np.empty((X.shape[0], first.shape[1]))
        step = max(1, BLOCK_ENTRIES // max(1, first.shape[1]))
        for start in range(0, X.shape[0], step):
            features[start : start + step] = self._features(X[start : start + step])
        return features

    def _project(self, X: Any) -> Array:
        """Components before centring, in blocks of rows so that memory does not grow with the batch."""
        weights = self.coef_ if "feature_map_" in vars(self) else self.dual_coef_
        step = max(1, BLOCK_ENTRIES // max(len(weights), X.shape[1]))  # kernel values and samples have their copies
        Z = np.empty((X.shape[0], weights.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
            for start in range(0, X.shape[0], step):
                Z[start : start + step] = self._combined(X[start : start + step], weights)
        self._require_finite(Z)
        return Z

    def _combined(self, X: Any, weights: Array) -> Array:
        """Combinations of kernel values or features."""
        if "feature_map_" not in vars(self):
            return product(self._kernel_values(X), weights)
        inner = _thawed(self.feature_map_)
        if isinstance(inner, PivotedNystroem):
            with _names_ignored():
                return inner.combine(X, weights)
        return product(self._features(X), weights) if inner is None else self._features(X) @ weights

    def _gram(self) -> Gram:
        """Whose BLAS goes with that of the feature map."""
        ours = self.feature_map_ is None or isinstance(_thawed(self.feature_map_), PivotedNystroem)
        return gram if ours else gram_by_numpy


def check_gram(K: Array) -> None:
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            'kernel="precomputed" needs the square matrix of kernel values between all training samples as X; got '
            f"shape {K.shape}."
        )
    gap = np.abs(K - K.T).max()
    if gap > 1e-6 * np.abs(K).max():
        raise ValueError(
            'kernel="precomputed" needs a symmetric matrix as X, but entries differ from their mirror images by up to '
            f"{gap:.3g}. Symmetrise it, or check that rows and columns are in the same order."
        )
