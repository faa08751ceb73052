"""Measures of performance on each site, and their random-effects summary over sites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ..linalg import Array
from ..metrics import (
    TAU_PRIOR_SCALES,
    Estimate,
    RandomEffects,
    auc,
    back_transform,
    brier_score,
    calibration_in_the_large,
    calibration_slope,
    class_calibration,
    expected_performance,
    log_loss,
    observed_expected_ratio,
    one_vs_rest_auc,
    random_effects,
    scaled_brier_score,
    threshold_performance,
)
from ..model_selection import MAX_USABLE_SHARE, MIN_DOMAINS_FOR_INTERVAL, domains_for_interval, is_informative
from ..utils.validation import Labels

UNBOUNDED = (-np.inf, np.inf)
POSITIVE = (0.0, np.inf)
SHARE = (0.0, 1.0)
MANY_SITES = 100  # more are not feasible


@dataclass(frozen=True)
class Measure:
    """A measure of performance.

    Attributes
    ----------
    name : str
        Name in tables.
    label : str
        Name in reports.
    limits : tuple of float
        Range of the measure, which determines the scale on which sites are summarized.
    ideal : float or None
        Value of a perfectly calibrated model, which figures mark.
    tau_prior : float or None
        Scale of an empirical prior on the standard deviation between sites, if one is known.
    has_band : bool
        Whether the report draws a forest plot of this measure.
    explanation : str
        What it measures.
    """

    name: str
    label: str
    limits: tuple[float, float]
    explanation: str
    ideal: float | None = None
    tau_prior: float | None = None
    has_band: bool = False


LOGIT_PRIOR = TAU_PRIOR_SCALES["logit"]
MEASURES = {
    measure.name: measure
    for measure in (
        Measure(
            "auc",
            "AUC (c-statistic)",
            SHARE,
            "probability that a random row with the event has a higher predicted risk than a random row without it",
            ideal=0.5,
            tau_prior=LOGIT_PRIOR,
            has_band=True,
        ),
        Measure(
            "calibration_in_the_large",
            "Calibration in the large",
            UNBOUNDED,
            "0 if predicted risks are right on average; positive if events are more frequent than predicted",
            ideal=0.0,
            tau_prior=LOGIT_PRIOR,
            has_band=True,
        ),
        Measure(
            "calibration_slope",
            "Calibration slope",
            UNBOUNDED,
            "1 if the spread of predicted risks is right; below 1 if high risks are too high and low risks too low",
            ideal=1.0,
            has_band=True,
        ),
        Measure(
            "observed_expected",
            "Observed:expected ratio",
            POSITIVE,
            "observed events over the sum of predicted risks",
            ideal=1.0,
            tau_prior=TAU_PRIOR_SCALES["log_observed_expected"],
            has_band=True,
        ),
        Measure("brier", "Brier score", POSITIVE, "mean squared error of predicted risks; lower is better"),
        Measure(
            "scaled_brier",
            "Scaled Brier score",
            UNBOUNDED,
            "1 minus the Brier score over that of the prevalence; 0 for the prevalence itself, 1 is perfect",
            ideal=0.0,
        ),
        Measure(
            "sensitivity",
            "Sensitivity",
            SHARE,
            "share of rows with the event that are above the threshold",
            tau_prior=LOGIT_PRIOR,
            has_band=True,
        ),
        Measure(
            "specificity",
            "Specificity",
            SHARE,
            "share of rows without the event that are below the threshold",
            tau_prior=LOGIT_PRIOR,
            has_band=True,
        ),
        Measure(
            "ppv",
            "Positive predictive value",
            SHARE,
            "share of rows above the threshold that have the event",
            tau_prior=LOGIT_PRIOR,
        ),
        Measure(
            "npv",
            "Negative predictive value",
            SHARE,
            "share of rows below the threshold that do not have the event",
            tau_prior=LOGIT_PRIOR,
        ),
        Measure(
            "net_benefit",
            "Net benefit",
            UNBOUNDED,
            "true positives minus false positives weighted by the odds of the threshold, per row; treating none has 0",
            ideal=0.0,
            has_band=True,
        ),
        Measure("log_loss", "Log loss", POSITIVE, "mean of minus the logarithm of the probability of the true class"),
    )
}


@dataclass(frozen=True)
class SiteMeasure:
    """A measure of one method on one held-out site.

    Attributes
    ----------
    method, site, measure : str
        The method, the held-out site and the measure.
    of_class : object
        Class that the measure is about; None for measures of all classes.
    estimate : Estimate
        Value with its interval; not defined (NaN) where the site does not allow it, such as the AUC without events.
    """

    method: str
    site: str
    measure: str
    of_class: Any
    estimate: Estimate


@dataclass(frozen=True)
class MeasureSummary:
    """A measure of one method, summarized over sites by a random-effects meta-analysis.

    Attributes
    ----------
    method, measure : str
        The method and the measure.
    of_class : object
        Class that the measure is about; None for measures of all classes.
    effects : RandomEffects or None
        On the scale `scale`; None if the measure is not defined on any site.
    scale : str
        "identity", "log" or "logit".
    new_site : tuple of float
        95% prediction interval for a new site that allows for the uncertainty of tau.
    explanation : str
        Why the prediction interval is not informative and how many sites it needs; empty if it is informative.
    """

    method: str
    measure: str
    of_class: Any
    effects: RandomEffects | None
    scale: str
    new_site: tuple[float, float] = (np.nan, np.nan)
    explanation: str = ""
    values: tuple[float, ...] = field(default=(), repr=False)

    @property
    def value(self) -> float:
        """Estimate on the scale of the measure."""
        return np.nan if self.effects is None else back_transform(self.effects.estimate, self.scale)

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the mean over sites, on the scale of the measure."""
        return self._transform((np.nan, np.nan) if self.effects is None else self.effects.interval)

    @property
    def prediction_interval(self) -> tuple[float, float]:
        """Student's prediction interval for a new site, on the scale of the measure."""
        return self._transform((np.nan, np.nan) if self.effects is None else self.effects.prediction_interval)

    @property
    def t_quantile(self) -> float:
        """Quantile of Student's t in both intervals; NaN with a prior or a single site."""
        if self.effects is None or not np.isfinite(self.effects.degrees_of_freedom):
            return np.nan
        if self.effects.degrees_of_freedom < 1:
            return np.nan
        return float(stdtrit(self.effects.degrees_of_freedom, (1 + self.effects.level) / 2))

    @property
    def has_range(self) -> bool:
        """Whether there are enough sites for a prediction interval, which may be wide."""
        has_prior = self.effects is not None and self.effects.tau_prior is not None
        is_enough = len(self.values) >= MIN_DOMAINS_FOR_INTERVAL or has_prior
        return is_enough and bool(np.isfinite(self.new_site).all())

    def _transform(self, ends: tuple[float, float]) -> tuple[float, float]:
        low, high = ends
        return back_transform(low, self.scale), back_transform(high, self.scale)


def measure_binary(
    events: NDArray[np.bool_], probabilities: Array, threshold: float, level: float
) -> dict[str, Estimate]:
    """All measures of predicted risks on one site; `events` are booleans."""
    at_threshold = threshold_performance(events, probabilities, threshold, level=level)
    return {
        "auc": auc(events, probabilities, level=level),
        "calibration_in_the_large": calibration_in_the_large(events, probabilities, level=level),
        "calibration_slope": calibration_slope(events, probabilities, level=level).slope,
        "observed_expected": observed_expected_ratio(events, probabilities, level=level),
        "brier": brier_score(events, probabilities, level=level),
        "scaled_brier": scaled_brier_score(events, probabilities, level=level),
        "sensitivity": at_threshold.sensitivity,
        "specificity": at_threshold.specificity,
        "ppv": at_threshold.positive_predictive_value,
        "npv": at_threshold.negative_predictive_value,
        "net_benefit": at_threshold.net_benefit,
    }


def measure_multiclass(
    y: Labels, probabilities: Array, classes: Sequence[Any], level: float
) -> Iterator[tuple[str, Any, Estimate]]:
    """Log loss, and discrimination and calibration of each class against all others, on one site."""
    yield "log_loss", None, log_loss(y, probabilities, classes, level=level)
    discrimination = one_vs_rest_auc(y, probabilities, classes, level=level)
    calibration = class_calibration(y, probabilities, classes, level=level)
    for name in classes:
        yield "auc", name, discrimination[name]
        yield "calibration_in_the_large", name, calibration[name].in_the_large
        yield "calibration_slope", name, calibration[name].fit.slope
        yield "observed_expected", name, calibration[name].observed_expected


def summarize(
    method: str,
    measure: Measure,
    of_class: Any,
    estimates: Sequence[Estimate],
    n_rows: Sequence[int],
    *,
    level: float,
    use_prior: bool,
) -> MeasureSummary:
    """Summarize a measure over sites."""
    scale = estimates[0].scale
    scaled_values = np.array([estimate.scaled_value for estimate in estimates])
    scaled_errors = np.array([estimate.scaled_se for estimate in estimates])
    usable = np.isfinite(scaled_values) & np.isfinite(scaled_errors)
    if not usable.any():
        return MeasureSummary(method, measure.name, of_class, None, scale)
    tau_prior = measure.tau_prior if use_prior else None
    effects = random_effects(scaled_values, scaled_errors, level=level, tau_prior=tau_prior)
    values = np.array([estimate.value for estimate in estimates])[usable]
    errors = np.array([estimate.se for estimate in estimates])[usable]
    expected = expected_performance(
        values, errors, measure.limits, n_rows=np.array(n_rows)[usable], level=level, tau_prior=tau_prior
    )
    summary = MeasureSummary(
        method, measure.name, of_class, effects, scale, expected.prediction_interval, values=tuple(values.tolist())
    )
    return replace(summary, explanation=_explain_interval(summary, measure))


def _explain_interval(summary: MeasureSummary, measure: Measure) -> str:
    """Explain why the prediction interval is not informative, and how many sites it needs; empty if it is."""
    n_sites = len(summary.values)
    low, high = summary.new_site
    limits = measure.limits
    if summary.has_range and is_informative(low, high, limits):
        return ""
    half_width = MAX_USABLE_SHARE * (limits[1] - limits[0])
    if n_sites < MIN_DOMAINS_FOR_INTERVAL or not np.isfinite(half_width):
        return f"{measure.label}: a prediction interval needs at least {MIN_DOMAINS_FOR_INTERVAL} sites"
    spread = float(np.std(summary.values, ddof=1))
    reason = f"the range for a new site is wide, because {n_sites} sites have a standard deviation of {spread:.2f}"
    n_needed = domains_for_interval(spread, half_width)
    if n_needed is None or n_needed > MANY_SITES:
        return (
            f"{measure.label}: {reason}; sites differ too much for a feasible number of them to narrow it to "
            f"±{half_width}"
        )
    return f"{measure.label}: {reason}; about {max(n_needed, n_sites + 1)} sites would narrow it to ±{half_width}"
