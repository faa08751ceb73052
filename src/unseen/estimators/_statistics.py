"""Cell statistics with the names of their domains and classes, so that statistics of any two chunks can be added."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from sklearn.utils import gen_batches

from ..kernels import check_scatter_memory, check_spread
from ..linalg import Array, CellStatistics, Ints, Membership, Spectrum
from ..utils.validation import EncodedLabels, Labels, encode_domains

# Blocks of this size fit in cache, and their Gram matrices cost more than the addition of their statistics.
BLOCK_ROWS = 2048
NUMBER_KINDS = frozenset("biuf")  # kinds of arrays whose elements are numbers


@dataclass(frozen=True)
class Statistics:
    """Sufficient statistics of the training samples of a projection.

    ``a + b`` are the statistics of both sets of samples, and ``a - b`` are those of `a` without the domains of `b`.

    Attributes
    ----------
    domains, classes : ndarrays of shape (n_domains,) and (n_classes,)
        Names in sorted order; a single None if the samples have no names.
    cells : CellStatistics
        Statistics over the table of these domains and classes.
    """

    domains: Labels
    classes: Labels
    cells: CellStatistics

    @classmethod
    def from_features(
        cls, features: Callable[[slice], Array], classes: EncodedLabels, domains: EncodedLabels
    ) -> Statistics:
        """Collect the statistics of samples; `features` returns the features of a block of rows."""
        shape = len(domains.names), len(classes.names)

        def collect_block(rows: slice) -> CellStatistics:
            values = features(rows)
            if not rows.start:
                check_scatter_memory(values.shape[1])
            membership = Membership.from_codes(classes.codes[rows], domains.codes[rows], shape)
            return CellStatistics.from_features(values, membership)

        batches = gen_batches(len(classes.codes), BLOCK_ROWS)
        cells = reduce(operator.add, map(collect_block, batches))
        return cls(domains.names, classes.names, cells)

    def __add__(self, other: Statistics) -> Statistics:
        """Return the statistics of both sets of samples."""
        n_features = len(self.cells.inside)
        other_n_features = len(other.cells.inside)
        if n_features != other_n_features:
            raise ValueError(
                f"feature_map gave {n_features} features for some samples and {other_n_features} for others; it must "
                "give the same number for any chunk."
            )
        domains, rows, other_rows = _union(self.domains, other.domains, "sample_domain")
        classes, columns, other_columns = _union(self.classes, other.classes, "y")
        shape = len(domains), len(classes)
        cells = self.cells.reindex(rows, columns, shape) + other.cells.reindex(other_rows, other_columns, shape)
        return Statistics(domains, classes, cells)

    def __sub__(self, other: Statistics) -> Statistics:
        """Return the statistics without all samples of some domains; `other` are the statistics of these domains.

        Classes and domains that have no samples left are dropped.
        """
        domains, rows, other_rows = _union(self.domains, other.domains, "sample_domain")
        classes, columns, other_columns = _union(self.classes, other.classes, "y")
        shape = len(domains), len(classes)
        everything = self.cells.reindex(rows, columns, shape)
        removed = other.cells.reindex(other_rows, other_columns, shape)
        is_removed = removed.counts.sum(axis=1) > 0
        if not np.array_equal(everything.counts[is_removed], removed.counts[is_removed]):
            raise ValueError(
                "Statistics can be subtracted for whole domains only: the counts of the domains to leave out are not "
                "those that were added."
            )
        counts = np.where(is_removed[:, None], 0, everything.counts)
        kept_domains, kept_classes = counts.any(axis=1), counts.any(axis=0)
        cells = np.outer(kept_domains, kept_classes).ravel()
        remaining = CellStatistics(
            counts=counts[np.ix_(kept_domains, kept_classes)],
            means=everything.means[cells],
            tails=everything.tails[cells],
            inside=everything.inside - removed.inside,
        )
        return Statistics(domains[kept_domains], classes[kept_classes], remaining)

    def arrays(self) -> dict[str, Labels]:
        """Return the statistics as plain arrays, for any file format; `from_arrays` is the inverse."""
        return {"domains": self.domains, "classes": self.classes, **vars(self.cells)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Labels]) -> Statistics:
        """Return the statistics that `arrays` describes."""
        cells = CellStatistics(
            counts=arrays["counts"], means=arrays["means"], tails=arrays["tails"], inside=arrays["inside"]
        )
        return cls(arrays["domains"], arrays["classes"], cells)


def sum_statistics(parts: Sequence[Statistics | None]) -> Statistics | None:
    """Return the sum of the statistics that are not None, or None if all are."""
    present = [part for part in parts if part is not None]
    return reduce(operator.add, present) if present else None


def feature_spectrum(cells: CellStatistics, caller: str) -> Spectrum:
    """Decompose the centered features; raise if all samples have the same features."""
    spectrum = cells.spectrum()
    centered_norm = float(np.sqrt(spectrum.values.sum()))
    mean_norm = float(np.sqrt(cells.counts.sum()) * np.linalg.norm(cells.mean))
    check_spread(centered_norm, mean_norm, caller)
    return spectrum


def _union(labels: Labels, other: Labels, parameter: str) -> tuple[Labels, Ints, Ints]:
    """Return the sorted union of two sets of names, and the positions of the names of both in it."""
    if (labels[0] is None) != (other[0] is None):
        raise ValueError(
            f"{parameter} was given for some chunks and left out for others. Give it for all of them, or for none."
        )
    kinds = {labels.dtype.kind, other.dtype.kind}
    mixes_signs = kinds == {"i", "u"}
    mixes_types = len(kinds) > 1 and not kinds <= NUMBER_KINDS
    if parameter == "y" and mixes_types and kinds & NUMBER_KINDS:
        first, second = labels.tolist()[0], other.tolist()[0]
        raise ValueError(f"y must hold labels of one type; got {first!r} in one chunk and {second!r} in another.")
    if mixes_types or mixes_signs:
        # Concatenation would turn 1 and "1" into one name, and large signed and unsigned integers into equal floats.
        labels, other = labels.astype(object), other.astype(object)
    names, codes = encode_domains(np.concatenate([labels, other]))
    if mixes_signs:
        integers = np.array(names.tolist())
        names = integers if integers.dtype.kind in "iu" else names  # no type holds both ends of the range
    return names, codes[: len(labels)], codes[len(labels) :]
