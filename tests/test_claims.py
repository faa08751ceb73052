"""Equivalences, limits and invariances of the projections."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from helpers import METHODS, make, problems, three_domains
from unseen import CIDG, DICA, KFDA, SCA
from unseen.exceptions import SingleDomainWarning

pytestmark = pytest.mark.filterwarnings("ignore::unseen.exceptions.SingleDomainWarning")

every_method = pytest.mark.parametrize("name", METHODS)


def assert_same(Z, expected, tolerance=1e-8):
    np.testing.assert_allclose(Z, expected, atol=tolerance * np.abs(expected).max())


@given(problem=problems(), ridge=st.floats(1e-4, 1.0))
@settings(max_examples=20, deadline=None)
def test_cidg_without_invariance_is_kfda(problem, ridge):
    X, y, d = problem
    cidg = CIDG(conditional_weight=0, prior_weight=0, ridge=ridge).fit(X, y, sample_domain=d)
    kfda = KFDA(ridge=ridge).fit(X, y, sample_domain=d)
    np.testing.assert_array_equal(cidg.dual_coef_, kfda.dual_coef_)


@every_method
def test_a_linear_kernel_in_the_primal_equals_the_dual(name):
    X, y, d = three_domains()
    dual = make(name, kernel="linear", ridge=0.1).fit(X, y, sample_domain=d)
    primal = make(name, feature_map="linear", ridge=0.1).fit(X, y, sample_domain=d)
    np.testing.assert_allclose(primal.eigenvalues_, dual.eigenvalues_, rtol=1e-8)
    assert_same(primal.transform(X + 1), dual.transform(X + 1))


@every_method
def test_unit_norm_scaling_gives_unit_columns_in_both_spaces(name):
    X, y, d = three_domains()
    dual = make(name, kernel="linear", ridge=0.1, scaling="unit_norm").fit(X, y, sample_domain=d)
    lengths = np.linalg.norm(dual.dual_coef_, axis=0) * np.sqrt(dual.eigenvalues_)
    np.testing.assert_allclose(lengths, 1.0)
    primal = make(name, feature_map="linear", ridge=0.1, scaling="unit_norm").fit(X, y, sample_domain=d)
    assert_same(primal.transform(X), dual.transform(X))


def test_linear_kfda_without_ridge_is_fisher_discriminant_analysis():
    X, y, d = three_domains(n_per_cell=20)
    Z = KFDA(kernel="linear", ridge=0).fit_transform(X, y, sample_domain=d)
    fisher = LinearDiscriminantAnalysis(solver="svd").fit_transform(X, y)
    # Same components, another length: compare directions.
    Z, fisher = Z / np.linalg.norm(Z, axis=0), fisher / np.linalg.norm(fisher, axis=0)
    np.testing.assert_allclose(np.abs(np.sum(Z * fisher, axis=0)), 1.0, rtol=1e-9)


def test_a_large_conditional_weight_drives_the_conditional_scatter_to_zero():
    X, y, d = three_domains()
    scatters = []
    for weight in [0, 1e2, 1e4, 1e6, 1e8]:
        Z = CIDG(conditional_weight=weight, prior_weight=0, ridge=1e-3).fit_transform(X, y, sample_domain=d)
        means = np.array([[Z[(d == s) & (y == j)].mean(axis=0) for j in np.unique(y)] for s in np.unique(d)])
        between = np.array([Z[y == j].mean(axis=0) for j in np.unique(y)]).var(axis=0).sum()
        scatters.append(means.var(axis=0).sum() / between)
    assert scatters == sorted(scatters, reverse=True)
    assert scatters[-1] < 1e-6 * scatters[0]


@every_method
@given(problem=problems(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_order_and_names_do_not_change_the_projection(name, problem, seed):
    X, y, d = problem
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    class_names, domain_names = rng.permutation([f"class {i}" for i in range(4)]), rng.permutation(list("wxyz"))
    Z = make(name, ridge=0.1).fit(X, y, sample_domain=d).transform(X)
    renamed = make(name, ridge=0.1).fit(X[order], class_names[y[order]], sample_domain=domain_names[d[order]])
    assert_same(renamed.transform(X), Z)


def test_even_perfectly_symmetric_data_have_a_sign_that_names_do_not_change():
    X, y = np.array([[1.25, -0.25], [-1.0, -1.0]]), np.array([1, 0])
    assert_same(KFDA(ridge=0.1).fit(X, 1 - y).transform(X), KFDA(ridge=0.1).fit(X, y).transform(X))


# SCA fixes the weight of its norm penalty at 1, so it has no such symmetry.
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", [name for name in METHODS if name != "SCA"])
def test_copies_of_the_data_change_nothing_once_weights_are_scaled(name, k):
    X, y, d = three_domains()
    power = METHODS[name][3]
    scaled = {key: k * value for key, value in METHODS[name][2].items() if power == 2 and key.endswith("_weight")}
    once = make(name, gamma=0.1, ridge=0.1).fit(X, y, sample_domain=d)
    copies = [np.concatenate([a] * k) for a in (X, y, d)]
    many = make(name, gamma=0.1, ridge=0.1 * k**power, **scaled).fit(*copies[:2], sample_domain=copies[2])
    Z, Z_many = once.transform(X), many.transform(X)
    assert_same(Z_many * np.linalg.norm(Z, axis=0) / np.linalg.norm(Z_many, axis=0), Z)


@pytest.mark.parametrize("name", ["CIDG", "KFDA", "MDA", "DICA"])
def test_default_weights_and_ridge_follow_the_amount_of_data(name):
    X, y, d = three_domains()
    estimator = METHODS[name][0]
    once = estimator(gamma=0.1).fit(X, y, sample_domain=d)
    twice = estimator(gamma=0.1).fit(np.vstack([X, X]), np.tile(y, 2), sample_domain=np.tile(d, 2))
    Z, Z_twice = once.transform(X), twice.transform(X)
    assert_same(Z_twice * np.linalg.norm(Z, axis=0) / np.linalg.norm(Z_twice, axis=0), Z)


def test_sca_and_udica_have_documented_defaults():
    X, y, d = three_domains()
    assert SCA().fit(X, y, sample_domain=d).transform(X).shape[1] == 4
    assert DICA(supervised=False).fit(X, sample_domain=d).transform(X).shape[1] == 2


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("sample_domain", [None, ["only"] * 72])
def test_a_single_domain_is_fitted_with_a_warning_that_says_what_it_costs(sample_domain):
    X, y, _ = three_domains()
    with pytest.warns(SingleDomainWarning, match="no shift to learn from"):
        model = CIDG(ridge=0.1).fit(X, y, sample_domain=sample_domain)
    with pytest.warns(SingleDomainWarning):
        assert_same(KFDA(ridge=0.1).fit(X, y).transform(X), model.transform(X))
