"""Statistics that know the names of their domains and classes, so that any chunk can be added to any other."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from sklearn.utils import gen_batches
from sklearn.utils.multiclass import type_of_target

from ..algebra import Array, Cells, Gram, Ints, Membership, gram
from ..labels import Labels, check_domains, encode_domains, require_labels

# Enough rows that adding blocks up costs little beside their Gram matrices, few enough to stay in cache.
BLOCK_ROWS = 2048
LARGEST = np.iinfo(np.int64).max
TEXT = "OSU"  # kinds of arrays whose elements are not numbers


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
    cells: Cells

    @classmethod
    def of(cls, features: Callable[[slice], Array], classes: Coded, domains: Coded, gram: Gram = gram) -> Statistics:
        """Collect the statistics of samples, asking for the features of a block of rows at a time."""
        shape = len(domains.names), len(classes.names)
        cell = domains.codes * shape[1] + classes.codes

        def block(rows: slice) -> Cells:
            counts = np.bincount(cell[rows], minlength=shape[0] * shape[1]).reshape(shape)
            return Cells.of(features(rows), Membership(counts.astype(np.intp), cell[rows]), gram)

        cells = reduce(lambda one, two: one.plus(two, gram), map(block, gen_batches(len(cell), BLOCK_ROWS)))
        return cls(domains.names, classes.names, cells)

    def __sizeof__(self) -> int:
        return sum(part.nbytes for part in self.arrays().values())  # by which Dask decides what to move where

    def __add__(self, other: Statistics) -> Statistics:
        return self.plus(other)

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

    def arrays(self) -> dict[str, Labels]:
        """Plain arrays, for any file format; `from_arrays` takes them back."""
        return {"domains": self.domains, "classes": self.classes, **vars(self.cells)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Labels]) -> Statistics:
        """Undo `arrays`."""
        parts = dict(arrays)
        return cls(parts.pop("domains"), parts.pop("classes"), Cells(**parts))


def total(parts: Sequence[Statistics | None]) -> Statistics | None:
    """The sum of those that there are; None if there are none."""
    present = [part for part in parts if part is not None]
    return reduce(operator.add, present) if present else None


@dataclass(frozen=True)
class Coded:
    """Labels of samples as distinct names and each sample's index among them."""

    names: Labels
    codes: Ints

    @classmethod
    def nameless(cls, n: int) -> Coded:
        """Samples that are not told apart."""
        return cls(np.array([None], dtype=object), np.zeros(n, dtype=np.intp))

    @classmethod
    def domains(cls, sample_domain: Any, n: int) -> Coded:
        """Encode the domains of n samples."""
        if sample_domain is None:
            return cls.nameless(n)
        return cls(*encode_domains(check_domains(sample_domain, n)))

    @classmethod
    def classes(cls, y: Labels, declared: Labels | None) -> Coded:
        """Encode the classes of a chunk, however few; those not among the declared ones are refused."""
        require_labels(y, "y")
        names, codes = np.unique(y, return_inverse=True)
        # Of the names rather than of y: that a few samples hold many classes says nothing about the stream.
        kind = type_of_target(names, input_name="y")
        if kind not in ("binary", "multiclass"):
            raise ValueError(
                f"y must hold class labels; got labels of the kind {kind!r}, such as {names.tolist()[0]!r}."
            )
        if declared is not None and not np.isin(names, declared).all():
            unknown = names[~np.isin(names, declared)].tolist()
            raise ValueError(
                f"y holds classes that are not among those declared: {unknown}. Declared were {declared.tolist()}; "
                "name all classes in the first call of partial_fit, or leave `classes` out to let new ones appear."
            )
        return cls(names, codes.astype(np.intp))


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
    if kinds == {"i", "u"} and not names[0] < 0 <= LARGEST < names[-1]:
        names = names.astype(np.int64 if names[-1] <= LARGEST else np.uint64)
    return names, codes[: len(mine)], codes[len(mine) :]


def _first(mine: Labels, theirs: Labels, kinds: str) -> Any:
    return next(labels.tolist()[0] for labels in (mine, theirs) if labels.dtype.kind in kinds)
