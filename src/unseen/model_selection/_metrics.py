"""Metrics: their names and ranges, and scorers for held-out samples in which some classes do not occur."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import (
    average_precision_score,
    check_scoring,
    get_scorer,
    get_scorer_names,
    log_loss,
    roc_auc_score,
)

from ..linalg import Array
from ..utils.validation import Labels, format_list

Scoring = str | Callable[..., float]


def uses_labels_only(scoring: Scoring) -> bool:
    """Whether a metric is computed from predicted labels alone."""
    return scoring not in OWN_SCORERS and getattr(get_scorer(scoring), "_response_method", None) == "predict"


def score_labels(scoring: Scoring, y_true: Labels, predicted: Labels) -> float | None:
    """Score predicted labels; None if the metric depends on more than labels."""
    if not uses_labels_only(scoring):
        return None
    scorer = get_scorer(scoring)
    return float(scorer._sign * scorer._score_func(y_true, predicted, **scorer._kwargs))


def _one_vs_rest(
    metric: Callable[..., float], responses: tuple[str, ...], model: Any, X: Any, y: Any, sample_weight: Any = None
) -> float:
    """Mean of a ranking metric over classes, each against the others; of two classes, the metric of the second class.

    The result is that of scikit-learn if all classes occur. Decision values and probabilities are both accepted, and
    classes that do not occur, or occur alone, are omitted.
    """
    classes = model.classes_
    scores = _response(model, X, *responses)
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


def _negative_log_loss(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Log loss with a minus sign, as in scikit-learn; classes may be missing from `y`."""
    probabilities, _ = _probabilities_and_truth(model, X, y)
    return -float(log_loss(y, probabilities, labels=model.classes_, sample_weight=sample_weight))


def _d2_log_loss(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """D2 score of the log loss, as in scikit-learn; classes may be missing from `y`.

    It is NaN for samples of a single class, where the loss of constant predictions is zero.
    """
    probabilities, truth = _probabilities_and_truth(model, X, y)
    constant = _class_frequencies(truth, sample_weight)
    if truth.any(axis=0).sum() < 2:
        return np.nan
    loss = log_loss(y, probabilities, labels=model.classes_, sample_weight=sample_weight)
    baseline = log_loss(y, constant, labels=model.classes_, sample_weight=sample_weight)
    return 1 - float(loss) / float(baseline)


def _negative_brier_score(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Brier score with a minus sign, as in scikit-learn; labels may be text, and classes may be missing from `y`.

    It is the sum over classes of the squared differences, halved for two classes, whose differences are equal.
    """
    probabilities, truth = _probabilities_and_truth(model, X, y)
    factor = 0.5 if truth.shape[1] == 2 else 1.0
    return -factor * _squared_difference(probabilities, truth, sample_weight)


def _d2_brier_score(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """D2 score of the Brier score, with the same extensions; NaN for samples of a single class."""
    probabilities, truth = _probabilities_and_truth(model, X, y)
    baseline = _squared_difference(_class_frequencies(truth, sample_weight), truth, sample_weight)
    return 1 - _squared_difference(probabilities, truth, sample_weight) / baseline if baseline > 0 else np.nan


def _probabilities_and_truth(model: Any, X: Any, y: Any) -> tuple[Array, Array]:
    """Predicted probabilities, and indicators of the true classes: 1 for the class of a sample, 0 for the others."""
    probabilities = _response(model, X, "predict_proba")
    truth = np.asarray(y)[:, None] == model.classes_
    if not truth.any(axis=1).all():
        raise ValueError(
            "The metric needs samples of classes that occur in the training data, which are "
            f"{format_list(model.classes_.tolist())}."
        )
    return probabilities, truth.astype(np.float64)


def _squared_difference(probabilities: Array, truth: Array, sample_weight: Any) -> float:
    return float(np.average(np.square(probabilities - truth).sum(axis=1), weights=sample_weight))


def _class_frequencies(truth: Array, sample_weight: Any) -> Array:
    """Constant predictions: the frequencies of the classes, repeated for each sample."""
    return np.tile(np.average(truth, axis=0, weights=sample_weight), (len(truth), 1))


def _response(model: Any, X: Any, *names: str) -> Array:
    """Result of the first of these methods that a model has."""
    for name in names:
        if hasattr(model, name):
            return np.asarray(getattr(model, name)(X))
    raise AttributeError(f"The metric needs {' or '.join(names)}, but the classifier does not have it.")


RANKING_RESPONSES = ("decision_function", "predict_proba")
OWN_SCORERS: dict[str, Callable[..., float]] = {
    "roc_auc": partial(_one_vs_rest, roc_auc_score, RANKING_RESPONSES),
    "roc_auc_ovr": partial(_one_vs_rest, roc_auc_score, RANKING_RESPONSES[::-1]),
    "average_precision": partial(_one_vs_rest, average_precision_score, RANKING_RESPONSES),
    "neg_log_loss": _negative_log_loss,
    "log_loss": _negative_log_loss,  # the name in METRICS
    "neg_brier_score": _negative_brier_score,
    "d2_brier_score": _d2_brier_score,
    "d2_log_loss_score": _d2_log_loss,
}
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
    if isinstance(scoring, str) and scoring in OWN_SCORERS:
        scorer = OWN_SCORERS[scoring]
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
