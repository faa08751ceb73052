"""From a table to a fitted model with honest scores: what ``unseen fit`` does."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from ..algebra import Array
from ..estimators import CIDG, DICA, KFDA, MDA, SCA, Projection, UndoBias
from ..exceptions import FewerComponentsWarning, SingleDomainWarning
from ..kernels import median_squared_distance
from ..labels import Labels
from ..selection import ProjectionSearchCV, UnseenClassifier
from ..shift import Novelty
from ..tables import Table, preprocessor
from ._model import TableModel

PROJECTIONS: dict[str, Projection] = {"cidg": CIDG(), "mda": MDA(), "sca": SCA(), "dica": DICA(), "kfda": KFDA()}
PLAIN = {"logistic": "logistic", "linear-svm": "linear_svm", "rbf-svm": "rbf_svm"}  # as UnseenClassifier names them
METHODS = ("auto", *PROJECTIONS, *PLAIN, "undo-bias", "1nn")
BASELINE = "logistic regression"
OFFSETS, COSTS = (1.0, 10.0), (1e-4, 1e-3, 1e-2, 1e-1)  # of Undo-Bias


@dataclass(frozen=True)
class Candidate:
    """A pipeline behind the preparation; an rbf SVM's kernel has a width, in multiples of the median rule's."""

    name: str
    kind: str
    settings: dict[str, Any]
    pipeline: Pipeline
    width: float | None = None


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
        Accuracy on each domain by the chosen settings, fitted on the other domains.
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


@dataclass(frozen=True)
class Choice:
    """A candidate that was chosen, and how it did; the rest is as in `TableFit`."""

    candidate: Candidate
    scores: dict[str, float]
    baseline: dict[str, float] | None
    leaderboard: list[dict[str, Any]]

    def fitted(self, model: TableModel, stream: dict[str, Any] | None = None) -> TableFit:
        """The same with a model."""
        chosen = self.candidate
        return TableFit(
            model,
            chosen.name,
            chosen.kind,
            chosen.settings,
            self.scores,
            self.baseline,
            self.leaderboard,
            stream or {},
        )


def fit_table(
    table: Table,
    method: str = "auto",
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
        "auto" compares all models of :class:`unseen.UnseenClassifier`; or one of "cidg", "mda", "sca", "dica", "kfda",
        "logistic", "linear-svm", "rbf-svm", "undo-bias" and "1nn".
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
    >>> from unseen.models import fit_table
    >>> from unseen.datasets import embedded
    >>> fit = fit_table(embedded(), "1nn")
    >>> fit.kind, len(fit.scores) == len(set(embedded().domain))
    ('plain', True)
    """
    choice = choose(table, method, scale=scale, inductive=inductive, n_jobs=n_jobs, verbose=verbose)
    preparation, prepared, novelty = prepare(table, scale, seed)
    with expected_warnings():
        pipeline = fit_candidate(choice.candidate, prepared, table.y, table.domain)
    return choice.fitted(TableModel(preparation, pipeline, novelty))


def choose(
    table: Table,
    method: str,
    *,
    scale: str = "standardize",
    inductive: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Choice:
    """Choose the settings of a method, and score them on held-out domains; see `fit_table`."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    unfitted = preprocessor(table.schema, scale)  # type: ignore[arg-type]
    prepared = np.asarray(clone(unfitted).fit_transform(table.X), dtype=np.float64)
    with expected_warnings():
        candidates, leaderboard = _candidates(table, prepared, method, inductive, n_jobs, verbose)
        # The settings were chosen on features prepared with all source domains, which are all training data. A score
        # stands for a domain that nobody has seen, though: so the preparation, the kernel's width and the model are
        # fitted again for each held-out domain, without it. That costs one fit a domain. What is left of a bias is
        # that the settings themselves were chosen on these domains; to choose anew in each fold would cost as many
        # searches as there are domains, and two domains would not suffice.
        plain = Candidate(BASELINE, "plain", {}, _only(LogisticRegression(max_iter=2000)))
        wants_baseline = candidates[0].kind != "plain"
        scores = held_out(table, unfitted, [*candidates, plain] if wants_baseline else candidates)
    best = int(np.argmax(scores[: len(candidates)].mean(axis=1)))
    names = np.unique(table.domain).tolist()
    return Choice(
        candidate=candidates[best],
        scores=dict(zip(names, scores[best].tolist(), strict=True)),
        baseline=dict(zip(names, scores[-1].tolist(), strict=True)) if wants_baseline else None,
        leaderboard=leaderboard,
    )


def prepare(table: Table, scale: str, seed: int) -> tuple[Any, Array, Novelty]:
    """Fit the preparation and the novelty; return them with the prepared samples."""
    preparation = preprocessor(table.schema, scale)  # type: ignore[arg-type]
    prepared = np.asarray(preparation.fit_transform(table.X), dtype=np.float64)
    return preparation, prepared, Novelty(random_state=seed).fit(prepared, sample_domain=table.domain)


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Ignore warnings that are expected in small folds, where models are judged by their scores."""
    with warnings.catch_warnings():
        for category in (SingleDomainWarning, FewerComponentsWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        yield


def _candidates(
    table: Table, prepared: Array, method: str, inductive: bool, n_jobs: int | None, verbose: int
) -> tuple[list[Candidate], list[dict[str, Any]]]:
    """One candidate, chosen by the searches of this package; or several, for methods that have none."""
    if method == "1nn":
        return [Candidate("1nn", "plain", {}, _only(KNeighborsClassifier(n_neighbors=1, algorithm="brute")))], []
    if method == "undo-bias":
        return [_undo_bias(cost, offset) for cost in COSTS for offset in OFFSETS], []
    if method in PROJECTIONS:
        search = ProjectionSearchCV(PROJECTIONS[method], n_jobs=n_jobs, verbose=verbose)
        search.fit(prepared, table.y, sample_domain=table.domain)
        return [Candidate(f"{method} + 1-NN", "inductive", dict(search.best_params_), search.best_estimator_)], []
    methods: Any = "auto" if method == "auto" else [PLAIN[method]]
    model = UnseenClassifier(methods, transductive=not inductive, n_jobs=n_jobs, verbose=verbose)
    model.fit(prepared, table.y, sample_domain=table.domain)
    (row,) = [row for row in model.leaderboard_ if row["chosen"]]
    pipeline, width = model.best_estimator_, None
    if isinstance(pipeline[-1], SVC):
        seen = pipeline[0].transform(prepared, sample_domain=table.domain) if len(pipeline) > 1 else prepared
        width = float(pipeline[-1].gamma * median_squared_distance(seen))
    chosen = Candidate(row["model"], row["kind"], dict(row["params"]), pipeline, width)
    return [chosen], model.leaderboard_ if method == "auto" else []


def _undo_bias(cost: float, offset: float) -> Candidate:
    settings: dict[str, Any] = {"shared_cost": cost, "domain_cost": cost, "offset_penalty": offset}
    return Candidate("undo-bias", "inductive", settings, _only(UndoBias(**settings, tol=1e-2)))


def _only(classifier: Any) -> Pipeline:
    return Pipeline([("classifier", classifier)])


def held_out(table: Table, unfitted: Any, candidates: list[Candidate]) -> Array:
    """Accuracy of each candidate on each domain, prepared and fitted without that domain."""
    names = np.unique(table.domain)
    scores = np.empty((len(candidates), len(names)))
    for k, name in enumerate(names):
        train, test = table.domain != name, table.domain == name
        preparation = clone(unfitted)
        prepared = np.asarray(preparation.fit_transform(table.X[train]), dtype=np.float64)
        new = np.asarray(preparation.transform(table.X[test]), dtype=np.float64)
        for i, candidate in enumerate(candidates):
            pipeline = fit_candidate(candidate, prepared, table.y[train], table.domain[train])
            Z = pipeline[0].transform(new, sample_domain=table.domain[test]) if len(pipeline) > 1 else new
            scores[i, k] = np.mean(pipeline[-1].predict(Z) == table.y[test])
    return scores


def fit_candidate(candidate: Candidate, prepared: Array, y: Labels, domain: Labels) -> Pipeline:
    """Fit the steps one by one: Pipeline.fit takes metadata differently with routing on and off."""
    pipeline = clone(candidate.pipeline)
    Z = prepared
    for _, step in pipeline.steps[:-1]:
        Z = step.fit_transform(Z, y, sample_domain=domain)
    classifier = pipeline.steps[-1][1]
    if candidate.width is not None:
        classifier.set_params(gamma=candidate.width / median_squared_distance(Z))
    classifier.fit(Z, y, **({"sample_domain": domain} if isinstance(classifier, UndoBias) else {}))
    return pipeline
