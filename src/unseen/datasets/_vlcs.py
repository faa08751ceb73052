"""VLCS, from a folder with one file per domain."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..tables import load_table
from ..utils.samples import Samples
from ..utils.validation import format_list
from ._bunch import make_bunch

VLCS_CLASSES = ("bird", "car", "chair", "dog", "person")
# Parts of the names of each collection of VLCS, by its initial.
VLCS_NAMES = {"V": "voc|pascal", "L": "labelme", "C": "caltech", "S": "sun"}
VLCS_DESCR = """\
VLCS (Fang, Xu and Rockmore, ICCV 2013)

Features of photographs of birds, cars, chairs, dogs and persons from four collections: Pascal VOC 2007 (V), LabelMe
(L), Caltech-101 (C) and SUN09 (S). Each collection is a domain.
"""


def load_vlcs(
    folder: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    label: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load VLCS from a folder with one file for each of its four collections.

    Reads the files that :func:`~unseen.tables.load_table` reads, and checks that they hold VLCS. Collections are
    recognized regardless of case: by their initial (V, L, C, S), or by a name that contains VOC or Pascal, LabelMe,
    Caltech, or SUN, such as Pascal_decaf6.mat.

    Parameters
    ----------
    folder : str or path
        The folder.
    features, label : str, default=None
        Names of the features and labels in the files, as in :func:`~unseen.tables.load_table`.
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
    if not Path(folder).expanduser().is_dir():
        raise NotADirectoryError(f"folder must hold one file per domain; {str(folder)!r} is not a folder.")
    table = load_table(Path(folder).expanduser(), features=features, label=label, min_domain_rows=1)
    initials = {name: _match_collection(name) for name in np.unique(table.domain).tolist()}
    labels = np.char.lower(table.y) if table.y.dtype.kind == "U" else table.y
    if sorted(initials.values()) != sorted(VLCS_NAMES):
        raise ValueError(
            f"The folder {os.fspath(folder)!r} does not hold VLCS: there must be one file for each of V (VOC2007, "
            "Pascal), L (LabelMe), C (Caltech101) and S (SUN09); recognized are "
            f"{format_list((f'{name} as {initial}' for name, initial in initials.items()), quote=False)}. "
            "For other data, use load_table."
        )
    if set(labels.tolist()) not in ({0, 1, 2, 3, 4}, {1, 2, 3, 4, 5}, set(VLCS_CLASSES)):
        raise ValueError(
            f"The folder {os.fspath(folder)!r} does not hold VLCS: the labels must be 1 to 5, or 0 to 4, or "
            f"{', '.join(VLCS_CLASSES)}, and the same in all files; got "
            f"{format_list(np.unique(table.y).tolist(), quote=False)}. For other data, use load_table."
        )
    domain = np.array([initials[name] for name in table.domain.tolist()])
    order = np.concatenate([np.flatnonzero(domain == initial) for initial in VLCS_NAMES])
    samples = Samples(table.X, np.searchsorted(np.unique(labels), labels), domain).take(order)
    names = table.schema.feature_names
    return make_bunch(samples, VLCS_CLASSES, names, VLCS_DESCR, as_frame=as_frame, return_X_y=return_X_y)


def _match_collection(name: str) -> str:
    """Return V, L, C or S; "unknown" for a name that matches none of them, or several."""
    matching = [
        initial for initial, parts in VLCS_NAMES.items() if name.upper() == initial or re.search(parts, name.lower())
    ]
    return matching[0] if len(matching) == 1 else "unknown"
