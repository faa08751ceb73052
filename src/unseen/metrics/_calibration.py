"""Calibration of predicted probabilities: in the large, slope, ratio, curve, and the Brier score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, log_expit, logit, ndtri

from ._discrimination import check_columns
from ._estimates import (
    IDENTITY,
    POSITIVE,
    SHARE,
    Array,
    Estimate,
    Outcomes,
    Scale,
    check_outcomes,
    check_probabilities,
)
from ._meta_analysis import check_level

# Probabilities of 0 and 1 have no logit: they are moved inwards by this much, to a logit of 16.
CLOSEST_PROBABILITY = 1e-7
UP_TO_ONE = Scale(-np.inf, 1.0)
CONTINUITY = 0.5  # events that are added where none occurred
MOST_STEPS = 100  # Newton steps; ordinary problems take fewer than 10
STEP_TOLERANCE = 1e-10  # of the Newton decrement
LARGEST_STEP = 10.0  # of the logits in one Newton step, with a penalty
# Ranks of knots of a restricted cubic spline, as Harrell recommends (Regression Modeling Strategies, table 2.3).
KNOT_RANKS = {3: (0.1, 0.5, 0.9), 4: (0.05, 0.35, 0.65, 0.95), 5: (0.05, 0.275, 0.5, 0.725, 0.95)}
ROWS_PER_KNOT = 10  # rows of the rarer outcome that a spline needs for each knot


@dataclass(frozen=True)
class CalibrationFit:
    """Logistic recalibration: logit P(y = 1) = intercept + slope * logit(p).

    Attributes
    ----------
    slope : Estimate
        1 for calibrated probabilities; below 1 if they are too extreme.
    intercept : Estimate
        Intercept at that slope.
    is_penalized : bool
        Whether Firth's penalty was used, because the probabilities separate the outcomes.
    """

    slope: Estimate
    intercept: Estimate
    is_penalized: bool = False


@dataclass(frozen=True)
class CalibrationCurve:
    """Smooth curve of observed against predicted probabilities.

    Attributes
    ----------
    predicted : ndarray of shape (n_points,)
        Increasing predicted probabilities.
    observed : ndarray of shape (n_points,)
        Estimated frequency of the event at these.
    low, high : ndarray of shape (n_points,)
        Pointwise confidence interval.
    n_knots : int
        Knots of the spline; 2 means that the curve is a straight line on the logit scale.
    """

    predicted: Array
    observed: Array
    low: Array
    high: Array
    n_knots: int


@dataclass(frozen=True)
class ClassCalibration:
    """Calibration of the probabilities of one class against all others."""

    in_the_large: Estimate
    fit: CalibrationFit
    observed_expected: Estimate


@dataclass(frozen=True)
class _LogisticFit:
    coefficients: Array
    covariance: Array
    is_penalized: bool


def calibration_in_the_large(y_true: ArrayLike, probabilities: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Intercept of a logistic model with the logit of the predicted probability as an offset.

    0 for probabilities that are right on average; positive if events are more frequent than predicted.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event.
    level : float, default=0.95
        Nominal coverage of the interval.

    Returns
    -------
    Estimate
        If all rows have the same outcome, where no maximum of the likelihood exists, it is the estimate with Firth's
        penalty.

    Examples
    --------
    >>> from unseen.metrics import calibration_in_the_large
    >>> result = calibration_in_the_large([0, 0, 1, 1, 0, 1], [0.2, 0.4, 0.5, 0.7, 0.3, 0.6])
    >>> round(result.value, 3), round(result.se, 3)
    (0.228, 0.87)
    """
    check_level(level)
    y, offset = _outcomes_and_logits(y_true, probabilities)
    fit = _fit_logistic(np.ones((len(y), 1)), y, offset, penalize=bool(y.all() or not y.any()))
    return _identity_estimate(fit, 0, level)


def calibration_slope(y_true: ArrayLike, probabilities: ArrayLike, *, level: float = 0.95) -> CalibrationFit:
    """Slope and intercept of a logistic model on the logit of the predicted probability.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event.
    level : float, default=0.95
        Nominal coverage of the intervals.

    Returns
    -------
    CalibrationFit
        Not defined (NaN) if all rows have the same outcome or the same probability. Where the probabilities separate
        the outcomes, which gives an infinite slope, Firth's penalized likelihood is maximized [1]_.

    References
    ----------
    .. [1] Heinze and Schemper (2002), A solution to the problem of separation in logistic regression, Statistics in
       Medicine 21:2409-2419.

    Examples
    --------
    >>> from unseen.metrics import calibration_slope
    >>> result = calibration_slope([0, 1, 0, 1, 0, 1], [0.2, 0.4, 0.5, 0.7, 0.3, 0.6])
    >>> round(result.slope.value, 3), result.is_penalized
    (2.895, False)
    """
    check_level(level)
    y, x = _outcomes_and_logits(y_true, probabilities)
    if y.all() or not y.any() or np.ptp(x) == 0:
        return CalibrationFit(Estimate.make_undefined(), Estimate.make_undefined())
    # With one predictor the outcomes are separated if and only if their ranges share at most one point.
    is_separated = bool(x[~y].max() <= x[y].min() or x[y].max() <= x[~y].min())
    fit = _fit_logistic(np.column_stack([np.ones_like(x), x]), y, np.zeros_like(x), penalize=is_separated)
    return CalibrationFit(_identity_estimate(fit, 1, level), _identity_estimate(fit, 0, level), fit.is_penalized)


def observed_expected_ratio(y_true: ArrayLike, probabilities: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Number of events, divided by the sum of predicted probabilities.

    The standard error of its logarithm is the binomial one, sqrt((1 - O/n) / O) [1]_. Without events, or without other
    rows, half an event (or half a row of the other outcome) is added for the logarithm.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event.
    level : float, default=0.95
        Nominal coverage of the interval.

    Returns
    -------
    Estimate
        With counts for a Poisson model over domains.

    References
    ----------
    .. [1] Debray et al. (2017), A guide to systematic review and meta-analysis of prediction model performance, BMJ
       356:i6460.

    Examples
    --------
    >>> from unseen.metrics import observed_expected_ratio
    >>> result = observed_expected_ratio([0, 0, 1, 1, 0, 1], [0.2, 0.4, 0.5, 0.7, 0.3, 0.6])
    >>> round(result.value, 3), round(result.scaled_se, 3)
    (1.111, 0.408)
    """
    check_level(level)
    y = check_outcomes(y_true)
    p = check_probabilities("probabilities", probabilities, len(y))
    expected = float(p.sum())
    if expected == 0:
        return Estimate.make_undefined(POSITIVE, (0.0, 0.0))
    n, observed = len(y), float(y.sum())
    value = observed / expected
    corrected = min(max(observed, CONTINUITY), n - CONTINUITY)
    scaled_se = float(np.sqrt((1 - corrected / n) / corrected))
    # All rows being events is a ratio without correction; only its standard error needs one.
    scaled_value = float(np.log(max(observed, CONTINUITY) / expected))
    # The variance of a number of events among n rows is smaller than that of a Poisson distribution. Counts are divided
    # by the ratio of both, so that the Poisson model has the right variance.
    ratio = 1 - (observed + CONTINUITY) / (n + 2 * CONTINUITY)
    counts = observed / ratio, expected / ratio
    return Estimate.from_scaled(value, value * scaled_se, POSITIVE, scaled_value, scaled_se, level, counts)


def brier_score(y_true: ArrayLike, probabilities: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Mean squared difference between predicted probability and outcome.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event.
    level : float, default=0.95
        Nominal coverage of the interval.

    Returns
    -------
    Estimate
        On the logit scale for meta-analysis; there it is not defined for a score of 0 or 1.

    Examples
    --------
    >>> from unseen.metrics import brier_score
    >>> round(brier_score([0, 1, 1, 0], [0.2, 0.6, 0.9, 0.3]).value, 4)
    0.075
    """
    check_level(level)
    y = check_outcomes(y_true)
    squares = (check_probabilities("probabilities", probabilities, len(y)) - y) ** 2
    return Estimate.from_value(float(squares.mean()), _standard_error(squares), SHARE, level)


def scaled_brier_score(y_true: ArrayLike, probabilities: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Index of prediction accuracy: 1 minus the Brier score over that of the prevalence.

    0 for predictions that are as good as the prevalence of the same rows, 1 for perfect ones, negative for worse ones
    [1]_. The standard error follows from the influence of each row on both Brier scores.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event.
    level : float, default=0.95
        Nominal coverage of the interval.

    Returns
    -------
    Estimate
        On the scale log(1 - score), since it is at most 1. Not defined (NaN) if all rows have the same outcome.

    References
    ----------
    .. [1] Kattan and Gerds (2018), The index of prediction accuracy: An intuitive measure useful for evaluating risk
       prediction models, Diagnostic and Prognostic Research 2:7.

    Examples
    --------
    >>> from unseen.metrics import scaled_brier_score
    >>> round(scaled_brier_score([0, 1, 1, 0], [0.2, 0.6, 0.9, 0.3]).value, 4)
    0.7
    """
    check_level(level)
    y = check_outcomes(y_true)
    squares = (check_probabilities("probabilities", probabilities, len(y)) - y) ** 2
    prevalence = float(y.mean())
    baseline = prevalence * (1 - prevalence)
    if baseline == 0:
        return Estimate.make_undefined(UP_TO_ONE)
    score = float(squares.mean())
    value = 1 - score / baseline
    influence = (1 - 2 * prevalence) * (y - prevalence) * score / baseline**2 - (squares - score) / baseline
    return Estimate.from_value(value, _standard_error(influence), UP_TO_ONE, level)


def log_loss(y_true: ArrayLike, probabilities: ArrayLike, classes: Sequence[Any], *, level: float = 0.95) -> Estimate:
    """Mean of minus the logarithm of the probability that was predicted for the true class.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Class of each row.
    probabilities : array-like of shape (n_rows, n_classes)
        Predicted probabilities, one column per class.
    classes : sequence
        Classes in the order of the columns. Rows of other classes have the probability 0.
    level : float, default=0.95
        Nominal coverage of the interval.

    Returns
    -------
    Estimate
        On the logarithmic scale for meta-analysis; there it is not defined for a loss of 0. Probabilities below 1e-7
        count as 1e-7.

    Examples
    --------
    >>> from unseen.metrics import log_loss
    >>> P = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]
    >>> round(log_loss(list("abca"), P, list("abc")).value, 4)
    0.6526
    """
    check_level(level)
    labels = np.asarray(y_true)
    columns = np.asarray(probabilities, dtype=np.float64)
    check_columns(columns, len(labels), len(classes))
    of_true_class = np.zeros(len(labels))
    for j, name in enumerate(classes):
        is_class = labels == name
        of_true_class[is_class] = check_probabilities("probabilities", columns[:, j], len(labels))[is_class]
    losses = -np.log(np.maximum(of_true_class, CLOSEST_PROBABILITY))
    return Estimate.from_value(float(losses.mean()), _standard_error(losses), POSITIVE, level)


def calibration_curve(
    y_true: ArrayLike,
    probabilities: ArrayLike,
    *,
    n_knots: int | None = None,
    n_points: int = 100,
    level: float = 0.95,
) -> CalibrationCurve:
    """Smooth calibration curve: a restricted cubic spline on the logit of the predicted probability.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event.
    n_knots : int, default=None
        2 (a straight line on the logit scale), 3, 4 or 5. None takes up to 4: as many as leave 10 rows of the rarer
        outcome for each knot.
    n_points : int, default=100
        Points of the curve, between the smallest and the largest predicted probability.
    level : float, default=0.95
        Nominal coverage of the pointwise interval.

    Returns
    -------
    CalibrationCurve
        With NaN where no curve can be fitted: all rows have the same outcome or the same probability.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.metrics import calibration_curve
    >>> p = np.linspace(0.05, 0.95, 200)
    >>> curve = calibration_curve(np.random.default_rng(1).random(200) < p, p)
    >>> curve.n_knots, bool(np.mean((curve.low < curve.predicted) & (curve.predicted < curve.high)) > 0.9)
    (4, True)
    """
    check_level(level)
    y, x = _outcomes_and_logits(y_true, probabilities)
    if n_knots is not None and n_knots != 2 and n_knots not in KNOT_RANKS:
        raise ValueError(f"n_knots={n_knots!r} is not allowed. Use 2, 3, 4, 5 or None.")
    grid = np.linspace(x.min(), x.max(), n_points)
    rarer = int(min(y.sum(), (~y).sum()))
    if rarer == 0 or np.ptp(x) == 0:
        undefined = np.full(n_points, np.nan)
        return CalibrationCurve(expit(grid), undefined, undefined, undefined, 0)
    if n_knots is None:
        n_knots = int(np.clip(rarer // ROWS_PER_KNOT, 2, 4))
    knots = np.unique(np.quantile(x, KNOT_RANKS[n_knots])) if n_knots > 2 else np.array([])
    if len(knots) < 3:
        knots = np.array([])
    fit = _fit_logistic(_spline_basis(x, knots), y, np.zeros_like(x), penalize=False)
    basis = _spline_basis(grid, knots)
    center = basis @ fit.coefficients
    spread = np.sqrt(np.einsum("ij,jk,ik->i", basis, fit.covariance, basis))
    reach = float(ndtri((1 + level) / 2)) * spread
    return CalibrationCurve(
        expit(grid), expit(center), expit(center - reach), expit(center + reach), max(len(knots), 2)
    )


def class_calibration(
    y_true: ArrayLike, probabilities: ArrayLike, classes: Sequence[Any], *, level: float = 0.95
) -> dict[Any, ClassCalibration]:
    """Calibration of each class against all others.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Class of each row.
    probabilities : array-like of shape (n_rows, n_classes)
        Predicted probabilities, one column per class.
    classes : sequence
        Classes in the order of the columns.
    level : float, default=0.95
        Nominal coverage of the intervals.

    Returns
    -------
    dict
        From class to :class:`ClassCalibration`.

    Examples
    --------
    >>> from unseen.metrics import class_calibration
    >>> P = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]
    >>> result = class_calibration(list("abca"), P, list("abc"))
    >>> round(result["a"].observed_expected.value, 2)
    1.54
    """
    labels = np.asarray(y_true)
    columns = np.asarray(probabilities, dtype=np.float64)
    check_columns(columns, len(labels), len(classes))
    result = {}
    for j, name in enumerate(classes):
        own, p = labels == name, columns[:, j]
        result[name] = ClassCalibration(
            calibration_in_the_large(own, p, level=level),
            calibration_slope(own, p, level=level),
            observed_expected_ratio(own, p, level=level),
        )
    return result


def _outcomes_and_logits(y_true: ArrayLike, probabilities: ArrayLike) -> tuple[Outcomes, Array]:
    y = check_outcomes(y_true)
    p = check_probabilities("probabilities", probabilities, len(y))
    return y, logit(np.clip(p, CLOSEST_PROBABILITY, 1 - CLOSEST_PROBABILITY))


def _identity_estimate(fit: _LogisticFit, position: int, level: float) -> Estimate:
    value = float(fit.coefficients[position])
    se = float(np.sqrt(fit.covariance[position, position]))
    return Estimate.from_value(value, se, IDENTITY, level)


def _standard_error(values: Array) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def _spline_basis(x: Array, knots: Array) -> Array:
    """Restricted cubic spline, linear beyond the outer knots (equation 17); without knots, a straight line."""
    columns = [np.ones_like(x), x]
    if len(knots):
        last, width = knots[-1], (knots[-1] - knots[0]) ** 2
        second = knots[-2]
        for knot in knots[:-2]:
            cubic = np.maximum(x - knot, 0) ** 3
            cubic = cubic - np.maximum(x - second, 0) ** 3 * (last - knot) / (last - second)
            cubic = cubic + np.maximum(x - last, 0) ** 3 * (second - knot) / (last - second)
            columns.append(cubic / width)
    return np.column_stack(columns)


def _fit_logistic(X: Array, y: Outcomes, offset: Array, *, penalize: bool) -> _LogisticFit:
    """Logistic regression by Newton's method with step halving; Firth's penalty on request or where it diverges."""
    beta = np.zeros(X.shape[1])
    signs = np.where(y, 1.0, -1.0)

    def evaluate(beta: Array) -> tuple[float, Array, Any]:
        eta = offset + X @ beta
        p = expit(eta)
        w = p * expit(-eta)
        information = X.T @ (w[:, None] * X)
        factor = cho_factor(information)
        value = float(log_expit(signs * eta).sum())
        residual = y - p
        if penalize:
            # Equation 16: half the logarithm of the determinant of the information, and its derivative.
            value += float(np.log(np.diag(factor[0])).sum())
            leverage = w * np.einsum("ij,ji->i", X, cho_solve(factor, X.T))
            residual = residual + leverage * (0.5 - p)
        return value, X.T @ residual, factor

    try:
        value, gradient, factor = evaluate(beta)
        for _ in range(MOST_STEPS):
            step = cho_solve(factor, gradient)
            decrement = float(gradient @ step)
            if decrement <= STEP_TOLERANCE**2:
                break
            length = 1.0
            if penalize:
                # The maximum is not far away, but the information is tiny where all probabilities are near 0 or 1.
                length = min(1.0, LARGEST_STEP / float(np.abs(X @ step).max()))
            while True:
                candidate = evaluate(beta + length * step)
                if candidate[0] >= value - 1e-12 * abs(value) or length < 1e-8:
                    break
                length /= 2
            slope = float(candidate[1] @ step)
            if penalize and slope < -0.5 * decrement:
                # With few rows the penalty has as much curvature as the likelihood, which the information matrix leaves
                # out, so that steps overshoot and alternate. A secant step between both ends meets the maximum.
                length *= decrement / (decrement - slope)
                candidate = evaluate(beta + length * step)
            beta = beta + length * step
            value, gradient, factor = candidate
        else:
            raise np.linalg.LinAlgError("Newton's method did not converge.")
    except np.linalg.LinAlgError:
        if penalize:
            raise
        return _fit_logistic(X, y, offset, penalize=True)
    return _LogisticFit(beta, cho_solve(factor, np.eye(len(beta))), penalize)
