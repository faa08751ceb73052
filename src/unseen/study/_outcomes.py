"""What each method predicts for the targets: chosen on the splits, fitted on all training data."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from ..algebra import Array, Ints
from ..estimators import collect
from ..kernels import Plan
from ..labels import Balance, Samples
from ..selection import (
    EXPECTED,
    METHODS,
    Candidate,
    Contender,
    LargeFit,
    Method,
    Prediction,
    Scorer,
    Split,
    asks_for,
    choose,
    codes_of,
    contenders,
    expected_warnings,
    graded,
    grouped,
    placed,
    predictions,
    responses,
    scores,
    seen_by_classifier,
    tally,
)
from ._store import Scores


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
    def plan(self) -> Plan:
        """How many rows are used for what."""
        return Plan.of(len(self.train))

    @property
    def choosing(self) -> Problem:
        """The problem on which settings are chosen: this one, or a smaller one of its kind."""
        return self if self.plan.exact else self.thinned(self.plan.choice_rows)

    def able(self, names: Iterable[str]) -> list[str]:
        """Methods that run on so many rows."""
        limits = {name: self.methods[name].most_rows for name in names}
        return [name for name, most in limits.items() if most is None or self.plan.rows <= most]

    def candidates(self, name: str) -> list[Candidate]:
        """The settings of a method to choose from."""
        n_classes = len(np.unique(self.samples.codes[self.train]))
        how: dict[str, Any] = {"lean": self.lean, "quick": self.quick, "centerings": (self.centering,)}
        return list(self.methods[name].candidates(n_classes, **how))

    def contender(self, name: str, known: Scores) -> Contender:
        """What a method puts forward, by what the validation has found; one that is many chooses as `fit` does."""
        candidates, splits = self.candidates(name), [known[split_id(split)] for split in self.splits]
        found = ((i, k, split[c.key]) for i, c in enumerate(candidates) for k, split in enumerate(splits))
        field = contenders(candidates, tally(found, len(candidates), len(splits)))
        if not self.methods[name].members:
            return field[0]
        sound = [contender for contender in field if not contender.error] or field
        best = field[0] if sound is field else choose(sound)
        return replace(best, seconds=sum(contender.seconds for contender in field))

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
        with expected_warnings():
            known = rows.take(np.arange(n))
            weight = known.weights(balance=self.balance)
            pipeline = self.chosen(name, settings).fitted(known.X, known.y, known.domain, weight)
        return seen_by_classifier(pipeline, rows.X, rows.domain)

    def scores(self, candidates: Sequence[Candidate], splits: Sequence[Split]) -> dict[str, Any]:
        """Scores of candidates on splits, and their means."""
        return tally(scores(candidates, self.samples, splits, **self.how), len(candidates), len(splits))

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
            rows[self.samples.take(rows).thinned(total, seed)] if len(rows) else rows
            for rows in (self.train, self.test, others)
        )
        kept = np.concatenate([train, test, others])
        splits = [(a[np.isin(a, kept)], b[np.isin(b, kept)]) for a, b in self.splits]
        return replace(self, train=train, test=test, splits=splits)


def split_id(split: Split) -> tuple[str, str]:
    """What tells splits apart: names of the rows to train on and of those to test on."""
    train, test = (hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()[:16] for rows in split)
    return train, test


def validated(candidates: Sequence[Candidate], samples: Samples, splits: Sequence[Split], **how: Any) -> Scores:
    """How candidates do on splits."""
    ids = [split_id(split) for split in splits]
    found: Scores = {at: {} for at in ids}
    for i, k, score in scores(candidates, samples, splits, **how):
        found[ids[k]][candidates[i].key] = score
    return found


def outcomes(names: Sequence[str], problem: Problem, known: Scores | None = None) -> Iterator[Outcome]:
    """Run some methods; one that fails or cannot be run tells why. What is `known` chooses settings, if anything is."""
    able, choosing = problem.able(names), problem.choosing
    yield from (
        Outcome(name, status="skipped", reason=problem.methods[name].too_large) for name in names if name not in able
    )
    if known is None:
        candidates = [candidate for name in able for candidate in choosing.candidates(name)]
        known = validated(candidates, choosing.samples, choosing.splits, **choosing.how)
    chosen = {name: choosing.contender(name, known) for name in able}
    yield from (_outcome(name, one, problem) for name, one in chosen.items() if one.error)
    chosen = {name: one for name, one in chosen.items() if not one.error}
    yield from _exact(chosen, problem) if problem.plan.exact else _large(chosen, problem)


def _exact(chosen: Mapping[str, Contender], problem: Problem) -> Iterator[Outcome]:
    """What the choices say of the targets, asked together."""
    names, candidates = list(chosen), [contender.candidate for contender in chosen.values()]
    said = predictions(candidates, problem.samples, problem.targets, **problem.how)
    parts = grouped(sorted(said, key=lambda one: (one.candidate, one.split)), lambda one: one.candidate)
    for own in parts:
        name = names[own[0].candidate]
        yield _outcome(name, chosen[name], problem, own, sum(one.fit_seconds + one.predict_seconds for one in own))


def _large(chosen: Mapping[str, Contender], problem: Problem) -> Iterator[Outcome]:
    """The same with as many rows as each choice can take: projections see all of them through landmarks."""
    n, prepared, plan = len(problem.train), problem.prepared, problem.plan
    train, test = prepared.take(np.arange(n)), prepared.take(n + np.arange(len(problem.test)))
    some, asks = train.take(train.thinned(plan.sample_rows)), asks_for(problem.scoring)
    large = LargeFit(
        some, lambda projection: collect(projection, train.X, train.y, train.domain), plan, balance=problem.balance
    )
    for name, contender in chosen.items():
        start, own = time.perf_counter(), list[Prediction]()
        expected: Any = Exception if contender.candidate.own else EXPECTED
        seen: dict[str, Any] = {}
        try:
            pipeline, seen = large.fitted(contender.candidate)
            for k, target in enumerate(np.unique(test.domain)):
                here = test.domain == target
                model, Z = placed(pipeline, test.X[here], test.domain[here])
                codes = codes_of(model.predict(Z), test.classes, int(here.sum()))
                own.append(Prediction(0, k, codes, responses(model, Z, asks)))
        except expected as error:
            own = [Prediction(0, 0, error=f"{type(error).__name__}: {error}")]
        yield _outcome(name, contender, problem, own, time.perf_counter() - start, **seen)


def _outcome(
    name: str,
    contender: Contender,
    problem: Problem,
    said: Sequence[Prediction] = (),
    seconds: float = 0.0,
    **remarks: Any,
) -> Outcome:
    """What a choice says of each target, or why it says nothing."""
    candidate, score = contender.candidate, Scorer(problem.scoring, problem.samples, problem.targets)
    found = [grade for _, _, grade in graded(said, score)]
    reason = contender.error or next((one.error for one in found if one.error), "")
    if reason:
        return Outcome(name, status="failed", reason=reason)
    codes = np.empty(len(problem.test), dtype=np.intp)
    codes[np.argsort(problem.samples.domain[problem.test], kind="stable")] = np.concatenate([p.codes for p in said])
    names = np.unique(problem.samples.domain[problem.test]).tolist()
    return Outcome(
        name,
        codes,
        {str(target): one.value for target, one in zip(names, found, strict=True)},
        contender.mean,
        {**({} if candidate.method == name else {"model": contender.name}), **candidate.settings, **remarks},
        contender.ties,
        candidate.transductive,
        contender.seconds + seconds,
    )
