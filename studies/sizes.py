"""Time and memory of one fit against the number of samples: ``python -m studies.sizes``.

Each size and way runs in a process of its own, so that peak memory is its own. Prints rows of a table.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

SIZES = (1_000, 4_000, 8_000, 20_000, 100_000, 500_000, 2_000_000)
EXACT_UP_TO = 8_000
CHUNK = 10_000


def chunk(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples of four domains and five classes in ten dimensions, some of a stream."""
    world, rng = np.random.default_rng(0), np.random.default_rng(1 + seed)
    centers, shifts = 2 * world.standard_normal((5, 10)), world.standard_normal((4, 10))
    y, domain = rng.integers(5, size=n), rng.integers(4, size=n)
    return centers[y] + shifts[domain] + rng.standard_normal((n, 10)), y, domain


def fit(way: str, n: int) -> None:
    """Fit CIDG one way and print seconds and peak memory."""
    from sklearn.frozen import FrozenEstimator

    from unseen import CIDG, PivotedNystroem

    start = 0.0
    if way == "stream":
        landmarks = PivotedNystroem(300, random_state=0).fit(chunk(CHUNK, 0)[0])
        model = CIDG(feature_map=FrozenEstimator(landmarks))
        for k in range(-(-n // CHUNK)):
            X, y, domain = chunk(min(CHUNK, n - k * CHUNK), k)
            begin = time.perf_counter()
            model.partial_fit(X, y, sample_domain=domain)
            start += time.perf_counter() - begin
        begin = time.perf_counter()
        assert model.finalize().eigenvalues_[0] > 0
        seconds = start + time.perf_counter() - begin
    else:
        X, y, domain = chunk(n, 0)
        model = CIDG() if way == "exact" else CIDG(feature_map=PivotedNystroem(300, random_state=0))
        begin = time.perf_counter()
        model.fit(X, y, sample_domain=domain)
        seconds = time.perf_counter() - begin
    print(f"{n},{way},{seconds:.2f},{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        fit(sys.argv[1], int(sys.argv[2]))
    else:
        print("samples,way,seconds,peak MB", flush=True)
        for n in SIZES:
            for way in ("exact", "landmarks", "stream"):
                if (way != "exact" or n <= EXACT_UP_TO) and (way != "landmarks" or n <= 500_000):
                    subprocess.run([sys.executable, "-m", "studies.sizes", way, str(n)], check=True)
