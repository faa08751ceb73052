"""The verdict of a comparison: whether invariance helped, and how sure one can be.

On each held-out domain the invariant method and the plain classifier that did best in the *validation* stand for their
kinds. Choosing them by their results on the held-out domain would reward the kind with more methods, whatever they do.
The differences are paired by sample and averaged over domains. Domains are what varies from one use to the next, and
they are few: the standard error, over domains and over samples within them, is read on Student's t with one degree of
freedom less than there are domains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from ..algebra import Array
from ..selection import METHODS, method_names
from ._store import Row

Correct = Mapping[tuple[str, str, int], npt.NDArray[np.bool_]]
DRAWS = 4000
Kind = Literal["invariant", "plain", "none"]
VALIDATION = {"domain": "the other domains", "within": "held-out samples of the other domains"}
KEPT = 12  # decimal places in which two sample-wise differences count as equal


@dataclass(frozen=True)
class Interval:
    """A mean difference, of invariant methods from plain ones, in percentage points, and its confidence interval."""

    difference: float
    low: float
    high: float

    @property
    def decision(self) -> Kind:
        """Which side is better, if one detectably is."""
        return "invariant" if self.low > 0 else "plain" if self.high < 0 else "none"

    def __str__(self) -> str:
        return f"{self.difference:+.1f} points, 95% interval {self.low:+.1f} to {self.high:+.1f}"


@dataclass(frozen=True)
class DomainDifference:
    """The two champions on one held-out domain; the interval knows of the sampling of its samples only."""

    domain: str
    invariant: str
    plain: str
    interval: Interval


@dataclass(frozen=True)
class Verdict:
    """Invariant minus plain, over all held-out domains, in numbers and in words."""

    decision: Kind
    interval: Interval | None
    per_domain: list[DomainDifference]
    headline: str
    sentences: list[str]


def best_validated(rows: Iterable[Row], methods: Sequence[str]) -> Row | None:
    """Best row of some methods by validation alone; of equals, the first in the order of METHODS."""
    fit = [r for r in rows if r.method in methods and r.status == "ok" and r.validation is not None]
    return max(fit, key=lambda r: (r.validation, -list(METHODS).index(r.method)), default=None)


def champions(
    rows: Sequence[Row], first: Sequence[str] | None = None, second: Sequence[str] | None = None
) -> dict[tuple[str, int], tuple[Row | None, Row | None]]:
    """Who stands for the first and for the second methods, invariant and plain ones, for each task and repeat."""
    first, second = first or method_names(kind="invariant"), second or method_names(kind="plain")
    places: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        places.setdefault((row.task, row.repeat), []).append(row)
    return {at: (best_validated(here, first), best_validated(here, second)) for at, here in places.items()}


def mean_interval(samples: Sequence[Array], level: float = 0.95) -> Interval:
    """Mean over domains of sample-wise differences, with an interval for the mean over all domains there might be.

    `samples` holds one array for each domain, with values between -1 and 1; the result is in percentage points. The
    standard errors are those that a bootstrap over domains, and one over the samples within them, converge to. The
    first already holds the noise of the samples; the second bounds it from below where few domains agree by luck.
    """
    m = len(samples)
    means = 100 * np.array([values.mean() for values in samples])
    if m < 2:
        return Interval(float(means.mean()), -100.0, 100.0)  # one domain says nothing about the next
    over_domains = means.var(ddof=1) / m
    # Where no sample tells the two apart, as if one did: agreement on a few samples is no proof of equality.
    over_samples = np.mean([100**2 * max(values.var(), 1 / len(values)) / len(values) for values in samples]) / m
    margin = student.ppf((1 + level) / 2, m - 1) * np.sqrt(max(over_domains, over_samples))
    return _interval(means.mean(), means.mean() - margin, means.mean() + margin)


def _interval(mean: float, low: float, high: float) -> Interval:
    """In percentage points, of which there are a hundred on either side."""
    return Interval(float(mean), max(float(low), -100.0), min(float(high), 100.0))


def sample_interval(values: Array, level: float = 0.95, seed: int = 0) -> Interval:
    """Mean difference on one domain, with a bootstrap interval over its samples."""
    # Differences take few values, so that counting how often each is drawn is enough.
    distinct, counts = np.unique(values.round(KEPT), return_counts=True)
    n = len(values)
    if len(distinct) == 1:  # no bootstrap can tell: the rule of three
        return _interval(100 * distinct[0], 100 * distinct[0] - 300 / n, 100 * distinct[0] + 300 / n)
    means = 100 * (np.random.default_rng(seed).multinomial(n, counts / n, size=DRAWS) @ distinct) / n
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(100 * float(values.mean()), float(low), float(high))


def verdict(
    rows: Sequence[Row], correct: Correct, selection: str = "domain", level: float = 0.95, seed: int = 0
) -> Verdict:
    """Judge a comparison with one held-out domain to each task.

    `correct` tells for each (method, task, repeat) which samples of the target were classified correctly, and
    `selection` who chose the settings.
    """
    if selection == "oracle":
        reason = "The settings, and with them the champions of each kind, saw the labels of the held-out domains."
        return Verdict("none", None, [], "No verdict: an oracle chose, for reference only.", [reason])
    found = _paired(rows, correct, method_names(kind="invariant"), method_names(kind="plain"))
    if not found:
        return Verdict("none", None, [], "There is nothing to compare.", [_no_pair(rows)])
    differences, firsts, seconds = zip(*found.values(), strict=True)
    overall = mean_interval(differences, level)
    per_domain = [
        DomainDifference(target, _distinct_names(first), _distinct_names(second), sample_interval(values, level, seed))
        for target, (values, first, second) in found.items()
    ]
    sentences = [
        "On each held-out domain, the invariant method and the plain classifier that did best in the validation on "
        f"{VALIDATION[selection]} stand for their kinds. Invariant: {_shares(firsts)}. Plain: {_shares(seconds)}.",
        *_left_out(rows, len(found)),
        *_attribution(rows, correct, level),
        *_cautions(rows, firsts, len(found)),
    ]
    return Verdict(overall.decision, overall, per_domain, _headline(overall), sentences)


def _paired(
    rows: Sequence[Row], correct: Correct, first: Sequence[str], second: Sequence[str]
) -> dict[str, tuple[Array, list[str], list[str]]]:
    """For each target: differences by sample, mean over repeats, and the champions of each repeat."""
    found: dict[str, tuple[list[Array], list[str], list[str]]] = {}
    for (task, repeat), (one, two) in champions(rows, first, second).items():
        if one is not None and two is not None:
            differences, ones, twos = found.setdefault(", ".join(one.accuracies), ([], [], []))
            differences.append(correct[one.method, task, repeat].astype(float) - correct[two.method, task, repeat])
            ones.append(one.method)
            twos.append(two.method)
    return {target: (np.mean(each, axis=0), ones, twos) for target, (each, ones, twos) in found.items()}


def _headline(interval: Interval) -> str:
    if interval.decision == "invariant":
        return f"Invariance helped: {interval}, over plain classifiers."
    if interval.decision == "plain":
        return f"Plain classifiers did better: {interval}, for invariant methods."
    return f"No detectable difference between invariant methods and plain classifiers: {interval}."


def _attribution(rows: Sequence[Row], correct: Correct, level: float) -> Iterator[str]:
    """KFDA is the same projection, centred the same way, without invariance: the rest is the invariance's own."""
    found = _paired(rows, correct, method_names(kind="invariant", is_projection=True), ["KFDA"])
    if not found:
        return
    interval = mean_interval([values for values, _, _ in found.values()], level)
    reading = {
        "invariant": "the invariance itself adds something",
        "plain": "the invariance itself costs something",
        "none": "what the invariance itself adds cannot be told from zero",
    }[interval.decision]
    yield (
        "Against KFDA, the projection without invariance under the same centring, the best invariant projection has "
        f"{interval}: {reading}."
    )


def _cautions(rows: Sequence[Row], champions: Sequence[list[str]], domains: int) -> Iterator[str]:
    names = {name for part in champions for name in part}
    if any(row.transductive and row.method in names for row in rows):
        yield (
            "The invariant methods looked at unlabelled samples of the held-out domain (transductive); the plain "
            "classifiers did not."
        )
    if domains < 6:
        yield (
            f"With {domains} held-out domain{'s' * (domains > 1)} the interval is wide: it speaks of the next one, and "
            "there are few examples of it."
        )


def _left_out(rows: Sequence[Row], judged: int) -> Iterator[str]:
    """Say so if the verdict does not speak of all held-out domains."""
    tasks = len({row.task for row in rows})
    if judged < tasks:
        yield f"It rests on {judged} of {tasks} held-out domains: on the others all methods of a kind failed."


def _no_pair(rows: Sequence[Row]) -> str:
    kinds = [kind for kind in ("invariant", "plain") if best_validated(rows, method_names(kind=kind)) is None]
    return f"A verdict needs an invariant method and a plain classifier; there is no {' and no '.join(kinds)} one."


def _distinct_names(methods: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(methods))


def _shares(parts: Sequence[list[str]]) -> str:
    counts = Counter(name for part in parts for name in part)
    total = sum(counts.values())
    return ", ".join(f"{name} ({count} of {total})" for name, count in counts.most_common())
