"""Statistics of cells are those of the samples, whatever the table of counts looks like."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from unseen.linalg import (
    CellStatistics,
    Membership,
    Moments,
    Spectrum,
    gram_spectrum,
)
from unseen.linalg._cell_statistics import KRYLOV_STEP, krylov_spectra

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


def test_cells_move_to_their_places_in_a_larger_table():
    F, klass, domain = samples([[3, 1], [0, 2]])
    placed = CellStatistics.from_features(F, Membership.from_codes(klass, domain)).reindex(
        np.array([2, 0]), np.array([1, 3]), (3, 4)
    )
    rows, columns = np.array([2, 0]), np.array([1, 3])
    assert_statistics_of(placed, F, columns[klass], rows[domain], (3, 4))
    assert np.count_nonzero(placed.tails) <= np.count_nonzero(placed.means)


@pytest.mark.parametrize("table", TABLES)
def test_indicators_are_orthonormal_and_sum_up_cells(table):
    F, klass, domain = samples(table)
    membership = Membership.from_codes(klass, domain)
    E, counts = membership.indicators.toarray(), np.ravel(table)
    np.testing.assert_allclose(E @ E.T, np.eye(np.count_nonzero(counts)), atol=1e-15)
    means = by_hand(F, klass, domain, np.shape(table))[0][counts > 0]
    np.testing.assert_allclose(E @ F, np.sqrt(counts[counts > 0])[:, None] * means, rtol=1e-14)


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


@pytest.mark.parametrize("with_lift", [True, False])
def test_directions_in_which_nothing_varies_can_be_left_out(with_lift):
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.normal(size=(9, 9)))[0]
    values, membership = (
        np.array([0, 3.0, 0, 1e-3, 0.5, 0, 0, 2.0, 7.0]),
        Membership.from_codes(np.arange(9) % 2, 0 * np.arange(9)),
    )
    cells = (membership.indicators @ V).T
    spectrum = Spectrum(values, V if with_lift else None, cells, np.zeros((0, 2)))
    varying = spectrum.without_null()
    kept = np.array([1, 3, 4, 7, 8])
    np.testing.assert_array_equal(varying.values, values[kept])
    np.testing.assert_array_equal(varying.cells, cells[kept])
    coordinates = rng.normal(size=(5, 2))
    scattered = np.zeros((9, 2))
    scattered[kept] = coordinates
    np.testing.assert_allclose(varying.to_coefficients(coordinates), spectrum.to_coefficients(scattered), atol=1e-15)
    whole = varying.cells.T @ varying.cells + varying.outside.T @ varying.outside
    np.testing.assert_allclose(whole, np.eye(2), atol=1e-14)


def test_a_decomposition_on_a_basis_is_that_of_what_the_basis_spans():
    rng = np.random.default_rng(0)
    membership = Membership.from_codes(np.arange(12) % 2, np.arange(12) % 3)
    basis = np.linalg.qr(rng.normal(size=(12, 5)))[0].T
    small = np.diag([5.0, 1.0, 0.2, 0.0, -1e-20])
    found = gram_spectrum(small.copy(), membership, basis)
    np.testing.assert_allclose(found.lift * found.values @ found.lift.T, basis.T @ small @ basis, atol=1e-14)
    np.testing.assert_allclose(found.cells, (membership.indicators @ found.lift).T, atol=1e-15)
    assert np.count_nonzero(found.values) == 3
    assert found.outside.shape == (0, 6)


@pytest.mark.parametrize(("n", "more"), [(400, 0), (400, 3)])
def test_krylov_spaces_grow_and_hold_the_powers_of_the_cells(n, more):
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    K = Q * np.append(np.logspace(0, -3, 60), np.full(n - 60, 1e-4)) @ Q.T
    membership = Membership.from_codes(np.arange(n) % 2, np.arange(n) // 2 % 2)
    E, width = membership.indicators.toarray(), 4 + more
    spectra = list(krylov_spectra(K, membership, more))
    assert [len(one.values) for one in spectra] == list(range(KRYLOV_STEP * width, n // 4 + 1, KRYLOV_STEP * width))
    for one in spectra:
        np.testing.assert_allclose(one.lift.T @ one.lift, np.eye(len(one.values)), atol=1e-10)
        np.testing.assert_allclose(one.lift.T @ K @ one.lift, np.diag(one.values), atol=1e-10)
        np.testing.assert_allclose(one.lift @ one.cells, E.T, atol=1e-10)  # the cells lie in the space
        image = K @ (K @ E.T)
        np.testing.assert_allclose(one.lift @ (one.lift.T @ image), image, atol=1e-10)  # and so do powers of them


@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (1, 1), (4, 7)])
def test_moments_of_two_parts_add_up(sizes):
    X = np.random.default_rng(0).normal(size=(sum(sizes), 2)) + 3
    total = Moments.from_values(X[: sizes[0]]) + Moments.from_values(X[sizes[0] :])
    assert total.count == len(X)
    if len(X):
        np.testing.assert_allclose(total.mean, X.mean(axis=0), rtol=1e-13)
        np.testing.assert_allclose(total.scatter, ((X - X.mean(axis=0)) ** 2).sum(), atol=1e-12)
    assert total.trace == pytest.approx(np.trace(np.cov(X.T)), nan_ok=True) if len(X) > 1 else np.isnan(total.trace)
