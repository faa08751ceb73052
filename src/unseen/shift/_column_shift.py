"""Which columns move between domains within classes, how much, and whether their effect on the label is the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc, stdtr
from scipy.stats import rankdata

from ..metrics import random_effects
from ..utils.optional_imports import optional_import
from ._column_tests import MEAN_SPREAD, predict_next_domain
from ._column_values import ColumnValues, DomainRows, Floats, Indices, read_columns
from ._permutation_tests import adjust_by_holm

MIN_CELL = 2  # values of a class in a domain, fewer of which have no spread
MIN_ROWS = 10  # of a domain, for a slope: five of each class, as a rule, are too few to move it by a standard error
MIN_EVENTS = 5
MAX_LEVELS = 12  # of a categorical column that get an effect each, the most frequent
LARGE = 1e100  # numbers beyond are divided by the largest, so that sums of squares are finite
NEWTON_STEPS = 50
CONVERGED = 1e-8  # in units of the standardized column: far below any standard error
CONSTANT = 1e-8  # a relative deviation below which values are equal up to rounding
LARGEST_STEP = 2.0  # of a Newton step, so that it cannot leave the region where the likelihood is curved
SIGN_LEVEL = 0.05  # of the two-sided test that a domain's effect has the sign opposite to the mean


@dataclass(frozen=True)
class DomainShift:
    """How far one column of one domain lies from the other domains, within classes.

    Attributes
    ----------
    domain : str
        The domain.
    difference : float or None
        Standardized mean difference from the other domains, averaged over classes: positive if values are larger here.
        For categories the standardized distance of their shares, without a sign. None if no class is in two domains.
    distance : float or None
        Kolmogorov-Smirnov distance (for categories total variation) from the other domains, averaged over classes, from
        0 to 1.
    p_value : float or None
        Of "this domain is like one more of the others", adjusted by Holm's method over all columns and domains.
    is_odd : bool
        Whether the adjusted p-value is at most alpha.
    """

    domain: str
    difference: float | None
    distance: float | None
    p_value: float | None
    is_odd: bool


@dataclass(frozen=True)
class ColumnShift:
    """The shift of one column between domains, within classes.

    Attributes
    ----------
    column : str
        The column.
    explained : float
        Share of the variance of its ranks within classes that domains explain, from 0 to 1, adjusted for chance.
    share : float
        Its part of the sum of `explained` over all columns.
    p_value : float or None
        Of "the same distribution in all domains, given the class", adjusted by Holm's method over columns.
    domains : tuple of DomainShift
        Each domain.
    """

    column: str
    explained: float
    share: float
    p_value: float | None
    domains: tuple[DomainShift, ...]

    @property
    def odd_domains(self) -> tuple[str, ...]:
        """The domains that differ from the others more than these differ from each other."""
        return tuple(own.domain for own in self.domains if own.is_odd)


@dataclass(frozen=True)
class ColumnEffect:
    """The effect of one column on the label, by itself, over domains.

    Attributes
    ----------
    column : str
        The column.
    level : str or None
        For categories, the one that is compared with all others.
    label : str
        The class that is compared with all others.
    mean, se, tau : float
        Mean slope over domains (log odds per standard deviation inside domains; for a category, for having it), its
        standard error, and the standard deviation of slopes between domains.
    p_heterogeneity : float
        p-value of Cochran's Q: the same slope in all domains.
    slopes : dict of str to float
        The slope in each domain that has enough rows of both classes.
    opposite : tuple of str
        Domains whose slope has the sign opposite to the mean, and is different from zero (two-sided p <= 0.05, Holm
        over domains); empty unless the slope of another domain is different from zero with the sign of the mean.
    """

    column: str
    level: str | None
    label: str
    mean: float
    se: float
    tau: float
    p_heterogeneity: float
    slopes: dict[str, float]
    opposite: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ColumnShifts:
    """What :func:`measure_column_shift` returns.

    Attributes
    ----------
    domains : tuple of str
        The domains, sorted.
    alpha : float
        Level of the tests.
    shifts : tuple of ColumnShift
        The largest first.
    effects : tuple of ColumnEffect
        The most heterogeneous first (largest tau).
    """

    domains: tuple[str, ...]
    alpha: float
    shifts: tuple[ColumnShift, ...]
    effects: tuple[ColumnEffect, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "domains": list(self.domains),
            "alpha": self.alpha,
            "shifts": [{**asdict(shift), "odd_domains": list(shift.odd_domains)} for shift in self.shifts],
            "effects": [asdict(effect) for effect in self.effects],
        }

    def heat_map(self, max_columns: int | None = None) -> dict[str, Any]:
        """Columns by domains, for a figure: standardized differences, and which of them are odd.

        Parameters
        ----------
        max_columns : int, default=None
            The columns that move most, so many; None for all.

        Returns
        -------
        data : dict
            `columns`, `domains`, `differences` and `distances` (lists of rows, None where unknown), `odd`, `shares`.
        """
        shown = self.shifts[:max_columns]
        return {
            "columns": [shift.column for shift in shown],
            "domains": list(self.domains),
            "differences": [[own.difference for own in shift.domains] for shift in shown],
            "distances": [[own.distance for own in shift.domains] for shift in shown],
            "odd": [[own.is_odd for own in shift.domains] for shift in shown],
            "shares": [shift.share for shift in shown],
        }

    def to_frame(self) -> Any:
        """The shifts as a pandas DataFrame, a row for each column and domain."""
        pandas = optional_import("pandas", "to_frame()")
        rows = [
            {"column": shift.column, "share": shift.share, **asdict(own)}
            for shift in self.shifts
            for own in shift.domains
        ]
        return pandas.DataFrame(rows)


def measure_column_shift(columns: Any, labels: Any, *, domains: Any, alpha: float = 0.05) -> ColumnShifts:
    """Measure for each column how domains differ within classes, and how its effect on the label varies.

    Parameters
    ----------
    columns : mapping of str to array-like, DataFrame, or sequence of ColumnValues
        The features, numbers or text, missing values as NaN or None.
    labels : array-like of shape (n_samples,)
        The class of each row.
    domains : array-like of shape (n_samples,)
        The domain of each row.
    alpha : float, default=0.05
        Level of the tests, after correction for testing all columns, or all columns and domains.

    Returns
    -------
    shifts : ColumnShifts
        Shifts and effects by column.

    Notes
    -----
    The test of a column is that of Kruskal and Wallis within classes, the statistics of which are summed over classes;
    for categories it is Pearson's chi-square test. A domain is odd if its mean lies outside of what a further domain
    like the others would have: between-domain variance counts, so that a column that differs everywhere has no odd
    domain. It takes three domains at least.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.shift._column_shift import measure_column_shift
    >>> rng = np.random.default_rng(0)
    >>> domain = np.repeat(["a", "b", "c", "d", "e"], 100)
    >>> label = rng.integers(2, size=500)
    >>> age = rng.normal(size=500) + label + 5 * (domain == "c")
    >>> shifts = measure_column_shift({"age": age, "weight": rng.normal(size=500)}, label, domains=domain)
    >>> shifts.shifts[0].column, shifts.shifts[0].odd_domains
    ('age', ('c',))
    """
    read = read_columns(columns)
    if not read:
        raise ValueError("columns must hold at least one column; got none.")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1; got {alpha}.")
    n_samples = len(read[0].values)
    domain = DomainRows.from_labels(domains, n_samples)
    label_values = np.asarray(labels.to_numpy() if hasattr(labels, "to_numpy") else labels)
    if label_values.shape != (n_samples,):
        raise ValueError(f"labels must hold one label for each of {n_samples} rows; got shape {label_values.shape}.")
    classes, codes = np.unique(label_values.astype(str), return_inverse=True)
    read = [_rescale_column(column) for column in read]
    measured = [_measure(column, codes, len(classes), domain) for column in read]
    total = sum(own.explained for own in measured)
    p_columns = _adjust([own.p_value for own in measured])
    p_domains = _adjust([p for own in measured for p in own.p_domains])
    shifts = []
    for position, (column, own) in enumerate(zip(read, measured, strict=True)):
        adjusted = p_domains[position * len(domain) : (position + 1) * len(domain)]
        by_domain = tuple(
            DomainShift(name, difference, distance, p, p is not None and p <= alpha)
            for name, difference, distance, p in zip(
                domain.names, own.differences, own.distances, adjusted, strict=True
            )
        )
        share = own.explained / total if total > 0 else 0.0
        shifts.append(ColumnShift(column.name, own.explained, share, p_columns[position], by_domain))
    shifts.sort(key=lambda shift: -shift.explained)
    effects = _effects(read, codes, classes.tolist(), domain)
    effects.sort(key=lambda effect: -effect.tau)
    return ColumnShifts(domain.names, alpha, tuple(shifts), tuple(effects))


def _rescale_column(column: ColumnValues) -> ColumnValues:
    """The same column in another unit if its squares would be too large; nothing that is measured depends on units."""
    if column.kind == "categorical" or not column.is_present.any():
        return column
    largest = float(np.abs(column.distinct[0]).max())
    if largest < LARGE:
        return column
    return ColumnValues(column.name, "numeric", column.values / largest)


def _adjust(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjustment of those that exist."""
    known = [position for position, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    values = np.array([p_values[position] for position in known], dtype=float)
    for position, p in zip(known, adjust_by_holm(values), strict=True):
        adjusted[position] = p
    return adjusted


@dataclass(frozen=True, eq=False)
class _Measured:
    explained: float
    p_value: float | None
    differences: list[float | None]
    distances: list[float | None]
    p_domains: list[float | None]


def _measure(column: ColumnValues, classes: Indices, n_classes: int, domain: DomainRows) -> _Measured:
    """Shift of one column, in all domains together and in each."""
    n_domains = len(domain)
    parts = []
    for label in range(n_classes):
        rows = np.flatnonzero((classes == label) & column.is_present)
        counts = np.bincount(domain.codes[rows], minlength=n_domains)
        kept = counts >= MIN_CELL
        if kept.sum() >= 2:
            rows = rows[kept[domain.codes[rows]]]
            parts.append((_scores(column, rows), rows))
    if not parts:
        return _Measured(0.0, None, [None] * n_domains, [None] * n_domains, [None] * n_domains)
    between, within, statistic, freedom, weight = 0.0, 0.0, 0.0, 0.0, 0
    for scores, rows in parts:
        own = domain.codes[rows]
        present, own = np.unique(own, return_inverse=True)
        sums = np.zeros((len(present), scores.shape[1]))
        np.add.at(sums, own, scores)
        sizes = np.bincount(own)
        means = sums / sizes[:, None]
        overall = scores.mean(axis=0)
        of_means = float((sizes[:, None] * (means - overall) ** 2).sum())
        total = float(((scores - overall) ** 2).sum())
        between += of_means
        within += total - of_means
        weight += len(rows) - len(present)
        variances = scores.var(axis=0, ddof=1)
        varying = variances > 0
        if varying.any():
            # For ranks this is the statistic of Kruskal and Wallis with its correction for ties, for indicators of
            # all categories Pearson's chi-square times (n - 1) / n.
            dimensions = max(int(varying.sum()) - (column.kind == "categorical"), 1)
            if column.kind == "categorical":
                squares = (sizes[:, None] * (means - overall)[:, varying] ** 2 / overall[varying]).sum()
                statistic += float(squares) * (len(rows) - 1) / len(rows)
            else:
                statistic += float((sizes[:, None] * (means - overall)[:, varying] ** 2 / variances[varying]).sum())
            freedom += (len(present) - 1) * dimensions
    all_variance = between + within
    n_means = sum(len(np.unique(domain.codes[rows])) - 1 for _, rows in parts)
    mean_square = within / max(weight, 1)
    explained = max((between - n_means * mean_square) / (all_variance + mean_square), 0.0) if all_variance > 0 else 0.0
    p_value = float(chdtrc(freedom, statistic)) if freedom else None
    differences, variances_of, distances = _domain_differences(column, [rows for _, rows in parts], domain)
    return _Measured(explained, p_value, differences, distances, _odd_p_values(differences, variances_of, column))


def _scores(column: ColumnValues, rows: Indices) -> Floats:
    """Ranks of numbers, indicators of categories, as columns."""
    values = column.values[rows]
    if column.kind == "categorical":
        levels = np.unique(values)
        return (values[:, None] == levels[None, :]).astype(float)
    return rankdata(values)[:, None]


def _domain_differences(
    column: ColumnValues, parts: Sequence[Indices], domain: DomainRows
) -> tuple[list[float | None], list[float], list[float | None]]:
    """Standardized difference of each domain from the mean of the others, its variance, and the distance of shapes.

    Each class counts by its harmonic number of rows, here and elsewhere: what decides how well a difference is known.
    """
    n_domains = len(domain)
    weights = np.zeros(n_domains)
    differences = np.zeros(n_domains)
    variances = np.zeros(n_domains)
    distances = np.zeros(n_domains)
    scale = _pooled_deviation(column, parts, domain)
    for rows in parts:
        values = column.values[rows]
        own = domain.codes[rows]
        by_domain = [values[own == d] for d in range(n_domains)]
        sizes = np.array([len(part) for part in by_domain])
        for d in np.flatnonzero(sizes):
            others = [part for e, part in enumerate(by_domain) if e != d and len(part)]
            rest = np.concatenate(others)
            weight = 1 / (1 / sizes[d] + 1 / len(rest))
            if column.kind == "categorical":
                difference, distance = _category_difference(by_domain[d], others)
            else:
                mean_elsewhere = np.mean([part.mean() for part in others])
                difference = (by_domain[d].mean() - mean_elsewhere) / scale if scale > 0 else 0.0
                distance = _kolmogorov_smirnov(by_domain[d], rest)
            weights[d] += weight
            differences[d] += weight * difference
            distances[d] += weight * distance
            variances[d] += weight**2 / sizes[d]
    known = weights > 0
    safe = np.where(known, weights, 1.0)
    return (
        [float(x) if ok else None for x, ok in zip(differences / safe, known, strict=True)],
        (variances / safe**2).tolist(),
        [float(x) if ok else None for x, ok in zip(distances / safe, known, strict=True)],
    )


def _pooled_deviation(column: ColumnValues, parts: Sequence[Indices], domain: DomainRows) -> float:
    """Standard deviation inside domains and classes."""
    squares, freedom = 0.0, 0
    for rows in parts:
        own = domain.codes[rows]
        values = column.values[rows]
        sizes = np.bincount(own, minlength=len(domain))
        means = np.bincount(own, weights=values, minlength=len(domain)) / np.maximum(sizes, 1)
        squares += float(((values - means[own]) ** 2).sum())
        freedom += len(rows) - int((sizes > 0).sum())
    return float(np.sqrt(squares / freedom)) if freedom > 0 else 0.0


def _category_difference(values: Floats, others: Sequence[Floats]) -> tuple[float, float]:
    """Standardized distance of category shares, and their total variation distance."""
    levels = np.unique(np.concatenate([values, *others]))
    shares = (values[:, None] == levels).mean(axis=0)
    elsewhere = np.mean([(part[:, None] == levels).mean(axis=0) for part in others], axis=0)
    middle = (shares + elsewhere) / 2
    # Chi-square distance: for two categories it is the standardized difference of their shares.
    standardized = np.sqrt(((shares - elsewhere) ** 2 / middle).sum())
    return float(standardized), float(np.abs(shares - elsewhere).sum() / 2)


def _kolmogorov_smirnov(first: Floats, second: Floats) -> float:
    points = np.concatenate([first, second])
    points.sort()
    below = np.searchsorted(np.sort(first), points, side="right") / len(first)
    elsewhere = np.searchsorted(np.sort(second), points, side="right") / len(second)
    return float(np.abs(below - elsewhere).max())


def _odd_p_values(
    differences: Sequence[float | None], variances: Sequence[float], column: ColumnValues
) -> list[float | None]:
    """For each domain, the two-sided p-value of its difference in the predictive distribution of the others.

    Distances of categories have no sign and are not centered at zero, but they are compared with each other alike.
    """
    known = [d for d, difference in enumerate(differences) if difference is not None]
    p_values: list[float | None] = [None] * len(differences)
    if len(known) < 3:
        return p_values
    values = np.array([differences[d] for d in known], dtype=float)
    sampling = np.array([variances[d] for d in known])
    if column.kind == "numeric":
        # Differences from the mean of the others are m / (m - 1) times those from the mean of all.
        values = values * (len(known) - 1) / len(known)
    for position, d in enumerate(known):
        others = np.arange(len(known)) != position
        predictive = predict_next_domain(values[others], sampling[others], MEAN_SPREAD)
        scale = np.sqrt(predictive.scale**2 + sampling[position])
        distance = (values[position] - predictive.mean) / scale
        if column.kind == "categorical":
            p_values[d] = float(stdtr(predictive.dof, -distance))
        else:
            p_values[d] = float(2 * stdtr(predictive.dof, -abs(distance)))
    return p_values


def _effects(
    columns: Sequence[ColumnValues], codes: Indices, classes: Sequence[str], domain: DomainRows
) -> list[ColumnEffect]:
    """Slopes of the label on each column by itself; with two classes, of the second one."""
    names: list[tuple[str, str | None]] = []
    features: list[Floats] = []
    for column in columns:
        if column.kind == "categorical":
            values, counts = column.distinct
            if len(values) < 2:
                continue
            frequent = values[np.argsort(-counts, kind="stable")[:MAX_LEVELS]]
            # One of two categories says all about the other.
            for value in frequent[1:] if len(values) == 2 else frequent:
                indicator = np.where(column.is_present, column.values == value, np.nan)
                names.append((column.name, column.levels[int(value)]))
                features.append(indicator)
        else:
            # The median over domains, so that one domain in other units does not set the unit of all slopes.
            deviations = [part.std() for part in domain.split(column.values) if len(part) >= MIN_CELL]
            varying = [deviation for deviation in deviations if deviation > 0]
            if varying:
                names.append((column.name, None))
                features.append((column.values - np.nanmean(column.values)) / np.median(varying))
    if not features:
        return []
    X = np.stack(features, axis=1)
    targets = range(1, 2) if len(classes) == 2 else range(len(classes))
    effects = []
    for target in targets:
        slopes = np.full((len(domain), X.shape[1]), np.nan)
        errors = np.full_like(slopes, np.nan)
        for d in range(len(domain)):
            rows = domain.codes == d
            slopes[d], errors[d] = univariable_slopes(X[rows], (codes[rows] == target).astype(float))
        for position, (name, level) in enumerate(names):
            known = np.flatnonzero(np.isfinite(slopes[:, position]))
            if len(known) >= 2:
                effect = _pool(slopes[known, position], errors[known, position], known, domain)
                effects.append(ColumnEffect(name, level, classes[target], *effect))
    return effects


def _pool(
    slopes: Floats, errors: Floats, known: Indices, domain: DomainRows
) -> tuple[float, float, float, float, dict[str, float], tuple[str, ...]]:
    result = random_effects(slopes, errors)
    p_values = np.array(adjust_by_holm(2 * stdtr(np.inf, -np.abs(slopes / errors))))
    is_certain = p_values <= SIGN_LEVEL
    is_opposite = is_certain & (slopes * result.estimate < 0)
    if not (is_certain & (slopes * result.estimate > 0)).any():
        is_opposite[:] = False  # slopes near zero on one side do not show that the effect changes its sign
    opposite = tuple(domain.names[d] for d in np.asarray(known)[is_opposite])
    by_domain = {domain.names[d]: float(slope) for d, slope in zip(known, slopes, strict=True)}
    return result.estimate, result.se, result.tau, result.q_p_value, by_domain, opposite


def univariable_slopes(X: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Logistic regression of y on each column of X by itself, with an intercept: slopes and standard errors.

    Firth's penalty (half of the log determinant of the information) keeps slopes finite where a column separates the
    classes, and takes off the first-order bias. All columns are fitted at once, by Newton steps on 2 x 2 systems.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_columns)
        The columns; NaN where missing, which leaves the row out for that column.
    y : ndarray of shape (n_samples,)
        0 or 1.

    Returns
    -------
    slopes, errors : ndarray of shape (n_columns,)
        NaN where a column is constant, or has fewer than ten rows or five of either class.
    """
    present = np.isfinite(X)
    filled = np.where(present, X, 0.0)
    count = present.sum(axis=0)
    events = (present * y[:, None]).sum(axis=0)
    mean = filled.sum(axis=0) / np.maximum(count, 1)
    centered = np.where(present, filled - mean, 0.0)
    usable = (count >= MIN_ROWS) & (events >= MIN_EVENTS) & (count - events >= MIN_EVENTS)
    deviation = np.sqrt((centered**2).sum(axis=0) / np.maximum(count, 1))
    usable &= deviation > CONSTANT * np.maximum(np.abs(mean), 1.0)
    slopes = np.full(X.shape[1], np.nan)
    errors = np.full(X.shape[1], np.nan)
    if not usable.any():
        return slopes, errors
    x = centered[:, usable] / deviation[usable]
    rows = present[:, usable].astype(float)
    rate = events[usable] / count[usable]
    intercept = np.log(rate / (1 - rate))
    slope = np.zeros(int(usable.sum()))
    for _ in range(NEWTON_STEPS):
        probability = 1 / (1 + np.exp(-np.clip(intercept + slope * x, -500, 500)))
        weight = rows * probability * (1 - probability)
        a = weight.sum(axis=0)
        b = (weight * x).sum(axis=0)
        c = (weight * x**2).sum(axis=0)
        determinant = np.maximum(a * c - b**2, np.finfo(float).tiny)
        hat = weight * (c - 2 * b * x + a * x**2) / determinant
        residual = rows * (y[:, None] - probability) + hat * (0.5 - probability)
        score_0 = residual.sum(axis=0)
        score_1 = (residual * x).sum(axis=0)
        step_0 = (c * score_0 - b * score_1) / determinant
        step_1 = (a * score_1 - b * score_0) / determinant
        # In units of the predictor, so that no row's log odds move by more than the largest step.
        size = np.abs(step_0) + np.abs(step_1) * np.abs(x).max(axis=0)
        shrink = np.minimum(1.0, LARGEST_STEP / np.maximum(size, np.finfo(float).tiny))
        intercept = intercept + shrink * step_0
        slope = slope + shrink * step_1
        if (size < CONVERGED).all():
            break
    slopes[usable] = slope / deviation[usable]
    errors[usable] = np.sqrt(a / determinant) / deviation[usable]
    return slopes, errors
