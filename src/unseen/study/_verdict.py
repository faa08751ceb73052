"""The verdict of a comparison: what to use, what to expect of it, whether invariance helped, and how sure one can be.

Those that stand for their kinds are the best in the validation (``_evidence.py``). The recommendation follows the
one-standard-error rule: the automatic method, or the invariant method that is best in the validation, is recommended if
it beats the best plain classifier on held-out domains by more than one standard error; otherwise a plain classifier is.
Which of several plain ones that are as good is again for the validation to say: the best of many on the same domains
would always look better than it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..model_selection import METHODS, describe_rare_class
from ._statistics import (
    BOOTSTRAP_ROWS,
    LEVEL,
    PERCENT,
    Correct,
    DomainDifference,
    Expectation,
    Interval,
    Kind,
    Pair,
    Results,
    Scale,
    best_validated,
    methods_of_kind,
    validated_methods,
)
from ._store import Row

VALIDATION = {"domain": "the other domains", "within": "held-out samples of the other domains"}
MAJORITY = "majority"
AUTO = "UnseenClassifier (auto)"
CLOSE = 2.0  # points above the majority that are hardly worth a model
BALANCED = "Accuracy says little about that: --metric balanced_accuracy counts all classes alike."


@dataclass(frozen=True)
class Recommendation:
    """The method to use, and what to expect of it on a domain that nobody has seen, in percent if scores are shares.

    `low` and `high` are the ends of a 95% prediction interval for the score on a new domain, None if the held-out
    domains are too few for one that says something; `scores` are those of the held-out domains. `rival` is the method
    that it was preferred to, or the best plain classifier if it is not plain itself, `advantage` the mean difference
    from it over held-out domains, and `standard_error` the standard error of that.
    """

    method: str
    expected: float
    low: float | None
    high: float | None
    worst: float
    worst_domain: str
    scores: dict[str, float]
    sentence: str
    rival: str | None = None
    advantage: float | None = None
    standard_error: float | None = None


@dataclass(frozen=True)
class Verdict:
    """Invariant minus plain, over all held-out domains, in numbers and in words, and what to do.

    `auto` is the difference of the automatic choice from plain classifiers, if it took part, and `auto_expectation`
    what to expect of it on a new domain.
    """

    decision: Kind
    interval: Interval | None
    per_domain: list[DomainDifference]
    headline: str
    sentences: list[str]
    auto: Interval | None = None
    recommendation: Recommendation | None = None
    scale: Scale = PERCENT
    auto_expectation: Expectation | None = None

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
    limits: tuple[float, float] | None = None,
    groups: Mapping[str, Any] | None = None,
) -> Verdict:
    """Judge a comparison with one held-out domain to each task.

    `correct` tells for each (method, task, repeat) which samples of the target were classified correctly, and
    `selection` who chose the settings. `metric` is what the rows call accuracy: more is better, NaN or None is
    undefined, `share` tells whether it lies between 0 and 1, and `limits` are its lowest and highest value, if they are
    known. `groups` labels, for each task, the target's samples that belong together, such as those of one patient.
    """
    scale = Scale(metric, share, limits)
    if selection == "oracle":
        reason = "The settings, and with them the champions of each kind, saw the labels of the held-out domains."
        headline = "No verdict: an oracle chose, for reference only."
        return Verdict("none", None, [], headline, [reason], scale=scale)
    seen = Results(rows, correct, scale, groups or {})
    pairs = seen.pairs(seen.kind("invariant"), seen.kind("plain"))
    overall = seen.interval(pairs) if pairs else None
    headlines = [] if overall is None else [_headline(overall)]
    automatic = seen.pairs(seen.kind("auto"), seen.kind("plain"))
    auto = seen.interval(automatic) if automatic else None
    if auto is not None:
        headlines.insert(0, _headline(auto, AUTO, f"{AUTO} did better"))
    advice = recommend(seen, selection)
    automatic_method = next((name for name in seen.kind("auto") if name in seen.scored), None)
    hindsight = [] if auto is None else list(_hindsight(seen, "auto", automatic, auto))
    headline, *others = headlines or ["There is nothing to compare."]
    return Verdict(
        overall.decision if overall else "none",
        overall,
        [seen.per_domain(pair, seed) for pair in pairs],
        headline,
        [*hindsight, *others, *_sentences(seen, pairs, overall, selection), *_hardly_more_than_majority(seen, advice)],
        auto,
        advice,
        scale,
        None if automatic_method is None else seen.expectation(automatic_method),
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
        yield from _hindsight(seen, "invariant", pairs, overall)
        yield from _attribution(seen)
        yield from _cautions(pairs, overall)


def _headline(interval: Interval, who: str = "invariant methods", won: str = "Invariance helped") -> str:
    if interval.sign > 0:
        return f"{won}: {interval}, over plain classifiers."
    if interval.sign < 0:
        return f"Plain classifiers did better: {interval}, for {who}."
    return f"No detectable difference between {who} and plain classifiers: {interval}."


def _hindsight(seen: Results, kind: str, pairs: Sequence[Pair], overall: Interval) -> Iterator[str]:
    """Say why, if the best means of the table speak for the other side."""
    kinds = [[name for name in seen.kind(side) if name in seen.means] for side in (kind, "plain")]
    if not all(kinds):
        return
    best = [max(names, key=lambda name: seen.means[name]) for names in kinds]
    lead, digits = seen.means[best[0]] - seen.means[best[1]], 1 if seen.scale.share else 3
    if round(lead, digits) * round(overall.difference, digits) < 0:
        ahead, behind = best if lead > 0 else best[::-1]
        means = [seen.scale.factor * float(np.mean([pair.score(side) for pair in pairs])) for side in (0, 1)]
        text = seen.scale.text
        side = f"{AUTO}, which has" if kind == "auto" else "invariant methods that have"
        yield (
            f"The table seems to say otherwise: {ahead} has {text(seen.means[ahead])}, {behind} "
            f"{text(seen.means[behind])}. That is hindsight: the verdict compares what the validation chose on each "
            f"domain, {side} {text(means[0])} and plain classifiers that have {text(means[1])}."
        )


def _attribution(seen: Results) -> Iterator[str]:
    """KFDA is the same projection, centered the same way, without invariance: the rest is the invariance's own."""
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
        "Against KFDA, the projection without invariance under the same centering, the best invariant projection has "
        f"{interval}: {reading}."
    )


def _cautions(pairs: Sequence[Pair], overall: Interval) -> Iterator[str]:
    if any(one.transductive for pair in pairs for one, _ in pair.rows):
        yield (
            "The invariant methods looked at unlabeled samples of the held-out domain (transductive); the plain "
            "classifiers did not."
        )
    if len(pairs) < 6 and overall.informative:
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


def _hardly_more_than_majority(seen: Results, advice: Recommendation | None) -> Iterator[str]:
    """Say so if the method to use is hardly better than one that looks at nothing."""
    if advice is None or not seen.sampled or MAJORITY not in seen.scored:
        return
    majority, text = seen.mean(MAJORITY), seen.scale.text
    if advice.expected - majority < CLOSE:
        is_majority = advice.method == MAJORITY
        rival = "; nothing did better" if is_majority else f", {advice.method} {text(advice.expected)}"
        yield f"Always answering the most frequent class has {text(majority)}{rival}. {BALANCED}"


def imbalance(counts: Mapping[Any, int], metric: str = "accuracy") -> str | None:
    """A caution if a class is so rare that accuracy hardly sees it; `counts` are the samples of each class."""
    rare = describe_rare_class(counts) if metric == "accuracy" else None
    return rare and f"{rare} {BALANCED}"


def best_in_validation(rows: Sequence[Row], methods: Sequence[str]) -> str | None:
    """The method with the best mean score in the validation, of some that are listed in the order of METHODS.

    Only those that worked as often as any are considered. Of equals a plain one is preferred, then the first of the
    list; one that looks at nothing comes last.
    """
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.status == "ok" and row.method in methods and np.isfinite(validated_methods(row)):
            found.setdefault(row.method, []).append(validated_methods(row))
    most, plain = max(map(len, found.values()), default=0), methods_of_kind(rows, "plain")

    def merit(name: str) -> tuple[Any, ...]:
        return round(float(np.mean(found[name])), BOOTSTRAP_ROWS), name != MAJORITY, name in plain

    return max((name for name in methods if 0 < len(found.get(name, [])) == most), key=merit, default=None)


def recommended_method(seen: Results) -> tuple[str, str | None] | None:
    """The method to use, and the one that it is to be compared with, if there is one.

    Candidates are the automatic method and the invariant method that is best in the validation. The first that beats
    the best plain classifier by more than one standard error is the method to use. If there is none, that is a plain
    classifier: of those that neither the best one nor a candidate beats by so much, the best in the validation.
    """
    plain = [name for name in seen.kind("plain") if name in seen.means]
    invariant = best_in_validation(seen.rows, [name for name in seen.kind("invariant") if name in seen.means])
    candidates = [name for name in (*seen.kind("auto"), invariant) if name in seen.means]
    if not plain:
        return (candidates[0], None) if candidates else None
    best = max(plain, key=lambda name: seen.means[name])
    winners = [name for name in candidates if seen.beats(name, best)]
    if winners:
        return winners[0], best
    as_good = [name for name in plain if not any(seen.beats(other, name) for other in (best, *candidates))]
    rival = max(candidates, key=lambda name: seen.means[name], default=None)
    return best_in_validation(seen.rows, as_good) or best, rival


@dataclass(frozen=True)
class Contrast:
    """A mean difference from another method over held-out domains, and its standard error."""

    rival: str
    difference: float
    error: float


def recommend(seen: Results, selection: str) -> Recommendation | None:
    """The method to use, why, and what its scores on the held-out domains let expect of the next one."""
    choice = recommended_method(seen)
    if choice is None:
        return None
    method, rival = choice
    contrast = None if rival is None else Contrast(rival, *seen.advantage(method, rival))
    scores, expectation = seen.scores(method), seen.expectation(method)
    worst = min(scores, key=lambda name: scores[name])
    sentences = [
        _recommendation_text(seen, method, contrast),
        _expectation_text(seen.scale, expectation, worst, scores[worst]),
        _because(seen, method, contrast, selection),
        _requirement_text(seen, method),
    ]
    return Recommendation(
        method,
        expectation.mean,
        expectation.low,
        expectation.high,
        scores[worst],
        worst,
        scores,
        " ".join(f"{sentence}." for sentence in sentences if sentence),
        rival,
        None if contrast is None else contrast.difference,
        None if contrast is None else contrast.error,
    )


def _recommendation_text(seen: Results, method: str, contrast: Contrast | None) -> str:
    """What to use, and that it is as good as what is less simple."""
    use = f"Use {_format_method(seen, method)}"
    if contrast is None or method not in seen.kind("plain"):
        return use
    comparison = "better than" if contrast.difference > contrast.error else "as good as"
    return f"{use}: it is {comparison} {_format_method(seen, contrast.rival)}, and simpler"


def _expectation_text(scale: Scale, expectation: Expectation, worst: str, worst_score: float) -> str:
    """What to expect of the next domain."""
    named = f" {scale.words}" if scale.share else f" ({scale.words}; more is better)"
    about = f"Expect about {scale.text(expectation.mean)}{named} on a new domain"
    last = f"worst domain here: {worst}, {scale.text(worst_score)}"
    if expectation.low is None or expectation.high is None:
        return f"{about}; {last}. {expectation.too_few}"
    interval = f"{LEVEL:.0%} prediction interval {scale.text(expectation.low)} to {scale.text(expectation.high)}"
    return f"{about} ({interval}); {last}"


def _because(seen: Results, method: str, contrast: Contrast | None, selection: str) -> str:
    """What the recommendation rests on."""
    if contrast is None:
        automatic = method in seen.kind("auto")
        return "It pools many models" if automatic else f"It did best in the validation on {VALIDATION[selection]}"
    m, scale = len(seen.pairs([method], [contrast.rival])), seen.scale
    rival = _format_method(seen, contrast.rival)
    if method not in seen.kind("plain"):
        rival += ", the best plain classifier,"
    known = np.isfinite(contrast.error)
    error = f"standard error {scale.size(contrast.error)}" if known else "one domain has no standard error"
    over = f"{m} held-out domain{'s' * (m > 1)}"
    return f"Difference from {rival} on {over}: {scale.size(contrast.difference, '+')} ({error})"


def _requirement_text(seen: Results, method: str) -> str:
    """What a transductive method needs, in a sentence; empty for others."""
    looked = [row.transductive for rows in seen.scored[method].values() for row in rows]
    if not any(looked):
        return ""
    often = "" if all(looked) else f" in {sum(looked)} of {len(looked)} cases"
    return f"It needs{often} a batch of samples of the new domain, without labels (transductive)"


def _format_method(seen: Results, method: str) -> str:
    return AUTO if method in seen.kind("auto") else method


def _shares(parts: Sequence[list[str]]) -> str:
    counts = Counter(name for part in parts for name in part)
    total = sum(counts.values())
    return ", ".join(f"{name} ({count} of {total})" for name, count in counts.most_common())
