"""A fitted preparation of tables as a few array operations, with the result of scikit-learn bit by bit.

A pipeline of scikit-learn validates its input in each step, which takes milliseconds however few rows there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ..linalg import Array, Ints
from ..model_selection import TablePreparation

# A table has an entry for each integer between the smallest and the largest category of a column.
MAX_TABLE_ENTRIES = 100_000


@dataclass(frozen=True, eq=False)
class ColumnLookup:
    """Values that replace the integers of several columns.

    Attributes
    ----------
    lowest, sizes : ndarray of shape (n_columns,)
        Smallest integer of each column that has a value, and the number of integers from there on that have one.
    starts : ndarray of shape (n_columns,)
        Position of the first value of each column in `values`.
    values : ndarray
        For each column the values of its integers, then that of NaN, then that of all other numbers.
    """

    lowest: Array
    sizes: Array
    starts: Ints
    values: Any

    @classmethod
    def from_tables(cls, tables: Sequence[tuple[float, Any]]) -> ColumnLookup:
        """Make it of the smallest integer and the values of each column."""
        lengths = [len(values) for _, values in tables]
        return cls(
            lowest=np.array([lowest for lowest, _ in tables]),
            sizes=np.array(lengths, dtype=np.float64) - 2,
            starts=np.cumsum([0, *lengths[:-1]]),
            values=np.concatenate([values for _, values in tables]),
        )

    def __call__(self, X: Array) -> Any:
        """Return the values of columns, of the same shape."""
        position = X - self.lowest
        is_listed = (position >= 0) & (position < self.sizes) & (position == np.floor(position))
        other = np.where(np.isnan(X), self.sizes, self.sizes + 1)
        return self.values[np.where(is_listed, position, other).astype(np.intp) + self.starts]


def tabulate_categories(categories: Sequence[Array], values: Sequence[Any]) -> ColumnLookup | None:
    """Make the lookup of categories of columns; None if they are not integers, or are too far apart.

    Parameters
    ----------
    categories : sequence of ndarray
        The categories of each column, without NaN.
    values : sequence of ndarray
        For each column the values of its categories, then that of NaN, then that of all other numbers.
    """
    tables = []
    for column, column_values in zip(categories, values, strict=True):
        if not len(column):
            tables.append((0.0, column_values))
            continue
        lowest = float(column.min())
        size = float(column.max()) - lowest + 1
        if size > MAX_TABLE_ENTRIES or not np.array_equal(column, np.floor(column)):
            return None
        table = np.full(int(size) + 2, column_values[-1])
        table[(column - lowest).astype(np.intp)] = column_values[:-2]
        table[-2] = column_values[-2]
        tables.append((lowest, table))
    return ColumnLookup.from_tables(tables)


@dataclass(frozen=True, eq=False)
class OneHotLookup:
    """A fitted `OneHotEncoder`: the position of the 1 of each column, or the number of features where there is none."""

    positions: ColumnLookup
    n_features: int

    @classmethod
    def from_encoder(cls, encoder: OneHotEncoder) -> OneHotLookup | None:
        """Read the positions off the features of each category, of NaN, and of a number that is not a category."""
        known = [categories[~np.isnan(categories)] for categories in encoder.categories_]
        others = [categories.max(initial=-1.0) + 1 for categories in known]
        n_probes = max(map(len, known)) + 2
        probes = np.column_stack([np.full(n_probes, other) for other in others])
        for column, categories in enumerate(known):
            probes[: len(categories), column] = categories
        probes[-2] = np.nan
        features = np.asarray(encoder.transform(probes))
        n_features = features.shape[1]
        values = []
        first = 0
        pairs = zip(encoder.categories_, encoder.infrequent_categories_, known, strict=True)
        for categories, infrequent, known_categories in pairs:
            width = len(categories) if infrequent is None else len(categories) - len(infrequent) + 1
            rows = [*range(len(known_categories)), n_probes - 2, n_probes - 1]
            block = features[rows, first : first + width]
            values.append(np.where(block.any(axis=1), first + block.argmax(axis=1), n_features))
            first += width
        positions = tabulate_categories(known, values)
        return None if positions is None else cls(positions, n_features)

    def transform(self, X: Array) -> Array:
        """Return the features of samples."""
        features = np.zeros((len(X), self.n_features + 1))  # the last column takes the ones that have no feature
        features[np.arange(len(X))[:, None], self.positions(X)] = 1.0
        return features[:, :-1]


@dataclass(frozen=True, eq=False)
class RowPreparation:
    """What `TablePreparation.transform` computes, without its checks.

    Attributes
    ----------
    preparation : TablePreparation
        The fitted preparation.
    numeric, categorical : ndarray of int
        Columns of numbers and of levels.
    medians, means, scales : ndarray of shape (n_numeric,)
        What replaces missing numbers, and how numbers are standardized then.
    levels, codes : OneHotLookup or None
        Features of levels, and of integers that may be codes of categories.
    tree_levels : ColumnLookup or None
        Codes of levels for trees.
    """

    preparation: TablePreparation
    numeric: Ints
    categorical: Ints
    medians: Array
    means: Array
    scales: Array
    levels: OneHotLookup | None
    codes: OneHotLookup | None
    tree_levels: ColumnLookup | None

    @classmethod
    def from_preparation(cls, preparation: Any) -> RowPreparation | None:
        """Make it of a fitted preparation; None if that is not a `TablePreparation` of standardized columns."""
        if type(preparation) is not TablePreparation:
            return None
        parts = _split_preprocessor(preparation.preprocessor_, preparation.n_features_in_)
        if parts is None:
            return None
        pipeline, numeric, encoder, categorical = parts
        empty = np.empty(0)
        medians, means, scales = (empty, empty, empty)
        if pipeline is not None:
            imputer, scaler = (step for _, step in pipeline.steps)
            medians, means, scales = (imputer.statistics_, scaler.mean_, scaler.scale_)
        levels = None if encoder is None else OneHotLookup.from_encoder(encoder)
        code_encoder = preparation.code_encoder_
        codes = None if code_encoder is None else OneHotLookup.from_encoder(code_encoder)
        if (levels is None) != (encoder is None) or (codes is None) != (code_encoder is None):
            return None  # categories that are not integers
        tree_levels = None
        if preparation.tree_columns and len(categorical):
            tables = [(0.0, np.append(values, values[-1])) for values in preparation.level_codes_]
            tree_levels = ColumnLookup.from_tables(tables)
        return cls(preparation, numeric, categorical, medians, means, scales, levels, codes, tree_levels)

    def transform(self, X: Array) -> Array | None:
        """Return the prepared features; None if X has another shape or infinite values, which raise an error there."""
        fitted = self.preparation
        if X.shape[1] != fitted.n_features_in_ or not len(X) or np.isinf(X).any():
            return None
        numbers = X[:, self.numeric]
        shortened = numbers
        tails = fitted.tail_scales_[self.numeric]
        is_tail = np.isfinite(tails)
        if is_tail.any():
            shortened = numbers.copy()
            shortened[:, is_tail] = np.log1p(np.maximum(numbers[:, is_tail], 0.0) / tails[is_tail])
        blocks = [(np.where(np.isnan(shortened), self.medians, shortened) - self.means) / self.scales]
        if self.levels is not None:
            blocks.append(self.levels.transform(X[:, self.categorical]))
        if self.codes is not None:
            blocks.append(self.codes.transform(X[:, fitted.coded_columns_]))
        if fitted.tree_columns:
            is_empty = fitted.scales_ == 0
            columns = (numbers - fitted.means_) / np.where(is_empty, 1.0, fitted.scales_)
            columns[:, is_empty] = 0.0
            blocks.append(columns)
        if self.tree_levels is not None:
            blocks.append(self.tree_levels(X[:, self.categorical]))
        return np.hstack(blocks)


def _split_preprocessor(preprocessor: Any, n_columns: int) -> tuple[Any, Ints, Any, Ints] | None:
    """Parts of the result of `make_preprocessor`: pipeline of numbers, their columns, encoder of levels, and theirs."""
    none = np.empty(0, dtype=np.intp)
    if type(preprocessor) is Pipeline:
        parts = (preprocessor, np.arange(n_columns), None, none)
    elif type(preprocessor) is ColumnTransformer:
        found = {name: (part, np.asarray(columns)) for name, part, columns in preprocessor.transformers_}
        pipeline, numeric = found.pop("numbers", (None, none))
        encoder, categorical = found.pop("levels", (None, none))
        if found or type(encoder) is not OneHotEncoder:
            return None
        parts = (pipeline, numeric, encoder, categorical)
    else:
        return None
    steps = [] if parts[0] is None else [type(step) for _, step in parts[0].steps]
    return parts if steps in ([], [SimpleImputer, StandardScaler]) else None
