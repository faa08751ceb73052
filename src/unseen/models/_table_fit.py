"""From a table to a fitted model with honest scores, however many rows it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from ..kernels import SizePlan
from ..model_selection import (
    METHODS,
    CandidateResult,
    FittedEnsemble,
    LandmarkFit,
    LeaveOneDomainOut,
    Method,
    evaluate_and_fit_ensemble,
    expand_methods,
    ignore_expected_warnings,
    make_leaderboard,
    parse_methods,
    rare_class,
    single_thread,
    warn_about_failures,
)
from ..shift import Novelty
from ..tables import Table, make_preprocessor
from ..utils.samples import Balance, Samples
from ._row_stream import Rows, TableRows, collect_stream_statistics
from ._table_model import TableModel

AUTO = "auto"
BASELINE = "logistic"
BALANCED_ACCURACY_ADVICE = "compare by balanced_accuracy first, which counts all classes alike."
SLOW_EXACT_ROWS = 5_000  # samples beyond which exact kernels take minutes


@dataclass(frozen=True)
class TableFit:
    """A fitted model, what was chosen and how it did on each held-out domain.

    Attributes
    ----------
    model : TableModel
        Fitted on all domains.
    name, kind, settings : str, str, dict
        What was chosen; the kind is "plain", "inductive" or "transductive". A pool of several has no settings.
    scores : dict
        Accuracy on each domain, cross-fitted: preparation, model, settings, weights and temperatures were fitted on the
        other domains.
    baseline : dict or None
        The same for plain logistic regression; None if the chosen model is plain itself.
    leaderboard : list of dict
        What the choice was made from, best first; empty where there was none.
    stream : dict
        For tables of which not all rows were used for everything: how many were used for what. Empty otherwise.
    balance : str
        What weighed alike in training.
    scored_rows : dict
        Number of rows of each domain that the scores are of.
    pool : dict
        Of the pool, in plain values: its `members`, the weightiest first, with `model`, `weight`, `kind` and `params`;
        the strength of `smoothing`; `decisions`, sentences on why steps that look at the new domain are or are not
        taken; `calibration` on held-out domains, "before" probabilities were tempered and "after"; and the `forecast`:
        the mean of the scores, and the ends of a 95% prediction interval for one more domain.
    """

    model: TableModel
    name: str
    kind: str
    settings: dict[str, Any]
    scores: dict[str, float]
    baseline: dict[str, float] | None
    leaderboard: list[dict[str, Any]]
    stream: dict[str, Any] = field(default_factory=dict)
    balance: Balance = "none"
    pool: dict[str, Any] = field(default_factory=dict)
    scored_rows: dict[str, int] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Mean accuracy over held-out domains."""
        return float(np.mean(list(self.scores.values())))

    @property
    def remarks(self) -> list[str]:
        """What saw how many rows, in a sentence, if not everything saw all of them."""
        if not self.stream:
            return []
        facts = self.stream
        text = f"The settings were chosen, and scored, on {facts['choice_rows']:,} rows. "
        many = len(self.pool.get("members", [])) > 1
        if "projection_rows" not in facts:
            what = f"The {self.name} holds no projection" if many else f"{self.name} is no projection"
            return [f"{text}{what}, so it saw a sample: {facts['classifier_rows']:,} rows."]
        who, behind = ("Projections", "classifiers") if many else ("The projection", "the classifier behind it")
        return [
            f"{text}{who} saw {facts['projection_rows']:,} rows through {facts['landmarks']:,} landmarks, which miss "
            f"{facts['trace_error']:.2g} of the kernel; {behind} saw {facts['classifier_rows']:,} rows."
        ]


def fit_table(
    table: Table,
    method: Any = AUTO,
    *,
    scale: str = "standardize",
    inductive: bool = False,
    balance: Balance = "none",
    seed: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    plan: SizePlan | None = None,
    stream: Rows | None = None,
    client: Any = None,
) -> TableFit:
    """Choose the settings of a method on a table, fit it, and score it on held-out domains.

    Parameters
    ----------
    table : Table
        What `unseen.tables.load_table` read; or a sample of `stream`, for scales, novelty, landmarks and classifier.
    method : str, tuple, Method or list of these, default="auto"
        "auto" pools the models of :class:`unseen.UnseenClassifier`; or a name in `unseen.model_selection.METHODS`, or a
        classifier of your own such as ``("mine", SVC(), {"C": [1, 10]})``: see :ref:`own_models`. Several are pooled;
        of a single one the best settings are picked.
    scale : {"standardize", "l2", "none"}, default="standardize"
        See `unseen.tables.make_preprocessor`.
    inductive : bool, default=False
        Leave out models, and smoothing, that need batches of the new domain.
    balance : {"none", "classes", "domains"}, default="none"
        What weighs alike in training, as in :class:`unseen.UnseenClassifier`. Scores are of the rows as they are.
    seed : int, default=0
        Seed of all draws, such as of landmarks.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.
    plan : Plan, default=None
        How many rows are used for what; None means ``Plan.of`` the number of rows.
    stream : Rows, default=None
        All rows, if they are more than the table.
    client : dask.distributed.Client, default=None
        Where the stream is read; None means here.

    Returns
    -------
    fit : TableFit
        Model, choice and scores; by a plan that is not exact, the scores of the rows that the choice was made on.

    Examples
    --------
    >>> from unseen.datasets import embedded
    >>> from unseen.models import fit_table
    >>> fit = fit_table(embedded(), "1NN")
    >>> fit.kind, len(fit.scores) == len(set(embedded().domain))
    ('plain', True)
    """
    stream = TableRows(table) if stream is None else stream
    plan = SizePlan.from_rows(stream.rows) if plan is None else plan
    samples = table.samples
    few = samples if plan.exact else samples.take(samples.subsample_rows(plan.choice_rows, seed))
    unfitted = make_preprocessor(table.schema, scale)  # type: ignore[arg-type]
    methods, work = resolve_methods(method), {"balance": balance, "n_jobs": n_jobs, "verbose": verbose}
    with single_thread():
        field, pooling = _pooled(few, unfitted, methods, inductive, work)
    preparation = clone(unfitted).fit(table.X)
    prepared = replace(samples, X=np.asarray(preparation.transform(table.X), dtype=np.float64))
    novelty, seen = Novelty(random_state=seed).fit(prepared.X, sample_domain=table.domain), dict[str, Any]()
    if plan.exact:
        with ignore_expected_warnings(), single_thread():
            weight = prepared.weights(balance=balance)
            members = [one.fitted(prepared.X, prepared.y, prepared.domain, weight) for one in pooling.members]
    else:
        large = LandmarkFit(
            prepared, partial(collect_stream_statistics, stream, preparation, client, verbose), plan, seed, balance
        )
        fitted = [large.fitted(one) for one in pooling.members]
        members, facts = [member for member, _ in fitted], [own for _, own in fitted]
        seen = {key: max(own[key] for own in facts if key in own) for key in {key for own in facts for key in own}}
        seen |= {"rows": stream.rows, "choice_rows": len(few)}
    domains = np.unique(table.domain).tolist()
    board = make_leaderboard(field, pooling, domains)
    baseline = next((row["scores"] for row in board if pooling.kind != "plain" and row["model"] == BASELINE), None)
    return TableFit(
        TableModel(preparation, pooling.estimator(members), novelty),
        pooling.name,
        pooling.kind,
        pooling.members[0].params if len(pooling.members) == 1 else {},
        dict(zip(domains, pooling.scores.tolist(), strict=True)),
        baseline,
        board if len(methods) > 1 else [],
        seen,
        balance,
        _told(pooling),
        {name: len(codes) for name, codes in zip(domains, pooling.codes, strict=True)},
    )


def _told(pooling: FittedEnsemble) -> dict[str, Any]:
    """What there is to know about a pool, in plain values."""
    return {
        "members": pooling.table,
        "smoothing": pooling.smoothing,
        "decisions": [guard.reason for guard in pooling.guards],
        "calibration": pooling.calibration,
        "forecast": pooling.forecast,
    }


def resolve_methods(method: Any) -> list[Method]:
    """The methods that `fit_table` compares."""
    return expand_methods(parse_methods(method if isinstance(method, list) else [method]))


def _pooled(
    few: Samples, preparation: Any, methods: Sequence[Method], inductive: bool, work: dict[str, Any]
) -> tuple[list[CandidateResult], FittedEnsemble]:
    """All contenders, and the pool of many methods or the best settings of one, by holding out domain after domain.

    A score stands for a domain that nobody has seen: the preparation, the kernel's width, the model, its settings and
    its weight and temperature in a pool are fitted without it.
    """
    many = len(methods) > 1
    how: dict[str, Any] = {"coarse": many, "heads": ("logistic",) if many else ("1-NN",)}
    if many and not inductive:
        how["centerings"] = ("source", "target")
    candidates = [c for one in methods for c in one.candidates(len(few.classes), **how)]
    asked = [c for c in candidates if not (inductive and c.transductive)]
    plain = all(method.kind != "plain" for method in methods)  # one always stands beside an invariant one
    beside = list(METHODS[BASELINE].candidates(len(few.classes))) if plain else []
    splits = list(LeaveOneDomainOut().split(few.X, few.y, few.domain))
    shown = {"description": f"Choosing {'a pool of models' if many else 'settings'}", "verbose": work.pop("verbose")}
    how = {"pool": many, "transductive": not inductive, "among": asked, "preparation": preparation, "shown": shown}
    field, pooling = evaluate_and_fit_ensemble([*asked, *beside], few, splits, **how, **work)
    names = {one.name for one in methods}
    warn_about_failures([contender for contender in field if contender.candidate.method in names])
    return field, pooling


def fit_notices(table: Table, method: Any, plan: SizePlan) -> Iterator[str]:
    """What was assumed in reading a table, and what is about to be done with it."""
    yield from table.notices
    rare = rare_class(Counter(table.y.tolist()))
    if rare is not None:
        yield f"{rare} Accuracy, by which models are scored here, says little about that: {BALANCED_ACCURACY_ADVICE}"
    if not plan.exact:
        yield f"{plan} So it is with --feature-map nystroem."
    if len(np.unique(table.domain)) == 2:
        yield "With two domains each is scored by a model that has seen only the other, which says little."
    kernels = any(one.shares != "nothing" for one in resolve_methods(method))
    if plan.exact and plan.rows > SLOW_EXACT_ROWS and kernels:
        yield f"{plan.rows:,} rows will take a while with kernels; --max-per-domain 500 gives a quick first answer."
