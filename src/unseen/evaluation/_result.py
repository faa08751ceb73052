"""Results of evaluations: what all have in common; and sites, measures, summary, curves, texts of a validation."""

from __future__ import annotations

import csv
import html
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from ..linalg import Array
from ..metrics import DevelopmentSize, Estimate, development_size, random_effects, stated_odds
from ..report import render_validation
from ..utils.io import atomic_write, check_output_path, plain_values
from ..utils.optional_imports import optional_import
from ..utils.validation import Labels
from ._measures import (
    MEASURES,
    Importance,
    MeasureSummary,
    Outcomes,
    SiteMeasure,
    common_thresholds,
    make_curves,
    measure_binary,
    measure_multiclass,
    summarize,
)
from ._recommendation import ComparisonResults, Recommendation, recommend
from ._run import DEFAULT_THRESHOLD, HeldOutPredictions
from ._store import Row
from ._texts import describe_for_colleagues, describe_methods, describe_results, make_checklist

FEW_EVENTS = 100  # events (and other rows) below which a site is too small for precise estimates (Collins et al. 2016)
CLOSEST_PROBABILITY = 1e-7  # probabilities of 0 and 1 have no logit


class EvaluationResult:
    """What results of evaluations have in common: one dictionary, from which the page is made."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything in values that JSON can represent."""
        raise NotImplementedError

    def to_html(self) -> str:
        """Return the report as one self-contained page."""
        raise NotImplementedError

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write the report as an HTML page, which any browser prints as a PDF file.

        Parameters
        ----------
        path : str or path
            A file with the ending .html or .htm. An existing file is replaced.
        """
        check_output_path(Path(path), ".html", ".htm")
        with atomic_write(Path(path)) as file:
            file.write_text(self.to_html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.to_html())}" style="width:100%;height:40em;border:0"></iframe>'


@dataclass(frozen=True)
class ValidationSettings:
    """What a validation was asked for.

    Attributes
    ----------
    method : str
        The method that is reported; others are compared with it.
    name : str
        Name of the data.
    positive : object
        Class that is the event; None for several classes.
    positive_rule : str
        How that class was determined, in a sentence.
    aim : str, float or None
        How the threshold was chosen; None for 0.5.
    level : float
        Nominal coverage of all intervals.
    use_prior : bool
        Whether the summary uses an empirical prior on the standard deviation between sites.
    cost : str or None
        Costs of a missed event and of a false alarm for net benefit, such as "5:1"; None for those of the threshold.
    event, unit : str
        Names of the event and of rows in texts; "" for the name of the class and for rows.
    external : str
        Name of the frozen model, if one was validated on new sites; "" for internal-external validation.
    notices : tuple of str
        Assumptions that were made in reading the data.
    failures : tuple of str
        Methods that could not be fitted without a site, with the reason.
    facts : dict
        Further facts for the report: features, versions, command, duration, methods in words.
    """

    method: str
    name: str = ""
    positive: Any = None
    positive_rule: str = ""
    aim: str | float | None = None
    level: float = 0.95
    use_prior: bool = False
    cost: str | None = None
    event: str = ""
    unit: str = ""
    external: str = ""
    notices: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ValidationResult(EvaluationResult):
    """Result of :func:`unseen.validate`: performance on each held-out site, and its summary over sites.

    Frames are pandas DataFrames. All numbers come from predictions of models that were fitted without the site.

    Parameters
    ----------
    settings : ValidationSettings
        What was validated, and how.
    classes : ndarray of shape (n_classes,)
        All classes.
    y : ndarray of shape (n_rows,)
        Class of each row.
    site : ndarray of shape (n_rows,)
        Site of each row.
    row : ndarray of shape (n_rows,)
        Index of each row in the table.
    missing_share : dict
        Share of missing values of each site.
    held_out : sequence of Row
        Out-of-domain predictions of each method for each site.
    group : ndarray of shape (n_rows,) or None
        Group of each row, such as the patient.
    subgroups : mapping
        For each column, its subgroups in order, with a boolean array of the rows of each.

    See Also
    --------
    unseen.validate : Validate a model on held-out sites.

    Examples
    --------
    >>> import unseen
    >>> from unseen.datasets import load_penguins
    >>> X, sex, species = load_penguins(return_X_y=True)
    >>> result = unseen.validate(X, sex, sample_domain=species, methods="logistic", compare_with=())
    >>> round(result.get_summary("auc").value, 2)
    0.98
    """

    settings: ValidationSettings
    classes: Labels = field(repr=False)
    y: Labels = field(repr=False)
    site: Labels = field(repr=False)
    row: Labels = field(repr=False)
    missing_share: Mapping[str, float] = field(repr=False)
    held_out: Sequence[Row] = field(repr=False)
    group: Labels | None = field(default=None, repr=False)
    subgroups: Mapping[str, Mapping[str, NDArray[np.bool_]]] = field(default_factory=dict, repr=False)

    @classmethod
    def from_predictions(
        cls,
        predictions: HeldOutPredictions,
        settings: ValidationSettings,
        subgroups: Mapping[str, Mapping[str, NDArray[np.bool_]]] | None = None,
    ) -> ValidationResult:
        """Make the result of the first repeat of a run."""
        table = predictions.table
        shares = {str(site): float(np.isnan(table.X[table.domain == site]).mean()) for site in np.unique(table.domain)}
        facts = {"n_features": table.X.shape[1], "columns": list(table.schema.feature_names), **settings.facts}
        return cls(
            replace(settings, name=settings.name or table.name, facts=facts),
            table.samples.classes,
            table.y,
            table.domain,
            table.rows,
            shares,
            [row for row in predictions.rows if row.repeat == 0],
            table.group,
            subgroups or {},
        )

    # What was validated

    @cached_property
    def site_names(self) -> list[str]:
        """Sites in the order of their names."""
        return [str(name) for name in np.unique(self.site)]

    @cached_property
    def methods(self) -> list[str]:
        """Methods: the one that is reported, then those beside it."""
        return list(dict.fromkeys([self.settings.method, *(one.method for one in self.held_out)]))

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes, one of which is the event."""
        return len(self.classes) == 2

    @cached_property
    def events(self) -> Outcomes:
        """Whether each row has the event, for two classes."""
        return np.asarray(self.y == self.settings.positive)

    @property
    def event(self) -> str:
        """Name of the event in texts."""
        return self.settings.event or f"the event “{self.settings.positive}”"

    @property
    def unit(self) -> str:
        """Name of rows in texts, in the plural."""
        return self.settings.unit or "rows"

    @cached_property
    def odds(self) -> float:
        """Weight of a false alarm in net benefit, in missed events.

        It is that of the stated costs, that of the threshold if this is a number or chosen for costs, and otherwise
        that of the median threshold.
        """
        if self.settings.cost is not None:
            stated = stated_odds(f"cost={self.settings.cost}")
        else:
            stated = stated_odds(0.5 if self.settings.aim is None else self.settings.aim)
        if stated is not None:
            return stated
        thresholds = [one.threshold for one in self.held_out if one.method == self.settings.method]
        known = [threshold for threshold in thresholds if threshold is not None]
        median = float(np.median(known)) if known else DEFAULT_THRESHOLD
        return median / (1 - median)

    @cached_property
    def has_repeated_units(self) -> bool:
        """Whether several rows of a site belong to the same group."""
        if self.group is None:
            return False
        return len(np.unique(np.column_stack([self.site, self.group]), axis=0)) < len(self.site)

    @cached_property
    def development_size(self) -> DevelopmentSize | None:
        """Rows that the model needs for its development; None if the number of parameters is not known."""
        n_parameters = self.settings.facts.get("n_parameters")
        if not self.is_binary or not n_parameters:
            return None
        return development_size(*self._pooled, n_parameters)

    def _prediction(self, method: str, site: str) -> Row | None:
        """Predictions of a method for a site; None if there are none."""
        for one in self.held_out:
            if one.method == method and one.domain == site and one.probabilities is not None:
                return one
        return None

    def _risks(self, prediction: Row) -> Array:
        """Predicted probabilities of the event."""
        column = int(np.flatnonzero(self.classes == self.settings.positive)[0])
        assert prediction.probabilities is not None
        return prediction.probabilities[:, column]

    def _threshold(self, prediction: Row) -> float:
        return DEFAULT_THRESHOLD if prediction.threshold is None else prediction.threshold

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """The method to use, by the rule of :func:`unseen.compare`; None for a fitted model or without scores."""
        if self.settings.external:
            return None
        truth = {site: np.searchsorted(self.classes, self.y[self.site == site]) for site in self.site_names}
        groups = {}
        if self.group is not None:
            groups = {site: self.group[self.site == site] for site in self.site_names}
        return recommend(ComparisonResults(self.held_out, truth, groups=groups))

    @cached_property
    def _pooled(self) -> tuple[Outcomes, Array]:
        """Events and predicted risks of the model on all sites together, for two classes."""
        predictions = [(site, self._prediction(self.settings.method, site)) for site in self.site_names]
        events = [self.events[self.site == site] for site, one in predictions if one is not None]
        risks = [self._risks(one) for _, one in predictions if one is not None]
        return np.concatenate(events), np.concatenate(risks)

    # Numbers

    @cached_property
    def site_measures(self) -> list[SiteMeasure]:
        """All measures of all methods on all sites."""
        return [
            measure for method in self.methods for site in self.site_names for measure in self._measure(method, site)
        ]

    def _measure(self, method: str, site: str) -> Iterator[SiteMeasure]:
        rows = self.site == site
        level = self.settings.level
        prediction = self._prediction(method, site)
        # Without predictions, the measures of any predictions say which are missing.
        if self.is_binary:
            risks = np.full(int(rows.sum()), 0.5) if prediction is None else self._risks(prediction)
            threshold = DEFAULT_THRESHOLD if prediction is None else self._threshold(prediction)
            estimates = measure_binary(self.events[rows], risks, threshold, self.odds, level)
            named_estimates = [(name, self.settings.positive, estimate) for name, estimate in estimates.items()]
        else:
            shape = int(rows.sum()), len(self.classes)
            P = np.full(shape, 1 / shape[1]) if prediction is None else prediction.probabilities
            named_estimates = list(measure_multiclass(self.y[rows], np.asarray(P), self.classes.tolist(), level))
        for name, of_class, estimate in named_estimates:
            value = estimate
            if prediction is None:
                value = Estimate.make_undefined(estimate.scale, None if estimate.counts is None else (0.0, 0.0))
            yield SiteMeasure(method, site, name, of_class, value)

    @cached_property
    def summaries(self) -> list[MeasureSummary]:
        """The random-effects summary of each measure of each method."""
        groups: dict[tuple[str, str, Any], list[SiteMeasure]] = {}
        for one in self.site_measures:
            groups.setdefault((one.method, one.measure, one.of_class), []).append(one)
        return [
            summarize(
                method,
                MEASURES[measure],
                of_class,
                [one.estimate for one in group],
                level=self.settings.level,
                use_prior=self.settings.use_prior,
            )
            for (method, measure, of_class), group in groups.items()
        ]

    def get_summary(self, measure: str, method: str | None = None, of_class: Any = None) -> MeasureSummary:
        """Return the summary of one measure; of the reported method and the event unless others are named."""
        method = method or self.settings.method
        if of_class is None and self.is_binary:
            of_class = self.settings.positive
        for one in self.summaries:
            if (one.method, one.measure, one.of_class) == (method, measure, of_class):
                return one
        raise KeyError(f"There is no measure {measure!r} of the method {method!r} and the class {of_class!r}.")

    @cached_property
    def site_records(self) -> list[dict[str, Any]]:
        """One record for each site: size, events, missing values, case mix, threshold."""
        predictors = {}
        if self.is_binary:
            for site in self.site_names:
                prediction = self._prediction(self.settings.method, site)
                if prediction is not None:
                    risks = np.clip(self._risks(prediction), CLOSEST_PROBABILITY, 1 - CLOSEST_PROBABILITY)
                    predictors[site] = logit(risks)
        pooled = np.concatenate(list(predictors.values())) if predictors else np.zeros(1)
        center = float(pooled.mean())
        spread = float(pooled.std()) or 1.0
        records = []
        for site in self.site_names:
            rows = self.site == site
            record: dict[str, Any] = {"site": site, "rows": int(rows.sum())}
            if self.is_binary:
                n_events = int(self.events[rows].sum())
                n_rarer = min(n_events, record["rows"] - n_events)
                record |= {"events": n_events, "prevalence": n_events / record["rows"]}
                record |= {"few_non_events": record["rows"] - n_events < FEW_EVENTS}
            else:
                counts = {str(name): int((self.y[rows] == name).sum()) for name in self.classes.tolist()}
                n_rarer = min(counts.values())
                record |= {f"rows_{name}": count for name, count in counts.items()}
            record["missing_share"] = self.missing_share.get(site)
            if self.is_binary:
                z = (predictors[site] - center) / spread if site in predictors else np.array([np.nan])
                record |= {"case_mix_mean": float(z.mean()), "case_mix_sd": float(z.std())}
            own = [one for one in self.held_out if one.domain == site and one.method == self.settings.method]
            record |= {
                "few_events": n_rarer < FEW_EVENTS,
                "threshold": next((self._threshold(one) for one in own), np.nan) if self.is_binary else None,
                "model": next((one.settings.get("model", one.method) for one in own), ""),
                "failure": next((one.reason for one in own), ""),
            }
            records.append(record)
        return records

    @cached_property
    def measure_records(self) -> list[dict[str, Any]]:
        """One record for each method, site and measure."""
        return [
            {
                "method": one.method,
                "site": one.site,
                "measure": one.measure,
                "class": one.of_class,
                "value": one.estimate.value,
                "se": one.estimate.se,
                "low": one.estimate.interval[0],
                "high": one.estimate.interval[1],
                "scale": one.estimate.scale.name,
                "scaled_value": one.estimate.scaled_value,
                "scaled_se": one.estimate.scaled_se,
            }
            for one in self.site_measures
        ]

    @cached_property
    def summary_records(self) -> list[dict[str, Any]]:
        """One record for each method and measure, summarized over sites."""
        records = []
        for one in self.summaries:
            effects = one.effects
            records.append(
                {
                    "method": one.method,
                    "measure": one.measure,
                    "class": one.of_class,
                    "estimate": one.value,
                    "low": one.interval[0],
                    "high": one.interval[1],
                    "prediction_low": one.prediction_interval[0],
                    "prediction_high": one.prediction_interval[1],
                    "tau": effects.tau if effects else np.nan,
                    "i2": effects.i2 if effects else np.nan,
                    "q": effects.q if effects else np.nan,
                    "q_p_value": effects.q_p_value if effects else np.nan,
                    "scale": one.scale.name,
                    "degrees_of_freedom": effects.degrees_of_freedom if effects else np.nan,
                    "scaled_estimate": effects.estimate if effects else np.nan,
                    "scaled_se": effects.se if effects else np.nan,
                    "n_sites": len(one.values),
                    "n_dropped": len(self.site_names) - len(one.values),
                    "has_range": one.has_range,
                    "tau_prior": effects.tau_prior if effects else None,
                    "explanation": one.explanation,
                }
            )
        return records

    @cached_property
    def prediction_records(self) -> list[dict[str, Any]]:
        """One record for each method and row: the probability of each class, predicted without the site."""
        records = []
        for one in self.held_out:
            if one.probabilities is None:
                continue
            rows = np.flatnonzero(self.site == one.domain)
            for i, P in zip(rows.tolist(), one.probabilities.tolist(), strict=True):
                record = {"method": one.method, "site": one.domain, "row": int(self.row[i]), "label": self.y[i].item()}
                names = (f"probability_{name}" for name in self.classes.tolist())
                record |= dict(zip(names, P, strict=True))
                if self.is_binary:
                    record["threshold"] = self._threshold(one)
                records.append(record)
        return records

    @cached_property
    def comparison_records(self) -> list[dict[str, Any]]:
        """One record for each method beside the reported one: the mean difference of its AUC over sites.

        Sites have equal weight; the interval is Student's for the mean of paired differences.
        """
        records = []
        measure = "auc" if self.is_binary else "log_loss"
        of_class = self.settings.positive if self.is_binary else None
        values = {
            (one.method, one.site): one.estimate.value
            for one in self.site_measures
            if one.measure == measure and one.of_class == of_class
        }
        for method in self.methods[1:]:
            differences = [values[self.settings.method, site] - values[method, site] for site in self.site_names]
            finite = np.array([value for value in differences if np.isfinite(value)])
            record: dict[str, Any] = {"method": method, "measure": measure, "n_sites": len(finite)}
            if len(finite) > 1:
                effects = random_effects(finite, np.zeros(len(finite)), level=self.settings.level)
                low, high = effects.interval
                record |= {"difference": effects.estimate, "low": low, "high": high}
            else:
                record |= {"difference": np.nan, "low": np.nan, "high": np.nan}
            records.append(record)
        return records

    @cached_property
    def subgroup_records(self) -> list[dict[str, Any]]:
        """One record for each subgroup and measure of the reported method, over the rows of all sites."""
        records = []
        for column, rows_by_name in self.subgroups.items():
            for name, rows in rows_by_name.items():
                for one in self._restrict(rows).summaries:
                    if one.method == self.settings.method:
                        low, high = one.interval
                        record = {"column": column, "subgroup": name, "rows": int(rows.sum())}
                        if self.is_binary:
                            record["events"] = int(self.events[rows].sum())
                        record |= {"measure": one.measure, "class": one.of_class, "n_sites": len(one.values)}
                        records.append(record | {"estimate": one.value, "low": low, "high": high})
        return records

    def _restrict(self, rows: NDArray[np.bool_]) -> ValidationResult:
        """The result for some rows, with the same predictions and the reported method alone."""
        kept = []
        for one in self.held_out:
            own = rows[self.site == one.domain]
            if one.method == self.settings.method and own.any() and one.probabilities is not None:
                kept.append(replace(one, probabilities=one.probabilities[own], codes=None))
        settings = replace(self.settings, cost=f"1:{self.odds!r}" if self.is_binary else None)
        return replace(
            self,
            settings=settings,
            y=self.y[rows],
            site=self.site[rows],
            row=self.row[rows],
            held_out=kept,
            group=None,
            subgroups={},
        )

    @cached_property
    def importance(self) -> Importance | None:
        """How much the AUC falls on held-out sites if a column is permuted; None if it was not measured."""
        measured = [(one.domain, one.importance) for one in self.held_out if one.importance is not None]
        scores = np.array([values["score"] for _, values in measured])
        if not np.isfinite(scores).any():
            return None
        losses = np.column_stack([values["losses"] for _, values in measured])
        return Importance.from_losses([site for site, _ in measured], self.settings.facts["columns"], scores, losses)

    # Frames

    @property
    def sites(self) -> Any:
        """One row for each site: rows, events, prevalence, missing share, case mix, threshold."""
        return _as_frame(self.site_records, "sites")

    @property
    def measures(self) -> Any:
        """One row for each method, site and measure, with its interval."""
        return _as_frame(self.measure_records, "measures")

    @property
    def summary(self) -> Any:
        """One row for each method and measure: random-effects summary over sites."""
        return _as_frame(self.summary_records, "summary")

    @property
    def predictions(self) -> Any:
        """One row for each method and row of the table: probabilities predicted without the site of the row."""
        return _as_frame(self.prediction_records, "predictions")

    def to_frame(self) -> Any:
        """Return the measures of the reported method, a row for each site and a column for each measure.

        Returns
        -------
        frame : pandas.DataFrame
            With a last row for the random-effects summary.
        """
        rows: dict[str, dict[str, float]] = {site: {} for site in [*self.site_names, "summary"]}
        for one in self.site_measures:
            if one.method == self.settings.method:
                rows[one.site][self._column_name(one.measure, one.of_class)] = one.estimate.value
        for summary in self.summaries:
            if summary.method == self.settings.method:
                rows["summary"][self._column_name(summary.measure, summary.of_class)] = summary.value
        pandas = optional_import("pandas", "to_frame()")
        return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("site")

    def _column_name(self, measure: str, of_class: Any) -> str:
        return measure if self.is_binary or of_class is None else f"{measure} {of_class}"

    # Output

    @cached_property
    def curves(self) -> dict[str, Any]:
        """Calibration, decision and ROC curves of the reported method, of each site and of all rows together."""
        if not self.is_binary:
            return {}
        events, risks = self._pooled
        thresholds = common_thresholds(risks)
        by_site = {}
        for site in self.site_names:
            prediction = self._prediction(self.settings.method, site)
            if prediction is not None:
                by_site[site] = make_curves(self.events[self.site == site], self._risks(prediction), thresholds)
        return {"pooled": make_curves(events, risks, thresholds), "sites": by_site}

    def checklist(self) -> list[dict[str, str]]:
        """Return the items of TRIPOD-Cluster and TRIPOD+AI that this validation answers, and those left to the author.

        Returns
        -------
        items : list of dict
            With the keys `section`, `item` and `answer`; answers of the author are marked by "AUTHOR:".
        """
        return make_checklist(self)

    def colleagues(self) -> list[dict[str, Any]]:
        """Return the page in plain language: what was tested, what to use, what to expect, when not to trust it.

        Returns
        -------
        parts : list of dict
            With the keys `heading` and `sentences`.
        """
        return describe_for_colleagues(self)

    def methods_text(self) -> str:
        """Return paragraphs for the Methods section of a paper, with references.

        Returns
        -------
        text : str
            Paragraphs, separated by empty lines.
        """
        return "\n\n".join(describe_methods(self))

    def results_text(self) -> str:
        """Return paragraphs for the Results section of a paper, with all numbers.

        Returns
        -------
        text : str
            Paragraphs, separated by empty lines.
        """
        return "\n\n".join(describe_results(self))

    def to_dict(self) -> dict[str, Any]:
        """Return everything except predictions in values that JSON can represent; others than finite numbers are None.

        Returns
        -------
        result : dict
            Settings, sites, measures, summary, curves, texts and the checklist.
        """
        settings = self.settings
        result: dict[str, Any] = plain_values(
            {
                "title": f"Validation: {settings.name}",
                "name": settings.name,
                "notices": [*settings.notices, *settings.failures],
                "facts": dict(settings.facts),
                "event": self.event if self.is_binary else "",
                "odds": self.odds if self.is_binary else None,
                "subgroups": self.subgroup_records,
                **self.statistics_dict(),
                "importance": None if self.importance is None else self.importance.to_dict(),
                "colleagues": self.colleagues(),
                "methods_text": describe_methods(self),
                "results_text": describe_results(self),
                "checklist": self.checklist(),
            }
        )
        return result

    def statistics_dict(self) -> dict[str, Any]:
        """Return statistics and curves, without texts: what the report of a comparison shows, too."""
        settings = self.settings
        return {
            "method": settings.method,
            "methods": self.methods,
            "classes": self.classes.tolist(),
            "positive": settings.positive,
            "positive_rule": settings.positive_rule,
            "threshold_aim": settings.aim,
            "level": settings.level,
            "uses_prior": settings.use_prior,
            "few_events_limit": FEW_EVENTS,
            "unit": self.unit,
            "measure_names": {
                name: {
                    "label": measure.label,
                    "explanation": measure.explanation,
                    "ideal": measure.ideal,
                    "in_forest": measure.has_band,
                }
                for name, measure in MEASURES.items()
            },
            "sites": self.site_records,
            "measures": self.measure_records,
            "summary": self.summary_records,
            "comparison": self.comparison_records,
            "curves": self.curves,
        }

    def to_html(self) -> str:
        """Return the report as one self-contained page.

        Returns
        -------
        page : str
            HTML.
        """
        return render_validation(self.to_dict())

    def write_tables(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write every table as a CSV file.

        Parameters
        ----------
        folder : str or path
            Folder, which is created if it does not exist. Existing files of the same names are replaced.

        Returns
        -------
        paths : list of Path
            The files.
        """
        tables = {
            "sites": self.site_records,
            "measures": self.measure_records,
            "summary": self.summary_records,
            "subgroups": self.subgroup_records,
            "comparison": self.comparison_records,
            "importance": [] if self.importance is None else self.importance.records(),
            "predictions": self.prediction_records,
            "checklist": self.checklist(),
        }
        paths = []
        for name, records in tables.items():
            if records:
                path = Path(folder) / f"{name}.csv"
                columns = list(dict.fromkeys(key for record in records for key in record))
                with atomic_write(path) as file, file.open("w", newline="", encoding="utf-8") as text:
                    writer = csv.DictWriter(text, columns)
                    writer.writeheader()
                    writer.writerows(plain_values(records))
                paths.append(path)
        return paths

    def __str__(self) -> str:
        return "\n".join(sentence for part in self.colleagues() for sentence in part["sentences"])


def _as_frame(records: list[dict[str, Any]], name: str) -> Any:
    return optional_import("pandas", f"The frame {name!r}").DataFrame(records)


def read_threshold(threshold: str | float | None) -> str | float | None:
    """Return the number that a text states, other aims as they are."""
    try:
        return threshold if threshold is None else float(threshold)
    except ValueError:
        return threshold
