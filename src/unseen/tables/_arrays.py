"""Files of named arrays seen as tables: a matrix of features, and vectors beside it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy_format

from ..utils.io import check_inflation
from ..utils.optional_imports import optional_import
from ..utils.validation import Labels as Array
from ..utils.validation import format_list
from ._values import import_polars

if TYPE_CHECKING:
    import polars as pl

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Stands for what is in a file but is not an array of numbers or text: a structure, or a pickled Python object.
NOT_AN_ARRAY = np.empty((), dtype=object)
# Later versions of NumPy's format are for records alone.
HEADER_READERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
# What SciPy says when it goes on with something else than what is there.
DISTORTING_WARNINGS = (
    "(Duplicate|Unreadable) variable|We do not support byte ordering|invalid value encountered in cast"
)
SPARSE_INDEX_BYTES = 8  # bytes of the place of a value in a sparse matrix
MAX_SPARSE_RATIO = 1000  # how much larger a sparse matrix may become when its zeros are written out


def read_npz(path: Path) -> dict[str, Array]:
    """Arrays of an .npz file; pickled objects are never loaded, since loading one can run any code."""
    with path.open("rb") as stream:
        if stream.read(len(npy_format.MAGIC_PREFIX)) == npy_format.MAGIC_PREFIX:
            raise ValueError("it is a single array, not an archive of named ones; write it with numpy.savez")
        with ZipFile(stream) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            check_inflation(size, path.stat().st_size, "write them with numpy.savez.")
            return {member.filename.removesuffix(".npy"): _npz_array(archive, member) for member in members}


def _npz_array(archive: ZipFile, member: ZipInfo) -> Array:
    """One array; NumPy would make room for whatever its header says before it looks whether that is there."""
    with archive.open(member) as file:
        start = file.read(len(npy_format.MAGIC_PREFIX))
    if start != npy_format.MAGIC_PREFIX:
        return NOT_AN_ARRAY
    with archive.open(member) as file:
        read_header = HEADER_READERS.get(npy_format.read_magic(file))
        if read_header is None:
            return NOT_AN_ARRAY
        shape, _, dtype = read_header(file)
        there, count = member.file_size - file.tell(), math.prod(shape)
    if dtype.hasobject:
        return NOT_AN_ARRAY
    if min(shape, default=0) < 0 or count * dtype.itemsize > there or (count and not dtype.itemsize):
        raise ValueError(f"{member.filename} says that it holds {shape} of {dtype}, but it has {there:,} bytes")
    with archive.open(member) as file:
        return np.asarray(npy_format.read_array(file, allow_pickle=False))


def read_mat(path: Path) -> dict[str, Array]:
    """Variables of a .mat file of any version, shaped as MATLAB shows them."""
    with path.open("rb") as file:
        start = file.read(520)
    if HDF5_SIGNATURE in (start[:8], start[512:]):  # version 7.3, behind a header (or none, if not by MATLAB)
        return _read_mat_73(path)
    from scipy.io import loadmat
    from scipy.sparse import issparse

    options = {"spmatrix": False} if "spmatrix" in signature(loadmat).parameters else {}  # older SciPy has no choice
    with warnings.catch_warnings():  # of what it leaves out, or puts in the place of something else
        warnings.filterwarnings("error", DISTORTING_WARNINGS)
        try:
            loaded = loadmat(path, **options)
        except MemoryError as error:  # SciPy allocates what a header declares before it reads the values
            raise ValueError("it declares more values than fit into memory; it may be damaged") from error
    variables = {name: value for name, value in loaded.items() if not name.startswith("__")}
    for matrix in filter(issparse, variables.values()):
        if matrix.format == "csc":  # not of version 4, whose indices SciPy checks
            matrix.check_format(full_check=True)  # indices beyond the matrix would be written to anyway
            if np.diff(matrix.indptr).min(initial=0) < 0:  # which SciPy does not look at if there are no values
                raise ValueError("it is damaged: a column of a sparse matrix ends before it begins")
        stored = matrix.nnz * (matrix.dtype.itemsize + SPARSE_INDEX_BYTES)
        size = math.prod(matrix.shape) * matrix.dtype.itemsize
        check_inflation(size, stored, "save the matrix as a full one.", MAX_SPARSE_RATIO)
    return {name: value.toarray() if issparse(value) else np.asarray(value) for name, value in variables.items()}


def _read_mat_73(path: Path) -> dict[str, Array]:
    h5py = optional_import("h5py", f"Reading {path.name}, a MATLAB file of version 7.3,")
    with h5py.File(path, "r") as file:
        # What begins with # is where MATLAB keeps what cells refer to; what lies in other files is not read.
        names = [name for name in file if not name.startswith("#")]
        own = [name for name in names if not isinstance(file.get(name, getlink=True), h5py.ExternalLink)]
        found = {name: file[name] for name in own if isinstance(file[name], h5py.Dataset)}
        size = sum(_room(dataset) for dataset in found.values())
        check_inflation(size, path.stat().st_size, "save it with '-nocompression'.")
        return {name: _variable(file, found[name]) if name in found else NOT_AN_ARRAY for name in names}


def _room(dataset: Any) -> int:
    """Bytes that it takes to read a variable, which need not have been written for a file to tell of them."""
    if dataset.external or dataset.is_virtual:
        raise ValueError(f"{dataset.name!r} lies in another file; save it whole")
    return max(dataset.nbytes, math.prod(dataset.chunks or ()) * dataset.dtype.itemsize)


def _variable(file: Any, dataset: Any) -> Array:
    """One variable: MATLAB stores columns first, so what it wrote reads transposed; text is stored as numbers."""
    kind, value = _matlab_class(dataset), np.asarray(dataset[()])
    if not kind:  # not written by MATLAB: rows come first
        return value
    if "MATLAB_empty" in dataset.attrs:
        shape = tuple(int(length) for length in value.ravel())
        if math.prod(shape):
            raise ValueError(f"{dataset.name!r} is called empty, but it is {' x '.join(map(str, shape))}")
        return np.empty(shape)
    if kind == "cell":
        return np.array([_cell_text(file[reference]) for reference in value.T.ravel()])
    return _rows_as_text(value.T) if kind == "char" else value.T


def _matlab_class(dataset: Any) -> str:
    name = dataset.attrs.get("MATLAB_class", "")
    return name if isinstance(name, str) else bytes(name).decode()


def _cell_text(dataset: Any) -> str:
    if _matlab_class(dataset) != "char":
        raise ValueError("it holds a cell array of something other than text")
    return "" if "MATLAB_empty" in dataset.attrs else str(_rows_as_text(np.asarray(dataset[()]).T)[0])


def _rows_as_text(characters: Array) -> Array:
    return np.array(["".join(map(chr, row)) for row in characters])


ARRAY_ENDINGS = (".npz", ".mat")
USUAL_FEATURES = frozenset({"x", "data", "features", "feas", "fts"})  # whatever their case
USUAL_LABELS = frozenset({"y", "label", "labels", "gt"})
CLASS_NAMES_ARRAY = "classes"  # the array that names the classes


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
        pl, names = import_polars(), [f"feature_{i}" for i in range(self.matrix.shape[1])]
        features = pl.from_numpy(self.matrix[rows], schema=names, orient="row")
        return features.with_columns(pl.Series(name, vector[rows]) for name, vector in self.vectors.items())


def read_arrays(path: Path, asked: ArrayNames | None = None) -> Arrays:
    """The matrix of features of an .npz or .mat file, and every vector that is as long as it has samples.

    Samples may be rows or columns of the matrix: the number of labels tells or, without labels, the length of any
    vector; rows win if both fit.
    """
    asked = asked or ArrayNames()
    contents = read_npz(path) if path.suffix.lower() == ".npz" else read_mat(path)
    # In the machine's own order of bytes, which is all that older polars takes.
    contents = {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in contents.items()}
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
        vectors.pop(CLASS_NAMES_ARRAY if label != CLASS_NAMES_ARRAY else "", None)
    lengths = {vectors[name].size for name in (vectors if label is None else [label])}
    if len(matrix) not in lengths and matrix.shape[1] in lengths:  # samples in columns
        matrix = matrix.T
    fitting = {name: _vector(array) for name, array in vectors.items() if array.size == len(matrix)}
    beside = {(asked.column if name == label else None) or name: v for name, v in fitting.items() if v is not None}
    names = (
        _vector(contents[CLASS_NAMES_ARRAY]) if CLASS_NAMES_ARRAY in contents and label != CLASS_NAMES_ARRAY else None
    )
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
    held = format_list(f"{name} ({_shape_and_type(array)})" for name, array in contents.items())
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
