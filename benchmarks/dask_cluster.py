"""A fit on a cluster of this machine: what a second worker gains, and what the cluster costs beside a plain stream."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from sklearn.frozen import FrozenEstimator

from unseen import CIDG

from .measure import Row, best_of, peak_bytes
from .streaming import CHUNK, N_FEATURES, feature_map

N = 40 * CHUNK


def rows() -> Iterator[Row]:
    alone = fit_seconds(0)
    one, two = fit_seconds(1), fit_seconds(2)
    yield Row(f"Dask, {N:,} rows: one worker / one thread", one / alone, 2, True, f"{one:.1f} s / {alone:.1f} s")
    yield Row(f"Dask, {N:,} rows: one worker / two workers", one / two, 1.6, False, f"{one:.1f} s / {two:.1f} s")
    yield memory_row()


def collections(n: int) -> tuple[da.Array, ...]:
    """Samples, classes and domains that are made where they are needed."""
    rng = da.random.default_rng(0)
    y, d = (rng.integers(0, k, size=n, chunks=CHUNK) for k in (5, 3))
    X = rng.normal(size=(n, N_FEATURES), chunks=(CHUNK, -1))
    return X + y[:, None] * np.linspace(0, 1, N_FEATURES) + d[:, None] * np.linspace(1, 0, N_FEATURES), y, d


def fit(n: int) -> CIDG:
    X, y, d = collections(n)
    return CIDG(feature_map=FrozenEstimator(feature_map())).fit(X, y, sample_domain=d)


def fit_seconds(n_workers: int) -> float:
    """Seconds of a fit with so many workers, in a process of its own: workers load what their parent was started as."""
    script = f"from benchmarks.dask_cluster import least_fit; print(least_fit({n_workers}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def least_fit(n_workers: int) -> float:
    """Least seconds of two fits after a first, in which workers import what they need. 0 workers: no cluster."""
    with contextlib.ExitStack() as stack:
        if n_workers == 0:
            stack.enter_context(dask.config.set(scheduler="synchronous"))
        else:
            options = {"threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
            cluster = stack.enter_context(LocalCluster(n_workers=n_workers, **options))
            stack.enter_context(Client(cluster))
        fit(2 * CHUNK)
        return best_of(2, lambda: fit(N))[0]


def memory_row() -> Row:
    """Memory that a fit adds at home, with a cluster doing the work."""
    peak = peak_bytes(
        "from distributed import LocalCluster\nfrom benchmarks.dask_cluster import CHUNK, N, fit\n"
        'cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1")\n'
        "client = cluster.get_client()\nfit(2 * CHUNK)",
        "fit(N)\nclient.close()\ncluster.close()",
    )
    whole = 8 * N * N_FEATURES
    detail = f"{peak / 2**20:.0f} MiB / {whole / 2**20:.0f} MiB"
    return Row(f"Dask, {N:,} rows: memory at home / size of X", peak / whole, 0.5, True, detail)
