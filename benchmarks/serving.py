"""Latency of one row, and the time of adaptation."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import polars as pl

import unseen
from unseen.model_selection import HeldOutDomain, simulate_adaptation, single_thread

from .growth import make_table
from .measure import Row

N_ROWS = 600
N_SITES = 6
N_FEATURES = 12
WARM_UP = 10
RUNS = 200
MAX_MILLISECONDS = 50.0
SOURCE_ROWS = 4_000
MAX_SECONDS = 10.0


def table(n: int, seed: int = 0, *, interactions: bool = False) -> pl.DataFrame:
    """Patients of several sites: ten numbers and two columns of levels.

    The label depends on a sum of two columns or, with `interactions`, on products and thresholds as well, so that the
    ensemble has trees beside linear members.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES - 2))
    noise = rng.normal(size=n)
    columns = {f"x{i}": X[:, i] for i in range(X.shape[1])}
    levels = {"sex": rng.choice(["f", "m"], n), "ward": rng.choice(list("abcd"), n)}
    score = X[:, 0] - X[:, 1] + noise
    if interactions:
        side = np.where(np.isin(levels["ward"], ["a", "c"]), 1.0, -1.0)
        score = X[:, 0] - X[:, 1] + 2 * (X[:, 2] > 1) * X[:, 3] + 2 * side * (X[:, 4] > 0.5) + 0.7 * noise
    label = np.where(score > 0, "ill", "well")
    return pl.DataFrame({**columns, **levels, "label": label, "site": [f"site {i % N_SITES}" for i in range(n)]})


def median_milliseconds(function: Callable[[], object]) -> float:
    """Median CPU time, which is the latency on an idle machine: the computation runs in one thread."""
    for _ in range(WARM_UP):
        function()
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return 1_000 * statistics.median(times)


def row_latencies() -> Iterator[Row]:
    """Latency of one row for ensembles of linear members, with trees, and of a wide table."""
    wide = pl.from_pandas(make_table(N_ROWS)).rename({"domain": "site"})
    tables = {
        "12 columns, linear": table(N_ROWS),
        "12 columns, interactions": table(N_ROWS, interactions=True),
        "47 mixed columns": wide,
    }
    for name, frame in tables.items():
        model = unseen.fit(frame, label="label", domain="site")
        row = frame.drop("label", "site").row(0, named=True)
        milliseconds = median_milliseconds(partial(model.predict_proba, row))
        members = model.table_model.ensemble.members_
        kinds = sorted({entry["model"] for entry in model.card["ensemble"]["members"]})
        detail = f"{len(members)} members: {', '.join(kinds)}"
        yield Row(f"one row, as a dict, {name}: milliseconds of CPU", milliseconds, MAX_MILLISECONDS, True, detail)


def rows() -> Iterator[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from row_latencies()
        large = unseen.fit(table(SOURCE_ROWS), label="label", domain="site")
        site = table(100, seed=1).with_columns(site=pl.lit("new"))
        start = time.perf_counter()
        for level in ("none", "offsets"):
            large.adapt(site, level=level)
        large.adapt(site)
        seconds = (time.perf_counter() - start) / 3
    yield Row("adapting to 100 labels, seconds", seconds, MAX_SECONDS, True, f"{SOURCE_ROWS:,} source rows")
    domains = _random_domains(12, 300, 3)
    with single_thread():
        start = time.process_time()
        simulate_adaptation(domains)
        seconds = time.process_time() - start
    yield Row("simulation of adaptation, seconds of CPU", seconds, 2.0, True, "12 domains, 3 classes")


def _random_domains(n_domains: int, n: int, n_classes: int) -> list[HeldOutDomain]:
    rng = np.random.default_rng(0)
    return [
        HeldOutDomain(f"{k}", rng.dirichlet(np.ones(n_classes), size=n), rng.integers(n_classes, size=n))
        for k in range(n_domains)
    ]
