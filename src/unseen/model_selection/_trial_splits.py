"""Splits on which ensembles are selected: held-out domains, skewed batches of them, and nested splits."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..utils.samples import Samples
from ._acceptance import make_trial_batches
from ._cross_fitting import CrossFittingFolds
from ._splitters import Split

# Nested splits need at least this many held-out domains, so that two are left to train on.
MIN_NESTED_DOMAINS = 4
# Beyond this many rows nested splits take longer than everything else, and labels of a domain hardly affect its own
# score through models that predict other domains: see `make_nested_splits`.
MAX_NESTED_ROWS = 400
# The same for pairs of domains times rows times classes: some seconds for all candidates.
MAX_NESTED_WORK = 15_000


@dataclass(frozen=True)
class TrialSplits:
    """Held-out domains, each as it is and resampled with skewed classes, and nested splits for cross-fitting.

    Attributes
    ----------
    natural : list of (train, test)
        One split for each held-out domain, or part.
    batch_rows : list of list
        For each part, positions within it of the rows of each of its batches; the first batch is the natural one.
    folds : CrossFittingFolds
        Folds by which everything that is reported about a part is cross-fitted.
    nested : dict
        By fold and part, a split that holds out the part and trains without the parts that the fold leaves out. Empty
        where that would take too long: see `make_nested_splits`.
    """

    natural: list[Split]
    batch_rows: list[list[Any]]
    folds: CrossFittingFolds
    nested: dict[tuple[int, int], Split] = field(default_factory=dict)

    @classmethod
    def from_splits(cls, samples: Samples, natural: Sequence[Split], *, skewed: bool = True) -> TrialSplits:
        """Trials for these splits; skewed batches depend on the classes of a part alone, not on the training rows."""
        batch_rows: list[list[Any]] = [[slice(None)] for _ in natural]
        if skewed:
            # Ranks of the classes within a part, so that classes elsewhere do not change the batches.
            ranks = [np.unique(samples.codes[test], return_inverse=True)[1] for _, test in natural]
            batch_rows = [make_trial_batches(codes, zlib.crc32(codes.astype("<i8").tobytes())) for codes in ranks]
        folds = CrossFittingFolds.from_rows([test for _, test in natural])
        return cls(list(natural), batch_rows, folds, make_nested_splits(samples, natural, folds))

    def without_skewed(self) -> TrialSplits:
        """The same trials without skewed batches."""
        return replace(self, batch_rows=[batches[:1] for batches in self.batch_rows])

    @cached_property
    def skewed_splits(self) -> list[Split]:
        """Splits that hold out skewed batches, part by part."""
        return [
            (train, test[batch])
            for (train, test), batches in zip(self.natural, self.batch_rows, strict=True)
            for batch in batches[1:]
        ]

    @cached_property
    def splits(self) -> list[Split]:
        """All splits: natural ones, then skewed ones, then nested ones."""
        return [*self.natural, *self.skewed_splits, *self.nested.values()]

    @property
    def skewed_positions(self) -> frozenset[int]:
        """Positions of the splits that hold out skewed batches."""
        return frozenset(range(len(self.natural), len(self.natural) + len(self.skewed_splits)))

    def position(self, part: int, batch: int) -> int:
        """Position of a batch of a part among all splits."""
        if batch == 0:
            return part
        return len(self.natural) + part * (len(self.batch_rows[part]) - 1) + batch - 1

    @cached_property
    def nested_positions(self) -> dict[tuple[int, int], int]:
        """Positions of nested splits among all splits, by fold and part."""
        first = len(self.natural) + len(self.skewed_splits)
        return {key: first + i for i, key in enumerate(self.nested)}


def make_nested_splits(
    samples: Samples, natural: Sequence[Split], folds: CrossFittingFolds
) -> dict[tuple[int, int], Split]:
    """Splits that hold out one part and train without another part as well, by the other part's fold and the part.

    Parameters that are applied to a part, but were fitted on predictions for other parts, have seen its labels if the
    models behind these predictions were trained on it: two parts that resemble each other by chance make the same
    models look good on both. That is worth two points of accuracy on pure noise with 25 samples in each of five
    domains, and less with more samples. So models are trained without each pair of parts where data are few. With many
    samples that takes too long, and there are no nested splits.
    """
    m = len(natural)
    rows = max(len(train) + len(test) for train, test in natural)
    n_classes = len(np.unique(np.concatenate([samples.codes[test] for _, test in natural])))
    work = m * (m - 1) // 2 * rows * n_classes
    if m < MIN_NESTED_DOMAINS or len(folds.kept) < m or rows > MAX_NESTED_ROWS or work > MAX_NESTED_WORK:
        return {}
    nested = {}
    for fold, part in np.argwhere(folds.kept).tolist():
        train = np.intersect1d(natural[fold][0], natural[part][0], assume_unique=True)
        nested[fold, part] = (train, natural[part][1])
    return nested
