"""A million rows in chunks: against the features and the one matrix product per chunk that no stream can avoid."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler

from unseen import CIDG
from unseen.estimators import Statistics

from .measure import Row, best_of, peak_bytes, samples

N_FEATURES = 64
N_COMPONENTS = 512
CHUNK = 10_000
Chunk = tuple[np.ndarray, ...]


def rows() -> Iterator[Row]:
    yield from time_rows(1_000_000)
    yield memory_row(1_000_000)
    yield solve_row()


def chunks(n: int) -> Iterator[Chunk]:
    """Chunks of CHUNK rows, n rows in all; the same few take turns, so that making them costs nothing."""
    few = [tuple(part[i::5] for part in samples(5 * CHUNK, N_FEATURES)) for i in range(5)]
    return (few[i % 5] for i in range(n // CHUNK))


def feature_map() -> RBFSampler:
    return RBFSampler(gamma=0.005, n_components=N_COMPONENTS, random_state=0).fit(np.zeros((1, N_FEATURES)))


def stream(n: int) -> CIDG:
    """Fit a projection to n rows, chunk by chunk, and use it."""
    model = CIDG(feature_map=FrozenEstimator(feature_map()))
    for X, y, d in chunks(n):
        model.partial_fit(X, y, sample_domain=d)
    model.transform(X[:1])
    return model


def floor(n: int) -> np.ndarray:
    """Evaluate the map and one matrix product for each chunk."""
    gram, transform = np.zeros((N_COMPONENTS, N_COMPONENTS)), feature_map().transform
    for X, _, _ in chunks(n):
        features = transform(X)
        gram += features.T @ features
    return gram


def time_rows(n: int) -> Iterator[Row]:
    ours, least, quarter = best_of(2, lambda: stream(n), lambda: floor(n), lambda: stream(n // 4))
    what = f"{n:,} x {N_FEATURES} rows, r={N_COMPONENTS}"
    yield Row(f"partial_fit, {what}: ours / floor", ours / least, 1.5, True, f"{ours:.1f} s / {least:.1f} s")
    yield Row(f"partial_fit, {what}: time / a quarter's", ours / quarter, 4.4, True, f"{ours:.1f} s / {quarter:.1f} s")


def memory_row(n: int) -> Row:
    peak = peak_bytes("", f"from benchmarks.streaming import stream\nstream({n})") / 1e6
    return Row(
        f"partial_fit, {n:,} rows: peak memory of the process, MB", peak, 600, True, "imports and chunks included"
    )


def solve_row() -> Row:
    """What using a stream costs, once."""
    model = stream(CHUNK)
    gram = floor(CHUNK)
    statistics = Statistics.from_arrays(model.statistics_)
    (solve, eigh) = best_of(3, lambda: model._solve_statistics(statistics), lambda: np.linalg.eigh(gram))
    return Row(f"first use, r={N_COMPONENTS}: ours / eigh", solve / eigh, 2, True, f"{solve:.3f} s / {eigh:.3f} s")
