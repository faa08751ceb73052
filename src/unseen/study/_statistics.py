"""What a verdict rests on: who stands for a side on each held-out domain, their differences, and intervals of means.

On each held-out domain the methods that did best in the *validation* stand for their side. Choosing them by their
results on that domain would reward the side with more methods, whatever they do. Accuracies are paired by sample,
scores of other metrics by domain, and their differences averaged over domains. Domains are what varies from one use to
the next, and they are few: the standard error, over domains and over samples within them, is read on Student's t with
one degree of freedom less than there are domains.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from ..linalg import Array
from ..model_selection import (
    MAX_USABLE_SHARE,
    METHODS,
    MIN_DOMAINS_FOR_INTERVAL,
    domains_for_interval,
    explain_missing_interval,
    forecast,
    is_informative,
)
from ._result_tables import defined
from ._store import Row

Correct = Mapping[tuple[str, str, int], npt.NDArray[np.bool_]]
LEVEL = 0.95
DRAWS = 4000
BOOTSTRAP_ROWS = 12  # decimal places in which two differences, or two means, count as equal
Kind = Literal["invariant", "plain", "none"]


@dataclass(frozen=True)
class Scale:
    """What scores are measured in: percent where they are shares, plain numbers elsewhere; more is better.

    `limits` are the lowest and the highest value of the metric, before it is turned into percent; None is 0 and 1 for
    shares, and no limits for other metrics.
    """

    metric: str = "accuracy"
    share: bool = True
    limits: tuple[float, float] | None = None

    @property
    def factor(self) -> float:
        """What the score of a row is multiplied by."""
        return 100.0 if self.share else 1.0

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest score there can be."""
        low, high = self.limits or ((0.0, 1.0) if self.share else (-np.inf, np.inf))
        return self.factor * low, self.factor * high

    @property
    def span(self) -> float:
        """The largest difference of two scores there can be."""
        return self.ends[1] - self.ends[0]

    @property
    def usable(self) -> float:
        """Half-width of the widest interval that is worth showing."""
        return MAX_USABLE_SHARE * self.span

    def text(self, score: float) -> str:
        """A score as people read it."""
        return f"{score:.1f}%" if self.share else f"{score:.3f}"

    def size(self, difference: float, sign: str = "") -> str:
        """A difference of scores as people read it; `sign` "+" shows the sign of all of them."""
        return f"{difference:{sign}.1f} points" if self.share else f"{difference:{sign}.3f}"

    @property
    def words(self) -> str:
        """The metric as people say it."""
        return self.metric.replace("_", " ")


PERCENT = Scale()


@dataclass(frozen=True)
class Interval:
    """A mean difference and its confidence interval: points of percent, or plain numbers where scores are no shares.

    `domains` is the number of domains that it rests on. If they are too few for an interval that says something,
    `needed` is how many it takes at their spread; otherwise it is 0.
    """

    difference: float
    low: float
    high: float
    share: bool = True
    domains: int = 0
    needed: int = 0

    @property
    def sign(self) -> int:
        """1 or -1 if the first or the second side is detectably better, otherwise 0."""
        return int(self.low > 0) - int(self.high < 0)

    @property
    def decision(self) -> Kind:
        """Which side is better, if one detectably is, of invariant methods and plain ones."""
        sides: tuple[Kind, Kind, Kind] = ("none", "invariant", "plain")
        return sides[self.sign]

    @property
    def informative(self) -> bool:
        """Whether there is an interval that says something."""
        return self.domains != 1 and not self.needed and bool(np.isfinite(self.low) and np.isfinite(self.high))

    def __str__(self) -> str:
        digits, unit = (1, " points") if self.share else (3, "")
        difference = f"{self.difference:+.{digits}f}{unit}"
        if self.domains == 1:
            return f"{difference}, and no interval, which one domain cannot give"
        if self.needed:
            few = f"{self.domains} held-out domains are too few for a {LEVEL:.0%} interval"
            return f"{difference} ({few}; about {self.needed} are needed)"
        low, high = (f"{end:+.{digits}f}" for end in (self.low, self.high))
        return f"{difference}, {LEVEL:.0%} interval {low} to {high}"


def validated_methods(row: Row) -> float:
    """The score of the choice; where there is none, nothing is worse."""
    return row.validation if row.validation is not None and np.isfinite(row.validation) else -np.inf


def best_validated(rows: Iterable[Row], methods: Container[str]) -> Row | None:
    """Best row of some methods by validation alone; of equals, the first in the order of METHODS, then of the rows."""
    order = {name: -position for position, name in enumerate(METHODS)}
    fit = [r for r in rows if r.method in methods and r.status == "ok"]
    return max(fit, key=lambda r: (validated_methods(r), order.get(r.method, -len(order))), default=None)


def methods_of_kind(rows: Iterable[Row], *kinds: str) -> list[str]:
    """Methods of some kinds, in the order of METHODS, then of the rows."""
    present = dict.fromkeys(row.method for row in rows if row.kind in kinds)
    return [name for name in METHODS if name in present] + [name for name in present if name not in METHODS]


def best_by_kind(
    rows: Sequence[Row], first: Sequence[str] | None = None, second: Sequence[str] | None = None
) -> dict[tuple[str, int], tuple[Row | None, Row | None]]:
    """Who stands for the first and for the second methods, invariant and plain ones, for each task and repeat."""
    first = methods_of_kind(rows, "invariant") if first is None else first
    second = methods_of_kind(rows, "plain") if second is None else second
    places: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        places.setdefault((row.task, row.repeat), []).append(row)
    return {at: (best_validated(here, first), best_validated(here, second)) for at, here in places.items()}


def _drawn_together(values: Array, groups: Any = None) -> tuple[Array, Array]:
    """Sums and sizes of what is drawn together: single samples, or groups of them."""
    if groups is None:
        return values, np.ones(len(values))
    codes = np.unique(groups, return_inverse=True)[1]
    return np.bincount(codes, values).astype(float), np.bincount(codes).astype(float)


def squared_error(values: Array, groups: Any = None) -> float:
    """Squared standard error of the mean of samples, of which those of a group, such as a patient, belong together."""
    totals, sizes = _drawn_together(values, groups)
    off = totals - sizes * values.mean()
    # Where no unit tells two methods apart, as if one did: agreement on a few samples is no proof of equality.
    return float(max(off @ off / len(values) ** 2, 1 / len(totals) ** 2))


def mean_and_error(
    samples: Sequence[Array], errors: Sequence[float] | None = None, scale: Scale = PERCENT
) -> tuple[float, float]:
    """Mean over domains of differences, and its standard error for all domains there might be.

    `samples` holds one array for each domain, with sample-wise values between -1 and 1, and `errors` the squared
    standard errors of their means; None takes samples as independent. The standard errors are those that a bootstrap
    over domains, and one over the samples within them, converge to. The first already holds the noise of the samples;
    the second bounds it from below where few domains agree by luck. One domain says nothing about the next.
    """
    m = len(samples)
    means = scale.factor * np.array([values.mean() for values in samples])
    over_samples = scale.factor**2 * np.mean([squared_error(v) for v in samples] if errors is None else errors)
    error = np.sqrt(max(means.var(ddof=1), over_samples) / m) if m > 1 else np.inf
    return float(means.mean()), float(error)


def mean_interval(samples: Sequence[Array], errors: Sequence[float] | None = None, scale: Scale = PERCENT) -> Interval:
    """Mean over domains of differences, with an interval for the mean over all domains there might be."""
    m = len(samples)
    mean, error = mean_and_error(samples, errors, scale)
    reach = float(stdtrit(max(m - 1, 1), (1 + LEVEL) / 2)) * error
    needed = None
    if m > 1 and reach > scale.usable:
        needed = domains_for_interval(error * np.sqrt(m), scale.usable, level=LEVEL, kind="confidence")
    return Interval(mean, max(mean - reach, -scale.span), min(mean + reach, scale.span), scale.share, m, needed or 0)


def sample_interval(values: Array, seed: int = 0, groups: Any = None) -> Interval:
    """Mean difference on one domain, with a bootstrap interval over its samples, or over groups of them."""
    totals, sizes = _drawn_together(values, groups)
    # Differences take few values, so that counting how often each is drawn is enough. A sum and its size make one
    # complex number, which sorts in one go.
    distinct, counts = np.unique(totals.round(BOOTSTRAP_ROWS) + 1j * sizes, return_counts=True)
    n, mean = len(totals), 100 * float(values.mean())
    if np.ptp((distinct.real / distinct.imag).round(BOOTSTRAP_ROWS)) == 0:  # no bootstrap can tell: the rule of three
        return Interval(mean, max(mean - 300 / n, -100.0), min(mean + 300 / n, 100.0))
    draws = np.random.default_rng(seed).multinomial(n, counts / n, size=DRAWS)
    means = 100 * (draws @ distinct.real) / (draws @ distinct.imag)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(mean, float(low), float(high))


@dataclass(frozen=True)
class DomainDifference:
    """The two champions on one held-out domain; the interval knows of the sampling of its samples only.

    It is NaN for metrics that no sample has by itself.
    """

    domain: str
    invariant: str
    plain: str
    interval: Interval


@dataclass(frozen=True)
class Pair:
    """The champions of two sides on one held-out domain, in each repeat, and their differences, mean over repeats."""

    domain: str
    rows: list[tuple[Row, Row]]
    values: Array
    error: float

    def names(self, side: int) -> list[str]:
        return [rows[side].method for rows in self.rows]

    def score(self, side: int) -> float:
        return float(np.mean([rows[side].accuracy for rows in self.rows]))


@dataclass(frozen=True)
class Results:
    """What a verdict rests on, and readings of it."""

    rows: Sequence[Row]
    correct: Correct
    scale: Scale
    groups: Mapping[str, Any]

    @property
    def sampled(self) -> bool:
        """Whether every sample has a score of its own, which pairs samples and tells how noisy a mean of them is."""
        return self.scale.metric == "accuracy"

    def kind(self, kind: str) -> list[str]:
        """Methods of a kind."""
        return methods_of_kind(self.rows, kind)

    def values(self, row: Row) -> Array:
        """Scores of single samples, or the one score there is."""
        at = row.method, row.task, row.repeat
        return self.correct[at].astype(float) if self.sampled else np.array([row.accuracy], dtype=float)

    def error(self, values: Array, task: str) -> float:
        return squared_error(values, self.groups.get(task)) if self.sampled else 0.0

    def pairs(self, first: Sequence[str], second: Sequence[str]) -> list[Pair]:
        """The champions of two sides on each domain where both have a score."""
        found: dict[str, list[tuple[Row, Row]]] = {}
        for one, two in best_by_kind(self.rows, first, second).values():
            if one is not None and two is not None and defined(one) and defined(two):
                found.setdefault(held_out_domain(one), []).append((one, two))
        pairs = []
        for domain, rows in found.items():
            values = np.mean([self.values(one) - self.values(two) for one, two in rows], axis=0)
            pairs.append(Pair(domain, rows, values, self.error(values, rows[0][0].task)))
        return pairs

    def interval(self, pairs: Sequence[Pair]) -> Interval:
        """The mean difference over all domains."""
        return mean_interval([pair.values for pair in pairs], [pair.error for pair in pairs], self.scale)

    def advantage(self, first: str, second: str) -> tuple[float, float]:
        """Mean difference of two methods, paired over held-out domains, and its standard error; infinite if unknown."""
        pairs = self.pairs([first], [second])
        if not pairs:  # each failed where the other did not
            return 0.0, np.inf
        return mean_and_error([pair.values for pair in pairs], [pair.error for pair in pairs], self.scale)

    def beats(self, first: str, second: str) -> bool:
        """Whether the first of two methods is better by more than one standard error."""
        difference, error = self.advantage(first, second)
        return difference > error

    def per_domain(self, pair: Pair, seed: int) -> DomainDifference:
        """The difference on one domain, with an interval if samples are paired."""
        if self.sampled:
            interval = sample_interval(pair.values, seed, self.groups.get(pair.rows[0][0].task))
        else:
            interval = Interval(self.scale.factor * float(pair.values[0]), np.nan, np.nan, self.scale.share, 1)
        invariant, plain = (", ".join(dict.fromkeys(pair.names(side))) for side in (0, 1))
        return DomainDifference(pair.domain, invariant, plain, interval)

    @cached_property
    def scored(self) -> dict[str, dict[str, list[Row]]]:
        """Rows by method and domain, where they have a score."""
        found: dict[str, dict[str, list[Row]]] = {}
        for row in self.rows:
            if row.status == "ok" and defined(row):
                found.setdefault(row.method, {}).setdefault(held_out_domain(row), []).append(row)
        return found

    @cached_property
    def undefined(self) -> set[str]:
        """Tasks on which methods answered, but no answer has a score."""
        answered = [row for row in self.rows if row.status == "ok"]
        return {row.task for row in answered} - {row.task for row in answered if defined(row)}

    def scores(self, method: str) -> dict[str, float]:
        """Scores of a method by domain, mean over repeats, as they are read."""
        found = self.scored[method].items()
        return {name: self.scale.factor * float(np.mean([row.accuracy for row in rows])) for name, rows in found}

    def mean(self, method: str) -> float:
        """Mean score of a method over domains."""
        return float(np.mean([*self.scores(method).values()]))

    @cached_property
    def means(self) -> dict[str, float]:
        """What the table says: mean scores of the methods that have one on every domain."""
        most = max(map(len, self.scored.values()), default=0)
        return {method: self.mean(method) for method, domains in self.scored.items() if len(domains) == most}

    def noise(self, method: str) -> float:
        """Squared standard error of a score within its domain, mean over domains, as scores are read."""
        errors = [
            self.error(np.mean([self.values(row) for row in rows], axis=0), rows[0].task)
            for rows in self.scored[method].values()
        ]
        return self.scale.factor**2 * float(np.mean(errors))

    def expectation(self, method: str) -> Expectation:
        """What the scores of a method on held-out domains let expect of the next one."""
        scores, noise = np.array([*self.scores(method).values()]), self.noise(method)
        m = len(scores)
        mean, low, high = forecast(scores, noise, self.scale.ends, level=LEVEL, fewest=MIN_DOMAINS_FOR_INTERVAL)
        if m >= MIN_DOMAINS_FOR_INTERVAL and is_informative(low, high, self.scale.ends):
            return Expectation(mean, low, high, m)
        spread = float(np.sqrt(max(scores.var(ddof=1) if m > 1 else 0.0, noise)))
        return Expectation(
            mean, None, None, m, explain_missing_interval(m, spread, self.scale.usable, self.scale.size, LEVEL)
        )


@dataclass(frozen=True)
class Expectation:
    """The mean score on held-out domains, and where the next one is expected.

    `low` and `high` are the ends of a 95% prediction interval that rests on so many `domains`. They are None if it
    would say nothing; then `too_few` says so, and how many domains it takes.
    """

    mean: float
    low: float | None
    high: float | None
    domains: int
    too_few: str = ""


def held_out_domain(row: Row) -> str:
    return ", ".join(row.accuracies)
