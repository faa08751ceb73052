"""Results of sites combined: the setting that is selected, and the validation report of all sites."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from .. import __version__
from ..evaluation import HeldOutPredictions, Row, Task, ValidationResult, ValidationSettings, check_cost
from ..linalg import Array
from ..metrics import Estimate
from ..model_selection import Forecast, describe_expected_performance, forecast
from ..models import Model, load_model
from ..tables import Column, Schema, Table, format_count
from ..utils.io import plain_values
from ._files import ExchangeError, check_different_sites
from ._fit import EXCHANGE, StudyModels, identify, with_setting
from ._results import ModelResults, SiteResults, outcomes_of_bins, with_interval

MAX_ROWS = 5_000_000  # of all sites: curves are drawn from one entry for each


@dataclass(frozen=True, eq=False)
class CombinedValidation(ValidationResult):
    """Result of :func:`~unseen.exchange.combine`: a :class:`~unseen.evaluation.ValidationResult` without rows.

    Estimates, summaries and case mix are those of the sites. Curves and distributions of risks are drawn from
    histograms, as if rows were spread over their bin.

    Parameters
    ----------
    site_results : mapping
        By site, its file and the results of the setting that is reported for it.
    model : Model or None
        The model with the selected setting, if the models of the study were given.
    setting : str
        The setting that was selected on all sites; "" without settings.

    See Also
    --------
    combine : Makes it from the files of sites.

    Examples
    --------
    >>> import unseen
    >>> from unseen.datasets import load_hospitals
    >>> from unseen.exchange import combine, score_site
    >>> hospitals, ulm = load_hospitals()
    >>> features = ["age", "temperature", "heart_rate", "crp"]
    >>> model = unseen.fit(hospitals, label="diagnosis", domain="hospital", features=features, methods="logistic")
    >>> result = combine([score_site(model, ulm, site="ulm", smallest_cell=1)])
    >>> result.site_records[0]["rows"]
    200
    """

    site_results: Mapping[str, tuple[SiteResults, ModelResults]] = field(default_factory=dict, repr=False)
    model: Model | None = None
    setting: str = ""

    @cached_property
    def estimates(self) -> dict[tuple[str, str, Any], dict[str, Estimate]]:
        """Each measure on each site, by method, measure and class."""
        level = self.settings.level
        estimates: dict[tuple[str, str, Any], dict[str, Estimate]] = {}
        for site, (file, result) in self.site_results.items():
            named = {key: with_interval(one, level) for key, one in result.measures.items()}
            if self.is_binary:
                del named["log_loss", None]
                at_threshold = result.measure_threshold(file.event_counts, file.threshold, self.odds, level)
                named |= {(name, file.positive): one for name, one in at_threshold.items()}
            for (name, of_class), one in named.items():
                estimates.setdefault((self.settings.method, name, of_class), {})[site] = one
        return estimates

    @cached_property
    def site_records(self) -> list[dict[str, Any]]:
        """One record for each site: size, events, missing values, case mix, threshold."""
        records = [dict(record) for record in super().site_records]
        n = np.array([record["rows"] for record in records])
        means, deviations = np.array(
            [(result.logit_mean, result.logit_sd) for _, result in self.site_results.values()]
        ).T
        center = n @ means / n.sum()
        spread = float(np.sqrt(n @ (deviations**2 + (means - center) ** 2) / n.sum())) or 1.0
        for i, (record, (file, _)) in enumerate(zip(records, self.site_results.values(), strict=True)):
            record["missing_share"] = file.missing_share
            if self.is_binary:
                record["case_mix_mean"] = float((means[i] - center) / spread)
                record["case_mix_sd"] = float(deviations[i] / spread)
        return records

    @property
    def recommendation(self) -> None:
        """None: there is one model."""


def combine(
    files: Sequence[SiteResults | str | os.PathLike[str]],
    *,
    model: Model | str | os.PathLike[str] | None = None,
    cost: str | None = None,
    event: str = "",
    unit: str = "",
    tau_prior: Literal["none", "empirical"] = "none",
    level: float = 0.95,
    command: str = "unseen.exchange.combine(...)",
) -> CombinedValidation:
    """Combine the results of sites into a validation: that of :func:`unseen.validate` with all rows in one place.

    If the sites evaluated the models of a study, each site reports the setting with the lowest mean log loss at the
    other sites, and the setting with the lowest mean over all sites is selected.

    Parameters
    ----------
    files : sequence of SiteResults, str or path
        Results of the same model, one for each site.
    model : Model, str or path, default=None
        The model of :func:`fit_statistics`, to get it with the selected setting.
    cost, event, unit, tau_prior, level, command
        As for :func:`unseen.validate`.

    Returns
    -------
    result : CombinedValidation
        Sites, measures, summary, curves, texts and report; `model` is the model with the selected setting.

    Examples
    --------
    >>> import tomllib
    >>> from unseen.datasets import load_hospitals
    >>> from unseen.exchange import aggregate, combine, draft_plan, fit_statistics, load_plan, score_site
    >>> hospitals, _ = load_hospitals()
    >>> rows = {name: hospitals.filter(hospital=name).drop("hospital") for name in ("bonn", "essen", "kiel")}
    >>> plan = load_plan(tomllib.loads(draft_plan(rows["bonn"], label="diagnosis")))
    >>> model = fit_statistics([aggregate(own, plan, site=name) for name, own in rows.items()])
    >>> results = [score_site(model, own, site=name, smallest_cell=1) for name, own in rows.items()]
    >>> result = combine(results, model=model)
    >>> round(result.get_summary("auc").value, 1), result.model.expected_performance.n_domains
    (0.9, 3)
    """
    if tau_prior not in ("none", "empirical"):
        raise ValueError(f"tau_prior={tau_prior!r} is not allowed. Use 'none' or 'empirical'.")
    if cost is not None:
        check_cost(cost)
    sites = [entry if isinstance(entry, SiteResults) else SiteResults.load(entry) for entry in files]
    if not sites:
        raise ExchangeError("There are no files to combine. Pass the results of at least one site.")
    sites.sort(key=lambda site: site.site)
    _check_same(sites)
    first = sites[0]
    names = [result.setting for result in first.results]
    losses = np.array([[site_result(site, name).measures["log_loss", None].value for name in names] for site in sites])
    selected = names[int(losses.mean(axis=0).argmin())]
    reported = [names[0]]
    if len(sites) > 1:  # for each site, the setting that is best at the other sites
        reported = [names[int(np.delete(losses, i, axis=0).mean(axis=0).argmin())] for i in range(len(sites))]
    site_results = {site.site: (site, site_result(site, name)) for site, name in zip(sites, reported, strict=True)}
    method = "model"
    facts: dict[str, Any] = {
        "version": __version__,
        "command": command,
        "design": "Sites sent estimates, counts and histograms; no row left a site.",
    }
    notices = [f"{site.site}: {text}." for site in sites for text in site.notes]
    if first.study:
        facts |= {"exchanged": True, "imputation": "the center in the plan of the study", "scale": "of the plan"}
        methods = {name.partition(",")[0] for name in names}
        method = methods.pop() if len(methods) == 1 else "discriminant of " + " or ".join(sorted(methods))
        table = ", ".join(f"{name}: {loss:.3f}" for name, loss in zip(names, losses.mean(axis=0), strict=True))
        notices.append(
            f"The setting {selected} has the lowest log loss over sites and is selected. Each site reports the setting "
            f"that is best at the other sites. Mean log loss: {table}."
        )
    if any(len(result.bins[0]) for _, result in site_results.values()):
        notices.append("Curves are drawn from histograms of the sites, whose rows are spread over their bin.")
    settings = ValidationSettings(
        method=method if first.study else first.model,
        positive=first.positive,
        aim=first.threshold if first.positive is not None else None,
        level=level,
        use_prior=tau_prior == "empirical",
        cost=cost,
        event=event,
        unit=unit,
        external="" if first.study else first.model,
        notices=tuple(notices),
        facts=facts,
    )
    fitted = None
    if model is not None:
        study_model = model if isinstance(model, Model) else load_model(model)
        fitted = _select_model(study_model, first, selected, sites, losses, command)
    return CombinedValidation(
        settings, _make_predictions(site_results, settings), site_results=site_results, model=fitted, setting=selected
    )


def site_result(site: SiteResults, setting: str) -> ModelResults:
    """Return the results of a site for a setting."""
    return next(result for result in site.results if result.setting == setting)


def _check_same(sites: Sequence[SiteResults]) -> None:
    """Raise unless all files are results of the same models, each of another site, for the same event."""
    check_different_sites((site.site, site.source) for site in sites)
    first = sites[0]

    def describe(site: SiteResults) -> dict[str, Any]:
        return {
            "model": site.model_id or site.model,
            "study": site.study,
            "classes": site.classes.tolist(),
            "event": site.positive,
            "threshold": site.threshold,
            "columns": site.columns,
            "settings": sorted(result.setting for result in site.results),
        }

    for site in sites[1:]:
        for key, value in describe(site).items():
            if value != describe(first)[key]:
                raise ExchangeError(
                    f"{site.source}: cannot be combined with {first.source}, because the {key} differs. Send both "
                    "sites the same model, and evaluate it again with the same options."
                )
    n_rows = int(sum(site.counts.sum() for site in sites))
    if n_rows > MAX_ROWS:
        raise ExchangeError(f"The sites have {n_rows:,} rows; results of at most {MAX_ROWS:,} can be combined.")


def _make_predictions(
    site_results: Mapping[str, tuple[SiteResults, ModelResults]], settings: ValidationSettings
) -> HeldOutPredictions:
    """Rows with the classes of all sites and, for two classes, the mean risk of their bin."""
    files = [file for file, _ in site_results.values()]
    classes = files[0].classes
    tasks, rows, labels = [], [], []
    for file, result in site_results.values():
        task = Task((), (file.site,))
        if file.positive is None:
            labels.append(np.repeat(classes, file.counts))
            P = np.full((len(labels[-1]), len(classes)), 1 / len(classes))
        else:
            events, risks = outcomes_of_bins(result)
            is_last = classes.tolist()[1] == file.positive
            P = np.column_stack([1 - risks, risks] if is_last else [risks, 1 - risks])
            labels.append(classes[np.where(events, int(is_last), 1 - int(is_last))])
        threshold = file.threshold if file.positive is not None else None
        details = {"model": result.setting} if result.setting else {}
        tasks.append(task)
        rows.append(
            Row(settings.method, task.name, task.targets, settings=details, threshold=threshold, probabilities=P)
        )
    site = np.repeat([file.site for file in files], [len(part) for part in labels])
    schema = Schema(tuple(Column(name, "numeric") for name in files[0].columns))
    name = files[0].study or f"{format_count(len(files), 'site')} of {files[0].model}"
    table = Table(np.empty((len(site), 0)), np.concatenate(labels), site, schema, [], name)
    return HeldOutPredictions(table, tasks, rows, classes)


def _select_model(
    model: Model, first: SiteResults, selected: str, sites: Sequence[SiteResults], losses: Array, command: str
) -> Model:
    """The model of a study with the selected setting; its card has the log loss of each site."""
    study = StudyModels.from_model(model)
    if study is None or identify(model) != first.model_id:
        raise ExchangeError(f"{model.name}: is not the model that the sites evaluated.")
    setting = next((one for one in study.models if one.name == selected), None)
    if setting is None:
        raise ExchangeError(f"{model.name}: does not hold the setting {selected!r}.")
    chosen = with_setting(model, study, setting)
    column = [result.setting for result in first.results].index(selected)
    values = {site.site: float(loss) for site, loss in zip(sites, losses[:, column], strict=True)}
    mean, lower, upper = forecast(losses[:, column], bounds=(0.0, np.inf))
    expected = Forecast(
        mean, lower, upper, metric="log loss", scores=tuple(losses[:, column].tolist()), bounds=(0.0, np.inf)
    )
    scores = {
        "measure": "log loss on a domain by a model fitted on the other domains",
        "metric": "log loss",
        "mean": mean,
        "by_domain": values,
        "rows": {site.site: int(site.counts.sum()) for site in sites},
    }
    card = {key: value for key, value in chosen.card.items() if key not in (EXCHANGE, "sha256")}
    card |= {"scores": scores, "command": command}
    card["expected_performance"] = {**plain_values(asdict(expected)), "text": describe_expected_performance(expected)}
    return replace(chosen, card=card)
