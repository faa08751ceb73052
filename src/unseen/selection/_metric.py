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


def score_range(scoring: Scoring) -> tuple[float, float]:
    """The least and the largest score that a metric can have; without bounds for scorers that are not known by name.

    Examples
    --------
    >>> from unseen.selection import score_range
    >>> score_range("roc_auc"), score_range("matthews_corrcoef"), score_range("neg_log_loss")
    ((0.0, 1.0), (-1.0, 1.0), (-inf, 0.0))
    """
    if not isinstance(scoring, str):
        return -np.inf, np.inf
    return next((ends for names, ends in RANGES.items() if scoring.startswith(names)), (-np.inf, np.inf))


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


# Least and largest score of scikit-learn's scorers, by how their names begin; the first that fits counts.
RANGES: dict[tuple[str, ...], tuple[float, float]] = {
    ("accuracy", "balanced_accuracy", "top_k_accuracy", "roc_auc", "average_precision"): (0.0, 1.0),
    ("f1", "precision", "recall", "jaccard"): (0.0, 1.0),
    ("matthews_corrcoef", "cohen_kappa"): (-1.0, 1.0),
    ("d2_", "r2", "explained_variance"): (-np.inf, 1.0),
    ("neg_",): (-np.inf, 0.0),
    ("positive_likelihood_ratio",): (0.0, np.inf),
}

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
