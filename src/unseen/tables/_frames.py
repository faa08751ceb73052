"""Frames of pandas and polars, as polars has them."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..citizen import is_dask
from ._errors import refuse, understanding
from ._files import repeated
from ._values import polars

# What polars has a type for; lists and the like are not used, but told of.
TYPED = (str, int, float, date, timedelta, Decimal, bytes, list, tuple, dict, np.generic, np.ndarray)

if TYPE_CHECKING:
    import polars as pl


def as_frame(data: Any, name: str) -> pl.DataFrame:
    """A frame of either library as one of polars, column by column, so that nothing else need be installed."""
    pl = polars()
    if isinstance(data, pl.LazyFrame):
        return data.collect()
    if isinstance(data, pl.DataFrame):
        return data
    if is_dask(data):
        raise TypeError("A Dask dataframe is not read as a table: pass the path of its files, or what compute() gives.")
    with understanding(Path(name)):
        if not hasattr(data, "items"):  # a table of Arrow, which polars reads by itself
            return pl.DataFrame(data)
        names = [str(column) for column in data.columns]
        refuse(repeated(names), name)
        columns = zip(names, (column for _, column in data.items()), strict=True)
        return pl.DataFrame([pl.Series(name, _values(column), strict=False) for name, column in columns])


def _values(column: Any) -> Any:
    """The values of a column of pandas, which has several ways to say that one is missing."""
    kind = column.dtype
    if isinstance(kind, np.dtype) and kind.kind in "mM":
        unit = np.datetime_data(kind)[0]
        known = unit if unit in ("ms", "us", "ns") else "ms"  # to polars
        return column.to_numpy().astype(f"{kind.kind}8[{known}]")
    if isinstance(kind, np.dtype) and kind.kind in "biuf":
        return column.to_numpy()
    values = column.astype(object).where(column.notna(), None).tolist()
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [value if value is None else float(value) for value in values]
    if len(kinds) > 1 or not all(issubclass(kind, TYPED) for kind in kinds):  # an interval, say: as text files have it
        return [value if value is None else str(value) for value in values]
    return values
