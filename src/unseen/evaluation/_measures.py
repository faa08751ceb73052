"""Measures of performance on each site, their random-effects summary over sites, curves, and importance of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit
from sklearn.metrics import roc_curve

from ..linalg import Array, Ints
from ..metrics import (
    TAU_PRIOR_SCALES,
    Estimate,
    RandomEffects,
    Scale,
    auc,
    brier_score,
    calibration_curve,
    calibration_in_the_large,
    calibration_slope,
    count_random_effects,
    decision_curve,
    log_loss,
    observed_expected_ratio,
    random_effects,
    scaled_brier_score,
    threshold_performance,
)
from ..model_selection import (
    MAX_USABLE_SHARE,
    MIN_DOMAINS_FOR_INTERVAL,
    Scorer,
    explain_missing_interval,
    get_metric,
    is_informative,
)
from ..utils.samples import Samples
from ..utils.validation import Labels

Outcomes = NDArray[np.bool_]
FEW_EVENTS = 100  # events (and other rows) below which a site is too small for precise estimates (Collins et al. 2016)


@dataclass(frozen=True)
class Measure:
    """A measure of performance.

    Attributes
    ----------
    label : str
        Name in reports.
    explanation : str
        What it measures.
    ideal : float or None
        Value of a perfectly calibrated model, which figures mark.
    tau_prior : float or None
        Scale of an empirical prior on the standard deviation between sites, if one is known.
    in_forest : bool
        Whether the report draws a forest plot of this measure.
    """

    label: str
    explanation: str
    ideal: float | None = None
    tau_prior: float | None = None
    in_forest: bool = False


LOGIT_PRIOR = TAU_PRIOR_SCALES["logit"]
MEASURES = {
    "auc": Measure(
        "AUC (c-statistic)",
        "probability that a random row with the event has a higher predicted risk than a random row without it",
        ideal=0.5,
        tau_prior=LOGIT_PRIOR,
        in_forest=True,
    ),
    "calibration_in_the_large": Measure(
        "Calibration in the large",
        "0 if predicted risks are right on average; positive if events are more frequent than predicted",
        ideal=0.0,
        tau_prior=LOGIT_PRIOR,
        in_forest=True,
    ),
    "calibration_slope": Measure(
        "Calibration slope",
        "1 if the spread of predicted risks is right; below 1 if high risks are too high and low risks too low",
        ideal=1.0,
        in_forest=True,
    ),
    "observed_expected": Measure(
        "Observed:expected ratio",
        "observed events over the sum of predicted risks",
        ideal=1.0,
        tau_prior=TAU_PRIOR_SCALES["log_observed_expected"],
        in_forest=True,
    ),
    "brier": Measure("Brier score", "mean squared error of predicted risks; lower is better"),
    "scaled_brier": Measure(
        "Scaled Brier score",
        "1 minus the Brier score over that of the prevalence; 0 for the prevalence itself, 1 is perfect",
        ideal=0.0,
    ),
    "sensitivity": Measure(
        "Sensitivity",
        "share of events above the threshold",
        tau_prior=LOGIT_PRIOR,
        in_forest=True,
    ),
    "specificity": Measure(
        "Specificity",
        "share of non-events below the threshold",
        tau_prior=LOGIT_PRIOR,
        in_forest=True,
    ),
    "ppv": Measure(
        "Positive predictive value",
        "share of events among those above the threshold",
        tau_prior=LOGIT_PRIOR,
    ),
    "npv": Measure(
        "Negative predictive value",
        "share of non-events among those below the threshold",
        tau_prior=LOGIT_PRIOR,
    ),
    "net_benefit": Measure(
        "Net benefit against none",
        "share of true positives minus that of false positives, weighted by the stated odds",
        ideal=0.0,
        in_forest=True,
    ),
    "net_benefit_over_all": Measure(
        "Net benefit against all",
        "net benefit of the model minus that of flagging all",
        ideal=0.0,
        in_forest=True,
    ),
    "log_loss": Measure("Log loss", "mean of minus the logarithm of the probability of the true class"),
}


@dataclass(frozen=True)
class MeasureSummary:
    """A measure of one method, summarized over sites by a random-effects meta-analysis.

    Attributes
    ----------
    scale : Scale
        Range of the measure, and the scale of `effects`.
    values : tuple of float
        Values of the sites at which the measure is defined.
    n_dropped : int
        Number of other sites.
    value : float
        Mean over sites, on the scale of the measure; NaN if it is not defined on any site.
    interval : tuple of float
        Confidence interval of the mean over sites.
    prediction_interval : tuple of float
        Prediction interval for a new site; NaN for a single site.
    effects : RandomEffects or None
        None if the measure is not defined on any site, or if there is one site only.
    explanation : str
        Why the prediction interval is not informative and how many sites it needs; empty if it is informative.
    """

    scale: Scale
    values: tuple[float, ...]
    n_dropped: int
    value: float = np.nan
    interval: tuple[float, float] = (np.nan, np.nan)
    prediction_interval: tuple[float, float] = (np.nan, np.nan)
    effects: RandomEffects | None = None
    explanation: str = ""

    @property
    def is_defined(self) -> bool:
        """Whether the measure is defined on any site."""
        return bool(self.values)

    @property
    def has_range(self) -> bool:
        """Whether there are enough sites for a prediction interval, which may be wide."""
        is_enough = len(self.values) >= MIN_DOMAINS_FOR_INTERVAL or getattr(self.effects, "tau_prior", None) is not None
        return is_enough and bool(np.isfinite(self.prediction_interval).all())

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers; those of the meta-analysis are NaN without one."""
        effects = {
            name: getattr(self.effects, name, np.nan) for name in ("tau", "i2", "q", "q_p_value", "degrees_of_freedom")
        }
        return {
            "estimate": self.value,
            "low": self.interval[0],
            "high": self.interval[1],
            "prediction_low": self.prediction_interval[0],
            "prediction_high": self.prediction_interval[1],
            **effects,
            "scale": self.scale.name,
            "scaled_estimate": getattr(self.effects, "estimate", np.nan),
            "scaled_se": getattr(self.effects, "se", np.nan),
            "n_sites": len(self.values),
            "n_dropped": self.n_dropped,
            "has_range": self.has_range,
            "tau_prior": getattr(self.effects, "tau_prior", None),
            "explanation": self.explanation,
        }


def measure_binary(
    events: NDArray[np.bool_], probabilities: Array, threshold: float, odds: float, level: float
) -> dict[str, Estimate]:
    """All measures of predicted risks on one site; `odds` is the weight of a false positive in net benefit."""
    return {
        "auc": auc(events, probabilities, level=level),
        "calibration_in_the_large": calibration_in_the_large(events, probabilities, level=level),
        "calibration_slope": calibration_slope(events, probabilities, level=level),
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
        yield "calibration_slope", name, calibration_slope(*outcomes, level=level)
        yield "observed_expected", name, observed_expected_ratio(*outcomes, level=level)


def summarize(measure: Measure, estimates: Sequence[Estimate], *, level: float, use_prior: bool) -> MeasureSummary:
    """Summarize a measure over sites: shares and ratios by a model of their counts, others by their standard errors."""
    scale = estimates[0].scale
    tau_prior = measure.tau_prior if use_prior else None
    has_counts = any(estimate.counts is not None for estimate in estimates)
    counts = np.array([estimate.counts or (0.0, 0.0) for estimate in estimates])
    scaled_values = np.array([estimate.scaled_value for estimate in estimates])
    scaled_errors = np.array([estimate.scaled_se for estimate in estimates])
    usable = counts[:, 1] > 0 if has_counts else np.isfinite(scaled_values) & np.isfinite(scaled_errors)
    defined = [estimates[i] for i in np.flatnonzero(usable).tolist()]
    values = tuple(estimate.value for estimate in defined)
    summary = MeasureSummary(scale, values, len(estimates) - len(values))
    if not defined:
        return summary
    if len(estimates) == 1:
        return replace(summary, value=defined[0].value, interval=defined[0].interval)
    if has_counts:
        family: Literal["binomial", "poisson"] = "binomial" if scale.name == "logit" else "poisson"
        effects = count_random_effects(counts[:, 0], counts[:, 1], family, level=level, tau_prior=tau_prior)
    else:
        effects = random_effects(scaled_values, scaled_errors, level=level, tau_prior=tau_prior)
    summary = replace(
        summary,
        value=scale.inverse(effects.estimate),
        interval=scale.inverse_interval(effects.interval),
        prediction_interval=scale.inverse_interval(effects.prediction_interval),
        effects=effects,
    )
    if summary.has_range and is_informative(*summary.prediction_interval, (scale.low, scale.high)):
        return summary
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    half_width = MAX_USABLE_SHARE * (scale.high - scale.low)
    reason = explain_missing_interval(len(values), spread, half_width, "{:.2f}".format, level)
    return replace(summary, explanation=f"{measure.label}: {reason}")


CURVE_POINTS = 60  # of each curve, which is finer than its width on a page in pixels / 5
ROC_POINTS = 80
RISK_BINS = 30


def common_thresholds(risks: Array) -> Array:
    """Thresholds of decision curves, up to the highest predicted risks that more than a few rows reach."""
    highest = float(np.quantile(risks, 0.99))
    return np.linspace(0.01, min(max(highest, 0.2), 0.95), CURVE_POINTS)


def make_curves(events: Outcomes, risks: Array, thresholds: Array) -> dict[str, Any]:
    """Curves and risk distributions of some rows; a curve that is not defined is None."""
    decision = decision_curve(events, risks, thresholds)
    reach = float(ndtri(0.975)) * decision.model_se
    curves: dict[str, Any] = {
        "calibration": None,
        "decision": {
            "threshold": decision.thresholds,
            "model": decision.model,
            "treat_all": decision.treat_all,
            "low": decision.model - reach,
            "high": decision.model + reach,
        },
        "roc": None,
        "risks": _risk_distributions(events, risks, float(thresholds[-1])),
    }
    if events.any() and not events.all():
        fpr, tpr, _ = roc_curve(events, risks, drop_intermediate=False)
        kept = np.unique(np.linspace(0, len(fpr) - 1, ROC_POINTS).round().astype(int))
        curves["roc"] = {"fpr": fpr[kept], "tpr": tpr[kept]}
        if np.ptp(risks) > 0:
            curve = calibration_curve(events, risks, n_points=CURVE_POINTS)
            if np.isfinite(curve.observed).all():
                names = ("predicted", "observed", "low", "high")
                curves["calibration"] = {name: getattr(curve, name) for name in names}
    return curves


def _risk_distributions(events: Outcomes, risks: Array, highest: float) -> dict[str, Array]:
    """Shares of rows with and without the event by predicted risk; risks above the highest are in the last bin."""
    edges = np.linspace(0.0, highest, RISK_BINS + 1)
    shares = {"edges": edges}
    for name, rows in (("events", events), ("others", ~events)):
        counts = np.histogram(np.minimum(risks[rows], highest), edges)[0]
        shares[name] = counts / max(int(rows.sum()), 1)
    return shares


IMPORTANCE_METRIC = get_metric("roc_auc")  # it needs neither a threshold nor calibrated risks
IMPORTANCE_LEVEL = 0.95  # of intervals
MAX_IMPORTANCE_ROWS = 500  # of a site
MAX_BATCH_ROWS = 20_000  # that are predicted at once
N_PERMUTATIONS = 5  # permutations of each column


def summarize_importance(
    sites: Sequence[str], columns: Sequence[str], scores: Array, losses: Array
) -> dict[str, Any] | None:
    """Average losses of AUC (a row for each column) over sites, with t intervals, the largest first.

    None if the AUC is not defined on any site.
    """
    is_defined = np.isfinite(scores)
    m = int(is_defined.sum())
    if m == 0:
        return None
    known = losses[:, is_defined]
    means = known.mean(axis=1)
    halves = np.full(len(columns), np.nan)
    if m > 1:
        halves = stdtrit(m - 1, (1 + IMPORTANCE_LEVEL) / 2) * known.std(axis=1, ddof=1) / np.sqrt(m)
    entries = [
        {
            "column": columns[j],
            "mean": float(means[j]),
            "lower": float(means[j] - halves[j]),
            "upper": float(means[j] + halves[j]),
            "by_domain": dict(zip(sites, losses[j].tolist(), strict=True)),
        }
        for j in np.argsort(-means, kind="stable")
    ]
    by_site = dict(zip(sites, scores.tolist(), strict=True))
    return {"metric": IMPORTANCE_METRIC.label, "scores": by_site, "columns": entries}


def measure_importance(
    predict_proba: Callable[[Array, Any], Array], held_out: Samples, seed: int, *, in_batches: bool
) -> tuple[float, Array]:
    """AUC of a model on one site that was held out, and its loss (n_columns,) where each column is permuted.

    At most `MAX_IMPORTANCE_ROWS` rows of the site are used. If the AUC is not defined on the site, everything is NaN.
    A model whose predictions depend on the other rows predicts a permuted copy at a time (`in_batches`).
    """
    samples = held_out.take(held_out.subsample_rows(max_per_domain=MAX_IMPORTANCE_ROWS, seed=seed))
    X = samples.X
    all_rows = np.arange(len(samples))
    scorer = Scorer(IMPORTANCE_METRIC.scoring, samples, [(all_rows, all_rows)])

    def score_copies(copies: list[Array]) -> list[float]:
        P = predict_proba(np.concatenate(copies), np.tile(samples.domain, len(copies)))
        return [scorer.score_probabilities(0, part) for part in np.split(P, len(copies))]

    [score] = score_copies([X])
    losses = np.full(X.shape[1], np.nan)
    if not np.isfinite(score):
        return score, losses
    is_constant = np.array([bool((column == column[0]).all() or np.isnan(column).all()) for column in X.T])
    varying = np.flatnonzero(~is_constant)
    losses[is_constant] = 0.0
    copies = _permute(X, np.repeat(varying, N_PERMUTATIONS), np.random.default_rng(seed))
    # Trees take about as long for one copy as for ten.
    n_copies = 1 if in_batches else max(MAX_BATCH_ROWS // len(X), 1)
    values: list[float] = []
    while batch := list(islice(copies, n_copies)):
        values += score_copies(batch)
    losses[varying] = score - np.reshape(values, (len(varying), N_PERMUTATIONS)).mean(axis=1)
    return score, losses


def _permute(X: Array, columns: Ints, rng: np.random.Generator) -> Iterator[Array]:
    """Copies of rows with one permuted column each."""
    for j in columns.tolist():
        permuted = X.copy()
        permuted[:, j] = X[rng.permutation(len(X)), j]
        yield permuted
