"""`compare`: leave-one-domain-out comparison of methods on a table, with tables, a recommendation and a report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.metrics import confusion_matrix

from ..exceptions import DataWarning, warn
from ..model_selection import (
    AUTO_TRANSDUCTIVE,
    check_comparison_size,
    check_metric,
    get_metric,
    group_by,
    method_names,
)
from ..models import AUTO, check_threshold, choose_positive
from ..report import arrange_scores, draw_comparison, render_comparison
from ..shift import Diagnosis, diagnose, find_column_notices
from ..tables import MIN_DOMAIN_ROWS, Dates, Scale, Table, TableOptions
from ..utils.io import plain_values
from ..utils.jobs import environment_info
from ..utils.optional_imports import optional_import
from ..utils.samples import Balance
from ..utils.validation import encode_domains
from ._protocol import Protocol
from ._recommendation import ComparisonResults, Verdict, describe_imbalance, format_score, make_verdict
from ._result import EvaluationResult, ValidationResult, ValidationSettings
from ._run import HeldOutPredictions, read_data, run
from ._store import Row, describe_failures, summarize_scores

MAX_CONFUSION_CLASSES = 30  # in each confusion table: those that are confused most often
MAX_VALIDATED_CLASSES = 12  # measures of more make neither a legible section nor a fast one
VERSION_KEYS = ("unseen", "python", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Comparison(EvaluationResult):
    """Result of :func:`unseen.compare`.

    Attributes
    ----------
    predictions : HeldOutPredictions
        Predictions of each method for each held-out domain.
    verdict : Verdict
        The method to use, with its expected performance on a new domain (`recommendation`); and whether invariance
        helped (`decision`, `headline`, `sentences`, and the `intervals` of paired differences).
    protocol : Protocol
        The rules of the comparison.

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
    >>> {method["name"]: round(method["mean"], 2) for method in comparison.to_dict()["methods"]}
    {'logistic': 0.63, 'majority': 0.5, 'centered logistic': 0.91}
    """

    predictions: HeldOutPredictions = field(repr=False)
    protocol: Protocol
    verdict: Verdict
    facts: dict[str, Any] = field(repr=False)

    @property
    def rows(self) -> list[Row]:
        """Predictions: one for each method, held-out domain and repeat."""
        return self.predictions.rows

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Differences between the domains."""
        # The kernel matrix has at most about 6000 rows, so that it does not cost more than the comparison. The
        # preprocessing is fitted on all domains, since no scores are computed.
        rows_per_domain = max(20, min(500, 6000 // len(self.predictions.tasks)))
        protocol = self.protocol
        return diagnose(
            self.predictions.table,
            scale=protocol.scale,
            max_per_domain=rows_per_domain,
            random_state=protocol.seed,
        )

    @cached_property
    def validation(self) -> ValidationResult | None:
        """Discrimination, calibration and usefulness on each held-out domain, as :func:`unseen.validate` reports them.

        "auto" is reported or, if it was not compared, the recommended method. None if settings were selected by labels
        of the held-out domains, or if no method could be fitted.
        """
        recommendation = self.verdict.recommendation
        if self.protocol.selection == "oracle" or recommendation is None:
            return None
        is_fitted = any(row.method == AUTO and row.probabilities is not None for row in self.rows)
        settings = ValidationSettings(
            method=AUTO if is_fitted else recommendation.method,
            positive=self.protocol.positive,
            aim=self.protocol.threshold,
            metric=self.protocol.metric,
            facts=self.facts,
        )
        first = [row for row in self.rows if row.repeat == 0]
        return ValidationResult(settings, replace(self.predictions, rows=first))

    @cached_property
    def overview(self) -> dict[str, Any]:
        """What a terminal shows: verdict, held-out domains and scores of methods, as in :meth:`to_dict`."""
        overview: dict[str, Any] = plain_values(
            {
                "title": f"unseen compare: {self.predictions.table.name}",
                "verdict": self.verdict.to_dict(),
                "domains": [", ".join(task.targets) for task in self.predictions.tasks],
                "methods": _describe_methods(self.rows),
            }
        )
        return overview

    @cached_property
    def _details(self) -> dict[str, Any]:
        table = self.predictions.table
        validation = None
        if len(table.samples.classes) <= MAX_VALIDATED_CLASSES and self.validation is not None:
            validation = self.validation.statistics_dict()
        details: dict[str, Any] = plain_values(
            {
                "data": _describe_data(table),
                "validation": validation,
                "ensemble": _describe_ensembles(self.rows),
                "diagnosis": self.diagnosis.summary(),
                "confusion": _count_confusions(self.predictions, self.verdict),
                "settings": [
                    {"domain": row.domain, "settings": _shown_settings(row), "repeat": row.repeat, "method": row.method}
                    for row in self.rows
                    if row.status == "ok"
                ],
                "provenance": _describe_provenance(self.protocol, self.facts),
            }
        )
        return details

    def to_dict(self) -> dict[str, Any]:
        """Return all results of the report, in values that JSON can represent.

        Returns
        -------
        summary : dict
            The results. Scores are fractions.
        """
        return {**self.overview, **self._details}

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each method and held-out domain; a score that is missing is None."""
        return [
            {
                "method": method["name"],
                "kind": method["kind"],
                "transductive": method["transductive"],
                "domain": domain,
                "metric": self.verdict.metric.label,
                **(cell or {"mean": None, "sd": None}),
                "status": "ok" if cell else method["status"],
            }
            for method in self.overview["methods"]
            for domain, cell in method["accuracies"].items()
        ]

    def to_frame(self) -> Any:
        """Return the scores, methods by held-out domains, best first.

        Returns
        -------
        frame : pandas DataFrame
            With the columns `kind`, `transductive`, one for each domain, `mean` and `seconds`. A domain with the name
            of another column is renamed, such as to "mean (domain)".
        """
        pandas = optional_import("pandas", "to_frame()")
        fixed = ("kind", "transductive", "mean", "seconds")
        records = []
        for method in self.overview["methods"]:
            scores = {
                f"{domain} (domain)" if domain in (*fixed, "method") else domain: cell and cell["mean"]
                for domain, cell in method["accuracies"].items()
            }
            kind, transductive, mean, seconds = (method[name] for name in fixed)
            start = {"method": method["name"], "kind": kind, "transductive": transductive}
            records.append({**start, **scores, "mean": mean, "seconds": seconds})
        return pandas.DataFrame(records).set_index("method").sort_values("mean", ascending=False)

    def plot(self, figure: Any = None) -> Any:
        """Draw the scores of methods on each held-out domain.

        Parameters
        ----------
        figure : matplotlib Figure, default=None
            Figure to draw on; None creates one.

        Returns
        -------
        figure : matplotlib Figure
            The figure.
        """
        return draw_comparison(self.overview, figure)

    def to_html(self) -> str:
        """Return the report as one self-contained page.

        Returns
        -------
        page : str
            HTML.
        """
        return render_comparison(self.to_dict())

    def __str__(self) -> str:
        methods = arrange_scores(self.overview)
        width = max(len(method["name"]) for method in methods)
        lines = []
        for method in methods:
            score = "failed" if method["mean"] is None else format_score(self.verdict.metric, method["mean"])
            lines.append(f"{method['name']:<{width}}  {score:>6}{'*' * method['transductive']}")
        advice = [self.verdict.recommendation.sentence] if self.verdict.recommendation else []
        return "\n".join([*lines, "", *advice, self.verdict.headline, *self.verdict.sentences])


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
    protocol: Literal["default", "paper"] | Protocol = "default",
    scale: Scale = "standardize",
    transductive: bool = False,
    metric: str = "accuracy",
    balance: Balance = "none",
    positive: Any = None,
    threshold: str | float | None = None,
    max_per_domain: int | None = None,
    min_domain_rows: int = MIN_DOMAIN_ROWS,
    quick: bool = False,
    store: str | Path | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    client: Any = None,
    command: str = "unseen.compare(...)",
) -> Comparison:
    """Compare methods by leave-one-domain-out cross-validation, and recommend one.

    Each domain is held out in turn, each method is fitted to all rows of the others, as :func:`unseen.fit` does, and
    predicts the held-out one. A :class:`~unseen.exceptions.DataWarning` is issued for each likely error in the columns
    of a table, such as zeros that stand for missing values in one domain: see :doc:`/user_guide/columns`.

    Parameters
    ----------
    data : array-like of shape (n_samples, n_features), DataFrame, str, path or Table
        Samples; or a table, as a DataFrame of pandas or polars or as the path of a file or folder: see
        :doc:`/user_guide/compare`; or a Table that was read already.
    y : array-like of shape (n_samples,), default=None
        Class labels, unless they are a column of a table.
    sample_domain : array-like of shape (n_samples,), default=None
        The domain of each sample, unless it is a column of a table.
    label, domain, group, features, drop, unlabeled, dates, categories, missing, max_per_domain, min_domain_rows
        The roles of the columns and the rows to use, as for :func:`unseen.tables.load_table`.
    methods : sequence, default=None
        Methods to compare: names in `unseen.model_selection.METHODS`, and custom classifiers such as
        ``("mine", SVC(), {"C": [1, 10]})``: see :ref:`own_models`. None means all methods for comparisons, and both
        "auto", which is inductive, and "auto, transductive".
    protocol : {"default", "paper"} or Protocol, default="default"
        "default" holds out each domain once and uses all rows of the others; "paper" is the protocol of the CIDG paper
        (:meth:`unseen.evaluation.Protocol.paper`). A Protocol is used as it is, without the parameters from `scale`
        to `threshold`, `quick` and `random_state`.
    scale : {"standardize", "l2", "none"}, default="standardize"
        Scale columns to zero mean and unit variance, scale rows to unit length, or nothing; fitted on the source
        domains only. The protocol of the paper scales rows.
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
    quick : bool, default=False
        Use small grids, and one repeat of the protocol of the paper, for a first result.
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
    command : str, default="unseen.compare(...)"
        Command that repeats the comparison, which the report shows.

    Returns
    -------
    comparison : Comparison
        The results, with a table, a recommendation and a report.

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
    ...     quick=True,
    ... )
    >>> [method["name"] for method in comparison.to_dict()["methods"]]
    ['CIDG', 'logistic']
    """
    start = time.perf_counter()
    if isinstance(protocol, str):
        protocol = make_protocol(
            protocol,
            scale=scale,
            transductive=transductive,
            metric=metric,
            balance=balance,
            quick=quick,
            seed=random_state,
            threshold=threshold,
            positive=positive,
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
    table = read_data(data, y, sample_domain, options, "compare")
    for notice in find_column_notices(table):
        warn(notice, DataWarning)
    classes = table.samples.classes
    chosen = get_metric(protocol.metric)
    check_metric(chosen.scoring, classes)
    n_domains = len(np.unique(table.domain))
    check_comparison_size(len(classes), n_domains, paired=True)
    event, _ = choose_positive(classes, protocol.positive)
    check_threshold(protocol.threshold, len(classes))
    protocol = replace(protocol, positive=event)
    if methods is None:
        methods = comparison_methods(protocol.transductive)
    predictions = run(table, methods, protocol, store=store, n_jobs=n_jobs, verbose=verbose, client=client)
    results = ComparisonResults.from_predictions(predictions, protocol.metric)
    verdict = make_verdict(results, protocol.resolve_selection(n_domains - 1))
    imbalance = describe_imbalance(Counter(table.y.tolist()), chosen.label)
    if imbalance is not None:
        verdict = replace(verdict, sentences=[*verdict.sentences, imbalance])
    facts = {"command": command, "seconds": time.perf_counter() - start}
    return Comparison(predictions, protocol, verdict, facts)


def make_protocol(name: str, **settings: Any) -> Protocol:
    """Return the protocol with a name and these settings; that of the paper has a scale and centering of its own."""
    if name == "default":
        return Protocol(**settings)
    if name != "paper":
        raise ValueError(f"protocol={name!r} is not allowed. Use 'default', 'paper' or a Protocol.")
    changes = {key: value for key, value in settings.items() if key not in ("scale", "transductive")}
    return Protocol.paper(**changes, repeats=1 if settings["quick"] else 5)


def comparison_methods(transductive: bool = False) -> list[str]:
    """Return the default methods of a comparison, in which "auto" is transductive or not."""
    names = method_names(in_comparison=True)
    if not transductive:
        names.insert(names.index("auto") + 1, AUTO_TRANSDUCTIVE)
    return names


def _describe_data(table: Table) -> dict[str, Any]:
    """Return sizes, classes, and the number of samples of each class in each domain."""
    samples = table.samples
    counts = dict(zip(encode_domains(samples.domain)[0].tolist(), samples.counts().tolist(), strict=True))
    names = dict.fromkeys(samples.domain.tolist())  # in the order of the table
    return {
        "name": table.name,
        "n_samples": len(samples),
        "n_features": samples.X.shape[1],
        "classes": [str(label) for label in samples.classes],
        "domains": [{"name": name, "n": sum(counts[name]), "counts": counts[name]} for name in names],
        "notices": list(table.notices),
        "columns": table.describe_columns(),
    }


def _describe_methods(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the scores of each method: mean and sd over repeats on each domain, and over domains.

    Domains on which the metric is undefined are left out of the mean.
    """
    domains = list(dict.fromkeys(row.domain for row in rows))
    methods = []
    for own in group_by(rows, lambda row: row.method):
        scores: dict[str, list[float]] = {domain: [] for domain in domains}
        for row in own:
            if row.has_score and row.accuracy is not None:
                scores[row.domain].append(row.accuracy)
        cells = {domain: summarize_scores(values) if values else None for domain, values in scores.items()}
        means: list[Any] = [cell["mean"] for cell in cells.values() if cell]
        is_complete = bool(means) and all(row.status == "ok" for row in own)
        methods.append(
            {
                "name": own[0].method,
                "kind": own[0].kind,
                "transductive": any(row.transductive for row in own),
                **summarize_scores(means if is_complete else []),
                "seconds": round(sum(row.seconds for row in own), 3),
                **describe_failures(own),
                "accuracies": cells,
            }
        )
    return methods


def _count_confusions(predictions: HeldOutPredictions, verdict: Verdict) -> list[dict[str, Any]]:
    """Count true by predicted classes of the recommended method on each held-out domain, as means over repeats.

    With many classes, each table has the classes that are confused most often; the totals of a class are those of all
    samples.
    """
    if verdict.recommendation is None:
        return []
    method = verdict.recommendation.method
    classes = predictions.table.samples.classes
    predicted = [row for row in predictions.rows if row.method == method and row.codes is not None]
    tables = []
    for rows in group_by(predicted, lambda row: row.domain):
        truth = predictions.truth(rows[0])
        labels = np.arange(len(classes))
        counts = np.mean([confusion_matrix(truth, row.codes, labels=labels) for row in rows], axis=0)
        mistakes = counts.sum(axis=0) + counts.sum(axis=1) - 2 * counts.diagonal()
        shown = np.sort(np.argsort(-mistakes, kind="stable")[:MAX_CONFUSION_CLASSES])
        tables.append(
            {
                "domain": rows[0].domain,
                "method": method,
                "classes": [str(classes[code]) for code in shown],
                "counts": counts[np.ix_(shown, shown)].round(3),
                "totals": counts.sum(axis=1).round().astype(int)[shown],
                "repeats": len(rows),
                "left_out": len(classes) - len(shown),
            }
        )
    return tables


def _shown_settings(row: Row) -> dict[str, Any]:
    """Return the settings to show: for an ensemble, the weights of its members."""
    settings = row.settings
    if "members" not in settings:
        return settings
    return {"model": settings["model"], **settings["members"], "smoothing": settings["smoothing"]}


def _describe_ensembles(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Return the mean weights of the members of the ensembles of the automatic method, largest first."""
    ensembles = group_by([row for row in rows if "members" in row.settings], lambda row: row.method)
    if not ensembles:
        return None
    own = ensembles[0]  # "auto" precedes "auto, transductive"
    members = [row.settings["members"] for row in own]
    weights = {name: float(np.mean([one.get(name, 0.0) for one in members])) for one in members for name in one}
    return {
        "method": own[0].method,
        "n": len(own),
        "weights": dict(sorted(weights.items(), key=lambda item: -item[1])),
    }


def _describe_provenance(protocol: Protocol, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the command, the protocol, the versions and the machine."""
    machine = environment_info()
    settings = {name: value for name, value in asdict(protocol).items() if name not in ("seed", "positive")}
    return {
        "command": facts["command"],
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(facts["seconds"], 1),
        "seed": protocol.seed,
        "protocol": settings,
        "versions": {name: machine[name] for name in VERSION_KEYS},
        "machine": {name: value for name, value in machine.items() if name not in VERSION_KEYS},
    }
