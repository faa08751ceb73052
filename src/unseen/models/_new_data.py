"""A new table, read in batches: columns are matched by name and encoded, and rows get the name of their domain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..linalg import Array, merge_moments
from ..tables import (
    Column,
    NewValues,
    Schema,
    TableError,
    are_part_names,
    as_frame,
    as_text,
    check_name_lengths,
    choose_batch_size,
    find_similar_column,
    format_count,
    format_unknown_column,
    get_file_ending,
    has_columns,
    is_folder_or_pattern,
    is_path,
    is_readable,
    iter_file_batches,
    list_files,
    scan,
    translate_read_errors,
)
from ..utils.validation import Labels, format_list

VALUES_PER_PART = 1_000_000  # of a Parquet file: reading them takes some tenths of a second
IN_MEMORY_NAME = "The new table"  # name of a DataFrame or an array in messages, in place of a file name


class NewFile(NamedTuple):
    """A file of a new table."""

    name: str  # without its ending
    path: Path
    types: dict[str, Any]  # of its columns
    height: int


class RowRange(NamedTuple):
    """Consecutive rows of a file: in `frame` if they were read already, otherwise to be read from the file."""

    file: NewFile
    rows_before: int  # number of rows before these, in all files
    frame: pl.DataFrame | None = None
    first: int = 0  # position in the file of the first row, if there is no frame
    height: int = 0


class NewRows(NamedTuple):
    """Encoded rows. The domain is None if all rows of the table are of one domain without a name."""

    X: Array
    domain: Labels | None
    new_levels: dict[str, NewValues]  # by column, levels that training did not have
    labels: pl.Series | None  # true labels, if the table has them
    kept: pl.DataFrame  # columns to copy to the output


class NewTable:
    """A table to predict: one file, several files, or a DataFrame or an array in memory.

    Several files are domains, or parts of one table. The columns of the schema are found by name; an array must have
    one column for each, encoded as in training. `keep` names columns to copy to the output, or is "all" for the columns
    that all files have. `notices` lists the columns that are not used.
    """

    def __init__(
        self, data: Any, schema: Schema, domain: str | None, size: int, keep: Sequence[str] | None = None
    ) -> None:
        if is_path(data):
            self._frame: Any = None
            files = list_files(data)
            are_parts = are_part_names(name for name, _ in files)
            self._is_domain_per_file = domain is None and is_folder_or_pattern(data) and not are_parts
        else:
            self._frame = _to_frame(data, schema)
            files = [(IN_MEMORY_NAME, Path(IN_MEMORY_NAME))]
            are_parts = False
            self._is_domain_per_file = False
            if not has_columns(data):  # an array is encoded already, so that its levels are numbers
                schema = replace(schema, columns=tuple(Column(name, "numeric") for name in schema.feature_names))
        self.schema = schema
        self.domain = domain
        kept = [] if keep is None or keep == "all" else list(keep)
        required = kept if domain is None else [domain, *kept]
        self._files = [self._inspect(name, file.absolute(), required) for name, file in files]
        self.rows = sum(file.height for file in self._files)
        if not self.rows:
            raise TableError(["it holds no rows."], source=str(data) if is_path(data) else IN_MEMORY_NAME)
        if keep == "all":  # except columns of lists, records or raw bytes
            kept = [name for name in self._files[0].types if self.has_column(name, readable=True)]
        self._label = schema.label if schema.label and self.has_column(schema.label, readable=True) else None
        self._keep = {name: self._common_type(name) for name in kept}
        other_columns = [name for name in (domain, self._label, *self._keep) if name is not None]
        self._columns = list(dict.fromkeys([*schema.feature_names, *other_columns]))
        self.absent = self._absent_features()  # features that some files lack, in plain values
        self._size = min(size, choose_batch_size(len(self._columns)))
        self.notices = list(dict.fromkeys(self._make_notices(are_parts)))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_frame": None}  # workers receive rows of the frame in each `RowRange`

    def _inspect(self, name: str, file: Path, required: Sequence[str]) -> NewFile:
        """Read the types of the columns and the number of rows of a file; raise if it lacks required columns."""
        lazy: pl.LazyFrame = scan(file) if self._frame is None else self._frame.lazy()
        types: dict[str, Any] = dict(lazy.collect_schema())
        self.schema.check_columns(types, file.name)
        problems = [format_unknown_column(name, types) for name in required if name not in types]
        if problems:
            raise TableError(problems, source=file.name)
        with translate_read_errors(file, all_exceptions=True):
            return NewFile(name, file, types, int(lazy.select(pl.len()).collect().item()))

    def _common_type(self, name: str) -> Any:
        """Return the type of a column in all files; text if they differ: the output has one type for each column."""
        kinds = {file.types[name] for file in self._files}
        if not all(map(is_readable, kinds)):
            raise TableError([f"column {name!r} cannot be kept: it holds lists, records or raw bytes, not values."])
        return kinds.pop() if len(kinds) == 1 else pl.String

    def _absent_features(self) -> list[dict[str, Any]]:
        """List features that some files lack: the names of these files if there are several, and a similar column."""
        absent: dict[str, dict[str, Any]] = {}
        for file in self._files:
            unused = [name for name in file.types if name not in self._columns]
            for name in self.schema.find_absent(file.types):
                entry: dict[str, Any] = {"column": name, "files": [], "similar": find_similar_column(name, unused)}
                entry = absent.setdefault(name, entry)
                if len(self._files) > 1:
                    entry["files"].append(file.path.name)
        return list(absent.values())

    def _make_notices(self, are_parts: bool) -> Iterator[str]:
        """Yield a sentence for each assumption, and for the columns of each file that are not used."""
        if are_parts and self.domain is None:
            yield (
                f"The {len(self._files):,} files are named like parts of one table, and read as one domain. Set domain "
                "to the name of a column to distinguish domains."
            )
        used = set(self._columns)
        for file in self._files:
            unused = [name for name in self.schema.check_columns(file.types, file.path.name) if name not in used]
            if unused:
                names = format_list(unused, 5, quote=False)
                yield f"{format_count(len(unused), 'column')} of {file.path.name} not used: {names}."
            if self.domain is None and self.schema.domain in file.types:
                yield (
                    f"The column {self.schema.domain!r} named the domains in training; here it is ignored. Set "
                    f"the parameter domain to {self.schema.domain} to distinguish domains."
                )

    def has_column(self, name: str, *, readable: bool = False) -> bool:
        """Whether all files have a column and, if `readable`, whether it holds values rather than lists or bytes."""
        return all(name in file.types and (not readable or is_readable(file.types[name])) for file in self._files)

    @property
    def splits_domains(self) -> bool:
        """Whether rows of one domain may be in different batches."""
        is_split = len(self._files) > 1 and not self._is_domain_per_file
        return is_split or max(file.height for file in self._files) > self._size

    def row_ranges(self) -> Iterator[RowRange]:
        """Yield all rows in order. Rows of Parquet files are not read yet; other files can only be read in order."""
        rows_before = 0
        # A whole number of batches, so that batches are the same wherever a range is read.
        step = self._size * max(1, VALUES_PER_PART // len(self._columns) // self._size)
        for file in self._files:
            if self._frame is None and get_file_ending(file.path) == ".parquet":
                for first in range(0, file.height, step):
                    yield RowRange(file, rows_before + first, first=first, height=min(step, file.height - first))
                rows_before += file.height
                continue
            frames = self._read_file(file) if self._frame is None else self._frame.iter_slices(self._size)
            for frame in frames:
                yield RowRange(file, rows_before, frame)
                rows_before += frame.height

    def _read_file(self, file: NewFile, *rows: int) -> Iterator[pl.DataFrame]:
        """Read the columns of a file in batches; of a Parquet file, `rows` are the first row and their number."""
        return iter_file_batches(file.path, [name for name in self._columns if name in file.types], self._size, *rows)

    def batches(self, row_range: RowRange) -> Iterator[NewRows]:
        """Yield the rows of a range in order, in batches."""
        if row_range.frame is not None:
            frames: Iterable[Any] = [row_range.frame]
        else:
            frames = self._read_file(row_range.file, row_range.first, row_range.height)
        rows_before = row_range.rows_before
        for frame in frames:
            if not frame.height:
                continue
            with translate_read_errors(row_range.file.path):
                X = self.schema.encode(frame)
                domain = self._get_domains(frame, row_range.file, rows_before)
                new_levels = self.schema.find_new_levels(frame, X)
                labels = None if self._label is None else frame[self._label]
                kept = frame.select([frame[name].cast(kind) for name, kind in self._keep.items()])
            yield NewRows(X, domain, new_levels, labels, kept)
            rows_before += frame.height

    def _get_domains(self, frame: Any, file: NewFile, rows_before: int) -> Labels | None:
        if self.domain is None:
            return np.full(frame.height, file.name) if self._is_domain_per_file else None
        labels = as_text(frame[self.domain])
        is_missing = labels.is_null().to_numpy()
        if is_missing.any():
            first = rows_before + int(is_missing.argmax()) + 1
            problem = f"column {self.domain!r} names no domain for some rows, first for row {first:,}."
            raise TableError([problem], source=file.path.name)
        check_name_lengths(labels, self.domain)
        return np.asarray(labels).astype(str)

    def read(self) -> NewRows:
        """Read all rows."""
        batches = [batch for row_range in self.row_ranges() for batch in self.batches(row_range)]
        X, domains, new_levels, labels, kept = zip(*batches, strict=True)
        return NewRows(
            np.concatenate(X),
            None if domains[0] is None else np.concatenate(domains),
            reduce(merge_moments, new_levels, {}),
            None if self._label is None else pl.concat([own.cast(self._common_type(self._label)) for own in labels]),
            pl.concat(kept),
        )


def _to_frame(data: Any, schema: Schema) -> Any:
    """Convert data with named columns, or an array with a column for each feature, to a frame."""
    if has_columns(data):
        return as_frame(data, IN_MEMORY_NAME)
    X = as_array(data)
    if X.ndim != 2 or X.shape[1] != len(schema.columns):
        raise ValueError(
            f"An array must have a row for each sample and {format_count(len(schema.columns), 'column')}, encoded as "
            f"in training; got the shape {X.shape}. Pass a DataFrame to match columns by name."
        )
    return as_frame(dict(zip(schema.feature_names, X.T, strict=True)), IN_MEMORY_NAME)


def as_array(data: Any) -> Array:
    """Convert samples that are encoded already to an array of floats."""
    try:
        return np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "data must be a path, a DataFrame of pandas or polars, a dict, a list of dicts, or an "
            f"array of encoded numbers; got {type(data).__name__}."
        ) from error
