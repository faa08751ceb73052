"""PivotedNystroem approximates the kernel, knows how well, and serves every projection."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from helpers import METHODS, make, three_domains
from unseen import CIDG
from unseen.kernels._kernel import KERNELS
from unseen.kernels._nystroem import PivotedNystroem, pivoted_cholesky

X, Y, D = three_domains()
POSITIVE = sorted(set(KERNELS) - {"precomputed", "sigmoid"})
OPTIONS = {"gamma": 0.1, "degree": 2, "coef0": 0.5}
MANY = np.random.default_rng(0).normal(size=(400, 3))


def exact(kernel, X, Z=None):
    return pairwise_kernels(X, Z, metric=kernel, filter_params=True, **OPTIONS)


def product(a, b, *, factor=1.0):
    return factor * float((a @ b.T).sum())  # rows of sparse matrices come as matrices of one row


@parametrize_with_checks(
    [
        PivotedNystroem(),
        PivotedNystroem(5, block_size=2),
        PivotedNystroem(tolerance=0.1),
    ]
)
@pytest.mark.filterwarnings("ignore:PivotedNystroem stopped at n_components:sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kernel", POSITIVE)
@pytest.mark.parametrize("block_size", [1, 7, 64])
def test_with_every_sample_a_landmark_the_kernel_is_exact(kernel, block_size):
    data = np.abs(X)
    model = PivotedNystroem(len(X), kernel=kernel, block_size=block_size, random_state=0, **OPTIONS).fit(data)
    F, new = model.transform(data), np.abs(X[::-1] + 0.3)
    np.testing.assert_allclose(F @ F.T, exact(kernel, data), atol=1e-8)
    np.testing.assert_allclose(model.transform(new) @ F.T, exact(kernel, new, data), atol=1e-8)
    assert 0 <= model.trace_error_ < 1e-12


@settings(max_examples=40)
@given(
    n=st.integers(1, 60),
    rank=st.integers(1, 5),
    spread=st.sampled_from([1.0, 1e-6, 1e6]),
    block_size=st.sampled_from([1, 3, 64]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_kernel_of_lower_rank_is_exact_with_as_many_landmarks(n, rank, spread, block_size, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, 8)) * spread
    X[rng.random(n) < 0.2] *= 1e-5  # short rows have rounding errors of their own size
    model = PivotedNystroem(50, kernel="linear", block_size=block_size, random_state=seed).fit(X)
    assert model.n_components_ == min(n, rank)
    assert 0 <= model.trace_error_ < 1e-12
    F = model.transform(X)
    lengths = np.linalg.norm(X, axis=1)
    np.testing.assert_allclose(
        (F @ F.T) / np.outer(lengths, lengths), (X @ X.T) / np.outer(lengths, lengths), atol=1e-8
    )


@settings(max_examples=40)
@given(
    n_components=st.integers(1, 80),
    width=st.sampled_from([1e-3, 0.03, 1.0, 30.0]),
    block_size=st.sampled_from([1, 5, 64]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_trace_error_is_that_of_the_dense_matrices(n_components, width, block_size, seed):
    X = np.random.default_rng(seed).normal(size=(80, 4))
    model = PivotedNystroem(n_components, gamma=width, block_size=block_size, random_state=seed)
    factor = model.fit_transform(X)
    K = rbf_kernel(X, gamma=width)
    landmarks = model.component_indices_
    assert model.trace_error_ >= 0
    assert model.trace_error_ == pytest.approx(1 - np.trace(factor @ factor.T) / np.trace(K), abs=1e-11)
    among = K[np.ix_(landmarks, landmarks)]
    if np.linalg.cond(among) < 1e8:  # beyond, inverting it is not how to compute the approximation
        nystroem = K[:, landmarks] @ np.linalg.solve(among, K[landmarks])
        assert model.trace_error_ == pytest.approx(1 - np.trace(nystroem) / np.trace(K), abs=1e-7)
    np.testing.assert_allclose(model.transform(X), factor, atol=1e-8)
    np.testing.assert_array_equal(model.components_, X[landmarks])
    assert len(set(landmarks.tolist())) == model.n_components_ <= n_components


@pytest.mark.parametrize("tolerance", [0.5, 0.03, 1e-4])
@pytest.mark.parametrize("block_size", [1, 16, 64])
def test_the_tolerance_is_met_with_no_landmark_too_many(tolerance, block_size):
    model = PivotedNystroem(300, tolerance=tolerance, block_size=block_size, random_state=1).fit(MANY)
    assert 0 < model.trace_error_ <= tolerance
    one_less = PivotedNystroem(model.n_components_ - 1, block_size=block_size, random_state=1).fit(MANY)
    assert one_less.trace_error_ > tolerance
    np.testing.assert_array_equal(model.component_indices_[:-1], one_less.component_indices_)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_a_fit_evaluates_the_kernel_once_for_each_sample_and_landmark(container):
    calls = 0

    def counted(a, b):
        nonlocal calls
        calls += 1
        return (1 + product(a, b)) ** 3

    model = PivotedNystroem(20, kernel=counted, random_state=0).fit(container(MANY[:50]))
    assert model.n_components_ == 20  # this kernel has rank 20
    assert calls == (20 + 1) * 50


def ordered_pairs(K):
    """The law of two pivots that are drawn one at a time."""
    law = {}
    for i, j in permutations(range(len(K)), 2):
        residual = np.clip(K.diagonal() - K[:, i] ** 2 / K[i, i], 0, None)
        law[i, j] = K[i, i] / np.trace(K) * residual[j] / residual.sum()
    return law


@pytest.mark.parametrize("block_size", [1, 2, 10])
def test_the_law_of_the_landmarks_does_not_depend_on_the_block_size(block_size):
    A = np.random.default_rng(3).normal(size=(4, 3))
    A[3] = A[0] + 0.1  # a near copy: without rejections a block would often pick both
    K = A @ A.T + 0.01 * np.eye(4)
    random, draws = np.random.RandomState(0), 2000
    pairs = Counter(
        tuple(
            pivoted_cholesky(
                lambda rows, columns: K[rows][:, columns],
                K.diagonal().copy(),
                n_pivots=2,
                tolerance=0.0,
                block_size=block_size,
                rounding=np.full(4, 1e-14),
                random=random,
            )[1].tolist()
        )
        for _ in range(draws)
    )
    law = ordered_pairs(K)
    likely = [pair for pair in law if law[pair] * draws >= 5]
    observed = [pairs[pair] for pair in likely]
    expected = [law[pair] * draws for pair in likely]
    observed.append(draws - sum(observed))
    expected.append(draws - sum(expected))
    assert stats.chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.parametrize("block_size", [1, 64])
def test_copies_are_never_landmarks_together(block_size):
    X = np.random.default_rng(0).normal(size=(15, 3)) + 3
    copies = np.repeat(X, 20, axis=0)
    model = PivotedNystroem(100, gamma=0.5, block_size=block_size, random_state=0).fit(copies)
    assert model.n_components_ == len(np.unique(model.components_, axis=0)) == 15
    assert 0 <= model.trace_error_ < 1e-12


def test_constant_samples_have_one_landmark_and_no_projection():
    constant = np.full((len(Y), 3), 0.1)
    model = PivotedNystroem(random_state=0).fit(constant)
    assert model.n_components_ == 1
    np.testing.assert_allclose(model.transform(constant), 1)
    with pytest.raises(ValueError, match="All samples look the same to CIDG"):
        CIDG(feature_map=PivotedNystroem(random_state=0)).fit(constant, Y, sample_domain=D)


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ({"kernel": "precomputed"}, rbf_kernel(X), "avoids the full kernel matrix"),
        ({"kernel": "linear"}, np.zeros((5, 2)), "between 0 and 0"),
        ({"kernel": lambda a, b: -1.0}, X, "between -1 and -1"),
        ({"kernel": lambda a, b: 1.0 + 1e3 * np.abs(a - b).sum()}, X, "not positive semi-definite"),
        ({"kernel": "sigmoid", "gamma": 1.0, "coef0": -0.5}, np.abs(X), "not positive semi-definite|positive value"),
        ({"kernel": "poly", "degree": 400}, 1e3 * X, "NaN or infinite"),
        ({"gamma": "wide"}, X, "gamma must be a number"),
        ({"tolerance": 1.0}, X, "'tolerance' parameter"),
        ({"tolerance": 0}, X, "'tolerance' parameter"),
        ({"n_components": 0}, X, "'n_components' parameter"),
        ({"block_size": 0}, X, "'block_size' parameter"),
        ({"kernel": "gauss"}, X, "'kernel' parameter"),
    ],
    ids=lambda value: (
        ",".join(f"{k}={getattr(v, '__name__', v)}" for k, v in dict(value).items())[:40]
        if isinstance(value, dict)
        else ""
    ),
)
def test_what_cannot_be_approximated_is_refused_with_a_reason(options, data, message):
    with pytest.raises(ValueError, match=message):
        PivotedNystroem(random_state=0, **options).fit(data)


def test_new_samples_with_infinite_kernel_values_are_refused():
    model = PivotedNystroem(kernel="poly", degree=60, random_state=0).fit(X)
    with pytest.raises(ValueError, match="NaN or infinite"):
        model.transform(1e9 * X)


def test_an_indefinite_matrix_is_not_factorised():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(np.linalg.LinAlgError, match="after 1 pivots"):
        pivoted_cholesky(
            lambda rows, columns: K[rows][:, columns],
            np.ones(2),
            n_pivots=2,
            tolerance=0.0,
            block_size=1,
            rounding=np.full(2, 1e-14),
            random=np.random.RandomState(0),
        )


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_far_from_the_origin_no_digits_are_lost(offset):
    near = np.round(MANY, 6)  # so that the offset itself rounds nothing away
    K = rbf_kernel(near, gamma=0.1)
    model = PivotedNystroem(300, gamma=0.1, random_state=0).fit(near + offset)
    F = model.transform(near + offset)
    np.testing.assert_allclose(F @ F.T, K, atol=1e-8)
    assert model.trace_error_ == pytest.approx(1 - (F**2).sum() / len(K), abs=1e-8)


@pytest.mark.parametrize("kernel", POSITIVE)
def test_sparse_and_dense_samples_give_the_same(kernel):
    data = np.where(MANY[:60] > 0.3, MANY[:60], 0.0)
    model = PivotedNystroem(12, kernel=kernel, random_state=0, **OPTIONS)
    dense, thin = (clone(model).fit(samples) for samples in (data, sparse.csr_array(data)))
    np.testing.assert_array_equal(dense.component_indices_, thin.component_indices_)
    assert sparse.issparse(thin.components_)
    for samples in (data, sparse.csr_array(data)):
        np.testing.assert_allclose(thin.transform(samples), dense.transform(data), atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_every_projection_with_all_landmarks_is_the_exact_one(method):
    options = {"ridge": 1e-2, "kernel": "rbf", "gamma": 0.3}
    kernel = make(method, **options).fit(X, Y, sample_domain=D)
    features = PivotedNystroem(len(X), gamma=0.3, random_state=0)
    mapped = make(method, ridge=1e-2, feature_map=features).fit(X, Y, sample_domain=D)
    # SCA and UDICA keep components with tiny eigenvalues too, which are noise in either form.
    leading = kernel.eigenvalues_ > 1e-2 * kernel.eigenvalues_[0]
    np.testing.assert_allclose(mapped.eigenvalues_[: len(leading)][leading], kernel.eigenvalues_[leading], rtol=1e-8)
    for samples in (X, X[::-1] + 0.2):
        np.testing.assert_allclose(
            mapped.transform(samples)[:, : leading.sum()], kernel.transform(samples)[:, leading], atol=1e-8
        )
