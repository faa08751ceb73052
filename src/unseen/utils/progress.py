"""Progress of long jobs: a bar of rich on a terminal or in a notebook, lines in a log, scikit-learn's callbacks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has none
    CallbackSupportMixin = type("CallbackSupportMixin", (), {})

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


T = TypeVar("T")

__all__ = ["CallbackSupportMixin", "format_duration", "progress", "track", "with_callbacks"]
LOG_INTERVAL_SECONDS = 5  # before the first line of a log, and between two lines


def track(items: Iterable[T], total: int, description: str, verbose: int, owner: Any = None) -> Iterator[T]:
    """Yield the items and report progress: on standard error if verbose, and to the owner's callbacks.

    scikit-learn's callbacks get a fit with a subtask for each item, within a method `with_callbacks`.
    """
    root = None
    if hasattr(owner, "_skl_callbacks"):
        root = owner._init_callback_context(max_subtasks=total).call_on_fit_task_begin(estimator=owner)
    with progress(description, total, verbose, last=True) as advance:
        for item in items:
            advance(1)
            if root is not None:
                root.subcontext("part").call_on_fit_task_begin(estimator=owner).call_on_fit_task_end(estimator=owner)
            yield item
    if root is not None:
        root.call_on_fit_task_end(estimator=owner)


@contextmanager
def progress(
    description: str, total: int, verbose: int = 1, *, last: bool = False, cost: float | None = None
) -> Iterator[Callable[..., None]]:
    """Yield a function to call with the number of items or rows that are done since the last call.

    A terminal or a notebook shows a bar. A log gets a line every few seconds, so that short jobs print nothing, unless
    `last` asks for a line at the end. The remaining time follows from the share of items that are done or, if a total
    `cost` is given, of the costs that are passed as a second argument.
    """
    if not verbose:
        yield lambda more, cost=None: None
        return
    bar = _bar()
    if bar is None:
        yield _Lines(description, total, total if cost is None else cost, last).advance
        return
    with bar:
        task = bar.add_task(description, total=total if cost is None else cost)
        yield lambda more, cost=None: bar.advance(task, more if cost is None else cost)


def _bar() -> Any:
    """A progress bar; None where none can be shown, or rich, which is optional, is not installed."""
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
    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress("{task.description}", *columns, console=console, transient=True) if can_show else None


class _Lines:
    """Progress as lines on standard error."""

    def __init__(self, description: str, total: int, cost: float, last: bool) -> None:
        self.description = description
        self.total = total
        self.cost = cost
        self.last = last
        self.done = 0
        self.paid = 0.0
        self.start = time.monotonic()
        self.printed = 0.0  # seconds after the start

    def advance(self, more: int, cost: float | None = None) -> None:
        # Rows that a lost Dask worker had reported are reported again.
        self.done = min(self.done + more, self.total)
        self.paid = min(self.paid + (more if cost is None else cost), self.cost)
        elapsed = time.monotonic() - self.start
        if elapsed - self.printed <= LOG_INTERVAL_SECONDS and not (self.last and self.done == self.total):
            return
        self.printed = elapsed
        left = f", about {format_duration(elapsed * (self.cost / self.paid - 1))} left" if self.paid else ""
        print(
            f"{self.description}: {self.done:,}/{self.total:,} done, {format_duration(elapsed)}{left}", file=sys.stderr
        )


def format_duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
