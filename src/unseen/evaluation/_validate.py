"""`validate`: internal-external validation of the model that `fit` returns."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from ..tables import MIN_DOMAIN_ROWS, Dates, Scale, Schema, TableOptions, has_columns, is_path
from ..utils.optional_imports import environment_info
from ..utils.samples import Balance
from ..utils.validation import Labels, check_domains, format_list
from ._protocol import Protocol
from ._result import ValidationResult, ValidationSettings, read_threshold
from ._run import DEFAULT_THRESHOLD, parse_models, read_data, run
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
    compare_with: Sequence[Any] = DEFAULT_COMPARISONS,
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
        Methods that are validated beside it, in the same forms; () for none.
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
    threshold = read_threshold(threshold)
    if cost is not None:
        check_cost(cost)
    if model is not None:
        return _validate_model(
            load_model(model) if isinstance(model, (str, Path)) else model,
            data,
            y,
            domain if sample_domain is None else sample_domain,
            positive=positive,
            threshold=threshold,
            by=by,
            settings=ValidationSettings(
                name=str(data) if isinstance(data, (str, Path)) else "new data",
                method="",
                level=level,
                use_prior=tau_prior == "empirical",
                cost=cost,
                event=event,
                unit=unit,
                external=str(model) if isinstance(model, (str, Path)) else "model",
                facts={"version": __version__, "command": command, "machine": environment_info()},
            ),
        )
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
    n_sites = len(np.unique(table.domain))
    if n_sites < MIN_SITES:
        raise ValueError(
            f"validate needs at least {MIN_SITES} domains, since a model is selected on the domains that remain when "
            f"one is held out; the data have {n_sites}. Use more domains, or compare for two."
        )
    if table.group is not None:
        check_groups_within_sites(table.group, table.domain)
    positive, positive_rule = choose_positive(table.samples.classes, positive)
    check_threshold(threshold, len(table.samples.classes))
    models = [methods, *compare_with]
    (main,) = parse_models(models[:1])
    for members in parse_models(models).values():
        expand_methods(members, transductive=transductive)  # raises for transductive methods that are not allowed
    subgroups = {name: read_subgroups(table.X, table.schema, name) for name in by}
    protocol = Protocol(
        scale=scale,
        transductive=transductive,
        seed=random_state,
        metric=metric,
        balance=balance,
        threshold=threshold,
        positive=positive,
    )
    importance_of = main if importance else None
    predictions = run(table, models, protocol, store=store, n_jobs=n_jobs, verbose=verbose, importance_of=importance_of)
    reasons = {row.domain: row.reason for row in predictions.rows if row.method == main and row.status != "ok"}
    if len(reasons) == n_sites:
        first = next(iter(reasons.values()))
        raise ValueError(f"{main!r} could not be fitted without any of the {n_sites} domains. The first error: {first}")
    failures = [
        f"{row.method} could not be fitted without {row.domain}: {row.reason}"
        for row in predictions.rows
        if row.status != "ok"
    ]
    for text in failures:
        warn(text, DataWarning)
    site_rows = np.unique(table.domain, return_counts=True)[1]
    settings = ValidationSettings(
        method=main,
        positive=positive,
        positive_rule=positive_rule,
        aim=threshold,
        level=level,
        use_prior=tau_prior == "empirical",
        cost=cost,
        event=event,
        unit=unit,
        notices=(*table.notices, *find_column_notices(table), *filter(None, [positive_rule])),
        failures=tuple(failures),
        facts={
            "version": __version__,
            "command": command,
            "design": SizePlan.from_rows(len(table.X) - int(site_rows.min())).methods_text,
            "n_parameters": count_parameters(table.schema),
            "scale": scale,
            "balance": balance,
            "transductive": transductive,
            "random_state": random_state,
            "seconds": time.perf_counter() - start,
            "machine": environment_info(),
        },
    )
    return ValidationResult.from_predictions(predictions, settings, subgroups)


def _validate_model(
    model: Model,
    data: Any,
    y: Any,
    sample_domain: Any,
    *,
    positive: Any,
    threshold: str | float | None,
    by: Sequence[str],
    settings: ValidationSettings,
) -> ValidationResult:
    """Validate a fitted model, as it is, on labeled rows of new sites."""
    classes = model.classes_
    table_model = model.table_model
    column = model.schema.domain
    has_names = is_path(data) or has_columns(data)
    if sample_domain is None and column is not None and has_names and model.open_table(data).has_column(column):
        sample_domain = column
    X, domain, codes = model.read_labeled(data, y, sample_domain)
    site = np.full(len(X), "new site") if domain is None else np.asarray(domain).astype(str)
    own_threshold = table_model.threshold
    if positive is None and own_threshold is not None:
        positive = classes[table_model.positive_code]
    positive, positive_rule = choose_positive(classes, positive)
    if isinstance(threshold, str):
        raise ParameterError(
            "threshold",
            f"threshold={threshold!r} cannot be chosen for a fitted model, since that would use the labels of the new "
            "sites. Use a number, or leave it out for the threshold of the model.",
        )
    check_threshold(threshold, len(classes))
    if threshold is None:
        threshold = own_threshold
    cutoff = DEFAULT_THRESHOLD if threshold is None else threshold
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NewDataWarning)
        P = model.predict_proba(X, sample_domain=None if domain is None else site)
    is_binary = len(classes) == 2
    held_out = [
        Row(
            settings.external,
            f"{settings.external} -> {name}",
            (str(name),),
            threshold=cutoff if is_binary else None,
            probabilities=P[site == name],
        )
        for name in np.unique(site)
    ]
    settings = replace(
        settings,
        method=settings.external,
        positive=positive,
        positive_rule=positive_rule,
        aim=threshold,
        notices=tuple(filter(None, [positive_rule, *(str(one.message) for one in caught)])),
        facts={**settings.facts, "n_features": X.shape[1], "columns": list(model.schema.feature_names)},
    )
    shares = {str(name): float(np.isnan(X[site == name]).mean()) for name in np.unique(site)}
    subgroups = {name: read_subgroups(X, model.schema, name) for name in by}
    return ValidationResult(
        settings, classes, classes[codes], site, np.arange(len(X)), shares, held_out, subgroups=subgroups
    )


def check_groups_within_sites(group: Labels, site: Labels) -> None:
    """Raise ValueError for groups with rows at several sites: they would be in training data and in test data."""
    pairs = np.unique(np.column_stack([group, site]), axis=0)
    names, counts = np.unique(pairs[:, 0], return_counts=True)
    shared = names[counts > 1]
    if len(shared):
        first = str(shared[0])
        sites = format_list(pairs[pairs[:, 0] == first, 1].tolist())
        raise ValueError(
            f"{len(shared):,} of {len(names):,} groups have rows in several domains, such as {first!r} in {sites}, and "
            "would be in training data and in test data. Remove these rows or, if the name denotes another group in "
            "each domain, use different names."
        )


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


def read_subgroups(X: Array, schema: Schema, name: str) -> dict[str, NDArray[np.bool_]]:
    """Rows of each subgroup by a column of the features; numbers with many values are divided at their terciles."""
    if name not in schema.feature_names:
        raise ParameterError(
            "by", f"by={name!r} is not a column of the features. Use one of {format_list(schema.feature_names)}."
        )
    position = schema.feature_names.index(name)
    column = schema.columns[position]
    values = X[:, position]
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
    order = np.unique(labels) if classes is None else np.asarray(classes)
    if len(order) < 2:
        raise ValueError(f"y has the class {order.tolist()[0]!r} only; at least 2 classes are needed.")
    positive, positive_rule = choose_positive(order, positive)
    threshold = read_threshold(threshold)
    check_threshold(threshold, len(order))
    if cost is not None:
        check_cost(cost)
    named = probabilities if isinstance(probabilities, dict) else {method: probabilities}
    held_out = []
    for key, values in named.items():
        P = _as_columns(values, len(labels), order, positive)
        _check_probabilities(P, site)
        codes = P.argmax(axis=1)
        for one in np.unique(site):
            rows = site == one
            row = Row(str(key), f"others -> {one}", (str(one),))
            if not np.isfinite(P[rows]).any():
                held_out.append(replace(row, status="failed", reason="there are no predictions"))
                continue
            cutoff = None
            if len(order) == 2:
                cutoff = _other_sites_threshold(labels == positive, P, site, one, order, positive, threshold)
            accuracy = float(np.mean(order[codes[rows]] == labels[rows]))
            held_out.append(replace(row, accuracy=accuracy, threshold=cutoff, codes=codes[rows], probabilities=P[rows]))
    settings = ValidationSettings(
        name=name,
        method=str(next(iter(named))),
        positive=positive,
        positive_rule=positive_rule,
        aim=threshold,
        level=level,
        use_prior=tau_prior == "empirical",
        cost=cost,
        event=event,
        unit=unit,
        facts={"version": __version__, "command": "unseen.evaluation.validate_predictions(...)"},
    )
    columns = {}
    for key, values in (subgroups or {}).items():
        names = np.asarray(values).astype(str)
        columns[key] = {str(one): names == one for one in np.unique(names)}
    return ValidationResult(settings, order, labels, site, np.arange(len(labels)), {}, held_out, subgroups=columns)


def _as_columns(values: Any, n_rows: int, classes: Labels, positive: Any) -> Array:
    """Probabilities with one column for each class."""
    P = np.asarray(values, dtype=np.float64)
    if P.shape == (n_rows,) and len(classes) == 2:
        P = np.column_stack([1 - P, P])
        return P if classes[1] == positive else P[:, ::-1]
    if P.shape != (n_rows, len(classes)):
        raise ValueError(
            f"probabilities has shape {P.shape}, but there are {n_rows} rows and {len(classes)} classes. Give one "
            "column per class, or the probability of the event."
        )
    return P


def _check_probabilities(P: Array, site: Labels) -> None:
    """Raise ValueError for values that are not probabilities; all rows of a site may be NaN."""
    with_predictions = np.isin(site, np.unique(site[np.isfinite(P).any(axis=1)]))
    values = P[with_predictions]
    if not len(values):
        raise ValueError("probabilities has no values, only NaN.")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            "probabilities has values that are NaN or not between 0 and 1. Pass probabilities, and NaN only for all "
            "rows of a domain without predictions."
        )


def _other_sites_threshold(
    events: Array, P: Array, site: Labels, held_out: Any, classes: Labels, positive: Any, aim: str | float | None
) -> float:
    """Threshold for a site, chosen on the predictions of all others."""
    if aim is None:
        return DEFAULT_THRESHOLD
    risks = P[:, int(np.flatnonzero(classes == positive)[0])]
    is_used = (site != held_out) & np.isfinite(risks)
    threshold = choose_domain_threshold(events[is_used], risks[is_used], site[is_used], aim).threshold
    # Predicted risks of 0 and 1 may be chosen, at which net benefit is not defined.
    return float(np.clip(threshold, CLOSEST_THRESHOLD, 1 - CLOSEST_THRESHOLD))
