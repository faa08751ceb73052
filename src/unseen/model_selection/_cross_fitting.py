"""Folds of cross-fitting over held-out domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from ..linalg import Ints
from ._calibration import Mask

# The number of fits grows with the square of the number of folds; 12 folds keep 11 of 12 domains in each.
MAX_FOLDS = 12


@dataclass(frozen=True)
class CrossFittingFolds:
    """Folds of cross-fitting over held-out domains: what is applied to a domain is fitted without it.

    Attributes
    ----------
    predicted_by : ndarray of shape (n_domains,)
        The fold whose parameters are applied to each domain.
    kept : ndarray of bool of shape (n_folds, n_domains)
        The domains on which the parameters of each fold are fitted.
    """

    predicted_by: Ints
    kept: Mask

    @classmethod
    def from_rows(cls, rows: Sequence[Ints]) -> Self:
        """Folds for held-out parts with these rows.

        Each part is a fold. More than `MAX_FOLDS` parts are left out in that many groups. If parts share rows, as
        those of repeated or leave-two-out splits do, each is a fold that leaves out all parts which share rows with it.
        """
        m = len(rows)
        all_rows = np.concatenate(rows)
        if len(np.unique(all_rows)) == len(all_rows):
            groups = np.arange(m) % MAX_FOLDS
            return cls(groups, np.arange(min(m, MAX_FOLDS))[:, None] != groups)
        ends = np.cumsum([0, *(len(part) for part in rows)])
        membership = csr_array((np.ones(len(all_rows)), all_rows, ends), shape=(m, int(all_rows.max()) + 1))
        return cls(np.arange(m), (membership @ membership.T).toarray() == 0)

    def inner(self, fold: int) -> tuple[Ints, Mask]:
        """Folds within a fold: the folds of the domains that it keeps, and the domains that both keep."""
        others = np.unique(self.predicted_by[self.kept[fold]])
        return others, self.kept[fold] & self.kept[others]
