"""A new table read in pieces: columns matched by name, numbers encoded, domains named."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from rich.progress import Progress

from ..cells import Array, Ints
from ..labels import Labels
from ..tables import Schema, TableError, batches, files, scan
from ..tables._errors import counted, understanding, unknown_column
from ..tables._find import holds_several, look_like_parts
from ..tables._survey import batch_size
from ..tables._values import as_text
from ._report import errors

MAX_DOMAINS = 1_000  # a column with more values than this numbers rows rather than naming places


class Piece(NamedTuple):
    """Some rows: encoded, and the domain of each; None where all rows are one nameless domain."""

    X: Array
    domain: Labels | None


@dataclass
class NewTable:
    """A file, or several, each a domain or all of them parts of one table, with the columns of a schema."""

    path: Path
    schema: Schema
    domain: str | None
    size: int
    notices: list[str] = field(default_factory=list)
    rows: int = 0
    missing: Ints = field(init=False)  # values of each feature, in the rows that have come by

    def __post_init__(self) -> None:
        self._files = files(self.path)
        parts = look_like_parts(name for name, _ in self._files)
        self._by_file = self.domain is None and holds_several(self.path) and not parts
        if parts and self.domain is None:
            self._notice(
                f"The {len(self._files):,} files are called like parts of one table, and read as one domain. Pass "
                "--domain to name a column that tells domains apart."
            )
        for _, file in self._files:
            frame = scan(file)
            names = frame.collect_schema().names()
            extra = [name for name in self.schema.match(names, file.name) if name != self.domain]
            if self.domain is not None and self.domain not in names:
                raise TableError([unknown_column(self.domain, names)], source=file.name)
            if extra:
                self._notice(f"{counted(len(extra), 'column')} of {file.name} not used: {_shortened(extra)}.")
            if self.domain is None and self.schema.domain in names:
                self._notice(
                    f"The column {self.schema.domain!r} named the domains in training; here it is ignored. Pass "
                    f"--domain {self.schema.domain} to tell domains apart."
                )
            self.rows += int(frame.select(pl.len()).collect().item())
        if not self.rows:
            raise TableError(["it holds no rows."], source=str(self.path))

    def _notice(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)

    @property
    def names_domains(self) -> bool:
        """Whether rows come with the name of their domain: a column, or the file in a folder."""
        return self.domain is not None or self._by_file

    def pieces(self, description: str) -> Iterator[Piece]:
        """All rows in order, with progress on standard error."""
        done, self.missing = 0, np.zeros(len(self.schema.columns), dtype=np.intp)
        columns = list(dict.fromkeys([*self.schema.feature_names, *([self.domain] if self.domain else [])]))
        size = min(self.size, batch_size(len(columns)))
        with RowProgress(description, self.rows) as advance:
            for name, file in self._files:
                for frame in batches(file, columns, size):
                    if frame.is_empty():
                        continue
                    with understanding(file):
                        piece = Piece(self.schema.encode(frame), self._domains(frame, name, file, done))
                    self.missing += np.isnan(piece.X).sum(axis=0)
                    yield piece
                    done += frame.height
                    advance(frame.height)

    def _domains(self, frame: pl.DataFrame, name: str, file: Path, before: int) -> Labels | None:
        if self.domain is None:
            return np.full(frame.height, name) if self._by_file else None
        labels = as_text(frame[self.domain])
        if labels.null_count():
            first = before + int(labels.is_null().arg_max() or 0) + 1
            raise TableError(
                [f"column {self.domain!r} names no domain for some rows, first for row {first:,}."], source=file.name
            )
        return labels.to_numpy().astype(str)


def _shortened(names: list[str], shown: int = 5) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


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
