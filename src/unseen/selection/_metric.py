"""Metrics: by which names they go, and those of scikit-learn that have to bear a part without some of the classes."""

from __future__ import annotations

from collections.abc import Callable
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

from ..algebra import Array
from ..labels import listed

Scoring = str | Callable[..., float]


def by_labels(scoring: str) -> bool:
    """Whether a metric looks at predicted labels alone."""
    return scoring not in OWN and getattr(get_scorer(scoring), "_response_method", None) == "predict"


def _one_against_rest(
    measure: Any, names: tuple[str, ...], model: Any, X: Any, y: Any, sample_weight: Any = None
) -> float:
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
    probabilities, classes = _response(model, X, "predict_proba"), model.classes_
    if not np.isin(y, classes).all():
        raise ValueError(f"Log loss needs classes that were trained on, which are {listed(classes.tolist())}.")
    return -float(log_loss(y, probabilities, labels=classes, sample_weight=sample_weight))


def _response(model: Any, X: Any, *names: str) -> Array:
    """What the first of these methods gives that a model has."""
    for name in names:
        if hasattr(model, name):
            return np.asarray(getattr(model, name)(X))
    raise AttributeError(f"The metric needs {' or '.join(names)}, which the classifier does not have.")


DECISIONS = ("decision_function", "predict_proba")
OWN: dict[str, Callable[..., float]] = {
    "roc_auc": partial(_one_against_rest, roc_auc_score, DECISIONS),
    "roc_auc_ovr": partial(_one_against_rest, roc_auc_score, DECISIONS[::-1]),
    "average_precision": partial(_one_against_rest, average_precision_score, DECISIONS),
    "neg_log_loss": _negative_log_loss,
}


def scorer_of(scoring: Scoring, model: Any) -> Callable[..., float]:
    """The scorer of a name, or the callable itself."""
    own = OWN.get(scoring) if isinstance(scoring, str) else None
    return own or check_scoring(model, scoring=scoring)


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


def metric_named(name: str) -> Metric:
    """The metric of a name: one of these, one for people, or any scorer of scikit-learn.

    Examples
    --------
    >>> from unseen.selection import metric_named
    >>> metric_named("AUC").scoring, metric_named("macro F1") == metric_named("f1"), metric_named("accuracy").percent
    ('roc_auc_ovr', True, True)
    >>> metric_named("matthews_corrcoef")
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
        Name of a metric, as for :func:`metric_named`, or a scorer. The range of a callable is known if it is made from
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
    >>> from unseen.selection import metric_range
    >>> metric_range("AUC"), metric_range("matthews_corrcoef"), metric_range("neg_brier_score", n_classes=2)
    ((0.0, 1.0), (-1.0, 1.0), (-1.0, 0.0))
    """
    name = metric_named(scoring).scoring if isinstance(scoring, str) else _scorer_name(scoring)
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
