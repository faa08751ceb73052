"""Calibration of out-of-domain predictions: temperatures, slopes and class offsets, class priors, calibration tables.

Functions on arrays, without estimators. There are m held-out domains and C classes; ``codes[k]`` holds the positions of
the true classes of the rows of domain k. All means are means over domains, which have equal weight whatever their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
# Replaces a probability of 0, which rounding may give to classes of the training data, in decision scores.
SMALLEST_PROBABILITY = 1e-30
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
# Rows of a domain that count at most in the fit of a `LogitCalibration`: domains differ in ways that a slope and
# intercepts do not describe, so more rows of one domain are little further evidence about the next one.
MAX_EFFECTIVE_ROWS = 100
# Standard deviations of the weak normal priors: of the logarithm of the slope, of class offsets, and of the standard
# deviation of intercepts (half-normal). Offsets are small, since members have the class frequencies of all domains.
LOG_SLOPE_PRIOR = 0.5
OFFSET_PRIOR = 0.3
INTERCEPT_PRIOR = 1.0
# Standard deviations of intercepts between domains from which the one with the largest likelihood is taken. The slope
# changes little between neighbors of this grid.
INTERCEPT_GRID = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)
# With more classes, domains have too few rows of each for offsets, and the slope is fitted alone.
MAX_OFFSET_CLASSES = 50
# Scoring steps decrease rapidly: after one below this, the error is far below that of any estimate.
CALIBRATION_TOLERANCE = 1e-4
# Groups of domains that are left out of the fit of a calibration in turn, to compare it with a temperature alone.
N_CALIBRATION_GROUPS = 3
MAX_CALIBRATION_STEPS = 50


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


@dataclass(frozen=True)
class LogitCalibration:
    """The last step of an ensemble: logits are multiplied by a slope, and class offsets are added."""

    slope: float = 1.0
    offsets: Array | None = None  # (C,); None for zeros

    def apply(self, P: Array) -> Array:
        """Calibrated probabilities (n, C); zeros stay zero."""
        if self.offsets is None:
            return apply_inverse_temperature(P, self.slope)
        with np.errstate(divide="ignore"):
            return softmax(self.slope * np.log(P) + self.offsets)


IDENTITY = LogitCalibration()


def fit_last_temperature(P: Arrays, codes: Codes, weights: RowWeights = None) -> LogitCalibration:
    """Fit a temperature to out-of-domain probabilities (n_k, C): a slope without offsets, with smoothed labels."""
    with np.errstate(divide="ignore"):
        return LogitCalibration(fit_temperature([np.log(p) for p in P], codes, weights))


def fit_last_calibration(P: Arrays, codes: Codes, weights: RowWeights = None, *, stride: int = 1) -> LogitCalibration:
    """Calibration of out-of-domain probabilities (n_k, C): a temperature, or a slope and offsets if these are better.

    Domains are left out of the fit in three groups, and the log losses of each are compared. The slope, with a random
    intercept for each domain, must decrease the log loss of the temperature by more than the standard error over
    domains. Of large domains these comparisons use the rows at a distance of `stride`.
    """
    if not P:
        return IDENTITY
    groups = np.arange(len(P)) % N_CALIBRATION_GROUPS
    slope_gains: list[float] = []
    offset_gains: list[float] = []
    for group in range(min(len(P), N_CALIBRATION_GROUPS)):
        train = np.flatnonzero(groups != group).tolist()
        test = np.flatnonzero(groups == group).tolist()
        if not train:
            continue
        rows = [P[k][::stride] for k in train], [codes[k][::stride] for k in train]
        row_weights = None if weights is None else [weights[k][::stride] for k in train]
        calibration = fit_logit_calibration(*rows, row_weights)
        losses = []
        for step in (fit_last_temperature(*rows, row_weights), LogitCalibration(calibration.slope), calibration):
            test_weights = None if weights is None else [weights[k] for k in test]
            losses.append(domain_log_losses([step.apply(P[k]) for k in test], [codes[k] for k in test], test_weights))
        slope_gains += (losses[0] - losses[1]).tolist()
        offset_gains += (losses[0] - losses[2]).tolist()
    has_offsets = bool(slope_gains) and bool(np.mean(offset_gains) > np.mean(slope_gains))
    gains = np.array(offset_gains if has_offsets else slope_gains)
    if len(gains) == 0 or gains.mean() <= standard_error(gains):
        return fit_last_temperature(P, codes, weights)
    calibration = fit_logit_calibration(P, codes, weights)
    return calibration if has_offsets else LogitCalibration(calibration.slope)


def standard_error(values: Array) -> float:
    """Standard error of a mean; zero for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def fit_logit_calibration(P: Arrays, codes: Codes, weights: RowWeights = None) -> LogitCalibration:
    """Fit a slope and class offsets to out-of-domain probabilities (n_k, C).

    The slope is that of a logistic calibration with a random intercept for each domain,

        log p'(c | x) = slope * log p(c | x) + offset_c + intercept_kc + const,

    where intercepts are normal with a common standard deviation, that of the difference of any two classes. Without
    them, different class frequencies of domains would look like noise, and the slope would be too flat within each
    domain. The standard deviation maximizes the marginal likelihood, by Laplace's approximation. Each domain counts as
    at most `MAX_EFFECTIVE_ROWS` rows in this fit.

    A new domain has no intercept. Given the slope, its offsets are fitted without intercepts, to rows with their own
    weights, so that predicted class frequencies equal observed ones, as those of the members do in training. Rows of a
    class with probability 0 are left out; without any row nothing changes.
    """
    all_rows = _CalibrationRows.from_predictions(P, codes, weights)
    rows = all_rows.limited
    if not rows.weights.any():
        return IDENTITY
    fit = best = _fit_intercepts(rows, INTERCEPT_GRID[0])
    for deviation in INTERCEPT_GRID[1:]:
        fit = _fit_intercepts(rows, deviation, start=fit)
        if fit.log_evidence < best.log_evidence:
            break
        best = fit
    marginal = _fit_intercepts(all_rows, 0.0, start=best, has_fixed_slope=True)
    offsets = rows.contrasts @ marginal.shared[1:]
    return LogitCalibration(float(np.exp(best.shared[0])), offsets if offsets.any() else None)


@dataclass(frozen=True)
class _CalibrationRows:
    """Rows of all domains, one domain after the other, for the fit of a calibration.

    Attributes
    ----------
    margins : ndarray of shape (n, C)
        Log-probabilities less that of the most probable class.
    codes : ndarray of shape (n,)
        True classes.
    weights : ndarray of shape (n,)
        Weights, with a mean of 1.
    sizes : ndarray of shape (m,)
        Number of rows of each domain.
    """

    margins: Array
    codes: Ints
    weights: Array
    sizes: Ints

    @classmethod
    def from_predictions(cls, P: Arrays, codes: Codes, weights: RowWeights) -> _CalibrationRows:
        all_P = np.concatenate(P)
        all_codes = np.concatenate(codes)
        sizes = np.array([len(part) for part in codes])
        share = np.ones(len(all_P)) if weights is None else np.concatenate(weights)
        share = share * (true_class_values(all_P, all_codes) > 0)
        share = share * (np.count_nonzero(share) / max(share.sum(), MIN_PROBABILITY))
        with np.errstate(divide="ignore"):
            margins = np.log(all_P) - np.log(all_P.max(axis=1, keepdims=True))
        return cls(np.maximum(margins, UNSEEN_CLASS_MARGIN), all_codes, share, sizes)

    @property
    def limited(self) -> _CalibrationRows:
        """The same rows with smaller weights where those of a domain exceed `MAX_EFFECTIVE_ROWS`."""
        totals = np.array([self.weights[part].sum() for part in self.parts])
        scale = np.minimum(MAX_EFFECTIVE_ROWS / np.maximum(totals, MIN_PROBABILITY), 1.0)
        return replace(self, weights=self.weights * np.repeat(scale, self.sizes))

    @cached_property
    def contrasts(self) -> Array:
        """Basis (C, C - 1) of class offsets that sum to 0, in which differences of two offsets have unit variance."""
        n_classes = self.margins.shape[1]
        if n_classes > MAX_OFFSET_CLASSES:
            return np.zeros((n_classes, 0))
        centering = np.eye(n_classes) - 1 / n_classes
        return np.linalg.svd(centering)[0][:, : n_classes - 1] / math.sqrt(2)

    @cached_property
    def parts(self) -> list[slice]:
        """Rows of each domain."""
        ends = np.cumsum(self.sizes).tolist()
        return [slice(end - size, end) for end, size in zip(ends, self.sizes.tolist(), strict=True)]


@dataclass(frozen=True)
class _InterceptFit:
    """Parameters at a standard deviation of intercepts, and the logarithm of their evidence."""

    shared: Array  # (1 + q,): logarithm of the slope, coordinates of the offsets
    intercepts: Array  # (m, q)
    log_evidence: float


def _fit_intercepts(
    rows: _CalibrationRows, deviation: float, start: _InterceptFit | None = None, *, has_fixed_slope: bool = False
) -> _InterceptFit:
    """Maximize the penalized likelihood of slope, offsets and intercepts by Fisher scoring with step halving."""
    q = rows.contrasts.shape[1]
    m = len(rows.sizes)
    shared = np.zeros(1 + q) if start is None else start.shared
    intercepts = np.zeros((m, q)) if start is None or deviation == 0 else start.intercepts
    precision = np.zeros(1 + q)
    precision[0] = LOG_SLOPE_PRIOR**-2
    precision[1:] = OFFSET_PRIOR**-2
    is_free = np.ones(1 + q, dtype=bool)
    is_free[0] = not has_fixed_slope
    intercept_precision = np.eye(q) * (deviation**-2 if deviation else 0.0)

    def penalized_loss(shared: Array, intercepts: Array) -> tuple[float, Array, Array]:
        loss, residuals, probabilities = _logit_loss(rows, shared, intercepts)
        penalty = precision @ shared**2
        if deviation:
            penalty += np.sum(intercepts**2) / deviation**2
        return float(loss + penalty / 2), residuals, probabilities

    value, residuals, probabilities = penalized_loss(shared, intercepts)
    for _ in range(MAX_CALIBRATION_STEPS):
        gradient, information = _sum_by_domain(rows, shared[0], residuals, probabilities)
        total_gradient = gradient.sum(axis=0) + precision * shared
        total_information = information.sum(axis=0) + np.diag(precision)
        if deviation:
            # The blocks of the intercepts are eliminated from the linear equations of a step.
            blocks = information[:, 1:, 1:] + intercept_precision
            intercept_gradient = gradient[:, 1:] + intercepts / deviation**2
            coupling = np.linalg.solve(blocks, information[:, 1:, :])
            total_information = total_information - np.einsum("kqa,kqb->ab", information[:, 1:, :], coupling)
            total_gradient = total_gradient - np.einsum("kqa,kq->a", coupling, intercept_gradient)
        step = np.zeros(1 + q)
        step[is_free] = -np.linalg.solve(total_information[np.ix_(is_free, is_free)], total_gradient[is_free])
        intercept_step = np.zeros((m, q))
        if deviation:
            intercept_step = -np.linalg.solve(blocks, intercept_gradient[:, :, None])[:, :, 0] - coupling @ step
        size = max(np.abs(step).max(), np.abs(intercept_step).max(initial=0.0))
        fraction = 1.0
        while True:
            proposal = shared + fraction * step, intercepts + fraction * intercept_step
            proposed_value, *proposed_state = penalized_loss(*proposal)
            if proposed_value <= value or size * fraction < CALIBRATION_TOLERANCE:
                break
            fraction /= 2
        shared, intercepts = proposal
        value = proposed_value
        residuals, probabilities = proposed_state
        if size * fraction < CALIBRATION_TOLERANCE:
            break
    _, information = _sum_by_domain(rows, shared[0], residuals, probabilities)
    determinants = np.linalg.slogdet(np.eye(q) + deviation**2 * information[:, 1:, 1:])[1]
    log_prior = -0.5 * (deviation / INTERCEPT_PRIOR) ** 2
    return _InterceptFit(shared, intercepts, float(log_prior - value - determinants.sum() / 2))


def _logit_loss(rows: _CalibrationRows, shared: Array, intercepts: Array) -> tuple[float, Array, Array]:
    """Weighted log loss, its derivatives (n, C) by the logits, and probabilities (n, C)."""
    offsets = np.repeat((shared[1:] + intercepts) @ rows.contrasts.T, rows.sizes, axis=0)
    logits = np.exp(shared[0]) * rows.margins + offsets
    logits -= logits.max(axis=1, keepdims=True)
    P = np.exp(logits)
    totals = P.sum(axis=1, keepdims=True)
    P /= totals
    truth = np.arange(len(logits)), rows.codes
    # Rows without weight may have an infinite loss.
    is_used = rows.weights > 0
    loss = rows.weights[is_used] @ (np.log(totals[is_used, 0]) - logits[truth][is_used])
    residuals = P.copy()
    residuals[truth] -= 1
    return float(loss), residuals * rows.weights[:, None], P


def _sum_by_domain(rows: _CalibrationRows, log_slope: float, residuals: Array, P: Array) -> tuple[Array, Array]:
    """Gradient (m, 1 + q) and Fisher information (m, 1 + q, 1 + q) of the loss of each domain."""
    Q = rows.contrasts
    q = Q.shape[1]
    slope = np.exp(log_slope)
    scaled = slope * rows.margins
    gradient = np.empty((len(rows.sizes), 1 + q))
    information = np.empty((len(rows.sizes), 1 + q, 1 + q))
    deviations = P * (scaled - np.sum(P * scaled, axis=1, keepdims=True)) * rows.weights[:, None]
    slope_gradient = np.where(rows.weights > 0, np.sum(residuals * scaled, axis=1), 0.0)
    slope_information = np.sum(deviations * scaled, axis=1)
    coordinates = P @ Q
    for k, part in enumerate(rows.parts):
        weights = rows.weights[part]
        gradient[k, 0] = slope_gradient[part].sum()
        gradient[k, 1:] = residuals[part].sum(axis=0) @ Q
        information[k, 0, 0] = slope_information[part].sum()
        information[k, 0, 1:] = information[k, 1:, 0] = deviations[part].sum(axis=0) @ Q
        second_moments = (weights[:, None] * coordinates[part]).T @ coordinates[part]
        information[k, 1:, 1:] = (Q.T * (weights @ P[part])) @ Q - second_moments
    return gradient, information


def domain_log_losses(P: Arrays, codes: Codes, weights: RowWeights = None) -> Array:
    """Log loss of each domain (m,)."""
    per_domain = [None] * len(codes) if weights is None else weights
    return np.array(
        [
            -np.average(np.log(np.maximum(true_class_values(p, c), MIN_PROBABILITY)), weights=w)
            for p, c, w in zip(P, codes, per_domain, strict=True)
        ]
    )


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
    filled_bins = [row for row in np.mean(tables, axis=0).T.tolist() if row[0] > 0]
    return {
        "ece": float(np.mean([np.abs(table[1] - table[2]).sum() for table in tables])),
        "log_loss": float(domain_log_losses(P, codes, weights).mean()),
        "bins": [
            {"confidence": confidence / share, "accuracy": hits / share, "share": share}
            for share, confidence, hits in filled_bins
        ],
    }
