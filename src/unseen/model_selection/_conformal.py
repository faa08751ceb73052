"""Conformal prediction sets for new domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..exceptions import ParameterError
from ..linalg import Array
from ._calibration import Arrays, Codes, Mask, row_weights, true_class_values

# Tolerance of sums of row weights.
COVERAGE_ROUNDING = 1e-9
# Sets are class-conditional if a class has less than this share of the rows that it would have among equal classes.
# Sets with a common threshold may then leave out most of its rows, at the coverage of all rows.
UNBALANCED_SHARE = 0.5


@dataclass(frozen=True)
class ConformalSets:
    """Prediction sets that contain the true class on a new domain with a given probability (Lee, Barber, Willett 2023).

    `scores` holds 1 - p(true class) of the rows of each held-out domain. If domains are exchangeable, each of them and
    the new one has a weight of 1 / (m + 1), divided among rows; the weight of the new domain lies at infinity. Coverage
    is a mean over new domains: exact if one model that saw none of the domains gave all scores, approximate if each
    domain was scored by a model that did not see that domain.

    With `codes`, the classes of these rows, sets are class-conditional (Mondrian): each class has a threshold from the
    rows of this class, in the domains that have it, and the coverage holds for each class. A class that too few domains
    have for the coverage belongs to every set.
    """

    scores: Arrays
    codes: Codes | None = None

    @classmethod
    def from_predictions(cls, P: Arrays, codes: Codes) -> Self:
        """From out-of-domain probabilities (n_k, C); class-conditional if classes are unbalanced."""
        shares = np.bincount(np.concatenate(codes), minlength=P[0].shape[1]) / sum(map(len, codes))
        is_unbalanced = shares[shares > 0].min() < UNBALANCED_SHARE / P[0].shape[1]
        scores = [1 - true_class_values(p, c) for p, c in zip(P, codes, strict=True)]
        return cls(scores, codes if is_unbalanced else None)

    @property
    def attainable(self) -> float:
        """The largest coverage that is attainable with this number of held-out domains."""
        return len(self.scores) / (len(self.scores) + 1)

    def check_coverage(self, coverage: float) -> None:
        """Raise ValueError if a coverage is not attainable."""
        m = len(self.scores)
        if not 0 < coverage < 1:
            raise ParameterError(
                "coverage", f"coverage={coverage!r} is not between 0 and 1. Use for example coverage=0.9."
            )
        if coverage - COVERAGE_ROUNDING > self.attainable:
            raise ParameterError(
                "coverage",
                f"coverage={coverage:g} is not attainable with {m} held-out domain{'s' * (m > 1)}: at most "
                f"1 - 1/(m + 1) = {self.attainable:.3g}. Use a smaller coverage or more domains.",
            )

    def thresholds(self, coverage: float, n_classes: int) -> Array:
        """The scores (C,) up to which classes belong to a set."""
        self.check_coverage(coverage)
        if self.codes is None:
            return np.full(n_classes, _weighted_quantile(self.scores, coverage))
        cells = [
            [scores[codes == j] for scores, codes in zip(self.scores, self.codes, strict=True)]
            for j in range(n_classes)
        ]
        return np.array([_weighted_quantile([cell for cell in of_class if len(cell)], coverage) for of_class in cells])

    def sets(self, P: Array, coverage: float) -> Mask:
        """Which classes belong to the set of each row (n, C); the most probable class always does."""
        is_most_probable = np.arange(P.shape[1]) == P.argmax(axis=1)[:, None]
        return is_most_probable | (self.thresholds(coverage, P.shape[1]) >= 1 - P)


def _weighted_quantile(scores: Arrays, coverage: float) -> float:
    """Quantile of the scores of domains with equal weights; 1, the largest score, if there are too few domains."""
    m = len(scores)
    if coverage - COVERAGE_ROUNDING > m / (m + 1):
        return 1.0
    all_scores = np.concatenate(scores)
    order = np.argsort(all_scores)
    cumulative = np.cumsum(row_weights(scores)[order]) * m / (m + 1)
    return float(all_scores[order[np.searchsorted(cumulative, coverage - COVERAGE_ROUNDING)]])
