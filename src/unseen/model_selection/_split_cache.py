"""A split that stays prepared, for whoever looks at one setting after the other: its decompositions are kept."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators import Projection
from ..linalg import Array, CellStatistics, scatter_traces
from ..utils.samples import Samples
from ._candidate import Candidate, ignore_expected_warnings
from ._decompositions import Decomposition, DecompositionSource, get_membership
from ._split_evaluation import FeatureStage, Prediction, evaluate_group, kernel_key, single_thread
from ._validation import Scorer, Split, prepare_stages

MAX_CACHED_RIDGES = 8  # ridges whose reductions to cell space are kept with a decomposition


class DecompositionCache:
    """Decompositions, those that were used last, up to so many bytes; one at least."""

    def __init__(self, most: float) -> None:
        self.most = most
        self._kept: OrderedDict[Hashable, tuple[Decomposition, int]] = OrderedDict()

    def fold(self, key: Hashable, size: int, make: Callable[[], Decomposition]) -> Decomposition:
        """The fold of a key, which takes `size` bytes; made if it is not here."""
        if key not in self._kept:
            # Over copies, here and below: a thread may drop the last reference to a bench while another one computes.
            while self._kept and sum(own for _, own in list(self._kept.values())) + size > self.most:
                self._kept.popitem(last=False)
            self._kept[key] = make(), size
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def drop(self, owner: object) -> None:
        """Drop the folds whose key begins with an owner."""
        for key in list(self._kept):
            if isinstance(key, tuple) and key[0] is owner:
                self._kept.pop(key, None)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)


@dataclass(frozen=True)
class ProjectedSplit:
    """A split as a projection sees it: samples to train on, those that are held out, and what the objective trades.

    `scatters` are traces over the training samples: see `unseen.linalg.traces`. `ridge` is a number.
    """

    train: Array
    test: Array
    eigenvalues: Array
    scatters: dict[str, float]
    ridge: float


class _ReadyDecomposition(DecompositionSource):
    """Where folds come from if there is one already."""

    def __init__(self, ready: Decomposition) -> None:
        self._ready = ready

    def fold(self, train: Any, test: Any) -> Decomposition:
        return self._ready


class _PreparedStage(FeatureStage):
    """Samples whose folds are asked for by their projection."""

    def __init__(self, samples: Samples, fold: Callable[[Any], Decomposition]) -> None:
        super().__init__(samples)
        self._fold = fold

    def source(self, projection: Any) -> DecompositionSource:
        return _ReadyDecomposition(self._fold(projection))


class CachedSplit:
    """One split under any setting of any projection: the first setting of a kernel costs a decomposition.

    Parameters
    ----------
    samples : Samples
        All rows.
    split : (train, test)
        Positions of rows.
    preparation : transformer, default=None
        Fitted on the training rows, as in `predictions`.
    shelf : DecompositionCache, default=None
        Where decompositions are kept, perhaps beside those of other splits.
    """

    def __init__(
        self, samples: Samples, split: Split, preparation: Any = None, shelf: DecompositionCache | None = None
    ) -> None:
        ((stage, self.rows),) = prepare_stages(samples, [split], [[0]], preparation)
        self.samples = stage.samples
        self._name = object()
        self._shelf = DecompositionCache(np.inf) if shelf is None else shelf
        # A bench that is not used any more, and is no part of a reference cycle, takes its decompositions with it.
        weakref.finalize(self, self._shelf.drop, self._name)
        self._membership = get_membership(stage.samples, self.rows.train)
        self.score = Scorer("accuracy", stage.samples, [(self.rows.train, self.rows.test)])

    def fold(self, projection: Projection) -> Decomposition:
        """The decomposition that all settings of a kernel share."""
        train, test = len(self.rows.train), len(self.rows.test)

        # What they share on all folds of a search is made for this one alone: it is as large, and soon made.
        def source() -> Decomposition:
            with single_thread():  # more are of little use to eigenvalues, and wait for each other on a busy machine
                found = FeatureStage(self.samples).source(projection).fold(self.rows.train, self.rows.test)
            found.max_whitened = MAX_CACHED_RIDGES
            return found

        return self._shelf.fold(self._key(projection), 8 * train * (train + test), source)

    def is_ready(self, projection: Projection) -> bool:
        """Whether there is a decomposition."""
        return self._key(projection) in self._shelf

    def _key(self, projection: Projection) -> Hashable:
        return self._name, kernel_key(projection)

    def view(self, projection: Projection) -> ProjectedSplit:
        """Samples as the projection, fitted to the training rows, would transform them."""
        fold = self.fold(projection)
        with ignore_expected_warnings(), single_thread():
            solved = fold.solve(projection)
            train, seen = fold.project(projection, solved, self.rows.parts)
            test = seen[0] if isinstance(seen, list) else seen
            values = solved.solution.eigenvalues[: train.shape[1]]
            return ProjectedSplit(
                train,
                test,
                values,
                scatter_traces(CellStatistics.from_features(train, self._membership)),
                solved.problem.ridge,
            )

    def principal(self, projection: Projection, most: int) -> tuple[Array, Array]:
        """The leading principal components of the same kernel: samples to train on, and those that are held out."""
        found = self.fold(projection).principal(most)
        return found.train, found.test - found.offset

    def said(self, candidates: Sequence[Candidate]) -> list[Prediction]:
        """What candidates behind one kernel, trained on the training rows, say of those that are held out."""
        asks: dict[int, tuple[str, ...]] = dict.fromkeys(range(len(candidates)), ())  # nothing but labels
        found = evaluate_group(
            list(enumerate(candidates)), _PreparedStage(self.samples, self.fold), [0], self.rows, asks
        )
        return sorted(found, key=lambda prediction: prediction.candidate)
