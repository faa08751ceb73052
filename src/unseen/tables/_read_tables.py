"""Tables, one row per sample: the label is a column, and so is every feature."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..citizen import optional_import
from ._domain_file import USUAL_LABELS, DomainFile, brief, checked_labels, chosen_name

NOT_GIVEN = ["NA", "N/A", "n/a"]  # besides nothing at all


def read_table_file(path: Path, features: str | Sequence[str] | None, label: str | None) -> DomainFile:
    """Read a .csv or .parquet file."""
    polars = optional_import("polars", f"Reading {path.name}")
    try:
        if path.suffix.lower() == ".csv":
            table = polars.read_csv(path, glob=False, infer_schema_length=None, null_values=NOT_GIVEN)
        else:
            table = polars.read_parquet(path, glob=False)
    except polars.exceptions.PanicException as error:  # not an Exception: it would pass by all who expect one
        raise ValueError("it is damaged: polars broke off in the middle of it. Copy or write it again") from error
    held = [f"{name!r} ({kind})" for name, kind in table.schema.items()]
    label_name = chosen_name(table.schema, held, label, USUAL_LABELS, "label")
    columns, left_out = _feature_columns(table, label_name, features, held)
    chosen = table.select(columns)
    single = all(kind == polars.Float32 for kind in chosen.dtypes)
    data = chosen.cast(polars.Float32 if single else polars.Float64).to_numpy()
    if not data.size:
        raise ValueError(
            f"it has {table.height} rows and {len(columns)} columns of features: there is nothing to learn"
        )
    target = checked_labels(_label_values(table[label_name], polars), label_name)
    return DomainFile(path.stem, data, target, columns=tuple(columns), left_out=tuple(left_out))


def _feature_columns(
    table: Any, label: str, features: str | Sequence[str] | None, held: list[str]
) -> tuple[list[str], list[str]]:
    """The columns to take as features, and those left out because they are not numbers."""
    numbers = [name for name, kind in table.schema.items() if kind.is_numeric() and name != label]
    if features is None:
        if not numbers:
            raise ValueError(f"it has no columns of numbers besides the label {label!r}. It holds: {brief(held)}")
        return numbers, [name for name in table.columns if name not in numbers and name != label]
    asked = [features] if isinstance(features, str) else list(features)
    absent = [repr(name) for name in asked if name not in table.columns]
    if absent:
        raise ValueError(f"it has no {brief(absent)}, as features= asks for. It holds: {brief(held)}")
    text = [repr(name) for name in asked if name not in numbers]
    if text:
        raise ValueError(f"features= asks for {brief(text)}, which must be columns of numbers and not the label")
    return asked, []


def _label_values(column: Any, polars: Any) -> np.ndarray[Any, np.dtype[Any]]:
    if column.null_count():
        raise ValueError(f"{column.name!r} is missing for {column.null_count()} of {len(column)} samples")
    if column.dtype in (polars.String, polars.Categorical, polars.Enum):
        return np.array(column.cast(polars.String).to_list(), dtype=str)
    return np.asarray(column.to_numpy())
