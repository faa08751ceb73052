"""`fit`: fit a model to a DataFrame, to the path of a table, or to arrays; and choose its decision threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..exceptions import DataWarning, ParameterError, warn
from ..kernels import SizePlan
from ..linalg import Array, Ints
from ..metrics import ThresholdChoice, choose_threshold
from ..model_selection import (
    MIN_DOMAINS_FOR_INTERVAL,
    EnsembleClassifier,
    FittedEnsemble,
    check_metric,
    forecast,
    get_metric,
    parse_methods,
    score_labels,
)
from ..tables import MIN_DOMAIN_ROWS, Dates, Scale, Table, TableOptions, open_data
from ..utils.samples import Balance
from ..utils.validation import Labels
from ._model import Model
from ._model_card import model_card
from ._table_fit import AUTO, Rows, TableFit, TableRows, fit_notices, fit_table, open_row_stream, resolve_methods
from ._table_model import TableModel

FeatureMap = Literal["auto", "none", "nystroem"]
EXACT_BY_FEATURE_MAP: dict[str, bool | None] = {"auto": None, "none": True, "nystroem": False}


def fit(
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
    methods: Any = AUTO,
    metric: str = "accuracy",
    threshold: str | float | None = None,
    positive: Any = None,
    scale: Scale = "standardize",
    transductive: bool = False,
    balance: Balance = "none",
    feature_map: FeatureMap = "auto",
    n_landmarks: int | None = None,
    max_per_domain: int | None = None,
    min_domain_rows: int = MIN_DOMAIN_ROWS,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    client: Any = None,
) -> Model:
    """Fit a model for domains that are not in the data, and evaluate it on each held-out domain.

    The parameters are those of the command ``unseen fit``. A :class:`~unseen.exceptions.DataWarning` is issued for each
    assumption that is made in reading a table, and for data that allow little evidence; the command prints the same
    texts.

    Parameters
    ----------
    data : DataFrame, dict, list of dict, structured array, str, path or array-like of shape (n_samples, n_features)
        A table with columns of labels and domains, in memory or as the path of a file or folder: see
        :func:`unseen.tables.load_table`. Or the features of the samples, with `y` and `sample_domain`.
    y : array-like of shape (n_samples,), default=None
        Class labels, unless they are a column of a table.
    sample_domain : array-like of shape (n_samples,), default=None
        The domain of each sample, unless it is a column of a table.
    label, domain : str, default=None
        Columns of the table; None guesses them from common names.
    group, features, drop, unlabeled, dates, categories, missing, max_per_domain, min_domain_rows
        The roles of the columns and the rows to use, as for :func:`unseen.tables.load_table`.
    methods : str, tuple, Method or list of these, default="auto"
        "auto" is an ensemble of the models of :class:`unseen.UnseenClassifier`. Otherwise a name in
        `unseen.model_selection.METHODS`, or a custom classifier such as ``("mine", SVC(), {"C": [1, 10]})``: see
        :ref:`own_models`. Several methods make an ensemble; for a single method the best settings are selected.
    metric : str, default="accuracy"
        Metric of the model selection, the scores and the expected performance: "accuracy", "balanced_accuracy",
        "f1_macro", "roc_auc", "average_precision", "log_loss", or the name of a scorer of scikit-learn. Weights of an
        ensemble minimize the log loss.
    threshold : str or float, default=None
        Probability from which the positive class is predicted, for two classes: a number, "youden", "sensitivity=0.9",
        "specificity=0.9", or "cost=5:1" if a missed event costs 5 times as much as a false alarm; chosen on
        out-of-domain predictions. None predicts the more probable class.
    positive : object, default=None
        The positive class of the threshold; None means the last one in sorted order.
    scale : {"standardize", "l2", "none"}, default="standardize"
        See :func:`unseen.tables.make_preprocessor`.
    transductive : bool, default=False
        Whether models, and smoothing, that need batches of each new domain may be used. With False the prediction of a
        row does not depend on the other rows.
    balance : {"none", "classes", "domains"}, default="none"
        Give all classes, or all domains, the same total weight in training, for classifiers that support weights.
    feature_map : {"auto", "none", "nystroem"}, default="auto"
        Exact kernels ("none"); landmarks for any number of rows ("nystroem"); or landmarks above 8,000 rows.
    n_landmarks : int, default=None
        Number of landmarks; None means at most 1,000, fewer if they suffice.
    random_state : int, default=0
        Seed of the random number generators.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.
    client : dask.distributed.Client, default=None
        Client of a Dask cluster that reads the rows if there are landmarks; None reads them in this process.

    Returns
    -------
    model : unseen.models.Model
        Predicts DataFrames, files and arrays. `expected_performance` is the score to expect on a new domain, `novelty`
        the distance of new data from the training data, `save` writes a file, and `card` describes everything.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> import unseen
    >>> ages = np.random.default_rng(0).normal(50, 10, 60)
    >>> ill, hospital = np.where(ages > 50, "yes", "no"), np.repeat(["bonn", "leeds", "oslo"], 20)
    >>> patients = pl.DataFrame({"age": ages, "ill": ill, "hospital": hospital})
    >>> model = unseen.fit(patients, label="ill", domain="hospital", methods="logistic")
    >>> model.predict(pl.DataFrame({"age": [20, 80]})).tolist()
    ['no', 'yes']

    The same with arrays:

    >>> model = unseen.fit(ages[:, None], ill, sample_domain=hospital, methods="logistic")
    >>> model.predict([[20.0], [80.0]]).tolist()
    ['no', 'yes']
    """
    methods = parse_methods(methods if isinstance(methods, list) else [methods])
    resolve_methods(methods, transductive=transductive)  # raises for transductive methods that are not allowed
    if feature_map not in get_args(FeatureMap):
        raise ParameterError(
            "feature_map", f"feature_map must be one of {', '.join(get_args(FeatureMap))}; got {feature_map!r}."
        )
    scoring = get_metric(metric).scoring
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
    opened = open_data(data, y, sample_domain, options, "fit")
    source: Rows = TableRows(opened) if isinstance(opened, Table) else opened
    plan = SizePlan.from_rows(
        source.rows,
        exact=EXACT_BY_FEATURE_MAP[feature_map],
        landmarks=n_landmarks,
        ensemble=len(resolve_methods(methods)) > 1,
    )
    table = open_row_stream(source, plan, random_state)
    check_metric(scoring, table.samples.classes)
    check_threshold(threshold, len(table.samples.classes))
    notices = [*fit_notices(table, methods, plan, metric), *_find_unused(plan, n_landmarks=n_landmarks, client=client)]
    for notice in notices:
        warn(notice, DataWarning)
    result = fit_table(
        table,
        methods,
        scale=scale,
        transductive=transductive,
        balance=balance,
        metric=metric,
        random_state=random_state,
        n_jobs=n_jobs,
        verbose=verbose,
        plan=plan,
        stream=source,
        client=client,
    )
    result = with_threshold(result, threshold, positive)
    for notice in result.remarks:
        warn(notice, DataWarning)
    card = model_card(
        replace(table, notices=[*notices, *result.remarks]),
        result,
        method=", ".join(method.name for method in methods),
        scale=scale,
        random_state=random_state,
        source=opened,
        command="unseen.fit(...)",
    )
    return Model(result.model, card)


def _find_unused(plan: SizePlan, **arguments: Any) -> list[str]:
    """Make a notice about arguments that have no effect, because kernels are exact."""
    unused = [name for name, value in arguments.items() if value is not None and plan.exact]
    if not unused:
        return []
    return [
        f"{' and '.join(unused)} not used with exact kernels. Set the parameter feature_map to nystroem to use "
        "landmarks."
    ]


Bools = NDArray[np.bool_]
RANKING_AIMS = ("youden", "sensitivity", "specificity")  # aims that do not depend on class frequencies


def choose_positive(classes: Labels, positive: Any) -> tuple[Any, str]:
    """Return the class that is the event, and how it was determined; None for more than two classes."""
    names = classes.tolist()
    if len(names) > 2:
        if positive is not None:
            raise ParameterError(
                "positive", f"positive={positive!r} needs two classes, but there are {len(names)}. Leave it out."
            )
        return None, ""
    if positive is None:
        rule = (
            f"The event is {names[1]!r}, the last of both classes in sorted order; the parameter positive changes it."
        )
        return names[1], rule
    matches = [name for name in names if name == positive or str(name) == str(positive)]
    if not matches:
        raise ParameterError("positive", f"positive={positive!r} is not a class. Use {names[0]!r} or {names[1]!r}.")
    return matches[0], ""


def check_threshold(threshold: str | float | None, n_classes: int) -> None:
    """Raise ValueError for a threshold that cannot be chosen, before any computation."""
    if threshold is None:
        return
    if n_classes > 2:
        raise ParameterError(
            "threshold", f"threshold={threshold!r} needs two classes, but there are {n_classes}. Leave it out."
        )
    try:
        choose_threshold([0, 1], [0.4, 0.6], threshold)
    except ValueError as error:
        raise ParameterError("threshold", str(error).replace("aim=", "threshold=", 1)) from None


def choose_domain_threshold(events: Bools, risks: Array, domain: Any, aim: str | float) -> ThresholdChoice:
    """Choose a threshold on rows of several domains, all of which have the same weight."""
    _, codes, counts = np.unique(domain, return_inverse=True, return_counts=True)
    return choose_threshold(events, risks, aim, sample_weight=1 / counts[codes])


def choose_ensemble_threshold(
    fitted: FittedEnsemble, ensemble: EnsembleClassifier, positive: Any, aim: str | float
) -> ThresholdChoice:
    """Choose a threshold for the event on the cross-fitted out-of-domain predictions of an ensemble."""
    return choose_domain_threshold(*_held_out_risks(fitted, ensemble, positive), aim)


def _held_out_risks(fitted: FittedEnsemble, ensemble: EnsembleClassifier, positive: Any) -> tuple[Bools, Array, Ints]:
    """Whether held-out rows are events, their out-of-domain risks, and the codes of their domains."""
    column = int(np.flatnonzero(ensemble.classes_ == positive)[0])
    codes = fitted.codes
    P = ensemble.with_natural_priors(np.concatenate(fitted.held_out))
    domain = np.repeat(np.arange(len(codes)), [len(part) for part in codes])
    return np.concatenate(codes) == column, P[:, column], domain


def with_threshold(fit: TableFit, threshold: str | float | None, positive: Any = None) -> TableFit:
    """Return the fit with a model that decides by a threshold; without a threshold, the fit as it is.

    The threshold, its sensitivity and specificity, and their prediction intervals are stored for the model card. Scores
    and expected performance become those of the labels that the threshold gives, if the metric depends on labels.
    Intervals and scores are cross-fitted: each domain is classified by the threshold of the others.
    """
    if threshold is None:
        if positive is not None:
            raise ParameterError(
                "positive", f"positive={positive!r} has no effect without a threshold. Set threshold, or leave it out."
            )
        return fit
    classes = fit.model.classes_
    check_threshold(threshold, len(classes))
    event, rule = choose_positive(classes, positive)
    if fit.fitted is None:
        raise ValueError("The fit has no out-of-domain predictions, on which a threshold could be chosen.")
    events, risks, domain = _held_out_risks(fit.fitted, fit.model.ensemble, event)
    choice = choose_domain_threshold(events, risks, domain, threshold)
    flagged = np.zeros(len(events), dtype=bool)
    for code in np.unique(domain):
        others = domain != code
        domain_threshold = choice.threshold  # if the other domains allow none
        if 0 < events[others].sum() < others.sum():
            own_choice = choose_domain_threshold(events[others], risks[others], domain[others], threshold)
            domain_threshold = own_choice.threshold
        flagged[~others] = risks[~others] >= domain_threshold
    intervals = {
        "sensitivity": _share_interval(flagged[events], domain[events]),
        "specificity": _share_interval(~flagged[~events], domain[~events]),
    }
    performance = []
    for name, value in (("sensitivity", choice.sensitivity), ("specificity", choice.specificity)):
        text = f"a {name} of {100 * value:.0f}%"
        interval = intervals[name]
        if interval is not None:
            low, high = interval
            text += f" (95% prediction interval for a new domain: {100 * low:.0f}% to {100 * high:.0f}%)"
        performance.append(text)
    text = (
        f"Rows with a probability of {event!r} of at least {choice.threshold:.3g} are labeled {event!r}: the threshold "
        f"for {choice.aim}, on out-of-domain predictions with {' and '.join(performance)}."
    )
    facts = {
        "value": choice.threshold,
        "class": event,
        "rule": rule,
        "aim": choice.aim,
        "sensitivity": choice.sensitivity,
        "specificity": choice.specificity,
        "intervals": intervals,
        "text": text,
    }
    column = int(np.flatnonzero(classes == event)[0])
    model = replace(fit.model, threshold=choice.threshold, positive_code=column)
    labels = classes[np.where(flagged, column, 1 - column)]
    return replace(_with_label_scores(fit, labels, domain), model=model, threshold=facts)


def _share_interval(flagged: Bools, domain: Ints) -> tuple[float, float] | None:
    """95% prediction interval for the share of rows that is flagged in a new domain; None for few domains."""
    domains, codes, counts = np.unique(domain, return_inverse=True, return_counts=True)
    if len(domains) < MIN_DOMAINS_FOR_INTERVAL:
        return None
    _, low, high = forecast(np.bincount(codes, weights=flagged) / counts, n_rows=counts)
    return low, high


def _with_label_scores(fit: TableFit, labels: Labels, domain: Ints) -> TableFit:
    """The fit with scores and expected performance of the labels of held-out rows, if the metric depends on labels."""
    fitted = fit.fitted
    assert fitted is not None
    scores = [
        score_labels(fitted.metric.scoring, fit.model.classes_[codes], labels[domain == i])
        for i, codes in enumerate(fitted.codes)
    ]
    if None in scores:
        return fit
    fitted = replace(fitted, scores=np.where(np.isfinite(fitted.scores), np.array(scores, dtype=float), np.nan))
    by_domain = dict(zip(fit.scores, fitted.scores.tolist(), strict=True))
    return replace(fit, fitted=fitted, scores=by_domain, forecast=fitted.forecast)


def move_threshold(model: TableModel, aim: str, ratio: Array) -> TableModel:
    """The model of other class frequencies, with a threshold that classifies the same rows as before.

    `ratio` (2,) holds the new class frequencies over the old ones, by which the odds are multiplied. A threshold for
    sensitivity, specificity or their sum keeps these. A number, or a threshold for costs, refers to probabilities and
    stays.
    """
    if model.threshold is None or not aim.startswith(RANKING_AIMS):
        return model
    odds = model.threshold / (1 - model.threshold) * ratio[model.positive_code] / ratio[1 - model.positive_code]
    return replace(model, threshold=float(odds / (1 + odds)))
