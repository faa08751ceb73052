"""The pool of the automatic choice, made without a held-out domain, and what it says of skewed batches of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..linalg import Array, Ints
from ..model_selection import (
    FULL_ENSEMBLE,
    INDUCTIVE_ENSEMBLE,
    METHODS,
    Candidate,
    EnsembleClassifier,
    FittedEnsemble,
    LeaveOneDomainOut,
    OutOfDomainPredictions,
    TrialSplits,
    evaluate_candidates,
    ignore_expected_warnings,
    sample_skewed_batch,
    select_result,
)
from ..utils.samples import Samples
from ._session import Session

SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # of a batch, that half of the classes make up
BATCHES_PER_SHARE = 3  # batches of each share
CHOSEN, PLAIN = "what was chosen", "best plain model"


@dataclass(frozen=True)
class EnsembleView:
    """Pools of all sources, fitted to them, and the domain that none of them has seen."""

    facts: dict[str, Any]
    models: dict[str, Any]
    X: Array
    codes: Ints

    def skew(self, share: float | None) -> dict[str, Any]:
        """Accuracy of each model on a batch as it is, or on some of which half of the classes make up this share."""
        whole = [np.arange(len(self.codes))]
        drawn = (
            [sample_skewed_batch(self.codes, np.random.default_rng(k), share) for k in range(BATCHES_PER_SHARE)]
            if share
            else whole
        )
        found = {name: [self._accuracy(model, rows) for rows in drawn] for name, model in self.models.items()}
        counts = np.bincount(self.codes[drawn[0]], minlength=int(self.codes.max()) + 1)
        means = {name: float(np.mean(own)) for name, own in found.items()}
        return {"share": share, "accuracy": means, "draws": found, "counts": counts.tolist()}

    def _accuracy(self, model: Any, rows: Ints) -> float:
        X = self.X[rows]
        with ignore_expected_warnings():
            # A held-out domain is scored also if it has too few rows for a transductive prediction.
            said = (
                model.classes_[model.answer(X).argmax(axis=1)]
                if isinstance(model, EnsembleClassifier)
                else model.predict(X)
            )
        return float(np.mean(np.searchsorted(model.classes_, said) == self.codes[rows]))


def make_ensemble_view(session: Session, held: str) -> Iterator[EnsembleView | None]:
    """Ask all models that are automatic about every source, pool them and fit what matters; None between parts."""
    domain = session.samples.domain
    train, test = np.flatnonzero(domain != held), np.flatnonzero(domain == held)
    sources = session.samples.take(train)
    if len(np.unique(sources.domain)) < 2:
        raise ValueError("A pool is weighed on sources that are held out in turn: it needs at least two beside this.")
    candidates = list(METHODS["auto"].candidates(len(sources.classes), centerings=("source", "target")))
    natural = list(LeaveOneDomainOut().split(sources.X, sources.y, sources.domain))
    trials, said = TrialSplits.from_splits(sources, natural), []
    how: dict[str, Any] = {"preparation": session.preparation, "again": trials.again}
    for prediction in evaluate_candidates(candidates, sources, trials.splits, scoring="votes", **how):
        said.append(prediction)
        yield None
    ballot = OutOfDomainPredictions.from_predictions(candidates, sources, trials, said)
    yield None
    pooling = ballot.chosen(session.preparation)
    yield None
    prepare = clone(session.preparation).fit(sources.X)
    fitted = _Fitted(prepare.transform(sources.X), sources)
    inductive = np.array([not candidate.transductive for candidate in candidates])
    models: dict[str, Any] = {}
    for name, mask in ((INDUCTIVE_ENSEMBLE, inductive), (FULL_ENSEMBLE, np.ones(len(candidates), dtype=bool))):
        members, *weights = ballot.shares(mask)
        pipelines = []
        for member in members:
            pipelines.append(fitted.pipeline(member))
            yield None
        models[name] = EnsembleClassifier([member.pipeline for member in members], *weights).with_members(pipelines)
    if pooling.smoothing:
        models[CHOSEN] = pooling.estimator([fitted.pipeline(member) for member in pooling.members])
    plain = select_result([one for one in ballot.field() if one.kind == "plain"])
    models[PLAIN] = fitted.pipeline(plain.candidate)
    facts = _facts(pooling, plain.name, np.unique(sources.domain).tolist())
    yield EnsembleView(facts, models, prepare.transform(session.samples.X[test]), session.samples.codes[test])


class _Fitted:
    """Candidates fitted to all sources, each once."""

    def __init__(self, X: Any, sources: Samples) -> None:
        self._X, self._sources = np.asarray(X, dtype=np.float64), sources
        self._known: dict[int, Pipeline] = {}

    def pipeline(self, candidate: Candidate) -> Pipeline:
        """The pipeline of a candidate."""
        if id(candidate) not in self._known:
            with ignore_expected_warnings():
                found = candidate.fit(self._X, self._sources.y, self._sources.domain)
            self._known[id(candidate)] = found
        return self._known[id(candidate)]


def _facts(pooling: FittedEnsemble, plain: str, domains: Sequence[str]) -> dict[str, Any]:
    """What the page shows of a pool, in plain values."""
    return {
        "name": pooling.name,
        "kind": pooling.kind,
        "plain": plain,
        "domains": list(domains),
        "members": pooling.table,
        "tried": [
            {"name": one.name, "kind": one.kind, "scores": np.nan_to_num(one.scores).tolist(), "chosen": one.chosen}
            for one in pooling.tried
        ],
        "guards": [
            {
                "step": guard.step,
                "natural": guard.natural.tolist(),
                "skewed": guard.skewed.tolist(),
                "margin": guard.margin if np.isfinite(guard.margin) else None,
                "adopts": guard.adopts,
                "reason": guard.reason,
            }
            for guard in pooling.guards
        ],
        "shares": list(SHARES),
    }
