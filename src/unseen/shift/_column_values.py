"""Columns of a table as numbers or as codes of categories, the form in which the column audit reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# A numeric column of at most this many different whole numbers is read as codes of categories as well: scales and
# grades in questionnaires and registries rarely have more than ten points.
MAX_CODES = 10
MISSING = -1  # the code of a missing category


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """One column of a table.

    Parameters
    ----------
    name : str
        The name of the column.
    kind : {"numeric", "categorical"}
        What it holds.
    values : ndarray of shape (n_samples,)
        Numbers, NaN where missing; for categories their positions among `levels`, NaN where missing.
    levels : tuple of str
        The categories; empty for numbers.
    """

    name: str
    kind: Literal["numeric", "categorical"]
    values: Floats
    levels: tuple[str, ...] = ()

    @cached_property
    def is_present(self) -> NDArray[np.bool_]:
        """Which rows have a value."""
        return np.isfinite(self.values)

    @cached_property
    def distinct(self) -> tuple[Floats, Indices]:
        """The different values, sorted, and the number of rows of each."""
        values, counts = np.unique(self.values[self.is_present], return_counts=True)
        return values, counts.astype(np.intp)

    @property
    def is_coded(self) -> bool:
        """Whether the values are categories or codes of categories: few different whole numbers."""
        if self.kind == "categorical":
            return True
        values = self.distinct[0]
        return len(values) <= MAX_CODES and bool((values == np.round(values)).all())

    @cached_property
    def codes(self) -> Indices:
        """Positions among the different values, -1 where missing."""
        codes = np.full(len(self.values), MISSING, dtype=np.intp)
        codes[self.is_present] = np.searchsorted(self.distinct[0], self.values[self.is_present])
        return codes

    def text(self, value: float) -> str:
        """A value as users write it."""
        if self.kind == "categorical":
            return repr(self.levels[int(value)])
        return format_number(value)


def format_number(value: float) -> str:
    """A number with at most four significant digits; a whole number has no decimal point."""
    if value == round(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.4g}"


def standard_deviation(values: Floats) -> float:
    """Of some numbers, whose squares may be too large for a float."""
    largest = float(np.abs(values).max(initial=0.0))
    return largest * float(np.std(values / largest)) if largest > 0 else 0.0


def read_columns(columns: Any) -> list[ColumnValues]:
    """Read a mapping of columns, or a pandas or polars frame.

    Columns of numbers and truth values are numeric; infinite values are missing. All others are categories, compared as
    text; None, NaN and empty text are missing.

    Parameters
    ----------
    columns : mapping of str to array-like, DataFrame, or sequence of ColumnValues
        The columns, all of one length.

    Returns
    -------
    columns : list of ColumnValues
        In the same order.
    """
    if isinstance(columns, Sequence) and all(isinstance(column, ColumnValues) for column in columns):
        read = list(columns)
    elif isinstance(columns, Mapping) or hasattr(columns, "columns"):
        names: Iterable[Any] = columns.keys() if isinstance(columns, Mapping) else columns.columns
        read = [_read_column(str(name), columns[name]) for name in names]
    else:
        raise TypeError(
            f"columns must be a mapping of names to values or a DataFrame; got {type(columns).__name__}. "
            "Pass {'age': ages, 'sex': sexes}."
        )
    lengths = {column.name: len(column.values) for column in read}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns must have one length; got {lengths}.")
    if len(lengths) < len(read):
        raise ValueError("columns must have different names; at least one name occurs twice.")
    return read


def _read_column(name: str, values: Any) -> ColumnValues:
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"Column {name!r} must be one-dimensional; got an array of shape {array.shape}.")
    if array.dtype.kind in "biuf":
        return numeric_column(name, array)
    plain = [None if is_missing(value) else value for value in array.tolist()]
    present = [value for value in plain if value is not None]
    if present and all(isinstance(value, (bool, int, float)) for value in present):
        return numeric_column(name, np.array([np.nan if value is None else float(value) for value in plain]))
    return categorical_column(name, [None if value is None else str(value) for value in plain])


def is_missing(value: Any) -> bool:
    """Whether an entry of a column of objects stands for a missing value."""
    # The missing value of pandas has no truth value, so it is known by its type.
    return value is None or type(value).__name__ == "NAType" or value == "" or bool(value != value)


def numeric_column(name: str, values: Any) -> ColumnValues:
    """A column of numbers; infinite ones are missing."""
    numbers = np.array(values, dtype=np.float64)
    numbers[~np.isfinite(numbers)] = np.nan
    return ColumnValues(name, "numeric", numbers)


def categorical_column(name: str, values: Sequence[str | None]) -> ColumnValues:
    """A column of text; None is missing."""
    levels = tuple(sorted({value for value in values if value is not None}))
    position = {level: float(index) for index, level in enumerate(levels)}
    codes = np.array([np.nan if value is None else position[value] for value in values], dtype=np.float64)
    return ColumnValues(name, "categorical", codes, levels)


NEW_LEVEL = "a new category"  # the name of categories that a schema does not have


def columns_from_matrix(X: Any, schema: Any) -> list[ColumnValues]:
    """The columns of a matrix that a schema encoded, with categories as text, not as their positions.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The result of :meth:`unseen.tables.Schema.encode`. Dates are numbers: days since 1970.
    schema : Schema
        The description of the columns.

    Returns
    -------
    columns : list of ColumnValues
        One for each feature.
    """
    columns = []
    for position, column in enumerate(schema.columns):
        values = np.array(X[:, position], dtype=np.float64)
        if column.kind == "categorical":
            levels = tuple(column.levels)
            if (values < 0).any():
                values[values < 0] = len(levels)
                levels = (*levels, NEW_LEVEL)
            columns.append(ColumnValues(column.name, "categorical", values, levels))
        else:
            columns.append(numeric_column(column.name, values))
    return columns


@dataclass(frozen=True, eq=False)
class DomainRows:
    """The rows of each domain.

    Parameters
    ----------
    names : tuple of str
        The domains, sorted.
    codes : ndarray of shape (n_samples,)
        The position of each row's domain among `names`.
    """

    names: tuple[str, ...]
    codes: Indices

    @classmethod
    def from_labels(cls, domains: Any, n_samples: int) -> DomainRows:
        """Encode the domain labels of the rows."""
        labels = np.asarray(domains.to_numpy() if hasattr(domains, "to_numpy") else domains)
        if labels.shape != (n_samples,):
            raise ValueError(f"domains must hold one label for each of {n_samples} rows; got shape {labels.shape}.")
        names, codes = np.unique(labels.astype(str), return_inverse=True)
        if len(names) < 2:
            raise ValueError(
                f"domains must name at least 2 domains, since columns are compared between them; got {names.tolist()}."
            )
        return cls(tuple(names.tolist()), codes.astype(np.intp))

    @cached_property
    def sizes(self) -> Indices:
        """The number of rows of each domain."""
        return np.bincount(self.codes, minlength=len(self.names))

    def __len__(self) -> int:
        return len(self.names)

    def split(self, values: Floats) -> list[Floats]:
        """The values of each domain, missing ones left out."""
        order = np.argsort(self.codes, kind="stable")
        parts = np.split(values[order], np.cumsum(self.sizes)[:-1])
        return [part[np.isfinite(part)] for part in parts]

    def count(self, codes: Indices, n_codes: int) -> Indices:
        """A table of domains by codes; rows whose code is -1 are left out."""
        known = codes != MISSING
        cells = self.codes[known] * n_codes + codes[known]
        return np.bincount(cells, minlength=len(self) * n_codes).reshape(len(self), n_codes)
