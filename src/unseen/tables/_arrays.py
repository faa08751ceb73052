"""Files of named arrays (.npz, .mat) as tables: a matrix of features, and vectors such as labels and domains."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
import polars as pl
from numpy.lib import format as npy_format

from ..utils.io import check_inflation
from ..utils.validation import Labels as Array
from ..utils.validation import format_list

# Placeholder for content that is not an array of numbers or text: a structure, or a pickled Python object.
NOT_AN_ARRAY = np.empty((), dtype=object)
TOO_LARGE = "it declares more values than fit into memory; it may be damaged"
# Warnings of SciPy after which the loaded arrays differ from the content of the file.
DISTORTING_WARNINGS = (
    "(Duplicate|Unreadable) variable|We do not support byte ordering|invalid value encountered in cast"
)
SPARSE_INDEX_BYTES = 8  # of the position of a value in a sparse matrix
MAX_SPARSE_RATIO = 1000  # of the size of a dense matrix to that of the sparse matrix in a file


def read_npz(path: Path) -> dict[str, Array]:
    """Read the arrays of an .npz file; pickled objects are never loaded, since loading one can run any code."""
    with path.open("rb") as stream:
        if stream.read(len(npy_format.MAGIC_PREFIX)) == npy_format.MAGIC_PREFIX:
            raise ValueError("it is a single array, not an archive of named arrays; write it with numpy.savez")
    with ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    check_inflation(size, path.stat().st_size, "write them with numpy.savez.")
    with np.load(path, allow_pickle=False) as arrays:
        return {name: _read_npz_array(arrays, name) for name in arrays.files}


def _read_npz_array(arrays: Any, name: str) -> Array:
    try:
        with np.errstate(invalid="ignore"):  # of a damaged shape
            value = arrays[name]
    except MemoryError as error:  # NumPy allocates the size in a header before it reads the values
        raise ValueError(TOO_LARGE) from error
    except ValueError as error:
        if "Object arrays" in str(error):
            return NOT_AN_ARRAY
        raise
    return value if isinstance(value, np.ndarray) and value.dtype.names is None else NOT_AN_ARRAY


def read_mat(path: Path) -> dict[str, Array]:
    """Read the variables of a .mat file, in the shapes that MATLAB shows."""
    from scipy.io import loadmat
    from scipy.sparse import issparse

    # Older versions of SciPy do not have the parameter spmatrix.
    load = partial(loadmat, spmatrix=False) if "spmatrix" in signature(loadmat).parameters else loadmat
    with warnings.catch_warnings():
        warnings.filterwarnings("error", DISTORTING_WARNINGS)
        try:
            loaded = load(path)
        except NotImplementedError as error:
            raise ValueError("it is a MATLAB file of version 7.3. Save it with '-v7', or as a table") from error
        except MemoryError as error:  # SciPy allocates the size in a header before it reads the values
            raise ValueError(TOO_LARGE) from error
    variables = {name: value for name, value in loaded.items() if not name.startswith("__")}
    for matrix in filter(issparse, variables.values()):
        if matrix.format == "csc":  # matrices of version 4 are not, and SciPy checks their indices
            matrix.check_format(full_check=True)  # otherwise toarray writes outside of its memory
            if np.diff(matrix.indptr).min(initial=0) < 0:  # which SciPy does not check if there are no values
                raise ValueError("it is damaged: a column of a sparse matrix ends before it begins")
        stored = matrix.nnz * (matrix.dtype.itemsize + SPARSE_INDEX_BYTES)
        size = math.prod(matrix.shape) * matrix.dtype.itemsize
        check_inflation(size, stored, "save the matrix as a full matrix.", MAX_SPARSE_RATIO)
    return {name: value.toarray() if issparse(value) else np.asarray(value) for name, value in variables.items()}


ARRAY_ENDINGS = (".npz", ".mat")
# Usual names of the arrays, in lower case.
USUAL_FEATURES = frozenset({"x", "data", "features", "feas", "fts"})
USUAL_LABELS = frozenset({"y", "label", "labels", "gt"})
CLASS_NAMES_ARRAY = "classes"  # the array with the names of the classes


class ArrayNames(NamedTuple):
    """Names of the arrays that hold features and labels; None to recognize them by usual names."""

    features: str | None = None
    label: str | None = None
    label_column: str | None = None  # name of the label column; None for the name of the array


@dataclass(frozen=True)
class Arrays:
    """A matrix with a row per sample, and vectors with an entry per sample."""

    matrix: Array
    vectors: dict[str, Array]
    names: ArrayNames  # of the arrays that were read
    classes: tuple[str, ...] = ()  # names of the classes, if the file has them

    def to_frame(self, rows: slice = slice(None)) -> pl.DataFrame:
        """Convert rows to a frame, in which features are numbered."""
        names = [f"feature_{i}" for i in range(self.matrix.shape[1])]
        features = pl.from_numpy(self.matrix[rows], schema=names, orient="row")
        return features.with_columns(pl.Series(name, vector[rows]) for name, vector in self.vectors.items())


def read_arrays(path: Path, requested: ArrayNames | None = None) -> Arrays:
    """Read the matrix of features of an .npz or .mat file, and every vector with one entry per sample.

    Samples may be rows or columns of the matrix: the number of labels determines which or, without labels, the length
    of any vector; if both match, samples are rows.
    """
    requested = requested or ArrayNames()
    contents = read_npz(path) if path.suffix.lower() == ".npz" else read_mat(path)
    # Older versions of polars require the native byte order.
    contents = {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in contents.items()}
    label = requested.label if requested.label in contents else None
    if requested.label is None:
        usual = [name for name in contents if name.lower() in USUAL_LABELS]
        label = usual[0] if len(usual) == 1 else None
    features = requested.features if requested.features in contents else _find_features(contents, label)
    matrix = contents[features]
    if matrix.dtype.kind not in "fiub" or matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"{features!r} must be a matrix of numbers, a row per sample; it is {_shape_and_type(matrix)}")
    has_class_names = CLASS_NAMES_ARRAY in contents and label != CLASS_NAMES_ARRAY
    vectors = {name: array for name, array in contents.items() if name != features and _is_vector(array)}
    if label is not None:
        labels = contents[label]
        label_vector = _as_vector(labels)
        if label_vector is None or label_vector.dtype.kind not in "fiubU":
            raise ValueError(f"{label!r} must hold one integer or string per sample; it is {_shape_and_type(labels)}")
        if labels.size not in matrix.shape:
            raise ValueError(f"{features!r} is {_shape_and_type(matrix)}, but {label!r} holds {labels.size} labels")
        if has_class_names:
            vectors.pop(CLASS_NAMES_ARRAY, None)
    lengths = {vectors[name].size for name in (vectors if label is None else [label])}
    if len(matrix) not in lengths and matrix.shape[1] in lengths:  # samples are columns
        matrix = matrix.T
    columns = {}
    for name, array in vectors.items():
        vector = _as_vector(array) if array.size == len(matrix) else None
        if vector is not None:
            column_name = requested.label_column if name == label else None
            columns[column_name or name] = vector
    class_names = _as_vector(contents[CLASS_NAMES_ARRAY]) if has_class_names else None
    classes = () if class_names is None else tuple(map(str, class_names.tolist()))
    return Arrays(matrix, columns, ArrayNames(features, label, requested.label_column), classes)


def _find_features(contents: Mapping[str, Array], label: str | None) -> str:
    """Find the array with a usual name for features, or else the only matrix of numbers."""
    others = {name: array for name, array in contents.items() if name != label}
    usual = [name for name in others if name.lower() in USUAL_FEATURES]
    matrices = [name for name, array in others.items() if array.ndim == 2 and array.dtype.kind in "fiub"]
    for names in (usual, [name for name in matrices if min(contents[name].shape) > 1]):
        if len(names) == 1:
            return names[0]
    arrays = format_list(f"{name} ({_shape_and_type(array)})" for name, array in contents.items())
    raise ValueError(
        "it is not clear which array holds the features. Name it X, or set the parameter features. The arrays are "
        f"{arrays}"
    )


def _is_vector(array: Array) -> bool:
    return array.ndim > 0 and array.size == max(array.shape)


def _as_vector(array: Array) -> Array | None:
    """Convert an array to a vector of numbers, dates or text, also from MATLAB cells; None if it is not a vector."""
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
