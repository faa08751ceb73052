"""Statistics of all rows of a table of any size, collected in parts, in this process or on a Dask cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

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
from ..model_selection import prepare_samples
from ..tables import SurveyedTable, Table, read_survey
from ..utils.progress import progress
from ..utils.samples import Samples

BLOCK_ROWS = 10_000  # rows of a table in memory that are preprocessed at a time


@dataclass(frozen=True)
class TableRows:
    """The rows of a table in memory, in blocks; has the interface of `unseen.tables.SurveyedTable`."""

    table: Table

    @property
    def parts(self) -> list[slice]:
        """Arguments for `pieces`."""
        return list(gen_batches(len(self.table.X), BLOCK_ROWS))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.table.X)

    def pieces(self, part: slice) -> Iterator[Samples]:
        """Yield the samples of one block."""
        yield self.table.samples.take(part)


Rows = SurveyedTable | TableRows  # each part can be read by another process


def open_row_stream(source: Rows, plan: SizePlan, seed: int = 0) -> Table:
    """Read the rows that a plan needs in memory: all of them, or a sample."""
    if isinstance(source, TableRows):
        return source.table
    is_whole = plan.exact or source.rows <= plan.fit_rows
    return read_survey(source, seed) if is_whole else read_survey(source.subsample(plan.fit_rows, seed))


def collect_stream_statistics(
    rows: Rows, preparation: Any, client: Any, verbose: int, projection: Projection
) -> Statistics:
    """Collect the statistics of all rows for a projection, in this process or on the workers of a cluster."""
    collect_part = partial(_collect_part, rows, preparation, projection)
    with progress("Reading all rows", rows.rows, verbose) as advance:
        statistics: Statistics | None = None
        if client is not None:
            statistics = _collect_on_cluster(collect_part, rows.parts, client, advance)
        else:
            # Statistics are added one by one, since their size is the square of the number of landmarks.
            for part in rows.parts:
                statistics = sum_statistics([statistics, collect_part(part, advance)])
    if statistics is None:
        raise ValueError("The table has no rows to fit on.")
    return statistics


def _collect_part(
    rows: Any, preparation: Any, projection: Projection, part: Any, advance: Callable[[int], None]
) -> Statistics | None:
    """Collect the statistics of a part; None if no row of it is used. Calls `advance` with numbers of finished rows."""
    statistics: Statistics | None = None
    for piece in rows.pieces(part):
        X = prepare_samples(preparation, piece).X
        statistics = sum_statistics([statistics, collect_statistics(projection, X, piece.y, piece.domain)])
        advance(len(X))
    return statistics


def _collect_on_cluster(
    collect_part: Callable[..., Any], parts: Any, client: Any, advance: Callable[[int], None]
) -> Any:
    """Collect the statistics of all parts on workers, which report progress, and add them in a tree."""
    topic = f"unseen-{uuid.uuid4()}"
    task = import_module("dask").delayed(partial(_collect_on_worker, collect_part, topic))
    with cluster_errors(client):
        client.subscribe_topic(topic, lambda event: advance(event[1]))
        try:
            return compute(tree_reduce([task(part) for part in parts], sum_statistics))
        finally:
            client.unsubscribe_topic(topic)


def _collect_on_worker(collect_part: Callable[..., Any], topic: str, part: Any) -> Any:
    report_progress = partial(import_module("distributed").get_worker().log_event, topic)
    return collect_part(part, report_progress)
