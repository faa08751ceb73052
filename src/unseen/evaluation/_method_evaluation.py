"""Evaluation of methods on a task: settings selected on validation splits, then refitted on all training data."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from ..estimators import Projection, Statistics, collect_statistics
from ..exceptions import ignore_warnings
from ..kernels import SizePlan
from ..linalg import Array, Ints
from ..model_selection import (
    EXPECTED_ERRORS,
    METHODS,
    Candidate,
    EnsembleClassifier,
    EvaluationConfig,
    FittedEnsemble,
    GridName,
    Method,
    OutOfDomainPredictions,
    Prediction,
    Scorer,
    Scoring,
    Split,
    TableSize,
    TrialSplits,
    best_by_variant,
    bind_domains,
    collect_responses,
    encode_predictions,
    evaluate_candidates,
    ignore_expected_warnings,
    join_views,
    prepare_samples,
    refit_candidates,
    required_responses,
    score_predictions,
    tabulate_scores,
    transform_for_classifier,
    tree_samples,
)
from ..utils.samples import Balance, Samples
from ._protocol import make_candidates
from ._store import Scores

SplitId = tuple[str, str]
# Classifiers of the registry whose probabilities are 0 and 1, or are not meant as risks.
CRUDE_CLASSIFIERS = (DummyClassifier, KNeighborsClassifier, NearestCentroid)
# Decision scores of candidates of ensembles, by split and key of the candidate; kept in memory only.
DecisionScores = dict[SplitId, dict[str, Prediction]]


@dataclass(frozen=True)
class Outcome:
    """Predictions of a method for the targets, their scores, and its selected settings; or why there are none."""

    method: str
    codes: Ints | None = None
    scores: dict[str, float] = field(default_factory=dict)  # by target
    probabilities: Array | None = None  # of all classes, for the rows of `codes`; None for methods without any
    validation: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    ties: int = 0
    transductive: bool = False
    seconds: float = 0.0
    status: Literal["ok", "failed", "skipped"] = "ok"
    reason: str = ""


@dataclass(frozen=True)
class SelectedMethod:
    """The candidates that a method selected, with their validation score; or the error that prevented a selection."""

    candidates: Sequence[Candidate]
    validation: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    ties: int = 0
    transductive: bool = False
    seconds: float = 0.0
    error: str = ""
    ensemble: EnsembleClassifier | None = None  # combines the candidates if there are several


@dataclass(frozen=True)
class Problem:
    """Training rows, test rows, validation splits, and how rows are prepared.

    Attributes
    ----------
    samples : Samples
        All rows, unprepared.
    train, test : ndarray
        Positions of rows.
    splits : list of (train, test)
        Validation splits, which the protocol defines.
    preparation : transformer
        Fitted on training rows only.
    """

    samples: Samples
    train: Ints
    test: Ints
    splits: list[Split]
    preparation: Any = None
    centering: str = "target"
    heads: tuple[str, ...] = ("1-NN",)
    quick: bool = False
    grid: GridName = "full"
    scoring: Scoring = "accuracy"
    balance: Balance = "none"
    methods: Mapping[str, Method] = field(default_factory=lambda: METHODS)
    keeps_probabilities: bool = False

    @property
    def plan(self) -> SizePlan:
        """How many rows are used for what."""
        return SizePlan.from_rows(len(self.train))

    @property
    def config(self) -> EvaluationConfig:
        """How candidates are evaluated."""
        return EvaluationConfig(self.preparation, self.scoring, self.balance)

    @property
    def selection_problem(self) -> Problem:
        """The problem on which settings are selected: this one, or one with fewer rows."""
        return self if self.plan.exact else self.subsample(self.plan.choice_rows)

    def runnable(self, names: Iterable[str]) -> list[str]:
        """Methods that run on this number of rows."""
        limits = {name: self.methods[name].max_rows for name in names}
        return [name for name, max_rows in limits.items() if max_rows is None or self.plan.rows <= max_rows]

    def candidates(self, name: str) -> tuple[Candidate, ...]:
        """The settings of a method."""
        n_classes = len(np.unique(self.samples.codes[self.train]))
        size = TableSize(*self.samples.X.shape, n_classes)
        return make_candidates(self.methods[name], size, self.grid, self.quick, self.centering, self.heads)

    def ensemble_candidates(self, names: Iterable[str]) -> dict[str, Candidate]:
        """Candidates of ensembles, whose decision scores are needed, by their keys."""
        return {one.key: one for name in names if self.methods[name].members for one in self.candidates(name)}

    def predicts_probabilities(self, name: str) -> bool:
        """Whether a method predicts probabilities that are kept: ensembles, and classifiers that have them.

        Projections select their classifier on each task, which often has none.
        """
        method = self.methods[name]
        if not self.keeps_probabilities or method.members:
            return self.keeps_probabilities
        has_probabilities = method.own or not isinstance(method.classifier, CRUDE_CLASSIFIERS)
        return has_probabilities and hasattr(method.classifier, "predict_proba")

    def allows_transductive(self, name: str) -> bool:
        """Whether an ensemble may use transductive steps."""
        return self.centering == "target" or self.methods[name].allows_transductive

    @cached_property
    def trials(self) -> TrialSplits:
        """Splits on which candidates of ensembles are evaluated, with skewed batches for transductive ones."""
        return TrialSplits.from_splits(self.samples, self.splits)

    def select(self, name: str, scores: Scores, decision_scores: DecisionScores) -> SelectedMethod:
        """Select the settings of a method, or its ensemble, by validation scores."""
        candidates = self.candidates(name)
        if self.methods[name].members:
            return self._select_ensemble(candidates, decision_scores, self.allows_transductive(name))
        split_scores = [scores[split_id(split)] for split in self.splits]
        scored = ((i, k, split[c.key]) for i, c in enumerate(candidates) for k, split in enumerate(split_scores))
        variants = best_by_variant(candidates, tabulate_scores(scored, len(candidates), len(split_scores)))
        best = max(variants, key=lambda variant: -np.inf if variant.error else variant.mean)  # the first of equals
        settings = best.candidate.settings
        if len(variants) > 1:
            settings = {"model": best.candidate.variant, **settings}
        return SelectedMethod(
            [best.candidate],
            validation=None if best.error else best.mean,
            settings=settings,
            ties=best.ties,
            transductive=best.candidate.transductive,
            seconds=sum(variant.seconds for variant in variants),
            error=best.error,
        )

    def _select_ensemble(
        self, candidates: Sequence[Candidate], decision_scores: DecisionScores, transductive: bool
    ) -> SelectedMethod:
        """Fit an ensemble in the same way as `fit`."""
        start = time.perf_counter()
        trials = self.trials if transductive else self.trials.without_skewed()
        predictions = []
        for k, split in enumerate(trials.splits):
            by_key = decision_scores.get(split_id(split), {})
            for i, candidate in enumerate(candidates):
                if candidate.key in by_key:  # inductive candidates are not evaluated on resampled rows
                    predictions.append(replace(by_key[candidate.key], candidate=i, split=k))
        try:
            with ignore_warnings(UndefinedMetricWarning):  # the result table shows where the metric is not defined
                out_of_domain = OutOfDomainPredictions(
                    candidates, self.samples, trials, predictions, self.scoring, self.balance
                )
            ensemble = out_of_domain.select(self.preparation, transductive=transductive)
        except ValueError as error:  # no candidate has a score
            first_error = next((prediction.error for prediction in predictions if prediction.error), str(error))
            return SelectedMethod((), error=first_error)
        return SelectedMethod(
            ensemble.members,
            validation=ensemble.mean,
            settings=ensemble_settings(ensemble),
            transductive=ensemble.is_transductive,
            seconds=float(out_of_domain.results["seconds"].sum()) + time.perf_counter() - start,
            ensemble=ensemble.to_estimator(),
        )

    @cached_property
    def prepared(self) -> Samples:
        """Prepared training rows, then prepared test rows."""
        rows = np.concatenate([self.train, self.test])
        if self.preparation is None:
            return self.samples.take(rows)
        fitted = clone(self.preparation).fit(self.samples.X[self.train])
        return prepare_samples(fitted, self.samples.take(rows))

    def find_candidate(self, name: str, settings: Mapping[str, Any]) -> Candidate:
        """The candidate with these settings, which may hold further remarks."""
        for candidate in self.candidates(name):
            is_variant = settings.get("model", candidate.variant) == candidate.variant
            if is_variant and settings.items() >= candidate.settings.items():
                return candidate
        raise LookupError(f"{name} has no candidate with the settings {dict(settings)}.")

    def features(self, name: str, settings: Mapping[str, Any]) -> Array:
        """Features of training rows, then of test rows, as the classifier of a method receives them."""
        rows = self.prepared
        with ignore_expected_warnings():
            train = rows.take(np.arange(len(self.train)))
            pipeline = self.find_candidate(name, settings).fit_samples(train, self.balance)
        return transform_for_classifier(pipeline, rows.X, rows.domain)

    def scores(self, candidates: Sequence[Candidate], splits: Sequence[Split]) -> dict[str, Any]:
        """Scores of candidates on splits, and their means."""
        predictions = evaluate_candidates(candidates, self.samples, splits, self.config)
        scored = score_predictions(predictions, Scorer(self.scoring, self.samples, splits))
        return tabulate_scores(scored, len(candidates), len(splits))

    @property
    def targets(self) -> list[Split]:
        """One split for each target, with all training rows."""
        names = self.samples.domain[self.test]
        return [(self.train, self.test[names == name]) for name in np.unique(names)]

    def subsample(self, total: int, seed: int = 0) -> Problem:
        """The same problem with about `total` training rows, and test rows."""
        # Rows of a validation domain are neither training nor test rows.
        held_out = np.concatenate([test for _, test in self.splits])
        validation = np.setdiff1d(held_out, np.concatenate([self.train, self.test]))
        train, test, validation = (
            rows[self.samples.take(rows).subsample_rows(total, seed)] if len(rows) else rows
            for rows in (self.train, self.test, validation)
        )
        kept = np.concatenate([train, test, validation])
        splits = [(a[np.isin(a, kept)], b[np.isin(b, kept)]) for a, b in self.splits]
        return replace(self, train=train, test=test, splits=splits)


def split_id(split: Split) -> SplitId:
    """Identifier of a split: hashes of its training rows and of its test rows."""
    train, test = (hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()[:16] for rows in split)
    return train, test


def evaluate_validation(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    config: EvaluationConfig,
    *,
    ensemble_keys: Container[str] = (),
    resampled: Sequence[Split] = (),
) -> tuple[Scores, DecisionScores]:
    """Scores of candidates on splits, and decision scores of those in ensembles, there and on resampled splits."""
    all_splits = [*splits, *resampled]
    ids = [split_id(split) for split in all_splits]
    resampled_positions = frozenset(range(len(splits), len(all_splits)))
    in_ensembles = frozenset(i for i, candidate in enumerate(candidates) if candidate.key in ensemble_keys)
    scores: Scores = {key: {} for key in ids[: len(splits)]}
    decision_scores: DecisionScores = {key: {} for key in ids} if in_ensembles else {}
    scorer = Scorer(config.scoring, samples, all_splits)
    predictions = evaluate_candidates(
        candidates,
        samples,
        all_splits,
        config,
        with_decision_scores=in_ensembles,
        resampled=resampled_positions,
    )
    for prediction in predictions:
        split = ids[prediction.split]
        key = candidates[prediction.candidate].key
        if prediction.split not in resampled_positions:
            [(_, _, scores[split][key])] = score_predictions([prediction], scorer)
        if prediction.candidate in in_ensembles:
            responses = {name: value for name, value in prediction.responses.items() if name == "decision_scores"}
            decision_scores[split][key] = replace(prediction, responses=responses)
    return scores, decision_scores


def evaluate_methods(
    names: Sequence[str],
    problem: Problem,
    scores: Scores | None = None,
    decision_scores: DecisionScores | None = None,
) -> Iterator[Outcome]:
    """Evaluate methods on the targets; a method that fails or cannot be run gives the reason.

    Validation `scores` and `decision_scores` that are given are not computed again.
    """
    runnable = problem.runnable(names)
    for name in names:
        if name not in runnable:
            yield Outcome(name, status="skipped", reason=problem.methods[name].max_rows_reason)
    selection_problem = problem.selection_problem
    ensemble_candidates = selection_problem.ensemble_candidates(runnable) if decision_scores is None else {}
    if scores is None or ensemble_candidates:
        scores, decision_scores = _validate(runnable, selection_problem, ensemble_candidates, scores)
    selected = {name: selection_problem.select(name, scores, decision_scores or {}) for name in runnable}
    for name, method in selected.items():
        if method.error:
            yield _outcome(name, method, problem)
    usable = {name: method for name, method in selected.items() if not method.error}
    yield from _evaluate_exact(usable, problem) if problem.plan.exact else _evaluate_large(usable, problem)


def _validate(
    names: Sequence[str], problem: Problem, ensemble_candidates: Mapping[str, Candidate], scores: Scores | None
) -> tuple[Scores, DecisionScores]:
    """Validation scores of methods or, if these are given, decision scores of ensembles only."""
    evaluated = names if scores is None else [name for name in names if problem.methods[name].members]
    candidates = {one.key: one for name in evaluated for one in problem.candidates(name)}
    splits = list(problem.splits)
    resampled: list[Split] = []
    if ensemble_candidates:
        splits += problem.trials.nested.values()
        if any(candidate.transductive for candidate in ensemble_candidates.values()):
            resampled = problem.trials.skewed_splits
    new_scores, decision_scores = evaluate_validation(
        tuple(candidates.values()),
        problem.samples,
        splits,
        problem.config,
        ensemble_keys=ensemble_candidates,
        resampled=resampled,
    )
    return new_scores if scores is None else scores, decision_scores


def _evaluate_exact(selected: Mapping[str, SelectedMethod], problem: Problem) -> Iterator[Outcome]:
    """Predict the targets with all selected candidates at once."""
    # Several methods may select the same candidate, which is evaluated once.
    candidates = {candidate.key: candidate for method in selected.values() for candidate in method.candidates}
    ensemble_keys = {one.key for method in selected.values() if method.ensemble for one in method.candidates}
    with_probabilities = {
        one.key
        for name, method in selected.items()
        if method.ensemble is None and problem.predicts_probabilities(name)
        for one in method.candidates
    }
    keys = list(candidates)
    unordered = evaluate_candidates(
        list(candidates.values()),
        problem.samples,
        problem.targets,
        problem.config,
        with_decision_scores=frozenset(i for i, key in enumerate(keys) if key in ensemble_keys),
        with_probabilities=[i for i, key in enumerate(keys) if key in with_probabilities],
    )
    by_key: dict[str, list[Prediction]] = {key: [] for key in keys}
    for prediction in sorted(unordered, key=lambda one: one.split):
        by_key[keys[prediction.candidate]].append(prediction)
    for name, method in selected.items():
        predictions = [prediction for candidate in method.candidates for prediction in by_key[candidate.key]]
        seconds = sum(one.fit_seconds + one.predict_seconds for one in predictions)
        combined = _combine_predictions(method.ensemble, predictions, problem)
        yield _outcome(name, method, problem, combined, seconds)


def _combine_predictions(
    ensemble: EnsembleClassifier | None, predictions: list[Prediction], problem: Problem
) -> list[Prediction]:
    """Predictions of an ensemble for each target, from those of its members; of a single candidate, its own."""
    failed = [prediction for prediction in predictions if prediction.error]
    if ensemble is None or failed:
        return failed or predictions
    X = problem.prepared.X[len(problem.train) :]
    domain = problem.samples.domain[problem.test]
    combined = []
    for k, target in enumerate(np.unique(domain)):
        scores = [prediction.responses["decision_scores"] for prediction in predictions if prediction.split == k]
        P = ensemble.combine_scores(scores, X[domain == target])
        responses = {"predict_proba": ensemble.with_natural_priors(P), "classes_": problem.samples.classes}
        combined.append(Prediction(0, k, P.argmax(axis=1), responses))
    return combined


def _evaluate_large(selected: Mapping[str, SelectedMethod], problem: Problem) -> Iterator[Outcome]:
    """Predict the targets with candidates fitted to as many rows as each can take."""
    n_train = len(problem.train)
    prepared = problem.prepared
    plan = problem.plan
    train = prepared.take(np.arange(n_train))
    test = prepared.take(n_train + np.arange(len(problem.test)))
    sample = train.take(train.subsample_rows(plan.fit_rows))

    def collect(projection: Projection) -> Statistics:
        return collect_statistics(projection, train.X, train.y, train.domain)

    for name, method in selected.items():
        start = time.perf_counter()
        has_own = any(candidate.own for candidate in method.candidates)
        expected: Any = Exception if has_own else EXPECTED_ERRORS
        facts: dict[str, Any] = {}
        try:
            members = refit_candidates(method.candidates, sample, plan, balance=problem.balance, collect=collect)
            if method.ensemble is None:
                facts = members.facts[0]
                is_raw = method.candidates[0].features == "raw"
                responses = set(required_responses(problem.scoring))
                responses |= {"predict_proba"} if problem.predicts_probabilities(name) else set()
                predictions = _predict_targets(members.pipelines[0], tree_samples(test) if is_raw else test, responses)
            else:
                predictions = _predict_targets_by_ensemble(method.ensemble, members.pipelines, test)
        except expected as error:
            predictions = [Prediction(0, 0, error=f"{type(error).__name__}: {error}")]
        yield _outcome(name, method, problem, predictions, time.perf_counter() - start, facts)


def _predict_targets(pipeline: Any, test: Samples, responses: Iterable[str]) -> list[Prediction]:
    """Predictions of a fitted pipeline for each target."""
    predictions = []
    for k, target in enumerate(np.unique(test.domain)):
        rows = test.domain == target
        model, X = bind_domains(pipeline, test.X[rows], test.domain[rows])
        codes = encode_predictions(model.predict(X), test.classes, int(rows.sum()))
        predictions.append(Prediction(0, k, codes, collect_responses(model, X, responses)))
    return predictions


def _predict_targets_by_ensemble(
    unfitted: EnsembleClassifier, members: Sequence[Any], test: Samples
) -> list[Prediction]:
    """Predictions of an ensemble for each target, also for targets with few rows."""
    ensemble = unfitted.with_members(members)
    if test.raw is not None:
        ensemble.set_params(n_prepared_features=test.X.shape[1])
    X = join_views(test)
    if ensemble.prior_ratio is not None:  # the members know the classes of the training rows
        ensemble.set_params(prior_ratio=ensemble.prior_ratio[np.isin(test.classes, ensemble.classes_)])
    predictions = []
    for k, target in enumerate(np.unique(test.domain)):
        rows = test.domain == target
        P = ensemble.combine_members(X[rows], test.domain[rows])
        codes = encode_predictions(ensemble.classes_[P.argmax(axis=1)], test.classes, int(rows.sum()))
        responses = {"predict_proba": ensemble.with_natural_priors(P), "classes_": ensemble.classes_}
        predictions.append(Prediction(0, k, codes, responses))
    return predictions


def _outcome(
    name: str,
    method: SelectedMethod,
    problem: Problem,
    predictions: Sequence[Prediction] = (),
    seconds: float = 0.0,
    facts: Mapping[str, Any] | None = None,
) -> Outcome:
    """Scores of a selected method on each target, or why there are none."""
    scorer = Scorer(problem.scoring, problem.samples, problem.targets)
    scores = [score for _, _, score in score_predictions(predictions, scorer)]
    reason = method.error or next((score.error for score in scores if score.error), "")
    if reason:
        return Outcome(name, status="failed", reason=reason)
    domain = problem.samples.domain[problem.test]
    codes = np.empty(len(problem.test), dtype=np.intp)
    codes[np.argsort(domain, kind="stable")] = np.concatenate([prediction.codes for prediction in predictions])
    targets = np.unique(domain).tolist()
    return Outcome(
        name,
        codes,
        scores={str(target): score.value for target, score in zip(targets, scores, strict=True)},
        probabilities=_join_probabilities(predictions, problem) if problem.predicts_probabilities(name) else None,
        validation=method.validation,
        settings={**method.settings, **(facts or {})},
        ties=method.ties,
        transductive=method.transductive,
        seconds=method.seconds + seconds,
    )


def _join_probabilities(predictions: Sequence[Prediction], problem: Problem) -> Array | None:
    """Probabilities of all classes for the test rows; None if a classifier returned something else."""
    classes = problem.samples.classes
    domain = problem.samples.domain[problem.test]
    probabilities = np.zeros((len(domain), len(classes)))  # a class that the training rows lack has probability 0
    for target, prediction in zip(np.unique(domain), predictions, strict=True):
        P = np.asarray(prediction.responses.get("predict_proba"), dtype=np.float64)
        rows = np.flatnonzero(domain == target)
        known = np.isin(classes, prediction.responses.get("classes_", ()))
        if P.shape != (len(rows), known.sum()) or not np.allclose(P.sum(axis=1), 1) or (P < 0).any():
            return None
        probabilities[np.ix_(rows, known)] = P
    return probabilities


def ensemble_settings(ensemble: FittedEnsemble) -> dict[str, Any]:
    """The settings of an ensemble in plain values, as result rows store them."""
    description = ensemble.to_dict()
    weights: dict[str, float] = {}
    for member in description["members"]:
        weights[member["model"]] = weights.get(member["model"], 0.0) + member["weight"]
    projection = next((member for member in ensemble.members if member.head), None)
    before = description["calibration"]["before"]
    return {
        "model": description["name"],
        "members": weights,
        "smoothing": description["smoothing"],
        "decisions": [
            {
                "step": decision["step"].partition(" (")[0],  # without the strength of smoothing
                "used": decision["is_used"],
                "natural": float(np.mean(decision["natural"])) / 100,  # acceptance tests count points
                "skewed": float(np.mean(decision["skewed"])) / 100,
                "reason": decision["reason"],
            }
            for decision in description["acceptance_tests"]
        ],
        "calibration": {
            "before": {name: before[name] for name in ("ece", "log_loss")},
            "after": description["calibration"]["after"],
        },
        "forecast": [end if np.isfinite(end) else None for end in description["forecast"]],
        "projection": projection and {"model": projection.variant, **projection.settings},
    }
