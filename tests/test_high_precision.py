"""Where double-precision textbook code loses its digits, ours is compared with 50-digit arithmetic."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

import textbook
from helpers import METHODS, make, match, pencil, residual
from unseen.kernels import center_kernel

DIGITS = 50


MANY, FEW = [[3, 2, 3], [2, 3, 1], [2, 3, 0]], [[2, 1, 2], [1, 2, 1], [2, 2, 0]]  # samples of each cell
# Digits cost time, so only the hardest case has many samples; double precision fails in the others too.
CASES = [(1e8, 1e-6, FEW), (1.0, 1e-12, FEW), (1e8, 1e-12, MANY)]


def small_problem(n_features, counts):
    """Unbalanced cells, one of them missing."""
    counts = np.array(counts)
    d, y = (np.repeat(index, counts.ravel()) for index in map(np.ravel, np.indices(counts.shape)))
    rng = np.random.default_rng(3)
    X = rng.normal(size=(len(y), n_features))
    X += rng.normal(size=(3, n_features))[y] + rng.normal(size=(3, n_features))[d]
    return X, y, d


def exactly(K):
    """The centered kernel matrix in 50 digits."""
    return textbook.centered(np.array([[mpmath.mpf(float(v)) for v in row] for row in K], dtype=object))


def invariance_weights(name):
    fixed = ("norm_weight", "between_weight", "discrepancy_weight")
    return [key for key in METHODS[name][2] if key.endswith("_weight") and key not in fixed]


@pytest.mark.parametrize(
    ("kernel", "name", "weight", "ridge", "counts"),
    [
        (kernel, name, *case)
        for name in METHODS
        for case in CASES
        if invariance_weights(name) or case[0] > 1  # the others have only the ridge
        for kernel in (["rbf", "linear"] if case[2] is FEW else ["rbf"])
    ],
)
def test_extreme_weights_and_ridges_keep_seven_digits(kernel, name, weight, ridge, counts):
    X, y, d = small_problem(40 if kernel == "linear" else 4, counts)
    K = linear_kernel(X) if kernel == "linear" else rbf_kernel(X, gamma=0.1 if counts is MANY else 0.03)
    power = METHODS[name][3]
    ridge = ridge * np.linalg.norm(textbook.centered(K), 2) ** power
    weights = dict.fromkeys(invariance_weights(name), weight)
    model = make(name, kernel="precomputed", ridge=ridge, **weights).fit(K, y, sample_domain=d)
    with mpmath.workdps(DIGITS):
        exact = exactly(K)
        N, A = pencil(name, exact, y, d, mpmath.mpf(ridge), **weights)
        values, B = textbook.solve(N, A, len(model.eigenvalues_))
    N, A, exact = (M.astype(float) for M in (N, A, exact))
    ours = model.dual_coef_ * np.sqrt(model.eigenvalues_)
    assert residual(N, A, model.eigenvalues_, ours) < 1e-12
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-7)
    features, expected = exact @ ours, exact @ B
    np.testing.assert_allclose(match(features, expected, values), expected, atol=1e-7 * np.abs(expected).max())


def wide_kernel():
    """Values that differ from one by less than a hundredth: the mean of one column is all but that of another."""
    X, y, d = small_problem(4, FEW)
    return rbf_kernel(X, gamma=3e-4), y, d


def test_a_wide_kernel_is_centered_to_the_last_digit_of_what_is_left():
    K, _, _ = wide_kernel()
    with mpmath.workdps(DIGITS):
        expected = exactly(K).astype(float)
    center_kernel(K)
    np.testing.assert_allclose(K, expected, rtol=0, atol=4 * np.finfo(float).eps * np.abs(expected).max())


@pytest.mark.parametrize(("name", "options"), [("CIDG", {"norm_weight": 1e6}), ("SCA", {})])
def test_rounding_of_a_wide_kernel_does_not_look_like_a_negative_eigenvalue(name, options):
    K, y, d = wide_kernel()
    ridge = 1e-13 * np.linalg.norm(textbook.centered(K), 2) ** METHODS[name][3]
    model = make(name, kernel="precomputed", ridge=ridge, **options).fit(K, y, sample_domain=d)
    with mpmath.workdps(DIGITS):
        N, A = pencil(name, exactly(K), y, d, mpmath.mpf(ridge), **options)
        values, _ = textbook.solve(N, A, len(model.eigenvalues_))
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)
