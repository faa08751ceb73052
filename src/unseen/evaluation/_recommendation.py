"""What to use and why: the recommended method, its expected performance, and whether invariance helped.

The automatic method is recommended, or the best validated one if it was not compared, unless another method has a lower
log loss on held-out domains, and no lower score, by one standard error over domains. The same function serves
comparisons and validations, on terminal and page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..model_selection import AUTO_TRANSDUCTIVE, METHODS, describe_rare_class
from ._statistics import (
    ACCURACY_SCALE,
    CONFIDENCE_LEVEL,
    ComparisonResults,
    DomainDifference,
    Interval,
    Kind,
    Scale,
    mean_and_error,
)

MAJORITY = "majority"
EQUALITY_TOLERANCE = 1e-9  # means of the same log losses may differ by rounding
MIN_GAIN_OVER_MAJORITY = 0.02  # of accuracy; a smaller gain is pointed out
BALANCED_ACCURACY_ADVICE = "The metric balanced_accuracy gives all classes the same weight."


@dataclass(frozen=True)
class Recommendation:
    """The recommended method, and its expected score on a new domain.

    `low` and `high` are the ends of a 95% prediction interval for the score on a new domain, None if the held-out
    domains are too few for an informative one; `scores` are those of the held-out domains. `compared_to` is the best
    alternative, the plain one with the lowest log loss unless the method is plain itself. `log_loss` and
    `other_log_loss` are mean log losses of both over held-out domains.
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
    log_loss: float | None = None
    other_log_loss: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The recommendation, and the difference of invariant and plain methods over all held-out domains.

    `auto` is the difference of the automatic method from plain classifiers, and `opt_in` that of
    "auto, transductive" from "auto", if they were compared.
    """

    decision: Kind
    interval: Interval | None
    per_domain: list[DomainDifference]
    headline: str
    sentences: list[str]
    auto: Interval | None = None
    recommendation: Recommendation | None = None
    scale: Scale = ACCURACY_SCALE
    opt_in: Interval | None = None


def make_verdict(results: ComparisonResults, selection: str = "domain", *, seed: int = 0) -> Verdict:
    """Make the verdict of results with one held-out domain in each task; `selection` is the validation scheme."""
    if selection == "oracle":
        headline = "No verdict: labels of the held-out domains selected the settings, for reference only."
        return Verdict("none", None, [], headline, [], scale=results.scale)
    plain = results.methods_of_kind("plain")
    invariant = results.methods_of_kind("invariant")
    pairs = results.pair_methods(invariant, plain)
    interval = results.mean_interval(pairs)
    auto = [name for name in [results.auto_method] if name is not None]
    opt_in = None
    if auto and auto[0] != AUTO_TRANSDUCTIVE:
        opt_in = results.mean_interval(results.pair_methods([AUTO_TRANSDUCTIVE], auto))
    recommendation = recommend(results)
    headline = "There is nothing to compare: that takes an invariant method and a plain classifier."
    if interval is not None:
        headline = _describe_invariance(interval, len(pairs), len({row.domain for row in results.rows}))
    sentences = [
        *_compare_to_kfda(results),
        *_describe_opt_in(opt_in),
        *_compare_to_majority(results, recommendation),
    ]
    return Verdict(
        decision="none" if interval is None else interval.decision,
        interval=interval,
        per_domain=[results.domain_difference(pair, seed) for pair in pairs],
        headline=headline,
        sentences=sentences,
        auto=results.mean_interval(results.pair_methods(auto, plain)),
        recommendation=recommendation,
        scale=results.scale,
        opt_in=opt_in,
    )


def recommend(results: ComparisonResults) -> Recommendation | None:
    """Recommend a method, with the reason and its expected score on a new domain; None without any score."""
    excluded = {AUTO_TRANSDUCTIVE, *results.methods_of_kind("reference")}
    candidates = [name for name in results.complete_methods if name not in excluded]
    if not candidates:
        return None
    losses = {name: float(np.mean([*results.log_losses(name).values()] or [np.inf])) for name in candidates}
    default = results.auto_method if results.auto_method in candidates else _best_validated(results, candidates)
    better = [name for name in candidates if name != default and _is_better(results, name, default)]
    method = min(better, key=lambda name: losses[name], default=default)
    plain = [name for name in results.methods_of_kind("plain") if name in candidates]
    others = [name for name in (plain if method not in plain else candidates) if name != method]
    other = min(others, key=lambda name: losses[name], default=None)
    scores = results.domain_scores(method)
    expected = results.expected_score(method)
    worst = min(scores, key=lambda name: scores[name])
    scale = results.scale
    figures = f"{scale.metric_name} {scale.format_score(expected.mean)}"
    if other is not None:
        figures += f" ({scale.format_score(results.mean_score(other))})"
    if np.isfinite(losses[method]):
        against = f" ({other} {losses[other]:.2f})" if other is not None else ""
        figures = f"log loss {losses[method]:.2f}{against}, {figures}"
    elif other is not None:
        figures += f"; in parentheses {other}"
    sentence = f"Use {method}. {figures[0].upper()}{figures[1:]}, mean over {_count(len(scores), 'held-out domain')}."
    sentence += f" {_describe_expectation(scale, expected, worst, scores[worst])}."
    if any(row.transductive for rows in results.scored_rows[method].values() for row in rows):
        sentence += " It needs a batch of unlabeled rows of the new domain."
    return Recommendation(
        method=method,
        expected=expected.mean,
        low=expected.low,
        high=expected.high,
        worst=scores[worst],
        worst_domain=worst,
        scores=scores,
        sentence=sentence,
        compared_to=other,
        log_loss=losses[method],
        other_log_loss=None if other is None else losses[other],
    )


def _best_validated(results: ComparisonResults, candidates: list[str]) -> str:
    """The method with the best mean validation score; in a tie the first one."""

    def mean_validation(name: str) -> float:
        rows = [row for rows in results.scored_rows[name].values() for row in rows]
        return float(np.mean([-np.inf if row.validation is None else row.validation for row in rows]))

    return max(candidates, key=mean_validation)


def _is_better(results: ComparisonResults, name: str, default: str) -> bool:
    """Whether a method has a lower log loss than the default by more than a standard error, and no lower score so."""
    losses = results.log_losses(name)
    default_losses = results.log_losses(default)
    common = [domain for domain in losses if domain in default_losses]
    if not common:
        return False
    gain, error = mean_and_error([np.array([default_losses[domain] - losses[domain]]) for domain in common], [0.0])
    pairs = results.pair_methods([name], [default])
    score_gain, score_error = mean_and_error([pair.values for pair in pairs], [pair.error for pair in pairs])
    return gain > error + EQUALITY_TOLERANCE and score_gain > -score_error


def _describe_expectation(scale: Scale, expected: Any, worst: str, worst_score: float) -> str:
    """Describe the expected score on a new domain."""
    text = f"Expect about {scale.format_score(expected.mean)} {scale.metric_name} on a new domain"
    worst_text = f"worst domain here: {worst}, {scale.format_score(worst_score)}"
    if expected.low is None or expected.high is None:
        return f"{text}; {worst_text}. {expected.missing_interval_reason}"
    ends = f"{scale.format_score(expected.low)} to {scale.format_score(expected.high)}"
    return f"{text} ({CONFIDENCE_LEVEL:.0%} prediction interval {ends}); {worst_text}"


def _describe_invariance(interval: Interval, n_compared: int, n_domains: int) -> str:
    """Say whether the best validated invariant method did better than the best validated plain classifier."""
    where = "" if n_compared == n_domains else f" On {n_compared} of {n_domains} held-out domains."
    if interval.sign > 0:
        return f"Invariance helped: {interval}, over plain classifiers.{where}"
    if interval.sign < 0:
        return f"Plain classifiers did better: {interval}, for invariant methods.{where}"
    return f"No detectable difference between invariant methods and plain classifiers: {interval}.{where}"


def _compare_to_kfda(results: ComparisonResults) -> Iterator[str]:
    """Yield the difference from KFDA: the same projection with the same centering, but without invariance."""
    projections = [
        name for name in results.methods_of_kind("invariant") if name in METHODS and METHODS[name].is_projection
    ]
    interval = results.mean_interval(results.pair_methods(projections, ["KFDA"]))
    if interval is not None:
        yield f"Invariant projections against KFDA, which lacks the invariance terms: {interval}."


def _describe_opt_in(interval: Interval | None) -> Iterator[str]:
    """Yield what the transductive steps of the automatic method are worth."""
    if interval is not None:
        significance = "" if interval.sign else " (not significant)"
        yield f"Transductive prediction: {interval}{significance}, for {AUTO_TRANSDUCTIVE!r} over 'auto'."


def _compare_to_majority(results: ComparisonResults, recommendation: Recommendation | None) -> Iterator[str]:
    """Yield a caution if the recommended method is hardly better than the most frequent class."""
    if recommendation is None or not results.has_sample_scores or MAJORITY not in results.scored_rows:
        return
    majority = results.mean_score(MAJORITY)
    if recommendation.expected - majority < MIN_GAIN_OVER_MAJORITY:
        score = results.scale.format_score(majority)
        yield f"Always predicting the most frequent class has {score}. {BALANCED_ACCURACY_ADVICE}"


def describe_imbalance(counts: Mapping[Any, int], metric: str = "accuracy") -> str | None:
    """Return a caution if a class is so rare that accuracy hardly depends on it, given the samples of each class."""
    rare = describe_rare_class(counts) if metric == "accuracy" else None
    return rare and f"{rare} Accuracy depends little on rare classes. {BALANCED_ACCURACY_ADVICE}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"
