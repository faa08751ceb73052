"""The diagnosis measures what it says and tells planted shifts apart."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.metrics.pairwise import rbf_kernel

from helpers import problems
from planted_shifts import EVEN, FIXED, SKEWED, TRUTH, planted, sample
from unseen.linalg import _scatters as scatters
from unseen.linalg._cell_statistics import Membership
from unseen.shift import diagnose
from unseen.shift._diagnose import adjust_by_holm
from unseen.shift._permutation_tests import (
    PermutationResult,
    distance_matrices,
    run_kernel_test,
    run_kernel_tests,
    run_label_test,
)


@pytest.mark.parametrize("name", TRUTH)
def test_planted_shifts_are_told_apart(name):
    # Where nothing is planted a test still fires once in twenty; the level makes that once in a hundred.
    diagnosis = planted(name, alpha=0.01)
    assert {test.key for test in diagnosis.tests if test.flagged} == TRUTH[name][2]


def test_the_class_that_moves_is_named():
    diagnosis = planted("one class moves", alpha=0.01)
    assert [(test.label, test.flagged) for test in diagnosis.class_tests] == [("a", True), ("b", False), ("c", False)]
    assert any("in 1 of 3 classes: a." in sentence for sentence in diagnosis.reading)


@settings(max_examples=25)
@given(problems(min_domains=2))
def test_statistics_are_the_scatters_of_the_paper(problem):
    X, y, d = problem
    order = np.argsort(y, kind="stable")
    X, y, d = X[order], y[order], d[order]
    K = rbf_kernel(X)
    evidence, _ = run_kernel_tests(K, d, y, 3, np.random.default_rng(0))
    membership = Membership.from_codes(y, d)
    means = np.zeros((membership.counts.size, len(y)))
    means[membership.cell, np.arange(len(y))] = 1 / membership.counts.ravel()[membership.cell]

    def trace(contrast):
        weights = contrast.T @ means[membership.counts.ravel() > 0]
        return np.sum((weights @ K) * weights)

    expected = {
        "domain": trace(scatters.domain_contrast(membership.counts)),
        "conditional": trace(scatters.conditional_contrast(membership.counts)),
    }
    assert evidence["covariate"].statistic == pytest.approx(expected["domain"], abs=1e-12)
    if evidence["conditional"] is None:
        assert expected["conditional"] == pytest.approx(0, abs=1e-12)
    else:
        assert evidence["conditional"].statistic == pytest.approx(expected["conditional"], abs=1e-12)
        prior_normalized = trace(scatters.prior_normalized_contrast(membership.counts))
        assert evidence["prior_normalized"].statistic == pytest.approx(prior_normalized, abs=1e-12)


def test_chance_is_the_mean_over_all_permutations():
    y = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    d = np.array([0, 0, 1, 2, 0, 1, 1, 2, 2])
    K = rbf_kernel(np.random.default_rng(0).normal(size=(9, 2)))
    blocks = [list(itertools.permutations(d[y == j])) for j in range(3)]
    every = np.array([sum(parts, ()) for parts in itertools.product(*blocks)]).T
    result = run_kernel_test(K, Membership.from_codes(y, d), every)
    assert result.chance == pytest.approx(result.draws.mean(), rel=1e-10)


def test_the_share_is_the_adjusted_r_squared():
    rng = np.random.default_rng(0)
    d = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 4)) + d[:, None]
    residual = X - np.array([X[d == s].mean(axis=0) for s in range(3)])[d]
    total = X - X.mean(axis=0)
    adjusted = 1 - (residual**2).sum() / (60 - 3) / ((total**2).sum() / (60 - 1))
    result = run_kernel_test(X @ X.T, Membership.from_codes(np.zeros(60, dtype=np.intp), d), d[:, None])
    assert result.share == pytest.approx(adjusted, rel=1e-10)


def test_ties_count_against_significance():
    evidence = PermutationResult(np.array([1.0, 1.0 - 1e-12, 1.0, 0.5, 2.0]), chance=0.5, total=3.0)
    assert evidence.p_value == 4 / 5


@pytest.mark.parametrize("value", [0.0, 1e4])
def test_features_that_do_not_vary_cannot_shift(value):
    X, y, d = sample(EVEN, FIXED, np.random.default_rng(0))
    diagnosis = diagnose(np.full_like(X, value), y, sample_domain=d, n_permutations=19)
    assert [test.p_value for test in diagnosis.tests[1:]] == [1, 1, 1]
    assert [test.effect for test in diagnosis.tests[1:]] == [0, 0, 0]
    np.testing.assert_allclose(diagnosis.marginal_distances, 0, atol=1e-6)


def test_the_label_statistic_is_pearsons_and_its_tables_are_those_of_permuted_labels():
    rng = np.random.default_rng(0)
    counts = np.array([[30, 10, 20], [18, 15, 27]])
    tables, evidence = run_label_test(counts, 4000, rng)
    expected = stats.chi2_contingency(counts, correction=False)
    assert evidence.statistic == pytest.approx(expected.statistic)
    assert evidence.p_value == pytest.approx(expected.pvalue, abs=0.02)
    assert evidence.draws[1:].mean() == pytest.approx(evidence.chance, rel=0.05)
    np.testing.assert_array_equal(tables.sum(axis=1), np.tile(counts.sum(axis=0), (4001, 1)))
    np.testing.assert_array_equal(tables.sum(axis=2), np.tile(counts.sum(axis=1), (4001, 1)))


@given(st.lists(st.floats(0.001, 1), max_size=6))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values):
    adjusted = adjust_by_holm(np.array(p_values))
    for alpha in (0.05, 0.2, 0.5):
        rejected = set()
        for step, i in enumerate(np.argsort(p_values)):
            if p_values[i] > alpha / (len(p_values) - step) * (1 + 1e-12):
                break
            rejected.add(i)
        assert {i for i, p in enumerate(adjusted) if p <= alpha * (1 + 1e-12)} == rejected


@settings(max_examples=15)
@given(problems(min_domains=2))
def test_distances_are_the_unbiased_estimates_of_gretton(problem):
    X, y, d = problem
    K = rbf_kernel(X)

    def squared(a, b):
        if min(len(a), len(b)) < 2:
            return np.nan
        inside = [K[np.ix_(g, g)][~np.eye(len(g), dtype=bool)].mean() for g in (a, b)]
        return sum(inside) - 2 * K[np.ix_(a, b)].mean()

    marginal, conditional = distance_matrices(K, Membership.from_codes(y, d))
    for s, t in itertools.combinations(range(d.max() + 1), 2):
        expected = squared(np.flatnonzero(d == s), np.flatnonzero(d == t))
        assert marginal[s, t] ** 2 == pytest.approx(max(expected, 0), abs=1e-7, nan_ok=True)
        shared = [squared(np.flatnonzero((d == s) & (y == j)), np.flatnonzero((d == t) & (y == j))) for j in set(y)]
        shared = [value for value in shared if np.isfinite(value)]
        expected = max(np.mean(shared), 0) if shared else np.nan
        assert conditional[s, t] ** 2 == pytest.approx(expected, abs=1e-7, nan_ok=True)
        assert marginal[s, t] == pytest.approx(marginal[t, s], nan_ok=True)


def facts(diagnosis):
    """Everything that owes nothing to the seed."""
    rows = [(test.statistic, test.effect) for test in diagnosis.tests]
    return np.array(rows), np.array([test.effect for test in diagnosis.class_tests]), diagnosis.conditional_distances


def test_the_order_of_samples_does_not_matter():
    X, y, d = sample(SKEWED, TRUTH["everything"][1], np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(len(y))
    first, second = (diagnose(X[i], y[i], sample_domain=d[i], n_permutations=19) for i in (np.arange(len(y)), order))
    for a, b in zip(facts(first), facts(second), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_one_seed_gives_one_diagnosis():
    assert planted("everything").summary() == planted("everything").summary()
    p_values = {planted("nothing", random_state=seed).tests[1].p_value for seed in range(4)}
    assert len(p_values) > 1


def test_sparse_features_and_lists_are_as_good_as_arrays():
    X, y, d = sample(EVEN, FIXED, np.random.default_rng(0))
    X = np.where(X > 0, X, 0.0)
    before = X.copy()
    dense = diagnose(X, y, sample_domain=d, n_permutations=19)
    for given_X in (sparse.csr_array(X), X.tolist()):
        other = diagnose(given_X, list(y), sample_domain=list(d), n_permutations=19)
        for a, b in zip(facts(dense), facts(other), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(X, before)


def test_large_domains_are_subsampled_and_the_diagnosis_says_so():
    X, y, d = sample([[60, 60, 60], [10, 10, 10], [5, 5, 5]], FIXED, np.random.default_rng(0))
    diagnosis = diagnose(X, y, sample_domain=d, n_permutations=99, max_per_domain=40)
    assert (diagnosis.n_samples, diagnosis.n_used) == (225, 40 + 30 + 15)
    assert [test.n for test in diagnosis.tests] == [225, 85, 85, 85]
    assert diagnosis.counts.sum() == 225
    assert any("85 of 225 samples" in notice for notice in diagnosis.notices)
    assert not diagnose(X, y, sample_domain=d, n_permutations=99).notices


def test_the_number_of_samples_is_bounded_for_many_domains():
    """16 domains of 500 samples took more than a minute; 1,500 samples suffice."""
    rng = np.random.default_rng(0)
    d = np.repeat(np.arange(16), 500)
    X = rng.normal(size=(8000, 2)) + 0.5 * (d[:, None] % 2)
    diagnosis = diagnose(X, np.arange(8000) % 2, sample_domain=d, n_permutations=19)
    assert diagnosis.n_used == 16 * 98
    assert [test.n for test in diagnosis.tests] == [8000, 1568, 1568, 1568]
    assert "1568 of 8000 samples" in diagnosis.notices[0]
    assert diagnosis.tests[1].flagged


def test_absent_cells_are_no_shift_and_are_mentioned():
    rng = np.random.default_rng(0)
    X, y, d = sample([[40, 40, 0], [40, 0, 40], [40, 40, 0]], FIXED, rng)
    diagnosis = diagnose(X, y, sample_domain=d, n_permutations=199, alpha=0.01)
    assert {test.key for test in diagnosis.tests if test.flagged} == {"label", "covariate"}
    lonely = diagnosis.class_tests[2]
    assert (lonely.p_value, lonely.p_adjusted, lonely.effect, lonely.flagged) == (None, None, None, False)
    notices = " ".join(diagnosis.notices)
    assert "No samples of class c in p, class b in q and class c in r: an absent cell" in notices
    assert "fewer than two domains: c." in notices


def test_classes_that_are_domains_cannot_be_told_from_them():
    X, y, d = sample(np.diag([30, 30, 30]), FIXED, np.random.default_rng(0))
    diagnosis = diagnose(X, y, sample_domain=d, n_permutations=19)
    assert [test.p_value is None for test in diagnosis.tests] == [False, False, True, True]
    assert "cannot be distinguished" in diagnosis.reading[0]
    assert np.isnan(diagnosis.conditional_distances[0, 1])
    assert json.loads(json.dumps(diagnosis.summary()))["distances"]["conditional"][0][1] is None
    assert "not testable: no class was found in two domains" in str(diagnosis)
    diagnosis.plot()


def test_too_few_permutations_for_the_level_are_noticed():
    X, y, d = sample(EVEN, FIXED, np.random.default_rng(0))
    [notice] = diagnose(X, y, sample_domain=d, n_permutations=39).notices
    assert "39 permutations are too few" in notice
    assert "at least 59" in notice
    assert not diagnose(X, y, sample_domain=d, n_permutations=59).notices


def test_a_class_lost_in_the_subsample_and_a_domain_of_one_sample_do_no_harm():
    X, y, d = sample([[400, 400, 1], [400, 400, 1], [1, 0, 0]], FIXED, np.random.default_rng(0))
    diagnosis = diagnose(X, y, sample_domain=d, n_permutations=19, max_per_domain=20)
    assert (diagnosis.n_used, diagnosis.class_tests[2].n, diagnosis.class_tests[2].p_value) == (41, 0, None)
    assert np.isnan(diagnosis.marginal_distances[0, 2])
    assert diagnosis.tests[2].p_value is not None
    assert json.dumps(diagnosis.summary(), allow_nan=False)
    diagnosis.plot().canvas.draw()
