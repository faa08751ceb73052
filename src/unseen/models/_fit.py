"""`fit`: fit a model to a DataFrame, to the path of a table, or to arrays; and choose its decision threshold.

Models are selected by holding out one domain after another, fitted to all rows, in memory or read in parts, and
described in the model card.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import gen_batches

from ..estimators import (
    Projection,
    Statistics,
    collect_statistics,
    compute,
    sum_statistics,
    tree_reduce,
)
from ..exceptions import DataWarning, ParameterError, warn
from ..kernels import SizePlan
from ..linalg import Array, Ints
from ..metrics import ThresholdChoice, choose_threshold
from ..model_selection import (
    METHODS,
    MIN_DOMAINS_FOR_INTERVAL,
    Candidate,
    EnsembleClassifier,
    EvaluationConfig,
    FittedCandidates,
    FittedEnsemble,
    GridName,
    LeaveOneDomainOut,
    Method,
    TableSize,
    check_metric,
    describe_rare_class,
    expand_methods,
    forecast,
    get_metric,
    limit_evaluation_rows,
    parse_methods,
    prepare_samples,
    refit_ensemble,
    score_labels,
    select_model,
    single_thread,
    uses_labels_only,
    warn_about_failures,
)
from ..shift import Novelty, find_column_notices
from ..tables import (
    MIN_DOMAIN_ROWS,
    Dates,
    Scale,
    Schema,
    SurveyedTable,
    Table,
    TableOptions,
    TablePreparation,
    make_preprocessor,
    open_data,
    read_survey,
)
from ..utils.jobs import cluster_errors, progress
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels
from ._model import Model
from ._model_card import model_card
from ._table_model import TableModel

FeatureMap = Literal["auto", "none", "nystroem"]
EXACT_BY_FEATURE_MAP: dict[str, bool | None] = {"auto": None, "none": True, "nystroem": False}
AUTO = "auto"
BASELINE = "logistic"
BALANCED_ACCURACY_ADVICE = "compare by balanced_accuracy first, which gives all classes equal weight."
SLOW_EXACT_ROWS = 5_000  # samples beyond which exact kernels take minutes
BLOCK_ROWS = 10_000  # rows of a table in memory that are preprocessed at a time
RANKING_AIMS = ("youden", "sensitivity", "specificity")  # aims of thresholds that do not depend on class frequencies
Bools = NDArray[np.bool_]
Rows = SurveyedTable | Table


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
    data : DataFrame, dict, list of dict, str, path or array-like of shape (n_samples, n_features)
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
    requested = parse_methods(methods if isinstance(methods, list) else [methods])
    is_ensemble = len(expand_methods(requested)) > 1
    expand_methods(requested, transductive=transductive)  # raises for transductive methods that are not allowed
    if feature_map not in EXACT_BY_FEATURE_MAP:
        raise ParameterError(
            "feature_map", f"feature_map must be one of {', '.join(EXACT_BY_FEATURE_MAP)}; got {feature_map!r}."
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
    source = open_data(data, y, sample_domain, options, "fit")
    n_rows = source.rows if isinstance(source, SurveyedTable) else len(source.X)
    exact = EXACT_BY_FEATURE_MAP[feature_map]
    plan = SizePlan.from_rows(n_rows, exact=exact, landmarks=n_landmarks, ensemble=is_ensemble)
    table = _read_rows(source, plan, random_state)
    check_metric(scoring, table.samples.classes)
    check_threshold(threshold, len(table.samples.classes))
    notices = list(_find_notices(table, requested, plan, metric))
    unused = [name for name, value in (("n_landmarks", n_landmarks), ("client", client)) if value is not None]
    if plan.exact and unused:
        notices.append(
            f"{' and '.join(unused)} not used with exact kernels. Set the parameter feature_map to nystroem to use "
            "landmarks."
        )
    for notice in notices:
        warn(notice, DataWarning)

    training = table
    if not plan.exact and len(table.X) > plan.fit_rows:
        training = table.take(table.samples.subsample_rows(plan.fit_rows, random_state))
    samples = training.samples
    size = TableSize(table.X.shape, len(table.samples.classes))
    methods = expand_methods(requested, transductive=transductive, size=size)
    config = EvaluationConfig(
        preparation=make_preparation(table.schema, scale),
        scoring=scoring,
        balance=balance,
        n_jobs=n_jobs,
        description="Choosing an ensemble" if len(methods) > 1 else "Choosing settings",
        verbose=verbose,
    )
    with single_thread():
        selected = _select(samples, methods, plan, config, transductive)
    preparation, prepared, ensemble, facts = refit_selected(
        selected, training, plan, config, seed=random_state, source=source, client=client, verbose=verbose
    )
    novelty = Novelty(random_state=random_state).fit(prepared.X, sample_domain=training.domain)
    model = TableModel(preparation, ensemble, novelty)
    model, fitted, threshold_facts = apply_threshold(model, selected, threshold, positive)
    stream = {}
    if not plan.exact:
        limits = [member.max_evaluation_rows or len(samples) for member in fitted.members]
        stream = {**facts, "rows": n_rows, "choice_rows": min(max(limits), len(samples))}
        notice = _describe_stream(stream)
        notices.append(notice)
        warn(notice, DataWarning)

    domains = np.unique(training.domain).tolist()
    leaderboard = selected.leaderboard(domains)
    baseline = None
    if fitted.kind != "plain":
        baseline = next((dict(row.scores) for row in leaderboard if row.model == BASELINE), None)
    card = model_card(
        replace(table, notices=notices),
        source,
        selected,
        fitted,
        novelty,
        leaderboard=leaderboard if len(methods) > 1 else (),
        baseline=baseline,
        command="unseen.fit(...)",
        method=", ".join(method.name for method in requested),
        scale=scale,
        seed=random_state,
        balance=balance,
        threshold=threshold_facts,
        stream=stream,
    )
    return Model(model, card)


def _read_rows(source: Rows, plan: SizePlan, seed: int) -> Table:
    """Read the rows that a plan needs in memory: all of them, or a sample."""
    if isinstance(source, Table):
        return source
    is_whole = plan.exact or source.rows <= plan.fit_rows
    return read_survey(source, seed) if is_whole else read_survey(source.subsample(plan.fit_rows, seed))


def _describe_stream(facts: Mapping[str, Any]) -> str:
    """How many rows were used for what, if not all rows were used for everything."""
    sentences = [f"Models that predict held-out domains were fitted to {facts['choice_rows']:,} rows."]
    if "classifier_rows" in facts:
        is_all = facts["classifier_rows"] == facts["rows"]
        sentences.append(f"The model was fitted to {'all ' if is_all else ''}{facts['classifier_rows']:,} rows.")
    if "projection_rows" in facts:
        sentences.append(
            f"Projections were fitted to {facts['projection_rows']:,} rows through {facts['landmarks']:,} "
            f"landmarks, which miss {facts['trace_error']:.2g} of the kernel."
        )
    if "kernel_rows" in facts:
        sentences.append(f"Kernel machines and classifiers of projections used {facts['kernel_rows']:,} rows.")
    return " ".join(sentences)


def _select(
    samples: Samples,
    methods: Sequence[Method],
    plan: SizePlan,
    config: EvaluationConfig,
    transductive: bool,
) -> FittedEnsemble:
    """Select an ensemble of several methods, or the best settings of one, by holding out one domain after another."""
    n_classes = len(samples.classes)
    candidates = list_candidates(methods, n_classes, plan, transductive=transductive)
    baseline: list[Candidate] = []
    if all(method.kind != "plain" for method in methods):  # a plain classifier is always evaluated for comparison
        baseline = limit_evaluation_rows(list(METHODS[BASELINE].candidates(n_classes)), plan, is_single=False)
    splits = list(LeaveOneDomainOut().split(samples.X, samples.y, samples.domain))
    selected = select_model(
        [*candidates, *baseline],
        samples,
        splits,
        config,
        ensemble=len(methods) > 1,
        transductive=transductive,
        among=candidates,
    )
    names = {method.name for method in methods}
    warn_about_failures(
        [result for result in selected.predictions.candidate_results if result.candidate.method in names]
    )
    return selected


def list_candidates(
    methods: Sequence[Method],
    n_classes: int,
    plan: SizePlan,
    *,
    transductive: bool,
    quick: bool = False,
    grid: GridName = "ensemble",
    heads: Sequence[str] = ("logistic", "1-NN"),
) -> list[Candidate]:
    """Settings of methods: a few with a logistic head for each of several, which form an ensemble.

    A single projection has the settings of the `grid`, each with all `heads`; another single method has all settings.
    """
    centerings = ("source", "target") if transductive else ("source",)
    if len(methods) > 1:
        candidates = [
            candidate
            for method in methods
            for candidate in method.candidates(
                n_classes, grid="ensemble", quick=quick, heads=("logistic",), centerings=centerings
            )
            if transductive or not candidate.transductive
        ]
    else:
        (method,) = methods
        name: GridName = grid if method.is_projection else "full"
        candidates = list(method.candidates(n_classes, grid=name, quick=quick, heads=heads, centerings=centerings[-1:]))
    return limit_evaluation_rows(candidates, plan, is_single=len(methods) == 1)


def make_preparation(schema: Schema, scale: str = "standardize") -> Any:
    """Make the unfitted preparation of a table: features for linear and kernel methods and, if they differ, for trees.

    Standardized numbers have the order of the numbers themselves, so trees use them unless values are missing.
    """
    preprocessor = make_preprocessor(schema, scale)  # type: ignore[arg-type]
    if scale != "standardize":
        return preprocessor
    categorical = [i for i, column in enumerate(schema.columns) if column.kind == "categorical"]
    has_missing = any(column.missing for column in schema.columns)
    return TablePreparation(preprocessor, categorical, tree_columns=bool(categorical) or has_missing)


def refit_selected(
    selected: FittedEnsemble,
    table: Table,
    plan: SizePlan,
    config: EvaluationConfig,
    *,
    seed: int = 0,
    source: Rows | None = None,
    client: Any = None,
    verbose: int = 0,
    already_fitted: FittedCandidates | None = None,
) -> tuple[Any, Samples, EnsembleClassifier, dict[str, Any]]:
    """Fit preparation and members to all rows: the preparation, the prepared rows, the ensemble, and facts.

    Projections through landmarks are fitted to all rows of `source`, of which the table may be a sample.
    """
    preparation = clone(config.preparation)
    has_trees = any(member.features == "raw" for member in selected.members)
    if isinstance(preparation, TablePreparation) and not has_trees:
        preparation.set_params(tree_columns=False)
    preparation.fit(table.X)
    prepared = prepare_samples(preparation, table.samples)
    collect = partial(_collect_statistics, table if source is None else source, preparation, client, verbose)
    ensemble, facts = refit_ensemble(
        selected, prepared, plan, config, seed=seed, collect=collect, already_fitted=already_fitted
    )
    return preparation, prepared, ensemble, facts


def _collect_statistics(
    source: Rows, preparation: Any, client: Any, verbose: int, projection: Projection
) -> Statistics:
    """Collect the statistics of all rows for a projection, in this process or on the workers of a cluster."""
    n_rows = len(source.X) if isinstance(source, Table) else source.rows
    parts: list[Any] = list(gen_batches(n_rows, BLOCK_ROWS)) if isinstance(source, Table) else source.parts

    def collect_part(part: Any, advance: Callable[[int], None] | None = None) -> Statistics | None:
        """Collect the statistics of a part; None if no row of it is used."""
        statistics = None
        for piece in [source.samples.take(part)] if isinstance(source, Table) else source.pieces(part):
            X = prepare_samples(preparation, piece).X
            statistics = sum_statistics([statistics, collect_statistics(projection, X, piece.y, piece.domain)])
            if advance is not None:
                advance(len(X))
        return statistics

    with progress("Reading all rows", n_rows, verbose) as advance:
        if client is not None:
            task = import_module("dask").delayed(collect_part)
            with cluster_errors(client):
                statistics = compute(tree_reduce([task(part) for part in parts], sum_statistics))
        else:  # one by one, since the size of statistics is the square of the number of landmarks
            statistics = reduce(lambda total, part: sum_statistics([total, collect_part(part, advance)]), parts, None)
    if statistics is None:
        raise ValueError("The table has no rows to fit on.")
    return statistics


def _find_notices(table: Table, requested: list[Method], plan: SizePlan, metric: str) -> Iterator[str]:
    """Notices about assumptions made in reading a table, and about the fit."""
    yield from table.notices
    yield from find_column_notices(table)
    rare = describe_rare_class(Counter(table.y.tolist()))
    if rare is not None and metric == "accuracy":
        yield f"{rare} Accuracy, by which models are scored here, is little affected by it: {BALANCED_ACCURACY_ADVICE}"
    if not plan.exact:
        yield f"{plan} The same holds with a feature map of landmarks."
    if len(np.unique(table.domain)) == 2:
        yield "With two domains each is scored by a model trained on the other one only, which is little evidence."
    methods = expand_methods(requested)
    has_kernels = len(methods) == 1 and methods[0].shares != "nothing"  # members of ensembles limit their rows
    if plan.exact and plan.rows > SLOW_EXACT_ROWS and has_kernels:
        yield f"{plan.rows:,} rows take minutes with exact kernels; max_per_domain=500 gives a quick first result."


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
    codes = fitted.predictions.codes
    P = ensemble.with_natural_priors(np.concatenate(fitted.held_out))
    domain = np.repeat(np.arange(len(codes)), [len(part) for part in codes])
    return np.concatenate(codes) == column, P[:, column], domain


def apply_threshold(
    model: TableModel, fitted: FittedEnsemble, threshold: str | float | None, positive: Any = None
) -> tuple[TableModel, FittedEnsemble, dict[str, Any]]:
    """Make a model decide by a threshold: the model, its out-of-domain scores, and facts for the model card.

    Scores become those of the labels that the threshold gives, if the metric depends on labels. Intervals and scores
    are cross-fitted: each domain is classified by the threshold of the others. Without a threshold nothing changes.
    """
    if threshold is None:
        if positive is not None:
            raise ParameterError(
                "positive", f"positive={positive!r} has no effect without a threshold. Set threshold, or leave it out."
            )
        return model, fitted, {}
    classes = model.classes_
    event, rule = choose_positive(classes, positive)
    events, risks, domain = _held_out_risks(fitted, model.ensemble, event)
    choice = choose_domain_threshold(events, risks, domain, threshold)
    flagged = np.zeros(len(events), dtype=bool)
    for code in np.unique(domain):
        others = domain != code
        domain_threshold = choice.threshold  # if the other domains allow none
        if 0 < events[others].sum() < others.sum():
            own_choice = choose_domain_threshold(events[others], risks[others], domain[others], threshold)
            domain_threshold = own_choice.threshold
        flagged[~others] = risks[~others] >= domain_threshold
    intervals = {}
    performance = []
    for name, rows in (("sensitivity", events), ("specificity", ~events)):
        interval = _share_interval((flagged == events)[rows], domain[rows])
        intervals[name] = interval
        text = f"a {name} of {100 * getattr(choice, name):.0f}%"
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
    scoring = fitted.predictions.scorer.scoring
    if uses_labels_only(scoring):
        labels = classes[np.where(flagged, column, 1 - column)]
        scores = [
            score_labels(scoring, classes[codes], labels[domain == i], classes)
            for i, codes in enumerate(fitted.predictions.codes)
        ]
        fitted = replace(fitted, scores=np.where(np.isfinite(fitted.scores), scores, np.nan))
    return replace(model, threshold=choice.threshold, positive_code=column), fitted, facts


def _share_interval(flagged: Bools, domain: Ints) -> tuple[float, float] | None:
    """95% prediction interval for the share of rows that is flagged in a new domain; None for few domains."""
    domains, codes, counts = np.unique(domain, return_inverse=True, return_counts=True)
    if len(domains) < MIN_DOMAINS_FOR_INTERVAL:
        return None
    _, low, high = forecast(np.bincount(codes, weights=flagged) / counts, n_rows=counts)
    return low, high


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
