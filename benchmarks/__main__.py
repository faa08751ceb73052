"""Run every benchmark and print one table: ``python -m benchmarks [name ...]``."""

from __future__ import annotations

import importlib
import sys

from .measure import machine

SUITES = (
    "jobs",
    "projections",
    "selection",
    "domains",
    "nystroem",
    "streaming",
    "dask_cluster",
    "images",
    "explore",
)


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(SUITES))
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; there are: {', '.join(SUITES)}", file=sys.stderr)
        return 2
    print(machine(), flush=True)
    missed = 0
    for name in names or SUITES:
        for row in importlib.import_module(f".{name}", __package__).rows():
            print(row, flush=True)
            missed += not row.holds
    return 1 if missed else 0


if __name__ == "__main__":  # processes that a suite spawns import this file
    sys.exit(main(sys.argv[1:]))
