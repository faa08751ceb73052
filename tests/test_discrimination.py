"""The AUC and its standard error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit
from sklearn.metrics import roc_auc_score

from unseen.metrics import auc


def structural_components(y, s):
    """AUC and its variance as DeLong et al. define them, by all pairs."""
    wins = (s[y][:, None] > s[~y]) + 0.5 * (s[y][:, None] == s[~y])
    n_events, n_others = wins.shape
    variance = np.var(wins.mean(axis=1), ddof=1) / n_events + np.var(wins.mean(axis=0), ddof=1) / n_others
    return wins.mean(), variance


@st.composite
def scored_rows(draw):
    """Between 4 and 40 rows, with ties."""
    n = draw(st.integers(4, 40))
    y = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    y[:2], y[2:4] = True, False
    s = np.array(draw(st.lists(st.integers(-8, 8), min_size=n, max_size=n)), dtype=float)
    return y, s


@given(scored_rows())
@settings(max_examples=100, deadline=None)
def test_auc_and_its_variance_are_those_of_all_pairs(rows):
    y, s = rows
    value, variance = structural_components(y, s)
    result = auc(y, s)
    assert result.value == pytest.approx(value)
    assert result.value == pytest.approx(roc_auc_score(y, s))
    if 0 < value < 1 and variance > 0:
        assert result.se == pytest.approx(np.sqrt(variance))
        assert result.scaled_value == pytest.approx(logit(value))
        assert result.scaled_se == pytest.approx(np.sqrt(variance) / (value * (1 - value)))
    low, high = result.interval
    assert 0 <= low <= value <= high <= 1
    assert low < high


@given(scored_rows())
@settings(max_examples=50, deadline=None)
def test_auc_depends_on_the_order_of_scores_alone_and_mirrors(rows):
    y, s = rows
    result = auc(y, s)
    assert auc(y, np.exp(s / 3) - 5) == result
    assert auc(y, s**3) == result
    mirrored = auc(y, -s)
    assert mirrored.value == pytest.approx(1 - result.value)
    assert mirrored.se == pytest.approx(result.se)
    assert mirrored.interval == pytest.approx((1 - result.interval[1], 1 - result.interval[0]))


def test_perfect_scores_have_an_interval_that_shrinks_with_the_rows():
    lows = []
    for n in (2, 10, 100, 1000):
        result = auc(np.repeat([0, 1], n), np.arange(2 * n))
        assert result.value == 1
        assert result.interval[1] == 1
        assert np.isfinite([result.scaled_value, result.scaled_se]).all()
        lows.append(result.interval[0])
    assert lows == sorted(lows)
    assert lows[0] < 0.7
    assert lows[-1] > 0.99


def test_a_class_with_one_row_has_an_interval():
    result = auc([1, 0, 0, 0, 0], [0.7, 0.1, 0.2, 0.8, 0.3])
    assert result.value == 0.75
    assert 0 < result.interval[0] < 0.4
    assert result.interval[1] > 0.9


def test_intervals_cover_and_noise_has_an_auc_of_one_half():
    rng = np.random.default_rng(0)
    y = np.repeat([False, True], [60, 40])
    results = [auc(y, rng.normal(size=100)) for _ in range(1000)]
    assert np.mean([result.value for result in results]) == pytest.approx(0.5, abs=0.006)
    assert np.mean([result.interval[0] <= 0.5 <= result.interval[1] for result in results]) == pytest.approx(
        0.95, abs=0.02
    )


def test_one_class_alone_has_no_auc():
    result = auc([1, 1], [0.2, 0.3])
    assert np.isnan([result.value, result.scaled_value, result.scaled_se]).all()


@pytest.mark.parametrize(
    ("y", "scores", "message"),
    [
        ([0, 2], [0.1, 0.2], "value .*2"),
        ([], [], "at least one row"),
        ([0, 1], [0.1], "one number per row"),
        ([0, 1], [0.1, np.nan], "1 values that are not finite"),
    ],
)
def test_wrong_arguments_are_named(y, scores, message):
    with pytest.raises(ValueError, match=message):
        auc(y, scores)
