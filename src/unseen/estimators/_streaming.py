"""Streaming: projections that learn from chunks of samples, in memory or in Dask collections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..linalg import Array, Ints
from ..utils.estimator_mixins import reset_fitted_attributes
from ..utils.optional_imports import is_dask
from ..utils.validation import EncodedLabels, Labels, encode_classes, require_named_domains
from ._dask import copy_for_workers, describe_columns, flatten_labels, reduce_blocks, row_blocks, sample_rows
from ._feature_space import FeatureSpace, check_same_map, fit_feature_map, is_fitted_map
from ._statistics import Statistics, sum_statistics

# Attributes that `finalize` sets, and that a further chunk makes obsolete.
SOLUTION_ATTRIBUTES = ("eigenvalues_", "residual_", "is_complete_", "coef_", "offset_", "recentered_")


def _has_feature_map(projection: StreamingMixin) -> bool:
    if projection.feature_map is None:
        raise AttributeError(
            "partial_fit needs explicit features, which a kernel does not have. Set feature_map, for example to "
            "unseen.PivotedNystroem(1000)."
        )
    return True


class StreamingMixin(ClassNamePrefixFeaturesOutMixin):
    """Fit a projection from statistics of explicit features, which can be collected in chunks.

    A subclass validates samples and labels (`_check_samples`, `_check_training_data`), stores the table of counts
    (`_set_cell_counts`) and solves its eigenproblem for statistics (`_solve_statistics`).

    Attributes
    ----------
    statistics_ : dict of ndarrays
        Statistics of the samples so far, as plain arrays that any file format can store.
    declared_classes_ : ndarray or None
        All classes that may appear, as the first call of `partial_fit` declared them.
    feature_map_ : transformer or None
        The fitted feature map; None for "linear".
    """

    feature_map: Any
    feature_map_: Any
    statistics_: dict[str, Labels]
    declared_classes_: Labels | None
    classes_: Labels
    n_features_in_: int

    # Methods of the subclass.
    _validate_params: Callable[[], None]
    _needs_labels: Callable[[], bool]
    _check_samples: Callable[..., Any]
    _check_training_data: Callable[..., tuple[Any, EncodedLabels, EncodedLabels]]
    _set_cell_counts: Callable[[Labels, Labels, Ints], None]
    _solve_statistics: Callable[[Statistics], None]

    __metadata_request__partial_fit: ClassVar = {"sample_domain": True}

    @available_if(_has_feature_map)
    @require_named_domains
    def partial_fit(self, X: Any, y: Any = None, *, sample_domain: Any = None, classes: Any = None) -> Self:
        """Learn from one more chunk of samples; needs `feature_map`.

        Chunks of any size, in any order, give the result of one `fit` on all samples. A chunk costs its features and
        one matrix product. The eigenproblem is not solved for every chunk: `transform`, `recenter` and
        `get_feature_names_out` solve it when they are called, and `finalize` solves it at once, so that attributes such
        as `eigenvalues_` can be read. A map that learns from data learns from the first chunk only: pass a
        representative first chunk, or freeze a fitted map with :class:`sklearn.frozen.FrozenEstimator`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of any domains and any classes, including new ones.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample. None, in every chunk, means one domain.
        classes : array-like, default=None
            All classes that may appear; used in the first call. Other classes then raise an error. None allows new
            classes in any chunk.

        Returns
        -------
        self : object
            The projection.
        """
        self._validate_params()
        previous = vars(self).get("statistics_")
        if previous is None:
            reset_fitted_attributes(self)
        else:
            check_same_map(self.feature_map, self.feature_map_)
        declared = self._declare_classes(classes)
        statistics = self._collect_statistics(X, y, sample_domain, declared=declared, reset=previous is None)
        if previous is not None:
            statistics = Statistics.from_arrays(previous).add(statistics, self._feature_space.gram)
        self._store_statistics(statistics)
        self.declared_classes_ = declared
        return self

    def finalize(self) -> Self:
        """Solve the eigenproblem for the chunks that `partial_fit` has seen.

        `fit` and `transform` include this step. After `partial_fit`, call it before reading attributes such as
        `eigenvalues_` or `coef_`. Has no effect without a new chunk.

        Returns
        -------
        self : object
            The fitted projection.
        """
        if "statistics_" in vars(self) and "offset_" not in vars(self):
            if self._needs_labels():
                encode_classes(self.classes_, type(self).__name__)  # raises for a single class
            self._solve_statistics(Statistics.from_arrays(self.statistics_))
        check_is_fitted(self, "offset_")
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the components.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Not used.

        Returns
        -------
        names : ndarray of str
            The lower-case name of the class, numbered.
        """
        self.finalize()
        return super().get_feature_names_out(input_features)

    @property
    def _feature_space(self) -> FeatureSpace:
        return FeatureSpace(self.feature_map_)

    def _collect_statistics(
        self,
        X: Any,
        y: Any,
        sample_domain: Any,
        *,
        declared: Labels | None = None,
        reset: bool = True,
        is_complete: bool = False,
    ) -> Statistics:
        """Return the statistics of the features of samples; with `reset` the feature map is fitted first.

        `is_complete` raises if the samples cannot be a complete training set. Classes that are not `declared` raise.
        """
        if is_dask(X):
            return self._collect_dask_statistics(X, y, sample_domain, declared=declared, reset=reset)
        X, classes, domains = self._check_training_data(
            X, y, sample_domain, declared=declared, reset=reset, is_complete=is_complete
        )
        all_features = self._fit_feature_map(X) if reset else None
        space = self._feature_space

        def get_features(rows: slice) -> Array:
            return space.features(X[rows]) if all_features is None else np.ascontiguousarray(all_features[rows])

        return Statistics.from_features(get_features, classes, domains, space.gram)

    def _collect_dask_statistics(
        self, X: Any, y: Any, sample_domain: Any, *, declared: Labels | None, reset: bool
    ) -> Statistics:
        """Return the statistics of a Dask collection; each block is reduced to its statistics where it is stored."""
        name = type(self).__name__
        if self._needs_labels() and y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        columns = describe_columns(X)
        rows = row_blocks(X)
        if reset:
            # A map that has nothing to learn does not need a pass over the data.
            needs_sample = not is_fitted_map(self.feature_map)
            self._fit_feature_map(self._check_samples(sample_rows(rows)) if needs_sample else None)
        # Last, because the sample has no column names.
        validate_data(self, columns, reset=reset, skip_check_array=True)
        labels = {"y": flatten_labels(y) if self._needs_labels() else None, "sample_domain": sample_domain}
        worker = copy_for_workers(self)

        def collect_block(block: Any, y: Any, domain: Any) -> Statistics | None:
            if block.shape[0] == 0:
                return None
            return worker._collect_statistics(block, y, domain, declared=declared, reset=False)

        statistics = reduce_blocks(collect_block, rows, labels, sum_statistics)
        if statistics is None:
            raise ValueError(f"X holds no samples; {name} needs at least 2.")
        return statistics

    def _fit_feature_map(self, X: Any) -> Array | None:
        """Fit the feature map; return the features of X if they are a by-product, otherwise None."""
        self.feature_map_, features = fit_feature_map(self.feature_map, X, getattr(self, "feature_names_in_", None))
        return features

    def _store_statistics(self, statistics: Statistics) -> None:
        """Store statistics as plain arrays, and delete the solution for earlier statistics."""
        self.statistics_ = statistics.arrays()
        self._set_cell_counts(statistics.classes, statistics.domains, statistics.cells.counts)
        for name in SOLUTION_ATTRIBUTES:
            self.__dict__.pop(name, None)

    def _declare_classes(self, classes: Any) -> Labels | None:
        """Return all classes that may appear in a stream, or None if they were not declared."""
        earlier: Labels | None = vars(self).get("declared_classes_")
        if classes is None or not self._needs_labels():
            return earlier
        declared = np.unique(classes)
        if earlier is not None and not np.array_equal(earlier, declared):
            raise ValueError(
                f"classes={declared.tolist()} is not what the first call of partial_fit declared, {earlier.tolist()}. "
                "Leave `classes` out of later calls, or start a new stream with a clone."
            )
        if "classes_" in vars(self):
            EncodedLabels.from_classes(self.classes_, declared)
        return declared


def collect_statistics(projection: StreamingMixin, X: Any, y: Any = None, sample_domain: Any = None) -> Statistics:
    """Fit the feature map of a projection to samples, and return the statistics of their features."""
    return projection._collect_statistics(X, y, sample_domain)


def fit_from_statistics(projection: StreamingMixin, statistics: Statistics, n_features: int) -> None:
    """Fit a projection to statistics that were collected before, of a feature map that has nothing to learn."""
    projection.n_features_in_ = n_features
    projection._fit_feature_map(None)
    projection._store_statistics(statistics)
    projection.finalize()
