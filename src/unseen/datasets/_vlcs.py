"""VLCS: four collections of photographs that share five classes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..utils.samples import Samples
from ..utils.validation import format_list
from ._bunch import make_bunch
from ._folder import read_folder

CLASSES = ("bird", "car", "chair", "dog", "person")
# Known names of each collection, by its initial.
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
    as_frame : bool, default=False
        Whether `data`, `target` and `domain` are pandas objects; adds `frame`.
    return_X_y : bool, default=False
        Whether to return ``(X, y, sample_domain)``, as the estimators take them, instead of a Bunch.

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
    ...         np.savez(Path(folder, name), X=np.ones((5, 3)), y=[1, 2, 3, 4, 5])
    ...     data = load_vlcs(folder)
    >>> data.domain_names, data.target_names
    (['V', 'L', 'C', 'S'], ['bird', 'car', 'chair', 'dog', 'person'])
    """
    table, samples = read_folder(folder, features, label)
    return load_vlcs_folder(
        samples, folder, table.schema.feature_names, table.class_names, as_frame=as_frame, return_X_y=return_X_y
    )


def load_vlcs_folder(
    samples: Samples,
    folder: str | os.PathLike[str],
    feature_names: Sequence[str],
    class_names: Mapping[str, tuple[str, ...]] | None = None,
    *,
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Make VLCS from the samples of a folder, whose collections and classes are matched by name; else ValueError."""
    initials = {name: _match_collection(name) for name in np.unique(samples.domain).tolist()}
    labels = np.char.lower(samples.y) if samples.y.dtype.kind == "U" else samples.y
    problems = _check_collections(initials) + _check_classes(class_names or {}, samples, set(labels.tolist()))
    if problems:
        raise ValueError(
            f"The folder {os.fspath(folder)!r} does not hold VLCS:\n"
            + "\n".join(f"- {problem}" for problem in problems)
            + "\nFor other data, use load_folder."
        )
    domain = np.array([initials[name] for name in samples.domain.tolist()])
    order = np.concatenate([np.flatnonzero(domain == initial) for initial in COLLECTION_NAMES])
    sorted_samples = Samples(samples.X, np.searchsorted(np.unique(labels), labels), domain).take(order)
    return make_bunch(sorted_samples, CLASSES, feature_names, DESCR, as_frame=as_frame, return_X_y=return_X_y)


def _match_collection(name: str) -> str:
    """Return V, L, C or S; an empty string for a name that matches none of them, or several."""
    words = {re.sub(r"[^a-z0-9]", "", name.lower()), *re.split(r"[^a-z0-9]+", name.lower())}
    matching = [initial for initial, names in COLLECTION_NAMES.items() if names & words]
    return matching[0] if len(matching) == 1 else ""


def _check_collections(initials: dict[str, str]) -> list[str]:
    """Find collections that are not recognized, missing, or there twice."""
    problems = [
        f"{name} is not recognized as one of V (VOC2007, Pascal), L (LabelMe), C (Caltech101), S (SUN09)."
        for name, initial in initials.items()
        if not initial
    ]
    for initial, known_names in COLLECTION_NAMES.items():
        names = [name for name, matched in initials.items() if matched == initial]
        if not names:
            other_names = ", ".join(sorted(known_names - {initial.lower()}))
            problems.append(f"no file for {initial} (also called {other_names}).")
        elif len(names) > 1:
            problems.append(f"{' and '.join(names)} are all recognized as {initial}; keep one.")
    return problems


def _check_classes(class_names: Mapping[str, tuple[str, ...]], samples: Samples, labels: set[Any]) -> list[str]:
    """Find names of classes or labels that are not those of VLCS."""
    for name, classes in class_names.items():
        if tuple(word.lower() for word in classes) != CLASSES:
            received = format_list(classes, quote=False)
            return [f"{name}: 'classes' must be {', '.join(CLASSES)}, in this order; it is {received}."]
    if labels in ({0, 1, 2, 3, 4}, {1, 2, 3, 4, 5}, set(CLASSES)):
        return []
    labels_by_domain = "; ".join(
        f"{name} has {format_list(np.unique(samples.y[samples.domain == name]).tolist(), quote=False)}"
        for name in np.unique(samples.domain)
    )
    return [
        f"the labels must be 1 to 5, or 0 to 4, or {', '.join(CLASSES)}, and the same in all files; {labels_by_domain}."
    ]
