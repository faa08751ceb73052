"""Loaders of folders with one file per domain: any data, and VLCS."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..tables import Table, load_table
from ..utils.samples import Samples
from ..utils.validation import format_list
from ._bunch import make_bunch

VLCS_CLASSES = ("bird", "car", "chair", "dog", "person")
# Known names of each collection of VLCS, by its initial.
VLCS_NAMES = {
    "V": {"v", "voc", "voc2007", "pascal", "pascalvoc", "pascalvoc2007", "pascal2007"},
    "L": {"l", "labelme"},
    "C": {"c", "caltech", "caltech101"},
    "S": {"s", "sun", "sun09"},
}
VLCS_DESCR = """\
VLCS (Fang, Xu and Rockmore, ICCV 2013)

Features of photographs of birds, cars, chairs, dogs and persons from four collections: Pascal VOC 2007 (V), LabelMe
(L), Caltech-101 (C) and SUN09 (S). Each collection is a domain.
"""


def load_folder(
    path: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    label: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load the numeric columns of a folder that holds one file per domain.

    Files are read by :func:`~unseen.tables.load_table`: MATLAB files (.mat), NumPy files (.npz) or tables such as .csv
    and .parquet. The name of the file, without its ending, is the name of the domain.

    Parameters
    ----------
    path : str or path
        The folder.
    features : str or list of str, default=None
        Columns to use; by default all columns of numbers except the label. The columns of a matrix are feature_0,
        feature_1 and so on.
    label : str, default=None
        Name of the labels; by default the only array or column with a usual name, such as labels, y or species.
    as_frame, return_X_y : bool, default=False
        Whether to return pandas objects, with `frame` in addition; and whether to return ``(X, y, sample_domain)``
        instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or tuple of (X, y, sample_domain)
        With `data`, `target`, `domain`, `target_names`, `domain_names`, `feature_names` and `DESCR`. `target` holds the
        labels as they are in the files, integers or strings. Missing values are NaN.

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
    table, samples, names = _read_folder(path, features, label)
    description = "\n".join([f"Data of the folder {table.name}, one domain per file", "", *table.notices]) + "\n"
    classes = [str(name) for name in samples.classes.tolist()]
    return make_bunch(samples, classes, names, description, as_frame=as_frame, return_X_y=return_X_y)


def _read_folder(
    path: str | os.PathLike[str], features: str | Sequence[str] | None, label: str | None
) -> tuple[Table, Samples, list[str]]:
    """Read the numeric columns of every domain of a folder, and their names."""
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise NotADirectoryError(f"path must be a folder with one file per domain; {str(folder)!r} is not a folder.")
    table = load_table(folder, features=features, label=label, min_domain_rows=1)
    numeric = [j for j, column in enumerate(table.schema.columns) if column.kind == "numeric"]
    names = [table.schema.columns[j].name for j in numeric]
    return table, Samples(table.X[:, numeric], table.y, table.domain), names


def load_vlcs(
    folder: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    label: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load VLCS from a folder with one file for each of its four collections.

    Reads the same files as :func:`~unseen.datasets.load_folder`, and checks that they hold VLCS. Collections are
    recognized by name or initial, regardless of case: V, VOC2007 or Pascal; L or LabelMe; C or Caltech101; S or SUN09.
    File names may contain other words, such as Pascal_decaf6.mat.

    Parameters
    ----------
    folder : str or path
        The folder.
    features, label : str, default=None
        Names of the features and labels in the files, as in :func:`~unseen.datasets.load_folder`.
    as_frame, return_X_y : bool, default=False
        Whether to return pandas objects, with `frame` in addition; and whether to return ``(X, y, sample_domain)``
        instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or tuple of (X, y, sample_domain)
        With `data`, `target`, `domain` ("V", "L", "C" or "S"), `target_names`, `domain_names`, `feature_names` and
        `DESCR`. `target` is 0 to 4, in the order bird, car, chair, dog, person, whether the labels in the files are 0
        to 4, 1 to 5, or names.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from unseen.datasets import load_vlcs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ["Caltech101", "LabelMe", "SUN09", "VOC2007"]:
    ...         np.savez(Path(folder, name), X=np.eye(5, 3), y=[1, 2, 3, 4, 5])
    ...     data = load_vlcs(folder)
    >>> data.domain_names, data.target_names
    (['V', 'L', 'C', 'S'], ['bird', 'car', 'chair', 'dog', 'person'])
    """
    _, samples, feature_names = _read_folder(folder, features, label)
    initials = {name: _match_collection(name) for name in np.unique(samples.domain).tolist()}
    labels = np.char.lower(samples.y) if samples.y.dtype.kind == "U" else samples.y
    problems = _find_collection_problems(initials)
    if set(labels.tolist()) not in ({0, 1, 2, 3, 4}, {1, 2, 3, 4, 5}, set(VLCS_CLASSES)):
        found = "; ".join(
            f"{name} has {format_list(np.unique(samples.y[samples.domain == name]).tolist(), quote=False)}"
            for name in initials
        )
        problems.append(
            f"the labels must be 1 to 5, or 0 to 4, or {', '.join(VLCS_CLASSES)}, and the same in all files; {found}."
        )
    if problems:
        lines = "\n".join(f"- {problem}" for problem in problems)
        raise ValueError(
            f"The folder {os.fspath(folder)!r} does not hold VLCS:\n{lines}\nFor other data, use load_folder."
        )
    domain = np.array([initials[name] for name in samples.domain.tolist()])
    order = np.concatenate([np.flatnonzero(domain == initial) for initial in VLCS_NAMES])
    sorted_samples = Samples(samples.X, np.searchsorted(np.unique(labels), labels), domain).take(order)
    return make_bunch(sorted_samples, VLCS_CLASSES, feature_names, VLCS_DESCR, as_frame=as_frame, return_X_y=return_X_y)


def _match_collection(name: str) -> str:
    """Return V, L, C or S; an empty string for a name that matches none of them, or several."""
    words = {re.sub(r"[^a-z0-9]", "", name.lower()), *re.split(r"[^a-z0-9]+", name.lower())}
    matching = [initial for initial, names in VLCS_NAMES.items() if names & words]
    return matching[0] if len(matching) == 1 else ""


def _find_collection_problems(initials: dict[str, str]) -> list[str]:
    """Find collections that are not recognized, missing, or there twice."""
    problems = [
        f"{name} is not recognized as one of V (VOC2007, Pascal), L (LabelMe), C (Caltech101), S (SUN09)."
        for name, initial in initials.items()
        if not initial
    ]
    for initial, known_names in VLCS_NAMES.items():
        names = [name for name, matched in initials.items() if matched == initial]
        if not names:
            other_names = ", ".join(sorted(known_names - {initial.lower()}))
            problems.append(f"no file for {initial} (also called {other_names}).")
        elif len(names) > 1:
            problems.append(f"{' and '.join(names)} are all recognized as {initial}; keep one.")
    return problems
