"""VLCS: four collections of photographs that share five classes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ..utils.samples import Samples
from ..utils.validation import format_list
from ._bunch import make_bunch
from ._folder import read_folder

CLASSES = ("bird", "car", "chair", "dog", "person")
# What each collection is called, in the order of its initials.
COLLECTION_NAMES = {
    "V": {"v", "voc", "voc2007", "pascal", "pascalvoc", "pascalvoc2007", "pascal2007"},
    "L": {"l", "labelme"},
    "C": {"c", "caltech", "caltech101"},
    "S": {"s", "sun", "sun09"},
}

DESCR = """\
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
) -> Bunch:
    """Load VLCS from a folder with one file for each of its four collections.

    Reads what :func:`~unseen.datasets.load_folder` reads, and checks that it is VLCS. Collections are recognized by
    name or initial, whatever the case: V, VOC2007 or Pascal; L or LabelMe; C or Caltech101; S or SUN09. Other words may
    stand beside the name, as in Pascal_decaf6.mat.

    Parameters
    ----------
    folder : str or path
        The folder.
    features, label : str, default=None
        Names of the features and labels in the files, as in :func:`~unseen.datasets.load_folder`.
    as_frame : bool, default=False
        Whether `data`, `target` and `domain` are pandas objects; adds `frame`.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With `data`, `target`, `domain` ("V", "L", "C" or "S"), `target_names`, `domain_names`, `feature_names` and
        `DESCR`. `target` counts the classes from 0, in the order bird, car, chair, dog, person, whether the files count
        them from 0, from 1, or name them.

    Examples
    --------
    >>> import pytest; _ = pytest.importorskip("polars")
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from unseen.datasets import load_vlcs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ["Caltech101", "LabelMe", "SUN09", "VOC2007"]:
    ...         np.savez(Path(folder, name), X=np.ones((5, 3)), y=[1, 2, 3, 4, 5])
    ...     data = load_vlcs(folder)
    >>> data.domain_names, data.target_names
    (['V', 'L', 'C', 'S'], ['bird', 'car', 'chair', 'dog', 'person'])
    """
    found, samples = read_folder(folder, features, label)
    return load_vlcs_folder(samples, folder, found.schema.feature_names, found.class_names, as_frame=as_frame)


def load_vlcs_folder(
    samples: Samples,
    folder: str | os.PathLike[str],
    feature_names: Sequence[str],
    class_names: Mapping[str, tuple[str, ...]] | None = None,
    *,
    as_frame: bool = False,
) -> Bunch:
    """VLCS of what a folder holds, whatever it calls collections and classes; ValueError if that is not VLCS."""
    initials = {name: _initial(name) for name in np.unique(samples.domain).tolist()}
    labels = np.char.lower(samples.y) if samples.y.dtype.kind == "U" else samples.y
    problems = _wrong_collections(initials) + _wrong_classes(class_names or {}, samples, set(labels.tolist()))
    if problems:
        raise ValueError(
            f"The folder {os.fspath(folder)!r} does not hold VLCS:\n"
            + "\n".join(f"- {problem}" for problem in problems)
            + "\nFor other data, use load_folder."
        )
    domain = np.array([initials[name] for name in samples.domain.tolist()])
    in_order = np.concatenate([np.flatnonzero(domain == initial) for initial in COLLECTION_NAMES])
    samples = Samples(samples.X, np.searchsorted(np.unique(labels), labels), domain).take(in_order)
    return make_bunch(samples, CLASSES, feature_names, DESCR, as_frame=as_frame)


def _initial(name: str) -> str:
    """V, L, C or S; nothing for a name that fits none of them, or several."""
    words = {re.sub(r"[^a-z0-9]", "", name.lower()), *re.split(r"[^a-z0-9]+", name.lower())}
    fitting = [initial for initial, names in COLLECTION_NAMES.items() if names & words]
    return fitting[0] if len(fitting) == 1 else ""


def _wrong_collections(initials: dict[str, str]) -> list[str]:
    problems = [
        f"{name} is not recognized as one of V (VOC2007, Pascal), L (LabelMe), C (Caltech101), S (SUN09)."
        for name, initial in initials.items()
        if not initial
    ]
    for initial, names in COLLECTION_NAMES.items():
        found = [name for name, own in initials.items() if own == initial]
        if not found:
            problems.append(f"no file for {initial} (also called {', '.join(sorted(names - {initial.lower()}))}).")
        elif len(found) > 1:
            problems.append(f"{' and '.join(found)} are all taken for {initial}; keep one.")
    return problems


def _wrong_classes(class_names: Mapping[str, tuple[str, ...]], samples: Samples, labels: set[Any]) -> list[str]:
    for name, classes in class_names.items():
        if tuple(word.lower() for word in classes) != CLASSES:
            held = format_list(classes, quote=False)
            return [f"{name}: 'classes' must be {', '.join(CLASSES)}, in this order; it is {held}."]
    if labels in ({0, 1, 2, 3, 4}, {1, 2, 3, 4, 5}, set(CLASSES)):
        return []
    each = "; ".join(
        f"{name} has {format_list(np.unique(samples.y[samples.domain == name]).tolist(), quote=False)}"
        for name in np.unique(samples.domain)
    )
    return [f"the labels must be 1 to 5, or 0 to 4, or {', '.join(CLASSES)}, and the same in all files; {each}."]
