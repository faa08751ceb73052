"""All rows of a table of any size: in pieces that are turned into statistics and added up, here or on a cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from sklearn.utils import gen_batches

from ..estimators import Projection, Statistics, collect, compute, total, tree
from ..kernels import Plan
from ..labels import Samples
from ..progress import progress
from ..tables import SurveyedTable, Table, loaded

BLOCK = 10_000  # rows of a table in memory that are prepared at a time

Advance = Callable[[int], None]  # told how many rows more are done


class Rows(Protocol):
    """Rows that come in parts, each of which can be read on its own, and anywhere."""

    @property
    def parts(self) -> Sequence[Any]:
        """What to ask `pieces` for."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    def pieces(self, part: Any) -> Iterator[Samples]:
        """The rows of a part, a few at a time."""


@dataclass(frozen=True)
class TableRows:
    """The rows of a table in memory."""

    table: Table

    @property
    def parts(self) -> list[slice]:
        """Blocks of rows."""
        return list(gen_batches(len(self.table.X), BLOCK))

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.table.X)

    def pieces(self, part: slice) -> Iterator[Samples]:
        """One block."""
        yield self.table.samples.take(part)


def rows_for(source: SurveyedTable | TableRows, plan: Plan, seed: int = 0) -> Table:
    """What a plan needs in memory: all rows, or a sample of them."""
    if isinstance(source, TableRows):
        return source.table
    return loaded(source, seed) if plan.exact else loaded(source.sampled(plan.sample_rows, seed))


@dataclass(frozen=True)
class Collector:
    """Turns the rows of a stream into the statistics of a projection; small enough to be sent to workers."""

    stream: Rows
    preparation: Any
    projection: Projection

    def __call__(self, part: Any, advance: Advance) -> Statistics | None:
        """Statistics of a part; None if no row of it is wanted."""
        found: Statistics | None = None
        for piece in self.stream.pieces(part):
            X = np.asarray(self.preparation.transform(piece.X), dtype=np.float64)
            found = total([found, collect(self.projection, X, piece.y, piece.domain)])
            advance(len(X))
        return found

    def collected(self, client: Any = None, verbose: int = 0) -> Statistics:
        """Statistics of all rows, read here or by the workers of a cluster."""
        with progress("Reading all rows", self.stream.rows, verbose) as advance:
            return self.here(advance) if client is None else self.on_cluster(advance, client)

    def here(self, advance: Advance) -> Statistics:
        """Read all parts, one after another."""
        found: Statistics | None = None
        for part in self.stream.parts:  # one at a time: each is as large as the square of the number of landmarks
            found = total([found, self(part, advance)])
        return _whole(found)

    def on_cluster(self, advance: Advance, client: Any) -> Statistics:
        """Have all parts read by workers, who tell how far they are, and add up in a tree."""
        topic = f"unseen-{uuid.uuid4()}"
        task = import_module("dask").delayed(partial(_worker, self, topic))
        client.subscribe_topic(topic, lambda event: advance(event[1]))
        try:
            return _whole(compute(tree([task(part) for part in self.stream.parts], total)))
        finally:
            client.unsubscribe_topic(topic)


def _worker(collector: Collector, topic: str, part: Any) -> Statistics | None:
    return collector(part, partial(import_module("distributed").get_worker().log_event, topic))


def _whole(found: Statistics | None) -> Statistics:
    if found is None:
        raise ValueError("There are no rows to fit on.")
    return found
