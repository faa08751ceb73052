"""Progress of long jobs: a rich progress bar on a terminal or in a notebook, or log lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

T = TypeVar("T")

LOG_INTERVAL_SECONDS = 5  # between two log lines


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
