"""Context managers for settings of the whole process, such as warning filters, that several threads may enter."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


class SharedContext:
    """A process-wide setting shared by threads: the first to enter applies it, the last to leave restores it.

    If each thread saved and restored the setting, one could undo what another still relies on.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._n_inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._n_inside:
                self._setting = self._make()
                self._setting.__enter__()
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._setting.__exit__(None, None, None)


_FILTERS = SharedContext(warnings.catch_warnings)


@contextmanager
def ignore_warnings(*kinds: type[Warning] | tuple[type[Warning], str]) -> Iterator[None]:
    """Ignore warnings of categories, or of (category, message) pairs, whose message must match at the start.

    If several threads or nested calls ignore warnings, filters remain active until the last of them ends.
    """
    with _FILTERS:
        for kind in kinds:
            category, message = kind if isinstance(kind, tuple) else (kind, "")
            warnings.filterwarnings("ignore", message, category)
        yield
