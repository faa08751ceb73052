"""Methods on more samples than a kernel matrix can hold: explicit features, added up block by block.

Settings are chosen on a part of the samples. They are multiples of the data's own scales, which do not depend on the
number of samples. The projections are then fitted on all of them, through landmarks drawn from the training data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.svm import LinearSVC
from sklearn.utils import gen_batches

from ..algebra import Array, Ints
from ..estimators import Statistics, adopt
from ..kernels import PivotedNystroem, median_squared_distance
from ..labels import Labels
from ..selection import nearest
from ._choose import Choice
from ._methods import PROJECTIONS, TUNED, Problem

LANDMARK_ROWS = 10_000  # among which landmarks are sought
COMPONENTS = 300  # landmarks
NEIGHBOURS = 10_000  # samples among which the nearest neighbour is sought
LINEAR_ROWS = 200_000  # samples that a linear classifier is trained on
MAPPED_ROWS = 10_000  # samples that the rbf SVM is trained on, through the landmarks
BLOCK = 50_000  # rows mapped at a time

skipped = {
    "KPCA": "decomposes the whole kernel matrix, which does not fit; --max-per-domain makes it possible",
    "Undo-Bias": "copies every sample for every domain; --max-per-domain makes it possible",
}


class Large:
    """A large problem, and what its methods share."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.X, self.y, self.domain = (part[problem.train] for part in (problem.X, problem.y, problem.domain))
        self.order: Ints = np.random.default_rng(0).permutation(len(self.y))
        self._maps: dict[Any, PivotedNystroem] = {}
        self._statistics: dict[Any, dict[str, Labels]] = {}
        self._landmarks: dict[str, int] = {}  # of each method that was run

    def remarks(self, method: str) -> dict[str, Any]:
        """What stands beside the settings: how the method was made to fit."""
        if method in PROJECTIONS:
            return {"landmarks": self._landmarks[method], "neighbours": min(NEIGHBOURS, len(self.y))}
        if method == "1NN":
            return {"neighbours": min(NEIGHBOURS, len(self.y))}
        if method == "RBF SVM":
            return {"landmarks": self._landmarks[method], "samples": min(MAPPED_ROWS, len(self.y))}
        return {"samples": min(LINEAR_ROWS, len(self.y))}

    def predicted(self, method: str, choice: Choice) -> Labels:
        """Fit on all that the method can take, and predict the targets."""
        test = self.problem.X[self.problem.test]
        if method in PROJECTIONS:
            return self._projected(method, choice, test)
        if method == "1NN":
            near = self.order[:NEIGHBOURS]
            return self.y[near][nearest(self.X[near], test)]
        if method == "RBF SVM":
            width = choice.settings["width"] / median_squared_distance(self.X[self.order[:NEIGHBOURS]])
            feature_map, rows = self._map(width, method), self.order[:MAPPED_ROWS]
            model = LinearSVC(C=choice.settings["C"], random_state=0)
            model.fit(feature_map.transform(self.X[rows]), self.y[rows])
            blocks = gen_batches(len(test), BLOCK)
            return np.concatenate([model.predict(feature_map.transform(test[block])) for block in blocks])
        rows = self.order[:LINEAR_ROWS]
        return TUNED[method][2](choice.settings, self.X[rows]).fit(self.X[rows], self.y[rows]).predict(test)

    def _map(self, gamma: Any, method: str) -> PivotedNystroem:
        """Landmarks for a width, sought once; a method that uses them has their number beside its settings."""
        if gamma not in self._maps:
            sample = self.X[self.order[:LANDMARK_ROWS]]
            self._maps[gamma] = PivotedNystroem(COMPONENTS, gamma=gamma, random_state=0).fit(sample)
        self._landmarks[method] = self._maps[gamma].n_components_
        return self._maps[gamma]

    def _projected(self, method: str, choice: Choice, test: Array) -> Labels:
        settings = dict(choice.settings)
        gamma = settings.pop("gamma", "median")
        model = clone(self.problem.projection(method)[0]).set_params(centering=self.problem.centering, **settings)
        model.set_params(feature_map=FrozenEstimator(self._map(gamma, method)))
        if gamma in self._statistics:  # methods of one width differ in what they make of the same statistics
            adopt(model, Statistics.from_arrays(self._statistics[gamma]), self.X.shape[1])
        else:
            model.partial_fit(self.X, self.y, sample_domain=self.domain)
            self._statistics[gamma] = model.statistics_
        near = self.order[:NEIGHBOURS]
        Z = model.transform(self.X[near], sample_domain=self.domain[near])
        return self.y[near][nearest(Z, model.transform(test, sample_domain=self.problem.domain[self.problem.test]))]
