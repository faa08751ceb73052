"""A table that has been looked through but not read: rows are drawn from it, and come in pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algebra import Array, Ints
from ._checks import cell_problems
from ._coding import Coding
from ._errors import TableError, understanding
from ._files import file_batches
from ._schema import Schema
from ._survey import Cell, Part, batch_size, count_cells

if TYPE_CHECKING:
    import polars as pl

Draw = dict[Cell, Ints]  # which rows of each cell, counted from 0 through all files, in order


class Piece(NamedTuple):
    """Some rows: encoded, with their labels and domains."""

    X: Array
    y: NDArray[Any]
    domain: NDArray[np.str_]


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
    cell_frame: pl.DataFrame = field(repr=False)
    draw: Draw | None = None

    @property
    def counts(self) -> dict[Cell, int]:
        """The number of wanted rows in each cell."""
        return self.cells if self.draw is None else {cell: len(rows) for cell, rows in self.draw.items()}

    @property
    def rows(self) -> int:
        """The number of wanted rows."""
        return sum(self.counts.values())

    def sizes(self) -> dict[int, int]:
        """The number of wanted rows of each domain, by its number."""
        sizes = dict.fromkeys((domain for domain, _ in self.counts), 0)
        for (domain, _), rows in self.counts.items():
            sizes[domain] += rows
        return sizes

    def domain_rows(self) -> dict[str, int]:
        """The number of wanted rows of each domain, by its name."""
        return dict(sorted((str(self.domains[number - 1]), rows) for number, rows in self.sizes().items()))

    def class_rows(self) -> dict[Any, int]:
        """The number of wanted rows of each class."""
        totals: Counter[Any] = Counter()
        for (_, label), rows in self.counts.items():
            totals[self.labels[label - 1].item()] += rows
        return dict(sorted(totals.items()))

    def thinned(self, limit: int, seed: int) -> SurveyedTable:
        """At most so many rows of each domain, at random. A domain is refused if it loses a class by that."""
        random = np.random.default_rng(seed)
        wanted: dict[Cell, int] = {}
        for domain, size in sorted(self.sizes().items(), key=lambda entry: self.domains[entry[0] - 1]):
            cells = {cell: rows for cell, rows in self.counts.items() if cell[0] == domain}
            drawn = list(cells.values())
            if size > limit:  # as many of each class as come with rows drawn regardless of class
                drawn = random.multivariate_hypergeometric(drawn, limit, method="marginals").tolist()
            wanted |= dict(zip(cells, drawn, strict=True))
        frame = self.cell_frame.with_columns(rows=np.array([wanted[cell] for cell in self.cells], dtype=np.int64))
        lost = cell_problems(frame, advice=f" Or draw more rows than {limit} from each.")
        if lost:
            raise TableError(lost, source=self.name)
        text = f"Drew at most {limit:,} rows of each domain: {sum(wanted.values()):,} of {self.rows:,}."
        return replace(self._drawn(wanted, random), notices=[*self.notices, text])

    def sampled(self, total: int, seed: int) -> SurveyedTable:
        """About so many rows in all, the same number of each domain as far as it has them, with its class proportions.

        No cell is lost, however small: the sample has two rows of it, or all that there are.
        """
        if self.rows <= total:
            return self
        sizes = self.sizes()
        share = level(list(sizes.values()), total)
        kept = {domain: min(1.0, share / size) for domain, size in sizes.items()}
        wanted = {cell: max(round(kept[cell[0]] * rows), min(2, rows)) for cell, rows in self.counts.items()}
        return self._drawn(wanted, np.random.default_rng(seed))

    def _drawn(self, wanted: dict[Cell, int], random: np.random.Generator) -> SurveyedTable:
        draw = {}
        for cell, rows in self.counts.items():
            chosen = (
                np.sort(random.choice(rows, wanted[cell], replace=False)) if wanted[cell] < rows else np.arange(rows)
            )
            draw[cell] = chosen if self.draw is None else self.draw[cell][chosen]
        return replace(self, draw=draw)

    def pieces(self, part: Part) -> Iterator[Piece]:
        """The wanted rows of a part, in their order, a few at a time."""
        for piece, _ in self._placed_pieces(part):
            yield piece

    def _placed_pieces(self, part: Part) -> Iterator[tuple[Piece, Ints]]:
        """The same, with the places of the rows, counted from 0 through all files."""
        before, start = dict(part.before), part.start
        columns = [*self.schema.feature_names, self.label_coding.column, self.domain_coding.column]
        names = list(dict.fromkeys(name for name in columns if name is not None))
        for frame in file_batches(part.path, names, batch_size(len(names)), part.first, part.rows):
            with understanding(part.path):
                counting, kept = self.label_coding.counting(frame)
                rows = start + kept
                start += frame.height
                labels = _codes(counting, self.label_coding, 0)
                domains = _codes(counting, self.domain_coding, part.domain)
                if self.draw is not None and counting.height:
                    wanted = self._wanted(domains, labels, before)
                    counting, rows = counting.filter(wanted), rows[wanted]
                    domains, labels = domains[wanted], labels[wanted]
                X = self.schema.encode(counting) if counting.height else None
            if X is not None:
                yield Piece(X, self.labels[labels - 1], self.domains[domains - 1]), rows

    def _wanted(self, domains: Ints, labels: Ints, before: dict[Cell, int]) -> NDArray[np.bool_]:
        """Which rows were drawn; `before` counts those of each cell that have gone by, and goes on counting."""
        wanted = np.zeros(len(domains), dtype=bool)
        for cell, count in count_cells(domains, labels):
            first = before.get(cell, 0)
            drawn = self.draw[cell] if self.draw is not None and cell in self.draw else np.empty(0, dtype=np.intp)
            here = drawn[np.searchsorted(drawn, first) : np.searchsorted(drawn, first + count)] - first
            if len(here):
                wanted[np.flatnonzero((domains == cell[0]) & (labels == cell[1]))[here]] = True
            before[cell] = first + count
        return wanted

    def read(self) -> tuple[Piece, Ints]:
        """All wanted rows at once, and their places, counted from 0 through all files."""
        X = np.empty((self.rows, len(self.schema.columns)))
        y, domain = np.empty(len(X), dtype=self.labels.dtype), np.empty(len(X), dtype=self.domains.dtype)
        places = np.empty(len(X), dtype=np.intp)
        filled = 0
        for part in self.parts:
            for piece, rows in self._placed_pieces(part):
                here = slice(filled, filled + len(rows))
                X[here], y[here], domain[here] = piece
                places[here] = rows
                filled += len(rows)
        if filled != len(X):
            raise TableError([f"it had {len(X):,} rows and now has {filled:,}. Begin again."], source=self.name)
        return Piece(X, y, domain), places


def _codes(frame: pl.DataFrame, coding: Coding, otherwise: int) -> Ints:
    return np.full(frame.height, otherwise) if coding.column is None else coding.codes(frame[coding.column])


def level(sizes: Sequence[int], total: int) -> int:
    """The most rows of each domain such that all have at most so many together."""
    rest = total
    for i, size in enumerate(sorted(sizes)):
        share = rest // (len(sizes) - i)
        if size > share:
            return share
        rest -= size
    return max(sizes)
