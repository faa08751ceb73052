"""From out-of-domain votes of candidates to a pool of them: who takes part, with what weight, and what it is worth.

Nothing is fitted to samples here. The engine has asked all candidates about every held-out part, and those that look at
whole batches about the same parts drawn again with a skew of classes; everything else is a reading of what they said.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from ..algebra import Array, Ints
from ..labels import Balance, Labels, Samples
from ._asking import TINY, VOTES, Prediction
from ._candidate import Candidate
from ._contest import Contender, choose, contender_row, contenders, forecast, require_contest, standard_error
from ._engine import Scorer, Split, graded, predictions, tally
from ._ensemble import Pool
from ._metric import Scoring
from ._pool import (
    STRENGTHS,
    ConformalSets,
    Guard,
    Mask,
    calibration,
    guarded,
    neighbour_graph,
    nested_weights,
    pool_weights,
    pooled,
    prune,
    smoothed,
    softmax,
    temperature,
    trial_batches,
    tried,
    with_priors,
)

INDUCTIVE, ALL = "pool of inductive models", "pool of all models"
ROOM = 2**27  # votes, of all candidates on all samples as they come: a gigabyte; skewed batches take up to three more
FEWEST_ROWS = 20  # of a held-out part
Batches = Sequence[Sequence[Array]]  # of each held-out part, the natural one and skewed ones


@dataclass(frozen=True)
class Trials:
    """Held-out parts, each as it is, and drawn again with a skew of classes."""

    natural: list[Split]
    rows: list[list[Any]]  # of each part, positions in each of its batches, of which the first is the natural one

    @classmethod
    def of(cls, samples: Samples, natural: Sequence[Split], *, skewed: bool = True) -> Trials:
        """Batches follow from the classes of a part alone, so that whoever holds it out draws the same."""
        # Ranks, since who holds a part out may know of other classes than those in it, or not.
        codes = [np.unique(samples.codes[test], return_inverse=True)[1] for _, test in natural] if skewed else []
        drawn = [trial_batches(own, zlib.crc32(own.astype("<i8").tobytes())) for own in codes]
        return cls(list(natural), drawn or [[slice(None)] for _ in natural])

    @cached_property
    def splits(self) -> list[Split]:
        """The natural ones, then those drawn again, part by part."""
        drawn = zip(self.natural, self.rows, strict=True)
        return [*self.natural, *((train, test[again]) for (train, test), rows in drawn for again in rows[1:])]

    @property
    def again(self) -> frozenset[int]:
        """Which are drawn again."""
        return frozenset(range(len(self.natural), len(self.splits)))

    def at(self, part: int, batch: int) -> int:
        """Where a batch is among all splits."""
        return part if batch == 0 else len(self.natural) + part * (len(self.rows[part]) - 1) + batch - 1


@dataclass(frozen=True)
class Tried:
    """A pool on every held-out part, by weights that did not see it."""

    name: str
    kind: str
    scores: Array  # (2, m), times 100: on natural and on skewed batches
    chosen: bool = False
    guard: str = ""  # why the step that it adds is or is not taken


@dataclass(frozen=True)
class Pooling:
    """A pool of candidates, and what it is worth on held-out parts.

    Attributes
    ----------
    members : list of Candidate
        Those that matter, the weightiest first.
    weights, betas : ndarray of shape (n_members,)
        Their shares, and the inverse temperatures of their votes.
    smoothing : float
        Strength of smoothing among neighbours of a batch; 0 for none.
    sharpness : float
        Inverse temperature of the pool itself, which is applied last.
    held_out : list of ndarray of shape (n_k, n_classes)
        Probabilities of the rows of each held-out part, by weights that did not see it, under the class frequencies of
        training, which may be balanced.
    codes : list of ndarray of shape (n_k,)
        Their true classes.
    calibration : dict
        Of these probabilities; `before` they were tempered, and `after`.
    guards : list of Guard
        Of the steps that look at batches.
    tried : list of Tried
        What was weighed against what.
    prior_ratio : ndarray of shape (n_classes,) or None
        Natural class frequencies over those of training, if classes were balanced.
    """

    members: list[Candidate]
    weights: Array
    betas: Array
    smoothing: float
    sharpness: float
    held_out: list[Array]
    codes: list[Ints]
    calibration: dict[str, Any]
    guards: list[Guard] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    prior_ratio: Array | None = None

    @property
    def transductive(self) -> bool:
        """Whether predictions depend on the other samples of their domain."""
        return self.smoothing > 0 or any(member.transductive for member in self.members)

    @property
    def kind(self) -> str:
        """From simple to demanding."""
        plain = all(member.kind == "plain" for member in self.members)
        return "transductive" if self.transductive else "plain" if plain else "inductive"

    @property
    def name(self) -> str:
        """What it is, in a few words; of one member, the name of that."""
        if len(self.members) == 1 and not self.smoothing:
            return self.members[0].variant
        return self._chosen.name

    @property
    def table(self) -> list[dict[str, Any]]:
        """Members in plain values."""
        shares = zip(self.members, self.weights.tolist(), strict=True)
        return [{"model": one.variant, "weight": w, "kind": one.kind, "params": one.params} for one, w in shares]

    @property
    def sets(self) -> ConformalSets:
        """What prediction sets follow from."""
        return ConformalSets.of(self.held_out, self.codes)

    @property
    def scores(self) -> Array:
        """Of the pool on each held-out part, by weights that did not see it."""
        return self._chosen.scores[0] / 100

    @property
    def mean(self) -> float:
        """Of these scores, as far as they are defined."""
        return float(np.nanmean(self._chosen.scores[0])) / 100

    @property
    def _chosen(self) -> Tried:
        return next(one for one in self.tried if one.chosen)

    def forecast(self, scores: Array) -> tuple[float, float, float]:
        """What to expect on the next domain: the mean of scores on held-out parts, and a prediction interval.

        Shares of samples have at least the spread that so many samples leave, of which one may always be otherwise.
        """
        known, sizes = np.isfinite(scores), np.array([len(codes) for codes in self.codes])
        share = bool(np.all((scores[known] >= 0) & (scores[known] <= 1)))
        noise = np.maximum(scores * (1 - scores) / sizes, sizes**-2.0)[known]
        error = float(noise.mean()) if share and known.any() else 0.0
        return forecast(scores[known], error, (0.0, 1.0) if share else (-np.inf, np.inf))

    @property
    def unfitted(self) -> Pool:
        """What predicts, of members that somebody else asks."""
        return Pool(
            [one.pipeline for one in self.members],
            self.weights,
            self.betas,
            smoothing=self.smoothing,
            sharpness=self.sharpness,
            held_out=list(self.sets.scores),
            prior_ratio=self.prior_ratio,
        )

    def estimator(self, members: Sequence[Pipeline]) -> Pool:
        """What predicts, of fitted members."""
        return self.unfitted.of(members)


def contest_and_pool(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    *,
    scoring: Scoring = "accuracy",
    balance: Balance = "none",
    preparation: Any = None,
    pool: bool = True,
    transductive: bool = True,
    among: Sequence[Candidate] | None = None,
    **work: Any,
) -> tuple[list[Contender], Pooling]:
    """Ask all candidates, and pool them, or pick one `among` some; the best settings of each variant, and the pool."""
    require_contest(len(samples.classes), len(splits))
    few = _few(samples, splits, len(candidates))
    trials = Trials.of(samples, few, skewed=pool and transductive)
    how = {"preparation": preparation, "balance": balance, **work}
    said = predictions(candidates, samples, trials.splits, scoring=VOTES[0], again=trials.again, **how)
    ballot = Ballot.of(candidates, samples, trials, said, scoring, balance)
    pooling = ballot.chosen(preparation, pool=pool, transductive=transductive, among=among)
    return ballot.field(skewed=pool and transductive), pooling


def _few(samples: Samples, splits: Sequence[Split], n_candidates: int) -> Sequence[Split]:
    """The same, or with so few samples held out that all votes on them have room in memory: thousands of classes do."""
    most, total = ROOM // (n_candidates * len(samples.classes)), sum(len(test) for _, test in splits)
    if total <= most:
        return splits
    sizes = [max(most * len(test) // total, FEWEST_ROWS) for _, test in splits]
    rng, parts = np.random.default_rng(0), zip(splits, sizes, strict=True)
    return [(train, np.sort(rng.permutation(test)[:n])) for (train, test), n in parts]


def _prepared(samples: Samples, split: Split, preparation: Any) -> Any:
    """What is held out, as models see it: neighbours are looked for there."""
    train, test = (_safe_indexing(samples.X, rows) for rows in split)
    return test if preparation is None else clone(preparation).fit(train).transform(test)


@dataclass
class Ballot:
    """What candidates voted on trials, their temperatures, and how votes are scored."""

    candidates: Sequence[Candidate]
    samples: Samples
    trials: Trials
    votes: Mapping[tuple[int, int], Array]
    results: dict[str, Any]
    betas: Array  # NaN for who did not vote on every trial
    score: Scorer
    weights: list[Array] | None
    balance: Balance = "none"

    @classmethod
    def of(
        cls,
        candidates: Sequence[Candidate],
        samples: Samples,
        trials: Trials,
        said: Iterable[Prediction],
        scoring: Scoring = "accuracy",
        balance: Balance = "none",
    ) -> Ballot:
        """Temper the votes of all who voted on every trial, and score them on natural ones."""
        told = list(said)
        votes = {(p.candidate, p.split): p.responses["votes"] for p in told if p.codes is not None}
        lost = {p.candidate for p in told if p.codes is None}
        parts = [test for _, test in trials.natural]
        codes = [samples.codes[test] for test in parts]
        weighing = balance != "none" or samples.weight is not None
        weights = [np.asarray(samples.weights(test, balance)) for test in parts] if weighing else None
        betas = np.full(len(candidates), np.nan)
        for j in set(range(len(candidates))) - lost:
            betas[j] = temperature([votes[j, k] for k in range(len(parts))], codes, weights)

        def probable(p: Prediction) -> Prediction:
            if p.codes is None:
                return p
            P = softmax(p.responses["votes"], 1.0 if np.isnan(betas[p.candidate]) else betas[p.candidate])
            natural = natural_probabilities(P, samples, trials, p.split, balance)
            return replace(p, responses=_said(natural, samples.classes))

        score = Scorer(scoring, samples, trials.natural)
        found = graded((probable(p) for p in told if p.split not in trials.again), score)
        results = tally(found, len(candidates), len(parts))
        score.leave_out(np.flatnonzero(~results["defined"]).tolist())
        score = Scorer(scoring, samples, trials.splits)
        return cls(candidates, samples, trials, votes, results, betas, score, weights, balance)

    @property
    def codes(self) -> list[Ints]:
        """True classes of each held-out part."""
        return [self.samples.codes[test] for _, test in self.trials.natural]

    def field(self, *, skewed: bool = False) -> list[Contender]:
        """The best settings of each variant; what they score on skewed batches takes a moment more."""
        found = contenders(self.candidates, self.results)
        return [replace(one, skewed=self._skewed(one.candidate)) for one in found] if skewed else found

    def _skewed(self, candidate: Candidate) -> float:
        """Mean score of a candidate on skewed batches."""
        j = self.position(candidate)
        if np.isnan(self.betas[j]):
            return np.nan
        alone = (np.arange(len(self.candidates)) == j).astype(float)
        scores = tried([self._batches(k, alone) for k in range(len(self.codes))], self._scored)[1]
        return float(np.nanmean(scores) / 100) if np.isfinite(scores).any() else np.nan

    def chosen(
        self,
        preparation: Any = None,
        *,
        pool: bool = True,
        transductive: bool = True,
        among: Sequence[Candidate] | None = None,
    ) -> Pooling:
        """The pool, or one candidate, of all or `among` some; neighbours are looked for behind the preparation."""
        own = None if among is None else set(map(id, among))
        rivals = [one for one in self.field() if own is None or id(one.candidate) in own]
        best = choose(rivals).candidate  # raises if nobody could be scored
        if not pool:
            return self.picked(best)
        parts = self.trials.natural if transductive else []
        return self.pooled([_prepared(self.samples, part, preparation) for part in parts] or None, among)

    def position(self, candidate: Candidate) -> int:
        """Where a candidate is among all."""
        return next(j for j, other in enumerate(self.candidates) if other is candidate)

    def picked(self, candidate: Candidate) -> Pooling:
        """A pool of one."""
        j = self.position(candidate)
        votes = [self.votes[j, k] for k in range(len(self.codes))]
        beta = self.betas[j : j + 1]
        held_out = [softmax(own, beta[0]) for own in votes]
        told = self._calibration([softmax(own) for own in votes], held_out)
        ratio = self._prior_ratio()
        return Pooling([candidate], np.ones(1), beta, 0.0, 1.0, held_out, self.codes, told, prior_ratio=ratio)

    def pooled(self, features: Sequence[Any] | None, among: Sequence[Candidate] | None = None) -> Pooling:
        """The pool; with the features of held-out parts, steps that look at batches are tried, and guarded."""
        m, codes = len(self.codes), self.codes
        wanted = set(map(id, self.candidates if among is None else among))
        voting = np.array([id(candidate) in wanted for candidate in self.candidates]) & np.isfinite(self.betas)
        inductive = voting & np.array([not candidate.transductive for candidate in self.candidates])
        masks = {INDUCTIVE: inductive} if inductive.any() else {}
        masks |= {ALL: voting} if not np.array_equal(inductive, voting) else {}
        P = [self._members(k) for k in range(m)]
        nested = {name: nested_weights(P, codes, members=mask, weights=self.weights) for name, mask in masks.items()}
        batches = {name: [list(self._batches(k, w[k], P[k])) for k in range(m)] for name, w in nested.items()}
        name, strength, guards, found = self._guarded(masks, batches, features)
        natural = [own[0] for own in batches[name]]
        if strength:
            natural = [smoothed(p, neighbour_graph(X), strength) for p, X in zip(natural, features or (), strict=True)]
        with np.errstate(divide="ignore"):
            sharpness = temperature([np.log(p) for p in natural], codes, self.weights)
            held_out = [softmax(np.log(p), sharpness) for p in natural]
        raw = [pooled(nested[name][k], self._members(k, tempered=False)) for k in range(m)]
        told = self._calibration(raw, held_out)
        ratio = self._prior_ratio()
        return Pooling(*self.shares(masks[name], P), strength, sharpness, held_out, codes, told, guards, found, ratio)

    def shares(self, mask: Mask, P: list[Array] | None = None) -> tuple[list[Candidate], Array, Array]:
        """Who is in the pool of some candidates, the weightiest first, with what weights and temperatures."""
        mask, codes = mask & np.isfinite(self.betas), self.codes
        P = [self._members(k) for k in range(len(codes))] if P is None else P
        weights = prune(pool_weights(P, codes, members=mask, weights=self.weights), P, codes)
        kept = [int(j) for j in np.argsort(-weights, kind="stable") if weights[j] > 0]
        return [self.candidates[j] for j in kept], weights[kept], self.betas[kept]

    def _guarded(
        self, masks: Mapping[str, Mask], batches: Mapping[str, Batches], features: Sequence[Any] | None
    ) -> tuple[str, float, list[Guard], list[Tried]]:
        """The pool to use, its strength of smoothing, the guards of both steps, and what was tried."""
        name, *others = masks
        scores = {pool: tried(own, self._scored) for pool, own in batches.items()}
        found, guards, strength = [Tried(name, self._kind(masks[name]), scores[name])], list[Guard](), 0.0
        for bold in others:
            guards.append(guarded("The pool with transductive members", scores[name], scores[bold]))
            found.append(Tried(bold, "transductive", scores[bold], guard=guards[-1].reason))
            name = bold if guards[-1].adopts else name
        used = name
        if features is not None:
            strength, told, guard = self._smoothing(name, batches[name], scores[name], features)
            guards.append(guard)
            found.append(told)
            used = told.name if strength else name
        return name, strength, guards, [replace(one, chosen=one.name == used) for one in found]

    def _smoothing(
        self, name: str, batches: Batches, plain: Array, features: Sequence[Any]
    ) -> tuple[float, Tried, Guard]:
        """The best strength, what it is worth, and whether it is taken."""
        graphs = [
            [neighbour_graph(_safe_indexing(X, rows)) for rows in parts]
            for X, parts in zip(features, self.trials.rows, strict=True)
        ]
        best, bold = 0.0, plain
        for strength in STRENGTHS:
            said = [
                [smoothed(p, W, strength) for p, W in zip(own, parts, strict=True)]
                for own, parts in zip(batches, graphs, strict=True)
            ]
            scores = tried(said, self._scored)
            if not best or np.nanmean(scores) > np.nanmean(bold):  # of equals the weakest
                best, bold = strength, scores
        guard = guarded(f"Smoothing by neighbours (strength {best:g})", plain, bold)
        told = Tried(f"{name}, smoothed", "transductive", bold, guard=guard.reason)
        return best if guard.adopts else 0.0, told, guard

    def _kind(self, mask: Mask) -> str:
        kinds = {self.candidates[j].kind for j in np.flatnonzero(mask).tolist()}
        return max(kinds, key=["plain", "inductive", "transductive"].index)

    def _members(self, k: int, *, tempered: bool = True) -> Array:
        """What all say of a held-out part as it is: (J, n_k, C); of who did not vote, nothing."""
        P = np.zeros((len(self.candidates), len(self.codes[k]), len(self.samples.classes)))
        for j in np.flatnonzero(np.isfinite(self.betas)).tolist():
            P[j] = softmax(self.votes[j, k], self.betas[j] if tempered else 1.0)
        return P

    def _batches(self, k: int, weights: Array, P: Array | None = None) -> Iterator[Array]:
        """What a pool says of each batch of a held-out part; inductive members say the same of a row in every one."""
        still = np.array([not candidate.transductive for candidate in self.candidates])
        moving, steadily = np.flatnonzero(~still & (weights > 0)).tolist(), np.where(still, weights, 0.0)
        steady = self._mixed(steadily, k) if P is None else pooled(steadily, P)
        for b, rows in enumerate(self.trials.rows[k]):
            mixed = steady[rows]
            for j in moving:
                mixed = mixed + weights[j] * softmax(self.votes[j, self.trials.at(k, b)], self.betas[j])
            yield mixed

    def _mixed(self, weights: Array, k: int) -> Array:
        """What a pool says of a held-out part as it is, without a look at those that weigh nothing."""
        found = np.zeros((len(self.codes[k]), len(self.samples.classes)))
        for j in np.flatnonzero(weights).tolist():
            found += weights[j] * softmax(self.votes[j, k], self.betas[j])
        return found

    def _scored(self, k: int, b: int, P: Array) -> float:
        split = self.trials.at(k, b)
        responses = _said(self._natural(P, split), self.samples.classes)
        return self.score(Prediction(0, split, P.argmax(axis=1), responses))

    def _prior_ratio(self) -> Array | None:
        """Natural over balanced class frequencies of all rows that some split trains on; others may be a test set."""
        rows = np.unique(np.concatenate([train for train, _ in self.trials.natural]))
        return self.samples.prior_ratio(rows, self.balance)

    def _natural(self, P: Array, split: int) -> Array:
        return natural_probabilities(P, self.samples, self.trials, split, self.balance)

    def _calibration(self, before: list[Array], after: list[Array]) -> dict[str, Any]:
        """Calibration on rows as they come, of what models say and of what the pool will say."""
        weight = self.samples.weight
        weights = None if weight is None else [weight[test] for _, test in self.trials.natural]
        said = {"before": before, "after": [self._natural(P, k) for k, P in enumerate(after)]}
        return {when: calibration(P, self.codes, weights) for when, P in said.items()}


def natural_probabilities(P: Array, samples: Samples, trials: Trials, split: int, balance: Balance) -> Array:
    """Probabilities of held-out rows under the natural class frequencies of the rows that were trained on.

    Models that are trained with balanced classes estimate probabilities under equal class frequencies.
    """
    train, _ = trials.splits[split]
    ratio = samples.prior_ratio(train, balance)
    return P if ratio is None else with_priors(P, ratio)


def _said(P: Array, classes: Labels) -> dict[str, Any]:
    """Probabilities in every form that a scorer may ask for."""
    logits = np.log(np.maximum(P, TINY))
    decisions = logits[:, 1] - logits[:, 0] if len(classes) == 2 else logits
    return {"predict_proba": P, "decision_function": decisions, "classes_": classes}


def leaderboard(field: Sequence[Contender], pooling: Pooling, names: Sequence[str]) -> list[dict[str, Any]]:
    """Pools and contenders as rows of plain values, best first."""
    shares: dict[str, float] = {}
    for member, share in zip(pooling.members, pooling.weights.tolist(), strict=True):
        shares[member.variant] = shares.get(member.variant, 0.0) + share
    rows = [
        {**contender_row(one, names), "weight": shares.get(one.name, 0.0), "guard": "", "chosen": False}
        for one in field
    ]
    if not pooling.tried:  # one was picked
        for row, one in zip(rows, field, strict=True):
            row["chosen"] = one.candidate is pooling.members[0]
    rows += [
        {
            "model": one.name,
            "kind": one.kind,
            "mean": float(np.nanmean(one.scores[0])) / 100,
            "standard_error": standard_error(one.scores[0][np.isfinite(one.scores[0])]) / 100,
            "scores": dict(zip(names, (one.scores[0] / 100).tolist(), strict=True)),
            "skewed": float(np.mean(one.scores[1])) / 100,
            "params": {},
            "seconds": 0.0,
            "weight": float(one.chosen),
            "guard": one.guard,
            "chosen": one.chosen,
        }
        for one in pooling.tried
    ]
    return sorted(rows, key=lambda row: -np.nan_to_num(row["mean"], nan=-np.inf))
