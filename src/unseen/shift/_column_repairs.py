"""Does leaving out or repairing columns help? Nested leave-one-domain-out evaluation of decisions on columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import stdtrit

from ..linalg import Array
from ..model_selection import (
    AVERAGE_METHODS,
    AcceptanceTest,
    EvaluationConfig,
    LeaveOneDomainOut,
    Split,
    check_metric,
    get_metric,
    make_average_candidates,
    make_trial_batches,
    predict_by_average,
    score_probabilities,
    single_thread,
)
from ..tables import Dates, Table, TableOptions, make_preprocessor, open_data
from ..tables import read_survey as read_surveyed_table
from ..utils.optional_imports import optional_import
from ..utils.progress import progress
from ..utils.samples import Samples
from ._column_audit import Finding, audit_columns, enumerate_some
from ._column_diagnosis import find_sign_changes
from ._column_shift import measure_column_shift
from ._column_values import ColumnValues, columns_from_matrix, format_number

RepairName = Literal["missing", "drop", "stable"]
STEPS: dict[RepairName, str] = {
    "missing": "Treating point masses as missing",
    "drop": "Leaving out unstable columns",
    "stable": "Treating point masses as missing and leaving out columns that are still unstable",
}
# High findings of these kinds make a column unstable. Class proportions are not a matter of columns, and a category
# that one domain has is treated as rare in the others.
UNSTABLE_KINDS = (
    "point_mass",
    "units",
    "swapped_codes",
    "domain_copy",
    "identifies_domain",
    "missing",
    "constant",
    "spelling",
)
LEVEL = 0.95  # of intervals
MAX_PER_DOMAIN = 2000  # rows
MIN_DOMAINS = 3  # two domains remain to decide on when one is held out


@dataclass(frozen=True)
class Repair:
    """What to do with the columns of a table.

    Attributes
    ----------
    drop : tuple of str
        Columns to leave out.
    missing : dict of str to float
        Values that stand for missing values, by column.
    """

    drop: tuple[str, ...] = ()
    missing: dict[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.drop or self.missing)

    def __str__(self) -> str:
        parts = []
        if self.missing:
            values = [f"{name} = {format_number(value)}" for name, value in self.missing.items()]
            parts.append(f"{enumerate_some(values)} as missing")
        if self.drop:
            parts.append(f"without {enumerate_some(self.drop)}")
        return ", ".join(parts) or "nothing"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"drop": list(self.drop), "missing": dict(self.missing)}

    def apply(self, table: Table) -> Table:
        """Return the table without the columns, and with NaN for the values."""
        columns = table.schema.columns
        X = table.X.copy()
        for position, column in enumerate(columns):
            if column.name in self.missing:
                X[X[:, position] == self.missing[column.name], position] = np.nan
        kept = [position for position, column in enumerate(columns) if column.name not in self.drop]
        schema = replace(table.schema, columns=tuple(columns[position] for position in kept))
        return replace(table, X=X[:, kept], schema=schema)


@dataclass(frozen=True)
class Gain:
    """Gain of a repair in a metric, paired over held-out domains.

    Attributes
    ----------
    metric : str
        Name of the metric: "AUC" or "log loss".
    before, after : float
        Mean scores over domains, as the data are and with the repair.
    gain, lower, upper : float
        Mean improvement with its 95% confidence interval (paired t); positive is better, also for the log loss.
    by_domain : dict of str to float
        The improvement on each domain.
    """

    metric: str
    before: float
    after: float
    gain: float
    lower: float
    upper: float
    by_domain: dict[str, float]


@dataclass(frozen=True, eq=False)
class RepairTrial:
    """The evaluation of one repair.

    Attributes
    ----------
    name : {"missing", "drop", "stable"}
        The repair.
    repair : Repair
        What it does, decided on all domains.
    by_domain : dict of str to Repair
        What it does where a domain is held out, decided on the other domains.
    gains : tuple of Gain
        In AUC and in log loss.
    test : AcceptanceTest
        Whether it is used by ``unseen.fit(columns="stable")``: the test for transductive steps, on the gains in the
        metric of the fit.
    """

    name: RepairName
    repair: Repair
    by_domain: dict[str, Repair]
    gains: tuple[Gain, ...]
    test: AcceptanceTest

    @property
    def step(self) -> str:
        """The repair in words."""
        return STEPS[self.name]

    def sentence(self) -> str:
        """The repair, its gains with intervals, and whether the acceptance test passes."""
        if not self.repair and not any(self.by_domain.values()):
            return f"{self.step}: there is nothing to repair."
        texts = []
        for gain in self.gains:
            texts.append(
                f"{gain.metric} {gain.before:.3f} -> {gain.after:.3f}, gain {gain.gain:+.3f} ({gain.lower:+.3f} to "
                f"{gain.upper:+.3f})"
            )
        decision = "passes" if self.test.is_accepted else "does not pass"
        return f"{self.step} ({self.repair}): {'; '.join(texts)}. It {decision} the acceptance test."


@dataclass(frozen=True, eq=False, repr=False)
class ColumnRepairs:
    """What :func:`unseen.try_repairs` returns.

    Attributes
    ----------
    domains : tuple of str
        The held-out domains.
    methods : tuple of str
        The models whose mean was evaluated.
    metric : str
        The metric of the acceptance test.
    trials : tuple of RepairTrial
        Each repair.
    """

    domains: tuple[str, ...]
    methods: tuple[str, ...]
    metric: str
    trials: tuple[RepairTrial, ...]

    def __getitem__(self, name: str) -> RepairTrial:
        """The trial of a repair by its name."""
        return next(trial for trial in self.trials if trial.name == name)

    def sentences(self) -> list[str]:
        """The evaluation as sentences."""
        m = len(self.domains)
        head = (
            f"Evaluated on {m} held-out domains, each with a decision on columns that was made on the others, by the "
            f"mean of {' and '.join(self.methods)}; gains are paired over domains, with 95% intervals."
        )
        return [head, *(trial.sentence() for trial in self.trials)]

    def summary(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON and the report."""
        return {
            "domains": list(self.domains),
            "methods": list(self.methods),
            "metric": self.metric,
            "sentences": self.sentences(),
            "trials": [
                {
                    "name": trial.name,
                    "step": trial.step,
                    "repair": trial.repair.to_dict(),
                    "gains": [_replace_nan(asdict(gain)) for gain in trial.gains],
                    "accepted": trial.test.is_accepted,
                    "reason": trial.test.reason,
                }
                for trial in self.trials
            ],
        }

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each repair and metric."""
        pandas = optional_import("pandas", "to_frame()")
        rows = []
        for trial in self.trials:
            for gain in trial.gains:
                facts = {key: value for key, value in asdict(gain).items() if key != "by_domain"}
                rows.append({"repair": trial.name, **facts, "accepted": trial.test.is_accepted})
        return pandas.DataFrame(rows)

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        names = [trial.name for trial in self.trials if trial.test.is_accepted]
        return f"<ColumnRepairs: {len(self.domains)} domains; accepted: {', '.join(names) or 'none'}>"


def _replace_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            plain[key] = _replace_nan(value)
        else:
            plain[key] = None if isinstance(value, float) and not np.isfinite(value) else value
    return plain


def find_repair(columns: Sequence[ColumnValues], labels: Any, domains: Any, name: RepairName) -> Repair:
    """Decide which columns to leave out and which values to treat as missing, from the rows given and no others.

    Parameters
    ----------
    columns : sequence of ColumnValues
        The features.
    labels, domains : array-like of shape (n_samples,)
        Class and domain of each row, of two domains or more.
    name : {"missing", "drop", "stable"}
        The repair.
    """
    findings = audit_columns(columns, labels, domains=domains).findings
    missing: dict[str, float] = {}
    if name != "drop":
        for finding in findings:
            if finding.kind == "point_mass" and finding.severity == "high" and isinstance(finding.value, float):
                missing.setdefault(finding.column, finding.value)
    if name == "missing":
        return Repair(missing=missing)
    if missing:
        columns = [_without_value(column, missing.get(column.name)) for column in columns]
        findings = audit_columns(columns, labels, domains=domains).findings
    shifts = measure_column_shift(columns, labels, domains=domains)
    turning = [effect.column for effect in find_sign_changes(shifts)]
    drop = dict.fromkeys([*(finding.column for finding in findings if _is_unstable(finding)), *turning])
    if len(drop) == len(columns):  # a model needs some columns
        return Repair(missing=missing)
    kept = {column: value for column, value in missing.items() if column not in drop}
    return Repair(tuple(drop), kept)


def _without_value(column: ColumnValues, value: float | None) -> ColumnValues:
    if value is None:
        return column
    return replace(column, values=np.where(column.values == value, np.nan, column.values))


def _is_unstable(finding: Finding) -> bool:
    return finding.severity == "high" and finding.kind in UNSTABLE_KINDS


def try_repairs(
    data: Any,
    *,
    label: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    unlabeled: str | int | None = None,
    dates: Dates = "drop",
    categories: Sequence[str] | None = None,
    missing: Mapping[str, Any] | None = None,
    max_per_domain: int | None = MAX_PER_DOMAIN,
    methods: Sequence[Any] = AVERAGE_METHODS,
    metric: str = "accuracy",
    repairs: Sequence[RepairName] = get_args(RepairName),
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> ColumnRepairs:
    """Evaluate whether leaving out or repairing columns helps on domains that were not seen.

    Each domain is held out in turn. On the other domains the columns are audited, which decides what to leave out and
    what to treat as missing; then models are fitted to the repaired columns of these domains, and predict the held-out
    one. The held-out domain has no part in the decision.

    Parameters
    ----------
    data : DataFrame, dict, list of dict, structured array, str, path or Table
        A table with columns of labels and domains: see :func:`unseen.tables.load_table`.
    label, domain, group, features, drop, unlabeled, dates, categories, missing
        The roles of the columns, as for :func:`unseen.tables.load_table`.
    max_per_domain : int, default=2000
        Maximum number of rows of each domain, selected at random; None means all.
    methods : sequence of str, default=("logistic", "gradient boosting")
        Models whose mean probabilities are evaluated: names in `unseen.model_selection.METHODS`. The default is cheap.
    metric : str, default="accuracy"
        Metric of the acceptance test. Gains are reported in AUC and log loss as well.
    repairs : sequence of {"missing", "drop", "stable"}
        "missing" treats values such as zeros that stand for missing values as missing; "drop" leaves out columns with
        grave findings, or whose effect changes sign; "stable" does the first, then the second where it is still needed.
    random_state : int, default=0
        Seed of the selection of rows.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    repairs : ColumnRepairs
        Gains of each repair, with intervals. ``print`` shows sentences.

    Examples
    --------
    >>> import numpy as np
    >>> import pytest; pd = pytest.importorskip("pandas")
    >>> import unseen
    >>> rng = np.random.default_rng(0)
    >>> hospital = np.repeat(["bonn", "graz", "leeds", "lyon", "oslo"], 60)
    >>> ill = rng.integers(2, size=300)
    >>> marker = rng.normal(size=300) + ill
    >>> dose = np.where(hospital == "oslo", 0.0, rng.normal(50, 5, size=300) + 5 * ill)  # 0: not recorded
    >>> table = pd.DataFrame({"marker": marker, "dose": dose, "ill": ill, "hospital": hospital})
    >>> result = unseen.try_repairs(table, label="ill", domain="hospital", methods=["logistic"])
    >>> result["missing"].repair.missing
    {'dose': 0.0}
    """
    unknown = [name for name in repairs if name not in STEPS]
    if unknown or not len(repairs):
        raise ValueError(f"repairs must be some of {', '.join(STEPS)}; got {list(repairs)!r}.")
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
        seed=random_state,
    )
    if isinstance(data, Table):
        table = data
    else:
        opened = open_data(data, None, None, options, "try_repairs")
        table = opened if isinstance(opened, Table) else read_surveyed_table(opened, random_state)
    return evaluate_table_repairs(table, max_per_domain, methods, metric, repairs, random_state, n_jobs, verbose)


def evaluate_table_repairs(
    table: Table,
    max_per_domain: int | None = MAX_PER_DOMAIN,
    methods: Sequence[Any] = AVERAGE_METHODS,
    metric: str = "accuracy",
    repairs: Sequence[RepairName] = get_args(RepairName),
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> ColumnRepairs:
    """Evaluate repairs of a table on at most `max_per_domain` rows of each domain."""
    rows = table.samples.subsample_rows(max_per_domain=max_per_domain, seed=random_state)
    used = table if len(rows) == len(table.X) else table.take(rows)
    return evaluate_repairs(used, methods, metric, repairs, n_jobs, verbose)


def evaluate_repairs(
    table: Table,
    methods: Sequence[Any] = AVERAGE_METHODS,
    metric: str = "accuracy",
    repairs: Sequence[RepairName] = get_args(RepairName),
    n_jobs: int | None = None,
    verbose: int = 0,
) -> ColumnRepairs:
    """Evaluate repairs of a table, as `try_repairs` does."""
    samples = table.samples
    domains = np.unique(table.domain).tolist()
    if len(domains) < MIN_DOMAINS:
        raise ValueError(
            f"Evaluating repairs of columns needs at least {MIN_DOMAINS} domains, since one is held out and the others "
            f"are compared; there are {len(domains)}."
        )
    scoring = get_metric(metric).scoring
    check_metric(scoring, samples.classes)
    candidates = make_average_candidates(methods, len(samples.classes))
    splits = list(LeaveOneDomainOut().split(samples.X, samples.y, samples.domain))
    columns = columns_from_matrix(table.X, table.schema)
    decisions: dict[RepairName, list[Repair]] = {name: [] for name in repairs}
    probabilities: dict[str, list[Array]] = {name: [] for name in ("before", *repairs)}
    with single_thread(), progress("Trying repairs", len(splits), verbose) as advance:
        for train, test in splits:
            train_columns = [replace(column, values=column.values[train]) for column in columns]
            before = _predict(table, candidates, (train, test), n_jobs)
            known = {str(Repair()): before}  # repairs that do the same are evaluated once
            probabilities["before"].append(before)
            for name in repairs:
                repair = find_repair(train_columns, table.y[train], table.domain[train], name)
                key = repr(repair) if repair else str(Repair())
                if key not in known:
                    known[key] = _predict(repair.apply(table), candidates, (train, test), n_jobs)
                decisions[name].append(repair)
                probabilities[name].append(known[key])
            advance(1)
    batches = _TrialBatches.from_splits(samples, splits)
    trials = []
    for name in repairs:
        scores = [batches.score(probabilities[key], samples, scoring) for key in ("before", name)]
        trials.append(
            RepairTrial(
                name=name,
                repair=find_repair(columns, table.y, table.domain, name),
                by_domain=dict(zip(domains, decisions[name], strict=True)),
                gains=tuple(
                    _measure_gain(label, scorer, probabilities["before"], probabilities[name], samples, splits, domains)
                    for label, scorer in (("AUC", "roc_auc_ovr"), ("log loss", "neg_log_loss"))
                ),
                test=AcceptanceTest.from_trials(STEPS[name], *scores),
            )
        )
    names = tuple(dict.fromkeys(candidate.method for candidate in candidates))
    return ColumnRepairs(tuple(domains), names, metric, tuple(trials))


def _predict(table: Table, candidates: Sequence[Any], split: Split, n_jobs: int | None) -> Array:
    config = EvaluationConfig(preparation=make_preprocessor(table.schema), n_jobs=n_jobs)
    return predict_by_average(candidates, table.samples, [split], config)[0]


@dataclass(frozen=True, eq=False)
class _TrialBatches:
    """The natural batch and skewed batches of each held-out domain."""

    splits: list[list[Split]]
    rows: list[list[Any]]

    @classmethod
    def from_splits(cls, samples: Samples, splits: Sequence[Split]) -> _TrialBatches:
        rows = [make_trial_batches(samples.codes[test], seed=k) for k, (_, test) in enumerate(splits)]
        batches = [
            [(train, test[positions]) for positions in own] for (train, test), own in zip(splits, rows, strict=True)
        ]
        return cls(batches, rows)

    def score(self, probabilities: Sequence[Array], samples: Samples, scoring: Any) -> Array:
        """Scores on natural and on skewed batches, of shape (2, m), in points."""
        natural = []
        skewed = []
        for P, splits, rows in zip(probabilities, self.splits, self.rows, strict=True):
            scores = 100 * score_probabilities([P[positions] for positions in rows], samples, splits, scoring)
            natural.append(scores[0])
            defined = scores[1:][np.isfinite(scores[1:])]
            skewed.append(defined.mean() if len(defined) else np.nan)
        return np.array([natural, skewed])


def _measure_gain(
    label: str,
    scoring: str,
    before: Sequence[Array],
    after: Sequence[Array],
    samples: Samples,
    splits: Sequence[Split],
    domains: Sequence[str],
) -> Gain:
    """Paired differences over domains on which the metric is defined, with a t interval."""
    scores = np.array([score_probabilities(P, samples, splits, scoring) for P in (before, after)])
    defined = np.isfinite(scores).all(axis=0)
    differences = (scores[1] - scores[0])[defined]
    m = len(differences)
    mean = float(differences.mean()) if m else np.nan
    half = np.nan
    if m > 1:
        half = float(stdtrit(m - 1, (1 + LEVEL) / 2) * differences.std(ddof=1) / np.sqrt(m))
    by_domain = dict(zip(np.array(domains)[defined].tolist(), differences.tolist(), strict=True))
    sign = -1.0 if scoring.startswith("neg_") else 1.0
    means = [sign * float(own[defined].mean()) if m else np.nan for own in scores]
    return Gain(label, means[0], means[1], mean, mean - half, mean + half, by_domain)
