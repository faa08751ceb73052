"""Where double-precision textbook code loses its digits, ours is compared with 50-digit arithmetic."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

import textbook
from helpers import METHODS, make, match, pencil, residual

DIGITS = 50


def small_problem(n_features):
    """Thirty samples, unbalanced cells, one of them missing."""
    counts = np.array([[4, 3, 5], [2, 6, 1], [5, 4, 0]])
    d, y = (np.repeat(index, counts.ravel()) for index in map(np.ravel, np.indices(counts.shape)))
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, n_features)) + rng.normal(size=(3, n_features))[y] + rng.normal(size=(3, n_features))[d]
    return X, y, d


def exactly(K):
    """The centred kernel matrix in 50 digits."""
    return textbook.centred(np.array([[mpmath.mpf(float(v)) for v in row] for row in K], dtype=object))


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("weight", "ridge"), [(1e8, 1e-6), (1.0, 1e-12), (1e8, 1e-12)])
def test_extreme_weights_and_ridges_keep_seven_digits(kernel, name, weight, ridge):
    X, y, d = small_problem(n_features=40 if kernel == "linear" else 4)
    K = linear_kernel(X) if kernel == "linear" else rbf_kernel(X, gamma=0.1)
    power = METHODS[name][3]
    ridge = ridge * np.linalg.norm(textbook.centred(K), 2) ** power
    weights = {
        key: weight
        for key in METHODS[name][2]
        if key.endswith("_weight") and key not in ("norm_weight", "between_weight", "discrepancy_weight")
    }
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
