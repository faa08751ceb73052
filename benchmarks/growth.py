"""Time and memory of `unseen.fit` against the number of rows, beside the searches that a user would run instead.

The table is synthetic: six domains and 47 columns (numbers, long-tailed numbers, integers with few values, categories;
missing values) with a binary label. The reference is a logistic search, a boosting search and a forest
(`studies.baselines`) on the same rows and cores. Each measurement is a process of its own, which first runs the same
code on a small table, so that imports and the start of workers are not measured.

    python -m benchmarks growth
    python -m benchmarks.growth --most 8000 --csv docs/results/growth.csv
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .measure import Row, machine

SIZES = (500, 1_000, 2_000, 4_000, 8_000, 50_000)
RUNS = {500: 3, 1_000: 3, 2_000: 2, 4_000: 2}  # and one of each larger size; the shortest time counts
WARM_UP_ROWS = 180
N_DOMAINS = 6
OURS = "unseen.fit"
REFERENCE = "searches"
COMPARE = "compare"
LARGEST_RATIO = 2.0
LEAST_GROWTH = 0.8  # of the time at fewer rows: monotone within 20%
LARGEST_MEMORY = 1.0  # GB
LARGEST_SIZE_WITH_MEMORY_BOUND = 8_000
COMPARE_SECONDS = 30


@dataclass(frozen=True)
class Cost:
    """Cost of one job.

    Attributes
    ----------
    seconds : float
        Wall time.
    cpu : float
        CPU seconds of the process and its workers. Other processes on the machine change this less than `seconds`.
    memory : float
        Peak memory of the process in GB.
    total_memory : float
        The same plus the peaks of its workers, each of which imports the libraries again.
    """

    seconds: float
    cpu: float
    memory: float
    total_memory: float


def make_table(n: int, seed: int = 0) -> pd.DataFrame:
    """Return n rows of six domains and 47 columns, with the columns `label` and `domain`.

    Domains differ in the means of columns, in the frequencies of categories, in the share of missing values, in the
    frequency of the label and, a little, in its dependence on the columns. These differences do not depend on `seed`.
    """
    rng = np.random.default_rng(seed)
    fixed = np.random.default_rng(12345)
    domain = np.arange(n) % N_DOMAINS
    columns: dict[str, Any] = {}
    score = fixed.normal(scale=0.7, size=N_DOMAINS)[domain]
    for j in range(20):
        values = rng.normal(size=n) + fixed.normal(scale=0.5, size=N_DOMAINS)[domain]
        slopes = fixed.normal(scale=0.3) + fixed.normal(scale=0.1, size=N_DOMAINS)
        score += slopes[domain] * values
        columns[f"number{j}"] = values
    score += 0.5 * columns["number0"] * columns["number1"]
    for j in range(10):
        logarithm = rng.normal(size=n) + fixed.normal(scale=0.4, size=N_DOMAINS)[domain]
        score += fixed.normal(scale=0.2) * logarithm
        columns[f"tail{j}"] = np.exp(1.5 * logarithm)
    for j in range(8):
        codes = rng.poisson(fixed.uniform(0.5, 2, size=N_DOMAINS)[domain]).clip(max=6)
        effects = fixed.normal(scale=0.4, size=7)
        score += effects[codes]
        columns[f"code{j}"] = codes
    for j in range(9):
        n_categories = 3 + j
        frequencies = fixed.dirichlet(np.full(n_categories, 3.0), size=N_DOMAINS)
        position = (rng.random(n)[:, None] > frequencies.cumsum(axis=1)[domain]).sum(axis=1).clip(max=n_categories - 1)
        effects = fixed.normal(scale=0.4, size=n_categories)
        score += effects[position]
        columns[f"category{j}"] = np.array([f"level {k}" for k in range(n_categories)], dtype=object)[position]
    for name in ("number3", "number7", "number11", "tail2", "tail5", "category1", "category6"):
        shares = fixed.uniform(0, 0.3, size=N_DOMAINS)
        is_missing = rng.random(n) < shares[domain]
        columns[name][is_missing] = None if name.startswith("category") else np.nan
    is_positive = rng.random(n) < 1 / (1 + np.exp(-(score - np.median(score))))
    columns["label"] = np.where(is_positive, "yes", "no")
    columns["domain"] = np.array([f"site {k}" for k in range(N_DOMAINS)])[domain]
    return pd.DataFrame(columns)


def fit_ours(table: pd.DataFrame) -> None:
    import unseen

    unseen.fit(table, label="label", domain="domain", n_jobs=-1)


def fit_reference(table: pd.DataFrame) -> None:
    from studies.baselines import fit_baseline

    X = table.drop(columns=["label", "domain"])
    for name in ("logistic regression", "gradient boosting", "random forest"):
        fit_baseline(name, X, table["label"].to_numpy(dtype=object), table["domain"].to_numpy(dtype=object), n_jobs=-1)


def compare_digits() -> None:
    import unseen
    from unseen.datasets import load_rotated_digits

    digits = load_rotated_digits()
    unseen.compare(digits.data, digits.target, sample_domain=digits.domain, n_jobs=-1)


def peak_memory(process: str = "self") -> float:
    """Peak resident memory of a process in GB (Linux)."""
    lines = Path("/proc", process, "status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024 / 1e9


def worker_ids() -> list[str]:
    """Return the processes that this process has started and that still run (Linux)."""
    return [child for path in Path("/proc/self/task").glob("*/children") for child in path.read_text().split()]


def cpu_seconds() -> float:
    """CPU seconds of this process and its workers so far (Linux)."""
    ticks = 0
    for process in ("self", *worker_ids()):
        # The name of the program, in parentheses, may contain spaces; user and system time are fields 14 and 15.
        fields = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def perform(job: str, n: int) -> Cost:
    """Do a job in this process and return its cost."""
    warnings.simplefilter("ignore")
    if job == COMPARE:
        work: Callable[[], None] = compare_digits
    else:
        fit = fit_ours if job == OURS else fit_reference
        fit(make_table(WARM_UP_ROWS))
        work = partial(fit, make_table(n))
    cpu = cpu_seconds()
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    memory = peak_memory()
    total_memory = memory + sum(peak_memory(worker) for worker in worker_ids())
    return Cost(seconds, cpu_seconds() - cpu, memory, total_memory)


def measure(job: str, n: int = 0) -> Cost:
    """Do a job in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.growth", "--perform", job, "--rows", str(n)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def measure_in_turn(jobs: Sequence[str], n: int) -> dict[str, Cost]:
    """Return the cheapest of a few runs of each job, which take turns."""
    costs: dict[str, list[Cost]] = {job: [] for job in jobs}
    for _ in range(RUNS.get(n, 1)):
        for job in jobs:
            costs[job].append(measure(job, n))
    return {job: min(runs, key=lambda cost: cost.seconds) for job, runs in costs.items()}


def growth_rows(costs: dict[int, dict[str, Cost]]) -> Iterator[Row]:
    """Yield the claims on the largest of the sizes that were measured."""
    *smaller, n = sorted(costs)
    ours = costs[n][OURS]
    reference = costs[n][REFERENCE]
    detail = f"{ours.seconds:.1f} s / {reference.seconds:.1f} s; CPU {ours.cpu:.1f} s / {reference.cpu:.1f} s"
    ratio = ours.seconds / reference.seconds
    yield Row(f"unseen.fit, {n:,} rows: ours / three searches", ratio, LARGEST_RATIO, True, detail)
    if smaller:
        slowest = max(costs[size][OURS].seconds for size in smaller)
        detail = f"{ours.seconds:.1f} s / {slowest:.1f} s"
        yield Row(
            f"unseen.fit, {n:,} rows: time / longest of fewer rows", ours.seconds / slowest, LEAST_GROWTH, False, detail
        )
    if n <= LARGEST_SIZE_WITH_MEMORY_BOUND:
        detail = f"{ours.total_memory:.2f} GB with its workers"
        yield Row(f"unseen.fit, {n:,} rows: peak memory, GB", ours.memory, LARGEST_MEMORY, True, detail)


def rows(most: int = SIZES[-1], table: Path | None = None) -> Iterator[Row]:
    """Yield all claims up to a number of rows, and keep the costs in `table`."""
    costs: dict[int, dict[str, Cost]] = {}
    for n in (size for size in SIZES if size <= most):
        costs[n] = measure_in_turn([OURS, REFERENCE], n)
        yield from growth_rows(costs)
        if table is not None:
            write_costs(costs, table)
    seconds = measure(COMPARE).seconds
    yield Row("compare, embedded digits, default methods, one repeat, s", seconds, COMPARE_SECONDS, True, "all cores")


def write_costs(costs: dict[int, dict[str, Cost]], path: Path) -> None:
    """Write the costs for the documentation."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["Rows", "unseen.fit, s", "three searches, s", "unseen.fit, peak GB", "with workers, GB"])
        for n, jobs in costs.items():
            ours = jobs[OURS]
            seconds = (f"{ours.seconds:.1f}", f"{jobs[REFERENCE].seconds:.1f}")
            writer.writerow([n, *seconds, f"{ours.memory:.2f}", f"{ours.total_memory:.2f}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="largest number of rows (default: 50000)")
    parser.add_argument("--csv", type=Path, help="file for rows, seconds and memory")
    parser.add_argument("--perform", choices=(OURS, REFERENCE, COMPARE), help="one job in this process, as JSON")
    parser.add_argument("--rows", type=int, default=SIZES[0], help="rows of this job")
    options = parser.parse_args()
    if options.perform is not None:
        cost = perform(options.perform, options.rows)
        print(json.dumps(vars(cost)))
        return 0
    print(machine(), flush=True)
    missed = 0
    for row in rows(options.most, options.csv):
        print(row, flush=True)
        missed += not row.holds
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
