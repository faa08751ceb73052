"""A folder with one file per domain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

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
) -> Bunch:
    """Load a folder that holds one file per domain.

    Files are read as :func:`~unseen.tables.load_table` reads them: MATLAB's (.mat, of any version), NumPy's (.npz) or
    tables (.csv, .tsv, .parquet, .feather). The name of the file, without its ending, is the name of the domain. Other
    files are passed over. Everything that is wrong, in any of the files, is reported at once.

    Parameters
    ----------
    path : str or path
        The folder.
    features : str or list of str, default=None
        In .mat and .npz files, the name of the matrix of features; by default the one called fts, feas, X, features or
        data, or the only one. In tables, the columns to use; by default all columns of numbers but the label.
    label : str, default=None
        The name of the labels; by default the only array or column with a telling name, such as labels, y or species.
    as_frame : bool, default=False
        Whether `data`, `target` and `domain` are pandas objects; adds `frame`.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With `data`, `target`, `domain`, `target_names`, `domain_names`, `feature_names` and `DESCR`. `target` holds the
        labels as they are in the files, integers or strings, and `target_names` a name for each distinct label, in
        sorted order: from an array `classes` of the files if there is one, else the labels themselves.

    Notes
    -----
    A matrix may have its samples in rows or in columns: the number of labels decides, and rows win if both fit.
    Missing values become NaN. Columns of text are left out and listed in `DESCR`. Pickled objects in .npz files are
    never loaded. Reading needs polars, and version 7.3 of .mat h5py: ``pip install 'unseen[cli]'``.

    Examples
    --------
    >>> import pytest; _ = pytest.importorskip("polars")
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
    found, samples = read_folder(path, features, label)
    names, description = _class_names(found, samples.classes), _description(found, samples)
    return make_bunch(samples, names, found.schema.feature_names, description, as_frame=as_frame)


def read_folder(
    path: str | os.PathLike[str], features: str | Sequence[str] | None, label: str | None
) -> tuple[SurveyedTable, Samples]:
    """Every domain of a folder, read as a table is, but with all its columns of numbers and all its rows."""
    request = TableOptions(label, features=features, entire=True)
    folder = Path(path).expanduser()
    if not folder.is_dir():
        kind, held = (NotADirectoryError, "a file") if folder.exists() else (FileNotFoundError, "nothing")
        raise kind(f"path must be a folder with one file per domain; at {str(folder)!r} there is {held}.")
    found = survey_table(folder, request)
    return found, folder_samples(found)


def folder_samples(found: SurveyedTable) -> Samples:
    """All rows of a table; single precision stays single."""
    samples, *_ = found.read()
    return replace(samples, X=samples.X.astype(np.float32)) if found.single else samples


def _class_names(found: SurveyedTable, classes: Labels) -> list[str]:
    """A name for each class: from the files, if their labels tell where the names begin, or else the class itself."""
    (first, names), *others = found.class_names.items() or [("", ())]
    problems = [
        f"'classes' differs: {first} has {format_list(names, quote=False)}; {file} has "
        f"{format_list(theirs, quote=False)}."
        for file, theirs in others
        if theirs != names
    ]
    numbers = classes.tolist() if classes.dtype.kind in "iu" else []
    if names and not (set(numbers) <= set(range(len(names))) or set(numbers) <= set(range(1, len(names) + 1))):
        problems.append(f"'classes' has {len(names)} names, which do not fit the labels {format_list(numbers)}.")
    if problems:
        raise TableError(problems, source=found.name)
    start = 0 if 0 in numbers else 1 if len(names) in numbers else None
    return [str(label) if start is None or not names else names[label - start] for label in classes.tolist()]


def _description(found: SurveyedTable, samples: Samples) -> str:
    lines = [f"Data of the folder {found.name}", "", f"{samples.X.shape[1]} features; one domain per file:"]
    for name, counts in zip(found.domains, found.counts, strict=True):
        lines.append(f"- {name}: {counts.sum()} samples, {(counts > 0).sum()} classes")
    return "\n".join([*lines, "", *found.notices]) + "\n"
