"""The accuracy that a fitted projection reports: bounds on the errors of eigenvalues, and whether any was missed."""

from __future__ import annotations

import numpy as np
import pytest

from unseen import CIDG, DICA, KFDA, MDA, SCA
from unseen.estimators._projection_problem import solve_reduced


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
def test_a_fit_has_small_bounds_and_misses_nothing(projection):
    X, y, d = four_domains()
    projection.fit(X, y, sample_domain=d)
    assert projection.is_complete_ is True
    assert projection.residual_.shape == projection.eigenvalues_.shape
    assert np.all(projection.residual_ > 0)
    assert np.all(projection.residual_ < 1e-8)


@pytest.mark.parametrize(
    ("projection", "n_cells", "is_complete"),
    [
        (CIDG(gamma=0.1), 12, True),  # by a Cholesky factorization
        (CIDG(1, gamma=0.1), 12, True),
        (CIDG(gamma=0.1), 4, True),  # in Krylov spaces
        (SCA(1, gamma=0.1), 4, None),
    ],
    ids=str,
)
def test_solvers_without_an_eigendecomposition_report_errors_too(projection, n_cells, is_complete):
    X, y, d = four_domains(n=150 if n_cells == 12 else 480)
    if n_cells == 4:
        kept = (y < 2) & np.isin(d, ["a", "b"])
        X, y, d = X[kept], y[kept], d[kept]
    projection.fit(X, y, sample_domain=d)
    assert projection.is_complete_ is is_complete
    assert projection.residual_.shape == projection.eigenvalues_.shape
    assert projection.residual_.max() < 1e-8


@pytest.mark.parametrize("projection", [CIDG(gamma=0.1), SCA(gamma=0.1)], ids=str)
def test_a_solver_that_misses_an_eigenvalue_is_noticed(projection, monkeypatch):
    X, y, d = four_domains()

    def skip_first(*arguments):
        solution = solve_reduced(*arguments)
        return solution._take(slice(1, None))

    monkeypatch.setattr(type(projection), "_reduced_solver", lambda self: skip_first)
    assert projection.fit(X, y, sample_domain=d).is_complete_ is False


def test_an_eigenproblem_that_is_not_symmetric_has_no_bound():
    X, y, d = four_domains()
    dica = DICA(as_published=True).fit(X, y, sample_domain=d)
    assert np.isnan(dica.residual_).all()
    assert dica.is_complete_ is None


def test_without_a_ridge_residuals_bound_nothing():
    X, y, d = four_domains()
    cidg = CIDG(feature_map="linear", ridge=0.0).fit(X, y, sample_domain=d)
    assert np.isinf(cidg.residual_).all()
    assert cidg.is_complete_ is True


def test_a_new_chunk_discards_the_bounds_of_the_last_solution():
    X, y, d = four_domains()
    cidg = CIDG(feature_map="linear").partial_fit(X, y, sample_domain=d, classes=[0, 1, 2]).finalize()
    assert "residual_" in vars(cidg)
    cidg.partial_fit(X, y, sample_domain=d)
    assert not {"residual_", "is_complete_"} & set(vars(cidg))
