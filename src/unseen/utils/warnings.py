"""Context managers for settings of the whole process, such as warning filters, that several threads may enter."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


class SharedContext:
    """A setting that all threads share: the first to enter makes it, the last to leave takes it back.

    Threads that each saved and restored it would bring back what another had set, and take away what another relies on.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._setting = self._make()
                self._setting.__enter__()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._setting.__exit__(None, None, None)


_FILTERS = SharedContext(warnings.catch_warnings)


@contextmanager
def ignore_warnings(*kinds: type[Warning] | tuple[type[Warning], str]) -> Iterator[None]:
    """Ignore warnings of some categories, or of those that begin with some words; within another, until both end."""
    with _FILTERS:
        for kind in kinds:
            category, message = kind if isinstance(kind, tuple) else (kind, "")
            warnings.filterwarnings("ignore", message, category)
        yield
