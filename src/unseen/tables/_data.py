"""Data in any form as a table: files and frames with columns of labels and domains, or arrays of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from ..utils.validation import check_domains, check_label_length, encode_classes, format_list
from ._column_roles import TableOptions
from ._files import FrameFile, has_columns, is_path
from ._frames import as_frame, attach_columns
from ._load import SurveyedTable, Table, survey_files, survey_table
from ._schema import Column, Schema, check_feature_magnitudes

# Options that do not name columns, and so apply to arrays as well.
ARRAY_OPTIONS = ("max_per_domain", "seed")


def open_data(data: Any, y: Any, sample_domain: Any, options: TableOptions, caller: str) -> SurveyedTable | Table:
    """Open data in any form, without reading files into memory.

    Parameters
    ----------
    data : DataFrame, dict, list of dict, structured array, str, path, SurveyedTable, Table or array-like
        A table, or the samples.
    y, sample_domain : array-like or None
        Labels and domains of the samples, unless they are columns of the table.
    options : TableOptions
        Roles of columns, and which rows to use.
    caller : str
        Name of the function in messages.

    Returns
    -------
    table : SurveyedTable or Table
        A Table if the data are arrays or a Table already.
    """
    if isinstance(data, SurveyedTable):
        return data
    if isinstance(data, Table) or not (is_path(data) or has_columns(data)):
        if y is None and not isinstance(data, Table) and (options.label or options.domain):
            as_frame(data, FrameFile.name)  # raises TypeError, since the data have no columns
        check_array_options(options)
        table = data if isinstance(data, Table) else table_from_arrays(data, y, sample_domain, caller)
        rows = table.samples.subsample_rows(max_per_domain=options.max_per_domain, seed=options.seed)
        return table if len(rows) == len(table.X) else table.take(rows)
    if y is None and sample_domain is None:
        return survey_table(data, options)
    if is_path(data):
        raise ValueError(
            "y and sample_domain cannot be combined with the path of a table. Set label and domain to its columns."
        )
    return _survey_with_arrays(data, y, sample_domain, options)


def check_array_options(options: TableOptions) -> None:
    """Raise ValueError for options that describe the columns of a table, if data are arrays."""
    names = [field.name for field in fields(options) if field.name not in ARRAY_OPTIONS]
    given = [name for name in names if getattr(options, name) != getattr(TableOptions(), name)]
    if given:
        raise ValueError(
            f"{format_list(given)} can be set for a table in a file or DataFrame only, but data are arrays. Pass a "
            "DataFrame, or omit them."
        )


def _survey_with_arrays(data: Any, y: Any, sample_domain: Any, options: TableOptions) -> SurveyedTable:
    """Survey a frame whose labels or domains are separate arrays, which become columns of it."""
    for array, role, values in (("y", "label", y), ("sample_domain", "domain", sample_domain)):
        if values is not None and getattr(options, role) is not None:
            raise ValueError(f"Pass {array} or {role}, not both; got {role}={getattr(options, role)!r}.")
    frame = as_frame(data, FrameFile.name)
    columns: dict[str, Any] = {}
    if y is not None:
        name = _free_name(getattr(y, "name", None) or "label", frame.columns)
        columns[name] = column_or_1d(y)
        options = replace(options, label=name)
        if len(columns[name]) != frame.height:
            raise ValueError(f"data has {frame.height:,} rows, but y has {len(columns[name]):,} labels.")
    if sample_domain is not None:
        name = _free_name(getattr(sample_domain, "name", None) or "domain", [*frame.columns, *columns])
        columns[name] = check_domains(sample_domain, frame.height)
        options = replace(options, domain=name)
    file = FrameFile(attach_columns(frame, columns))
    return survey_files([(file.name, file)], options, file.name, several=False)


def _free_name(name: Any, taken: Sequence[str]) -> str:
    name = str(name)
    while name in taken:
        name += "_"
    return name


def table_from_arrays(X: Any, y: Any, sample_domain: Any, caller: str = "The function") -> Table:
    """Make a table of arrays, in which all columns are numeric."""
    if y is None or sample_domain is None:
        raise ValueError(
            f"Samples need labels and domains; got y={'None' if y is None else '...'} and "
            f"sample_domain={'None' if sample_domain is None else '...'}. Pass both, or a table with these columns."
        )
    X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
    check_label_length(y, "y")
    y = column_or_1d(y)
    check_consistent_length(X, y)
    encode_classes(y, caller)
    domain = check_domains(sample_domain, len(y)).astype(str)
    if len(np.unique(domain)) < 2:
        raise ValueError(
            f"{caller} needs samples of at least 2 domains; sample_domain has only {domain.tolist()[0]!r}."
        )
    schema = Schema(tuple(Column(f"feature {j}", "numeric") for j in range(X.shape[1])))
    check_feature_magnitudes(X, schema)
    return Table(X, y, domain, schema, [], "arrays")
