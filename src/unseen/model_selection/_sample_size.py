"""Numbers of domains that are needed for informative prediction intervals and prediction sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import stdtrit

MIN_DOMAINS_FOR_INTERVAL = 3  # with two domains, the 97.5% quantile of Student's t is 12.7
MAX_USABLE_SHARE = 0.25  # half-width of the widest informative interval, as a fraction of the range of the metric
MAX_DOMAINS = 1_000  # larger numbers of domains are not feasible
ROUNDING = 1e-9  # ratios such as 0.8 / (1 - 0.8) exceed integers by rounding errors


def domains_for_interval(
    spread: float,
    half_width: float,
    *,
    level: float = 0.95,
    kind: Literal["prediction", "confidence"] = "prediction",
) -> int | None:
    """Smallest number of domains for which Student's interval has at most a given half-width.

    With m domains the half-width is the quantile of t with m - 1 degrees of freedom, times the standard deviation
    between domains, times sqrt(1 + 1/m) for the score of the next domain, or sqrt(1/m) for the mean over all domains.
    This is exact for metrics without bounds. Prediction intervals of bounded metrics are computed on a transformed
    scale and differ near the ends of the range.

    Parameters
    ----------
    spread : float
        Standard deviation of the scores of domains.
    half_width : float
        Largest half-width of the interval, in the unit of the scores.
    level : float, default=0.95
        Coverage of the interval.
    kind : {"prediction", "confidence"}, default="prediction"
        Prediction interval for the score of the next domain, or confidence interval for the mean over all domains.

    Returns
    -------
    m : int or None
        None if more than 1,000 domains would be needed: a prediction interval has a minimum width, given by the spread.

    Examples
    --------
    >>> from unseen.model_selection import domains_for_interval
    >>> domains_for_interval(0.1, half_width=0.25), domains_for_interval(0.2, half_width=0.25)
    (9, None)
    """
    m = np.arange(2, MAX_DOMAINS + 1)
    variances = spread**2 * ((1 + 1 / m) if kind == "prediction" else 1 / m)
    is_enough = stdtrit(m - 1, (1 + level) / 2) * np.sqrt(variances) <= half_width
    return int(m[is_enough.argmax()]) if is_enough.any() else None


def domains_for_coverage(coverage: float, share: float = 1.0) -> int | None:
    """Smallest number of held-out domains for which prediction sets can have a given coverage.

    With m domains the threshold of the sets is the quantile of level ``coverage * (m + 1) / m`` of the scores of
    held-out samples. This level must be at most 1, or at most `share` if the threshold must not exceed the scores of
    the other samples.

    Parameters
    ----------
    coverage : float
        Probability that a set contains the true class, between 0 and 1.
    share : float, default=1.0
        Largest level of the quantile.

    Returns
    -------
    m : int or None
        None if no number of domains is enough, since the coverage is not below the share.

    Examples
    --------
    >>> from unseen.model_selection import domains_for_coverage
    >>> domains_for_coverage(0.8), domains_for_coverage(0.9), domains_for_coverage(0.8, share=0.9)
    (4, 9, 8)
    """
    if share - coverage < ROUNDING:
        return None
    return int(np.ceil(coverage / (share - coverage) - ROUNDING))


def is_informative(low: float, high: float, limits: tuple[float, float]) -> bool:
    """Whether an interval excludes at least half of the range of a metric; without a finite range, it always does."""
    return bool(high - low <= 2 * MAX_USABLE_SHARE * (limits[1] - limits[0]))


def explain_missing_interval(
    n_domains: int, spread: float, half_width: float, as_text: Callable[[float], str], level: float = 0.95
) -> str:
    """Explain why there is no prediction interval for the next domain, and how many domains are needed.

    `half_width` is that of the widest informative interval, which may be infinite; `as_text` formats scores. The result
    does not end with a full stop.
    """
    n_needed = domains_for_interval(spread, half_width, level=level)
    if n_domains < MIN_DOMAINS_FOR_INTERVAL or not np.isfinite(half_width):
        subject = "One held-out domain is" if n_domains == 1 else f"{n_domains} held-out domains are"
        minimum = max(n_needed or 0, MIN_DOMAINS_FOR_INTERVAL)
        return f"{subject} too few for a prediction interval; at least {minimum} are needed"
    reason = f"the scores of {n_domains} held-out domains have a standard deviation of {as_text(spread)}"
    width = f"±{as_text(half_width)}"
    if n_needed is None:
        return f"No prediction interval is shown: {reason}, so that it is wider than {width} for any number of domains"
    # The interval is that of a transformed scale, on which it may be wider than the normal approximation here.
    n_needed = max(n_needed, n_domains + 1)
    return (
        f"More domains are needed: {reason}, so that a {level:.0%} prediction interval of {width} needs {n_needed} "
        "domains"
    )
