"""A new table, read in batches: columns are matched by name and encoded, and rows get the name of their domain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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


class RowRange(NamedTuple):
    """Consecutive rows of a file: in `frame` if they were read already, otherwise to be read from the file."""

    name: str  # of the file, without its ending
    file: Path
    rows_before: int  # number of rows before these, in all files
    frame: pl.DataFrame | None = None
    first: int = 0  # position in the file of the first row, if there is no frame
    height: int = 0


class NewRows(NamedTuple):
    """A batch of encoded rows. The domain is None if all rows of the table are of one domain without a name."""

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
            is_domain_per_file = domain is None and is_folder_or_pattern(data) and not are_parts
        else:
            self._frame = _to_frame(data, schema)
            files = [(IN_MEMORY_NAME, Path(IN_MEMORY_NAME))]
            are_parts = False
            is_domain_per_file = False
            if not has_columns(data):  # an array is encoded already, so that its levels are numbers
                schema = replace(schema, columns=tuple(Column(name, "numeric") for name in schema.feature_names))
        self.schema = schema
        self.domain = domain
        self._is_domain_per_file = is_domain_per_file
        kept = [] if keep is None or keep == "all" else list(keep)
        required = kept if domain is None else [domain, *kept]
        types: list[dict[str, Any]] = []  # of the columns of each file
        heights: list[int] = []
        for _, file in files:
            file_types, height = self._inspect(file, required)
            types.append(file_types)
            heights.append(height)
        if keep == "all":  # except columns of lists, records or raw bytes
            kept = [name for name in types[0] if all(name in each and is_readable(each[name]) for each in types)]
        self._all_columns = [frozenset(each) for each in types]
        is_labeled = [schema.label in each and is_readable(each[schema.label]) for each in types]
        self._label = schema.label if all(is_labeled) else None
        self._keep = {name: _common_type(types, name) for name in kept}
        other_columns = [name for name in (domain, self._label, *self._keep) if name is not None]
        self._columns = list(dict.fromkeys([*schema.feature_names, *other_columns]))
        self.absent = self._absent_features(files, types)  # features that some files lack, in plain values
        self._size = min(size, choose_batch_size(len(self._columns)))
        self._files = [(name, file.absolute(), height) for (name, file), height in zip(files, heights, strict=True)]
        self._columns_of_file = {  # the columns to read from each file
            file.absolute(): [name for name in self._columns if name in each]
            for (_, file), each in zip(files, types, strict=True)
        }
        self.notices = list(dict.fromkeys(self._make_notices(are_parts, is_labeled, types)))
        self.rows = sum(heights)
        if not self.rows:
            raise TableError(["it holds no rows."], source=str(data) if is_path(data) else IN_MEMORY_NAME)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_frame": None}  # workers receive rows of the frame in each `RowRange`

    def _inspect(self, file: Path, required: Sequence[str]) -> tuple[dict[str, Any], int]:
        """Return the types of the columns and the number of rows of a file; raise if it lacks required columns."""
        lazy: pl.LazyFrame = scan(file) if self._frame is None else self._frame.lazy()
        types: dict[str, Any] = dict(lazy.collect_schema())
        self.schema.check_columns(types, file.name)
        problems = [format_unknown_column(name, types) for name in required if name not in types]
        if problems:
            raise TableError(problems, source=file.name)
        with translate_read_errors(file, all_exceptions=True):
            return types, int(lazy.select(pl.len()).collect().item())

    def _absent_features(
        self, files: Sequence[tuple[str, Path]], types: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """List features that some files lack: the names of these files if there are several, and a similar column."""
        absent: dict[str, dict[str, Any]] = {}
        used = set(self._columns)
        for (_, file), file_types in zip(files, types, strict=True):
            unused = [name for name in file_types if name not in used]
            for name in self.schema.find_absent(file_types):
                entry: dict[str, Any] = {"column": name, "files": [], "similar": find_similar_column(name, unused)}
                entry = absent.setdefault(name, entry)
                if len(files) > 1:
                    entry["files"].append(file.name)
        return list(absent.values())

    def _make_notices(
        self, are_parts: bool, is_labeled: list[bool], types: Sequence[Mapping[str, Any]]
    ) -> Iterator[str]:
        """Yield a sentence for each assumption, and for the columns of each file that are not used."""
        schema = self.schema
        used = set(self._columns)
        if are_parts and self.domain is None:
            yield (
                f"The {len(types):,} files are named like parts of one table, and read as one domain. Set domain to "
                "the name of a column to distinguish domains."
            )
        if any(is_labeled) and not all(is_labeled):
            yield (
                f"{format_count(sum(is_labeled), 'file')} of {len(types):,} with labels, in the column "
                f"{schema.label!r}: predictions are compared with labels only if all files have them."
            )
        for (_, file, _), file_types in zip(self._files, types, strict=True):
            unused = [name for name in schema.check_columns(file_types, file.name) if name not in used]
            if unused:
                names = format_list(unused, 5, quote=False)
                yield f"{format_count(len(unused), 'column')} of {file.name} not used: {names}."
            if self.domain is None and schema.domain in file_types:
                yield (
                    f"The column {schema.domain!r} named the domains in training; here it is ignored. Set "
                    f"the parameter domain to {schema.domain} to distinguish domains."
                )

    def has_column(self, name: str) -> bool:
        """Whether all files have a column."""
        return all(name in names for names in self._all_columns)

    @property
    def splits_domains(self) -> bool:
        """Whether rows of one domain may be in different batches."""
        if len(self._files) > 1 and not self._is_domain_per_file:
            return True
        return max(height for *_, height in self._files) > self._size

    def row_ranges(self) -> Iterator[RowRange]:
        """Yield all rows in order. Rows of Parquet files are not read yet; other files can only be read in order."""
        rows_before = 0
        # A whole number of batches, so that batches are the same wherever a range is read.
        step = self._size * max(1, VALUES_PER_PART // len(self._columns) // self._size)
        for name, file, height in self._files:
            if self._frame is None and get_file_ending(file) == ".parquet":
                for first in range(0, height, step):
                    yield RowRange(name, file, rows_before + first, first=first, height=min(step, height - first))
                rows_before += height
                continue
            if self._frame is None:
                frames = iter_file_batches(file, self._columns_of_file[file], self._size)
            else:
                frames = self._frame.iter_slices(self._size)
            for frame in frames:
                yield RowRange(name, file, rows_before, frame)
                rows_before += frame.height

    def batches(self, row_range: RowRange) -> Iterator[NewRows]:
        """Yield the rows of a range in order, in batches."""
        if row_range.frame is not None:
            frames: Iterable[Any] = [row_range.frame]
        else:
            columns = self._columns_of_file[row_range.file]
            frames = iter_file_batches(row_range.file, columns, self._size, row_range.first, row_range.height)
        rows_before = row_range.rows_before
        for frame in frames:
            if not frame.height:
                continue
            with translate_read_errors(row_range.file):
                X = self.schema.encode(frame)
                domain = self._get_domains(frame, row_range, rows_before)
                new_levels = self.schema.find_new_levels(frame, X)
                labels = None if self._label is None else frame[self._label]
                kept = frame.select([frame[name].cast(kind) for name, kind in self._keep.items()])
            yield NewRows(X, domain, new_levels, labels, kept)
            rows_before += frame.height

    def _get_domains(self, frame: Any, row_range: RowRange, rows_before: int) -> Labels | None:
        if self.domain is None:
            return np.full(frame.height, row_range.name) if self._is_domain_per_file else None
        labels = as_text(frame[self.domain])
        is_missing = labels.is_null().to_numpy()
        if is_missing.any():
            first = rows_before + int(is_missing.argmax()) + 1
            problem = f"column {self.domain!r} names no domain for some rows, first for row {first:,}."
            raise TableError([problem], source=row_range.file.name)
        check_name_lengths(labels, self.domain)
        return np.asarray(labels).astype(str)

    def read(self) -> tuple[Array, Labels | None, dict[str, NewValues]]:
        """Read all rows: encoded samples, the domain of each, and by column levels that training did not have."""
        batches = [batch for row_range in self.row_ranges() for batch in self.batches(row_range)]
        X = np.concatenate([batch.X for batch in batches])
        domains = [batch.domain for batch in batches if batch.domain is not None]
        domain = np.concatenate(domains) if domains else None
        new_levels: dict[str, NewValues] = reduce(merge_moments, [batch.new_levels for batch in batches], {})
        return X, domain, new_levels


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
            "data must be a path, a DataFrame of pandas or polars, a dict, a list of dicts, a structured array, or an "
            f"array of encoded numbers; got {type(data).__name__}."
        ) from error


def _common_type(types: Sequence[Mapping[str, Any]], name: str) -> Any:
    """Return the type of a column in all files; text if they differ, since the output has one type for each column."""
    kinds = {file_types[name] for file_types in types}
    if not all(map(is_readable, kinds)):
        raise TableError([f"column {name!r} cannot be kept: it holds lists, records or raw bytes, not values."])
    return kinds.pop() if len(kinds) == 1 else pl.String
