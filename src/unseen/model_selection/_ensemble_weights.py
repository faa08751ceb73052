"""The mathematics of ensemble selection: folds of cross-fitting, weights of members, and tests of transductive steps.

There are J candidates, m held-out domains and C classes. ``P[k]``, of shape (J, n_k, C), holds the probabilities that
candidates trained without domain k predict for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from scipy.special import log_softmax, stdtr, xlogy

from ..linalg import Array, Ints
from ._calibration import MIN_PROBABILITY, Arrays, Codes, Mask, RowWeights, row_weights, true_class_values

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
        """From differences (2, m) of the scores on natural and skewed batches with and without a step, where these are defined."""
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

    def to_dict(self) -> dict[str, Any]:
        """The test in plain values, for model cards; gains are in points."""
        return {
            "step": self.step,
            "is_used": self.is_accepted,
            "natural": (100 * self.natural).tolist(),
            "skewed": (100 * self.skewed).tolist(),
            "min_gain": 100 * self.min_gain,
            "reason": self.reason,
        }
