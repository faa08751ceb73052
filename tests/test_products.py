"""Products by SciPy's BLAS are those of NumPy, whatever the order in memory, of nothing too; and so are norms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.linalg import gram, norm, product

LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda A: np.repeat(A, 2, axis=0)[::2],
    "reversed": lambda A: A[::-1].copy()[::-1],
}
SIZES = st.integers(0, 6)


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
@given(m=SIZES, k=SIZES, n=SIZES, seed=st.integers(0, 99))
def test_products_are_those_of_numpy(left, right, m, k, n, seed):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    found = product(LAYOUTS[left](A), LAYOUTS[right](B))
    assert found.shape == (m, n)
    np.testing.assert_allclose(found, A @ B, atol=1e-14)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(m=SIZES, n=SIZES, seed=st.integers(0, 99))
def test_gram_matrices_are_symmetric_products(layout, m, n, seed):
    A = np.random.default_rng(seed).normal(size=(m, n))
    found = gram(LAYOUTS[layout](A))
    np.testing.assert_allclose(found, A.T @ A, atol=1e-14)
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("layout", ["C", "Fortran"])
@given(m=st.integers(1, 6), n=st.integers(1, 6), seed=st.integers(0, 99))
def test_norms_are_those_of_numpy(layout, m, n, seed):
    A = np.random.default_rng(seed).normal(size=(m, n))
    assert norm(LAYOUTS[layout](A)) == pytest.approx(np.linalg.norm(A), rel=1e-14)
