"""Multiples of the data's own scales are read as they are meant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import make, three_domains
from unseen import CIDG
from unseen.estimators import make_problem
from unseen.kernels import parse_multiple


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scale", 1),
        ("0.1*scale", 0.1),
        ("1e-3*scale", 1e-3),
        (" 2 * scale ", 2),
        ("+5.*scale", 5),
        ("1e300*scale", 1e300),
    ],
)
def test_a_multiple_is_its_factor(text, expected):
    assert parse_multiple(text, "scale", "ridge") == expected


@given(st.floats(1e-300, 1e300))
def test_any_positive_number_survives_the_way_through_text(number):
    assert parse_multiple(f"{number!r}*median", "median", "gamma") == number


@pytest.mark.parametrize(
    "text",
    [
        *("0*scale", "-1*scale", "nan*scale", "inf*scale", "1e400*scale", "ten*scale", "*scale", "2**scale"),
        *("2*median", "scale*2", "1,5*scale", "autoscale", "2 scale", "", "2*", "Scale"),
    ],
)
def test_what_is_no_multiple_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r'ridge must be a number, "scale" or a positive multiple .* got ') as caught:
        parse_multiple(text, "scale", "ridge")
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("name", ["CIDG", "KFDA"])  # all other terms of these two are of one power of the kernel
def test_a_ridge_in_multiples_follows_a_rescaled_kernel(name):
    X, y, d = three_domains()
    K = X @ X.T
    one, other = (
        make(name, kernel="precomputed", ridge="0.3*scale").fit(c * K, y, sample_domain=d) for c in (1.0, 7.0)
    )
    Z, scaled = one.transform(K), other.transform(7 * K)
    ratio = np.linalg.norm(scaled, axis=0) / np.linalg.norm(Z, axis=0)
    np.testing.assert_allclose(scaled, Z * ratio, atol=1e-8 * np.abs(scaled).max())


def test_multiples_of_the_ridge_are_multiples():
    X, y, d = three_domains()
    one, ten = (CIDG(ridge=text).fit(X, y, sample_domain=d) for text in ("scale", "10*scale"))
    one_sized, ten_sized = (make_problem(model, model.cell_counts_, 3.0).scatter_problem.ridge for model in (one, ten))
    assert ten_sized == pytest.approx(10 * one_sized)


def test_multiples_of_the_median_width_are_multiples():
    X, y, d = three_domains()
    one, tenth = (CIDG(gamma=text).fit(X, y, sample_domain=d) for text in ("median", "0.1*median"))
    assert tenth.gamma_ == pytest.approx(0.1 * one.gamma_)
