"""The verdict, end to end, on data where invariance cannot help and on data where it must."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.parallel import Parallel, delayed

from unseen import compare
from unseen.evaluation import Protocol
from unseen.tables import table_from_arrays

RUNS = 100


def world(kind, seed, n_domains=5, n=45):
    """Three classes in four dimensions; domains differ in nothing, in P(Y), or each moves its own way."""
    rng = np.random.default_rng(seed)
    apart = 3.0 if kind == "moved" else 1.6
    centers = apart * rng.standard_normal((3, 4))
    X, y, domain = [], [], []
    for s in range(n_domains):
        priors = rng.dirichlet([3.0] * 3) if kind == "label shift" else np.full(3, 1 / 3)
        labels = np.r_[0, 0, 1, 1, 2, 2, rng.choice(3, size=n - 6, p=priors)]  # no class is ever missing
        shift = 6 * rng.standard_normal(4) if kind == "moved" else 0.0
        X.append(centers[labels] + rng.standard_normal((n, 4)) + shift)
        y.append(labels)
        domain.append(np.full(n, f"d{s}"))
    return np.concatenate(X), np.concatenate(y), np.concatenate(domain)


def decision(kind, seed, methods=None, n_domains=5, quick=True):
    X, y, domain = world(kind, seed, n_domains)
    protocol = Protocol(transductive=True, quick=quick, seed=seed)
    return compare(table_from_arrays(X, y, domain), methods=methods, protocol=protocol).verdict.decision


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["no shift", "label shift"])
def test_where_invariance_cannot_help_a_win_is_rarely_claimed(kind):
    decisions = Parallel(n_jobs=2)(delayed(decision)(kind, seed) for seed in range(RUNS))
    wins = decisions.count("invariant")
    print(f"\n{kind}: {wins} wins and {decisions.count('plain')} losses claimed in {RUNS} comparisons")
    assert wins <= 0.05 * RUNS


@pytest.mark.slow
def test_with_ten_domains_that_each_moved_their_own_way_a_win_is_mostly_claimed():
    few = ["CIDG", "KFDA", "logistic", "1-NN"]
    # With the grids that people get: those of quick trials have few kernels, and lose three points to them.
    decisions = Parallel(n_jobs=2)(delayed(decision)("moved", seed, few, 10, quick=False) for seed in range(20))
    print(f"\nmoved: {decisions.count('invariant')} wins claimed in 20 comparisons")
    assert decisions.count("invariant") >= 12


def test_domains_that_moved_are_a_win_and_domains_that_did_not_are_none():
    few = ["CIDG", "logistic"]
    assert decision("moved", 5, few) == "invariant"
    assert decision("no shift", 2, few) == "none"
