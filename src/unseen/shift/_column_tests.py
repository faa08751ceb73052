"""Statistical decisions of the column audit: is a domain's value what one more domain like the others would have?

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
from scipy.special import bdtrc, expit, gammaln, logsumexp, stdtrit

from ._column_values import ColumnValues, DomainRows, Floats, Indices

# The prior of a between-domain variance weighs as much as four degrees of freedom, that is, five domains: the fewest for
# which an estimate of a variance has a standard error below its value.
PRIOR_DOF = 4.0
# Prior standard deviations between domains. Sites differ in the log odds of a category by 0.5 or so (odds of 1 to 2.7
# between a low and a high site), and in standardized means by half a standard deviation, Cohen's medium effect; effects
# (standardized differences between two groups) differ by 0.3, between small and medium.
LOG_ODDS_SPREAD = 0.5
MEAN_SPREAD = 0.5
EFFECT_SPREAD = 0.3
# Instruments and laboratories differ by about five percent where all patients are the same.
LEAST_LOG_SPREAD = 0.05
# Half a decimal of the logarithm of a standard deviation, prior to the data: a factor 1.35 between two domains.
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

    def contains(self, value: float, variance: float) -> bool:
        """Whether a value that is observed with a sampling variance lies in the central 99%."""
        width = np.sqrt(self.scale**2 + variance) * stdtrit(self.dof, 0.5 + CONSISTENT / 2)
        return bool(abs(value - self.mean) <= width)


def predict_next_domain(estimates: Floats, variances: Floats, prior_spread: float) -> Predictive:
    """The predictive distribution for a further domain, from estimates in other domains and their sampling variances.

    The between-domain variance is the moment estimate of DerSimonian and Laird (1986), averaged with the prior variance
    by degrees of freedom.
    """
    k = len(estimates)
    weights = 1.0 / variances
    mean = weights @ estimates / weights.sum()
    between = 0.0
    if k > 1:
        excess = weights @ (estimates - mean) ** 2 - (k - 1)
        between = max(excess / (weights.sum() - (weights**2).sum() / weights.sum()), 0.0)
    dof = PRIOR_DOF + k - 1
    between = (PRIOR_DOF * prior_spread**2 + (k - 1) * between) / dof
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
    chance = 1.0 if count == 0 else bdtrc(count - 1, size, expit(limit))
    return bool(chance <= level / 2)


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

    def divided(self, factor: float) -> LogStatistics:
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
SIGN_TOLERANCE = 0.05  # by how much the share of negative values may leave the range of the other domains
ALTERNATIVE = np.log(20.0)  # conversions up to twenty times less likely than the best one are named beside it


@dataclass(frozen=True)
class UnitEvidence:
    """Evidence for other units: the logarithm of a likelihood ratio, and the conversions that fit, the best first."""

    log_ratio: float
    conversions: tuple[Conversion, ...]


def unit_evidence(
    values: Floats, own: LogStatistics, others: Sequence[LogStatistics], threshold: float
) -> UnitEvidence | None:
    """Compare "some known conversion was applied" with "a further domain like the others".

    The likelihoods are the predictive densities of location and spread of log|x|, before and after the conversion is
    undone; the ratio is averaged over conversions. Its expectation is 1 where nothing was applied, hence it exceeds c
    with probability at most 1/c (Markov's inequality), whatever the number of conversions. A conversion counts only if
    the domain is consistent with the others once it is undone: other units are then a sufficient explanation.

    Returns
    -------
    evidence : UnitEvidence or None
        None if the log ratio does not exceed the threshold.
    """
    sizes = np.array([other.n for other in others], dtype=float)
    spreads = np.array([other.sd for other in others])
    within = float(np.sqrt(sizes @ spreads**2 / sizes.sum()))
    prior_spread = max(MEAN_SPREAD * within, LEAST_LOG_SPREAD)
    location = predict_next_domain(
        np.array([other.mean for other in others]), np.array([other.mean_variance for other in others]), prior_spread
    )
    top = predict_next_domain(
        np.array([other.top for other in others]), np.array([other.top_variance for other in others]), prior_spread
    )
    spread = predict_next_domain(np.array([other.log_sd for other in others]), 1.0 / sizes, SPREAD_SPREAD)
    negative = [other.negative_share for other in others]

    def log_likelihood(statistics: LogStatistics) -> float:
        of_location = location.log_density(statistics.mean, statistics.mean_variance)
        return of_location + spread.log_density(statistics.log_sd, 1.0 / statistics.n)

    def is_consistent(statistics: LogStatistics) -> bool:
        outside = max(min(negative) - statistics.negative_share, statistics.negative_share - max(negative))
        return (
            outside <= SIGN_TOLERANCE
            and location.contains(statistics.mean, statistics.mean_variance)
            and top.contains(statistics.top, statistics.top_variance)
            and spread.contains(statistics.log_sd, 1.0 / statistics.n)
        )

    as_it_is = log_likelihood(own)
    highest = location.log_density(location.mean, 0.0) + spread.log_density(spread.mean, 0.0)
    if highest - as_it_is <= threshold:  # no conversion can reach the threshold
        return None
    ratios = np.full(len(CONVERSIONS), -np.inf)
    for position, conversion in enumerate(CONVERSIONS):
        if conversion.offset:
            undone = log_statistics(conversion.undo(values))
        else:
            undone = own.divided(conversion.factor)
        if undone is not None and is_consistent(undone):
            ratios[position] = log_likelihood(undone) - as_it_is
    log_ratio = float(logsumexp(ratios) - np.log(len(ratios)))
    if not log_ratio > threshold:
        return None
    order = np.argsort(-ratios, kind="stable")
    fitting = tuple(CONVERSIONS[i] for i in order if ratios[i] >= ratios[order[0]] - ALTERNATIVE)
    return UnitEvidence(log_ratio, fitting)


@dataclass(frozen=True)
class SwapEvidence:
    """Evidence that two codes are exchanged in a domain: a log likelihood ratio, and which codes fit best."""

    log_ratio: float
    codes: tuple[int, int]


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
    """For each domain, compare "two codes are exchanged here" with "a further domain like the others".

    Two quantities change sign when the codes a and b are exchanged: the log odds of a against b, and the difference
    between rows of a and rows of b along the direction that separates them best in the other domains (Fisher's linear
    discriminant). Both are compared with the predictive distribution of a further domain and with its mirror image. The
    ratio is averaged over pairs of codes, so that it keeps expectation 1 where nothing was exchanged.

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
    ratios = np.full((n_domains, len(pairs)), -np.inf)
    for column, (a, b) in enumerate(pairs):
        estimates, variances = log_odds(counts[:, a], counts[:, b])
        totals = counts[:, a] + counts[:, b]
        enough = totals >= MIN_VALUES
        both = (counts[:, a] >= MIN_VALUES) & (counts[:, b] >= MIN_VALUES)
        for d in range(n_domains):
            others = enough & (np.arange(n_domains) != d)
            if not enough[d] or not others.any():
                continue
            margin = predict_next_domain(estimates[others], variances[others], LOG_ODDS_SPREAD)
            ratio = _mirror_ratio(margin, estimates[d], variances[d])
            if means is not None and both[d]:
                ratio += _relation_ratio(means[:, a] - means[:, b], counts[:, [a, b]], both, d)
            ratios[d, column] = ratio
    evidence: list[SwapEvidence | None] = []
    for own in ratios:
        if np.isfinite(own).any():
            total = float(logsumexp(own) - np.log(len(pairs)))
            evidence.append(SwapEvidence(total, pairs[int(own.argmax())]))
        else:
            evidence.append(None)
    return evidence


def _mirror_ratio(predictive: Predictive, value: float, variance: float) -> float:
    return predictive.log_density(-value, variance) - predictive.log_density(value, variance)


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
    return white.reshape(n_domains, n_codes, -1)


def _relation_ratio(differences: Floats, counts: Indices, both: np.ndarray, d: int) -> float:
    """Log likelihood ratio of the difference between two codes along the direction of the other domains."""
    others = np.flatnonzero(both & (np.arange(len(both)) != d))
    if len(others) < 2:
        return 0.0
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
        return 0.0
    effects = sums[usable] / np.sqrt(norms[usable])
    own = float(products[d, others] @ weights[others] / np.sqrt(total))
    predictive = predict_next_domain(effects, variances[others][usable], EFFECT_SPREAD)
    return _mirror_ratio(predictive, own, float(variances[d]))


def log_threshold(n_tests: int, alpha: float) -> float:
    """The least log likelihood ratio that keeps the chance of any false alarm in so many tests below alpha."""
    return float(np.log(max(n_tests, 1) / alpha))
