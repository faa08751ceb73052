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


@st.composite
def domain_values(draw):
    """Values within a range, ends included."""
    low, high = draw(st.sampled_from(list(RANGES.values())))
    number = st.floats(max(low, -5.0), min(high, 5.0)).map(lambda x: round(x, 4))
    k = draw(st.integers(2, 8))
    return np.array(draw(st.lists(number, min_size=k, max_size=k))), (low, high)


@given(domain_values(), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_intervals_lie_within_the_range_and_hold_the_estimate(problem, has_rows, measured):
    values, (low, high) = problem
    options = {}
    if has_rows and np.isfinite([low, high]).all():
        options = {"n_rows": np.arange(20, 20 + len(values)), "n_rows_new": 50 if measured else None}
    result = expected_performance(values, (low, high), **options)
    assert low <= result.prediction_interval[0] <= result.estimate <= result.prediction_interval[1] <= high
    assert np.isfinite(result.estimate)


@given(domain_values())
@settings(max_examples=60, deadline=None)
def test_a_metric_with_the_opposite_sign_has_the_mirrored_interval(problem):
    values, (low, high) = problem
    one = expected_performance(values, (low, high))
    two = expected_performance(-values, (-high, -low))
    tolerance = 1e-5 * (1 + abs(values).max())
    assert two.estimate == pytest.approx(-one.estimate, abs=tolerance)
    for end, mirrored in zip(one.prediction_interval, two.prediction_interval[::-1], strict=True):
        assert -mirrored == pytest.approx(end, rel=1e-4, abs=tolerance)


def test_without_numbers_of_rows_it_is_students_interval_on_the_scale_of_the_metric():
    y = np.array([0.4, 1.2, 0.9, 2.0, 1.1])
    reach = t.ppf(0.975, 4) * y.std(ddof=1) * np.sqrt(1.2)
    ends = np.array([y.mean() - reach, y.mean() + reach])
    result = expected_performance(y, metric_range=(-np.inf, np.inf))
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
    truth = expected_performance(values, n_rows=rows)
    measured = expected_performance(values, n_rows=rows, n_rows_new=60)
    large = expected_performance(values, n_rows=rows, n_rows_new=1e6)

    def width(result):
        return np.diff(result.prediction_interval)[0]

    assert width(truth) < 0.9 * width(total)
    assert width(measured) == pytest.approx(width(total), rel=0.25)
    assert width(large) == pytest.approx(width(truth), rel=0.1)


def test_domains_that_are_all_perfect_leave_the_error_of_their_rows():
    values, rows = np.ones(3), np.full(3, 30)
    low, high = expected_performance(values, n_rows=rows).prediction_interval
    assert 0.8 < low < 0.97
    assert expected_performance(values, n_rows=rows, n_rows_new=30).prediction_interval[1] == 1
    assert high > 0.99


def test_values_that_agree_by_chance_leave_the_sampling_error():
    for options in ({}, {"n_rows_new": 25}):
        low, high = expected_performance(np.full(3, 0.8), n_rows=np.full(3, 25), **options).prediction_interval
        assert high - low > 2 * np.sqrt(0.16 / 75)


def test_a_single_domain_knows_nothing():
    result = expected_performance([0.7], n_rows=[50])
    assert (result.estimate, result.prediction_interval) == (0.7, (0, 1))


def test_with_many_domains_the_interval_is_that_of_the_population():
    rng = np.random.default_rng(0)
    truth = expit(logit(0.8) + 0.4 * rng.normal(size=400))
    rows = rng.integers(100, 400, size=400)
    result = expected_performance(rng.binomial(rows, truth) / rows, n_rows=rows)
    ends = expit(logit(0.8) + 0.4 * 1.96 * np.array([-1, 1]))
    assert result.prediction_interval == pytest.approx(tuple(ends), abs=0.02)
    assert result.tau == pytest.approx(0.4, abs=0.04)


def test_domains_without_a_value_are_dropped_and_counted():
    result = expected_performance([0.7, np.nan, 0.8, 0.75], n_rows=[50, 60, 70, 80])
    same = expected_performance([0.7, 0.8, 0.75], n_rows=[50, 70, 80])
    assert (result.n_domains, result.n_dropped) == (3, 1)
    assert result.prediction_interval == same.prediction_interval


def test_rounding_beyond_the_range_is_allowed():
    result = expected_performance([1 + 1e-12, 0.9, 0.95])
    assert result.prediction_interval == pytest.approx(expected_performance([1.0, 0.9, 0.95]).prediction_interval)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([0.5, 1.2],), {}, r"value 1\.2, which is outside"),
        (([0.5, 0.6],), {"n_rows": [5]}, r"n_rows has shape \(1,\)"),
        (([0.5, 0.6],), {"n_rows": [5, 0]}, "positive numbers of rows"),
        (([0.5, 0.6], (0.0, np.inf)), {"n_rows": [5, 5]}, "two finite ends"),
        (([np.nan],), {}, "None of the 1 values"),
        (([0.5, 0.6],), {"n_rows_new": 5}, "n_rows_new=5.*pass n_rows"),
        (([0.5, 0.6],), {"n_rows": [5, 5], "n_rows_new": 0}, "n_rows_new=0"),
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
@pytest.mark.parametrize("n_domains", [5, 8, 15])
@pytest.mark.parametrize("spread", [0.15, 0.3, 0.6])
def test_prediction_intervals_hold_93_to_97_percent_with_misses_on_both_sides(study, n_domains, spread):
    n = 1000
    found = study.simulate(study.World("logit", 0.8, spread, n_domains), n)
    for method in ("truth", "measured"):
        below, above = found[method]["below"], found[method]["above"]
        error = np.sqrt(0.05 * 0.95 / n)
        assert 0.93 - 2 * error <= 1 - below - above <= 0.97 + 2 * error
        # Given the number of misses, either side has one half of them but for chance.
        assert abs(below - above) <= 3 * np.sqrt((below + above) / n)
