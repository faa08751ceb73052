"""Averages of a few simple models: a cheap, stated stand-in for the ensemble where many fits are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..linalg import Array
from ..utils.samples import Samples
from ._calibration import softmax
from ._candidate import Candidate
from ._evaluation import EvaluationConfig, Prediction, evaluate_candidates
from ._methods import expand_methods, parse_methods
from ._metrics import Scoring
from ._splitters import Split
from ._validation import Scorer

# A linear and a nonlinear model, neither of which needs a kernel matrix.
AVERAGE_METHODS = ("logistic", "gradient boosting")


def make_average_candidates(methods: Sequence[Any], n_classes: int) -> list[Candidate]:
    """Make the candidates of an average: the middle one of the settings of each method in the automatic ensemble.

    For logistic regression that is C=1. Methods that need batches of a new domain are an error, since rows are
    predicted one by one.
    """
    chosen = expand_methods(parse_methods(list(methods)), transductive=False)
    candidates = []
    for method in chosen:
        settings = list(method.candidates(n_classes, grid="ensemble", heads=("logistic",), centerings=("source",)))
        candidates.append(settings[len(settings) // 2])
    return candidates


def predict_by_average(
    candidates: Sequence[Candidate], samples: Samples, splits: Sequence[Split], config: EvaluationConfig
) -> list[Array]:
    """Predict the held-out rows of splits by the mean probabilities of candidates.

    Returns
    -------
    probabilities : list of ndarray of shape (n_held_out, n_classes)
        One for each split, in the order of the sorted classes of all samples; NaN if no candidate could be fitted, such
        as to rows of a single class.
    """
    probabilities = [np.empty(0)] * len(splits)
    errors = []
    for k, P, error in iterate_averages(candidates, samples, splits, config):
        probabilities[k] = P
        errors.append(error)
    if all(errors):
        raise ValueError(f"No model could be fitted. First reason: {errors[0]}")
    return probabilities


def iterate_averages(
    candidates: Sequence[Candidate], samples: Samples, splits: Sequence[Split], config: EvaluationConfig
) -> Iterator[tuple[int, Array, str]]:
    """Predict as `predict_by_average` does, split by split; splits with the same training rows follow each other.

    Yields
    ------
    split : int
        Position of the split.
    probabilities : ndarray of shape (n_held_out, n_classes)
        NaN if no candidate could be fitted.
    error : str
        Why none could be fitted; empty if one could.
    """
    received: dict[int, list[Prediction]] = {}
    for prediction in evaluate_candidates(candidates, samples, splits, config, with_decision_scores="all"):
        of_split = received.setdefault(prediction.split, [])
        of_split.append(prediction)
        if len(of_split) < len(candidates):
            continue
        fitted = [softmax(one.responses["decision_scores"]) for one in of_split if one.codes is not None]
        if fitted:
            yield prediction.split, sum(fitted[1:], start=fitted[0]) / len(fitted), ""
        else:
            shape = (len(splits[prediction.split][1]), len(samples.classes))
            yield prediction.split, np.full(shape, np.nan), of_split[0].error
        del received[prediction.split]


def score_probabilities(
    probabilities: Sequence[Array], samples: Samples, splits: Sequence[Split], scoring: Scoring
) -> Array:
    """Score the probabilities of the held-out rows of each split; NaN where the metric is not defined."""
    scorer = Scorer(scoring, samples, splits)
    scores = []
    for k, P in enumerate(probabilities):
        if not np.isfinite(P).all():
            scores.append(np.nan)
            continue
        decisions = P[:, 1] - P[:, 0] if P.shape[1] == 2 else P
        responses = {"predict_proba": P, "decision_function": decisions}
        scores.append(scorer(Prediction(0, k, P.argmax(axis=1), responses)))
    return np.array(scores)
