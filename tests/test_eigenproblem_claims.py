"""Small pencils, with empty cells and cells of one sample: each part of the solver against dense textbook matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import linalg
from sklearn.metrics.pairwise import rbf_kernel

import textbook
from helpers import METHODS, make, match, pencil
from unseen.linalg import (
    CellStatistics,
    Membership,
    ScatterProblem,
    Solution,
    between_contrast,
    cell_within_contrast,
    conditional_contrast,
    dica_output_contrast,
    domain_contrast,
    gram_spectrum,
    mda_between_contrast,
    mda_class_discrepancy_contrast,
    mda_class_offset_contrast,
    mda_domain_discrepancy_contrast,
    prior_normalized_contrast,
    scatter_traces,
    solve,
    solve_with_total,
    whiten,
)
from unseen.linalg._eigenproblem import _component_sign, _cosines_and_sines

TABLES = [[[4, 1, 0], [1, 3, 2], [0, 5, 1]], [[3, 2], [1, 4]], [[5, 1, 2, 3]], [[2, 3, 0], [1, 2, 2]]]
LOW_RANK = [name for name in METHODS if name not in ("SCA", "UDICA")]
WITH_TOTAL = ["SCA", "UDICA"]


def problem(table, seed=0):
    counts, rng = np.array(table), np.random.default_rng(seed)
    d, y = (np.repeat(index, counts.ravel()) for index in map(np.ravel, np.indices(counts.shape)))
    order = rng.permutation(len(y))
    y, d = y[order], d[order]
    X = (
        rng.normal(size=(len(y), 3))
        + 2 * rng.normal(size=(counts.shape[1], 3))[y]
        + rng.normal(size=(len(counts), 3))[d]
    )
    return X, textbook.centered(rbf_kernel(X, gamma=0.1)), Membership.from_codes(y, d), y, d


def mean_matrix(K, counts, y, d):
    """Means of cells as columns; of an absent one, whatever: a contrast must not look at it."""
    means = np.full((len(K), counts.size), np.nan)
    for s, j in zip(*np.nonzero(counts), strict=True):
        means[:, s * counts.shape[1] + j] = textbook.cell_mean(K, y, d, s, j)
    return means[:, counts.ravel() > 0]


SCATTERS = {
    "conditional": (conditional_contrast, textbook.conditional),
    "prior": (prior_normalized_contrast, textbook.prior_normalized),
    "between": (between_contrast, lambda K, y, d: textbook.between(K, y)),
    "domain": (domain_contrast, lambda K, y, d: textbook.domain_scatter(K, d)),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", SCATTERS)
def test_a_contrast_of_cell_means_is_the_scatter_of_the_textbook(name, table):
    _, K, membership, y, d = problem(table)
    counts, (contrast, dense) = membership.counts, SCATTERS[name]
    W = contrast(counts)
    assert len(W) == np.count_nonzero(counts)  # empty cells cost nothing
    MW = mean_matrix(K, counts, y, d) @ W
    np.testing.assert_allclose(MW @ MW.T, dense(K, y, d), atol=1e-13)
    np.testing.assert_allclose(W.sum(axis=0), 0, atol=1e-14)  # where all means are the same, there is no scatter


@pytest.mark.parametrize("table", TABLES)
def test_scatters_inside_cells_and_of_cells_make_up_the_one_within_classes(table):
    _, K, membership, y, d = problem(table)
    counts = membership.counts
    MW = mean_matrix(K, counts, y, d) @ cell_within_contrast(counts)
    inside = textbook.within(K, membership.cell)
    np.testing.assert_allclose(MW @ MW.T + inside, textbook.within(K, y), atol=1e-13)


@pytest.mark.parametrize("table", TABLES)
def test_the_numerators_and_denominators_of_mda_and_dica_are_those_of_the_textbook(table):
    _, K, membership, y, d = problem(table)
    counts = membership.counts

    def dense(contrast):
        MW = mean_matrix(K, counts, y, d) @ contrast
        return MW @ MW.T

    off = {"discrepancy_weight": 0.0, "conditional_weight": 0.0, "within_weight": 0.0, "ridge": 0.0}
    N = textbook.mda(K, y, d, **off | {"discrepancy_weight": 1.0})[0]
    np.testing.assert_allclose(dense(mda_class_discrepancy_contrast(counts)), N, atol=1e-13)
    np.testing.assert_allclose(dense(mda_between_contrast(counts)), textbook.mda(K, y, d, **off)[0], atol=1e-13)
    if len(counts) > 1:
        G = textbook.mda(K, y, d, **off | {"conditional_weight": 1.0})[1] - K
        np.testing.assert_allclose(dense(mda_domain_discrepancy_contrast(counts)), G, atol=1e-13)
    else:
        assert mda_domain_discrepancy_contrast(counts).shape == (counts.size, 1)
        assert not mda_domain_discrepancy_contrast(counts).any()
    Q = len(y) * (textbook.mda(K, y, d, **off | {"within_weight": 1.0})[1] - K)
    np.testing.assert_allclose(dense(mda_class_offset_contrast(counts)), Q - textbook.within(K, y), atol=1e-12)
    N = textbook.dica(K, y, d, ridge=1.0, output_ridge=0.1)[0]
    np.testing.assert_allclose(dense(dica_output_contrast(counts, 0.1)), N, atol=1e-13)


@pytest.mark.parametrize("table", TABLES)
def test_traces_of_scatters_are_those_of_projected_samples(table):
    X, _, membership, y, d = problem(table)
    found = scatter_traces(CellStatistics.from_features(X, membership))
    Xc = np.zeros((len(X), len(X)))  # samples are columns to the textbook, and as many as rows
    Xc[:3] = (X - X.mean(axis=0)).T
    for name, (_, dense) in SCATTERS.items():
        assert name == "domain" or found[name] == pytest.approx(np.trace(dense(Xc, y, d)), rel=1e-12)
    assert found["within"] == pytest.approx(np.trace(textbook.within(Xc, y)), rel=1e-12)
    assert found.keys() == {"between", "within", "conditional", "prior"}
    assert found["between"] + found["within"] == pytest.approx((Xc**2).sum(), rel=1e-12)
    far = scatter_traces(CellStatistics.from_features(X + 1e8, membership))  # where doubles are 1e-8 apart
    assert all(far[name] == pytest.approx(found[name], rel=1e-6, abs=1e-6) for name in found)


def recipe_of(name, counts, ridge):
    return make(name)._scatter_problem(counts, ridge)


def assert_solves(solution, name, K, membership, y, d, ridge, n_components=None):
    """All that is said of a solution, against the dense pencil."""
    N, A = pencil(name, K, y, d, ridge)
    g, B = solution.eigenvalues, solution.coefficients
    q = len(g) if n_components is None else n_components
    expected, dense = textbook.solve(N, A, q)
    np.testing.assert_allclose(g, expected, rtol=1e-9)
    np.testing.assert_allclose(N @ B, A @ B * g, atol=1e-9 * np.abs(N @ B).max())
    np.testing.assert_allclose(B.T @ A @ B, np.eye(q), atol=1e-9)
    np.testing.assert_allclose(match(B, dense, expected), dense, atol=1e-7 * np.abs(dense).max())
    np.testing.assert_allclose(solution.norms, np.linalg.norm(B, axis=0), rtol=1e-8)
    counts = membership.counts
    means = mean_matrix(K, counts, y, d)
    np.testing.assert_allclose(solution.cell_means, means.T @ B, atol=1e-9 * np.abs(means.T @ B).max())
    top = linalg.eigvalsh(N, A)[::-1]
    assert q == len(top) or top[q] < 1e-10 * top[0] or n_components is not None  # none is missing


@pytest.mark.parametrize("table", TABLES[:2])
@pytest.mark.parametrize("name", LOW_RANK)
def test_pencils_of_cells_are_solved(name, table):
    _, K, membership, y, d = problem(table)
    recipe = recipe_of(name, membership.counts, 0.01)
    reduced = whiten(gram_spectrum(K.copy(), membership), recipe)
    assert_solves(solve(reduced, recipe, membership.counts), name, K, membership, y, d, 0.01)


@pytest.mark.parametrize("name", WITH_TOTAL)
@pytest.mark.parametrize("n_components", [1, 3])
@pytest.mark.parametrize("table", TABLES[:2])
def test_pencils_with_the_total_scatter_are_solved(name, n_components, table):
    _, K, membership, y, d = problem(table)
    recipe, spectrum = recipe_of(name, membership.counts, 0.01), gram_spectrum(K.copy(), membership)
    found = solve_with_total(spectrum, whiten(spectrum, recipe), recipe, membership.counts, n_components)
    assert_solves(found, name, K, membership, y, d, 0.01, n_components)


@pytest.mark.parametrize("size", [199, 200])
@pytest.mark.parametrize("n_components", [2, 51])
def test_the_many_and_the_few_components_agree_with_the_textbook(size, n_components):
    table = np.array([[40, 50], [60, 49 + size - 199]])
    _, K, membership, y, d = problem(table)
    recipe, spectrum = recipe_of("SCA", membership.counts, 1.0), gram_spectrum(K.copy(), membership)
    found = solve_with_total(spectrum, whiten(spectrum, recipe), recipe, membership.counts, n_components)
    N, A = pencil("SCA", K, y, d, 1.0)
    np.testing.assert_allclose(found.eigenvalues, textbook.solve(N, A, n_components)[0], atol=1e-9)


def test_components_without_variance_are_left_out():
    _, K, membership, _, _ = problem(TABLES[1])
    values, vectors = linalg.eigh(K)
    K = vectors[:, -3:] * values[-3:] @ vectors[:, -3:].T  # three directions in all
    recipe, spectrum = recipe_of("UDICA", membership.counts, 0.1), gram_spectrum(K.copy(), membership)
    for scale in (1e-20, 1.0, 1e6):
        one = replace(spectrum, values=scale * spectrum.values)
        like = replace(recipe, ridge=scale * recipe.ridge)
        found = solve_with_total(one, whiten(one, like), like, membership.counts, 7)
        assert len(found.eigenvalues) == 3


@pytest.mark.parametrize("name", ["KFDA", "DICA"])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("factor", [1e-20, 1.0, 1e20])
def test_means_that_coincide_are_refused_whatever_the_units(name, scale, factor):
    _, K, membership, _, _ = problem(TABLES[1])
    counts, spectrum = membership.counts, gram_spectrum(K.copy(), membership)
    one = replace(spectrum, values=scale * spectrum.values)
    recipe = recipe_of(name, counts, 0.01 * scale ** METHODS[name][3])
    recipe = replace(recipe, penalties=(), numerator=factor * recipe.numerator)
    reduced = whiten(one, recipe)
    assert len(solve(reduced, recipe, counts).eigenvalues) == 1
    with pytest.raises(ValueError, match="class means coincide"):
        solve(replace(reduced, cells=1e-15 * reduced.cells), recipe, counts)


@pytest.mark.parametrize(("inside", "norm"), [(1.0, 0.0), (0.0, 1.0), (2.0, 3.0)])
def test_the_spread_is_the_most_that_whitening_leaves_of_a_sample(inside, norm):
    _, K, membership, _, _ = problem(TABLES[0])
    K = 3 * K  # so that a norm is not near 1
    recipe = ScatterProblem(between_contrast(membership.counts), (), ridge=0.5, within_weight=inside, norm_weight=norm)
    M = inside * K @ K + norm * K + 0.5 * np.eye(len(K))
    largest = np.linalg.norm(linalg.inv(linalg.sqrtm(M).real) @ K, 2)
    assert whiten(gram_spectrum(K.copy(), membership), recipe).spread == pytest.approx(largest)


def test_more_cells_than_directions_have_sines_of_zero_and_one():
    F = np.array([[1.0, 0.0, 0.0]])  # one direction of three cells; the second is lost, the third too
    Q, T, sines = _cosines_and_sines(F, np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), 1.0)
    np.testing.assert_allclose(Q @ T, F, atol=1e-15)
    np.testing.assert_allclose(np.sort(sines), [0.0], atol=1e-15)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_a_sign_is_decided_by_classes_then_cells_then_coefficients_then_features(unit):
    even = np.array([1.0, -1.0])

    def sign(classes, cells, coefficients=even, leaning=0.0):
        return _component_sign(
            *(unit * np.array(part, dtype=float) for part in (classes, cells, coefficients)), leaning
        )

    assert sign([2, -1], even) == 1
    assert sign([1, -2], even) == -1
    assert sign(even, [3, -1, -1]) == 1
    assert sign(even, [1, 1, -3]) == -1
    assert sign([1e-8, -2e-8], [3, -1]) == 1  # classes whose means are rounding beside those of cells have no say
    assert sign([1e-8, -2e-8], [1, -3]) == -1
    assert sign(even, even, [3, -1]) == 1
    assert sign(even, even, [1, -3]) == -1
    assert sign([1 + 1e-8, -1], [1, -3]) == -1  # equal, up to rounding
    assert sign([1e-17], [1e-17], [1, -3]) == -1  # a single cell has no mean but rounding
    assert sign(even, even, even, leaning=-1.0) == -1
    assert sign(even, even, even, leaning=1.0) == 1
    assert sign(even, even, even) == 1
    assert sign(-even, even, even) == -1
    assert sign([0, 1, -1], even, even) == 1


def test_features_decide_the_sign_of_perfectly_symmetric_components():
    counts, B = np.array([[1, 1]]), np.array([[1.0, 1.0], [-1.0, -1.0]])
    symmetric = Solution(np.ones(2), B, np.ones(2), B)
    X = np.array([[0.0, 1.0, 5.0], [0.0, 4.0, 2.0]])  # features weigh 0, -3 and 3; then of the first of the largest
    np.testing.assert_allclose(symmetric.orient(counts, X).coefficients, -B)
    np.testing.assert_allclose(symmetric.orient(counts, X[:, [0, 2]]).coefficients, B)
    np.testing.assert_allclose(symmetric.orient(counts).coefficients, B)
