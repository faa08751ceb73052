"""Where numbers, memory and states end: what is said there, and the digits that are kept up to there."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from degenerate_cases import CASES
from degenerate_oracles import judged
from unseen import PivotedNystroem
from unseen.kernels import check_scatter_memory
from unseen.linalg._cell_statistics import check_squares


@pytest.mark.parametrize(
    ("largest", "words", "power"),
    [(1e200, "too large", "1e-200"), (1e-200, "too small", "1e200"), (1e-320, "too small", "1e300")],
)
def test_values_whose_squares_are_no_numbers_are_told_by_what_to_multiply(largest, words, power):
    with pytest.raises(ValueError, match=rf"{words}.*multiply it by {power}\."):
        check_squares(largest)
    check_squares(1.0)


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
