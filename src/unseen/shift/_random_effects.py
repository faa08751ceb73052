"""Random-effects meta-analysis by restricted maximum likelihood, with the interface of ``unseen.metrics``.

Once ``unseen.metrics.random_effects`` is available, `_column_shift` imports that one, and this file goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import chdtrc, stdtrit

GRID_POINTS = 60  # of tau over six decades: separates the maxima of the restricted likelihood


@dataclass(frozen=True)
class RandomEffects:
    """Mean over the population of domains, its standard error, and the standard deviation between domains.

    Attributes
    ----------
    estimate, se : float
        The mean and its standard error by Hartung and Knapp.
    interval : tuple of float
        95% confidence interval of the mean.
    tau : float
        Standard deviation between domains; NaN for a single domain.
    q_p_value : float
        p-value of Cochran's Q for equal values in all domains.
    n_domains : int
        Domains that entered.
    """

    estimate: float
    se: float
    interval: tuple[float, float]
    tau: float
    q_p_value: float
    n_domains: int


def random_effects(estimates: ArrayLike, standard_errors: ArrayLike, *, level: float = 0.95) -> RandomEffects:
    """Random-effects meta-analysis with REML and the Hartung-Knapp interval.

    Parameters
    ----------
    estimates, standard_errors : array-like of shape (n_domains,)
        One estimate per domain; standard errors are positive.
    level : float, default=0.95
        Nominal coverage of the interval.

    Returns
    -------
    RandomEffects
        For a single domain the interval is infinite, since nothing is known about tau.
    """
    y = np.asarray(estimates, dtype=float)
    variances = np.asarray(standard_errors, dtype=float) ** 2
    k = len(y)
    if k < 2:
        return RandomEffects(float(y[0]), float(np.sqrt(variances[0])), (-np.inf, np.inf), np.nan, np.nan, k)

    def criterion(log_tau: float) -> float:
        """Minus twice the restricted log likelihood."""
        total = variances + np.exp(2 * log_tau)
        weights = 1 / total
        mean = weights @ y / weights.sum()
        return float(np.log(total).sum() + np.log(weights.sum()) + weights @ (y - mean) ** 2)

    size = np.log(max(np.ptp(y), np.sqrt(variances.max())))
    grid = np.linspace(size - np.log(1e5), size + np.log(10.0), GRID_POINTS)
    values = [criterion(point) for point in grid]
    best = int(np.argmin(values))
    tau = 0.0
    zero = criterion(-np.inf)
    bracket = (grid[max(best - 1, 0)], grid[min(best + 1, GRID_POINTS - 1)])
    refined = minimize_scalar(criterion, bounds=bracket, method="bounded", options={"xatol": 1e-10})
    if best > 0 and refined.fun < zero:
        tau = float(np.exp(refined.x))
    weights = 1 / (variances + tau**2)
    mean = float(weights @ y / weights.sum())
    se = float(np.sqrt(weights @ (y - mean) ** 2 / (k - 1) / weights.sum()))
    half = float(stdtrit(k - 1, 0.5 + level / 2)) * se
    fixed = 1 / variances
    q = float(fixed @ (y - fixed @ y / fixed.sum()) ** 2)
    return RandomEffects(mean, se, (mean - half, mean + half), tau, float(chdtrc(k - 1, q)), k)
