"""Pivoted Nystroem features instead of the exact kernel: how much faster, and how near."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import Pipeline

from unseen import CIDG, PivotedNystroem, ProjectionSearchCV
from unseen.model_selection import LeaveOneDomainOut

from .measure import Row, best_of

REAL = Path(__file__).parents[2] / "shared" / "data" / "gvhd"
LANDMARKS = 600
N_PATIENTS = 12  # the last one is not seen in training


def rows() -> Iterator[Row]:
    (X, y, d), (X_new, y_new), source = patients(5000)
    exact, mapped = CIDG(), CIDG(feature_map=landmarks())
    slow, fast = best_of(6, lambda: exact.fit(X, y, sample_domain=d), lambda: mapped.fit(X, y, sample_domain=d))
    n = len(y)
    times = f"{slow:.2f} s / {fast:.3f} s; {source}"
    yield Row(f"CIDG.fit, n={n}, {LANDMARKS} landmarks: exact / ours", slow / fast, 8, False, times)
    gap = 100 * np.abs(mapped.eigenvalues_ / exact.eigenvalues_ - 1).max()
    missing = f"trace error {mapped.feature_map_.trace_error_:.1e}"
    yield Row(f"eigenvalues, n={n}, {LANDMARKS} landmarks: gap to exact, %", gap, 0.5, True, missing)
    scores = [
        100 * KNeighborsClassifier(1).fit(model.transform(X), y).score(model.transform(X_new), y_new)
        for model in (exact, mapped)
    ]
    points = abs(scores[0] - scores[1])
    detail = f"exact {scores[0]:.2f}, ours {scores[1]:.2f}"
    yield Row(f"1-NN on the unseen patient, n={n}: gap to exact, points", points, 0.5, True, detail)

    (X, y, d), _, source = patients(20_000)
    extrapolated = slow * (len(y) / n) ** 3
    (fast,) = best_of(3, lambda: mapped.fit(X, y, sample_domain=d))
    detail = f"{extrapolated:.0f} s by the cube of n / {fast:.2f} s; {source}"
    yield Row(f"CIDG.fit, n={len(y)}, {LANDMARKS} landmarks: exact / ours", extrapolated / fast, 40, False, detail)
    yield floor_row(X)
    yield search_row(X, y, d)


def landmarks() -> PivotedNystroem:
    return PivotedNystroem(LANDMARKS, random_state=0)


def floor_row(X: np.ndarray) -> Row:
    """The fit against what it cannot avoid: one kernel value and half a row of the Gram product per feature."""
    model = landmarks().fit(X)
    features = np.ascontiguousarray(model.transform(X).T)
    step = model.block_size

    def products() -> None:
        for i in range(step, LANDMARKS, step):
            features[:i, :step].T @ features[:i]

    fit, kernel, gemm = best_of(
        5, lambda: landmarks().fit(X), lambda: rbf_kernel(model.components_, X, gamma=model.gamma_), products
    )
    detail = f"{fit:.3f} s / ({kernel:.3f} + {gemm:.3f}) s"
    return Row(f"PivotedNystroem.fit, n={len(X)}: ours / kernel and GEMM", fit / (kernel + gemm), 3, True, detail)


def search_row(X: np.ndarray, y: np.ndarray, d: np.ndarray) -> Row:
    """A grid on explicit features against the same pipeline fitted for each setting and fold."""
    frozen = FrozenEstimator(landmarks().fit(X[:: len(X) // 2000]))
    splits = list(LeaveOneDomainOut().split(X, y, d))
    grid = {
        "conditional_weight": list(np.geomspace(1, 1e6, 10)),
        "prior_weight": [0.0, 1.0],
        "ridge": ["1e-2*scale", "0.1*scale", "scale", "10*scale"],
    }
    search = ProjectionSearchCV(CIDG(feature_map=frozen), grid, classifier=NearestCentroid(), cv=splits)
    (fast,) = best_of(2, lambda: search.fit(X, y, sample_domain=d))
    start = time.perf_counter()
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = Pipeline([("projection", CIDG(feature_map=frozen)), ("classifier", NearestCentroid())])
        GridSearchCV(pipeline, {"projection__ridge": ["scale"]}, cv=splits).fit(X, y, sample_domain=d)
    n_fits = len(splits) + 1
    slow = (time.perf_counter() - start) * (80 * len(splits) + 1) / n_fits
    detail = f"{slow:.0f} s extrapolated from {n_fits} fits / {fast:.2f} s"
    return Row(f"80 settings, n={len(y)}, {LANDMARKS} landmarks: GridSearchCV / ours", slow / fast, 30, False, detail)


def patients(n: int) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...], str]:
    """About n labeled cells of all patients but one, those of that one, and where they come from.

    Flow cytometry where it is at hand beside the project, otherwise something like it: six markers, cell types whose
    proportions differ wildly between patients, and patients whose markers are shifted.
    """
    rng = np.random.default_rng(0)
    parts = []
    for i in range(N_PATIENTS):
        X, y = measured(i) if REAL.is_dir() else generated(i)
        keep = rng.permutation(len(y))[: 5000 if i == N_PATIENTS - 1 else n // (N_PATIENTS - 1)]
        parts.append((X[keep], y[keep], np.full(len(keep), i)))
    X, y, d = (np.concatenate(part) for part in zip(*parts[:-1], strict=True))
    return (X, y, d), parts[-1][:2], "gvhd" if REAL.is_dir() else "generated"


def measured(patient: int) -> tuple[np.ndarray, np.ndarray]:
    with np.load(REAL / f"patient{patient + 1:02d}.npz") as file:
        labeled = file["y"] > 0
        return file["X"][labeled].astype(float), file["y"][labeled]


def generated(patient: int) -> tuple[np.ndarray, np.ndarray]:
    cell_types = np.random.default_rng(0).uniform(200, 800, size=(4, 6))
    rng = np.random.default_rng(1 + patient)
    y = rng.choice(4, size=12_000, p=rng.dirichlet([0.5, 0.5, 0.5, 2]))
    shift = rng.normal(scale=40, size=6)
    return cell_types[y] + shift + rng.normal(scale=60, size=(len(y), 6)), y
