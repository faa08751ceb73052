"""From out-of-domain predictions to an ensemble: members, weights, calibration, and cross-fitted scores.

Nothing is fitted to samples here. `evaluate_candidates` has predicted every held-out part with every candidate, and
skewed batches of these parts with transductive candidates; everything else is a function of these predictions. The
parameters of the deployed ensemble are fitted on all held-out parts. Everything that is reported about a part is
cross-fitted: it was fitted without that part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ..linalg import Array, Ints
from ..utils.samples import Balance, Samples
from ._candidate import Candidate, prepare_samples
from ._ensemble import SMOOTHING_STRENGTHS, ConformalSets, EnsembleClassifier, neighbor_graph, smooth_probabilities
from ._ensemble_math import (
    IDENTITY,
    AcceptanceTest,
    LogitCalibration,
    Mask,
    adjust_priors,
    average_members,
    calibration_table,
    domain_log_losses,
    fit_ensemble_weights,
    fit_last_calibration,
    fit_temperatures,
    prune_weights,
    softmax,
    standard_error,
)
from ._evaluation import Prediction
from ._leaderboard import Forecast, Leaderboard, LeaderboardRow
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
# Predictions that a model keeps for plans of adaptation: domains, rows of a domain, and probabilities in all.
MAX_KEPT_DOMAINS = 24
MAX_KEPT_ROWS = 300
MAX_KEPT_PROBABILITIES = 2**18
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
    def kind(self) -> str:
        """One of "plain", "inductive" and, if predictions depend on other samples of their domain, "transductive"."""
        if self.smoothing > 0 or any(member.transductive for member in self.members):
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
    def weights_by_model(self) -> dict[str, float]:
        """Sums of the weights of members that differ in their settings only, by name."""
        weights: dict[str, float] = {}
        for member, weight in zip(self.members, self.weights.tolist(), strict=True):
            weights[member.variant] = weights.get(member.variant, 0.0) + weight
        return weights

    @property
    def acceptance_tests(self) -> list[AcceptanceTest]:
        """Tests of the transductive steps."""
        return [trial.acceptance_test for trial in self.trials if trial.acceptance_test is not None]

    @property
    def mean(self) -> float:
        """Mean score over held-out parts on which the metric is defined."""
        return float(np.nanmean(self.scores))

    @property
    def forecast(self) -> Forecast:
        """Expected score on a new domain, with its 95% prediction interval."""
        return Forecast.from_scores(*self.forecast_inputs)

    @property
    def forecast_inputs(self) -> tuple[Array, Metric, tuple[float, float], Ints | None]:
        """What a forecast is computed from: scores, their metric and its range, and numbers of rows."""
        scorer = self.predictions.scorer
        is_defined = np.isfinite(self.scores)
        n_rows = None
        if scorer.scoring == "accuracy" and scorer.samples.weight is None:  # scores are shares of rows
            n_rows = np.array([len(codes) for codes in self.predictions.codes])[is_defined]
        bounds = metric_range(scorer.scoring, len(scorer.samples.classes))
        return self.scores[is_defined], get_metric(scorer.scoring), bounds, n_rows

    def leaderboard(self, names: Sequence[str]) -> Leaderboard:
        """Ensembles and candidates, best first; `names` are those of held-out domains."""
        weights = self.weights_by_model
        rows = [
            LeaderboardRow(
                model=result.candidate.variant,
                kind=result.candidate.kind,
                mean=result.mean,
                standard_error=standard_error(result.scores[result.defined]),
                scores=dict(zip(names, result.scores.tolist(), strict=True)),
                params=result.candidate.params,
                seconds=result.seconds,
                weight=weights.get(result.candidate.variant, 0.0),
                is_selected=not self.trials and result.candidate is self.members[0],
            )
            for result in self.predictions.candidate_results
        ]
        for trial in self.trials:
            is_selected = trial.trial_name == self.trial_name
            rows.append(
                LeaderboardRow(
                    model=trial.trial_name,
                    kind=trial.trial_kind,
                    mean=trial.mean,
                    standard_error=standard_error(trial.scores[np.isfinite(trial.scores)]),
                    scores=dict(zip(names, trial.scores.tolist(), strict=True)),
                    skewed=float(np.nanmean(trial.skewed)) if np.isfinite(trial.skewed).any() else np.nan,
                    weight=float(is_selected),
                    reason="" if trial.acceptance_test is None else trial.acceptance_test.reason,
                    is_selected=is_selected,
                )
            )
        return Leaderboard(sorted(rows, key=lambda row: -np.nan_to_num(row.mean, nan=-np.inf)))

    def to_dict(self) -> dict[str, Any]:
        """The one description of an ensemble in plain values, for model cards and reports."""
        forecast = self.forecast
        return {
            "name": self.name,
            "kind": self.kind,
            "members": self.member_table,
            "smoothing": self.smoothing,
            "decisions": [test.reason for test in self.acceptance_tests],
            "calibration": self.calibration,
            "forecast": (forecast.mean, forecast.lower, forecast.upper),
        }

    def to_estimator(self) -> EnsembleClassifier:
        """The ensemble as an estimator, with members that are not fitted."""
        sets = ConformalSets.from_predictions(self.held_out, self.predictions.codes)
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
            held_out=limit_held_out_domains(
                list(zip(self.predictions.domains, natural, self.predictions.codes, strict=True))
            ),
            raw_members=[j for j, member in enumerate(self.members) if member.features == "raw"],
        )


def limit_held_out_domains(domains: Sequence[tuple[str, Array, Ints]]) -> list[tuple[str, Array, Ints]]:
    """As many domains and rows as a model keeps for plans of adaptation, at equal distances, in single precision."""
    chosen = np.linspace(0, len(domains) - 1, min(len(domains), MAX_KEPT_DOMAINS)).astype(int).tolist()
    limited = []
    for name, P, codes in (domains[k] for k in chosen):
        max_rows = min(MAX_KEPT_ROWS, max(MAX_KEPT_PROBABILITIES // (len(chosen) * P.shape[1]), 1))
        rows = np.linspace(0, len(codes) - 1, min(len(codes), max_rows)).astype(int)
        limited.append((name, P[rows].astype(np.float32), codes[rows]))
    return limited


class CrossFit(NamedTuple):
    """Predictions of an ensemble for held-out parts, before smoothing and the last calibration."""

    # Weights of the deployed ensemble (n_candidates,), fitted on all parts.
    weights: Array
    # Probabilities of each part without temperatures, with weights fitted on the parts that its fold keeps.
    raw: list[Array]
    # Probabilities of the natural batch and of skewed ones, for each part.
    batches: list[list[Array]]
    # For each fold, probabilities of the parts that it keeps, each with weights fitted without that part and without
    # the parts that the fold leaves out: the steps after the weights are fitted on these. The last one is for the
    # deployed ensemble, which leaves out nothing, and has the temperatures of all parts.
    inner: list[dict[int, Array]]


class OutOfDomainPredictions:
    """What candidates trained without each held-out part predict for it; the input of every selection.

    Parameters that are fitted on the parts which a fold keeps have the number of the fold; those of the deployed
    ensemble are fitted on all parts, and have the number -1.

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
    inverse_temperatures : ndarray of shape (n_folds + 1, n_candidates)
        Fitted on the parts that each fold keeps, and on all parts; NaN for candidates without predictions for some
        trial.
    codes : list of ndarray
        True classes of each held-out part.
    domains : list of str
        The domain of the first row of each held-out part.
    row_weights : list of ndarray
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
        weights = [samples.weights(test, balance) for test in parts]
        self.row_weights = [
            np.ones(len(test)) if weight is None else np.asarray(weight)
            for test, weight in zip(parts, weights, strict=True)
        ]
        trained = np.unique(np.concatenate([train for train, _ in trials.natural]))
        self.prior_ratio = samples.prior_ratio(trained, balance)
        # Weights and temperatures are fitted to every row, or to rows at this distance.
        self.stride = -(-sum(map(len, parts)) // MAX_WEIGHT_ROWS)
        self._kept = np.vstack([trials.folds.kept, np.ones((1, len(parts)), dtype=bool)])
        self._predicted_by = trials.folds.predicted_by.tolist()
        self._is_transductive = np.array([candidate.transductive for candidate in candidates])
        nested = frozenset(trials.nested_positions.values())
        failed = {p.candidate for p in predictions if p.codes is None and p.split not in nested}
        self.inverse_temperatures = np.full((len(self._kept), len(candidates)), np.nan)
        for j in set(range(len(candidates))) - failed:
            self.inverse_temperatures[:, j] = self._fit_temperatures(j)
        self._has_predictions = np.isfinite(self.inverse_temperatures[-1])
        natural = (prediction for prediction in predictions if prediction.split < len(parts))
        self.results = tabulate_scores(natural, self._score_candidate, len(candidates), len(parts))

    def _scores(self, j: int, k: int, fold: int) -> Array:
        """Decision scores of a candidate for a part, by a model not trained on what a fold leaves out if there is one.

        There is none without nested splits, or if the candidate could not be trained on so few parts.
        """
        position = self.trials.nested_positions.get((fold, k), k)
        return self.decision_scores.get((j, position), self.decision_scores[j, k])

    def _fit_temperatures(self, j: int) -> Array:
        """Inverse temperatures (F + 1,) of a candidate, fitted on the parts that each fold keeps, and on all parts."""
        codes = [part[:: self.stride] for part in self.codes]
        weights = [part[:: self.stride] for part in self.row_weights]
        # Without nested splits, all folds use the same scores.
        groups = (
            [[fold] for fold in range(-1, len(self._kept) - 1)]
            if self.trials.nested_positions
            else [range(len(self._kept))]
        )
        betas = np.empty(len(self._kept))
        for folds in groups:
            scores = [self._scores(j, k, folds[0])[:: self.stride] for k in range(len(codes))]
            betas[folds] = fit_temperatures(scores, codes, self._kept[folds], weights)
        return betas

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
        beta = self.inverse_temperatures[self._predicted_by[prediction.split], prediction.candidate]
        P = softmax(prediction.responses["decision_scores"], np.nan_to_num(beta, nan=1.0))
        return self._score(prediction.split, P, prediction.codes)

    def _score(self, split: int, P: Array, codes: Ints | None = None) -> float:
        natural = self._natural_probabilities(split, P)
        return self.scorer.score_probabilities(split, natural, P.argmax(axis=1) if codes is None else codes)

    @cached_property
    def fold_results(self) -> list[dict[str, Any]]:
        """Scores of all candidates for each fold, on the parts that it keeps."""
        fold_results = []
        for fold, kept in enumerate(self._kept[:-1]):
            scores = self.results["scores"]
            if self.trials.nested_positions:
                scores = np.full_like(scores, np.nan)
                betas = np.nan_to_num(self.inverse_temperatures[fold], nan=1.0)
                for j, k in np.argwhere(np.isfinite(self.results["scores"]) & kept).tolist():
                    P = softmax(self._scores(j, k, fold), betas[j])
                    scores[j, k] = self._score(self.trials.nested_positions[fold, k], P)
                kept = kept & np.isfinite(scores).any(axis=0)
            fold_results.append(restrict_results({**self.results, "scores": scores}, kept))
        return fold_results

    @cached_property
    def candidate_results(self) -> list[CandidateResult]:
        """Results of the best settings of each variant."""
        return best_by_variant(self.candidates, self.results, self.trials.folds, self.fold_results)

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
        candidate has a score, and warns if the metric is not defined on some parts.
        """
        self.scorer.warn_undefined(self.results["defined"])
        allowed = set(self.candidates if among is None else among)
        best = self._best(self.results, allowed)
        if not ensemble:
            return self.fit_single(best, [self._best(results, allowed) for results in self.fold_results])
        is_candidate = np.array([candidate in allowed for candidate in self.candidates])
        features = [self._prepare_part(part, preparation) for part in self.trials.natural] if transductive else None
        return self.fit_ensemble(features, is_candidate)

    def _best(self, results: dict[str, Any], allowed: set[Candidate]) -> int:
        """Position of the best candidate, by scores on the parts that count in these results."""
        if not results["defined"].any():  # nothing to select by
            return best_index(results, [j for j, candidate in enumerate(self.candidates) if candidate in allowed])
        by_variant = best_by_variant(self.candidates, results, self.trials.folds, among=allowed)
        return self.candidates.index(select_result(by_variant).candidate)

    def _prepare_part(self, split: Split, preparation: Any) -> Any:
        """Features of the held-out rows as models receive them."""
        train, test = split
        if preparation is None:
            return _safe_indexing(self.samples.X, test)
        fitted = clone(preparation).fit(_safe_indexing(self.samples.X, train))
        return prepare_samples(fitted, self.samples.take(test)).X

    def fit_single(self, position: int, by_fold: Sequence[int] | None = None) -> FittedEnsemble:
        """An ensemble of one; `by_fold` are the candidates selected without each fold, which predict its parts."""
        by_fold = [position] * len(self.trials.folds.kept) if by_fold is None else by_fold
        steps = [self._fit_single_steps(j, fold) for fold, j in enumerate(by_fold)]
        raw = []
        held_out = []
        for k, fold in enumerate(self._predicted_by):
            scores = self.decision_scores[by_fold[fold], k]
            beta, calibration = steps[fold]
            raw.append(softmax(scores))
            held_out.append([calibration.apply(softmax(scores, beta))])
        beta, calibration = self._fit_single_steps(position, -1)
        return self._report([position], np.ones(1), np.array([beta]), (0.0, calibration), raw, held_out)

    def _fit_single_steps(self, position: int, fold: int) -> tuple[float, LogitCalibration]:
        """Inverse temperature and calibration of a candidate, by the parts that a fold keeps.

        Decision values of a classifier without probabilities have a temperature alone, so that labels stay the same.
        Probabilities are kept as they are unless calibration decreases the log loss by more than its standard error.
        """
        parts = np.flatnonzero(self._kept[fold]).tolist()
        if not parts or not hasattr(self.candidates[position].classifier, "predict_proba"):
            return float(self.inverse_temperatures[fold, position]), IDENTITY
        P = {k: softmax(self._scores(position, k, fold)) for k in parts}
        calibration = self._fit_calibration(P)
        codes = [self.codes[k] for k in parts]
        weights = [self.row_weights[k] for k in parts]
        calibrated = [calibration.apply(p) for p in P.values()]
        gains = domain_log_losses(list(P.values()), codes, weights) - domain_log_losses(calibrated, codes, weights)
        return 1.0, calibration if gains.mean() > standard_error(gains) else IDENTITY

    def _fit_calibration(self, P: Mapping[int, Array]) -> LogitCalibration:
        """Last calibration of probabilities of some parts."""
        if not P:
            return IDENTITY
        codes = [self.codes[k] for k in P]
        weights = [self.row_weights[k] for k in P]
        return fit_last_calibration(list(P.values()), codes, weights, stride=self.stride)

    def fit_ensemble(self, features: Sequence[Any] | None = None, is_candidate: Mask | None = None) -> FittedEnsemble:
        """Fit weights and temperatures; with the features of held-out parts, transductive steps are tested too."""
        is_member = self._has_predictions & (True if is_candidate is None else is_candidate)
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
            graphs = [
                [neighbor_graph(_safe_indexing(X, rows)) for rows in batches]
                for X, batches in zip(features, self.trials.batch_rows, strict=True)
            ]
            trial = self._finish(fits[name], f"{name}, smoothed", "transductive", graphs)
            selected = test(trial, f"Smoothing by neighbors (strength {trial.smoothing:g})")
        return replace(selected, trials=trials)

    def _cross_fit(self, mask: Mask) -> CrossFit:
        """An ensemble of some candidates, fitted without each fold and, for later steps, without each pair of folds."""
        folds = self.trials.folds
        fold_weights = []
        all_inner = []
        for fold, kept in enumerate(folds.kept):
            P = {k: self._member_probabilities(k, fold) for k in np.flatnonzero(kept).tolist()}
            fold_weights.append(self._fit_weights(mask, P))
            inner: dict[int, Array] = {}
            for other in np.unique(folds.predicted_by[kept]).tolist():
                without_pair = {k: part for k, part in P.items() if folds.kept[other, k]}
                if without_pair:
                    weights = self._fit_weights(mask, without_pair)
                    inner |= {k: average_members(weights, P[k]) for k in P if folds.predicted_by[k] == other}
            all_inner.append(dict(sorted(inner.items())))
        part_weights = np.array([fold_weights[fold] for fold in self._predicted_by])
        batches = [
            [
                average_members(part_weights[k], self._member_probabilities(k, fold, batch))
                for batch in range(len(self.trials.batch_rows[k]))
            ]
            for k, fold in enumerate(self._predicted_by)
        ]
        raw = [average_members(weights, self._member_probabilities(k)) for k, weights in enumerate(part_weights)]
        P = {k: self._member_probabilities(k, -1) for k in range(len(self.codes))}
        deployed = {k: average_members(part_weights[k], P[k]) for k in P if folds.kept[self._predicted_by[k]].any()}
        return CrossFit(self._fit_weights(mask, P), raw, batches, [*all_inner, deployed])

    def _fit_weights(self, mask: Mask, P: Mapping[int, Array]) -> Array:
        """Pruned weights (n_candidates,), fitted on probabilities of some parts; uniform without any."""
        if not P:
            return mask / mask.sum()
        fitted = [part[:, :: self.stride] for part in P.values()]
        codes = [self.codes[k][:: self.stride] for k in P]
        row_weights = [self.row_weights[k][:: self.stride] for k in P]
        return prune_weights(fit_ensemble_weights(fitted, codes, members=mask, weights=row_weights), fitted, codes)

    def _finish(
        self, cross_fit: CrossFit, name: str, kind: str, graphs: Sequence[Sequence[Any]] | None = None
    ) -> FittedEnsemble:
        """An ensemble with its last calibration, smoothed if there are graphs of neighbors."""
        # The temperatures of a fold may be extreme, for example if it keeps domains without any error. The last step of
        # the deployed ensemble is therefore fitted to predictions with the temperatures to which it is applied.
        steps = [self._fit_last_steps(inner, graphs) for inner in cross_fit.inner]
        finished = []
        for k, batches in enumerate(cross_fit.batches):
            strength, calibration = steps[self._predicted_by[k]]
            if graphs is not None:
                batches = [smooth_probabilities(P, graphs[k][b], strength) for b, P in enumerate(batches)]
            finished.append([calibration.apply(P) for P in batches])
        weights = cross_fit.weights
        order = [int(j) for j in np.argsort(-weights, kind="stable") if weights[j] > 0]
        betas = self.inverse_temperatures[-1, order]
        fitted = self._report(order, weights[order], betas, steps[-1], cross_fit.raw, finished)
        return replace(fitted, trial_name=name, trial_kind=kind)

    def _fit_last_steps(
        self, natural: Mapping[int, Array], graphs: Sequence[Sequence[Any]] | None
    ) -> tuple[float, LogitCalibration]:
        """Strength of smoothing and last calibration, fitted on probabilities of some parts as they are.

        The strength is the one with the best mean score, and the weakest of equals. Without any parts it is the
        weakest, and there is no calibration.
        """
        if graphs is None:
            return 0.0, self._fit_calibration(natural)
        steps = []
        means = []
        for strength in SMOOTHING_STRENGTHS:
            P = {k: smooth_probabilities(p, graphs[k][0], strength) for k, p in natural.items()}
            calibration = self._fit_calibration(P)
            scores = [self._score(k, calibration.apply(p)) for k, p in P.items()]
            steps.append((strength, calibration))
            means.append(float(np.nanmean(scores)) if np.isfinite(scores).any() else -np.inf)
        return steps[int(np.argmax(means))]

    def _member_probabilities(self, k: int, fold: int | None = None, batch: int = 0) -> Array:
        """Probabilities (J, n_k, C) of all candidates for a batch of a part; 0 for candidates without predictions.

        With a fold, they have its temperatures, and come from models that were not trained on the parts which the fold
        leaves out, if there are any. Inductive candidates predict each row once.
        """
        rows = self.trials.batch_rows[k][batch]
        P = np.zeros((len(self.candidates), len(self.codes[k][rows]), len(self.samples.classes)))
        for j in np.flatnonzero(self._has_predictions).tolist():
            scores = self.decision_scores[j, k] if fold is None else self._scores(j, k, fold)
            if batch and self._is_transductive[j]:
                scores = self.decision_scores[j, self.trials.positions[k, batch]]
            else:
                scores = scores[rows]
            P[j] = softmax(scores, 1.0 if fold is None else self.inverse_temperatures[fold, j])
        return P

    def _report(
        self,
        order: list[int],
        weights: Array,
        betas: Array,
        last_steps: tuple[float, LogitCalibration],
        raw: list[Array],
        batches: list[list[Array]],
    ) -> FittedEnsemble:
        """An ensemble and its scores; `raw` and `batches` are probabilities before and after calibration."""
        scores = [
            [self._score(self.trials.positions[k, b], P) for b, P in enumerate(part)] for k, part in enumerate(batches)
        ]
        # Batches without a score, such as AUC of a single class, do not count.
        skewed = [[value for value in part[1:] if value == value] for part in scores]
        held_out = [part[0] for part in batches]
        natural = [self._natural_probabilities(k, P) for k, P in enumerate(held_out)]
        weight = self.samples.weight
        row_weights = None if weight is None else [weight[test] for _, test in self.trials.natural]
        smoothing, calibration = last_steps
        return FittedEnsemble(
            predictions=self,
            members=[self.candidates[j] for j in order],
            weights=weights,
            inverse_temperatures=betas,
            smoothing=smoothing,
            logit_calibration=calibration,
            held_out=held_out,
            scores=np.array([part[0] for part in scores]),
            skewed=np.array([np.mean(values) if values else np.nan for values in skewed]),
            calibration={
                "before": calibration_table(raw, self.codes, row_weights),
                "after": calibration_table(natural, self.codes, row_weights),
            },
        )
