"""All rows of a table of any size: in pieces that are turned into statistics and added up, here or on a cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from ..estimators import (
    Projection,
    Statistics,
    cluster_errors,
    collect_statistics,
    compute,
    sum_statistics,
    tree_reduce,
)
from ..kernels import SizePlan
from ..tables import SurveyedTable, Table, read_survey
from ..utils.progress import progress
from ..utils.samples import Samples

BLOCK = 10_000  # rows of a table in memory that are prepared at a time


@dataclass(frozen=True)
class TableRows:
    """The rows of a table in memory, in blocks, as those of a surveyed table come in parts."""

    table: Table

    @property
    def parts(self) -> list[slice]:
        """What to ask `pieces` for."""
        return list(gen_batches(len(self.table.X), BLOCK))

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.table.X)

    def pieces(self, part: slice) -> Iterator[Samples]:
        """One block."""
        yield self.table.samples.take(part)


Rows = SurveyedTable | TableRows  # parts that can each be read on their own, and anywhere


def open_row_stream(source: Rows, plan: SizePlan, seed: int = 0) -> Table:
    """What a plan needs in memory: all rows, or a sample of them."""
    if isinstance(source, TableRows):
        return source.table
    return read_survey(source, seed) if plan.exact else read_survey(source.subsample(plan.sample_rows, seed))


def collect_stream_statistics(
    rows: Rows, preparation: Any, client: Any, verbose: int, projection: Projection
) -> Statistics:
    """Statistics of all rows for a projection, read here or by the workers of a cluster."""
    work = partial(_statistics, rows, preparation, projection)
    with progress("Reading all rows", rows.rows, verbose) as advance:
        found: Statistics | None = None
        if client is not None:
            found = _on_cluster(work, rows.parts, client, advance)
        else:
            for part in rows.parts:  # one at a time: each is as large as the square of the number of landmarks
                found = sum_statistics([found, work(part, advance)])
    if found is None:
        raise ValueError("There are no rows to fit on.")
    return found


def _statistics(
    rows: Any, preparation: Any, projection: Projection, part: Any, advance: Callable[[int], None]
) -> Statistics | None:
    """Statistics of a part; None if no row of it is wanted. `advance` is told how many rows more are done."""
    found: Statistics | None = None
    for piece in rows.pieces(part):
        X = np.asarray(preparation.transform(piece.X), dtype=np.float64)
        found = sum_statistics([found, collect_statistics(projection, X, piece.y, piece.domain)])
        advance(len(X))
    return found


def _on_cluster(work: Callable[..., Any], parts: Any, client: Any, advance: Callable[[int], None]) -> Any:
    """Have all parts read by workers, who tell how far they are, and add up in a tree."""
    topic = f"unseen-{uuid.uuid4()}"
    task = import_module("dask").delayed(partial(_worker, work, topic))
    with cluster_errors(client):
        client.subscribe_topic(topic, lambda event: advance(event[1]))
        try:
            return compute(tree_reduce([task(part) for part in parts], sum_statistics))
        finally:
            client.unsubscribe_topic(topic)


def _worker(work: Callable[..., Any], topic: str, part: Any) -> Any:
    return work(part, partial(import_module("distributed").get_worker().log_event, topic))
