"""Performance of predicted probabilities: discrimination, calibration, Brier score, log loss, needed sample size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, log_expit, logit, ndtri, xlogy
from scipy.stats import rankdata

from ._meta_analysis import CONTINUITY, IDENTITY, POSITIVE, SHARE, Array, Estimate, Outcomes, Scale, check_predictions

# Probabilities of 0 and 1 have no logit: they are moved inwards by this much, to a logit of 16.
CLOSEST_PROBABILITY = 1e-7
UP_TO_ONE = Scale(-np.inf, 1.0)
MOST_STEPS = 100  # Newton steps; ordinary problems take fewer than 10
STEP_TOLERANCE = 1e-10  # of the Newton decrement
LARGEST_STEP = 10.0  # of the logits in one Newton step, with a penalty
# Ranks of knots of a restricted cubic spline, as Harrell recommends (Regression Modeling Strategies, table 2.3).
KNOT_RANKS: dict[int, tuple[float, ...]] = {2: (), 3: (0.1, 0.5, 0.9), 4: (0.05, 0.35, 0.65, 0.95)}
ROWS_PER_KNOT = 10  # rows of the rarer outcome that a spline needs for each knot
SHRINKAGE = 0.9  # smallest acceptable factor by which effects must be shrunk
OPTIMISM = 0.05  # largest acceptable optimism in the share of the highest attainable R2
INTERCEPT_MARGIN = 0.05  # largest acceptable error of the overall risk


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


def auc(y_true: ArrayLike, scores: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Area under the ROC curve (c-statistic), with DeLong's standard error and a logit interval.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    scores : array-like of shape (n_rows,)
        Scores that are higher where the event is more likely; only their order counts.
    level : float, default=0.95
        Nominal coverage of the interval.

    Returns
    -------
    Estimate
        On the logit scale for meta-analysis. Not defined (NaN) if all rows have the same outcome.

    Notes
    -----
    DeLong's variance is computed from ranks in O(n log n) [1]_ [2]_. It is 0 for an AUC of 0 or 1, and not defined if a
    class has a single row. There the variance is Newcombe's [3]_ (method 4), expressed as an effective number of rows,
    and the AUC on the logit scale is that with half a success and half a failure more.

    References
    ----------
    .. [1] DeLong, DeLong and Clarke-Pearson (1988), Comparing the areas under two or more correlated receiver operating
       characteristic curves: A nonparametric approach, Biometrics 44:837-845.
    .. [2] Sun and Xu (2014), Fast implementation of DeLong's algorithm for comparing the areas under correlated
       receiver operating characteristic curves, IEEE Signal Processing Letters 21:1389-1393.
    .. [3] Newcombe (2006), Confidence intervals for an effect size measure based on the Mann-Whitney statistic, part 2,
       Statistics in Medicine 25:559-573.

    Examples
    --------
    >>> from unseen.metrics import auc
    >>> result = auc([0, 0, 1, 0, 1, 1, 0, 1], [0.1, 0.3, 0.35, 0.4, 0.6, 0.7, 0.2, 0.9])
    >>> round(result.value, 4), round(result.se, 4), [round(end, 2) for end in result.interval]
    (0.9375, 0.0884, [0.44, 1.0])
    """
    y, s = check_predictions(y_true, scores, level, "scores")
    n_events, n_others = int(y.sum()), int((~y).sum())
    if n_events == 0 or n_others == 0:
        return Estimate.make_undefined(SHARE)
    # Equation 13: the share of rows of the other class that a row exceeds, with one half for ties.
    ranks = rankdata(s)
    above_others = (ranks[y] - rankdata(s[y])) / n_others
    below_events = 1 - (ranks[~y] - rankdata(s[~y])) / n_events
    value = float(above_others.mean())
    if 0 < value < 1 and min(n_events, n_others) > 1:
        variance = float(np.var(above_others, ddof=1) / n_events + np.var(below_events, ddof=1) / n_others)
        if variance > 0:
            return Estimate.from_value(value, float(np.sqrt(variance)), SHARE, level)
    # The effective number of rows: A (1 - A) divided by Newcombe's variance of an AUC of A.
    half = (n_events + n_others) / 2 - 1
    size = n_events * n_others / (1 + half * (1 - value) / (2 - value) + half * value / (1 + value))
    share = (size * value + CONTINUITY) / (size + 2 * CONTINUITY)
    unit = share * (1 - share)
    se = float(np.sqrt(unit / size))
    return Estimate.from_scaled(value, se, SHARE, float(logit(share)), float(1 / np.sqrt(size * unit)), level)


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
    y, offset = _outcomes_and_logits(y_true, probabilities, level)
    fit = _fit_logistic(np.ones((len(y), 1)), y, offset, penalize=bool(y.all() or not y.any()))
    return _last_coefficient(fit, level)


def calibration_slope(y_true: ArrayLike, probabilities: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Slope of a logistic model on the logit of the predicted probability.

    1 for calibrated probabilities; below 1 if they are too extreme.

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
        Not defined (NaN) if all rows have the same outcome or the same probability. Where the probabilities separate
        the outcomes, which gives an infinite slope, Firth's penalized likelihood is maximized [1]_; where that has no
        maximum at finite slopes, as for a few rows with nearly equal probabilities, it is not defined either.

    References
    ----------
    .. [1] Heinze and Schemper (2002), A solution to the problem of separation in logistic regression, Statistics in
       Medicine 21:2409-2419.

    Examples
    --------
    >>> from unseen.metrics import calibration_slope
    >>> result = calibration_slope([0, 1, 0, 1, 0, 1], [0.2, 0.4, 0.5, 0.7, 0.3, 0.6])
    >>> round(result.value, 3)
    2.895
    """
    y, x = _outcomes_and_logits(y_true, probabilities, level)
    if y.all() or not y.any() or np.ptp(x) == 0:
        return Estimate.make_undefined()
    # With one predictor the outcomes are separated if and only if their ranges share at most one point.
    is_separated = bool(x[~y].max() <= x[y].min() or x[y].max() <= x[~y].min())
    try:
        fit = _fit_logistic(np.column_stack([np.ones_like(x), x]), y, np.zeros_like(x), penalize=is_separated)
    except np.linalg.LinAlgError:
        return Estimate.make_undefined()
    return _last_coefficient(fit, level)


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
    y, p = check_predictions(y_true, probabilities, level)
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
    y, p = check_predictions(y_true, probabilities, level)
    squares = (p - y) ** 2
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
    y, p = check_predictions(y_true, probabilities, level)
    squares = (p - y) ** 2
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
    labels = np.asarray(y_true)
    columns = np.asarray(probabilities, dtype=np.float64)
    if columns.shape != (len(labels), len(classes)):
        raise ValueError(
            f"probabilities has shape {columns.shape}, but there are {len(labels)} rows and {len(classes)} classes. "
            "Give one column per class."
        )
    is_class, p = check_predictions(np.ravel([labels == name for name in classes]), columns.T.ravel(), level)
    of_true_class = (is_class * p).reshape(len(classes), -1).sum(axis=0)
    losses = -np.log(np.maximum(of_true_class, CLOSEST_PROBABILITY))
    return Estimate.from_value(float(losses.mean()), _standard_error(losses), POSITIVE, level)


def calibration_curve(
    y_true: ArrayLike,
    probabilities: ArrayLike,
    *,
    n_points: int = 100,
    level: float = 0.95,
) -> CalibrationCurve:
    """Smooth calibration curve: a restricted cubic spline on the logit of the predicted probability.

    It has up to 4 knots: as many as leave 10 rows of the rarer outcome for each. With 2 it is a straight line.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event.
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
    >>> curve.n_knots, curve.predicted.shape
    (4, (100,))
    """
    y, x = _outcomes_and_logits(y_true, probabilities, level)
    grid = np.linspace(x.min(), x.max(), n_points)
    rarer = int(min(y.sum(), (~y).sum()))
    if rarer == 0 or np.ptp(x) == 0:
        undefined = np.full(n_points, np.nan)
        return CalibrationCurve(expit(grid), undefined, undefined, undefined, 0)
    ranks = KNOT_RANKS[min(max(rarer // ROWS_PER_KNOT, 2), 4)]
    knots = np.unique(np.quantile(x, ranks))
    if len(knots) < 3:
        knots = np.array([])
    coefficients, covariance = _fit_logistic(_spline_basis(x, knots), y, np.zeros_like(x), penalize=False)
    basis = _spline_basis(grid, knots)
    center = basis @ coefficients
    spread = np.sqrt(np.einsum("ij,jk,ik->i", basis, covariance, basis))
    reach = float(ndtri((1 + level) / 2)) * spread
    return CalibrationCurve(
        expit(grid), expit(center), expit(center - reach), expit(center + reach), max(len(knots), 2)
    )


def _outcomes_and_logits(y_true: ArrayLike, probabilities: ArrayLike, level: float) -> tuple[Outcomes, Array]:
    y, p = check_predictions(y_true, probabilities, level)
    return y, logit(np.clip(p, CLOSEST_PROBABILITY, 1 - CLOSEST_PROBABILITY))


def _last_coefficient(fit: tuple[Array, Array], level: float) -> Estimate:
    coefficients, covariance = fit
    return Estimate.from_value(float(coefficients[-1]), float(np.sqrt(covariance[-1, -1])), IDENTITY, level)


def _standard_error(values: Array) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def _spline_basis(x: Array, knots: Array) -> Array:
    """Restricted cubic spline, linear beyond the outer knots (equation 16); without knots, a straight line."""
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


def _fit_logistic(X: Array, y: Outcomes, offset: Array, *, penalize: bool) -> tuple[Array, Array]:
    """Coefficients and covariance of a logistic regression, by Newton's method with step halving.

    Firth's penalty is used on request, or where the method diverges.
    """
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
            # Equation 15: half the logarithm of the determinant of the information, and its derivative.
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
    return beta, cho_solve(factor, np.eye(len(beta)))


@dataclass(frozen=True)
class DevelopmentSize:
    """Rows that the development of a model needs.

    Attributes
    ----------
    n_rows : float
        Rows for an expected shrinkage of 0.9, an optimism of at most 0.05 in R2, and a margin of error of at most 0.05
        in the overall risk.
    r2 : float
        Cox and Snell's R2 on which the number is based.
    n_parameters : int
        Number of predictor parameters.
    """

    n_rows: float
    r2: float
    n_parameters: int


def development_size(y_true: ArrayLike, probabilities: ArrayLike, n_parameters: int) -> DevelopmentSize | None:
    """Rows that a model with a binary outcome needs for its development, by the criteria of Riley et al.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event on rows that the model was not fitted to, from which R2 is estimated.
    n_parameters : int
        Number of predictor parameters of the model: one for a number, the number of levels minus one for a category.

    Returns
    -------
    DevelopmentSize or None
        None if the predictions are not better than the prevalence, or if all rows have the same outcome.

    References
    ----------
    .. [1] Riley et al. (2020), Calculating the sample size required for developing a clinical prediction model, BMJ
       368:m441.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.metrics import development_size
    >>> p = np.linspace(0.05, 0.95, 200)
    >>> size = development_size(np.random.default_rng(1).random(200) < p, p, 10)
    >>> round(size.r2, 2), round(size.n_rows)
    (0.28, 384)
    """
    y, p = check_predictions(y_true, probabilities)
    prevalence = float(y.mean())
    null = float(xlogy(prevalence, prevalence) + xlogy(1 - prevalence, 1 - prevalence))
    likelihood = float(np.mean(xlogy(y, p) + xlogy(~y, 1 - p)))
    r2 = 1 - np.exp(2 * (null - likelihood))
    if not 0 < r2 < 1 or null == 0:
        return None
    highest = 1 - np.exp(2 * null)
    n_rows = (float(ndtri(0.975)) / INTERCEPT_MARGIN) ** 2 * prevalence * (1 - prevalence)
    for shrinkage in (SHRINKAGE, r2 / (r2 + OPTIMISM * highest)):
        if r2 < shrinkage:
            n_rows = max(n_rows, n_parameters / ((shrinkage - 1) * np.log(1 - r2 / shrinkage)))
    return DevelopmentSize(float(n_rows), float(r2), n_parameters)
