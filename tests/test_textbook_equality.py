"""The fast solver gives the textbook's answer, for every method."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

import textbook
from helpers import METHODS, make, match, pencil, problems, residual
from unseen.exceptions import SingleDomainWarning

ignore_single_domain = pytest.mark.filterwarnings(f"ignore::{SingleDomainWarning.__module__}.SingleDomainWarning")


def fitted(name, X, y, d, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SingleDomainWarning)
        return make(name, gamma=0.2, **params).fit(X, y, sample_domain=d)


@pytest.mark.parametrize("name", METHODS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_every_method_equals_the_textbook(name, data):
    X, y, d = data.draw(problems())
    K = textbook.centered(rbf_kernel(X, gamma=0.2))
    top = np.linalg.norm(K, 2) ** METHODS[name][3]
    ridge = top * 10.0 ** data.draw(st.floats(-6, 0))
    # Weights of scatters may be drawn up to 1e4; those of numerators lie between 0 and 1.
    weights = {
        key: 10.0 ** data.draw(st.floats(-2, 4)) if value >= 1 and key != "norm_weight" else value
        for key, value in METHODS[name][2].items()
    }
    model = fitted(name, X, y, d, ridge=ridge, **weights)
    N, A = pencil(name, K, y, d, ridge, **weights)
    values, B = textbook.solve(N, A, len(model.eigenvalues_))
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-8, atol=1e-8 * values[0])
    ours = model.dual_coef_ * np.sqrt(model.eigenvalues_)
    assert residual(N, A, model.eigenvalues_, ours) < 1e-12
    features, expected = K @ ours, K @ B
    significant = values > 1e-6 * values[0]  # below, eigenvectors are as good as the eigenvalues' digits
    features, expected = features[:, significant], expected[:, significant]
    matched = match(features, expected, values[significant])
    np.testing.assert_allclose(matched, expected, atol=1e-8 * np.abs(expected).max())
