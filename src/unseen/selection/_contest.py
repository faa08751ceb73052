"""The contest: candidates are asked on held-out parts, the best settings of each variant contend, and one is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit

from ..algebra import Array
from ..exceptions import warn
from ._asking import grouped
from ._candidate import Candidate
from ._engine import preferred, ties

SIMPLICITY = ("plain", "inductive", "transductive")
# Beyond these a contest takes days: some classifiers are trained for each pair of classes, all for each domain that
# is held out, and a comparison leaves out each pair of domains.
MOST_CLASSES, MOST_DOMAINS, MOST_PAIRED_DOMAINS = 1_000, 500, 200


def require_contest(n_classes: int, n_domains: int, *, paired: bool = False) -> None:
    """Raise if there are too many classes, or held-out domains, for many models to be trained for each of them."""
    most = MOST_PAIRED_DOMAINS if paired else MOST_DOMAINS
    if n_classes > MOST_CLASSES:
        raise ValueError(
            f"There are {n_classes:,} classes; methods can be compared on at most {MOST_CLASSES:,}, since some train a "
            "classifier for each pair of them. Merge rare classes, or check which column holds the labels: this one "
            "may number things."
        )
    if n_domains > most:
        sets = n_domains * (n_domains - 1) // 2 if paired else n_domains
        raise ValueError(
            f"There are {n_domains:,} domains, which makes {sets:,} training sets for every method; at most {most:,} "
            "domains can be held out one after the other. Name larger places as domains, such as the regions of "
            "hospitals, or keep the largest ones."
        )


@dataclass(frozen=True)
class Contender:
    """A variant of a method with its best settings, and how it did on each held-out part.

    Attributes
    ----------
    candidate : Candidate
        The best settings, by the mean over held-out parts.
    scores : ndarray of shape (n_splits,)
        On each held-out part; NaN where it failed, and where the metric is not defined.
    ties : int
        How many other settings have the same mean.
    seconds : float
        What all settings of the variant cost.
    error : str
        Why there are no scores, if there are none.
    defined : ndarray of bool, default=...
        Held-out parts that count, the same for all contenders.
    skewed : float
        Mean score on held-out parts drawn again with a skew of classes; NaN if nobody was asked about these.
    """

    candidate: Candidate
    scores: Array
    ties: int = 0
    seconds: float = 0.0
    error: str = ""
    defined: Any = ...
    skewed: float = np.nan

    @property
    def name(self) -> str:
        """Such as "CIDG + 1-NN, target-centred"."""
        return self.candidate.variant

    @property
    def kind(self) -> Literal["plain", "inductive", "transductive"]:
        """From simple to demanding."""
        return self.candidate.kind

    @property
    def mean(self) -> float:
        """Mean score over held-out parts that count."""
        return float(np.mean(self.scores[self.defined]))


def contenders(candidates: Sequence[Candidate], results: dict[str, Any]) -> list[Contender]:
    """The best settings of each variant, by the table of all candidates on all splits.

    A variant that fails on some split is a contender without a mean, which is never chosen and tells its reason. Splits
    on which the metric is not defined count for nobody.
    """
    field = []
    for variant in grouped(range(len(candidates)), lambda i: candidates[i].variant):
        best = preferred(results, variant)
        scores = results["scores"][best]
        error = next((results["errors"][i] for i in variant if results["errors"][i]), "")
        seconds = float(sum(results["seconds"][i].sum() for i in variant))
        tied = ties(results["mean_test_score"][variant])
        error = "" if np.isfinite(results["mean_test_score"][best]) else error
        field.append(Contender(candidates[best], scores, tied, seconds, error, results["defined"]))
    return field


def warn_of_failures(field: Sequence[Contender]) -> None:
    """Say why some contenders have no score, if others have."""
    for contender in field:
        if contender.error and not all(other.error for other in field):
            text = f"{contender.name} cannot be scored and is left out of the choice: {contender.error}"
            warn(text, RuntimeWarning)


def choose(field: Sequence[Contender]) -> Contender:
    """Best mean, unless the champion of a simpler kind is no worse by one standard error of the paired difference."""
    reasons = [f" {contender.name}: {contender.error}" for contender in field if contender.error]
    field = [contender for contender in field if np.isfinite(contender.mean)]
    if not field:
        advice = "check the data and the scorer."
        raise ValueError(f"No model could be scored on every held-out part; {advice}{''.join(reasons[:1])}")
    best = max(field, key=lambda c: (c.mean, -SIMPLICITY.index(c.kind)))
    for kind in SIMPLICITY[: SIMPLICITY.index(best.kind)]:
        rivals = [contender for contender in field if contender.kind == kind]
        if rivals and indistinguishable(best, max(rivals, key=lambda c: c.mean)):
            return champion(rivals)
    return champion([contender for contender in field if contender.kind == best.kind])


def champion(rivals: Sequence[Contender]) -> Contender:
    """Best of one kind; among plain classifiers, the RBF SVM unless another is distinguishably better.

    A wide rbf kernel makes it a linear SVM, so it nests the linear models: where the data cannot tell them apart, it
    loses little when the truth is linear, and a linear model may lose much when it is not.
    """
    best = max(rivals, key=lambda c: c.mean)
    nesting = [c for c in rivals if c.name == "RBF SVM" and indistinguishable(best, c)]
    return nesting[0] if nesting else best


def indistinguishable(better: Contender, other: Contender) -> bool:
    """Whether an advantage, paired by held-out part, is within one standard error of zero."""
    difference = (better.scores - other.scores)[better.defined]
    return bool(difference.mean() <= standard_error(difference))


def standard_error(values: Array) -> float:
    """Standard error of a mean; zero for a single value, which says nothing about its own spread."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def forecast(
    scores: Array, error: float = 0.0, ends: tuple[float, float] = (0.0, 1.0), *, level: float = 0.95, fewest: int = 2
) -> tuple[float, float, float]:
    """Mean of the scores of some domains, and the ends of an interval for the score of the next one.

    Student's prediction interval for one more of some normal values, within the ends of the scale, which is all that
    can be said of fewer than the `fewest`. `error` is the squared standard error of a score within its domain, which
    bounds the spread from below where few domains agree by luck.
    """
    m, mean, reach = len(scores), float(np.mean(scores)), np.inf
    if m >= max(fewest, 2):
        reach = stdtrit(m - 1, (1 + level) / 2) * np.sqrt(max(float(np.var(scores, ddof=1)), error) * (1 + 1 / m))
    return mean, float(max(mean - reach, ends[0])), float(min(mean + reach, ends[1]))


def contender_row(contender: Contender, names: Sequence[str]) -> dict[str, Any]:
    """A contender on a leaderboard, in plain values."""
    return {
        "model": contender.name,
        "kind": contender.kind,
        "mean": contender.mean,
        "standard_error": standard_error(contender.scores[contender.defined]),
        "scores": dict(zip(names, contender.scores.tolist(), strict=True)),
        "skewed": contender.skewed,
        "params": contender.candidate.params,
        "seconds": contender.seconds,
    }
