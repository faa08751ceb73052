"""One file, one domain: find its features and labels among what it holds, and say what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..labels import Labels as Array
from ._read_arrays import read_mat, read_npz

USUAL_FEATURES = ("fts", "feas", "X", "features", "data")
USUAL_LABELS = ("labels", "label", "y", "gt")
SHOWN = 12  # a file's contents are listed up to this many names


class DomainFile(NamedTuple):
    """What was found in one file."""

    name: str
    data: Array
    target: Array
    classes: tuple[str, ...] | None = None  # the names of the classes, where the file gives them
    columns: tuple[str, ...] | None = None  # the names of the features, where the file is a table
    left_out: tuple[str, ...] = ()  # columns of a table that are not numbers


def read_array_file(path: Path, features: str | Sequence[str] | None, label: str | None) -> DomainFile:
    """Read a .mat or .npz file."""
    contents = read_npz(path) if path.suffix.lower() == ".npz" else read_mat(path)
    if features is not None and not isinstance(features, str):
        raise ValueError(f"features must be the name of one array in a {path.suffix} file; got {list(features)}")
    held = [f"{name!r} ({_shape(array)})" for name, array in contents.items()]
    label_name = chosen_name(contents, held, label, USUAL_LABELS, "label")
    target = checked_labels(contents[label_name], label_name)
    others = {name: array for name, array in contents.items() if name != label_name}
    features_name = chosen_name(others, held, features, USUAL_FEATURES, "features")
    data = _samples_in_rows(contents[features_name], features_name, target, label_name)
    return DomainFile(path.stem, data, target, _class_names(contents))


def chosen_name(
    contents: Mapping[str, object], held: Iterable[str], asked: str | None, usual: Sequence[str], parameter: str
) -> str:
    """The name that was asked for, or else the only one that is usual, whatever its case."""
    if asked is not None:
        if asked not in contents:
            raise ValueError(f"it has no {asked!r}, as {parameter}= asks for. It holds: {brief(held)}")
        return asked
    known = {name.lower() for name in usual}
    found = [name for name in contents if name.lower() in known]
    if not found:
        raise ValueError(
            f"nothing in it has one of the usual names for {'labels' if parameter == 'label' else parameter} "
            f"({', '.join(usual)}). It holds: {brief(held)}. Pass {parameter}= with the right name"
        )
    if len(found) > 1:
        raise ValueError(f"{' and '.join(map(repr, found))} could both be meant. Pass {parameter}= with the right name")
    return found[0]


def brief(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) + more) or "nothing"


def checked_labels(raw: Array, name: str) -> Array:
    """One label per sample, integers or strings."""
    if raw.dtype == object and raw.ndim:  # a cell array of MATLAB: each entry is an array of one string
        raw = np.array([_only_entry(entry, name) for entry in raw.ravel()])
    if raw.ndim == 0 or raw.size != max(raw.shape):
        raise ValueError(f"{name!r} must hold one label per sample; it is {_shape(raw)}")
    labels = raw.ravel()
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    if labels.dtype.kind == "U":
        labels = np.char.strip(labels)
        missing = labels == ""
    elif labels.dtype.kind in "fiub":
        missing = ~np.isfinite(labels)
    else:
        raise ValueError(f"{name!r} must hold integers or strings; it is {_shape(raw)}")
    if missing.any():
        raise ValueError(f"{name!r} is missing for {missing.sum()} of {len(labels)} samples")
    if labels.dtype.kind == "U":
        return labels
    whole = labels.astype(np.int64)
    if (whole != labels).any():
        raise ValueError(f"{name!r} must hold classes, but has values such as {labels[whole != labels][0]}")
    return whole


def _only_entry(entry: object, name: str) -> object:
    values = np.asarray(entry).ravel()
    if len(values) != 1 or values.dtype == object:
        raise ValueError(f"{name!r} must hold one string or number per sample; it has an entry {entry!r}")
    return values[0]


def _samples_in_rows(raw: Array, name: str, target: Array, label_name: str) -> Array:
    """The features with a row per sample; the number of labels tells rows from columns."""
    if raw.dtype.kind not in "fiub" or raw.ndim != 2:
        raise ValueError(f"{name!r} must be a matrix of numbers, a row per sample; it is {_shape(raw)}")
    if len(target) not in raw.shape:
        raise ValueError(f"{name!r} is {_shape(raw)}, but {label_name!r} holds {len(target)} labels")
    if raw.size == 0:
        raise ValueError(f"{name!r} is {_shape(raw)}: it has no values")
    return raw if len(raw) == len(target) else raw.T


def _class_names(contents: Mapping[str, Array]) -> tuple[str, ...] | None:
    if "classes" not in contents:
        return None
    return tuple(str(name) for name in checked_labels(contents["classes"], "classes"))


def _shape(array: Array) -> str:
    if array.dtype == object and not array.ndim:
        return "not a plain array, so not read"
    return " x ".join(map(str, array.shape or (1,))) + (" text" if array.dtype.kind in "SU" else f" {array.dtype}")
