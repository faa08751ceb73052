"""What workers of a cluster are asked to do in tests: a module that they import in no time."""

from __future__ import annotations

import time
from pathlib import Path

from threadpoolctl import threadpool_info


def squared(seconds, x):
    """Slow enough for something to happen meanwhile."""
    time.sleep(seconds)
    return x * x


def waiting(seconds):
    time.sleep(seconds)
    return seconds


def slowly(block):
    """A part of an array, after a while."""
    return block + 0 * waiting(0.25)


def refuse(limit, x):
    if x > limit:
        raise KeyError(f"{x} is too large")
    return x


def after(folder, names):
    """The first of these, once somebody has taken the others, and with how many threads."""
    name, *others = names
    deadline = time.monotonic() + 60
    while not all(Path(folder, other).exists() for other in others):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return name, max(pool["num_threads"] for pool in threadpool_info())
