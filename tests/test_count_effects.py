"""Random-effects models of counts: equal to lme4 and to literal quadrature, zero cells, limits, coverage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import simpson
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit
from scipy.stats import beta, binom, chi2, norm, poisson

from unseen.metrics import count_random_effects, random_effects
from unseen.metrics._count_effects import PLAUSIBLE_FACTOR, PLAUSIBLE_TAU

PROBLEMS = json.loads((Path(__file__).parent / "references" / "lme4.json").read_text())["problems"]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_estimates_equal_those_of_lme4(problem):
    """40 problems of 4 to 30 domains; each has domains without events, or without failures."""
    result = count_random_effects(problem["counts"], problem["sizes"], problem["family"])
    # At tau 3.53 (4 domains) lme4 changes by 8e-5 in tau from 50 to 100 nodes, and by 5e-3 from 25 to 50.
    tolerance = 1e-4 if result.tau < 3 else 2e-4
    assert result.estimate == pytest.approx(problem["estimate"], abs=tolerance)
    assert result.tau == pytest.approx(problem["tau"], abs=tolerance)


def log_likelihood(mean, tau, x, n, family):
    """The marginal likelihood as it is defined: an integral over the random effect of each domain."""
    z = np.linspace(-8, 8, 1601)
    predictor = mean + tau * z[:, None]
    is_binomial = family == "binomial"
    likelihood = binom.pmf(x, n, expit(predictor)) if is_binomial else poisson.pmf(x, n * np.exp(predictor))
    return np.log(simpson(likelihood * norm.pdf(z)[:, None], x=z, axis=0))


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_the_maximum_is_that_of_literal_quadrature(family):
    x, n = np.array([3, 0, 5, 2]), np.array([9.0, 4.0, 5.0, 20.0])
    found = count_random_effects(x, n, family)
    best = minimize(
        lambda v: -log_likelihood(v[0], abs(v[1]), x, n, family).sum(), (0.1, 0.5), method="Nelder-Mead", tol=1e-7
    )
    assert (found.estimate, found.tau) == pytest.approx((best.x[0], abs(best.x[1])), abs=1e-4)


def test_the_prediction_interval_is_that_of_a_literal_confidence_distribution():
    """Q(tau) from numerical derivatives, inverted by a root finder, and quantiles of the mixture over q."""
    x, n, k = np.array([18, 9, 26, 12]), np.array([20.0, 15.0, 28.0, 19.0]), 4
    found = count_random_effects(x, n, "binomial")
    largest = max(PLAUSIBLE_TAU, PLAUSIBLE_FACTOR * found.tau)

    def derivatives(mean, tau, step=1e-2):
        low, middle, high = (log_likelihood(mean + j * step, tau, x, n, "binomial") for j in (-1, 0, 1))
        return (high - low) / (2 * step), (2 * middle - low - high) / step**2

    def profile(tau):
        mean = brentq(lambda m: derivatives(m, tau)[0].sum(), 0, 4, xtol=1e-4)
        score, information = derivatives(mean, tau)
        return (score**2 / information).sum(), mean, 1 / information.sum()

    taus = np.concatenate([[1e-3], np.geomspace(0.05, largest, 12)])
    profiles, means, variances = np.array([profile(tau) for tau in taus]).T
    q = chi2.ppf((np.arange(2000) + 0.5) / 2000, k - 1)
    tau = np.where(q >= profiles[0], 0.0, np.interp(-q, -profiles, taus))
    mean = np.interp(tau, taus, means)
    variance = np.interp(tau, taus, variances) * np.where(q >= profiles[0], profiles[0] / q, 1)
    for end, probability in zip(found.prediction_interval, (0.025, 0.975), strict=True):
        assert norm.cdf(end, mean, np.sqrt(variance + tau**2)).mean() == pytest.approx(probability, abs=3e-3)


def test_many_rows_give_the_normal_model():
    rng = np.random.default_rng(0)
    n = np.full(12, 10**6)
    x = rng.binomial(n, expit(rng.normal(1, 0.5, 12)))
    share = x / n
    normal = random_effects(logit(share), 1 / np.sqrt(n * share * (1 - share)))
    found = count_random_effects(x, n, "binomial")
    # Restricted and plain maximum likelihood differ by the factor (k - 1) / k.
    assert found.tau == pytest.approx(normal.tau * np.sqrt(11 / 12), rel=1e-3)
    assert found.estimate == pytest.approx(normal.estimate, abs=1e-3)
    assert found.interval == pytest.approx(normal.interval, abs=5e-3)
    assert found.prediction_interval == pytest.approx(normal.prediction_interval, abs=1e-2)
    assert found.degrees_of_freedom == 11


def test_rare_failures_do_not_bias_the_share():
    """400 rows with 7% events at each of 16 sites: logits of single sites with half a row more were 3 points low."""
    rng = np.random.default_rng(1)
    estimates = []
    for _ in range(20):
        n = rng.binomial(400, 0.07, 16)
        estimates.append(expit(count_random_effects(rng.binomial(n, 0.9), n, "binomial").estimate))
    assert np.mean(estimates) == pytest.approx(0.9, abs=0.012)


def test_shares_of_0_and_1_have_the_exact_interval_of_their_sum():
    none = count_random_effects([0, 0, 0], [10, 24, 30], "binomial")
    assert expit(none.estimate) == 0
    assert expit(none.interval) == pytest.approx((0, beta.ppf(0.975, 1, 64)))
    every = count_random_effects([10, 24, 30], [10, 24, 30], "binomial")
    assert every.prediction_interval == pytest.approx((-none.interval[1], np.inf))
    no_events = count_random_effects([0, 0], [1.5, 2.5], "poisson")
    assert np.exp(no_events.interval) == pytest.approx((0, chi2.ppf(0.975, 2) / 2 / 4))


def test_empty_domains_are_dropped_and_counted():
    found = count_random_effects([3, 0, 5], [4, 0, 9], "binomial")
    assert (found.n_domains, found.n_dropped) == (2, 1)
    assert found.estimate == count_random_effects([3, 5], [4, 9], "binomial").estimate


def test_a_prior_narrows_the_interval_of_three_domains():
    counts = [18, 25, 12], [20, 40, 30]
    plain = count_random_effects(*counts, "binomial")
    informed = count_random_effects(*counts, "binomial", tau_prior=0.5)
    assert np.ptp(informed.prediction_interval) < 0.6 * np.ptp(plain.prediction_interval)
    assert informed.degrees_of_freedom == np.inf


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 4000)), min_size=1, max_size=9),
    family=st.sampled_from(["binomial", "poisson"]),
    prior=st.sampled_from([None, 0.5]),
)
def test_any_counts_give_ordered_intervals(counts, family, prior):
    x = np.array([first for first, _ in counts])
    n = x + np.array([second for _, second in counts])
    if not n.any():
        return
    result = count_random_effects(x, n, family, tau_prior=prior)
    ends = (result.prediction_interval[0], result.interval[0], result.interval[1], result.prediction_interval[1])
    if np.isfinite(result.estimate):
        assert ends[1] - 1e-9 <= result.estimate <= ends[2] + 1e-9
    assert ends[0] <= ends[1] + 1e-9
    assert ends[2] <= ends[3] + 1e-9
    assert not np.isnan(ends).any()


def coverage(family, n_sites, n_rows, tau, n_replicates, seed):
    """Share of replicates whose interval contains the truth of one more site; 7% of the rows have the event."""
    rng = np.random.default_rng(seed)
    center = logit(0.9) if family == "binomial" else 0.0
    hits = []
    for _ in range(n_replicates):
        rows = np.maximum(rng.lognormal(np.log(n_rows), 0.5, n_sites).astype(int), 20)
        truth = center + tau * rng.normal(size=n_sites)
        if family == "binomial":
            sizes = rng.binomial(rows, 0.07)
            counts = rng.binomial(sizes, expit(truth))
        else:
            sizes = 0.07 * rows
            counts = rng.binomial(rows, np.minimum(0.07 * np.exp(truth), 1))
        low, high = count_random_effects(counts, sizes, family).prediction_interval
        hits.append(low <= center + tau * rng.normal() <= high)
    return np.mean(hits)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_intervals_of_a_new_site_cover_its_performance(family):
    """The reduced version of the study below: 150 replicates have a standard error of 1.8 points."""
    assert 0.90 <= coverage(family, 8, 1000, 0.4, 150, 0) <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binomial", "poisson"])
@pytest.mark.parametrize("n_sites", [5, 8, 15])
@pytest.mark.parametrize("tau", [0.3, 0.6])
@pytest.mark.parametrize("n_rows", [400, 2000])
def test_intervals_of_a_new_site_cover_93_to_97_percent(family, n_sites, tau, n_rows):
    """1,000 replicates: a share of 95% has a standard error of 0.7 points, of which two are allowed for.

    Where tau is far below the standard error of a site (0.1), intervals cover more than 97%; that is not tested.
    """
    share = coverage(family, n_sites, n_rows, tau, 1000, 7)
    print(f"\n{family} {n_sites} sites, {n_rows} rows, tau {tau}: {100 * share:.1f}%")
    assert 0.93 - 0.014 <= share <= 0.97 + 0.014
