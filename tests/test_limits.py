"""Where numbers, memory and states end: what is said there, and the digits that are kept up to there."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from degenerate_cases import CASES
from degenerate_oracles import judged
from unseen import PivotedNystroem
from unseen.kernels import check_scatter_memory
from unseen.kernels._kernel import resolve_gamma
from unseen.linalg import CellStatistics, Membership
from unseen.linalg._cell_statistics import check_squares


@pytest.mark.parametrize(
    ("largest", "words", "power"),
    [(1e200, "too large", "1e-200"), (1e-200, "too small", "1e200"), (1e-320, "too small", "1e300")],
)
def test_values_whose_squares_are_no_numbers_are_told_by_what_to_multiply(largest, words, power):
    with pytest.raises(ValueError, match=rf"{words}.*multiply it by {power}\."):
        check_squares(largest)
    check_squares(1.0)


def test_a_width_by_the_variance_needs_squares():
    X = 1e200 * np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(ValueError, match="X is too large"):
        resolve_gamma("scale", "rbf", X)


def test_means_keep_their_digits_beside_a_huge_offset():
    counts = np.array([[3, 4], [5, 2]])
    domain, label = (np.repeat(index, counts.ravel()) for index in map(np.ravel, np.indices(counts.shape)))
    X = 2.0**40 + np.random.default_rng(0).integers(-(2**20), 2**20, size=(14, 2)) / 2.0**10
    found, _ = CellStatistics.from_features(X, Membership.from_codes(label, domain))._center_means()
    exact = [[Fraction(value) for value in row] for row in X]
    mean = [sum(column) / 14 for column in zip(*exact, strict=True)]
    for k, (s, j) in enumerate(np.ndindex(2, 2)):
        rows = [row for row, of, kind in zip(exact, domain, label, strict=True) if (of, kind) == (s, j)]
        expected = [float(sum(column) / len(rows) - m) for column, m in zip(zip(*rows, strict=True), mean, strict=True)]
        np.testing.assert_allclose(found[k], expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["UDICA, linear", "UDICA, feature map", "SCA, linear"])
def test_small_eigenvalues_beside_the_total_scatter_keep_their_digits(name):
    assert judged(name, CASES["float16, large"]()).error < 1e-9


def test_explicit_features_that_no_memory_holds_are_refused():
    with pytest.raises(MemoryError, match="A projection of 10,000,000 explicit features needs 4 matrices"):
        check_scatter_memory(10**7)


def test_landmarks_are_asked_for_after_they_are_picked():
    X = np.zeros((3, 2))
    for ask in (PivotedNystroem().transform, lambda X: PivotedNystroem().combine(X, np.ones((1, 1)))):
        with pytest.raises(NotFittedError):
            ask(X)
