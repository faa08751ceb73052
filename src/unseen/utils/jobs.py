"""Long jobs: local processes (joblib) or a Dask cluster (distributed), progress, and the environment of results."""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from joblib import effective_n_jobs  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils.parallel import Parallel, delayed

T = TypeVar("T")
R = TypeVar("R")
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]  # the result of joblib.delayed

POLL_SECONDS = 0.5
STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
PENDING_PER_WORKER = 2  # items per thread of a cluster: one in progress and the next one
# Large functions are sent as tasks, so that the cluster can compute them again if a worker is lost. Dask would warn.
NO_SIZE_WARNING = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}
LOG_INTERVAL_SECONDS = 5  # between two log lines


def parallel(
    n_jobs: int | None, *, ordered: bool = True, pre_dispatch: str = "2 * n_jobs"
) -> Callable[[Iterable[Call]], Iterator[Any]]:
    """Return a function that runs delayed calls in local processes and yields their results.

    Results come in the order of the calls or, if not `ordered`, as soon as they are available. With one job the calls
    run in this process. The worker processes end when this process ends.
    """
    if effective_n_jobs(n_jobs) == 1:
        return _run_sequentially
    pool = Parallel(
        n_jobs=n_jobs,
        return_as="generator" if ordered else "generator_unordered",
        batch_size="auto" if ordered else 1,
        pre_dispatch=pre_dispatch,
        initializer=_exit_with_parent,
        initargs=(os.getpid(),),
    )

    def run(calls: Iterable[Call]) -> Iterator[Any]:
        with _block_signals():
            results: Iterator[Any] = pool(delayed(function)(*args, **kwargs) for function, args, kwargs in calls)
        return results

    return run


@contextmanager
def _block_signals() -> Iterator[None]:
    """Block signals that stop this process, while worker processes start; these inherit the blocked signals.

    A terminal sends such a signal to workers as well. A worker that is still importing would print a traceback, before
    `_exit_with_parent` ignores the signal. This process receives a blocked signal at the end.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # it would unblock the signals when it starts
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _run_sequentially(calls: Iterable[Call]) -> Iterator[Any]:
    """Run calls in this thread, without the warning filters that scikit-learn would set for each call."""
    for function, args, kwargs in calls:
        yield function(*args, **kwargs)


def _exit_with_parent(parent: int) -> None:
    """Let this worker process exit when its parent process has ended.

    A parent that is killed, for example for lack of memory, cannot stop its workers. The workers of joblib would finish
    their work and then wait for 300 s, and its shared memory is released when all of them have ended. The parent id of
    an orphan changes, except on Windows. A signal that stops a group of processes, such as Ctrl-C does, reaches
    workers as well as their parent; they ignore it, and their parent stops them.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)

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
        reason = _describe_loss(error, client)
        if reason is None:
            raise
        raise ClusterLostError(reason) from error


def _describe_loss(error: Exception, client: Any) -> str | None:
    """Return the reason if an error means that the cluster is lost, otherwise None."""
    scheduler = import_module("distributed.scheduler")
    if isinstance(error, (scheduler.KilledWorker, scheduler.NoWorkerError, scheduler.NoValidWorkerError)):
        return f"The Dask cluster has no workers left: {error} Start workers, perhaps with more memory, and try again."
    if isinstance(error, (CancelledError, import_module("distributed").comm.CommClosedError)):
        return (
            f"The connection to the Dask scheduler was lost, or it canceled the computation: {error} Check whether the "
            "scheduler is running, and try again."
        )
    if client.status in ("closing", "closed"):
        return f"The Dask client was closed before the computation ended: {error}"
    return None


def map_on_cluster(
    function: Callable[[T], R],
    items: Iterable[T],
    client: Any = None,
    *,
    ordered: bool = True,
) -> Iterator[R]:
    """Apply a function to items, in this process or on a cluster, and yield the results.

    Parameters
    ----------
    function : callable
        Function of one item. It is sent once, so that it may contain a large model.
    items : iterable
        Items; read when workers need them.
    client : dask.distributed.Client, default=None
        Client of the cluster; None applies the function in this process.
    ordered : bool, default=True
        Whether results come in the order of the items; otherwise as soon as they are available.

    Yields
    ------
    result : object
        Result for each item. An exception of the function on a worker is raised here and ends the iteration.

    Examples
    --------
    >>> from unseen.utils.jobs import map_on_cluster
    >>> list(map_on_cluster(abs, [-2, 1]))
    [2, 1]
    """
    if client is None:
        yield from map(function, items)
        return
    distributed = import_module("distributed")
    dumps = import_module("distributed.protocol.pickle").dumps
    name = f"unseen-{uuid.uuid4()}"
    remaining = enumerate(items)
    futures: dict[Any, Any] = {}  # by key, in the order of the items
    completed = None if ordered else distributed.as_completed(loop=client.loop)

    def submit(key: Any, task: Callable[..., Any], *args: Any) -> Any:
        with import_module("dask").config.set(NO_SIZE_WARNING):
            return client.submit(task, *args, key=key)

    def submit_items() -> None:
        n_threads = sum(client.nthreads().values())
        n_free = (PENDING_PER_WORKER * n_threads or 1) - len(futures)
        for number, item in islice(remaining, max(n_free, 0)):
            future = submit((name, number), _call, remote_function, dumps(item))
            futures[future.key] = future
            if completed is not None:
                completed.add(future)

    def next_result() -> Any:
        future = next(iter(futures.values())) if completed is None else next(completed)
        result = future.result()
        client.cancel(futures.pop(future.key))
        return result

    with cluster_errors(client):
        # The function is the result of a task, so that the cluster computes it again if its worker is lost. It is
        # pickled, so that the scheduler does not inspect it.
        remote_function = submit(f"function-{name}", _unpickle, dumps(function))
        try:
            submit_items()
            while futures:
                yield next_result()
                submit_items()
        finally:
            client.cancel([remote_function, *futures.values()])


def _unpickle(pickled: bytes) -> Any:
    return import_module("distributed.protocol.pickle").loads(pickled)


def _call(function: Callable[[Any], R], pickled: bytes) -> R:
    return function(_unpickle(pickled))


def track(items: Iterable[T], total: int, description: str, verbose: int) -> Iterator[T]:
    """Yield the items, and report progress on standard error if verbose."""
    with progress(description, total, verbose) as advance:
        for item in items:
            advance(1)
            yield item


@contextmanager
def progress(description: str, total: int, verbose: int = 1) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of items or rows completed since the last call.

    A terminal or a notebook shows a bar. A log receives a line every few seconds and at the end, and nothing of a job
    that takes less than that.
    """
    bar = _make_bar() if verbose else None
    if bar is not None:
        with bar:
            task = bar.add_task(description, total=total)
            yield lambda n_items: bar.advance(task, n_items)
        return
    start = last_printed = time.monotonic()
    n_done = 0

    def print_line(n_items: int) -> None:
        nonlocal n_done, last_printed
        # Rows are reported twice if the Dask worker that reported them first is lost.
        n_done = min(n_done + n_items, total)
        now = time.monotonic()
        since = start if n_done == total else last_printed
        if now - since > LOG_INTERVAL_SECONDS and n_done:
            last_printed = now
            elapsed = now - start
            remaining = format_duration(elapsed * (total / n_done - 1))
            line = f"{description}: {n_done:,}/{total:,} done, {format_duration(elapsed)}, about {remaining} left"
            print(line, file=sys.stderr)

    yield print_line if verbose else lambda n_items: None


def _make_bar() -> Any:
    """Make a progress bar; None if the output cannot show one, or if rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn
    except ImportError:
        return None
    console = Console(stderr=True)
    if console.is_jupyter:
        can_show = find_spec("ipywidgets") is not None
    else:
        can_show = console.is_terminal and not console.is_dumb_terminal
    if not can_show:
        return None
    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress("{task.description}", *columns, console=console, transient=True)


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def environment_info() -> dict[str, Any]:
    """Collect what results depend on: versions, BLAS libraries with their threads, and the machine."""
    import numpy as np
    import scipy
    import sklearn
    from threadpoolctl import threadpool_info

    from .. import __version__

    return {
        "unseen": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "blas": sorted(
            f"{pool['internal_api']} {pool['version']} x{pool['num_threads']}" for pool in threadpool_info()
        ),
    }
