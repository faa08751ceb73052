"""Columns of a table by domain, and how much each of them shifts between domains within classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc
from scipy.stats import rankdata

from ..linalg import Array, Ints
from ..tables import Table
from ._permutation_tests import adjust_by_holm

# A numeric column of at most this many different whole numbers is read as codes of categories: scales and grades in
# questionnaires and registries rarely have more than ten points.
MAX_CODES = 10
NEW_LEVEL = "a new category"  # the name of categories that a schema does not have
MIN_CELL = 2  # values of a class in a domain, fewer of which have no spread
LARGE = 1e100  # numbers beyond are divided by the largest, so that sums of squares are finite


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """One column of a table.

    Parameters
    ----------
    name : str
        The name of the column.
    kind : {"numeric", "categorical"}
        What it holds.
    values : ndarray of shape (n_samples,)
        Numbers, NaN where missing; for categories their positions among `levels`, NaN where missing.
    levels : tuple of str
        The categories; empty for numbers.
    """

    name: str
    kind: Literal["numeric", "categorical"]
    values: Array
    levels: tuple[str, ...] = ()

    @cached_property
    def is_present(self) -> NDArray[np.bool_]:
        """Which rows have a value."""
        return np.isfinite(self.values)

    @cached_property
    def distinct(self) -> tuple[Array, Ints]:
        """The different values, sorted, and the number of rows of each."""
        return np.unique(self.values[self.is_present], return_counts=True)

    @property
    def is_coded(self) -> bool:
        """Whether the values are categories or codes of categories: few different whole numbers."""
        values = self.distinct[0]
        return self.kind == "categorical" or (len(values) <= MAX_CODES and bool((values == np.round(values)).all()))

    def text(self, value: float) -> str:
        """A value as users write it."""
        return repr(self.levels[int(value)]) if self.kind == "categorical" else format_number(value)


def format_number(value: float) -> str:
    """A number with at most four significant digits; a whole number has no decimal point."""
    if value == round(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.4g}"


def columns_from_matrix(X: Any, schema: Any) -> list[ColumnValues]:
    """The columns of a matrix that a schema encoded, with categories as text, not as their positions.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The result of :meth:`unseen.tables.Schema.encode`. Dates are numbers: days since 1970.
    schema : Schema
        The description of the columns.

    Returns
    -------
    columns : list of ColumnValues
        One for each feature. Infinite numbers are missing.
    """
    columns = []
    for position, column in enumerate(schema.columns):
        values = np.array(X[:, position], dtype=np.float64)
        if column.kind == "categorical":
            levels = tuple(column.levels)
            if (values < 0).any():
                values[values < 0] = len(levels)
                levels = (*levels, NEW_LEVEL)
            columns.append(ColumnValues(column.name, "categorical", values, levels))
        else:
            values[~np.isfinite(values)] = np.nan
            columns.append(ColumnValues(column.name, "numeric", values))
    return columns


@dataclass(frozen=True, eq=False)
class DomainRows:
    """The rows of each domain.

    Parameters
    ----------
    names : tuple of str
        The domains, sorted.
    codes : ndarray of shape (n_samples,)
        The position of each row's domain among `names`.
    """

    names: tuple[str, ...]
    codes: Ints

    @classmethod
    def from_labels(cls, domains: Any) -> DomainRows:
        """Encode the domain labels of the rows."""
        names, codes = np.unique(np.asarray(domains).astype(str), return_inverse=True)
        return cls(tuple(names.tolist()), codes)

    @cached_property
    def sizes(self) -> Ints:
        """The number of rows of each domain."""
        return np.bincount(self.codes, minlength=len(self.names))

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.codes, kind="stable")

    def split(self, values: Array) -> list[Array]:
        """The values of each domain, missing ones left out."""
        parts = np.split(values[self._order], np.cumsum(self.sizes)[:-1])
        return [part[np.isfinite(part)] for part in parts]


@dataclass(frozen=True)
class ColumnShift:
    """The shift of one column between domains, within classes.

    Attributes
    ----------
    column : str
        The column.
    explained : float
        Share of the variance of its ranks (for categories, of their indicators) within classes that domains explain,
        from 0 to 1, adjusted for chance.
    p_value : float or None
        Of "the same distribution in all domains, given the class", adjusted by Holm's method over columns. None if no
        class is in two domains.
    differences : tuple of (float or None)
        Standardized mean difference of each domain from the other domains, averaged over classes; for categories the
        standardized distance of their shares, without a sign. None if no class of the domain is in another one.
    """

    column: str
    explained: float
    p_value: float | None
    differences: tuple[float | None, ...]


def measure_column_shift(columns: Sequence[ColumnValues], labels: Any, domain: DomainRows) -> tuple[ColumnShift, ...]:
    """Measure for each column how domains differ within classes; the largest shift first.

    The test of a column is that of Kruskal and Wallis within classes, the statistics of which are summed over classes;
    for categories it is Pearson's chi-square test.
    """
    classes, codes = np.unique(np.asarray(labels).astype(str), return_inverse=True)
    shifts = [_measure(_rescale_column(column), codes, len(classes), domain) for column in columns]
    tested = [position for position, shift in enumerate(shifts) if shift.p_value is not None]
    adjusted = adjust_by_holm(np.array([shifts[position].p_value for position in tested], dtype=float))
    for position, p_value in zip(tested, adjusted, strict=True):
        shift = shifts[position]
        shifts[position] = ColumnShift(shift.column, shift.explained, p_value, shift.differences)
    return tuple(sorted(shifts, key=lambda shift: -shift.explained))


def _rescale_column(column: ColumnValues) -> ColumnValues:
    """The same column in another unit if its squares would be too large; nothing that is measured depends on units."""
    largest = float(np.abs(column.distinct[0]).max(initial=0.0))
    if largest < LARGE:
        return column
    return ColumnValues(column.name, "numeric", column.values / largest)


def _measure(column: ColumnValues, classes: Ints, n_classes: int, domain: DomainRows) -> ColumnShift:
    parts = []
    for label in range(n_classes):
        rows = np.flatnonzero((classes == label) & column.is_present)
        is_kept = np.bincount(domain.codes[rows], minlength=len(domain.names)) >= MIN_CELL
        if is_kept.sum() >= 2:
            parts.append(rows[is_kept[domain.codes[rows]]])
    if not parts:
        return ColumnShift(column.name, 0.0, None, (None,) * len(domain.names))
    between = 0.0
    within = 0.0
    statistic = 0.0
    n_tests = 0  # degrees of freedom of the statistic
    n_means = 0
    n_within = 0
    for rows in parts:
        scores = _scores(column, rows)
        _, own, sizes = np.unique(domain.codes[rows], return_inverse=True, return_counts=True)
        sums = np.zeros((len(sizes), scores.shape[1]))
        np.add.at(sums, own, scores)
        overall = scores.mean(axis=0)
        squares = sizes[:, None] * (sums / sizes[:, None] - overall) ** 2
        between += float(squares.sum())
        within += float(((scores - overall) ** 2).sum() - squares.sum())
        n_means += len(sizes) - 1
        n_within += len(rows) - len(sizes)
        variances = scores.var(axis=0, ddof=1)
        varying = variances > 0
        if not varying.any():
            continue
        if column.kind == "categorical":
            statistic += float((squares[:, varying] / overall[varying]).sum()) * (len(rows) - 1) / len(rows)
            n_tests += (len(sizes) - 1) * max(int(varying.sum()) - 1, 1)
        else:  # the statistic of Kruskal and Wallis with its correction for ties
            statistic += float((squares / variances).sum())
            n_tests += len(sizes) - 1
    mean_square = within / max(n_within, 1)
    largest = between + within + mean_square
    explained = max((between - n_means * mean_square) / largest, 0.0) if largest > 0 else 0.0
    p_value = float(chdtrc(n_tests, statistic)) if n_tests else None
    return ColumnShift(column.name, explained, p_value, _domain_differences(column, parts, domain))


def _scores(column: ColumnValues, rows: Ints) -> Array:
    """Ranks of numbers, indicators of categories, as columns."""
    values = column.values[rows]
    if column.kind == "categorical":
        return (values[:, None] == np.unique(values)).astype(float)
    return rankdata(values)[:, None]


def _domain_differences(column: ColumnValues, parts: Sequence[Ints], domain: DomainRows) -> tuple[float | None, ...]:
    """Standardized difference of each domain from the mean of the others.

    Each class counts by its harmonic number of rows, here and elsewhere: what decides how well a difference is known.
    """
    by_class = [[column.values[rows[domain.codes[rows] == d]] for d in range(len(domain.names))] for rows in parts]
    cells = [part for domains in by_class for part in domains if len(part)]
    freedom = sum(len(part) - 1 for part in cells)
    scale = float(np.sqrt(sum(len(part) * part.var() for part in cells) / max(freedom, 1)))
    differences: list[float | None] = []
    for d in range(len(domain.names)):
        total = 0.0
        weights = 0.0
        for domains in by_class:
            others = [part for e, part in enumerate(domains) if e != d and len(part)]
            if len(domains[d]) == 0:
                continue
            weight = 1 / (1 / len(domains[d]) + 1 / sum(map(len, others)))
            if column.kind == "categorical":
                difference = _category_difference(domains[d], others)
            else:
                elsewhere = np.mean([part.mean() for part in others])
                difference = float(domains[d].mean() - elsewhere) / scale if scale > 0 else 0.0
            total += weight * difference
            weights += weight
        differences.append(total / weights if weights > 0 else None)
    return tuple(differences)


def _category_difference(values: Array, others: Sequence[Array]) -> float:
    """Chi-square distance of category shares: for two categories, the standardized difference of their shares."""
    levels = np.unique(np.concatenate([values, *others]))
    shares = (values[:, None] == levels).mean(axis=0)
    elsewhere = np.mean([(part[:, None] == levels).mean(axis=0) for part in others], axis=0)
    return float(np.sqrt(((shares - elsewhere) ** 2 / ((shares + elsewhere) / 2)).sum()))


def subsample_table(table: Table, max_per_domain: int) -> Table:
    """At most this many random rows of each domain."""
    rows = table.samples.subsample_rows(max_per_domain=max_per_domain, seed=0)
    return table if len(rows) == len(table.X) else table.take(rows)
