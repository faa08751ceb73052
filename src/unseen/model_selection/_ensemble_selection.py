"""From out-of-domain votes of candidates to a pool of them: who takes part, with what weight, and what it is worth.

Nothing is fitted to samples here. The engine has asked all candidates about every held-out part, and those that look at
whole batches about the same parts drawn again with a skew of classes; everything else is a function of these votes.
What is deployed is fitted on all held-out parts. What is reported about a part is cross-fitted, without that part.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from ..linalg import Array, Ints
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels
from ._candidate import Candidate
from ._comparison import (
    CandidateResult,
    best_by_variant,
    check_comparison_size,
    forecast,
    restrict_results,
    result_row,
    select_result,
    standard_error,
)
from ._ensemble import EnsembleClassifier
from ._ensemble_math import (
    SMOOTHING_STRENGTHS,
    AcceptanceTest,
    ConformalSets,
    CrossFittingFolds,
    Mask,
    adjust_priors,
    apply_inverse_temperature,
    average_members,
    calibration_table,
    compare_trials,
    fit_ensemble_weights,
    fit_temperature,
    fit_temperatures,
    make_trial_batches,
    neighbor_graph,
    prune_weights,
    score_trials,
    smooth_probabilities,
    softmax,
)
from ._metrics import Scoring, metric_range
from ._split_evaluation import DECISION_SCORES, MIN_PROBABILITY, Prediction
from ._validation import Scorer, Split, best_index, evaluate_candidates, score_predictions, tabulate_scores

INDUCTIVE_ENSEMBLE, FULL_ENSEMBLE = "pool of inductive models", "pool of all models"
MAX_DECISION_SCORES = (
    2**27
)  # votes, of all candidates on all samples as they come: a gigabyte; skewed batches take up to three more
MIN_HELD_OUT_ROWS = 20  # of a held-out part
MIN_NESTED_DOMAINS = 4  # held-out parts from which models are trained without pairs of them: two are left to train on
MAX_NESTED_ROWS = 1_000  # at most, since kernels take time that grows with the cube of rows
MAX_NESTED_WORK = 40_000  # at most, pairs of parts times rows times classes: some seconds for all candidates
ScoresBySplit = Mapping[tuple[int, int], Array]  # by candidate and split


@dataclass(frozen=True)
class TrialSplits:
    """Held-out parts, each as it is, and drawn again with a skew of classes.

    Attributes
    ----------
    natural : list of (train, test)
        One split for each part.
    rows : list of list
        For each part, positions in each of its batches, of which the first is the natural one.
    folds : Folds
        By which whatever is reported about a part is cross-fitted.
    nested : dict
        By fold and part, a split that holds out the part and trains without what the fold leaves out. Empty where that
        would take too long: see `nested_splits`.
    """

    natural: list[Split]
    rows: list[list[Any]]
    folds: CrossFittingFolds
    nested: dict[tuple[int, int], Split] = field(default_factory=dict)

    @classmethod
    def from_splits(cls, samples: Samples, natural: Sequence[Split], *, skewed: bool = True) -> TrialSplits:
        """Batches follow from the classes of a part alone, so that whoever holds it out draws the same."""
        # Ranks, since who holds a part out may know of other classes than those in it, or not.
        codes = [np.unique(samples.codes[test], return_inverse=True)[1] for _, test in natural] if skewed else []
        drawn = [make_trial_batches(own, zlib.crc32(own.astype("<i8").tobytes())) for own in codes]
        folds = CrossFittingFolds.from_rows([test for _, test in natural])
        batches: list[list[Any]] = [*drawn] or [[slice(None)] for _ in natural]
        return cls(list(natural), batches, folds, nested_splits(samples, natural, folds))

    @cached_property
    def drawn(self) -> list[Split]:
        """Splits that hold out batches which are drawn again, part by part."""
        batches = zip(self.natural, self.rows, strict=True)
        return [(train, test[again]) for (train, test), rows in batches for again in rows[1:]]

    @cached_property
    def splits(self) -> list[Split]:
        """The natural ones, then those drawn again, then the nested ones."""
        return [*self.natural, *self.drawn, *self.nested.values()]

    @property
    def again(self) -> frozenset[int]:
        """Positions of those that are drawn again."""
        return frozenset(range(len(self.natural), len(self.natural) + len(self.drawn)))

    def at(self, part: int, batch: int) -> int:
        """Position of a batch among all splits."""
        return part if batch == 0 else len(self.natural) + part * (len(self.rows[part]) - 1) + batch - 1

    @cached_property
    def nested_at(self) -> dict[tuple[int, int], int]:
        """Positions of nested splits, by fold and part."""
        first = len(self.natural) + len(self.drawn)
        return {key: first + i for i, key in enumerate(self.nested)}


def nested_splits(samples: Samples, natural: Sequence[Split], folds: CrossFittingFolds) -> dict[tuple[int, int], Split]:
    """Splits that hold out one part, and train without another as well, by the other's fold and the part.

    What is fitted for a part by what models say of other parts has seen its labels if these models were trained on it:
    two parts that resemble each other by chance make the same models look good on both. That is worth two points of
    accuracy on pure noise with 25 samples in each of five domains, and less the more samples there are. So models are
    trained without each pair of parts where data are few. Where they are many that takes too long, and there is none.
    """
    m = len(natural)
    rows = max(len(train) + len(test) for train, test in natural)
    n_classes = len(np.unique(np.concatenate([samples.codes[test] for _, test in natural])))
    work = m * (m - 1) // 2 * rows * n_classes
    if m < MIN_NESTED_DOMAINS or len(folds.kept) < m or rows > MAX_NESTED_ROWS or work > MAX_NESTED_WORK:
        return {}
    found = {}
    for fold, part in np.argwhere(folds.kept).tolist():
        train = np.intersect1d(natural[fold][0], natural[part][0], assume_unique=True)
        found[fold, part] = (train, natural[part][1])
    return found


@dataclass(frozen=True)
class EnsembleTrial:
    """A pool on every held-out part: nothing that is applied to a part was fitted on it."""

    name: str
    kind: str
    scores: Array  # (2, m), times 100: on natural and on skewed batches
    chosen: bool = False
    guard: str = ""  # why the step that it adds is or is not taken


@dataclass(frozen=True)
class FittedEnsemble:
    """A pool of candidates, and what it is worth on held-out parts.

    Members, weights, temperatures and smoothing are fitted on all held-out parts. What is reported about a part, in
    `held_out`, `scores`, `calibration`, `guards` and `tried`, is cross-fitted: the same were fitted on other parts,
    which share no sample with it, and applied to it.

    Attributes
    ----------
    members : list of Candidate
        Those that matter, the weightiest first.
    weights, betas : ndarray of shape (n_members,)
        Their shares, and the inverse temperatures of their votes.
    smoothing : float
        Strength of smoothing among neighbors of a batch; 0 for none.
    sharpness : float
        Inverse temperature of the pool itself, which is applied last.
    held_out : list of ndarray of shape (n_k, n_classes)
        Probabilities of the rows of each held-out part, under the class frequencies of training, which may be balanced.
    codes : list of ndarray of shape (n_k,)
        Their true classes.
    scores : ndarray of shape (n_parts,)
        Scores of these probabilities; NaN where the metric is not defined.
    score_range : tuple of float
        The least and the largest score that the metric can have.
    calibration : dict
        Of these probabilities; `before` they were tempered, and `after`.
    guards : list of AcceptanceTest
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
    scores: Array
    score_range: tuple[float, float]
    calibration: dict[str, Any]
    guards: list[AcceptanceTest] = field(default_factory=list)
    tried: list[EnsembleTrial] = field(default_factory=list)
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
        return next(one.name for one in self.tried if one.chosen)

    @property
    def table(self) -> list[dict[str, Any]]:
        """Members in plain values."""
        shares = zip(self.members, self.weights.tolist(), strict=True)
        return [{"model": one.variant, "weight": w, "kind": one.kind, "params": one.params} for one, w in shares]

    @property
    def sets(self) -> ConformalSets:
        """What prediction sets follow from."""
        return ConformalSets.from_predictions(self.held_out, self.codes)

    @property
    def mean(self) -> float:
        """Of the scores, as far as they are defined."""
        return float(np.nanmean(self.scores))

    @property
    def forecast(self) -> tuple[float, float, float]:
        """What to expect on the next domain: the mean of scores on held-out parts, and a prediction interval.

        Bounded scores have at least the spread that so many samples leave.
        """
        known = np.isfinite(self.scores)
        low, high = self.score_range
        error = 0.0
        if np.isfinite(high - low) and known.any():
            share = (self.scores[known] - low) / (high - low)
            sizes = np.array([len(codes) for codes in self.codes])[known]
            error = (high - low) ** 2 * float(np.mean(np.maximum(share * (1 - share) / sizes, sizes**-2.0)))
        return forecast(self.scores[known], error, self.score_range)

    @property
    def unfitted(self) -> EnsembleClassifier:
        """What predicts, of members that somebody else asks."""
        return EnsembleClassifier(
            [one.pipeline for one in self.members],
            self.weights,
            self.betas,
            smoothing=self.smoothing,
            sharpness=self.sharpness,
            held_out=list(self.sets.scores),
            prior_ratio=self.prior_ratio,
        )

    def estimator(self, members: Sequence[Pipeline]) -> EnsembleClassifier:
        """What predicts, of fitted members."""
        return self.unfitted.with_members(members)


@dataclass(frozen=True)
class CrossFittedEnsemble:
    """A pool on held-out parts, before the last temperature; nothing that is applied to a part was fitted on it.

    Attributes
    ----------
    weights : ndarray of shape (n_folds, n_candidates)
        Fitted on the parts that each fold keeps.
    batches : list of list of ndarray
        Probabilities of the natural batch and of skewed ones, for each part.
    inner : list of dict
        For each fold, probabilities of the parts that it keeps, each by weights that saw neither it nor what the fold
        leaves out: what comes after the weights is fitted on these. Empty where nothing is left to fit such weights.
    """

    weights: Array
    batches: list[list[Array]]
    inner: list[dict[int, Array]]


@dataclass(frozen=True)
class FinishedEnsemble:
    """A pool after smoothing, if any, and the last temperature: both as deployed, and cross-fitted scores."""

    smoothing: float
    sharpness: float
    held_out: list[Array]  # probabilities of the natural batch of each part
    scores: Array  # (2, m), times 100: on natural and on skewed batches


def evaluate_and_fit_ensemble(
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
) -> tuple[list[CandidateResult], FittedEnsemble]:
    """Ask all candidates, and pool them, or pick one `among` some; the best settings of each variant, and the pool."""
    check_comparison_size(len(samples.classes), len(splits))
    few = _limit_held_out_rows(samples, splits, len(candidates))
    trials = TrialSplits.from_splits(samples, few, skewed=pool and transductive)
    how = {"preparation": preparation, "balance": balance, **work}
    said = evaluate_candidates(
        candidates, samples, trials.splits, scoring=DECISION_SCORES[0], again=trials.again, **how
    )
    ballot = OutOfDomainPredictions.from_predictions(candidates, samples, trials, said, scoring, balance)
    pooling = ballot.chosen(preparation, pool=pool, transductive=transductive, among=among)
    return ballot.field(skewed=pool and transductive), pooling


def _limit_held_out_rows(samples: Samples, splits: Sequence[Split], n_candidates: int) -> Sequence[Split]:
    """The same, or with so few samples held out that all votes on them have room in memory: thousands of classes do."""
    most, total = MAX_DECISION_SCORES // (n_candidates * len(samples.classes)), sum(len(test) for _, test in splits)
    if total <= most:
        return splits
    sizes = [max(most * len(test) // total, MIN_HELD_OUT_ROWS) for _, test in splits]
    rng, parts = np.random.default_rng(0), zip(splits, sizes, strict=True)
    return [(train, np.sort(rng.permutation(test)[:n])) for (train, test), n in parts]


def _prepared(samples: Samples, split: Split, preparation: Any) -> Any:
    """What is held out, as models see it: neighbors are looked for there."""
    train, test = (_safe_indexing(samples.X, rows) for rows in split)
    return test if preparation is None else clone(preparation).fit(train).transform(test)


@dataclass
class OutOfDomainPredictions:
    """Votes of candidates on trials, their temperatures, and how votes are scored.

    The pool that is deployed is fitted on all held-out parts. Whatever is reported about a part is cross-fitted: see
    `CrossFittingFolds` and `nested_splits`.
    """

    candidates: Sequence[Candidate]
    samples: Samples
    trials: TrialSplits
    votes: ScoresBySplit
    results: dict[str, Any]
    betas: Array  # (J,), fitted on all held-out parts; NaN for candidates that did not vote on every trial
    fold_betas: Array  # (F, J), fitted on the parts that each fold keeps
    score: Scorer
    weights: list[Array] | None
    balance: Balance = "none"

    @classmethod
    def from_predictions(
        cls,
        candidates: Sequence[Candidate],
        samples: Samples,
        trials: TrialSplits,
        said: Iterable[Prediction],
        scoring: Scoring = "accuracy",
        balance: Balance = "none",
    ) -> OutOfDomainPredictions:
        """Temper the votes of all who voted on every trial, and score them on natural ones."""
        told = list(said)
        votes = {(p.candidate, p.split): p.responses["votes"] for p in told if p.codes is not None}
        nested = frozenset(trials.nested_at.values())
        lost = {p.candidate for p in told if p.codes is None and p.split not in nested}
        parts = [test for _, test in trials.natural]
        codes = [samples.codes[test] for test in parts]
        weighing = balance != "none" or samples.weight is not None
        weights = [np.asarray(samples.weights(test, balance)) for test in parts] if weighing else None
        folds = trials.folds
        betas = np.full((len(folds.kept) + 1, len(candidates)), np.nan)  # of each fold, then of all parts
        for j in set(range(len(candidates))) - lost:
            betas[:, j] = _cross_fitted_temperatures(j, votes, trials, codes, weights)

        def probable(p: Prediction) -> Prediction:
            if p.codes is None:
                return p
            beta = betas[folds.predicted_by[p.split], p.candidate]
            P = softmax(p.responses["votes"], 1.0 if np.isnan(beta) else beta)
            natural = natural_probabilities(P, samples, trials, p.split, balance)
            return replace(p, responses=_as_responses(natural, samples.classes))

        score = Scorer(scoring, samples, trials.natural)
        found = score_predictions((probable(p) for p in told if p.split < len(parts)), score)
        results = tabulate_scores(found, len(candidates), len(parts))
        score.leave_out(np.flatnonzero(~results["defined"]).tolist())
        score = Scorer(scoring, samples, trials.splits)
        return cls(candidates, samples, trials, votes, results, betas[-1], betas[:-1], score, weights, balance)

    @property
    def folds(self) -> CrossFittingFolds:
        """The folds of cross-fitting."""
        return self.trials.folds

    @cached_property
    def codes(self) -> list[Ints]:
        """True classes of each held-out part."""
        return [self.samples.codes[test] for _, test in self.trials.natural]

    @cached_property
    def fold_results(self) -> list[dict[str, Any]]:
        """Scores of all candidates as each fold knows them, on the parts that it keeps."""
        if not self.trials.nested:
            return [restrict_results(self.results, kept) for kept in self.folds.kept]
        found = []
        for fold, kept in enumerate(self.folds.kept):
            scores = np.full_like(self.results["scores"], np.nan)
            betas = np.nan_to_num(self.fold_betas[fold], nan=1.0)
            for j, k in product(range(len(scores)), np.flatnonzero(kept).tolist()):
                if np.isfinite(self.results["scores"][j, k]):
                    P = softmax(_scores_in_fold(self.votes, self.trials, j, k, fold), betas[j])
                    scores[j, k] = self._score_split(self.trials.nested_at[fold, k], P)
            found.append(restrict_results({**self.results, "scores": scores}, kept & np.isfinite(scores).any(axis=0)))
        return found

    def field(self, *, skewed: bool = False) -> list[CandidateResult]:
        """The best settings of each variant; what they score on skewed batches takes a moment more."""
        found = best_by_variant(self.candidates, self.results, self.folds, self.fold_results)
        return [replace(one, skewed=self._skewed(one)) for one in found] if skewed else found

    def _skewed(self, contender: CandidateResult) -> float:
        """Mean score of a contender on skewed batches."""
        positions = [self.position(candidate) for candidate in contender.scored]
        if np.isnan(self.betas[positions]).any():
            return np.nan
        batches = []
        for k, j in enumerate(positions):
            alone = (np.arange(len(self.candidates)) == j).astype(float)
            batches.append(self._batches(k, alone, self.fold_betas[self.folds.predicted_by[k]]))
        scores = score_trials(batches, self._score_batch)[1]
        return float(np.nanmean(scores) / 100) if np.isfinite(scores).any() else np.nan

    def chosen(
        self,
        preparation: Any = None,
        *,
        pool: bool = True,
        transductive: bool = True,
        among: Sequence[Candidate] | None = None,
    ) -> FittedEnsemble:
        """The pool, or one candidate, of all or `among` some; neighbors are looked for behind the preparation."""
        allowed = set(map(id, self.candidates if among is None else among))
        best = self._best(self.results, allowed)  # raises if nobody could be scored
        if pool:
            parts = self.trials.natural if transductive else []
            return self.pooled([_prepared(self.samples, part, preparation) for part in parts] or None, among)
        by_fold = [self._best(results, allowed) for results in self.fold_results]
        return self.picked(best, [by_fold[fold] for fold in self.folds.predicted_by])

    def _best(self, results: dict[str, Any], allowed: set[int]) -> Candidate:
        """The candidate to pick, by scores on the parts that count in these results."""
        if not results["defined"].any():  # nothing is left to choose by
            return self.candidates[best_index(results, [j for j, c in enumerate(self.candidates) if id(c) in allowed])]
        rivals = best_by_variant(self.candidates, results, self.folds)
        return select_result([one for one in rivals if id(one.candidate) in allowed]).candidate

    def position(self, candidate: Candidate) -> int:
        """Where a candidate is among all."""
        return next(j for j, other in enumerate(self.candidates) if other is candidate)

    def picked(self, candidate: Candidate, scored: Sequence[Candidate] | None = None) -> FittedEnsemble:
        """A pool of one; `scored` are the candidates that were picked without each part, and are scored on it."""
        j = self.position(candidate)
        positions = [j if scored is None else self.position(scored[k]) for k in range(len(self.codes))]
        raw, held_out = [], []
        for k, at in enumerate(positions):
            raw.append(softmax(self.votes[at, k]))
            held_out.append(softmax(self.votes[at, k], self.fold_betas[self.folds.predicted_by[k], at]))
        return FittedEnsemble(
            members=[candidate],
            weights=np.ones(1),
            betas=self.betas[[j]],
            smoothing=0.0,
            sharpness=1.0,
            held_out=held_out,
            codes=self.codes,
            scores=self.results["scores"][positions, np.arange(len(positions))],
            score_range=metric_range(self.score.scoring, len(self.samples.classes)),
            calibration=self._calibration(raw, held_out),
            prior_ratio=self._prior_ratio(),
        )

    def pooled(self, features: Sequence[Any] | None, among: Sequence[Candidate] | None = None) -> FittedEnsemble:
        """The pool; with the features of held-out parts, steps that look at batches are tried, and guarded."""
        wanted = set(map(id, self.candidates if among is None else among))
        voting = np.array([id(candidate) in wanted for candidate in self.candidates]) & np.isfinite(self.betas)
        inductive = voting & np.array([not candidate.transductive for candidate in self.candidates])
        masks = {INDUCTIVE_ENSEMBLE: inductive} if inductive.any() else {}
        masks |= {FULL_ENSEMBLE: voting} if not np.array_equal(inductive, voting) else {}
        fits = self._cross_fits(masks)
        name, *others = masks
        best = self._finished(fits[name])
        found, guards = [EnsembleTrial(name, self._kind(masks[name]), best.scores)], list[AcceptanceTest]()
        for bold in others:
            finished = self._finished(fits[bold])
            guards.append(compare_trials("The pool with transductive members", best.scores, finished.scores))
            found.append(EnsembleTrial(bold, "transductive", finished.scores, guard=guards[-1].reason))
            if guards[-1].adopts:
                name, best = bold, finished
        used = name
        if features is not None:
            smooth = self._finished(fits[name], self._graphs(features))
            step = f"Smoothing by neighbors (strength {smooth.smoothing:g})"
            guards.append(compare_trials(step, best.scores, smooth.scores))
            found.append(EnsembleTrial(f"{name}, smoothed", "transductive", smooth.scores, guard=guards[-1].reason))
            if guards[-1].adopts:
                used, best = found[-1].name, smooth
        fold_weights = fits[name].weights[self.folds.predicted_by]
        raw = [average_members(weights, self._members(k)) for k, weights in enumerate(fold_weights)]
        members, weights, betas = self.shares(masks[name])
        return FittedEnsemble(
            members=members,
            weights=weights,
            betas=betas,
            smoothing=best.smoothing,
            sharpness=best.sharpness,
            held_out=best.held_out,
            codes=self.codes,
            scores=best.scores[0] / 100,
            score_range=metric_range(self.score.scoring, len(self.samples.classes)),
            calibration=self._calibration(raw, best.held_out),
            guards=guards,
            prior_ratio=self._prior_ratio(),
            tried=[replace(one, chosen=one.name == used) for one in found],
        )

    def shares(self, mask: Mask) -> tuple[list[Candidate], Array, Array]:
        """Who is in the pool of some candidates, the weightiest first, with what weights and temperatures."""
        P = [self._members(k, self.betas) for k in range(len(self.codes))]
        weights = fit_ensemble_weights(P, self.codes, members=mask & np.isfinite(self.betas), weights=self.weights)
        weights = prune_weights(weights, P, self.codes)
        kept = [int(j) for j in np.argsort(-weights, kind="stable") if weights[j] > 0]
        return [self.candidates[j] for j in kept], weights[kept], self.betas[kept]

    def _cross_fits(self, masks: Mapping[str, Mask]) -> dict[str, CrossFittedEnsemble]:
        """Pools of some candidates, fitted without each fold and, to go on from there, without each pair of folds."""
        folds, m = self.folds, len(self.codes)
        shape = len(folds.kept), len(self.candidates)
        found = {name: CrossFittedEnsemble(np.empty(shape), [[] for _ in range(m)], []) for name in masks}
        for fold, kept in enumerate(folds.kept):
            parts, betas = np.flatnonzero(kept).tolist(), self.fold_betas[fold]
            P = [self._members(k, betas, fold) for k in parts]
            codes = [self.codes[k] for k in parts]
            rows = None if self.weights is None else [self.weights[k] for k in parts]
            others, pairs = folds.inner(fold)
            fits = np.vstack([kept, pairs])[:, parts]  # which of the parts are fitted on, without a fold and two
            for name, mask in masks.items():
                if parts:
                    weights = fit_ensemble_weights(P, codes, members=mask, weights=rows, kept=fits)
                    for b, own in enumerate(map(np.flatnonzero, fits)):
                        if len(own):
                            weights[b] = prune_weights(weights[b], [P[i] for i in own], [codes[i] for i in own])
                else:
                    weights = (mask / mask.sum())[None]
                found[name].weights[fold] = weights[0]
                for k in np.flatnonzero(folds.predicted_by == fold).tolist():
                    found[name].batches[k].extend(self._batches(k, weights[0], betas))
                inner = {}
                for k, members in zip(parts, P, strict=True):
                    pair = int(np.searchsorted(others, folds.predicted_by[k]))
                    if pairs[pair].any():
                        inner[k] = average_members(weights[1 + pair], members)
                found[name].inner.append(inner)
        return found

    def _graphs(self, features: Sequence[Any]) -> list[list[Any]]:
        """Neighbors within every batch of every part."""
        return [
            [neighbor_graph(_safe_indexing(X, rows)) for rows in parts]
            for X, parts in zip(features, self.trials.rows, strict=True)
        ]

    def _finished(self, fit: CrossFittedEnsemble, graphs: Sequence[Sequence[Any]] | None = None) -> FinishedEnsemble:
        """A pool with its last temperature, and smoothed if there are graphs of neighbors."""
        folds = self.folds
        fold_steps = [self._last_steps(inner, graphs) for inner in fit.inner]
        fitted = {k: own[0] for k, own in enumerate(fit.batches) if folds.kept[folds.predicted_by[k]].any()}
        smoothing, sharpness = self._last_steps(fitted, graphs)
        batches = []
        for k, own in enumerate(fit.batches):
            strength, beta = fold_steps[folds.predicted_by[k]]
            smooth = (
                own if graphs is None else [smooth_probabilities(P, graphs[k][b], strength) for b, P in enumerate(own)]
            )
            batches.append([apply_inverse_temperature(P, beta) for P in smooth])
        return FinishedEnsemble(
            smoothing, sharpness, [own[0] for own in batches], score_trials(batches, self._score_batch)
        )

    def _last_steps(self, natural: Mapping[int, Array], graphs: Sequence[Sequence[Any]] | None) -> tuple[float, float]:
        """Strength of smoothing and last inverse temperature, by what a pool says of some parts as they are.

        The strength is that of the best mean score, of equals the weakest. Without any parts it is the weakest, and the
        temperature is 1.
        """
        strengths = (0.0,) if graphs is None else SMOOTHING_STRENGTHS
        if not natural:
            return strengths[0], 1.0
        codes = [self.codes[k] for k in natural]
        weights = None if self.weights is None else [self.weights[k] for k in natural]
        betas, means = [], []
        for strength in strengths:
            P = [p if graphs is None else smooth_probabilities(p, graphs[k][0], strength) for k, p in natural.items()]
            with np.errstate(divide="ignore"):
                betas.append(fit_temperature([np.log(p) for p in P], codes, weights))
            if graphs is None:
                return strength, betas[0]
            scores = [
                self._score_batch(k, 0, apply_inverse_temperature(p, betas[-1]))
                for k, p in zip(natural, P, strict=True)
            ]
            means.append(float(np.nanmean(scores)) if np.isfinite(scores).any() else -np.inf)
        best = int(np.argmax(means))
        return strengths[best], betas[best]

    def _kind(self, mask: Mask) -> str:
        kinds = {self.candidates[j].kind for j in np.flatnonzero(mask).tolist()}
        return max(kinds, key=["plain", "inductive", "transductive"].index)

    def _members(self, k: int, betas: Array | None = None, fold: int | None = None) -> Array:
        """What all say of a held-out part as it is: (J, n_k, C), tempered or not; 0 for who did not vote.

        With a fold, by models that did not see what it leaves out, if there are any.
        """
        P = np.zeros((len(self.candidates), len(self.codes[k]), len(self.samples.classes)))
        for j in np.flatnonzero(np.isfinite(self.betas)).tolist():
            votes = self.votes[j, k] if fold is None else _scores_in_fold(self.votes, self.trials, j, k, fold)
            P[j] = softmax(votes, 1.0 if betas is None else betas[j])
        return P

    def _batches(self, k: int, weights: Array, betas: Array) -> Iterator[Array]:
        """What a pool says of each batch of a held-out part; inductive members say the same of a row in every one."""
        still = np.array([not candidate.transductive for candidate in self.candidates])
        steady = np.zeros((len(self.codes[k]), len(self.samples.classes)))
        for j in np.flatnonzero(still & (weights > 0)).tolist():
            steady += weights[j] * softmax(self.votes[j, k], betas[j])
        moving = np.flatnonzero(~still & (weights > 0)).tolist()
        for b, rows in enumerate(self.trials.rows[k]):
            mixed = steady[rows]
            for j in moving:
                mixed = mixed + weights[j] * softmax(self.votes[j, self.trials.at(k, b)], betas[j])
            yield mixed

    def _score_batch(self, k: int, b: int, P: Array) -> float:
        return self._score_split(self.trials.at(k, b), P)

    def _score_split(self, split: int, P: Array) -> float:
        responses = _as_responses(self._natural(P, split), self.samples.classes)
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
        return {when: calibration_table(P, self.codes, weights) for when, P in said.items()}


def natural_probabilities(P: Array, samples: Samples, trials: TrialSplits, split: int, balance: Balance) -> Array:
    """Probabilities of held-out rows under the natural class frequencies of the rows that were trained on.

    Models that are trained with balanced classes estimate probabilities under equal class frequencies.
    """
    train, _ = trials.splits[split]
    ratio = samples.prior_ratio(train, balance)
    return P if ratio is None else adjust_priors(P, ratio)


def _scores_in_fold(votes: ScoresBySplit, trials: TrialSplits, j: int, k: int, fold: int) -> Array:
    """Votes of a candidate on a part by a model that was not trained on what the fold leaves out, if there is one.

    There is none without nested splits, or if the candidate could not be trained on so few parts.
    """
    return votes.get((j, trials.nested_at.get((fold, k), k)), votes[j, k])


def _cross_fitted_temperatures(
    j: int, votes: ScoresBySplit, trials: TrialSplits, codes: list[Ints], weights: list[Array] | None
) -> Array:
    """Inverse temperatures (F + 1,) of a candidate: by the parts that each fold keeps, and by all parts."""
    parts, kept = range(len(codes)), trials.folds.kept
    every = np.ones((1, len(codes)), dtype=bool)
    natural = [votes[j, k] for k in parts]
    if not trials.nested:
        return fit_temperatures(natural, codes, np.vstack([kept, every]), weights)
    found = [
        fit_temperatures([_scores_in_fold(votes, trials, j, k, fold) for k in parts], codes, own[None], weights)
        for fold, own in enumerate(kept)
    ]
    return np.concatenate([*found, fit_temperatures(natural, codes, every, weights)])


def _as_responses(P: Array, classes: Labels) -> dict[str, Any]:
    """Probabilities in every form that a scorer may ask for."""
    logits = np.log(np.maximum(P, MIN_PROBABILITY))
    decisions = logits[:, 1] - logits[:, 0] if len(classes) == 2 else logits
    return {"predict_proba": P, "decision_function": decisions, "classes_": classes}


def make_leaderboard(
    field: Sequence[CandidateResult], pooling: FittedEnsemble, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Pools and contenders as rows of plain values, best first."""
    shares: dict[str, float] = {}
    for member, share in zip(pooling.members, pooling.weights.tolist(), strict=True):
        shares[member.variant] = shares.get(member.variant, 0.0) + share
    rows = [
        {**result_row(one, names), "weight": shares.get(one.name, 0.0), "guard": "", "chosen": False} for one in field
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
            "skewed": float(np.nanmean(one.scores[1])) / 100 if np.isfinite(one.scores[1]).any() else np.nan,
            "params": {},
            "seconds": 0.0,
            "weight": float(one.chosen),
            "guard": one.guard,
            "chosen": one.chosen,
        }
        for one in pooling.tried
    ]
    return sorted(rows, key=lambda row: -np.nan_to_num(row["mean"], nan=-np.inf))
