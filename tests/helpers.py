"""What several test files need: problems to solve and ways to compare answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy import linalg

import textbook
import unseen
from unseen import CIDG, DICA, KFDA, MDA, SCA
from unseen.exceptions import DataWarning, ignore_warnings

# Each method: estimator, textbook pencil, its weights, and the power of K's eigenvalues that its ridge lives on.
METHODS = {
    "CIDG": (CIDG, textbook.cidg, {"conditional_weight": 3.0, "prior_weight": 5.0}, 2),
    "CIDG with norm": (CIDG, textbook.cidg, {"conditional_weight": 3.0, "prior_weight": 5.0, "norm_weight": 1.0}, 2),
    "KFDA": (KFDA, textbook.kfda, {}, 2),
    "SCA": (SCA, textbook.sca, {"between_weight": 0.3, "domain_weight": 2.0}, 2),
    "DICA": (DICA, textbook.dica, {"output_ridge": 0.1}, 1),
    "UDICA": (DICA, textbook.udica, {}, 1),
    "MDA": (MDA, textbook.mda, {"discrepancy_weight": 0.4, "conditional_weight": 3.0, "within_weight": 2.0}, 1),
}


def fit_model(table, methods="auto", **options):
    """The model that `unseen.fit` makes of a table, without the notices about small tables."""
    with ignore_warnings(DataWarning):
        return unseen.fit(table, methods=methods, **options)


def make(name, **params):
    estimator, _, weights, _ = METHODS[name]
    options = {"supervised": False} if name == "UDICA" else {}
    return estimator(**{**weights, **options, **params})


def pencil(name, K, y, d, ridge, **weights):
    _, build, defaults, _ = METHODS[name]
    return build(K, y, d, ridge=ridge, **{**defaults, **weights})


@st.composite
def problems(draw, min_domains=1):
    """Samples with unbalanced and missing cells, every class and every domain present."""
    n_domains = draw(st.integers(min_domains, 4))
    n_classes = draw(st.integers(2, 4))
    counts = np.array(draw(st.lists(st.integers(0, 6), min_size=16, max_size=16)))
    counts = counts.reshape(4, 4)[:n_domains, :n_classes].copy()
    for j in np.flatnonzero(counts.sum(axis=0) == 0):
        counts[j % n_domains, j] = 2
    for s in np.flatnonzero(counts.sum(axis=1) == 0):
        counts[s, s % n_classes] = 2
    d, y = (np.repeat(index, counts.ravel()) for index in map(np.ravel, np.indices(counts.shape)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_features = draw(st.integers(2, 6))
    X = rng.normal(size=(len(y), n_features))
    X += rng.normal(size=(n_classes, n_features))[y] + rng.normal(size=(n_domains, n_features))[d]
    order = rng.permutation(len(y))
    return X[order], y[order], d[order]


def three_domains(n_per_cell=8, n_classes=3, n_features=4, seed=0, n_domains=3):
    """A fixed, well-behaved problem with shifted domains."""
    rng = np.random.default_rng(seed)
    y = np.tile(np.repeat(np.arange(n_classes), n_per_cell), n_domains)
    d = np.repeat(np.arange(n_domains), n_per_cell * n_classes)
    X = rng.normal(size=(len(y), n_features)) + 2 * rng.normal(size=(n_classes, n_features))[y]
    X += rng.normal(size=(n_domains, n_features))[d]
    return X, y, d


def residual(N, A, values, B):
    """Normwise residual of N b = g A b, the largest over the components."""
    norms = np.linalg.norm(N, 2) + values * np.linalg.norm(A, 2)
    return max(np.linalg.norm(N @ B - A @ B * values, axis=0) / (norms * np.linalg.norm(B, axis=0)))


def match(B, reference, values, gap=1e-3):
    """Rotate B's columns onto the reference within groups of nearly equal eigenvalues; alone, that is a sign."""
    turned = np.empty_like(B)
    start = 0
    for stop in range(1, len(values) + 1):
        if stop == len(values) or values[stop] < (1 - gap) * values[stop - 1]:
            group = slice(start, stop)
            left, _, right = linalg.svd(B[:, group].T @ reference[:, group])
            turned[:, group] = B[:, group] @ left @ right
            start = stop
    return turned


# The peak is that of Linux for this process alone: `ru_maxrss` of a child begins with the peak of its parent.
MEASURED = """
import sys
from pathlib import Path

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

arguments = sys.argv[1:]
{setup}
Path("/proc/self/clear_refs").write_text("5")  # the peak becomes what is held now
before = peak()
try:
    {code}
except ValueError as error:
    print(error, file=sys.stderr)
print((peak() - before) // 1024)
"""


def measure_memory(setup, code, *arguments):
    """Megabytes that a line of code takes beyond its setup, in a process of its own, and the error that it raises."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("memory is measured as Linux counts it")
    command = [sys.executable, "-c", MEASURED.format(setup=setup, code=code), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return int(done.stdout), done.stderr
