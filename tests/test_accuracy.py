"""The accuracy that a fitted projection reports: bounds on the errors of eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest

from unseen import CIDG, DICA, KFDA, MDA, SCA


def four_domains(n=30, seed=0):
    rng = np.random.default_rng(seed)
    d = np.repeat(["a", "b", "c", "d"], n)
    y = np.tile([0, 1, 2], 4 * n // 3)
    X = 2 * rng.normal(size=(3, 4))[y] + 0.5 * rng.normal(size=(4, 4))[np.unique(d, return_inverse=True)[1]]
    return X + rng.normal(size=(len(y), 4)), y, d


@pytest.mark.parametrize(
    "projection",
    [
        CIDG(gamma=0.1, ridge=1e-2),
        CIDG(feature_map="linear", scaling="unit_norm"),
        KFDA(gamma=0.1),
        SCA(3, gamma=0.1),
        SCA(3, feature_map="linear"),
        MDA(gamma=0.1),
        DICA(gamma=0.1),
        DICA(3, supervised=False, gamma=0.1),
    ],
    ids=str,
)
def test_a_fit_has_small_bounds(projection):
    X, y, d = four_domains()
    projection.fit(X, y, sample_domain=d)
    assert projection.residual_.shape == projection.eigenvalues_.shape
    assert np.all(projection.residual_ > 0)
    assert np.all(projection.residual_ < 1e-8)


@pytest.mark.parametrize("projection", [CIDG(gamma=0.1), CIDG(1, gamma=0.1), SCA(1, gamma=0.1)], ids=str)
@pytest.mark.parametrize("n", [150, 480])
def test_krylov_spaces_report_errors_too(projection, n):
    X, y, d = four_domains(n)
    projection.fit(X, y, sample_domain=d)
    assert projection.residual_.shape == projection.eigenvalues_.shape
    assert projection.residual_.max() < 1e-8


def test_without_a_ridge_residuals_bound_nothing():
    X, y, d = four_domains()
    cidg = CIDG(feature_map="linear", ridge=0.0).fit(X, y, sample_domain=d)
    assert np.isinf(cidg.residual_).all()


def test_a_new_chunk_discards_the_bounds_of_the_last_solution():
    X, y, d = four_domains()
    cidg = CIDG(feature_map="linear").partial_fit(X, y, sample_domain=d).finalize()
    assert "residual_" in vars(cidg)
    cidg.partial_fit(X, y, sample_domain=d)
    assert "residual_" not in vars(cidg)
