"""Performance at a decision threshold, net benefit, and the choice of a threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest

from ._estimates import SHARE, Array, Estimate, Outcomes, Scale, check_level, check_predictions

CONTINUITY = 0.5  # rows that keep a variance positive
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
        rows; under "net_benefit" the gain over classifying no row as an event, under "net_benefit_over_all" that over
        classifying every row so.

    Examples
    --------
    >>> from unseen.metrics import threshold_performance
    >>> result = threshold_performance([0, 1, 1, 0, 1], [0.2, 0.6, 0.4, 0.7, 0.9], 0.5)
    >>> [round(result[name].value, 3) for name in ("sensitivity", "specificity", "net_benefit")]
    [0.667, 0.5, 0.2]
    """
    y, p = check_predictions(y_true, probabilities, level)
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
        "net_benefit": net_benefit(y, p, threshold, odds=odds, level=level),
        "net_benefit_over_all": net_benefit(y, p, threshold, odds=odds, against="all", level=level),
    }


def net_benefit(
    y_true: ArrayLike,
    probabilities: ArrayLike,
    threshold: float,
    *,
    odds: float | None = None,
    against: Literal["none", "all"] = "none",
    level: float = 0.95,
) -> Estimate:
    """Net benefit of a threshold: (true positives - odds * false positives) / rows.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event.
    threshold : float
        Between 0 and 1.
    odds : float, default=None
        Weight of a false positive: the harm of a false alarm over that of a missed event. None takes the odds of the
        threshold.
    against : {"none", "all"}, default="none"
        Whether the difference from classifying no row as an event is returned, or that from every row.
    level : float, default=0.95
        Nominal coverage of the interval.

    Returns
    -------
    Estimate
        A mean over rows, with the standard error of a mean. It lies between -odds and 1 against none, between -1 and
        `odds` against all, and so does its interval.

    References
    ----------
    .. [1] Vickers and Elkin (2006), Decision curve analysis: A novel method for evaluating prediction models, Medical
       Decision Making 26:565-574.

    Examples
    --------
    >>> from unseen.metrics import net_benefit
    >>> round(net_benefit([0, 1, 1, 0, 1], [0.2, 0.6, 0.4, 0.7, 0.9], 0.5).value, 3)
    0.2
    """
    y, p = check_predictions(y_true, probabilities, level)
    if not 0 < threshold < 1:
        raise ValueError(f"threshold={threshold!r} is not allowed. Use numbers between 0 and 1, without the ends.")
    weight = threshold / (1 - threshold) if odds is None else float(odds)
    if not (weight > 0 and np.isfinite(weight)):
        raise ValueError(f"odds={odds!r} is not allowed. Use a positive number: 0.2 if a miss is 5 times as harmful.")
    is_positive = p >= threshold
    if against == "all":
        # Against "all", what counts are the rows that are not flagged: correct ones gain, missed events lose.
        contribution = np.where(~is_positive, np.where(y, -1.0, weight), 0.0)
        scale = Scale(-1.0, weight)
    else:
        contribution = np.where(is_positive, np.where(y, 1.0, -weight), 0.0)
        scale = Scale(-weight, 1.0)
    n = len(y)
    value = float(np.clip(contribution.mean(), scale.low, scale.high))  # without rounding errors
    if n == 1:
        return Estimate(value, np.nan, (scale.low, scale.high), scale)
    variance = float(np.var(contribution, ddof=1))
    # Rows that do not differ leave no variance; half a row of the larger contribution keeps weights finite.
    corrected = max(variance, CONTINUITY * max(1.0, weight) ** 2 / n)
    estimate = Estimate.from_value(value, float(np.sqrt(corrected / n)), scale, level)
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
    benefits = [net_benefit(y, p, threshold) for threshold in numbers.tolist()]
    model, model_se = (np.array([getattr(one, name) for one in benefits]) for name in ("value", "se"))
    prevalence = y.mean()
    return DecisionCurve(numbers, model, model_se, prevalence - (1 - prevalence) * numbers / (1 - numbers))


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
    has_both_outcomes = weight[y].sum() > 0 and weight[~y].sum() > 0
    if name != "number" and not has_both_outcomes:
        raise ValueError(f"aim={aim!r} needs rows with the event and rows without it; y_true has one outcome only.")
    thresholds, sensitivity, specificity = _operating_points(y, p, weight)
    preferred = 0.5
    if name == "number":
        best = int(np.searchsorted(np.unique(p), first))
        thresholds[best] = first
    elif name == "sensitivity":
        # Thresholds increase, and sensitivity decreases with them.
        best = int(np.flatnonzero(sensitivity >= first - ROUNDING)[-1])
    elif name == "specificity":
        best = int(np.flatnonzero(specificity >= first - ROUNDING)[0])
    else:
        loss = -(sensitivity + specificity)
        if name == "cost":
            preferred = second / (first + second)
            misses = first * (1 - sensitivity) * weight[y].sum()
            false_alarms = second * (1 - specificity) * weight[~y].sum()
            loss = (misses + false_alarms) / (weight.sum() * max(first, second))
        ties = np.flatnonzero(loss <= loss.min() + ROUNDING)
        best = int(ties[np.argmin(np.abs(thresholds[ties] - preferred))])
    return ThresholdChoice(float(thresholds[best]), str(aim), float(sensitivity[best]), float(specificity[best]))


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


def _operating_points(y: Outcomes, p: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Thresholds between distinct probabilities, from "all are events" to "none is", with their sensitivity."""
    values, position = np.unique(p, return_inverse=True)
    events = np.bincount(position, weights=weight * y, minlength=len(values))
    others = np.bincount(position, weights=weight * ~y, minlength=len(values))
    middle = (values[1:] + values[:-1]) / 2
    # The outermost thresholds lie halfway to 0 and to 1. If a probability is 1, the highest one is just above it.
    highest = (1 + values[-1]) / 2 if values[-1] < 1 else np.nextafter(1.0, 2.0)
    thresholds = np.concatenate([[values[0] / 2], middle, [highest]])
    with np.errstate(invalid="ignore"):
        sensitivity = 1 - np.concatenate([[0.0], np.cumsum(events)]) / events.sum()
        specificity = np.concatenate([[0.0], np.cumsum(others)]) / others.sum()
    return thresholds, sensitivity, specificity


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
