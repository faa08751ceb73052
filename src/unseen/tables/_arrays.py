"""Files of named arrays (.npz, .mat) as tables: a matrix of features, and vectors such as labels and domains."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any
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


def read_arrays(path: Path) -> pl.DataFrame:
    """Read the matrix of features of an .npz or .mat file, and every vector with one entry per sample, as columns.

    Samples may be rows or columns of the matrix: the number of labels determines which or, without labels, the length
    of any vector; if both match, samples are rows.
    """
    contents = read_npz(path) if path.suffix.lower() == ".npz" else read_mat(path)
    # Older versions of polars require the native byte order.
    contents = {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in contents.items()}
    features = _find_features(contents)
    matrix = contents[features]
    if matrix.dtype.kind not in "fiub" or matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"{features!r} must be a matrix of numbers, a row per sample; it is {_shape_and_type(matrix)}")
    vectors = {name: _as_vector(array) for name, array in contents.items() if name != features}
    labels = [name for name in vectors if name.lower() in USUAL_LABELS]
    for name in labels:
        vector = vectors[name]
        if vector is None or len(vector) not in matrix.shape:
            raise ValueError(
                f"{name!r} must hold one integer or string per sample of {features!r}, which is "
                f"{_shape_and_type(matrix)}; it is {_shape_and_type(contents[name])}"
            )
    lengths = {len(vector) for name in (labels or vectors) if (vector := vectors[name]) is not None}
    if len(matrix) not in lengths and matrix.shape[1] in lengths:  # samples are columns
        matrix = matrix.T
    frame = pl.from_numpy(matrix, schema=[f"feature_{i}" for i in range(matrix.shape[1])], orient="row")
    return frame.with_columns(
        pl.Series(name, vector) for name, vector in vectors.items() if vector is not None and len(vector) == len(matrix)
    )


def _find_features(contents: Mapping[str, Array]) -> str:
    """Find the array with a usual name for features, or else the only matrix of numbers."""
    usual = [name for name in contents if name.lower() in USUAL_FEATURES]
    numbers = {name: array for name, array in contents.items() if array.dtype.kind in "fiub"}
    matrices = [name for name, array in numbers.items() if array.ndim == 2 and min(array.shape) > 1]
    for names in (usual, matrices):
        if len(names) == 1:
            return names[0]
    arrays = format_list(f"{name} ({_shape_and_type(array)})" for name, array in contents.items())
    raise ValueError(f"it is not clear which array holds the features. Name it X. The arrays are {arrays}")


def _as_vector(array: Array) -> Array | None:
    """Convert an array to a vector of numbers, dates or text, also from MATLAB cells; None if it is not a vector."""
    if not array.ndim or array.size != max(array.shape):
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
