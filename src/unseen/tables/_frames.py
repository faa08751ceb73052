"""Conversion of pandas frames and other data with named columns to polars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ..utils.optional_imports import is_dask
from ..utils.validation import format_list, is_missing
from ._errors import TableError, check_not_forked, raise_table_error, translate_read_errors
from ._files import find_repeated_names, is_list_of_rows, is_pandas_series, is_structured
from ._values import as_text

# Types that polars can hold. Columns of lists and the like are not used; a notice reports them.
POLARS_TYPES = (str, int, float, date, timedelta, Decimal, bytes, list, tuple, dict, np.generic, np.ndarray)


def as_frame(data: Any, name: str) -> pl.DataFrame:
    """Convert data with named columns to a polars frame, column by column, so that pyarrow is not needed.

    Accepts frames of pandas, polars and Arrow, structured arrays, dicts of columns and lists of dicts. A dict of
    scalars or a pandas Series is one row.
    """
    check_not_forked()
    if isinstance(data, pl.LazyFrame):
        return data.collect()
    if isinstance(data, pl.DataFrame):
        return data
    if is_dask(data):
        raise TypeError("A Dask dataframe cannot be read as a table. Pass the path of its files, or call compute().")
    with translate_read_errors(Path(name)):
        if is_pandas_series(data):
            raise_table_error(find_repeated_names(map(str, data.index)), name)
            return _from_rows([dict(data.items())], name)
        if isinstance(data, Mapping):
            return _from_mapping(data, name)
        if is_list_of_rows(data):
            return _from_rows(data, name)
        if is_structured(data):
            return _from_columns({column: np.atleast_1d(data[column]) for column in data.dtype.names}, name)
        if not hasattr(type(data), "columns"):
            raise TypeError(
                "A table must be a path, a DataFrame of pandas or polars, a dict of columns, a list of dicts or a "
                f"structured array; got {type(data).__name__}."
            )
        if not hasattr(data, "items"):  # an Arrow table, which polars converts
            return pl.DataFrame(data)
        names = [str(column) for column in data.columns]
        raise_table_error(find_repeated_names(names), name)
        columns = [column for _, column in data.items()]
        return pl.DataFrame(list(map(_convert_pandas_column, names, columns)))


def _from_mapping(data: Mapping[Any, Any], name: str) -> pl.DataFrame:
    """Convert a dict of columns, or of the values of one row."""
    is_scalar = [isinstance(value, (str, bytes)) or np.ndim(value) == 0 for value in data.values()]
    if data and all(is_scalar):
        return _from_rows([data], name)
    if any(is_scalar):
        raise TableError(["a dict must hold either columns or the values of one row, not both."], source=name)
    return _from_columns(data, name)


def _from_rows(rows: Sequence[Mapping[Any, Any]], name: str) -> pl.DataFrame:
    """Convert rows with named values; a value that a row does not have is missing."""
    columns = dict.fromkeys(column for row in rows for column in row)
    return _from_columns({column: [row.get(column) for row in rows] for column in columns}, name)


def _from_columns(columns: Mapping[Any, Any], name: str) -> pl.DataFrame:
    raise_table_error(find_repeated_names(map(str, columns)), name)
    series = [convert_column(str(key), values) for key, values in columns.items()]
    lengths = {len(column) for column in series}
    if len(lengths) > 1:
        raise TableError(
            [f"its columns differ in length: they have {format_list(sorted(lengths))} values."], source=name
        )
    return pl.DataFrame(series)


def convert_column(name: str, values: Any) -> pl.Series:
    """Convert a column of values in any container."""
    if isinstance(values, pl.Series):
        return values.alias(name)
    if is_pandas_series(values):
        return _convert_pandas_column(name, values)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biufmM":
        return pl.Series(name, _convert_time_unit(values), strict=False)
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    return pl.Series(name, _unify_types([None if is_missing(value) else value for value in plain]), strict=False)


def _convert_pandas_column(name: str, column: Any) -> pl.Series:
    """Convert a pandas column; a categorical column remains categorical, whatever the type of its categories."""
    if not hasattr(column, "cat"):
        return pl.Series(name, _get_pandas_values(column), strict=False)
    levels = as_text(pl.Series(_unify_types(column.cat.categories.tolist()), strict=False))
    codes = pl.Series(name, column.cat.codes.to_numpy(), dtype=pl.Int64)
    return levels.gather(codes.set(codes < 0, None)).cast(pl.Categorical).alias(name)


def _get_pandas_values(column: Any) -> Any:
    """Return the values of a pandas column, with None for any of the missing values that pandas has."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biufmM":
        return _convert_time_unit(column.to_numpy())
    return _unify_types(column.astype(object).where(column.notna(), None).tolist())


def _convert_time_unit(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Convert dates and durations to a time unit that polars supports; numbers are not changed."""
    if values.dtype.kind not in "mM":
        return values
    unit = np.datetime_data(values.dtype)[0]
    return values.astype(f"{values.dtype.kind}8[{unit if unit in ('ms', 'us', 'ns') else 'ms'}]")


def _unify_types(values: list[Any]) -> list[Any]:
    """Convert values of any types to values of one type that polars supports."""
    types = {type(value) for value in values if value is not None}
    if types == {int, float}:
        return [value if value is None else float(value) for value in values]
    # Other types, such as intervals, become text, as in a text file.
    if len(types) > 1 or not all(issubclass(kind, POLARS_TYPES) for kind in types):
        return [value if value is None else str(value) for value in values]
    return values
