"""Ensembles fitted without a held-out domain, and their accuracy on skewed batches of that domain."""

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
    EvaluationConfig,
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

SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # shares of a batch that half of the classes make up
BATCHES_PER_SHARE = 3
SELECTED = "selected model"
PLAIN = "best plain model"


@dataclass(frozen=True)
class EnsembleView:
    """Ensembles fitted to all source domains, and the held-out domain."""

    facts: dict[str, Any]
    models: dict[str, Any]
    X: Array
    codes: Ints

    def skew(self, share: float | None) -> dict[str, Any]:
        """Accuracy of each model on the whole batch, or on batches in which half of the classes make up this share."""
        batches = [np.arange(len(self.codes))]
        if share:
            batches = [
                sample_skewed_batch(self.codes, np.random.default_rng(k), share) for k in range(BATCHES_PER_SHARE)
            ]
        accuracies = {name: [self._accuracy(model, rows) for rows in batches] for name, model in self.models.items()}
        counts = np.bincount(self.codes[batches[0]], minlength=int(self.codes.max()) + 1)
        means = {name: float(np.mean(values)) for name, values in accuracies.items()}
        return {"share": share, "accuracy": means, "draws": accuracies, "counts": counts.tolist()}

    def _accuracy(self, model: Any, rows: Ints) -> float:
        X = self.X[rows]
        with ignore_expected_warnings():
            if isinstance(model, EnsembleClassifier):
                # A held-out domain is scored even if it has too few rows for a transductive prediction.
                predicted = model.classes_[model.combine_members(X).argmax(axis=1)]
            else:
                predicted = model.predict(X)
        return float(np.mean(np.searchsorted(model.classes_, predicted) == self.codes[rows]))


def make_ensemble_view(session: Session, held_out: str) -> Iterator[EnsembleView | None]:
    """Evaluate the candidates of the default ensemble on every source domain, fit the ensembles and refit them.

    Yields None between steps, so that a newer request can interrupt the computation, and the view at the end.
    """
    domain = session.samples.domain
    train = np.flatnonzero(domain != held_out)
    test = np.flatnonzero(domain == held_out)
    sources = session.samples.take(train)
    if len(np.unique(sources.domain)) < 2:
        raise ValueError("An ensemble is selected on source domains held out in turn: it needs at least two of them.")
    candidates = list(
        METHODS["auto"].candidates(len(sources.classes), centerings=("source", "target"), n_features=sources.X.shape[1])
    )
    splits = list(LeaveOneDomainOut().split(sources.X, sources.y, sources.domain))
    trials = TrialSplits.from_splits(sources, splits)
    predictions = []
    evaluation = evaluate_candidates(
        candidates,
        sources,
        trials.splits,
        EvaluationConfig(session.preparation),
        with_decision_scores="all",
        resampled=trials.skewed_positions,
    )
    for prediction in evaluation:
        predictions.append(prediction)
        yield None
    out_of_domain = OutOfDomainPredictions.from_predictions(candidates, sources, trials, predictions)
    yield None
    ensemble = out_of_domain.select(session.preparation)
    yield None
    preparation = clone(session.preparation).fit(sources.X)
    refits = _Refits(preparation.transform(sources.X), sources)
    is_inductive = np.array([not candidate.transductive for candidate in candidates])
    models: dict[str, Any] = {}
    for name, mask in ((INDUCTIVE_ENSEMBLE, is_inductive), (FULL_ENSEMBLE, np.ones(len(candidates), dtype=bool))):
        members, weights, inverse_temperatures = out_of_domain.deployed_weights(mask)
        pipelines = []
        for member in members:
            pipelines.append(refits.pipeline(member))
            yield None
        unfitted = EnsembleClassifier([member.pipeline for member in members], weights, inverse_temperatures)
        models[name] = unfitted.with_members(pipelines)
    if ensemble.smoothing:
        pipelines = [refits.pipeline(member) for member in ensemble.members]
        models[SELECTED] = ensemble.to_estimator().with_members(pipelines)
    plain = select_result([result for result in out_of_domain.candidate_results() if result.kind == "plain"])
    models[PLAIN] = refits.pipeline(plain.candidate)
    facts = _facts(ensemble, plain.name, np.unique(sources.domain).tolist())
    yield EnsembleView(facts, models, preparation.transform(session.samples.X[test]), session.samples.codes[test])


class _Refits:
    """Candidates fitted to all sources, each once."""

    def __init__(self, X: Any, sources: Samples) -> None:
        self._X = np.asarray(X, dtype=np.float64)
        self._sources = sources
        self._pipelines: dict[int, Pipeline] = {}

    def pipeline(self, candidate: Candidate) -> Pipeline:
        """The fitted pipeline of a candidate."""
        if id(candidate) not in self._pipelines:
            with ignore_expected_warnings():
                self._pipelines[id(candidate)] = candidate.fit(self._X, self._sources.y, self._sources.domain)
        return self._pipelines[id(candidate)]


def _facts(ensemble: FittedEnsemble, plain: str, domains: Sequence[str]) -> dict[str, Any]:
    """Facts about an ensemble that the page shows, in plain values."""
    description = ensemble.to_dict()
    return {
        "name": description["name"],
        "kind": description["kind"],
        "plain": plain,
        "domains": list(domains),
        "members": description["members"],
        "trials": description["trials"],
        "acceptance_tests": description["acceptance_tests"],
        "shares": list(SHARES),
    }
