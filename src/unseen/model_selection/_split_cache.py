"""A split with cached decompositions, for evaluating one setting after another."""

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

MAX_CACHED_RIDGES = 8  # reductions to cell space that are cached with a decomposition


class DecompositionCache:
    """A least-recently-used cache of decompositions, of at most `max_bytes`; it keeps at least one."""

    def __init__(self, max_bytes: float) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, tuple[Decomposition, int]] = OrderedDict()

    def get(self, key: Hashable, size: int, make: Callable[[], Decomposition]) -> Decomposition:
        """The decomposition of a key, of `size` bytes; `make` is called if it is not cached."""
        if key not in self._entries:
            # Over copies, here and below: a thread may drop an owner while another thread computes.
            while (
                self._entries
                and sum(entry_size for _, entry_size in list(self._entries.values())) + size > self.max_bytes
            ):
                self._entries.popitem(last=False)
            self._entries[key] = make(), size
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def drop(self, owner: object) -> None:
        """Drop the decompositions whose key begins with an owner."""
        for key in list(self._entries):
            if isinstance(key, tuple) and key[0] is owner:
                self._entries.pop(key, None)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True)
class ProjectedSplit:
    """A split transformed by a projection: training and held-out samples, eigenvalues, and traces of scatters.

    `scatters` are traces over the training samples: see `unseen.linalg.traces`. `ridge` is a number.
    """

    train: Array
    test: Array
    eigenvalues: Array
    scatters: dict[str, float]
    ridge: float


class _CachedSource(DecompositionSource):
    """A source that returns one existing decomposition."""

    def __init__(self, decomposition: Decomposition) -> None:
        self._decomposition = decomposition

    def decompose(self, train: Any, test: Any) -> Decomposition:
        return self._decomposition


class _CachedStage(FeatureStage):
    """Features whose decompositions come from a cache."""

    def __init__(self, samples: Samples, decompose: Callable[[Any], Decomposition]) -> None:
        super().__init__(samples)
        self._decompose = decompose

    def source(self, projection: Any) -> DecompositionSource:
        return _CachedSource(self._decompose(projection))


class CachedSplit:
    """One split under any setting of any projection: the first setting of a kernel costs a decomposition.

    Parameters
    ----------
    samples : Samples
        All rows.
    split : (train, test)
        Positions of rows.
    preparation : transformer, default=None
        Fitted on the training rows, as in `evaluate_candidates`.
    cache : DecompositionCache, default=None
        Where decompositions are kept, possibly together with those of other splits.
    """

    def __init__(
        self, samples: Samples, split: Split, preparation: Any = None, cache: DecompositionCache | None = None
    ) -> None:
        ((stage, self.rows),) = prepare_stages(samples, [split], [[0]], preparation)
        self.samples = stage.samples
        self._owner = object()
        self._cache = DecompositionCache(np.inf) if cache is None else cache
        # The decompositions of a split that is no longer used are dropped with it.
        weakref.finalize(self, self._cache.drop, self._owner)
        self._membership = get_membership(stage.samples, self.rows.train)
        self.score = Scorer("accuracy", stage.samples, [(self.rows.train, self.rows.test)])

    def decompose(self, projection: Projection) -> Decomposition:
        """The decomposition that all settings of a kernel share."""
        n_train = len(self.rows.train)
        size = 8 * n_train * (n_train + len(self.rows.test))

        def make() -> Decomposition:
            with single_thread():  # more threads hardly speed up eigenvalues, and wait for each other on a busy machine
                source = FeatureStage(self.samples).source(projection)
                decomposition = source.decompose(self.rows.train, self.rows.test)
            decomposition.max_reductions = MAX_CACHED_RIDGES
            return decomposition

        return self._cache.get(self._key(projection), size, make)

    def is_cached(self, projection: Projection) -> bool:
        """Whether the decomposition of the kernel is cached."""
        return self._key(projection) in self._cache

    def _key(self, projection: Projection) -> Hashable:
        return self._owner, kernel_key(projection)

    def project(self, projection: Projection) -> ProjectedSplit:
        """Samples as the projection, fitted to the training rows, transforms them."""
        decomposition = self.decompose(projection)
        with ignore_expected_warnings(), single_thread():
            solved = decomposition.solve(projection)
            train, held_out = decomposition.project(projection, solved, self.rows.parts)
            test = held_out[0] if isinstance(held_out, list) else held_out
            values = solved.solution.eigenvalues[: train.shape[1]]
            scatters = scatter_traces(CellStatistics.from_features(train, self._membership))
            return ProjectedSplit(train, test, values, scatters, solved.problem.ridge)

    def principal(self, projection: Projection, max_components: int) -> tuple[Array, Array]:
        """Leading principal components of the kernel: those of the training rows and of the held-out rows."""
        basis = self.decompose(projection).principal(max_components)
        return basis.train, basis.test - basis.offset

    def evaluate(self, candidates: Sequence[Candidate]) -> list[Prediction]:
        """Predictions of candidates with one kernel, trained on the training rows, for the held-out rows."""
        labels_only: dict[int, tuple[str, ...]] = dict.fromkeys(range(len(candidates)), ())
        stage = _CachedStage(self.samples, self.decompose)
        predictions = evaluate_group(list(enumerate(candidates)), stage, [0], self.rows, labels_only)
        return sorted(predictions, key=lambda prediction: prediction.candidate)
