"""One number that was measured on a domain, with its standard error, interval and scale for meta-analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtri

Array = NDArray[np.float64]
Outcomes = NDArray[np.bool_]


@dataclass(frozen=True)
class Scale:
    """A scale without bounds for a measure with the range from `low` to `high`, on which domains are summarized.

    It is the logit if both ends are finite, the logarithm of the distance if one of them is, and the measure otherwise.

    Attributes
    ----------
    low, high : float
        Range of the measure; infinite where it has no bound.
    offset : float
        Added to the distances from both ends, so that values at an end are finite; a share of the range if both ends
        are finite.

    Examples
    --------
    >>> from unseen.metrics import Scale
    >>> Scale(0, 1).inverse(0.0), Scale(0, float("inf")).inverse(0.0), Scale().inverse(0.0)
    (0.5, 1.0, 0.0)
    """

    low: float = -np.inf
    high: float = np.inf
    offset: float = 0.0

    @property
    def name(self) -> Literal["identity", "log", "logit"]:
        """Name of the transformation."""
        names: tuple[Literal["identity", "log", "logit"], ...] = ("identity", "log", "logit")
        return names[int(np.isfinite([self.low, self.high]).sum())]

    def transform(self, values: Any) -> Any:
        """Return the points of the scale of values; infinite at the ends of their range, unless there is an offset."""
        with np.errstate(divide="ignore"):
            if self.name == "logit":
                share = (values - self.low) / (self.high - self.low)
                return np.log(np.divide(share + self.offset, 1 - share + self.offset))
            return np.log(self.distance(values) + self.offset) if self.name == "log" else values

    def inverse(self, z: float) -> float:
        """Return the value at a point of the scale."""
        if self.name == "logit":
            share = float(expit(z)) * (1 + 2 * self.offset) - self.offset
            return self.low + (self.high - self.low) * min(max(share, 0.0), 1.0)
        if self.name == "log":
            with np.errstate(over="ignore"):
                distance = max(float(np.exp(z)) - self.offset, 0.0)
            return self.low + distance if np.isfinite(self.low) else self.high - distance
        return float(z)

    def inverse_interval(self, ends: tuple[float, float]) -> tuple[float, float]:
        """Return the interval of values between two points of the scale."""
        low, high = sorted(self.inverse(end) for end in ends)
        return low, high

    def derivative(self, value: float) -> float:
        """Return the absolute derivative of the transformation at a value."""
        with np.errstate(divide="ignore"):
            if self.name == "logit":
                return float(np.divide(self.high - self.low, (value - self.low) * (self.high - value)))
            return float(np.divide(1.0, self.distance(value))) if self.name == "log" else 1.0

    def distance(self, values: Any) -> Any:
        """Return the distance from the end of the range, if it has one."""
        return values - self.low if np.isfinite(self.low) else self.high - values


IDENTITY = Scale()
POSITIVE = Scale(0.0, np.inf)
SHARE = Scale(0.0, 1.0)
CONTINUITY = 0.5  # successes, failures or events that are added at the ends of a range (Haldane and Anscombe)


@dataclass(frozen=True)
class Estimate:
    """A measure of performance on one domain.

    Attributes
    ----------
    value : float
        The measure; NaN where it is not defined.
    se : float
        Its standard error.
    interval : tuple of float
        Confidence interval of the measure.
    scale : Scale
        Range of the measure and the scale on which domains are summarized.
    scaled_value : float
        The measure on that scale; finite also where the measure is at an end of its range.
    scaled_se : float
        Its standard error on that scale.
    counts : tuple of float or None
        Successes and rows of a share, or observed and expected events of a ratio, which
        :func:`count_random_effects` summarizes over domains; None for other measures.
    """

    value: float
    se: float
    interval: tuple[float, float]
    scale: Scale = IDENTITY
    scaled_value: float = np.nan
    scaled_se: float = np.nan
    counts: tuple[float, float] | None = None

    @classmethod
    def make_undefined(cls, scale: Scale = IDENTITY, counts: tuple[float, float] | None = None) -> Estimate:
        """Return an estimate that is not defined, such as the AUC of a domain with one class."""
        return cls(np.nan, np.nan, (np.nan, np.nan), scale, counts=counts)

    @classmethod
    def from_value(cls, value: float, se: float, scale: Scale, level: float) -> Estimate:
        """Return an estimate with the standard error of the delta method on its scale."""
        scaled_value = float(scale.transform(value))
        if not (np.isfinite(se) and np.isfinite(scaled_value)):
            return cls(value, se, (scale.low, scale.high), scale)
        return cls.from_scaled(value, se, scale, scaled_value, se * scale.derivative(value), level)

    @classmethod
    def from_scaled(
        cls,
        value: float,
        se: float,
        scale: Scale,
        scaled_value: float,
        scaled_se: float,
        level: float,
        counts: tuple[float, float] | None = None,
    ) -> Estimate:
        """Return an estimate whose interval is symmetric on the scale for meta-analysis."""
        reach = float(ndtri((1 + level) / 2)) * scaled_se
        low, high = scale.inverse_interval((scaled_value - reach, scaled_value + reach))
        return cls(value, se, (min(low, value), max(high, value)), scale, scaled_value, scaled_se, counts)


def check_level(level: float) -> None:
    """Raise unless a nominal coverage lies between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level={level!r} is not allowed. Use a number between 0 and 1, such as 0.95.")


def check_predictions(
    y_true: ArrayLike, predictions: ArrayLike, level: float = 0.95, name: str = "probabilities"
) -> tuple[Outcomes, Array]:
    """Return binary outcomes as booleans, True for the event, and one finite prediction for each."""
    check_level(level)
    y = np.asarray(y_true)
    if y.ndim != 1 or len(y) == 0:
        raise ValueError(f"y_true has shape {y.shape}. Give a sequence with one outcome per row, and at least one row.")
    is_outcome = np.isin(y, (0, 1))
    if not is_outcome.all():
        other = y[~is_outcome][0]
        raise ValueError(f"y_true has the value {other!r}. Use 1 (or True) for the event and 0 (or False) otherwise.")
    p = np.asarray(predictions, dtype=np.float64)
    if p.shape != y.shape:
        raise ValueError(f"{name} has shape {p.shape}, but y_true has {len(y)} rows. Give one number per row.")
    if not np.isfinite(p).all():
        raise ValueError(f"{name} has {int((~np.isfinite(p)).sum())} values that are not finite. Remove these rows.")
    outside = p[(p < 0) | (p > 1)]
    if name == "probabilities" and len(outside):
        raise ValueError(f"probabilities has the value {float(outside[0])!r}. Give probabilities between 0 and 1.")
    return y.astype(np.bool_), p
