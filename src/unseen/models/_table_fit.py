"""Fitting of models to tables of any size, in memory or read in parts, with cross-fitted scores on held-out domains."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import gen_batches

from ..estimators import (
    Projection,
    Statistics,
    cluster_errors,
    collect_statistics,
    compute,
    sum_statistics,
    tree_reduce,
)
from ..kernels import SizePlan
from ..model_selection import (
    METHODS,
    Candidate,
    EnsembleClassifier,
    EvaluationConfig,
    FittedCandidates,
    FittedEnsemble,
    Forecast,
    GridName,
    Leaderboard,
    LeaveOneDomainOut,
    Method,
    ProgressOptions,
    RefittedMembers,
    SelectedModel,
    TablePreparation,
    TableSize,
    check_metric,
    describe_rare_class,
    expand_methods,
    get_metric,
    has_many_fits,
    limit_evaluation_rows,
    parse_methods,
    prepare_samples,
    select_model,
    single_thread,
    warn_about_failures,
)
from ..shift import Novelty, find_column_notices
from ..tables import Schema, SurveyedTable, Table, make_preprocessor, read_survey
from ..utils.progress import progress
from ..utils.samples import Balance, Samples
from ._table_model import TableModel

BLOCK_ROWS = 10_000  # rows of a table in memory that are preprocessed at a time


@dataclass(frozen=True)
class TableRows:
    """The rows of a table in memory, in blocks; has the interface of `unseen.tables.SurveyedTable`."""

    table: Table

    @property
    def parts(self) -> list[slice]:
        """Arguments for `pieces`."""
        return list(gen_batches(len(self.table.X), BLOCK_ROWS))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.table.X)

    def pieces(self, part: slice) -> Iterator[Samples]:
        """Yield the samples of one block."""
        yield self.table.samples.take(part)


Rows = SurveyedTable | TableRows  # each part can be read by another process


def open_row_stream(source: Rows, plan: SizePlan, seed: int = 0) -> Table:
    """Read the rows that a plan needs in memory: all of them, or a sample."""
    if isinstance(source, TableRows):
        return source.table
    is_whole = plan.exact or source.rows <= plan.fit_rows
    return read_survey(source, seed) if is_whole else read_survey(source.subsample(plan.fit_rows, seed))


def collect_stream_statistics(
    rows: Rows, preparation: Any, client: Any, verbose: int, projection: Projection
) -> Statistics:
    """Collect the statistics of all rows for a projection, in this process or on the workers of a cluster."""
    collect_part = partial(_collect_part, rows, preparation, projection)
    with progress("Reading all rows", rows.rows, verbose) as advance:
        statistics: Statistics | None = None
        if client is not None:
            statistics = _collect_on_cluster(collect_part, rows.parts, client, advance)
        else:
            # Statistics are added one by one, since their size is the square of the number of landmarks.
            for part in rows.parts:
                statistics = sum_statistics([statistics, collect_part(part, advance)])
    if statistics is None:
        raise ValueError("The table has no rows to fit on.")
    return statistics


def _collect_part(
    rows: Any, preparation: Any, projection: Projection, part: Any, advance: Callable[[int], None]
) -> Statistics | None:
    """Collect the statistics of a part; None if no row of it is used. Calls `advance` with numbers of finished rows."""
    statistics: Statistics | None = None
    for piece in rows.pieces(part):
        X = prepare_samples(preparation, piece).X
        statistics = sum_statistics([statistics, collect_statistics(projection, X, piece.y, piece.domain)])
        advance(len(X))
    return statistics


def _collect_on_cluster(
    collect_part: Callable[..., Any], parts: Any, client: Any, advance: Callable[[int], None]
) -> Any:
    """Collect the statistics of all parts on workers, which report progress, and add them in a tree."""
    topic = f"unseen-{uuid.uuid4()}"
    task = import_module("dask").delayed(partial(_collect_on_worker, collect_part, topic))
    with cluster_errors(client):
        client.subscribe_topic(topic, lambda event: advance(event[1]))
        try:
            return compute(tree_reduce([task(part) for part in parts], sum_statistics))
        finally:
            client.unsubscribe_topic(topic)


def _collect_on_worker(collect_part: Callable[..., Any], topic: str, part: Any) -> Any:
    report_progress = partial(import_module("distributed").get_worker().log_event, topic)
    return collect_part(part, report_progress)


AUTO = "auto"
BASELINE = "logistic"
BALANCED_ACCURACY_ADVICE = "compare by balanced_accuracy first, which gives all classes equal weight."
SLOW_EXACT_ROWS = 5_000  # samples beyond which exact kernels take minutes


@dataclass(frozen=True)
class TableFit:
    """A fitted model, what was selected, and its scores on each held-out domain.

    Attributes
    ----------
    model : TableModel
        Fitted on all domains.
    name, kind, settings : str, str, dict
        What was selected; the kind is "plain", "inductive" or "transductive". An ensemble of several has no settings.
    scores : dict
        Score on each domain, cross-fitted: preparation, model, settings, weights and temperatures were fitted on the
        other domains.
    baseline : dict or None
        The same for plain logistic regression; None if the selected model is plain itself.
    leaderboard : Leaderboard
        What was compared, best first; empty for a single method.
    stream : dict
        For large tables: how many rows were used for what. Empty otherwise.
    balance : str
        What had equal weight in training.
    ensemble : dict
        The ensemble in plain values: see `FittedEnsemble.to_dict`.
    scored_rows : dict
        Number of rows of each domain behind the scores.
    fitted : FittedEnsemble or None
        The ensemble with its cross-fitted out-of-domain predictions, on which thresholds are chosen.
    threshold : dict
        The decision threshold, its aim and its cross-fitted sensitivity and specificity; empty without one.
    forecast : Forecast
        Expected score on a new domain, with its prediction interval.
    """

    model: TableModel
    name: str
    kind: str
    settings: dict[str, Any]
    scores: dict[str, float]
    baseline: dict[str, float] | None
    leaderboard: Leaderboard
    stream: dict[str, Any] = field(default_factory=dict)
    balance: Balance = "none"
    ensemble: dict[str, Any] = field(default_factory=dict)
    scored_rows: dict[str, int] = field(default_factory=dict)
    fitted: FittedEnsemble | None = None
    threshold: dict[str, Any] = field(default_factory=dict)
    forecast: Forecast | None = None

    @property
    def mean(self) -> float:
        """Mean score over held-out domains on which the metric is defined."""
        return float(np.nanmean(list(self.scores.values())))

    @property
    def remarks(self) -> list[str]:
        """How many rows were used for what, in a sentence, if not all rows were used for everything."""
        if not self.stream:
            return []
        facts = self.stream
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
        return [" ".join(sentences)]


def fit_table(
    table: Table,
    method: Any = AUTO,
    *,
    scale: str = "standardize",
    transductive: bool = False,
    balance: Balance = "none",
    metric: str = "accuracy",
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    plan: SizePlan | None = None,
    stream: Rows | None = None,
    client: Any = None,
) -> TableFit:
    """Select the settings of methods on a table, fit the model, and score it on held-out domains.

    Parameters
    ----------
    table : Table
        The result of `unseen.tables.load_table`; or a sample of `stream`, if that exceeds the memory.
    method : str, tuple, Method or list of these, default="auto"
        "auto" is the ensemble of :class:`unseen.UnseenClassifier`; or a name in `unseen.model_selection.METHODS`, or a
        classifier of your own such as ``("mine", SVC(), {"C": [1, 10]})``: see :ref:`own_models`. Several methods form
        an ensemble; of a single one the best settings are selected.
    scale : {"standardize", "l2", "none"}, default="standardize"
        See `unseen.tables.make_preprocessor`.
    transductive : bool, default=False
        Whether models, and smoothing, that need batches of each new domain may be used. With False the prediction of a
        row does not depend on the other rows.
    balance : {"none", "classes", "domains"}, default="none"
        What has equal weight in training, as in :class:`unseen.UnseenClassifier`. Scores are those of unweighted rows.
    metric : str, default="accuracy"
        Metric of the model selection and of the scores, as `scoring` of :class:`unseen.UnseenClassifier`.
    random_state : int, default=0
        Seed of all random draws, such as of landmarks.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.
    plan : SizePlan, default=None
        How many rows are used for what; None means ``SizePlan.from_rows`` of the number of rows.
    stream : Rows, default=None
        All rows, if they are more than the table.
    client : dask.distributed.Client, default=None
        Cluster that reads the stream; None reads it in this process.

    Returns
    -------
    fit : TableFit
        Model, selection and scores.

    Examples
    --------
    >>> from unseen.datasets import load_digits_table
    >>> from unseen.models import fit_table
    >>> fit = fit_table(load_digits_table(), "1-NN")
    >>> fit.kind, len(fit.scores) == len(set(load_digits_table().domain))
    ('plain', True)
    """
    stream = TableRows(table) if stream is None else stream
    size = TableSize.from_features(table.X, len(table.samples.classes))
    methods = resolve_methods(method, transductive=transductive, size=size)
    plan = SizePlan.from_rows(stream.rows, ensemble=len(methods) > 1) if plan is None else plan
    preparation = make_preparation(table.schema, scale)
    if not plan.exact and len(table.X) > plan.fit_rows:
        table = table.take(table.samples.subsample_rows(plan.fit_rows, random_state))
    samples = table.samples
    description = "Choosing an ensemble" if len(methods) > 1 else "Choosing settings"
    scoring = get_metric(metric).scoring
    check_metric(scoring, samples.classes)
    config = EvaluationConfig(
        preparation=preparation,
        scoring=scoring,
        balance=balance,
        n_jobs=n_jobs,
        progress=ProgressOptions(description, verbose),
    )
    with single_thread():
        selected = _select(samples, methods, plan, config, transductive)
    fitted_preparation, prepared, ensemble, members = refit_selected(
        selected, table, plan, config, seed=random_state, stream=stream, client=client, verbose=verbose
    )
    stream_facts = {}
    if not plan.exact:
        limits = [member.max_evaluation_rows or len(samples) for member in selected.ensemble.members]
        stream_facts = {**members.summary, "rows": stream.rows, "choice_rows": min(max(limits), len(samples))}
    novelty = Novelty(random_state=random_state).fit(prepared.X, sample_domain=table.domain)
    fitted = selected.ensemble
    domains = np.unique(table.domain).tolist()
    leaderboard = selected.leaderboard(domains)
    baseline = None
    if fitted.kind != "plain":
        baseline = next((dict(row.scores) for row in leaderboard if row.model == BASELINE), None)
    return TableFit(
        model=TableModel(fitted_preparation, ensemble, novelty),
        name=fitted.name,
        kind=fitted.kind,
        settings=fitted.members[0].params if len(fitted.members) == 1 else {},
        scores=dict(zip(domains, fitted.scores.tolist(), strict=True)),
        baseline=baseline,
        leaderboard=leaderboard if len(methods) > 1 else Leaderboard(),
        stream=stream_facts,
        balance=balance,
        ensemble=fitted.to_dict(),
        scored_rows={name: len(codes) for name, codes in zip(domains, fitted.codes, strict=True)},
        fitted=fitted,
        forecast=fitted.forecast,
    )


def refit_selected(
    selected: SelectedModel,
    table: Table,
    plan: SizePlan,
    config: EvaluationConfig,
    *,
    seed: int = 0,
    stream: Rows | None = None,
    client: Any = None,
    verbose: int = 0,
    fitted: FittedCandidates | None = None,
) -> tuple[Any, Samples, EnsembleClassifier, RefittedMembers]:
    """Fit preparation and members to all rows: the preparation, the prepared rows, the ensemble and its members."""
    preparation = clone(config.preparation)
    has_trees = any(member.features == "raw" for member in selected.ensemble.members)
    if isinstance(preparation, TablePreparation) and not has_trees:
        preparation.set_params(tree_columns=False)
    preparation.fit(table.X)
    prepared = prepare_samples(preparation, table.samples)
    stream = TableRows(table) if stream is None else stream
    collect = partial(collect_stream_statistics, stream, preparation, client, verbose)
    ensemble, members = selected.refit(prepared, plan, config, seed=seed, collect=collect, fitted=fitted)
    return preparation, prepared, ensemble, members


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


def resolve_methods(method: Any, *, transductive: bool = True, size: TableSize | None = None) -> list[Method]:
    """The methods that `fit_table` compares for a table of this size."""
    requested = parse_methods(method if isinstance(method, list) else [method])
    return expand_methods(requested, transductive=transductive, size=size)


def _select(
    samples: Samples,
    methods: Sequence[Method],
    plan: SizePlan,
    config: EvaluationConfig,
    transductive: bool,
) -> SelectedModel:
    """Select an ensemble of several methods, or the best settings of one, by holding out one domain after another."""
    n_classes = len(samples.classes)
    n_domains = len(np.unique(samples.domain))
    candidates = list_candidates(methods, n_classes, plan, n_domains, transductive=transductive)
    baseline: list[Candidate] = []
    if all(method.kind != "plain" for method in methods):  # a plain classifier is always evaluated for comparison
        baseline = limit_evaluation_rows(
            list(METHODS[BASELINE].candidates(n_classes)), plan, is_single=False, n_domains=n_domains
        )
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
    warn_about_failures([result for result in selected.results if result.candidate.method in names])
    return selected


def list_candidates(
    methods: Sequence[Method],
    n_classes: int,
    plan: SizePlan,
    n_domains: int,
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
    return limit_evaluation_rows(candidates, plan, is_single=len(methods) == 1, n_domains=n_domains)


def fit_notices(table: Table, method: Any, plan: SizePlan, metric: str = "accuracy") -> Iterator[str]:
    """Notices about assumptions made in reading a table, and about the fit."""
    yield from table.notices
    yield from find_column_notices(table)
    rare = describe_rare_class(Counter(table.y.tolist()))
    if rare is not None and metric == "accuracy":
        yield f"{rare} Accuracy, by which models are scored here, is little affected by it: {BALANCED_ACCURACY_ADVICE}"
    if not plan.exact:
        yield f"{plan} The same holds with a feature map of landmarks."
    n_domains = len(np.unique(table.domain))
    if n_domains == 2:
        yield "With two domains each is scored by a model trained on the other one only, which is little evidence."
    methods = resolve_methods(method)
    if len(methods) > 1 and has_many_fits(plan, n_domains):
        yield (
            f"{plan.rows:,} rows in {n_domains} domains: models that predict held-out domains are fitted to "
            f"{plan.classifier_choice_rows:,} rows, the model itself to all."
        )
    has_kernels = len(methods) == 1 and methods[0].shares != "nothing"  # members of ensembles limit their rows
    if plan.exact and plan.rows > SLOW_EXACT_ROWS and has_kernels:
        yield f"{plan.rows:,} rows take minutes with exact kernels; max_per_domain=500 gives a quick first result."
