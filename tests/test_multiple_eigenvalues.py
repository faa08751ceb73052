"""Multiple eigenvalues come with all their copies, and no solver gives up: methods with the total scatter."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackNoConvergence
from sklearn.metrics.pairwise import rbf_kernel

import textbook
from helpers import make, pencil
from unseen import DICA, SCA, ProjectionSearchCV
from unseen.estimators import _projection
from unseen.linalg import _eigenproblem as _pencil
from unseen.model_selection import PreparedSplits
from unseen.utils.samples import Samples

GAMMA = 0.1
pytestmark = pytest.mark.filterwarnings("ignore::unseen.exceptions.SingleDomainWarning")


def symmetric_samples(n=240):
    """Four groups, the same but for the corner of a simplex that each lies at: eigenvalues of the kernel are triple."""
    corners = 3 * np.eye(4)[np.arange(n) % 4]
    X = np.hstack([corners, np.repeat(np.random.default_rng(1).normal(size=(n // 4, 3)), 4, axis=0)])
    return X, np.arange(n) // 4 % 2, np.zeros(n, dtype=int)


def test_udica_finds_all_three_copies_of_a_triple_eigenvalue():
    X, _, d = symmetric_samples()
    model = DICA(4, supervised=False, gamma=GAMMA).fit(X, sample_domain=d)
    first, second, third, fourth = model.eigenvalues_
    np.testing.assert_allclose([second, third], first, rtol=1e-9)
    assert fourth < 0.5 * first


@pytest.mark.parametrize("name", ["SCA", "UDICA"])
@pytest.mark.parametrize("path", ["eigendecomposition", "search", "Krylov"])
@pytest.mark.parametrize("n_components", [2, 4, 6])
def test_eigenvalues_and_components_are_those_of_a_dense_solver(name, path, n_components, monkeypatch):
    X, y, d = symmetric_samples(520 if path == "Krylov" else 240)
    K = textbook.centered(rbf_kernel(X, gamma=GAMMA))
    ridge = 0.01 * np.linalg.norm(K)
    model = make(name, n_components=n_components, gamma=GAMMA, ridge=ridge)
    if path == "search":
        rows = np.arange(len(y))
        decomposition = PreparedSplits.from_splits(Samples(X, y, d), {0: (rows, rows[:5])}).decompose(model)
        found = decomposition.solve(model)[1].eigenvalues
    else:
        monkeypatch.setattr(_projection, "MAX_EIGH_ROWS", 10 if path == "Krylov" else 10**9)
        model.fit(X, y, sample_domain=d)
        found = model.eigenvalues_
        B = model.dual_coef_ * np.sqrt(model.eigenvalues_)
        N, A = pencil(name, K, y, d, ridge)
        np.testing.assert_allclose(B.T @ A @ B, np.eye(n_components), atol=1e-8)
        np.testing.assert_allclose(B.T @ N @ B, np.diag(found), atol=1e-8 * found[0])
    np.testing.assert_allclose(found, textbook.solve(*pencil(name, K, y, d, ridge), n_components)[0], rtol=1e-8)


def no_convergence(*_, **__):
    raise ArpackNoConvergence("No convergence (%s)", np.ones(1), np.ones((1, 1)))


@pytest.mark.parametrize("name", ["SCA", "UDICA"])
def test_a_fit_does_not_depend_on_the_convergence_of_lanczos_iterations(name, monkeypatch):
    X, y, d = symmetric_samples()
    X = X + np.random.default_rng(0).normal(size=X.shape)
    model = make(name, n_components=3, gamma=GAMMA)
    expected = model.fit(X, y, sample_domain=d).eigenvalues_
    monkeypatch.setattr(_pencil, "eigsh", no_convergence)
    np.testing.assert_allclose(model.fit(X, y, sample_domain=d).eigenvalues_, expected, rtol=1e-9)


def test_a_search_goes_on_where_lanczos_iterations_do_not_converge(monkeypatch):
    X, y, _ = symmetric_samples(600)
    X, d = X + np.random.default_rng(0).normal(size=X.shape), np.arange(600) % 3
    search = ProjectionSearchCV(SCA(gamma=GAMMA), {"ridge": [0.1, 10.0]}, refit=False)
    expected = search.fit(X, y, sample_domain=d).cv_results_["mean_test_score"]
    monkeypatch.setattr(_pencil, "eigsh", no_convergence)
    np.testing.assert_array_equal(search.fit(X, y, sample_domain=d).cv_results_["mean_test_score"], expected)
