"""One number that was measured on a domain, with its standard error, interval and scale for meta-analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtri

Array = NDArray[np.float64]
Outcomes = NDArray[np.bool_]


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
    scale : {"identity", "log", "logit"}
        Scale on which domains are summarized.
    scaled_value : float
        The measure on that scale; finite also where the measure is at an end of its range.
    scaled_se : float
        Its standard error on that scale.
    """

    value: float
    se: float
    interval: tuple[float, float]
    scale: Literal["identity", "log", "logit"] = "identity"
    scaled_value: float = np.nan
    scaled_se: float = np.nan

    @classmethod
    def make_undefined(cls, scale: Literal["identity", "log", "logit"] = "identity") -> Estimate:
        """Return an estimate that is not defined, such as the AUC of a domain with one class."""
        return cls(np.nan, np.nan, (np.nan, np.nan), scale)

    @classmethod
    def from_scaled(
        cls,
        value: float,
        se: float,
        scale: Literal["identity", "log", "logit"],
        scaled_value: float,
        scaled_se: float,
        level: float,
    ) -> Estimate:
        """Return an estimate whose interval is symmetric on the scale for meta-analysis."""
        reach = float(ndtri((1 + level) / 2)) * scaled_se
        ends = back_transform(scaled_value - reach, scale), back_transform(scaled_value + reach, scale)
        return cls(value, se, (min(*ends, value), max(*ends, value)), scale, scaled_value, scaled_se)


def back_transform(z: float, scale: str) -> float:
    """Return the measure at a point of the scale for meta-analysis.

    Examples
    --------
    >>> from unseen.metrics import back_transform
    >>> back_transform(0.0, "logit"), back_transform(0.0, "log"), back_transform(0.0, "identity")
    (0.5, 1.0, 0.0)
    """
    if scale == "logit":
        return float(expit(z))
    if scale == "log":
        with np.errstate(over="ignore"):
            return float(np.exp(z))
    if scale == "identity":
        return float(z)
    raise ValueError(f"scale={scale!r} is not allowed. Use 'identity', 'log' or 'logit'.")


def check_outcomes(y_true: ArrayLike) -> Outcomes:
    """Return binary outcomes as booleans, True for the event; raise for anything but 0, 1, False and True."""
    y = np.asarray(y_true)
    if y.ndim != 1 or len(y) == 0:
        raise ValueError(f"y_true has shape {y.shape}. Give a sequence with one outcome per row, and at least one row.")
    if y.dtype != np.bool_ and not np.isin(y, (0, 1)).all():
        other = y[~np.isin(y, (0, 1))][0]
        raise ValueError(f"y_true has the value {other!r}. Use 1 (or True) for the event and 0 (or False) otherwise.")
    return y.astype(np.bool_)


def check_scores(name: str, scores: ArrayLike, n_rows: int) -> Array:
    """Return one finite score per row."""
    array = np.asarray(scores, dtype=np.float64)
    if array.shape != (n_rows,):
        raise ValueError(f"{name} has shape {array.shape}, but y_true has {n_rows} rows. Give one number per row.")
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} has {int((~np.isfinite(array)).sum())} values that are not finite. Remove these rows."
        )
    return array


def check_probabilities(name: str, probabilities: ArrayLike, n_rows: int) -> Array:
    """Return one probability per row."""
    array = check_scores(name, probabilities, n_rows)
    outside = array[(array < 0) | (array > 1)]
    if len(outside):
        raise ValueError(f"{name} has the value {float(outside[0])!r}. Give probabilities between 0 and 1.")
    return array
