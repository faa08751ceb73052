"""What each method predicts for the targets: chosen on the splits, fitted on all training data."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import UndefinedMetricWarning

from ..estimators import collect_statistics
from ..kernels import SizePlan
from ..linalg import Array, Ints
from ..model_selection import (
    EXPECTED_ERRORS,
    METHODS,
    Candidate,
    EnsembleClassifier,
    FittedEnsemble,
    LandmarkFit,
    Method,
    OutOfDomainPredictions,
    Prediction,
    Scorer,
    Split,
    TrialSplits,
    best_by_variant,
    bind_domains,
    collect_responses,
    encode_predictions,
    evaluate_candidates,
    group_by,
    ignore_expected_warnings,
    required_responses,
    score_candidates,
    score_predictions,
    tabulate_scores,
    transform_for_classifier,
)
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels
from ..utils.warnings import ignore_warnings
from ._store import Scores

ScoresByCandidate = dict[
    tuple[str, str], dict[str, Prediction]
]  # of candidates of pools, as Scores are; kept in memory alone


@dataclass(frozen=True)
class Outcome:
    """A method's predictions for the targets, their scores, and how it came to its settings; or why there are none."""

    method: str
    codes: Ints | None = None
    scores: dict[str, float] = field(default_factory=dict)  # of each target
    validation: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    ties: int = 0
    transductive: bool = False
    seconds: float = 0.0
    status: Literal["ok", "failed", "skipped"] = "ok"
    reason: str = ""


@dataclass(frozen=True)
class SelectedMethod:
    """What a method puts forward: whom to ask about the targets, and how it came to that; or why it cannot."""

    candidates: Sequence[Candidate]
    validation: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    ties: int = 0
    transductive: bool = False
    seconds: float = 0.0
    error: str = ""
    pool: EnsembleClassifier | None = None  # what is made of their votes, if they are many


@dataclass(frozen=True)
class Problem:
    """Positions of rows to train on and to test on, the splits that choose settings, and how rows are prepared."""

    samples: Samples  # all rows, as they come
    train: Ints
    test: Ints
    splits: list[Split]  # who chooses by them is for the protocol to say
    preparation: Any = None  # fitted on the rows that are trained on, and on no others
    centering: str = "target"
    quick: bool = False
    lean: bool = False
    scoring: str = "accuracy"
    balance: Balance = "none"
    methods: Mapping[str, Method] = field(default_factory=lambda: METHODS)

    @property
    def plan(self) -> SizePlan:
        """How many rows are used for what."""
        return SizePlan.from_rows(len(self.train))

    @property
    def choosing(self) -> Problem:
        """The problem on which settings are chosen: this one, or a smaller one of its kind."""
        return self if self.plan.exact else self.thinned(self.plan.choice_rows)

    def able(self, names: Iterable[str]) -> list[str]:
        """Methods that run on so many rows."""
        limits = {name: self.methods[name].most_rows for name in names}
        return [name for name, most in limits.items() if most is None or self.plan.rows <= most]

    def candidates(self, name: str) -> tuple[Candidate, ...]:
        """The settings of a method to choose from."""
        n_classes = len(np.unique(self.samples.codes[self.train]))
        return _candidates(self.methods[name], n_classes, self.lean, self.quick, self.centering)

    def voting(self, names: Iterable[str]) -> dict[str, Candidate]:
        """Those of whom pools want to know how they vote, by their keys."""
        return {one.key: one for name in names if self.methods[name].members for one in self.candidates(name)}

    @cached_property
    def trials(self) -> TrialSplits:
        """What the candidates of pools are asked about: splits, nested ones, and draws if targets may be looked at."""
        return TrialSplits.from_splits(self.samples, self.splits, skewed=self.centering == "target")

    def entry(self, name: str, known: Scores, votes: ScoresByCandidate) -> SelectedMethod:
        """What a method puts forward, by what the validation has found."""
        if self.methods[name].members:
            return self._pooled(self.candidates(name), votes)
        candidates, splits = self.candidates(name), [known[split_id(split)] for split in self.splits]
        found = ((i, k, split[c.key]) for i, c in enumerate(candidates) for k, split in enumerate(splits))
        best = best_by_variant(candidates, tabulate_scores(found, len(candidates), len(splits)))[0]
        chosen, facts = best.candidate, dict[str, Any](ties=best.ties, seconds=best.seconds, error=best.error)
        validation = None if best.error else best.mean
        return SelectedMethod([chosen], validation, chosen.settings, transductive=chosen.transductive, **facts)

    def _pooled(self, candidates: Sequence[Candidate], votes: ScoresByCandidate) -> SelectedMethod:
        """A pool of candidates, made as `fit` makes it."""
        start, trials = time.perf_counter(), self.trials
        told = [votes.get(split_id(split), {}) for split in trials.splits]
        said = [
            replace(one[c.key], candidate=i, split=k)
            for k, one in enumerate(told)
            for i, c in enumerate(candidates)
            if c.key in one  # inductive ones have nothing new to say of what is drawn again
        ]
        try:
            with ignore_warnings(UndefinedMetricWarning):  # where the metric is not defined is told in the table
                ballot = OutOfDomainPredictions.from_predictions(
                    candidates, self.samples, trials, said, self.scoring, self.balance
                )
            found = ballot.chosen(self.preparation, transductive=self.centering == "target")
        except ValueError as error:  # nobody could be scored
            return SelectedMethod((), error=next((one.error for one in said if one.error), str(error)))
        seconds = float(ballot.results["seconds"].sum()) + time.perf_counter() - start
        settings = ensemble_settings(found)
        return SelectedMethod(found.members, found.mean, settings, 0, found.transductive, seconds, pool=found.unfitted)

    @cached_property
    def prepared(self) -> Samples:
        """Rows to train on, then rows to test on, as methods see them."""
        rows = np.concatenate([self.train, self.test])
        if self.preparation is None:
            return self.samples.take(rows)
        fitted = clone(self.preparation).fit(self.samples.X[self.train])
        return replace(self.samples.take(rows), X=np.asarray(fitted.transform(self.samples.X[rows]), dtype=np.float64))

    def chosen(self, name: str, settings: Mapping[str, Any]) -> Candidate:
        """The candidate with these settings, beside which there may be remarks."""
        of_model = (c for c in self.candidates(name) if settings.get("model", c.variant) == c.variant)
        return next(c for c in of_model if settings.items() >= c.settings.items())

    def features(self, name: str, settings: Mapping[str, Any]) -> Array:
        """Rows to train on, then rows to test on, as the classifier of a method sees them."""
        rows, n = self.prepared, len(self.train)
        with ignore_expected_warnings():
            known = rows.take(np.arange(n))
            weight = known.weights(balance=self.balance)
            pipeline = self.chosen(name, settings).fitted(known.X, known.y, known.domain, weight)
        return transform_for_classifier(pipeline, rows.X, rows.domain)

    def scores(self, candidates: Sequence[Candidate], splits: Sequence[Split]) -> dict[str, Any]:
        """Scores of candidates on splits, and their means."""
        return tabulate_scores(
            score_candidates(candidates, self.samples, splits, **self.how), len(candidates), len(splits)
        )

    @property
    def how(self) -> dict[str, Any]:
        """How predictions are made, and for whom."""
        return {"preparation": self.preparation, "scoring": self.scoring, "balance": self.balance}

    @property
    def targets(self) -> list[Split]:
        """What is trained on, and each target."""
        names = self.samples.domain[self.test]
        return [(self.train, self.test[names == name]) for name in np.unique(names)]

    def thinned(self, total: int, seed: int = 0) -> Problem:
        """The same problem with about so many rows to train on, and to test on."""
        # Rows of a validation domain are neither trained on nor tested on.
        others = np.setdiff1d(np.concatenate([b for _, b in self.splits]), np.concatenate([self.train, self.test]))
        train, test, others = (
            rows[self.samples.take(rows).subsample_rows(total, seed)] if len(rows) else rows
            for rows in (self.train, self.test, others)
        )
        kept = np.concatenate([train, test, others])
        splits = [(a[np.isin(a, kept)], b[np.isin(b, kept)]) for a, b in self.splits]
        return replace(self, train=train, test=test, splits=splits)


@lru_cache(maxsize=100)
def _candidates(method: Method, n_classes: int, lean: bool, quick: bool, centering: str) -> tuple[Candidate, ...]:
    """The same for all problems with so many classes: what tells candidates apart takes a moment to find out."""
    return tuple(method.candidates(n_classes, lean=lean, quick=quick, centerings=(centering,)))


def split_id(split: Split) -> tuple[str, str]:
    """What tells splits apart: names of the rows to train on and of those to test on."""
    train, test = (hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()[:16] for rows in split)
    return train, test


def evaluate_validation(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    voting: Container[str] = (),
    drawn: Sequence[Split] = (),
    **how: Any,
) -> tuple[Scores, ScoresByCandidate]:
    """How candidates do on splits, and how some of them vote there and on what is drawn again from them."""
    every = [*splits, *drawn]
    ids, again = [split_id(split) for split in every], frozenset(range(len(splits), len(every)))
    voters = frozenset(i for i, candidate in enumerate(candidates) if candidate.key in voting)
    found: Scores = {at: {} for at in ids[: len(splits)]}
    votes: ScoresByCandidate = {at: {} for at in ids} if voters else {}
    score = Scorer(how["scoring"], samples, every)
    for one in evaluate_candidates(candidates, samples, every, votes=voters, again=again, **how):
        at, key = ids[one.split], candidates[one.candidate].key
        if one.split not in again:
            [(_, _, found[at][key])] = score_predictions([one], score)
        if one.candidate in voters:
            own = {name: value for name, value in one.responses.items() if name == "votes"}
            votes[at][key] = replace(one, responses=own)
    return found, votes


def evaluate_methods(
    names: Sequence[str], problem: Problem, known: Scores | None = None, votes: ScoresByCandidate | None = None
) -> Iterator[Outcome]:
    """Run some methods; one that fails or cannot be run tells why. What is `known` chooses settings, if anything is."""
    able, choosing = problem.able(names), problem.choosing
    yield from (
        Outcome(name, status="skipped", reason=problem.methods[name].too_large) for name in names if name not in able
    )
    voting = choosing.voting(able) if votes is None else {}
    if known is None or voting:
        asked = able if known is None else [name for name in able if choosing.methods[name].members]
        candidates = {one.key: one for name in asked for one in choosing.candidates(name)}
        trials = choosing.trials if voting else None
        nested = [] if trials is None else [*trials.nested.values()]
        drawn = [] if trials is None else trials.drawn
        about = (tuple(candidates.values()), choosing.samples, [*choosing.splits, *nested], voting, drawn)
        found, votes = evaluate_validation(*about, **choosing.how)
        known = found if known is None else known
    chosen = {name: choosing.entry(name, known, votes or {}) for name in able}
    yield from (_outcome(name, one, problem) for name, one in chosen.items() if one.error)
    chosen = {name: one for name, one in chosen.items() if not one.error}
    yield from _evaluate_exact(chosen, problem) if problem.plan.exact else _evaluate_large(chosen, problem)


def _evaluate_exact(chosen: Mapping[str, SelectedMethod], problem: Problem) -> Iterator[Outcome]:
    """What the choices say of the targets, asked together."""
    asked = [(name, candidate) for name, entry in chosen.items() for candidate in entry.candidates]
    voters = frozenset(i for i, (name, _) in enumerate(asked) if chosen[name].pool)
    candidates = [candidate for _, candidate in asked]
    found = evaluate_candidates(candidates, problem.samples, problem.targets, votes=voters, **problem.how)
    said = sorted(found, key=lambda one: (one.candidate, one.split))
    for own in group_by(said, lambda one: asked[one.candidate][0]):
        name = asked[own[0].candidate][0]
        seconds = sum(one.fit_seconds + one.predict_seconds for one in own)
        yield _outcome(name, chosen[name], problem, _ensemble_predictions(chosen[name].pool, own, problem), seconds)


def _ensemble_predictions(
    pool: EnsembleClassifier | None, said: list[Prediction], problem: Problem
) -> list[Prediction]:
    """What a pool makes of the votes of its members on each target; of a single choice, what it says itself."""
    failed = [one for one in said if one.error]
    if pool is None or failed:
        return failed or said
    X, domain, settled = problem.prepared.X[len(problem.train) :], problem.samples.domain[problem.test], []
    for k, target in enumerate(np.unique(domain)):
        X_target = X[domain == target]
        P = pool.settled([one.responses["votes"] for one in said if one.split == k], X_target)
        about = {"predict_proba": pool.with_natural_priors(P), "classes_": problem.samples.classes}
        settled.append(Prediction(0, k, P.argmax(axis=1), about))
    return settled


def _evaluate_large(chosen: Mapping[str, SelectedMethod], problem: Problem) -> Iterator[Outcome]:
    """The same with as many rows as each choice can take: projections see all of them through landmarks."""
    n, prepared, plan = len(problem.train), problem.prepared, problem.plan
    train, test = prepared.take(np.arange(n)), prepared.take(n + np.arange(len(problem.test)))
    some, asks = train.take(train.subsample_rows(plan.sample_rows)), required_responses(problem.scoring)
    large = LandmarkFit(
        some,
        lambda projection: collect_statistics(projection, train.X, train.y, train.domain),
        plan,
        balance=problem.balance,
    )
    for name, entry in chosen.items():
        start, own = time.perf_counter(), list[Prediction]()
        expected: Any = Exception if any(candidate.own for candidate in entry.candidates) else EXPECTED_ERRORS
        seen: dict[str, Any] = {}
        try:
            fitted, facts = zip(*map(large.fitted, entry.candidates), strict=True)
            pool = _refit_ensemble(entry.pool, fitted, test.classes) if entry.pool else None
            seen = facts[0] if pool is None else {}
            for k, target in enumerate(np.unique(test.domain)):
                here = test.domain == target
                if pool is None:
                    model, Z = bind_domains(fitted[0], test.X[here], test.domain[here])
                    labels, about = model.predict(Z), collect_responses(model, Z, asks)
                else:  # also a target that has too few rows for a transductive prediction
                    P = pool.answer(test.X[here], test.domain[here])
                    labels = pool.classes_[P.argmax(axis=1)]
                    about = {"predict_proba": pool.with_natural_priors(P), "classes_": pool.classes_}
                own.append(Prediction(0, k, encode_predictions(labels, test.classes, int(here.sum())), about))
        except expected as error:
            own = [Prediction(0, 0, error=f"{type(error).__name__}: {error}")]
        yield _outcome(name, entry, problem, own, time.perf_counter() - start, **seen)


def _refit_ensemble(pool: EnsembleClassifier, members: Sequence[Any], classes: Labels) -> EnsembleClassifier:
    """A pool of fitted members, which know the classes that occur in training."""
    fitted = pool.with_members(members)
    if fitted.prior_ratio is not None:
        fitted.set_params(prior_ratio=fitted.prior_ratio[np.isin(classes, fitted.classes_)])
    return fitted


def _outcome(
    name: str,
    entry: SelectedMethod,
    problem: Problem,
    said: Sequence[Prediction] = (),
    seconds: float = 0.0,
    **remarks: Any,
) -> Outcome:
    """What a choice says of each target, or why it says nothing."""
    found = [
        grade for _, _, grade in score_predictions(said, Scorer(problem.scoring, problem.samples, problem.targets))
    ]
    reason = entry.error or next((one.error for one in found if one.error), "")
    if reason:
        return Outcome(name, status="failed", reason=reason)
    codes = np.empty(len(problem.test), dtype=np.intp)
    codes[np.argsort(problem.samples.domain[problem.test], kind="stable")] = np.concatenate([p.codes for p in said])
    names = np.unique(problem.samples.domain[problem.test]).tolist()
    values = {str(target): one.value for target, one in zip(names, found, strict=True)}
    how = entry.ties, entry.transductive, entry.seconds + seconds
    return Outcome(name, codes, values, entry.validation, {**entry.settings, **remarks}, *how)


def ensemble_settings(found: FittedEnsemble) -> dict[str, Any]:
    """How a pool is made up, what it does with batches and why, and what it forecasts, in plain values."""
    members: dict[str, float] = {}
    for row in found.table:
        members[row["model"]] = members.get(row["model"], 0.0) + row["weight"]
    before, after = found.calibration["before"], found.calibration["after"]
    projection = next((one for one in found.members if one.head), None)
    return {
        "model": found.name,
        "members": members,
        "smoothing": found.smoothing,
        "decisions": [
            {
                "step": guard.step.partition(" (")[0],  # its strength is told below
                "used": guard.adopts,
                "natural": float(guard.natural.mean()),
                "skewed": float(guard.skewed.mean()),
                "reason": guard.reason,
            }
            for guard in found.guards
        ],
        "calibration": {"before": {name: before[name] for name in ("ece", "log_loss")}, "after": after},
        "forecast": [end if np.isfinite(end) else None for end in found.forecast],
        "projection": projection and {"model": projection.variant, **projection.settings},
    }
