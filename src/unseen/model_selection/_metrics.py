"""Metrics: by which names they go, and those of scikit-learn that have to bear a part without some of the classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    make_scorer,
    roc_auc_score,
)

from ..linalg import Array
from ..utils.validation import Labels, format_list

Scoring = str | Callable[..., float]


def uses_labels_only(scoring: str) -> bool:
    """Whether a metric looks at predicted labels alone."""
    return scoring not in OWN_SCORERS and getattr(get_scorer(scoring), "_response_method", None) == "predict"


def _one_vs_rest(measure: Any, names: tuple[str, ...], model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Mean of a ranking measure over the classes that occur beside others; of two classes, that of the second.

    As scikit-learn's where all classes occur; it takes decision values or probabilities, and parts that lack a class.
    """
    classes, binary = model.classes_, len(model.classes_) == 2
    scores = _response(model, X, *names)
    scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    values = []
    for k in range(int(binary), len(classes)):
        own = np.asarray(y) == classes[k]
        if 0 < np.average(own, weights=sample_weight) < 1:
            values.append(measure(own, scores[:, k], sample_weight=sample_weight))
    if not values:
        raise ValueError("A ranking needs samples of two classes that were trained on.")
    return float(np.mean(values))


def _negative_log_loss(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """As scikit-learn's, also of parts that lack a class."""
    probabilities, _ = _probabilities_and_truth(model, X, y)
    return -float(log_loss(y, probabilities, labels=model.classes_, sample_weight=sample_weight))


def _d2_log_loss(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """As scikit-learn's, also of parts that lack a class; NaN for a part with one class, which a constant predicts."""
    probabilities, truth = _probabilities_and_truth(model, X, y)
    constant = _class_frequencies(truth, sample_weight)
    loss, baseline = (
        float(log_loss(y, P, labels=model.classes_, sample_weight=sample_weight)) for P in (probabilities, constant)
    )
    return 1 - loss / baseline if truth.any(axis=0).sum() > 1 else np.nan


def _negative_brier_score(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """As scikit-learn's, also for labels that are text and for parts that lack a class.

    The sum over classes of the squared differences, halved for two classes, whose differences are the same.
    """
    probabilities, truth = _probabilities_and_truth(model, X, y)
    factor = 0.5 if truth.shape[1] == 2 else 1.0
    return -factor * _squared_difference(probabilities, truth, sample_weight)


def _d2_brier_score(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """As scikit-learn's, also for labels that are text and for parts that lack a class; NaN for one class."""
    probabilities, truth = _probabilities_and_truth(model, X, y)
    baseline = _squared_difference(_class_frequencies(truth, sample_weight), truth, sample_weight)
    return 1 - _squared_difference(probabilities, truth, sample_weight) / baseline if baseline > 0 else np.nan


def _probabilities_and_truth(model: Any, X: Any, y: Any) -> tuple[Array, Array]:
    """Predicted probabilities, and the true ones: 1 for the class of a sample and 0 for the others."""
    probabilities, classes = _response(model, X, "predict_proba"), model.classes_
    truth = np.asarray(y)[:, None] == classes
    if not truth.any(axis=1).all():
        raise ValueError(
            f"The metric needs classes that the model was trained on, which are {format_list(classes.tolist())}."
        )
    return probabilities, truth.astype(np.float64)


def _squared_difference(probabilities: Array, truth: Array, sample_weight: Any) -> float:
    return float(np.average(np.square(probabilities - truth).sum(axis=1), weights=sample_weight))


def _class_frequencies(truth: Array, sample_weight: Any) -> Array:
    """The same probabilities for every sample: how frequent the classes are."""
    return np.tile(np.average(truth, axis=0, weights=sample_weight), (len(truth), 1))


def _response(model: Any, X: Any, *names: str) -> Array:
    """What the first of these methods gives that a model has."""
    for name in names:
        if hasattr(model, name):
            return np.asarray(getattr(model, name)(X))
    raise AttributeError(f"The metric needs {' or '.join(names)}, which the classifier does not have.")


DECISIONS = ("decision_function", "predict_proba")
OWN_SCORERS: dict[str, Callable[..., float]] = {
    "roc_auc": partial(_one_vs_rest, roc_auc_score, DECISIONS),
    "roc_auc_ovr": partial(_one_vs_rest, roc_auc_score, DECISIONS[::-1]),
    "average_precision": partial(_one_vs_rest, average_precision_score, DECISIONS),
    "neg_log_loss": _negative_log_loss,
    "neg_brier_score": _negative_brier_score,
    "d2_brier_score": _d2_brier_score,
    "d2_log_loss_score": _d2_log_loss,
}
# Scorers with a positive class, which scikit-learn takes to be the class 1.
POSITIVE_CLASS = ("f1", "jaccard", "precision", "recall")
TWO_CLASSES = (*POSITIVE_CLASS, "positive_likelihood_ratio", "neg_negative_likelihood_ratio")
# How names of scorers begin that measure differences between numbers.
REGRESSION = (
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
    """The scorer of a name, or the callable itself.

    The positive class of scorers that need one is 1, as in scikit-learn; of two classes without a 1, such as text, it
    is the second in their order, as for AUC.
    """
    own = OWN_SCORERS.get(scoring) if isinstance(scoring, str) else None
    scorer: Any = own or check_scoring(model, scoring=scoring)
    if scoring in POSITIVE_CLASS and 1 not in model.classes_.tolist():
        arguments = {**scorer._kwargs, "pos_label": model.classes_.tolist()[1]}
        return make_scorer(scorer._score_func, response_method="predict", **arguments)
    return scorer


def check_metric(scoring: Scoring, classes: Labels) -> None:
    """Raise if a scorer of scikit-learn is not made for these classes."""
    if not isinstance(scoring, str):
        return
    names = format_list(classes.tolist())
    if scoring.endswith("_samples"):
        name = scoring.removesuffix("_samples")
        raise ValueError(
            f"The metric {scoring!r} is for samples with several labels each, and these have one. Use '{name}_macro', "
            f"'{name}_micro' or '{name}_weighted'."
        )
    if scoring.startswith(REGRESSION) and any(isinstance(label, str) for label in classes.tolist()):
        raise ValueError(
            f"The metric {scoring!r} measures differences between numbers, and the classes are text: {names}. "
            "Use a metric of classification, such as 'accuracy', 'balanced_accuracy' or 'roc_auc'."
        )
    if scoring in TWO_CLASSES and len(classes) > 2:
        macro = f"'{scoring}_macro'" if scoring in POSITIVE_CLASS else "'balanced_accuracy' or 'matthews_corrcoef'"
        raise ValueError(f"The metric {scoring!r} is for two classes, and there are {len(classes)}. Use {macro}.")
    if scoring == "top_k_accuracy" and len(classes) == 2:
        raise ValueError(
            "The metric 'top_k_accuracy' counts the two likeliest classes, and there are two. Use 'accuracy'."
        )


@dataclass(frozen=True)
class Metric:
    """A metric by its names.

    Attributes
    ----------
    label : str
        For people; more of it is better.
    scoring : str
        For scorers: works with two classes or more.
    percent : bool
        Whether it is a share, to be shown in percent.
    """

    label: str
    scoring: str
    percent: bool = False


METRICS = {
    "accuracy": Metric("accuracy", "accuracy", percent=True),
    "balanced_accuracy": Metric("balanced accuracy", "balanced_accuracy", percent=True),
    "f1": Metric("macro F1", "f1_macro", percent=True),
    "precision": Metric("macro precision", "precision_macro", percent=True),
    "recall": Metric("macro recall", "recall_macro", percent=True),
    "jaccard": Metric("macro Jaccard index", "jaccard_macro", percent=True),
    "roc_auc": Metric("AUC", "roc_auc_ovr"),
    "average_precision": Metric("average precision", "average_precision"),
    "log_loss": Metric("negative log loss", "neg_log_loss"),
}


def get_metric(name: str) -> Metric:
    """The metric of a name: one of these, one for people, or any scorer of scikit-learn.

    Examples
    --------
    >>> from unseen.model_selection import get_metric
    >>> get_metric("AUC").scoring, get_metric("macro F1") == get_metric("f1"), get_metric("accuracy").percent
    ('roc_auc_ovr', True, True)
    >>> get_metric("matthews_corrcoef")
    Metric(label='matthews corrcoef', scoring='matthews_corrcoef', percent=False)
    """
    for key, metric in METRICS.items():
        if name.lower().replace(" ", "_") in {key, metric.scoring, metric.label.lower().replace(" ", "_")}:
            return metric
    if name not in get_scorer_names():
        raise ValueError(
            f"There is no metric {name!r}; there are {', '.join(METRICS)} and the scorers of scikit-learn, which "
            "sklearn.metrics.get_scorer_names() lists."
        )
    shares = tuple(key for key, metric in METRICS.items() if metric.percent)
    return Metric(name.replace("neg_", "negative ").replace("_", " "), name, percent=name.startswith(shares))


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
    name = get_metric(scoring).scoring if isinstance(scoring, str) else _scorer_name(scoring)
    if name == "neg_brier_score":
        return (-1.0, 0.0) if n_classes == 2 else (-2.0, 0.0)
    for limits, names in RANGES.items():
        if name in names:
            return limits
    return (-np.inf, 0.0) if name.startswith("neg_") else UNBOUNDED


def _scorer_name(scorer: Callable[..., float]) -> str:
    """Return the name of the scikit-learn scorer with the same function, sign and arguments; empty if there is none."""
    function = getattr(scorer, "_score_func", None)
    arguments = getattr(scorer, "_kwargs", {})
    if function is None:
        return ""
    for name in get_scorer_names():
        known = get_scorer(name)
        same_function = known._score_func is function and known._sign == getattr(scorer, "_sign", 1)
        if same_function and arguments.items() <= known._kwargs.items():
            return name
    return ""


RARE = 0.1  # share of a class that accuracy hardly reflects


def rare_class(counts: Mapping[Any, int]) -> str | None:
    """Say so if a class is so rare that accuracy hardly reflects it; `counts` are the samples of each class.

    Rare is less than a tenth, and less than half of an equal part: of twenty classes each may well have a twentieth.
    """
    rarest, frequent = min(counts, key=lambda name: counts[name]), max(counts, key=lambda name: counts[name])
    total = sum(counts.values())
    if counts[rarest] / total >= min(RARE, 0.5 / len(counts)):
        return None
    return (
        f"Class {rarest} has {counts[rarest] / total:.1%} of the samples, and always answering {frequent} would be "
        f"right for {counts[frequent] / total:.1%}."
    )
