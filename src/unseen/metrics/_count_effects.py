"""Random-effects models of counts: shares of rows (binomial) and observed over expected events (Poisson).

Domain i has x_i events. Its linear predictor is theta_i = mu + tau z_i with z_i ~ N(0, 1), and x_i is binomial with the
probability expit(theta_i), or Poisson with the mean exp(theta_i) times the expected number. The likelihood needs no
correction of zero cells. Equation numbers refer to ``docs/mathematics_validation.rst``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator
from scipy.optimize import minimize_scalar
from scipy.special import betaincinv, expit, log_expit, logit

from ._meta_analysis import (
    Array,
    NormalMixture,
    RandomEffects,
    check_level,
    check_pairs,
    check_tau_prior,
    chi_square_nodes,
    half_normal_nodes,
    typical_variance,
)

HERMITE_NODES, HERMITE_WEIGHTS = np.polynomial.hermite.hermgauss(51)
TAU_POINTS = 48  # logarithmic grid of tau, between which the mean and its variance are interpolated
SMALLEST_TAU = 0.01  # of that grid, as a share of the smallest standard error within domains
LARGEST_TAU = 10.0  # of that grid, in logits or logarithms
# Domains with a share of 0 or 1 do not bound tau from above. Values that no data support are left out: beyond 3, and
# beyond three times the estimate. Domains with a standard deviation of 3 have shares between 0.003 and 0.997.
PLAUSIBLE_TAU = 3.0
PLAUSIBLE_FACTOR = 3.0
LARGEST_PREDICTOR = 200.0  # logarithm of a ratio that does not overflow
MOST_STEPS = 50  # Newton steps; ordinary problems take fewer than 10
LARGEST_STEP = 2.0  # of a linear predictor in one Newton step
STEP_TOLERANCE = 1e-6  # of the mean, in standard errors
MODE_TOLERANCE = 1e-4  # of the modes around which nodes are placed; the result hardly depends on them
SMALLEST_Q = 1e-12  # of equal domains, whose statistic is 0
SMALLEST_GAIN = 1e-9  # of the log likelihood, by which an estimate of tau above 0 is better than 0
SMALLEST_INFORMATION = 1e-9  # of a domain, where rounding would make it negative
LARGE_TAU = 0.3  # from which the variance of z within a domain gives the information without cancellation

Family = Literal["binomial", "poisson"]


def count_random_effects(
    counts: ArrayLike, sizes: ArrayLike, family: Family, *, level: float = 0.95, tau_prior: float | None = None
) -> RandomEffects:
    """Random-effects meta-analysis of counts, with a normal distribution between domains on the link scale.

    A generalized linear mixed model with a random intercept, fitted by maximum likelihood with adaptive Gauss-Hermite
    quadrature: the model of ``glmer(cbind(x, n - x) ~ 1 + (1 | domain), family = binomial, nAGQ = 25)`` of the R
    package lme4, and for ``family="poisson"`` that with the offset ``log(expected)``.

    Parameters
    ----------
    counts : array-like of shape (n_domains,)
        Successes, or observed events; they need not be whole numbers.
    sizes : array-like of shape (n_domains,)
        Rows, or expected events. Domains of size 0 are dropped and counted.
    family : {"binomial", "poisson"}
        With the logit or the log link.
    level : float, default=0.95
        Nominal coverage of both intervals.
    tau_prior : float, default=None
        Scale of a half-normal prior on tau, on the link scale, as for :func:`random_effects`.

    Returns
    -------
    RandomEffects
        On the link scale. `estimate` and `tau` are the maximum likelihood estimates, with a prior posterior summaries.
        Intervals average over the confidence distribution of tau with `n_domains` - 1 degrees of freedom (see Notes).
        If all counts are 0, or all rows are successes, the estimate is infinite, and both intervals are the exact
        interval of the sum of all domains.

    Notes
    -----
    The heterogeneity statistic at a given tau is the sum over domains of squared scores by their information,
    Q(tau) = sum_i s_i^2 / J_i, which is Pearson's chi-square at tau = 0 and Cochran's Q in the normal model. Each
    quantile of a chi-square distribution with k - 1 degrees of freedom gives a value of tau, as in [1]_, and the
    prediction interval has the quantiles of the mixture of normal distributions over these.

    References
    ----------
    .. [1] Nagashima, Noma and Furukawa (2019), Prediction intervals for random-effects meta-analysis: A confidence
       distribution approach, Statistical Methods in Medical Research 28:1689-1702.
    .. [2] Stijnen, Hamza and Özdemir (2010), Random effects meta-analysis of event outcome in the framework of the
       generalized linear mixed model with applications in sparse data, Statistics in Medicine 29:3046-3067.

    Examples
    --------
    >>> from unseen.metrics import count_random_effects
    >>> result = count_random_effects([9, 4, 12, 0, 7], [10, 6, 12, 1, 9], "binomial")
    >>> round(result.estimate, 3), round(result.tau, 3)
    (1.662, 0.566)
    """
    check_level(level)
    check_tau_prior(tau_prior)
    x, n, n_dropped = _usable_counts(counts, sizes, family)
    k = len(x)
    total = float(x.sum())
    if total == 0 or (family == "binomial" and total == n.sum()):
        ends = _exact_interval(total, float(n.sum()), family, level)
        estimate = -np.inf if total == 0 else np.inf
        return RandomEffects(estimate, np.nan, np.nan, ends, ends, 0.0, np.nan, k, n_dropped)
    model = _CountModel(x, n, family)
    equal = model.fit(np.zeros(1))
    q = float(equal.q[0])
    within = 1 / equal.information[0]
    if k == 1 and tau_prior is None:
        everything = (-np.inf, np.inf)
        se = float(np.sqrt(within[0]))
        return RandomEffects(float(equal.mean[0]), se, np.nan, everything, everything, 0.0, np.nan, 1, n_dropped)
    lowest = SMALLEST_TAU * float(np.sqrt(within.min()))
    grid = model.fit(np.geomspace(min(lowest, 0.1), LARGEST_TAU, TAU_POINTS))
    if tau_prior is not None:
        mean, se, tau, interval, ends = _posterior(grid, tau_prior).summarize(level)
    else:
        best = model.maximize(grid, equal)
        mean, tau = float(best.mean[0]), float(best.tau[0])
        se = float(np.sqrt(best.variance[0]))
        mixture = _confidence_distribution(grid, equal, k, max(PLAUSIBLE_TAU, PLAUSIBLE_FACTOR * tau))
        low, high = mixture.quantiles(level, new_domain=False)
        interval = min(low, mean), max(high, mean)
        ends = mixture.predict(interval, equal.mean[0], equal.variance[0], level)
    return RandomEffects(mean, se, tau, interval, ends, q, typical_variance(within), k, n_dropped, tau_prior)


def _usable_counts(counts: ArrayLike, sizes: ArrayLike, family: Family) -> tuple[Array, Array, int]:
    """Counts and sizes of domains that are not empty, and the number of those that are."""
    if family not in ("binomial", "poisson"):
        raise ValueError(f"family={family!r} is not allowed. Use 'binomial' or 'poisson'.")
    x, n = check_pairs("counts", counts, "sizes", sizes)
    usable = np.isfinite(x) & np.isfinite(n) & (n > 0)
    if not usable.any():
        raise ValueError(f"None of the {len(x)} domains has a positive size; at least one is needed.")
    x, n = x[usable], n[usable]
    if (x < 0).any() or (family == "binomial" and (x > n).any()):
        raise ValueError("counts has values below 0 or above those of sizes. Give counts of each domain.")
    return x, n, int((~usable).sum())


def _exact_interval(total: float, size: float, family: Family, level: float) -> tuple[float, float]:
    """Exact interval of a share of 0 or 1 (Clopper and Pearson) or of a ratio of 0 (Garwood), on the link scale."""
    tail = (1 - level) / 2
    if family == "poisson":
        return -np.inf, float(np.log(-np.log(tail) / size))
    end = float(logit(betaincinv(1.0, size, 1 - tail)))
    return (-np.inf, end) if total == 0 else (-end, np.inf)


@dataclass(frozen=True)
class _CountFits:
    """The fit at several values of tau: the mean, its variance, the log likelihood and the heterogeneity statistic."""

    tau: Array
    mean: Array
    variance: Array
    log_likelihood: Array
    q: Array
    information: Array  # of each domain about the mean, of shape (n_taus, n_domains)


@dataclass(frozen=True)
class _CountModel:
    """Counts of domains with their likelihood."""

    x: Array
    n: Array
    family: Family

    def _kernel(self, predictor: Array, x: Array, n: Array) -> tuple[Array, Array, Array]:
        """Log likelihood of counts without constants, its derivative, and minus its second derivative."""
        if self.family == "binomial":
            p = expit(predictor)
            return x * predictor + n * log_expit(-predictor), x - n * p, n * p * expit(-predictor)
        mean = n * np.exp(np.minimum(predictor, LARGEST_PREDICTOR))
        return x * predictor - mean, x - mean, mean

    def _marginal(self, mean: Array, tau: Array, z: Array) -> tuple[Array, Array, Array, Array]:
        """Marginal log likelihood of each domain, its score by the mean, the information (equation 18), and modes.

        `z` is a guess of the modes of the random effects, around which the nodes of the quadrature are placed.
        """
        mean, tau = mean[:, None], tau[:, None]
        for _ in range(MOST_STEPS):
            _, slope, curvature = self._kernel(mean + tau * z, self.x, self.n)
            step = (tau * slope - z) / (1 + tau**2 * curvature)
            longest = LARGEST_STEP / np.maximum(tau, 1.0)
            step = np.clip(step, -longest, longest)
            z = z + step
            if np.abs(step).max() <= MODE_TOLERANCE:
                break
        _, _, curvature = self._kernel(mean + tau * z, self.x, self.n)
        spread = 1 / np.sqrt(1 + tau**2 * curvature)
        nodes = z[:, :, None] + np.sqrt(2) * spread[:, :, None] * HERMITE_NODES
        value, slope, curvature = self._kernel(
            mean[:, :, None] + tau[:, :, None] * nodes, self.x[:, None], self.n[:, None]
        )
        terms = value - nodes**2 / 2 + HERMITE_NODES**2 + np.log(HERMITE_WEIGHTS / np.sqrt(np.pi))
        largest = terms.max(axis=2, keepdims=True)
        weight = np.exp(terms - largest)
        total = weight.sum(axis=2)
        weight = weight / total[:, :, None]
        # Two forms of the same numbers: the first cancels for large tau, the second for small tau.
        score = (weight * slope).sum(axis=2)
        information = (weight * curvature).sum(axis=2) - ((weight * slope**2).sum(axis=2) - score**2)
        is_large = tau[:, 0] > LARGE_TAU
        center = (weight * nodes).sum(axis=2)
        variance = (weight * (nodes - center[:, :, None]) ** 2).sum(axis=2)
        score[is_large] = center[is_large] / tau[is_large]
        information[is_large] = (1 - variance[is_large]) / tau[is_large] ** 2
        smallest = SMALLEST_INFORMATION / np.maximum(tau, 1.0) ** 2
        log_likelihood = np.log(total) + largest[:, :, 0] + np.log(spread)
        return log_likelihood, score, np.maximum(information, smallest), z

    def fit(self, tau: Array) -> _CountFits:
        """Maximize the likelihood over the mean for each tau; it is concave in the mean."""
        share = self.x.sum() / self.n.sum()
        mean = np.full(len(tau), logit(share) if self.family == "binomial" else np.log(share))
        z = np.zeros((len(tau), len(self.x)))
        for _ in range(MOST_STEPS):
            log_likelihood, score, information, z = self._marginal(mean, tau, z)
            step = score.sum(axis=1) / information.sum(axis=1)
            step = np.clip(step, -LARGEST_STEP, LARGEST_STEP)
            if (np.abs(step) * np.sqrt(information.sum(axis=1))).max() <= STEP_TOLERANCE:
                break
            mean = mean + step
        q = (score**2 / information).sum(axis=1)
        return _CountFits(tau, mean, 1 / information.sum(axis=1), log_likelihood.sum(axis=1), q, information)

    def maximize(self, grid: _CountFits, equal: _CountFits) -> _CountFits:
        """The fit at the tau of maximum likelihood, near the best point of the grid; `equal` is that of tau = 0."""
        position = int(np.argmax(grid.log_likelihood))
        low = np.log(grid.tau[max(position - 1, 0)])
        high = np.log(grid.tau[min(position + 1, len(grid.tau) - 1)])
        found = minimize_scalar(
            lambda log_tau: -self.fit(np.exp([log_tau])).log_likelihood[0],
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-7},
        )
        best = self.fit(np.exp([found.x]))
        is_better = best.log_likelihood[0] > equal.log_likelihood[0] + SMALLEST_GAIN
        return best if position > 0 and is_better else equal


def _confidence_distribution(grid: _CountFits, equal: _CountFits, k: int, largest: float) -> NormalMixture:
    """Confidence distribution of tau: Q(tau) = q for quantiles q of chi-square, up to the largest tau (equation 19)."""
    q, weight = chi_square_nodes(k - 1)
    profile = np.maximum(np.minimum.accumulate(grid.q), SMALLEST_Q)
    log_tau = np.interp(-np.log(q), -np.log(profile), np.log(grid.tau))
    log_tau = np.minimum(log_tau, np.log(largest))
    mean, variance = _interpolate(grid, log_tau)
    is_zero = q >= profile[0]
    tau = np.where(is_zero, 0.0, np.exp(log_tau))
    mean = np.where(is_zero, equal.mean[0], mean)
    variance = np.where(is_zero, equal.variance[0] * np.minimum(equal.q[0] / q, 1.0), variance)
    return NormalMixture(tau, weight, mean, variance)


def _posterior(grid: _CountFits, scale: float) -> NormalMixture:
    """Posterior of tau with a half-normal prior and a flat one on the mean, by Laplace's method over the mean."""
    restricted = grid.log_likelihood + 0.5 * np.log(grid.variance)
    density = PchipInterpolator(np.log(grid.tau), restricted)
    bounds = float(np.log(grid.tau[0])), float(np.log(grid.tau[-1]))
    log_tau, weight = half_normal_nodes(lambda points: density(np.clip(points, *bounds)), scale)
    mean, variance = _interpolate(grid, np.clip(log_tau, *bounds))
    return NormalMixture(np.exp(log_tau), weight, mean, variance)


def _interpolate(grid: _CountFits, log_tau: Array) -> tuple[Array, Array]:
    """Mean and its variance between the points of the grid."""
    points = np.log(grid.tau)
    mean = PchipInterpolator(points, grid.mean)(log_tau)
    return mean, np.exp(PchipInterpolator(points, np.log(grid.variance))(log_tau))
