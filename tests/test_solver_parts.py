"""The parts of the solver keep what each of them promises, also where the whole would hide a slip."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from unseen.kernels._kernel import median_squared_distance
from unseen.linalg import Solution
from unseen.linalg._cell_statistics import Membership, gram_spectrum
from unseen.linalg._eigenproblem import (
    ScatterProblem,
    SingularProblemError,
    WhitenedProblem,
    _cosines_and_sines,
    _factor_denominator,
    _qr_triangle,
)

SEEDS = st.integers(0, 2**32 - 1)


def orthonormal(rng, rows, columns):
    return np.linalg.qr(rng.normal(size=(rows, columns)))[0]


def factors(seed, cosines, inside):
    """F and S with ``inside F'F + S'S = I`` and these cosines."""
    rng, k = np.random.default_rng(seed), len(cosines)
    right = orthonormal(rng, k, k)
    F = orthonormal(rng, 2 * k + 3, k) * cosines @ right / np.sqrt(inside)
    return F, orthonormal(rng, 2 * k, k) * np.sqrt((1 - cosines) * (1 + cosines)) @ right


LARGE, SMALL = st.floats(0.75, 1.0), st.floats(-9, -0.3).map(lambda power: 10.0**power)  # sines below and above 0.7


@given(st.lists(LARGE, max_size=3), st.lists(SMALL, max_size=3), st.sampled_from([1e-3, 1.0, 50.0]), SEEDS)
def test_cosines_and_sines_factor_the_cells(large, small, inside, seed):
    cosines = np.array([*large, *small])
    if not len(cosines):
        return
    F, S = factors(seed, cosines, inside)
    Q, T, sines = _cosines_and_sines(F, S, inside)
    np.testing.assert_allclose(Q @ T, F, atol=1e-14 / np.sqrt(inside))
    np.testing.assert_allclose(Q.T @ Q, np.eye(len(cosines)), atol=1e-13)
    np.testing.assert_allclose(np.diag(1 - sines**2), inside * T @ T.T, atol=1e-13)


def test_tiny_cosines_have_directions_at_right_angles_to_the_others():
    # Beside a cosine of 1e-12, the rounding of a large one would be a relative error of 1e-4.
    F, S = factors(0, np.array([1.0, 0.9, 1e-10, 1e-12]), 1.0)
    Q, _, _ = _cosines_and_sines(F, S, 1.0)
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("inside", [0.0, 1.0])
@pytest.mark.parametrize(
    ("cosines", "rank"),
    [([0.9, 0.5, 1e-17], 2), ([0.5, 0.3, 1e-17], 2), ([0.9, 0.8, 1e-15], 2), ([0.5, 1e-13, 1e-17], 2), ([0, 0, 0], 0)],
)
def test_directions_of_rounding_are_left_out(cosines, rank, inside):
    F, S = factors(0, np.array(cosines, dtype=float), 1.0)
    Q, T, sines = _cosines_and_sines(F, S, inside)
    assert Q.shape[1] == len(T) == len(sines) == rank
    np.testing.assert_allclose(Q @ T, F, atol=1e-14)


def singular(sines, **weights):
    """Whether a denominator without penalties, with these sines, is refused."""
    p = len(sines)
    pencil = WhitenedProblem(np.eye(p), np.eye(p), np.array(sines), np.eye(p), np.eye(p), 1.0)
    recipe = replace(ScatterProblem(np.zeros((p, 1)), (), ridge=0.0), **weights)
    try:
        J = _factor_denominator(pencil, recipe, np.ones((1, p), dtype=np.intp))
    except SingularProblemError:
        return True
    np.testing.assert_array_equal(J, np.diag(sines))
    return False


def test_a_direction_without_scatter_is_singular_unless_something_else_weighs_it():
    assert singular([1.0, 0.99e-7])
    assert not singular([1.0, 1.01e-7])  # its square is above the rounding of 1
    assert not singular([1.0, 0.99e-7], ridge=1e-20)
    assert not singular([1.0, 0.99e-7], norm_weight=1e-20)
    assert not singular([])


@given(st.floats(6, 14), SEEDS)
@settings(max_examples=20)
def test_a_triangle_keeps_the_digits_of_small_rows(power, seed):
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(9, 4))
    J[:3] *= 10.0**power  # three large rows leave one of four directions to the small ones
    J = J[rng.permutation(9)]
    with mpmath.workdps(50):
        least, exact = (
            mpmath.svd_r(mpmath.matrix(M.tolist()), compute_uv=False)[3]
            for M in (_qr_triangle(J, pivoting=False)[0], J)
        )
        assert abs(least / exact - 1) < 1e-12


@given(st.integers(1, 5), st.floats(-8, 8), SEEDS)
def test_a_spectrum_has_as_many_values_as_the_data_have_directions(rank, power, seed):
    rng = np.random.default_rng(seed)
    values = 10.0**power * np.append(1.0, np.full(rank - 1, 1e-10))  # small ones, but no rounding
    vectors = orthonormal(rng, 30, rank)
    membership = Membership.from_codes(np.arange(30) % 2, np.arange(30) % 3)
    spectrum = gram_spectrum(vectors * values @ vectors.T, membership)
    assert np.count_nonzero(spectrum.values) == rank
    assert spectrum.values.min() >= 0
    np.testing.assert_allclose(spectrum.values[-rank:], values[::-1], rtol=1e-4)


@given(st.sampled_from([1e-60, 1e-10, 1e10, 1e60]))
def test_the_median_rule_follows_the_units(scale):
    X = np.random.default_rng(0).normal(size=(20, 3))
    assert median_squared_distance(scale * X) == pytest.approx(scale**2 * median_squared_distance(X), rel=1e-9)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("offset", "change"), [(0.0, 1e-7), (1e4, 0.0), (1e4, 1e-7)])
def test_near_copies_have_no_say_in_the_median(container, offset, change):
    # Three copies of each row: pairs of them would be a tenth of all pairs.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    copies = np.vstack([X, X, X]) + change * rng.normal(size=(60, 3))
    expected = median_squared_distance(X)
    assert median_squared_distance(container(copies + offset)) == pytest.approx(expected, rel=1e-5)


@given(SEEDS)
def test_the_sign_is_that_of_the_largest_mean_of_a_class(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, size=(4, 3))
    counts[0] += 1  # every class is somewhere
    cell_means = rng.normal(size=(np.count_nonzero(counts), 2))
    solution = Solution(np.ones(2), rng.normal(size=(5, 2)), np.ones(2), cell_means).normalize("paper", counts)
    of_class = np.nonzero(counts)[1]
    weights = counts[counts > 0].astype(float)
    for component in solution.cell_means.T:
        means = [np.average(component[of_class == j], weights=weights[of_class == j]) for j in range(3)]
        assert max(means) > -min(means) * (1 - 1e-5)
