"""What to use and why: the recommended method, its expected performance, and whether invariance helped.

The automatic method is recommended, or the best validated one if it was not compared, unless another method is clearly
better: its log loss on held-out domains is lower by more than a standard error of the paired difference over domains,
and its score is not lower by as much. The same function serves comparisons and validations, on terminal and page.

Differences are paired by sample for accuracy and by domain for other metrics, and averaged over domains. On each
held-out domain, a kind of methods is represented by its method with the best *validation* score: a choice by the
results on that domain would favor the kind with more methods. Domains are the sampling units, and there are few of
them: the standard error is multiplied by a quantile of Student's t distribution.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ..linalg import Array, Ints
from ..model_selection import (
    AUTO_TRANSDUCTIVE,
    MAX_USABLE_SHARE,
    METHODS,
    Forecast,
    Metric,
    describe_rare_class,
    get_metric,
    group_by,
    metric_range,
)
from ._run import HeldOutPredictions
from ._store import Row

CONFIDENCE_LEVEL = 0.95
MAJORITY = "majority"
EQUALITY_TOLERANCE = 1e-9  # means of the same log losses may differ by rounding
MIN_GAIN_OVER_MAJORITY = 0.02  # of accuracy; a smaller gain is pointed out
SMALLEST_PROBABILITY = 1e-7  # of which a log loss takes the logarithm
PERCENT_DECIMALS = 6  # to which percentages are rounded first, so that rounding errors do not decide ties such as 80.75
BALANCED_ACCURACY_ADVICE = "The metric balanced_accuracy gives all classes the same weight."


def format_score(metric: Metric, score: float) -> str:
    """Format a score with its unit."""
    return f"{round(100 * score, PERCENT_DECIMALS):.1f}%" if metric.percent else f"{score:.3f}"


def _format_signed(metric: Metric, difference: float) -> str:
    """Format a difference of scores without its unit."""
    return f"{round(100 * difference, PERCENT_DECIMALS):+.1f}" if metric.percent else f"{difference:+.3f}"


@dataclass(frozen=True)
class Interval:
    """A mean difference of scores over held-out domains, its 95% confidence interval, and both in words."""

    difference: float
    low: float
    high: float
    text: str
    is_informative: bool
    n_domains: int

    @property
    def sign(self) -> int:
        """1 or -1 if the first or the second side is significantly better, otherwise 0."""
        return int(self.low > 0) - int(self.high < 0)

    def to_dict(self) -> dict[str, float | None]:
        """Return the numbers; ends that are not informative are None."""
        low, high = (self.low, self.high) if self.is_informative else (None, None)
        return {"difference": self.difference, "low": low, "high": high}


def squared_error(values: Array, groups: Any = None) -> float:
    """Compute the squared standard error of the mean of samples, which are dependent within groups such as patients."""
    codes = np.arange(len(values)) if groups is None else np.unique(groups, return_inverse=True)[1]
    deviations = np.bincount(codes, values - values.mean())
    # At least the value for one differing group: agreement of two methods on a few samples does not prove equality.
    return max(float(deviations @ deviations) / len(values) ** 2, 1 / len(deviations) ** 2)


def mean_and_error(means: Sequence[float], squared_errors: Sequence[float]) -> tuple[float, float]:
    """Compute the mean of differences over domains, and its standard error for the population of domains.

    `squared_errors` are those of the differences on each domain. The standard errors are the limits of a bootstrap over
    domains, and of one over the samples within them. The first contains the noise of the samples already; the second is
    a lower bound for the case that few domains agree by chance. With one domain the error is infinite.
    """
    n_domains = len(means)
    if n_domains == 1:
        return float(means[0]), np.inf
    return float(np.mean(means)), float(np.sqrt(max(np.var(means, ddof=1), np.mean(squared_errors)) / n_domains))


def mean_interval(
    means: Sequence[float], squared_errors: Sequence[float], metric: Metric, bounds: tuple[float, float] = (0.0, 1.0)
) -> Interval:
    """Compute the mean of differences over domains, with an interval for the mean of the population of domains."""
    n_domains = len(means)
    span = bounds[1] - bounds[0]
    mean, error = mean_and_error(means, squared_errors)
    half_width = float(stdtrit(max(n_domains - 1, 1), (1 + CONFIDENCE_LEVEL) / 2)) * error
    low = max(mean - half_width, -span)
    high = min(mean + half_width, span)
    is_informative = bool(np.isfinite([low, high]).all()) and half_width <= MAX_USABLE_SHARE * span
    text = _format_signed(metric, mean) + " points" * metric.percent
    if is_informative:
        text += f", {CONFIDENCE_LEVEL:.0%} interval {_format_signed(metric, low)} to {_format_signed(metric, high)}"
    else:
        text += f" (too few held-out domains for a {CONFIDENCE_LEVEL:.0%} interval)"
    return Interval(mean, low, high, text, is_informative, n_domains)


def validation_score(row: Row) -> float:
    """The validation score of a row, by which a method is selected; minus infinity if there is none."""
    return -np.inf if row.validation is None or np.isnan(row.validation) else row.validation


def select_best_validated(rows: Iterable[Row], methods: Container[str]) -> Row | None:
    """Select the row of some methods with the best validation score; in a tie the first one."""
    successful = (row for row in rows if row.method in methods and row.status == "ok")
    return max(successful, key=validation_score, default=None)


@dataclass(frozen=True)
class ComparisonResults:
    """Rows with their predictions, and the statistics that a recommendation needs.

    `truth` holds the true classes of each held-out domain, `groups` its groups of dependent samples (as patients) if
    they are known, and `bounds` the lowest and the highest value of the metric.
    """

    rows: Sequence[Row]
    truth: Mapping[str, Ints]
    metric: Metric = field(default_factory=lambda: get_metric("accuracy"))
    bounds: tuple[float, float] = (0.0, 1.0)
    groups: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_predictions(cls, predictions: HeldOutPredictions, metric: str) -> ComparisonResults:
        """Collect the results of a run."""
        group = predictions.table.group
        chosen = get_metric(metric)
        truth = {row.domain: predictions.truth(row) for row in predictions.rows}
        groups = {}
        if group is not None:
            groups = {row.domain: group[predictions.positions[row.task]] for row in predictions.rows}
        bounds = metric_range(chosen.scoring, len(predictions.classes))
        return cls(predictions.rows, truth, chosen, bounds, groups)

    @property
    def has_sample_scores(self) -> bool:
        """Whether every sample has a score, so that samples can be paired and the noise of their mean is known."""
        return self.metric.scoring == "accuracy"

    def methods_of_kind(self, kind: str) -> list[str]:
        """List the methods of a kind, in the order of the rows."""
        return list(dict.fromkeys(row.method for row in self.rows if row.kind == kind))

    def _sample_scores(self, row: Row) -> Array:
        """Return the scores of single samples, or else the score of the row."""
        scores = row.codes == self.truth[row.domain] if self.has_sample_scores else [row.accuracy]
        return np.asarray(scores, dtype=float)

    def compare(self, first: Sequence[str], second: Sequence[str]) -> tuple[list[float], list[float]]:
        """Return mean differences and their squared errors on each domain where both sides have a score.

        Each side is represented by its best validated method.
        """
        differences: dict[str, list[Array]] = {}
        for rows in group_by(self.rows, lambda row: (row.domain, row.repeat)):
            one = select_best_validated(rows, first)
            two = select_best_validated(rows, second)
            if one is not None and two is not None and one.has_score and two.has_score:
                difference = self._sample_scores(one) - self._sample_scores(two)
                differences.setdefault(one.domain, []).append(difference)
        by_domain = {domain: np.mean(values, axis=0) for domain, values in differences.items()}
        errors = [
            squared_error(values, self.groups.get(domain)) if self.has_sample_scores else 0.0
            for domain, values in by_domain.items()
        ]
        return [float(values.mean()) for values in by_domain.values()], errors

    @cached_property
    def scored_rows(self) -> dict[str, dict[str, list[Row]]]:
        """Rows that have a score, by method and domain."""
        scored: dict[str, dict[str, list[Row]]] = {}
        for row in self.rows:
            if row.has_score:
                scored.setdefault(row.method, {}).setdefault(row.domain, []).append(row)
        return scored

    @property
    def candidates(self) -> list[str]:
        """Methods that may be recommended: those with a score on every domain on which any method has one."""
        n_domains = max(map(len, self.scored_rows.values()), default=0)
        excluded = {AUTO_TRANSDUCTIVE, *self.methods_of_kind("reference")}
        return [
            method
            for method, domains in self.scored_rows.items()
            if len(domains) == n_domains and method not in excluded
        ]

    def scores(self, method: str) -> dict[str, float]:
        """Return the scores of a method by domain, as means over repeats."""
        return {name: float(np.mean([row.accuracy for row in rows])) for name, rows in self.scored_rows[method].items()}

    def mean_score(self, method: str) -> float:
        """Compute the mean score of a method over domains."""
        return float(np.mean([*self.scores(method).values()]))

    def log_losses(self, method: str) -> dict[str, float]:
        """Return the log losses of a method by domain, as means over repeats."""
        losses = {}
        for name, rows in self.scored_rows[method].items():
            P = np.stack([np.asarray(row.probabilities) for row in rows])
            true = P[:, np.arange(P.shape[1]), self.truth[name]]
            losses[name] = float(-np.log(np.maximum(true, SMALLEST_PROBABILITY)).mean())
        return losses

    def forecast(self, method: str) -> Forecast:
        """Predict the score of a method on a new domain from its scores on held-out domains."""
        scores = self.scores(method)
        n_rows = None
        if self.has_sample_scores:
            n_rows = np.array(
                [len(np.unique(self.groups[name])) if self.groups else len(self.truth[name]) for name in scores]
            )
        return Forecast.from_scores(np.array([*scores.values()]), self.metric, self.bounds, n_rows)


@dataclass(frozen=True)
class Recommendation:
    """The recommended method, and its expected score on a new domain.

    `low` and `high` are the ends of a 95% prediction interval for the score on a new domain, None if the held-out
    domains are too few for an informative one; `scores` are those of the held-out domains. `compared_to` is the method
    that it replaces or, if it is the default, the alternative with the lowest log loss. `log_loss` and `other_log_loss`
    are mean log losses of both over held-out domains.
    """

    method: str
    expected: float
    low: float | None
    high: float | None
    scores: dict[str, float]
    sentence: str
    log_loss: float
    compared_to: str | None = None
    other_log_loss: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The recommendation, and whether invariant methods did better than plain ones over all held-out domains.

    `decision` is the kind of methods that is significantly better, or "none". `intervals` are mean differences: of
    invariant methods from plain ones, of invariant projections from KFDA, which lacks the invariance terms, and of
    "auto, transductive" from "auto", as far as they were compared.
    """

    decision: str
    headline: str
    sentences: list[str]
    intervals: dict[str, Interval]
    metric: Metric
    recommendation: Recommendation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict in words and in numbers."""
        return {
            "decision": self.decision,
            "headline": self.headline,
            "sentences": self.sentences,
            "intervals": [{"label": label, **one.to_dict()} for label, one in self.intervals.items()],
            "level": CONFIDENCE_LEVEL,
            "metric": self.metric.label,
            "share": self.metric.percent,
            "recommendation": asdict(self.recommendation) if self.recommendation else None,
        }


def make_verdict(results: ComparisonResults, selection: str = "domain") -> Verdict:
    """Make the verdict of results with one held-out domain in each task; `selection` is the validation scheme."""
    if selection == "oracle":
        headline = "No verdict: labels of the held-out domains selected the settings, for reference only."
        return Verdict("none", headline, [], {}, results.metric)
    plain = results.methods_of_kind("plain")
    invariant = results.methods_of_kind("invariant")
    # KFDA is the same projection with the same centering, but without invariance.
    projections = [name for name in invariant if name in METHODS and METHODS[name].is_projection]
    auto = [name for name in results.methods_of_kind("auto") if name != AUTO_TRANSDUCTIVE]
    sides = {
        "Invariant against plain": (invariant, plain),
        "Invariant projections against KFDA": (projections, ["KFDA"]),
        "Auto, transductive against auto": ([AUTO_TRANSDUCTIVE], auto),
    }
    differences = {label: results.compare(*pair) for label, pair in sides.items()}
    intervals = {
        label: mean_interval(means, errors, results.metric, results.bounds)
        for label, (means, errors) in differences.items()
        if means
    }
    sentences = [f"{label}: {interval.text}." for label, interval in intervals.items()]
    headline = "Invariant and plain methods are not compared: that needs at least one of each."
    decision = "none"
    if invariance := intervals.get("Invariant against plain"):
        decision = ("none", "invariant", "plain")[invariance.sign]
        headline = {
            "invariant": f"Invariance helped: {invariance.text}, over plain classifiers.",
            "plain": f"Plain classifiers did better: {invariance.text}, for invariant methods.",
            "none": f"No detectable difference of invariant and plain methods: {invariance.text}.",
        }[decision]
        n_domains = len({row.domain for row in results.rows})
        if invariance.n_domains < n_domains:
            headline += f" On {invariance.n_domains} of {n_domains} held-out domains."
        del sentences[0]
    recommendation = recommend(results)
    if recommendation is not None and results.has_sample_scores and MAJORITY in results.scored_rows:
        majority = results.mean_score(MAJORITY)
        if recommendation.expected - majority < MIN_GAIN_OVER_MAJORITY:
            score = format_score(results.metric, majority)
            advice = f"has an accuracy of {score}. {BALANCED_ACCURACY_ADVICE}"
            sentences.append(f"Always predicting the most frequent class {advice}")
    return Verdict(decision, headline, sentences, intervals, results.metric, recommendation)


def recommend(results: ComparisonResults) -> Recommendation | None:
    """Recommend a method, with the reason and its expected score on a new domain; None without any score."""
    candidates = results.candidates
    if not candidates:
        return None
    losses = {name: float(np.mean([*results.log_losses(name).values()])) for name in candidates}
    auto = [name for name in results.methods_of_kind("auto") if name in candidates]
    default = auto[0] if auto else _best_validated(results, candidates)
    better = [name for name in candidates if name != default and _is_clearly_better(results, name, default)]
    method = min(better, key=losses.__getitem__, default=default)
    others = [name for name in candidates if name != method]
    other = default if better else min(others, key=losses.__getitem__, default=None)
    metric = results.metric
    names = [method] if other is None else [method, other]
    log_losses = " against ".join(f"{losses[name]:.2f}" for name in names)
    scores = " against ".join(format_score(metric, results.mean_score(name)) for name in names)
    if other is None:
        reason = "It is the only candidate"
    elif better:
        reason = f"It is clearly better than {other}"
    else:
        reason = f"No alternative {'has a lower log loss' if losses[method] <= losses[other] else 'is clearly better'}"
        log_losses += f" of {other}"
    reason += f": log loss {log_losses}, {metric.label} {scores}"
    forecast = results.forecast(method)
    by_domain = results.scores(method)
    worst = min(by_domain, key=by_domain.__getitem__)
    sentence = (
        f"Use {method}. {reason}. {forecast} Worst domain here: {worst}, {format_score(metric, by_domain[worst])}."
    )
    if any(row.transductive for rows in results.scored_rows[method].values() for row in rows):
        sentence += " It needs a batch of unlabeled rows of the new domain."
    return Recommendation(
        method=method,
        expected=forecast.mean,
        low=forecast.lower if forecast.is_informative else None,
        high=forecast.upper if forecast.is_informative else None,
        scores=by_domain,
        sentence=sentence,
        log_loss=losses[method],
        compared_to=other,
        other_log_loss=None if other is None else losses[other],
    )


def _best_validated(results: ComparisonResults, candidates: list[str]) -> str:
    """The method with the best mean validation score; in a tie the first one."""

    def mean_validation(name: str) -> float:
        return float(np.mean([validation_score(row) for rows in results.scored_rows[name].values() for row in rows]))

    return max(candidates, key=mean_validation)


def _is_clearly_better(results: ComparisonResults, name: str, default: str) -> bool:
    """Whether a method has a lower log loss than the default by more than a standard error, and no lower score so."""
    losses = results.log_losses(name)
    default_losses = results.log_losses(default)
    gains = [default_losses[domain] - losses[domain] for domain in losses]
    gain, error = mean_and_error(gains, np.zeros(len(gains)).tolist())
    score_gain, score_error = mean_and_error(*results.compare([name], [default]))
    return gain > error + EQUALITY_TOLERANCE and score_gain > -score_error


def describe_imbalance(counts: Mapping[Any, int], metric: str = "accuracy") -> str | None:
    """Return a caution if a class is so rare that accuracy hardly depends on it, given the samples of each class."""
    rare = describe_rare_class(counts) if metric == "accuracy" else None
    return rare and f"{rare} Accuracy depends little on rare classes. {BALANCED_ACCURACY_ADVICE}"
