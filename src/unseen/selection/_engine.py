"""The engine: samples, splits and candidates in, out-of-domain predictions out.

What a candidate, trained on one part of the samples, says of another part is all that a choice, a table, a verdict or a
leaderboard needs to know: they are readings of these predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import delayed

from ..algebra import Array, Ints
from ..estimators import processes
from ..labels import Samples
from ..progress import track
from ._asking import Prediction, Rows, Stage, ask, grouped, sharing_key
from ._candidate import Candidate

Split = tuple[Ints, Ints]
Scoring = str | Callable[..., float]
RESPONSES = ("predict_proba", "decision_function")
TIE = 1e-12  # means of the same fractions may differ by rounding
FACTS = ("fit_seconds", "predict_seconds", "n_components", "ridge", "weight")  # of Prediction, and of Score


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
    # Splits that train on the same rows are one piece of work, whatever they hold out.
    alike = grouped(range(len(splits)), lambda k: np.asarray(splits[k][0]).tobytes())
    asks: Any = scoring if callable(scoring) else () if scoring == "accuracy" else RESPONSES
    done = processes(n_jobs, pre_dispatch="n_jobs")(
        delayed(ask)(group, stage, same, rows, asks)
        for same, (stage, rows) in zip(alike, _stages(samples, splits, alike, preparation), strict=True)
        for group in groups
    )
    total = len(groups) * len(alike)
    for piece in track(done, total, **(shown or {"description": "", "verbose": 0})):
        yield from piece


def _stages(
    samples: Samples, splits: Sequence[Split], alike: Sequence[Sequence[int]], preparation: Any
) -> Iterator[tuple[Stage, Rows]]:
    """For splits that train on the same rows, samples as candidates see them, and where to train and to test."""
    whole = Stage(samples)
    for same in alike:
        rows = Rows(np.asarray(splits[same[0]][0]), tuple(np.asarray(splits[k][1]) for k in same))
        if preparation is None:
            yield whole, rows
            continue
        prepare = clone(preparation).fit(_safe_indexing(samples.X, rows.train))
        X = np.asarray(prepare.transform(_safe_indexing(samples.X, rows.all)), dtype=np.float64)
        yield Stage(replace(samples.take(rows.all), X=X)), rows.in_order


class Scorer:
    """Turns predictions on splits of samples into scores: accuracy by counting, all else by scikit-learn's scorers."""

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


class Score(NamedTuple):
    """How a candidate did on a split, or why that cannot be said; what it cost; what tells the simplest of equals."""

    value: float
    error: str
    fit_seconds: float
    predict_seconds: float
    n_components: float
    ridge: float
    weight: float


def scores(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    *,
    scoring: Scoring = "accuracy",
    **how: Any,
) -> Iterator[tuple[int, int, Score]]:
    """Positions of candidate and split, and the score, for each of the `predictions`."""
    score = Scorer(scoring, samples, splits)
    for prediction in predictions(candidates, samples, splits, scoring=scoring, **how):
        value, error = np.nan, prediction.error
        try:
            value = score(prediction)
        except (ValueError, AttributeError) as unfit:  # a scorer that needs what the classifier does not have
            error = f"{type(unfit).__name__}: {unfit}"
        facts = (float(getattr(prediction, name)) for name in FACTS)
        yield prediction.candidate, prediction.split, Score(value, error, *facts)


def tally(found: Iterable[tuple[int, int, Score]], n_candidates: int, n_splits: int) -> dict[str, Any]:
    """Scores and what they cost, candidates by splits; their means; and the first error of each candidate."""
    shape = n_candidates, n_splits
    scores, facts = np.full(shape, np.nan), {name: np.zeros(shape) for name in FACTS}
    errors = [""] * n_candidates
    for candidate, split, score in found:
        scores[candidate, split] = score.value
        errors[candidate] = errors[candidate] or score.error
        for name, values in facts.items():
            values[candidate, split] = getattr(score, name)
    return {
        "scores": scores,
        "seconds": facts["fit_seconds"] + facts["predict_seconds"],
        "errors": errors,
        "facts": facts,
        "mean_test_score": scores.mean(axis=1),
        "mean_n_components": facts["n_components"].mean(axis=1),
        "mean_ridge": facts["ridge"].mean(axis=1),
        "mean_invariance_weight": facts["weight"].mean(axis=1),
    }


def tabulate(results: dict[str, Any], candidates: Sequence[Candidate]) -> dict[str, Any]:
    """The same as GridSearchCV's ``cv_results_``, with some columns of our own."""
    scores, means, facts = results["scores"], results["mean_test_score"], results["facts"]
    params = [candidate.settings for candidate in candidates]
    return {
        "mean_fit_time": facts["fit_seconds"].mean(axis=1),
        "std_fit_time": facts["fit_seconds"].std(axis=1),
        "mean_score_time": facts["predict_seconds"].mean(axis=1),
        "std_score_time": facts["predict_seconds"].std(axis=1),
        **_param_columns(params),
        "params": params,
        **{f"split{k}_test_score": column for k, column in enumerate(scores.T)},
        "mean_test_score": means,
        "std_test_score": scores.std(axis=1),
        "rank_test_score": rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32),
        "n_ties": np.array([np.sum(np.abs(means - mean) <= TIE) - 1 if np.isfinite(mean) else 0 for mean in means]),
        **{name: results[name] for name in ("mean_n_components", "mean_ridge", "mean_invariance_weight")},
        "transductive": np.array([candidate.transductive for candidate in candidates]),
    }


def _param_columns(params: list[dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for setting in params for name in setting)
    columns = {}
    for name in names:
        column = np.ma.MaskedArray(np.empty(len(params), dtype=object), mask=True)
        for i, setting in enumerate(params):
            if name in setting:
                column[i] = setting[name]
        columns[f"param_{name}"] = column
    return columns


def preferred(results: dict[str, Any], among: Sequence[int] | Ints | None = None) -> int:
    """Index of the best mean; of equals, fewest components, then largest ridge, then largest invariance weights.

    The simplest and most regularised of settings that the data cannot tell apart; after that, the first in the grid.
    """
    indices = np.arange(len(results["mean_test_score"])) if among is None else np.asarray(among)
    means = results["mean_test_score"][indices]
    if not np.isfinite(means).any():  # all failed alike
        return int(indices[0])
    tied = indices[means >= np.nanmax(means) - TIE]
    facts = zip(
        results["mean_n_components"][tied],
        -results["mean_ridge"][tied],
        -results["mean_invariance_weight"][tied],
        tied.tolist(),
        strict=True,
    )
    return min(facts)[-1]


def ties(means: Array) -> int:
    """How many settings share the best mean, besides the chosen one."""
    return int(np.sum(means >= np.nanmax(means) - TIE)) - 1 if np.isfinite(means).any() else 0
