"""Control charts for statistics of batches, with limits that account for many looks.

The chart is a self-starting exponentially weighted moving average (EWMA). Each value is compared with the values before
it, so that no reference period is needed: if the t-th value is one of t independent normal values, then

    u_t = sqrt((t - 1) / t) (x_t - mean_{t-1}) / s_{t-1}

has Student's t distribution with t - 2 degrees of freedom, and q_t = Phi^-1(F_{t-2}(u_t)) is standard normal and
independent of the values before (Quesenberry 1991). The chart is E_t = (1 - r) E_{t-1} + r q_t, and an alarm is raised
where it exceeds L standard deviations of its limiting distribution. L is computed such that the average number of
batches until a false alarm has the value that the user states, for all charts of a history together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtr

from ..linalg import Array

EWMA_RATE = 0.2
RUN_LENGTH = 500.0  # default average number of batches until a false alarm
N_STATES = 201  # of the Markov chain; the run length changes by less than 1% beyond
LIMIT_RANGE = (0.5, 7.0)  # in which L is searched
MIN_EARLIER_VALUES = 2  # before a value can be judged
# A standard score is limited, so that one value beyond all digits of a normal distribution stays finite.
MAX_SCORE = 8.0
# A spread below this share of the mean is rounding.
MIN_RELATIVE_SPREAD = 1e-9


@dataclass(frozen=True, eq=False)
class ControlChart:
    """EWMA charts of several statistics.

    Attributes
    ----------
    ewma : ndarray of shape (n_batches, n_series)
        The charts; NaN before they start and where a value is missing.
    limit : float
        An alarm is raised where the absolute value exceeds this.
    alarms : ndarray of bool of shape (n_batches, n_series)
        Where it does.
    """

    ewma: Array
    limit: float
    alarms: np.ndarray


def draw_control_chart(values: Array, run_length: float = RUN_LENGTH) -> ControlChart:
    """Compute the charts of series of statistics of batches.

    Parameters
    ----------
    values : ndarray of shape (n_batches, n_series)
        Statistics on a scale on which they are about normal; NaN where there is none.
    run_length : float, default=500
        Average number of batches until a false alarm of any of the charts, while nothing changes.

    Returns
    -------
    chart : ControlChart
        The charts, the common limit and the alarms. Values at which a chart raises an alarm do not enter the mean and
        standard deviation with which later values are compared.
    """
    if not run_length > 1:
        raise ValueError(
            f"run_length={run_length:g} must be greater than 1, the number of batches until a false alarm."
        )
    n_series = values.shape[1]
    # If charts were independent their false alarms would add up; dependent charts have fewer.
    multiplier = limit_multiplier(run_length * max(n_series, 1))
    limit = multiplier * np.sqrt(EWMA_RATE / (2 - EWMA_RATE))
    counts = np.zeros(n_series)
    means = np.zeros(n_series)
    squares = np.zeros(n_series)  # sums of squared deviations from the mean
    level = np.zeros(n_series)
    ewma = np.full(values.shape, np.nan)
    alarms = np.zeros(values.shape, dtype=bool)
    for t, x in enumerate(values):
        is_given = np.isfinite(x)
        is_judged = is_given & (counts >= MIN_EARLIER_VALUES)
        scores = _standard_scores(np.where(is_given, x, 0.0), counts, means, squares)
        level = np.where(is_judged, (1 - EWMA_RATE) * level + EWMA_RATE * scores, level)
        ewma[t, is_judged] = level[is_judged]
        alarms[t] = is_judged & (np.abs(level) > limit)
        enters = is_given & ~alarms[t]
        counts = counts + enters
        deviation = np.where(enters, x, means) - means
        means = means + deviation / np.maximum(counts, 1)
        squares = squares + deviation * (np.where(enters, x, means) - means)
    return ControlChart(ewma, float(limit), alarms)


def _standard_scores(x: Array, counts: Array, means: Array, squares: Array) -> Array:
    """Standard normal scores q_t of values, given moments of the values before."""
    degrees = np.maximum(counts - 1, 1)
    spread = np.sqrt(squares / degrees)
    smallest = MIN_RELATIVE_SPREAD * np.maximum(np.abs(means), 1)
    u = np.sqrt(counts / (counts + 1)) * (x - means) / np.maximum(spread, smallest)
    u = np.where((spread <= smallest) & (np.abs(x - means) <= smallest), 0.0, u)
    # The lower tail is accurate far from the center; the upper one follows from symmetry.
    return -np.sign(u) * np.clip(ndtri(stdtr(degrees, -np.abs(u))), -MAX_SCORE, 0.0)


@cache
def limit_multiplier(run_length: float) -> float:
    """L for which the average run length of one chart of standard normal values is as given."""
    low, high = LIMIT_RANGE
    if run_length >= average_run_length(high):
        return high
    return float(brentq(lambda L: np.log(average_run_length(L) / run_length), low, high, xtol=1e-6))


def average_run_length(multiplier: float) -> float:
    """Average number of values until an EWMA chart of standard normal values exceeds its limit.

    The chart is approximated by a Markov chain on intervals of equal width between the limits (Brook and Evans 1972):
    with the transition probabilities Q between them, the run lengths are the solution of (I - Q) a = 1.
    """
    limit = multiplier * np.sqrt(EWMA_RATE / (2 - EWMA_RATE))
    edges = np.linspace(-limit, limit, N_STATES + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    distances = (edges[None, :] - (1 - EWMA_RATE) * middles[:, None]) / EWMA_RATE
    transitions = np.diff(ndtr(distances), axis=1)
    lengths = np.linalg.solve(np.eye(N_STATES) - transitions, np.ones(N_STATES))
    return float(lengths[N_STATES // 2])
