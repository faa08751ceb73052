"""Performance at a decision threshold, net benefit, and the choice of a threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest
from sklearn.metrics import roc_curve

from ._meta_analysis import CONTINUITY, SHARE, Array, Estimate, Scale, check_level, check_predictions

ROUNDING = 1e-12  # of sums of shares
AIMS = "a number between 0 and 1, 'youden', 'sensitivity=0.9', 'specificity=0.9' or 'cost=5:1'"


@dataclass(frozen=True)
class DecisionCurve:
    """Net benefit over a range of thresholds.

    Attributes
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Increasing thresholds.
    model : ndarray of shape (n_thresholds,)
        Net benefit of the model.
    model_se : ndarray of shape (n_thresholds,)
        Its standard error.
    treat_all : ndarray of shape (n_thresholds,)
        Net benefit of treating every row as an event. That of treating none is 0.
    """

    thresholds: Array
    model: Array
    model_se: Array
    treat_all: Array


@dataclass(frozen=True)
class ThresholdChoice:
    """A threshold that was chosen for an aim.

    Attributes
    ----------
    threshold : float
        Rows with at least this probability are classified as events.
    aim : str
        The aim.
    sensitivity, specificity : float
        At that threshold, on the rows that it was chosen on.
    """

    threshold: float
    aim: str
    sensitivity: float
    specificity: float


def share(successes: int, n: int, *, level: float = 0.95) -> Estimate:
    """Share of rows with Wilson's interval, and its counts for a binomial model over domains.

    Parameters
    ----------
    successes : int
        Rows that count.
    n : int
        All rows.
    level : float, default=0.95
        Nominal coverage of the interval.

    Returns
    -------
    Estimate
        Not defined (NaN) without rows.

    References
    ----------
    .. [1] Wilson (1927), Probable inference, the law of succession, and statistical inference, Journal of the American
       Statistical Association 22:209-212.

    Examples
    --------
    >>> from unseen.metrics import share
    >>> result = share(9, 10)
    >>> result.value, [round(end, 3) for end in result.interval]
    (0.9, [0.596, 0.982])
    """
    check_level(level)
    if not 0 <= successes <= n:
        raise ValueError(f"successes={successes!r} is not allowed with n={n!r}. Use a count between 0 and n.")
    if n == 0:
        return Estimate.make_undefined(SHARE, (0.0, 0.0))
    p = successes / n
    ends = binomtest(successes, n).proportion_ci(level, "wilson")
    se = float(np.sqrt(p * (1 - p) / n))
    return Estimate(p, se, (float(ends.low), float(ends.high)), SHARE, counts=(float(successes), float(n)))


def threshold_performance(
    y_true: ArrayLike, probabilities: ArrayLike, threshold: float, *, odds: float | None = None, level: float = 0.95
) -> dict[str, Estimate]:
    """Sensitivity, specificity, predictive values and net benefit at a threshold.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event.
    threshold : float
        Rows with at least this probability are classified as events; between 0 and 1.
    odds : float, default=None
        Weight of a false positive in net benefit: the harm of a false alarm over that of a missed event. None takes the
        odds of the threshold.
    level : float, default=0.95
        Nominal coverage of the intervals.

    Returns
    -------
    dict
        Under "sensitivity", "specificity", "ppv" and "npv" shares with Wilson intervals, not defined (NaN) without
        rows; under "net_benefit" the gain over classifying no row as an event [1]_, (true positives - odds * false
        positives) / rows; under "net_benefit_over_all" the gain over classifying every row so.

    References
    ----------
    .. [1] Vickers and Elkin (2006), Decision curve analysis: A novel method for evaluating prediction models, Medical
       Decision Making 26:565-574.

    Examples
    --------
    >>> from unseen.metrics import threshold_performance
    >>> result = threshold_performance([0, 1, 1, 0, 1], [0.2, 0.6, 0.4, 0.7, 0.9], 0.5)
    >>> [round(result[name].value, 3) for name in ("sensitivity", "specificity", "net_benefit")]
    [0.667, 0.5, 0.2]
    """
    y, p = check_predictions(y_true, probabilities, level)
    _check_thresholds(threshold)
    weight = threshold / (1 - threshold) if odds is None else float(odds)
    if not 0 < weight < np.inf:
        raise ValueError(f"odds={odds!r} is not allowed. Use a positive number: 0.2 if a miss is 5 times as harmful.")
    is_positive = p >= threshold
    tp = int((is_positive & y).sum())
    fp = int((is_positive & ~y).sum())
    tn = int((~is_positive & ~y).sum())
    fn = int((~is_positive & y).sum())
    return {
        "sensitivity": share(tp, tp + fn, level=level),
        "specificity": share(tn, tn + fp, level=level),
        "ppv": share(tp, tp + fp, level=level),
        "npv": share(tn, tn + fn, level=level),
        "net_benefit": _net_benefit(tp, 1.0, fp, weight, len(y), level),
        # Against "all", what counts are the rows that are not flagged: correct ones gain, missed events lose.
        "net_benefit_over_all": _net_benefit(tn, weight, fn, 1.0, len(y), level),
    }


def _check_thresholds(thresholds: ArrayLike) -> None:
    for threshold in np.ravel(thresholds).tolist():
        if not 0 < threshold < 1:
            raise ValueError(f"threshold={threshold!r} is not allowed. Use numbers between 0 and 1, without the ends.")


def _mean_and_variance(n_gains: Any, gain: Any, n_losses: Any, loss: Any, n: int) -> tuple[Any, Any]:
    """Mean over n rows of which some gain, some lose and the others contribute 0, and the variance of a row."""
    mean = np.clip((gain * n_gains - loss * n_losses) / n, -loss, gain)  # without rounding errors
    squares = n_gains * (gain - mean) ** 2 + n_losses * (loss + mean) ** 2 + (n - n_gains - n_losses) * mean**2
    return mean, squares / (n - 1) if n > 1 else np.full_like(squares, np.nan, dtype=np.float64)


def _net_benefit(n_gains: int, gain: float, n_losses: int, loss: float, n: int, level: float) -> Estimate:
    """Mean gain of a row, with the standard error of a mean; its interval lies between -loss and gain."""
    scale = Scale(-loss, gain)
    mean, variance = (float(number) for number in _mean_and_variance(n_gains, gain, n_losses, loss, n))
    if n == 1:
        return Estimate(mean, np.nan, (scale.low, scale.high), scale)
    # Rows that do not differ leave no variance; half a row of the larger contribution keeps weights finite.
    corrected = max(variance, CONTINUITY * max(gain, loss) ** 2 / n)
    estimate = Estimate.from_value(mean, float(np.sqrt(corrected / n)), scale, level)
    return replace(estimate, se=float(np.sqrt(variance / n)))


def decision_curve(y_true: ArrayLike, probabilities: ArrayLike, thresholds: ArrayLike | None = None) -> DecisionCurve:
    """Net benefit of a model over a range of thresholds, beside that of treating all rows.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event.
    thresholds : array-like, default=None
        Thresholds between 0 and 1; None takes 0.01, 0.02, ..., 0.99.

    Returns
    -------
    DecisionCurve
        For thresholds in increasing order.

    Examples
    --------
    >>> from unseen.metrics import decision_curve
    >>> curve = decision_curve([0, 1, 1, 0, 1], [0.2, 0.6, 0.4, 0.7, 0.9], [0.1, 0.5])
    >>> curve.model.round(3).tolist(), curve.treat_all.round(3).tolist()
    ([0.556, 0.2], [0.556, 0.2])
    """
    y, p = check_predictions(y_true, probabilities)
    numbers = np.arange(1, 100) / 100 if thresholds is None else np.sort(np.asarray(thresholds, dtype=np.float64))
    if numbers.ndim != 1 or len(numbers) == 0:
        raise ValueError(f"thresholds has shape {numbers.shape}. Give a sequence of at least one number.")
    _check_thresholds(numbers)
    odds = numbers / (1 - numbers)
    # Rows with a probability of at least each threshold.
    tp, fp = (len(some) - np.searchsorted(np.sort(some), numbers) for some in (p[y], p[~y]))
    model, variance = _mean_and_variance(tp, 1.0, fp, odds, len(y))
    prevalence = y.mean()
    return DecisionCurve(numbers, model, np.sqrt(variance / len(y)), prevalence - (1 - prevalence) * odds)


def choose_threshold(
    y_true: ArrayLike, probabilities: ArrayLike, aim: str | float, *, sample_weight: ArrayLike | None = None
) -> ThresholdChoice:
    """Choose a decision threshold for an aim, on rows that no model was trained on.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Out-of-domain probabilities of the event.
    aim : float or str
        A threshold between 0 and 1, which is returned as it is; "youden", the largest sum of sensitivity and
        specificity; "sensitivity=0.9", the highest threshold with at least that sensitivity; "specificity=0.9", the
        lowest threshold with at least that specificity; or "cost=5:1", the smallest total cost if a missed event costs
        5 times as much as a false alarm.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of rows, for example such that all domains have the same total weight.

    Returns
    -------
    ThresholdChoice
        Thresholds lie halfway between neighboring probabilities. Of several that are equally good, the one closest to
        0.5 is taken or, for a cost, the one closest to the optimum of calibrated probabilities, 1 / (1 + 5).

    Examples
    --------
    >>> from unseen.metrics import choose_threshold
    >>> y, p = [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.6, 0.8]
    >>> choose_threshold(y, p, "sensitivity=0.9")
    ThresholdChoice(threshold=0.25, aim='sensitivity=0.9', sensitivity=1.0, specificity=0.6666666666666666)
    >>> choose_threshold(y, p, "youden").threshold, choose_threshold(y, p, "cost=1:5").threshold
    (0.5, 0.5)
    """
    y, p = check_predictions(y_true, probabilities)
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != y.shape or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight needs one finite weight of 0 or more for each row of y_true.")
    name, first, second = _read_aim(aim)
    n_events, n_others = weight[y].sum(), weight[~y].sum()
    threshold = first
    if name != "number":
        if not (n_events > 0 and n_others > 0):
            raise ValueError(f"aim={aim!r} needs rows with the event and rows without it; y_true has one outcome only.")
        # All rules "at least this probability", from "all are events" to "none is".
        false_alarms, sensitivities, values = roc_curve(y, p, sample_weight=weight, drop_intermediate=False)
        thresholds = _midpoints(values[:0:-1])
        sensitivities, specificities = sensitivities[::-1], 1 - false_alarms[::-1]
        if name == "sensitivity":
            # Thresholds increase, and sensitivity decreases with them.
            threshold = thresholds[sensitivities >= first - ROUNDING][-1]
        elif name == "specificity":
            threshold = thresholds[specificities >= first - ROUNDING][0]
        else:
            loss = -(sensitivities + specificities)
            preferred = 0.5
            if name == "cost":
                preferred = second / (first + second)
                costs = first * (1 - sensitivities) * n_events + second * (1 - specificities) * n_others
                loss = costs / (weight.sum() * max(first, second))
            ties = thresholds[loss <= loss.min() + ROUNDING]
            threshold = ties[np.argmin(np.abs(ties - preferred))]
    is_positive = p >= threshold
    with np.errstate(invalid="ignore"):
        sensitivity = float(weight[y & is_positive].sum() / n_events)
        specificity = float(weight[~y & ~is_positive].sum() / n_others)
    return ThresholdChoice(float(threshold), str(aim), sensitivity, specificity)


def _midpoints(values: Array) -> Array:
    """Thresholds between increasing probabilities; the outermost ones lie halfway to 0 and to 1."""
    # If a probability is 1, the highest threshold is just above it.
    highest = (1 + values[-1]) / 2 if values[-1] < 1 else np.nextafter(1.0, 2.0)
    return np.concatenate([[values[0] / 2], (values[1:] + values[:-1]) / 2, [highest]])


def stated_odds(aim: str | float) -> float | None:
    """Return the weight of a false positive that an aim states; None for "youden", sensitivity and specificity.

    Examples
    --------
    >>> from unseen.metrics import stated_odds
    >>> stated_odds("cost=5:1"), stated_odds(0.5), stated_odds("youden")
    (0.2, 1.0, None)
    """
    name, first, second = _read_aim(aim)
    if name == "cost":
        return second / first
    return first / (1 - first) if name == "number" else None


def _read_aim(aim: str | float) -> tuple[str, float, float]:
    """Name of an aim and its numbers."""
    text = str(aim).strip().lower()
    name, _, numbers = text.partition("=")
    name = name.strip()
    try:
        if name == "youden" and not numbers:
            return name, np.nan, np.nan
        if name in ("sensitivity", "specificity"):
            target = float(numbers)
            if 0 < target <= 1:
                return name, target, np.nan
        elif name == "cost":
            first, second = (float(number) for number in numbers.split(":"))
            if first > 0 and second > 0 and np.isfinite(first + second):
                return name, first, second
        else:
            number = float(text)
            if 0 < number < 1:
                return "number", number, np.nan
    except ValueError:
        pass  # A text that is not a number is not an aim either: the error below lists what is allowed.
    raise ValueError(f"aim={aim!r} is not allowed. Use {AIMS}.")
