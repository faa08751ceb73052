"""What a selection reports: the leaderboard, and the score to expect on a new domain."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.special import stdtrit

from ..linalg import Array, Ints
from ..metrics import expected_performance
from ..utils.optional_imports import optional_import
from ._scoring import Metric

SHOWN_COLUMNS = ("model", "kind", "mean", "standard_error", "weight")
MIN_DOMAINS_FOR_INTERVAL = 3  # with two domains, the 97.5% quantile of Student's t is 12.7
MAX_USABLE_SHARE = 0.25  # half-width of the widest informative interval, as a fraction of the range of the metric
MAX_DOMAINS = 1_000  # larger numbers of domains are not feasible


def domains_for_interval(spread: float, half_width: float, *, level: float = 0.95) -> int | None:
    """Smallest number of domains for which Student's prediction interval has at most a given half-width.

    With m domains the half-width is the quantile of t with m - 1 degrees of freedom, times the standard deviation
    between domains, times sqrt(1 + 1/m). This is exact for metrics without bounds. Prediction intervals of bounded
    metrics are computed on a transformed scale and differ near the ends of the range.

    Parameters
    ----------
    spread : float
        Standard deviation of the scores of domains.
    half_width : float
        Largest half-width of the interval, in the unit of the scores.
    level : float, default=0.95
        Coverage of the interval.

    Returns
    -------
    m : int or None
        None if more than 1,000 domains would be needed: the interval has a minimum width, given by the spread.

    Examples
    --------
    >>> from unseen.model_selection import domains_for_interval
    >>> domains_for_interval(0.1, half_width=0.25), domains_for_interval(0.2, half_width=0.25)
    (9, None)
    """
    m = np.arange(2, MAX_DOMAINS + 1)
    is_enough = stdtrit(m - 1, (1 + level) / 2) * spread * np.sqrt(1 + 1 / m) <= half_width
    return int(m[is_enough.argmax()]) if is_enough.any() else None


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
    interval = f"A {level:.0%} prediction interval"
    width = f"±{as_text(half_width)}"
    if n_needed is None:
        return f"{interval} is wider than {width} for any number of domains: {reason}"
    # The interval is that of a transformed scale, on which it may be wider than the normal approximation here.
    n_needed = max(n_needed, n_domains + 1)
    return f"{interval} of {width} needs {n_needed} domains: {reason}"


def forecast(
    scores: Array, bounds: tuple[float, float] = (0.0, 1.0), *, n_rows: Array | Ints | None = None, level: float = 0.95
) -> tuple[float, float, float]:
    """Mean score over held-out domains, and the ends of a prediction interval for the score on a new domain.

    See `unseen.metrics.expected_performance`: the interval is that of a random-effects model on the logit scale of the
    range of the metric, or on the log scale for a metric with one bound. For scores that are shares of rows, it
    includes the sampling error of a new domain of typical size, given the numbers of rows. One domain has no interval
    but the whole range.
    """
    mean = float(np.mean(scores))
    if len(scores) < 2:
        return mean, float(bounds[0]), float(bounds[1])
    n_rows_new = None if n_rows is None else float(np.median(n_rows))
    expected = expected_performance(scores, bounds, n_rows=n_rows, n_rows_new=n_rows_new, level=level)
    low, high = expected.prediction_interval
    return mean, min(low, mean), max(high, mean)


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

    @classmethod
    def from_scores(
        cls, scores: Array, metric: Metric, bounds: tuple[float, float], n_rows: Ints | None = None
    ) -> Self:
        """From scores on held-out domains; `n_rows` are their numbers of rows, if scores are shares of rows."""
        mean, lower, upper = forecast(scores, bounds=bounds, n_rows=n_rows)
        return cls(
            mean,
            lower,
            upper,
            metric=metric.label,
            scores=tuple(scores.tolist()),
            bounds=bounds,
            is_percent=metric.percent,
        )

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
        spread = float(np.std(self.scores, ddof=1)) if self.n_domains > 1 else 0.0
        half_width = (self.upper - self.lower) / 2
        if spread == 0 and np.isfinite(half_width):
            # The interval contains the standard error of scores on few rows, even if the scores happen to be equal.
            t_quantile = stdtrit(max(self.n_domains - 1, 1), (1 + self.level) / 2)
            spread = half_width / (t_quantile * np.sqrt(1 + 1 / max(self.n_domains, 1)))
        largest_half_width = MAX_USABLE_SHARE * (self.bounds[1] - self.bounds[0])

        def format_size(size: float) -> str:
            return f"{100 * size:.0f} points" if self.is_percent else f"{size:.2f}"

        return explain_missing_interval(self.n_domains, spread, largest_half_width, format_size, self.level)

    def format_score(self, score: float) -> str:
        """Format a score, in percent if the metric is a share."""
        return f"{100 * score:.0f}%" if self.is_percent else f"{score:.2f}"

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
        sets += "; 90% takes 9 domains"
    article = "an" if forecast.metric[0] in "aeiouAEIOU" else "a"
    start = f"On a new domain expect {article} {forecast.metric} of"
    if forecast.is_informative:
        return (
            f"{start} {forecast.format_score(forecast.mean)}, {forecast.interval_text}, if it differs from these "
            f"{n_domains} domains as they differ from each other; the interval does not hold for a domain that differs "
            f"more. {sets}."
        )
    return f"{start} about {forecast.format_score(forecast.mean)}. {forecast.explain_missing_interval()}. {sets}."


@dataclass(frozen=True)
class LeaderboardRow:
    """A model on the leaderboard.

    Attributes
    ----------
    model : str
        Name of the candidate or of the ensemble.
    kind : {"plain", "inductive", "transductive"}
        Its kind.
    mean : float
        Mean score over held-out domains; NaN if the model failed.
    standard_error : float
        Standard error of the mean.
    scores : dict
        Score on each held-out domain; NaN where there is none.
    skewed : float
        Of an ensemble, the mean score on batches in which half of the classes have 80% of the samples, which only
        transductive steps need; else NaN.
    params : dict
        Settings that are best on all held-out domains; empty for ensembles.
    seconds : float
        Time of the evaluation.
    weight : float
        Weight in the selected ensemble; 1 for the selected ensemble itself.
    reason : str
        Why the step that an ensemble adds is or is not used.
    is_selected : bool
        Whether this is the selected model.
    """

    model: str
    kind: str
    mean: float
    standard_error: float
    scores: Mapping[str, float]
    skewed: float = np.nan
    params: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    weight: float = 0.0
    reason: str = ""
    is_selected: bool = False


class Leaderboard(tuple[LeaderboardRow, ...]):
    """Models with their cross-fitted scores, best first: a tuple of rows with attributes.

    ``print`` and notebooks show a table.

    Examples
    --------
    >>> from unseen.model_selection import Leaderboard, LeaderboardRow
    >>> row = LeaderboardRow("logistic", "plain", 0.75, 0.05, {"bonn": 0.7, "leeds": 0.8}, weight=1.0, is_selected=True)
    >>> leaderboard = Leaderboard((row,))
    >>> leaderboard[0].scores["leeds"], leaderboard.selected.model
    (0.8, 'logistic')
    >>> print(leaderboard)
    model     kind    mean  standard_error  weight
    logistic  plain  0.750           0.050   1.000  selected
    """

    __slots__ = ()

    @property
    def selected(self) -> LeaderboardRow:
        """The selected model."""
        return next(row for row in self if row.is_selected)

    def to_frame(self) -> Any:
        """Return the leaderboard as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            A row for each model, best first: the attributes of the rows, with a column ``score_<domain>`` for each
            held-out domain.
        """
        pandas = optional_import("pandas", "to_frame()")
        rows = []
        for row in self:
            scores = {f"score_{domain}": score for domain, score in row.scores.items()}
            rows.append({**vars(row), **scores})
        return pandas.DataFrame(rows).drop(columns="scores", errors="ignore")

    def __repr__(self) -> str:
        lines = [[*SHOWN_COLUMNS, ""]]
        for row in self:
            numbers = (getattr(row, name) for name in SHOWN_COLUMNS[2:])
            shown = [f"{value:.3f}" if np.isfinite(value) else "-" for value in numbers]
            lines.append([row.model, row.kind, *shown, "selected" if row.is_selected else ""])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = []
        for line in lines:
            names = [cell.ljust(width) for cell, width in zip(line[:2], widths[:2], strict=True)]
            numbers_shown = [cell.rjust(width) for cell, width in zip(line[2:-1], widths[2:-1], strict=True)]
            texts.append("  ".join([*names, *numbers_shown, line[-1]]).rstrip())
        return "\n".join(texts)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"
