"""Calibration in the large, slope, observed:expected ratio, Brier scores and curves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from unseen.metrics import (
    brier_score,
    calibration_curve,
    calibration_in_the_large,
    calibration_slope,
    observed_expected_ratio,
    scaled_brier_score,
)


def world(seed, n=200, intercept=0.3, slope=0.7):
    rng = np.random.default_rng(seed)
    x = rng.normal(-0.5, 1.2, n)
    return rng.random(n) < expit(intercept + slope * x), expit(x)


def newton(X, y, offset):
    """A direct transcription of Newton's method for logistic regression."""
    beta = np.zeros(X.shape[1])
    for _ in range(50):
        p = expit(offset + X @ beta)
        information = (X.T * (p * (1 - p))) @ X
        beta = beta + np.linalg.solve(information, X.T @ (y - p))
    return beta, np.sqrt(np.diag(np.linalg.inv(information)))


@pytest.mark.parametrize("seed", range(5))
def test_intercept_and_slope_are_those_of_logistic_regression(seed):
    y, p = world(seed)
    x = logit(p)
    beta, se = newton(np.ones((len(y), 1)), y, x)
    result = calibration_in_the_large(y, p)
    assert (result.value, result.se) == pytest.approx((beta[0], se[0]), abs=1e-9)
    beta, se = newton(np.column_stack([np.ones_like(x), x]), y, 0 * x)
    slope = calibration_slope(y, p)
    assert (slope.value, slope.se) == pytest.approx((beta[1], se[1]), abs=1e-9)


def test_separated_outcomes_have_the_maximum_of_firths_likelihood():
    x = np.array([-2.0, -1.0, -0.5, 0.3, 1.0, 2.5])
    y = x > 0
    slope = calibration_slope(y, expit(x))
    X = np.column_stack([np.ones_like(x), x])

    def loss(beta):
        p = expit(X @ beta)
        information = (X.T * (p * (1 - p))) @ X
        return -np.sum(np.log(np.where(y, p, 1 - p))) - 0.5 * np.linalg.slogdet(information)[1]

    best = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 5000})
    assert slope.value == pytest.approx(best.x[1], abs=1e-5)
    assert np.isfinite(slope.interval).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.booleans())
def test_a_single_outcome_has_the_maximum_of_firths_likelihood(probabilities, event):
    """Also for a single row, and where its probability is 0 or 1 and wrong."""
    y = np.full(len(probabilities), event)
    x = logit(np.clip(probabilities, 1e-7, 1 - 1e-7))

    def penalized(b):
        weights = expit(x + b) * expit(-x - b)
        return np.log(expit((x + b) if event else -(x + b))).sum() + 0.5 * np.log(weights.sum())

    value = calibration_in_the_large(y, probabilities).value
    best = max(penalized(b) for b in value + np.array([-1, -0.1, -0.001, 0.001, 0.1, 1]))
    assert penalized(value) >= best


def test_probabilities_of_zero_and_one_are_allowed():
    result = calibration_slope([0, 1, 0, 1, 1, 0], [0.0, 1.0, 0.3, 0.6, 0.0, 0.7])
    assert np.isfinite([result.value, result.se]).all()


def test_observed_expected_ratio():
    y, p = world(0)
    result = observed_expected_ratio(y, p)
    assert result.value == pytest.approx(y.mean() / p.mean())
    assert result.scaled_value == pytest.approx(np.log(result.value))
    assert result.scaled_se == pytest.approx(np.sqrt((1 - y.mean()) / y.sum()))
    none = observed_expected_ratio(np.zeros(50), np.full(50, 0.02))
    assert none.value == 0
    assert none.interval[0] == 0
    assert none.interval[1] > 1
    assert np.isfinite([none.scaled_value, none.scaled_se]).all()
    every = observed_expected_ratio(np.ones(5), np.full(5, 0.8))
    assert every.scaled_value == pytest.approx(np.log(1.25))
    assert every.scaled_se > 0
    assert np.isnan(observed_expected_ratio([0, 0], [0.0, 0.0]).value)


def test_brier_scores():
    y, p = world(0)
    assert brier_score(y, p).value == pytest.approx(np.mean((y - p) ** 2))
    scaled = scaled_brier_score(y, p)
    assert scaled.value == pytest.approx(1 - np.mean((y - p) ** 2) / np.mean((y - y.mean()) ** 2))
    assert scaled_brier_score(y, np.full(len(y), y.mean())).value == pytest.approx(0, abs=1e-12)
    assert scaled_brier_score(y, y.astype(float)).value == 1
    assert np.isnan(scaled_brier_score([1, 1], [0.5, 0.6]).value)


def test_standard_errors_of_brier_scores_equal_the_jackknife():
    y, p = world(3, n=300)
    keep = ~np.eye(len(y), dtype=bool)
    for measure in (brier_score, scaled_brier_score):
        values = np.array([measure(y[own], p[own]).value for own in keep])
        jackknife = np.sqrt((len(y) - 1) / len(y) * np.sum((values - values.mean()) ** 2))
        assert measure(y, p).se == pytest.approx(jackknife, rel=0.02)


def test_a_curve_with_two_knots_is_the_logistic_recalibration():
    y, p = world(0, n=40)
    curve = calibration_curve(y, p)
    assert curve.n_knots == 2
    beta, _ = newton(np.column_stack([np.ones(40), logit(p)]), y, np.zeros(40))
    line = expit(beta[0] + beta[1] * logit(curve.predicted))
    np.testing.assert_allclose(curve.observed, line, atol=1e-9)
    assert (curve.low < curve.observed).all()
    assert (curve.observed < curve.high).all()
    assert (curve.predicted[0], curve.predicted[-1]) == pytest.approx((p.min(), p.max()))


def test_curves_bend_where_calibration_does_and_are_linear_beyond_the_knots():
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1.5, 20_000)
    y = rng.random(len(x)) < expit(np.abs(x) - 1)
    curve = calibration_curve(y, expit(x))
    middle = np.abs(logit(curve.predicted)) < 2.5
    truth = expit(np.abs(logit(curve.predicted)) - 1)
    assert np.abs(curve.observed - truth)[middle].max() < 0.1
    tail = logit(curve.observed)[logit(curve.predicted) > np.quantile(x, 0.96)]
    assert np.abs(np.diff(tail, 2)).max() < 1e-8


def test_curves_have_few_knots_for_few_events_and_are_undefined_for_one_outcome():
    y, p = world(0)
    assert calibration_curve(y, p).n_knots == 4
    assert calibration_curve(y[:40], p[:40]).n_knots == 2
    assert np.isnan(calibration_curve(np.ones(5), p[:5]).observed).all()


def test_a_curve_of_separated_outcomes_is_finite():
    p = np.linspace(0.05, 0.95, 30)
    curve = calibration_curve(p > 0.5, p)
    assert np.isfinite(curve.observed).all()
    assert curve.observed[0] < 0.3 < 0.7 < curve.observed[-1]


def test_probabilities_outside_of_their_range_are_named():
    with pytest.raises(ValueError, match=r"value 1\.2"):
        brier_score([0, 1], [0.5, 1.2])
