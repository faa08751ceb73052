"""Offsets, member weights, the simulation and the choice of a level, against independent computations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from unseen.adaptation import (
    AdaptationPlan,
    HeldOutDomain,
    OffsetPrior,
    adapt_probabilities,
    apply_offsets,
    fit_feature_effects,
    fit_offsets,
    log_evidence,
    mix_members,
    score_gains,
    simulate_adaptation,
    update_weights,
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
    offsets, scale = fit_offsets(P[None], codes[None], PRIOR)
    start = np.append(np.zeros(n_classes), 1.0)
    reference = minimize(negative_log_posterior, start, args=(P, codes, PRIOR), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(
        np.append(offsets[0], scale[0]), np.append(reference.x[:-1], max(reference.x[-1], 0.1)), atol=2e-5
    )
    assert abs(offsets.sum()) < 1e-9


def test_problems_that_are_solved_together_have_the_solutions_of_each_alone():
    parts = [make_probabilities(seed, 30, 3) for seed in range(4)]
    P = np.array([part[0] for part in parts])
    codes = np.array([part[1] for part in parts])
    together = fit_offsets(P, codes, PRIOR)
    for b in range(4):
        alone = fit_offsets(P[b : b + 1], codes[b : b + 1], PRIOR)
        np.testing.assert_allclose(together[0][b], alone[0][0], atol=1e-7)
        np.testing.assert_allclose(together[1][b], alone[1][0], atol=1e-7)


def test_one_wrong_row_with_probability_zero_has_a_bounded_effect():
    P, codes = make_probabilities(0, 30, 2)
    P[0] = [1.0, 0.0]
    codes[0] = 1
    offsets, scale = fit_offsets(P[None], codes[None], PRIOR)
    assert np.isfinite(offsets).all()
    assert 0.1 <= scale[0] < 1


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
    assert log_evidence(P, codes, [PRIOR])[0] == pytest.approx(exact, abs=0.1)


def test_feature_effects_are_the_minimum_of_the_negative_log_posterior():
    P, codes = make_probabilities(5, 30, 3)
    X = np.random.default_rng(0).normal(3, 2, size=(30, 2))
    effects = fit_feature_effects(P, X, codes, PRIOR, 1.5)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)

    def posterior(theta):
        weights = theta[4:].reshape(2, 3)
        logits = theta[3] * np.log(P) + theta[:3] + Z @ weights
        penalty = np.sum(theta[:3] ** 2) / PRIOR.offset_variance + (theta[3] - 1) ** 2 / PRIOR.scale_variance
        penalty += np.sum(weights**2) / (1.5**2 / 2)
        return penalty / 2 - log_softmax(logits, axis=1)[np.arange(30), codes].sum()

    start = np.append(np.zeros(3), [1.0, *np.zeros(6)])
    reference = minimize(posterior, start, method="BFGS", options={"gtol": 1e-8}).x
    logits = reference[3] * np.log(P) + reference[:3] + Z @ reference[4:].reshape(2, 3)
    np.testing.assert_allclose(effects.apply(P, X), softmax(logits, axis=1), atol=1e-4)


def test_no_feature_effects_are_offsets_alone():
    P, codes = make_probabilities(5, 30, 3)
    X = np.random.default_rng(0).normal(size=(30, 2))
    offsets, scale = fit_offsets(P[None], codes[None], PRIOR)
    expected = apply_offsets(P, offsets[0], scale[0])
    for feature_std, features in ((1e-9, X), (1.0, np.ones((30, 2)))):
        effects = fit_feature_effects(P, features, codes, PRIOR, feature_std)
        np.testing.assert_allclose(effects.apply(P, features), expected, atol=1e-4)


def test_a_world_whose_coefficients_differ_chooses_feature_effects():
    rng = np.random.default_rng(0)
    domains = []
    for k in range(6):
        X = rng.normal(size=(160, 4))
        logits = X @ (np.array([1.0, 0, 0, 0]) + 1.5 * rng.normal(size=4))
        codes = (rng.random(160) < 1 / (1 + np.exp(-logits))).astype(int)
        P = softmax(np.column_stack([np.zeros(160), X[:, 0]]), axis=1)
        domains.append(HeldOutDomain(f"{k}", P, codes, features=X))
    plan = simulate_adaptation(domains)
    assert plan.choose(100, plan.levels).level == "features"
    assert plan.gain("features", 100).mean > plan.gain("local", 100).mean > plan.gain("offsets", 100).mean


def test_updated_weights_maximize_the_posterior():
    rng = np.random.default_rng(1)
    q = rng.uniform(0.05, 0.95, size=(60, 3))
    weights = np.array([0.5, 0.3, 0.2])
    updated = update_weights(q[None], weights, 20.0, n_steps=3_000)[0]

    def posterior(u):
        w = softmax(np.append(u, 0.0))
        return -np.log(q @ w).sum() - 20.0 * weights @ np.log(w)

    reference = minimize(posterior, np.zeros(2), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(updated, softmax(np.append(reference.x, 0.0)), atol=1e-5)
    few = update_weights(q[None], weights, 20.0, n_steps=5)[0]
    assert posterior(np.log(few[:2] / few[2])) >= posterior(np.log(updated[:2] / updated[2]))


def test_no_label_leaves_the_weights_as_they_are():
    weights = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(update_weights(np.empty((1, 0, 3)), weights, 20.0)[0], weights)


def make_world(seed, n_domains, n=150, n_classes=2, shift=1.0, n_members=3):
    """Domains whose classes have log odds that differ from what members predict by a random offset."""
    rng = np.random.default_rng(seed)
    domains = []
    for k in range(n_domains):
        logits = 1.5 * rng.normal(size=(n, n_classes))
        truth = softmax(logits + shift * rng.normal(size=n_classes), axis=1)
        codes = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=n_classes - 1)
        members = softmax(logits + 0.3 * rng.normal(size=(n_members, n, n_classes)), axis=2)
        weights = np.full(n_members, 1 / n_members)
        P = mix_members(members, weights[None])[0]
        domains.append(HeldOutDomain(f"domain {k}", P, codes, members, weights))
    return domains


def test_a_world_with_offsets_gains_and_the_gain_grows_with_the_labels():
    plan = simulate_adaptation(make_world(0, 8))
    gains = [plan.gain("offsets", n).mean for n in (5, 25, 100)]
    assert gains == sorted(gains)
    assert gains[-1] > 0.05
    assert plan.choose(50, ["offsets"]).level == "offsets"
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
    rows = np.array([np.random.default_rng(seed).permutation(150)[:10] for seed in range(50)])
    wide = score_gains(domains[5], adapt_probabilities(domains[5], rows, plan, "offsets"), rows)["log_loss"].mean()
    others = simulate_adaptation(domains[:5])
    narrow = score_gains(domains[5], adapt_probabilities(domains[5], rows, others, "offsets"), rows)["log_loss"].mean()
    gain = plan.gains["log_loss"][0, plan.sizes.index(10), 5]
    assert abs(gain - narrow) < abs(gain - wide)


@pytest.mark.slow
def test_the_interval_contains_the_gain_of_a_new_domain():
    """The 90% prediction interval covers at least 80% of new domains in a world whose domains are exchangeable."""
    inside = []
    for seed in range(30):
        *sources, new = make_world(100 + seed, 7, n=120, shift=0.7, n_members=1, n_classes=3)
        sources = [replace(domain, members=None, weights=None) for domain in sources]
        plan = simulate_adaptation(sources)
        rows = np.random.default_rng(seed).permutation(120)[:25][None]
        gain = score_gains(new, adapt_probabilities(new, rows, plan, "offsets"), rows)["log_loss"][0]
        expected = plan.gain("offsets", 25)
        inside.append(expected.low <= gain <= expected.high)
    assert np.mean(inside) >= 0.8


def test_a_level_that_may_harm_is_not_chosen():
    domains = tuple("abcde")
    gains = {"log_loss": np.full((1, 1, 5), 0.05), "accuracy": np.array([[[0.05, 0.05, 0.05, 0.05, -0.12]]])}
    variances = {metric: np.zeros((1, 1)) for metric in gains}
    plan = AdaptationPlan(("offsets",), (25,), domains, gains, variances)
    assert plan.gain("offsets", 25, "accuracy").mean > 0
    assert plan.choose(25, ["offsets"]).level == "none"
    safe = replace(plan, gains={**gains, "accuracy": np.full((1, 1, 5), 0.01)})
    assert safe.choose(25, ["offsets"]).level == "offsets"
    assert safe.choose(25, []).level == "none"
    assert safe.choose(4, ["offsets"]).level == "none"


def test_a_more_demanding_level_must_be_better_by_more_than_a_standard_error():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.02, 0.04, size=5)
    noise = np.array([0.01, -0.01, 0.011, -0.01, 0.0])
    accuracy = np.full((2, 1, 5), 0.01)
    variances = {metric: np.zeros((2, 1)) for metric in ("log_loss", "accuracy")}

    def choice(better):
        gains = {"log_loss": np.array([[base], [better]]), "accuracy": accuracy}
        plan = AdaptationPlan(("offsets", "weights"), (25,), tuple("abcde"), gains, variances)
        return plan.choose(25, ["offsets", "weights"]).level

    assert choice(base + noise) == "offsets"
    assert choice(base + noise + 0.02) == "weights"


def test_gains_between_simulated_numbers_lie_between_their_gains():
    plan = simulate_adaptation(make_world(0, 6))
    between = plan.gain("offsets", 15)
    ends = [plan.gain("offsets", 10).mean, plan.gain("offsets", 25).mean]
    assert min(ends) <= between.mean <= max(ends)
    assert plan.gain("offsets", 10_000) == plan.gain("offsets", 100)  # 200 labels leave too few rows
    assert plan.gain("offsets", 4) is None


def test_a_plan_survives_json():
    import json

    plan = simulate_adaptation(make_world(0, 4, n=60))
    copy = AdaptationPlan.from_dict(json.loads(json.dumps(plan.to_dict(), allow_nan=False)))
    assert copy.sentences() == plan.sentences()
    assert copy.gain("weights", 25) == plan.gain("weights", 25)


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": [5]},
        {"levels": ["offsets", "other"]},
        {"offset_variance": -1.0},
        {"prior_rows": float("inf")},
        {"gains": {}},
        {"domains": 3},
    ],
)
def test_an_altered_plan_is_an_error(change):
    values = simulate_adaptation(make_world(0, 3, n=60)).to_dict()
    with pytest.raises(ValueError, match="the simulation of adaptation"):
        AdaptationPlan.from_dict({**values, **change})


def test_two_domains_or_few_rows_are_stated():
    plan = simulate_adaptation(make_world(0, 1))
    assert plan.choose(50, ["offsets"]).level == "none"
    assert "too few" in plan.sentences()[0]
    tiny = simulate_adaptation(make_world(0, 5, n=20))
    assert tiny.choose(50, ["offsets"]).level == "none"
