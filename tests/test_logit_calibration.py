"""The last calibration of an ensemble: a slope with random intercepts of domains, and class offsets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from unseen.model_selection import _ensemble_math as calibration
from unseen.model_selection._ensemble_math import IDENTITY, LogitCalibration, fit_logit_calibration, softmax


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


def negative_log_posterior(parameters, P, codes, deviation, contrasts):
    """The penalized loss of slope, offsets and intercepts, term by term."""
    q = contrasts.shape[1]
    shared = parameters[: 1 + q]
    intercepts = parameters[1 + q :].reshape(len(P), q) if deviation else np.zeros((len(P), q))
    loss = 0.5 * (shared[0] / calibration.LOG_SLOPE_PRIOR) ** 2
    loss += 0.5 * np.sum((shared[1:] / calibration.OFFSET_PRIOR) ** 2)
    if deviation:
        loss += 0.5 * np.sum((intercepts / deviation) ** 2)
    for p, c, intercept in zip(P, codes, intercepts, strict=True):
        scores = log_softmax(np.exp(shared[0]) * np.log(p) + contrasts @ (shared[1:] + intercept), axis=1)
        weight = min(1, calibration.MAX_EFFECTIVE_ROWS / len(c))
        loss -= weight * scores[np.arange(len(c)), c].sum()
    return loss


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("deviation", [0.0, 0.4])
def test_parameters_minimize_the_penalized_loss(n_classes, deviation):
    P, codes = make_world(5, 150, n_classes, slope=1.4, deviation=0.5)
    rows = calibration._CalibrationRows.from_predictions(P, codes, None).limited()
    fit = calibration._fit_intercepts(rows, deviation)
    contrasts = rows.contrasts
    start = np.zeros(n_classes + (len(P) * (n_classes - 1) if deviation else 0))
    arguments = (P, codes, deviation, contrasts)
    expected = minimize(negative_log_posterior, start, arguments, method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(fit.shared, expected.x[:n_classes], atol=1e-5)
    if deviation:
        np.testing.assert_allclose(fit.intercepts.ravel(), expected.x[n_classes:], atol=1e-5)


def test_the_evidence_of_intercepts_is_their_integrated_likelihood():
    """Laplace's approximation, at the parameters that all domains share, against an integral on a grid."""
    P, codes = make_world(6, 60, slope=1.3, deviation=0.8)
    rows = calibration._CalibrationRows.from_predictions(P, codes, None).limited()
    grid = np.linspace(-6, 6, 4001)
    for deviation in (0.2, 0.8):
        fit = calibration._fit_intercepts(rows, deviation)
        expected = -0.5 * (deviation / calibration.INTERCEPT_PRIOR) ** 2
        expected -= 0.5 * (fit.shared[0] / calibration.LOG_SLOPE_PRIOR) ** 2
        expected -= 0.5 * (fit.shared[1] / calibration.OFFSET_PRIOR) ** 2
        for p, c in zip(P, codes, strict=True):
            direction = rows.contrasts[1, 0] - rows.contrasts[0, 0]
            margin = np.exp(fit.shared[0]) * np.log(p[:, 1] / p[:, 0])
            logits = margin[:, None] + direction * (fit.shared[1] + grid)
            log_likelihood = -np.logaddexp(0, np.where(c == 1, -1, 1)[:, None] * logits).sum(axis=0)
            density = np.exp(log_likelihood - 0.5 * (grid / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
            expected += np.log(np.trapezoid(density, grid))
        assert fit.log_evidence == pytest.approx(expected, abs=0.05)


def test_without_differences_between_domains_it_is_ordinary_logistic_calibration():
    P, codes = make_world(20, 100, slope=1.5, offsets=np.array([0.2, -0.2]))
    fit = fit_logit_calibration(P, codes)
    margins = np.concatenate([np.log(p[:, 1] / p[:, 0]) for p in P])
    ordinary = LogisticRegression(C=np.inf).fit(margins[:, None], np.concatenate(codes))
    assert fit.slope == pytest.approx(ordinary.coef_[0, 0], rel=0.02)
    assert fit.offsets[1] - fit.offsets[0] == pytest.approx(ordinary.intercept_[0], abs=0.03)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_differences_between_domains_do_not_flatten_the_slope(n_classes):
    slopes = []
    pooled = []
    for seed in range(6):
        P, codes = make_world(6, 200, n_classes, deviation=1.5, seed=seed)
        slopes.append(fit_logit_calibration(P, codes).slope)
        pooled.append(calibration.fit_temperature([np.log(p) for p in P], codes))
    assert np.mean(pooled) < 0.85
    assert np.mean(slopes) == pytest.approx(1, abs=0.1)


def test_predicted_frequencies_of_a_rare_class_become_the_observed_ones():
    P, codes = make_world(10, 2000, offsets=np.array([2.0, -2.0]), deviation=0.3)
    flat = [calibration.apply_inverse_temperature(calibration.adjust_priors(p, np.array([8.0, 1.0])), 0.7) for p in P]
    fit = fit_logit_calibration(flat, codes)
    expected = np.concatenate([fit.apply(p)[:, 1] for p in flat]).mean()
    assert np.concatenate(codes).mean() / expected == pytest.approx(1, abs=0.02)
    assert np.concatenate(codes).mean() / np.concatenate(flat)[:, 1].mean() < 0.95


def test_one_domain_separated_domains_and_absent_classes_have_finite_results():
    P, codes = make_world(3, 100, 3)
    for parts, labels in (
        ([P[0]], [codes[0]]),
        ([np.where(np.arange(3) == c[:, None], 0.9, 0.05) for c in codes], codes),
        (P, [np.minimum(codes[0], 1), codes[1], codes[2]]),
        (P, [np.zeros(100, dtype=int)] * 3),
    ):
        fit = fit_logit_calibration(parts, labels)
        assert 0.1 < fit.slope < 10
        assert fit.offsets is None or np.abs(fit.offsets).max() < 3


def test_rows_of_classes_without_probability_are_left_out():
    P, codes = make_world(3, 80, 2)
    more = [np.column_stack([p, np.zeros(len(p))]) for p in P]
    fit = fit_logit_calibration(P, codes)
    with_unknown = [np.where(np.arange(len(c)) < 0, 2, c) for c in codes]
    assert fit_logit_calibration(more, with_unknown).slope == pytest.approx(fit.slope, rel=1e-3)
    assert fit_logit_calibration(more, [np.full(80, 2)] * 3) == IDENTITY
    assert (LogitCalibration(2.0, np.array([0.1, 0.0, -0.1])).apply(more[0])[:, 2] == 0).all()


def test_weights_repeat_rows_and_many_classes_have_a_slope_only():
    P, codes = make_world(4, 40)
    weights = [1.0 + (np.arange(40) % 2) for _ in range(4)]
    repeated = fit_logit_calibration(
        [np.repeat(p, 1 + np.arange(40) % 2, axis=0) for p in P], [np.repeat(c, 1 + np.arange(40) % 2) for c in codes]
    )
    # Weights have a mean of 1, so that they do not add rows.
    assert fit_logit_calibration(P, codes, weights).slope == pytest.approx(repeated.slope, rel=0.1)
    many = make_world(3, 100, calibration.MAX_OFFSET_CLASSES + 1, slope=2.0)
    fit = fit_logit_calibration(*many)
    assert fit.offsets is None
    assert fit.slope > 1.3
