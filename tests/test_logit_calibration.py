"""The last calibration of an ensemble: for two classes a slope, with random intercepts of domains."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.linear_model import LogisticRegression

from unseen import UnseenClassifier
from unseen.model_selection import _ensemble_math as calibration
from unseen.model_selection._ensemble_math import IDENTITY, LogitCalibration, fit_last_calibration, softmax


def make_world(n_domains=8, n_rows=300, n_classes=2, *, slope=1.0, offsets=0.0, deviation=0.0, seed=0):
    """Probabilities, and classes drawn from these after a slope, offsets and intercepts of domains."""
    rng = np.random.default_rng(seed)
    P = []
    codes = []
    for _ in range(n_domains):
        logits = 1.5 * rng.normal(size=(n_rows, n_classes))
        intercept = rng.normal(size=n_classes) * deviation / np.sqrt(2)
        truth = softmax(slope * logits + offsets + intercept)
        codes.append((truth.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1))
        P.append(softmax(logits))
    return P, codes


def negative_log_posterior(parameters, P, codes):
    """That of the log slope, the offset and the standard deviation of intercepts, which are integrated out."""
    log_slope, offset, deviation = parameters
    mean, scale = calibration.LOG_SLOPE_PRIOR
    value = 0.5 * ((log_slope - mean) / scale) ** 2
    value += 0.5 * (offset / calibration.OFFSET_PRIOR) ** 2 + 0.5 * (deviation / calibration.DEVIATION_PRIOR) ** 2
    for p, c in zip(P, codes, strict=True):
        logits = np.exp(log_slope) * np.log(p[:, 1] / p[:, 0]) + offset
        weight = min(1, calibration.MAX_EFFECTIVE_ROWS / len(c))

        def log_likelihood(z, logits=logits, c=c, weight=weight):
            return weight * log_expit(np.where(c == 1, 1, -1) * (logits + deviation * z)).sum()

        largest = max(map(log_likelihood, np.linspace(-4, 4, 81)))

        def density(z, log_likelihood=log_likelihood, largest=largest):
            return np.exp(log_likelihood(z) - largest - 0.5 * z**2)

        value -= np.log(quad(density, -8, 8, limit=200)[0]) + largest
    return value


@pytest.mark.parametrize(("n_rows", "deviation"), [(60, 0.0), (60, 0.8), (150, 1.5)])
def test_the_slope_maximizes_the_posterior_with_integrated_intercepts(n_rows, deviation):
    P, codes = make_world(5, n_rows, slope=1.4, deviation=deviation, seed=1)
    expected = minimize(negative_log_posterior, [0.0, 0.0, 0.5], (P, codes), method="Nelder-Mead", tol=1e-7)
    assert fit_last_calibration(P, codes).slope == pytest.approx(np.exp(expected.x[0]), rel=1e-3)


def test_mean_probabilities_are_kept():
    P, codes = make_world(4, 80, slope=1.4, offsets=np.array([0.9, -0.9]), seed=2)
    fit = fit_last_calibration(P, codes)
    before, after = (np.concatenate(parts).mean(axis=0) for parts in (P, [fit.apply(p) for p in P]))
    assert fit.slope > 1.1
    np.testing.assert_allclose(after, before, rtol=1e-9)


def test_without_differences_between_domains_the_slope_is_that_of_ordinary_logistic_calibration():
    P, codes = make_world(20, 100, slope=1.5, offsets=np.array([0.2, -0.2]))
    margins = np.concatenate([np.log(p[:, 1] / p[:, 0]) for p in P])
    ordinary = LogisticRegression(C=np.inf).fit(margins[:, None], np.concatenate(codes))
    assert fit_last_calibration(P, codes).slope == pytest.approx(ordinary.coef_[0, 0], rel=0.02)


def test_differences_between_domains_do_not_flatten_the_slope():
    slopes = []
    pooled = []
    for seed in range(6):
        P, codes = make_world(6, 200, deviation=1.5, seed=seed)
        slopes.append(fit_last_calibration(P, codes).slope)
        pooled.append(calibration.fit_temperature([np.log(p) for p in P], codes))
    assert np.mean(pooled) < 0.85
    assert np.mean(slopes) == pytest.approx(1, abs=0.1)


def test_a_slope_does_not_bias_the_probabilities_of_a_rare_class():
    P, codes = make_world(10, 2000, offsets=np.array([2.0, -2.0]), deviation=0.3)
    share = np.mean(np.concatenate(codes))
    assert share < 0.1
    for flatness in (0.7, 1.4):  # of log odds about the class frequencies
        center = flatness * np.array([2.0, -2.0]) + (1 - flatness) * np.log([1 - share, share])
        flat = [softmax(flatness * np.log(p) + center) for p in P]
        fit = fit_last_calibration(flat, codes)
        assert (fit.slope - 1) * (1 - flatness) > 0.03
        risks = np.concatenate(flat)[:, 1]
        assert share / np.concatenate([fit.apply(p)[:, 1] for p in flat]).mean() == pytest.approx(share / risks.mean())
        without_offset = np.concatenate([softmax(np.log(p), fit.slope)[:, 1] for p in flat])
        assert abs(np.log(share / without_offset.mean())) > abs(np.log(share / risks.mean()))


def test_names_of_classes_and_the_order_of_domains_do_not_matter():
    P, codes = make_world(5, 120, slope=1.3, offsets=np.array([0.3, -0.3]), deviation=0.6)
    fit = fit_last_calibration(P, codes)
    exchanged = fit_last_calibration([p[:, ::-1] for p in P], [1 - c for c in codes])
    assert exchanged.slope == pytest.approx(fit.slope, rel=1e-4)
    np.testing.assert_allclose(exchanged.offsets, fit.offsets[::-1], atol=1e-3)
    assert fit_last_calibration(P[::-1], codes[::-1]).slope == pytest.approx(fit.slope, rel=1e-4)


def test_one_domain_separated_domains_and_a_single_class_have_finite_results():
    P, codes = make_world(3, 100)
    for parts, labels in (
        ([P[0]], [codes[0]]),
        ([np.where(np.arange(2) == c[:, None], 0.95, 0.05) for c in codes], codes),
        (P, [np.zeros(100, dtype=int)] * 3),
    ):
        fit = fit_last_calibration(parts, labels)
        assert 0.1 < fit.slope < 10
        assert np.abs(fit.offsets).max() < 5


def test_the_most_frequent_class_for_all_rows_stays_so():
    """The bounds of the search for the offset must hold despite rounding: its mean probability is 1e-30."""
    P = np.tile([1.0, 1e-30], (100, 1))
    fit = fit_last_calibration([P] * 4, [np.where(np.arange(100) < 2, 1, 0)] * 4)
    np.testing.assert_allclose(fit.apply(P), P, atol=1e-12)


def test_rows_of_classes_without_probability_are_left_out():
    P, codes = make_world(3, 80)
    fit = fit_last_calibration(P, codes)
    certain = np.tile([1.0, 0.0], (40, 1))
    with_certain = fit_last_calibration([*P, certain], [*codes, np.zeros(40, dtype=int)])
    assert (with_certain.slope, *with_certain.offsets) == (fit.slope, *fit.offsets)
    assert fit_last_calibration([certain], [np.zeros(40, dtype=int)]) == IDENTITY
    assert (LogitCalibration(2.0, np.array([0.1, -0.1])).apply(certain)[:, 1] == 0).all()


def test_weights_repeat_rows_and_more_classes_have_a_temperature():
    P, codes = make_world(4, 40)
    weights = [1.0 + (np.arange(40) % 2) for _ in range(4)]
    repeated = fit_last_calibration(
        [np.repeat(p, 1 + np.arange(40) % 2, axis=0) for p in P], [np.repeat(c, 1 + np.arange(40) % 2) for c in codes]
    )
    # Weights have a mean of 1, so that they do not add rows.
    assert fit_last_calibration(P, codes, weights).slope == pytest.approx(repeated.slope, rel=0.1)
    P, codes = make_world(3, 100, 3, slope=2.0)
    assert fit_last_calibration(P, codes) == LogitCalibration(
        calibration.fit_temperature([np.log(p) for p in P], codes)
    )


# From samples to probabilities at new sites


def make_sites(rng, n_sites, n_rows, *, intercept=0.0, deviation=0.5):
    """Features and true probabilities of sites whose intercepts differ."""
    coefficients = rng.normal(size=5)
    coefficients *= 1.2 / np.linalg.norm(coefficients)
    sites = []
    for _ in range(n_sites):
        X = rng.normal(size=(n_rows, 5)) + 0.3 * rng.normal(size=5)
        sites.append((X, expit(intercept + deviation * rng.normal() + X @ coefficients)))
    return sites


def fit_sites(rng, sites):
    """An ensemble fitted to labels that are drawn for these sites."""
    y = np.concatenate([rng.random(len(truth)) < truth for _, truth in sites]).astype(int)
    domain = np.repeat(np.arange(len(sites)), [len(truth) for _, truth in sites])
    model = UnseenClassifier(["logistic", "random forest"])
    return model.fit(np.concatenate([X for X, _ in sites]), y, sample_domain=domain)


def slope_at_new_sites(model, sites):
    """Slope of true probabilities on the log odds of predicted ones, with an intercept for each site."""
    log_odds = []
    for X, _ in sites:
        P = model.predict_proba(X)
        log_odds.append(np.log(P[:, 1] / P[:, 0]))

    def loss(parameters):
        logits = np.array([parameters[0] * x + shift for x, shift in zip(log_odds, parameters[1:], strict=True)])
        truth = np.array([probabilities for _, probabilities in sites])
        return -np.mean(truth * log_expit(logits) + (1 - truth) * log_expit(-logits))

    return minimize(loss, np.concatenate([[1.0], np.zeros(len(sites))])).x[0]


def loss_at_new_sites(model, sites):
    """Expected log loss, given the true probabilities."""
    losses = []
    for X, truth in sites:
        P = np.log(model.predict_proba(X))
        losses.append(-np.mean(truth * P[:, 1] + (1 - truth) * P[:, 0]))
    return np.mean(losses)


@pytest.mark.slow
@pytest.mark.parametrize("n_sites", [3, 5])
def test_slopes_at_new_sites_are_near_one_and_probabilities_are_better_than_without_the_last_step(n_sites):
    slopes = []
    gains = []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        sites = make_sites(rng, n_sites + 20, 150, intercept=(-1.5, 0.0, -0.75)[seed % 3])
        model = fit_sites(rng, sites[:n_sites])
        slopes.append(slope_at_new_sites(model, sites[n_sites:]))
        loss = loss_at_new_sites(model, sites[n_sites:])
        model.best_estimator_.set_params(inverse_temperature=1.0, calibration_offsets=None)
        gains.append(loss_at_new_sites(model, sites[n_sites:]) - loss)
    assert 0.9 < np.mean(slopes) < 1.12
    assert np.mean(gains) > 0
    assert np.min(gains) > -0.01  # a fit to three sites may be a little worse by chance
