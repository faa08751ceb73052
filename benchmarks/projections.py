"""Fitting and transforming, against textbook code and against the BLAS calls that no exact fit can avoid."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from scipy import linalg
from sklearn.metrics.pairwise import pairwise_kernels

from unseen import CIDG, DICA, MDA, SCA
from unseen.kernels import center_kernel

from .measure import Row, best_of, peak_bytes, samples

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import textbook

GAMMA = 0.005
SETTINGS = {"gamma": GAMMA, "conditional_weight": 1e3, "prior_weight": 1e3}


def rows() -> Iterator[Row]:
    for n in (1000, 2000, 4000):
        yield from fit_rows(n)
    yield from eigendecomposition_rows(4000)
    yield memory_row(4000)
    yield transform_row(4000, 10_000)
    yield import_row()


def fit_rows(n: int) -> Iterator[Row]:
    X, y, d = samples(n)
    K = pairwise_kernels(X, metric="rbf", gamma=GAMMA)
    center_kernel(K)
    ridge = 1e-4 * np.linalg.norm(K) ** 2
    model = CIDG(ridge=ridge, **SETTINGS)
    squared = linalg.blas.dsyrk(1.0, K.T, lower=True)
    squared[np.diag_indices(n)] += ridge
    spare = np.empty_like(squared, order="F")

    def factorize() -> None:
        spare[...] = squared
        linalg.lapack.dpotrf(spare, lower=True, overwrite_a=True, clean=False)

    fit, gram, syrk, copy, potrf = best_of(
        5,
        lambda: model.fit(X, y, sample_domain=d),
        lambda: pairwise_kernels(X, metric="rbf", gamma=GAMMA),
        lambda: linalg.blas.dsyrk(1.0, K.T, lower=True),
        lambda: np.copyto(spare, squared),
        factorize,
    )
    floor = gram + syrk + potrf - copy
    (slow,) = best_of(1 if n > 2000 else 2, lambda: textbook_fit(X, y, d, ridge))
    bound = 8 if n >= 4000 else 1  # the textbook's cubic terms need some room to show
    yield Row(f"CIDG.fit, n={n}: textbook / ours", slow / fit, bound, False, f"{slow:.2f} s / {fit:.3f} s")
    yield Row(f"CIDG.fit, n={n}: ours / floor", fit / floor, 1.5, True, f"{fit:.3f} s / {floor:.3f} s")


def textbook_fit(X: np.ndarray, y: np.ndarray, d: np.ndarray, ridge: float) -> None:
    K = textbook.centered(pairwise_kernels(X, metric="rbf", gamma=GAMMA))
    N, A = textbook.cidg(K, y, d, conditional_weight=1e3, prior_weight=1e3, ridge=ridge)
    linalg.eigh(N, A)


def eigendecomposition_rows(n: int) -> Iterator[Row]:
    """Single fits, kernel matrix and all, against the decomposition that a search needs and a fit does not."""
    X, y, d = samples(n)
    K = pairwise_kernels(X, metric="rbf", gamma=GAMMA)
    models = {
        "CIDG(norm_weight=1)": CIDG(gamma=GAMMA, norm_weight=1),
        "MDA": MDA(gamma=GAMMA),
        "DICA": DICA(gamma=GAMMA),
        "SCA": SCA(gamma=GAMMA),
        "UDICA": DICA(gamma=GAMMA, supervised=False),
    }
    fits = [partial(model.fit, X, y, sample_domain=d) for model in models.values()]
    eigh, *seconds = best_of(2, lambda: linalg.eigh(K), *fits)
    for name, ours in zip(models, seconds, strict=True):
        yield Row(f"{name}.fit, n={n}: eigh(K) / ours", eigh / ours, 3, False, f"{eigh:.2f} s / {ours:.2f} s")


def memory_row(n: int) -> Row:
    peak = peak_bytes(
        "from unseen import CIDG\nimport sklearn.metrics.pairwise, scipy.linalg\n"
        "from benchmarks.measure import samples\n"
        f"X, y, d = samples(400)\nCIDG().fit(X, y, sample_domain=d)\nX, y, d = samples({n})",
        "CIDG().fit(X, y, sample_domain=d)",
    )
    return Row(f"CIDG.fit, n={n}: peak memory / one n x n", peak / (8 * n * n), 3, True, f"{peak / 2**20:.0f} MiB")


def transform_row(n: int, batch: int) -> Row:
    X, y, d = samples(n)
    new = samples(batch)[0]
    model = CIDG(gamma=GAMMA).fit(X, y, sample_domain=d)
    coefficients = model.dual_coef_
    ours, floor = best_of(
        5,
        lambda: model.transform(new),
        lambda: pairwise_kernels(new, X, metric="rbf", gamma=GAMMA) @ coefficients,
    )
    claim = f"transform of {batch} rows, n={n}: ours / kernel and GEMM"
    return Row(claim, ours / floor, 1.5, True, f"{ours:.3f} s / {floor:.3f} s")


def import_row() -> Row:
    def milliseconds(module: str) -> float:
        script = f"import time; t = time.perf_counter(); import {module}; print(1e3 * (time.perf_counter() - t))"
        return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout)

    plain = min(milliseconds("sklearn") for _ in range(7))
    ours = min(milliseconds("sklearn, unseen") for _ in range(7))
    return Row("import unseen on top of sklearn, ms", ours - plain, 100, True, f"{ours:.0f} ms - {plain:.0f} ms")


warnings.filterwarnings("error")
