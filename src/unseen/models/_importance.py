"""Importance of columns on domains that a model has not seen, and columns that drive single predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ..linalg import Array, Ints
from ..model_selection import LeaveOneDomainOut, Scoring, check_metric, get_metric, score_probabilities
from ..report import draw_importance, render_importance
from ..tables import Schema, Table, TableOptions, open_data, read_survey
from ..utils.optional_imports import optional_import
from ..utils.progress import progress
from ..utils.samples import Samples
from ..utils.validation import EncodedLabels, Labels
from ._table_fit import AUTO, fit_table
from ._table_model import TableModel

LEVEL = 0.95  # of intervals
MAX_PER_DOMAIN = 500  # rows of a domain: the score of 500 rows has a standard error of two points at most
MAX_BATCH_ROWS = 20_000  # that are predicted at once
N_REPEATS = 5
MAX_DRIVERS = 5  # columns that an explanation names
ALL_ROWS = "all rows"  # the name of rows without domains


@dataclass(frozen=True)
class ColumnImportance:
    """How much a score falls if the values of one column are permuted within domains.

    Attributes
    ----------
    column : str
        The column.
    mean : float
        Mean loss over domains.
    lower, upper : float
        95% confidence interval of the mean over domains (t); NaN with a single domain.
    by_domain : dict of str to float
        The loss on each domain.
    """

    column: str
    mean: float
    lower: float
    upper: float
    by_domain: dict[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class Importance:
    """Permutation importance of columns, by domain; the largest first.

    Attributes
    ----------
    metric : str
        Name of the metric.
    is_percent : bool
        Whether texts show losses in percentage points.
    scores : dict of str to float
        The score on each domain without permutation.
    columns : tuple of ColumnImportance
        The columns, the most important first.
    is_held_out : bool
        Whether each domain was predicted by a model that was fitted without it.
    """

    metric: str
    is_percent: bool
    scores: dict[str, float]
    columns: tuple[ColumnImportance, ...]
    is_held_out: bool = False

    def __getitem__(self, column: str) -> ColumnImportance:
        """The importance of a column by its name."""
        by_name = {entry.column: entry for entry in self.columns}
        if column not in by_name:
            raise KeyError(f"column={column!r} is not a feature. Use one of {', '.join(sorted(by_name))}.")
        return by_name[column]

    def summary(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON and the report."""
        return {
            "metric": self.metric,
            "is_percent": self.is_percent,
            "is_held_out": self.is_held_out,
            "scores": {name: _replace_nan(score) for name, score in self.scores.items()},
            "columns": [
                {
                    **{key: _replace_nan(value) for key, value in asdict(entry).items() if key != "by_domain"},
                    "by_domain": {name: _replace_nan(loss) for name, loss in entry.by_domain.items()},
                }
                for entry in self.columns
            ],
        }

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each column: mean, interval, and the loss on each domain."""
        return [
            {"column": entry.column, "mean": entry.mean, "lower": entry.lower, "upper": entry.upper, **entry.by_domain}
            for entry in self.columns
        ]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each column: mean, interval, and the loss on each domain."""
        return optional_import("pandas", "to_frame()").DataFrame(self.records())

    def plot(self, figure: Any = None) -> Any:
        """Draw the mean importance of columns, with a dot for each domain.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, default=None
            Figure to draw on; None creates one.

        Returns
        -------
        figure : matplotlib Figure or SubFigure
            The figure.
        """
        return draw_importance(self.summary(), figure)

    def to_html(self) -> str:
        """Return a self-contained page; needs the extra ``cli``."""
        return render_importance(self.summary())

    def __str__(self) -> str:
        factor, digits = (100, 1) if self.is_percent else (1, 3)
        unit = " in percentage points" if self.is_percent else ""
        width = max(len(entry.column) for entry in self.columns)
        lines = [f"Loss of {self.metric}{unit} if a column is permuted, mean over {len(self.scores)} domains:"]
        for entry in self.columns:
            text = f"{entry.column:<{width}}  {factor * entry.mean:+.{digits}f}"
            if np.isfinite(entry.lower):
                text += f" ({factor * entry.lower:+.{digits}f} to {factor * entry.upper:+.{digits}f})"
            lines.append(text)
        return "\n".join(lines)

    def __repr__(self) -> str:
        names = ", ".join(entry.column for entry in self.columns[:3])
        return f"<Importance: {self.metric}, {len(self.scores)} domains; most important: {names}>"


def _replace_nan(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def permute_columns(
    predict: Callable[[Array, Labels], Array],
    samples: Samples,
    schema: Schema,
    scoring: Scoring,
    n_repeats: int,
    random_state: int,
    max_batch_rows: int = 0,
) -> tuple[Array, Array]:
    """Scores of each domain, and their losses where each column is permuted within the domain.

    Parameters
    ----------
    predict : callable
        Takes encoded rows and their domains, and returns probabilities.
    samples : Samples
        Encoded rows with labels and domains.
    schema : Schema
        The columns.
    scoring : str
        The metric, as a name of scikit-learn.
    n_repeats : int
        Number of permutations of each column.
    random_state : int
        Seed of the permutations.
    max_batch_rows : int, default=0
        Number of rows up to which several permutations are predicted at once; 0 for one at a time, which transductive
        models need.

    Returns
    -------
    scores : ndarray of shape (n_domains,)
        In the order of the sorted domains; NaN where the metric is not defined.
    losses : ndarray of shape (n_columns, n_domains)
        Mean over permutations.
    """
    rng = np.random.default_rng(random_state)
    n_domains = int(samples.domain_codes.max()) + 1
    scores = np.full(n_domains, np.nan)
    losses = np.full((len(schema.columns), n_domains), np.nan)
    everything = np.arange(len(samples))
    for d in range(n_domains):
        rows = np.flatnonzero(samples.domain_codes == d)
        X, domain = samples.X[rows], samples.domain[rows]
        # The score of a split is defined by its held-out rows; the training rows only name the known classes.
        splits = [(everything, rows)]
        [scores[d]] = score_probabilities([predict(X, domain)], samples, splits, scoring)
        if not np.isfinite(scores[d]):
            continue
        is_constant = [bool((column == column[0]).all() or np.isnan(column).all()) for column in X.T]
        varying = np.flatnonzero(~np.array(is_constant))
        losses[is_constant, d] = 0.0
        copies = _permute(X, np.repeat(varying, n_repeats), rng)
        n_copies = max(max_batch_rows // len(X), 1)  # trees take about as long for one copy as for ten
        values = []
        while batch := list(islice(copies, n_copies)):
            P = predict(np.concatenate(batch), np.tile(domain, len(batch)))
            for part in np.split(P, len(batch)):
                values += score_probabilities([part], samples, splits, scoring).tolist()
        losses[varying, d] = scores[d] - np.reshape(values, (len(varying), n_repeats)).mean(axis=1)
    return scores, losses


def _permute(X: Array, columns: Ints, rng: np.random.Generator) -> Iterator[Array]:
    """Copies of rows with one permuted column each."""
    for j in columns.tolist():
        permuted = X.copy()
        permuted[:, j] = X[rng.permutation(len(X)), j]
        yield permuted


def make_importance(
    metric: str, domains: Sequence[str], columns: Sequence[str], scores: Array, losses: Array, *, is_held_out: bool
) -> Importance:
    """Average losses (a row for each column) over domains, with t intervals, and sort the columns by them."""
    chosen = get_metric(metric)
    defined = np.isfinite(scores)
    if not defined.any():
        raise ValueError(f"{chosen.label} is not defined on any domain. Use another metric.")
    m = int(defined.sum())
    entries = []
    for column, own in zip(columns, losses, strict=True):
        known = own[defined]
        half = np.nan
        if m > 1:
            half = float(stdtrit(m - 1, (1 + LEVEL) / 2) * known.std(ddof=1) / np.sqrt(m))
        mean = float(known.mean())
        by_domain = dict(zip(domains, own.tolist(), strict=True))
        entries.append(ColumnImportance(column, mean, mean - half, mean + half, by_domain))
    entries.sort(key=lambda entry: -entry.mean)
    by_domain_scores = dict(zip(domains, scores.tolist(), strict=True))
    return Importance(chosen.label, chosen.percent, by_domain_scores, tuple(entries), is_held_out)


def measure_importance(
    model: TableModel,
    samples: Samples,
    schema: Schema,
    metric: str,
    n_repeats: int = N_REPEATS,
    max_per_domain: int | None = MAX_PER_DOMAIN,
    random_state: int = 0,
) -> Importance:
    """Importance of columns for a fitted model on labeled rows, as `Model.importance` returns it."""
    scoring = get_metric(metric).scoring
    check_metric(scoring, samples.classes)
    used = samples.take(samples.subsample_rows(max_per_domain=max_per_domain, seed=random_state))

    def predict(X: Array, domain: Labels) -> Array:
        return model.predict_proba(X, sample_domain=domain)

    max_batch_rows = 0 if model.transductive else MAX_BATCH_ROWS
    scores, losses = permute_columns(predict, used, schema, scoring, n_repeats, random_state, max_batch_rows)
    domains = [str(name) for name in np.unique(used.domain)]
    return make_importance(metric, domains, schema.feature_names, scores, losses, is_held_out=False)


def held_out_importance(
    data: Any,
    *,
    label: str | None = None,
    domain: str | None = None,
    drop: Sequence[str] | None = None,
    missing: Mapping[str, Any] | None = None,
    methods: Any = AUTO,
    metric: str = "accuracy",
    n_repeats: int = N_REPEATS,
    max_per_domain: int | None = MAX_PER_DOMAIN,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Importance:
    """Measure the importance of columns on held-out domains: each domain is predicted by a model of the others.

    A column that is important in training may be useless in a new domain. Here the model of each held-out domain is
    selected and fitted on the other domains, as :func:`unseen.fit` does, and the columns of the held-out domain are
    permuted.

    Parameters
    ----------
    data : DataFrame, dict, list of dict, structured array, str, path or Table
        A table with columns of labels and domains.
    label, domain, drop, missing
        As for :func:`unseen.tables.load_table`.
    methods : str, tuple, Method or list of these, default="auto"
        As for :func:`unseen.fit`; one fit for each domain is needed.
    metric : str, default="accuracy"
        The score whose loss is measured: see :func:`unseen.fit`.
    n_repeats : int, default=5
        Number of permutations of each column.
    max_per_domain : int, default=500
        Maximum number of rows of each domain; None means all.
    random_state : int, default=0
        Seed of permutations and models.
    n_jobs : int, default=None
        Number of processes of each fit.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    importance : Importance
        Losses by column and domain.

    Examples
    --------
    >>> import numpy as np
    >>> import pytest; pd = pytest.importorskip("pandas")
    >>> from unseen.models import held_out_importance
    >>> rng = np.random.default_rng(0)
    >>> hospital = np.repeat(["bonn", "leeds", "oslo"], 40)
    >>> table = pd.DataFrame({"age": rng.normal(size=120), "noise": rng.normal(size=120), "hospital": hospital})
    >>> table["ill"] = table["age"] > 0
    >>> importance = held_out_importance(table, label="ill", domain="hospital", methods="logistic")
    >>> importance.columns[0].column
    'age'
    """
    options = TableOptions(
        label=label, domain=domain, drop=drop, missing=missing, max_per_domain=max_per_domain, seed=random_state
    )
    opened = open_data(data, None, None, options, "held_out_importance")
    table = opened if isinstance(opened, Table) else read_survey(opened, random_state)
    samples = table.samples
    scoring = get_metric(metric).scoring
    check_metric(scoring, samples.classes)
    domains = np.unique(table.domain).tolist()
    if len(domains) < 3:
        raise ValueError(
            f"held_out_importance needs at least 3 domains, since one is held out and models are selected on the "
            f"others; there are {len(domains)}."
        )
    all_scores = np.full(len(domains), np.nan)
    all_losses = np.full((len(table.schema.columns), len(domains)), np.nan)
    splits = list(LeaveOneDomainOut().split(samples.X, samples.y, samples.domain))
    with progress("Importance", len(splits), verbose) as advance:
        for d, (train, test) in enumerate(splits):
            model = fit_table(table.take(train), methods, metric=metric, random_state=random_state, n_jobs=n_jobs).model
            held_out = samples.take(test)
            all_scores[d], all_losses[:, d] = measure_held_out_importance(
                model, held_out, samples.classes, table.schema, metric, n_repeats, random_state
            )
            advance(1)
    return make_importance(metric, domains, table.schema.feature_names, all_scores, all_losses, is_held_out=True)


def measure_held_out_importance(
    model: TableModel,
    held_out: Samples,
    classes: Labels,
    schema: Schema,
    metric: str,
    n_repeats: int = N_REPEATS,
    random_state: int = 0,
) -> tuple[float, Array]:
    """Score of a model on one domain that was held out, and its loss where each column is permuted.

    `classes` are those of all domains.
    """
    samples = replace(held_out, classes=classes)
    predict = _with_all_classes(model, classes)
    max_batch_rows = 0 if model.transductive else MAX_BATCH_ROWS
    scoring = get_metric(metric).scoring
    scores, losses = permute_columns(predict, samples, schema, scoring, n_repeats, random_state, max_batch_rows)
    return float(scores[0]), losses[:, 0]


def _with_all_classes(model: TableModel, classes: Labels) -> Callable[[Array, Labels], Array]:
    """Predict probabilities of all classes; those that were not in training have probability 0."""
    positions = np.searchsorted(classes, model.classes_)

    def predict(X: Array, domain: Labels) -> Array:
        P = np.zeros((len(X), len(classes)))
        P[:, positions] = model.predict_proba(X, sample_domain=domain)
        return P

    return predict


def find_references(summary: Mapping[str, Any] | None, schema: Schema) -> Array | None:
    """The usual value of each column in training: the median domain median, or the most frequent category.

    None if the model card does not describe the training columns.
    """
    if summary is None:
        return None
    references = np.full(len(schema.columns), np.nan)
    for j, column in enumerate(schema.columns):
        entry = summary["columns"][column.name]
        if column.kind == "categorical":
            totals = {level: sum(counts) for level, counts in entry["levels"].items()}
            if totals:
                references[j] = column.levels.index(max(totals, key=lambda level: totals[level]))
        else:
            medians = [quantiles[len(quantiles) // 2] for quantiles in entry["quantiles"] if quantiles]
            references[j] = np.median(medians) if medians else np.nan
    return references


def find_drivers(
    model: TableModel, X: Array, domain: Labels | None, rows: Ints, predicted: Ints, references: Array, schema: Schema
) -> list[list[dict[str, Any]]]:
    """For each row, the columns whose usual value would change the probability of the predicted class most.

    Each column in turn is set to its usual value in training; the effect is the probability as it is minus the
    probability with the usual value. Columns that interact share their effect, and the effects do not add up.
    """
    n_columns = len(schema.columns)
    drivers = []
    for i in rows:
        variants = np.tile(X[i], (n_columns + 1, 1))
        variants[np.arange(1, n_columns + 1), np.arange(n_columns)] = references
        names = None if domain is None else np.repeat(domain[i : i + 1], n_columns + 1)
        P = model.predict_proba(variants, sample_domain=names)
        label = int(predicted[i])
        effects = P[0, label] - P[1:, label]
        order = np.argsort(-np.abs(effects), kind="stable")[:MAX_DRIVERS]
        drivers.append(
            [
                {"column": schema.columns[j].name, "effect": float(effects[j])}
                for j in order.tolist()
                if abs(effects[j]) > 0
            ]
        )
    return drivers


def group_rows(domain: Labels | None, n_rows: int) -> Labels:
    """Names of the domains of rows; one name for all without domains."""
    encoded = EncodedLabels.from_domains(domain, n_rows)
    names = np.empty(n_rows, dtype=object)
    for name, rows in encoded.iter_rows():
        names[rows] = ALL_ROWS if name is None else str(name)
    return names.astype(str)
