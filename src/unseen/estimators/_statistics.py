"""Statistics that know the names of their domains and classes, so that any chunk can be added to any other."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import gen_batches

from ..kernels import check_scatter_memory, check_spread
from ..linalg import Array, CellStatistics, Gram, Ints, Membership, Spectrum, gram
from ..utils.optional_imports import is_dask
from ..utils.validation import EncodedLabels, Labels, encode_domains
from ._feature_space import fit_feature_map

if TYPE_CHECKING:
    from ._projection import Projection

# Enough rows that adding blocks up costs little beside their Gram matrices, few enough to stay in cache.
BLOCK_ROWS = 2048
MAX_STORED_VALUES = np.iinfo(np.int64).max
TEXT = "OSU"  # kinds of arrays whose elements are not numbers
# What solving adds to the statistics of a stream.
SOLUTION = ("eigenvalues_", "coef_", "offset_", "recentered_")


class UnsolvedError(AttributeError, ValueError):
    """A stream has no components yet; what asks whether it has is told no, and who wants them is told why."""


@dataclass(frozen=True)
class Statistics:
    """All that a projection needs to know of the samples it has seen; ``a + b`` is that of both.

    Attributes
    ----------
    domains, classes : ndarrays of shape (n_domains,) and (n_classes,)
        Names, sorted; None stands alone where samples were not told apart.
    cells : Cells
        Their statistics, over the table of these domains and classes.
    """

    domains: Labels
    classes: Labels
    cells: CellStatistics

    @classmethod
    def from_features(
        cls, features: Callable[[slice], Array], classes: EncodedLabels, domains: EncodedLabels, gram: Gram = gram
    ) -> Statistics:
        """Collect the statistics of samples, asking for the features of a block of rows at a time."""
        shape = len(domains.names), len(classes.names)

        def block(rows: slice) -> CellStatistics:
            values = features(rows)
            if not rows.start:
                check_scatter_memory(values.shape[1])
            return CellStatistics.from_features(
                values, Membership.from_codes(classes.codes[rows], domains.codes[rows], shape), gram
            )

        batches = gen_batches(len(classes.codes), BLOCK_ROWS)
        cells = reduce(lambda one, two: one.plus(two, gram), map(block, batches))
        return cls(domains.names, classes.names, cells)

    def __sizeof__(self) -> int:
        return sum(part.nbytes for part in self.arrays().values())  # by which Dask decides what to move where

    def plus(self, other: Statistics, gram: Gram = gram) -> Statistics:
        """Statistics of both sets of samples: ``self + other``."""
        widths = len(self.cells.inside), len(other.cells.inside)
        if widths[0] != widths[1]:
            raise ValueError(
                f"feature_map gave {widths[0]} features for some samples and {widths[1]} for others; it must give the "
                "same number for any chunk."
            )
        domains, rows, other_rows = _union(self.domains, other.domains, "sample_domain")
        classes, columns, other_columns = _union(self.classes, other.classes, "y")
        shape = len(domains), len(classes)
        mine = self.cells.placed(rows, columns, shape)
        theirs = other.cells.placed(other_rows, other_columns, shape)
        return Statistics(domains, classes, mine.plus(theirs, gram))

    __add__ = plus

    def arrays(self) -> dict[str, Labels]:
        """Plain arrays, for any file format; `from_arrays` takes them back."""
        return {"domains": self.domains, "classes": self.classes, **vars(self.cells)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Labels]) -> Statistics:
        """Undo `arrays`."""
        parts = dict(arrays)
        return cls(parts.pop("domains"), parts.pop("classes"), CellStatistics(**parts))


def sum_statistics(parts: Sequence[Statistics | None]) -> Statistics | None:
    """The sum of those that there are; None if there are none."""
    present = [part for part in parts if part is not None]
    return reduce(operator.add, present) if present else None


def feature_spectrum(cells: CellStatistics, caller: str) -> Spectrum:
    """Decompose the centered features, which must differ."""
    spectrum = cells.spectrum()
    far = float(np.sqrt(cells.counts.sum()) * np.linalg.norm(cells.mean))
    check_spread(float(np.sqrt(spectrum.values.sum())), far, caller)
    return spectrum


def collect_statistics(
    projection: Projection,
    X: Any,
    y: Any = None,
    sample_domain: Any = None,
    *,
    declared: Labels | None = None,
    reset: bool = True,
    whole: bool = False,
) -> Statistics:
    """Statistics of the features of samples; with `reset` the feature map of the projection learns from these first.

    What cannot be the `whole` of the training data is refused at once, as are classes that are not among those
    `declared`.
    """
    if is_dask(X):
        from . import _dask as distributed

        return distributed.gather_statistics(projection, X, y, sample_domain, declared=declared, reset=reset)
    X, classes, domains = projection._check_training_data(
        X, y, sample_domain, declared=declared, reset=reset, whole=whole
    )
    features = fit_feature_map(projection, X) if reset else None
    space = projection._space

    def block(rows: slice) -> Array:
        return space.features(X[rows]) if features is None else np.ascontiguousarray(features[rows])

    return Statistics.from_features(block, classes, domains, space.gram)


def fit_from_statistics(projection: Projection, statistics: Statistics, n_features: int) -> None:
    """Have a projection go on from statistics that were collected elsewhere, of a map that had nothing to learn."""
    projection.n_features_in_ = n_features
    fit_feature_map(projection, None)
    store_statistics(projection, statistics)


def store_statistics(projection: Projection, statistics: Statistics) -> None:
    """Remember what has been seen, as plain arrays that any file format takes, and forget what was made of it."""
    projection.statistics_ = statistics.arrays()
    projection._remember(statistics.classes, statistics.domains, statistics.cells.counts)
    for name in SOLUTION:
        projection.__dict__.pop(name, None)


def declared_classes(projection: Projection, classes: Any) -> Labels | None:
    """All classes that a stream may hold, if somebody has said so."""
    earlier: Labels | None = vars(projection).get("declared_classes_")
    if classes is None or not projection._needs_labels():
        return earlier
    declared = np.unique(classes)
    if earlier is not None and not np.array_equal(earlier, declared):
        raise ValueError(
            f"classes={declared.tolist()} is not what the first call of partial_fit named, {earlier.tolist()}. "
            "Leave `classes` out of later calls, or start anew with a clone."
        )
    if "classes_" in vars(projection):
        EncodedLabels.from_classes(projection.classes_, declared)
    return declared


def _union(mine: Labels, theirs: Labels, what: str) -> tuple[Labels, Ints, Ints]:
    """Sorted union of two sets of names, and where each name of either went."""
    if (mine[0] is None) != (theirs[0] is None):
        raise ValueError(
            f"{what} was given for some chunks and left out for others. Give it for all of them, or for none."
        )
    kinds = {mine.dtype.kind, theirs.dtype.kind}
    if len(kinds) > 1 and not kinds <= set("biuf"):  # concatenated, 1 and "1" would become one name
        if what == "y" and kinds & set(TEXT) and kinds & set("biuf"):
            raise ValueError(
                f"y must hold labels of one type; got numbers such as {_first(mine, theirs, 'biuf')!r} in one chunk "
                f"and {_first(mine, theirs, TEXT)!r} in another."
            )
        mine, theirs = mine.astype(object), theirs.astype(object)
    if kinds == {"i", "u"}:  # concatenated, they would become floats, and large ones the same
        mine, theirs = mine.astype(object), theirs.astype(object)
    names, codes = encode_domains(np.concatenate([mine, theirs]))
    if kinds == {"i", "u"} and not names[0] < 0 <= MAX_STORED_VALUES < names[-1]:
        names = names.astype(np.int64 if names[-1] <= MAX_STORED_VALUES else np.uint64)
    return names, codes[: len(mine)], codes[len(mine) :]


def _first(mine: Labels, theirs: Labels, kinds: str) -> Any:
    return next(labels.tolist()[0] for labels in (mine, theirs) if labels.dtype.kind in kinds)
