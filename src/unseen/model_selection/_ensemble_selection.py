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

from ..linalg import Array, Ints
from ..utils.samples import Balance, Samples
from ._adaptation import limit_held_out_domains
from ._calibration import (
    IDENTITY,
    LogitCalibration,
    Mask,
    adjust_priors,
    calibration_table,
    domain_log_losses,
    fit_last_calibration,
    fit_temperatures,
    softmax,
    standard_error,
)
from ._candidate import Candidate
from ._ensemble import SMOOTHING_STRENGTHS, ConformalSets, EnsembleClassifier, neighbor_graph, smooth_probabilities
from ._ensemble_weights import (
    AcceptanceTest,
    CrossFittingFolds,
    average_members,
    fit_ensemble_weights,
    prune_weights,
    score_trials,
)
from ._evaluation import Prediction
from ._leaderboard import Forecast
from ._preparation import prepare_samples
from ._scoring import (
    KINDS_BY_SIMPLICITY,
    CandidateResult,
    Metric,
    Scorer,
    Scoring,
    best_by_variant,
    best_index,
    get_metric,
    metric_range,
    restrict_results,
    select_result,
    tabulate_scores,
)
from ._splitters import Split, TrialSplits

INDUCTIVE_ENSEMBLE = "ensemble of inductive models"
FULL_ENSEMBLE = "ensemble of all models"
# Held-out rows to which temperatures of candidates and weights are fitted. The last calibration, scores, thresholds and
# prediction sets use all of them.
MAX_WEIGHT_ROWS = 8_000


@dataclass(frozen=True)
class FittedEnsemble:
    """An ensemble of candidates, or a single one, and its cross-fitted performance on held-out parts.

    Members, weights, calibration and smoothing are fitted on all held-out parts. What is reported about a part, in
    `held_out`, `scores`, `skewed`, `calibration` and `acceptance_test`, is cross-fitted: the same were fitted on other
    parts, which share no sample with it, and applied to it.

    Attributes
    ----------
    predictions : OutOfDomainPredictions
        The predictions that it was fitted to.
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
    scores, skewed : ndarray of shape (n_parts,)
        Scores of these probabilities, and mean scores on skewed batches; NaN where there are none.
    calibration : dict
        Calibration of these probabilities "before" and "after" temperatures, slope and offsets.
    trial_name, trial_kind : str
        Names of an ensemble among those that were compared.
    acceptance_test : AcceptanceTest or None
        Test of the transductive step that distinguishes it from the ensemble without this step.
    trials : list of FittedEnsemble
        The ensembles that were compared; empty for a single candidate.
    """

    predictions: OutOfDomainPredictions
    members: list[Candidate]
    weights: Array
    inverse_temperatures: Array
    smoothing: float
    logit_calibration: LogitCalibration
    held_out: list[Array]
    scores: Array
    skewed: Array
    calibration: dict[str, Any]
    trial_name: str = ""
    trial_kind: str = ""
    acceptance_test: AcceptanceTest | None = None
    trials: list[FittedEnsemble] = field(default_factory=list)

    @property
    def codes(self) -> list[Ints]:
        """True classes of each held-out part."""
        return self.predictions.codes

    @property
    def metric(self) -> Metric:
        """Names of the metric."""
        return get_metric(self.predictions.scorer.scoring)

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
        return self.members[0].variant if len(self.members) == 1 and not self.smoothing else self.trial_name

    @property
    def member_table(self) -> list[dict[str, Any]]:
        """Members in plain values, in order of decreasing weight."""
        return [
            {"model": member.variant, "weight": weight, "kind": member.kind, "params": member.params}
            for member, weight in zip(self.members, self.weights.tolist(), strict=True)
        ]

    @property
    def acceptance_tests(self) -> list[AcceptanceTest]:
        """Tests of the transductive steps."""
        return [trial.acceptance_test for trial in self.trials if trial.acceptance_test is not None]

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
        scorer = self.predictions.scorer
        is_defined = np.isfinite(self.scores)
        n_rows = None
        if scorer.scoring == "accuracy" and scorer.samples.weight is None:  # scores are shares of rows
            n_rows = np.array([len(codes) for codes in self.codes])[is_defined]
        bounds = metric_range(scorer.scoring, len(scorer.samples.classes))
        return Forecast.from_scores(self.scores[is_defined], self.metric, bounds, n_rows)

    def to_dict(self) -> dict[str, Any]:
        """The one description of an ensemble in plain values, for model cards and reports."""
        forecast = self.forecast
        return {
            "name": self.name,
            "kind": self.kind,
            "members": self.member_table,
            "smoothing": self.smoothing,
            "decisions": [test.reason for test in self.acceptance_tests],
            "acceptance_tests": [test.to_dict() for test in self.acceptance_tests],
            "trials": [
                {
                    "name": trial.trial_name,
                    "kind": trial.trial_kind,
                    "scores": np.nan_to_num([100 * trial.scores, 100 * trial.skewed]).tolist(),
                    "is_selected": trial.trial_name == self.trial_name,
                }
                for trial in self.trials
            ],
            "calibration": self.calibration,
            "forecast": (forecast.mean, forecast.lower, forecast.upper),
        }

    def to_estimator(self) -> EnsembleClassifier:
        """The ensemble as an estimator, with members that are not fitted."""
        sets = self.conformal_sets
        ratio = self.predictions.prior_ratio
        natural = [P if ratio is None else adjust_priors(P, ratio) for P in self.held_out]
        return EnsembleClassifier(
            [member.pipeline for member in self.members],
            self.weights,
            self.inverse_temperatures,
            smoothing=self.smoothing,
            inverse_temperature=self.logit_calibration.slope,
            calibration_offsets=self.logit_calibration.offsets,
            conformal_scores=list(sets.scores),
            conformal_codes=None if sets.codes is None else list(sets.codes),
            prior_ratio=ratio,
            held_out=limit_held_out_domains(list(zip(self.predictions.domains, natural, self.codes, strict=True))),
            raw_members=[j for j, member in enumerate(self.members) if member.features == "raw"],
        )


@dataclass(frozen=True)
class CrossFit:
    """Predictions of an ensemble for held-out parts, before smoothing and the last calibration.

    Attributes
    ----------
    is_candidate : ndarray of bool of shape (n_candidates,)
        The candidates that take part.
    weights : ndarray of shape (n_parts, n_candidates)
        Weights that are applied to each part, fitted on the parts that its fold keeps.
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

    is_candidate: Mask
    weights: Array
    batches: list[list[Array]]
    inner: list[dict[int, Array]]
    deployed: dict[int, Array]


class OutOfDomainPredictions:
    """What candidates trained without each held-out part predict for it; the input of every selection.

    Parameters
    ----------
    candidates : sequence of Candidate
        The candidates.
    samples : Samples
        All rows.
    trials : TrialSplits
        The splits.
    predictions : iterable of Prediction
        Predictions of the candidates for the held-out rows of all splits, with decision scores.
    scoring : str or callable, default="accuracy"
        The metric.
    balance : {"none", "classes", "domains"}, default="none"
        What has equal weight in training.

    Attributes
    ----------
    decision_scores : dict
        Decision scores by candidate and split.
    results : dict
        Scores of all candidates on natural splits: see `tabulate_scores`.
    inverse_temperatures : ndarray of shape (n_candidates,)
        Fitted on all held-out parts; NaN for candidates without predictions for some trial.
    fold_inverse_temperatures : ndarray of shape (n_folds, n_candidates)
        Fitted on the parts that each fold keeps.
    codes : list of ndarray
        True classes of each held-out part.
    domains : list of str
        The domain of the first row of each held-out part.
    row_weights : list of ndarray or None
        Weights of the rows of each part.
    prior_ratio : ndarray of shape (n_classes,) or None
        Natural class frequencies over those of training, if classes are balanced.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        samples: Samples,
        trials: TrialSplits,
        predictions: Iterable[Prediction],
        scoring: Scoring = "accuracy",
        balance: Balance = "none",
    ) -> None:
        predictions = list(predictions)
        self.candidates = candidates
        self.samples = samples
        self.trials = trials
        self.balance: Balance = balance
        self.scorer = Scorer(scoring, samples, trials.splits)
        self.decision_scores = {
            (p.candidate, p.split): p.responses["decision_scores"] for p in predictions if p.codes is not None
        }
        parts = [test for _, test in trials.natural]
        self.codes = [samples.codes[test] for test in parts]
        self.domains = [str(samples.domain[test[0]]) for test in parts]
        self.row_weights: list[Array] | None = None
        if balance != "none" or samples.weight is not None:
            self.row_weights = [np.asarray(samples.weights(test, balance)) for test in parts]
        trained = np.unique(np.concatenate([train for train, _ in trials.natural]))
        self.prior_ratio = samples.prior_ratio(trained, balance)
        # Weights and temperatures are fitted to every row, or to rows at this distance.
        self.stride = -(-sum(map(len, parts)) // MAX_WEIGHT_ROWS)
        nested = frozenset(trials.nested_positions.values())
        failed = {p.candidate for p in predictions if p.codes is None and p.split not in nested}
        temperatures = np.full((len(trials.folds.kept) + 1, len(candidates)), np.nan)
        for j in set(range(len(candidates))) - failed:
            temperatures[:, j] = self._cross_fit_temperatures(j)
        self.fold_inverse_temperatures = temperatures[:-1]
        self.inverse_temperatures = temperatures[-1]
        natural = (prediction for prediction in predictions if prediction.split < len(parts))
        self.results = tabulate_scores(natural, self._score_candidate, len(candidates), len(parts))
        self.scorer.warn_undefined(self.results["defined"])

    @property
    def folds(self) -> CrossFittingFolds:
        """The folds of cross-fitting."""
        return self.trials.folds

    def _scores_in_fold(self, j: int, k: int, fold: int | None) -> Array:
        """Decision scores of a candidate for a part, by a model not trained on what a fold leaves out if there is one.

        There is none without nested splits, or if the candidate could not be trained on so few parts.
        """
        position = k if fold is None else self.trials.nested_positions.get((fold, k), k)
        return self.decision_scores.get((j, position), self.decision_scores[j, k])

    def _cross_fit_temperatures(self, j: int) -> Array:
        """Inverse temperatures (F + 1,) of a candidate, fitted on the parts that each fold keeps, and on all parts."""
        codes = [part[:: self.stride] for part in self.codes]
        weights = self._weights(range(len(codes)), self.stride)
        all_parts = np.ones((1, len(codes)), dtype=bool)

        def fit(kept: Mask, fold: int | None = None) -> Array:
            scores = [self._scores_in_fold(j, k, fold)[:: self.stride] for k in range(len(codes))]
            return fit_temperatures(scores, codes, kept, weights)

        if not self.trials.nested:
            return fit(np.vstack([self.folds.kept, all_parts]))
        return np.concatenate([*(fit(kept[None], f) for f, kept in enumerate(self.folds.kept)), fit(all_parts)])

    def _weights(self, parts: Iterable[int], stride: int = 1) -> list[Array] | None:
        """Weights of the rows of some parts."""
        return None if self.row_weights is None else [self.row_weights[k][::stride] for k in parts]

    def _natural_probabilities(self, split: int, P: Array) -> Array:
        """Probabilities of held-out rows under the natural class frequencies of the training rows.

        Models that are trained with balanced classes estimate probabilities under equal class frequencies.
        """
        ratio = self.samples.prior_ratio(self.trials.splits[split][0], self.balance)
        return P if ratio is None else adjust_priors(P, ratio)

    def _score_candidate(self, prediction: Prediction) -> float:
        """Score of a candidate on a natural split, with the temperature of the fold."""
        if prediction.codes is None:
            return np.nan
        fold = self.folds.predicted_by[prediction.split]
        beta = np.nan_to_num(self.fold_inverse_temperatures[fold, prediction.candidate], nan=1.0)
        P = softmax(prediction.responses["decision_scores"], beta)
        return self._score_split(prediction.split, P, prediction.codes)

    def _score_split(self, split: int, P: Array, codes: Ints | None = None) -> float:
        natural = self._natural_probabilities(split, P)
        return self.scorer.score_probabilities(split, natural, P.argmax(axis=1) if codes is None else codes)

    def _score_batch(self, k: int, b: int, P: Array) -> float:
        return self._score_split(self.trials.position(k, b), P)

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
                    P = softmax(self._scores_in_fold(j, k, fold), betas[j])
                    scores[j, k] = self._score_split(self.trials.nested_positions[fold, k], P)
            counted = kept & np.isfinite(scores).any(axis=0)
            fold_results.append(restrict_results({**self.results, "scores": scores}, counted))
        return fold_results

    def candidate_results(self) -> list[CandidateResult]:
        """Results of the best settings of each variant."""
        return best_by_variant(self.candidates, self.results, self.folds, self.fold_results)

    def _position(self, candidate: Candidate) -> int:
        return next(j for j, other in enumerate(self.candidates) if other is candidate)

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
            is_candidate = np.array([id(candidate) in allowed for candidate in self.candidates])
            features = [self._prepare_part(part, preparation) for part in self.trials.natural if transductive]
            return self.fit_ensemble(features or None, is_candidate)
        return self.fit_single(best, [self._best(results, allowed) for results in self.fold_results])

    def _best(self, results: dict[str, Any], allowed: set[int]) -> int:
        """Position of the best candidate, by scores on the parts that count in these results."""
        if not results["defined"].any():  # nothing to select by
            return best_index(results, [j for j, c in enumerate(self.candidates) if id(c) in allowed])
        by_variant = best_by_variant(self.candidates, results, self.folds)
        return self._position(select_result([one for one in by_variant if id(one.candidate) in allowed]).candidate)

    def _prepare_part(self, split: Split, preparation: Any) -> Any:
        """Features of the held-out rows as models receive them."""
        train, test = split
        if preparation is None:
            return _safe_indexing(self.samples.X, test)
        fitted = clone(preparation).fit(_safe_indexing(self.samples.X, train))
        return prepare_samples(fitted, self.samples.take(test)).X

    def fit_single(self, position: int, by_fold: Sequence[int] | None = None) -> FittedEnsemble:
        """An ensemble of one; `by_fold` are the candidates selected without each fold, which predict its parts."""
        by_fold = [position] * len(self.folds.kept) if by_fold is None else by_fold
        steps = [self._fit_single_steps(j, fold) for fold, j in enumerate(by_fold)]
        raw = []
        held_out = []
        for k, fold in enumerate(self.folds.predicted_by.tolist()):
            scores = self.decision_scores[by_fold[fold], k]
            beta, calibration = steps[fold]
            raw.append(softmax(scores))
            held_out.append(calibration.apply(softmax(scores, beta)))
        beta, calibration = self._fit_single_steps(position)
        return FittedEnsemble(
            predictions=self,
            members=[self.candidates[position]],
            weights=np.ones(1),
            inverse_temperatures=np.array([beta]),
            smoothing=0.0,
            logit_calibration=calibration,
            held_out=held_out,
            scores=np.array([self._score_split(k, P) for k, P in enumerate(held_out)]),
            skewed=np.full(len(held_out), np.nan),
            calibration=self._calibration(raw, held_out),
        )

    def _fit_single_steps(self, position: int, fold: int | None = None) -> tuple[float, LogitCalibration]:
        """Inverse temperature and calibration of a candidate, by the parts that a fold keeps, or by all parts.

        Decision values of a classifier without probabilities have a temperature alone, so that labels stay the same.
        Probabilities are kept as they are unless calibration decreases the log loss by more than its standard error.
        """
        betas = self.inverse_temperatures if fold is None else self.fold_inverse_temperatures[fold]
        beta = float(betas[position])
        parts = list(range(len(self.codes))) if fold is None else np.flatnonzero(self.folds.kept[fold]).tolist()
        if not parts or not hasattr(self.candidates[position].classifier, "predict_proba"):
            return beta, IDENTITY
        scores = [self._scores_in_fold(position, k, fold) for k in parts]
        tempered = [softmax(S, beta) for S in scores]
        calibration = self._fit_calibration(dict(zip(parts, tempered, strict=True)))
        codes = [self.codes[k] for k in parts]
        weights = self._weights(parts)
        plain = domain_log_losses([softmax(S) for S in scores], codes, weights)
        gains = plain - domain_log_losses([calibration.apply(P) for P in tempered], codes, weights)
        return (beta, calibration) if gains.mean() > standard_error(gains) else (1.0, IDENTITY)

    def _fit_calibration(self, P: Mapping[int, Array]) -> LogitCalibration:
        """Last calibration of probabilities of some parts."""
        codes = [self.codes[k] for k in P]
        return fit_last_calibration(list(P.values()), codes, self._weights(P), stride=self.stride)

    def fit_ensemble(self, features: Sequence[Any] | None = None, is_candidate: Mask | None = None) -> FittedEnsemble:
        """Fit weights and temperatures; with the features of held-out parts, transductive steps are tested too."""
        is_member = np.isfinite(self.inverse_temperatures)
        is_member &= True if is_candidate is None else is_candidate
        is_inductive = is_member & ~self._is_transductive
        masks = {INDUCTIVE_ENSEMBLE: is_inductive} if is_inductive.any() else {}
        if not np.array_equal(is_inductive, is_member):
            masks[FULL_ENSEMBLE] = is_member
        fits = {name: self._cross_fit(mask) for name, mask in masks.items()}
        name, *transductive_names = masks
        kinds = {self.candidates[j].kind for j in np.flatnonzero(masks[name]).tolist()}
        selected = self._finish(fits[name], name, max(kinds, key=KINDS_BY_SIMPLICITY.index))
        trials = [selected]

        def test(trial: FittedEnsemble, step: str) -> FittedEnsemble:
            gains = [trial.scores - selected.scores, trial.skewed - selected.skewed]
            result = AcceptanceTest.from_gains(step, np.array(gains))
            trials.append(replace(trial, acceptance_test=result))
            return trials[-1] if result.is_accepted else selected

        for other in transductive_names:
            trial = self._finish(fits[other], other, "transductive")
            selected = test(trial, "The ensemble with transductive members")
        if features is not None:
            name = selected.trial_name
            trial = self._finish(fits[name], f"{name}, smoothed", "transductive", self._neighbor_graphs(features))
            selected = test(trial, f"Smoothing by neighbors (strength {trial.smoothing:g})")
        return replace(selected, trials=trials)

    @property
    def _is_transductive(self) -> Mask:
        return np.array([candidate.transductive for candidate in self.candidates])

    def _cross_fit(self, mask: Mask) -> CrossFit:
        """An ensemble of some candidates, fitted without each fold and, for later steps, without each pair of folds."""
        folds = self.folds
        fold_weights = np.empty((len(folds.kept), len(self.candidates)))
        all_inner = []
        for fold, kept in enumerate(folds.kept):
            betas = self.fold_inverse_temperatures[fold]
            P = {k: self._member_probabilities(k, betas, fold) for k in np.flatnonzero(kept).tolist()}
            fold_weights[fold] = self._fit_weights(mask, P)
            inner = {}
            for other in np.unique(folds.predicted_by[kept]).tolist():
                without_pair = {k: part for k, part in P.items() if folds.kept[other, k]}
                if without_pair:
                    weights = self._fit_weights(mask, without_pair)
                    inner |= {k: average_members(weights, P[k]) for k in P if folds.predicted_by[k] == other}
            all_inner.append(dict(sorted(inner.items())))
        weights = fold_weights[folds.predicted_by]
        predicted_by = list(enumerate(folds.predicted_by.tolist()))
        batches = [list(self._batches(k, weights[k], fold)) for k, fold in predicted_by]
        deployed = {
            k: average_members(weights[k], self._member_probabilities(k, self.inverse_temperatures))
            for k, fold in predicted_by
            if folds.kept[fold].any()
        }
        return CrossFit(mask, weights, batches, all_inner, deployed)

    def _fit_weights(self, mask: Mask, P: Mapping[int, Array]) -> Array:
        """Pruned weights (n_candidates,), fitted on probabilities of some parts; uniform without any."""
        if not P:
            return mask / mask.sum()
        fitted = [part[:, :: self.stride] for part in P.values()]
        codes = [self.codes[k][:: self.stride] for k in P]
        weights = fit_ensemble_weights(fitted, codes, members=mask, weights=self._weights(P, self.stride))
        return prune_weights(weights, fitted, codes)

    def _neighbor_graphs(self, features: Sequence[Any]) -> list[list[Any]]:
        """Neighbors within every batch of every part."""
        return [
            [neighbor_graph(_safe_indexing(X, rows)) for rows in batches]
            for X, batches in zip(features, self.trials.batch_rows, strict=True)
        ]

    def _finish(
        self, cross_fit: CrossFit, name: str, kind: str, graphs: Sequence[Sequence[Any]] | None = None
    ) -> FittedEnsemble:
        """An ensemble with its last calibration, smoothed if there are graphs of neighbors."""
        fold_steps = [self._fit_last_steps(inner, graphs) for inner in cross_fit.inner]
        # The temperatures of a fold may be extreme, for example if it keeps domains without any error. The last step is
        # therefore fitted to predictions with the temperatures to which it is applied.
        smoothing, calibration = self._fit_last_steps(cross_fit.deployed, graphs)
        finished = []
        for k, batches in enumerate(cross_fit.batches):
            strength, step = fold_steps[self.folds.predicted_by[k]]
            if graphs is not None:
                batches = [smooth_probabilities(P, graphs[k][b], strength) for b, P in enumerate(batches)]
            finished.append([step.apply(P) for P in batches])
        held_out = [batches[0] for batches in finished]
        scores, skewed = score_trials(finished, self._score_batch)
        raw = [average_members(weights, self._member_probabilities(k)) for k, weights in enumerate(cross_fit.weights)]
        P = {k: self._member_probabilities(k, self.inverse_temperatures) for k in range(len(self.codes))}
        weights = self._fit_weights(cross_fit.is_candidate, P)
        order = [int(j) for j in np.argsort(-weights, kind="stable") if weights[j] > 0]
        return FittedEnsemble(
            predictions=self,
            members=[self.candidates[j] for j in order],
            weights=weights[order],
            inverse_temperatures=self.inverse_temperatures[order],
            smoothing=smoothing,
            logit_calibration=calibration,
            held_out=held_out,
            scores=scores,
            skewed=skewed,
            calibration=self._calibration(raw, held_out),
            trial_name=name,
            trial_kind=kind,
        )

    def _fit_last_steps(
        self, natural: Mapping[int, Array], graphs: Sequence[Sequence[Any]] | None
    ) -> tuple[float, LogitCalibration]:
        """Strength of smoothing and last calibration, fitted on probabilities of some parts as they are.

        The strength is the one with the best mean score, and the weakest of equals. Without any parts it is the
        weakest, and there is no calibration.
        """
        if graphs is None:
            return 0.0, self._fit_calibration(natural)
        calibrations = []
        means = []
        for strength in SMOOTHING_STRENGTHS:
            P = {k: smooth_probabilities(p, graphs[k][0], strength) for k, p in natural.items()}
            calibrations.append(self._fit_calibration(P))
            scores = [self._score_batch(k, 0, calibrations[-1].apply(p)) for k, p in P.items()]
            means.append(float(np.nanmean(scores)) if np.isfinite(scores).any() else -np.inf)
        best = int(np.argmax(means))
        return SMOOTHING_STRENGTHS[best], calibrations[best]

    def _member_probabilities(self, k: int, betas: Array | None = None, fold: int | None = None) -> Array:
        """Probabilities (J, n_k, C) of all candidates for a part as it is; 0 for candidates without predictions.

        They are tempered by inverse temperatures if these are given. With a fold, they come from models that were not
        trained on the parts which the fold leaves out, if there are any.
        """
        P = np.zeros((len(self.candidates), len(self.codes[k]), len(self.samples.classes)))
        for j in np.flatnonzero(np.isfinite(self.inverse_temperatures)).tolist():
            P[j] = softmax(self._scores_in_fold(j, k, fold), 1.0 if betas is None else betas[j])
        return P

    def _batches(self, k: int, weights: Array, fold: int) -> Iterator[Array]:
        """Probabilities of an ensemble for each batch of a part; inductive members predict each row once."""
        betas = self.fold_inverse_temperatures[fold]
        inductive_part = np.zeros((len(self.codes[k]), len(self.samples.classes)))
        for j in np.flatnonzero(~self._is_transductive & (weights > 0)).tolist():
            inductive_part += weights[j] * softmax(self.decision_scores[j, k], betas[j])
        transductive_members = np.flatnonzero(self._is_transductive & (weights > 0)).tolist()
        for b, rows in enumerate(self.trials.batch_rows[k]):
            mixed = inductive_part[rows]
            for j in transductive_members:
                scores = self.decision_scores[j, self.trials.position(k, b)]
                mixed = mixed + weights[j] * softmax(scores, betas[j])
            yield mixed

    def _calibration(self, before: list[Array], after: list[Array]) -> dict[str, Any]:
        """Calibration on rows as they are, of member averages and of the ensemble."""
        weight = self.samples.weight
        weights = None if weight is None else [weight[test] for _, test in self.trials.natural]
        natural = [self._natural_probabilities(k, P) for k, P in enumerate(after)]
        return {
            "before": calibration_table(before, self.codes, weights),
            "after": calibration_table(natural, self.codes, weights),
        }
