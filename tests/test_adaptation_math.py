"""Offsets, the simulation and the choice of a level, against independent computations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from unseen.model_selection import (
    AdaptationPlan,
    HeldOutDomain,
    OffsetPrior,
    apply_offsets,
    fit_offsets,
    limit_held_out_domains,
    log_evidence,
    score_gains,
    simulate_adaptation,
)

PRIOR = OffsetPrior(0.3, 0.05)


def make_probabilities(seed, n, n_classes):
    rng = np.random.default_rng(seed)
    P = softmax(2 * rng.normal(size=(n, n_classes)), axis=1)
    return P, rng.integers(n_classes, size=n)


def negative_log_posterior(theta, P, codes, prior):
    logits = theta[-1] * np.log(P) + theta[:-1]
    log_likelihood = log_softmax(logits, axis=1)[np.arange(len(codes)), codes].sum()
    penalty = np.sum(theta[:-1] ** 2) / prior.offset_variance + (theta[-1] - 1) ** 2 / prior.scale_variance
    return penalty / 2 - log_likelihood


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(2, 5))
def test_offsets_are_the_minimum_of_the_negative_log_posterior(seed, n, n_classes):
    P, codes = make_probabilities(seed, n, n_classes)
    offsets, scale = fit_offsets(P, codes, PRIOR)
    start = np.append(np.zeros(n_classes), 1.0)
    reference = minimize(negative_log_posterior, start, args=(P, codes, PRIOR), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(
        np.append(offsets, scale), np.append(reference.x[:-1], max(reference.x[-1], 0.1)), atol=2e-5
    )
    assert abs(offsets.sum()) < 1e-9


def test_one_wrong_row_with_probability_zero_has_a_bounded_effect():
    P, codes = make_probabilities(0, 30, 2)
    P[0] = [1.0, 0.0]
    codes[0] = 1
    offsets, scale = fit_offsets(P, codes, PRIOR)
    assert np.isfinite(offsets).all()
    assert 0.1 <= scale < 1


def test_the_evidence_is_that_of_numerical_integration():
    P, codes = make_probabilities(3, 25, 2)
    # With two classes the likelihood depends on the difference of the offsets, whose variance is twice as large.
    log_P = np.log(P)

    def joint(difference, scale):
        logits = scale * log_P + np.array([difference / 2, -difference / 2])
        log_likelihood = log_softmax(logits, axis=1)[np.arange(len(codes)), codes].sum()
        prior = np.exp(-(difference**2) / (4 * PRIOR.offset_variance)) / np.sqrt(4 * np.pi * PRIOR.offset_variance)
        prior *= np.exp(-((scale - 1) ** 2) / (2 * PRIOR.scale_variance)) / np.sqrt(2 * np.pi * PRIOR.scale_variance)
        return np.exp(log_likelihood) * prior

    exact = np.log(dblquad(joint, -0.5, 2.5, -4, 4, epsabs=0, epsrel=1e-4)[0])
    assert log_evidence(P, codes, PRIOR) == pytest.approx(exact, abs=0.1)


def make_world(seed, n_domains, n=150, n_classes=2, shift=1.0):
    """Domains whose classes have log odds that differ from what a model predicts by a random offset."""
    rng = np.random.default_rng(seed)
    domains = []
    for k in range(n_domains):
        logits = 1.5 * rng.normal(size=(n, n_classes))
        truth = softmax(logits + shift * rng.normal(size=n_classes), axis=1)
        codes = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=n_classes - 1)
        P = softmax(logits + 0.3 * rng.normal(size=(n, n_classes)), axis=1)
        domains.append(HeldOutDomain(f"domain {k}", P, codes))
    return domains


def offset_gain(domain, labeled, prior):
    """Gain in log loss of offsets on one domain after adaptation to labeled rows."""
    offsets = fit_offsets(domain.probabilities[labeled], domain.codes[labeled], prior)
    return score_gains(domain, apply_offsets(domain.probabilities, *offsets), labeled)["log_loss"]


def test_a_model_keeps_few_predictions_of_each_domain():
    large = make_world(0, 30, n=400)
    kept = limit_held_out_domains(large)
    assert len(kept) == 24
    assert {len(codes) for _, _, codes in kept} == {300}
    rows = {name: np.column_stack([P, codes]).astype(np.float32).tolist() for name, P, codes in large}
    for name, P, codes in kept:
        assert P.dtype == np.float32
        assert all(row in rows[name] for row in np.column_stack([P, codes]).tolist())
    many_classes = [HeldOutDomain("a", np.full((300, 2_000), 1 / 2_000), np.zeros(300, int))] * 4
    assert sum(P.size for _, P, _ in limit_held_out_domains(many_classes)) <= 2**18


def test_a_world_with_offsets_gains_and_the_gain_grows_with_the_labels():
    plan = simulate_adaptation(make_world(0, 8))
    gains = [plan.gain("offsets", n).mean for n in (5, 25, 100)]
    assert gains == sorted(gains)
    assert gains[-1] > 0.05
    assert plan.choose(50).level == "offsets"
    assert plan.prior.offset_variance > 0.3


def test_a_world_without_shift_loses_next_to_nothing():
    for seed in range(2):
        plan = simulate_adaptation(make_world(seed, 6, shift=0.0, n=250))
        assert plan.prior.offset_variance < 0.1
        for n in (10, 100):
            assert plan.gain("offsets", n).mean > -0.01


def test_the_priors_that_are_applied_to_a_domain_are_fitted_on_the_others():
    """One domain with a large shift among others without: its own gain is that of the narrow prior of the others."""
    domains = [*make_world(0, 5, shift=0.0), *make_world(1, 1, shift=2.0)]
    plan = simulate_adaptation(domains)
    others = simulate_adaptation(domains[:5])
    rows = [np.random.default_rng(seed).permutation(150)[:10] for seed in range(50)]
    wide, narrow = (np.mean([offset_gain(domains[5], one, made.prior) for one in rows]) for made in (plan, others))
    gain = plan.gains["offsets"][10]["log_loss"][5].mean()
    assert abs(gain - narrow) < abs(gain - wide)


@pytest.mark.slow
def test_the_interval_contains_the_gain_of_a_new_domain():
    """The 90% prediction interval covers at least 80% of new domains in a world whose domains are exchangeable."""
    inside = []
    for seed in range(30):
        *sources, new = make_world(100 + seed, 7, n=120, shift=0.7, n_classes=3)
        plan = simulate_adaptation(sources)
        gain = offset_gain(new, np.random.default_rng(seed).permutation(120)[:25], plan.prior)
        expected = plan.gain("offsets", 25)
        inside.append(expected.low <= gain <= expected.high)
    assert np.mean(inside) >= 0.8


def make_plan(log_loss, accuracy, level="offsets"):
    """A plan with the gains of five domains from 25 labels."""
    gains = {"log_loss": np.array(log_loss)[:, None], "accuracy": np.array(accuracy)[:, None]}
    return AdaptationPlan(tuple("abcde"), {level: {25: gains}})


def test_a_level_that_may_harm_is_not_chosen():
    plan = make_plan([0.05] * 5, [0.05, 0.05, 0.05, 0.05, -0.12])
    assert plan.gain("offsets", 25, "accuracy").mean > 0
    assert plan.choose(25).level == "none"
    safe = make_plan([0.05] * 5, [0.01] * 5)
    assert safe.choose(25).level == "offsets"
    assert AdaptationPlan(tuple("abcde")).choose(25).level == "none"
    assert safe.choose(4).level == "none"


def test_a_more_demanding_level_must_be_better_by_more_than_a_standard_error():
    base = np.random.default_rng(0).uniform(0.02, 0.04, size=5)
    noise = np.array([0.01, -0.01, 0.011, -0.01, 0.0])
    plan = make_plan(base, [0.01] * 5)

    def choice(better):
        return plan.with_refit(25, make_plan(better, [0.01] * 5).gains["offsets"][25]).choose(25).level

    assert choice(base + noise) == "offsets"
    assert choice(base + noise + 0.02) == "refit"


def test_the_gain_is_that_of_the_largest_number_that_was_simulated():
    plan = simulate_adaptation(make_world(0, 6))
    assert plan.gain("offsets", 15) == plan.gain("offsets", 10) != plan.gain("offsets", 25)
    assert plan.gain("offsets", 10_000) == plan.gain("offsets", 100)  # 200 labels leave too few rows
    assert plan.gain("offsets", 4) is None


def test_two_domains_or_few_rows_are_stated():
    plan = simulate_adaptation(make_world(0, 1))
    assert plan.choose(50).level == "none"
    assert "too few" in plan.sentences()[0]
    tiny = simulate_adaptation(make_world(0, 5, n=20))
    assert tiny.choose(50).level == "none"
