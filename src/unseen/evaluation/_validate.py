"""`validate`: internal-external validation of the model that `fit` returns."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..exceptions import DataWarning, NewDataWarning, ParameterError, warn
from ..kernels import SizePlan
from ..linalg import Array
from ..metrics import stated_odds
from ..model_selection import expand_methods
from ..models import AUTO, Model, check_threshold, choose_domain_threshold, choose_positive, load_model
from ..shift import find_column_notices
from ..tables import MIN_DOMAIN_ROWS, Dates, Scale, Schema, Table, TableOptions, has_columns, is_path
from ..utils.jobs import environment_info
from ..utils.samples import Balance
from ..utils.validation import Labels, check_domains, format_list
from ._protocol import Protocol, Task, read_threshold
from ._result import ValidationResult, ValidationSettings
from ._run import HeldOutPredictions, parse_models, read_data, run
from ._store import Row

DEFAULT_COMPARISONS = ("logistic", "gradient boosting", "random forest")
CLOSEST_THRESHOLD = 1e-9  # to 0 and 1
MAX_SUBGROUPS = 10  # different numbers that are subgroups as they are
MIN_SITES = 3  # a model for two of them is selected by holding out each


def validate(
    data: Any,
    y: Any = None,
    *,
    sample_domain: Any = None,
    label: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    unlabeled: str | int | None = None,
    dates: Dates = "drop",
    categories: Sequence[str] | None = None,
    missing: Mapping[str, Any] | None = None,
    positive: Any = None,
    threshold: str | float | None = None,
    cost: str | None = None,
    event: str = "",
    unit: str = "",
    by: Sequence[str] = (),
    model: Any = None,
    methods: Any = AUTO,
    compare_with: Sequence[Any] | str = DEFAULT_COMPARISONS,
    metric: str = "accuracy",
    tau_prior: Literal["none", "empirical"] = "none",
    level: float = 0.95,
    importance: bool = False,
    scale: Scale = "standardize",
    transductive: bool = False,
    balance: Balance = "none",
    max_per_domain: int | None = None,
    min_domain_rows: int = MIN_DOMAIN_ROWS,
    store: str | Path | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    command: str = "unseen.validate(...)",
) -> ValidationResult:
    """Validate the model that :func:`unseen.fit` returns on each held-out site, as a multi-site study reports it.

    Each domain (site) is held out in turn, the whole fit is repeated on the others, and the model predicts the held-out
    one: nested leave-one-domain-out cross-validation, which medicine calls internal-external validation. The result has
    discrimination, calibration and clinical usefulness of each site with intervals, and their random-effects summary.
    A :class:`~unseen.exceptions.DataWarning` names the domains without which no model can be fitted.

    Parameters
    ----------
    data : array-like of shape (n_samples, n_features), DataFrame, str, path or Table
        Samples; or a table with columns of labels and domains, as for :func:`unseen.fit`.
    y : array-like of shape (n_samples,), default=None
        Class labels, unless they are a column of a table.
    sample_domain : array-like of shape (n_samples,), default=None
        The domain of each sample, unless it is a column of a table.
    label, domain, group, features, drop, unlabeled, dates, categories, missing, max_per_domain, min_domain_rows
        The roles of the columns and the rows to use, as for :func:`unseen.tables.load_table`.
    positive : object, default=None
        Class that is the event. None takes the last of two classes in sorted order, as scikit-learn does; the result
        states it.
    threshold : str or float, default=None
        Risk from which a row counts as an event: a number; "youden"; "sensitivity=0.9"; "specificity=0.9"; or
        "cost=5:1", if a missed event costs 5 times as much as a false alarm. It is chosen for each held-out site on
        out-of-domain predictions of the other sites. None means 0.5. For two classes only.
    cost : str, default=None
        Costs of a missed event and of a false alarm, such as "5:1", which weigh false positives in net benefit. None
        takes those of the threshold.
    event, unit : str, default=""
        Names of the event and of rows in texts, such as "death" and "patients".
    by : sequence of str, default=()
        Feature columns, by whose values all measures are repeated for subgroups. Numbers with more than
        10 different values are divided at their terciles.
    model : Model, str or path, default=None
        A fitted model or a model file. If given, it is validated as it is on the sites of the data, which it was not
        fitted to; no models are fitted, one site is enough, and parameters of the fit are not used.
    methods : str, estimator, tuple, Method or list of these, default="auto"
        The model, as for :func:`unseen.fit`; or a classifier of scikit-learn.
    compare_with : sequence, default=("logistic", "gradient boosting", "random forest")
        Methods that are validated beside it, in the same forms; () or "none" for none.
    metric : str, default="accuracy"
        Metric of the model selection within each fit, as for :func:`unseen.fit`.
    tau_prior : {"none", "empirical"}, default="none"
        With "empirical", the standard deviation between sites has a half-normal prior where one is known
        (``unseen.metrics.TAU_PRIOR_SCALES``), which gives useful intervals for 3 or 4 sites.
    level : float, default=0.95
        Nominal coverage of all intervals.
    importance : bool, default=False
        Whether to measure how much the AUC of the model falls on each held-out site if a column is permuted there. It
        needs no further fits, but predictions of at most 500 rows of each site, five times for each column.
    scale : {"standardize", "l2", "none"}, default="standardize"
        See :func:`unseen.tables.make_preprocessor`.
    transductive : bool, default=False
        Whether models that need batches of each new domain may be used.
    balance : {"none", "classes", "domains"}, default="none"
        What has equal weight in training.
    store : str or path, default=None
        File to which predictions are added as they are complete; the same call continues an interrupted run from it.
    random_state : int, default=0
        Seed of the random number generators.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.
    command : str, default="unseen.validate(...)"
        Command that repeats the validation, which the report shows.

    Returns
    -------
    result : unseen.evaluation.ValidationResult
        Sites, measures, summary, curves, texts and report.

    See Also
    --------
    unseen.compare : Compare many methods on held-out domains.
    unseen.evaluation.validate_predictions : The same statistics for predictions that exist already.

    Examples
    --------
    >>> import numpy as np
    >>> import unseen
    >>> rng = np.random.default_rng(0)
    >>> X, site = rng.normal(size=(400, 3)), np.repeat(["bonn", "leeds", "oslo", "turin"], 100)
    >>> y = np.where(X[:, 0] + rng.normal(size=400) > 0.5, "ill", "well")
    >>> result = unseen.validate(X, y, sample_domain=site, methods="logistic", compare_with=(), positive="ill")
    >>> auc = result.get_summary("auc")
    >>> bool(auc.interval[0] < auc.value < auc.interval[1]), result.site_records[0]["few_events"]
    (True, True)
    """
    start = time.perf_counter()
    if tau_prior not in ("none", "empirical"):
        raise ValueError(f"tau_prior={tau_prior!r} is not allowed. Use 'none' or 'empirical'.")
    if cost is not None:
        check_cost(cost)
    settings = ValidationSettings(
        method="",
        positive=positive,
        aim=read_threshold(threshold),
        level=level,
        metric=metric,
        use_prior=tau_prior == "empirical",
        cost=cost,
        event=event,
        unit=unit,
        facts={"version": __version__, "command": command, "machine": environment_info()},
    )
    if model is not None:
        return _validate_model(model, data, y, domain if sample_domain is None else sample_domain, by, settings)
    options = TableOptions(
        label=label,
        domain=domain,
        group=group,
        features=features,
        drop=drop,
        unlabeled=unlabeled,
        dates=dates,
        categories=categories,
        missing=missing,
        max_per_domain=max_per_domain,
        min_domain_rows=min_domain_rows,
        seed=random_state,
    )
    table = read_data(data, y, sample_domain, options, "validate")
    site_rows = np.unique(table.domain, return_counts=True)[1]
    n_sites = len(site_rows)
    if n_sites < MIN_SITES:
        raise ValueError(
            f"validate needs at least {MIN_SITES} domains, since a model is selected on the domains that remain when "
            f"one is held out; the data have {n_sites}. Use more domains, or compare for two."
        )
    positive, positive_rule = choose_positive(table.samples.classes, positive)
    check_threshold(settings.aim, len(table.samples.classes))
    if isinstance(compare_with, str):
        compare_with = [] if compare_with == "none" else [compare_with]
    models = [methods, *compare_with]
    (main,) = parse_models(models[:1])
    for members in parse_models(models).values():
        expand_methods(members, transductive=transductive)  # raises for transductive methods that are not allowed
    subgroups = {name: read_subgroups(table, name) for name in by}
    protocol = Protocol(
        scale=scale,
        transductive=transductive,
        seed=random_state,
        metric=metric,
        balance=balance,
        threshold=settings.aim,
        positive=positive,
    )
    importance_of = main if importance else None
    predictions = run(table, models, protocol, store=store, n_jobs=n_jobs, verbose=verbose, importance_of=importance_of)
    failed = [row for row in predictions.rows if row.status != "ok"]
    reasons = [row.reason for row in failed if row.method == main]
    if len(reasons) == n_sites:
        raise ValueError(
            f"{main!r} could not be fitted without any of the {n_sites} domains. The first error: {reasons[0]}"
        )
    failures = [f"{row.method} could not be fitted without {row.domain}: {row.reason}" for row in failed]
    for text in failures:
        warn(text, DataWarning)
    facts = {
        **settings.facts,
        "design": SizePlan.from_rows(len(table.X) - int(site_rows.min())).methods_text,
        "n_parameters": count_parameters(table.schema),
        "scale": scale,
        "balance": balance,
        "transductive": transductive,
        "random_state": random_state,
        "seconds": time.perf_counter() - start,
    }
    settings = replace(
        settings,
        method=main,
        positive=positive,
        notices=(*table.notices, *find_column_notices(table), *filter(None, [positive_rule])),
        failures=tuple(failures),
        facts=facts,
    )
    return ValidationResult(settings, predictions, subgroups)


def _validate_model(
    model: Any, data: Any, y: Any, sample_domain: Any, by: Sequence[str], settings: ValidationSettings
) -> ValidationResult:
    """Validate a fitted model, as it is, on labeled rows of new sites."""
    name = str(model) if isinstance(model, (str, Path)) else "model"
    fitted: Model = load_model(model) if isinstance(model, (str, Path)) else model
    classes = fitted.classes_
    table_model = fitted.table_model
    column = fitted.schema.domain
    has_names = is_path(data) or has_columns(data)
    if sample_domain is None and column is not None and has_names and fitted.open_table(data).has_column(column):
        sample_domain = column
    X, domain, codes = fitted.read_labeled(data, y, sample_domain)
    site = np.full(len(X), "new site") if domain is None else np.asarray(domain).astype(str)
    positive = settings.positive
    if positive is None and table_model.threshold is not None:
        positive = classes[table_model.positive_code]
    positive, positive_rule = choose_positive(classes, positive)
    threshold = table_model.threshold if settings.aim is None else settings.aim
    if isinstance(threshold, str):
        raise ParameterError(
            "threshold",
            f"threshold={threshold!r} cannot be chosen for a fitted model, since that would use the labels of the new "
            "sites. Use a number, or leave it out for the threshold of the model.",
        )
    check_threshold(threshold, len(classes))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NewDataWarning)
        P = fitted.predict_proba(X, sample_domain=None if domain is None else site)
    data_name = str(data) if isinstance(data, (str, Path)) else "new data"
    table = Table(X, classes[codes], site, fitted.schema, [], data_name)
    settings = replace(
        settings,
        method=name,
        external=name,
        positive=positive,
        aim=threshold,
        notices=tuple(filter(None, [positive_rule, *(str(one.message) for one in caught)])),
    )
    subgroups = {one: read_subgroups(table, one) for one in by}
    return ValidationResult(settings, _collect_predictions(table, classes, {name: P}, settings), subgroups)


def _collect_predictions(
    table: Table, classes: Labels, named: Mapping[str, Array], settings: ValidationSettings
) -> HeldOutPredictions:
    """Collect probabilities of each method for all rows, NaN where there are none, and choose its thresholds.

    A threshold with an aim is chosen for each site on the predictions of all other sites.
    """
    tasks = [Task((), (site,)) for site in np.unique(table.domain).tolist()]
    events = table.y == settings.positive
    rows = []
    for task, (method, all_rows) in product(tasks, named.items()):
        is_held_out = table.domain == task.targets[0]
        P = all_rows[is_held_out]
        row = Row(method, task.name, task.targets)
        if not np.isfinite(P).any():
            rows.append(replace(row, status="failed", reason="there are no predictions"))
            continue
        threshold = settings.aim
        if isinstance(threshold, str):
            risks = all_rows[:, classes == settings.positive][:, 0]
            is_used = ~is_held_out & np.isfinite(risks)
            chosen = choose_domain_threshold(events[is_used], risks[is_used], table.domain[is_used], threshold)
            # Predicted risks of 0 and 1 may be chosen, at which net benefit is not defined.
            threshold = float(np.clip(chosen.threshold, CLOSEST_THRESHOLD, 1 - CLOSEST_THRESHOLD))
        codes = P.argmax(axis=1)
        accuracy = float(np.mean(classes[codes] == table.y[is_held_out]))
        rows.append(replace(row, accuracy=accuracy, threshold=threshold, codes=codes, probabilities=P))
    return HeldOutPredictions(table, tasks, rows, classes)


def check_cost(cost: str) -> None:
    """Raise ValueError for costs that are not two positive numbers."""
    try:
        stated_odds(f"cost={cost}")
    except ValueError:
        raise ParameterError(
            "cost",
            f"cost={cost!r} is not allowed. Use two positive numbers, such as '5:1' if a missed event costs 5 times as "
            "much as a false alarm.",
        ) from None


def count_parameters(schema: Schema) -> int:
    """Number of parameters of a regression model: one for a number, one for each further level of a category."""
    return sum(max(len(column.levels) - 1, 1) if column.kind == "categorical" else 1 for column in schema.columns)


def read_subgroups(table: Table, name: str) -> dict[str, NDArray[np.bool_]]:
    """Rows of each subgroup by a column of the features; numbers with many values are divided at their terciles."""
    schema = table.schema
    if name not in schema.feature_names:
        raise ParameterError(
            "by", f"by={name!r} is not a column of the features. Use one of {format_list(schema.feature_names)}."
        )
    position = schema.feature_names.index(name)
    column = schema.columns[position]
    values = table.X[:, position]
    distinct = np.unique(values[np.isfinite(values)]).tolist()
    if column.kind == "categorical":
        levels = [*column.levels, "other"]  # -1, a level that was not in training, is the last one
        subgroups = {levels[int(value)]: values == value for value in distinct}
    elif len(distinct) <= MAX_SUBGROUPS:
        subgroups = {f"{value:g}": values == value for value in distinct}
    else:
        low, high = np.nanquantile(values, [1 / 3, 2 / 3])
        subgroups = {
            f"up to {low:g}": values <= low,
            f"{low:g} to {high:g}": (values > low) & (values <= high),
            f"above {high:g}": values > high,
        }
    subgroups["missing"] = np.isnan(values)
    return {key: rows for key, rows in subgroups.items() if rows.any()}


def validate_predictions(
    y: Any,
    probabilities: Any,
    *,
    sample_domain: Any,
    classes: Sequence[Any] | None = None,
    positive: Any = None,
    threshold: str | float | None = None,
    cost: str | None = None,
    event: str = "",
    unit: str = "",
    subgroups: Mapping[str, Any] | None = None,
    tau_prior: Literal["none", "empirical"] = "none",
    level: float = 0.95,
    name: str = "predictions",
    method: str = "model",
) -> ValidationResult:
    """Compute the statistics of :func:`unseen.validate` from out-of-domain predictions that exist already.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        True classes.
    probabilities : array-like of shape (n_samples,) or (n_samples, n_classes), or dict of these
        Predicted probabilities of the event, or of each class; of each row by a model that was not trained on its
        domain. NaN for all rows of a domain means that there are no predictions for it. Or several of these, by the
        name of the method; the first one is the model that is reported.
    sample_domain : array-like of shape (n_samples,)
        The domain of each row.
    classes : sequence, default=None
        Classes in the order of the columns; None means sorted order.
    positive : object, default=None
        Class that is the event, as for :func:`unseen.validate`.
    threshold : str or float, default=None
        As for :func:`unseen.validate`. For each domain it is chosen on the predictions of all other domains.
    cost, event, unit, tau_prior, level
        As for :func:`unseen.validate`.
    subgroups : mapping, default=None
        The subgroup of each row, by the name of the column that divides them.
    name : str, default="predictions"
        Name of the data in the report.
    method : str, default="model"
        Name of the method in the report, unless probabilities are given by name.

    Returns
    -------
    result : unseen.evaluation.ValidationResult
        Sites, measures, summary, curves, texts and report.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.evaluation import validate_predictions
    >>> rng = np.random.default_rng(0)
    >>> p, site = rng.uniform(size=600), np.repeat(["bonn", "leeds", "oslo"], 200)
    >>> result = validate_predictions(rng.uniform(size=600) < p, p, sample_domain=site, threshold="youden")
    >>> round(result.get_summary("auc").value, 1), result.settings.positive
    (0.8, True)
    """
    labels = np.asarray(y)
    site = check_domains(sample_domain, len(labels)).astype(str)
    columns = np.unique(labels) if classes is None else np.asarray(classes)
    if len(columns) < 2:
        raise ValueError(f"y has the class {columns.tolist()[0]!r} only; at least 2 classes are needed.")
    order = np.argsort(columns)
    positive, _ = choose_positive(columns[order], positive)
    aim = read_threshold(threshold)
    check_threshold(aim, len(columns))
    if cost is not None:
        check_cost(cost)
    by_method = probabilities if isinstance(probabilities, dict) else {method: probabilities}
    named = {
        str(key): _read_probabilities(values, site, columns, positive)[:, order] for key, values in by_method.items()
    }
    settings = ValidationSettings(
        method=next(iter(named)),
        positive=positive,
        aim=aim,
        level=level,
        use_prior=tau_prior == "empirical",
        cost=cost,
        event=event,
        unit=unit,
        facts={"version": __version__, "command": "unseen.evaluation.validate_predictions(...)"},
    )
    by_column = {}
    for key, values in (subgroups or {}).items():
        names = np.asarray(values).astype(str)
        by_column[key] = {str(one): names == one for one in np.unique(names)}
    table = Table(np.empty((len(labels), 0)), labels, site, Schema(()), [], name)
    return ValidationResult(settings, _collect_predictions(table, columns[order], named, settings), by_column)


def _read_probabilities(values: Any, site: Labels, classes: Labels, positive: Any) -> Array:
    """Probabilities with one column for each class; all rows of a site may be NaN."""
    P = np.asarray(values, dtype=np.float64)
    if P.shape == (len(site),) and len(classes) == 2:
        P = np.where(classes == positive, P[:, None], 1 - P[:, None])
    if P.shape != (len(site), len(classes)):
        raise ValueError(
            f"probabilities has shape {P.shape}, but there are {len(site)} rows and {len(classes)} classes. Give one "
            "column per class, or the probability of the event."
        )
    known = P[np.isin(site, np.unique(site[np.isfinite(P).any(axis=1)]))]
    if not len(known):
        raise ValueError("probabilities has no values, only NaN.")
    if not ((known >= 0) & (known <= 1)).all():
        raise ValueError(
            "probabilities has values that are NaN or not between 0 and 1. Pass probabilities, and NaN only for all "
            "rows of a domain without predictions."
        )
    return P
