"""A new table read in pieces: columns matched by name, numbers encoded, domains named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

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
from ..utils.optional_imports import optional_import
from ..utils.validation import Labels, format_list

if TYPE_CHECKING:
    import polars as pl

VALUES_PER_PART = 1_000_000  # of a Parquet file, read in one go: some tenths of a second
MAX_ROWS_IN_MEMORY = Path("The new table")  # what a frame or an array is called


class RowRange(NamedTuple):
    """Rows of a file that follow each other: read already, or to be read by whoever needs them."""

    name: str  # of the file, without its ending
    file: Path
    before: int  # rows of all files before these
    frame: pl.DataFrame | None = None
    first: int = 0  # row of the file, if there is no frame
    height: int = 0


class NewRows(NamedTuple):
    """Some rows: encoded, and the domain of each; None where all rows are one nameless domain."""

    X: Array
    domain: Labels | None
    new: dict[str, NewValues]  # levels that training did not have, by column
    labels: pl.Series | None  # those that the table holds
    kept: pl.DataFrame  # columns for the output


class NewTable:
    """A file, or several, each a domain or all of them parts of one table; or a frame or an array in memory.

    It has the columns of a schema, which are found by name; an array has as many, encoded already. `keep` names columns
    for the output, or is "all" for those that all files have. What plays no part is in `notices`.
    """

    def __init__(
        self, data: Any, schema: Schema, domain: str | None, size: int, keep: Sequence[str] | None = None
    ) -> None:
        self._frame, found, parts, several = None, [(MAX_ROWS_IN_MEMORY.name, MAX_ROWS_IN_MEMORY)], False, False
        if is_path(data):
            found, several = list_files(data), is_folder_or_pattern(data)
            parts = are_part_names(name for name, _ in found)
        else:
            self._frame = _frame_of(data, schema)
            if not has_columns(data):  # encoded already: what levels became are numbers like others
                schema = replace(schema, columns=tuple(Column(name, "numeric") for name in schema.feature_names))
        self.schema, self.domain, self._by_file = schema, domain, domain is None and several and not parts
        asked = [] if keep is None or keep == "all" else list(keep)
        needed = asked if domain is None else [domain, *asked]
        opened = [self._opened(file, needed) for _, file in found]
        types = [types for types, _ in opened]
        if keep == "all":  # but for columns of lists, records or raw bytes
            asked = [name for name in types[0] if all(name in own and is_readable(own[name]) for own in types)]
        labeled = [schema.label in columns and is_readable(columns[schema.label]) for columns in types]
        self._label = schema.label if all(labeled) else None
        self._keep = {name: _common(types, name) for name in asked}
        others = [name for name in (domain, self._label, *self._keep) if name is not None]
        self._columns = list(dict.fromkeys([*schema.feature_names, *others]))
        self.absent = self._absent(found, types)  # features that some files lack, in plain values
        self._size = min(size, choose_batch_size(len(self._columns)))
        self._files = [(name, file.absolute(), height) for (name, file), (_, height) in zip(found, opened, strict=True)]
        self._held = {  # of the columns that are read, those that a file has
            file.absolute(): [name for name in self._columns if name in columns]
            for (_, file), columns in zip(found, types, strict=True)
        }
        self.notices = list(dict.fromkeys(self._said(parts, labeled, types)))
        self.rows = sum(height for *_, height in self._files)
        if not self.rows:
            raise TableError(["it holds no rows."], source=str(data) if is_path(data) else MAX_ROWS_IN_MEMORY.name)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_frame": None}  # whoever it is sent to gets the rows, some at a time

    def _opened(self, file: Path, asked: Sequence[str]) -> tuple[dict[str, Any], int]:
        """The types of the columns of a file that has all that is needed and asked for, and its number of rows."""
        import polars as pl

        lazy = scan(file) if self._frame is None else self._frame.lazy()
        types = dict(lazy.collect_schema())
        self.schema.check_columns(types, file.name)
        problems = [format_unknown_column(name, types) for name in asked if name not in types]
        if problems:
            raise TableError(problems, source=file.name)
        with translate_read_errors(file, all_exceptions=True):
            return types, int(lazy.select(pl.len()).collect().item())

    def _absent(self, found: Sequence[tuple[str, Path]], types: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Features that some files lack: the names of these files if there are several, and a similar column."""
        absent: dict[str, dict[str, Any]] = {}
        for (_, file), columns in zip(found, types, strict=True):
            unused = [name for name in columns if name not in self._columns]
            for name in self.schema.find_absent(columns):
                entry: dict[str, Any] = {"column": name, "files": [], "similar": find_similar_column(name, unused)}
                absent.setdefault(name, entry)["files"] += [file.name] if len(found) > 1 else []
        return list(absent.values())

    def _said(self, parts: bool, labeled: list[bool], types: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What was assumed, and which columns of which file play no part."""
        schema, used = self.schema, set(self._columns)
        if parts and self.domain is None:
            yield (
                f"The {len(types):,} files are called like parts of one table, and read as one domain. Pass "
                "--domain to name a column that tells domains apart."
            )
        if any(labeled) and not all(labeled):
            yield (
                f"{format_count(sum(labeled), 'file')} of {len(types):,} with labels, in the column {schema.label!r}: "
                "predictions are compared with labels only where all files have them."
            )
        for (_, file, _), columns in zip(self._files, types, strict=True):
            extra = [name for name in schema.check_columns(columns, file.name) if name not in used]
            if extra:
                names = format_list(extra, 5, quote=False)
                yield f"{format_count(len(extra), 'column')} of {file.name} not used: {names}."
            if self.domain is None and schema.domain in columns:
                yield (
                    f"The column {schema.domain!r} named the domains in training; here it is ignored. Pass "
                    f"--domain {schema.domain} to tell domains apart."
                )

    @property
    def is_parted(self) -> bool:
        """Whether rows of one domain may be read at different times."""
        return (len(self._files) > 1 and not self._by_file) or max(n for *_, n in self._files) > self._size

    def parts(self) -> Iterator[RowRange]:
        """All rows in order. Those of Parquet files are left to be read; others cannot be entered in the middle."""
        size, before = self._size, 0
        step = size * max(
            1, VALUES_PER_PART // len(self._columns) // size
        )  # whole pieces: the same wherever they are read
        for name, file, height in self._files:
            if self._frame is None and get_file_ending(file) == ".parquet":
                for first in range(0, height, step):
                    yield RowRange(name, file, before + first, first=first, height=min(step, height - first))
                before += height
                continue
            held = self._held[file]
            frames = iter_file_batches(file, held, size) if self._frame is None else self._frame.iter_slices(size)
            for frame in frames:
                yield RowRange(name, file, before, frame)
                before += frame.height

    def pieces(self, rows: RowRange) -> Iterator[NewRows]:
        """Rows in their order, a few at a time."""
        before, held = rows.before, None if rows.frame is None else [rows.frame]
        columns = self._held[rows.file]
        for frame in held or iter_file_batches(rows.file, columns, self._size, rows.first, rows.height):
            if frame.is_empty():
                continue
            with translate_read_errors(rows.file):
                X = self.schema.encode(frame)
                domain, new = self._domains(frame, rows, before), self.schema.find_new_levels(frame, X)
                labels = None if self._label is None else frame[self._label]
                kept = frame.select([frame[name].cast(kind) for name, kind in self._keep.items()])
            yield NewRows(X, domain, new, labels, kept)
            before += frame.height

    def _domains(self, frame: pl.DataFrame, rows: RowRange, before: int) -> Labels | None:
        if self.domain is None:
            return np.full(frame.height, rows.name) if self._by_file else None
        labels = as_text(frame[self.domain])
        if labels.null_count():
            first = before + int(labels.is_null().arg_max() or 0) + 1
            problem = f"column {self.domain!r} names no domain for some rows, first for row {first:,}."
            raise TableError([problem], source=rows.file.name)
        check_name_lengths(labels, self.domain)
        return labels.to_numpy().astype(str)

    def whole(self) -> tuple[Array, Labels | None, dict[str, NewValues]]:
        """All rows at once, encoded, the domain of each, and levels that training did not have, by column."""
        pieces = [piece for rows in self.parts() for piece in self.pieces(rows)]
        named = [piece.domain for piece in pieces if piece.domain is not None]
        new: dict[str, NewValues] = reduce(merge_moments, [piece.new for piece in pieces], {})
        return np.concatenate([piece.X for piece in pieces]), np.concatenate(named) if named else None, new


def _frame_of(data: Any, schema: Schema) -> pl.DataFrame:
    """Data with named columns, or an array with a column for each feature, as polars has them."""
    if has_columns(data):
        return as_frame(data, MAX_ROWS_IN_MEMORY.name)
    pl = optional_import("polars", "Predicting a table")
    X = as_array(data)
    if X.ndim != 2 or X.shape[1] != len(schema.columns):
        raise ValueError(
            f"An array must have a row for each sample and {format_count(len(schema.columns), 'column')}, encoded as "
            "in "
            f"training; got the shape {X.shape}. Pass a frame to have columns found by name."
        )
    return pl.from_numpy(X, schema=schema.feature_names, orient="row")


def as_array(data: Any) -> Array:
    """Samples that are encoded already."""
    try:
        return np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "data must be a path, a DataFrame of pandas or polars, a dict, a list of dicts, a structured array, or an "
            f"array of encoded numbers; got {type(data).__name__}."
        ) from error


def _common(types: Sequence[Mapping[str, Any]], name: str) -> Any:
    """The type of a column in all files; text where they do not agree, since an output has one for each column."""
    import polars as pl

    kinds = {columns[name] for columns in types}
    if not all(map(is_readable, kinds)):
        raise TableError([f"column {name!r} cannot be kept: it holds lists, records or raw bytes, not values."])
    return kinds.pop() if len(kinds) == 1 else pl.String
