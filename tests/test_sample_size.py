"""How many domains it takes: the stated number is enough, and one less is not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from unseen.model_selection import (
    domains_for_interval,
    explain_missing_interval,
    forecast,
    is_informative,
)


def half_width(m, spread, level=0.95):
    return student.ppf((1 + level) / 2, m - 1) * spread * np.sqrt(1 + 1 / m)


@pytest.mark.parametrize("spread", [0.01, 0.05, 0.1, 0.12])
def test_so_many_domains_are_enough_for_an_interval_and_one_less_is_not(spread):
    m = domains_for_interval(spread, half_width=0.25)
    assert half_width(m, spread) <= 0.25
    assert m == 2 or half_width(m - 1, spread) > 0.25


def test_the_interval_is_that_of_the_forecast_of_an_unbounded_metric():
    scores = np.tile([0.4, 0.6], 20)
    spread = scores[:8].std(ddof=1)
    _, low, high = forecast(scores[:8], bounds=(-np.inf, np.inf), level=0.9)
    assert domains_for_interval(spread, (high - low) / 2 + 1e-12, level=0.9) == 8
    assert domains_for_interval(spread, (high - low) / 2 - 1e-12, level=0.9) == 9


def test_a_prediction_interval_is_never_narrower_than_the_spread_between_domains():
    assert domains_for_interval(0.25 / 1.96, half_width=0.25) is None
    assert domains_for_interval(0.0, half_width=0.25) == 2


@pytest.mark.parametrize(
    ("low", "high", "limits", "informative"),
    [
        (3, 100, (0, 100), False),
        (52, 97, (0, 100), True),
        (0.438, 1.0, (0, 1), False),
        (-0.2, 0.7, (-1, 1), True),
        (-30.0, 0.0, (-np.inf, 0), True),
    ],
)
def test_an_interval_says_something_if_it_leaves_out_half_of_the_range(low, high, limits, informative):
    assert is_informative(low, high, limits) == informative


@pytest.mark.parametrize(
    ("n_domains", "spread", "says"),
    [
        (1, 0.0, "One held-out domain is too few for a prediction interval; at least 3 are needed"),
        (2, 0.1, "2 held-out domains are too few for a prediction interval; at least 9 are needed"),
        (4, 0.1, "A 95% prediction interval of ±0.25 needs 9 domains: the scores of 4 held-out domains have"),
        (4, 0.2, "A 95% prediction interval is wider than ±0.25 for any number of domains"),
    ],
)
def test_where_there_is_no_interval_the_reason_names_the_number_of_domains(n_domains, spread, says):
    assert says in explain_missing_interval(n_domains, spread, 0.25, lambda size: f"{size:.2f}")
