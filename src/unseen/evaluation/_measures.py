"""Measures of performance on each site, and their random-effects summary over sites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..linalg import Array
from ..metrics import (
    TAU_PRIOR_SCALES,
    Estimate,
    RandomEffects,
    Scale,
    auc,
    brier_score,
    calibration_in_the_large,
    calibration_slope,
    count_random_effects,
    log_loss,
    observed_expected_ratio,
    random_effects,
    scaled_brier_score,
    threshold_performance,
)
from ..model_selection import MAX_USABLE_SHARE, MIN_DOMAINS_FOR_INTERVAL, domains_for_interval, is_informative
from ..utils.validation import Labels

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
            "probability that a random row with the event has a higher predicted risk than a random row without it",
            ideal=0.5,
            tau_prior=LOGIT_PRIOR,
            has_band=True,
        ),
        Measure(
            "calibration_in_the_large",
            "Calibration in the large",
            "0 if predicted risks are right on average; positive if events are more frequent than predicted",
            ideal=0.0,
            tau_prior=LOGIT_PRIOR,
            has_band=True,
        ),
        Measure(
            "calibration_slope",
            "Calibration slope",
            "1 if the spread of predicted risks is right; below 1 if high risks are too high and low risks too low",
            ideal=1.0,
            has_band=True,
        ),
        Measure(
            "observed_expected",
            "Observed:expected ratio",
            "observed events over the sum of predicted risks",
            ideal=1.0,
            tau_prior=TAU_PRIOR_SCALES["log_observed_expected"],
            has_band=True,
        ),
        Measure("brier", "Brier score", "mean squared error of predicted risks; lower is better"),
        Measure(
            "scaled_brier",
            "Scaled Brier score",
            "1 minus the Brier score over that of the prevalence; 0 for the prevalence itself, 1 is perfect",
            ideal=0.0,
        ),
        Measure(
            "sensitivity",
            "Sensitivity",
            "share of rows with the event that are above the threshold",
            tau_prior=LOGIT_PRIOR,
            has_band=True,
        ),
        Measure(
            "specificity",
            "Specificity",
            "share of rows without the event that are below the threshold",
            tau_prior=LOGIT_PRIOR,
            has_band=True,
        ),
        Measure(
            "ppv",
            "Positive predictive value",
            "share of rows above the threshold that have the event",
            tau_prior=LOGIT_PRIOR,
        ),
        Measure(
            "npv",
            "Negative predictive value",
            "share of rows below the threshold that do not have the event",
            tau_prior=LOGIT_PRIOR,
        ),
        Measure(
            "net_benefit",
            "Net benefit against none",
            "true positives minus false positives weighted by the stated odds, per row",
            ideal=0.0,
            has_band=True,
        ),
        Measure(
            "net_benefit_over_all",
            "Net benefit against all",
            "net benefit of the model minus that of flagging every row",
            ideal=0.0,
            has_band=True,
        ),
        Measure("log_loss", "Log loss", "mean of minus the logarithm of the probability of the true class"),
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
        On the scale `scale`; None if the measure is not defined on any site, or if there is one site only.
    scale : Scale
        Range of the measure, and the scale of `effects`.
    single : Estimate or None
        The estimate of the site, if there is one only.
    explanation : str
        Why the prediction interval is not informative and how many sites it needs; empty if it is informative.
    values : tuple of float
        Values of the sites at which the measure is defined.
    """

    method: str
    measure: str
    of_class: Any
    effects: RandomEffects | None
    scale: Scale
    single: Estimate | None = None
    explanation: str = ""
    values: tuple[float, ...] = field(default=(), repr=False)

    @property
    def is_defined(self) -> bool:
        """Whether the measure is defined on any site."""
        return self.effects is not None or self.single is not None

    @property
    def value(self) -> float:
        """Mean over sites, on the scale of the measure."""
        if self.single is not None:
            return self.single.value
        return np.nan if self.effects is None else self.scale.inverse(self.effects.estimate)

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the mean over sites, on the scale of the measure."""
        if self.single is not None:
            return self.single.interval
        return (np.nan, np.nan) if self.effects is None else self.scale.inverse_interval(self.effects.interval)

    @property
    def prediction_interval(self) -> tuple[float, float]:
        """Prediction interval for a new site, on the scale of the measure; NaN for a single site."""
        if self.effects is None:
            return np.nan, np.nan
        return self.scale.inverse_interval(self.effects.prediction_interval)

    @property
    def has_range(self) -> bool:
        """Whether there are enough sites for a prediction interval, which may be wide."""
        has_prior = self.effects is not None and self.effects.tau_prior is not None
        is_enough = len(self.values) >= MIN_DOMAINS_FOR_INTERVAL or has_prior
        return is_enough and bool(np.isfinite(self.prediction_interval).all())


def measure_binary(
    events: NDArray[np.bool_], probabilities: Array, threshold: float, odds: float, level: float
) -> dict[str, Estimate]:
    """All measures of predicted risks on one site; `odds` is the weight of a false positive in net benefit."""
    return {
        "auc": auc(events, probabilities, level=level),
        "calibration_in_the_large": calibration_in_the_large(events, probabilities, level=level),
        "calibration_slope": calibration_slope(events, probabilities, level=level).slope,
        "observed_expected": observed_expected_ratio(events, probabilities, level=level),
        "brier": brier_score(events, probabilities, level=level),
        "scaled_brier": scaled_brier_score(events, probabilities, level=level),
        **threshold_performance(events, probabilities, threshold, odds=odds, level=level),
    }


def measure_multiclass(
    y: Labels, probabilities: Array, classes: Sequence[Any], level: float
) -> Iterator[tuple[str, Any, Estimate]]:
    """Log loss, and discrimination and calibration of each class against all others, on one site."""
    yield "log_loss", None, log_loss(y, probabilities, classes, level=level)
    for j, name in enumerate(classes):
        outcomes = np.asarray(y) == name, probabilities[:, j]
        yield "auc", name, auc(*outcomes, level=level)
        yield "calibration_in_the_large", name, calibration_in_the_large(*outcomes, level=level)
        yield "calibration_slope", name, calibration_slope(*outcomes, level=level).slope
        yield "observed_expected", name, observed_expected_ratio(*outcomes, level=level)


def summarize(
    method: str, measure: Measure, of_class: Any, estimates: Sequence[Estimate], *, level: float, use_prior: bool
) -> MeasureSummary:
    """Summarize a measure over sites: shares and ratios by a model of their counts, others by their standard errors."""
    scale = estimates[0].scale
    tau_prior = measure.tau_prior if use_prior else None
    has_counts = any(estimate.counts is not None for estimate in estimates)
    if has_counts:
        counts = np.array([estimate.counts or (0.0, 0.0) for estimate in estimates])
        usable = counts[:, 1] > 0
    else:
        scaled_values = np.array([estimate.scaled_value for estimate in estimates])
        scaled_errors = np.array([estimate.scaled_se for estimate in estimates])
        usable = np.isfinite(scaled_values) & np.isfinite(scaled_errors)
    defined = [estimate for estimate, is_usable in zip(estimates, usable.tolist(), strict=True) if is_usable]
    values = tuple(estimate.value for estimate in defined)
    if not defined:
        return MeasureSummary(method, measure.name, of_class, None, scale)
    if len(estimates) == 1:
        return MeasureSummary(method, measure.name, of_class, None, scale, single=defined[0], values=values)
    if has_counts:
        family: Literal["binomial", "poisson"] = "binomial" if scale.name == "logit" else "poisson"
        effects = count_random_effects(counts[:, 0], counts[:, 1], family, level=level, tau_prior=tau_prior)
    else:
        effects = random_effects(scaled_values, scaled_errors, level=level, tau_prior=tau_prior)
    summary = MeasureSummary(method, measure.name, of_class, effects, scale, values=values)
    return replace(summary, explanation=_explain_interval(summary, measure))


def _explain_interval(summary: MeasureSummary, measure: Measure) -> str:
    """Explain why the prediction interval is not informative, and how many sites it needs; empty if it is."""
    n_sites = len(summary.values)
    low, high = summary.prediction_interval
    limits = summary.scale.low, summary.scale.high
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
