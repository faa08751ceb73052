"""Discrimination: the area under the ROC curve with its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit
from scipy.stats import rankdata

from ._estimates import SHARE, Estimate, check_outcomes, check_scores
from ._meta_analysis import check_level

CONTINUITY = 0.5  # successes and failures that are added to the effective size of an AUC of 0 or 1


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
    check_level(level)
    y = check_outcomes(y_true)
    s = check_scores("scores", scores, len(y))
    n_events, n_others = int(y.sum()), int((~y).sum())
    if n_events == 0 or n_others == 0:
        return Estimate.make_undefined(SHARE)
    # Equation 14: the share of rows of the other class that a row exceeds, with one half for ties.
    ranks = rankdata(s)
    above_others = (ranks[y] - rankdata(s[y])) / n_others
    below_events = 1 - (ranks[~y] - rankdata(s[~y])) / n_events
    value = float(above_others.mean())
    has_delong_variance = 0 < value < 1 and min(n_events, n_others) > 1
    variance = 0.0
    if has_delong_variance:
        variance = float(np.var(above_others, ddof=1) / n_events + np.var(below_events, ddof=1) / n_others)
    if variance > 0:
        se = float(np.sqrt(variance))
        return Estimate.from_value(value, se, SHARE, level)
    size = _newcombe_size(value, n_events, n_others)
    share = (size * value + CONTINUITY) / (size + 2 * CONTINUITY)
    unit = share * (1 - share)
    se = float(np.sqrt(unit / size))
    return Estimate.from_scaled(value, se, SHARE, float(logit(share)), float(1 / np.sqrt(size * unit)), level)


def _newcombe_size(value: float, n_events: int, n_others: int) -> float:
    """Effective number of rows: A (1 - A) divided by Newcombe's variance of an AUC of A (method 4)."""
    half = (n_events + n_others) / 2 - 1
    return n_events * n_others / (1 + half * (1 - value) / (2 - value) + half * value / (1 + value))


def one_vs_rest_auc(
    y_true: ArrayLike, scores: ArrayLike, classes: Sequence[Any], *, level: float = 0.95
) -> dict[Any, Estimate]:
    """AUC of each class against all others.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Class of each row.
    scores : array-like of shape (n_rows, n_classes)
        Scores or probabilities, one column per class.
    classes : sequence
        Classes in the order of the columns.
    level : float, default=0.95
        Nominal coverage of the intervals.

    Returns
    -------
    dict
        From class to :class:`Estimate`; not defined (NaN) for a class without rows, or with all of them.

    Examples
    --------
    >>> from unseen.metrics import one_vs_rest_auc
    >>> P = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]
    >>> {name: result.value for name, result in one_vs_rest_auc(list("abca"), P, list("abc")).items()}
    {'a': 1.0, 'b': 1.0, 'c': 1.0}
    """
    labels = np.asarray(y_true)
    columns = np.asarray(scores, dtype=np.float64)
    check_columns(columns, len(labels), len(classes))
    return {name: auc(labels == name, columns[:, j], level=level) for j, name in enumerate(classes)}


def check_columns(columns: Any, n_rows: int, n_classes: int) -> None:
    """Raise unless there is one column for each class."""
    if columns.shape != (n_rows, n_classes):
        raise ValueError(
            f"scores has shape {columns.shape}, but there are {n_rows} rows and {n_classes} classes. Give one column "
            "per class."
        )
