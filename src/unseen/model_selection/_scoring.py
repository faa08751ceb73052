"""Scores of out-of-domain predictions: metrics, their names and ranges, tables of scores, and the best candidates.

Metrics are functions of true classes and probabilities, decision values or labels. A held-out domain may lack some
classes, which scorers of scikit-learn do not allow for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import (
    average_precision_score,
    check_scoring,
    get_scorer,
    get_scorer_names,
    log_loss,
    roc_auc_score,
)
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if

from ..exceptions import ignore_warnings, warn
from ..linalg import Array, Ints
from ..utils.samples import Samples
from ..utils.validation import Labels, format_list
from ._calibration import SMALLEST_PROBABILITY, Mask, standard_error
from ._candidate import Candidate

if TYPE_CHECKING:
    from ._ensemble_weights import CrossFittingFolds
    from ._evaluation import Prediction
    from ._splitters import Split

Scoring = str | Callable[..., float]
TIE_TOLERANCE = 1e-12  # means of the same fractions may differ by rounding
FIT_FACTS = ("fit_seconds", "predict_seconds", "n_components", "ridge", "weight")  # of Prediction, and of Score
KINDS_BY_SIMPLICITY = ("plain", "inductive", "transductive")


def uses_labels_only(scoring: Scoring) -> bool:
    """Whether a metric is computed from predicted labels alone."""
    return scoring not in OWN_METRICS and getattr(get_scorer(scoring), "_response_method", None) == "predict"


def score_labels(scoring: Scoring, y_true: Labels, predicted: Labels) -> float | None:
    """Score predicted labels; None if the metric depends on more than labels."""
    return _score_labels(get_scorer(scoring), y_true, predicted) if uses_labels_only(scoring) else None


def _score_labels(scorer: Any, y_true: Labels, predicted: Labels, sample_weight: Any = None) -> float:
    """The metric of a scorer of scikit-learn."""
    weights = {"sample_weight": sample_weight} if _takes_weights(scorer, sample_weight) else {}
    with _ignore_undefined():
        return float(scorer._sign * scorer._score_func(y_true, predicted, **scorer._kwargs, **weights))


def _takes_weights(scorer: Any, sample_weight: Any) -> bool:
    """Whether there are weights, and the scorer, or the metric behind it, takes them."""
    metric = getattr(scorer, "_score_func", scorer)
    return sample_weight is not None and "sample_weight" in inspect.signature(metric).parameters


def _ignore_undefined() -> Any:
    """Ignore warnings about undefined scores, which are left out with one warning for all models."""
    return ignore_warnings(UndefinedMetricWarning, (UserWarning, "y_pred contains classes not in y_true"))


def apply_scorer(scorer: Any, model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Score of a model; sample weights are passed if the scorer, or the metric behind it, takes them."""
    weights = {"sample_weight": sample_weight} if _takes_weights(scorer, sample_weight) else {}
    with _ignore_undefined():
        return float(scorer(model, X, y, **weights))


def _one_vs_rest(metric: Callable[..., float], y: Any, scores: Array, classes: Labels, sample_weight: Any) -> float:
    """Mean of a ranking metric over classes, each against the others; of two classes, the metric of the second class.

    The result is that of scikit-learn if all classes occur. Decision values and probabilities are both accepted, and
    classes that do not occur, or occur alone, are omitted.
    """
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    first = 1 if len(classes) == 2 else 0
    values = []
    for k in range(first, len(classes)):
        in_class = np.asarray(y) == classes[k]
        if 0 < np.average(in_class, weights=sample_weight) < 1:
            values.append(metric(in_class, scores[:, k], sample_weight=sample_weight))
    if not values:
        raise ValueError("The metric needs samples of at least two classes that occur in the training data.")
    return float(np.mean(values))


def _probability_score(
    loss: Callable[..., float], y: Any, P: Array, classes: Labels, sample_weight: Any, *, relative: bool = False
) -> float:
    """A loss of probabilities with a minus sign or, `relative` to class frequencies, its D2 score, as in scikit-learn.

    Labels may be text, and classes may be missing from `y`. A D2 score is NaN for samples of a single class, where the
    loss of constant predictions is zero.
    """
    truth = (np.asarray(y)[:, None] == classes).astype(np.float64)
    if not truth.any(axis=1).all():
        raise ValueError(
            "The metric needs samples of classes that occur in the training data, which are "
            f"{format_list(classes.tolist())}."
        )
    if not relative:
        return -loss(truth, P, sample_weight)
    if truth.any(axis=0).sum() < 2:
        return np.nan
    frequencies = np.tile(np.average(truth, axis=0, weights=sample_weight), (len(truth), 1))
    return 1 - loss(truth, P, sample_weight) / loss(truth, frequencies, sample_weight)


def _log_loss(truth: Array, P: Array, sample_weight: Any) -> float:
    codes = truth.argmax(axis=1)
    return float(log_loss(codes, P, labels=np.arange(truth.shape[1]), sample_weight=sample_weight))


def _brier_score(truth: Array, P: Array, sample_weight: Any) -> float:
    """Sum over classes of the squared differences, halved for two classes, whose differences are equal."""
    factor = 0.5 if truth.shape[1] == 2 else 1.0
    return factor * float(np.average(np.square(P - truth).sum(axis=1), weights=sample_weight))


PROBABILITIES = ("predict_proba",)
RANKING_RESPONSES = ("decision_function", "predict_proba")
# Metrics that allow for missing classes: functions of true classes, a response, its classes and weights; and the
# methods of a classifier of which the first one that it has gives this response.
OWN_METRICS: dict[Any, tuple[Callable[..., float], tuple[str, ...]]] = {
    "roc_auc": (partial(_one_vs_rest, roc_auc_score), RANKING_RESPONSES),
    "roc_auc_ovr": (partial(_one_vs_rest, roc_auc_score), RANKING_RESPONSES[::-1]),
    "average_precision": (partial(_one_vs_rest, average_precision_score), RANKING_RESPONSES),
    "neg_log_loss": (partial(_probability_score, _log_loss), PROBABILITIES),
    "log_loss": (partial(_probability_score, _log_loss), PROBABILITIES),  # the name in METRICS
    "neg_brier_score": (partial(_probability_score, _brier_score), PROBABILITIES),
    "d2_brier_score": (partial(_probability_score, _brier_score, relative=True), PROBABILITIES),
    "d2_log_loss_score": (partial(_probability_score, _log_loss, relative=True), PROBABILITIES),
}


def _score_response(name: str, responses: Mapping[str, Any], y: Any, classes: Labels, sample_weight: Any) -> float:
    """Score by a metric of `OWN_METRICS`, from the responses of a classifier."""
    metric, names = OWN_METRICS[name]
    for response in names:
        if response in responses:
            return metric(y, np.asarray(responses[response]), classes, sample_weight)
    raise AttributeError(f"The metric needs {' or '.join(names)}, but the classifier does not have it.")


def _score_model(name: str, model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """The same of a fitted classifier."""
    available = next(([one] for one in OWN_METRICS[name][1] if hasattr(model, one)), [])
    return _score_response(name, {one: getattr(model, one)(X) for one in available}, y, model.classes_, sample_weight)


# Scorers with a positive class, which is the class 1 in scikit-learn.
POSITIVE_CLASS_SCORERS = ("f1", "jaccard", "precision", "recall")
BINARY_SCORERS = (*POSITIVE_CLASS_SCORERS, "positive_likelihood_ratio", "neg_negative_likelihood_ratio")
# Names of scorers that measure differences between numbers start with these.
REGRESSION_PREFIXES = (
    "r2",
    "explained_variance",
    "max_error",
    "neg_max_error",
    "d2_absolute",
    "neg_mean",
    "neg_median",
    "neg_root",
)


def get_metric_scorer(scoring: Scoring, model: Any) -> Callable[..., float]:
    """Return the scorer with a name, or the callable itself.

    The positive class of scorers that need one is 1, as in scikit-learn. If neither of two classes is 1, as for text,
    it is the second one in sorted order, as for AUC.
    """
    scorer: Any
    if isinstance(scoring, str) and scoring in OWN_METRICS:
        scorer = partial(_score_model, scoring)
    else:
        scorer = check_scoring(model, scoring=scoring)
    if scoring in POSITIVE_CLASS_SCORERS and 1 not in model.classes_.tolist():
        scorer = copy(scorer)
        scorer._kwargs = {**scorer._kwargs, "pos_label": model.classes_.tolist()[1]}
    return scorer


def check_metric(scoring: Scoring, classes: Labels) -> None:
    """Raise ValueError if a scorer of scikit-learn is not applicable to these classes."""
    if not isinstance(scoring, str):
        return
    names = format_list(classes.tolist())
    if scoring.endswith("_samples"):
        name = scoring.removesuffix("_samples")
        raise ValueError(
            f"The metric {scoring!r} needs samples with several labels each; these have one. Use '{name}_macro', "
            f"'{name}_micro' or '{name}_weighted'."
        )
    if scoring.startswith(REGRESSION_PREFIXES) and any(isinstance(label, str) for label in classes.tolist()):
        raise ValueError(
            f"The metric {scoring!r} measures differences between numbers, but the classes are text: {names}. "
            "Use a classification metric, such as 'accuracy', 'balanced_accuracy' or 'roc_auc'."
        )
    if scoring in BINARY_SCORERS and len(classes) > 2:
        alternative = "'balanced_accuracy' or 'matthews_corrcoef'"
        if scoring in POSITIVE_CLASS_SCORERS:
            alternative = f"'{scoring}_macro'"
        raise ValueError(f"The metric {scoring!r} needs two classes; there are {len(classes)}. Use {alternative}.")
    if scoring == "top_k_accuracy" and len(classes) == 2:
        raise ValueError(
            "The metric 'top_k_accuracy' needs more than two classes, since k is 2; there are two. Use 'accuracy'."
        )


@dataclass(frozen=True)
class Metric:
    """Names of a metric.

    Attributes
    ----------
    label : str
        Name in reports. Larger values are better.
    scoring : str or callable
        Name of a scikit-learn scorer for two or more classes, or a scorer.
    percent : bool
        Whether it is a fraction, which reports show in percent.
    """

    label: str
    scoring: Scoring
    percent: bool = False


METRICS = {
    "accuracy": Metric("accuracy", "accuracy", percent=True),
    "balanced_accuracy": Metric("balanced accuracy", "balanced_accuracy", percent=True),
    "f1": Metric("F1", "f1", percent=True),
    "f1_macro": Metric("macro F1", "f1_macro", percent=True),
    "precision": Metric("precision", "precision", percent=True),
    "precision_macro": Metric("macro precision", "precision_macro", percent=True),
    "recall": Metric("recall", "recall", percent=True),
    "recall_macro": Metric("macro recall", "recall_macro", percent=True),
    "jaccard": Metric("Jaccard index", "jaccard", percent=True),
    "jaccard_macro": Metric("macro Jaccard index", "jaccard_macro", percent=True),
    "roc_auc": Metric("AUC", "roc_auc_ovr"),
    "average_precision": Metric("average precision", "average_precision"),
    "log_loss": Metric("negative log loss", "neg_log_loss"),
}


SCORING_NAMES = {*get_scorer_names(), *METRICS}  # values of the parameter `scoring` of estimators


def get_metric(name: Scoring) -> Metric:
    """Return a metric: by a key or a label of `METRICS`, by the name of any scikit-learn scorer, or of a scorer.

    These are the values of `metric` of functions and of `scoring` of estimators. Names of scikit-learn have the meaning
    that they have there: "f1" is that of the positive class, and "f1_macro" the mean over classes. A scorer that is not
    one of scikit-learn's is called "score".

    Examples
    --------
    >>> from unseen.model_selection import get_metric
    >>> get_metric("AUC").scoring, get_metric("macro F1") == get_metric("f1_macro"), get_metric("accuracy").percent
    ('roc_auc_ovr', True, True)
    >>> get_metric("matthews_corrcoef")
    Metric(label='matthews corrcoef', scoring='matthews_corrcoef', percent=False)
    """
    if not isinstance(name, str):
        scorer_name = _scorer_name(name)
        return get_metric(scorer_name) if scorer_name else Metric("score", name)
    normalized = name.lower().replace(" ", "_")
    for key, metric in METRICS.items():
        if normalized in {key, metric.scoring, metric.label.lower().replace(" ", "_")}:
            return metric
    if name not in get_scorer_names():
        raise ValueError(
            f"There is no metric {name!r}; there are {', '.join(METRICS)} and the scorers of scikit-learn, which "
            "sklearn.metrics.get_scorer_names() lists."
        )
    label = name.replace("neg_", "negative ").replace("_", " ")
    fractions = tuple(key for key, metric in METRICS.items() if metric.percent)
    return Metric(label, name, percent=name.startswith(fractions))


AVERAGES = ("", "_macro", "_micro", "_samples", "_weighted")
# Scorers of scikit-learn, by the lowest and highest value that they can take. Those that start with "neg_" are losses
# with a minus sign, with values up to 0, and are not listed.
RANGES: dict[tuple[float, float], tuple[str, ...]] = {
    (0.0, 1.0): (
        *("accuracy", "balanced_accuracy", "top_k_accuracy"),
        *(f"{name}{average}" for name in ("f1", "jaccard", "precision", "recall") for average in AVERAGES),
        *("average_precision", "roc_auc", "roc_auc_ovo", "roc_auc_ovo_weighted", "roc_auc_ovr", "roc_auc_ovr_weighted"),
        *("completeness_score", "homogeneity_score", "v_measure_score", "normalized_mutual_info_score"),
        *("fowlkes_mallows_score", "rand_score"),
    ),
    (-1.0, 1.0): ("matthews_corrcoef",),
    (-0.5, 1.0): ("adjusted_rand_score",),
    (-np.inf, 1.0): (
        *("r2", "explained_variance", "d2_absolute_error_score", "d2_brier_score", "d2_log_loss_score"),
        "adjusted_mutual_info_score",
    ),
    (0.0, np.inf): ("mutual_info_score", "positive_likelihood_ratio"),
}
UNBOUNDED = (-np.inf, np.inf)


def metric_range(scoring: Scoring, n_classes: int | None = None) -> tuple[float, float]:
    """Return the lowest and the highest value that a metric can take.

    Parameters
    ----------
    scoring : str or callable
        Name of a metric, as for :func:`get_metric`, or a scorer. The range of a callable is known if it is made from
        the same function as a scorer of scikit-learn, with no other arguments.
    n_classes : int, default=None
        Number of classes. The Brier score of two classes lies between 0 and 1, that of more classes between 0 and 2;
        None gives the wider range.

    Returns
    -------
    low, high : float
        Infinite where the metric has no bound, or where its range is not known.

    Examples
    --------
    >>> from unseen.model_selection import metric_range
    >>> metric_range("AUC"), metric_range("matthews_corrcoef"), metric_range("neg_brier_score", n_classes=2)
    ((0.0, 1.0), (-1.0, 1.0), (-1.0, 0.0))
    """
    name = str(get_metric(scoring).scoring) if isinstance(scoring, str) else _scorer_name(scoring)
    if name == "neg_brier_score":
        return (-1.0, 0.0) if n_classes == 2 else (-2.0, 0.0)
    for limits, names in RANGES.items():
        if name in names:
            return limits
    return (-np.inf, 0.0) if name.startswith("neg_") else UNBOUNDED


def _scorer_name(scorer: Callable[..., float]) -> str:
    """Return the name of the scikit-learn scorer with the same function, sign and arguments, or an empty string."""
    function = getattr(scorer, "_score_func", None)
    arguments = getattr(scorer, "_kwargs", {})
    if function is None:
        return ""
    for name in get_scorer_names():
        candidate = get_scorer(name)
        has_same_function = candidate._score_func is function and candidate._sign == getattr(scorer, "_sign", 1)
        if has_same_function and arguments.items() <= candidate._kwargs.items():
            return name
    return ""


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
        self._scorer = get_metric_scorer(scoring, FixedPredictions(samples.classes, {}))
        self._uses_labels = not callable(scoring) and uses_labels_only(scoring)
        self._undefined: dict[int, str] = {}

    def __call__(self, prediction: Prediction) -> float:
        """Score of a prediction; raises ValueError or AttributeError if a response that the metric needs is missing."""
        if prediction.codes is None or self.undefined_reason(prediction.split):
            return np.nan
        if "score" in prediction.responses:
            return float(prediction.responses["score"])
        classes = prediction.responses.get("classes_", self.samples.classes)
        predicted = self.samples.classes[prediction.codes]
        return self._score(self.splits[prediction.split][1], predicted, prediction.responses, classes)

    def score_probabilities(self, split: int, P: Array, codes: Ints | None = None) -> float:
        """Score of probabilities of all classes, and of predicted classes, by default the most probable ones."""
        if self.undefined_reason(split):
            return np.nan
        classes = self.samples.classes
        responses = {}
        if not self._uses_labels:
            logits = np.log(np.maximum(P, SMALLEST_PROBABILITY))
            decisions = logits[:, 1] - logits[:, 0] if len(classes) == 2 else logits
            responses = {"predict_proba": P, "decision_function": decisions}
        predicted = classes[P.argmax(axis=1) if codes is None else codes]
        return self._score(self.splits[split][1], predicted, responses, classes)

    def _score(self, test: Ints, predicted: Labels, responses: Mapping[str, Any], classes: Labels) -> float:
        y = self.samples.y[test]
        weight = self._weight(test)
        if self.scoring == "accuracy":  # as in scikit-learn, whose checks of labels take a hundred times as long
            return float(np.average(y == predicted, weights=weight))
        if self._uses_labels:
            return _score_labels(self._scorer, y, predicted, weight)
        if isinstance(self.scoring, str) and self.scoring in OWN_METRICS:
            return _score_response(self.scoring, responses, y, classes, weight)
        stored = FixedPredictions(classes, {"predict": predicted, **responses})
        return apply_scorer(self._scorer, stored, _safe_indexing(self.samples.X, test), y, weight)

    def undefined_reason(self, split: int) -> str:
        """Why the metric is not defined on a split; empty if it is."""
        if split not in self._undefined:
            train, test = self.splits[split]
            weight = self._weight(test)
            reason = ""
            if weight is not None and not weight.any():
                reason = "its samples have no weight"
            elif self.scoring != "accuracy" and not callable(self.scoring):
                try:
                    reason = "" if np.isfinite(self._perfect_score(train, test)) else "it is not a number there"
                except ValueError as error:
                    reason = str(error)
            self._undefined[split] = reason
        return self._undefined[split]

    def warn_undefined(self, is_defined: Mask) -> None:
        """Warn about the first splits on which the metric is not defined; raise ValueError if it is on none of them."""
        splits = np.flatnonzero(~is_defined).tolist()
        if not splits:
            return
        name = self.scoring if isinstance(self.scoring, str) else "The score"
        domains = [np.unique(self.samples.domain[self.splits[k][1]].astype(str)).tolist() for k in splits]
        distinct_domains = dict.fromkeys(domain for part in domains for domain in part)
        reason = (self.undefined_reason(splits[0]) or "it is NaN for all models").rstrip(".")
        message = (
            f"{name} is not defined on {len(splits)} of {len(is_defined)} held-out parts, with the domains "
            f"{format_list(distinct_domains)}; reason for the first: {reason}. "
        )
        if not is_defined.any():
            raise ValueError(f"{message}Hold out parts that have all classes, or score by accuracy.")
        warn(f"{message}They are left out of the means of all models.", UndefinedMetricWarning)

    def _weight(self, rows: Ints) -> Array | None:
        return None if self.samples.weight is None else self.samples.weight[rows]

    def _perfect_score(self, train: Ints, test: Ints) -> float:
        """Score of perfect predictions, as far as the true classes are among the training classes."""
        y = self.samples.y[test]
        known = np.unique(self.samples.y[train])
        P = (y[:, None] == known).astype(np.float64)
        P[~P.any(axis=1)] = 1 / len(known)
        decisions = 2 * P[:, 1] - 1 if len(known) == 2 else P
        return self._score(test, y, {"predict_proba": P, "decision_function": decisions}, known)


def _has_response(name: str) -> Callable[[FixedPredictions], bool]:
    return lambda classifier: name in classifier.responses


class FixedPredictions(ClassifierMixin, BaseEstimator):
    """A classifier with stored predictions for one batch, for scorers of users, which take a classifier."""

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


@dataclass(frozen=True)
class CandidateResult:
    """Result of a variant of a method with its best settings on each held-out part.

    Attributes
    ----------
    candidate : Candidate
        The best settings, by the mean over held-out parts.
    scores : ndarray of shape (n_splits,)
        On each held-out part, of the settings that are best on the other parts; NaN where it failed, and where the
        metric is not defined.
    ties : int
        Number of other settings with the same mean.
    seconds : float
        Cost of all settings of the variant.
    error : str
        Why there are no scores, if there are none.
    defined : ndarray of bool, default=...
        Held-out parts that count, the same for all candidates.
    scored : tuple of Candidate
        The settings that were scored on each held-out part; empty if that was always `candidate`.
    """

    candidate: Candidate
    scores: Array
    ties: int = 0
    seconds: float = 0.0
    error: str = ""
    defined: Any = ...
    scored: tuple[Candidate, ...] = ()

    @property
    def name(self) -> str:
        """Such as "CIDG + 1-NN, target-centered"."""
        return self.candidate.variant

    @property
    def kind(self) -> Literal["plain", "inductive", "transductive"]:
        """One of "plain", "inductive" and "transductive"."""
        return self.candidate.kind

    @property
    def mean(self) -> float:
        """Mean score over held-out parts that count."""
        return float(np.mean(self.scores[self.defined]))


def best_by_variant(
    candidates: Sequence[Candidate],
    results: dict[str, Any],
    folds: CrossFittingFolds | None = None,
    fold_results: Sequence[dict[str, Any]] | None = None,
) -> list[CandidateResult]:
    """The best settings of each variant, by the table of all candidates on all splits.

    With `folds`, the score on a held-out part is that of the settings which are best on the parts that its fold keeps,
    by the scores of that fold if these differ. Without, it is that of the settings that are best on all parts, as a
    grid search reports it, which is optimistic. A variant that fails on some split has no mean, is never selected, and
    keeps its error. Splits on which the metric is not defined do not count.
    """
    if folds is not None and fold_results is None:
        fold_results = [restrict_results(results, kept) for kept in folds.kept]
    variants = []
    positions_by_name: dict[str, list[int]] = {}
    for i, candidate in enumerate(candidates):
        positions_by_name.setdefault(candidate.variant, []).append(i)
    for variant in positions_by_name.values():
        best = best_index(results, variant)
        scores = results["scores"][best]
        scored: tuple[Candidate, ...] = ()
        if folds is not None and fold_results is not None:
            settings = [best_index(single_fold, variant) for single_fold in fold_results]
            positions = [settings[fold] for fold in folds.predicted_by]
            scores = results["scores"][positions, np.arange(len(positions))]
            scored = tuple(candidates[i] for i in positions)
        error = next((results["errors"][i] for i in variant if results["errors"][i]), "")
        seconds = float(sum(results["seconds"][i].sum() for i in variant))
        tied = count_ties(results["mean_test_score"][variant])
        error = "" if np.isfinite(results["mean_test_score"][best]) else error
        variants.append(CandidateResult(candidates[best], scores, tied, seconds, error, results["defined"], scored))
    return variants


def restrict_results(results: dict[str, Any], kept: Mask) -> dict[str, Any]:
    """The same results with means over some held-out parts only; candidates that fail anywhere have none.

    Where nothing is kept all means are 0, so that the simplest settings are preferred.
    """
    counted = results["defined"] & kept
    means = results["scores"][:, counted].mean(axis=1) if counted.any() else np.zeros(len(results["scores"]))
    has_mean = np.isfinite(results["mean_test_score"])
    return {**results, "defined": counted, "mean_test_score": np.where(has_mean, means, np.nan)}


def warn_about_failures(results: Sequence[CandidateResult]) -> None:
    """Warn why some candidates have no score, if others have one."""
    for result in results:
        if result.error and not all(other.error for other in results):
            warn(f"{result.name} has no score and is left out of the selection: {result.error}", RuntimeWarning)


def select_result(results: Sequence[CandidateResult]) -> CandidateResult:
    """The best mean, unless the best of a simpler kind is worse by at most one standard error of the difference."""
    reasons = [f" {result.name}: {result.error}" for result in results if result.error]
    scored = [result for result in results if np.isfinite(result.mean)]
    if not scored:
        first_reason = "".join(reasons[:1])
        raise ValueError(f"No model has a score on every held-out part. Check the data and the scorer.{first_reason}")
    best = max(scored, key=lambda result: (result.mean, -KINDS_BY_SIMPLICITY.index(result.kind)))
    for kind in KINDS_BY_SIMPLICITY[: KINDS_BY_SIMPLICITY.index(best.kind)]:
        simpler = [result for result in scored if result.kind == kind]
        if simpler and is_within_error(best, max(simpler, key=lambda result: result.mean)):
            return best_of_kind(simpler)
    return best_of_kind([result for result in scored if result.kind == best.kind])


def best_of_kind(results: Sequence[CandidateResult]) -> CandidateResult:
    """Best of one kind; among plain classifiers, the RBF SVM unless another is distinguishably better.

    A wide rbf kernel makes it a linear SVM, so it nests the linear models: where the data cannot distinguish them, it
    loses little if the truth is linear, and a linear model may lose much if it is not.
    """
    best = max(results, key=lambda result: result.mean)
    for result in results:
        if result.name == "RBF SVM" and is_within_error(best, result):
            return result
    return best


def is_within_error(better: CandidateResult, other: CandidateResult) -> bool:
    """Whether an advantage, paired by held-out part, is within one standard error of zero."""
    difference = (better.scores - other.scores)[better.defined]
    return bool(difference.mean() <= standard_error(difference))


MAX_RARE_FREQUENCY = 0.1  # accuracy hardly depends on a class that is less frequent


def describe_rare_class(counts: Mapping[Any, int]) -> str | None:
    """Describe the rarest class if accuracy hardly depends on it; `counts` are the numbers of samples of the classes.

    A class is rare if its frequency is below a tenth, and below half of that in balanced data: each of twenty balanced
    classes has a frequency of a twentieth.
    """
    rarest = min(counts, key=lambda name: counts[name])
    most_frequent = max(counts, key=lambda name: counts[name])
    total = sum(counts.values())
    if counts[rarest] / total >= min(MAX_RARE_FREQUENCY, 0.5 / len(counts)):
        return None
    return (
        f"Class {rarest} has {counts[rarest] / total:.1%} of the samples; always predicting {most_frequent} has an "
        f"accuracy of {counts[most_frequent] / total:.1%}."
    )
