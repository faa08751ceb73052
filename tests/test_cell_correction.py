"""Corrections for the sampling error of cell means: equations, limits, all paths, and what they are for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier

import textbook
from unseen import CIDG, MDA, SCA, ProjectionSearchCV

WEIGHTS = {"conditional_weight": 50.0, "prior_weight": 20.0, "ridge": 1e-2}


def noisy_domains(seed, n_domains=4, n_classes=3, largest=9, shift=0.5, n_features=5):
    """Cells of one to `largest` samples, of which some are absent; every class is in two domains at least."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, largest + 1, size=(n_domains, n_classes))
    counts[:2] = np.maximum(counts[:2], 2)
    counts[:, 0] = np.maximum(counts[:, 0], 1)
    d, y = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    centers = 2 * rng.normal(size=(n_classes, n_features))
    shifts = shift * rng.normal(size=(n_domains, n_classes, n_features))
    X = centers[y] + shifts[d, y] + rng.normal(size=(len(y), n_features))
    return X, y, d


def expected_features(equations, X, y, d, gamma=0.1, **parameters):
    K = textbook.centered(rbf_kernel(X, gamma=gamma))
    values, B = textbook.solve(*equations(K, y, d, **parameters), len(np.unique(y)) - 1)
    return values, K @ B / np.sqrt(values)


def assert_equal_features(Z, expected, tolerance=1e-8):
    signs = np.sign(np.sum(Z * expected, axis=0))
    assert np.abs(Z - signs * expected).max() <= tolerance * np.abs(expected).max()


EQUATIONS = {"unbiased": textbook.cidg_unbiased, "shrink": textbook.cidg_shrunken, "none": textbook.cidg}


@pytest.mark.parametrize("correction", EQUATIONS)
@pytest.mark.parametrize("norm_weight", [0.0, 1.0])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), shift=st.sampled_from([0.0, 0.5, 2.0]))
def test_a_fit_solves_the_corrected_equations(correction, norm_weight, seed, shift):
    X, y, d = noisy_domains(seed, shift=shift)
    parameters = {**WEIGHTS, "norm_weight": norm_weight}
    values, Z = expected_features(EQUATIONS[correction], X, y, d, **parameters)
    cidg = CIDG(**parameters, cell_correction=correction, gamma=0.1).fit(X, y, sample_domain=d)
    q = len(cidg.eigenvalues_)
    np.testing.assert_allclose(cidg.eigenvalues_, values[:q], rtol=1e-7)
    if np.min(-np.diff(values, append=0) / values) > 1e-3:  # components of equal eigenvalues are not unique
        assert_equal_features(cidg.transform(X), Z[:, :q], 1e-7)


def test_sca_subtracts_the_noise_of_its_domain_scatter():
    X, y, d = noisy_domains(3)
    values, Z = expected_features(textbook.sca_unbiased, X, y, d, between_weight=0.5, domain_weight=40.0, ridge=1e-2)
    sca = SCA(2, between_weight=0.5, domain_weight=40.0, ridge=1e-2, cell_correction="unbiased", gamma=0.1)
    assert_equal_features(sca.fit_transform(X, y, sample_domain=d), Z)
    np.testing.assert_allclose(sca.eigenvalues_, values, rtol=1e-9)


@pytest.mark.parametrize("correction", ["unbiased", "shrink"])
def test_all_paths_agree(correction):
    """Cholesky (600 samples), explicit features, chunks, and a search."""
    rng = np.random.default_rng(0)
    X, y, d = noisy_domains(1, n_domains=6, n_classes=4, largest=60)
    assert len(X) > 500
    cidg = CIDG(**WEIGHTS, cell_correction=correction, gamma=0.1)
    cidg.fit(X, y, sample_domain=d)
    values, _ = expected_features(EQUATIONS[correction], X, y, d, **WEIGHTS)
    np.testing.assert_allclose(cidg.eigenvalues_, values, rtol=1e-8)

    every_sample = FrozenEstimator(Nystroem(gamma=0.1, n_components=len(X), random_state=0).fit(X))
    mapped = CIDG(**WEIGHTS, cell_correction=correction, feature_map=every_sample)
    np.testing.assert_allclose(mapped.fit(X, y, sample_domain=d).eigenvalues_, values, rtol=1e-5)
    chunks = CIDG(**WEIGHTS, cell_correction=correction, feature_map=every_sample)
    for rows in np.array_split(rng.permutation(len(X)), 5):
        chunks.partial_fit(X[rows], y[rows], sample_domain=d[rows], classes=np.unique(y))
    np.testing.assert_allclose(chunks.finalize().eigenvalues_, mapped.eigenvalues_, rtol=1e-9)

    few = rng.permutation(len(X))[:200]
    search = ProjectionSearchCV(
        CIDG(**WEIGHTS, gamma=0.1), {"cell_correction": [correction]}, classifier=KNeighborsClassifier(1)
    ).fit(X[few], y[few], sample_domain=d[few])
    for k, domain in enumerate(np.unique(d[few])):
        train, test = few[d[few] != domain], few[d[few] == domain]
        fitted = clone(cidg).fit(X[train], y[train], sample_domain=d[train])
        one_nn = KNeighborsClassifier(1).fit(fitted.transform(X[train]), y[train])
        score = one_nn.score(fitted.transform(X[test]), y[test])
        assert search.cv_results_[f"split{k}_test_score"] == pytest.approx(score)


@pytest.mark.parametrize("kind", [CIDG, SCA, MDA])
def test_with_huge_cells_nothing_is_corrected(kind):
    """The error of a mean of n samples vanishes with 1/n, the scatter between domains does not."""
    rng = np.random.default_rng(0)
    n = 2000
    d, y = np.repeat(np.arange(3), 2 * n), np.tile(np.repeat([0, 1], n), 3)
    X = rng.normal(size=(3, 2, 4))[d, y] + 0.3 * rng.normal(size=(len(y), 4))
    plain = kind(feature_map="linear").fit(X, y, sample_domain=d)
    shrunk = kind(feature_map="linear", cell_correction="shrink").fit(X, y, sample_domain=d)
    np.testing.assert_allclose(plain.eigenvalues_, shrunk.eigenvalues_, rtol=1e-3)


def test_without_shift_the_corrected_penalty_is_near_the_true_one():
    """The true scatter between domains is zero: the correction removes most of what sampling errors add."""
    rng = np.random.default_rng(0)
    d, y = np.repeat(np.arange(8), 10), np.tile([0, 1], 40)
    ratios = {"none": [], "unbiased": [], "shrink": []}
    for _ in range(10):
        X = 2.0 * y[:, None] + rng.normal(size=(80, 3))
        for correction, values in ratios.items():
            weights = {"conditional_weight": 200.0, "prior_weight": 0.0}
            cidg = CIDG(**weights, feature_map="linear", cell_correction=correction).fit(X, y, sample_domain=d)
            values.append(cidg.eigenvalues_[0])
        free = CIDG(conditional_weight=0, prior_weight=0, feature_map="linear").fit(X, y, sample_domain=d)
        for values in ratios.values():
            values[-1] /= free.eigenvalues_[0]
    means = {correction: np.mean(values) for correction, values in ratios.items()}
    for correction in ("unbiased", "shrink"):
        assert 0 <= 1 - means[correction] < (1 - means["none"]) / 2


@pytest.mark.parametrize("correction", ["unbiased", "shrink"])
def test_one_sample_per_cell_leaves_nothing_to_estimate_the_noise_from(correction):
    X = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(ValueError, match=f"cell_correction='{correction}' needs a class with at least two samples"):
        CIDG(cell_correction=correction).fit(X, [0, 1, 0, 1, 0, 1], sample_domain=[0, 0, 1, 1, 2, 2])


def test_one_domain_has_no_scatter_between_domains():
    X, y, _ = noisy_domains(0)
    with pytest.warns(UserWarning, match="domain"):
        plain = CIDG(gamma=0.1).fit(X, y)
    for correction in ("unbiased", "shrink"):
        with pytest.warns(UserWarning, match="domain"):
            same = CIDG(gamma=0.1, cell_correction=correction).fit(X, y)
        np.testing.assert_allclose(same.eigenvalues_, plain.eigenvalues_, rtol=1e-9)


@pytest.mark.parametrize("correction", ["none", "unbiased"])
def test_without_scatter_within_cells_and_ridge_the_problem_is_singular(correction):
    """Two equal samples in every cell: the noise to subtract is zero, and nothing bounds the ratio."""
    X = np.repeat(np.random.default_rng(0).normal(size=(6, 3)), 2, axis=0)
    y, d = np.tile([0, 0, 1, 1], 3), np.repeat([0, 1, 2], 4)
    with pytest.raises(ValueError, match="singular"):
        CIDG(feature_map="linear", ridge=0.0, cell_correction=correction).fit(X, y, sample_domain=d)
