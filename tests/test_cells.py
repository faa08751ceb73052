"""Statistics of cells are those of the samples, whatever the table of counts looks like."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from unseen.linalg import (
    CellStatistics,
    Membership,
    Moments,
)

# Empty cells, cells of one sample, and larger ones; a class and a domain of two samples in all.
TABLES = [[[3, 1, 0], [1, 1, 2], [0, 5, 1]], [[1, 1]], [[2], [1]], [[1, 0], [0, 1], [4, 4]], [[4]]]


def samples(table, n_features=3, seed=0):
    """Features, class and domain of as many samples as a table says, in no order."""
    counts, rng = np.array(table), np.random.default_rng(seed)
    domain, klass = (np.repeat(index, counts.ravel()) for index in map(np.ravel, np.indices(counts.shape)))
    order = rng.permutation(len(klass))
    return rng.normal(size=(len(klass), n_features)) + 5, klass[order], domain[order]


def by_hand(F, klass, domain, shape):
    """Mean of each cell, zero for an empty one, and the scatter inside cells: loops over samples."""
    means, inside = np.zeros((shape[0] * shape[1], F.shape[1])), np.zeros((F.shape[1], F.shape[1]))
    for s, j in np.ndindex(*shape):
        own = F[(domain == s) & (klass == j)]
        if len(own):
            means[s * shape[1] + j] = sum(own) / len(own)
            inside += sum(np.outer(f - sum(own) / len(own), f - sum(own) / len(own)) for f in own)
    return means, inside


def assert_statistics_of(cells, F, klass, domain, shape):
    means, inside = by_hand(F, klass, domain, shape)
    np.testing.assert_array_equal(
        cells.counts.ravel(), np.bincount(domain * shape[1] + klass, minlength=means.shape[0])
    )
    np.testing.assert_allclose(cells.means, means, rtol=1e-14, atol=0)
    np.testing.assert_allclose(cells.inside, inside, atol=1e-12)
    np.testing.assert_allclose(cells.mean, F.mean(axis=0), rtol=1e-14)


@pytest.mark.parametrize("table", TABLES)
def test_statistics_are_means_and_scatters_of_cells(table):
    F, klass, domain = samples(table)
    assert_statistics_of(
        CellStatistics.from_features(F, Membership.from_codes(klass, domain)), F, klass, domain, np.shape(table)
    )


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("cut", [1, 2, -1])
def test_statistics_of_two_parts_add_up(table, cut):
    F, klass, domain = samples(table)
    shape, first, rest = np.shape(table), slice(None, cut), slice(cut, None)
    one, two = (
        CellStatistics.from_features(F[of], Membership.from_codes(klass[of], domain[of], shape)) for of in (first, rest)
    )
    for total in (one + two, two + one):
        assert_statistics_of(total, F, klass, domain, shape)


def exact_means(F, cell, size):
    """Means of cells as fractions."""
    rows = [[Fraction(value) for value in row] for row in F.tolist()]
    groups = [[row for row, own in zip(rows, cell, strict=True) if own == c] for c in range(size)]
    return [[sum(column) / len(own) for column in zip(*own, strict=True)] for own in groups]


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_means_have_the_digits_of_the_spread_whatever_the_offset(parts):
    rng = np.random.default_rng(0)
    F, cell = 1e8 + rng.normal(size=(41, 2)), np.arange(41) % 3  # doubles are 1e-8 apart there
    pieces = [
        CellStatistics.from_features(F[i::parts], Membership.from_codes(cell[i::parts], 0 * cell[i::parts], (1, 3)))
        for i in range(parts)
    ]
    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    for mean, tail, exact in zip(
        total.means.ravel(), total.tails.ravel(), np.ravel(exact_means(F, cell, 3)), strict=True
    ):
        assert abs(Fraction(mean) + Fraction(tail) - exact) < 1e-14


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("n_features", [1, 2, 40])
def test_a_spectrum_of_features_is_that_of_their_centered_gram_matrix(table, n_features):
    F, klass, domain = samples(table, n_features)
    membership = Membership.from_codes(klass, domain)
    spectrum, Fc = CellStatistics.from_features(F, membership).spectrum(), F - F.mean(axis=0)
    rank = np.linalg.matrix_rank(Fc)
    assert len(spectrum.values) == rank
    np.testing.assert_allclose(np.sort(spectrum.values), np.linalg.eigvalsh(Fc @ Fc.T)[-rank:], rtol=1e-9)
    V = Fc @ spectrum.lift / spectrum.values  # as lift = Fc' V
    np.testing.assert_allclose(V.T @ V, np.eye(rank), atol=1e-9)
    np.testing.assert_allclose(Fc.T @ V, spectrum.lift, atol=1e-9)
    np.testing.assert_allclose(spectrum.cells, V.T @ membership.indicators.T, atol=1e-9)
    whole = spectrum.cells.T @ spectrum.cells + spectrum.outside.T @ spectrum.outside
    np.testing.assert_allclose(whole, np.eye(len(whole)), atol=1e-9)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_the_rank_of_a_spectrum_does_not_depend_on_the_units(unit):
    F, klass, domain = samples(TABLES[0])
    assert len(CellStatistics.from_features(unit * F, Membership.from_codes(klass, domain)).spectrum().values) == 3


@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (1, 1), (4, 7)])
def test_moments_of_two_parts_add_up(sizes):
    X = np.random.default_rng(0).normal(size=(sum(sizes), 2)) + 3
    total = Moments.from_values(X[: sizes[0]]) + Moments.from_values(X[sizes[0] :])
    assert total.count == len(X)
    if len(X):
        np.testing.assert_allclose(total.mean, X.mean(axis=0), rtol=1e-13)
        np.testing.assert_allclose(total.scatter, ((X - X.mean(axis=0)) ** 2).sum(), atol=1e-12)
    assert total.trace == pytest.approx(np.trace(np.cov(X.T)), nan_ok=True) if len(X) > 1 else np.isnan(total.trace)
