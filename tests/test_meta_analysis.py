"""Random-effects meta-analysis: equal to metafor, the global maximum, invariances, and few or degenerate domains."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import halfnorm, norm, t

from impact_studies import MEASURES, TABLE, study_estimates
from unseen.metrics import random_effects
from unseen.metrics._meta_analysis import (
    fit_means,
    invert_q_profile,
    restricted_log_likelihood,
    restricted_maximum_likelihood,
    usable_domains,
)

REFERENCES = Path(__file__).parent / "references"
PROBLEMS = json.loads((REFERENCES / "metafor.json").read_text())["problems"]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_all_results_equal_those_of_metafor(problem):
    """Random problems of 2 to 40 domains, then AUC, calibration in the large and slope of the 15 IMPACT studies."""
    result = random_effects(problem["estimates"], problem["standard_errors"], level=problem["level"] / 100)
    assert result.estimate == pytest.approx(problem["estimate"], abs=1e-8)
    assert result.se == pytest.approx(problem["se"], abs=1e-8)
    assert result.tau2 == pytest.approx(problem["tau2"], abs=1e-8)
    assert 100 * result.i2 == pytest.approx(problem["i2"], abs=1e-6)
    assert result.q == pytest.approx(problem["q"], rel=1e-9)
    assert result.q_p_value == pytest.approx(problem["q_p_value"], abs=1e-9)
    assert result.interval == pytest.approx(problem["interval"], abs=1e-7)
    # The interval of metafor has one estimate of tau; ours averages over its confidence distribution.
    reach = t.ppf((1 + problem["level"] / 100) / 2, result.degrees_of_freedom) * np.sqrt(result.se**2 + result.tau2)
    plug_in = (result.estimate - reach, result.estimate + reach)
    assert plug_in == pytest.approx(problem["prediction_interval"], abs=1e-7)
    assert result.prediction_interval[0] <= result.interval[0]
    assert result.prediction_interval[1] >= result.interval[1]
    assert result.n_domains == len(problem["estimates"])


@pytest.mark.skipif(not TABLE.exists(), reason="the IMPACT data are not here")
def test_estimates_of_the_impact_studies_are_those_that_metafor_summarized():
    with open(REFERENCES / "impact_tbi.csv") as lines:
        expected = list(csv.DictReader(lines))
    for row, reference in zip(study_estimates(TABLE), expected, strict=True):
        assert row["study"] == reference["study"]
        for measure in MEASURES:
            assert row[measure] == pytest.approx(float(reference[measure]), abs=1e-3)
            assert row[f"{measure}_se"] == pytest.approx(float(reference[f"{measure}_se"]), rel=1e-3)


@st.composite
def domains(draw, fewest=2):
    k = draw(st.integers(fewest, 9))
    number = st.floats(-3, 3).map(lambda x: round(x, 6))
    y = draw(st.lists(number, min_size=k, max_size=k))
    s = draw(st.lists(st.floats(0.01, 2), min_size=k, max_size=k))
    return np.array(y), np.array(s)


def test_of_two_maxima_the_higher_one_is_taken():
    """Two precise domains agree and two others do not: the likelihood has a maximum at 0 and one far away."""
    y = np.array([0.0, 0.001, 4.0, -4.0])
    found = []
    for precise in (1e-4, 1e-1):
        v = np.array([precise, precise, 1.0, 1.0]) ** 2
        tau2 = restricted_maximum_likelihood(y, v)
        grid = np.concatenate([[0.0], np.geomspace(1e-12, 100, 5000)])
        values = restricted_log_likelihood(grid, y, v)
        interior = (values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])
        found.append(int(interior.sum()) + int(values[0] > values[1]))
        best = grid[np.argmax(values)]
        near = minimize_scalar(
            lambda x, v=v: -restricted_log_likelihood(np.array([x]), y, v)[0],
            bounds=(0.5 * best, 2 * best + 1e-12),
            method="bounded",
            options={"xatol": 1e-12},
        )
        assert tau2 == pytest.approx(near.x, rel=1e-3, abs=1e-9)
    assert max(found) >= 2


@given(domains(), st.floats(-5, 5), st.floats(0.1, 10), st.sampled_from([None, 0.5]))
@settings(max_examples=50, deadline=None)
def test_shifted_and_scaled_estimates_have_shifted_and_scaled_results(problem, shift, factor, prior):
    y, s = problem
    plain = random_effects(y, s, tau_prior=prior)
    moved = random_effects(shift + factor * y, factor * s, tau_prior=None if prior is None else factor * prior)
    tolerance = 1e-6 * factor * max(1.0, float(np.ptp(y)))
    assert moved.estimate == pytest.approx(shift + factor * plain.estimate, abs=tolerance)
    assert moved.tau == pytest.approx(factor * plain.tau, abs=1e2 * tolerance if plain.tau < 1e-3 else tolerance)
    assert moved.prediction_interval == pytest.approx(
        tuple(shift + factor * end for end in plain.prediction_interval), abs=20 * tolerance
    )


def test_domains_without_a_finite_estimate_are_dropped_and_counted():
    y, s = [1.0, np.nan, 2.0, np.inf, 1.5, 0.0], [0.1, 0.1, 0.2, 0.1, 0.1, np.inf]
    result = random_effects(y, s)
    kept = random_effects([1.0, 2.0, 1.5], [0.1, 0.2, 0.1])
    assert (result.n_domains, result.n_dropped) == (3, 3)
    assert result.prediction_interval == kept.prediction_interval


def test_a_single_domain_has_a_finite_interval_only_with_a_prior():
    alone = random_effects([1.0], [0.2])
    assert alone.prediction_interval == alone.interval == (-np.inf, np.inf)
    assert np.isnan(alone.tau)
    assert (alone.estimate, alone.degrees_of_freedom) == (1.0, 0)
    low, high = random_effects([1.0], [0.2], tau_prior=0.5).prediction_interval
    assert (low + high) / 2 == pytest.approx(1)

    def below(tau):
        return 2 * norm.pdf(tau, scale=0.5) * norm.cdf((low - 1) / np.sqrt(2 * tau**2 + 0.04))

    assert quad(below, 0, 5)[0] == pytest.approx(0.025, abs=1e-6)


def test_values_without_sampling_error_give_students_intervals():
    y = np.array([0.2, 1.0, 0.7, 1.9])
    result = random_effects(y, np.zeros(4))
    reach = t.ppf(0.975, 3) * y.std(ddof=1)
    assert result.tau == pytest.approx(y.std(ddof=1))
    assert result.interval == pytest.approx((y.mean() - reach / 2, y.mean() + reach / 2))
    new = reach * np.sqrt(1.25)
    assert result.prediction_interval == pytest.approx((y.mean() - new, y.mean() + new))
    assert result.i2 == pytest.approx(1)


@pytest.mark.parametrize("errors", [[0.1, 0.2, 0.3], [0.0, 0.0, 0.0]])
def test_equal_estimates_have_no_heterogeneity(errors):
    result = random_effects([0.7, 0.7, 0.7], errors)
    assert (result.estimate, result.tau, result.q_p_value) == (pytest.approx(0.7), 0, pytest.approx(1))
    reach = norm.ppf(0.975) / np.sqrt(np.sum(1 / np.maximum(errors, 1e-6) ** 2))
    assert result.prediction_interval == pytest.approx((0.7 - reach, 0.7 + reach), abs=1e-5)


def test_posterior_equals_adaptive_quadrature():
    y, s, scale = np.array([0.3, 1.0, 0.6]), np.array([0.1, 0.3, 0.2]), 0.5

    def weight(tau):
        return np.exp(restricted_log_likelihood(np.array([tau**2]), y, s**2)[0]) * halfnorm.pdf(tau, scale=scale)

    def mean_given(tau):
        fits = fit_means(np.array([tau**2]), y, s**2)
        return fits.mean[0], fits.variance[0]

    total = quad(weight, 0, 5)[0]
    result = random_effects(y, s, tau_prior=scale)
    assert result.estimate == pytest.approx(quad(lambda x: weight(x) * mean_given(x)[0], 0, 5)[0] / total, abs=1e-7)
    assert quad(weight, 0, result.tau)[0] / total == pytest.approx(0.5, abs=1e-3)
    for (low, high), extra in ((result.interval, 0), (result.prediction_interval, 1)):
        for end, probability in ((low, 0.025), (high, 0.975)):

            def below(tau, end=end, extra=extra):
                mean, variance = mean_given(tau)
                return weight(tau) * norm.cdf((end - mean) / np.sqrt(variance + extra * tau**2))

            assert quad(below, 0, 5)[0] / total == pytest.approx(probability, abs=1e-6)


@given(domains(fewest=2))
@settings(max_examples=50, deadline=None)
def test_the_q_profile_is_inverted(problem):
    y, v, _ = usable_domains(*problem)
    q = np.geomspace(1e-3, 50, 20)
    tau2 = invert_q_profile(q, y, v)
    profile = fit_means(tau2, y, v).q
    positive = tau2 > 0
    assert profile[positive] == pytest.approx(q[positive], rel=1e-8)
    assert (profile[~positive] <= q[~positive] * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1, 2], [0.1]), {}, "shape"),
        (([1, 2], [0.1, -0.1]), {}, "negative value -0.1"),
        (([np.nan], [0.1]), {}, "None of the 1 domains"),
        (([1, 2], [0.1, 0.1]), {"level": 95}, "level=95"),
        (([1, 2], [0.1, 0.1]), {"tau_prior": 0}, "tau_prior=0"),
    ],
)
def test_wrong_arguments_are_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        random_effects(*arguments, **options)
