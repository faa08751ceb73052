"""The verdict of a comparison: what to use, what to expect of it, whether invariance helped, and how sure one can be.

The method to use is the one best in the validation, as are those that stand for their kinds (``_evidence.py``): results
on held-out domains have no say in it, or the best of many would always look better than it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..selection import METHODS, forecast
from ._evidence import (
    ENOUGH,
    KEPT,
    PERCENT,
    Correct,
    DomainDifference,
    Interval,
    Kind,
    Pair,
    Results,
    Scale,
    best_validated,
    of_kind,
    validated,
)
from ._store import Row

VALIDATION = {"domain": "the other domains", "within": "held-out samples of the other domains"}
MAJORITY = "majority"
AUTO = "UnseenClassifier (auto)"
CLOSE = 2.0  # points above the majority that are hardly worth a model
RARE = 0.1  # share of a class that accuracy hardly sees
BALANCED = "Accuracy says little about that: --metric balanced_accuracy counts all classes alike."


@dataclass(frozen=True)
class Recommendation:
    """The method to use, and what to expect of it on a domain that nobody has seen, in percent if scores are shares.

    Nineteen in twenty new domains have a score from `low` to `high`; `scores` are those of the held-out domains.
    """

    method: str
    expected: float
    low: float
    high: float
    worst: float
    worst_domain: str
    scores: dict[str, float]
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """Invariant minus plain, over all held-out domains, in numbers and in words, and what to do.

    `auto` is the difference of the automatic choice from plain classifiers, if it took part.
    """

    decision: Kind
    interval: Interval | None
    per_domain: list[DomainDifference]
    headline: str
    sentences: list[str]
    auto: Interval | None = None
    recommendation: Recommendation | None = None
    scale: Scale = PERCENT

    def cautioned(self, caution: str | None) -> Verdict:
        """The same with one more sentence, unless there is none or its advice was given already."""
        said = caution is None or any(BALANCED in sentence for sentence in self.sentences)
        return self if said else replace(self, sentences=[*self.sentences, str(caution)])


def verdict(
    rows: Sequence[Row],
    correct: Correct,
    selection: str = "domain",
    *,
    seed: int = 0,
    metric: str = "accuracy",
    share: bool = True,
    groups: Mapping[str, Any] | None = None,
) -> Verdict:
    """Judge a comparison with one held-out domain to each task.

    `correct` tells for each (method, task, repeat) which samples of the target were classified correctly, and
    `selection` who chose the settings. `metric` is what the rows call accuracy: more is better, NaN or None is
    undefined, and `share` tells whether it lies between 0 and 1. `groups` labels, for each task, the target's samples
    that belong together, such as those of one patient.
    """
    if selection == "oracle":
        reason = "The settings, and with them the champions of each kind, saw the labels of the held-out domains."
        headline = "No verdict: an oracle chose, for reference only."
        return Verdict("none", None, [], headline, [reason], scale=Scale(metric, share))
    seen = Results(rows, correct, Scale(metric, share), groups or {})
    pairs = seen.pairs(seen.kind("invariant"), seen.kind("plain"))
    overall = seen.interval(pairs) if pairs else None
    headlines = [] if overall is None else [_headline(overall)]
    automatic = seen.pairs(seen.kind("auto"), seen.kind("plain"))
    auto = seen.interval(automatic) if automatic else None
    if auto is not None:
        headlines.insert(0, _headline(auto, AUTO, f"{AUTO} did better"))
    headline, *others = headlines or ["There is nothing to compare."]
    return Verdict(
        overall.decision if overall else "none",
        overall,
        [seen.per_domain(pair, seed) for pair in pairs],
        headline,
        [*others, *_sentences(seen, pairs, overall, selection)],
        auto,
        recommend(seen, selection),
        seen.scale,
    )


def _sentences(seen: Results, pairs: Sequence[Pair], overall: Interval | None, selection: str) -> Iterator[str]:
    """What the difference of invariant methods from plain ones rests on, and how far it can be trusted."""
    if overall is None:
        yield _no_pair(seen)
    else:
        firsts, seconds = (_shares([pair.names(side) for pair in pairs]) for side in (0, 1))
        yield (
            "On each held-out domain, the invariant method and the plain classifier that did best in the validation on "
            f"{VALIDATION[selection]} stand for their kinds. Invariant: {firsts}. Plain: {seconds}."
        )
        yield from _left_out(seen, len(pairs))
        yield from _hindsight(seen, pairs, overall)
        yield from _attribution(seen)
        yield from _cautions(pairs)
    yield from _hardly_more_than_majority(seen)


def _headline(interval: Interval, who: str = "invariant methods", won: str = "Invariance helped") -> str:
    if interval.sign > 0:
        return f"{won}: {interval}, over plain classifiers."
    if interval.sign < 0:
        return f"Plain classifiers did better: {interval}, for {who}."
    return f"No detectable difference between {who} and plain classifiers: {interval}."


def _hindsight(seen: Results, pairs: Sequence[Pair], overall: Interval) -> Iterator[str]:
    """Say why, if the best means of the table speak for the other kind."""
    kinds = [[name for name in seen.kind(kind) if name in seen.means] for kind in ("invariant", "plain")]
    if not all(kinds):
        return
    best = [max(names, key=lambda name: seen.means[name]) for names in kinds]
    lead, digits = seen.means[best[0]] - seen.means[best[1]], 1 if seen.scale.share else 3
    if round(lead, digits) * round(overall.difference, digits) < 0:
        ahead, behind = best if lead > 0 else best[::-1]
        means = [seen.scale.factor * float(np.mean([pair.score(side) for pair in pairs])) for side in (0, 1)]
        text = seen.scale.text
        yield (
            f"The table seems to say otherwise: {ahead} has {text(seen.means[ahead])}, {behind} "
            f"{text(seen.means[behind])}. That is hindsight: the verdict compares what the validation chose on each "
            f"domain, invariant methods that have {text(means[0])} and plain classifiers that have {text(means[1])}."
        )


def _attribution(seen: Results) -> Iterator[str]:
    """KFDA is the same projection, centred the same way, without invariance: the rest is the invariance's own."""
    projections = [name for name in seen.kind("invariant") if name in METHODS and METHODS[name].is_projection]
    pairs = seen.pairs(projections, ["KFDA"])
    if not pairs:
        return
    interval = seen.interval(pairs)
    reading = {
        "invariant": "the invariance itself adds something",
        "plain": "the invariance itself costs something",
        "none": "what the invariance itself adds cannot be told from zero",
    }[interval.decision]
    yield (
        "Against KFDA, the projection without invariance under the same centring, the best invariant projection has "
        f"{interval}: {reading}."
    )


def _cautions(pairs: Sequence[Pair]) -> Iterator[str]:
    if any(one.transductive for pair in pairs for one, _ in pair.rows):
        yield (
            "The invariant methods looked at unlabelled samples of the held-out domain (transductive); the plain "
            "classifiers did not."
        )
    if len(pairs) < 6:
        yield (
            f"With {len(pairs)} held-out domain{'s' * (len(pairs) > 1)} the interval is wide: it speaks of the next "
            "one, and there are few examples of it."
        )


def _left_out(seen: Results, judged: int) -> Iterator[str]:
    """Say so if the verdict does not speak of all held-out domains."""
    tasks = {row.task for row in seen.rows}
    undefined = len(seen.undefined)
    if judged < len(tasks):
        whys = [
            f"on {undefined} of the others {seen.scale.words} is undefined" * (undefined > 0),
            "on the others all methods of a kind failed" * (judged + undefined < len(tasks)),
        ]
        yield f"It rests on {judged} of {len(tasks)} held-out domains: {'; '.join(filter(None, whys))}."


def _no_pair(seen: Results) -> str:
    kinds = [kind for kind in ("invariant", "plain") if best_validated(seen.rows, seen.kind(kind)) is None]
    if not kinds:
        return f"On none of the {len(seen.undefined)} held-out domains is {seen.scale.words} defined."
    return f"A verdict needs an invariant method and a plain classifier; there is no {' and no '.join(kinds)} one."


def _hardly_more_than_majority(seen: Results) -> Iterator[str]:
    """Say so if the method to use is hardly better than one that looks at nothing."""
    method, means = recommended(seen.rows), {name: seen.mean(name) for name in seen.scored}
    if method is None or not seen.sampled or not {method, MAJORITY} <= set(means):
        return
    if means[method] - means[MAJORITY] < CLOSE:
        text = seen.scale.text
        rival = f", {method} {text(means[method])}" if method != MAJORITY else "; nothing did better in the validation"
        yield f"Always answering the most frequent class has {text(means[MAJORITY])}{rival}. {BALANCED}"


def imbalance(counts: Mapping[Any, int], metric: str = "accuracy") -> str | None:
    """A caution if a class is so rare that accuracy hardly sees it; `counts` are the samples of each class.

    Rare is less than a tenth, and less than half of an equal part: of twenty classes each may well have a twentieth.
    """
    rarest, frequent = min(counts, key=lambda name: counts[name]), max(counts, key=lambda name: counts[name])
    total = sum(counts.values())
    if metric != "accuracy" or counts[rarest] / total >= min(RARE, 0.5 / len(counts)):
        return None
    return (
        f"Class {rarest} has {counts[rarest] / total:.1%} of the samples, and always answering {frequent} would be "
        f"right for {counts[frequent] / total:.1%}. {BALANCED}"
    )


def recommended(rows: Sequence[Row]) -> str | None:
    """The method to use: auto if it took part, otherwise the best mean score in the validation.

    Only methods that worked as often as any are considered. Of equals a plain one is preferred, then the first in the
    order of METHODS; one that looks at nothing comes last.
    """
    fit = [row for row in rows if row.status == "ok"]
    if chooses := of_kind(fit, "auto"):
        return chooses[0]
    found: dict[str, list[float]] = {}
    for row in fit:
        if row.kind != "reference" and np.isfinite(validated(row)):
            found.setdefault(row.method, []).append(validated(row))
    most = max(map(len, found.values()), default=0)

    def merit(name: str) -> tuple[Any, ...]:
        return round(float(np.mean(found[name])), KEPT), name != MAJORITY, name in plain

    ordered, plain = of_kind(fit, "plain", "invariant"), of_kind(fit, "plain")
    return max((name for name in ordered if 0 < len(found.get(name, [])) == most), key=merit, default=None)


def recommend(seen: Results, selection: str) -> Recommendation | None:
    """The method to use, and what its scores on the held-out domains let expect of the next one."""
    method, scale = recommended(seen.rows), seen.scale
    if method is None or method not in seen.scored:
        return None
    scores = seen.scores(method)
    known = np.array([*scores.values()])
    expected, low, high = forecast(known, seen.noise(method), scale.ends, fewest=ENOUGH)
    worst = min(scores, key=lambda name: scores[name])
    named = f" {scale.words}" if scale.share else f" ({scale.words}; more is better)"
    about, automatic = f"{scale.text(expected)}{named}", method in seen.kind("auto")
    if len(scores) >= ENOUGH:
        what = f"Expect about {about} on a new domain ({scale.text(low)} to {scale.text(high)} in nineteen of twenty)"
    else:
        many = "Two held-out domains" if len(scores) == 2 else "One held-out domain"
        what = f"{many} (mean {about}) cannot tell what to expect of a new one: the interval is the whole scale"
    why = "pools many models by itself" if automatic else f"did best in the validation on {VALIDATION[selection]}"
    what += f"; worst domain here: {worst}, {scale.text(scores[worst])}"
    sentence = f"Use {AUTO if automatic else method}. {what}. It {why}"
    looked = [row.transductive for rows in seen.scored[method].values() for row in rows]
    if any(looked):
        often = "" if all(looked) else f" in {sum(looked)} of {len(looked)} cases"
        sentence += f", and needs{often} a batch of samples of the new domain, without labels (transductive)"
    return Recommendation(method, expected, low, high, scores[worst], worst, scores, f"{sentence}.")


def _shares(parts: Sequence[list[str]]) -> str:
    counts = Counter(name for part in parts for name in part)
    total = sum(counts.values())
    return ", ".join(f"{name} ({count} of {total})" for name, count in counts.most_common())
