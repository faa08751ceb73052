"""Parallel work in local processes (joblib) or by the workers of a Dask cluster (distributed)."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

from joblib import effective_n_jobs  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils.parallel import Parallel, delayed

T = TypeVar("T")
R = TypeVar("R")
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]  # what joblib.delayed makes

POLL_SECONDS = 0.5
PENDING_PER_WORKER = 2  # items for each thread of a cluster: one that is worked on, and the next
# What is sent as a task can be sent again when the worker that had it is lost; Dask advises against large ones.
SILENT = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}


def parallel(n_jobs: int | None, *, ordered: bool = True, **options: Any) -> Callable[[Iterable[Call]], Iterator[Any]]:
    """Processes here that give results of delayed calls as they are made, and end with this one however it ends.

    Results come in the order of the work; or, not `ordered`, as they are finished, so that what takes long holds
    nothing back. One process is this one, and the calls are made in turn.
    """
    if effective_n_jobs(n_jobs) == 1:
        return _in_turn
    how = {"return_as": "generator"} if ordered else {"return_as": "generator_unordered", "batch_size": 1}
    work = Parallel(n_jobs=n_jobs, initializer=_end_with, initargs=(os.getpid(),), **how | options)
    return lambda calls: work(delayed(function)(*given, **named) for function, given, named in calls)


def _in_turn(calls: Iterable[Call]) -> Iterator[Any]:
    """In this thread; scikit-learn would set all filters of warnings for each call, and threads would mix them up."""
    for function, given, named in calls:
        yield function(*given, **named)


def _end_with(parent: int) -> None:
    """In a worker process: exit when the parent process has ended.

    A parent that is killed, for example for lack of memory, cannot stop its workers. joblib's workers would finish
    their work and then wait for 300 s, and its shared memory is released when all of them have ended. An orphan gets
    another parent, except on Windows. A terminal interrupts workers as well as their parent, which stops them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class ClusterLostError(RuntimeError):
    """A Dask cluster has lost its workers or its scheduler, or the client was closed."""


@contextmanager
def cluster_errors(client: Any) -> Iterator[None]:
    """Raise ClusterLostError for errors of Dask about lost workers, a lost scheduler or a closed client.

    Errors of the work itself are raised as they are.
    """
    try:
        yield
    except Exception as error:
        reason = _loss(error, client)
        if reason is None:
            raise
        raise ClusterLostError(reason) from error


def _loss(error: Exception, client: Any) -> str | None:
    """What was lost, or None for an error of another kind."""
    scheduler = import_module("distributed.scheduler")
    if isinstance(error, scheduler.KilledWorker):
        return f"Dask workers died repeatedly while they worked on the same task, perhaps for lack of memory: {error}"
    if isinstance(error, (scheduler.NoWorkerError, scheduler.NoValidWorkerError)):
        return f"The Dask cluster has no workers any more: {error} Start workers and try again."
    if isinstance(error, CancelledError) and "scheduler-connection-lost" not in str(error):
        return f"The Dask cluster canceled the computation: {error}"
    if isinstance(error, (CancelledError, import_module("distributed").comm.CommClosedError)):
        return (
            "The connection to the Dask scheduler was lost, and the computation with it. Check whether the scheduler "
            "is running, and try again."
        )
    if client.status in ("closing", "closed"):
        return f"The Dask client was closed before the computation ended: {error}"
    return None


def map_on_cluster(
    function: Callable[[T], R],
    items: Iterable[T],
    client: Any = None,
    ahead: int | None = None,
    *,
    ordered: bool = True,
) -> Iterator[R]:
    """Apply a function to items, here or on a cluster, and give the results.

    Parameters
    ----------
    function : callable
        Of an item. It may hold a large model: it is sent once, not with every item.
    items : iterable
        Drawn as the work goes on.
    client : dask.distributed.Client, default=None
        Whose workers do it; None means here.
    ahead : int, default=None
        At most so many items are out at a time, or results not yet taken; None means two for each thread of the
        cluster. So memory does not grow with the number of items.
    ordered : bool, default=True
        Whether results come in the order of the items; otherwise as they are finished, so that an item that takes long
        holds nothing back.

    Yields
    ------
    result : object
        For each item. What the function raises on a worker is raised here, and ends the rest.

    Examples
    --------
    >>> from unseen.estimators import mapped
    >>> list(mapped(abs, [-2, 1]))
    [2, 1]
    """
    if client is None:
        yield from map(function, items)
        return
    distributed = import_module("distributed")
    dumps = import_module("distributed.protocol.pickle").dumps
    name = f"unseen-{uuid.uuid4()}"
    rest = enumerate(items)
    futures: dict[Any, Any] = {}  # by their keys, in the order of the items
    completed = None if ordered else distributed.as_completed(loop=client.loop)

    def submit(key: Any, task: Callable[..., Any], *arguments: Any) -> Any:
        with import_module("dask").config.set(SILENT):
            return client.submit(task, *arguments, key=key)

    def fill() -> None:
        threads = sum(client.nthreads().values())
        room = (ahead or PENDING_PER_WORKER * threads or 1) - len(futures)
        for number, item in islice(rest, max(room, 0)):
            future = submit((name, number), _call, sent, dumps(item))
            futures[future.key] = future
            if completed is not None:
                completed.add(future)

    def take() -> Any:
        future = next(iter(futures.values())) if completed is None else next(completed)
        result = future.result()
        client.cancel(futures.pop(future.key))
        return result

    with cluster_errors(client):
        # The function is a task, so that the cluster makes it again where it is lost, and pickled, so that the
        # scheduler does not look inside.
        sent = submit(f"function-{name}", _unpickled, dumps(function))
        try:
            fill()
            while futures:
                yield take()
                fill()
        finally:
            client.cancel([sent, *futures.values()])


def _unpickled(pickled: bytes) -> Any:
    return import_module("distributed.protocol.pickle").loads(pickled)


def _call(function: Callable[[Any], R], pickled: bytes) -> R:
    return function(_unpickled(pickled))
