"""Candidates fitted to more rows than a kernel matrix can hold: explicit features, added up block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from ..estimators import Projection, Statistics, fit_from_statistics
from ..kernels import PivotedNystroem, SizePlan
from ..utils.samples import Balance, Samples
from ._candidate import Candidate, fit_clone, ignore_expected_warnings


@dataclass
class LandmarkFit:
    """Fits candidates by a plan; those of one kernel share landmarks and statistics.

    `sample` holds prepared rows, for the landmarks and to train classifiers; `collect` gives the statistics of all rows
    for a projection behind its landmarks. Classifiers that take weights get those of the sample, balanced or not.
    """

    sample: Samples
    collect: Callable[[Projection], Statistics]
    plan: SizePlan
    seed: int = 0
    balance: Balance = "none"
    _maps: dict[Any, PivotedNystroem] = field(default_factory=dict)
    _statistics: dict[Any, Statistics] = field(default_factory=dict)

    def fitted(self, candidate: Candidate) -> tuple[Pipeline, dict[str, Any]]:
        """A pipeline fitted to as many rows as the candidate can take, and what saw how many."""
        sample = self.sample
        seen = {"classifier_rows": len(sample)}
        with ignore_expected_warnings():
            if isinstance(candidate.transformer, Projection):
                return self._projected(candidate, seen)
            if candidate.shares == "kernel matrix":
                # A kernel expansion over thousands of rows would be as slow to ask as to fit: landmarks stand for it.
                landmarks = self._unfitted("rbf", candidate.classifier.gamma)
                linear = make_pipeline(landmarks, LinearSVC(C=candidate.classifier.C, random_state=0))
                candidate = replace(candidate, classifier=linear)
                seen["landmarks"] = landmarks.n_components
            return candidate.fit(sample.X, sample.y, sample.domain, sample.weights(balance=self.balance)), seen

    def _projected(self, candidate: Candidate, seen: dict[str, Any]) -> tuple[Pipeline, dict[str, Any]]:
        sample, key = self.sample, (candidate.transformer.kernel, candidate.transformer.gamma)
        if key not in self._maps:
            rows = np.random.default_rng(self.seed).permutation(len(sample))[: self.plan.landmark_rows]
            self._maps[key] = self._unfitted(*key).fit(sample.X[rows])
        landmarks = self._maps[key]
        projection = clone(candidate.transformer).set_params(feature_map=FrozenEstimator(landmarks))
        if key not in self._statistics:  # methods of one width differ in what they make of the same statistics
            self._statistics[key] = self.collect(projection)
        statistics = self._statistics[key]
        fit_from_statistics(projection, statistics, sample.X.shape[1])
        Z = projection.transform(sample.X, sample_domain=sample.domain)
        weight = sample.weights(balance=self.balance)
        head = fit_clone(candidate.classifier, Z, sample.y, sample.domain, weight)
        seen |= {
            "projection_rows": int(statistics.cells.counts.sum()),
            "landmarks": landmarks.n_components_,
            "trace_error": landmarks.trace_error_,
        }
        return Pipeline([("projection", projection), ("classifier", head)]), seen

    def _unfitted(self, kernel: Any, gamma: Any) -> PivotedNystroem:
        return PivotedNystroem(
            min(self.plan.landmarks, self.plan.landmark_rows, len(self.sample)),
            kernel=kernel,
            gamma=gamma,
            tolerance=self.plan.tolerance,
            random_state=self.seed,
        )
