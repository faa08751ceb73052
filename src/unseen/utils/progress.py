"""Progress of long jobs: a rich progress bar on a terminal or in a notebook, log lines, scikit-learn's callbacks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks
    CallbackSupportMixin = type("CallbackSupportMixin", (), {})

    def with_callbacks(method: Any) -> Any:
        """Return the method unchanged."""
        return method


T = TypeVar("T")

__all__ = ["CallbackSupportMixin", "format_duration", "progress", "track", "with_callbacks"]
LOG_INTERVAL_SECONDS = 5  # before the first log line, and between two lines


def track(items: Iterable[T], total: int, description: str, verbose: int, owner: Any = None) -> Iterator[T]:
    """Yield the items and report progress: on standard error if verbose, and to the owner's callbacks.

    scikit-learn's callbacks get a fit with a subtask for each item, within a method `with_callbacks`.
    """
    root = None
    if hasattr(owner, "_skl_callbacks"):
        root = owner._init_callback_context(max_subtasks=total).call_on_fit_task_begin(estimator=owner)
    with progress(description, total, verbose, print_last=True) as advance:
        for item in items:
            advance(1)
            if root is not None:
                root.subcontext("part").call_on_fit_task_begin(estimator=owner).call_on_fit_task_end(estimator=owner)
            yield item
    if root is not None:
        root.call_on_fit_task_end(estimator=owner)


@contextmanager
def progress(
    description: str, total: int, verbose: int = 1, *, print_last: bool = False, cost: float | None = None
) -> Iterator[Callable[..., None]]:
    """Yield a function to call with the number of items or rows completed since the last call.

    A terminal or a notebook shows a bar. A log receives a line every few seconds, so that short jobs print nothing,
    unless `print_last` requests a line at the end. The remaining time is estimated from the share of completed items
    or, if a total `cost` is given, of the costs passed as the second argument.
    """
    total_cost = total if cost is None else cost
    if not verbose:
        yield lambda n_items, cost=None: None
        return
    bar = _make_bar()
    if bar is None:
        yield _LogLines(description, total, total_cost, print_last).advance
        return
    with bar:
        task = bar.add_task(description, total=total_cost)
        yield lambda n_items, cost=None: bar.advance(task, n_items if cost is None else cost)


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


class _LogLines:
    """Progress as lines on standard error."""

    def __init__(self, description: str, total: int, total_cost: float, print_last: bool) -> None:
        self.description = description
        self.total = total
        self.total_cost = total_cost
        self.print_last = print_last
        self.n_done = 0
        self.cost_done = 0.0
        self.start = time.monotonic()
        self.last_printed = 0.0  # seconds after the start

    def advance(self, n_items: int, cost: float | None = None) -> None:
        # Rows are reported twice if the Dask worker that reported them first is lost.
        self.n_done = min(self.n_done + n_items, self.total)
        self.cost_done = min(self.cost_done + (n_items if cost is None else cost), self.total_cost)
        elapsed = time.monotonic() - self.start
        is_last = self.print_last and self.n_done == self.total
        if elapsed - self.last_printed <= LOG_INTERVAL_SECONDS and not is_last:
            return
        self.last_printed = elapsed
        line = f"{self.description}: {self.n_done:,}/{self.total:,} done, {format_duration(elapsed)}"
        if self.cost_done:
            line += f", about {format_duration(elapsed * (self.total_cost / self.cost_done - 1))} left"
        print(line, file=sys.stderr)


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
