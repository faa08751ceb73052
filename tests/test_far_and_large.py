"""Where X lies and in which units it is given: what should not matter does not, and what is too large is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.preprocessing import StandardScaler

import textbook
from helpers import METHODS, make, three_domains
from unseen import KFDA
from unseen import model_selection as selection
from unseen.kernels import Kernel, center_kernel
from unseen.model_selection import EvaluationConfig, LeaveOneDomainOut, evaluate_candidates
from unseen.utils.samples import Samples

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


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@given(offset=OFFSETS, coef0=st.sampled_from([0.0, 1.0, -3.0]))
@settings(max_examples=10)
def test_a_polynomial_kernel_keeps_its_digits_far_from_the_origin(degree, offset, coef0):
    few = (X + offset)[::6]
    exact = np.array([[(Fraction(0.25) * inner(a, b) + Fraction(coef0)) ** degree for b in few] for a in few])
    expected = textbook.centered(exact).astype(float)
    kernel = Kernel("poly", 0.25, degree, coef0)
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


FAR = st.sampled_from([1e6, 1e9, 1e12, 1e15])


@given(far=FAR)
@settings(max_examples=4, deadline=None)
@pytest.mark.parametrize("preparation", [None, StandardScaler()])
def test_predictions_of_a_split_depend_on_its_own_rows_alone(preparation, far):
    train, test = next(LeaveOneDomainOut().split(X, Y, D))
    stretched = Samples(np.vstack([X, np.full((1, X.shape[1]), far)]), np.append(Y, 0), np.append(D, D[test[0]]))
    candidates = [
        next(candidate for candidate in selection.METHODS[name].candidates(3) if not candidate.transductive)
        for name in ("CIDG", "SCA", "KPCA", "RBF SVM")
    ]
    alone = evaluate_candidates(
        candidates, Samples(X, Y, D), [(train, test)], EvaluationConfig(preparation=preparation)
    )
    # The same training rows serve a second split, which holds out the row that is far away.
    splits = [(train, test), (train, np.append(test, len(X)))]
    beside = evaluate_candidates(candidates, stretched, splits, EvaluationConfig(preparation=preparation))
    expected = {one.candidate: one.codes for one in alone}
    for one in beside:
        np.testing.assert_array_equal(one.codes[: len(test)], expected[one.candidate])


def test_a_linear_projection_of_dense_samples_takes_sparse_ones_and_the_other_way_round():
    thin = sparse.csr_array(np.where(X > 1, X, 0.0))
    for one, other in ((thin, thin.toarray()), (thin.toarray(), thin)):
        model = KFDA(kernel="linear").fit(one, Y, sample_domain=D)
        np.testing.assert_allclose(model.transform(other), model.transform(one), rtol=1e-9, atol=1e-9)


TOO_LARGE = "^X is too large: .* Scale X|gave NaN or infinite values on X. Scale X"


def test_chunks_too_large_to_be_added_up_are_to_be_scaled():
    stream = KFDA(feature_map="linear")
    for part in (X, 1e200 * X):
        stream.partial_fit(part, Y, sample_domain=D)
    with pytest.raises(ValueError, match=TOO_LARGE):
        stream.transform(X)
