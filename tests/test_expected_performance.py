"""Expected performance on a new domain: limits, ranges, invariances, and a small simulation."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import t

from unseen.metrics import expected_performance

STUDY = Path(__file__).parents[1] / "studies" / "prediction_intervals.py"
RANGES = {
    "share": (0.0, 1.0),
    "correlation": (-1.0, 1.0),
    "negative loss": (-np.inf, 0.0),
    "explained": (-np.inf, 1.0),
    "ratio": (0.0, np.inf),
    "unbounded": (-np.inf, np.inf),
}


def triple(result):
    return result.estimate, *result.prediction_interval


@st.composite
def domain_values(draw):
    """Values within a range, ends included, with their standard errors or without."""
    low, high = draw(st.sampled_from(list(RANGES.values())))
    number = st.floats(max(low, -5.0), min(high, 5.0)).map(lambda x: round(x, 4))
    k = draw(st.integers(2, 8))
    values = np.array(draw(st.lists(number, min_size=k, max_size=k)))
    errors = draw(st.none() | st.lists(st.floats(0.001, 0.3), min_size=k, max_size=k).map(np.array))
    return values, errors, (low, high)


@given(domain_values(), st.sampled_from([None, 0.5]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_intervals_lie_within_the_range_and_hold_the_estimate(problem, prior, measured):
    values, errors, (low, high) = problem
    rows = np.arange(20, 20 + len(values))
    result = expected_performance(
        values, errors, (low, high), n_rows=rows, n_rows_new=50 if measured else None, tau_prior=prior
    )
    assert low <= result.prediction_interval[0] <= result.estimate <= result.prediction_interval[1] <= high
    assert result.mean == pytest.approx(values.mean())
    assert np.isfinite(result.estimate)


@given(domain_values(), st.sampled_from([None, 0.5]))
@settings(max_examples=60, deadline=None)
def test_a_metric_with_the_opposite_sign_has_the_mirrored_interval(problem, prior):
    values, errors, (low, high) = problem
    one = expected_performance(values, errors, (low, high), tau_prior=prior)
    two = expected_performance(-values, errors, (-high, -low), tau_prior=prior)
    tolerance = 1e-5 * (1 + abs(values).max())
    assert two.estimate == pytest.approx(-one.estimate, abs=tolerance)
    for end, mirrored in zip(one.prediction_interval, two.prediction_interval[::-1], strict=True):
        assert -mirrored == pytest.approx(end, rel=1e-4, abs=tolerance)


def test_without_standard_errors_it_is_students_interval_on_the_scale_of_the_metric():
    y = np.array([0.4, 1.2, 0.9, 2.0, 1.1])
    reach = t.ppf(0.975, 4) * y.std(ddof=1) * np.sqrt(1.2)
    ends = np.array([y.mean() - reach, y.mean() + reach])
    result = expected_performance(y, metric_range=(-np.inf, np.inf))
    assert not result.sampling_error
    assert result.prediction_interval == pytest.approx(tuple(ends), rel=1e-5)
    # Values that are close together have a small offset, so that the scales are logit and log.
    cases = (
        (expit(1 + y / 100), (0.0, 1.0), expit(1 + ends / 100)),
        (np.exp(y / 100), (0.0, np.inf), np.exp(ends / 100)),
        (1 - np.exp(y / 100), (-np.inf, 1.0), 1 - np.exp(ends[::-1] / 100)),
    )
    for values, limits, expected in cases:
        result = expected_performance(values, metric_range=limits)
        assert result.prediction_interval == pytest.approx(tuple(expected), abs=2e-5)


def test_sampling_error_narrows_the_interval_of_the_truth_but_not_of_what_is_measured():
    """Twelve domains whose values vary as much as equal domains would."""
    rows = np.full(12, 60)
    values = np.array([40, 44, 45, 46, 47, 48, 48, 49, 50, 51, 52, 56]) / 60
    total = expected_performance(values)
    truth = expected_performance(values, n_rows=rows, is_share=True)
    measured = expected_performance(values, n_rows=rows, is_share=True, n_rows_new=60)
    large = expected_performance(values, n_rows=rows, is_share=True, n_rows_new=1e6)

    def width(result):
        return np.diff(result.prediction_interval)[0]

    assert width(truth) < 0.9 * width(total)
    assert width(measured) == pytest.approx(width(total), rel=0.25)
    assert width(large) == pytest.approx(width(truth), rel=0.1)


def test_binomial_errors_equal_those_that_are_passed():
    values, rows = np.array([0.7, 0.85, 0.8, 0.9]), np.array([50, 100, 80, 200])
    errors = np.sqrt(values * (1 - values) / rows)
    one = expected_performance(values, n_rows=rows, is_share=True, n_rows_new=70)
    two = expected_performance(values, errors, n_rows=rows, n_rows_new=70)
    assert triple(two) == pytest.approx(triple(one))


def test_perfect_domains_get_the_sampling_error_of_the_others():
    values, errors = np.array([1.0, 0.9, 0.95, 0.92]), np.array([0.0, 0.03, 0.02, 0.03])
    rows = np.array([50, 100, 120, 80])
    result = expected_performance(values, errors, n_rows=rows, n_rows_new=100)
    per_row = np.median(values[1:] * (1 - values[1:]) / errors[1:] ** 2 / rows[1:])
    same = expected_performance([1 - 1e-9, *values[1:]], [np.sqrt(1e-9 / (50 * per_row)), *errors[1:]], n_rows=rows)
    assert result.sampling_error
    assert result.estimate == pytest.approx(same.estimate, abs=1e-6)
    assert result.prediction_interval[1] == 1


def test_domains_that_are_all_perfect_leave_the_error_of_their_rows():
    values, rows = np.ones(3), np.full(3, 30)
    low, high = expected_performance(values, n_rows=rows, is_share=True).prediction_interval
    assert 0.8 < low < 0.97
    assert expected_performance(values, n_rows=rows, is_share=True, n_rows_new=30).prediction_interval[1] == 1
    assert high > 0.99


def test_values_that_agree_by_chance_leave_the_sampling_error():
    for options in ({}, {"n_rows_new": 25}):
        low, high = expected_performance(
            np.full(3, 0.8), n_rows=np.full(3, 25), is_share=True, **options
        ).prediction_interval
        assert high - low > 2 * np.sqrt(0.16 / 75)


def test_a_single_domain_knows_nothing_without_a_prior():
    assert expected_performance([0.7], n_rows=[50], is_share=True).prediction_interval == (0, 1)
    result = expected_performance([0.7], n_rows=[50], is_share=True, tau_prior=0.5)
    low, high = result.prediction_interval
    assert 0.2 < low < 0.5
    assert 0.85 < high < 0.95
    assert result.estimate == pytest.approx(0.7, abs=0.01)


def test_with_many_domains_the_interval_is_that_of_the_population():
    rng = np.random.default_rng(0)
    truth = expit(logit(0.8) + 0.4 * rng.normal(size=400))
    rows = rng.integers(100, 400, size=400)
    result = expected_performance(rng.binomial(rows, truth) / rows, n_rows=rows, is_share=True)
    ends = expit(logit(0.8) + 0.4 * 1.96 * np.array([-1, 1]))
    assert result.prediction_interval == pytest.approx(tuple(ends), abs=0.02)
    assert result.tau == pytest.approx(0.4, abs=0.04)


def test_domains_without_a_value_are_dropped_and_counted():
    result = expected_performance([0.7, np.nan, 0.8, 0.75], n_rows=[50, 60, 70, 80], is_share=True)
    same = expected_performance([0.7, 0.8, 0.75], n_rows=[50, 70, 80], is_share=True)
    assert (result.n_domains, result.n_dropped) == (3, 1)
    assert result.prediction_interval == same.prediction_interval


def test_rounding_beyond_the_range_is_allowed():
    result = expected_performance([1 + 1e-12, 0.9, 0.95])
    assert result.prediction_interval == pytest.approx(expected_performance([1.0, 0.9, 0.95]).prediction_interval)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([0.5, 1.2],), {}, r"value 1\.2, which is outside"),
        (([0.5, 0.6], [0.1]), {}, r"domain_standard_errors has shape \(1,\)"),
        (([0.5, 0.6], [0.1, -0.1]), {}, "negative"),
        (([np.nan],), {}, "None of the 1 values"),
        (([0.5, 0.6],), {"is_share": True}, "needs n_rows"),
        (([0.5, 0.6], [0.1, 0.1]), {"n_rows_new": 5}, "n_rows_new needs n_rows"),
        (([0.5, 0.6],), {"n_rows_new": 0}, "n_rows_new=0"),
        (([0.5, 0.6],), {"metric_range": (1.0, 0.0)}, "metric_range"),
        (([0.5, 0.6],), {"level": 2}, "level=2"),
    ],
)
def test_wrong_arguments_are_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        expected_performance(*arguments, **options)


@pytest.fixture(scope="module")
def study():
    """The module of the study, which is not part of the package."""
    spec = importlib.util.spec_from_file_location("prediction_intervals", STUDY)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["accuracy", "AUC"])
@pytest.mark.parametrize("n_domains", [5, 8, 15])
@pytest.mark.parametrize("spread", [0.15, 0.3, 0.6])
def test_prediction_intervals_hold_93_to_97_percent_with_misses_on_both_sides(study, metric, n_domains, spread):
    n = 1000
    found = study.simulate(study.World(metric, "logit", 0.8, spread, n_domains), n)
    for method in ("truth", "measured"):
        below, above = found[method]["below"], found[method]["above"]
        error = np.sqrt(0.05 * 0.95 / n)
        assert 0.93 - 2 * error <= 1 - below - above <= 0.97 + 2 * error
        # Given the number of misses, either side has one half of them but for chance.
        assert abs(below - above) <= 3 * np.sqrt((below + above) / n)


@pytest.mark.slow
@pytest.mark.parametrize("n_domains", [3, 4])
@pytest.mark.parametrize("spread", [0.15, 0.3, 0.6])
def test_with_the_prior_intervals_of_few_domains_hold_90_percent_and_are_narrower(study, n_domains, spread):
    n = 1000
    found = study.simulate(study.World("AUC", "logit", 0.8, spread, n_domains), n)
    for method in ("truth", "measured"):
        held = 1 - found[method]["below"] - found[method]["above"]
        assert held >= 0.9 - 2 * np.sqrt(0.09 / n)
        assert found[method]["width"] < found["earlier"]["width"]
