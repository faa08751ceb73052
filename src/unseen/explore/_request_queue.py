"""The queue of requests: one computation at a time, and only the newest request of each tab."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar, cast

T = TypeVar("T")
MAX_TABS = 1_000  # number of (tab, kind) pairs whose newest request is remembered
# The kinds of pending requests that a new request of the same tab supersedes, by its kind. A new setting also
# supersedes the validation and the surface of the previous one.
SUPERSEDED_KINDS: dict[str, tuple[str, ...]] = {
    "solve": ("solve", "validate", "surface"),
    "validate": ("validate",),
    "surface": ("surface",),
    "ensemble": ("ensemble",),
    "skew": ("skew",),
}


async def _run_in_thread(work: Callable[[], T]) -> T:
    """Run a function in a thread that a stopping server does not wait for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if future.done():  # canceled
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast(T, result))

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except BaseException as raised:  # raised again by the caller that awaits the future
            error = raised
        with suppress(RuntimeError):  # the loop is closed if the server has stopped
            loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=run, daemon=True).start()
    return await future


class Superseded(Exception):
    """A newer request of the same tab makes this one obsolete."""


class RequestQueue:
    """Run computations in a thread, one at a time, in the order of the requests."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._newest: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._count = 0

    def register(self, tab: str, kind: str) -> Callable[[], None]:
        """Register a request; return a function that raises `Superseded` once there is a newer one."""
        self._count += 1
        number = self._count
        for superseded in SUPERSEDED_KINDS[kind]:
            self._newest[tab, superseded] = number
            self._newest.move_to_end((tab, superseded))
        while len(self._newest) > MAX_TABS:
            self._newest.popitem(last=False)

        def check_current() -> None:
            if self._newest.get((tab, kind), number) != number:
                raise Superseded

        return check_current

    async def run(self, work: Callable[[], T], check_current: Callable[[], None] | None = None) -> T:
        """Run a function when its turn comes, unless the request has been superseded by then."""
        async with self._lock:
            if check_current is not None:
                check_current()
            return await _run_in_thread(work)

    async def run_parts(self, parts: Iterator[Any], check_current: Callable[[], None]) -> Any:
        """Run a generator, between whose parts other requests have their turn; return the first value but None."""
        result = None
        while result is None:
            result = await self.run(lambda: next(parts), check_current)
        return result
