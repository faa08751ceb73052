"""Calibration of out-of-domain predictions: temperature scaling, class priors, and calibration tables.

Functions on arrays, without estimators. There are m held-out domains and C classes; ``codes[k]`` holds the positions of
the true classes of the rows of domain k. All means are means over domains, which have equal weight whatever their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..linalg import Array, Ints

Arrays = Sequence[Array]  # one array for each domain
Codes = Sequence[Ints]  # class codes of each domain
RowWeights = Arrays | None  # weights of rows within each domain; None for equal weights
Mask = npt.NDArray[np.bool_]

# Decision scores at or below this value belong to classes that were absent from the training data.
UNSEEN_CLASS_SCORE = -1e9
# The margin of such a class in a temperature fit: its probability is 0 at any inverse temperature.
UNSEEN_CLASS_MARGIN = -1e12
# Probabilities are clipped here before their logarithm is taken.
MIN_PROBABILITY = 1e-12
# Share of the labels of a temperature fit that counts as uniform. Without it, the fit to domains without errors has no
# optimum, and predictions for a new domain, which may differ from all of them, would be certain.
LABEL_SMOOTHING = 0.01
# Inverse temperatures are searched between 0.001 and 1000.
LOG_INVERSE_TEMPERATURE_RANGE = (math.log(1e-3), math.log(1e3))
# Tolerance of the logarithm of an inverse temperature. Newton steps square the error, so this is at rounding level.
TEMPERATURE_TOLERANCE = 1e-9
# Enough steps to bisect the whole range to that tolerance; Newton steps usually take about seven.
MAX_TEMPERATURE_STEPS = 80
# Array entries of a vectorized step, so that the arrays stay in the processor's cache.
MAX_BLOCK_ENTRIES = 2**17
N_CALIBRATION_BINS = 15


def row_weights(domains: Sequence[npt.NDArray[Any]], weights: RowWeights = None) -> Array:
    """Weights of all rows, domain after domain, such that each domain has the same total and all sum to 1."""
    per_domain = [np.ones(len(rows)) for rows in domains] if weights is None else weights
    return np.concatenate([values / (len(domains) * values.sum()) for values in per_domain])


def true_class_values(P: Array, codes: Ints) -> Array:
    """Entries of the true classes: (n,) for (n, C), or (J, n) for (J, n, C)."""
    return P[..., np.arange(len(codes)), codes]


def class_scores(scores: Array) -> Array:
    """Return one column for each class, with -inf for classes absent from training.

    A one-dimensional decision function of two classes becomes two columns.
    """
    columns = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    return np.where(columns > UNSEEN_CLASS_SCORE, columns, -np.inf)


def softmax(scores: Array, inverse_temperature: float = 1.0) -> Array:
    """Probabilities (n, C) from log-probabilities, or from one-vs-rest decision scores."""
    exponents = inverse_temperature * class_scores(scores)
    P = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


def apply_inverse_temperature(P: Array, inverse_temperature: float) -> Array:
    """Probabilities (n, C) at another inverse temperature; zeros stay zero."""
    if inverse_temperature == 1.0:
        return P
    with np.errstate(divide="ignore"):
        return softmax(np.log(P), inverse_temperature)


def adjust_priors(P: Array, ratio: Array) -> Array:
    """Probabilities (n, C) under other class frequencies.

    `ratio` (C,) holds the new class frequencies over the old ones. By Bayes' rule p'(c | x) is proportional to
    p(c | x) times that ratio, if the distributions within classes are unchanged.
    """
    scaled = P * ratio
    return scaled / scaled.sum(axis=1, keepdims=True)


def fit_temperatures(scores: Arrays, codes: Codes, kept: Mask, weights: RowWeights = None) -> Array:
    """Inverse temperatures of one candidate that minimize the smoothed log loss, one for each row of `kept`.

    The loss of a row is that of its class, but for a share `LABEL_SMOOTHING`, which is the mean over all classes. Row f
    of `kept` (F, m) selects the domains of fit f; domains that are not kept have no influence, not even on rounding.
    The loss is convex in the inverse temperature, and a bracketed Newton method searches its logarithm. Rows of a class
    that was absent from training have an infinite loss at any temperature and are left out. The result is 1 where no
    row is left.
    """
    S = np.concatenate([class_scores(part) for part in scores])
    truth = np.arange(len(S)), np.concatenate(codes)
    domain = np.repeat(np.arange(len(codes)), [len(part) for part in codes])
    share = np.isfinite(S[truth]) * (1.0 if weights is None else np.concatenate(weights))
    totals = np.bincount(domain, share, minlength=len(codes))
    share = np.divide(share, totals[domain], out=np.zeros(len(S)), where=totals[domain] > 0)
    # Margins to the largest score of a row are never positive, whatever the true class.
    D = np.where(np.isfinite(S), S - S.max(axis=1, keepdims=True), UNSEEN_CLASS_MARGIN)
    is_known = D > UNSEEN_CLASS_MARGIN
    spread = np.where(is_known, -D, 0.0).sum(axis=1) / np.maximum(np.sum(is_known, axis=1), 1)
    D_truth = np.where(share > 0, (1 - LABEL_SMOOTHING) * D[truth] - LABEL_SMOOTHING * spread, 0.0)
    fits_per_block = max(1, MAX_BLOCK_ENTRIES // D.size)
    blocks = [kept[first : first + fits_per_block] for first in range(0, len(kept), fits_per_block)]
    return np.concatenate([_minimize_log_loss(D, D_truth, block[:, domain] * share, spread) for block in blocks])


def _minimize_log_loss(D: Array, D_truth: Array, A: Array, spread: Array) -> Array:
    """Inverse temperatures (F,) that minimize the log loss of rows weighted by A (F, n)."""
    total = A.sum(axis=1)
    scale = np.divide(A @ spread, total, out=np.ones(len(A)), where=total > 0)
    u = np.clip(-np.log(np.where(scale > 0, scale, 1.0)), *LOG_INVERSE_TEMPERATURE_RANGE)
    low = np.full(len(A), LOG_INVERSE_TEMPERATURE_RANGE[0])
    high = np.full(len(A), LOG_INVERSE_TEMPERATURE_RANGE[1])
    moving = np.ones(len(A), dtype=bool)  # a fit that has converged stays where it is
    for _ in range(MAX_TEMPERATURE_STEPS):
        beta = np.exp(u)
        E = np.exp(beta[:, None, None] * D)
        Z = E.sum(axis=2)
        mean = np.einsum("fnc,nc->fn", E, D) / Z
        square = np.einsum("fnc,nc->fn", E, D * D) / Z
        slope = np.sum(A * (mean - D_truth), axis=1)  # derivative of the loss, which increases with beta
        curvature = np.sum(A * (square - mean**2), axis=1)
        low = np.where(slope < 0, u, low)
        high = np.where(slope > 0, u, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = np.clip(u - slope / (beta * curvature), *LOG_INVERSE_TEMPERATURE_RANGE)
        # A Newton step outside the bracket, or NaN, is replaced by bisection.
        step = np.where((newton >= low) & (newton <= high), newton, (low + high) / 2)
        step = np.where(moving & (slope != 0), step, u)
        moving &= np.abs(step - u) >= TEMPERATURE_TOLERANCE
        u = step
        if not moving.any():
            break
    return np.where(total > 0, np.exp(u), 1.0)


def fit_temperature(scores: Arrays, codes: Codes, weights: RowWeights = None) -> float:
    """Inverse temperature that minimizes the log loss on all domains; see `fit_temperatures`."""
    return float(fit_temperatures(scores, codes, np.ones((1, len(codes)), dtype=bool), weights)[0])


def calibration_table(P: Arrays, codes: Codes, weights: RowWeights = None) -> dict[str, Any]:
    """Calibration of probabilities (n_k, C), as means over domains in plain values.

    ``"ece"`` is the expected calibration error of the predicted class, in bins of equal width; ``"log_loss"`` is that
    of the true class; ``"bins"`` holds the mean confidence, the accuracy and the share of rows of each non-empty bin.
    """
    ends = np.cumsum([len(part) for part in codes])[:-1]
    shares = np.split(len(codes) * row_weights(codes, weights), ends)
    tables = []  # for each domain: share of rows, confidence and hits of each bin
    for p, c, share in zip(P, codes, shares, strict=True):
        confidence = p.max(axis=1)
        bins = np.minimum((N_CALIBRATION_BINS * confidence).astype(int), N_CALIBRATION_BINS - 1)
        columns = (share, share * confidence, share * (p.argmax(axis=1) == c))
        tables.append(np.array([np.bincount(bins, values, minlength=N_CALIBRATION_BINS) for values in columns]))
    truth = np.concatenate([true_class_values(p, c) for p, c in zip(P, codes, strict=True)])
    filled_bins = [row for row in np.mean(tables, axis=0).T.tolist() if row[0] > 0]
    return {
        "ece": float(np.mean([np.abs(table[1] - table[2]).sum() for table in tables])),
        "log_loss": float(-row_weights(codes, weights) @ np.log(np.maximum(truth, MIN_PROBABILITY))),
        "bins": [
            {"confidence": confidence / share, "accuracy": hits / share, "share": share}
            for share, confidence, hits in filled_bins
        ],
    }
