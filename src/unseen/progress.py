"""Progress of long jobs: a bar on a terminal, lines in a log, scikit-learn's callbacks; nothing when silent."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has none
    CallbackSupportMixin = type("CallbackSupportMixin", (), {})

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


T = TypeVar("T")

__all__ = ["CallbackSupportMixin", "track", "with_callbacks"]


def track(items: Iterable[T], total: int, description: str, verbose: int, owner: Any = None) -> Iterator[T]:
    """Yield the items and tell how far along they are: on standard error if verbose, and to the owner's callbacks."""
    shown = _shown(items, total, description) if verbose else items
    return _reported(shown, total, owner) if hasattr(owner, "_skl_callbacks") else iter(shown)


def _reported(items: Iterable[T], total: int, owner: Any) -> Iterator[T]:
    """Tell scikit-learn's callbacks of a fit with a subtask for each item, within a method `with_callbacks`."""
    root = owner._init_callback_context(max_subtasks=total).call_on_fit_task_begin(estimator=owner)
    for item in items:
        root.subcontext("part").call_on_fit_task_begin(estimator=owner).call_on_fit_task_end(estimator=owner)
        yield item
    root.call_on_fit_task_end(estimator=owner)


def _shown(items: Iterable[T], total: int, description: str) -> Iterator[T]:
    bar = _rich_bar() if sys.stderr.isatty() else None
    if bar is None:
        yield from _lines(items, total, description)
        return
    with bar:
        task = bar.add_task(description, total=total)
        for item in items:
            bar.advance(task)
            yield item


def _rich_bar() -> Any:
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:  # an optional nicety: plain lines do as well
        return None
    return Progress(console=Console(stderr=True), transient=True)


def _lines(items: Iterable[T], total: int, description: str) -> Iterator[T]:
    start, last = time.monotonic(), 0.0
    for done, item in enumerate(items, start=1):
        elapsed = time.monotonic() - start
        if elapsed - last > 5 or done == total:
            last = elapsed
            remaining = elapsed / done * (total - done)
            print(f"{description}: {done}/{total} done, {elapsed:.0f} s, about {remaining:.0f} s left", file=sys.stderr)
        yield item
