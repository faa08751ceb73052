"""The engine: samples, splits and candidates in, out-of-domain predictions out.

What a candidate, trained on one part of the samples, says of another part is all that a choice, a table, a verdict or a
leaderboard needs to know: they are readings of these predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import delayed

from ..algebra import Ints
from ..estimators import processes
from ..labels import Samples
from ..progress import track
from ._asking import Prediction, Stage, ask, grouped, sharing_key, split_rows
from ._candidate import Candidate

Split = tuple[Ints, Ints]
Scoring = str | Callable[..., float]
RESPONSES = ("predict_proba", "decision_function")


def predictions(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    *,
    preparation: Any = None,
    scoring: Scoring = "accuracy",
    n_jobs: int | None = None,
    shown: dict[str, Any] | None = None,
) -> Iterator[Prediction]:
    """What candidates say of the held-out parts of splits, as pieces of the work are done.

    Parameters
    ----------
    candidates : sequence of Candidate
        Whom to ask.
    samples : Samples
        All rows.
    splits : sequence of (train, test)
        Positions of rows.
    preparation : transformer, default=None
        Fitted on the training rows of each split, and on no others; None takes samples as they are.
    scoring : str or callable
        What will be made of the predictions: all but accuracy may need probabilities or decision values, and a function
        gets the fitted classifier and what that sees.
    n_jobs : int, default=None
        Number of processes.
    shown : dict, default=None
        How progress is shown: `description`, `verbose` and `owner` of `unseen.progress.track`.

    Yields
    ------
    prediction : Prediction
        One for each candidate and split, in no particular order.
    """
    groups = grouped(enumerate(candidates), sharing_key)
    asks: Any = scoring if callable(scoring) else () if scoring == "accuracy" else RESPONSES
    done = processes(n_jobs, pre_dispatch="n_jobs")(
        delayed(ask)(group, stage, k, rows, asks)
        for k, (stage, rows) in enumerate(_stages(samples, splits, preparation))
        for group in groups
    )
    total = len(groups) * len(splits)
    for piece in track(done, total, **(shown or {"description": "", "verbose": 0})):
        yield from piece


def _stages(samples: Samples, splits: Sequence[Split], preparation: Any) -> Iterator[tuple[Stage, Split]]:
    """For each split the samples as candidates see them, and where in these to train and to test."""
    whole = Stage(samples)
    for train, test in splits:
        if preparation is None:
            yield whole, (train, test)
            continue
        rows = np.concatenate([train, test])
        prepare = clone(preparation).fit(_safe_indexing(samples.X, train))
        X = np.asarray(prepare.transform(_safe_indexing(samples.X, rows)), dtype=np.float64)
        yield Stage(replace(samples.take(rows), X=X)), split_rows(len(train), len(test))


class Scorer:
    """Turns predictions into scores: accuracy by counting, all else by scikit-learn's scorers.

    Parameters
    ----------
    scoring : str or callable
        A scikit-learn scorer.
    samples : Samples
        What the predictions are of.
    splits : sequence of (train, test)
        Which of them.
    """

    def __init__(self, scoring: Scoring, samples: Samples, splits: Sequence[Split]) -> None:
        self.samples = samples
        self.splits = splits
        known = callable(scoring) or scoring == "accuracy"
        self.scorer = None if known else check_scoring(Classifier(samples.classes, {}), scoring=scoring)

    def __call__(self, prediction: Prediction) -> float:
        """The score of a prediction; what it lacks for that is a ValueError or an AttributeError."""
        test = self.splits[prediction.split][1]
        if prediction.codes is None:
            return np.nan
        if "score" in prediction.responses:
            return float(prediction.responses["score"])
        if self.scorer is None:
            return float(np.mean(prediction.codes == self.samples.codes[test]))
        responses = {"predict": self.samples.classes[prediction.codes], **prediction.responses}
        told = Classifier(responses.pop("classes_"), responses)
        return float(self.scorer(told, _safe_indexing(self.samples.X, test), self.samples.y[test]))


def _said(name: str) -> Callable[[Classifier], bool]:
    return lambda told: name in told.responses


class Classifier(ClassifierMixin, BaseEstimator):
    """Has said all that it will ever say: a classifier that repeats its answers to the one batch it was asked about."""

    def __init__(self, classes: Any, responses: dict[str, Any]) -> None:
        self.classes_ = classes
        self.responses = responses

    def fit(self, X: Any, y: Any) -> Self:
        """Learn nothing."""
        return self

    def predict(self, X: Any) -> Any:
        """The labels."""
        return self.responses["predict"]

    @available_if(_said("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """The probabilities."""
        return self.responses["predict_proba"]

    @available_if(_said("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """The decision values."""
        return self.responses["decision_function"]
