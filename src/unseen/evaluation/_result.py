"""Results of evaluations: what all have in common; and sites, measures, summary, curves, texts of a validation."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import logit

from ..linalg import Array
from ..metrics import DevelopmentSize, Estimate, development_size, random_effects, stated_odds
from ..report import draw_validation, render_validation
from ..tables import Table
from ..utils.io import atomic_write, check_output_path, plain_values
from ..utils.optional_imports import optional_import
from ..utils.validation import Labels
from ._measures import (
    FEW_EVENTS,
    MEASURES,
    MeasureSummary,
    Outcomes,
    common_thresholds,
    make_curves,
    measure_binary,
    measure_multiclass,
    summarize,
    summarize_importance,
)
from ._recommendation import ComparisonResults, Recommendation, recommend
from ._run import DEFAULT_THRESHOLD, HeldOutPredictions
from ._store import Row
from ._texts import Texts

CLOSEST_PROBABILITY = 1e-7  # probabilities of 0 and 1 have no logit


class EvaluationResult:
    """What results of evaluations have in common: one dictionary, from which tables, figures and pages are made."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything in values that JSON can represent."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """Return the main table as a pandas DataFrame."""
        raise NotImplementedError

    def plot(self, figure: Any = None) -> Any:
        """Draw the main figure."""
        raise NotImplementedError

    def to_html(self) -> str:
        """Return the report as one self-contained page.

        Returns
        -------
        page : str
            HTML.
        """
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
    positive : object
        Class that is the event; None for several classes.
    aim : str, float or None
        How the threshold was chosen; None for 0.5.
    level : float
        Nominal coverage of all intervals.
    metric : str
        Metric of the recommendation.
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
    positive: Any = None
    aim: str | float | None = None
    level: float = 0.95
    metric: str = "accuracy"
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
    predictions : HeldOutPredictions
        Predictions of each method for each site, one repeat.
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
    predictions: HeldOutPredictions = field(repr=False)
    subgroups: Mapping[str, Mapping[str, NDArray[np.bool_]]] = field(default_factory=dict, repr=False)

    # What was validated

    @property
    def rows(self) -> list[Row]:
        """Predictions: one for each method, held-out domain and repeat."""
        return self.predictions.rows

    @property
    def table(self) -> Table:
        """The rows."""
        return self.predictions.table

    @property
    def columns(self) -> list[str]:
        """Names of the features."""
        return list(self.table.schema.feature_names)

    @property
    def classes(self) -> Labels:
        """All classes, in sorted order."""
        return self.predictions.classes

    @cached_property
    def site_names(self) -> list[str]:
        """Sites in the order of their names."""
        return [str(name) for name in np.unique(self.table.domain)]

    @cached_property
    def methods(self) -> list[str]:
        """Methods: the one that is reported, then those beside it."""
        return list(dict.fromkeys([self.settings.method, *(row.method for row in self.rows)]))

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes, one of which is the event."""
        return len(self.classes) == 2

    @cached_property
    def events(self) -> Outcomes:
        """Whether each row has the event, for two classes."""
        return np.asarray(self.table.y == self.settings.positive)

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
        aim = DEFAULT_THRESHOLD if self.settings.aim is None else self.settings.aim
        stated = stated_odds(aim if self.settings.cost is None else f"cost={self.settings.cost}")
        if stated is not None:
            return stated
        median = float(np.median([_threshold(row) for row in self._reported.values()]))
        return median / (1 - median)

    @cached_property
    def has_repeated_units(self) -> bool:
        """Whether several rows of a site belong to the same group."""
        table = self.table
        if table.group is None:
            return False
        return len(np.unique(np.column_stack([table.domain, table.group]), axis=0)) < len(table.y)

    @cached_property
    def development_size(self) -> DevelopmentSize | None:
        """Rows that the model needs for its development; None if the number of parameters is not known."""
        n_parameters = self.settings.facts.get("n_parameters")
        if not self.is_binary or not n_parameters:
            return None
        return development_size(*self._pooled, n_parameters)

    @cached_property
    def _reported(self) -> dict[str, Row]:
        """Rows of the reported method, by site."""
        rows = {row.domain: row for row in self.rows if row.method == self.settings.method}
        return dict(sorted(rows.items()))

    def _risks(self, row: Row) -> tuple[Outcomes, Array]:
        """Whether each row of a site has the event, and its predicted probability."""
        column = int(np.flatnonzero(self.classes == self.settings.positive)[0])
        return self.events[self.predictions.positions[row.task]], np.asarray(row.probabilities)[:, column]

    @cached_property
    def _site_risks(self) -> dict[str, tuple[Outcomes, Array]]:
        """Events and predicted risks of the reported method, by site, where there are predictions."""
        return {site: self._risks(row) for site, row in self._reported.items() if row.probabilities is not None}

    @cached_property
    def _pooled(self) -> tuple[Outcomes, Array]:
        """Events and predicted risks of the reported method on all sites together."""
        events, risks = zip(*self._site_risks.values(), strict=True)
        return np.concatenate(events), np.concatenate(risks)

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """The method to use, by the rule of :func:`unseen.compare`; None for a fitted model or without scores."""
        if self.settings.external:
            return None
        return recommend(ComparisonResults.from_predictions(self.predictions, self.settings.metric))

    # Numbers

    @cached_property
    def estimates(self) -> dict[tuple[str, str, Any], dict[str, Estimate]]:
        """Each measure on each site, by method, measure and class; not defined (NaN) without predictions."""
        level = self.settings.level
        estimates: dict[tuple[str, str, Any], dict[str, Estimate]] = {}
        for row in sorted(self.rows, key=lambda row: self.methods.index(row.method)):
            if row.probabilities is None:
                continue
            if self.is_binary:
                measured = measure_binary(*self._risks(row), _threshold(row), self.odds, level)
                named = [(name, self.settings.positive, estimate) for name, estimate in measured.items()]
            else:
                y = self.table.y[self.predictions.positions[row.task]]
                named = list(measure_multiclass(y, row.probabilities, self.classes.tolist(), level))
            for name, of_class, estimate in named:
                undefined = dict.fromkeys(self.site_names, Estimate.make_undefined(estimate.scale))
                estimates.setdefault((row.method, name, of_class), undefined)[row.domain] = estimate
        return estimates

    @cached_property
    def summaries(self) -> dict[tuple[str, str, Any], MeasureSummary]:
        """The random-effects summary of each measure, by method, measure and class."""
        level = self.settings.level
        use_prior = self.settings.use_prior
        return {
            key: summarize(MEASURES[key[1]], list(by_site.values()), level=level, use_prior=use_prior)
            for key, by_site in self.estimates.items()
        }

    def get_summary(self, measure: str, method: str | None = None, of_class: Any = None) -> MeasureSummary:
        """Return the summary of one measure; of the reported method and the event unless others are named."""
        method = method or self.settings.method
        if of_class is None and self.is_binary:
            of_class = self.settings.positive
        if (method, measure, of_class) not in self.summaries:
            raise KeyError(f"There is no measure {measure!r} of the method {method!r} and the class {of_class!r}.")
        return self.summaries[method, measure, of_class]

    def label_measure(self, measure: str, of_class: Any) -> str:
        """Name of a measure in reports; of several classes, with the class against all others."""
        label = MEASURES[measure].label
        return label if self.is_binary or of_class is None else f"{label}, class {of_class}"

    @cached_property
    def site_records(self) -> list[dict[str, Any]]:
        """One record for each site: size, events, missing values, case mix, threshold."""
        records = []
        for site in self.site_names:
            rows = self.table.domain == site
            counts = {str(name): int((self.table.y[rows] == name).sum()) for name in self.classes.tolist()}
            record: dict[str, Any] = {"site": site, "rows": int(rows.sum())}
            if self.is_binary:
                record["events"] = counts[str(self.settings.positive)]
                record["prevalence"] = record["events"] / record["rows"]
                case_mix = self._case_mix.get(site, np.array([np.nan]))
                record |= {"case_mix_mean": float(case_mix.mean()), "case_mix_sd": float(case_mix.std())}
            else:
                record |= {f"rows_{name}": count for name, count in counts.items()}
            row = self._reported.get(site)
            record |= {
                "missing_share": float(np.isnan(self.table.X[rows]).mean()) if self.table.X.shape[1] else None,
                "few_events": min(counts.values()) < FEW_EVENTS,
                "threshold": _threshold(row) if row and self.is_binary else None,
                "model": row.settings.get("model", row.method) if row else "",
                "failure": row.reason if row else "",
            }
            records.append(record)
        return records

    @cached_property
    def _case_mix(self) -> dict[str, Array]:
        """Logits of predicted risks by site, standardized over the rows of all sites."""
        if not self._site_risks:
            return {}
        logits = logit(np.clip(self._pooled[1], CLOSEST_PROBABILITY, 1 - CLOSEST_PROBABILITY))
        ends = np.cumsum([len(risks) for _, risks in self._site_risks.values()])[:-1]
        standardized = np.split((logits - logits.mean()) / (logits.std() or 1.0), ends)
        return dict(zip(self._site_risks, standardized, strict=True))

    @cached_property
    def measure_records(self) -> list[dict[str, Any]]:
        """One record for each method, site and measure."""
        return [
            {
                "method": method,
                "site": site,
                "measure": measure,
                "class": of_class,
                "value": estimate.value,
                "se": estimate.se,
                "low": estimate.interval[0],
                "high": estimate.interval[1],
                "scale": estimate.scale.name,
                "scaled_value": estimate.scaled_value,
                "scaled_se": estimate.scaled_se,
            }
            for (method, measure, of_class), by_site in self.estimates.items()
            for site, estimate in by_site.items()
        ]

    @cached_property
    def summary_records(self) -> list[dict[str, Any]]:
        """One record for each method and measure, summarized over sites."""
        return [
            {
                "method": method,
                "measure": measure,
                "class": of_class,
                "label": self.label_measure(measure, of_class),
                **summary.to_dict(),
            }
            for (method, measure, of_class), summary in self.summaries.items()
        ]

    @cached_property
    def comparison_records(self) -> list[dict[str, Any]]:
        """One record for each method beside the reported one: the mean difference of its AUC over sites.

        Sites have equal weight; the interval is Student's for the mean of paired differences.
        """
        measure, of_class = ("auc", self.settings.positive) if self.is_binary else ("log_loss", None)
        values = {
            method: np.array([estimate.value for estimate in by_site.values()])
            for (method, name, of), by_site in self.estimates.items()
            if (name, of) == (measure, of_class)
        }
        records = []
        for method in self.methods[1:]:
            differences = values[self.settings.method] - values.get(method, np.nan)
            finite = differences[np.isfinite(differences)]
            record = {"method": method, "measure": measure, "n_sites": len(finite)}
            record |= {"difference": np.nan, "low": np.nan, "high": np.nan}
            if len(finite) > 1:
                effects = random_effects(finite, np.zeros(len(finite)), level=self.settings.level)
                low, high = effects.interval
                record |= {"difference": effects.estimate, "low": low, "high": high}
            records.append(record)
        return records

    @cached_property
    def subgroup_records(self) -> list[dict[str, Any]]:
        """One record for each subgroup and measure of the reported method, over the rows of all sites."""
        records = []
        for column, rows_by_name in self.subgroups.items():
            for name, rows in rows_by_name.items():
                size = {"rows": int(rows.sum())}
                if self.is_binary:
                    size["events"] = int(self.events[rows].sum())
                for record in self._restrict(rows).summary_records:
                    shown = {key: record[key] for key in ("measure", "class", "n_sites", "estimate", "low", "high")}
                    records.append({"column": column, "subgroup": name, **size, **shown})
        return records

    def _restrict(self, is_kept: NDArray[np.bool_]) -> ValidationResult:
        """The result for some rows, with the same predictions and the reported method alone."""
        restricted = []
        for row in self._reported.values():
            own = is_kept[self.predictions.positions[row.task]]
            if own.any() and row.probabilities is not None:
                restricted.append(replace(row, probabilities=row.probabilities[own], codes=None))
        table = self.table.take(np.flatnonzero(is_kept))
        settings = replace(self.settings, cost=f"1:{self.odds!r}" if self.is_binary else None)
        predictions = replace(self.predictions, table=table, rows=restricted)
        return ValidationResult(settings, predictions)

    @cached_property
    def importance(self) -> dict[str, Any] | None:
        """How much the AUC falls on held-out sites if a column is permuted; None if it was not measured.

        "scores" is the AUC of each site; each of the "columns", the most important first, has the mean loss over
        sites, the ends of its 95% interval (t) and the loss on each site.
        """
        measured = {site: row.importance for site, row in self._reported.items() if row.importance is not None}
        if not measured:
            return None
        scores = np.array([values["score"] for values in measured.values()])
        losses = np.column_stack([values["losses"] for values in measured.values()])
        return summarize_importance(list(measured), self.columns, scores, losses)

    # Frames

    @property
    def sites(self) -> Any:
        """One row for each site: rows, events, prevalence, missing share, case mix, threshold."""
        return _as_frame(self.site_records)

    @property
    def measures(self) -> Any:
        """One row for each method, site and measure, with its interval."""
        return _as_frame(self.measure_records)

    @property
    def summary(self) -> Any:
        """One row for each method and measure: random-effects summary over sites."""
        return _as_frame(self.summary_records)

    def to_frame(self) -> Any:
        """Return the measures of the reported method, a row for each site and a column for each measure.

        Returns
        -------
        frame : pandas.DataFrame
            With a last row for the random-effects summary.
        """
        columns = {}
        for (method, measure, of_class), summary in self.summaries.items():
            if method == self.settings.method:
                name = measure if self.is_binary or of_class is None else f"{measure} {of_class}"
                by_site = self.estimates[method, measure, of_class]
                columns[name] = [*(estimate.value for estimate in by_site.values()), summary.value]
        pandas = optional_import("pandas", "to_frame()")
        return pandas.DataFrame(columns, index=[*self.site_names, "summary"]).rename_axis("site")

    # Output

    @cached_property
    def curves(self) -> dict[str, Any]:
        """Calibration, decision and ROC curves of the reported method, of each site and of all rows together."""
        if not self.is_binary:
            return {}
        thresholds = common_thresholds(self._pooled[1])
        by_site = {site: make_curves(*outcomes, thresholds) for site, outcomes in self._site_risks.items()}
        return {"pooled": make_curves(*self._pooled, thresholds), "sites": by_site}

    @cached_property
    def _texts(self) -> Texts:
        return Texts(self)

    def plot(self, figure: Any = None) -> Any:
        """Draw discrimination and calibration of the reported method on each site, with their summaries.

        Parameters
        ----------
        figure : matplotlib Figure, default=None
            Figure to draw on; None creates one.

        Returns
        -------
        figure : matplotlib Figure
            A forest plot of each measure.
        """
        return draw_validation(plain_values(self.statistics_dict()), figure)

    def checklist(self) -> list[dict[str, str]]:
        """Return the items of TRIPOD-Cluster and TRIPOD+AI that this validation answers, and those left to the author.

        Returns
        -------
        items : list of dict
            With the keys `section`, `item` and `answer`; answers of the author are marked by "AUTHOR:".
        """
        return self._texts.checklist()

    def colleagues(self) -> list[dict[str, Any]]:
        """Return the page in plain language: what was tested, what to use, what to expect, when not to trust it.

        Returns
        -------
        parts : list of dict
            With the keys `heading` and `sentences`.
        """
        return self._texts.colleagues()

    def methods_text(self) -> str:
        """Return paragraphs for the Methods section of a paper, with references.

        Returns
        -------
        text : str
            Paragraphs, separated by empty lines.
        """
        return "\n\n".join(self._texts.methods())

    def results_text(self) -> str:
        """Return paragraphs for the Results section of a paper, with all numbers.

        Returns
        -------
        text : str
            Paragraphs, separated by empty lines.
        """
        return "\n\n".join(self._texts.results())

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
                "title": f"Validation: {self.table.name}",
                "name": self.table.name,
                "notices": [*settings.notices, *settings.failures],
                "facts": {"n_features": len(self.columns), "columns": self.columns, **settings.facts},
                "event": self.event if self.is_binary else "",
                "odds": self.odds if self.is_binary else None,
                "subgroups": self.subgroup_records,
                **self.statistics_dict(),
                "importance": self.importance,
                "colleagues": self.colleagues(),
                "methods_text": self._texts.methods(),
                "results_text": self._texts.results(),
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
            "threshold_aim": settings.aim,
            "level": settings.level,
            "uses_prior": settings.use_prior,
            "few_events_limit": FEW_EVENTS,
            "unit": self.unit,
            "measure_names": {name: asdict(measure) for name, measure in MEASURES.items()},
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
            "importance": [
                {**{name: entry[name] for name in ("column", "mean", "lower", "upper")}, **entry["by_domain"]}
                for entry in (self.importance or {"columns": []})["columns"]
            ],
            "checklist": self.checklist(),
        }
        frames = {
            name: pl.DataFrame(plain_values(records), infer_schema_length=None)
            for name, records in tables.items()
            if records
        }
        if any(row.codes is not None for row in self.rows):
            frames["predictions"] = self.predictions.to_polars()
        paths = [Path(folder) / f"{name}.csv" for name in frames]
        for path, frame in zip(paths, frames.values(), strict=True):
            with atomic_write(path) as file:
                frame.write_csv(file)
        return paths

    def __str__(self) -> str:
        return "\n".join(sentence for part in self.colleagues() for sentence in part["sentences"])


def _threshold(row: Row) -> float:
    return DEFAULT_THRESHOLD if row.threshold is None else row.threshold


def _as_frame(records: list[dict[str, Any]]) -> Any:
    return optional_import("pandas", "A frame").DataFrame(records)
