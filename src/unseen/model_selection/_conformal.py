"""Conformal prediction sets for new domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..linalg import Array
from ._calibration import Arrays, Codes, Mask, row_weights, true_class_values

# Tolerance of sums of row weights.
COVERAGE_ROUNDING = 1e-9


@dataclass(frozen=True)
class ConformalSets:
    """Prediction sets that contain the true class on a new domain with a given probability (Lee, Barber, Willett 2023).

    `scores` holds 1 - p(true class) of the rows of each held-out domain. If domains are exchangeable, each of them and
    the new one has a weight of 1 / (m + 1), divided among rows; the weight of the new domain lies at infinity. Coverage
    is a mean over new domains: exact if one model that saw none of the domains gave all scores, approximate if each
    domain was scored by a model that did not see that domain.
    """

    scores: Arrays

    @classmethod
    def from_predictions(cls, P: Arrays, codes: Codes) -> Self:
        """From out-of-domain probabilities (n_k, C)."""
        return cls([1 - true_class_values(p, c) for p, c in zip(P, codes, strict=True)])

    @property
    def attainable(self) -> float:
        """The largest coverage that is attainable with this number of held-out domains."""
        return len(self.scores) / (len(self.scores) + 1)

    def threshold(self, coverage: float) -> float:
        """The score up to which classes belong to a set."""
        m = len(self.scores)
        if not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage!r} is not between 0 and 1. Use for example coverage=0.9.")
        if coverage - COVERAGE_ROUNDING > self.attainable:
            raise ValueError(
                f"coverage={coverage:g} is not attainable with {m} held-out domain{'s' * (m > 1)}: at most "
                f"1 - 1/(m + 1) = {self.attainable:.3g}. Use a smaller coverage or more domains."
            )
        scores = np.concatenate(self.scores)
        order = np.argsort(scores)
        cumulative = np.cumsum(row_weights(self.scores)[order]) * m / (m + 1)
        return float(scores[order[np.searchsorted(cumulative, coverage - COVERAGE_ROUNDING)]])

    def sets(self, P: Array, coverage: float) -> Mask:
        """Which classes belong to the set of each row (n, C); the most probable class always does."""
        is_most_probable = np.arange(P.shape[1]) == P.argmax(axis=1)[:, None]
        return is_most_probable | (self.threshold(coverage) >= 1 - P)
