"""From out-of-domain predictions to an ensemble: members, weights, calibration, and cross-fitted scores.

Nothing is fitted to samples here. `evaluate_candidates` has predicted every held-out part with every candidate, and
skewed batches of these parts with transductive candidates; everything else is a function of these predictions. The
parameters of the deployed ensemble are fitted on all held-out parts. Everything that is reported about a part is
cross-fitted: it was fitted without that part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ..adaptation import HeldOutDomain, limit_held_out_domains
from ..linalg import Array, Ints
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels
from ._acceptance import AcceptanceTest, score_trials
from ._calibration import (
    IDENTITY,
    LogitCalibration,
    Mask,
    adjust_priors,
    calibration_table,
    domain_log_losses,
    fit_last_temperature,
    fit_logit_calibration,
    fit_temperatures,
    softmax,
)
from ._candidate import Candidate
from ._comparison import (
    KINDS_BY_SIMPLICITY,
    CandidateResult,
    best_by_variant,
    forecast,
    restrict_results,
    select_result,
    standard_error,
)
from ._conformal import ConformalSets
from ._cross_fitting import CrossFittingFolds
from ._ensemble import SMOOTHING_STRENGTHS, EnsembleClassifier, neighbor_graph, smooth_probabilities
from ._ensemble_weights import average_members, fit_ensemble_weights, prune_weights
from ._evaluation import SMALLEST_PROBABILITY, Prediction
from ._forecast import Forecast
from ._metrics import Metric, Scoring, get_metric, metric_range
from ._preparation import prepare_samples
from ._splitters import Split, TrialSplits
from ._validation import Scorer, best_index, score_predictions, tabulate_scores

INDUCTIVE_ENSEMBLE = "ensemble of inductive models"
FULL_ENSEMBLE = "ensemble of all models"
# Groups of parts that are left out of the fit of a calibration in turn, to compare it with none.
N_CALIBRATION_GROUPS = 3
# Held-out rows to which temperatures of candidates and weights are fitted. The last calibration, scores, thresholds and
# prediction sets use all of them.
MAX_WEIGHT_ROWS = 8_000
ScoresBySplit = Mapping[tuple[int, int], Array]  # decision scores by candidate and split


@dataclass(frozen=True)
class EnsembleTrial:
    """An ensemble evaluated on every held-out part; nothing that is applied to a part was fitted on it."""

    name: str
    kind: str
    scores: Array  # (2, m), times 100: on natural and on skewed batches
    is_selected: bool = False
    reason: str = ""  # why the step that it adds is or is not used


@dataclass(frozen=True)
class FittedEnsemble:
    """A selected ensemble of candidates, and its cross-fitted performance on held-out parts.

    Members, weights, calibration and smoothing are fitted on all held-out parts. What is reported about a part, in
    `held_out`, `scores`, `calibration`, `acceptance_tests` and `trials`, is cross-fitted: the same were fitted on other
    parts, which share no sample with it, and applied to it.

    Attributes
    ----------
    members : list of Candidate
        Members in order of decreasing weight.
    weights, inverse_temperatures : ndarray of shape (n_members,)
        Their weights, and the inverse temperatures of their decision scores.
    smoothing : float
        Strength of smoothing among neighbors of a batch; 0 for none.
    logit_calibration : LogitCalibration
        Slope and class offsets of the ensemble itself, which are applied last.
    held_out : list of ndarray of shape (n_k, n_classes)
        Probabilities of the rows of each held-out part, under the class frequencies of training, which may be balanced.
    codes : list of ndarray of shape (n_k,)
        Their true classes.
    domains : list of str
        The domain of the first row of each part.
    scores : ndarray of shape (n_parts,)
        Scores of these probabilities; NaN where the metric is not defined.
    score_range : tuple of float
        The smallest and the largest value of the metric.
    is_share : bool
        Whether scores are shares of rows, as accuracy is.
    metric : Metric
        Names of the metric.
    calibration : dict
        Calibration of these probabilities "before" and "after" temperatures, slope and offsets.
    acceptance_tests : list of AcceptanceTest
        Tests of the transductive steps.
    trials : list of EnsembleTrial
        The ensembles that were compared.
    prior_ratio : ndarray of shape (n_classes,) or None
        Natural class frequencies over those of training, if classes were balanced.
    """

    members: list[Candidate]
    weights: Array
    inverse_temperatures: Array
    smoothing: float
    logit_calibration: LogitCalibration
    held_out: list[Array]
    codes: list[Ints]
    domains: list[str]
    scores: Array
    score_range: tuple[float, float]
    is_share: bool
    metric: Metric
    calibration: dict[str, Any]
    acceptance_tests: list[AcceptanceTest] = field(default_factory=list)
    trials: list[EnsembleTrial] = field(default_factory=list)
    prior_ratio: Array | None = None

    @property
    def is_transductive(self) -> bool:
        """Whether predictions depend on the other samples of their domain."""
        return self.smoothing > 0 or any(member.transductive for member in self.members)

    @property
    def kind(self) -> str:
        """One of "plain", "inductive" and "transductive"."""
        if self.is_transductive:
            return "transductive"
        return "plain" if all(member.kind == "plain" for member in self.members) else "inductive"

    @property
    def name(self) -> str:
        """Name of the ensemble; of a single member, the name of that member."""
        if len(self.members) == 1 and not self.smoothing:
            return self.members[0].variant
        return next(trial.name for trial in self.trials if trial.is_selected)

    @property
    def member_table(self) -> list[dict[str, Any]]:
        """Members in plain values, in order of decreasing weight."""
        return [
            {"model": member.variant, "weight": weight, "kind": member.kind, "params": member.params}
            for member, weight in zip(self.members, self.weights.tolist(), strict=True)
        ]

    @property
    def conformal_sets(self) -> ConformalSets:
        """Prediction sets from the cross-fitted probabilities."""
        return ConformalSets.from_predictions(self.held_out, self.codes)

    @property
    def mean(self) -> float:
        """Mean score over held-out parts on which the metric is defined."""
        return float(np.nanmean(self.scores))

    @property
    def forecast(self) -> Forecast:
        """Expected score on a new domain, with its 95% prediction interval."""
        is_defined = np.isfinite(self.scores)
        n_rows = np.array([len(codes) for codes in self.codes])[is_defined] if self.is_share else None
        scores = self.scores[is_defined]
        mean, lower, upper = forecast(scores, bounds=self.score_range, n_rows=n_rows)
        return Forecast(
            mean,
            lower,
            upper,
            metric=self.metric.label,
            scores=tuple(scores.tolist()),
            bounds=self.score_range,
            is_percent=self.metric.percent,
        )

    def to_dict(self) -> dict[str, Any]:
        """The one description of an ensemble in plain values, for model cards and reports."""
        return {
            "name": self.name,
            "kind": self.kind,
            "members": self.member_table,
            "smoothing": self.smoothing,
            "decisions": [test.reason for test in self.acceptance_tests],
            "acceptance_tests": [
                {
                    "step": test.step,
                    "is_used": test.is_accepted,
                    "natural": test.natural.tolist(),
                    "skewed": test.skewed.tolist(),
                    "min_gain": test.min_gain,
                    "reason": test.reason,
                }
                for test in self.acceptance_tests
            ],
            "trials": [
                {
                    "name": trial.name,
                    "kind": trial.kind,
                    "scores": np.nan_to_num(trial.scores).tolist(),
                    "is_selected": trial.is_selected,
                }
                for trial in self.trials
            ],
            "calibration": self.calibration,
            "forecast": (self.forecast.mean, self.forecast.lower, self.forecast.upper),
        }

    def to_estimator(self) -> EnsembleClassifier:
        """The ensemble as an estimator, with members that are not fitted."""
        sets = self.conformal_sets
        natural = self.held_out
        if self.prior_ratio is not None:
            natural = [adjust_priors(P, self.prior_ratio) for P in natural]
        held_out = map(HeldOutDomain, self.domains, natural, self.codes)
        return EnsembleClassifier(
            [member.pipeline for member in self.members],
            self.weights,
            self.inverse_temperatures,
            smoothing=self.smoothing,
            inverse_temperature=self.logit_calibration.slope,
            calibration_offsets=self.logit_calibration.offsets,
            conformal_scores=list(sets.scores),
            conformal_codes=None if sets.codes is None else list(sets.codes),
            prior_ratio=self.prior_ratio,
            held_out=[tuple(domain) for domain in limit_held_out_domains(list(held_out))],
            raw_members=[j for j, member in enumerate(self.members) if member.features == "raw"],
        )


@dataclass(frozen=True)
class CrossFittedEnsemble:
    """Predictions of an ensemble for held-out parts, before the last calibration, with cross-fitted weights.

    Attributes
    ----------
    weights : ndarray of shape (n_folds, n_candidates)
        Fitted on the parts that each fold keeps.
    batches : list of list of ndarray
        Probabilities of the natural batch and of skewed ones, for each part.
    inner : list of dict
        For each fold, probabilities of the parts that it keeps, each with weights fitted without that part and without
        the parts that the fold leaves out: the steps after the weights are fitted on these. Empty where nothing is left
        to fit such weights.
    deployed : dict
        The same for the deployed ensemble, which leaves out nothing: probabilities of each part with the temperatures
        of all parts and weights fitted without that part.
    """

    weights: Array
    batches: list[list[Array]]
    inner: list[dict[int, Array]]
    deployed: dict[int, Array]


@dataclass(frozen=True)
class FinishedEnsemble:
    """An ensemble after smoothing, if any, and the last calibration: deployed parameters and cross-fitted scores."""

    smoothing: float
    logit_calibration: LogitCalibration
    held_out: list[Array]  # probabilities of the natural batch of each part
    scores: Array  # (2, m), times 100: on natural and on skewed batches


@dataclass
class OutOfDomainPredictions:
    """What candidates trained without each held-out part predict for it; the input of every selection.

    Attributes
    ----------
    candidates : sequence of Candidate
        The candidates.
    samples : Samples
        All rows.
    trials : TrialSplits
        The splits.
    decision_scores : mapping
        Decision scores by candidate and split.
    results : dict
        Scores of all candidates on natural splits: see `tabulate_scores`.
    inverse_temperatures : ndarray of shape (n_candidates,)
        Fitted on all held-out parts; NaN for candidates without predictions for some trial.
    fold_inverse_temperatures : ndarray of shape (n_folds, n_candidates)
        Fitted on the parts that each fold keeps.
    scorer : Scorer
        Scores predictions on all splits.
    row_weights : list of ndarray or None
        Weights of the rows of each part.
    balance : str
        What has equal weight in training.
    """

    candidates: Sequence[Candidate]
    samples: Samples
    trials: TrialSplits
    decision_scores: ScoresBySplit
    results: dict[str, Any]
    inverse_temperatures: Array
    fold_inverse_temperatures: Array
    scorer: Scorer
    row_weights: list[Array] | None
    balance: Balance = "none"

    @classmethod
    def from_predictions(
        cls,
        candidates: Sequence[Candidate],
        samples: Samples,
        trials: TrialSplits,
        predictions: Iterable[Prediction],
        scoring: Scoring = "accuracy",
        balance: Balance = "none",
    ) -> OutOfDomainPredictions:
        """Fit temperatures for candidates that predicted every trial, and score them on natural splits."""
        predictions = list(predictions)
        decision_scores = {
            (p.candidate, p.split): p.responses["decision_scores"] for p in predictions if p.codes is not None
        }
        nested = frozenset(trials.nested_positions.values())
        failed = {p.candidate for p in predictions if p.codes is None and p.split not in nested}
        parts = [test for _, test in trials.natural]
        codes = [samples.codes[test] for test in parts]
        row_weights = None
        if balance != "none" or samples.weight is not None:
            row_weights = [np.asarray(samples.weights(test, balance)) for test in parts]
        folds = trials.folds
        # Inverse temperatures of each fold, then those of all parts.
        temperatures = np.full((len(folds.kept) + 1, len(candidates)), np.nan)
        for j in set(range(len(candidates))) - failed:
            temperatures[:, j] = _cross_fit_temperatures(j, decision_scores, trials, codes, row_weights)

        def with_probabilities(prediction: Prediction) -> Prediction:
            if prediction.codes is None:
                return prediction
            beta = temperatures[folds.predicted_by[prediction.split], prediction.candidate]
            P = softmax(prediction.responses["decision_scores"], 1.0 if np.isnan(beta) else beta)
            natural = natural_probabilities(P, samples, trials, prediction.split, balance)
            return replace(prediction, responses=_as_responses(natural, samples.classes))

        natural_scorer = Scorer(scoring, samples, trials.natural)
        natural_predictions = (with_probabilities(p) for p in predictions if p.split < len(parts))
        scores = score_predictions(natural_predictions, natural_scorer)
        results = tabulate_scores(scores, len(candidates), len(parts))
        natural_scorer.warn_undefined(np.flatnonzero(~results["defined"]).tolist())
        return cls(
            candidates,
            samples,
            trials,
            decision_scores,
            results,
            inverse_temperatures=temperatures[-1],
            fold_inverse_temperatures=temperatures[:-1],
            scorer=Scorer(scoring, samples, trials.splits),
            row_weights=row_weights,
            balance=balance,
        )

    @property
    def folds(self) -> CrossFittingFolds:
        """The folds of cross-fitting."""
        return self.trials.folds

    @property
    def domains(self) -> list[str]:
        """The domain of the first row of each held-out part."""
        return [str(self.samples.domain[test[0]]) for _, test in self.trials.natural]

    @cached_property
    def codes(self) -> list[Ints]:
        """True classes of each held-out part."""
        return [self.samples.codes[test] for _, test in self.trials.natural]

    @cached_property
    def fold_results(self) -> list[dict[str, Any]]:
        """Scores of all candidates for each fold, on the parts that it keeps."""
        if not self.trials.nested:
            return [restrict_results(self.results, kept) for kept in self.folds.kept]
        fold_results = []
        for fold, kept in enumerate(self.folds.kept):
            scores = np.full_like(self.results["scores"], np.nan)
            betas = np.nan_to_num(self.fold_inverse_temperatures[fold], nan=1.0)
            for j, k in product(range(len(scores)), np.flatnonzero(kept).tolist()):
                if np.isfinite(self.results["scores"][j, k]):
                    P = softmax(_scores_in_fold(self.decision_scores, self.trials, j, k, fold), betas[j])
                    scores[j, k] = self._score_split(self.trials.nested_positions[fold, k], P)
            counted = kept & np.isfinite(scores).any(axis=0)
            fold_results.append(restrict_results({**self.results, "scores": scores}, counted))
        return fold_results

    def candidate_results(self, *, skewed: bool = False) -> list[CandidateResult]:
        """Results of the best settings of each variant; with `skewed` also on skewed batches, which takes longer."""
        results = best_by_variant(self.candidates, self.results, self.folds, self.fold_results)
        return [replace(result, skewed=self._skewed_score(result)) for result in results] if skewed else results

    def _skewed_score(self, result: CandidateResult) -> float:
        """Mean score of a candidate on skewed batches."""
        positions = [self.position(candidate) for candidate in result.scored]
        if np.isnan(self.inverse_temperatures[positions]).any():
            return np.nan
        batches = []
        for k, j in enumerate(positions):
            weights = (np.arange(len(self.candidates)) == j).astype(float)
            batches.append(self._batches(k, weights, self.fold_inverse_temperatures[self.folds.predicted_by[k]]))
        scores = score_trials(batches, self._score_batch)[1]
        return float(np.nanmean(scores) / 100) if np.isfinite(scores).any() else np.nan

    def select(
        self,
        preparation: Any = None,
        *,
        ensemble: bool = True,
        transductive: bool = True,
        among: Sequence[Candidate] | None = None,
    ) -> FittedEnsemble:
        """Fit the ensemble, or select one candidate, of all or `among` some.

        Neighbors for smoothing are searched among features that the `preparation` gives. Raises ValueError if no
        candidate has a score.
        """
        allowed = set(map(id, self.candidates if among is None else among))
        best = self._best(self.results, allowed)
        if ensemble:
            parts = self.trials.natural if transductive else []
            return self.fit_ensemble([prepare_part(self.samples, part, preparation) for part in parts] or None, among)
        return self.single_candidate(best, [self._best(results, allowed) for results in self.fold_results])

    def _best(self, results: dict[str, Any], allowed: set[int]) -> Candidate:
        """The best candidate, by scores on the parts that count in these results."""
        if not results["defined"].any():  # nothing to select by
            return self.candidates[best_index(results, [j for j, c in enumerate(self.candidates) if id(c) in allowed])]
        by_variant = best_by_variant(self.candidates, results, self.folds)
        return select_result([result for result in by_variant if id(result.candidate) in allowed]).candidate

    def position(self, candidate: Candidate) -> int:
        """Index of a candidate."""
        return next(j for j, other in enumerate(self.candidates) if other is candidate)

    def single_candidate(self, candidate: Candidate, by_fold: Sequence[Candidate] | None = None) -> FittedEnsemble:
        """An ensemble of one; `by_fold` are the candidates selected without each fold, which predict its parts."""
        j = self.position(candidate)
        fold_positions = [j if by_fold is None else self.position(one) for one in by_fold or self.folds.kept]
        steps = [self._fit_single_steps(position, fold) for fold, position in enumerate(fold_positions)]
        raw = []
        held_out = []
        for k, fold in enumerate(self.folds.predicted_by.tolist()):
            scores = self.decision_scores[fold_positions[fold], k]
            beta, calibration = steps[fold]
            raw.append(softmax(scores))
            held_out.append(calibration.apply(softmax(scores, beta)))
        beta, calibration = self._fit_single_steps(j)
        return FittedEnsemble(
            members=[candidate],
            weights=np.ones(1),
            inverse_temperatures=np.array([beta]),
            smoothing=0.0,
            logit_calibration=calibration,
            held_out=held_out,
            codes=self.codes,
            domains=self.domains,
            scores=np.array([self._score_split(k, P) for k, P in enumerate(held_out)]),
            score_range=metric_range(self.scorer.scoring, len(self.samples.classes)),
            is_share=self.scorer.scoring == "accuracy" and self.samples.weight is None,
            metric=get_metric(self.scorer.scoring),
            calibration=self._calibration(raw, held_out),
            prior_ratio=self._prior_ratio(),
        )

    def _fit_single_steps(self, position: int, fold: int | None = None) -> tuple[float, LogitCalibration]:
        """Inverse temperature and calibration of a candidate, by the parts that a fold keeps, or by all parts.

        Decision values of a classifier without probabilities have a temperature alone, so that labels stay the same.
        Probabilities are kept as they are unless calibration decreases the log loss by more than its standard error.
        """
        beta = float(self.inverse_temperatures[position])
        scores = {k: self.decision_scores[position, k] for k in range(len(self.codes))}
        if fold is not None:
            beta = float(self.fold_inverse_temperatures[fold, position])
            scores = {
                k: _scores_in_fold(self.decision_scores, self.trials, position, k, fold)
                for k in np.flatnonzero(self.folds.kept[fold]).tolist()
            }
        if not scores or not hasattr(self.candidates[position].classifier, "predict_proba"):
            return beta, IDENTITY
        tempered = {k: softmax(S, beta) for k, S in scores.items()}
        calibration = self._fit_calibration(tempered)
        codes = [self.codes[k] for k in scores]
        weights = self._weights(list(scores))
        plain = domain_log_losses([softmax(S) for S in scores.values()], codes, weights)
        calibrated = domain_log_losses([calibration.apply(P) for P in tempered.values()], codes, weights)
        gains = plain - calibrated
        return (beta, calibration) if gains.mean() > standard_error(gains) else (1.0, IDENTITY)

    def _fit_calibration(self, P: Mapping[int, Array]) -> LogitCalibration:
        """Calibration of probabilities of some parts: a temperature, or a slope and offsets if these are better.

        Parts are left out of the fit in three groups, and the log losses of each are compared. The slope, with a random
        intercept for each part, must decrease the log loss of the temperature by more than the standard error over
        parts.
        """
        if not P:
            return IDENTITY
        stride = weight_stride(self.codes)
        slope_gains: list[float] = []
        offset_gains: list[float] = []
        for group in range(N_CALIBRATION_GROUPS):
            test = [k for i, k in enumerate(P) if i % N_CALIBRATION_GROUPS == group]
            train = [k for k in P if k not in test]
            if not test or not train:
                continue
            fitted_P = [P[k][::stride] for k in train]
            fitted_codes = [self.codes[k][::stride] for k in train]
            fitted_weights = self._weights(train, stride)
            temperature = fit_last_temperature(fitted_P, fitted_codes, fitted_weights)
            calibration = fit_logit_calibration(fitted_P, fitted_codes, fitted_weights)
            losses = []
            for step in (temperature, LogitCalibration(calibration.slope), calibration):
                applied = [step.apply(P[k]) for k in test]
                losses.append(domain_log_losses(applied, [self.codes[k] for k in test], self._weights(test)))
            slope_gains += (losses[0] - losses[1]).tolist()
            offset_gains += (losses[0] - losses[2]).tolist()
        all_P = list(P.values())
        all_codes = [self.codes[k] for k in P]
        all_weights = self._weights(list(P))
        has_offsets = bool(slope_gains) and bool(np.mean(offset_gains) > np.mean(slope_gains))
        gains = np.array(offset_gains if has_offsets else slope_gains)
        if len(gains) == 0 or gains.mean() <= standard_error(gains):
            return fit_last_temperature(all_P, all_codes, all_weights)
        calibration = fit_logit_calibration(all_P, all_codes, all_weights)
        return calibration if has_offsets else LogitCalibration(calibration.slope)

    def _weights(self, parts: Sequence[int], stride: int = 1) -> list[Array] | None:
        """Weights of the rows of some parts."""
        return None if self.row_weights is None else [self.row_weights[k][::stride] for k in parts]

    def fit_ensemble(self, features: Sequence[Any] | None, among: Sequence[Candidate] | None = None) -> FittedEnsemble:
        """Fit weights and temperatures; with the features of held-out parts, transductive steps are tested too."""
        allowed = set(map(id, self.candidates if among is None else among))
        is_member = np.array([id(candidate) in allowed for candidate in self.candidates])
        is_member &= np.isfinite(self.inverse_temperatures)
        is_inductive = is_member & np.array([not candidate.transductive for candidate in self.candidates])
        masks = {INDUCTIVE_ENSEMBLE: is_inductive} if is_inductive.any() else {}
        if not np.array_equal(is_inductive, is_member):
            masks[FULL_ENSEMBLE] = is_member
        cross_fits = self._cross_fit(masks)
        name, *transductive_names = masks
        selected = self._finish(cross_fits[name])
        trials = [EnsembleTrial(name, self._kind(masks[name]), selected.scores)]
        tests: list[AcceptanceTest] = []
        for transductive_name in transductive_names:
            finished = self._finish(cross_fits[transductive_name])
            step = "The ensemble with transductive members"
            tests.append(AcceptanceTest.from_trials(step, selected.scores, finished.scores))
            trials.append(EnsembleTrial(transductive_name, "transductive", finished.scores, reason=tests[-1].reason))
            if tests[-1].is_accepted:
                name = transductive_name
                selected = finished
        selected_trial = name
        if features is not None:
            smoothed = self._finish(cross_fits[name], self._neighbor_graphs(features))
            step = f"Smoothing by neighbors (strength {smoothed.smoothing:g})"
            tests.append(AcceptanceTest.from_trials(step, selected.scores, smoothed.scores))
            trials.append(EnsembleTrial(f"{name}, smoothed", "transductive", smoothed.scores, reason=tests[-1].reason))
            if tests[-1].is_accepted:
                selected_trial = trials[-1].name
                selected = smoothed
        fold_weights = cross_fits[name].weights[self.folds.predicted_by]
        raw = [average_members(weights, self._member_probabilities(k)) for k, weights in enumerate(fold_weights)]
        members, weights, inverse_temperatures = self.deployed_weights(masks[name])
        return FittedEnsemble(
            members=members,
            weights=weights,
            inverse_temperatures=inverse_temperatures,
            smoothing=selected.smoothing,
            logit_calibration=selected.logit_calibration,
            held_out=selected.held_out,
            codes=self.codes,
            domains=self.domains,
            scores=selected.scores[0] / 100,
            score_range=metric_range(self.scorer.scoring, len(self.samples.classes)),
            is_share=self.scorer.scoring == "accuracy" and self.samples.weight is None,
            metric=get_metric(self.scorer.scoring),
            calibration=self._calibration(raw, selected.held_out),
            acceptance_tests=tests,
            trials=[replace(trial, is_selected=trial.name == selected_trial) for trial in trials],
            prior_ratio=self._prior_ratio(),
        )

    def deployed_weights(self, mask: Mask) -> tuple[list[Candidate], Array, Array]:
        """Members in order of decreasing weight, their weights and inverse temperatures, fitted on all parts."""
        stride = weight_stride(self.codes)
        P = [self._member_probabilities(k, self.inverse_temperatures)[:, ::stride] for k in range(len(self.codes))]
        codes = [part[::stride] for part in self.codes]
        row_weights = self._weights(range(len(codes)), stride)
        is_member = mask & np.isfinite(self.inverse_temperatures)
        weights = fit_ensemble_weights(P, codes, members=is_member, weights=row_weights)
        weights = prune_weights(weights, P, codes)
        order = [int(j) for j in np.argsort(-weights, kind="stable") if weights[j] > 0]
        return [self.candidates[j] for j in order], weights[order], self.inverse_temperatures[order]

    def _cross_fit(self, masks: Mapping[str, Mask]) -> dict[str, CrossFittedEnsemble]:
        """Ensembles of some candidates, fitted without each fold and, for later steps, without each pair of folds."""
        folds = self.folds
        stride = weight_stride(self.codes)
        shape = len(folds.kept), len(self.candidates)
        n_parts = len(self.codes)
        fits = {name: CrossFittedEnsemble(np.empty(shape), [[] for _ in range(n_parts)], [], {}) for name in masks}
        for fold, kept in enumerate(folds.kept):
            parts = np.flatnonzero(kept).tolist()
            betas = self.fold_inverse_temperatures[fold]
            P = [self._member_probabilities(k, betas, fold) for k in parts]
            fitted_P = [p[:, ::stride] for p in P]
            codes = [self.codes[k][::stride] for k in parts]
            row_weights = self._weights(parts, stride)
            others, pairs = folds.inner(fold)
            kept_by_fit = np.vstack([kept, pairs])[:, parts]  # the parts of the fit without the fold, and of each pair
            for name, mask in masks.items():
                if parts:
                    weights = fit_ensemble_weights(fitted_P, codes, members=mask, weights=row_weights, kept=kept_by_fit)
                    for b, fitted_parts in enumerate(map(np.flatnonzero, kept_by_fit)):
                        if len(fitted_parts):
                            part_P = [fitted_P[i] for i in fitted_parts]
                            part_codes = [codes[i] for i in fitted_parts]
                            weights[b] = prune_weights(weights[b], part_P, part_codes)
                else:
                    weights = (mask / mask.sum())[None]
                fits[name].weights[fold] = weights[0]
                for k in np.flatnonzero(folds.predicted_by == fold).tolist():
                    fits[name].batches[k].extend(self._batches(k, weights[0], betas))
                inner = {}
                for k, member_P in zip(parts, P, strict=True):
                    pair = int(np.searchsorted(others, folds.predicted_by[k]))
                    if pairs[pair].any():
                        inner[k] = average_members(weights[1 + pair], member_P)
                fits[name].inner.append(inner)
        for k, fold in enumerate(folds.predicted_by.tolist()):
            if folds.kept[fold].any():
                P_deployed = self._member_probabilities(k, self.inverse_temperatures)
                for fit in fits.values():
                    fit.deployed[k] = average_members(fit.weights[fold], P_deployed)
        return fits

    def _neighbor_graphs(self, features: Sequence[Any]) -> list[list[Any]]:
        """Neighbors within every batch of every part."""
        return [
            [neighbor_graph(_safe_indexing(X, rows)) for rows in batches]
            for X, batches in zip(features, self.trials.batch_rows, strict=True)
        ]

    def _finish(
        self, cross_fit: CrossFittedEnsemble, graphs: Sequence[Sequence[Any]] | None = None
    ) -> FinishedEnsemble:
        """An ensemble with its last calibration, smoothed if there are graphs of neighbors."""
        folds = self.folds
        fold_steps = [self._fit_last_steps(inner, graphs) for inner in cross_fit.inner]
        # The temperatures of a fold may be extreme, for example if it keeps domains without any error. The last step is
        # therefore fitted to predictions with the temperatures to which it is applied.
        smoothing, calibration = self._fit_last_steps(cross_fit.deployed, graphs)
        finished = []
        for k, batches in enumerate(cross_fit.batches):
            strength, step = fold_steps[folds.predicted_by[k]]
            if graphs is not None:
                batches = [smooth_probabilities(P, graphs[k][b], strength) for b, P in enumerate(batches)]
            finished.append([step.apply(P) for P in batches])
        held_out = [batches[0] for batches in finished]
        scores = score_trials(finished, self._score_batch)
        return FinishedEnsemble(smoothing, calibration, held_out, scores)

    def _fit_last_steps(
        self, natural: Mapping[int, Array], graphs: Sequence[Sequence[Any]] | None
    ) -> tuple[float, LogitCalibration]:
        """Strength of smoothing and last calibration, fitted on probabilities of some parts as they are.

        The strength is the one with the best mean score, and the weakest of equals. Without any parts it is the
        weakest, and there is no calibration.
        """
        if graphs is None:
            return 0.0, self._fit_calibration(natural)
        if not natural:
            return SMOOTHING_STRENGTHS[0], IDENTITY
        calibrations = []
        means = []
        for strength in SMOOTHING_STRENGTHS:
            P = {k: smooth_probabilities(p, graphs[k][0], strength) for k, p in natural.items()}
            calibrations.append(self._fit_calibration(P))
            scores = [self._score_batch(k, 0, calibrations[-1].apply(p)) for k, p in P.items()]
            means.append(float(np.nanmean(scores)) if np.isfinite(scores).any() else -np.inf)
        best = int(np.argmax(means))
        return SMOOTHING_STRENGTHS[best], calibrations[best]

    def _kind(self, mask: Mask) -> str:
        kinds = {self.candidates[j].kind for j in np.flatnonzero(mask).tolist()}
        return max(kinds, key=KINDS_BY_SIMPLICITY.index)

    def _member_probabilities(self, k: int, betas: Array | None = None, fold: int | None = None) -> Array:
        """Probabilities (J, n_k, C) of all candidates for a part as it is; 0 for candidates without predictions.

        They are tempered by inverse temperatures if these are given. With a fold, they come from models that were not
        trained on the parts which the fold leaves out, if there are any.
        """
        P = np.zeros((len(self.candidates), len(self.codes[k]), len(self.samples.classes)))
        for j in np.flatnonzero(np.isfinite(self.inverse_temperatures)).tolist():
            scores = self.decision_scores[j, k]
            if fold is not None:
                scores = _scores_in_fold(self.decision_scores, self.trials, j, k, fold)
            P[j] = softmax(scores, 1.0 if betas is None else betas[j])
        return P

    def _batches(self, k: int, weights: Array, betas: Array) -> Iterator[Array]:
        """Probabilities of an ensemble for each batch of a part; inductive members predict each row once."""
        is_inductive = np.array([not candidate.transductive for candidate in self.candidates])
        inductive_part = np.zeros((len(self.codes[k]), len(self.samples.classes)))
        for j in np.flatnonzero(is_inductive & (weights > 0)).tolist():
            inductive_part += weights[j] * softmax(self.decision_scores[j, k], betas[j])
        transductive_members = np.flatnonzero(~is_inductive & (weights > 0)).tolist()
        for b, rows in enumerate(self.trials.batch_rows[k]):
            mixed = inductive_part[rows]
            for j in transductive_members:
                scores = self.decision_scores[j, self.trials.position(k, b)]
                mixed = mixed + weights[j] * softmax(scores, betas[j])
            yield mixed

    def _score_batch(self, k: int, b: int, P: Array) -> float:
        return self._score_split(self.trials.position(k, b), P)

    def _score_split(self, split: int, P: Array) -> float:
        responses = _as_responses(self._natural_probabilities(P, split), self.samples.classes)
        return self.scorer(Prediction(0, split, P.argmax(axis=1), responses))

    def _prior_ratio(self) -> Array | None:
        """Natural over balanced class frequencies of all rows that some split trains on."""
        rows = np.unique(np.concatenate([train for train, _ in self.trials.natural]))
        return self.samples.prior_ratio(rows, self.balance)

    def _natural_probabilities(self, P: Array, split: int) -> Array:
        return natural_probabilities(P, self.samples, self.trials, split, self.balance)

    def _calibration(self, before: list[Array], after: list[Array]) -> dict[str, Any]:
        """Calibration on rows as they are, of member averages and of the ensemble."""
        weight = self.samples.weight
        weights = None if weight is None else [weight[test] for _, test in self.trials.natural]
        natural = [self._natural_probabilities(P, k) for k, P in enumerate(after)]
        return {
            "before": calibration_table(before, self.codes, weights),
            "after": calibration_table(natural, self.codes, weights),
        }


def natural_probabilities(P: Array, samples: Samples, trials: TrialSplits, split: int, balance: Balance) -> Array:
    """Probabilities of held-out rows under the natural class frequencies of the training rows.

    Models that are trained with balanced classes estimate probabilities under equal class frequencies.
    """
    train, _ = trials.splits[split]
    ratio = samples.prior_ratio(train, balance)
    return P if ratio is None else adjust_priors(P, ratio)


def prepare_part(samples: Samples, split: Split, preparation: Any) -> Any:
    """Features of the held-out rows as models receive them."""
    train, test = split
    if preparation is None:
        return _safe_indexing(samples.X, test)
    fitted = clone(preparation).fit(_safe_indexing(samples.X, train))
    return prepare_samples(fitted, samples.take(test)).X


def weight_stride(codes: Sequence[Ints]) -> int:
    """Distance of the rows to which temperatures and weights are fitted; 1 for all rows."""
    return -(-sum(map(len, codes)) // MAX_WEIGHT_ROWS)


def _scores_in_fold(decision_scores: ScoresBySplit, trials: TrialSplits, j: int, k: int, fold: int) -> Array:
    """Decision scores of a candidate for a part, by a model not trained on what the fold leaves out if there is one.

    There is none without nested splits, or if the candidate could not be trained on so few parts.
    """
    return decision_scores.get((j, trials.nested_positions.get((fold, k), k)), decision_scores[j, k])


def _cross_fit_temperatures(
    j: int, decision_scores: ScoresBySplit, trials: TrialSplits, codes: list[Ints], weights: list[Array] | None
) -> Array:
    """Inverse temperatures (F + 1,) of a candidate, fitted on the parts that each fold keeps, and on all parts."""
    parts = range(len(codes))
    stride = weight_stride(codes)
    codes = [part[::stride] for part in codes]
    weights = None if weights is None else [part[::stride] for part in weights]
    kept = trials.folds.kept
    all_parts = np.ones((1, len(codes)), dtype=bool)
    natural = [decision_scores[j, k][::stride] for k in parts]
    if not trials.nested:
        return fit_temperatures(natural, codes, np.vstack([kept, all_parts]), weights)
    temperatures = []
    for fold, kept_parts in enumerate(kept):
        scores = [_scores_in_fold(decision_scores, trials, j, k, fold)[::stride] for k in parts]
        temperatures.append(fit_temperatures(scores, codes, kept_parts[None], weights))
    return np.concatenate([*temperatures, fit_temperatures(natural, codes, all_parts, weights)])


def _as_responses(P: Array, classes: Labels) -> dict[str, Any]:
    """Probabilities in every form that a scorer may require."""
    logits = np.log(np.maximum(P, SMALLEST_PROBABILITY))
    decisions = logits[:, 1] - logits[:, 0] if len(classes) == 2 else logits
    return {"predict_proba": P, "decision_function": decisions, "classes_": classes}
