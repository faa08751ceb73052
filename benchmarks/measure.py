"""Measuring: minima of several runs, peak memory of a child process, and rows of one table."""

from __future__ import annotations

import importlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info


@dataclass(frozen=True)
class Row:
    """One claim: a ratio, the bound it must respect, and what it was measured from."""

    claim: str
    value: float
    bound: float
    at_most: bool
    detail: str

    @property
    def holds(self) -> bool:
        """Whether the measurement respects the bound."""
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def __str__(self) -> str:
        sign = "<=" if self.at_most else ">="
        verdict = "ok  " if self.holds else "MISS"
        return f"{verdict} {self.claim:<64} {self.value:8.2f} {sign} {self.bound:<6g} {self.detail}"


def best_of(runs: int, *functions: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Shortest time of each function; they take turns, so that a slow spell of the machine hits all of them."""
    times = [float("inf")] * len(functions)
    for _ in range(runs):
        for i, function in enumerate(functions):
            start = clock()
            function()
            times[i] = min(times[i], clock() - start)
    return times


PEAK = """
def memory(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))
{prepare}
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the peak so far
before = memory("VmRSS:")
{run}
print(memory("VmHWM:") - before)
"""


def peak_bytes(prepare: str, run: str) -> int:
    """Peak resident memory that `run` adds to what is held after `prepare`, in a process of its own (Linux)."""
    script = PEAK.format(prepare=prepare, run=run)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) * 1024


def samples(n: int, n_features: int = 100, n_domains: int = 3, n_classes: int = 5) -> tuple[np.ndarray, ...]:
    """Shifted Gaussian classes: X, y, domain."""
    rng = np.random.default_rng(0)
    y, d = rng.integers(0, n_classes, n), rng.integers(0, n_domains, n)
    X = rng.normal(size=(n, n_features)) + 0.5 * rng.normal(size=(n_classes, n_features))[y]
    return X + 0.5 * rng.normal(size=(n_domains, n_features))[d], y, d


def machine() -> str:
    """Facts that a timing depends on."""
    blas = ", ".join(f"{p['internal_api']} {p['version']} x{p['num_threads']}" for p in threadpool_info())
    return (
        f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}; {os.cpu_count()} cores; {blas}"
    )


def run(package: str, suites: Sequence[str], names: Sequence[str]) -> int:
    """Print the rows of some suites, all by default; exit code 1: a bound is missed.

    A suite is a module of the package with a function ``rows()`` that yields a `Row` as soon as it is known.
    """
    unknown = sorted(set(names) - set(suites))
    if unknown:
        print(f"unknown suite {unknown[0]!r}; there are: {', '.join(suites)}", file=sys.stderr)
        return 2
    print(machine(), flush=True)
    missed = 0
    for name in names or suites:
        for row in importlib.import_module(f".{name}", package).rows():
            print(row, flush=True)
            missed += not row.holds
    return 1 if missed else 0
