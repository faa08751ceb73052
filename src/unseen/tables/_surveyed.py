"""A table that has been looked through but not read: rows are drawn from it, and come in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algebra import Ints
from ..labels import Samples, quota
from ._coding import Coding
from ._errors import TableError, understanding
from ._files import file_batches
from ._schema import Schema
from ._survey import Cell, Part, batch_size, count_cells, sum_cells

Draw = dict[Cell, Ints]  # which rows of each cell, counted from 0 through all files, in order


@dataclass(frozen=True)
class SurveyedTable:
    """What the first pass over a table found, and which of its rows are wanted.

    Nothing in it grows with the number of rows but the draw, if there is one. It is small enough to be sent to workers,
    who read `pieces` of a part each.
    """

    name: str
    schema: Schema
    notices: list[str]
    parts: list[Part]
    cells: dict[Cell, int]
    label_coding: Coding
    domain_coding: Coding
    labels: NDArray[Any]  # of each number, less one
    domains: NDArray[np.str_]
    class_names: dict[str, tuple[str, ...]]  # by file, where it gives them
    single: bool  # whether the files hold all features in single precision
    draw: Draw | None = None

    @property
    def counts(self) -> Ints:
        """The number of wanted rows of each domain with each label, in the order of their numbers."""
        cells = self.cells if self.draw is None else {cell: len(rows) for cell, rows in self.draw.items()}
        return sum_cells(cells, len(self.domains), np.arange(len(self.labels)))

    @property
    def rows(self) -> int:
        """The number of wanted rows."""
        return int(self.counts.sum())

    def domain_rows(self) -> dict[str, int]:
        """The number of wanted rows of each domain."""
        return _totals(self.domains, self.counts.sum(axis=1))

    def class_rows(self) -> dict[Any, int]:
        """The number of wanted rows of each class."""
        return _totals(self.labels, self.counts.sum(axis=0))

    def thinned(self, limit: int, seed: int) -> SurveyedTable:
        """At most so many rows of each domain, at random, of all its classes."""
        drawn = self._drawn(quota(self.counts, most=limit), seed)
        text = f"Drew at most {limit:,} rows of each domain: {drawn.rows:,} of {self.rows:,}."
        return replace(drawn, notices=[*self.notices, text])

    def sampled(self, total: int, seed: int) -> SurveyedTable:
        """So many rows in all, the same number of each domain as far as it has them, of all its classes."""
        return self if self.rows <= total else self._drawn(quota(self.counts, total=total), seed)

    def _drawn(self, wanted: Ints, seed: int) -> SurveyedTable:
        random, counts, draw = np.random.default_rng(seed), self.counts, {}
        for domain, label in self.cells:
            rows, size = counts[domain - 1, label - 1], wanted[domain - 1, label - 1]
            chosen = np.sort(random.choice(rows, size, replace=False)) if size < rows else np.arange(rows)
            draw[domain, label] = chosen if self.draw is None else self.draw[domain, label][chosen]
        return replace(self, draw=draw)

    def pieces(self, part: Part) -> Iterator[Samples]:
        """The wanted rows of a part, in their order, a few at a time."""
        return (piece for piece, _ in self._placed_pieces(part))

    def _placed_pieces(self, part: Part) -> Iterator[tuple[Samples, Ints]]:
        """The same, with the places of the rows, counted from 0 through all files."""
        before, start, classes = dict(part.before), part.start, np.unique(self.labels)
        columns = [*self.schema.feature_names, self.label_coding.column, self.domain_coding.column]
        names = list(dict.fromkeys(name for name in columns if name is not None))
        for frame in file_batches(part.path, names, batch_size(len(names)), part.first, part.rows, part.names):
            with understanding(part.path):
                counting, kept = self.label_coding.counting(frame)
                rows = start + kept
                start += frame.height
                labels = self.label_coding.codes(counting)
                domains = self.domain_coding.codes(counting, part.domain)
                if self.draw is not None and counting.height:
                    wanted = self._wanted(domains, labels, before)
                    counting, rows = counting.filter(wanted), rows[wanted]
                    domains, labels = domains[wanted], labels[wanted]
                X = self.schema.encode(counting) if counting.height else None
            if X is not None:
                yield Samples(X, self.labels[labels - 1], self.domains[domains - 1], classes), rows

    def _wanted(self, domains: Ints, labels: Ints, before: dict[Cell, int]) -> NDArray[np.bool_]:
        """Which rows were drawn; `before` counts those of each cell that have gone by, and goes on counting."""
        wanted = np.zeros(len(domains), dtype=bool)
        for cell, count in count_cells(domains, labels):
            first = before.get(cell, 0)
            drawn = (self.draw or {}).get(cell, np.empty(0, dtype=np.intp))
            here = drawn[np.searchsorted(drawn, first) : np.searchsorted(drawn, first + count)] - first
            if len(here):
                wanted[np.flatnonzero((domains == cell[0]) & (labels == cell[1]))[here]] = True
            before[cell] = first + count
        return wanted

    def read(self) -> tuple[Samples, Ints]:
        """All wanted rows at once, and their places, counted from 0 through all files."""
        X = np.empty((self.rows, len(self.schema.columns)))
        y, domain = np.empty(len(X), dtype=self.labels.dtype), np.empty(len(X), dtype=self.domains.dtype)
        places, filled = np.empty(len(X), dtype=np.intp), 0
        for part in self.parts:
            for piece, rows in self._placed_pieces(part):
                here = slice(filled, filled + len(rows))
                X[here], y[here], domain[here], places[here] = piece.X, piece.y, piece.domain, rows
                filled += len(rows)
        if filled != len(X):
            raise TableError([f"it had {len(X):,} rows and now has {filled:,}. Begin again."], source=self.name)
        return Samples(X, y, domain), places


def _totals(names: NDArray[Any], rows: Ints) -> dict[Any, int]:
    """How many rows each different name has, sorted, of those that have any."""
    different, codes = np.unique(names, return_inverse=True)
    totals = np.bincount(codes, weights=rows).astype(int).tolist()
    return {name: total for name, total in zip(different.tolist(), totals, strict=True) if total}
