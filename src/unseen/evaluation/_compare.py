"""`compare`: leave-one-domain-out comparison of methods on a table, with tables, a verdict and a report."""

from __future__ import annotations

import html
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..exceptions import DataWarning, warn
from ..linalg import Ints
from ..model_selection import (
    AUTO_TRANSDUCTIVE,
    GridName,
    check_comparison_size,
    check_metric,
    get_metric,
    method_names,
    metric_range,
)
from ..models import check_threshold, choose_positive, make_preparation
from ..report import draw_comparison, rank_methods, render_comparison
from ..shift import Diagnosis, diagnose, find_column_notices
from ..tables import MIN_DOMAIN_ROWS, Dates, Table, is_table, load_table, table_from_arrays
from ..utils.optional_imports import optional_import
from ..utils.samples import Balance
from ._held_out import DEFAULT_VALIDATION, HeldOutProbabilities, ValidationOptions, collect_probabilities
from ._protocol import COMPARISON_PROTOCOL, Protocol, Task, choose_repeats, make_tasks
from ._report_data import (
    confusion_facts,
    data_facts,
    ensemble_facts,
    hardest_sample_facts,
    make_thumbnails,
    method_facts,
    provenance_facts,
    select_confusion_method,
    settings_facts,
    verdict_facts,
    view_facts,
)
from ._result import ValidationResult
from ._run import LOCAL_EXECUTION, Execution, Result, SideTask, all_results
from ._store import Row
from ._verdict import Verdict, describe_imbalance, make_verdict


@dataclass(frozen=True)
class Comparison:
    """Result of :func:`unseen.compare`.

    Attributes
    ----------
    rows : list of unseen.evaluation.Row
        One for each method, held-out domain and repeat.
    verdict : Verdict
        Whether invariance helped: `decision`, `headline`, `sentences`, and the `interval` of the paired difference; and
        its `recommendation`: the method to use, and its expected performance on a new domain.
    diagnosis : Diagnosis or None
        Differences between the domains.

    See Also
    --------
    unseen.compare : Compare methods on held-out domains.

    Examples
    --------
    >>> import unseen
    >>> from unseen.datasets import load_penguins
    >>> X, sex, species = load_penguins(return_X_y=True)
    >>> methods = ["logistic", "centered logistic", "majority"]
    >>> comparison = unseen.compare(X, sex, sample_domain=species, methods=methods, transductive=True, quick=True)
    >>> {method["name"]: round(method["mean"], 2) for method in comparison.summary()["methods"]}
    {'logistic': 0.66, 'majority': 0.5, 'centered logistic': 0.9}
    """

    rows: list[Row]
    verdict: Verdict
    diagnosis: Diagnosis | None
    _summary: dict[str, Any] = field(repr=False)
    _held_out: HeldOutProbabilities = field(repr=False)

    def summary(self) -> dict[str, Any]:
        """Return all results of the report, in values that JSON can represent.

        Returns
        -------
        summary : dict
            The results.
        """
        return self._summary

    def validation(
        self,
        *,
        positive: Any = None,
        threshold: str | float | None = None,
        tau_prior: Literal["none", "empirical"] = "none",
        level: float = 0.95,
    ) -> ValidationResult:
        """Return discrimination, calibration and usefulness on each held-out domain, as :func:`unseen.validate` does.

        Nothing is fitted: the statistics are those of the probabilities that the methods predicted in the first repeat
        of the comparison. "auto" is reported or, if it was not compared, the recommended method; other methods that
        predict probabilities are compared with it. Each model was trained on the rows that the protocol draws from the
        other domains, 70% of them; :func:`unseen.validate` trains on all of them, and calibrates single methods.

        Parameters
        ----------
        positive : object, default=None
            Class that is the event; None means that of the comparison.
        threshold : str or float, default=None
            Risk from which a row counts as an event, as for :func:`unseen.validate`; None means that of the comparison.
        tau_prior, level
            As for :func:`unseen.validate`.

        Returns
        -------
        result : unseen.evaluation.ValidationResult
            Sites, measures, summary, curves, texts and report.
        """
        return self._held_out.validate(positive, threshold, tau_prior, level)

    def to_frame(self) -> Any:
        """Return the scores, methods by held-out domains, best first.

        Returns
        -------
        frame : pandas DataFrame
            With the columns `kind`, `transductive`, one for each domain, `mean` and `seconds`. A domain with the name
            of another column is renamed, such as to "mean (domain)".
        """
        pandas = optional_import("pandas", "to_frame()")
        names = {domain: domain for domain in self._summary["domains"]}
        for name in {"method", "kind", "transductive", "mean", "seconds"} & set(names):
            while names[name] == name or list(names.values()).count(names[name]) > 1:
                names[name] += " (domain)"
        methods = pandas.DataFrame(self._summary["methods"]).rename(columns={"name": "method"})
        accuracies = pandas.DataFrame(
            {names[domain]: cell and cell["mean"] for domain, cell in cells.items()} for cells in methods["accuracies"]
        )
        parts = [methods[["method", "kind", "transductive"]], accuracies, methods[["mean", "seconds"]]]
        return pandas.concat(parts, axis=1).set_index("method").sort_values("mean", ascending=False)

    def plot(self, figure: Any = None) -> Any:
        """Draw the accuracies and the paired difference on each held-out domain.

        Parameters
        ----------
        figure : matplotlib Figure, default=None
            Figure to draw on; None creates one.

        Returns
        -------
        figure : matplotlib Figure
            The figure.
        """
        return draw_comparison(self._summary, figure)

    def to_html(self) -> str:
        """Return the report as one self-contained page.

        Returns
        -------
        page : str
            HTML.
        """
        return render_comparison(self._summary)

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.to_html())}" style="width:100%;height:40em;border:0"></iframe>'

    def __str__(self) -> str:
        width = max(len(method["name"]) for method in self._summary["methods"])
        lines = []
        for method in rank_methods(self._summary["methods"]):
            score = "failed"
            if method["mean"] is not None:
                score = f"{self.verdict.scale.format_score(method['mean']):>6}{'*' * method['transductive']}"
            lines.append(f"{method['name']:<{width}}  {score}")
        advice = [self.verdict.recommendation.sentence] if self.verdict.recommendation else []
        return "\n".join([*lines, "", self.verdict.headline, *self.verdict.sentences, *advice])


def compare(
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
    methods: Sequence[Any] | None = None,
    repeats: int | None = None,
    selection: Literal["domain", "within", "oracle"] = "domain",
    scale: Literal["standardize", "l2", "none"] = "standardize",
    transductive: bool = False,
    metric: str = "accuracy",
    balance: Balance = "none",
    positive: Any = None,
    threshold: str | float | None = None,
    max_per_domain: int | None = None,
    min_domain_rows: int = MIN_DOMAIN_ROWS,
    quick: bool = False,
    grid: GridName = "ensemble",
    store: str | Path | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    client: Any = None,
) -> Comparison:
    """Compare methods by leave-one-domain-out cross-validation, and test whether invariance helps on these data.

    A :class:`~unseen.exceptions.DataWarning` is issued for each likely error in the columns of a table, such as zeros
    that stand for missing values in one domain: see :doc:`/user_guide/columns`.

    Parameters
    ----------
    data : array-like of shape (n_samples, n_features), DataFrame, str, path or Table
        Samples; or a table, as a DataFrame of pandas or polars or as the path of a file or folder: see
        :doc:`/user_guide/compare`; or a Table that was read already, such as that of photographs: see
        :doc:`/user_guide/images`.
    y : array-like of shape (n_samples,), default=None
        Class labels, unless they are a column of a table.
    sample_domain : array-like of shape (n_samples,), default=None
        The domain of each sample, unless it is a column of a table.
    label, domain : str, default=None
        Columns of the table; None guesses them from common names.
    group : str, default=None
        Column of the table with groups of dependent rows, such as patients.
    features, drop : sequence of str, default=None
        Columns of the table to use, and not to use; by default all that describe samples.
    unlabeled : str or int, default=None
        The label of unlabeled rows of the table, such as 0 or unknown, or NA for missing labels. These rows are left
        out.
    dates : {"drop", "ordinal"}, default="drop"
        Leave out columns of dates, or use them as days since 1970.
    categories : sequence of str, default=None
        Columns of the table that are categorical although their values are numbers, such as codes.
    missing : mapping of str to value or list of values, default=None
        Values that stand for missing values in columns of the table, such as ``{"cholesterol": 0}``.
    methods : sequence, default=None
        Methods to compare: names in `unseen.model_selection.METHODS`, and custom classifiers such as
        ``("mine", SVC(), {"C": [1, 10]})``: see :ref:`own_models`. None means all methods for comparisons, and both
        "auto", which is inductive, and "auto, transductive".
    repeats : int, default=None
        Number of random draws of 70% of each source domain; None means 3, or 1 with `quick`.
    selection : {"domain", "within", "oracle"}, default="domain"
        Validation that selects the settings: held-out source domains, held-out samples, or the labels of the target,
        for reference only.
    scale : {"standardize", "l2", "none"}, default="standardize"
        Scale columns to zero mean and unit variance, scale rows to unit length, or nothing; fitted on the source
        domains only.
    transductive : bool, default=False
        Whether all methods may use the samples of the held-out domain without their labels. Projections are then
        centered on the held-out domain, as in the paper, and "auto" is the same as "auto, transductive". With False
        only "auto, transductive" uses them.
    metric : str, default="accuracy"
        Metric of the model selection, the acceptance tests of transductive steps, the table, the recommendation and
        the expected performance: "accuracy", "balanced_accuracy", "f1_macro", "roc_auc",
        "average_precision", "log_loss", or the name of a scorer of scikit-learn. Weights of ensembles always minimize
        the log loss.
    balance : {"none", "classes", "domains"}, default="none"
        Give all classes, or all domains, the same total weight in training, for classifiers that support weights.
    positive, threshold : default=None
        The event, and the risk from which a row counts as an event, of the section on discrimination, calibration and
        usefulness, as for :func:`unseen.validate`. For two classes only.
    max_per_domain : int, default=None
        Maximum number of samples of each domain, drawn at random from all its classes.
    min_domain_rows : int, default=4
        Domains of the table with fewer rows are left out.
    grid : {"ensemble", "lean", "full"}, default="ensemble"
        The few settings that a method has in ensembles; or all of its settings, in "lean" without the widest kernel and
        the smallest ridge.
    quick : bool, default=False
        Use small grids and one repeat, for a first result.
    store : str or path, default=None
        File of results, from which an interrupted comparison continues. None stores no results.
    random_state : int, default=0
        Seed of the random number generators.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.
    client : dask.distributed.Client, default=None
        Client of a Dask cluster that runs the comparison; None means `n_jobs` local processes.

    Returns
    -------
    comparison : Comparison
        The results, with a table, a verdict and a report.

    Examples
    --------
    >>> import unseen
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> comparison = unseen.compare(
    ...     data.data,
    ...     data.target,
    ...     sample_domain=data.domain,
    ...     methods=["CIDG", "logistic"],
    ...     repeats=1,
    ...     quick=True,
    ... )
    >>> [method["name"] for method in comparison.summary()["methods"]]
    ['CIDG', 'logistic']
    """
    protocol = replace(
        COMPARISON_PROTOCOL,
        selection=selection,
        repeats=choose_repeats(repeats, quick),
        preprocess=scale,
        centering="target" if transductive else "source",
        quick=quick,
        seed=random_state,
        metric=metric,
        balance=balance,
        grid=grid,
    )
    if is_table(data, y, sample_domain):
        table = load_table(
            data,
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
            random_state=random_state,
        )
    else:
        table = data if isinstance(data, Table) else table_from_arrays(data, y, sample_domain, "compare")
        table = table.take(table.samples.subsample_rows(max_per_domain=max_per_domain, seed=random_state))
    for notice in find_column_notices(table):
        warn(notice, DataWarning)
    methods = comparison_methods(transductive) if methods is None else methods
    execution = Execution(store, n_jobs, verbose, client)
    options = ValidationOptions(positive, threshold)
    return compare_table(table, protocol, methods, execution, command="unseen.compare(...)", validation=options)


def comparison_methods(transductive: bool = False) -> list[str]:
    """Return the default methods of a comparison, in which "auto" is transductive or not."""
    names = method_names(in_comparison=True)
    if not transductive:
        names.insert(names.index("auto") + 1, AUTO_TRANSDUCTIVE)
    return names


def compare_table(
    table: Table,
    protocol: Protocol,
    methods: Sequence[Any] | None = None,
    execution: Execution = LOCAL_EXECUTION,
    command: str = "",
    validation: ValidationOptions = DEFAULT_VALIDATION,
) -> Comparison:
    """Run a comparison on a table, and compute its verdict, diagnosis and summary."""
    start = time.perf_counter()
    metric = get_metric(protocol.metric)
    check_metric(metric.scoring, table.samples.classes)
    data = data_facts(table)
    tasks = make_tasks(list(dict.fromkeys(table.domain.tolist())))
    check_comparison_size(len(data["classes"]), len(tasks), paired=True)
    choose_positive(table.samples.classes, validation.positive)
    check_threshold(validation.threshold, len(data["classes"]))
    # The kernel matrix of the diagnosis has at most about 6000 rows, so that it does not cost more than the comparison.
    max_per_domain = max(20, min(500, 6000 // len(tasks)))
    # The preprocessing is fitted on all domains here, since the diagnosis computes no scores.
    diagnosis_task = SideTask(
        partial(diagnose, table, scale=protocol.preprocess, max_per_domain=max_per_domain, random_state=protocol.seed)
    )
    execution = replace(execution, side_task=diagnosis_task)
    results, predicted, truth, verdict = run_comparison(table, tasks, protocol, methods, execution)
    rows = [result.row for result in results]
    recommended = None if verdict.recommendation is None else verdict.recommendation.method
    held_out = collect_probabilities(table, tasks, protocol, results, recommended, validation, command)
    verdict = verdict.add_caution(describe_imbalance(Counter(table.y.tolist()), metric.label))
    diagnosis = diagnosis_task.get_result()
    summary = {
        "title": f"unseen compare: {table.name}",
        "data": data,
        "verdict": verdict_facts(verdict),
        "domains": [task.targets[0] for task in tasks],
        "methods": method_facts(rows, tasks),
        "validation": held_out.section(),
        "ensemble": ensemble_facts(rows, verdict),
        **view_facts(rows, table, tasks, protocol),
        "diagnosis": diagnosis.summary(),
        "confusion": confusion_facts(select_confusion_method(rows, verdict), rows, predicted, truth, data["classes"]),
        "settings": settings_facts(rows),
        "provenance": provenance_facts(protocol, command, time.perf_counter() - start),
    }
    if table.pictures is not None:
        summary["hardest"] = hardest_sample_facts(predicted, table, tasks)
        summary["pictures"] = make_thumbnails(summary, table.pictures)
    return Comparison(rows, verdict, diagnosis, summary, held_out)


def run_comparison(
    table: Table,
    tasks: Sequence[Task],
    protocol: Protocol,
    methods: Sequence[Any] | None = None,
    execution: Execution = LOCAL_EXECUTION,
) -> tuple[list[Result], dict[tuple[str, str, int], Ints], dict[str, Ints], Verdict]:
    """Return the results, the predicted classes of each, the true classes of each task's target, and the verdict."""
    samples = table.samples
    preparation = make_preparation(table.schema, protocol.preprocess)
    results = list(all_results(samples, tasks, protocol, preparation, methods, execution, keep_probabilities=True))
    rows = [result.row for result in results]
    predicted = {(row.method, row.task, row.repeat): codes for row, codes, _ in results if codes is not None}
    is_target = {task.name: np.isin(samples.domain, task.targets) for task in tasks}
    truth = {task: samples.codes[rows_of_task] for task, rows_of_task in is_target.items()}
    correct = {(method, task, repeat): codes == truth[task] for (method, task, repeat), codes in predicted.items()}
    groups: dict[str, Any] = {}
    if samples.group is not None:
        groups = {task: samples.group[rows_of_task] for task, rows_of_task in is_target.items()}
    metric = get_metric(protocol.metric)
    verdict = make_verdict(
        rows,
        correct,
        protocol.resolve_selection(len(tasks[0].sources)),
        seed=protocol.seed,
        metric=metric.label,
        share=metric.percent,
        limits=metric_range(metric.scoring, len(samples.classes)),
        groups=groups,
    )
    return results, predicted, truth, verdict
