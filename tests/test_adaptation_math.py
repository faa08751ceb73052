"""Offsets, effects of features, the simulation and the choice of a level, against independent computations."""

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
    cross_validate_features,
    fit_adjustment,
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
    offsets, scale, _ = fit_adjustment(P, codes, PRIOR)
    start = np.append(np.zeros(n_classes), 1.0)
    reference = minimize(negative_log_posterior, start, args=(P, codes, PRIOR), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(
        np.append(offsets, scale), np.append(reference.x[:-1], max(reference.x[-1], 0.1)), atol=2e-5
    )
    assert abs(offsets.sum()) < 1e-9


def make_features(seed, n, weights):
    """Probabilities, features, and classes whose log odds also depend on the features."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, weights.shape[1]))
    X = rng.normal(size=(n, len(weights))) + 3.0
    truth = softmax(logits + (X - 3.0) @ weights, axis=1)
    codes = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=weights.shape[1] - 1)
    return softmax(logits, axis=1), X, codes


@pytest.mark.parametrize("n_features", [2, 40])
def test_effects_of_features_are_the_minimum_of_the_negative_log_posterior(n_features):
    """With fewer rows than features, too; the prior of the effects is that of features with one common scale."""
    weights = np.zeros((n_features, 3))
    weights[0] = [1.0, -1.0, 0.0]
    P, X, codes = make_features(0, 30, weights)
    feature_std = 1.5
    adjustment = fit_adjustment(P, codes, PRIOR, X, feature_std)
    precision = X.var(axis=0).sum() / feature_std**2

    def objective(theta):
        effects = theta[4:].reshape(n_features, 3)
        logits = theta[3] * np.log(P) + theta[:3] + (X - X.mean(axis=0)) @ effects
        log_likelihood = log_softmax(logits, axis=1)[np.arange(30), codes].sum()
        penalty = np.sum(theta[:3] ** 2) / PRIOR.offset_variance + (theta[3] - 1) ** 2 / PRIOR.scale_variance
        return (penalty + precision * np.sum(effects**2)) / 2 - log_likelihood

    start = np.append([0.0, 0.0, 0.0, 1.0], np.zeros(3 * n_features))
    reference = minimize(objective, start, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-8, "maxfun": 10**6})
    np.testing.assert_allclose(adjustment.effects, reference.x[4:].reshape(n_features, 3), atol=2e-4)
    np.testing.assert_allclose(adjustment.scale, reference.x[3], atol=2e-4)
    centered = adjustment.offsets + X.mean(axis=0) @ adjustment.effects
    np.testing.assert_allclose(centered, reference.x[:3], atol=2e-4)


def test_features_without_strength_or_variation_leave_the_offsets():
    P, codes = make_probabilities(0, 30, 3)
    X = np.random.default_rng(0).normal(size=(30, 4))
    offsets = fit_adjustment(P, codes, PRIOR)
    for features, feature_std in ((X, 0.0), (np.ones((30, 4)), 2.0)):
        adjustment = fit_adjustment(P, codes, PRIOR, features, feature_std)
        np.testing.assert_array_equal(adjustment.effects, np.zeros((4, 3)))
        np.testing.assert_allclose(adjustment.apply(P, X), offsets.apply(P), rtol=1e-6)


def test_cross_validation_finds_effects_of_features_where_there_are_some():
    strong = np.array([[2.0, -2.0], [0.0, 0.0], [0.0, 0.0]])
    for seed in range(3):
        P, X, codes = make_features(seed, 80, strong)
        feature_std, gains = cross_validate_features(P, codes, PRIOR, X)
        assert feature_std == 2.0
        assert gains.mean() > 0.05
        P, X, codes = make_features(seed, 80, np.zeros((3, 2)))
        feature_std, gains = cross_validate_features(P, codes, PRIOR, X)
        assert feature_std == 0.5
        assert gains.mean() < gains.std(ddof=1) / np.sqrt(80)


def test_one_wrong_row_with_probability_zero_has_a_bounded_effect():
    P, codes = make_probabilities(0, 30, 2)
    P[0] = [1.0, 0.0]
    codes[0] = 1
    offsets, scale, _ = fit_adjustment(P, codes, PRIOR)
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
    adjustment = fit_adjustment(domain.probabilities[labeled], domain.codes[labeled], prior)
    return score_gains(domain, adjustment.apply(domain.probabilities), labeled)["log_loss"]


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
    gains = [plan.gain(n).mean for n in (5, 25, 100)]
    assert gains == sorted(gains)
    assert gains[-1] > 0.05
    assert plan.choose(50).level == "offsets"
    assert plan.prior.offset_variance > 0.3


def test_a_world_without_shift_loses_next_to_nothing():
    for seed in range(2):
        plan = simulate_adaptation(make_world(seed, 6, shift=0.0, n=250))
        assert plan.prior.offset_variance < 0.1
        for n in (10, 100):
            assert plan.gain(n).mean > -0.01


def test_the_priors_that_are_applied_to_a_domain_are_fitted_on_the_others():
    """One domain with a large shift among others without: its own gain is that of the narrow prior of the others."""
    domains = [*make_world(0, 5, shift=0.0), *make_world(1, 1, shift=2.0)]
    plan = simulate_adaptation(domains)
    others = simulate_adaptation(domains[:5])
    rows = [np.random.default_rng(seed).permutation(150)[:10] for seed in range(50)]
    wide, narrow = (np.mean([offset_gain(domains[5], one, made.prior) for one in rows]) for made in (plan, others))
    gain = plan.gains[10]["log_loss"][5].mean()
    assert abs(gain - narrow) < abs(gain - wide)


@pytest.mark.slow
def test_the_interval_contains_the_gain_of_a_new_domain():
    """The 90% prediction interval covers at least 80% of new domains in a world whose domains are exchangeable."""
    inside = []
    for seed in range(30):
        *sources, new = make_world(100 + seed, 7, n=120, shift=0.7, n_classes=3)
        plan = simulate_adaptation(sources)
        gain = offset_gain(new, np.random.default_rng(seed).permutation(120)[:25], plan.prior)
        expected = plan.gain(25)
        inside.append(expected.low <= gain <= expected.high)
    assert np.mean(inside) >= 0.8


def make_plan(log_loss, accuracy):
    """A plan with the gains of five domains from 25 labels."""
    gains = {"log_loss": np.array(log_loss)[:, None], "accuracy": np.array(accuracy)[:, None]}
    return AdaptationPlan(tuple("abcde"), {25: gains})


def test_a_level_that_may_harm_is_not_chosen():
    plan = make_plan([0.05] * 5, [0.05, 0.05, 0.05, 0.05, -0.12])
    assert plan.gain(25, "accuracy").mean > 0
    assert plan.choose(25).level == "none"
    safe = make_plan([0.05] * 5, [0.01] * 5)
    assert safe.choose(25).level == "offsets"
    assert AdaptationPlan(tuple("abcde")).choose(25).level == "none"
    assert safe.choose(4).level == "none"


def test_the_gain_is_that_of_the_largest_number_that_was_simulated():
    plan = simulate_adaptation(make_world(0, 6))
    assert plan.gain(15) == plan.gain(10) != plan.gain(25)
    assert plan.gain(10_000) == plan.gain(100)  # 200 labels leave too few rows
    assert plan.gain(4) is None


def test_two_domains_or_few_rows_are_stated():
    plan = simulate_adaptation(make_world(0, 1))
    assert plan.choose(50).level == "none"
    assert "too few" in plan.sentences()[0]
    tiny = simulate_adaptation(make_world(0, 5, n=20))
    assert tiny.choose(50).level == "none"
