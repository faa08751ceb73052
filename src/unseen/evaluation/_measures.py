"""Measures of performance on each site, their random-effects summary over sites, curves, and importance of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

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
    domains_for_interval,
    get_metric,
    is_informative,
)
from ..utils.io import plain_values
from ..utils.optional_imports import optional_import
from ..utils.samples import Samples
from ..utils.validation import Labels

Outcomes = NDArray[np.bool_]

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


CURVE_POINTS = 60  # of each curve, which is finer than its width on a page in pixels / 5
ROC_POINTS = 80
RISK_BINS = 30


def make_curves(events: Outcomes, risks: Array, thresholds: Array) -> dict[str, Any]:
    """Curves and risk distributions of some rows; a curve that is not defined is None."""
    has_both = bool(events.any() and not events.all())
    return {
        "calibration": _calibration(events, risks) if has_both else None,
        "decision": _decision(events, risks, thresholds),
        "roc": _roc(events, risks) if has_both else None,
        "risks": _risk_distributions(events, risks, float(thresholds[-1])),
    }


def common_thresholds(risks: Array) -> Array:
    """Thresholds of decision curves, up to the highest predicted risks that more than a few rows reach."""
    highest = float(np.quantile(risks, 0.99))
    return np.linspace(0.01, min(max(highest, 0.2), 0.95), CURVE_POINTS)


def _calibration(events: Outcomes, risks: Array) -> dict[str, list[float]] | None:
    if np.ptp(risks) == 0:
        return None
    curve = calibration_curve(events, risks, n_points=CURVE_POINTS)
    if not np.isfinite(curve.observed).all():
        return None
    points = {"predicted": curve.predicted, "observed": curve.observed, "low": curve.low, "high": curve.high}
    return {name: values.tolist() for name, values in points.items()}


def _decision(events: Outcomes, risks: Array, thresholds: Array) -> dict[str, list[float]]:
    curve = decision_curve(events, risks, thresholds)
    reach = float(ndtri(0.975))
    return {
        "threshold": curve.thresholds.tolist(),
        "model": curve.model.tolist(),
        "treat_all": curve.treat_all.tolist(),
        "low": (curve.model - reach * curve.model_se).tolist(),
        "high": (curve.model + reach * curve.model_se).tolist(),
    }


def _risk_distributions(events: Outcomes, risks: Array, highest: float) -> dict[str, list[float]]:
    """Shares of rows with and without the event by predicted risk; risks above the highest are in the last bin."""
    edges = np.linspace(0.0, highest, RISK_BINS + 1)
    shares = {}
    for name, rows in (("events", events), ("others", ~events)):
        counts = np.histogram(np.minimum(risks[rows], highest), edges)[0]
        shares[name] = (counts / max(int(rows.sum()), 1)).tolist()
    return {"edges": edges.tolist(), **shares}


def _roc(events: Outcomes, risks: Array) -> dict[str, list[float]]:
    """False and true positive rates, at most `ROC_POINTS` of them, with both corners."""
    order = np.argsort(-risks, kind="stable")
    is_last_of_ties = np.append(np.diff(risks[order]) != 0, True)
    tpr = np.cumsum(events[order])[is_last_of_ties] / events.sum()
    fpr = np.cumsum(~events[order])[is_last_of_ties] / (~events).sum()
    fpr = np.concatenate([[0.0], fpr])
    tpr = np.concatenate([[0.0], tpr])
    kept = np.unique(np.linspace(0, len(fpr) - 1, ROC_POINTS).round().astype(int))
    return {"fpr": fpr[kept].tolist(), "tpr": tpr[kept].tolist()}


IMPORTANCE_METRIC = get_metric("roc_auc")  # it needs neither a threshold nor calibrated risks
IMPORTANCE_LEVEL = 0.95  # of intervals
MAX_IMPORTANCE_ROWS = 500  # of a site
MAX_BATCH_ROWS = 20_000  # that are predicted at once
N_PERMUTATIONS = 5  # permutations of each column


@dataclass(frozen=True)
class ColumnImportance:
    """How much the AUC falls if the values of one column are permuted within sites.

    Attributes
    ----------
    column : str
        The column.
    mean : float
        Mean loss over sites.
    lower, upper : float
        95% confidence interval of the mean over sites (t); NaN with a single site.
    by_domain : dict of str to float
        The loss on each site.
    """

    column: str
    mean: float
    lower: float
    upper: float
    by_domain: dict[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class Importance:
    """Permutation importance of columns on held-out sites; the largest first.

    Attributes
    ----------
    scores : dict of str to float
        The AUC on each site without permutation.
    columns : tuple of ColumnImportance
        The columns, the most important first.
    """

    scores: dict[str, float]
    columns: tuple[ColumnImportance, ...]

    @classmethod
    def from_losses(cls, sites: Sequence[str], columns: Sequence[str], scores: Array, losses: Array) -> Importance:
        """Average losses (a row for each column) over sites, with t intervals, and sort the columns by them."""
        is_defined = np.isfinite(scores)
        m = int(is_defined.sum())
        entries = []
        for column, by_site in zip(columns, losses, strict=True):
            known = by_site[is_defined]
            mean = float(known.mean())
            half = np.nan
            if m > 1:
                half = float(stdtrit(m - 1, (1 + IMPORTANCE_LEVEL) / 2) * known.std(ddof=1) / np.sqrt(m))
            by_domain = dict(zip(sites, by_site.tolist(), strict=True))
            entries.append(ColumnImportance(column, mean, mean - half, mean + half, by_domain))
        entries.sort(key=lambda entry: -entry.mean)
        return cls(dict(zip(sites, scores.tolist(), strict=True)), tuple(entries))

    def __getitem__(self, column: str) -> ColumnImportance:
        """The importance of a column by its name."""
        by_name = {entry.column: entry for entry in self.columns}
        if column not in by_name:
            raise KeyError(f"column={column!r} is not a feature. Use one of {', '.join(sorted(by_name))}.")
        return by_name[column]

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, for JSON and the report."""
        columns = [asdict(entry) for entry in self.columns]
        result: dict[str, Any] = plain_values(
            {"metric": IMPORTANCE_METRIC.label, "scores": self.scores, "columns": columns}
        )
        return result

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each column: mean, interval, and the loss on each site."""
        return [
            {"column": entry.column, "mean": entry.mean, "lower": entry.lower, "upper": entry.upper, **entry.by_domain}
            for entry in self.columns
        ]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each column: mean, interval, and the loss on each site."""
        return optional_import("pandas", "to_frame()").DataFrame(self.records())

    def __repr__(self) -> str:
        names = ", ".join(entry.column for entry in self.columns[:3])
        return f"<Importance: {IMPORTANCE_METRIC.label}, {len(self.scores)} sites; most important: {names}>"


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
