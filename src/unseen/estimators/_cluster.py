"""Work that is done by processes here or by the workers of a Dask cluster, and is never waited for in vain."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, wait
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

from sklearn.utils.parallel import Parallel

T = TypeVar("T")
R = TypeVar("R")

# A cluster may need a moment to replace its workers. After so long without any, a computation is given up.
PATIENCE = "unseen.no-workers-timeout", "60s"  # a key of Dask's configuration and its default
POLL_SECONDS = 0.5
AHEAD = 2  # items for each thread of a cluster: one that is worked on, and the next
# What is sent as a task can be sent again when the worker that had it is lost; Dask advises against large ones.
SILENT = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}


def processes(n_jobs: int | None, **options: Any) -> Any:
    """Processes here that give results in order, as they are made, and end with this one in whatever way it ends."""
    return Parallel(n_jobs=n_jobs, return_as="generator", initializer=_end_with, initargs=(os.getpid(),), **options)


def _end_with(parent: int) -> None:
    """In a worker: end soon after its parent. Killed, that cannot tell, and joblib's workers wait 300 s for more.

    An orphan gets another parent, except on Windows. A signal of Linux for this purpose comes when the thread that
    started the worker ends, which is too early. joblib removes its shared memory once all workers have ended.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os._exit(1)  # in the middle of what it does: nobody is there to take the result

    threading.Thread(target=watch, daemon=True).start()


class ClusterLost(RuntimeError):
    """A cluster has no workers any more, or no scheduler."""


def awaited(future: Any, client: Any) -> Any:
    """The result of a future, which the caller cancels whatever comes of it.

    That of a cluster which has lost all its workers would be waited for until the end of days; here it is for as long
    as Dask's configuration says under "unseen.no-workers-timeout".
    """
    seconds = import_module("dask.utils").parse_timedelta(import_module("dask").config.get(*PATIENCE))
    # Not `future.result()`: a worker that is lost while it hands over a result makes that wait without end as well.
    result = asyncio.run_coroutine_threadsafe(client.gather(future, asynchronous=True), client.loop.asyncio_loop)
    last_seen = time.monotonic()
    try:
        while not wait([result], POLL_SECONDS).done:
            if _threads(client):
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > seconds:
                raise ClusterLost(
                    f"The Dask cluster at {client.scheduler.address} has had no workers for {seconds:g} seconds, so "
                    "the computation was given up. Start workers and try again, or wait longer with "
                    f'dask.config.set({{"{PATIENCE[0]}": "5 minutes"}}).'
                )
        return result.result()
    except CancelledError as error:
        raise ClusterLost(f"The Dask cluster dropped the computation: {error}") from error


def _threads(client: Any) -> int:
    try:
        return sum(client.nthreads().values())
    except OSError as error:
        raise ClusterLost(f"The Dask scheduler at {client.scheduler.address} does not answer: {error}") from error


def mapped(function: Callable[[T], R], items: Iterable[T], client: Any = None, ahead: int | None = None) -> Iterator[R]:
    """Apply a function to items, here or on a cluster, and give the results in the order of the items.

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
    dumps = import_module("distributed.protocol.pickle").dumps
    name, rest, out = f"unseen-{uuid.uuid4()}", enumerate(items), deque[Any]()

    def submit(key: Any, task: Callable[..., Any], *arguments: Any) -> Any:
        with import_module("dask").config.set(SILENT):
            return client.submit(task, *arguments, key=key)

    # A task of its own, so that the cluster makes it again where it is lost. Pickled, so that the scheduler does not
    # look inside.
    sent = submit(f"function-{name}", _unpickled, dumps(function))
    try:
        while True:
            room = (ahead or AHEAD * _threads(client) or 1) - len(out)
            for number, item in islice(rest, max(room, 0)):
                out.append(submit((name, number), _call, sent, dumps(item)))
            if not out:
                return
            result = awaited(out[0], client)
            client.cancel(out.popleft())
            yield result
    finally:
        client.cancel([sent, *out])


def _unpickled(pickled: bytes) -> Any:
    return import_module("distributed.protocol.pickle").loads(pickled)


def _call(function: Callable[[Any], R], pickled: bytes) -> R:
    return function(_unpickled(pickled))
