"""Kernels, their widths, their centering and their landmarks: each rule against the plainest way to compute it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import textbook
from unseen.kernels import Kernel, SizePlan, squared_distances
from unseen.kernels._kernel import (
    KERNELS,
    check_spread,
    median_squared_distance,
)
from unseen.kernels._nystroem import (
    CHOICE_ROWS,
    EXACT_ROWS,
    LANDMARK_ROWS,
    MAX_LANDMARKS,
    SAMPLE_ROWS,
    TRACE_TOLERANCE,
    pivoted_cholesky,
)


def samples(n=12, n_features=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n_features))


def brute_distances(X, Y):
    return np.array([[sum((x - y) ** 2) for y in Y] for x in X])


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_squared_distances_are_sums_of_squared_differences(container):
    X, Y = samples(), samples(5, seed=1) + 3
    np.testing.assert_allclose(squared_distances(container(X), container(Y)), brute_distances(X, Y), rtol=1e-12)
    np.testing.assert_allclose(squared_distances(container(X)), brute_distances(X, X), atol=1e-12)


def resolved_gamma(gamma, kernel, X):
    return Kernel(kernel, gamma).resolve(X).gamma


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_gamma_is_one_over_a_scale_of_the_samples(container):
    X = samples(9, 4) + 1
    assert resolved_gamma("2*median", "rbf", container(X)) == pytest.approx(2 / median_squared_distance(X))
    assert resolved_gamma("median", "poly", X) is None
    assert resolved_gamma(2, "rbf", X) == 2.0
    for kernel, gamma in (("rbf", None), ("precomputed", "median"), (np.dot, 3.0)):
        assert resolved_gamma(gamma, kernel, X) is None


def absolute(x, y):
    return float(np.exp(-np.abs(x - y).sum()))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", [*sorted(set(KERNELS) - {"precomputed"}), absolute])
@pytest.mark.parametrize("gamma", [None, 0.7])
def test_the_diagonal_is_that_of_the_matrix(kernel, gamma, container):
    X = np.abs(samples())
    X[4] = 0.0
    X[:, 0] *= 3
    one = Kernel(kernel, gamma=gamma, degree=2, coef0=0.5)
    if container is sparse.csr_array and callable(kernel):
        return
    X = container(X)
    np.testing.assert_allclose(one.evaluate_diagonal(X), np.diag(one.evaluate(X, X)), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "kernel",
    [
        Kernel("linear"),
        Kernel("rbf", gamma=0.4),
        Kernel("sigmoid", gamma=0.1, coef0=0.3),
        *(Kernel("poly", gamma=0.3, degree=degree, coef0=0.7) for degree in (0, 1, 2, 3, 9, 10)),
        Kernel("polynomial", gamma=None, degree=2),
    ],
    ids=lambda one: f"{one.kernel}-{one.degree}",
)
def test_values_to_center_are_the_same_after_centering(kernel, container):
    X, Y = samples() + 0.5, samples(7, seed=1)

    def centered_rows_and_columns(K):
        K = K - K.mean(axis=0)
        return K - K.mean(axis=1)[:, None]

    plain = kernel.evaluate(Y, Y) if kernel.kernel != "rbf" else np.exp(-0.4 * brute_distances(Y, Y))
    found = kernel.evaluate_for_centering(container(Y))
    np.testing.assert_allclose(textbook.centered(found), textbook.centered(plain), atol=1e-9 * np.abs(plain).max())
    plain = kernel.evaluate(X, Y) if kernel.kernel != "rbf" else np.exp(-0.4 * brute_distances(X, Y))
    found = kernel.evaluate_for_centering(container(X), container(Y))
    expected = centered_rows_and_columns(plain)
    np.testing.assert_allclose(centered_rows_and_columns(found), expected, atol=1e-9 * np.abs(plain).max())


def test_nothing_but_rounding_after_centering_is_refused():
    eps = np.finfo(float).eps
    check_spread(4.1 * eps * 7.0, 7.0, "CIDG")
    for centered in (4 * eps * 7.0, 0.0):
        with pytest.raises(ValueError, match="All samples look the same to CIDG"):
            check_spread(centered, 7.0, "CIDG")


def factorised(K, n_pivots, tolerance=0.0, block_size=3, rounding=1e-12, seed=0):
    return pivoted_cholesky(
        lambda rows, columns: K[rows][:, columns].copy(),
        np.diag(K).copy(),
        n_pivots=n_pivots,
        tolerance=tolerance,
        block_size=block_size,
        rounding=np.full(len(K), rounding),
        random=np.random.RandomState(seed),
    )


def gram_matrix(n=20, rank=20, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, rank)) * np.logspace(0, -1.5, rank)
    return A @ A.T


@pytest.mark.parametrize("block_size", [1, 3, 50])
@pytest.mark.parametrize("n_pivots", [1, 7, 20])
def test_a_factor_explains_its_pivots_exactly_and_says_what_it_misses(block_size, n_pivots):
    K = gram_matrix()
    F, pivots, left = factorised(K, n_pivots, block_size=block_size)
    assert len(F) == len(set(pivots.tolist())) == n_pivots
    np.testing.assert_allclose((F.T @ F)[pivots], K[pivots], atol=1e-10)  # the rows of pivots
    np.testing.assert_allclose(np.diag(K - F.T @ F), left, atol=1e-10)
    np.testing.assert_array_equal(F[:, pivots], np.triu(F[:, pivots]))
    assert (left >= 0).all()


def test_a_plan_is_exact_for_few_rows_and_what_was_asked_for_counts():
    few, many = SizePlan.from_rows(EXACT_ROWS), SizePlan.from_rows(EXACT_ROWS + 1)
    assert few.exact
    assert not many.exact
    assert (many.landmarks, many.tolerance) == (MAX_LANDMARKS, TRACE_TOLERANCE)
    assert (many.choice_rows, many.landmark_rows, many.sample_rows) == (CHOICE_ROWS, LANDMARK_ROWS, SAMPLE_ROWS)
    assert SizePlan.from_rows(5, landmarks=7).landmarks == 7
    assert SizePlan.from_rows(5, landmarks=7).tolerance is None  # whoever sets their number gets as many
    assert not SizePlan.from_rows(5, exact=False).exact
    assert SizePlan.from_rows(10**6, exact=True).exact
