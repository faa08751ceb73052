"""Progress of long jobs: a bar on a terminal, lines in a log, scikit-learn's callbacks; nothing when silent."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has none
    CallbackSupportMixin = type("CallbackSupportMixin", (), {})

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


T = TypeVar("T")

__all__ = ["CallbackSupportMixin", "progress", "track", "with_callbacks"]
SECONDS = 5  # between two lines in a log


def track(items: Iterable[T], total: int, description: str, verbose: int, owner: Any = None) -> Iterator[T]:
    """Yield the items and tell how far along they are: on standard error if verbose, and to the owner's callbacks.

    scikit-learn's callbacks hear of a fit with a subtask for each item, within a method `with_callbacks`.
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
def progress(description: str, total: int, verbose: int = 1, *, last: bool = False) -> Iterator[Callable[[int], None]]:
    """Give a function, to be told how many items or rows more are done.

    On a terminal there is a bar; in a log a line every few seconds, so that short jobs say nothing, unless `last` asks
    for one at the end.
    """
    start, said, done = time.monotonic() if verbose else 0.0, 0.0, 0

    def advance(more: int) -> None:
        nonlocal said, done
        done = min(done + more, total)  # a worker that was lost may have told of its rows before
        if bar is not None:
            bar.update(task, completed=done)
        elif verbose:
            elapsed = time.monotonic() - start
            if elapsed - said > SECONDS or (last and done == total):
                said, left = elapsed, elapsed / done * (total - done)
                text = f"{description}: {done:,}/{total:,} done, {elapsed:.0f} s, about {left:.0f} s left"
                print(text, file=sys.stderr)

    bar: Any = None
    if verbose and sys.stderr.isatty():
        with suppress(ImportError):  # an optional nicety: plain lines do as well
            from rich.console import Console
            from rich.progress import Progress

            bar = Progress(console=Console(stderr=True), transient=True)
    with nullcontext() if bar is None else bar:
        task = None if bar is None else bar.add_task(description, total=total)
        yield advance
