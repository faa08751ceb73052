"""A single fit goes without a full eigendecomposition where it can, and nobody can tell but by the clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg
from sklearn.metrics.pairwise import rbf_kernel

import textbook
from helpers import METHODS, make, match, pencil, three_domains
from unseen import CIDG, DICA, KFDA, MDA, SCA
from unseen.estimators import _projection, make_problem
from unseen.linalg import (
    Membership,
    bound_component_errors,
    gram_spectrum,
    residuals,
)

LOW_RANK = [name for name in METHODS if name not in ("SCA", "UDICA")]


def problem(**options):
    X, y, d = three_domains(**options)
    return textbook.centered(rbf_kernel(X, gamma=0.1)), Membership.from_codes(y, d), y, d


SMALL, LARGE = problem(), problem(n_per_cell=90, n_classes=2)  # the second is beyond MAX_EIGH_ROWS


@pytest.mark.parametrize("name", METHODS)
def test_large_fits_equal_the_textbook_without_an_eigendecomposition(name, monkeypatch):
    K, _, y, d = LARGE
    monkeypatch.setattr(_projection, "gram_spectrum", None)
    n_components = 1 if name in LOW_RANK else 2
    ridge = 1e-2 * np.linalg.norm(K) ** METHODS[name][3]
    model = make(name, n_components=n_components, kernel="precomputed", ridge=ridge).fit(K, y, sample_domain=d)
    N, A = pencil(name, K, y, d, ridge)
    values, B = textbook.solve(N, A, n_components)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)
    ours = model.dual_coef_ * np.sqrt(model.eigenvalues_)
    np.testing.assert_allclose(match(K @ ours, K @ B, values), K @ B, atol=1e-8 * np.abs(K @ B).max())
    np.testing.assert_allclose(N @ ours, A @ ours * values, atol=1e-10 * np.abs(N @ ours).max())


@pytest.mark.parametrize("model", [CIDG(norm_weight=1), MDA(), DICA(), SCA(), DICA(2, supervised=False)])
def test_default_ridges_need_no_eigendecomposition(model, monkeypatch):
    K, _, y, d = LARGE
    monkeypatch.setattr(_projection, "gram_spectrum", None)
    model.set_params(kernel="precomputed").fit(K, y, sample_domain=d)


@pytest.mark.parametrize("name", ["SCA", "UDICA", "DICA"])
def test_a_tiny_ridge_is_left_to_the_eigendecomposition(name, monkeypatch):
    K, _, y, d = LARGE
    model = make(name, n_components=1, kernel="precomputed", ridge=1e-13 * np.linalg.norm(K) ** METHODS[name][3])
    seen = []
    monkeypatch.setattr(
        _projection,
        "gram_spectrum",
        lambda *given, **options: seen.append(1) or gram_spectrum(*given, **options),
    )
    short = model.fit(K, y, sample_domain=d).transform(K)
    assert seen
    monkeypatch.setattr(_projection, "MAX_EIGH_ROWS", len(K))
    np.testing.assert_array_equal(short, model.fit(K, y, sample_domain=d).transform(K))


@pytest.mark.parametrize("name", ["MDA", "CIDG with norm", "DICA", "SCA"])
def test_an_indefinite_kernel_gets_what_the_eigendecomposition_says(name, monkeypatch):
    K, _, y, d = LARGE
    values, vectors = linalg.eigh(K)
    values[:200] -= 0.05
    K = textbook.centered(vectors * values @ vectors.T)
    model = make(name, n_components=1, kernel="precomputed", ridge=0.1 * np.linalg.norm(K) ** METHODS[name][3])
    short = model.fit(K, y, sample_domain=d).transform(K)
    monkeypatch.setattr(_projection, "MAX_EIGH_ROWS", len(K))
    np.testing.assert_allclose(short, model.fit(K, y, sample_domain=d).transform(K), atol=1e-7 * np.abs(short).max())


@pytest.mark.parametrize("name", METHODS)
def test_the_residual_is_that_of_the_textbook_and_bounds_the_error(name):
    K, membership, y, d = SMALL
    ridge = 0.01 * np.linalg.norm(K) ** METHODS[name][3]
    N, A = pencil(name, K, y, d, ridge)
    model = make(name, n_components=2, kernel="precomputed", ridge=ridge).fit(K, y, sample_domain=d)
    recipe = model._scatter_problem(membership.counts, ridge)
    posed = make_problem(model, membership.counts, 1.0)
    solution = posed.solve(*posed.whiten(gram_spectrum(K.copy(), membership))).keep(slice(2))

    def bounds(some):
        return residuals(lambda B: K @ B, membership.indicators, membership.counts, recipe, some)

    assert bounds(solution).max() < 1e-10
    noise = np.random.default_rng(0).normal(size=solution.coefficients.shape)
    wrong = solution.coefficients + 1e-3 * np.linalg.norm(solution.coefficients) * (noise - noise.mean(axis=0)) / 10
    wrong /= np.sqrt(np.einsum("ik,ij,jk->k", wrong, A, wrong))
    g = np.einsum("ik,ij,jk->k", wrong, N, wrong)
    off = replace(solution, coefficients=wrong, eigenvalues=g)
    expected = np.linalg.norm(N @ wrong - A @ wrong * g, axis=0) / np.sqrt(ridge) / g
    assert bounds(off).max() == pytest.approx(expected.max(), rel=1e-9)
    nearest = np.abs(linalg.eigh(N, A, eigvals_only=True)[:, None] - g).min(axis=0)
    assert (nearest <= expected * g).all()


def almost_symmetric(stretch, n_turned=200):
    """Three classes that are turned by 120 degrees each, stretched by little: their two eigenvalues are close."""
    base = np.random.default_rng(0).normal(size=(n_turned, 2)) + np.array([3.0, 0.0])
    angles = 2 * np.pi * np.arange(3) / 3
    turns = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)
    X = np.vstack([base @ turn for turn in turns]) * [1.0 + stretch, 1.0]
    return X, np.repeat(np.arange(3), n_turned), np.tile(np.arange(n_turned) % 2, 3)


@pytest.mark.parametrize(("stretch", "decomposed"), [(0.3, False), (1e-10, True), (0.0, True)])
def test_eigenvalues_too_close_for_the_accuracy_of_components_have_a_decomposition(stretch, decomposed, monkeypatch):
    X, y, d = almost_symmetric(stretch)
    seen = []
    monkeypatch.setattr(
        _projection,
        "gram_spectrum",
        lambda *given, **options: seen.append(1) or gram_spectrum(*given, **options),
    )
    model = KFDA(kernel="linear").fit(X, y, sample_domain=d)
    assert bool(seen) == decomposed
    if decomposed:
        assert model.eigenvalues_[1] > (1 - 1e-6) * model.eigenvalues_[0]


@pytest.mark.parametrize(("stretch", "decomposed"), [(0.3, False), (0.0, True)])
def test_the_last_component_needs_a_gap_to_the_first_that_is_left_out(stretch, decomposed, monkeypatch):
    X, _, d = almost_symmetric(stretch)
    seen = []
    monkeypatch.setattr(
        _projection,
        "gram_spectrum",
        lambda *given, **options: seen.append(1) or gram_spectrum(*given, **options),
    )
    DICA(1, supervised=False, kernel="linear").fit(X, sample_domain=d)
    assert bool(seen) == decomposed


@given(st.integers(2, 6), st.floats(-9, -3), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_errors_of_components_are_within_the_residual_over_the_gap(q, power, seed):
    rng = np.random.default_rng(seed)
    values = np.sort(rng.uniform(0.5, 1.0, size=q))[::-1]
    exact = np.eye(q)
    x = exact + 10.0**power * rng.normal(size=(q, q))
    x /= np.linalg.norm(x, axis=0)
    rayleigh = np.einsum("ij,i,ij->j", x, values, x)
    errors = np.linalg.norm(values[:, None] * x - x * rayleigh, axis=0) / rayleigh
    sines = np.linalg.norm(x - exact * x, axis=0)  # from the cosines they would have an error of 1e-8
    assert (sines <= bound_component_errors(rayleigh, errors) + 1e-8).all()


def test_a_gap_within_the_errors_of_eigenvalues_bounds_nothing():
    bounds = bound_component_errors(np.array([1.0, 1.0 - 1e-9, 0.5]), np.full(3, 1e-9))
    assert np.isinf(bounds[:2]).all()
    assert bounds[2] == pytest.approx(1e-9, rel=1e-6)  # half a unit from its neighbors, and from zero
    assert bound_component_errors(np.array([3.0]), np.array([0.1])) == pytest.approx([0.1])
    assert not len(bound_component_errors(np.empty(0), np.empty(0)))
