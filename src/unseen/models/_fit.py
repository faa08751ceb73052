"""From a table to a fitted model with honest scores, however many rows it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..algebra import Array
from ..estimators import Projection, Statistics
from ..kernels import Plan
from ..labels import Samples
from ..selection import (
    HEADS,
    METHODS,
    Contender,
    LargeFit,
    LeaveOneDomainOut,
    choose,
    contest,
    expected_warnings,
    leaderboard,
    method_named,
    method_names,
)
from ..shift import Novelty
from ..tables import Table, preprocessor
from ._model import TableModel

AUTO = "auto"
BASELINE = "logistic"


@dataclass(frozen=True)
class TableFit:
    """A fitted model, what was chosen and how it did on each held-out domain.

    Attributes
    ----------
    model : TableModel
        Fitted on all domains.
    name, kind, settings : str, str, dict
        What was chosen; the kind is "plain", "inductive" or "transductive".
    scores : dict
        Accuracy on each domain by the chosen settings, prepared and fitted on the other domains.
    baseline : dict or None
        The same for plain logistic regression; None if the chosen model is plain itself.
    leaderboard : list of dict
        What the choice was made from, best first; empty where there was none.
    stream : dict
        For tables of which not all rows were used for everything: how many were used for what. Empty otherwise.
    """

    model: TableModel
    name: str
    kind: str
    settings: dict[str, Any]
    scores: dict[str, float]
    baseline: dict[str, float] | None
    leaderboard: list[dict[str, Any]]
    stream: dict[str, Any] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Mean accuracy over held-out domains."""
        return float(np.mean(list(self.scores.values())))


def fit_table(
    table: Table,
    method: str = AUTO,
    *,
    scale: str = "standardize",
    inductive: bool = False,
    seed: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> TableFit:
    """Choose the settings of a method on a table, fit it, and score it on held-out domains.

    Parameters
    ----------
    table : Table
        What `unseen.tables.load_table` read.
    method : str, default="auto"
        "auto" compares all models of :class:`unseen.UnseenClassifier`; or a name in `unseen.selection.METHODS`.
    scale : {"standardize", "l2", "none"}, default="standardize"
        See `unseen.tables.preprocessor`.
    inductive : bool, default=False
        Leave out models that need batches of the new domain.
    seed : int, default=0
        Which samples become landmarks of the novelty.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    fit : TableFit
        Model, choice and scores.

    Examples
    --------
    >>> from unseen.datasets import embedded
    >>> from unseen.models import fit_table
    >>> fit = fit_table(embedded(), "1NN")
    >>> fit.kind, len(fit.scores) == len(set(embedded().domain))
    ('plain', True)
    """
    choice = choose_on(table, method, scale=scale, inductive=inductive, n_jobs=n_jobs, verbose=verbose)
    preparation, sample, novelty = prepared(table, scale, seed)
    with expected_warnings():
        pipeline = choice.chosen.candidate.fitted(sample.X, sample.y, sample.domain)
    return choice.fit(TableModel(preparation, pipeline, novelty))


@dataclass(frozen=True)
class Choice:
    """What was chosen on the held-out domains of a table, and from what."""

    chosen: Contender
    baseline: Contender | None
    field: list[Contender]
    domains: list[str]

    def fit(self, model: TableModel, stream: dict[str, Any] | None = None) -> TableFit:
        """The same with a model."""
        chosen = self.chosen

        def scores(contender: Contender) -> dict[str, float]:
            return dict(zip(self.domains, contender.scores.tolist(), strict=True))

        return TableFit(
            model,
            chosen.name,
            chosen.kind,
            chosen.candidate.params,
            scores(chosen),
            None if self.baseline is None else scores(self.baseline),
            leaderboard(self.field, chosen, self.domains) if len(self.field) > 1 else [],
            stream or {},
        )


def choose_on(
    table: Table,
    method: str,
    *,
    scale: str = "standardize",
    inductive: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Choice:
    """Choose the settings of a method by holding out one domain after the other; see `fit_table`.

    A score stands for a domain that nobody has seen: the preparation, the kernel's width and the model are fitted
    without it. What is left of a bias is that the settings themselves were chosen on these domains.
    """
    auto = method == AUTO
    methods = [METHODS[name] for name in method_names(automatic=True)] if auto else [method_named(method)]
    centerings = ("source", "target") if auto and not inductive else ("source",)
    heads = tuple(HEADS) if auto else ("1-NN",)
    n_classes, samples = len(np.unique(table.y)), Samples(table.X, table.y, table.domain)
    how: dict[str, Any] = {"coarse": auto, "heads": heads, "centerings": centerings}
    candidates = [c for one in methods for c in one.candidates(n_classes, **how)]
    candidates = [c for c in candidates if not (inductive and c.transductive)]
    if not auto and method_named(method).kind != "plain":
        candidates += METHODS[BASELINE].candidates(n_classes)
    splits = list(LeaveOneDomainOut().split(table.X, table.y, table.domain))
    about: dict[str, Any] = {"preparation": preprocessor(table.schema, scale), "n_jobs": n_jobs}  # type: ignore[arg-type]
    shown = {"description": f"Choosing {'a model' if auto else 'settings'}", "verbose": verbose}
    field = contest(candidates, samples, splits, **about, shown=shown)
    baseline = next((c for c in field if c.name == BASELINE), None)
    rivals = field if auto else [c for c in field if c.candidate.method == method_named(method).name]
    chosen = choose(rivals)
    return Choice(chosen, None if chosen.kind == "plain" else baseline, rivals, np.unique(table.domain).tolist())


def prepared(table: Table, scale: str, seed: int) -> tuple[Any, Samples, Novelty]:
    """Fit the preparation and the novelty; return them with the prepared samples."""
    preparation = preprocessor(table.schema, scale)  # type: ignore[arg-type]
    X: Array = np.asarray(preparation.fit_transform(table.X), dtype=np.float64)
    novelty = Novelty(random_state=seed).fit(X, sample_domain=table.domain)
    return preparation, Samples(X, table.y, table.domain), novelty


def fit_by_plan(
    choice: Choice, table: Table, collect: Callable[[Any, Projection], Statistics], plan: Plan, scale: str, seed: int
) -> TableFit:
    """Fit what was chosen on a few rows: a sample trains the classifier, and a projection sees all rows.

    `collect` gives the statistics of all rows, given the preparation and a projection behind its landmarks.
    """
    preparation, sample, novelty = prepared(table, scale, seed)
    large = LargeFit(sample, lambda projection: collect(preparation, projection), plan, seed)
    pipeline: Pipeline
    pipeline, seen = large.fitted(choice.chosen.candidate)
    return choice.fit(TableModel(preparation, pipeline, novelty), seen)
