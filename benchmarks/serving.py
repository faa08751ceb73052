"""Latency of one row, and the time of adaptation."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

import unseen
from unseen.adaptation import HeldOutDomain, simulate_adaptation

from .measure import Row

N_ROWS = 600
N_SITES = 6
N_FEATURES = 12
WARM_UP = 10
RUNS = 200
MAX_MILLISECONDS = 5.0
SOURCE_ROWS = 4_000
MAX_SECONDS = 10.0


def table(n: int, seed: int = 0) -> pl.DataFrame:
    """Patients of several sites: ten numbers and two columns of levels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES - 2))
    label = np.where(X[:, 0] - X[:, 1] + rng.normal(size=n) > 0, "ill", "well")
    columns = {f"x{i}": X[:, i] for i in range(X.shape[1])}
    levels = {"sex": rng.choice(["f", "m"], n), "ward": rng.choice(list("abcd"), n)}
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


def rows() -> Iterator[Row]:
    frame = table(N_ROWS)
    model = unseen.fit(frame, label="label", domain="site")
    row = frame.drop("label", "site").row(0, named=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        milliseconds = median_milliseconds(lambda: model.predict_proba(row))
        members = len(model.table_model.ensemble.members_)
        yield Row("one row, as a dict: milliseconds of CPU", milliseconds, MAX_MILLISECONDS, True, f"{members} members")
        large = unseen.fit(table(SOURCE_ROWS), label="label", domain="site")
        site = table(100, seed=1).with_columns(site=pl.lit("new"))
        start = time.perf_counter()
        for level in ("offsets", "weights", "local"):
            large.adapt(site, level=level)
        large.adapt(site)
        seconds = (time.perf_counter() - start) / 4
    yield Row("adapting to 100 labels, seconds", seconds, MAX_SECONDS, True, f"{SOURCE_ROWS:,} source rows")
    domains = _random_domains(12, 300, 3, 8)
    start = time.perf_counter()
    simulate_adaptation(domains)
    seconds = time.perf_counter() - start
    yield Row("simulation of adaptation in a fit, seconds", seconds, 2.0, True, "12 domains, 3 classes, 8 members")


def _random_domains(n_domains: int, n: int, n_classes: int, n_members: int) -> list[HeldOutDomain]:
    rng = np.random.default_rng(0)
    domains = []
    for k in range(n_domains):
        members = rng.dirichlet(np.ones(n_classes), size=(n_members, n))
        weights = np.full(n_members, 1 / n_members)
        codes = rng.integers(n_classes, size=n)
        features = rng.normal(size=(n, 10))
        probabilities = np.tensordot(weights, members, axes=1)
        domains.append(HeldOutDomain(f"{k}", probabilities, codes, members, weights, features=features))
    return domains
