"""Small pencils, with empty cells and cells of one sample: each part of the solver against dense textbook matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import textbook
from helpers import METHODS, make
from unseen.linalg import (
    CellStatistics,
    Membership,
    between_contrast,
    conditional_contrast,
    domain_contrast,
    gram_spectrum,
    prior_normalized_contrast,
    scatter_traces,
    solve,
    whiten,
)

TABLES = [[[4, 1, 0], [1, 3, 2], [0, 5, 1]], [[3, 2], [1, 4]], [[5, 1, 2, 3]], [[2, 3, 0], [1, 2, 2]]]


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
