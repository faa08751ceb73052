"""Files of named arrays: MATLAB's, old and new, and NumPy's."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from ..citizen import optional_import
from ..labels import Labels as Array
from ._mat_tags import check_mat_tags

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Stands for what is in a file but is not an array of numbers or text: a structure, or a pickled Python object.
NOT_AN_ARRAY = np.empty((), dtype=object)


def read_npz(path: Path) -> dict[str, Array]:
    """Arrays of an .npz file; pickled objects are never loaded, since loading one can run any code."""
    with path.open("rb") as stream:
        file = np.load(stream, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ValueError("it is a single array, not an archive of named ones; write it with numpy.savez")
        arrays = {}
        for name in file.files:
            try:
                arrays[name] = file[name]
            except ValueError as error:
                if "pickle" not in str(error):
                    raise
                arrays[name] = NOT_AN_ARRAY
        return arrays


def read_mat(path: Path) -> dict[str, Array]:
    """Variables of a .mat file of any version, shaped as MATLAB shows them."""
    with path.open("rb") as file:
        start = file.read(520)
    if HDF5_SIGNATURE in (start[:8], start[512:]):  # version 7.3, behind a header (or none, if not by MATLAB)
        return _read_mat_73(path)
    from scipy.io import loadmat
    from scipy.sparse import issparse

    check_mat_tags(path.read_bytes())
    options = {"spmatrix": False} if "spmatrix" in signature(loadmat).parameters else {}  # older SciPy has no choice
    variables = {name: value for name, value in loadmat(path, **options).items() if not name.startswith("__")}
    for matrix in filter(issparse, variables.values()):
        matrix.check_format(full_check=True)  # indices beyond the matrix would be written to anyway
    return {name: value.toarray() if issparse(value) else np.asarray(value) for name, value in variables.items()}


def _read_mat_73(path: Path) -> dict[str, Array]:
    h5py = optional_import("h5py", f"Reading {path.name}, a MATLAB file of version 7.3,")
    with h5py.File(path, "r") as file:
        return {
            name: _variable(file, item) if isinstance(item, h5py.Dataset) else NOT_AN_ARRAY
            for name, item in file.items()
            if not name.startswith("#")  # where MATLAB keeps what cells refer to
        }


def _variable(file: Any, dataset: Any) -> Array:
    """One variable: MATLAB stores columns first, so what it wrote reads transposed; text is stored as numbers."""
    kind, value = _matlab_class(dataset), np.asarray(dataset[()])
    if not kind:  # not written by MATLAB: rows come first
        return value
    if "MATLAB_empty" in dataset.attrs:
        return np.empty(tuple(int(length) for length in value.ravel()))
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
