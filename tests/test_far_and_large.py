"""Where X lies and in which units it is given: what should not matter does not, and what is too large is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics.pairwise import polynomial_kernel

import textbook
from helpers import METHODS, make, three_domains
from unseen import KFDA
from unseen.kernels import Kernel, center_kernel

X, Y, D = three_domains()
GRID = 2.0**-20  # samples and offsets on a grid: adding one to the other rounds nothing, so all digits can be asked for
X = np.round(X / GRID) * GRID
OFFSETS = st.lists(st.floats(-1e8, 1e8).map(np.round), min_size=4, max_size=4).map(np.array)


def inner(a, b):
    """The exact inner product."""
    return sum(Fraction(p) * Fraction(q) for p, q in zip(a.tolist(), b.tolist(), strict=True))


@pytest.mark.parametrize("name", METHODS)
@given(offset=OFFSETS)
@settings(max_examples=15)
def test_a_linear_projection_does_not_depend_on_the_origin(name, offset):
    here, there = (make(name, kernel="linear", ridge=1e-3).fit(part, Y, sample_domain=D) for part in (X, X + offset))
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-7)
    Z = here.transform(2 * X)
    np.testing.assert_allclose(there.transform(2 * X + offset), Z, atol=1e-6 * np.abs(Z).max())


@given(offset=OFFSETS)
@settings(max_examples=10)
def test_a_linear_kernel_keeps_its_digits_far_from_the_origin(offset):
    few = (X + offset)[::6]
    exact = np.array([[inner(a, b) for b in few] for a in few])
    expected = textbook.centered(exact).astype(float)
    kernel = Kernel("linear")
    for K in (kernel.evaluate_for_centering(few), kernel.evaluate_for_centering(sparse.csr_array(few), few)):
        center_kernel(K)
        np.testing.assert_allclose(K, expected, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("options", [{"degree": 2}, {"degree": 3, "coef0": -1}, {"degree": 2.5}])
def test_a_polynomial_projection_is_that_of_its_kernel_matrix(options):
    near = X / 10 + 0.5
    model = KFDA(kernel="poly", gamma=0.2, **options).fit(near, Y, sample_domain=D)
    gram, new = (polynomial_kernel(part, near, **{"gamma": 0.2, "coef0": 1, **options}) for part in (near, near**2))
    expected = KFDA(kernel="precomputed").fit(gram, Y, sample_domain=D)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(model.transform(near**2), expected.transform(new), atol=1e-7)


TOO_LARGE = "^X is too large: .* Scale X|gave NaN or infinite values on X. Scale X"


def test_chunks_too_large_to_be_added_up_are_to_be_scaled():
    stream = KFDA(feature_map="linear")
    for part in (X, 1e200 * X):
        stream.partial_fit(part, Y, sample_domain=D)
    with pytest.raises(ValueError, match=TOO_LARGE):
        stream.transform(X)
