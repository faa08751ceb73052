"""Work that is done by processes here or by the workers of a Dask cluster, and is never waited for in vain."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

from joblib import effective_n_jobs  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils.parallel import Parallel, delayed

T = TypeVar("T")
R = TypeVar("R")
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]  # what joblib.delayed makes

# A cluster may need a moment to replace its workers. After so long without any, a computation is given up.
PATIENCE = "unseen.no-workers-timeout", "60s"  # a key of Dask's configuration and its default
POLL_SECONDS = 0.5
AHEAD = 2  # items for each thread of a cluster: one that is worked on, and the next
# What is sent as a task can be sent again when the worker that had it is lost; Dask advises against large ones.
SILENT = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}


def processes(n_jobs: int | None, *, ordered: bool = True, **options: Any) -> Callable[[Iterable[Call]], Iterator[Any]]:
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
    """In a worker: end with its parent, and not before it.

    Killed, a parent cannot tell, and joblib's workers wait 300 s for more. An orphan gets another parent, except on
    Windows. A signal of Linux for this purpose comes when the thread that started the worker ends, which is too early.
    joblib removes its shared memory once all workers have ended. A terminal interrupts workers, too; their parent is
    the one to end them, and they need not say where they were.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

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
    return _value(_first([_on_its_way(future, client)], client))


def _on_its_way(future: Any, client: Any) -> Future[Any]:
    """What a future of Dask comes to, brought here as soon as it is there."""
    # Not `future.result()`: a worker that is lost while it hands over a result makes that wait without end as well.
    return asyncio.run_coroutine_threadsafe(client.gather(future, asynchronous=True), client.loop.asyncio_loop)


def _first(results: Collection[Future[Any]], client: Any) -> Future[Any]:
    """One of the results that are there, once there is one."""
    seconds = import_module("dask.utils").parse_timedelta(import_module("dask").config.get(*PATIENCE))
    last_seen = time.monotonic()
    while not (done := wait(results, POLL_SECONDS, FIRST_COMPLETED).done):
        if _threads(client):
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > seconds:
            raise ClusterLost(
                f"The Dask cluster at {client.scheduler.address} has had no workers for {seconds:g} seconds, so "
                "the computation was given up. Start workers and try again, or wait longer with "
                f'dask.config.set({{"{PATIENCE[0]}": "5 minutes"}}).'
            )
    return done.pop()


def _value(result: Future[Any]) -> Any:
    try:
        return result.result()
    except CancelledError as error:
        if getattr(error, "reason", "") == "scheduler-connection-lost":
            raise ClusterLost(
                "The connection to the Dask scheduler was lost, and the computation with it. See whether the scheduler "
                "still runs, and try again."
            ) from error
        raise ClusterLost(f"The Dask cluster dropped the computation: {error}") from error


def _threads(client: Any) -> int:
    try:
        return sum(client.nthreads().values())
    except OSError as error:
        raise ClusterLost(f"The Dask scheduler at {client.scheduler.address} does not answer: {error}") from error


def mapped(
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
    dumps = import_module("distributed.protocol.pickle").dumps
    name, rest = f"unseen-{uuid.uuid4()}", enumerate(items)
    out, coming = deque[Any](), dict[Future[Any], Any]()  # Dask's futures, and those whose results are on their way

    def submit(key: Any, task: Callable[..., Any], *arguments: Any) -> Any:
        with import_module("dask").config.set(SILENT):
            return client.submit(task, *arguments, key=key)

    # A task of its own, so that the cluster makes it again where it is lost. Pickled, so that the scheduler does not
    # look inside.
    sent = submit(f"function-{name}", _unpickled, dumps(function))
    try:
        while True:
            room = (ahead or AHEAD * _threads(client) or 1) - len(out) - len(coming)
            for number, item in islice(rest, max(room, 0)):
                out.append(submit((name, number), _call, sent, dumps(item)))
            while out and not (ordered and coming):
                future = out.popleft()
                coming[_on_its_way(future, client)] = future
            if not coming:
                return
            found = _first(coming, client)
            result = _value(found)
            client.cancel(coming.pop(found))
            yield result
    finally:
        client.cancel([sent, *out, *coming.values()])


def _unpickled(pickled: bytes) -> Any:
    return import_module("distributed.protocol.pickle").loads(pickled)


def _call(function: Callable[[Any], R], pickled: bytes) -> R:
    return function(_unpickled(pickled))
