"""Sample size that the development of a prediction model needs (Riley's criteria)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, xlogy

from ._estimates import check_outcomes, check_probabilities

SHRINKAGE = 0.9  # smallest acceptable factor by which effects must be shrunk
OPTIMISM = 0.05  # largest acceptable optimism in the share of the highest attainable R2
INTERCEPT_MARGIN = 0.05  # largest acceptable error of the overall risk


@dataclass(frozen=True)
class DevelopmentSize:
    """Rows that the development of a model needs.

    Attributes
    ----------
    shrinkage : float
        For an expected shrinkage of 0.9.
    optimism : float
        For an optimism of at most 0.05 in R2.
    intercept : float
        For a margin of error of at most 0.05 in the overall risk.
    r2 : float
        Cox and Snell's R2 on which the numbers are based.
    n_parameters : int
        Number of predictor parameters.
    """

    shrinkage: float
    optimism: float
    intercept: float
    r2: float
    n_parameters: int

    @property
    def n_rows(self) -> float:
        """Rows that satisfy all criteria."""
        return float(np.nanmax([self.shrinkage, self.optimism, self.intercept]))


def development_size(y_true: ArrayLike, probabilities: ArrayLike, n_parameters: int) -> DevelopmentSize | None:
    """Rows that a model with a binary outcome needs for its development, by the criteria of Riley et al.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        1 for rows with the event, 0 for others.
    probabilities : array-like of shape (n_rows,)
        Predicted probabilities of the event on rows that the model was not fitted to, from which R2 is estimated.
    n_parameters : int
        Number of predictor parameters of the model: one for a number, the number of levels minus one for a category.

    Returns
    -------
    DevelopmentSize or None
        None if the predictions are not better than the prevalence, or if all rows have the same outcome.

    References
    ----------
    .. [1] Riley et al. (2020), Calculating the sample size required for developing a clinical prediction model, BMJ
       368:m441.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.metrics import development_size
    >>> p = np.linspace(0.05, 0.95, 200)
    >>> size = development_size(np.random.default_rng(1).random(200) < p, p, 10)
    >>> round(size.r2, 2), round(size.n_rows)
    (0.28, 384)
    """
    y = check_outcomes(y_true)
    p = check_probabilities("probabilities", probabilities, len(y))
    prevalence = float(y.mean())
    null = float(xlogy(prevalence, prevalence) + xlogy(1 - prevalence, 1 - prevalence))
    likelihood = float(np.mean(xlogy(y, p) + xlogy(~y, 1 - p)))
    r2 = 1 - np.exp(2 * (null - likelihood))
    if not 0 < r2 < 1 or null == 0:
        return None
    highest = 1 - np.exp(2 * null)
    z = float(ndtri(0.975))
    return DevelopmentSize(
        shrinkage=_size_for_shrinkage(SHRINKAGE, r2, n_parameters),
        optimism=_size_for_shrinkage(r2 / (r2 + OPTIMISM * highest), r2, n_parameters),
        intercept=(z / INTERCEPT_MARGIN) ** 2 * prevalence * (1 - prevalence),
        r2=float(r2),
        n_parameters=n_parameters,
    )


def _size_for_shrinkage(shrinkage: float, r2: float, n_parameters: int) -> float:
    return float(n_parameters / ((shrinkage - 1) * np.log(1 - r2 / shrinkage))) if r2 < shrinkage else np.nan
