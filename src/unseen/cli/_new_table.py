"""A new table read in pieces: columns matched by name, numbers encoded, domains named."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from rich.progress import Progress

from ..algebra import Array
from ..labels import Labels, listed
from ..tables import (
    NewValues,
    Schema,
    TableError,
    as_text,
    batch_size,
    counted,
    ending_of,
    file_batches,
    files,
    holds_several,
    is_readable,
    look_like_parts,
    scan,
    understanding,
    unknown_column,
)
from ._report import errors

MAX_DOMAINS = 1_000  # a column with more values than this numbers rows rather than naming places
PART_VALUES = 1_000_000  # of a Parquet file, read in one go: some tenths of a second


class Rows(NamedTuple):
    """Rows of a file that follow each other: read already, or to be read by whoever needs them."""

    name: str  # of the file, without its ending
    file: Path
    before: int  # rows of all files before these
    frame: pl.DataFrame | None = None
    first: int = 0  # row of the file, if there is no frame
    height: int = 0


class Piece(NamedTuple):
    """Some rows: encoded, and the domain of each; None where all rows are one nameless domain."""

    X: Array
    domain: Labels | None
    new: dict[str, NewValues]  # levels that training did not have, by column
    labels: pl.Series | None  # those that the table holds
    kept: pl.DataFrame  # columns for the output


@dataclass(frozen=True)
class Encoding:
    """How rows become numbers: small, so that it can be sent to wherever that is done."""

    schema: Schema
    domain: str | None  # the column that tells
    by_file: bool  # or each file is one
    label: str | None  # the column of labels, if there is one
    keep: dict[str, Any]  # columns for the output, and the type of each
    size: int  # rows of a piece

    @property
    def columns(self) -> list[str]:
        """What is read of a file."""
        others = [name for name in (self.domain, self.label, *self.keep) if name is not None]
        return list(dict.fromkeys([*self.schema.feature_names, *others]))

    def pieces(self, rows: Rows) -> Iterator[Piece]:
        """Rows in their order, a few at a time."""
        before = rows.before
        for frame in self._frames(rows):
            if frame.is_empty():
                continue
            with understanding(rows.file):
                X = self.schema.encode(frame)
                domain, new = self._domains(frame, rows, before), self.schema.new_levels(frame, X)
                labels = None if self.label is None else frame[self.label]
                kept = frame.select(pl.col(name).cast(kind) for name, kind in self.keep.items())
                piece = Piece(X, domain, new, labels, kept)
            yield piece
            before += frame.height

    def _frames(self, rows: Rows) -> Iterable[pl.DataFrame]:
        if rows.frame is not None:
            return [rows.frame]
        return file_batches(rows.file, self.columns, self.size, rows.first, rows.height)

    def _domains(self, frame: pl.DataFrame, rows: Rows, before: int) -> Labels | None:
        if self.domain is None:
            return np.full(frame.height, rows.name) if self.by_file else None
        labels = as_text(frame[self.domain])
        if labels.null_count():
            first = before + int(labels.is_null().arg_max() or 0) + 1
            raise TableError(
                [f"column {self.domain!r} names no domain for some rows, first for row {first:,}."],
                source=rows.file.name,
            )
        return labels.to_numpy().astype(str)


class NewTable:
    """A file, or several, each a domain or all of them parts of one table, with the columns of a schema."""

    def __init__(
        self, path: Path, schema: Schema, domain: str | None, size: int, keep: Sequence[str] | None = None
    ) -> None:
        """Open the files; `keep` names columns for the output, None all that the files have in common."""
        self.notices: list[str] = []
        found = files(path)
        parts = look_like_parts(name for name, _ in found)
        if parts and domain is None:
            self._notice(
                f"The {len(found):,} files are called like parts of one table, and read as one domain. Pass "
                "--domain to name a column that tells domains apart."
            )
        by_file = domain is None and holds_several(path) and not parts
        asked = [name for name in (domain, *(keep or ())) if name is not None]
        opened = [_opened(file, schema, asked) for _, file in found]
        types = [types for types, _ in opened]
        kept = _in_all(types) if keep is None else {name: _common(types, name) for name in keep}
        wide = Encoding(schema, domain, by_file, self._label(schema.label, types), kept, size)
        self.encoding = replace(wide, size=min(size, batch_size(len(wide.columns))))
        for (_, file), columns in zip(found, types, strict=True):
            self._about(file, list(columns))
        self._files = [(name, file.absolute(), height) for (name, file), (_, height) in zip(found, opened, strict=True)]
        self.rows = sum(height for *_, height in self._files)
        if not self.rows:
            raise TableError(["it holds no rows."], source=str(path))

    def _label(self, label: str | None, types: Sequence[Mapping[str, Any]]) -> str | None:
        """The column of labels, if all files have it, and values in it."""
        having = [label is not None and label in columns and is_readable(columns[label]) for columns in types]
        if any(having) and not all(having):
            self._notice(
                f"{counted(sum(having), 'file')} of {len(having):,} with labels, in the column {label!r}: predictions "
                "are compared with labels only where all files have them."
            )
        return label if all(having) else None

    def _about(self, file: Path, names: list[str]) -> None:
        """Say which columns of a file play no part."""
        schema, used = self.encoding.schema, set(self.encoding.columns)
        extra = [name for name in schema.match(names, file.name) if name not in used]
        if extra:
            self._notice(f"{counted(len(extra), 'column')} of {file.name} not used: {listed(extra, 5, quote=False)}.")
        if self.encoding.domain is None and schema.domain in names:
            self._notice(
                f"The column {schema.domain!r} named the domains in training; here it is ignored. Pass "
                f"--domain {schema.domain} to tell domains apart."
            )

    def _notice(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)

    @property
    def names_domains(self) -> bool:
        """Whether rows come with the name of their domain: a column, or the file in a folder."""
        return self.encoding.domain is not None or self.encoding.by_file

    def parts(self) -> Iterator[Rows]:
        """All rows in order. Those of Parquet files are left to be read; others cannot be entered in the middle."""
        columns, size, before = self.encoding.columns, self.encoding.size, 0
        step = size * max(1, PART_VALUES // len(columns) // size)  # whole pieces: the same wherever they are read
        for name, file, height in self._files:
            if ending_of(file) == ".parquet":
                for first in range(0, height, step):
                    yield Rows(name, file, before + first, first=first, height=min(step, height - first))
                before += height
            else:
                for frame in file_batches(file, columns, size):
                    yield Rows(name, file, before, frame)
                    before += frame.height


def _opened(file: Path, schema: Schema, asked: Sequence[str]) -> tuple[dict[str, Any], int]:
    """The types of the columns of a file that has all that is needed and asked for, and its number of rows."""
    frame = scan(file)
    types = dict(frame.collect_schema())
    schema.match(types, file.name)
    problems = [unknown_column(name, types) for name in asked if name not in types]
    if problems:
        raise TableError(problems, source=file.name)
    return types, int(frame.select(pl.len()).collect().item())


def _in_all(types: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns that all files have, but for those that hold lists, records or raw bytes."""
    names = [name for name in types[0] if all(name in columns and is_readable(columns[name]) for columns in types)]
    return {name: _common(types, name) for name in names}


def _common(types: Sequence[Mapping[str, Any]], name: str) -> Any:
    """The type of a column in all files; text where they do not agree, since an output has one for each column."""
    kinds = {columns[name] for columns in types}
    if not all(map(is_readable, kinds)):
        raise TableError([f"column {name!r} cannot be kept: it holds lists, records or raw bytes, not values."])
    return kinds.pop() if len(kinds) == 1 else pl.String


class RowProgress:
    """A bar on a terminal; in a log a line every few seconds, so that short jobs say nothing."""

    def __init__(self, description: str, total: int) -> None:
        self.description, self.total, self.done = description, total, 0
        self.said = time.monotonic()
        self.bar = Progress(console=errors, transient=True) if sys.stderr.isatty() else None

    def __enter__(self) -> RowProgress:
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task(self.description, total=self.total)
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, rows: int) -> None:
        self.done = min(self.done + rows, self.total)  # a worker that was lost may have told of its rows before
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done)
        elif time.monotonic() - self.said > 5:
            self.said = time.monotonic()
            errors.print(f"{self.description}: {self.done:,} of {self.total:,} rows")
