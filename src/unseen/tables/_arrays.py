"""Files of named arrays seen as tables: a matrix of features, and vectors beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..labels import Labels as Array
from ..labels import listed
from ._read_arrays import read_mat, read_npz
from ._values import polars

if TYPE_CHECKING:
    import polars as pl

ARRAY_ENDINGS = (".npz", ".mat")
USUAL_FEATURES = frozenset({"x", "data", "features", "feas", "fts"})  # whatever their case
USUAL_LABELS = frozenset({"y", "label", "labels", "gt"})
CLASSES = "classes"  # the array that names the classes


class ArrayNames(NamedTuple):
    """Which arrays of a file are the features and the labels; None where usual names tell."""

    features: str | None = None
    label: str | None = None
    column: str | None = None  # what the column of labels is called, if not as the array is


@dataclass(frozen=True)
class Arrays:
    """A matrix with a row per sample, and vectors with an entry per sample."""

    matrix: Array
    vectors: dict[str, Array]
    names: ArrayNames  # as they were found
    classes: tuple[str, ...] = ()  # names of the classes, where the file gives them

    def frame(self, rows: slice = slice(None)) -> pl.DataFrame:
        """Some of the rows as a frame, in which features are numbered."""
        pl, names = polars(), [f"feature_{i}" for i in range(self.matrix.shape[1])]
        features = pl.from_numpy(self.matrix[rows], schema=names, orient="row")
        return features.with_columns(pl.Series(name, vector[rows]) for name, vector in self.vectors.items())


def read_arrays(path: Path, asked: ArrayNames | None = None) -> Arrays:
    """The matrix of features of an .npz or .mat file, and every vector that is as long as it has samples.

    Samples may be rows or columns of the matrix: the number of labels tells or, without labels, the length of any
    vector; rows win if both fit.
    """
    asked = asked or ArrayNames()
    contents = read_npz(path) if path.suffix.lower() == ".npz" else read_mat(path)
    label = asked.label if asked.label in contents else None
    if asked.label is None:
        usual = [name for name in contents if name.lower() in USUAL_LABELS]
        label = usual[0] if len(usual) == 1 else None
    features = asked.features if asked.features in contents else _features_name(contents, label)
    matrix = contents[features]
    if matrix.dtype.kind not in "fiub" or matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"{features!r} must be a matrix of numbers, a row per sample; it is {_shape_and_type(matrix)}")
    vectors = {name: array for name, array in contents.items() if name != features and _is_vector(array)}
    if label is not None:
        labels, plain = contents[label], _vector(contents[label])
        if plain is None or plain.dtype.kind not in "fiubU":
            raise ValueError(f"{label!r} must hold one integer or string per sample; it is {_shape_and_type(labels)}")
        if labels.size not in matrix.shape:
            raise ValueError(f"{features!r} is {_shape_and_type(matrix)}, but {label!r} holds {labels.size} labels")
        vectors.pop(CLASSES if label != CLASSES else "", None)
    lengths = {vectors[name].size for name in (vectors if label is None else [label])}
    if len(matrix) not in lengths and matrix.shape[1] in lengths:  # samples in columns
        matrix = matrix.T
    fitting = {name: _vector(array) for name, array in vectors.items() if array.size == len(matrix)}
    beside = {(asked.column if name == label else None) or name: v for name, v in fitting.items() if v is not None}
    names = _vector(contents[CLASSES]) if CLASSES in contents and label != CLASSES else None
    classes = () if names is None else tuple(map(str, names.tolist()))
    return Arrays(matrix, beside, ArrayNames(features, label, asked.column), classes)


def _features_name(contents: Mapping[str, Array], label: str | None) -> str:
    """The array with a usual name for features, or else the only matrix of numbers."""
    others = {name: array for name, array in contents.items() if name != label}
    usual = [name for name in others if name.lower() in USUAL_FEATURES]
    matrices = [name for name, array in others.items() if array.ndim == 2 and array.dtype.kind in "fiub"]
    for names in (usual, [name for name in matrices if min(contents[name].shape) > 1]):
        if len(names) == 1:
            return names[0]
    held = listed(f"{name} ({_shape_and_type(array)})" for name, array in contents.items())
    raise ValueError(f"which array holds the features cannot be told: call it X, or pass --features. It holds {held}")


def _is_vector(array: Array) -> bool:
    return array.ndim > 0 and array.size == max(array.shape)


def _vector(array: Array) -> Array | None:
    """A vector of numbers, dates or text, which MATLAB has in cells too; None if it is none."""
    if not _is_vector(array):
        return None
    if array.dtype == object:
        entries = [np.ravel(entry) for entry in array.ravel()]  # each an array of one string
        if any(len(entry) > 1 or entry.dtype == object for entry in entries):
            return None
        array = np.array([entry[0] if len(entry) else "" for entry in entries])
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind == "U":
        return np.char.strip(array.ravel())
    return array.ravel() if array.dtype.kind in "fiubmM" else None


def _shape_and_type(array: Array) -> str:
    if array.dtype == object and not array.ndim:
        return "not a plain array, so not read"
    return " x ".join(map(str, array.shape or (1,))) + (" text" if array.dtype.kind in "SU" else f" {array.dtype}")
