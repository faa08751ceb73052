"""The mathematics of ensembles: temperatures, calibration, weights, folds of cross-fitting, acceptance tests.

Functions on arrays, without estimators. There are J candidates, m held-out domains and C classes. ``P[k]``, of shape
(n_k, C) or (J, n_k, C), holds the probabilities that models trained without domain k predict for it, and ``codes[k]``
the positions of the true classes of its rows. All means are means over domains, which have equal weight whatever their
size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize
from scipy.sparse import csr_array
from scipy.special import expit, log_expit, log_softmax, logsumexp, stdtr, xlogy

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
N_CALIBRATION_BINS = 15
# Rows of a domain that count at most in the fit of the slope of two classes: domains differ in ways that a slope and
# intercepts do not describe, so more rows of one domain are little further evidence about the next one.
MAX_EFFECTIVE_ROWS = 100
# Mean and standard deviation of the normal prior of the logarithm of that slope: a mean of calibrated probabilities is
# underconfident, and the deployed members are trained on one domain more than those that predict held-out domains.
LOG_SLOPE_PRIOR = (0.2, 0.5)
# Scales of the weak priors of the offset (normal) and of the standard deviation of intercepts (half-normal).
OFFSET_PRIOR = 0.5
DEVIATION_PRIOR = 1.0
# Standardized intercepts of the trapezoidal rule that integrates the likelihood of a domain. With that many rows the
# likelihood is smooth at this distance.
INTERCEPT_NODES = np.linspace(-4, 4, 41)
LOG_NODE_WEIGHTS = log_softmax(-(INTERCEPT_NODES**2) / 2)
# A step that changes all weights by less than this does not show in any probability.
WEIGHT_TOLERANCE = 1e-10
MAX_WEIGHT_STEPS = 150
FIRST_RATE = 0.3  # of the exponentiated gradient
# Weight of the divergence from uniform weights. Values from 0.005 to 0.1 give the same accuracy within noise.
UNIFORM_PENALTY = 0.02
# Members of an ensemble that are never pruned: together they cost at most that many times the most expensive one.
MIN_MEMBERS = 5
# Share of the rows of a domain that may be lost by pruning: with thousands of rows smaller losses exceed their standard
# error on one of many domains by chance, and do not matter.
MAX_PRUNING_LOSS = 0.005
# The number of fits grows with the square of the number of folds; 12 folds keep 11 of 12 domains in each.
MAX_FOLDS = 12
# Skewed batches sampled from each held-out domain.
N_SKEWED_BATCHES = 5
# Share of a skewed batch that half of the classes make up.
SKEWED_SHARE = 0.8
# One-sided significance level of the acceptance test, which is its rate of false positives.
SIGNIFICANCE = 0.05
# A step is never accepted with fewer held-out domains.
MIN_TEST_DOMAINS = 3
# Mean gain, as a difference of scores, that makes a step worth its requirements: a point of accuracy.
MIN_GAIN = 0.01
# With fewer held-out domains than this the required gain is larger, since a t test then has little power against skew.
SMALL_N_DOMAINS = 4
MIN_GAIN_SMALL = 0.05
# Mean loss on skewed batches that an accepted step may show.
MAX_SKEWED_LOSS = 0.01


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
    of `kept` (F, m) selects the domains of fit f. The loss is convex in the inverse temperature, and a bracketed Newton
    method searches its logarithm. Rows of a class that was absent from training have an infinite loss at any
    temperature and are left out. The result is 1 where no row is left.
    """
    domains = []  # margins, what the true classes contribute to the derivative of the loss, and weights
    for k, (domain_scores, domain_codes) in enumerate(zip(scores, codes, strict=True)):
        S = class_scores(domain_scores)
        is_used = np.isfinite(true_class_values(S, domain_codes))
        weight = np.ones(len(S)) if weights is None else weights[k]
        S = S[is_used]
        weight = weight[is_used]
        # Margins to the largest score of a row are never positive, whatever the true class.
        D = np.where(np.isfinite(S), S - S.max(axis=1, keepdims=True), UNSEEN_CLASS_MARGIN)
        is_known = D > UNSEEN_CLASS_MARGIN
        spread = np.where(is_known, -D, 0.0).sum(axis=1) / np.sum(is_known, axis=1)
        target = (1 - LABEL_SMOOTHING) * true_class_values(D, domain_codes[is_used]) - LABEL_SMOOTHING * spread
        domains.append((D, target, weight / max(weight.sum(), MIN_PROBABILITY), spread))
    betas = np.ones(len(kept))
    for f, is_kept in enumerate(kept):
        parts = [domain for domain, keep in zip(domains, is_kept, strict=True) if keep and domain[2].any()]
        if parts:
            betas[f] = _minimize_log_loss(*map(np.concatenate, zip(*parts, strict=True)))
    return betas


def _minimize_log_loss(D: Array, target: Array, weights: Array, spread: Array) -> float:
    """Inverse temperature that minimizes the log loss of weighted rows with margins D (n, C)."""
    low, high = LOG_INVERSE_TEMPERATURE_RANGE
    scale = weights @ spread / weights.sum()
    u = float(np.clip(-np.log(scale) if scale > 0 else 0.0, low, high))
    for _ in range(MAX_TEMPERATURE_STEPS):
        beta = np.exp(u)
        E = np.exp(beta * D)
        Z = E.sum(axis=1)
        ED = E * D
        mean = ED.sum(axis=1) / Z
        slope = weights @ (mean - target)  # derivative of the loss, which increases with beta
        curvature = weights @ (np.sum(ED * D, axis=1) / Z - mean**2)
        if slope == 0:
            break
        if slope < 0:
            low = u
        else:
            high = u
        proposal = u - slope / (beta * curvature) if curvature > 0 else np.inf
        proposal = np.clip(proposal, *LOG_INVERSE_TEMPERATURE_RANGE)
        # A Newton step outside the bracket is replaced by bisection.
        step = float(proposal) if low <= proposal <= high else (low + high) / 2
        has_converged = abs(step - u) < TEMPERATURE_TOLERANCE
        u = step
        if has_converged:
            break
    return float(np.exp(u))


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


def fit_last_calibration(P: Arrays, codes: Codes, weights: RowWeights = None, *, stride: int = 1) -> LogitCalibration:
    """Fit the last step of an ensemble to out-of-domain probabilities (n_k, C).

    For two classes the slope is that of a logistic calibration with a random intercept for each domain,

        log odds'(x) = slope * log odds(x) + offset + intercept_k,

    where intercepts are normal. Without them, different class frequencies of domains would look like noise, and the
    slope would be too flat within each domain. The slope maximizes the posterior density, jointly with the offset and
    the standard deviation of the intercepts; the intercepts are integrated out. Each domain counts as at most
    `MAX_EFFECTIVE_ROWS` rows; those at a distance of `stride` are used.

    A new domain has no intercept. The offset that is applied keeps the mean probability of each class, since a slope
    alone would bias those of a rare class. No label affects it but by the slope.

    With more classes, intercepts of each class would describe the confusions of classes that are typical of a domain.
    The slope given such intercepts is too large for a new domain, where they are not known. A temperature is fitted
    instead.
    """
    if not P or P[0].shape[1] != 2:
        with np.errstate(divide="ignore"):
            return LogitCalibration(fit_temperature([np.log(p) for p in P], codes, weights))
    domains = [rows[:, ::stride] for rows in _binary_rows(P, codes, weights)]
    if not domains:
        return IDENTITY
    log_odds, signs, share = np.hstack(domains)
    sizes = np.array([rows.shape[1] for rows in domains])
    starts = np.cumsum(sizes) - sizes
    share = share / share.mean()
    share = share * np.repeat(np.minimum(MAX_EFFECTIVE_ROWS / np.add.reduceat(share, starts), 1), sizes)
    prior_mean = np.array([LOG_SLOPE_PRIOR[0], 0, 0])
    prior_scale = np.array([LOG_SLOPE_PRIOR[1], OFFSET_PRIOR, DEVIATION_PRIOR])

    def loss(parameters: Array) -> tuple[float, Array]:
        """Negative log posterior of the log slope, the offset and the standard deviation, and its gradient."""
        log_slope, offset, deviation = parameters
        scaled = np.exp(log_slope) * log_odds
        margins = signs[:, None] * ((scaled + offset)[:, None] + deviation * INTERCEPT_NODES)
        by_node = np.add.reduceat(share[:, None] * log_expit(margins), starts) + LOG_NODE_WEIGHTS
        log_likelihood = logsumexp(by_node, axis=1, keepdims=True)
        # Residuals at each intercept, times its density given the rows of the domain.
        residuals = (share * signs)[:, None] * expit(-margins)
        residuals *= np.repeat(np.exp(by_node - log_likelihood), sizes, axis=0)
        by_row = residuals.sum(axis=1)
        gradient = np.array([by_row @ scaled, by_row.sum(), residuals.sum(axis=0) @ INTERCEPT_NODES])
        standardized = (parameters - prior_mean) / prior_scale
        return float(standardized @ standardized / 2 - log_likelihood.sum()), standardized / prior_scale - gradient

    bounds = [LOG_INVERSE_TEMPERATURE_RANGE, (None, None), (0, None)]
    fit = minimize(loss, np.array([0.0, 0.0, DEVIATION_PRIOR / 2]), jac=True, method="L-BFGS-B", bounds=bounds)
    slope = float(np.exp(fit.x[0]))
    mean_probability = share @ expit(log_odds)

    def excess(offset: float) -> float:
        return float(share @ expit(slope * log_odds + offset) - mean_probability)

    # At these offsets all log odds are smaller, or larger, than before.
    bound = abs(slope - 1) * np.abs(log_odds).max() + 1
    offset = brentq(excess, -bound, bound)
    return LogitCalibration(slope, np.array([-offset, offset]) / 2)


def _binary_rows(P: Arrays, codes: Codes, weights: RowWeights) -> list[Array]:
    """Log odds of the second class, signs of the true class and weights (3, n_k) of rows that have log odds."""
    per_domain = [np.ones(len(part)) for part in codes] if weights is None else weights
    domains = []
    for p, c, weight in zip(P, codes, per_domain, strict=True):
        # A class that was absent from training has the probability 0.
        is_used = (p > 0).all(axis=1) & (weight > 0)
        if is_used.any():
            log_odds = np.log(p[is_used, 1]) - np.log(p[is_used, 0])
            domains.append(np.array([log_odds, 2.0 * c[is_used] - 1, weight[is_used]]))
    return domains


def standard_error(values: Array) -> float:
    """Standard error of a mean; zero for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


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


@dataclass(frozen=True)
class CrossFittingFolds:
    """Folds of cross-fitting over held-out domains: what is applied to a domain is fitted without it.

    Attributes
    ----------
    predicted_by : ndarray of shape (n_domains,)
        The fold whose parameters are applied to each domain.
    kept : ndarray of bool of shape (n_folds, n_domains)
        The domains on which the parameters of each fold are fitted.
    """

    predicted_by: Ints
    kept: Mask

    @classmethod
    def from_rows(cls, rows: Sequence[Ints]) -> Self:
        """Folds for held-out parts with these rows.

        Each part is a fold. More than `MAX_FOLDS` parts are left out in that many groups. If parts share rows, as
        those of repeated or leave-two-out splits do, each is a fold that leaves out all parts which share rows with it.
        """
        m = len(rows)
        all_rows = np.concatenate(rows)
        if len(np.unique(all_rows)) == len(all_rows):
            groups = np.arange(m) % MAX_FOLDS
            return cls(groups, np.arange(min(m, MAX_FOLDS))[:, None] != groups)
        ends = np.cumsum([0, *(len(part) for part in rows)])
        membership = csr_array((np.ones(len(all_rows)), all_rows, ends), shape=(m, int(all_rows.max()) + 1))
        return cls(np.arange(m), (membership @ membership.T).toarray() == 0)


def fit_ensemble_weights(
    P: Arrays,
    codes: Codes,
    *,
    members: Mask | None = None,
    weights: RowWeights = None,
    uniform_penalty: float = UNIFORM_PENALTY,
) -> Array:
    """Weights (J,) of an ensemble, by exponentiated gradient on domain-balanced log loss.

    Minimizes the log loss of the ensemble plus `uniform_penalty` times the Kullback-Leibler divergence of the weights
    from uniform ones. The objective is convex; candidates whose losses differ by much less than the penalty get equal
    weights. The rate grows while the objective decreases and is halved where it would increase, so that more steps are
    never worse. Only `members` take part; others get 0. `weights` are those of rows.
    """
    participants = np.flatnonzero(np.ones(len(P[0]), bool) if members is None else members)
    q = np.concatenate([true_class_values(p, c)[participants] for p, c in zip(P, codes, strict=True)], axis=1)
    q = np.maximum(q, MIN_PROBABILITY)
    shares = row_weights(codes, weights)
    log_uniform = -np.log(len(participants))

    def objective(log_w: Array) -> tuple[float, Array]:
        w = np.exp(log_w)
        mixed = w @ q
        divergence = xlogy(w, w).sum() - log_uniform
        return float(uniform_penalty * divergence - shares @ np.log(mixed)), mixed

    log_w = np.full(len(participants), log_uniform)
    rate = FIRST_RATE
    # At a rate of 1 / uniform_penalty a step no longer depends on the weights it starts from.
    max_rate = 0.5 / max(uniform_penalty, MIN_PROBABILITY)
    value, mixed = objective(log_w)
    for _ in range(MAX_WEIGHT_STEPS):
        proposed = log_softmax((1 - rate * uniform_penalty) * log_w + rate * (q @ (shares / mixed)))
        proposed_value, proposed_mixed = objective(proposed)
        if proposed_value > value:
            rate /= 2
            continue
        change = np.abs(np.exp(proposed) - np.exp(log_w)).max()
        log_w = proposed
        value = proposed_value
        mixed = proposed_mixed
        rate = min(1.5 * rate, max_rate)
        if change <= WEIGHT_TOLERANCE:
            break
    result = np.zeros(len(P[0]))
    result[participants] = np.exp(log_w)
    return result


def average_members(weights: Array, P: Array) -> Array:
    """Weighted mean (n, C) of the probabilities (J, n, C) of members: a linear opinion pool."""
    return np.tensordot(weights, P, axes=1)


def prune_weights(weights: Array, P: Arrays, codes: Codes, min_members: int = MIN_MEMBERS) -> Array:
    """Set the weights of members that do not matter to 0, and scale the others to sum to 1.

    Members are dropped in order of increasing weight, as long as more than `min_members` remain and accuracy decreases
    on no held-out domain by more than its standard error and by more than `MAX_PRUNING_LOSS`. If the smaller ensemble
    is wrong on b rows where the whole is right, and right on c rows where the whole is wrong, accuracy decreases by
    (b - c) / n with a standard error of sqrt(b + c) / n under equal accuracy.
    """
    order = np.argsort(weights, kind="stable")
    truth = np.concatenate(codes)
    mixed = np.zeros((len(truth), P[0].shape[2]))
    # Row j: hits of the ensemble of member j and all members with larger weights.
    hits = np.empty((len(weights), len(truth)), dtype=bool)
    for member in order[::-1]:
        mixed += weights[member] * np.concatenate([p[member] for p in P])
        hits[member] = mixed.argmax(axis=1) == truth
    all_hits = hits[order[0]]
    first_rows = np.cumsum([0, *(len(part) for part in codes[:-1])])
    sizes = np.array([len(part) for part in codes])
    pruned = weights.copy()
    for member, next_member in pairwise(order[: max(len(order) - min_members, 0) + 1]):
        lost = np.add.reduceat(all_hits & ~hits[next_member], first_rows, dtype=np.intp)
        won = np.add.reduceat(hits[next_member] & ~all_hits, first_rows, dtype=np.intp)
        if np.any(lost - won > np.maximum(np.sqrt(lost + won), MAX_PRUNING_LOSS * sizes)):
            break
        pruned[member] = 0.0
    return pruned / pruned.sum()


def sample_skewed_batch(codes: Ints, rng: np.random.Generator) -> Ints:
    """Rows of a batch of the same size, of which a random half of the classes makes up `SKEWED_SHARE`.

    Rows are repeated only where there are too few, and then equally often up to one. A single class stays as it is.
    """
    present = np.unique(codes)
    n = len(codes)
    is_frequent = np.isin(codes, rng.permutation(present)[: len(present) // 2])
    if not is_frequent.any():
        return np.arange(n)
    n_frequent = round(SKEWED_SHARE * n)
    batch = []
    for rows, size in [(np.flatnonzero(is_frequent), n_frequent), (np.flatnonzero(~is_frequent), n - n_frequent)]:
        repeats, remainder = divmod(size, len(rows))
        batch += [np.tile(rows, repeats), rng.permutation(rows)[:remainder]]
    return np.concatenate(batch)


def make_trial_batches(codes: Ints, seed: int | Sequence[int] = 0) -> list[Ints]:
    """Rows of the batches on which a domain is evaluated: all rows in order, then skewed batches."""
    rng = np.random.default_rng(seed)
    return [np.arange(len(codes)), *(sample_skewed_batch(codes, rng) for _ in range(N_SKEWED_BATCHES))]


@dataclass(frozen=True)
class AcceptanceTest:
    """Acceptance test of a transductive step, by its cross-fitted gains on each held-out domain.

    A step is accepted if

    - at least 3 domains were held out,
    - the gain on natural batches is significant: a one-sided paired t test over domains has p <= 0.05, which is its
      rate of false positives,
    - the mean gain over natural and skewed batches exceeds 1 point, or 5 points with 3 domains,
    - the mean loss on skewed batches is at most 1 point.
    """

    step: str
    natural: Array
    skewed: Array

    @classmethod
    def from_gains(cls, step: str, gains: Array) -> Self:
        """From the gains (2, m) of a step on natural and skewed batches, where these are defined."""
        natural, skewed = gains[:, np.isfinite(gains).all(axis=0)]
        return cls(step, natural, skewed)

    @property
    def gains(self) -> Array:
        """Gain of each domain: the mean of its gains on the natural and on skewed batches."""
        return (self.natural + self.skewed) / 2

    @property
    def min_gain(self) -> float:
        """What the mean gain must exceed."""
        return MIN_GAIN if len(self.gains) >= SMALL_N_DOMAINS else MIN_GAIN_SMALL

    @property
    def p_value(self) -> float:
        """One-sided paired t test that the mean gain on natural batches is not positive; 1 for one domain."""
        m = len(self.natural)
        if m < 2:
            return 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            t = self.natural.mean() / (self.natural.std(ddof=1) / np.sqrt(m))
        return 1.0 if np.isnan(t) else float(stdtr(m - 1, -t))  # NaN where nothing changes

    @property
    def is_accepted(self) -> bool:
        """Whether the step is accepted."""
        if len(self.gains) < MIN_TEST_DOMAINS:
            return False
        is_significant = self.p_value <= SIGNIFICANCE
        return bool(is_significant and self.gains.mean() > self.min_gain and self.skewed.mean() >= -MAX_SKEWED_LOSS)

    @property
    def reason(self) -> str:
        """Why the step is or is not used, with its gains, the p value and the rule."""
        m = len(self.gains)
        decision = f"{self.step} is {'' if self.is_accepted else 'not '}used"
        if m < MIN_TEST_DOMAINS:
            return (
                f"{decision}: a test of its gain needs at least {MIN_TEST_DOMAINS} held-out domains, and there are {m}."
            )
        natural = round(100 * float(self.natural.mean()), 1) + 0.0  # never -0.0
        skewed = round(100 * float(self.skewed.mean()), 1) + 0.0
        p_text = "< 0.001" if self.p_value < 0.001 else f"= {self.p_value:.3f}"
        return (
            f"{decision}: on {m} held-out domains it gains {natural:.1f} points on natural batches "
            f"(p {p_text}, one-sided paired t test) and {skewed:.1f} on "
            f"skewed ones. A step is used if p <= {SIGNIFICANCE:g}, the mean of both gains exceeds "
            f"{100 * self.min_gain:g} point{'s' * (self.min_gain != MIN_GAIN)}, and skewed batches lose at most "
            f"{100 * MAX_SKEWED_LOSS:g} point."
        )
