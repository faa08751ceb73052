"""Statistics of a comparison: the best validated methods on each held-out domain, their differences, and intervals.

On each held-out domain, a kind of methods is represented by its method with the best *validation* score. A choice by
the results on that domain would favor the kind with more methods. Accuracies are paired by sample and scores of other
metrics by domain, and differences are averaged over domains. Domains are the sampling units, and there are few of them:
the standard error, over domains and over samples within them, is multiplied by a quantile of Student's t distribution
with one degree of freedom less than there are domains.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit

from ..linalg import Array, Ints
from ..model_selection import (
    MAX_USABLE_SHARE,
    METHODS,
    MIN_DOMAINS_FOR_INTERVAL,
    domains_for_interval,
    explain_missing_interval,
    forecast,
    is_informative,
)
from ._store import Row

CONFIDENCE_LEVEL = 0.95
N_BOOTSTRAP_DRAWS = 4000
PERCENT_DECIMALS = 6
EQUALITY_DECIMALS = 12  # decimal places to which two differences, or two means, are compared
Kind = Literal["invariant", "plain", "none"]


def to_percent(score: float) -> float:
    """Convert a fraction to percent, without the rounding error that would decide ties such as 80.75."""
    return round(100 * score, PERCENT_DECIMALS)


@dataclass(frozen=True)
class Scale:
    """The metric of the scores: more is better, and shares are printed in percent.

    `limits` are the lowest and the highest value of the metric. None means 0 and 1 for shares, and no limits for other
    metrics.
    """

    metric: str = "accuracy"
    share: bool = True
    limits: tuple[float, float] | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest possible score."""
        return self.limits or ((0.0, 1.0) if self.share else (-np.inf, np.inf))

    @property
    def span(self) -> float:
        """The largest possible difference of two scores."""
        low, high = self.bounds
        return high - low

    @property
    def max_half_width(self) -> float:
        """Half-width of the widest interval that is reported."""
        return MAX_USABLE_SHARE * self.span

    def format_score(self, score: float) -> str:
        """Format a score with its unit."""
        return f"{to_percent(score):.1f}%" if self.share else f"{score:.3f}"

    def format_difference(self, difference: float, sign: str = "") -> str:
        """Format a difference of scores with its unit; `sign` "+" also shows positive signs."""
        return f"{to_percent(difference):{sign}.1f} points" if self.share else f"{difference:{sign}.3f}"

    @property
    def metric_name(self) -> str:
        """The metric in words."""
        return self.metric.replace("_", " ")


ACCURACY_SCALE = Scale()
SMALLEST_PROBABILITY = 1e-7  # of which a log loss takes the logarithm


@dataclass(frozen=True)
class Interval:
    """A mean difference of scores and its confidence interval; `share` is whether it is printed in percentage points.

    `n_domains` is the number of domains. If these are too few for an informative interval, `n_domains_needed` is the
    number of domains that would be enough at their standard deviation; otherwise it is 0.
    """

    difference: float
    low: float
    high: float
    share: bool = True
    n_domains: int = 0
    n_domains_needed: int = 0

    @property
    def sign(self) -> int:
        """1 or -1 if the first or the second side is significantly better, otherwise 0."""
        return int(self.low > 0) - int(self.high < 0)

    @property
    def decision(self) -> Kind:
        """The kind of methods that is significantly better, of invariant and plain ones."""
        sides: tuple[Kind, Kind, Kind] = ("none", "invariant", "plain")
        return sides[self.sign]

    @property
    def is_informative(self) -> bool:
        """Whether there are enough domains for an informative interval."""
        is_finite = bool(np.isfinite(self.low) and np.isfinite(self.high))
        return self.n_domains != 1 and not self.n_domains_needed and is_finite

    def __str__(self) -> str:
        difference = Scale(share=self.share).format_difference(self.difference, "+")
        if self.n_domains == 1:
            return f"{difference} (one domain gives no interval)"
        if self.n_domains_needed:
            return (
                f"{difference} ({self.n_domains} held-out domains are too few for a {CONFIDENCE_LEVEL:.0%} interval; "
                f"about {self.n_domains_needed} are needed)"
            )
        low, high = (f"{to_percent(end):+.1f}" if self.share else f"{end:+.3f}" for end in (self.low, self.high))
        return f"{difference}, {CONFIDENCE_LEVEL:.0%} interval {low} to {high}"


def validation_score(row: Row) -> float:
    """Return the validation score of a row, or minus infinity if it has none."""
    if row.validation is None or not np.isfinite(row.validation):
        return -np.inf
    return row.validation


def select_best_validated(rows: Iterable[Row], methods: Container[str]) -> Row | None:
    """Select the row of some methods with the best validation score.

    Ties are broken by the order of METHODS, then by that of the rows.
    """
    order = {name: -position for position, name in enumerate(METHODS)}
    candidates = [row for row in rows if row.method in methods and row.status == "ok"]
    return max(candidates, key=lambda row: (validation_score(row), order.get(row.method, -len(order))), default=None)


def _sum_by_group(values: Array, groups: Any = None) -> tuple[Array, Array]:
    """Return the sums and sizes of groups of samples; without groups, each sample is one."""
    if groups is None:
        return values, np.ones(len(values))
    codes = np.unique(groups, return_inverse=True)[1]
    return np.bincount(codes, values).astype(float), np.bincount(codes).astype(float)


def squared_error(values: Array, groups: Any = None) -> float:
    """Compute the squared standard error of the mean of samples, which are dependent within groups such as patients."""
    totals, sizes = _sum_by_group(values, groups)
    deviations = totals - sizes * values.mean()
    # At least the value for one differing group: agreement of two methods on a few samples does not prove equality.
    return float(max(deviations @ deviations / len(values) ** 2, 1 / len(totals) ** 2))


def mean_and_error(samples: Sequence[Array], errors: Sequence[float] | None = None) -> tuple[float, float]:
    """Compute the mean of differences over domains, and its standard error for the population of domains.

    `samples` contains one array for each domain, with sample-wise values between -1 and 1, and `errors` the squared
    standard errors of their means; None treats samples as independent. The standard errors are the limits of a
    bootstrap over domains, and of one over the samples within them. The first contains the noise of the samples
    already; the second is a lower bound for the case that few domains agree by chance. With one domain the error is
    infinite.
    """
    n_domains = len(samples)
    means = np.array([values.mean() for values in samples])
    squared_errors = [squared_error(values) for values in samples] if errors is None else errors
    over_samples = np.mean(squared_errors)
    error = np.sqrt(max(means.var(ddof=1), over_samples) / n_domains) if n_domains > 1 else np.inf
    return float(means.mean()), float(error)


def mean_interval(
    samples: Sequence[Array], errors: Sequence[float] | None = None, scale: Scale = ACCURACY_SCALE
) -> Interval:
    """Compute the mean of differences over domains, with an interval for the mean of the population of domains."""
    n_domains = len(samples)
    mean, error = mean_and_error(samples, errors)
    half_width = float(stdtrit(max(n_domains - 1, 1), (1 + CONFIDENCE_LEVEL) / 2)) * error
    n_domains_needed = None
    if n_domains > 1 and half_width > scale.max_half_width:
        spread = error * np.sqrt(n_domains)
        n_domains_needed = domains_for_interval(spread, scale.max_half_width, level=CONFIDENCE_LEVEL, kind="confidence")
    return Interval(
        mean,
        max(mean - half_width, -scale.span),
        min(mean + half_width, scale.span),
        scale.share,
        n_domains,
        n_domains_needed or 0,
    )


def sample_interval(values: Array, seed: int = 0, groups: Any = None) -> Interval:
    """Compute the mean difference on one domain, with a bootstrap interval over its samples, or over groups of them."""
    totals, sizes = _sum_by_group(values, groups)
    # Differences take few values, so that a multinomial draw of their counts is enough. A sum and its size make one
    # complex number, so that one call of `np.unique` sorts both.
    distinct, counts = np.unique(totals.round(EQUALITY_DECIMALS) + 1j * sizes, return_counts=True)
    n = len(totals)
    mean = float(values.mean())
    if np.ptp((distinct.real / distinct.imag).round(EQUALITY_DECIMALS)) == 0:
        # All bootstrap means would be equal. The rule of three bounds the mean instead.
        return Interval(mean, max(mean - 3 / n, -1.0), min(mean + 3 / n, 1.0))
    draws = np.random.default_rng(seed).multinomial(n, counts / n, size=N_BOOTSTRAP_DRAWS)
    means = (draws @ distinct.real) / (draws @ distinct.imag)
    low, high = np.quantile(means, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
    return Interval(mean, float(low), float(high))


@dataclass(frozen=True)
class DomainDifference:
    """The difference of the best validated invariant and plain methods on one held-out domain.

    The interval covers the sampling of the samples of this domain only. Its ends are NaN for metrics that are not means
    over samples.
    """

    domain: str
    invariant: str
    plain: str
    interval: Interval


@dataclass(frozen=True)
class DomainPair:
    """The best validated rows of two sides on one held-out domain, for each repeat, and their mean differences."""

    domain: str
    rows: list[tuple[Row, Row]]
    values: Array
    error: float


@dataclass(frozen=True)
class ComparisonResults:
    """Rows with their predictions, and the statistics that a recommendation needs.

    `truth` holds the true classes of the targets of each task, `groups` those groups of dependent samples (as patients)
    that are known.
    """

    rows: Sequence[Row]
    truth: Mapping[str, Ints]
    scale: Scale = ACCURACY_SCALE
    groups: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_sample_scores(self) -> bool:
        """Whether every sample has a score, so that samples can be paired and the noise of their mean is known."""
        return self.scale.metric == "accuracy"

    def methods_of_kind(self, *kinds: str) -> list[str]:
        """List the methods of some kinds, in the order of METHODS, then of the rows."""
        present = dict.fromkeys(row.method for row in self.rows if row.kind in kinds)
        return [name for name in METHODS if name in present] + [name for name in present if name not in METHODS]

    @property
    def auto_method(self) -> str | None:
        """The automatic method, preferably without transductive steps; None if there is none."""
        return next(iter(self.methods_of_kind("auto")), None)  # the registry has the inductive one first

    def sample_scores(self, row: Row) -> Array:
        """Return the scores of single samples, or else the score of the row."""
        if not self.has_sample_scores:
            return np.array([row.accuracy], dtype=float)
        assert row.codes is not None
        return (row.codes == self.truth[row.task]).astype(float)

    def _squared_error(self, values: Array, task: str) -> float:
        return squared_error(values, self.groups.get(task)) if self.has_sample_scores else 0.0

    def pair_methods(self, first: Sequence[str], second: Sequence[str]) -> list[DomainPair]:
        """Pair the best validated methods of two sides on each domain where both have a score."""
        rows_by_place: dict[tuple[str, int], list[Row]] = {}
        for row in self.rows:
            rows_by_place.setdefault((row.domain, row.repeat), []).append(row)
        rows_by_domain: dict[str, list[tuple[Row, Row]]] = {}
        for (domain, _), rows in rows_by_place.items():
            one = select_best_validated(rows, first)
            two = select_best_validated(rows, second)
            if one is not None and two is not None and one.has_score and two.has_score:
                rows_by_domain.setdefault(domain, []).append((one, two))
        pairs = []
        for domain, paired in rows_by_domain.items():
            values = np.mean([self.sample_scores(one) - self.sample_scores(two) for one, two in paired], axis=0)
            pairs.append(DomainPair(domain, paired, values, self._squared_error(values, paired[0][0].task)))
        return pairs

    def mean_interval(self, pairs: Sequence[DomainPair]) -> Interval | None:
        """Compute the mean difference over all domains, with its interval; None without domains."""
        if not pairs:
            return None
        return mean_interval([pair.values for pair in pairs], [pair.error for pair in pairs], self.scale)

    def domain_difference(self, pair: DomainPair, seed: int) -> DomainDifference:
        """Compute the difference on one domain, with an interval if samples are paired."""
        if self.has_sample_scores:
            interval = sample_interval(pair.values, seed, self.groups.get(pair.rows[0][0].task))
        else:
            interval = Interval(float(pair.values[0]), np.nan, np.nan, self.scale.share, 1)
        invariant, plain = (", ".join(dict.fromkeys(rows[side].method for rows in pair.rows)) for side in (0, 1))
        return DomainDifference(pair.domain, invariant, plain, interval)

    @cached_property
    def scored_rows(self) -> dict[str, dict[str, list[Row]]]:
        """Rows that have a score, by method and domain."""
        scored: dict[str, dict[str, list[Row]]] = {}
        for row in self.rows:
            if row.has_score:
                scored.setdefault(row.method, {}).setdefault(row.domain, []).append(row)
        return scored

    @cached_property
    def complete_methods(self) -> list[str]:
        """Methods that have a score on every domain on which any method has one."""
        n_domains = max(map(len, self.scored_rows.values()), default=0)
        return [method for method, domains in self.scored_rows.items() if len(domains) == n_domains]

    def domain_scores(self, method: str) -> dict[str, float]:
        """Return the scores of a method by domain, as means over repeats."""
        return {name: float(np.mean([row.accuracy for row in rows])) for name, rows in self.scored_rows[method].items()}

    def mean_score(self, method: str) -> float:
        """Compute the mean score of a method over domains."""
        return float(np.mean([*self.domain_scores(method).values()]))

    def log_losses(self, method: str) -> dict[str, float]:
        """Return the log losses of a method by domain, as means over repeats; empty without probabilities."""
        losses: dict[str, float] = {}
        for name, rows in self.scored_rows[method].items():
            values = []
            for row in rows:
                if row.probabilities is not None:
                    true = np.take_along_axis(row.probabilities, self.truth[row.task][:, None], axis=1)
                    values.append(-np.log(np.maximum(true, SMALLEST_PROBABILITY)).mean())
            if values:
                losses[name] = float(np.mean(values))
        return losses

    def expected_score(self, method: str) -> ExpectedScore:
        """Predict the score of a method on a new domain from its scores on held-out domains."""
        scores = np.array([*self.domain_scores(method).values()])
        errors = [
            self._squared_error(np.mean([self.sample_scores(row) for row in rows], axis=0), rows[0].task)
            for rows in self.scored_rows[method].values()
        ]
        sampling_variance = float(np.mean(errors))
        n_domains = len(scores)
        mean, low, high = forecast(
            scores,
            np.full(n_domains, np.sqrt(sampling_variance)),
            self.scale.bounds,
            level=CONFIDENCE_LEVEL,
            min_domains=MIN_DOMAINS_FOR_INTERVAL,
        )
        if n_domains >= MIN_DOMAINS_FOR_INTERVAL and is_informative(low, high, self.scale.bounds):
            return ExpectedScore(mean, low, high, n_domains)
        variance = scores.var(ddof=1) if n_domains > 1 else 0.0
        spread = float(np.sqrt(max(variance, sampling_variance)))
        reason = explain_missing_interval(
            n_domains, spread, self.scale.max_half_width, self.scale.format_difference, CONFIDENCE_LEVEL
        )
        return ExpectedScore(mean, None, None, n_domains, reason)


@dataclass(frozen=True)
class ExpectedScore:
    """The mean score on held-out domains, and a 95% prediction interval for the score on a new domain.

    `low` and `high` are None if `n_domains` held-out domains are too few for an informative interval. The
    `missing_interval_reason` then states how many are needed.
    """

    mean: float
    low: float | None
    high: float | None
    n_domains: int
    missing_interval_reason: str = ""
