"""Random-effects meta-analysis of a performance measure over domains.

Every domain has an estimate y_i with a standard error s_i. The model is y_i = mu + u_i + e_i, with u_i ~ N(0, tau^2)
between domains and e_i ~ N(0, s_i^2) within them. Equation numbers refer to ``docs/mathematics_validation.rst``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import chdtrc, gammaincinv, ndtr, ndtri, stdtrit

from ._estimates import Array, check_level

# Scales of a half-normal prior on tau, by the scale of the measure. 0.5 on a logit scale: Röver et al. (2021) propose
# half-normal priors of scale 0.5 for heterogeneity of logarithms of odds, and Debray et al. (2019) take the same scale
# for logit AUC. 1.5 for the logarithm of observed:expected ratios: Debray et al. (2019), who fit it to published
# meta-analyses of prediction models; they use half-t priors of these scales, whose tails are heavier.
TAU_PRIOR_SCALES = {"logit": 0.5, "log_observed_expected": 1.5}
# Zero variances are replaced by this share of the squared spread of all numbers: weights stay finite, and results equal
# the limit to ten digits.
SMALLEST_VARIANCE = 1e-12
GRID_POINTS = 400  # of tau^2 over 16 decades, to separate the maxima of the restricted likelihood
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(200)  # quadrature over tau
NEGLIGIBLE = 40.0  # difference of log densities beyond which a density is left out of a quadrature
MOST_STEPS = 100  # Newton steps for the Q profile; each at least halves the distance in practice
PROBABILITY_END = 1e-12  # probability that is left out at either end of a chi-square distribution


@dataclass(frozen=True)
class RandomEffects:
    """Result of a random-effects meta-analysis.

    Attributes
    ----------
    estimate : float
        Mean over the population of domains; with a prior, its posterior mean.
    se : float
        Standard error of the mean, by Hartung and Knapp; with a prior, the posterior standard deviation.
    interval : tuple of float
        Confidence interval of the mean; with a prior, the credible interval.
    tau : float
        Standard deviation between domains (REML); with a prior, the posterior median. NaN for a single domain without a
        prior, which has no information about it.
    i2 : float
        Share of the variance that is due to differences between domains, from 0 to 1.
    q : float
        Cochran's Q, the weighted sum of squared differences from the fixed-effect mean.
    q_p_value : float
        p-value of Q for equal performance on all domains.
    prediction_interval : tuple of float
        Interval for the true performance on a new domain.
    degrees_of_freedom : float
        Of both intervals: number of domains minus 1. Infinite with a prior, where the intervals are posterior
        quantiles.
    n_domains : int
        Domains that entered.
    n_dropped : int
        Domains without a finite estimate or standard error.
    level : float
        Nominal coverage of both intervals.
    tau_prior : float or None
        Scale of the half-normal prior on tau.
    """

    estimate: float
    se: float
    interval: tuple[float, float]
    tau: float
    i2: float
    q: float
    q_p_value: float
    prediction_interval: tuple[float, float]
    degrees_of_freedom: float
    n_domains: int
    n_dropped: int = 0
    level: float = 0.95
    tau_prior: float | None = None

    @property
    def tau2(self) -> float:
        """Variance between domains."""
        return self.tau**2


def random_effects(
    estimates: ArrayLike, standard_errors: ArrayLike, *, level: float = 0.95, tau_prior: float | None = None
) -> RandomEffects:
    """Random-effects meta-analysis with REML and the Hartung-Knapp interval.

    Without a prior, all numbers except the prediction interval are those of ``rma(yi, sei=..., method="REML",
    test="knha")`` of the R package metafor (version 3.8): tau^2 by restricted maximum likelihood, where the global
    maximum on [0, inf) is taken; the interval of the mean from Student's t with k - 1 degrees of freedom.

    The prediction interval averages over the confidence distribution of tau, since an interval with a single estimate
    of tau covers too little for few domains [6]_. Without sampling error it equals Student's interval with k - 1
    degrees of freedom; it contains the interval of the mean.

    With `tau_prior`, tau has a half-normal prior and the mean a flat one; intervals are quantiles of the posterior,
    computed by quadrature over tau. That gives a usable interval for 2 to 4 domains, where the t quantile is large.

    Parameters
    ----------
    estimates : array-like of shape (n_domains,)
        One estimate per domain, on a scale on which a normal distribution is plausible, such as logit AUC.
    standard_errors : array-like of shape (n_domains,)
        Their standard errors; 0 is allowed. Domains where the estimate or its standard error is not finite are dropped
        and counted.
    level : float, default=0.95
        Nominal coverage of both intervals.
    tau_prior : float, default=None
        Scale of the half-normal prior on tau, in the unit of the estimates. ``TAU_PRIOR_SCALES`` lists scales with
        their sources.

    Returns
    -------
    RandomEffects
        For a single domain without a prior both intervals are infinite, since nothing is known about tau.

    References
    ----------
    .. [1] Viechtbauer (2005), Bias and efficiency of meta-analytic variance estimators in the random-effects model,
       Journal of Educational and Behavioral Statistics 30:261-293.
    .. [2] Hartung and Knapp (2001), A refined method for the meta-analysis of controlled clinical trials with binary
       outcome, Statistics in Medicine 20:3875-3889.
    .. [3] Higgins, Thompson and Spiegelhalter (2009), A re-evaluation of random-effects meta-analysis, Journal of the
       Royal Statistical Society A 172:137-159.
    .. [4] Röver et al. (2021), On weakly informative prior distributions for the heterogeneity parameter in Bayesian
       random-effects meta-analysis, Research Synthesis Methods 12:448-474.
    .. [5] Debray et al. (2019), A framework for meta-analysis of prediction model studies with binary and time-to-event
       outcomes, Statistical Methods in Medical Research 28:2768-2786.
    .. [6] Nagashima, Noma and Furukawa (2019), Prediction intervals for random-effects meta-analysis: A confidence
       distribution approach, Statistical Methods in Medical Research 28:1689-1702.

    Examples
    --------
    >>> from unseen.metrics import random_effects
    >>> result = random_effects([1.1, 0.7, 1.4, 0.9], [0.15, 0.2, 0.2, 0.1])
    >>> round(result.estimate, 3), round(result.tau, 3), round(result.i2, 2)
    (1.014, 0.203, 0.63)
    >>> [round(end, 2) for end in result.interval], [round(end, 2) for end in result.prediction_interval]
    ([0.58, 1.45], [0.02, 2.03])
    """
    check_level(level)
    check_tau_prior(tau_prior)
    y, v, n_dropped = usable_domains(estimates, standard_errors)
    k = len(y)
    q, q_p_value = _heterogeneity_test(y, v)
    if tau_prior is not None:
        posterior = tau_posterior(y, v, tau_prior)
        interval = posterior.quantiles(level, new_domain=False)
        ends = posterior.quantiles(level, new_domain=True)
        mean, se = posterior.moments()
        tau = posterior.median_tau()
        degrees_of_freedom = np.inf
    elif k == 1:
        interval = ends = (-np.inf, np.inf)
        mean, se = float(y[0]), float(np.sqrt(v[0]))
        tau = np.nan
        degrees_of_freedom = 0.0
    else:
        tau2 = restricted_maximum_likelihood(y, v)
        mean, variance, residual = weighted_mean(tau2, y, v)
        # The Hartung-Knapp factor residual / (k - 1) estimates 1 and corrects for weights that are estimates.
        se = float(np.sqrt(variance * residual / (k - 1)))
        reach = float(stdtrit(k - 1, (1 + level) / 2)) * se
        interval = (mean - reach, mean + reach)
        equal_mean, equal_variance, _ = weighted_mean(0.0, y, v)
        ends = prediction_interval(tau_confidence_distribution(y, v), interval, equal_mean, equal_variance, level)
        tau = float(np.sqrt(tau2))
        degrees_of_freedom = float(k - 1)
    return RandomEffects(
        estimate=mean,
        se=se,
        interval=interval,
        tau=tau,
        i2=share_between_domains(tau**2, v),
        q=q,
        q_p_value=q_p_value,
        prediction_interval=ends,
        degrees_of_freedom=degrees_of_freedom,
        n_domains=k,
        n_dropped=n_dropped,
        level=level,
        tau_prior=tau_prior,
    )


def check_tau_prior(tau_prior: float | None) -> None:
    """Raise unless the scale of a prior is positive and finite."""
    if tau_prior is not None and not (np.isfinite(tau_prior) and tau_prior > 0):
        raise ValueError(f"tau_prior={tau_prior!r} is not allowed. Use a positive number, such as 0.5, or None.")


def usable_domains(estimates: ArrayLike, standard_errors: ArrayLike) -> tuple[Array, Array, int]:
    """Return finite estimates, their variances, and the number of domains that were dropped."""
    y = np.atleast_1d(np.asarray(estimates, dtype=np.float64))
    s = np.atleast_1d(np.asarray(standard_errors, dtype=np.float64))
    if y.ndim != 1 or y.shape != s.shape:
        raise ValueError(
            f"estimates has shape {y.shape} and standard_errors has shape {s.shape}. Give one number per domain."
        )
    if np.any(s < 0):
        raise ValueError(f"standard_errors has the negative value {float(s[s < 0][0])!r}. Give values of 0 or more.")
    usable = np.isfinite(y) & np.isfinite(s)
    if not usable.any():
        raise ValueError(
            f"None of the {len(y)} domains has a finite estimate and a finite standard error; at least one is needed."
        )
    y, v = y[usable], s[usable] ** 2
    spread = max(float(np.ptp(y)) ** 2, float(v.max()))
    if spread == 0:
        spread = max(float(y[0]) ** 2, 1.0)
    return y, np.maximum(v, SMALLEST_VARIANCE * spread), int((~usable).sum())


def weighted_mean(tau2: float, y: Array, v: Array) -> tuple[float, float, float]:
    """Mean with weights 1 / (v + tau2), its variance, and the weighted sum of squared residuals (equation 1)."""
    w = 1 / (v + tau2)
    total = float(w.sum())
    mean = float(w @ y) / total
    return mean, 1 / total, float(w @ (y - mean) ** 2)


def restricted_maximum_likelihood(y: Array, v: Array) -> float:
    """Return the variance between domains at the global maximum of the restricted likelihood (equation 2)."""
    if np.ptp(y) == 0:
        return 0.0
    spread = float(np.var(y, ddof=1))
    # Beyond this bound the score is negative: it is at most (w_max^2 SS - (k - 1) w_min) / 2.
    upper = spread + float(np.sqrt(spread * v.max()))
    grid = np.concatenate([[0.0], upper * np.geomspace(1e-16, 1.0, GRID_POINTS)])
    scores = _restricted_score(grid, y, v)
    candidates = [0.0]
    for i in np.flatnonzero((scores[:-1] > 0) & (scores[1:] <= 0)):
        root = brentq(_scalar_score, grid[i], grid[i + 1], args=(y, v), xtol=1e-15 * upper, rtol=1e-14)
        candidates.append(float(root))
    likelihoods = restricted_log_likelihood(np.array(candidates), y, v)
    return candidates[int(np.argmax(likelihoods))]


def restricted_log_likelihood(tau2: Array, y: Array, v: Array) -> Array:
    """Restricted log likelihood at several values of tau^2, up to a constant (equation 2)."""
    w = 1 / (v + tau2[:, None])
    total = w.sum(axis=1)
    mean = (w @ y) / total
    residual = (w * (y - mean[:, None]) ** 2).sum(axis=1)
    return 0.5 * (np.log(w).sum(axis=1) - np.log(total) - residual)


def _restricted_score(tau2: Array, y: Array, v: Array) -> Array:
    """Derivative of the restricted log likelihood by tau^2."""
    w = 1 / (v + tau2[:, None])
    total = w.sum(axis=1)
    mean = (w @ y) / total
    squares = (w**2 * (y - mean[:, None]) ** 2).sum(axis=1)
    trace = total - (w**2).sum(axis=1) / total
    return 0.5 * (squares - trace)


def _scalar_score(tau2: float, y: Array, v: Array) -> float:
    return float(_restricted_score(np.array([tau2]), y, v)[0])


def _heterogeneity_test(y: Array, v: Array) -> tuple[float, float]:
    """Cochran's Q and its p-value."""
    if len(y) == 1:
        return 0.0, 1.0
    q = weighted_mean(0.0, y, v)[2]
    return q, float(chdtrc(len(y) - 1, q))


def share_between_domains(tau2: float, v: Array) -> float:
    """I^2 from tau^2 and the typical variance within domains, as metafor defines it (equation 5)."""
    k = len(v)
    if k == 1:
        return np.nan
    w = 1 / v
    typical = (k - 1) * w.sum() / (w.sum() ** 2 - (w**2).sum())
    return float(tau2 / (tau2 + typical))


@dataclass(frozen=True)
class NormalMixture:
    """A mixture of normal distributions of the mean over domains, one for each of several values of tau.

    Attributes
    ----------
    tau : ndarray of shape (n_nodes,)
        Increasing values of the standard deviation between domains.
    weight : ndarray of shape (n_nodes,)
        Their probabilities.
    mean : ndarray of shape (n_nodes,)
        Mean over domains, given tau.
    variance : ndarray of shape (n_nodes,)
        Variance of that mean, given tau.
    """

    tau: Array
    weight: Array
    mean: Array
    variance: Array

    def quantiles(self, level: float, *, new_domain: bool, extra_variance: float = 0.0) -> tuple[float, float]:
        """Ends of the equal-tailed interval of the mean or, with `new_domain`, of a new domain.

        `extra_variance` is added to each component, for the sampling error of an estimate on the new domain.
        """
        variance = self.variance + extra_variance + (self.tau**2 if new_domain else 0.0)
        spread = np.sqrt(variance)
        tail = (1 - level) / 2
        low = _mixture_quantile(tail, self.weight, self.mean, spread)
        high = _mixture_quantile(1 - tail, self.weight, self.mean, spread)
        return low, high

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the mean over domains."""
        mean = float(self.weight @ self.mean)
        return mean, float(np.sqrt(self.weight @ (self.variance + (self.mean - mean) ** 2)))

    def median_tau(self) -> float:
        """Median of tau."""
        cumulative = np.cumsum(self.weight) - self.weight / 2
        return float(np.interp(0.5, cumulative, self.tau))


def _mixture_quantile(probability: float, weight: Array, mean: Array, spread: Array) -> float:
    """Quantile of a mixture of normal distributions."""
    positive = spread > 0
    if not positive.all():
        # Components without spread have a step at their mean, which a normal distribution of a tiny spread replaces.
        spread = np.where(positive, spread, np.finfo(np.float64).tiny)

    def excess(z: float) -> float:
        with np.errstate(over="ignore"):
            return float(weight @ ndtr((z - mean) / spread)) - probability

    ends = mean + spread * ndtri(probability)
    low, high = float(ends.min()), float(ends.max())
    if high - low <= 1e-14 * max(abs(low), abs(high)) or excess(low) >= 0:
        return low
    if excess(high) <= 0:
        return high
    return float(brentq(excess, low, high, xtol=1e-12 * (high - low), rtol=1e-13))


def tau_posterior(y: Array, v: Array, scale: float) -> NormalMixture:
    """Posterior of tau and of the mean, with a half-normal prior on tau and a flat one on the mean (equation 7)."""

    def log_likelihood(log_tau: Array) -> Array:
        if len(y) == 1:
            return np.zeros_like(log_tau)
        return restricted_log_likelihood(np.exp(2 * log_tau), y, v)

    log_tau, weight = half_normal_nodes(log_likelihood, scale)
    tau = np.exp(log_tau)
    w = 1 / (v + tau[:, None] ** 2)
    total = w.sum(axis=1)
    return NormalMixture(tau, weight, (w @ y) / total, 1 / total)


def half_normal_nodes(log_likelihood: Callable[[Array], Array], scale: float) -> tuple[Array, Array]:
    """Logarithms of tau and their probabilities under a half-normal prior and a likelihood of the logarithm of tau.

    Gauss-Legendre quadrature over the logarithm of tau, where the density is smooth and not negligible.
    """

    def log_density(log_tau: Array) -> Array:
        return -0.5 * (np.exp(log_tau) / scale) ** 2 + log_likelihood(log_tau) + log_tau

    coarse = np.log(scale) + np.linspace(-30.0, np.log(10.0), 1000)
    density = log_density(coarse)
    kept = np.flatnonzero(density > density.max() - NEGLIGIBLE)
    low = coarse[max(kept[0] - 1, 0)]
    high = coarse[min(kept[-1] + 1, len(coarse) - 1)]
    log_tau = low + (high - low) * (NODES + 1) / 2
    fine = log_density(log_tau)
    weight = NODE_WEIGHTS * np.exp(fine - fine.max())
    return log_tau, weight / weight.sum()


def tau_confidence_distribution(y: Array, v: Array) -> NormalMixture:
    """Confidence distribution of tau from the Q profile, and the mean given tau (equations 8 and 9).

    Q(tau^2) has a chi-square distribution with k - 1 degrees of freedom at the true tau^2 and decreases with tau^2, so
    each quantile q of that distribution gives one value of tau^2: the solution of Q(tau^2) = q, or 0 if there is none.
    Where it is 0, the variance of the mean has the Hartung-Knapp factor Q(0) / q, which is below 1.
    """
    k = len(y)
    if k < 2:
        raise ValueError("A confidence distribution of tau needs at least 2 domains.")
    q, weight = chi_square_nodes(k - 1)
    tau2 = invert_q_profile(q, y, v)
    w = 1 / (v + tau2[:, None])
    total = w.sum(axis=1)
    mean = (w @ y) / total
    residual = (w * (y - mean[:, None]) ** 2).sum(axis=1)
    variance = np.minimum(residual / q, 1.0) / total
    return NormalMixture(np.sqrt(tau2), weight, mean, variance)


def chi_square_nodes(degrees: int) -> tuple[Array, Array]:
    """Decreasing values of a chi-square distribution and their probabilities, by quadrature over the logarithm."""
    low, high = np.log(_chi_square_quantile(degrees, np.array([PROBABILITY_END, 1 - PROBABILITY_END])))
    log_q = (low + (high - low) * (NODES + 1) / 2)[::-1]
    log_density = 0.5 * degrees * log_q - 0.5 * np.exp(log_q)
    weight = NODE_WEIGHTS[::-1] * np.exp(log_density - log_density.max())
    return np.exp(log_q), weight / weight.sum()


def prediction_interval(
    mixture: NormalMixture, interval: tuple[float, float], mean: float, variance: float, level: float
) -> tuple[float, float]:
    """Interval for the true performance of a new domain.

    It contains the interval of the mean, and is at least as wide as that of the mean of equal domains, so that values
    that agree by chance do not give an interval that is narrower than their sampling error.
    """
    low, high = mixture.quantiles(level, new_domain=True)
    reach = float(ndtri((1 + level) / 2) * np.sqrt(variance))
    return min(low, interval[0], mean - reach), max(high, interval[1], mean + reach)


def _chi_square_quantile(degrees: int, probability: Array) -> Array:
    return 2 * np.asarray(gammaincinv(degrees / 2, probability))


def invert_q_profile(q: Array, y: Array, v: Array) -> Array:
    """Solve Q(tau^2) = q for each q; 0 where Q(0) is smaller.

    1 / Q is an increasing and concave function of tau^2 (and linear for equal variances), so that Newton's method from
    0 approaches the solution from the left without overshooting.
    """
    tau2 = np.zeros_like(q)
    if np.ptp(y) == 0:
        return tau2
    for _ in range(MOST_STEPS):
        w = 1 / (v + tau2[:, None])
        mean = (w @ y) / w.sum(axis=1)
        squares = w * (y - mean[:, None]) ** 2
        profile = squares.sum(axis=1)
        slope = (w * squares).sum(axis=1)
        step = profile * (profile / q - 1) / slope
        step = np.maximum(step, -tau2)
        tau2 = tau2 + step
        if np.all(np.abs(step) <= 1e-12 * tau2):
            break
    return tau2
