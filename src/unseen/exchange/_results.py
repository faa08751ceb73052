"""Results of models on one site: estimates with their standard errors, counts, and histograms of predicted risks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit

from .. import __version__
from ..evaluation import Outcomes, measure_binary, measure_multiclass
from ..exceptions import DataWarning, ParameterError, warn
from ..linalg import Array, Ints
from ..metrics import Estimate, Scale, log_loss, threshold_performance
from ..models import Model, check_threshold, choose_positive, load_model
from ..utils.validation import Labels
from ._files import ExchangeError, Record, read_record, write_record
from ._fit import StudyModels, identify
from ._plan import MAX_CELL, MAX_SETTINGS, SMALLEST_CELL, read_classes
from ._statistics import check_cells

KIND = "site results"
SCALES = {  # of the measures in a file; those at the threshold follow from counts
    "auc": Scale(0.0, 1.0),
    "calibration_in_the_large": Scale(),
    "calibration_slope": Scale(),
    "observed_expected": Scale(0.0, np.inf),
    "brier": Scale(0.0, 1.0),
    "scaled_brier": Scale(-np.inf, 1.0),
    "log_loss": Scale(0.0, np.inf),
}
MAX_SCALED = 1e6  # of values on the scale of a meta-analysis
# Before small bins are merged: steps of 1%, and of 0.1% below 1% and above 99%.
EDGES = np.unique(np.round([*np.arange(1, 10) / 1000, *np.arange(1, 100) / 100, *(1 - np.arange(1, 10) / 1000)], 3))
TOLERANCE = 1e-6  # of totals that a file states twice
CLOSEST_PROBABILITY = 1e-7  # probabilities of 0 and 1 have no logit

MeasureKey = tuple[str, Any]  # name of a measure, and the class that it refers to


@dataclass(frozen=True)
class ModelResults:
    """Results of one model on a site.

    Attributes
    ----------
    setting : str
        Setting of the model; "" for a model that is not one of several.
    measures : dict
        Estimates by measure and class.
    flagged : tuple of int
        Rows above the threshold with and without the event; counts that are too small for a file are rounded.
    logit_mean, logit_sd : float
        Mean and standard deviation of the logits of predicted risks.
    bins : tuple of ndarray of shape (n_bins, 3)
        Rows, mean risk and upper end of each bin, of rows with the event and of others; empty for several classes.
    """

    setting: str
    measures: Mapping[MeasureKey, Estimate]
    flagged: tuple[int, int] = (0, 0)
    logit_mean: float = np.nan
    logit_sd: float = np.nan
    bins: tuple[Array, Array] = (np.zeros((0, 3)), np.zeros((0, 3)))

    def measure_threshold(self, counts: Ints, threshold: float, odds: float, level: float) -> dict[str, Estimate]:
        """Measures at the threshold, for `counts` of rows with and without the event."""
        n_events, n_others = counts.tolist()
        groups = [self.flagged[0], n_events - self.flagged[0], self.flagged[1], n_others - self.flagged[1]]
        outcomes, risks = np.repeat([1, 1, 0, 0], groups), np.repeat([1.0, 0.0, 1.0, 0.0], groups)
        return threshold_performance(outcomes, risks, threshold, odds=odds, level=level)


@dataclass(frozen=True)
class SiteResults:
    """Results of one or more models on the rows of a site, without these rows: see :func:`~unseen.exchange.score_site`.

    Attributes
    ----------
    site : str
        Name of the site.
    model, model_id : str
        Name of the model, and a checksum of it.
    study : str
        Name of the study; "" for a model that was not fitted from statistics of sites.
    classes : ndarray of shape (n_classes,)
        Classes in sorted order.
    positive : object
        Class that is the event; None for more than two classes.
    threshold : float
        Risk from which a row counts as an event.
    smallest_cell : int
        Smallest count in the file, other than none.
    columns : tuple of str
        Columns of the model.
    missing_share : float
        Share of the values of these columns that are missing.
    counts : ndarray of shape (n_classes,)
        Rows of each class.
    results : tuple of ModelResults
        One for each setting.
    notes : tuple of str
        Counts that were rounded, with the reason.
    source : str
        The file, in messages.

    Examples
    --------
    >>> import numpy as np
    >>> import unseen
    >>> from unseen.exchange import score_site
    >>> rng = np.random.default_rng(0)
    >>> X, site = rng.normal(size=(300, 2)), np.repeat(["bonn", "leeds", "oslo"], 100)
    >>> y = X[:, 0] + rng.normal(size=300) > 0
    >>> model = unseen.fit(X, y, sample_domain=site, methods="logistic")
    >>> results = score_site(model, X[:100] + 0.1, y[:100], site="paris")
    >>> results.site, int(results.counts.sum()), results.positive
    ('paris', 100, True)
    """

    site: str
    model: str
    model_id: str
    study: str
    classes: Labels
    positive: Any
    threshold: float
    smallest_cell: int
    columns: tuple[str, ...]
    missing_share: float
    counts: Ints
    results: tuple[ModelResults, ...]
    notes: tuple[str, ...] = ()
    source: str = "results in memory"

    @property
    def event_counts(self) -> Ints:
        """Numbers of rows with and without the event, for two classes."""
        return self.counts if self.classes.tolist()[0] == self.positive else self.counts[::-1]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results to a JSON file; an existing file is replaced."""
        classes = self.classes.tolist()
        write_record(
            path,
            KIND,
            {
                "unseen": __version__,
                "site": self.site,
                "model": self.model,
                "model_id": self.model_id,
                "study": self.study,
                "classes": classes,
                "positive": self.positive,
                "threshold": self.threshold,
                "smallest_cell": self.smallest_cell,
                "columns": list(self.columns),
                "missing_share": self.missing_share,
                "counts": self.counts.tolist(),
                "notes": list(self.notes),
                "results": [_result_to_dict(result, classes) for result in self.results],
            },
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SiteResults:
        """Read and check the file of any site."""
        record = read_record(path, KIND)
        classes = read_classes(record)
        values = classes.tolist()
        if record.value("classes") != values:
            record.fail("classes", "values in increasing order are expected", record.value("classes"))
        positive = record.value("positive")
        is_event = any(type(positive) is type(value) and positive == value for value in values)
        if is_event != (len(values) == 2) or (positive is not None and not is_event):
            record.fail("positive", "one of two classes is expected, or null for more", positive)
        smallest_cell = record.count("smallest_cell", 1, MAX_CELL)
        counts = record.counts("counts", len(values))
        if not counts.any():
            record.fail("counts", "there are no rows", counts.tolist())
        check_cells(record, counts, smallest_cell)
        site = cls(
            site=record.text("site"),
            model=record.text("model"),
            model_id=record.text("model_id") if record.value("model_id") else "",
            study=record.text("study") if record.value("study") else "",
            classes=classes,
            positive=positive,
            threshold=record.number("threshold", 1e-9, 1 - 1e-9),
            smallest_cell=smallest_cell,
            columns=tuple(record.texts("columns")),
            missing_share=record.number("missing_share", 0, 1),
            counts=counts,
            results=(),
            notes=tuple(record.texts("notes")),
            source=record.source,
        )
        results = [_result_from_record(entry, site) for entry in record.records("results")]
        if not 1 <= len(results) <= MAX_SETTINGS or len({result.setting for result in results}) < len(results):
            record.fail("results", f"1 to {MAX_SETTINGS} different settings are expected")
        return replace(site, results=tuple(results))


def _result_to_dict(result: ModelResults, classes: list[Any]) -> dict[str, Any]:
    measures = []
    for (name, of_class), one in result.measures.items():
        entry: dict[str, Any] = {"measure": name, "class": None if of_class is None else classes.index(of_class)}
        for key in ("value", "se", "scaled_value", "scaled_se"):
            entry[key] = float(getattr(one, key)) if np.isfinite(getattr(one, key)) else None
        measures.append({**entry, "counts": None if one.counts is None else list(map(float, one.counts))})
    is_binary = len(classes) == 2
    return {
        "setting": result.setting,
        "measures": measures,
        "flagged": list(result.flagged) if is_binary else None,
        "logits": [result.logit_mean, result.logit_sd] if is_binary else None,
        "bins": [[[int(n), *risks] for n, *risks in half.tolist()] for half in result.bins] if is_binary else None,
    }


def _list_measures(classes: list[Any], positive: Any) -> list[MeasureKey]:
    """The measures of a file in their order."""
    if len(classes) == 2:
        return [*((name, positive) for name in SCALES if name != "log_loss"), ("log_loss", None)]
    names = ("auc", "calibration_in_the_large", "calibration_slope", "observed_expected")
    return [("log_loss", None), *((name, of_class) for of_class in classes for name in names)]


def _result_from_record(record: Record, site: SiteResults) -> ModelResults:
    classes = site.classes.tolist()
    keys = _list_measures(classes, site.positive)
    measures = {}
    for key, entry in zip(keys, record.records("measures"), strict=False):
        measures[key] = _read_estimate(entry, key, classes)
    if len(measures) < len(keys) or len(record.entries("measures")) != len(keys):
        record.fail("measures", f"{len(keys)} measures are expected")
    setting = record.text("setting") if record.value("setting") else ""
    if len(classes) > 2:
        return ModelResults(setting, measures)
    n_events, n_others = site.event_counts.tolist()
    flagged = record.counts("flagged", 2).tolist()
    allowed = [_round_count(k, n, site.smallest_cell) for k, n in zip(flagged, (n_events, n_others), strict=True)]
    if flagged != allowed or flagged[0] > n_events or flagged[1] > n_others:
        record.fail("flagged", f"counts that {n_events} and {n_others} rows allow are expected", flagged)
    logits = record.array("logits", 2)
    if len(record.entries("bins")) != 2:
        record.fail("bins", "one list for rows with the event and one for others are expected")
    halves = Record(dict(zip("01", record.entries("bins"), strict=True)), record.source, f"{record.path}/bins")
    bins = [_read_bins(halves, key, n, site.smallest_cell) for key, n in (("0", n_events), ("1", n_others))]
    expected = sum(float(half[:, 0] @ half[:, 1]) for half in bins)
    ratio = measures["observed_expected", site.positive].value
    if np.isfinite(ratio) and abs(ratio * expected - n_events) > TOLERANCE * (1 + n_events):
        record.fail("bins", "their sum of risks is not that of the observed:expected ratio", expected)
    if np.isfinite(measures["auc", site.positive].value) != bool(n_events and n_others):
        record.fail("measures", "the AUC needs rows with the event and rows without it, and has a value for these")
    return ModelResults(
        setting, measures, (flagged[0], flagged[1]), float(logits[0]), float(abs(logits[1])), (bins[0], bins[1])
    )


def _read_bins(record: Record, key: str, n: int, smallest_cell: int) -> Array:
    bins = record.array(key, len(record.entries(key)), 3) if n else np.zeros((0, 3))
    counts, means, ends = bins.T
    starts = np.append(0.0, ends[:-1])
    is_valid = counts.sum() == n and (counts == np.floor(counts)).all() and (counts >= min(smallest_cell, n)).all()
    if not is_valid or not ((starts <= means) & (means <= ends) & (starts < ends) & (ends <= 1)).all():
        record.fail(key, f"bins of at least {smallest_cell} rows, {n} in total, with increasing risks are expected")
    return bins


def _read_estimate(entry: Record, key: MeasureKey, classes: list[Any]) -> Estimate:
    name, of_class = key
    position = None if of_class is None else classes.index(of_class)
    if entry.text("measure") != name or entry.value("class") != position:
        entry.fail("measure", f"{name!r} of the class {position} is expected", entry.value("measure"))
    scale = SCALES[name]
    value = entry.optional_number("value", max(scale.low, -MAX_SCALED), min(scale.high, MAX_SCALED))
    se = entry.optional_number("se", 0, MAX_SCALED)
    scaled_value = entry.optional_number("scaled_value", -MAX_SCALED, MAX_SCALED)
    scaled_se = entry.optional_number("scaled_se", 0, MAX_SCALED)
    if name == "log_loss" and np.isnan(value):
        entry.fail("value", "the log loss has a value for any rows")
    if np.isfinite(scaled_value) != np.isfinite(scaled_se) or (np.isnan(value) and np.isfinite(scaled_value)):
        entry.fail("value", "a value needs a standard error, and a standard error a value")
    counts = None
    if name == "observed_expected":
        pair = entry.array("counts", 2)
        if (pair < 0).any() or (value > 0 and abs(pair[0] - value * pair[1]) > TOLERANCE * (1 + pair[0])):
            entry.fail("counts", "their ratio is not the value", pair.tolist())
        counts = float(pair[0]), float(pair[1])
    return Estimate(value, se, (np.nan, np.nan), scale, scaled_value, scaled_se, counts)


def with_interval(one: Estimate, level: float) -> Estimate:
    """Return an estimate with the interval that follows from its standard error."""
    if np.isnan(one.value):
        return Estimate.make_undefined(one.scale, one.counts)
    if np.isnan(one.scaled_value):
        return Estimate(one.value, one.se, (one.scale.low, one.scale.high), one.scale, counts=one.counts)
    return Estimate.from_scaled(one.value, one.se, one.scale, one.scaled_value, one.scaled_se, level, one.counts)


def score_site(
    model: Model | str | os.PathLike[str],
    data: Any,
    y: Any = None,
    *,
    site: str,
    threshold: float | None = None,
    positive: Any = None,
    smallest_cell: int | None = None,
) -> SiteResults:
    """Evaluate a model on the labeled rows of a site, and return counts and estimates only.

    A model that :func:`fit_statistics` returned, and which holds the models of all settings, is evaluated by those that
    were fitted without the site.

    Parameters
    ----------
    model : Model, str or path
        A model, or a model file.
    data : DataFrame, dict, list of dict, str, path or array-like
        The rows of the site, as for :meth:`unseen.models.Model.predict`, with the column of labels.
    y : array-like of shape (n_samples,), default=None
        Labels, if they are not a column of the data.
    site : str
        Name of the site; for a study, the name under which it sent its statistics.
    threshold : float, default=None
        Risk from which a row counts as an event; None for that of the model, or 0.5.
    positive : object, default=None
        Class that is the event, as for :func:`unseen.validate`.
    smallest_cell : int, default=None
        Smallest count that may be in the result, other than none; None for that of the plan, or 10. Fewer rows of a
        class raise an error, smaller bins of a histogram are merged, and smaller counts at the threshold are rounded to
        0 or to it.

    Returns
    -------
    results : SiteResults
        To save to a file, for :func:`~unseen.exchange.combine`.

    Examples
    --------
    >>> import unseen
    >>> from unseen.datasets import load_hospitals
    >>> from unseen.exchange import score_site
    >>> hospitals, ulm = load_hospitals()
    >>> features = ["age", "temperature", "heart_rate", "crp"]
    >>> model = unseen.fit(hospitals, label="diagnosis", domain="hospital", features=features, methods="logistic")
    >>> results = score_site(model, ulm, site="ulm", smallest_cell=1)
    >>> int(results.counts.sum()), round(results.results[0].measures["auc", "viral"].value, 1)
    (200, 0.9)
    """
    site = Record({"site": str(site)}, "The parameters").text("site")
    fitted = load_model(model) if isinstance(model, (str, Path, os.PathLike)) else model
    study = StudyModels.from_model(fitted)
    classes = fitted.classes_ if study is None else study.plan.classes
    table_model = fitted.table_model
    if positive is None:
        positive = classes[table_model.positive_code].item() if table_model.threshold is not None else None
        positive = positive if study is None else study.plan.positive
    positive, _ = choose_positive(classes, positive)
    threshold = table_model.threshold if threshold is None else threshold
    threshold = 0.5 if threshold is None else threshold
    if isinstance(threshold, str):
        raise ParameterError(
            "threshold", f"threshold={threshold!r} cannot be chosen at a site; use a number, the same at all sites."
        )
    check_threshold(threshold if len(classes) == 2 else None, len(classes))
    if smallest_cell is None:
        smallest_cell = SMALLEST_CELL if study is None else study.plan.smallest_cell
    if not 1 <= smallest_cell <= MAX_CELL:
        raise ParameterError("smallest_cell", f"smallest_cell={smallest_cell!r} is not allowed. Use 1 or more.")
    X, _, codes = fitted.read_labeled(data, y, None)
    codes = np.searchsorted(classes, fitted.classes_[codes])
    counts = np.bincount(codes, minlength=len(classes))
    small = np.flatnonzero((counts > 0) & (counts < smallest_cell))
    if len(small):
        name = classes[small[0]].item()
        raise ExchangeError(
            f"{site}: has {counts[small[0]]} rows of the class {name!r}; fewer than {smallest_cell} may identify "
            "people, so no results are written. Collect more rows, or lower the smallest cell if your rules allow it."
        )
    if study is None:
        P = fitted.predict_proba(X)
        predictions = [("", P)]
    else:
        features = study.plan.features(table_model.prepare(X))
        predictions = [
            (setting.name, fit.predict_proba(features, len(classes))) for setting, fit in study.unseen_by(site)
        ]
    measured = [_measure(name, P, codes, classes, positive, threshold, smallest_cell) for name, P in predictions]
    notes = []
    if n_rounded := sum(is_rounded for _, is_rounded in measured):
        of_settings = f" of {n_rounded} of {len(measured)} settings" * (study is not None)
        notes = [
            f"counts at the threshold{of_settings} are rounded to 0 or {smallest_cell} rows, because smaller counts "
            "do not leave the site"
        ]
        warn(f"{site}: {notes[0]}.", DataWarning)
    return SiteResults(
        site=site,
        model=fitted.name if study is None else study.plan.name,
        model_id=identify(fitted),
        study="" if study is None else study.plan.name,
        classes=classes,
        positive=positive,
        threshold=float(threshold),
        smallest_cell=smallest_cell,
        columns=tuple(fitted.schema.feature_names),
        missing_share=float(np.isnan(X).mean()),
        counts=counts,
        results=tuple(result for result, _ in measured),
        notes=tuple(notes),
    )


def _measure(
    setting: str, P: Array, codes: Ints, classes: Labels, positive: Any, threshold: float, smallest_cell: int
) -> tuple[ModelResults, bool]:
    """Results of a model, and whether counts at the threshold are rounded."""
    y = classes[codes]
    loss = log_loss(y, P, classes.tolist())
    if positive is None:
        every = measure_multiclass(y, P, classes.tolist(), 0.95)
        return ModelResults(setting, {(name, of_class): one for name, of_class, one in every}), False
    events = y == positive
    risks = P[:, int(np.flatnonzero(classes == positive)[0])]
    measured = measure_binary(events, risks, threshold, 1.0, 0.95)
    measures = {(name, positive): one for name, one in measured.items() if name in SCALES}
    logits = logit(np.clip(risks, CLOSEST_PROBABILITY, 1 - CLOSEST_PROBABILITY))
    flagged = int((events & (risks >= threshold)).sum()), int((~events & (risks >= threshold)).sum())
    n_events = int(events.sum())
    n_others = len(events) - n_events
    rounded = _round_count(flagged[0], n_events, smallest_cell), _round_count(flagged[1], n_others, smallest_cell)
    result = ModelResults(
        setting,
        {**measures, ("log_loss", None): loss},
        rounded,
        float(logits.mean()),
        float(logits.std()),
        (_bin_risks(risks[events], smallest_cell), _bin_risks(risks[~events], smallest_cell)),
    )
    return result, rounded != flagged


def _round_count(count: int, n: int, smallest_cell: int) -> int:
    """Return the nearest count such that neither it nor the rest of `n` is a small cell; 0 or n is allowed."""
    if n < 2 * smallest_cell:
        return n if 2 * count > n else 0
    if min(count, n - count) >= smallest_cell:
        return count
    if 2 * min(count, n - count) < smallest_cell:
        return 0 if count < n - count else n
    return smallest_cell if count < n - count else n - smallest_cell


def _bin_risks(risks: Array, smallest_cell: int) -> Array:
    """Rows, mean risk and upper end of bins, of which neighbors are merged until each has enough rows."""
    if not len(risks):
        return np.zeros((0, 3))
    ordered = np.sort(risks)
    edges = np.append(EDGES, 1.0)
    counts = np.append(np.searchsorted(ordered, EDGES), len(ordered))
    kept: list[tuple[int, float]] = [(0, 0.0)]
    for count, edge in zip(counts.tolist(), edges.tolist(), strict=True):
        if count - kept[-1][0] >= smallest_cell:
            kept.append((count, edge))
    kept[-1] = (len(ordered), 1.0)  # the rest joins the last bin
    return np.array([(end - start, ordered[start:end].mean(), edge) for (start, _), (end, edge) in pairwise(kept)])


def outcomes_of_bins(result: ModelResults) -> tuple[Outcomes, Array]:
    """Outcomes and risks of rows that are spread over their bin, whose mean risk they have, to draw curves."""
    parts = []
    for half in result.bins:
        starts = np.append(0.0, half[:-1, 2])
        for (n, mean, end), start in zip(half.tolist(), starts.tolist(), strict=False):
            # Quantiles u^k of a power distribution on the bin, whose mean is 1 / (k + 1).
            position = np.clip((mean - start) / (end - start), 1e-6, 1.0)
            u = (np.arange(n) + 0.5) / n
            parts.append(start + (end - start) * u ** (1 / position - 1))
    n_events = int(result.bins[0][:, 0].sum())
    risks = np.concatenate(parts)
    return np.arange(len(risks)) < n_events, risks
