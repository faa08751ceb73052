"""Performance at a threshold, net benefit, and the choice of a threshold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from unseen.metrics import choose_threshold, decision_curve, share, stated_odds, threshold_performance


@st.composite
def predicted_rows(draw):
    n = draw(st.integers(2, 30))
    y = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    y[0], y[1] = True, False
    p = np.array(draw(st.lists(st.integers(0, 20), min_size=n, max_size=n))) / 20
    return y, p


@given(st.integers(1, 300), st.data())
@settings(max_examples=60, deadline=None)
def test_wilson_ends_are_where_the_score_test_rejects(n, data):
    successes = data.draw(st.integers(0, n))
    result = share(successes, n)
    z = norm.ppf(0.975)

    def statistic(p):
        return (successes / n - p) ** 2 - z**2 * p * (1 - p) / n

    low, high = result.interval
    if successes > 0:
        assert low == pytest.approx(brentq(statistic, 0, min(successes / n, 1 - 1e-9)))
    if successes < n:
        assert high == pytest.approx(brentq(statistic, max(successes / n, 1e-9), 1))
    assert 0 <= low <= result.value <= high <= 1
    mirrored = share(n - successes, n)
    assert mirrored.interval == pytest.approx((1 - high, 1 - low))
    assert result.counts == (successes, n)


def test_a_share_without_rows_is_not_defined():
    assert np.isnan(share(0, 0).value)
    with pytest.raises(ValueError, match="successes=3"):
        share(3, 2)


@given(predicted_rows(), st.sampled_from([0.05, 0.25, 0.5, 0.9]))
@settings(max_examples=60, deadline=None)
def test_counts_and_shares_are_those_of_the_confusion_matrix(rows, threshold):
    y, p = rows
    result = threshold_performance(y, p, threshold)
    predicted = p >= threshold
    assert result["sensitivity"].value == pytest.approx(predicted[y].mean())
    assert result["specificity"].value == pytest.approx((~predicted[~y]).mean())
    if predicted.any():
        assert result["ppv"].value == pytest.approx(y[predicted].mean())
    else:
        assert np.isnan(result["ppv"].value)
    values = np.where(predicted, np.where(y, 1.0, -threshold / (1 - threshold)), 0.0)
    assert result["net_benefit"].value == pytest.approx(values.mean())
    assert result["net_benefit"].se == pytest.approx(values.std(ddof=1) / np.sqrt(len(y)), abs=1e-12)


def test_net_benefit_has_the_stated_odds_against_all_and_none():
    """Eight of ten events and 20 of 90 others are flagged at 0.07; a missed event costs four false alarms."""
    y = np.repeat([True, False], [10, 90])
    p = np.where(np.arange(100) % 100 < 8, 0.5, 0.01)
    p[10:30] = 0.2
    result = threshold_performance(y, p, 0.07, odds=0.25)
    none, everyone = result["net_benefit"], result["net_benefit_over_all"]
    assert none.value == pytest.approx((8 - 0.25 * 20) / 100)
    assert everyone.value == pytest.approx(none.value - (10 - 0.25 * 90) / 100)
    for one, low, high in ((none, -0.25, 1), (everyone, -1, 0.25)):
        assert low < one.interval[0] < one.value < one.interval[1] < high
    assert (stated_odds("cost=4:1"), stated_odds(0.2), stated_odds("sensitivity=0.9")) == (0.25, 0.25, None)


def test_rows_without_a_flag_have_a_finite_weight():
    one = threshold_performance([0, 1, 0], [0.1, 0.1, 0.1], 0.5)["net_benefit"]
    assert (one.value, one.se) == (0, 0)
    assert one.scaled_se > 0.1


@given(predicted_rows())
@settings(max_examples=30, deadline=None)
def test_decision_curves_are_net_benefits(rows):
    y, p = rows
    curve = decision_curve(y, p)
    assert len(curve.thresholds) == 99
    for i in (0, 24, 49, 98):
        one = threshold_performance(y, p, curve.thresholds[i])["net_benefit"]
        assert (curve.model[i], curve.model_se[i]) == pytest.approx((one.value, one.se))
        everyone = threshold_performance(y, np.ones(len(y)), curve.thresholds[i])["net_benefit"]
        assert curve.treat_all[i] == pytest.approx(everyone.value)


def all_rules(y, p, weight):
    """Sensitivity, specificity and cut of every rule "at least this probability", and of "no row"."""
    rules = []
    for cut in [*np.unique(p), np.inf]:
        predicted = p >= cut
        rules.append((weight[predicted & y].sum() / weight[y].sum(), weight[~predicted & ~y].sum() / weight[~y].sum()))
    return np.array(rules)


@given(predicted_rows(), st.booleans(), st.sampled_from([0.5, 0.8, 0.9, 1.0]))
@settings(max_examples=80, deadline=None)
def test_no_other_threshold_serves_the_aim_better(rows, weighted, target):
    y, p = rows
    weight = np.linspace(1, 3, len(y)) if weighted else np.ones(len(y))
    sensitivity, specificity = all_rules(y, p, weight).T
    tolerance = 1e-9

    def choose(aim):
        choice = choose_threshold(y, p, aim, sample_weight=weight if weighted else None)
        predicted = p >= choice.threshold
        assert choice.sensitivity == pytest.approx(weight[predicted & y].sum() / weight[y].sum())
        assert choice.specificity == pytest.approx(weight[~predicted & ~y].sum() / weight[~y].sum())
        return choice

    one = choose(f"sensitivity={target}")
    assert one.sensitivity >= target - tolerance
    assert one.specificity >= specificity[sensitivity >= target - tolerance].max() - tolerance
    two = choose(f"specificity={target}")
    assert two.specificity >= target - tolerance
    assert two.sensitivity >= sensitivity[specificity >= target - tolerance].max() - tolerance
    three = choose("youden")
    assert three.sensitivity + three.specificity >= (sensitivity + specificity).max() - tolerance
    four = choose("cost=5:1")
    events, others = weight[y].sum(), weight[~y].sum()
    costs = 5 * (1 - sensitivity) * events + (1 - specificity) * others
    cost = 5 * (1 - four.sensitivity) * events + (1 - four.specificity) * others
    assert cost <= costs.min() + 1e-6


def test_with_many_calibrated_rows_the_cost_decides_the_threshold():
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    y = rng.random(len(p)) < p
    assert choose_threshold(y, p, "cost=5:1").threshold == pytest.approx(1 / 6, abs=0.03)
    assert choose_threshold(y, p, "cost=1:5").threshold == pytest.approx(5 / 6, abs=0.03)


def test_a_number_is_its_own_threshold_also_for_one_outcome():
    assert choose_threshold([0, 1], [0.2, 0.4], 0.3).threshold == 0.3
    assert choose_threshold([0, 1], [0.2, 0.4], "0.3").sensitivity == 1
    assert np.isnan(choose_threshold([1, 1], [0.2, 0.4], 0.3).specificity)
    with pytest.raises(ValueError, match="one outcome only"):
        choose_threshold([1, 1], [0.2, 0.4], "youden")


@pytest.mark.parametrize(
    "aim", ["best", "sensitivity", "sensitivity=90", "specificity=x", "cost=5", "cost=0:1", "cost=1:2:3", 1.5, "nan"]
)
def test_unknown_aims_are_refused_with_those_that_are_known(aim):
    with pytest.raises(ValueError, match=r"aim=.*youden.*sensitivity=0\.9.*cost=5:1"):
        choose_threshold([0, 1], [0.2, 0.4], aim)


@pytest.mark.parametrize("threshold", [0, 1, np.nan, -0.1])
def test_thresholds_lie_between_zero_and_one(threshold):
    with pytest.raises(ValueError, match="threshold"):
        threshold_performance([0, 1], [0.2, 0.4], threshold)
