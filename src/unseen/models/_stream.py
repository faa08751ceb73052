"""From a table of any size to a fitted model: a sample chooses, the stream fits.

A few rows choose the method and its settings, which are multiples of the data's own scales and do not depend on how
many rows there are. A larger sample gives the scales, the landmarks and the training rows of the classifier. Then a
projection sees all rows, in pieces that are turned into statistics and added up, here or by workers of a Dask cluster.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from sklearn.utils import gen_batches

from ..estimators import Projection, Statistics, collect_statistics, compute, total, tree
from ..kernels import Plan
from ..labels import Samples
from ..tables import Piece, Table
from ._fit import TableFit, choose_on, fit_by_plan

BLOCK = 10_000  # rows of a table in memory that are prepared at a time

Advance = Callable[[int], None]  # told how many rows more are done
Progress = Callable[[str, int], AbstractContextManager[Advance]]  # a description, and how many rows there are


class Rows(Protocol):
    """Rows that come in parts, each of which can be read on its own, and anywhere."""

    @property
    def parts(self) -> Sequence[Any]:
        """What to ask `pieces` for."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    def pieces(self, part: Any) -> Iterator[Piece]:
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

    def pieces(self, part: slice) -> Iterator[Piece]:
        """One block."""
        yield Piece(self.table.X[part], self.table.y[part], self.table.domain[part])


def fit_stream(
    stream: Rows,
    sample: Table,
    method: str = "auto",
    *,
    scale: str = "standardize",
    inductive: bool = False,
    components: int | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    progress: Progress | None = None,
    client: Any = None,
) -> TableFit:
    """Choose on a part of a sample, and fit on all rows that the chosen model can take.

    Parameters
    ----------
    stream : Rows
        All rows.
    sample : Table
        Some of them: for scales, novelty, landmarks, and to train the classifier.
    method, scale, inductive, seed, n_jobs, verbose
        As for :func:`unseen.models.fit_table`.
    components : int, default=None
        Number of landmarks; None stands for 1000, or fewer if they miss next to nothing of the kernel.
    progress : callable, default=None
        Called with a description and the number of rows before the stream is read. Returns a context manager that gives
        a function, to be told how many rows more are done.
    client : dask.distributed.Client, default=None
        Where the stream is read; None means here.

    Returns
    -------
    fit : TableFit
        Model, choice and scores. The scores are those of the part that the choice was made on.

    Examples
    --------
    >>> from unseen.models import TableRows, fit_stream, part_of
    >>> from unseen.datasets import embedded
    >>> table = embedded()
    >>> fit = fit_stream(TableRows(table), part_of(table, 240, seed=0), "KFDA", scale="l2", components=50)
    >>> fit.stream["projection_rows"], fit.stream["landmarks"]
    (1797, 50)
    """
    if components is not None and components < 1:
        raise ValueError(f"components must be at least 1; got {components}.")
    plan = Plan.of(stream.rows, exact=False, landmarks=components)
    few = part_of(sample, plan.choice_rows, seed)
    choice = choose_on(few, method, scale=scale, inductive=inductive, n_jobs=n_jobs, verbose=verbose)

    def collect(preparation: Any, projection: Projection) -> Statistics:
        collector = Collector(stream, preparation, projection)
        shown = nullcontext(_nothing) if progress is None else progress("Reading all rows", stream.rows)
        with shown as advance:
            return collector.here(advance) if client is None else collector.on_cluster(advance, client)

    found = fit_by_plan(choice, sample, collect, plan, scale, seed)
    found.stream.update(rows=stream.rows, choice_rows=len(few.X))
    return found


def part_of(table: Table, total: int, seed: int) -> Table:
    """About so many rows: the same number of each domain as far as it has them, and some of each of its classes."""
    return table.take(Samples(table.X, table.y, table.domain).thinned(total, seed))


def _nothing(rows: int) -> None:
    """Show no progress."""


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
            found = total([found, collect_statistics(self.projection, X, piece.y, piece.domain)])
            advance(len(X))
        return found

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
