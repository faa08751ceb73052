"""Progress of long jobs: a bar on a terminal, lines in a log, nothing when silent."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def track(items: Iterable[T], total: int, description: str, verbose: int) -> Iterator[T]:
    """Yield the items and show how far along they are, on standard error."""
    if not verbose:
        yield from items
        return
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
