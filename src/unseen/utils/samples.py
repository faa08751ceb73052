"""Samples with their classes, domains, groups and weights: slicing, subsampling and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from ..linalg import Array, Ints, Membership, check_squares, largest_entry
from .validation import Labels, check_domains, check_groups, check_weights, encode_domains

Balance = Literal["none", "classes", "domains"]
# Classifiers may receive unscaled samples, and liblinear may not terminate on larger values.
MAX_FEATURE_VALUE = 1e50
MIN_CELL_ROWS = 2  # rows that a subsample keeps of each class of a domain, if it has them


@dataclass(frozen=True)
class Samples:
    """Rows with their class labels and domain labels, which may be of any sortable type.

    `classes` are all classes in sorted order; pass them if these rows may not include every class. `weight` is the
    sample weight of each row; None weights all rows equally. `group` labels rows that belong together, such as the
    visits of a patient; None means that rows are independent. `raw` are the columns of a table for trees, where these
    differ from `X`: with missing values, and with codes of levels in the last `n_categorical` columns.
    """

    X: Any
    y: Labels
    domain: Labels
    classes: Labels = None  # type: ignore[assignment]
    weight: Array | None = None
    group: Labels | None = None
    raw: Array | None = None
    n_categorical: int = 0

    def __post_init__(self) -> None:
        if self.classes is None:
            object.__setattr__(self, "classes", np.unique(self.y))

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def codes(self) -> Ints:
        """Index of each row's class among the classes."""
        return np.searchsorted(self.classes, self.y).astype(np.intp)

    @cached_property
    def domain_codes(self) -> Ints:
        """Index of each row's domain among the distinct domains."""
        return encode_domains(self.domain)[1]

    def take(self, rows: Any) -> Samples:
        """Select rows."""
        optional = {name: getattr(self, name) for name in ("weight", "group", "raw")}
        return replace(
            self,
            X=_safe_indexing(self.X, rows),
            y=self.y[rows],
            domain=self.domain[rows],
            **{name: value[rows] for name, value in optional.items() if value is not None},
        )

    def weights(self, rows: Any = slice(None), balance: Balance = "none") -> Array | None:
        """Compute training weights of rows; with `balance`, all their classes or all their domains weigh the same.

        Balanced weights have the mean of the given weights, or one: a row weighs n / (C n_c), as under scikit-learn's
        ``class_weight="balanced"``.
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
        """Compute natural over balanced class frequencies of training rows, (n_classes,).

        Returns None unless classes are balanced; balanced domains keep their class frequencies. A class without rows
        has the ratio 1.
        """
        if balance != "classes":
            return None
        weight = None if self.weight is None else self.weight[rows]
        natural = np.bincount(self.codes[rows], weight, minlength=len(self.classes))
        # Balanced classes have equal frequencies.
        return np.where(natural > 0, np.count_nonzero(natural) * natural / natural.sum(), 1.0)

    def counts(self) -> Ints:
        """Count the rows of each class in each domain, (n_domains, n_classes)."""
        shape = int(self.domain_codes.max()) + 1, len(self.classes)
        return Membership.from_codes(self.codes, self.domain_codes, shape).counts

    def subsample_rows(
        self, total: int | None = None, seed: int = 0, *, max_per_domain: int | None = None, proportional: bool = False
    ) -> Ints:
        """Draw row indices without replacement: at most `total` rows, or `max_per_domain` rows of each domain.

        `allocate_rows` determines the number of rows of each class and domain; if `proportional`, `total` rows have the
        proportions of domains and classes that all rows have.
        """
        counts = self.counts()
        if proportional and total is not None:
            n_kept = _allocate_proportionally(counts.ravel(), min(total, len(self)))
        else:
            n_kept = allocate_rows(counts, total=total, max_per_domain=max_per_domain).ravel()
        rng = np.random.default_rng(seed)
        cells = self.domain_codes * counts.shape[1] + self.codes
        is_kept = np.ones(len(self), dtype=bool)
        for cell in np.flatnonzero(n_kept < counts.ravel()):
            members = np.flatnonzero(cells == cell)
            is_kept[rng.choice(members, len(members) - n_kept[cell], replace=False)] = False
        return np.flatnonzero(is_kept)


def make_samples(X: Any, y: Labels, sample_domain: Any, sample_weight: Any, groups: Any) -> Samples:
    """Validate the arguments of `fit` and make samples of them; without `sample_domain` there is a single domain."""
    n_samples = len(y)
    largest = largest_entry(X)
    check_squares(largest)
    if largest > MAX_FEATURE_VALUE:
        raise ValueError(
            f"X is too large: classifiers fail on values beyond {MAX_FEATURE_VALUE:g}, and the largest here is "
            f"{largest:.3g}. Scale X, for example with sklearn.preprocessing.StandardScaler."
        )
    if sparse.issparse(X) and X.indices.dtype != np.int32 and max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:
        # liblinear requires 32-bit indices, and scipy returns 64-bit ones where 32 bits are enough.
        X = type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    domain = np.zeros(n_samples, dtype=np.intp) if sample_domain is None else check_domains(sample_domain, n_samples)
    return Samples(X, y, domain, weight=check_weights(sample_weight, n_samples), group=check_groups(groups, domain))


def allocate_rows(counts: Ints, *, total: int | None = None, max_per_domain: int | None = None) -> Ints:
    """Determine how many rows of each class and domain a subsample keeps.

    The subsample has at most `total` rows, or `max_per_domain` rows of each domain; None sets no limit. Domains become
    as equal in size as possible, and each keeps its class proportions without losing a class: two rows of each class,
    or all there are, are always kept, even where they exceed the limit.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.utils.samples import allocate_rows
    >>> counts = np.array([[80, 20], [150, 1]])
    >>> allocate_rows(counts, max_per_domain=10).tolist(), allocate_rows(counts, total=40).tolist()
    ([[8, 2], [9, 1]], [[16, 4], [19, 1]])
    """
    domain_sizes = counts.sum(axis=1)
    limits = []
    if max_per_domain is not None:
        limits.append(max_per_domain)
    if total is not None:
        limits.append(domain_row_limit(domain_sizes.tolist(), total))
    limit = min(limits, default=domain_sizes.max(initial=0))
    return np.array(
        [sizes if sizes.sum() <= limit else _allocate_proportionally(sizes, limit) for sizes in counts], dtype=np.intp
    )


def _allocate_proportionally(sizes: Ints, total: int) -> Ints:
    """Allocate `total` rows in proportion to sizes, with a minimum for each; largest remainders are rounded up."""
    minimum = np.minimum(MIN_CELL_ROWS, sizes)
    at_minimum = np.zeros(len(sizes), dtype=bool)
    while True:
        remaining = np.where(at_minimum, 0, sizes)
        share = (total - minimum[at_minimum].sum()) * remaining / max(remaining.sum(), 1)
        below_minimum = ~at_minimum & (share < minimum)
        if not below_minimum.any():
            break
        at_minimum |= below_minimum
    allocated = np.where(at_minimum, minimum, np.floor(share)).astype(np.intp)
    remainders = np.where(at_minimum, -1.0, share - allocated)
    n_unallocated = max(0, total - allocated.sum())
    allocated[np.argsort(-remainders, kind="stable")[:n_unallocated]] += 1
    return allocated


def domain_row_limit(sizes: Sequence[int], total: int) -> int:
    """Compute the largest limit of rows per domain for which all domains together have at most `total` rows."""
    remaining = total
    for i, size in enumerate(sorted(sizes)):
        share = remaining // (len(sizes) - i)
        if size > share:
            return share
        remaining -= size
    return max(sizes, default=0)
