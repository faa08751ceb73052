"""Statistical decisions of the column audit: whether a domain is what one more domain like the others would be.

All of them compare one domain with a predictive distribution for a new domain, estimated from the other domains. Its
variance is the variance between domains plus sampling error, so a column that differs from site to site by nature needs
a larger deviation than one that does not. Between-domain variances are estimated from few domains, hence they are
shrunk toward a prior value, and the predictive distribution is Student's t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, chdtrc, digamma, expit, gammaln, polygamma, stdtr, stdtrit

from ._column_values import ColumnValues, DomainRows, Floats, Indices

# The prior of a between-domain variance weighs as much as four degrees of freedom, that is, five domains. Heterogeneity
# varies a lot between meta-analyses, so a prior that weighs more would be overconfident with three or four domains.
PRIOR_DOF = 4.0
# Prior standard deviations between domains. Sites differ in the log odds of a category by 0.5 or so (odds of 1 to 2.7
# between a low and a high site), and in means by 0.8 standard deviations, Cohen's large effect, at most as a rule;
# effects (standardized differences between two groups) differ by 0.3, between small and medium.
LOG_ODDS_SPREAD = 0.5
MEAN_SPREAD = 0.8
EFFECT_SPREAD = 0.3
# Instruments and laboratories differ by about five percent where all patients are the same.
LEAST_LOG_SPREAD = 0.05
# Standard deviations inside domains differ by a factor of 1.35 or so.
SPREAD_SPREAD = 0.3
# Sample means of fewer values than this are not compared: their standard errors are unknown.
MIN_VALUES = 5
CONSISTENT = 0.99  # of the predictive distribution: what is undone must lie there, or something else happened
TRIM = 0.05  # at both ends: values close to zero have logarithms without bound
TOP = 0.9  # a quantile near the upper end, which values close to zero do not move
TOP_VARIANCE = 2.9  # sampling variance of the 90% quantile of a normal sample, relative to that of its mean
ROUNDING = 0.02  # added to standard deviations of logarithms, so that rounded measurements do not differ in theirs
MAX_FEATURES = 200  # of the other columns, in the relation of a column with them
MAX_LEVELS = 12  # of one column that are compared in pairs, the most frequent: 66 pairs
RIDGE = 0.1  # share of the average variance added to a covariance matrix that many columns make singular


@dataclass(frozen=True)
class Predictive:
    """Student's t distribution of one more domain's true value: its location, scale and degrees of freedom."""

    mean: float
    scale: float
    dof: float

    def log_density(self, value: float, variance: float) -> float:
        """Of a value that is observed with a sampling variance."""
        square = self.scale**2 + variance
        half = (self.dof + 1) / 2
        constant = gammaln(half) - gammaln(self.dof / 2) - 0.5 * np.log(self.dof * np.pi * square)
        return float(constant - half * np.log1p((value - self.mean) ** 2 / (self.dof * square)))

    def quantile(self, probability: float) -> float:
        """Of the true value."""
        return float(self.mean + self.scale * stdtrit(self.dof, probability))

    def tail(self, value: float, variance: float) -> float:
        """Probability of a value at least as far from the mean, on the same side of it."""
        distance = abs(value - self.mean) / np.sqrt(self.scale**2 + variance)
        return float(stdtr(self.dof, -distance))

    def contains(self, value: float, variance: float) -> bool:
        """Whether a value that is observed with a sampling variance lies in the central 99%."""
        width = np.sqrt(self.scale**2 + variance) * stdtrit(self.dof, 0.5 + CONSISTENT / 2)
        return bool(abs(value - self.mean) <= width)


def predict_next_domain(
    estimates: Floats, variances: Floats, prior_spread: float, prior_dof: float = PRIOR_DOF
) -> Predictive:
    """The predictive distribution for a further domain, from estimates in other domains and their sampling variances.

    The between-domain variance is the moment estimate of DerSimonian and Laird (1986), averaged with the prior variance
    by degrees of freedom. Where the estimate exceeds the prior variance, the prior loses weight in proportion: domains
    that differ more than the prior expects are believed, at the price of fewer degrees of freedom.
    """
    k = len(estimates)
    weights = 1.0 / variances
    mean = weights @ estimates / weights.sum()
    between = 0.0
    if k > 1:
        excess = weights @ (estimates - mean) ** 2 - (k - 1)
        between = max(excess / (weights.sum() - (weights**2).sum() / weights.sum()), 0.0)
    if between > prior_spread**2:
        prior_dof = prior_dof * prior_spread**2 / between
    dof = prior_dof + k - 1
    between = (prior_dof * prior_spread**2 + (k - 1) * between) / dof
    weights = 1.0 / (variances + between)
    mean = weights @ estimates / weights.sum()
    return Predictive(float(mean), float(np.sqrt(between + 1.0 / weights.sum())), dof)


def log_odds(counts: Indices, others: Indices) -> tuple[Floats, Floats]:
    """Log odds of counts against other counts, and their sampling variances; a half is added to both counts."""
    first = counts + 0.5
    second = others + 0.5
    return np.log(first / second), 1.0 / first + 1.0 / second


def is_excess(count: int, size: int, other_counts: Indices, other_sizes: Indices, level: float) -> bool:
    """Whether a value is more frequent in a domain than a further domain like the others would have it.

    Half of the level is spent on the share in a further domain, half on the number of rows given that share.
    """
    used = other_sizes > 0
    if size == 0 or not used.any():
        return False
    estimates, variances = log_odds(other_counts[used], other_sizes[used] - other_counts[used])
    limit = predict_next_domain(estimates, variances, LOG_ODDS_SPREAD).quantile(1 - level / 2)
    return exceeds_share(count, size, expit(limit), level / 2)


def exceeds_share(count: int, size: int, share: float, level: float) -> bool:
    """Whether this number of rows is too large for a share, by a one-sided binomial test."""
    chance = 1.0 if count == 0 else float(bdtrc(count - 1, size, share))
    return chance <= level


def highest_share(counts: Indices, sizes: Indices) -> float:
    """The highest share of a value among some domains; one row more is counted, so that few rows prove little."""
    return float(((counts + 1) / (sizes + 1)).max())


@dataclass(frozen=True)
class LogStatistics:
    """Of log|x| over values other than zero: trimmed mean and standard deviation, and the 90% quantile.

    Multiplying x by a factor adds its logarithm to the mean and to the quantile, and leaves the standard deviation.
    """

    n: int
    mean: float
    sd: float
    top: float
    negative_share: float

    @property
    def mean_variance(self) -> float:
        """Sampling variance of the mean."""
        return (self.sd**2 + ROUNDING**2) / self.n

    @property
    def top_variance(self) -> float:
        """Sampling variance of the quantile, as of a normal sample."""
        return TOP_VARIANCE * self.mean_variance

    @property
    def log_sd(self) -> float:
        """Logarithm of the standard deviation, which is compared on this scale."""
        return float(np.log(self.sd + ROUNDING))

    def divide_by(self, factor: float) -> LogStatistics:
        """Of x / factor."""
        shift = float(np.log(factor))
        return LogStatistics(self.n, self.mean - shift, self.sd, self.top - shift, self.negative_share)


def log_statistics(values: Floats) -> LogStatistics | None:
    """Of some values without missing ones; None if fewer than five differ from zero."""
    values = values[values != 0]
    n = len(values)
    if n < MIN_VALUES:
        return None
    logs = np.sort(np.log(np.abs(values)))
    cut = int(TRIM * n)
    inner = logs[cut : n - cut]
    top = float(logs[min(int(TOP * n), n - 1)])
    return LogStatistics(n, float(inner.mean()), float(inner.std()), top, float((values < 0).mean()))


@dataclass(frozen=True)
class Conversion:
    """A change of units: new = factor * old + offset."""

    name: str
    factor: float
    offset: float = 0.0

    def undo(self, values: Floats) -> Floats:
        """The values in the old units."""
        return (values - self.offset) / self.factor

    @property
    def remedy(self) -> str:
        """What to compute to undo it."""
        if self.offset:
            return f"apply (x - {self.offset:.4g}) / {self.factor:.4g}"
        return f"divide by {self.factor:.4g}" if self.factor > 1 else f"multiply by {1 / self.factor:.4g}"


# Factors between units in use: powers of ten; glucose, cholesterol, creatinine (mmol/L or umol/L and mg/dL); pounds and
# kilograms; inches and centimeters; kilopascal and mmHg; minutes and hours. Triglycerides (88.57) and bilirubin (17.1)
# cannot be told from creatinine and glucose by any sample.
FACTORS = (10.0, 100.0, 1000.0, 18.016, 38.67, 88.4, 2.2046, 2.54, 7.5006, 60.0)
CONVERSIONS = (
    *(Conversion(f"a factor of {factor:.4g}", factor) for factor in FACTORS),
    *(Conversion(f"a factor of 1/{factor:.4g}", 1 / factor) for factor in FACTORS),
    Conversion("Fahrenheit instead of Celsius", 1.8, 32.0),
    Conversion("Celsius instead of Fahrenheit", 1 / 1.8, -32 / 1.8),
    Conversion("Kelvin instead of Celsius", 1.0, 273.15),
    Conversion("Celsius instead of Kelvin", 1.0, -273.15),
    Conversion("HbA1c in mmol/mol instead of %", 10.929, -23.5),
    Conversion("HbA1c in % instead of mmol/mol", 0.0915, 2.15),
)
MAX_OUTLIERS = 3  # domains in other units that are looked for in one column
SIGN_TOLERANCE = 0.05  # by how much the share of negative values may leave the range of the other domains


@dataclass(frozen=True)
class SpreadPrior:
    """How much the means of a column differ between domains, in standard deviations inside domains, and its weight."""

    spread: float = MEAN_SPREAD
    dof: float = PRIOR_DOF


# From this number of columns on, the table itself shows how much its domains differ: the interquartile range that the
# prior is matched to then has a standard error of about 20%.
MIN_COLUMNS = 50
MAX_DOF = 50.0  # of a prior: beyond, Student's distribution is normal for our purposes


def estimate_spread_prior(statistics: Sequence[Sequence[LogStatistics | None]]) -> SpreadPrior:
    """Learn from many columns how much their means differ between domains, and how much columns agree in that.

    Empirical Bayes as of Smyth (2004): variances between domains, in units of the variance inside domains, follow a
    scaled inverse chi-square distribution, whose parameters are matched to median and interquartile range of their
    logarithms, which single faulty columns do not move. Sampling error is not taken off, which errs on the safe side.
    """
    values = []
    for column in statistics:
        known = [own for own in column if own is not None]
        if len(known) < 3:
            continue
        within = np.mean([own.sd**2 for own in known]) + ROUNDING**2
        between = np.var([own.mean for own in known], ddof=1)
        if between > 0:
            half = (len(known) - 1) / 2
            values.append((np.log(between / within) - digamma(half) + np.log(half), float(polygamma(1, half))))
    if len(values) < MIN_COLUMNS:
        return SpreadPrior()
    logs = np.array([value for value, _ in values])
    low, middle, high = np.quantile(logs, [0.25, 0.5, 0.75])
    excess = ((high - low) / 1.349) ** 2 - float(np.median([variance for _, variance in values]))
    grid = np.linspace(PRIOR_DOF, MAX_DOF, 200)
    dof = MAX_DOF if excess <= 0 else float(grid[np.abs(polygamma(1, grid / 2) - excess).argmin()])
    return SpreadPrior(float(np.exp((middle + digamma(dof / 2) - np.log(dof / 2)) / 2)), dof)


@dataclass(frozen=True)
class UnitEvidence:
    """A domain in other units: the p-value of its scale, the factor of its scale, and conversions, the best first."""

    p_value: float
    factor: float
    conversions: tuple[Conversion, ...]


def predict_location(others: Sequence[LogStatistics], prior: SpreadPrior) -> Predictive:
    """The predictive distribution of the mean of log|x| in a further domain."""
    return predict_next_domain(
        np.array([other.mean for other in others]),
        np.array([other.mean_variance for other in others]),
        _prior_spread(others, prior),
        prior.dof,
    )


def _prior_spread(others: Sequence[LogStatistics], prior: SpreadPrior) -> float:
    sizes = np.array([other.n for other in others], dtype=float)
    spreads = np.array([other.sd for other in others])
    within = float(np.sqrt(sizes @ spreads**2 / sizes.sum()))
    return max(prior.spread * within, LEAST_LOG_SPREAD)


def find_scale_outliers(statistics: dict[int, LogStatistics], level: float, prior: SpreadPrior) -> list[int]:
    """Domains whose scale differs from that of the others, the most extreme first.

    The most extreme domain is taken out, then the most extreme of the rest, and so on; domains up to the last one that
    is significant among those that are left are outliers (Rosner, 1983). Thus two of them do not hide each other. At
    most a quarter of the domains are taken out, since the rest looks ever more uniform, and the level is shared among
    the steps.
    """
    rest = dict(statistics)
    removed: list[int] = []
    n_outliers = 0
    most = min(max(len(rest) // 4, 1), MAX_OUTLIERS) if len(rest) > 1 else 0
    for _ in range(most):
        p_values = {}
        for d, own in rest.items():
            predictive = predict_location([rest[e] for e in rest if e != d], prior)
            p_values[d] = 2 * predictive.tail(own.mean, own.mean_variance)
        extreme = min(p_values, key=lambda d: p_values[d])
        removed.append(extreme)
        del rest[extreme]
        if p_values[extreme] <= level / most:
            n_outliers = len(removed)
    return removed[:n_outliers]


def unit_evidence(
    values: Floats, own: LogStatistics, others: Sequence[LogStatistics], level: float, prior: SpreadPrior
) -> UnitEvidence | None:
    """Test whether the scale of a domain is what a further domain like the others would have; name what explains it.

    Two conditions hold for a finding. First, the mean of log|x| lies outside of the predictive distribution at the
    given level. Second, either undoing a known conversion brings mean, standard deviation and 90% quantile of log|x|
    back to where 99% of further domains have them, or the 90% quantile is outside as well, by a like amount: then all
    values are larger by some factor that no known conversion explains.

    Returns
    -------
    evidence : UnitEvidence or None
        None if one of the conditions does not hold.
    """
    location = predict_location(others, prior)
    p_value = 2 * location.tail(own.mean, own.mean_variance)
    if p_value > level:
        return None
    prior_spread = _prior_spread(others, prior)
    sizes = np.array([other.n for other in others], dtype=float)
    top = predict_next_domain(
        np.array([other.top for other in others]),
        np.array([other.top_variance for other in others]),
        prior_spread,
        prior.dof,
    )
    spread = predict_next_domain(np.array([other.log_sd for other in others]), 1.0 / sizes, SPREAD_SPREAD)
    negative = [other.negative_share for other in others]
    densities = {}
    for conversion in CONVERSIONS:
        undone = log_statistics(conversion.undo(values)) if conversion.offset else own.divide_by(conversion.factor)
        if undone is None:
            continue
        outside = max(min(negative) - undone.negative_share, undone.negative_share - max(negative))
        if (
            outside <= SIGN_TOLERANCE
            and location.contains(undone.mean, undone.mean_variance)
            and top.contains(undone.top, undone.top_variance)
            and spread.contains(undone.log_sd, 1.0 / undone.n)
        ):
            of_location = location.log_density(undone.mean, undone.mean_variance)
            densities[conversion] = of_location + spread.log_density(undone.log_sd, 1.0 / undone.n)
    best_first = sorted(densities, key=lambda conversion: -densities[conversion])
    shift = own.mean - location.mean
    top_shift = own.top - top.mean
    if not best_first:
        is_scaled = 2 * top.tail(own.top, own.top_variance) <= level and 0.5 <= top_shift / shift <= 2
        if not is_scaled:
            return None
    return UnitEvidence(p_value, float(np.exp(shift)), tuple(best_first))


@dataclass(frozen=True)
class SwapEvidence:
    """Two codes that look exchanged in a domain, and the p-value of "nothing is exchanged", over all pairs of codes.

    `by_relation` tells whether the relation with the other columns counts among the evidence, or the shares only.
    """

    p_value: float
    codes: tuple[int, int]
    by_relation: bool


LEAST_RATIO = np.log(20.0)  # exchanged codes must explain a domain twenty times better than those it has


def relation_features(columns: Sequence[ColumnValues], labels: Indices | None) -> tuple[Floats, Indices]:
    """Numbers to relate columns with each other, and the position of the column that each belongs to.

    Ranks of numbers and indicators of codes, missing ones at their mean; the labels count as a column of position -1.
    """
    blocks = []
    owners: list[int] = []
    for position, column in enumerate(columns):
        if column.is_coded:
            levels = np.argsort(-column.distinct[1], kind="stable")[:MAX_LEVELS]
            block = (column.codes[:, None] == levels[None, :]).astype(float)
            block[~column.is_present] = np.nan
        else:
            cumulative = np.cumsum(column.distinct[1]) - 0.5 * column.distinct[1]
            ranks = cumulative[np.maximum(column.codes, 0)]
            block = np.where(column.is_present, ranks, np.nan)[:, None]
        blocks.append(block)
        owners += [position] * block.shape[1]
        if len(owners) >= MAX_FEATURES:
            break
    if labels is not None:
        indicators = (labels[:, None] == np.arange(labels.max() + 1)[None, :]).astype(float)
        blocks.append(indicators)
        owners += [-1] * indicators.shape[1]
    features = np.concatenate(blocks, axis=1)
    counts = np.isfinite(features).sum(axis=0)
    filled = np.where(np.isfinite(features), features, 0.0)
    means = filled.sum(axis=0) / np.maximum(counts, 1)
    features = np.where(np.isfinite(features), features, means)
    deviations = features.std(axis=0)
    return (features - means) / np.where(deviations > 0, deviations, 1.0), np.array(owners)


def swap_evidence(
    codes: Indices, counts: Indices, domain: DomainRows, features: Floats | None
) -> list[SwapEvidence | None]:
    """For each domain, the pair of codes that looks most exchanged there, if one does.

    Two quantities change sign when the codes a and b are exchanged: the log odds of a against b, and the difference
    between rows of a and rows of b along the direction that separates them best in the other domains (Fisher's linear
    discriminant). Each is used if the other domains show that its sign matters: if the predictive mean of a further
    domain is more than a standard deviation from zero. The p-value is the tail of the predictive distribution on the
    side of the mirror image, combined over the two by Fisher's method and multiplied by the number of pairs. Besides,
    both mirror images must lie where 99% of further domains do, and be at least twenty times as likely as the data.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Positions of values, -1 where missing.
    counts : ndarray of shape (n_domains, n_codes)
        Rows of each domain with each code.
    domain : DomainRows
        The domains.
    features : ndarray of shape (n_samples, n_features) or None
        All other columns and the labels, standardized.
    """
    n_domains = len(domain)
    levels = np.sort(np.argsort(-counts.sum(axis=0), kind="stable")[:MAX_LEVELS])
    pairs = list(combinations(levels.tolist(), 2))
    means = None if features is None else _whitened_cell_means(codes, counts, domain, features)
    evidence: list[SwapEvidence | None] = [None] * n_domains
    for a, b in pairs:
        estimates, variances = log_odds(counts[:, a], counts[:, b])
        enough = counts[:, a] + counts[:, b] >= MIN_VALUES
        both = (counts[:, a] >= MIN_VALUES) & (counts[:, b] >= MIN_VALUES)
        for d in np.flatnonzero(enough):
            others = enough & (np.arange(n_domains) != d)
            if not others.any():
                continue
            margin = predict_next_domain(estimates[others], variances[others], LOG_ODDS_SPREAD)
            mirrors = [_Mirror(margin, float(estimates[d]), float(variances[d]))]
            if means is not None and both[d]:
                mirrors += _relation_mirror(means[:, a] - means[:, b], counts[:, [a, b]], both, int(d))
            p_value = _mirror_p_value([mirror for mirror in mirrors if mirror.is_informative]) * len(pairs)
            best = evidence[d]
            if best is None or p_value < best.p_value:
                by_relation = any(mirror.is_informative for mirror in mirrors[1:])
                evidence[d] = SwapEvidence(p_value, (a, b), by_relation)
    return evidence


@dataclass(frozen=True)
class _Mirror:
    """A quantity that changes sign when two codes are exchanged: what is expected, and what is observed."""

    predictive: Predictive
    value: float
    variance: float

    @property
    def is_informative(self) -> bool:
        scale = np.sqrt(self.predictive.scale**2 + self.variance)
        return bool(abs(self.predictive.mean) > scale)

    @property
    def p_value(self) -> float:
        tail = self.predictive.tail(self.value, self.variance)
        is_toward_mirror = (self.value < self.predictive.mean) == (self.predictive.mean > 0)
        return tail if is_toward_mirror else 1 - tail

    @property
    def log_ratio(self) -> float:
        exchanged = self.predictive.log_density(-self.value, self.variance)
        return exchanged - self.predictive.log_density(self.value, self.variance)


def _mirror_p_value(mirrors: Sequence[_Mirror]) -> float:
    """The p-value of one pair of codes; 1 if exchanging them does not explain the domain."""
    if not mirrors or sum(mirror.log_ratio for mirror in mirrors) < LEAST_RATIO:
        return 1.0
    if not all(mirror.predictive.contains(-mirror.value, mirror.variance) for mirror in mirrors):
        return 1.0
    # Fisher's method: minus twice the sum of log p-values is chi-square with two degrees of freedom for each.
    logs = [np.log(max(mirror.p_value, 1e-300)) for mirror in mirrors]
    return float(chdtrc(2 * len(logs), -2 * sum(logs)))


def _whitened_cell_means(codes: Indices, counts: Indices, domain: DomainRows, features: Floats) -> Floats:
    """Means of the features for each domain and code, in coordinates in which the covariance inside cells is I.

    Exchanging two codes in a domain exchanges two cells and leaves the covariance inside them as it is.
    """
    n_domains, n_codes = counts.shape
    known = codes >= 0
    cells = domain.codes[known] * n_codes + codes[known]
    rows = features[known]
    order = np.argsort(cells, kind="stable")
    sizes = counts.ravel()
    used = sizes > 0
    starts = np.concatenate([[0], np.cumsum(sizes[used])[:-1]])
    sums = np.zeros((len(sizes), features.shape[1]))
    sums[used] = np.add.reduceat(rows[order], starts, axis=0)
    means = sums / np.maximum(sizes, 1)[:, None]
    inside = rows - means[cells]
    covariance = inside.T @ inside / max(len(rows) - int(used.sum()), 1)
    covariance[np.diag_indices_from(covariance)] += RIDGE * np.trace(covariance) / len(covariance) + 1e-12
    white = np.linalg.solve(np.linalg.cholesky(covariance), means.T).T
    return np.asarray(white.reshape(n_domains, n_codes, -1), dtype=np.float64)


def _relation_mirror(differences: Floats, counts: Indices, both: NDArray[np.bool_], d: int) -> list[_Mirror]:
    """The difference between two codes along the direction of the other domains, there and in domain d."""
    others = np.flatnonzero(both & (np.arange(len(both)) != d))
    if len(others) < 2:
        return []
    variances = (1.0 / np.maximum(counts, 1)).sum(axis=1)
    weights = 1.0 / (variances + EFFECT_SPREAD**2)
    products = differences @ differences.T
    weighted = products[np.ix_(others, others)] * weights[others]
    # The direction for another domain leaves that domain out, and domain d: its own noise is not in it.
    sums = weighted.sum(axis=1) - np.diag(weighted)
    quadratic = weighted * weights[others][:, None]
    total = quadratic.sum()
    norms = total - 2 * quadratic.sum(axis=1) + np.diag(quadratic)
    usable = norms > 0
    if not usable.any() or total <= 0:
        return []
    effects = sums[usable] / np.sqrt(norms[usable])
    own = float(products[d, others] @ weights[others] / np.sqrt(total))
    predictive = predict_next_domain(effects, variances[others][usable], EFFECT_SPREAD)
    return [_Mirror(predictive, own, float(variances[d]))]
