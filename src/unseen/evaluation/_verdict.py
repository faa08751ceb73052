"""The verdict of a comparison: the recommended method, its expected performance, and whether invariance helped.

Each kind of methods is represented by the best in the validation (``_statistics.py``). The recommendation follows the
one-standard-error rule: the automatic method, or the best validated invariant method, is recommended if it is better
than the best plain classifier on held-out domains by more than one standard error; otherwise a plain classifier is.
Among plain classifiers within one standard error, the one with the best validation score is recommended: the best of
many methods on the same domains has an optimistically biased score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..model_selection import AUTO_TRANSDUCTIVE, METHODS, MIN_BATCH_ROWS, describe_rare_class
from ._statistics import (
    ACCURACY_SCALE,
    CONFIDENCE_LEVEL,
    EQUALITY_DECIMALS,
    ComparisonResults,
    CorrectSamples,
    DomainDifference,
    DomainPair,
    ExpectedScore,
    Interval,
    Kind,
    Scale,
    methods_of_kind,
    select_best_validated,
    validation_score,
)
from ._store import Row

VALIDATION_NAMES = {"domain": "the other domains", "within": "held-out samples of the other domains"}
MAJORITY = "majority"
AUTO_NAME = "UnseenClassifier (auto)"
MIN_GAIN_OVER_MAJORITY = 0.02  # of accuracy; a smaller gain is pointed out
MIN_DOMAINS_WITHOUT_CAUTION = 6
SHOWN_DECIMALS = 3  # of scores as fractions: a tenth of a percentage point
BALANCED_ACCURACY_ADVICE = (
    "Accuracy depends little on rare classes. The metric balanced_accuracy gives all classes the same weight."
)


@dataclass(frozen=True)
class Recommendation:
    """The recommended method, and its expected score on a new domain.

    `low` and `high` are the ends of a 95% prediction interval for the score on a new domain, None if the held-out
    domains are too few for an informative one; `scores` are those of the held-out domains. `compared_to` is the
    alternative, or the best plain classifier if the method is not plain itself; `advantage` is the mean difference from
    it over held-out domains, and `standard_error` the standard error of that difference.
    """

    method: str
    expected: float
    low: float | None
    high: float | None
    worst: float
    worst_domain: str
    scores: dict[str, float]
    sentence: str
    compared_to: str | None = None
    advantage: float | None = None
    standard_error: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The difference of invariant and plain methods over all held-out domains, in numbers and words, and advice.

    `auto` is the difference of the automatic method from plain classifiers, if it was compared, and
    `auto_expected_score` its expected score on a new domain. `opt_in` is the difference of "auto, transductive" from
    "auto", if both were compared.
    """

    decision: Kind
    interval: Interval | None
    per_domain: list[DomainDifference]
    headline: str
    sentences: list[str]
    auto: Interval | None = None
    recommendation: Recommendation | None = None
    scale: Scale = ACCURACY_SCALE
    auto_expected_score: ExpectedScore | None = None
    opt_in: Interval | None = None

    def add_caution(self, caution: str | None) -> Verdict:
        """Return the verdict with one more sentence, unless it is None or its advice is given already."""
        has_advice = any(BALANCED_ACCURACY_ADVICE in sentence for sentence in self.sentences)
        if caution is None or has_advice:
            return self
        return replace(self, sentences=[*self.sentences, caution])


def make_verdict(
    rows: Sequence[Row],
    correct: CorrectSamples,
    selection: str = "domain",
    *,
    seed: int = 0,
    metric: str = "accuracy",
    share: bool = True,
    limits: tuple[float, float] | None = None,
    groups: Mapping[str, Any] | None = None,
) -> Verdict:
    """Make the verdict of a comparison with one held-out domain in each task.

    `correct` contains, for each (method, task, repeat), whether each sample of the target is classified correctly, and
    `selection` is the validation scheme. `metric` is the name of the score that rows store as accuracy: more is better,
    NaN or None is undefined. `share` is whether it lies between 0 and 1, and `limits` are its lowest and highest value,
    if they are known. `groups` contains, for each task, the groups of dependent samples of the target (as patients).
    """
    scale = Scale(metric, share, limits)
    if selection == "oracle":
        reason = "Labels of the held-out domains selected the settings, and with them the best methods of each kind."
        headline = "No verdict: an oracle selected the settings, for reference only."
        return Verdict("none", None, [], headline, [reason], scale=scale)
    results = ComparisonResults(rows, correct, scale, groups or {})
    plain_methods = results.methods_of_kind("plain")
    auto_method = results.auto_method
    auto_methods = [] if auto_method is None else [auto_method]
    opt_in = results.opt_in_interval
    pairs = results.pair_methods(results.methods_of_kind("invariant"), plain_methods)
    interval = results.mean_interval(pairs) if pairs else None
    auto_pairs = results.pair_methods(auto_methods, plain_methods)
    auto_interval = results.mean_interval(auto_pairs) if auto_pairs else None
    headlines: list[str] = []
    auto_sentences: list[str] = []
    if auto_interval is not None:
        headlines.append(_headline(auto_interval, AUTO_NAME, f"{AUTO_NAME} did better"))
        auto_sentences.extend(_explain_contradiction(results, "auto", auto_pairs, auto_interval))
    if interval is not None:
        headlines.append(_headline(interval))
    headline, *other_headlines = headlines or ["There is nothing to compare."]
    recommendation = recommend(results, selection)
    scored_auto_methods = [name for name in auto_methods if name in results.scored_rows]
    return Verdict(
        decision="none" if interval is None else interval.decision,
        interval=interval,
        per_domain=[results.domain_difference(pair, seed) for pair in pairs],
        headline=headline,
        sentences=[
            *auto_sentences,
            *other_headlines,
            *_sentences(results, pairs, interval, selection),
            *_describe_opt_in(results, opt_in),
            *_compare_to_majority(results, recommendation),
        ],
        auto=auto_interval,
        recommendation=recommendation,
        scale=scale,
        auto_expected_score=results.expected_score(scored_auto_methods[0]) if scored_auto_methods else None,
        opt_in=opt_in,
    )


def _sentences(
    results: ComparisonResults, pairs: Sequence[DomainPair], interval: Interval | None, selection: str
) -> Iterator[str]:
    """Yield sentences on the evidence for the difference of invariant and plain methods, and on its limits."""
    if interval is None:
        yield _explain_missing_pairs(results)
        return
    invariant = _format_counts(name for pair in pairs for name in pair.method_names(0))
    plain = _format_counts(name for pair in pairs for name in pair.method_names(1))
    yield (
        "On each held-out domain, the invariant method and the plain classifier that did best in the validation on "
        f"{VALIDATION_NAMES[selection]} stand for their kinds. Invariant: {invariant}. Plain: {plain}."
    )
    yield from _describe_omitted_domains(results, len(pairs))
    yield from _explain_contradiction(results, "invariant", pairs, interval)
    yield from _compare_to_kfda(results)
    if any(row.transductive for pair in pairs for row, _ in pair.rows):
        yield (
            "The invariant methods used unlabeled samples of the held-out domain (transductive); the plain classifiers "
            "did not."
        )
    if len(pairs) < MIN_DOMAINS_WITHOUT_CAUTION and interval.is_informative:
        yield (
            f"With {len(pairs)} held-out domain{'s' * (len(pairs) > 1)} the interval is wide: it is for a new domain, "
            "and there are few examples of domains."
        )


def _describe_opt_in(results: ComparisonResults, interval: Interval | None) -> Iterator[str]:
    """Yield what the transductive steps of the automatic method are worth, and what they need."""
    if interval is None:
        return
    rows = [row for rows in results.scored_rows[AUTO_TRANSDUCTIVE].values() for row in rows]
    n_used = sum(row.transductive for row in rows)
    if not n_used:
        yield (
            "In a fit, transductive steps would change nothing here: the acceptance test rejected every transductive "
            f"step, and {AUTO_TRANSDUCTIVE!r} makes the predictions of 'auto'."
        )
        return
    conclusion = {1: "it pays", -1: "it costs", 0: "a gain cannot be told from zero"}[interval.sign]
    yield (
        f"{AUTO_TRANSDUCTIVE!r} against 'auto', over held-out domains: {interval}. That is what transductive steps are "
        f"worth in a fit: {conclusion}. The acceptance test accepted a transductive step in {n_used} of {len(rows)} "
        f"cases. It needs a batch of at least {MIN_BATCH_ROWS} rows of the new domain, without labels, with class "
        "proportions similar to those of training."
    )


def _headline(interval: Interval, methods: str = "invariant methods", success: str = "Invariance helped") -> str:
    if interval.sign > 0:
        return f"{success}: {interval}, over plain classifiers."
    if interval.sign < 0:
        return f"Plain classifiers did better: {interval}, for {methods}."
    return f"No detectable difference between {methods} and plain classifiers: {interval}."


def _explain_contradiction(
    results: ComparisonResults, kind: str, pairs: Sequence[DomainPair], interval: Interval
) -> Iterator[str]:
    """Yield an explanation if the best mean scores of the table favor the other side than the verdict."""
    means = results.mean_scores
    methods = [name for name in results.methods_of_kind(kind) if name in means]
    plain_methods = [name for name in results.methods_of_kind("plain") if name in means]
    if not methods or not plain_methods:
        return
    best = max(methods, key=lambda name: means[name])
    best_plain = max(plain_methods, key=lambda name: means[name])
    lead = means[best] - means[best_plain]
    if round(lead, SHOWN_DECIMALS) * round(interval.difference, SHOWN_DECIMALS) < 0:
        better, worse = (best, best_plain) if lead > 0 else (best_plain, best)
        format_score = results.scale.format_score
        mean, plain_mean = (float(np.mean([pair.mean_score(side) for pair in pairs])) for side in (0, 1))
        side = f"{AUTO_NAME}, which has" if kind == "auto" else "invariant methods that have"
        yield (
            f"The table seems to say otherwise: {better} has {format_score(means[better])}, {worse} "
            f"{format_score(means[worse])}. That is a choice in hindsight: the verdict compares the methods that the "
            f"validation selected on each domain, {side} {format_score(mean)} and plain classifiers that have "
            f"{format_score(plain_mean)}."
        )


def _compare_to_kfda(results: ComparisonResults) -> Iterator[str]:
    """Yield the difference from KFDA: the same projection with the same centering, but without invariance."""
    projections = [
        name for name in results.methods_of_kind("invariant") if name in METHODS and METHODS[name].is_projection
    ]
    pairs = results.pair_methods(projections, ["KFDA"])
    if not pairs:
        return
    interval = results.mean_interval(pairs)
    conclusion = {
        "invariant": "the invariance itself adds something",
        "plain": "the invariance itself costs something",
        "none": "the effect of the invariance itself cannot be told from zero",
    }[interval.decision]
    yield (
        "Against KFDA, the projection without invariance under the same centering, the best invariant projection has "
        f"{interval}: {conclusion}."
    )


def _describe_omitted_domains(results: ComparisonResults, n_compared: int) -> Iterator[str]:
    """Yield the reasons if the verdict does not include all held-out domains."""
    n_tasks = len({row.task for row in results.rows})
    n_undefined = len(results.undefined_tasks)
    if n_compared == n_tasks:
        return
    reasons = []
    if n_undefined:
        reasons.append(f"on {n_undefined} of the others {results.scale.metric_name} is undefined")
    if n_compared + n_undefined < n_tasks:
        reasons.append("on the others all methods of a kind failed")
    yield f"It rests on {n_compared} of {n_tasks} held-out domains: {'; '.join(reasons)}."


def _explain_missing_pairs(results: ComparisonResults) -> str:
    missing = [
        kind
        for kind in ("invariant", "plain")
        if select_best_validated(results.rows, results.methods_of_kind(kind)) is None
    ]
    if not missing:
        n_undefined = len(results.undefined_tasks)
        return f"On none of the {n_undefined} held-out domains is {results.scale.metric_name} defined."
    return f"A verdict needs an invariant method and a plain classifier; there is no {' and no '.join(missing)} one."


def _compare_to_majority(results: ComparisonResults, recommendation: Recommendation | None) -> Iterator[str]:
    """Yield a caution if the recommended method is hardly better than the most frequent class."""
    if recommendation is None or not results.has_sample_scores or MAJORITY not in results.scored_rows:
        return
    majority = results.mean_score(MAJORITY)
    if recommendation.expected - majority >= MIN_GAIN_OVER_MAJORITY:
        return
    format_score = results.scale.format_score
    if recommendation.method == MAJORITY:
        comparison = "; nothing did better"
    else:
        comparison = f", {recommendation.method} {format_score(recommendation.expected)}"
    yield (
        f"Always predicting the most frequent class has {format_score(majority)}{comparison}. "
        f"{BALANCED_ACCURACY_ADVICE}"
    )


def describe_imbalance(counts: Mapping[Any, int], metric: str = "accuracy") -> str | None:
    """Return a caution if a class is so rare that accuracy hardly depends on it, given the samples of each class."""
    rare = describe_rare_class(counts) if metric == "accuracy" else None
    return rare and f"{rare} {BALANCED_ACCURACY_ADVICE}"


def best_in_validation(rows: Sequence[Row], methods: Sequence[str]) -> str | None:
    """Select the method with the best mean validation score, of methods that are in the order of METHODS.

    Only the methods with the largest number of successful rows are considered. In a tie a plain method is preferred,
    then the first of the list; the majority class comes last.
    """
    scores: dict[str, list[float]] = {}
    for row in rows:
        if row.status == "ok" and row.method in methods and np.isfinite(validation_score(row)):
            scores.setdefault(row.method, []).append(validation_score(row))
    max_rows = max(map(len, scores.values()), default=0)
    plain_methods = methods_of_kind(rows, "plain")

    def rank(name: str) -> tuple[Any, ...]:
        mean = round(float(np.mean(scores[name])), EQUALITY_DECIMALS)
        return mean, name != MAJORITY, name in plain_methods

    complete = [name for name in methods if 0 < len(scores.get(name, [])) == max_rows]
    return max(complete, key=rank, default=None)


def select_recommendation(results: ComparisonResults) -> tuple[str, str | None] | None:
    """Select the method to recommend, and the method to compare it to, if there is one.

    Candidates are the automatic method, without transductive steps if it was compared without them, and the best
    validated invariant method. The first candidate that is better than
    the best plain classifier by more than one standard error is recommended. If there is none, a plain classifier is:
    the best validated one of those that neither the best plain classifier nor a candidate exceeds by that much.
    """
    means = results.mean_scores
    plain_methods = [name for name in results.methods_of_kind("plain") if name in means]
    invariant_methods = [name for name in results.methods_of_kind("invariant") if name in means]
    best_invariant = best_in_validation(results.rows, invariant_methods)
    candidates = [name for name in (results.auto_method, best_invariant) if name in means]
    if not plain_methods:
        return (candidates[0], None) if candidates else None
    best_plain = max(plain_methods, key=lambda name: means[name])
    for name in candidates:
        if results.is_better(name, best_plain):
            return name, best_plain
    as_good = [
        name for name in plain_methods if not any(results.is_better(other, name) for other in (best_plain, *candidates))
    ]
    best_candidate = max(candidates, key=lambda name: means[name], default=None)
    return best_in_validation(results.rows, as_good) or best_plain, best_candidate


@dataclass(frozen=True)
class MethodDifference:
    """The mean difference from another method over held-out domains, and its standard error."""

    other: str
    difference: float
    error: float


def recommend(results: ComparisonResults, selection: str) -> Recommendation | None:
    """Recommend a method, with the reason and its expected score on a new domain."""
    selected = select_recommendation(results)
    if selected is None:
        return None
    method, other = selected
    contrast = None if other is None else MethodDifference(other, *results.mean_advantage(method, other))
    scores = results.domain_scores(method)
    expected = results.expected_score(method)
    worst = min(scores, key=lambda name: scores[name])
    sentences = [
        _recommendation_text(results, method, contrast),
        _expectation_text(results.scale, expected, worst, scores[worst]),
        _reason_text(results, method, contrast, selection),
        _requirement_text(results, method),
    ]
    return Recommendation(
        method=method,
        expected=expected.mean,
        low=expected.low,
        high=expected.high,
        worst=scores[worst],
        worst_domain=worst,
        scores=scores,
        sentence=" ".join(f"{sentence}." for sentence in sentences if sentence),
        compared_to=other,
        advantage=None if contrast is None else contrast.difference,
        standard_error=None if contrast is None else contrast.error,
    )


def _recommendation_text(results: ComparisonResults, method: str, contrast: MethodDifference | None) -> str:
    """Name the recommended method and, if it is plain, compare it to a less simple one."""
    text = f"Use {_format_method(results, method)}"
    if contrast is None or method not in results.methods_of_kind("plain"):
        return text
    comparison = "better than" if contrast.difference > contrast.error else "as good as"
    return f"{text}: it is {comparison} {_format_method(results, contrast.other)}, and simpler"


def _expectation_text(scale: Scale, expected: ExpectedScore, worst: str, worst_score: float) -> str:
    """Describe the expected score on a new domain."""
    metric = f" {scale.metric_name}" if scale.share else f" ({scale.metric_name}; more is better)"
    mean = f"Expect about {scale.format_score(expected.mean)}{metric} on a new domain"
    worst_text = f"worst domain here: {worst}, {scale.format_score(worst_score)}"
    if expected.low is None or expected.high is None:
        return f"{mean}; {worst_text}. {expected.missing_interval_reason}"
    low = scale.format_score(expected.low)
    high = scale.format_score(expected.high)
    return f"{mean} ({CONFIDENCE_LEVEL:.0%} prediction interval {low} to {high}); {worst_text}"


def _reason_text(results: ComparisonResults, method: str, contrast: MethodDifference | None, selection: str) -> str:
    """Give the reason for the recommendation."""
    if contrast is None:
        if method in results.methods_of_kind("auto"):
            return "It is an ensemble of many models"
        return f"It did best in the validation on {VALIDATION_NAMES[selection]}"
    scale = results.scale
    n_domains = len(results.pair_methods([method], [contrast.other]))
    other = _format_method(results, contrast.other)
    if method not in results.methods_of_kind("plain"):
        other += ", the best plain classifier,"
    if np.isfinite(contrast.error):
        error = f"standard error {scale.format_difference(contrast.error)}"
    else:
        error = "one domain has no standard error"
    domains = f"{n_domains} held-out domain{'s' * (n_domains > 1)}"
    difference = scale.format_difference(contrast.difference, "+")
    return f"Difference from {other} on {domains}: {difference} ({error})"


def _requirement_text(results: ComparisonResults, method: str) -> str:
    """State the requirement of a transductive method; empty for others."""
    is_transductive = [row.transductive for rows in results.scored_rows[method].values() for row in rows]
    if not any(is_transductive):
        return ""
    cases = "" if all(is_transductive) else f" in {sum(is_transductive)} of {len(is_transductive)} cases"
    return f"It needs{cases} a batch of samples of the new domain, without labels (transductive)"


def _format_method(results: ComparisonResults, method: str) -> str:
    return AUTO_NAME if method == results.auto_method else method


def _format_counts(names: Iterable[str]) -> str:
    """Format how often each name occurs."""
    counts = Counter(names)
    return ", ".join(f"{name} ({count} of {counts.total()})" for name, count in counts.most_common())
