"""Progress of long jobs: a bar on a terminal, lines in a log, scikit-learn's callbacks; nothing when silent."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has none
    CallbackSupportMixin = type("CallbackSupportMixin", (), {})

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


T = TypeVar("T")

__all__ = ["CallbackSupportMixin", "progress", "span", "track", "with_callbacks"]
SECONDS = 5  # before the first line, and between two that tell of something new
HEARTBEAT = 30  # seconds until a log is told that nothing is new; a terminal is after SECONDS


def track(
    items: Iterable[T],
    total: int,
    description: str,
    verbose: int,
    owner: Any = None,
    *,
    kept: int = 0,
    costs: Sequence[float] | None = None,
) -> Iterator[T]:
    """Yield the items and tell how far along they are: on standard error if verbose, and to the owner's callbacks.

    scikit-learn's callbacks hear of a fit with a subtask for each item, within a method `with_callbacks`. For
    `kept` see `progress`; `costs` are those of the items, in the order in which they come.
    """
    root = None
    if hasattr(owner, "_skl_callbacks"):
        root = owner._init_callback_context(max_subtasks=total).call_on_fit_task_begin(estimator=owner)
    whole = None if costs is None else sum(costs)
    with progress(description, total, verbose, last=True, kept=kept, cost=whole) as advance:
        for position, item in enumerate(items):
            advance(1, None if costs is None else costs[position])
            if root is not None:
                root.subcontext("part").call_on_fit_task_begin(estimator=owner).call_on_fit_task_end(estimator=owner)
            yield item
    if root is not None:
        root.call_on_fit_task_end(estimator=owner)


@contextmanager
def progress(
    description: str,
    total: int,
    verbose: int = 1,
    *,
    last: bool = False,
    kept: int = 0,
    cost: float | None = None,
    rate: bool = False,
) -> Iterator[Callable[..., None]]:
    """Give a function, to be told how many items or rows more are done, and what they cost.

    On a terminal there is a bar; in a log a line every few seconds, so that short jobs say nothing, unless `last` asks
    for one at the end. While nothing is finished, a line now and then says that time goes on. How many results were
    `kept` from an earlier run is told at the start; they count as done. The time left follows from the share of the
    `cost`, in any unit, that what is done had in it; without one, each item costs 1. With `rate`, it tells how many are
    done in a second.
    """
    if not verbose:
        yield lambda more, cost=None: None
        return
    if kept:
        print(f"{description}: {kept:,} of {kept + total:,} results kept from before", file=sys.stderr)
    job = _Job(description, total, kept, total if cost is None else cost, last)
    job.rate = rate
    with _beating(job) if job.bar is None else job.bar:  # a bar moves by itself
        yield job.advance


class _Job:
    """How far a job is, and what is said of it."""

    def __init__(self, description: str, total: int, kept: int, cost: float, last: bool) -> None:
        self.description, self.total, self.kept, self.cost, self.last = description, total, kept, cost, last
        self.done, self.paid, self.rate = 0, 0.0, False
        self.start, self.said, self.due = time.monotonic(), 0.0, float(SECONDS)
        self.lock = threading.Lock()
        self.bar = _bar() if sys.stderr.isatty() else None
        if self.bar is not None:
            self.bar.add_task(description, total=cost, left="")

    def advance(self, more: int, cost: float | None = None) -> None:
        """So many more are done, at that cost."""
        with self.lock:  # workers of a cluster are heard in a thread
            self.done = min(self.done + more, self.total)  # a worker that was lost may have told of its rows before
            self.paid = min(self.paid + (more if cost is None else cost), self.cost)
            elapsed = time.monotonic() - self.start
            if self.bar is not None:
                self.bar.update(self.bar.task_ids[0], completed=self.paid, left=self.left(elapsed))
            elif elapsed - self.said > SECONDS or (self.last and self.done == self.total):
                self.say(elapsed)

    def say(self, elapsed: float) -> None:
        """Print a line, and remember when the next is due at the latest."""
        self.said, self.due = elapsed, elapsed + (SECONDS if sys.stderr.isatty() else HEARTBEAT)
        parts = f"{self.kept + self.done:,}/{self.kept + self.total:,} done", span(elapsed), self.left(elapsed)
        print(f"{self.description}: {', '.join(filter(None, parts))}", file=sys.stderr)

    def left(self, elapsed: float) -> str:
        """When it may end, if there is anything to go by."""
        found = [f"{self.done / elapsed:,.0f} a second"] if self.rate and elapsed and self.done else []
        found += [f"about {span(elapsed * (self.cost / self.paid - 1))} left"] if self.paid else []
        return ", ".join(found)

    def beat(self, ended: threading.Event) -> None:
        """In a thread: print a line whenever one is due."""
        pause: float = SECONDS
        while not ended.wait(pause):
            with self.lock:
                elapsed = time.monotonic() - self.start
                if elapsed >= self.due and self.done < self.total:
                    self.say(elapsed)
                pause = self.due - elapsed if self.due > elapsed else SECONDS


@contextmanager
def _beating(job: _Job) -> Iterator[None]:
    """A thread that keeps a job from being silent for long; none is left behind."""
    ended = threading.Event()
    heart = threading.Thread(target=job.beat, args=(ended,), daemon=True)
    heart.start()
    try:
        yield
    finally:
        ended.set()
        heart.join()


def span(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _bar() -> Any:
    """A bar, if this terminal can move one and there is rich, an optional nicety: plain lines do as well."""
    with suppress(ImportError):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn

        columns = BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), "{task.fields[left]}"
        bar = Progress("{task.description}", *columns, console=Console(stderr=True), transient=True)
        return None if bar.console.is_dumb_terminal else bar
