"""Refitting of selected candidates, on all rows or, for data beyond exact kernels, through landmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from joblib import delayed  # type: ignore[import-untyped, unused-ignore]
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from ..estimators import Projection, Statistics, fit_from_statistics, parallel
from ..kernels import PivotedNystroem, SizePlan
from ..utils.samples import Balance, Samples
from ._candidate import Candidate, fit_clone, ignore_expected_warnings
from ._split_evaluation import single_thread

CollectStatistics = Callable[[Projection], Statistics]


@dataclass(frozen=True)
class RefittedMembers:
    """Fitted pipelines of candidates, and how many rows, landmarks and so on were used, where not all rows were."""

    pipelines: list[Pipeline]
    facts: list[dict[str, Any]]

    @property
    def summary(self) -> dict[str, Any]:
        """The largest value of each fact over all members."""
        names = {name for member_facts in self.facts for name in member_facts}
        return {name: max(facts[name] for facts in self.facts if name in facts) for name in names}


def refit_candidates(
    candidates: Sequence[Candidate],
    samples: Samples,
    plan: SizePlan,
    *,
    balance: Balance = "none",
    seed: int = 0,
    collect: CollectStatistics | None = None,
    n_jobs: int | None = None,
) -> RefittedMembers:
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

    Returns
    -------
    members : RefittedMembers
        Fitted pipelines, in the order of the candidates.
    """
    with ignore_expected_warnings():
        if plan.exact:
            calls = (delayed(_fit_exactly)(candidate, samples, balance) for candidate in candidates)
            return RefittedMembers(list(parallel(n_jobs)(calls)), [{} for _ in candidates])
        assert collect is not None
        landmark_fit = LandmarkFit(samples, collect, plan, seed, balance)
        fits = [landmark_fit.fit_candidate(candidate) for candidate in candidates]
        return RefittedMembers([pipeline for pipeline, _ in fits], [facts for _, facts in fits])


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
    _maps: dict[Any, PivotedNystroem] = field(default_factory=dict)
    _statistics: dict[Any, Statistics] = field(default_factory=dict)

    @cached_property
    def sample(self) -> Samples:
        """Rows for landmarks and for the classifiers of kernel methods."""
        if len(self.samples) <= self.plan.sample_rows:
            return self.samples
        return self.samples.take(self.samples.subsample_rows(self.plan.sample_rows, self.seed))

    def fit_candidate(self, candidate: Candidate) -> tuple[Pipeline, dict[str, Any]]:
        """A fitted pipeline, and how many rows its parts were fitted to."""
        if isinstance(candidate.transformer, Projection):
            return self._fit_projection(candidate)
        samples = self.samples
        if candidate.shares == "kernel matrix" and candidate.max_train_rows is None:
            # A kernel expansion over thousands of rows would be slow to fit and to predict: landmarks replace it.
            samples = self.sample
            landmarks = self._unfitted_map("rbf", candidate.classifier.gamma)
            linear = make_pipeline(landmarks, LinearSVC(C=candidate.classifier.C, random_state=0))
            pipeline = replace(candidate, classifier=linear).fit_samples(samples, self.balance)
            return pipeline, {"kernel_rows": len(samples), "landmarks": landmarks.n_components}
        if candidate.max_train_rows is not None:
            return candidate.fit_samples(samples, self.balance), {
                "kernel_rows": min(len(samples), candidate.max_train_rows)
            }
        return candidate.fit_samples(samples, self.balance), {"classifier_rows": len(samples)}

    def _fit_projection(self, candidate: Candidate) -> tuple[Pipeline, dict[str, Any]]:
        sample = self.sample
        key = (candidate.transformer.kernel, candidate.transformer.gamma)
        if key not in self._maps:
            rows = np.random.default_rng(self.seed).permutation(len(sample))[: self.plan.landmark_rows]
            self._maps[key] = self._unfitted_map(*key).fit(sample.X[rows])
        landmarks = self._maps[key]
        projection = clone(candidate.transformer).set_params(feature_map=FrozenEstimator(landmarks))
        if key not in self._statistics:  # all methods with this kernel width use the same statistics
            self._statistics[key] = self.collect(projection)
        statistics = self._statistics[key]
        fit_from_statistics(projection, statistics, sample.X.shape[1])
        Z = projection.transform(sample.X, sample_domain=sample.domain)
        head = fit_clone(candidate.classifier, Z, sample.y, sample.domain, sample.weights(balance=self.balance))
        facts = {
            "kernel_rows": len(sample),
            "projection_rows": int(statistics.cells.counts.sum()),
            "landmarks": landmarks.n_components_,
            "trace_error": landmarks.trace_error_,
        }
        return Pipeline([("projection", projection), ("classifier", head)]), facts

    def _unfitted_map(self, kernel: Any, gamma: Any) -> PivotedNystroem:
        return PivotedNystroem(
            min(self.plan.landmarks, self.plan.landmark_rows, len(self.sample)),
            kernel=kernel,
            gamma=gamma,
            tolerance=self.plan.tolerance,
            random_state=self.seed,
        )
