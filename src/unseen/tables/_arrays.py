"""Files of named arrays seen as tables: a matrix of features, and vectors beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..labels import Labels as Array
from ._domain_file import USUAL_FEATURES, checked_labels
from ._errors import listed
from ._read_arrays import read_mat, read_npz
from ._values import polars

if TYPE_CHECKING:
    import polars as pl

ARRAY_ENDINGS = (".npz", ".mat")


@dataclass(frozen=True)
class Arrays:
    """A matrix with a row per sample, and vectors with an entry per sample."""

    matrix: Array
    vectors: dict[str, Array]

    @property
    def height(self) -> int:
        """The number of samples."""
        return len(self.matrix)

    @property
    def names(self) -> list[str]:
        """The names of all columns: features are numbered."""
        return [*(f"feature_{i}" for i in range(self.matrix.shape[1])), *self.vectors]

    def frame(self, columns: Sequence[str] | None = None, rows: slice = slice(None)) -> pl.DataFrame:
        """Some of the rows, and some of the columns, as a frame."""
        pl = polars()
        features = pl.from_numpy(self.matrix[rows], schema=self.names[: self.matrix.shape[1]], orient="row")
        vectors = [pl.Series(name, vector[rows]) for name, vector in self.vectors.items()]
        frame = features.with_columns(vectors)
        return frame if columns is None else frame.select(columns)


def read_arrays(path: Path) -> Arrays:
    """The matrix of features of an .npz or .mat file, and every vector that is as long as it has samples."""
    contents = read_npz(path) if path.suffix.lower() == ".npz" else read_mat(path)
    name = _features_name(contents)
    matrix = contents[name]
    if matrix.dtype.kind not in "fiub" or matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"{name!r} must be a matrix of numbers, a row per sample; it is {matrix.dtype} {matrix.shape}")
    others = {other: array for other, array in contents.items() if other != name and _is_vector(array)}
    lengths = {array.size for array in others.values()}
    if len(matrix) not in lengths and matrix.shape[1] in lengths:  # samples in columns
        matrix = matrix.T
    vectors = {other: _plain(array, other) for other, array in others.items() if array.size == len(matrix)}
    return Arrays(matrix, vectors)


def _features_name(contents: Mapping[str, Array]) -> str:
    """The array with a usual name for features, or else the only matrix of numbers."""
    usual = [name for name in contents if name.lower() in {name.lower() for name in USUAL_FEATURES}]
    matrices = [name for name, array in contents.items() if array.ndim == 2 and array.dtype.kind in "fiub"]
    matrices = [name for name in matrices if min(contents[name].shape) > 1]
    for names in (usual, matrices):
        if len(names) == 1:
            return names[0]
    held = [f"{name} ({' x '.join(map(str, array.shape))})" for name, array in contents.items()]
    raise ValueError(f"which array holds the features cannot be told: call it X. It holds {listed(held)}")


def _is_vector(array: Array) -> bool:
    return array.ndim > 0 and array.size == max(array.shape)


def _plain(array: Array, name: str) -> Array:
    """A vector of numbers or text; MATLAB's cells of text, and bytes, become text."""
    return checked_labels(array, name) if array.dtype.kind in "OS" else array.ravel()
