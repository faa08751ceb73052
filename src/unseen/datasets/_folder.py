"""Loader of a folder with one file per domain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..tables import SurveyedTable, TableError, TableOptions, survey_table
from ..utils.samples import Samples
from ..utils.validation import Labels, format_list
from ._bunch import make_bunch


def load_folder(
    path: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    label: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load a folder that holds one file per domain.

    Files are read like those of :func:`~unseen.tables.load_table`: MATLAB files (.mat), NumPy files (.npz)
    or tables (.csv, .tsv, .parquet, .feather). The name of the file, without its ending, is the name of the
    domain. Other files are ignored. All problems, in any of the files, are reported in one error.

    Parameters
    ----------
    path : str or path
        The folder.
    features : str or list of str, default=None
        In .mat and .npz files, the name of the matrix of features; by default the one called fts, feas, X, features or
        data, or the only matrix. In tables, the columns to use; by default all numeric columns except the label.
    label : str, default=None
        Name of the labels; by default the only array or column with a usual name, such as labels, y or species.
    as_frame : bool, default=False
        Whether `data`, `target` and `domain` are pandas objects; adds `frame`.
    return_X_y : bool, default=False
        Whether to return ``(X, y, sample_domain)``, as the estimators take them, instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or tuple of (X, y, sample_domain)
        With `data`, `target`, `domain`, `target_names`, `domain_names`, `feature_names` and `DESCR`. `target` holds the
        labels as they are in the files, integers or strings, and `target_names` a name for each distinct label, in
        sorted order: from an array `classes` of the files if there is one, else the labels themselves.

    Notes
    -----
    Samples may be rows or columns of a matrix: the number of labels determines which; if both match, samples are rows.
    Missing values become NaN. Columns of text are left out and listed in `DESCR`. Pickled objects in .npz files are
    never loaded. Files of MATLAB of version 7.3 are not read: save them with ``-v7``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from unseen.datasets import load_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "hospital_a.npz"), X=np.eye(4), y=["ill", "well", "ill", "well"])
    ...     np.savez(Path(folder, "hospital_b.npz"), X=np.ones((2, 4)), y=["ill", "well"])
    ...     data = load_folder(folder)
    >>> data.domain_names, data.target_names
    (['hospital_a', 'hospital_b'], ['ill', 'well'])
    >>> data.data.shape
    (6, 4)
    """
    table, samples = read_folder(path, features, label)
    class_names = _name_classes(table, samples.classes)
    description = _describe_folder(table, samples)
    return make_bunch(
        samples, class_names, table.schema.feature_names, description, as_frame=as_frame, return_X_y=return_X_y
    )


def read_folder(
    path: str | os.PathLike[str], features: str | Sequence[str] | None, label: str | None
) -> tuple[SurveyedTable, Samples]:
    """Read every domain of a folder as a table, with all its numeric columns and all its rows."""
    options = TableOptions(label, features=features, keep_all=True)
    folder = Path(path).expanduser()
    if not folder.exists():
        raise FileNotFoundError(f"path must be a folder with one file per domain; {str(folder)!r} does not exist.")
    if not folder.is_dir():
        raise NotADirectoryError(f"path must be a folder with one file per domain; {str(folder)!r} is a file.")
    table = survey_table(folder, options)
    return table, folder_samples(table)


def folder_samples(table: SurveyedTable) -> Samples:
    """Read all rows of a table, in single precision if its files have it."""
    samples, *_ = table.read()
    return replace(samples, X=samples.X.astype(np.float32)) if table.is_single_precision else samples


def _name_classes(table: SurveyedTable, classes: Labels) -> list[str]:
    """Return a name for each class: from the files, if the labels are indices of their names, or else the class."""
    (first_file, names), *others = table.class_names.items() or [("", ())]
    problems = [
        f"'classes' differs: {first_file} has {format_list(names, quote=False)}; {file} has "
        f"{format_list(other_names, quote=False)}."
        for file, other_names in others
        if other_names != names
    ]
    indices = classes.tolist() if classes.dtype.kind in "iu" else []
    if names and not (set(indices) <= set(range(len(names))) or set(indices) <= set(range(1, len(names) + 1))):
        problems.append(f"'classes' has {len(names)} names, which do not match the labels {format_list(indices)}.")
    if problems:
        raise TableError(problems, source=table.name)
    if names and 0 in indices:
        return [names[index] for index in indices]
    if names and len(names) in indices:
        return [names[index - 1] for index in indices]
    return [str(label) for label in classes.tolist()]


def _describe_folder(table: SurveyedTable, samples: Samples) -> str:
    lines = [f"Data of the folder {table.name}", "", f"{samples.X.shape[1]} features; one domain per file:"]
    for name, counts in zip(table.domains, table.counts, strict=True):
        lines.append(f"- {name}: {counts.sum()} samples, {(counts > 0).sum()} classes")
    return "\n".join([*lines, "", *table.notices]) + "\n"
