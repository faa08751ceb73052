"""Certificates of fitted projections: bounds that hold, eigenvalues that are missed, and what one domain changes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg
from sklearn.metrics.pairwise import rbf_kernel

import textbook
from unseen import CIDG, DICA, KFDA, MDA, SCA
from unseen.estimators import certify
from unseen.estimators._projection_problem import solve_reduced


def four_domains(n=30, shift=0.5, seed=0):
    rng = np.random.default_rng(seed)
    d = np.repeat(["a", "b", "c", "d"], n)
    y = np.tile([0, 1, 2], 4 * n // 3)
    X = 2 * rng.normal(size=(3, 4))[y] + shift * rng.normal(size=(4, 4))[np.unique(d, return_inverse=True)[1]]
    return X + rng.normal(size=(len(y), 4)), y, d


PROJECTIONS = [
    CIDG(gamma=0.1, ridge=1e-2),
    CIDG(gamma=0.1, ridge=1e-2, cell_correction="unbiased"),
    CIDG(gamma=0.1, ridge=1e-2, cell_correction="shrink"),
    CIDG(feature_map="linear", scaling="unit_norm"),
    KFDA(gamma=0.1),
    SCA(3, gamma=0.1),
    SCA(3, feature_map="linear", cell_correction="unbiased"),
    MDA(gamma=0.1),
    DICA(gamma=0.1),
    DICA(3, supervised=False, gamma=0.1),
]


@pytest.mark.parametrize("projection", PROJECTIONS, ids=str)
def test_a_fit_has_small_bounds_and_misses_nothing(projection):
    X, y, d = four_domains()
    projection.fit(X, y, sample_domain=d)
    certificate = certify(projection, X, y, sample_domain=d)
    assert certificate.eigenvalue_errors.max() < 1e-8
    assert certificate.component_errors.max() < 1e-6
    assert certificate.is_complete
    q = len(projection.eigenvalues_)
    assert certificate.jackknife_eigenvalues.shape == (4, q)
    assert np.all(certificate.intervals[:, 0] < projection.eigenvalues_)
    assert np.all(projection.eigenvalues_ < certificate.intervals[:, 1])
    assert np.all((certificate.subspace_cosines > 0) & (certificate.subspace_cosines <= 1 + 1e-12))
    assert np.all(certificate.component_cosines >= certificate.subspace_cosines[:, None] - 1e-12)
    assert np.all(certificate.component_cosines <= 1 + 1e-12)
    assert certificate.summary().count("\n") == q + 2


@pytest.mark.parametrize("projection", PROJECTIONS, ids=str)
def test_a_fit_carries_the_bounds_of_its_certificate(projection):
    X, y, d = four_domains()
    projection.fit(X, y, sample_domain=d)
    certificate = certify(projection, X, y, sample_domain=d)
    assert projection.is_complete_ is True
    # Both are rounding errors, of which only the size is reproducible.
    assert projection.residual_.shape == certificate.eigenvalue_errors.shape
    assert np.all(projection.residual_ > 0)
    assert np.all(projection.residual_ < 1e-8)
    lines = projection.summary().splitlines()
    assert lines[0].startswith(f"{type(projection).__name__}: 120 samples, 4 domains")
    assert lines[-1] == "No larger eigenvalue was missed."
    shown = [line.split() for line in lines[2:-1]]
    assert [float(eigenvalue) for _, eigenvalue, _ in shown] == pytest.approx(projection.eigenvalues_, rel=1e-2)
    assert [float(error) for _, _, error in shown] == pytest.approx(projection.residual_, rel=0.1)


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
    assert ("is not known" in projection.summary()) == (is_complete is None)
    assert projection.residual_.shape == projection.eigenvalues_.shape
    assert projection.residual_.max() < 1e-8
    exact = certify(projection, X, y, sample_domain=d)
    assert exact.is_complete
    assert np.all(exact.eigenvalue_errors < 1e-7)


def test_a_solver_that_misses_an_eigenvalue_is_noticed(monkeypatch):
    X, y, d = four_domains()

    def skip_first(*arguments):
        solution = solve_reduced(*arguments)
        return solution._take(slice(1, None))

    monkeypatch.setattr(CIDG, "_reduced_solver", lambda self: skip_first)
    cidg = CIDG(gamma=0.1).fit(X, y, sample_domain=d)
    assert cidg.is_complete_ is False
    assert cidg.summary().endswith("A larger eigenvalue was missed.")


def test_an_eigenproblem_that_is_not_symmetric_has_no_bound():
    X, y, d = four_domains()
    dica = DICA(as_published=True).fit(X, y, sample_domain=d)
    assert np.isnan(dica.residual_).all()
    assert dica.is_complete_ is None


def test_a_new_chunk_discards_the_bounds_of_the_last_solution():
    X, y, d = four_domains()
    cidg = CIDG(feature_map="linear").partial_fit(X, y, sample_domain=d, classes=[0, 1, 2])
    assert "No larger" in cidg.summary()
    cidg.partial_fit(X, y, sample_domain=d)
    assert "residual_" not in vars(cidg)
    assert "240 samples" in cidg.summary()


def test_bounds_hold_for_a_perturbed_fit():
    X, y, d = four_domains()
    cidg = CIDG(gamma=0.1, conditional_weight=10.0, prior_weight=5.0, ridge=1e-2).fit(X, y, sample_domain=d)
    exact = cidg.eigenvalues_.copy()
    rng = np.random.default_rng(1)
    cidg.dual_coef_ += 1e-4 * np.abs(cidg.dual_coef_).max() * rng.normal(size=cidg.dual_coef_.shape)
    K = textbook.centered(rbf_kernel(X, gamma=0.1))
    cidg.dual_coef_ -= cidg.dual_coef_.mean(axis=0)
    N, A = textbook.cidg(K, y, d, conditional_weight=10.0, prior_weight=5.0, ridge=1e-2)
    B = cidg.dual_coef_
    cidg.eigenvalues_ = np.sum(B * (N @ B), axis=0) / np.sum(B * (A @ B), axis=0)
    certificate = certify(cidg, X, y, sample_domain=d)
    errors = np.abs(cidg.eigenvalues_ - exact) / cidg.eigenvalues_
    assert np.all(errors <= certificate.eigenvalue_errors)
    assert certificate.eigenvalue_errors.min() > 1e-10
    for j, sine in enumerate(certificate.component_errors):
        _, vectors = linalg.eigh(N, A)
        component = vectors[:, -1 - j]
        cosine = abs(component @ A @ B[:, j]) / np.sqrt(B[:, j] @ A @ B[:, j])
        assert np.sqrt(max(1 - cosine**2, 0)) <= sine + 1e-7


@pytest.mark.parametrize("projection", [CIDG(gamma=0.1), SCA(3, gamma=0.1)], ids=str)
def test_a_missed_component_is_noticed(projection):
    X, y, d = four_domains()
    projection.fit(X, y, sample_domain=d)
    projection.eigenvalues_ = projection.eigenvalues_[1:]
    projection.dual_coef_ = projection.dual_coef_[:, 1:]
    certificate = certify(projection, X, y, sample_domain=d)
    assert certificate.n_missing == 1
    assert "1 larger eigenvalues were missed" in certificate.summary()


def test_the_jackknife_is_nearly_a_refit_where_domains_have_many_samples():
    """It keeps the scatter within cells of all domains, which hardly differs from that of the others."""
    X, y, d = four_domains(n=600)
    weights = {"conditional_weight": 500.0, "prior_weight": 500.0, "feature_map": "linear"}
    certificate = certify(CIDG(**weights, ridge=1.0).fit(X, y, sample_domain=d))
    for s, domain in enumerate(certificate.domains):
        others = d != domain
        refit = CIDG(**weights, ridge=0.75).fit(X[others], y[others], sample_domain=d[others])
        np.testing.assert_allclose(certificate.jackknife_eigenvalues[s], refit.eigenvalues_, rtol=0.05)


def test_the_squared_cosine_is_the_share_of_variance_that_a_regression_explains():
    X, y, d = four_domains(n=600)
    weights = {"conditional_weight": 500.0, "prior_weight": 500.0, "feature_map": "linear", "n_components": 1}
    cidg = CIDG(**weights, ridge=1.0).fit(X, y, sample_domain=d)
    certificate = certify(cidg)
    z = cidg.transform(X)[:, 0]
    for s, domain in enumerate(certificate.domains):
        others = d != domain
        refit = CIDG(**weights, ridge=0.75).fit(X[others], y[others], sample_domain=d[others])
        correlation = np.corrcoef(z, refit.transform(X)[:, 0])[0, 1]
        assert certificate.component_cosines[s, 0] == pytest.approx(abs(correlation), abs=0.01)


def test_an_odd_domain_is_the_one_that_changes_the_subspace():
    X, y, d = four_domains(shift=0.0)
    X[d == "c"] += 4 * np.eye(4)[y[d == "c"]]
    cidg = CIDG(feature_map="linear", conditional_weight=0.0, prior_weight=0.0).fit(X, y, sample_domain=d)
    certificate = certify(cidg)
    assert certificate.domains[np.argmin(certificate.subspace_cosines)] == "c"
    assert "without c" in certificate.summary()


def test_two_domains_have_no_jackknife():
    X, y, d = four_domains()
    two = np.isin(d, ["a", "b"])
    cidg = CIDG(gamma=0.1).fit(X[two], y[two], sample_domain=d[two])
    certificate = certify(cidg, X[two], y[two], sample_domain=d[two])
    assert np.isnan(certificate.intervals).all()
    assert "subspace" not in certificate.summary()


def test_what_cannot_be_certified_is_an_error():
    X, y, d = four_domains()
    with pytest.raises(ValueError, match="X is None, but CIDG was fitted without feature_map"):
        certify(CIDG().fit(X, y, sample_domain=d))
    with pytest.raises(ValueError, match="X has 60 samples, but the projection was fitted on 120"):
        certify(CIDG().fit(X, y, sample_domain=d), X[:60], y[:60], sample_domain=d[:60])
    with pytest.raises(ValueError, match="Use as_published=False"):
        certify(DICA(as_published=True).fit(X, y, sample_domain=d), X, y, sample_domain=d)


def test_a_precomputed_kernel_has_the_certificate_of_its_samples():
    X, y, d = four_domains()
    K = rbf_kernel(X, gamma=0.1)
    of_samples = certify(CIDG(gamma=0.1).fit(X, y, sample_domain=d), X, y, sample_domain=d)
    of_kernel = certify(CIDG(kernel="precomputed").fit(K, y, sample_domain=d), K, y, sample_domain=d)
    np.testing.assert_allclose(of_kernel.jackknife_eigenvalues, of_samples.jackknife_eigenvalues, rtol=1e-8)
    assert of_kernel.is_complete


def test_without_a_ridge_residuals_bound_nothing():
    X, y, d = four_domains()
    certificate = certify(CIDG(feature_map="linear", ridge=0.0).fit(X, y, sample_domain=d))
    assert np.isinf(certificate.eigenvalue_errors).all()
    assert certificate.is_complete


def test_a_domain_with_the_only_samples_of_a_class_cannot_be_left_out():
    X, y, d = four_domains()
    kept = (y != 2) | (d == "b")
    certificate = certify(CIDG(feature_map="linear").fit(X[kept], y[kept], sample_domain=d[kept]))
    is_missing = np.isnan(certificate.subspace_cosines)
    assert certificate.domains[is_missing].tolist() == ["b"]
    assert np.isfinite(certificate.intervals).all()
