"""What workers of a cluster are asked to do in tests: a module that they import in no time."""

from __future__ import annotations

import os
import time


def squared(seconds, x):
    """Slow enough for something to happen meanwhile."""
    time.sleep(seconds)
    return x * x


def waiting(seconds):
    time.sleep(seconds)
    return seconds


def process(seconds, _):
    time.sleep(seconds)
    return os.getpid()


def refuse(limit, x):
    if x > limit:
        raise KeyError(f"{x} is too large")
    return x
