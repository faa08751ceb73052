"""The engine: samples, splits and candidates in, out-of-domain predictions out.

What a candidate, trained on one part of the samples, says of another part is all that a choice, a table, a verdict or a
leaderboard needs to know: they are readings of these predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import delayed  # type: ignore[import-untyped, unused-ignore]
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if

from ..estimators import parallel
from ..exceptions import warn
from ..linalg import Array, Ints
from ..utils.progress import track
from ..utils.samples import Balance, Samples
from ..utils.validation import Labels, format_list
from ._candidate import Candidate
from ._metrics import Scoring, check_metric, get_metric_scorer, uses_labels_only
from ._split_evaluation import (
    DECISION_SCORES,
    FeatureStage,
    Prediction,
    SplitRows,
    apply_scorer,
    evaluate_group,
    group_by,
    sharing_key,
)

Split = tuple[Ints, Ints]
RESPONSES = ("predict_proba", "decision_function")
TIE_TOLERANCE = 1e-12  # means of the same fractions may differ by rounding
FIT_FACTS = ("fit_seconds", "predict_seconds", "n_components", "ridge", "weight")  # of Prediction, and of Score


def evaluate_candidates(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    *,
    preparation: Any = None,
    scoring: Scoring = "accuracy",
    balance: Balance = "none",
    n_jobs: int | None = None,
    shown: dict[str, Any] | None = None,
    votes: Collection[int] = (),
    again: frozenset[int] = frozenset(),
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
        What will be made of the predictions: some metrics need probabilities or decision values, and a function gets
        the fitted classifier and what that sees.
    balance : {"none", "classes", "domains"}, default="none"
        What weighs alike among the training rows of each split, for classifiers that take weights.
    n_jobs : int, default=None
        Number of processes.
    shown : dict, default=None
        How progress is shown: `description`, `verbose` and `owner` of `unseen.utils.progress.track`.
    votes : collection of int
        Positions of candidates that are asked for their votes as well; with ``scoring="votes"`` all are, and for
        nothing else.
    again : frozenset of int
        Splits that hold out what another holds out, drawn again: only transductive candidates whose votes are asked for
        have more to say there.

    Yields
    ------
    prediction : Prediction
        One for each candidate and split that it is asked about, in no particular order.
    """
    groups = group_by(enumerate(candidates), sharing_key)
    # Splits that train on the same rows are one piece of work, whatever they hold out.
    alike = group_by(range(len(splits)), lambda k: np.asarray(splits[k][0]).tobytes())
    ask_all = scoring if callable(scoring) else required_responses(scoring)
    more = DECISION_SCORES if callable(ask_all) else (*DECISION_SCORES, *ask_all)
    asks = [{i: more if i in votes else ask_all for i, _ in group} for group in groups]
    done = parallel(n_jobs, pre_dispatch="n_jobs")(
        delayed(evaluate_group)(group, stage, same, rows, own, samples.weights(splits[same[0]][0], balance), again)
        for same, (stage, rows) in zip(alike, prepare_stages(samples, splits, alike, preparation), strict=True)
        for group, own in zip(groups, asks, strict=True)
    )
    total = len(groups) * len(alike)
    for piece in track(done, total, **(shown or {"description": "", "verbose": 0})):
        yield from piece


def required_responses(scoring: str) -> tuple[str, ...]:
    """What a metric, or "votes", needs beside predicted labels."""
    if scoring in DECISION_SCORES:
        return DECISION_SCORES
    return () if scoring == "accuracy" or uses_labels_only(scoring) else RESPONSES


def prepare_stages(
    samples: Samples, splits: Sequence[Split], alike: Sequence[Sequence[int]], preparation: Any
) -> Iterator[tuple[FeatureStage, SplitRows]]:
    """For splits that train on the same rows, samples as candidates see them, and where to train and to test."""
    whole = FeatureStage(samples)
    for same in alike:
        rows = SplitRows(np.asarray(splits[same[0]][0]), tuple(np.asarray(splits[k][1]) for k in same))
        if preparation is None:
            yield whole, rows
            continue
        prepare = clone(preparation).fit(_safe_indexing(samples.X, rows.train))
        X = np.asarray(prepare.transform(_safe_indexing(samples.X, rows.all)), dtype=np.float64)
        yield FeatureStage(replace(samples.take(rows.all), X=X)), rows.in_order


class Scorer:
    """Turns predictions on splits of samples into scores: accuracy by counting, all else by scorers, weighted or not.

    Where even the truth itself would have no score, such as AUC where a single class was held out, the score is NaN for
    everybody.
    """

    def __init__(self, scoring: Scoring, samples: Samples, splits: Sequence[Split]) -> None:
        check_metric(scoring, samples.classes)
        self.scoring = scoring
        self.samples = samples
        self.splits = splits
        told = FixedPredictions(samples.classes, {})
        self.scorer = None if scoring == "accuracy" else get_metric_scorer(scoring, told)
        self._undefined: dict[int, str] = {}

    def __call__(self, prediction: Prediction) -> float:
        """The score of a prediction; what it lacks for that is a ValueError or an AttributeError."""
        if prediction.codes is None or self.undefined(prediction.split):
            return np.nan
        if "score" in prediction.responses:
            return float(prediction.responses["score"])
        test = self.splits[prediction.split][1]
        if self.scorer is None:
            right = prediction.codes == self.samples.codes[test]
            return float(np.average(right, weights=self._weight(test)))
        responses = {"predict": self.samples.classes[prediction.codes], **prediction.responses}
        return self._scored(test, FixedPredictions(responses.pop("classes_", self.samples.classes), responses))

    def undefined(self, split: int) -> str:
        """Why nothing can have a score on a split; empty if something can."""
        if split not in self._undefined:
            train, test = self.splits[split]
            weight, reason = self._weight(test), ""
            if weight is not None and not weight.any():
                reason = "its samples have no weight"
            elif self.scorer is not None and not callable(self.scoring):
                truth = _perfect_classifier(self.samples.y[test], np.unique(self.samples.y[train]))
                try:
                    reason = "" if np.isfinite(self._scored(test, truth)) else "it is not a number there"
                except ValueError as error:
                    reason = str(error)
            self._undefined[split] = reason
        return self._undefined[split]

    def leave_out(self, splits: Sequence[int]) -> None:
        """Tell of splits that count for nobody, once for all; if there are no others, that is an error."""
        if not len(splits):
            return
        name = self.scoring if isinstance(self.scoring, str) else "The score"
        domains = [np.unique(self.samples.domain[self.splits[k][1]].astype(str)).tolist() for k in splits]
        reason = self.undefined(splits[0]) or "it is not a number for anybody"
        told = f"{name} is not defined on {len(splits)} of {len(self.splits)} held-out parts, with the domains "
        told += f"{format_list(dict.fromkeys(domain for part in domains for domain in part))}; of the first: {reason}"
        told = f"{told.rstrip('.')}. "
        if len(splits) == len(self.splits):
            raise ValueError(f"{told}Hold out parts that have all classes, or score by accuracy.")
        warn(f"{told}They are left out of the means of all models alike.", UndefinedMetricWarning)

    def _weight(self, rows: Ints) -> Array | None:
        return None if self.samples.weight is None else self.samples.weight[rows]

    def _scored(self, test: Ints, told: FixedPredictions) -> float:
        X, y = _safe_indexing(self.samples.X, test), self.samples.y[test]
        return apply_scorer(self.scorer, told, X, y, self._weight(test))


def _perfect_classifier(y: Labels, known: Labels) -> FixedPredictions:
    """A classifier that knows the answers, as far as they are among the classes that were trained on."""
    sure = (y[:, None] == known).astype(np.float64)
    sure[~sure.any(axis=1)] = 1 / len(known)
    decisions = 2 * sure[:, 1] - 1 if len(known) == 2 else sure
    return FixedPredictions(known, {"predict": y, "predict_proba": sure, "decision_function": decisions})


def _has_response(name: str) -> Callable[[FixedPredictions], bool]:
    return lambda told: name in told.responses


class FixedPredictions(ClassifierMixin, BaseEstimator):
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

    @available_if(_has_response("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """The probabilities."""
        return self.responses["predict_proba"]

    @available_if(_has_response("decision_function"))
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


def score_candidates(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    *,
    scoring: Scoring = "accuracy",
    **how: Any,
) -> Iterator[tuple[int, int, Score]]:
    """Positions of candidate and split, and the score, for each of the `predictions`."""
    said = evaluate_candidates(candidates, samples, splits, scoring=scoring, **how)
    return score_predictions(said, Scorer(scoring, samples, splits))


def score_predictions(
    said: Iterable[Prediction], score: Callable[[Prediction], float]
) -> Iterator[tuple[int, int, Score]]:
    """Positions of candidate and split, and the score, for each prediction."""
    for prediction in said:
        value, error = np.nan, prediction.error
        try:
            value = score(prediction)
        except (ValueError, AttributeError) as unfit:  # a scorer that needs what the classifier does not have
            error = f"{type(unfit).__name__}: {unfit}"
        facts = (float(getattr(prediction, name)) for name in FIT_FACTS)
        yield prediction.candidate, prediction.split, Score(value, error, *facts)


def tabulate_candidates(
    candidates: Sequence[Candidate],
    samples: Samples,
    splits: Sequence[Split],
    *,
    scoring: Scoring = "accuracy",
    **how: Any,
) -> dict[str, Any]:
    """The `tally` of all `scores`; splits that count for nobody are told of."""
    found = score_candidates(candidates, samples, splits, scoring=scoring, **how)
    results = tabulate_scores(found, len(candidates), len(splits))
    Scorer(scoring, samples, splits).leave_out(np.flatnonzero(~results["defined"]).tolist())
    return results


def tabulate_scores(found: Iterable[tuple[int, int, Score]], n_candidates: int, n_splits: int) -> dict[str, Any]:
    """Scores and what they cost, candidates by splits; their means; and the first error of each candidate.

    Splits that are `defined` are those on which somebody has a score, or all who were asked failed: only they count.
    """
    shape = n_candidates, n_splits
    scores, facts = np.full(shape, np.nan), {name: np.zeros(shape) for name in FIT_FACTS}
    reasons = np.full(shape, "", dtype=object)
    for candidate, split, score in found:
        scores[candidate, split] = score.value
        reasons[candidate, split] = score.error
        for name, values in facts.items():
            values[candidate, split] = getattr(score, name)
    scored_by_none = ~np.isfinite(scores).any(axis=0)
    defined = ~(scored_by_none & (reasons == "").any(axis=0))
    reasons[~np.isfinite(scores) & (reasons == "")] = "The score is not a number."
    errors = [next(filter(None, row[defined]), "") for row in reasons]
    return {
        "scores": scores,
        "defined": defined,
        "seconds": facts["fit_seconds"] + facts["predict_seconds"],
        "errors": errors,
        "facts": facts,
        "mean_test_score": scores[:, defined].mean(axis=1) if defined.any() else np.full(n_candidates, np.nan),
        "mean_n_components": facts["n_components"].mean(axis=1),
        "mean_ridge": facts["ridge"].mean(axis=1),
        "mean_invariance_weight": facts["weight"].mean(axis=1),
    }


def best_index(results: dict[str, Any], among: Sequence[int] | Ints | None = None) -> int:
    """Index of the best mean; of equals, fewest components, then largest ridge, then largest invariance weights.

    The simplest and most regularized of settings that the data cannot tell apart; after that, the first in the grid.
    """
    indices = np.arange(len(results["mean_test_score"])) if among is None else np.asarray(among)
    means = results["mean_test_score"][indices]
    if not np.isfinite(means).any():  # all failed alike
        return int(indices[0])
    tied = indices[means >= np.nanmax(means) - TIE_TOLERANCE]
    facts = zip(
        results["mean_n_components"][tied],
        -results["mean_ridge"][tied],
        -results["mean_invariance_weight"][tied],
        tied.tolist(),
        strict=True,
    )
    return min(facts)[-1]


def count_ties(means: Array) -> int:
    """How many settings share the best mean, besides the chosen one."""
    return int(np.sum(means >= np.nanmax(means) - TIE_TOLERANCE)) - 1 if np.isfinite(means).any() else 0
