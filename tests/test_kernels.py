"""Kernels: every one that scikit-learn has, one bandwidth rule, and centering."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from helpers import three_domains
from unseen import CIDG, DICA, SCA
from unseen.kernels._kernel import (
    KERNELS,
    MEDIAN_ROWS,
    center_kernel,
    median_squared_distance,
)

ALL = sorted(set(KERNELS) - {"precomputed"})


def scaled_product(a, b, *, factor=1.0):
    return factor * float((a @ b.T).sum())  # rows of sparse matrices come as matrices of one row


@pytest.fixture
def data():
    X, y, d = three_domains(n_per_cell=4)
    return np.abs(X), y, d


@given(n=st.integers(1, 12), offset=st.sampled_from([0.0, 1.0, -50.0]), seed=st.integers(0, 1000), step=st.booleans())
def test_centering_is_the_textbook_formula(n, offset, seed, step):
    K = np.random.default_rng(seed).normal(size=(n, n)) + offset
    K = K + K.T
    H = np.eye(n) - 1 / n
    expected, means = H @ K @ H, K.mean(axis=0)
    np.testing.assert_allclose(center_kernel(K), means, rtol=1e-12, atol=1e-12)  # K itself is centered in place
    np.testing.assert_allclose(K, expected, atol=1e-12 * (1 + abs(offset)) * n)


def test_centering_in_blocks_is_centering():
    # Large enough for several blocks of rows, the last one shorter.
    n = 2100
    x = np.random.default_rng(0).normal(size=n)
    K = np.outer(x, x)
    center_kernel(K)
    x -= x.mean()
    np.testing.assert_allclose(K, np.outer(x, x), atol=1e-12)


@pytest.mark.parametrize("kernel", ALL)
def test_every_kernel_is_its_precomputed_matrix(kernel, data):
    X, y, d = data
    options = {"degree": 2, "coef0": 0.5, "gamma": 0.1}
    K = pairwise_kernels(X, metric=kernel, filter_params=True, **options)
    model = CIDG(kernel=kernel, **options).fit(X, y, sample_domain=d)
    given_matrix = CIDG(kernel="precomputed").fit(K, y, sample_domain=d)
    np.testing.assert_allclose(model.eigenvalues_, given_matrix.eigenvalues_, rtol=1e-8)
    K_new = pairwise_kernels(1.1 * X[:5], X, metric=kernel, filter_params=True, **options)
    np.testing.assert_allclose(model.transform(1.1 * X[:5]), given_matrix.transform(K_new), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kernel", ALL)
def test_every_kernel_works_with_default_parameters(kernel, data):
    X, y, d = data
    model = CIDG(kernel=kernel).fit(X, y, sample_domain=d)
    expected = CIDG(kernel="precomputed").fit(
        pairwise_kernels(X, metric=kernel, filter_params=True, coef0=1, degree=3)
        if kernel != "rbf"
        else rbf_kernel(X, gamma=1 / np.median(pdist(X, "sqeuclidean"))),
        y,
        sample_domain=d,
    )
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-8)


@pytest.mark.parametrize("kernel", ALL)
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_and_dense_samples_give_the_same(kernel, container, data):
    X, y, d = data
    X = np.where(X > 0.7, X, 0.0)
    dense, thin = (CIDG(kernel=kernel).fit(samples, y, sample_domain=d) for samples in (X, container(X)))
    assert dense.gamma_ == (None if thin.gamma_ is None else pytest.approx(thin.gamma_, rel=1e-12))
    np.testing.assert_allclose(thin.transform(container(X)), dense.transform(X), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(thin.transform(X), dense.transform(X), rtol=1e-7, atol=1e-9)


def test_a_feature_map_may_take_sparse_samples(data):
    X, y, d = data
    options = {"feature_map": Nystroem(gamma=0.1, n_components=10, random_state=0)}
    dense, thin = (CIDG(**options).fit(samples, y, sample_domain=d) for samples in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(thin.transform(sparse.csr_array(X)), dense.transform(X), rtol=1e-6, atol=1e-9)


def test_64_bit_indices_are_accepted_or_refused_clearly(data):
    X, y, d = data
    large = sparse.csr_array(X)
    large.indices, large.indptr = large.indices.astype(np.int64), large.indptr.astype(np.int64)
    expected = CIDG().fit(X, y, sample_domain=d).eigenvalues_
    np.testing.assert_allclose(CIDG().fit(large, y, sample_domain=d).eigenvalues_, expected)
    with pytest.raises(ValueError, match="32-bit integer indices"):
        CIDG(kernel="laplacian").fit(large, y, sample_domain=d)


def test_a_callable_kernel_is_that_of_its_matrix(data):
    X, y, d = data
    model = CIDG(kernel=partial(scaled_product, factor=3.0), ridge=1.0).fit(X, y, sample_domain=d)
    expected = CIDG(kernel="precomputed", ridge=1.0).fit(3 * X @ X.T, y, sample_domain=d)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(model.transform(X), expected.transform(3 * X @ X.T), rtol=1e-7, atol=1e-9)


def test_a_callable_kernel_may_read_sparse_rows(data):
    X, y, d = data
    dense, thin = (CIDG(kernel=scaled_product).fit(samples, y, sample_domain=d) for samples in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(thin.eigenvalues_, dense.eigenvalues_, rtol=1e-8)


@pytest.mark.parametrize("method", [CIDG, SCA, DICA])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_precomputed_matrix_is_left_alone(method, order, data):
    X, y, d = data
    K = np.asarray(rbf_kernel(X), order=order)
    before = K.copy()
    model = method(kernel="precomputed").fit(K, y, sample_domain=d)
    model.transform(K)
    model.recenter(K)
    np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("value", [0.0, 1 / 3, 1e8, 7.7e-9])
@pytest.mark.parametrize("n_rows", [1, 5, MEDIAN_ROWS + 5])
def test_identical_rows_have_no_width(value, n_rows):
    assert median_squared_distance(np.full((n_rows, 7), value)) == 1.0


def many_rows(n=3 * MEDIAN_ROWS):
    X = np.random.default_rng(0).normal(size=(n, 3))
    X[np.abs(X) < 0.5] = 0.0
    return X


def test_a_sample_of_rows_estimates_the_median_of_all():
    X = many_rows()
    assert median_squared_distance(X) == pytest.approx(np.median(pdist(X, "sqeuclidean")), rel=0.08)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_many_rows_does_not_matter(seed):
    X = many_rows()
    shuffled = X[np.random.default_rng(seed).permutation(len(X))]
    assert median_squared_distance(shuffled) == pytest.approx(median_squared_distance(X), rel=1e-12)


def test_the_median_rule_leaves_sparse_samples_alone():
    X = sparse.csr_array(many_rows())
    X.data[5] = 0.0
    before = X.copy()
    median_squared_distance(X)
    assert X.nnz == before.nnz
    np.testing.assert_array_equal(X.data, before.data)
    np.testing.assert_array_equal(X.indices, before.indices)


def test_the_width_is_that_of_the_training_samples(data):
    X, y, d = data
    model = CIDG().fit(X, y, sample_domain=d)
    width = model.gamma_
    one_by_one = np.vstack([model.transform(row[None]) for row in 3 * X])
    np.testing.assert_allclose(one_by_one, model.transform(3 * X), rtol=1e-9, atol=1e-12)
    assert model.gamma_ == width
