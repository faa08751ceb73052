"""Preparation of tables: features for linear and kernel methods, and the columns themselves for trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from ..linalg import Array, Ints

# Numbers with a larger skewness and without negative values are long-tailed: that of an exponential distribution is 2.
LONG_TAIL_SKEWNESS = 2.0
# Integers with so few distinct values may be codes of categories, whose order means nothing.
MIN_CODES = 3
MAX_CODES = 10
# More columns of such integers are counts or the pixels of an image.
MAX_CODED_COLUMNS = 30
MIN_CODE_FREQUENCY = 0.01  # rarer codes share one feature
# More levels of a column than this share one code: histogram boosting takes as many categories as bins.
MAX_TREE_LEVELS = 60


class TablePreparation(TransformerMixin, BaseEstimator):
    """Features of an encoded table for linear and kernel methods, followed by its columns for trees.

    The first features are those of the preprocessor, with two additions. Columns of numbers that are long-tailed in
    the training data (no negative values, skewness above 2) are replaced by their logarithms, ``log(1 + x / s)`` with
    the median `s` of positive values. Integers with 3 to 10 distinct values in the training data, in at most 30
    columns, are one-hot encoded as well, since they may be codes of categories.

    Trees use missing values and levels as such. Their columns are the numbers of the table, standardized, then the
    levels as codes 0, 1, ...; missing values, and levels that do not occur in the training data, are NaN. A column
    without any value in the training data is 0 throughout, since histogram boosting fails on it. If a column has more
    than 60 levels, the rarest ones share one code.

    Parameters
    ----------
    preprocessor : transformer
        Preprocesses encoded tables for linear and kernel methods.
    categorical : sequence of int, default=()
        Positions of the columns of levels.
    tree_columns : bool, default=True
        Whether the columns for trees are appended.

    Attributes
    ----------
    preprocessor_ : transformer
        The fitted preprocessor.
    n_features_in_ : int
        Number of columns.
    n_prepared_features_ : int
        Number of features for linear and kernel methods, which come first.
    tail_scales_ : ndarray of shape (n_features_in_,)
        The medians `s` of long-tailed columns; NaN for other columns.
    coded_columns_ : ndarray
        Positions of the integers that are one-hot encoded.
    code_encoder_ : OneHotEncoder or None
        Encodes them.
    means_, scales_ : ndarray
        Mean and standard deviation of each column of numbers; the scale is 0 for a column without values.
    level_codes_ : list of ndarray
        For each column of levels, the code of each level of the encoded table, then NaN for unknown levels.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.impute import SimpleImputer
    >>> from unseen.tables import TablePreparation
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [np.nan, 1.0]])
    >>> TablePreparation(SimpleImputer(), categorical=[1]).fit(X).transform([[4.0, 2.0]])
    array([[ 4.,  2.,  3., nan]])
    """

    def __init__(self, preprocessor: Any, categorical: Sequence[int] = (), *, tree_columns: bool = True) -> None:
        self.preprocessor = preprocessor
        self.categorical = categorical
        self.tree_columns = tree_columns

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the preprocessor, and learn the scales, codes and levels of the columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            An encoded table.
        y : Ignored
            Not used.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        X = np.asarray(X, dtype=np.float64)
        self.n_features_in_ = X.shape[1]
        numeric = self._numeric
        numbers = X[:, numeric]
        is_known = ~np.isnan(numbers)
        counts = np.maximum(is_known.sum(axis=0), 1)
        self.means_ = np.where(is_known, numbers, 0.0).sum(axis=0) / counts
        deviations = np.where(is_known, numbers - self.means_, 0.0)
        scales = np.sqrt(np.square(deviations).sum(axis=0) / counts)
        scales[scales == 0] = 1.0
        self.scales_ = np.where(is_known.any(axis=0), scales, 0.0)
        self.level_codes_ = [_code_levels(X[:, column]) for column in self.categorical]
        skewness = ((deviations / scales) ** 3).sum(axis=0) / counts
        is_long_tailed = (skewness > LONG_TAIL_SKEWNESS) & ~(numbers < 0).any(axis=0)
        self.tail_scales_ = np.full(X.shape[1], np.nan)
        for column in numeric[is_long_tailed]:
            self.tail_scales_[column] = np.median(X[X[:, column] > 0, column])
        self.coded_columns_ = numeric[[_are_codes(column) for column in numbers.T]]
        if len(self.coded_columns_) > MAX_CODED_COLUMNS:
            self.coded_columns_ = self.coded_columns_[:0]
        self.code_encoder_ = None
        if len(self.coded_columns_):
            encoder = OneHotEncoder(
                handle_unknown="infrequent_if_exist", min_frequency=MIN_CODE_FREQUENCY, sparse_output=False
            )
            self.code_encoder_ = encoder.fit(X[:, self.coded_columns_])
        self.preprocessor_ = clone(self.preprocessor).fit(self._shorten_tails(X))
        self.n_prepared_features_ = self._prepare(X[:1]).shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """Features for linear and kernel methods, then the columns for trees.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            An encoded table.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_prepared_features_ + n_columns)
            The features; without `tree_columns`, only the first `n_prepared_features_`.
        """
        check_is_fitted(self)
        X = np.asarray(X, dtype=np.float64)
        prepared = self._prepare(X)
        if not self.tree_columns:
            return prepared
        is_empty = self.scales_ == 0
        numbers = (X[:, self._numeric] - self.means_) / np.where(is_empty, 1.0, self.scales_)
        numbers[:, is_empty] = 0.0
        levels = [
            _look_up(codes, X[:, column]) for codes, column in zip(self.level_codes_, self.categorical, strict=True)
        ]
        return np.column_stack([prepared, numbers, *levels])

    def _prepare(self, X: Array) -> Array:
        """Features for linear and kernel methods."""
        prepared = np.asarray(self.preprocessor_.transform(self._shorten_tails(X)), dtype=np.float64)
        if self.code_encoder_ is None:
            return prepared
        return np.hstack([prepared, self.code_encoder_.transform(X[:, self.coded_columns_])])

    def _shorten_tails(self, X: Array) -> Array:
        """Replace long-tailed columns by their logarithms; negative values of new samples count as 0."""
        columns = np.flatnonzero(np.isfinite(self.tail_scales_))
        if not len(columns):
            return X
        X = X.copy()
        X[:, columns] = np.log1p(np.maximum(X[:, columns], 0.0) / self.tail_scales_[columns])
        return X

    @property
    def _numeric(self) -> Ints:
        return np.setdiff1d(np.arange(self.n_features_in_), np.asarray(self.categorical, dtype=np.intp))


def _are_codes(column: Array) -> bool:
    """Whether a column has few distinct values, which are integers."""
    known = column[~np.isnan(column)]
    return bool((known == np.floor(known)).all()) and MIN_CODES <= len(np.unique(known)) <= MAX_CODES


def _code_levels(column: Array) -> Array:
    """Code of each level of a column by its index, then NaN; a column without values has the code 0 for everything."""
    is_level = column >= 0  # neither missing nor new
    levels, counts = np.unique(column[is_level].astype(np.intp), return_counts=True)
    if not len(levels):
        return np.zeros(1)
    codes = np.full(levels[-1] + 2, np.nan)
    kept = levels
    if len(levels) > MAX_TREE_LEVELS:
        codes[levels] = MAX_TREE_LEVELS - 1
        kept = np.sort(levels[np.argsort(-counts, kind="stable")[: MAX_TREE_LEVELS - 1]])
    codes[kept] = np.arange(len(kept))
    return codes


def _look_up(codes: Array, column: Array) -> Array:
    """Codes of the levels of a column; missing and unknown levels have the last entry."""
    n_levels = len(codes) - 1
    is_known = (column >= 0) & (column < n_levels)
    return codes[np.where(is_known, column, n_levels).astype(np.intp)]
