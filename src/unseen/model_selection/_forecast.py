"""The expected score on a new domain, with a prediction interval, as an object with names."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from ._sample_size import (
    MAX_USABLE_SHARE,
    MIN_DOMAINS_FOR_INTERVAL,
    domains_for_coverage,
    explain_missing_interval,
    is_informative,
)


@dataclass(frozen=True)
class Forecast:
    """Expected score on a new domain, and a prediction interval for it.

    ``print`` shows a sentence, with shares in percent. The attributes are in the unit of the metric: a share of rows is
    a number between 0 and 1.

    Attributes
    ----------
    mean : float
        Mean of the cross-fitted scores on held-out domains.
    lower, upper : float
        Ends of the prediction interval. Without enough domains it is the whole range of the metric.
    level : float
        Coverage of the interval.
    metric : str
        Name of the metric.
    scores : tuple of float
        The score on each held-out domain.
    bounds : tuple of float
        Lowest and highest value of the metric.
    is_percent : bool
        Whether texts show scores in percent.

    Examples
    --------
    >>> from unseen.model_selection import Forecast
    >>> forecast = Forecast(0.8, 0.7, 0.9, metric="accuracy", scores=(0.75, 0.8, 0.85), is_percent=True)
    >>> forecast.lower, forecast.upper, forecast.is_informative
    (0.7, 0.9, True)
    >>> print(forecast)
    Expected accuracy on a new domain: 80%, 95% prediction interval 70% to 90% (3 held-out domains).
    """

    mean: float
    lower: float
    upper: float
    level: float = 0.95
    metric: str = "score"
    scores: tuple[float, ...] = ()
    bounds: tuple[float, float] = (0.0, 1.0)
    is_percent: bool = False

    @property
    def n_domains(self) -> int:
        """Number of held-out domains with a score."""
        return len(self.scores)

    @property
    def is_informative(self) -> bool:
        """Whether there are enough domains, and the interval excludes at least half of the range of the metric."""
        return self.n_domains >= MIN_DOMAINS_FOR_INTERVAL and is_informative(self.lower, self.upper, self.bounds)

    def explain_missing_interval(self) -> str:
        """Explain why the interval is not informative, and how many domains are needed; without a full stop."""
        largest_half_width = MAX_USABLE_SHARE * (self.bounds[1] - self.bounds[0])
        spread = float(np.std(self.scores, ddof=1)) if self.n_domains > 1 else 0.0
        half_width = (self.upper - self.lower) / 2
        if spread == 0 and np.isfinite(half_width):
            # The interval contains the standard error of scores on few rows, even if the scores happen to be equal.
            t_quantile = stdtrit(max(self.n_domains - 1, 1), (1 + self.level) / 2)
            spread = half_width / (t_quantile * np.sqrt(1 + 1 / max(self.n_domains, 1)))
        return explain_missing_interval(self.n_domains, spread, largest_half_width, self._format_size, self.level)

    def format_score(self, score: float) -> str:
        """Format a score, in percent if the metric is a share."""
        return f"{100 * score:.0f}%" if self.is_percent else f"{score:.2f}"

    def _format_size(self, size: float) -> str:
        return f"{100 * size:.0f} points" if self.is_percent else f"{size:.2f}"

    @property
    def interval_text(self) -> str:
        """The interval in words, such as "95% prediction interval 70% to 90%"."""
        ends = f"{self.format_score(self.lower)} to {self.format_score(self.upper)}"
        return f"{self.level:.0%} prediction interval {ends}"

    def __str__(self) -> str:
        start = f"Expected {self.metric} on a new domain: "
        if not self.is_informative:
            return f"{start}about {self.format_score(self.mean)}. {self.explain_missing_interval()}."
        return f"{start}{self.format_score(self.mean)}, {self.interval_text} ({self.n_domains} held-out domains)."

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"


def describe_expected_performance(forecast: Forecast) -> str:
    """Describe the expected score on a new domain, and the attainable coverage of prediction sets."""
    n_domains = forecast.n_domains
    max_coverage = 100 * n_domains // (n_domains + 1)  # rounded down, since a larger coverage raises an error
    sets = f"Prediction sets contain the true class in up to {max_coverage}% of rows, on average over new domains"
    if max_coverage < 90:
        sets += f"; 90% takes {domains_for_coverage(0.9)} domains"
    article = "an" if forecast.metric[0] in "aeiouAEIOU" else "a"
    start = f"On a new domain expect {article} {forecast.metric} of"
    if forecast.is_informative:
        return (
            f"{start} {forecast.format_score(forecast.mean)}, {forecast.interval_text}, if it differs from these "
            f"{n_domains} domains as they differ from each other; the interval does not hold for a domain that differs "
            f"more. {sets}."
        )
    return f"{start} about {forecast.format_score(forecast.mean)}. {forecast.explain_missing_interval()}. {sets}."
