"""Comparison of candidates by their scores on held-out parts: best settings of each variant, selection, leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..exceptions import warn
from ..linalg import Array, Ints
from ..metrics import expected_performance
from ._calibration import Mask
from ._candidate import Candidate
from ._cross_fitting import CrossFittingFolds
from ._evaluation import group_by
from ._validation import best_index, count_ties

KINDS_BY_SIMPLICITY = ("plain", "inductive", "transductive")
# Beyond these a comparison takes days: some classifiers are trained for each pair of classes, all for each held-out
# domain, and nested comparisons leave out each pair of domains.
MAX_CLASSES = 1_000
MAX_DOMAINS = 500
MAX_PAIRED_DOMAINS = 200


def check_comparison_size(n_classes: int, n_domains: int, *, paired: bool = False) -> None:
    """Raise ValueError if there are too many classes or held-out domains to train models for each of them."""
    max_domains = MAX_PAIRED_DOMAINS if paired else MAX_DOMAINS
    if n_classes > MAX_CLASSES:
        raise ValueError(
            f"There are {n_classes:,} classes; methods can be compared on at most {MAX_CLASSES:,}, since some train a "
            "classifier for each pair of them. Merge rare classes, or check which column holds the labels: this one "
            "may be an identifier."
        )
    if n_domains > max_domains:
        sets = n_domains * (n_domains - 1) // 2 if paired else n_domains
        raise ValueError(
            f"There are {n_domains:,} domains, which makes {sets:,} training sets for every method; at most "
            f"{max_domains:,} domains are supported. Use larger units as domains, such as regions instead of "
            "hospitals, or "
            "keep the largest domains."
        )


@dataclass(frozen=True)
class CandidateResult:
    """Result of a variant of a method with its best settings on each held-out part.

    Attributes
    ----------
    candidate : Candidate
        The best settings, by the mean over held-out parts.
    scores : ndarray of shape (n_splits,)
        On each held-out part, of the settings that are best on the other parts; NaN where it failed, and where the
        metric is not defined.
    ties : int
        Number of other settings with the same mean.
    seconds : float
        Cost of all settings of the variant.
    error : str
        Why there are no scores, if there are none.
    defined : ndarray of bool, default=...
        Held-out parts that count, the same for all candidates.
    skewed : float
        Mean score on batches with skewed classes; NaN if these were not evaluated.
    scored : tuple of Candidate
        The settings that were scored on each held-out part; empty if that was always `candidate`.
    """

    candidate: Candidate
    scores: Array
    ties: int = 0
    seconds: float = 0.0
    error: str = ""
    defined: Any = ...
    skewed: float = np.nan
    scored: tuple[Candidate, ...] = ()

    @property
    def name(self) -> str:
        """Such as "CIDG + 1-NN, target-centered"."""
        return self.candidate.variant

    @property
    def kind(self) -> Literal["plain", "inductive", "transductive"]:
        """One of "plain", "inductive" and "transductive"."""
        return self.candidate.kind

    @property
    def mean(self) -> float:
        """Mean score over held-out parts that count."""
        return float(np.mean(self.scores[self.defined]))


def best_by_variant(
    candidates: Sequence[Candidate],
    results: dict[str, Any],
    folds: CrossFittingFolds | None = None,
    fold_results: Sequence[dict[str, Any]] | None = None,
) -> list[CandidateResult]:
    """The best settings of each variant, by the table of all candidates on all splits.

    With `folds`, the score on a held-out part is that of the settings which are best on the parts that its fold keeps,
    by the scores of that fold if these differ. Without, it is that of the settings that are best on all parts, as a
    grid search reports it, which is optimistic. A variant that fails on some split has no mean, is never selected, and
    keeps its error. Splits on which the metric is not defined do not count.
    """
    if folds is not None and fold_results is None:
        fold_results = [restrict_results(results, kept) for kept in folds.kept]
    variants = []
    for variant in group_by(range(len(candidates)), lambda i: candidates[i].variant):
        best = best_index(results, variant)
        scores = results["scores"][best]
        scored: tuple[Candidate, ...] = ()
        if folds is not None and fold_results is not None:
            settings = [best_index(single_fold, variant) for single_fold in fold_results]
            positions = [settings[fold] for fold in folds.predicted_by]
            scores = results["scores"][positions, np.arange(len(positions))]
            scored = tuple(candidates[i] for i in positions)
        error = next((results["errors"][i] for i in variant if results["errors"][i]), "")
        seconds = float(sum(results["seconds"][i].sum() for i in variant))
        tied = count_ties(results["mean_test_score"][variant])
        error = "" if np.isfinite(results["mean_test_score"][best]) else error
        variants.append(
            CandidateResult(candidates[best], scores, tied, seconds, error, results["defined"], scored=scored)
        )
    return variants


def restrict_results(results: dict[str, Any], kept: Mask) -> dict[str, Any]:
    """The same results with means over some held-out parts only; candidates that fail anywhere have none.

    Where nothing is kept all means are 0, so that the simplest settings are preferred.
    """
    counted = results["defined"] & kept
    means = results["scores"][:, counted].mean(axis=1) if counted.any() else np.zeros(len(results["scores"]))
    has_mean = np.isfinite(results["mean_test_score"])
    return {**results, "defined": counted, "mean_test_score": np.where(has_mean, means, np.nan)}


def warn_about_failures(results: Sequence[CandidateResult]) -> None:
    """Warn why some candidates have no score, if others have one."""
    for result in results:
        if result.error and not all(other.error for other in results):
            warn(f"{result.name} has no score and is left out of the selection: {result.error}", RuntimeWarning)


def select_result(results: Sequence[CandidateResult]) -> CandidateResult:
    """The best mean, unless the best of a simpler kind is worse by at most one standard error of the difference."""
    reasons = [f" {result.name}: {result.error}" for result in results if result.error]
    scored = [result for result in results if np.isfinite(result.mean)]
    if not scored:
        first_reason = "".join(reasons[:1])
        raise ValueError(f"No model has a score on every held-out part. Check the data and the scorer.{first_reason}")
    best = max(scored, key=lambda result: (result.mean, -KINDS_BY_SIMPLICITY.index(result.kind)))
    for kind in KINDS_BY_SIMPLICITY[: KINDS_BY_SIMPLICITY.index(best.kind)]:
        simpler = [result for result in scored if result.kind == kind]
        if simpler and is_within_error(best, max(simpler, key=lambda result: result.mean)):
            return best_of_kind(simpler)
    return best_of_kind([result for result in scored if result.kind == best.kind])


def best_of_kind(results: Sequence[CandidateResult]) -> CandidateResult:
    """Best of one kind; among plain classifiers, the RBF SVM unless another is distinguishably better.

    A wide rbf kernel makes it a linear SVM, so it nests the linear models: where the data cannot distinguish them, it
    loses little if the truth is linear, and a linear model may lose much if it is not.
    """
    best = max(results, key=lambda result: result.mean)
    for result in results:
        if result.name == "RBF SVM" and is_within_error(best, result):
            return result
    return best


def is_within_error(better: CandidateResult, other: CandidateResult) -> bool:
    """Whether an advantage, paired by held-out part, is within one standard error of zero."""
    difference = (better.scores - other.scores)[better.defined]
    return bool(difference.mean() <= standard_error(difference))


def standard_error(values: Array) -> float:
    """Standard error of a mean; zero for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def forecast(
    scores: Array,
    standard_errors: Array | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    *,
    n_rows: Array | Ints | None = None,
    level: float = 0.95,
    min_domains: int = 2,
) -> tuple[float, float, float]:
    """Mean score over held-out domains, and the ends of a prediction interval for the score on a new domain.

    See `unseen.metrics.expected_performance`: the interval is that of a random-effects model on the logit scale of the
    range of the metric, or on the log scale for a metric with one bound. It includes the sampling error of a new domain
    of typical size if this is known: from `n_rows`, for scores that are shares of rows, or from `standard_errors`. With
    fewer than `min_domains` domains the interval is the whole range.
    """
    mean = float(np.mean(scores))
    if len(scores) < max(min_domains, 2):
        return mean, float(bounds[0]), float(bounds[1])
    is_bounded = bool(np.isfinite(bounds).all())
    if n_rows is None and is_bounded and standard_errors is not None:
        n_rows = _effective_rows(scores, standard_errors, bounds)
    if n_rows is not None:
        expected = expected_performance(
            scores, None, bounds, n_rows=n_rows, is_share=True, n_rows_new=float(np.median(n_rows)), level=level
        )
    else:
        expected = expected_performance(scores, None, bounds, level=level)
    low, high = expected.prediction_interval
    return mean, min(low, mean), max(high, mean)


def _effective_rows(scores: Array, standard_errors: Array, bounds: tuple[float, float]) -> Array | None:
    """Number of rows at which a share of rows would have these standard errors; None if they are all zero.

    Scores at an end of their range have a standard error of one row at least.
    """
    width = bounds[1] - bounds[0]
    variance = float(np.mean(np.square(standard_errors))) / width**2
    if variance == 0:
        return None
    share = float(np.mean(scores) - bounds[0]) / width
    return np.full(len(scores), max(share * (1 - share) / variance, 1 / np.sqrt(variance)))
