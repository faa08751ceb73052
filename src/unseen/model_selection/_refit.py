"""From candidates to a fitted ensemble: evaluate, select, refit on all rows or, for large data, through landmarks.

`UnseenClassifier`, `unseen.fit`, comparisons and the explorer all use these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from joblib import delayed  # type: ignore[import-untyped, unused-ignore]
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from ..estimators import Projection, Statistics, fit_from_statistics, parallel
from ..kernels import PivotedNystroem, SizePlan
from ..linalg import Array
from ..utils.samples import Balance, Samples
from ._candidate import Candidate, fit_clone, ignore_expected_warnings
from ._ensemble import EnsembleClassifier
from ._ensemble_math import softmax, standard_error
from ._ensemble_selection import FittedEnsemble, OutOfDomainPredictions
from ._evaluation import EvaluationConfig, Prediction, evaluate_candidates, single_thread
from ._leaderboard import Leaderboard, LeaderboardRow
from ._methods import expand_methods, parse_methods
from ._scoring import CandidateResult
from ._splitters import Split, TrialSplits

# Decision scores of all candidates for all held-out rows: a gigabyte. Skewed batches take up to three times as much.
MAX_DECISION_SCORES = 2**27
# Fits to all rows of a large table take less time than a tree.
LINEAR_CLASSIFIERS = (LogisticRegression, LinearSVC, RidgeClassifier)
# Members of an average, a cheap stand-in for the ensemble where many fits are compared: a linear and a nonlinear model,
# neither of which needs a kernel matrix.
AVERAGE_METHODS = ("logistic", "gradient boosting")
# Projections of large tables use landmarks beyond this number of rows.
LARGE_EXACT_ROWS = 1_000
# Beyond these a comparison takes days: some classifiers are trained for each pair of classes, all for each held-out
# domain, and nested comparisons leave out each pair of domains.
MAX_CLASSES = 1_000
MAX_DOMAINS = 500
MAX_PAIRED_DOMAINS = 200


def check_comparison_size(n_classes: int, n_domains: int, *, paired: bool = False) -> None:
    """Raise ValueError if there are too many classes or held-out domains to train models for each of them."""
    max_domains = MAX_PAIRED_DOMAINS if paired else MAX_DOMAINS
    if n_classes > MAX_CLASSES:
        raise ValueError(
            f"There are {n_classes:,} classes; methods can be compared on at most {MAX_CLASSES:,}, since some train a "
            "classifier for each pair of them. Merge rare classes, or check which column holds the labels: this one "
            "may be an identifier."
        )
    if n_domains > max_domains:
        sets = n_domains * (n_domains - 1) // 2 if paired else n_domains
        raise ValueError(
            f"There are {n_domains:,} domains, which makes {sets:,} training sets for every method; at most "
            f"{max_domains:,} domains are supported. Use larger units as domains, such as regions instead of "
            "hospitals, or "
            "keep the largest domains."
        )


@dataclass(frozen=True)
class SelectedModel:
    """Cross-fitted results of the best settings of each variant, and the selected ensemble."""

    results: list[CandidateResult]
    ensemble: FittedEnsemble

    def leaderboard(self, names: Sequence[str]) -> Leaderboard:
        """Ensembles and candidates, best first; `names` are those of held-out domains."""
        weights: dict[str, float] = {}
        for member, weight in zip(self.ensemble.members, self.ensemble.weights.tolist(), strict=True):
            weights[member.variant] = weights.get(member.variant, 0.0) + weight
        is_single = not self.ensemble.trials
        rows = [
            LeaderboardRow(
                model=result.name,
                kind=result.kind,
                mean=result.mean,
                standard_error=standard_error(result.scores[result.defined]),
                scores=dict(zip(names, result.scores.tolist(), strict=True)),
                params=result.candidate.params,
                seconds=result.seconds,
                weight=weights.get(result.name, 0.0),
                is_selected=is_single and result.candidate is self.ensemble.members[0],
            )
            for result in self.results
        ]
        for trial in self.ensemble.trials:
            is_selected = trial.trial_name == self.ensemble.trial_name
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
        return Leaderboard(tuple(sorted(rows, key=lambda row: -np.nan_to_num(row.mean, nan=-np.inf))))

    def refit(
        self,
        samples: Samples,
        plan: SizePlan,
        config: EvaluationConfig,
        *,
        seed: int = 0,
        collect: CollectStatistics | None = None,
        fitted: FittedCandidates | None = None,
    ) -> tuple[EnsembleClassifier, dict[str, Any]]:
        """The ensemble with members fitted to all training data, and the facts of `refit_candidates`."""
        members, facts = refit_candidates(
            self.ensemble.members,
            samples,
            plan,
            balance=config.balance,
            seed=seed,
            collect=collect,
            n_jobs=config.n_jobs,
            fitted=fitted,
        )
        ensemble = self.ensemble.to_estimator()
        if samples.raw is not None:
            ensemble.set_params(n_prepared_features=samples.X.shape[1])
        return ensemble.with_members(members), facts


def select_model(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    config: EvaluationConfig,
    *,
    ensemble: bool = True,
    transductive: bool = False,
    among: Sequence[Candidate] | None = None,
) -> SelectedModel:
    """Evaluate candidates on held-out domains, and fit an ensemble or select one of them.

    Parameters
    ----------
    candidates : sequence of Candidate
        The candidates.
    samples : Samples
        All rows.
    splits : sequence of (train, test)
        Positions of rows, usually one split for each held-out domain.
    config : EvaluationConfig
        Preparation, metric, balance, processes and progress.
    ensemble : bool, default=True
        Whether to fit an ensemble; otherwise one candidate is selected.
    transductive : bool, default=False
        Whether transductive members and smoothing are tested.
    among : sequence of Candidate, default=None
        Candidates that may be selected; None for all. Others are evaluated for comparison.

    Returns
    -------
    model : SelectedModel
        The results and the ensemble, whose reported scores are cross-fitted.
    """
    check_comparison_size(len(samples.classes), len(splits))
    tests_skewed = ensemble and transductive
    trials = make_trials(len(candidates), samples, splits, skewed=tests_skewed)
    predictions = predict_trials(candidates, samples, trials, config)
    out_of_domain = predictions.restrict(candidates, skewed=tests_skewed)
    fitted = out_of_domain.select(config.preparation, ensemble=ensemble, transductive=transductive, among=among)
    return SelectedModel(out_of_domain.candidate_results(), fitted)


@dataclass(frozen=True)
class CandidatePredictions:
    """Predictions of candidates for held-out rows, of which several models may be selected."""

    candidates: Sequence[Candidate]
    samples: Samples
    trials: TrialSplits
    predictions: list[Prediction]
    config: EvaluationConfig

    def restrict(self, candidates: Sequence[Candidate], *, skewed: bool = False) -> OutOfDomainPredictions:
        """Those of some candidates; without `skewed`, of batches with natural classes only."""
        trials = self.trials
        if not skewed:
            trials = trials.without_skewed()
        n_dropped = len(self.trials.splits) - len(trials.splits)
        first = len(trials.natural)  # skewed splits follow the natural ones
        positions = {id(candidate): j for j, candidate in enumerate(candidates)}
        kept = []
        for prediction in self.predictions:
            j = positions.get(id(self.candidates[prediction.candidate]))
            split = prediction.split - (n_dropped if prediction.split >= first else 0)
            if j is not None and (prediction.split < first or split >= first):
                kept.append(replace(prediction, candidate=j, split=split))
        return OutOfDomainPredictions(candidates, self.samples, trials, kept, self.config.scoring, self.config.balance)


def make_trials(n_candidates: int, samples: Samples, splits: Sequence[Split], *, skewed: bool = False) -> TrialSplits:
    """The splits on which candidates are evaluated; `skewed` also holds out batches with skewed classes."""
    return TrialSplits.from_splits(samples, _limit_held_out_rows(samples, splits, n_candidates), skewed=skewed)


def predict_trials(
    candidates: Sequence[Candidate], samples: Samples, trials: TrialSplits, config: EvaluationConfig
) -> CandidatePredictions:
    """Predict the held-out rows of all splits with all candidates."""
    predictions = evaluate_candidates(
        candidates, samples, trials.splits, config, with_decision_scores=True, resampled=trials.skewed_positions
    )
    return CandidatePredictions(candidates, samples, trials, list(predictions), config)


def limit_evaluation_rows(candidates: Sequence[Candidate], plan: SizePlan, *, is_single: bool) -> list[Candidate]:
    """Candidates whose models that predict held-out rows are fitted to as many rows as the plan says.

    A linear classifier is fitted to all rows if it `is_single`. As a member of an ensemble it is fitted to as many rows
    as the other members, so that weights do not depend on the numbers of rows.
    """
    if plan.exact:
        return list(candidates)
    limited = []
    for candidate in candidates:
        max_rows: int | None = plan.choice_rows if candidate.shares != "nothing" else plan.classifier_choice_rows
        if is_single and candidate.transformer is None and type(candidate.classifier) in LINEAR_CLASSIFIERS:
            max_rows = None
        limited.append(replace(candidate, max_evaluation_rows=max_rows, max_exact_rows=LARGE_EXACT_ROWS))
    return limited


def _limit_held_out_rows(samples: Samples, splits: Sequence[Split], n_candidates: int) -> Sequence[Split]:
    """Splits with fewer held-out rows, if decision scores of all rows, for thousands of classes, exceed the memory."""
    n_scores = n_candidates * len(samples.classes) * sum(len(test) for _, test in splits)
    step = -(-n_scores // MAX_DECISION_SCORES)
    return [(train, test[::step]) for train, test in splits] if step > 1 else splits


CollectStatistics = Callable[[Projection], Statistics]
# Fitted pipelines by key of the candidate and by plan; None for a plan that is exact.
FittedCandidates = dict[tuple[str, SizePlan | None], Pipeline]


def refit_candidates(
    candidates: Sequence[Candidate],
    samples: Samples,
    plan: SizePlan,
    *,
    balance: Balance = "none",
    seed: int = 0,
    collect: CollectStatistics | None = None,
    n_jobs: int | None = None,
    fitted: FittedCandidates | None = None,
) -> tuple[list[Pipeline], dict[str, Any]]:
    """Fit candidates to all training data: exactly, or by the plan for large data.

    Parameters
    ----------
    candidates : sequence of Candidate
        The candidates.
    samples : Samples
        Prepared rows: all of them, or as many as the plan has in memory.
    plan : SizePlan
        How many rows are used for what.
    balance : {"none", "classes", "domains"}, default="none"
        What has equal weight in training.
    seed : int, default=0
        Seed of the landmarks.
    collect : callable, default=None
        Returns the statistics of all rows for a projection with its landmarks; needed if the plan is not exact.
    n_jobs : int, default=None
        Number of processes, if the plan is exact.
    fitted : dict, default=None
        Candidates that were fitted to these rows before, which are not fitted again; those fitted here are added.

    Returns
    -------
    members : list of Pipeline
        Fitted pipelines, in the order of the candidates.
    facts : dict
        Largest numbers of rows, landmarks and so on of the members fitted here; empty if the plan is exact.
    """
    fitted = {} if fitted is None else fitted
    keys = [(candidate.key, None if plan.exact else plan) for candidate in candidates]
    missing = {key: candidate for key, candidate in zip(keys, candidates, strict=True) if key not in fitted}
    with ignore_expected_warnings():
        if plan.exact:
            calls = (delayed(_fit_exactly)(candidate, samples, balance) for candidate in missing.values())
            pipelines = list(parallel(n_jobs)(calls))
            facts: dict[str, float] = {}
        else:
            assert collect is not None
            landmark_fit = LandmarkFit(samples, collect, plan, seed, balance)
            pipelines = [landmark_fit.fit_candidate(candidate) for candidate in missing.values()]
            facts = landmark_fit.facts
    fitted.update(zip(missing, pipelines, strict=True))
    return [fitted[key] for key in keys], facts


def _fit_exactly(candidate: Candidate, samples: Samples, balance: Balance) -> Pipeline:
    """Fit a candidate to all rows, in this process or in a worker."""
    with ignore_expected_warnings(), single_thread():
        return candidate.fit_samples(samples, balance)


@dataclass
class LandmarkFit:
    """Fits candidates to more rows than a kernel matrix can hold; those with one kernel share landmarks and statistics.

    `samples` holds prepared rows, to which classifiers are fitted; those of kernel methods are fitted to a subsample,
    from which landmarks are drawn. `collect` returns the statistics of all rows for a projection with its landmarks.
    """

    samples: Samples
    collect: CollectStatistics
    plan: SizePlan
    seed: int = 0
    balance: Balance = "none"
    facts: dict[str, float] = field(default_factory=dict)
    _projections: dict[Any, tuple[PivotedNystroem, Statistics]] = field(default_factory=dict)

    @cached_property
    def sample(self) -> Samples:
        """Rows for landmarks and for the classifiers of kernel methods."""
        if len(self.samples) <= self.plan.sample_rows:
            return self.samples
        return self.samples.take(self.samples.subsample_rows(self.plan.sample_rows, self.seed))

    def fit_candidate(self, candidate: Candidate) -> Pipeline:
        """A fitted pipeline; how many rows its parts were fitted to is added to the facts."""
        if isinstance(candidate.transformer, Projection):
            return self._fit_projection(candidate)
        samples = self.samples
        if candidate.max_train_rows is not None:
            self._note(kernel_rows=min(len(samples), candidate.max_train_rows))
        elif candidate.shares == "kernel matrix":
            # A kernel expansion over thousands of rows would be slow to fit and to predict: landmarks replace it.
            samples = self.sample
            landmarks = self._unfitted_map("rbf", candidate.classifier.gamma)
            linear = make_pipeline(landmarks, LinearSVC(C=candidate.classifier.C, random_state=0))
            candidate = replace(candidate, classifier=linear)
            self._note(kernel_rows=len(samples), landmarks=landmarks.n_components)
        else:
            self._note(classifier_rows=len(samples))
        return candidate.fit_samples(samples, self.balance)

    def _fit_projection(self, candidate: Candidate) -> Pipeline:
        sample = self.sample
        projection = clone(candidate.transformer)
        key = (projection.kernel, projection.gamma)
        if key not in self._projections:  # all methods with this kernel width use the same landmarks and statistics
            rows = np.random.default_rng(self.seed).permutation(len(sample))[: self.plan.landmark_rows]
            landmarks = self._unfitted_map(*key).fit(sample.X[rows])
            mapped = clone(projection).set_params(feature_map=FrozenEstimator(landmarks))
            self._projections[key] = landmarks, self.collect(mapped)
        landmarks, statistics = self._projections[key]
        projection.set_params(feature_map=FrozenEstimator(landmarks))
        fit_from_statistics(projection, statistics, sample.X.shape[1])
        Z = projection.transform(sample.X, sample_domain=sample.domain)
        head = fit_clone(candidate.classifier, Z, sample.y, sample.domain, sample.weights(balance=self.balance))
        self._note(
            kernel_rows=len(sample),
            projection_rows=int(statistics.cells.counts.sum()),
            landmarks=landmarks.n_components_,
            trace_error=landmarks.trace_error_,
        )
        return Pipeline([("projection", projection), ("classifier", head)])

    def _note(self, **facts: float) -> None:
        """Keep the largest value of each fact."""
        self.facts |= {name: max(value, self.facts.get(name, value)) for name, value in facts.items()}

    def _unfitted_map(self, kernel: Any, gamma: Any) -> PivotedNystroem:
        return PivotedNystroem(
            min(self.plan.landmarks, self.plan.landmark_rows, len(self.sample)),
            kernel=kernel,
            gamma=gamma,
            tolerance=self.plan.tolerance,
            random_state=self.seed,
        )


def make_average_candidates(methods: Sequence[Any], n_classes: int) -> list[Candidate]:
    """Make the candidates of an average: the middle one of the settings of each method in the automatic ensemble.

    For logistic regression that is C=1. Methods that need batches of a new domain are an error, since rows are
    predicted one by one.
    """
    chosen = expand_methods(parse_methods(list(methods)), transductive=False)
    candidates = []
    for method in chosen:
        settings = list(method.candidates(n_classes, grid="ensemble", heads=("logistic",), centerings=("source",)))
        candidates.append(settings[len(settings) // 2])
    return candidates


def iterate_averages(
    candidates: Sequence[Candidate], samples: Samples, splits: Sequence[Split], config: EvaluationConfig
) -> Iterator[tuple[int, Array, str]]:
    """Predict held-out rows by the mean probabilities of candidates; splits that train on the same rows come together.

    Yields
    ------
    split : int
        Position of the split.
    probabilities : ndarray of shape (n_held_out, n_classes)
        In the order of the sorted classes of all samples; NaN if no candidate could be fitted, such as to rows of a
        single class.
    error : str
        Why none could be fitted; empty if one could.
    """
    received: dict[int, list[Prediction]] = {}
    for prediction in evaluate_candidates(candidates, samples, splits, config, with_decision_scores=True):
        of_split = received.setdefault(prediction.split, [])
        of_split.append(prediction)
        if len(of_split) < len(candidates):
            continue
        fitted = [softmax(one.responses["decision_scores"]) for one in of_split if one.codes is not None]
        if fitted:
            yield prediction.split, sum(fitted[1:], start=fitted[0]) / len(fitted), ""
        else:
            shape = (len(splits[prediction.split][1]), len(samples.classes))
            yield prediction.split, np.full(shape, np.nan), of_split[0].error
        del received[prediction.split]
