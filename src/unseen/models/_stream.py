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
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import gen_batches

from ..algebra import Array
from ..estimators import Projection, Statistics, total
from ..kernels import PivotedNystroem
from ..labels import Samples, level
from ..tables import Table
from ._fit import TableFit, choose, expected_warnings, fit_candidate, prepare
from ._model import TableModel

CHOICE_ROWS = 2_000  # on which settings are chosen
SAMPLE_ROWS = 20_000  # for scales, novelty and the classifier
LANDMARK_ROWS = 10_000  # among which landmarks are sought
COMPONENTS = 1_000  # landmarks at most, unless asked for more
TOLERANCE = 1e-6  # what landmarks may miss of the kernel: a smooth one needs few
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
    >>> fit = fit_stream(TableRows(table), part_of(table, 240, seed=0), "kfda", scale="l2", components=50)
    >>> fit.stream["projection_rows"], fit.stream["landmarks"]
    (1797, 50)
    """
    if components is not None and components < 1:
        raise ValueError(f"components must be at least 1; got {components}.")
    few = part_of(sample, CHOICE_ROWS, seed)
    choice = choose(few, method, scale=scale, inductive=inductive, n_jobs=n_jobs, verbose=verbose)
    preparation, prepared, novelty = prepare(sample, scale, seed)
    facts: dict[str, Any] = {"rows": stream.rows, "choice_rows": len(few.X), "classifier_rows": len(sample.X)}
    transformer = choice.candidate.pipeline[0]
    with expected_warnings():
        if isinstance(transformer, Projection):
            landmarks = _landmarks(transformer, prepared, components, seed)
            projection = clone(transformer).set_params(feature_map=FrozenEstimator(landmarks))
            collector = Collector(stream, preparation, projection)
            shown = nullcontext(_nothing) if progress is None else progress("Reading all rows", stream.rows)
            with shown as advance:
                found = collector.here(advance) if client is None else collector.on_cluster(advance, client)
            projection._adopt(found, prepared.shape[1])
            Z = projection.transform(prepared, sample_domain=sample.domain)
            head = clone(choice.candidate.pipeline[-1]).fit(Z, sample.y)
            pipeline = Pipeline([("projection", projection), ("classifier", head)])
            facts |= {
                "projection_rows": int(found.cells.counts.sum()),
                "landmarks": landmarks.n_components_,
                "trace_error": landmarks.trace_error_,
            }
        else:
            pipeline = fit_candidate(choice.candidate, prepared, sample.y, sample.domain)
    return choice.fitted(TableModel(preparation, pipeline, novelty), facts)


def part_of(table: Table, total: int, seed: int) -> Table:
    """About so many rows: the same number of each domain as far as it has them, and some of each of its classes."""
    if len(table.X) <= total:
        return table
    random = np.random.default_rng(seed)
    names, sizes = np.unique(table.domain, return_counts=True)
    share = level(sizes.tolist(), total)
    chosen = []
    for name, size in zip(names, sizes, strict=True):
        own = np.flatnonzero(table.domain == name)
        for label in np.unique(table.y[own]):
            cell = own[table.y[own] == label]
            wanted = max(round(len(cell) * min(1.0, share / size)), min(2, len(cell)))
            chosen.append(random.choice(cell, wanted, replace=False))
    rows = np.sort(np.concatenate(chosen))
    return table.take(rows)


def _landmarks(projection: Projection, prepared: Array, components: int | None, seed: int) -> PivotedNystroem:
    """Landmarks for the projection's kernel, sought among some of the samples."""
    rows = np.random.default_rng(seed).permutation(len(prepared))[:LANDMARK_ROWS]
    return PivotedNystroem(
        min(COMPONENTS if components is None else components, len(rows)),
        kernel=projection.kernel,
        gamma=projection.gamma,
        tolerance=TOLERANCE if components is None else None,
        random_state=seed,
    ).fit(prepared[rows])


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
            found = total([found, self.projection._gather(X, piece.y, piece.domain)])
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
        from ..estimators import compute, tree

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
