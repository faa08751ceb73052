"""From candidates to a fitted ensemble: evaluate, select, refit on all rows or, for large data, through landmarks.

`UnseenClassifier`, `unseen.fit`, comparisons and the explorer all use these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
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

from ..estimators import Projection, Statistics, collect_statistics, fit_from_statistics
from ..kernels import PivotedNystroem, SizePlan
from ..utils.jobs import parallel
from ..utils.samples import Balance, Samples
from ._candidate import CANDIDATE_LANDMARKS, Candidate, fit_clone, ignore_expected_warnings
from ._ensemble import EnsembleClassifier
from ._ensemble_selection import FittedEnsemble, OutOfDomainPredictions
from ._evaluation import EvaluationConfig, evaluate_candidates, group_by, single_thread
from ._splitters import Split, TrialSplits

# Fits to all rows of a large table take less time than a tree.
LINEAR_CLASSIFIERS = (LogisticRegression, LinearSVC, RidgeClassifier)
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


def select_model(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    config: EvaluationConfig,
    *,
    ensemble: bool = True,
    transductive: bool = False,
    among: Sequence[Candidate] | None = None,
) -> FittedEnsemble:
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
    ensemble : FittedEnsemble
        The ensemble, whose reported scores are cross-fitted.
    """
    check_comparison_size(len(samples.classes), len(splits))
    tests_skewed = ensemble and transductive
    trials = TrialSplits.from_splits(samples, splits, skewed=tests_skewed, n_candidates=len(candidates))
    predictions = evaluate_candidates(
        candidates, samples, trials.splits, config, with_decision_scores=True, resampled=trials.skewed_positions
    )
    out_of_domain = OutOfDomainPredictions(candidates, samples, trials, predictions, config.scoring, config.balance)
    return out_of_domain.select(config.preparation, ensemble=ensemble, transductive=transductive, among=among)


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


CollectStatistics = Callable[[Projection], Statistics]
# Fitted pipelines by key of the candidate and by plan; None for a plan that is exact.
CandidateKey = tuple[str, SizePlan | None]
FittedCandidates = dict[CandidateKey, Pipeline]


def refit_ensemble(
    fitted: FittedEnsemble,
    samples: Samples,
    plan: SizePlan,
    config: EvaluationConfig,
    *,
    seed: int = 0,
    collect: CollectStatistics | None = None,
    already_fitted: FittedCandidates | None = None,
) -> tuple[EnsembleClassifier, dict[str, Any]]:
    """Fit the members of an ensemble to all training data: exactly, or by the plan for large data.

    Parameters
    ----------
    fitted : FittedEnsemble
        The ensemble.
    samples : Samples
        Prepared rows: all of them, or as many as the plan has in memory.
    plan : SizePlan
        How many rows are used for what.
    config : EvaluationConfig
        What has equal weight in training and, if the plan is exact, the number of processes.
    seed : int, default=0
        Seed of the landmarks.
    collect : callable, default=None
        Returns the statistics of all rows for a projection with its landmarks; needed if the plan is not exact.
    already_fitted : dict, default=None
        Candidates that were fitted to these rows before, which are not fitted again; those fitted here are added.

    Returns
    -------
    ensemble : EnsembleClassifier
        The fitted ensemble.
    facts : dict
        Largest numbers of rows, landmarks and so on of the members fitted here; empty if the plan is exact.
    """
    pipelines = {} if already_fitted is None else already_fitted
    keys = [(member.key, None if plan.exact else plan) for member in fitted.members]
    missing = {key: member for key, member in zip(keys, fitted.members, strict=True) if key not in pipelines}
    facts: dict[str, float] = {}
    with ignore_expected_warnings():
        if plan.exact:

            def landmarks_of(key: CandidateKey) -> Hashable:
                candidate = missing[key]
                return (candidate.transformer.gamma,) if candidate.needs_landmarks(len(samples)) else key

            groups = [{key: missing[key] for key in keys} for keys in group_by(missing, landmarks_of)]
            calls = (delayed(_fit_exactly)(list(group.values()), samples, config.balance) for group in groups)
            for group, fits in zip(groups, parallel(config.n_jobs)(calls), strict=True):
                pipelines.update(zip(group, fits, strict=True))
        else:
            assert collect is not None
            landmark_fit = LandmarkFit(samples, collect, plan, seed, config.balance)
            pipelines |= {key: landmark_fit.fit_candidate(member) for key, member in missing.items()}
            facts = landmark_fit.facts
    ensemble = fitted.to_estimator()
    if samples.raw is not None:
        ensemble.set_params(n_prepared_features=samples.X.shape[1])
    return ensemble.with_members([pipelines[key] for key in keys]), facts


def _fit_exactly(group: Sequence[Candidate], samples: Samples, balance: Balance) -> list[Pipeline]:
    """Fit candidates to all rows, in this process or in a worker; several candidates share landmarks."""
    with ignore_expected_warnings(), single_thread():
        if not group[0].needs_landmarks(len(samples)):
            return [candidate.fit_samples(samples, balance) for candidate in group]
        plan = SizePlan.from_rows(len(samples), landmarks=CANDIDATE_LANDMARKS).with_all_rows()

        def collect(projection: Projection) -> Statistics:
            return collect_statistics(projection, samples.X, samples.y, samples.domain)

        landmark_fit = LandmarkFit(samples, collect, plan, balance=balance)
        return [landmark_fit.fit_candidate(candidate) for candidate in group]


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
            X = sample.X
            if len(sample) > self.plan.landmark_rows:
                X = X[np.random.default_rng(self.seed).permutation(len(sample))[: self.plan.landmark_rows]]
            landmarks = self._unfitted_map(*key).fit(X)
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
