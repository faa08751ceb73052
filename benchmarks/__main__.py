"""Run every benchmark and print one table: ``python -m benchmarks [name ...]``."""

from __future__ import annotations

import sys

from .measure import run

SUITES = (
    "jobs",
    "projections",
    "selection",
    "growth",
    "domains",
    "nystroem",
    "streaming",
    "dask_cluster",
    "images",
    "serving",
    "explore",
    "peers",
)

if __name__ == "__main__":  # processes that a suite spawns import this file
    sys.exit(run("benchmarks", SUITES, sys.argv[1:]))
