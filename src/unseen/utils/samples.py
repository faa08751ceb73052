"""Samples with their classes, domains, groups and weights: slicing, subsampling and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from ..linalg import Array, Ints, Membership, check_squares, largest_entry
from .validation import Labels, check_domains, check_groups, check_weights, encode_domains

Balance = Literal["none", "classes", "domains"]
MAX_FEATURE_VALUE = 1e50  # value for an optimizer that takes samples as they come: liblinear may never return on others


@dataclass(frozen=True)
class Samples:
    """Rows and what is known of them: their classes and their domains, as labels of any kind that can be sorted.

    `classes` are all that there are, sorted, if these rows may lack some. `weight` says how much each row counts, and
    `group` which rows belong together, such as the visits of a patient; None means one by one, all alike.
    """

    X: Any
    y: Labels
    domain: Labels
    classes: Labels = None  # type: ignore[assignment]
    weight: Array | None = None
    group: Labels | None = None

    def __post_init__(self) -> None:
        if self.classes is None:
            object.__setattr__(self, "classes", np.unique(self.y))

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def codes(self) -> Ints:
        """Each row's position among the classes."""
        return np.searchsorted(self.classes, self.y).astype(np.intp)

    @cached_property
    def domain_codes(self) -> Ints:
        """Each row's position among the distinct domains."""
        return encode_domains(self.domain)[1]

    def take(self, rows: Any) -> Samples:
        """Some of the rows."""
        weight, group = (None if values is None else values[rows] for values in (self.weight, self.group))
        return Samples(_safe_indexing(self.X, rows), self.y[rows], self.domain[rows], self.classes, weight, group)

    def weights(self, rows: Any = slice(None), balance: Balance = "none") -> Array | None:
        """Weights of rows to train on; balanced, all classes or all domains among them weigh alike.

        Balanced weights have the mean of those that were given, or one: a row counts n / (C n_c), as it does under
        scikit-learn's ``class_weight="balanced"``.
        """
        weight = None if self.weight is None else self.weight[rows]
        if balance == "none":
            return weight
        codes = (self.codes if balance == "classes" else self.domain_codes)[rows]
        weight = np.ones(len(codes)) if weight is None else weight
        totals = np.bincount(codes, weight)
        parts = np.count_nonzero(totals) * totals
        return weight * np.divide(weight.sum(), parts, out=np.zeros_like(parts), where=parts > 0)[codes]

    def prior_ratio(self, rows: Any = slice(None), balance: Balance = "none") -> Array | None:
        """Natural over balanced class frequencies of rows to train on, (n_classes,); None unless classes are balanced.

        Balanced domains keep their class frequencies. A class without rows has the ratio 1.
        """
        if balance != "classes":
            return None
        codes, n_classes = self.codes[rows], len(self.classes)
        natural = np.bincount(codes, None if self.weight is None else self.weight[rows], minlength=n_classes)
        balanced = np.bincount(codes, self.weights(rows, balance), minlength=n_classes)
        shares = natural / natural.sum(), balanced / balanced.sum()
        return np.divide(*shares, out=np.ones(n_classes), where=shares[1] > 0)

    def counts(self) -> Ints:
        """How many rows each domain has of each class, over the distinct domains and all classes."""
        shape = int(self.domain_codes.max()) + 1, len(self.classes)
        return Membership.from_codes(self.codes, self.domain_codes, shape).counts

    def subsample(self, total: int | None = None, seed: int = 0, *, most: int | None = None) -> Ints:
        """Rows to keep for about `total` rows in all, or at most `most` of each domain: see `allocate_rows`."""
        counts = self.counts()
        wanted = allocate_rows(counts, total=total, most=most).ravel()
        rng, cells = np.random.default_rng(seed), self.domain_codes * counts.shape[1] + self.codes
        kept = np.ones(len(self), dtype=bool)
        for cell in np.flatnonzero(wanted < counts.ravel()):
            members = np.flatnonzero(cells == cell)
            kept[rng.choice(members, len(members) - wanted[cell], replace=False)] = False
        return np.flatnonzero(kept)


def make_samples(X: Any, y: Labels, sample_domain: Any, sample_weight: Any, groups: Any) -> Samples:
    """Samples from what a user passed beside them, all of it checked; without domains there is one."""
    n = len(y)
    largest = largest_entry(X)
    check_squares(largest)
    if largest > MAX_FEATURE_VALUE:
        raise ValueError(
            f"X is too large: classifiers fail on values beyond {MAX_FEATURE_VALUE:g}, and the largest here is "
            f"{largest:.3g}. "
            "Scale X, for example with sklearn.preprocessing.StandardScaler."
        )
    if sparse.issparse(X) and X.indices.dtype != np.int32 and max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:
        # liblinear takes 32-bit indices only, and scipy's own functions give longer ones where short ones would do.
        X = type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    domain = np.zeros(n, dtype=np.intp) if sample_domain is None else check_domains(sample_domain, n)
    return Samples(X, y, domain, weight=check_weights(sample_weight, n), group=check_groups(groups, domain))


def allocate_rows(counts: Ints, *, total: int | None = None, most: int | None = None) -> Ints:
    """How many rows of each cell to keep, for so many in all or for at most so many of each domain; None is no limit.

    Domains become as even as they can, and each keeps its proportions without losing a class: a cell keeps two rows, or
    all it has. A domain exceeds its share only where that alone is more.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.utils.samples import allocate_rows
    >>> counts = np.array([[80, 20], [150, 1]])
    >>> allocate_rows(counts, most=10).tolist(), allocate_rows(counts, total=40).tolist()
    ([[8, 2], [9, 1]], [[16, 4], [19, 1]])
    """
    sizes = counts.sum(axis=1)
    limits = ([] if most is None else [most]) + ([] if total is None else [domain_row_limit(sizes.tolist(), total)])
    limit = min(limits, default=sizes.max(initial=0))
    return np.array([own if own.sum() <= limit else _proportional(own, limit) for own in counts], dtype=np.intp)


def _proportional(sizes: Ints, total: int) -> Ints:
    """So many of all, in proportion to their sizes but two of each at least; the largest remainders are rounded up."""
    least, small = np.minimum(2, sizes), np.zeros(len(sizes), dtype=bool)
    while True:
        rest = np.where(small, 0, sizes)
        share = (total - least[small].sum()) * rest / max(rest.sum(), 1)
        smaller = ~small & (share < least)
        if not smaller.any():
            break
        small |= smaller
    wanted = np.where(small, least, np.floor(share)).astype(np.intp)
    remainders = np.where(small, -1.0, share - wanted)
    wanted[np.argsort(-remainders, kind="stable")[: max(0, total - wanted.sum())]] += 1
    return wanted


def domain_row_limit(sizes: Sequence[int], total: int) -> int:
    """The most rows of each domain such that all have at most so many together."""
    rest = total
    for i, size in enumerate(sorted(sizes)):
        share = rest // (len(sizes) - i)
        if size > share:
            return share
        rest -= size
    return max(sizes, default=0)
