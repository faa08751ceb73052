"""Comparing methods on data of one's own: leave each domain out, tabulate, judge, and say it in words."""

from __future__ import annotations

import html
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from ..linalg import Ints
from ..model_selection import check_comparison_size, check_metric, get_metric, metric_range
from ..report import draw_comparison, rank_methods, render_comparison
from ..shift import Diagnosis, diagnose
from ..tables import Column, Dates, Schema, Table, check_table_size, is_table, load_table, preprocessor
from ..utils.optional_imports import optional_import
from ..utils.samples import Balance
from ..utils.validation import check_domains, check_label_length, encode_classes
from ._protocol import Protocol, Task, tasks
from ._report_data import (
    confusions,
    data_facts,
    ensemble_facts,
    hardest,
    method_facts,
    method_for_confusion,
    provenance,
    settings_facts,
    thumbnail_data,
    verdict_facts,
    views,
)
from ._run import LOCAL_EXECUTION, Execution, all_results
from ._store import Row, Scores
from ._verdict import Verdict, imbalance, verdict


@dataclass(frozen=True)
class Comparison:
    """What :func:`unseen.compare` found.

    Attributes
    ----------
    rows : list of unseen.study.Row
        One for each method, held-out domain and repeat.
    verdict : Verdict
        Whether invariance helped: `decision`, `headline`, `sentences`, and the `interval` of the paired difference; and
        its `recommendation`: the method to use, and what to expect of it on a new domain.
    diagnosis : Diagnosis or None
        How the domains differ.

    See Also
    --------
    unseen.compare : Makes one.
    """

    rows: list[Row]
    verdict: Verdict
    diagnosis: Diagnosis | None
    _summary: dict[str, Any] = field(repr=False)

    def summary(self) -> dict[str, Any]:
        """Everything as plain values: what ``--json`` prints and the report shows.

        Returns
        -------
        summary : dict
            JSON-able.
        """
        return self._summary

    def frame(self) -> Any:
        """Accuracies in percent, methods by held-out domains, best first.

        Returns
        -------
        frame : pandas DataFrame
            With the columns `kind`, `transductive`, one for each domain, `mean` and `seconds`. A domain that is called
            like one of the others gets a name such as "mean (domain)".
        """
        pandas = optional_import("pandas", "frame()")
        names = {domain: domain for domain in self._summary["domains"]}
        for own in {"method", "kind", "transductive", "mean", "seconds"} & set(names):
            while names[own] == own or list(names.values()).count(names[own]) > 1:
                names[own] += " (domain)"
        methods = pandas.DataFrame(self._summary["methods"]).rename(columns={"name": "method"})
        cells = [{names[d]: cell and cell["mean"] for d, cell in own.items()} for own in methods["accuracies"]]
        parts = [methods[["method", "kind", "transductive"]], pandas.DataFrame(cells), methods[["mean", "seconds"]]]
        return pandas.concat(parts, axis=1).set_index("method").sort_values("mean", ascending=False)

    def plot(self, figure: Any = None) -> Any:
        """Draw the accuracies and the paired difference on each held-out domain.

        Parameters
        ----------
        figure : matplotlib Figure, default=None
            Where to draw; None makes one.

        Returns
        -------
        figure : matplotlib Figure
            The picture.
        """
        return draw_comparison(self._summary, figure)

    def to_html(self) -> str:
        """Return the report: one page that needs nothing else.

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
        digits = 1 if self.verdict.scale.share else 3
        lines = [
            f"{method['name']:<{width}}  "
            + ("failed" if method["mean"] is None else f"{method['mean']:5.{digits}f}{'*' * method['transductive']}")
            for method in rank_methods(self._summary["methods"])
        ]
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
    unlabeled: str | int | None = None,
    dates: Dates = "drop",
    categories: Sequence[str] | None = None,
    methods: Sequence[Any] | None = None,
    repeats: int = 3,
    selection: Literal["domain", "within", "oracle"] = "domain",
    scale: Literal["standardize", "l2", "none"] = "standardize",
    centering: Literal["target", "source"] = "target",
    metric: str = "accuracy",
    balance: Balance = "none",
    max_per_domain: int | None = None,
    quick: bool = False,
    grid: Literal["lean", "full"] = "lean",
    store: str | Path | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    client: Any = None,
) -> Comparison:
    """Leave each domain out and compare every method on it; say whether invariance helps on these data.

    Parameters
    ----------
    data : array-like of shape (n_samples, n_features), DataFrame, str, path or Table
        Samples; or a table, in a frame of pandas or polars or to be read from a file or folder: see
        :doc:`/user_guide/compare`; or one that was read already, such as that of photographs: see
        :doc:`/user_guide/images`.
    y : array-like of shape (n_samples,), default=None
        Class labels, unless they are a column of a table.
    sample_domain : array-like of shape (n_samples,), default=None
        The domain each sample comes from, unless a column of a table tells.
    label, domain : str, default=None
        Columns of the table; None guesses them from obvious names.
    group : str, default=None
        Column of the table that tells what rows come from, such as the patient.
    unlabeled : str or int, default=None
        The label of rows of the table that have none, such as 0 or unknown, or NA for all that are missing: they are
        left out.
    dates : {"drop", "ordinal"}, default="drop"
        Leave out columns of dates, or use them as days since 1970.
    categories : sequence of str, default=None
        Columns of the table that hold categories although their values are numbers, such as codes.
    methods : sequence, default=None
        Which methods: names in `unseen.model_selection.METHODS`, and classifiers of your own such as
        ``("mine", SVC(), {"C": [1, 10]})``: see :ref:`own_models`. None takes all that are meant for comparisons.
    repeats : int, default=3
        Number of random draws of 70% of each source domain.
    selection : {"domain", "within", "oracle"}, default="domain"
        Who chooses the settings: held-out source domains, held-out samples, or the target's labels, for reference only.
    scale : {"standardize", "l2", "none"}, default="standardize"
        Columns to zero mean and unit variance, rows to unit length, or nothing; fitted on the sources alone.
    centering : {"target", "source"}, default="target"
        Centering of the projections: "target" is the paper's, and transductive.
    metric : str, default="accuracy"
        What settings are chosen by, the table shows and the verdict is about: "accuracy", "balanced_accuracy", "f1"
        (the mean over classes), "roc_auc", "average_precision", "log_loss", or a scorer of scikit-learn by its name.
    balance : {"none", "classes", "domains"}, default="none"
        Let all classes, or all domains, weigh alike in training, for classifiers that take weights.
    max_per_domain : int, default=None
        At most so many samples of each domain, drawn at random, of all its classes.
    grid : {"lean", "full"}, default="lean"
        Settings to choose from: all of a method, or without the widest kernel and the smallest ridge.
    quick : bool, default=False
        Small grids, for a first look.
    store : str or path, default=None
        File of results: a comparison that was stopped continues from it. None keeps nothing.
    random_state : int, default=0
        Seed of all draws.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.
    client : dask.distributed.Client, default=None
        Whose workers run the comparison; None means `n_jobs` processes here.

    Returns
    -------
    comparison : Comparison
        With a table, a verdict and a report.

    Examples
    --------
    >>> import unseen
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> found = unseen.compare(
    ...     data.data,
    ...     data.target,
    ...     sample_domain=data.domain,
    ...     methods=["CIDG", "logistic"],
    ...     repeats=1,
    ...     quick=True,
    ... )
    >>> [method["name"] for method in found.summary()["methods"]]
    ['CIDG', 'logistic']
    """
    rules: dict[str, Any] = {
        "repeats": repeats,
        "preprocess": scale,
        "centering": centering,
        "quick": quick,
        "grid": grid,
    }
    protocol = Protocol(selection, **rules, seed=random_state, metric=metric, balance=balance)
    if is_table(data, y, sample_domain):
        table = load_table(
            data,
            label=label,
            domain=domain,
            group=group,
            unlabeled=unlabeled,
            dates=dates,
            categories=categories,
            max_per_domain=max_per_domain,
            seed=random_state,
        )
    else:
        table = data if isinstance(data, Table) else table_from_arrays(data, y, sample_domain)
        table = table.take(table.samples.thinned(most=max_per_domain, seed=random_state))
    work = Execution(store, n_jobs, verbose, client)
    return compare_table(table, protocol, methods, work, command="unseen.compare(...)")


def table_from_arrays(X: Any, y: Any, sample_domain: Any) -> Table:
    """Arrays as if they had been read from a file, every column a number."""
    if y is None or sample_domain is None:
        raise ValueError(
            f"Samples need labels and domains; got y={'None' if y is None else '...'} and "
            f"sample_domain={'None' if sample_domain is None else '...'}. Pass both, or a table that has them."
        )
    X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
    check_label_length(y, "y")
    y = column_or_1d(y)
    check_consistent_length(X, y)
    encode_classes(y, "compare")
    domain = check_domains(sample_domain, len(y)).astype(str)
    if len(np.unique(domain)) < 2:
        raise ValueError(
            f"compare needs samples of at least 2 domains; sample_domain holds only {domain.tolist()[0]!r}."
        )
    schema = Schema(tuple(Column(f"feature {j}", "numeric") for j in range(X.shape[1])))
    check_table_size(X, schema)
    return Table(X, y, domain, schema, [], "arrays")


def compare_table(
    table: Table,
    protocol: Protocol,
    methods: Sequence[Any] | None = None,
    work: Execution = LOCAL_EXECUTION,
    command: str = "",
) -> Comparison:
    """Run the study on a table, judge it and gather what there is to say."""
    start = time.perf_counter()
    metric = get_metric(protocol.metric)
    check_metric(metric.scoring, table.samples.classes)
    data, todo = data_facts(table), tasks(list(dict.fromkeys(table.domain.tolist())))
    check_comparison_size(len(data["classes"]), len(todo), paired=True)
    known: Scores = {}
    rows, predicted, truth, judged = make_verdict(table, todo, protocol, methods, work, known)
    judged = judged.cautioned(imbalance(Counter(table.y.tolist()), metric.label))
    # The matrix of the diagnosis must not cost more than the comparison, however many domains there are.
    most = max(20, min(500, 6000 // len(todo)))
    # Prepared on all domains: for looking at, not for scoring.
    X = preprocessor(table.schema, protocol.preprocess).fit_transform(table.X)
    diagnosis = diagnose(X, table.y, sample_domain=table.domain, max_per_domain=most, random_state=protocol.seed)
    summary = {
        "title": f"unseen compare: {table.name}",
        "data": data,
        "verdict": verdict_facts(judged),
        "domains": [task.targets[0] for task in todo],
        "methods": method_facts(rows, todo, share=metric.percent),
        "pool": ensemble_facts(rows, judged),
        **views(rows, table, todo, protocol, known),
        "diagnosis": diagnosis.summary(),
        "confusion": confusions(method_for_confusion(rows, judged), rows, predicted, truth, data["classes"]),
        "settings": settings_facts(rows),
        "provenance": provenance(protocol, command, time.perf_counter() - start),
    }
    if table.pictures is not None:
        summary["hardest"] = hardest(predicted, table, todo)
        summary["pictures"] = thumbnail_data(summary, table.pictures)
    return Comparison(rows, judged, diagnosis, summary)


def make_verdict(
    table: Table,
    todo: Sequence[Task],
    protocol: Protocol,
    methods: Sequence[Any] | None = None,
    work: Execution = LOCAL_EXECUTION,
    known: Scores | None = None,
) -> tuple[list[Row], dict[tuple[str, str, int], Ints], dict[str, Ints], Verdict]:
    """Rows, what each of them predicted, the true classes of each task's target, and the verdict."""
    samples, prepare = table.samples, preprocessor(table.schema, protocol.preprocess)
    results = list(all_results(samples, todo, protocol, prepare, methods, work, known))
    predicted = {(row.method, row.task, row.repeat): codes for row, codes in results if codes is not None}
    rows = [row for row, _ in results]
    truth = {task.name: samples.codes[np.isin(samples.domain, task.targets)] for task in todo}
    correct = {at: found == truth[at[1]] for at, found in predicted.items()}
    selection = protocol.chooses(len(todo[0].sources))
    metric, group = get_metric(protocol.metric), samples.group
    belong = {} if group is None else {task.name: group[np.isin(samples.domain, task.targets)] for task in todo}
    judged = verdict(
        rows,
        correct,
        selection,
        seed=protocol.seed,
        metric=metric.label,
        share=metric.percent,
        limits=metric_range(metric.scoring, len(samples.classes)),
        groups=belong,
    )
    return rows, predicted, truth, judged
