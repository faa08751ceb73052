"""Mean and spread of samples that come in pieces: moments add up, whatever the pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._cells import Array


@dataclass(frozen=True, eq=False)
class Moments:
    """The number of samples, their mean, and the sum of their squared distances from it.

    Parameters
    ----------
    count : int
        How many samples there are.
    mean : ndarray of shape (n_features,)
        Their mean.
    scatter : float
        The sum of their squared distances from the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.algebra import Moments
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 4.0]])
    >>> total = Moments.of(X[:1]) + Moments.of(X[1:])
    >>> total.count, total.mean.tolist(), round(total.scatter, 9)
    (3, [2.0, 2.0], 14.0)
    """

    count: int
    mean: Array
    scatter: float

    @classmethod
    def of(cls, values: Array) -> Moments:
        """The moments of some samples, none too."""
        if not len(values):
            return cls(0, np.zeros(values.shape[1]), 0.0)
        mean = values.mean(axis=0)
        return cls(len(values), mean, float(np.square(values - mean).sum()))

    @property
    def trace(self) -> float:
        """Trace of the covariance; NaN for fewer than two samples."""
        return self.scatter / (self.count - 1) if self.count > 1 else np.nan

    def __add__(self, other: Moments) -> Moments:
        """Pool two sets of samples (Chan, Golub, LeVeque 1983): no cancellation, however many pieces there are."""
        total = self.count + other.count
        if not total:
            return self
        step = other.mean - self.mean
        between = float(step @ step) * self.count * other.count / total
        return Moments(total, self.mean + step * (other.count / total), self.scatter + other.scatter + between)


def pooled(one: Mapping[Any, Any], two: Mapping[Any, Any]) -> dict[Any, Any]:
    """Moments, or whatever adds up, of several groups, by name, with those of further samples."""
    return {**one, **{name: one[name] + more if name in one else more for name, more in two.items()}}
