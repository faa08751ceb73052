"""Averages of a few simple models: a cheap, stated stand-in for the ensemble where many fits are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..linalg import Array
from ..utils.samples import Samples
from ._calibration import softmax
from ._candidate import Candidate
from ._metrics import Scoring
from ._registry import expand_methods, parse_methods
from ._split_evaluation import Prediction
from ._validation import EvaluationConfig, Scorer, Split, evaluate_candidates

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
    sums = [np.zeros((len(test), len(samples.classes))) for _, test in splits]
    counts = np.zeros(len(splits))
    errors = []
    for prediction in evaluate_candidates(candidates, samples, splits, config, with_decision_scores="all"):
        if prediction.codes is None:
            errors.append(prediction.error)
            continue
        sums[prediction.split] += softmax(prediction.responses["decision_scores"])
        counts[prediction.split] += 1
    if not counts.any():
        raise ValueError(f"No model could be fitted. First reason: {errors[0]}")
    return [total / n if n else np.full_like(total, np.nan) for total, n in zip(sums, counts, strict=True)]


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
