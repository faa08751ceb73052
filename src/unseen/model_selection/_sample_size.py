"""How many domains it takes until intervals and prediction sets are informative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import stdtrit

MIN_DOMAINS_FOR_INTERVAL = 3  # domains for any prediction interval: with two, Student's t reaches 12.7 standard errors
MAX_USABLE_SHARE = 0.25  # half-width of the widest interval that is worth showing, as a share of the metric's range
MAX_DOMAINS = 1_000  # larger numbers of domains are as good as none: nobody can collect them
ROUNDING = 1e-9  # shares such as 0.8 / (1 - 0.8) exceed whole numbers by rounding


def domains_for_interval(
    spread: float, half_width: float, *, level: float = 0.95, of: Literal["next", "mean"] = "next"
) -> int | None:
    """Smallest number of domains for which Student's interval has at most a given half-width.

    With m domains the half-width is the quantile of t with m - 1 degrees of freedom, times the standard deviation
    between domains, times sqrt(1 + 1/m) for the score of the next domain, or sqrt(1/m) for the mean over all domains.
    That is exact for metrics without bounds. Prediction intervals of bounded metrics are computed on another scale and
    differ from it near the ends of the range.

    Parameters
    ----------
    spread : float
        Standard deviation of the scores of domains.
    half_width : float
        What is asked for, in the same unit.
    level : float, default=0.95
        Coverage of the interval.
    of : {"next", "mean"}, default="next"
        Prediction interval of the next domain, or confidence interval of the mean.

    Returns
    -------
    m : int or None
        None if no number up to 1,000 is enough: a prediction interval never gets narrower than the spread allows.

    Examples
    --------
    >>> from unseen.model_selection import domains_for_interval
    >>> domains_for_interval(0.1, half_width=0.25), domains_for_interval(0.2, half_width=0.25)
    (9, None)
    """
    m = np.arange(2, MAX_DOMAINS + 1)
    variances = spread**2 * ((1 + 1 / m) if of == "next" else 1 / m)
    enough = stdtrit(m - 1, (1 + level) / 2) * np.sqrt(variances) <= half_width
    return int(m[enough.argmax()]) if enough.any() else None


def domains_for_coverage(coverage: float, share: float = 1.0) -> int | None:
    """Smallest number of held-out domains for which prediction sets can have a coverage.

    With m domains the threshold of the sets is the quantile of level ``coverage * (m + 1) / m`` of the scores of
    held-out samples, which has to be at most 1; or at most `share`, if the threshold is to stay below the scores of the
    other samples.

    Parameters
    ----------
    coverage : float
        How often sets are to hold the true class, between 0 and 1.
    share : float, default=1.0
        Share of held-out samples whose scores the threshold may reach.

    Returns
    -------
    m : int or None
        None if no number is enough, as the coverage is not below the share.

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
    """Why there is no prediction interval for the next domain, and how many domains it takes, without a full stop.

    `half_width` is that of the widest interval worth showing, which may be infinite, and `as_text` writes such sizes.
    """
    needed = domains_for_interval(spread, half_width, level=level)
    if n_domains < MIN_DOMAINS_FOR_INTERVAL or not np.isfinite(half_width):
        some = "One held-out domain is" if n_domains == 1 else f"{n_domains} held-out domains are"
        least = max(needed or 0, MIN_DOMAINS_FOR_INTERVAL)
        return f"{some} too few for a prediction interval; at least {least} are needed"
    between = f"the scores of {n_domains} held-out domains have a standard deviation of {as_text(spread)}"
    width = f"±{as_text(half_width)}"
    if needed is None:
        return (
            f"No prediction interval is shown: {between}, at which any number of domains leaves it wider than {width}"
        )
    return f"More domains are needed: {between}, at which a {level:.0%} prediction interval of {width} takes {needed}"
