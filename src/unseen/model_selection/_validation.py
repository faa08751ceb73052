"""Scores of out-of-domain predictions, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if

from ..exceptions import warn
from ..linalg import Array, Ints
from ..utils.samples import Samples
from ..utils.validation import Labels, format_list
from ._candidate import Candidate
from ._evaluation import (
    EvaluationConfig,
    Prediction,
    apply_scorer,
    evaluate_candidates,
)
from ._metrics import Scoring, check_metric, get_metric_scorer
from ._splitters import Split

TIE_TOLERANCE = 1e-12  # means of the same fractions may differ by rounding
FIT_FACTS = ("fit_seconds", "predict_seconds", "n_components", "ridge", "weight")  # of Prediction, and of Score


class Scorer:
    """Scores of predictions on splits of samples.

    Where even perfect predictions have no score, such as AUC where a single class was held out, the score is NaN for
    all candidates.
    """

    def __init__(self, scoring: Scoring, samples: Samples, splits: Sequence[Split]) -> None:
        check_metric(scoring, samples.classes)
        self.scoring = scoring
        self.samples = samples
        self.splits = splits
        placeholder = FixedPredictions(samples.classes, {})
        self.scorer = None if scoring == "accuracy" else get_metric_scorer(scoring, placeholder)
        self._undefined: dict[int, str] = {}

    def __call__(self, prediction: Prediction) -> float:
        """Score of a prediction; raises ValueError or AttributeError if a response that the metric needs is missing."""
        if prediction.codes is None or self.undefined_reason(prediction.split):
            return np.nan
        if "score" in prediction.responses:
            return float(prediction.responses["score"])
        test = self.splits[prediction.split][1]
        if self.scorer is None:
            is_correct = prediction.codes == self.samples.codes[test]
            return float(np.average(is_correct, weights=self._weight(test)))
        responses = {"predict": self.samples.classes[prediction.codes], **prediction.responses}
        return self._apply(test, FixedPredictions(responses.pop("classes_", self.samples.classes), responses))

    def undefined_reason(self, split: int) -> str:
        """Why the metric is not defined on a split; empty if it is."""
        if split not in self._undefined:
            train, test = self.splits[split]
            weight = self._weight(test)
            reason = ""
            if weight is not None and not weight.any():
                reason = "its samples have no weight"
            elif self.scorer is not None and not callable(self.scoring):
                truth = _perfect_classifier(self.samples.y[test], np.unique(self.samples.y[train]))
                try:
                    reason = "" if np.isfinite(self._apply(test, truth)) else "it is not a number there"
                except ValueError as error:
                    reason = str(error)
            self._undefined[split] = reason
        return self._undefined[split]

    def warn_undefined(self, splits: Sequence[int]) -> None:
        """Warn about splits on which the metric is not defined; raise ValueError if it is defined on no split."""
        if not len(splits):
            return
        name = self.scoring if isinstance(self.scoring, str) else "The score"
        domains = [np.unique(self.samples.domain[self.splits[k][1]].astype(str)).tolist() for k in splits]
        distinct_domains = dict.fromkeys(domain for part in domains for domain in part)
        reason = (self.undefined_reason(splits[0]) or "it is NaN for all models").rstrip(".")
        message = (
            f"{name} is not defined on {len(splits)} of {len(self.splits)} held-out parts, with the domains "
            f"{format_list(distinct_domains)}; reason for the first: {reason}. "
        )
        if len(splits) == len(self.splits):
            raise ValueError(f"{message}Hold out parts that have all classes, or score by accuracy.")
        warn(f"{message}They are left out of the means of all models.", UndefinedMetricWarning)

    def _weight(self, rows: Ints) -> Array | None:
        return None if self.samples.weight is None else self.samples.weight[rows]

    def _apply(self, test: Ints, classifier: FixedPredictions) -> float:
        X, y = _safe_indexing(self.samples.X, test), self.samples.y[test]
        return apply_scorer(self.scorer, classifier, X, y, self._weight(test))


def _perfect_classifier(y: Labels, known: Labels) -> FixedPredictions:
    """A classifier with perfect predictions, as far as the true classes are among the training classes."""
    P = (y[:, None] == known).astype(np.float64)
    P[~P.any(axis=1)] = 1 / len(known)
    decisions = 2 * P[:, 1] - 1 if len(known) == 2 else P
    return FixedPredictions(known, {"predict": y, "predict_proba": P, "decision_function": decisions})


def _has_response(name: str) -> Callable[[FixedPredictions], bool]:
    return lambda classifier: name in classifier.responses


class FixedPredictions(ClassifierMixin, BaseEstimator):
    """A classifier with stored predictions for one batch, for scorers that take a classifier."""

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
    """Score of a candidate on a split, or why there is none; its cost; and what breaks ties."""

    value: float
    error: str
    fit_seconds: float
    predict_seconds: float
    n_components: float
    ridge: float
    weight: float


def score_predictions(
    predictions: Iterable[Prediction], score: Callable[[Prediction], float]
) -> Iterator[tuple[int, int, Score]]:
    """Positions of candidate and split, and the score, for each prediction."""
    for prediction in predictions:
        value = np.nan
        error = prediction.error
        try:
            value = score(prediction)
        except (ValueError, AttributeError) as missing:  # the scorer needs a method that the classifier does not have
            error = f"{type(missing).__name__}: {missing}"
        facts = (float(getattr(prediction, name)) for name in FIT_FACTS)
        yield prediction.candidate, prediction.split, Score(value, error, *facts)


def tabulate_candidates(
    candidates: Sequence[Candidate], samples: Samples, splits: Sequence[Split], config: EvaluationConfig
) -> dict[str, Any]:
    """Evaluate candidates and tabulate their scores, with a warning about splits on which the metric is not defined."""
    scorer = Scorer(config.scoring, samples, splits)
    predictions = evaluate_candidates(candidates, samples, splits, config)
    results = tabulate_scores(score_predictions(predictions, scorer), len(candidates), len(splits))
    scorer.warn_undefined(np.flatnonzero(~results["defined"]).tolist())
    return results


def tabulate_scores(scored: Iterable[tuple[int, int, Score]], n_candidates: int, n_splits: int) -> dict[str, Any]:
    """Scores and costs by candidate and split, mean scores, and the first error of each candidate.

    Only `defined` splits count: those on which some candidate has a score, or all candidates failed.
    """
    shape = n_candidates, n_splits
    scores = np.full(shape, np.nan)
    facts = {name: np.zeros(shape) for name in FIT_FACTS}
    reasons = np.full(shape, "", dtype=object)
    for candidate, split, score in scored:
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
    """Index of the best mean score; ties go to the fewest components, the largest ridge, the largest invariance weight.

    That is the simplest and most regularized of equal settings; after that, the first in the grid.
    """
    indices = np.arange(len(results["mean_test_score"])) if among is None else np.asarray(among)
    means = results["mean_test_score"][indices]
    if not np.isfinite(means).any():  # all candidates failed
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
    """Number of further settings that share the best mean."""
    return int(np.sum(means >= np.nanmax(means) - TIE_TOLERANCE)) - 1 if np.isfinite(means).any() else 0
