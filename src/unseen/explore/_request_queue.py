"""Who waits for what: one computation at a time, and of each tab only what it asked for last."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
MAX_TABS = 1_000  # that are remembered
# What a newer request of a tab makes useless, by its kind: a surface is drawn once sliders rest.
SUPERSEDED_KINDS: dict[str, tuple[str, ...]] = {kind: (kind,) for kind in ("validate", "surface", "skew", "pool")}
SUPERSEDED_KINDS["solve"] = ("solve", "validate", "surface")


async def _run_in_thread(work: Callable[[], T]) -> T:
    """Do some work in a thread that an ending server does not wait for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(set_it: Callable[[Any], None], what: Any) -> None:
        if not done.done():  # nobody waits for what was canceled
            set_it(what)

    def run() -> None:
        told: tuple[Callable[[Any], None], Any]
        try:
            told = done.set_result, work()
        except BaseException as error:  # raised again where it is waited for
            told = done.set_exception, error
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(tell, *told)

    threading.Thread(target=run, daemon=True).start()
    return await done


class Superseded(Exception):
    """Somebody moved on: the newest request of the tab is another one."""


class RequestQueue:
    """Computes in a thread of its own, request by request, in the order in which they came."""

    def __init__(self) -> None:
        self._busy = asyncio.Lock()
        self._newest: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._count = 0

    def take(self, tab: str, kind: str) -> Callable[[], None]:
        """Note a request; what is returned raises `Superseded` once there is a newer one."""
        self._count += 1
        number = self._count
        for overtaken in SUPERSEDED_KINDS[kind]:
            self._newest[tab, overtaken] = number
            self._newest.move_to_end((tab, overtaken))
        while len(self._newest) > MAX_TABS:
            self._newest.popitem(last=False)

        def going() -> None:
            if self._newest.get((tab, kind), number) != number:
                raise Superseded

        return going

    async def run(self, going: Callable[[], None], work: Callable[[], T]) -> T:
        """Do some work when it is its turn, unless it has been overtaken by then."""
        async with self._busy:
            going()
            return await _run_in_thread(work)

    async def each(self, going: Callable[[], None], parts: Iterator[Any]) -> Any:
        """Work in parts, between which others have their turn; the last of them is the answer."""
        answer = None
        while answer is None:
            answer = await self.run(going, lambda: next(parts))
        return answer
