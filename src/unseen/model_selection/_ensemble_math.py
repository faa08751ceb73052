"""The pool: out-of-domain probabilities of many members, and what can be made of them for the next domain.

Arrays alone, no estimators. There are J members, m held-out domains and C classes. ``P[k]``, of shape (J, n_k, C),
holds what the members say of domain k, none of them trained on it, and ``codes[k]`` the positions of the true classes.
Every mean is one over domains, each of which weighs alike however many rows it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import stdtr, xlogy
from sklearn.neighbors import NearestNeighbors

from ..linalg import Array, Ints

Arrays = Sequence[Array]  # one for each domain, as are Codes
Codes = Sequence[Ints]
Weights = Arrays | None  # of rows, if they do not weigh alike within their domain
Mask = npt.NDArray[np.bool_]
UNSEEN_CLASS_SCORE = -1e9  # scores from here down are those of classes that training did not show
MIN_PROBABILITY = 1e-12  # of probabilities whose logarithm is taken
MAX_FOLDS = 12  # of cross-fitting: fits grow with the square of their number, and 12 keep 11 of 12 domains in each
LOG_INVERSE_TEMPERATURE_RANGE = (math.log(1e-3), math.log(1e3))  # between which inverse temperatures are searched
TEMPERATURE_TOLERANCE = (
    1e-9  # of the logarithm of an inverse temperature; Newton steps square the error, so this is rounding
)
MAX_TEMPERATURE_STEPS = 80  # enough to bisect the whole range to that tolerance; Newton steps take about seven
WEIGHT_TOLERANCE = 1e-10  # of the weights of a pool: what a step changes less does not show in any probability
UNSEEN_CLASS_MARGIN = (
    -1e12
)  # margin of a class that training did not show: its probability is 0 at any inverse temperature
BLOCK_SIZE = 2**17  # entries of arrays in a vectorized step, so that they stay in the processor's cache
N_NEIGHBORS, N_CALIBRATION_BINS = 5, 15
NEIGHBOR_BLOCK_ROWS = (
    4096  # rows among which neighbors are looked for: beyond it time grows with the rows, not with their square
)
SMOOTHING_STRENGTHS, SMOOTHING_TOLERANCE = (
    (0.5, 1.0, 2.0),
    1e-6,
)  # of smoothing, and what change of a probability ends it
N_SKEWED_BATCHES = 5  # of skewed batches from each domain
SIGNIFICANCE = 0.05  # one-sided level of the acceptance test of a transductive step
MIN_TEST_DOMAINS = 3  # held out, for a step to be accepted
MIN_GAIN = 1.0  # points that a step has to gain to be worth its demands
SMALL_N_DOMAINS, MIN_GAIN_SMALL = (
    4,
    5.0,
)  # with fewer held-out domains than this the margin is larger: a t test then hardly sees skew
MAX_SKEWED_LOSS = 1.0  # points of mean loss on skewed batches that an accepted step may show
COVERAGE_ROUNDING = 1e-9  # of sums of the shares of rows


def _row_weights(domains: Sequence[npt.NDArray[Any]], weights: Weights = None) -> Array:
    """The weight of each row, domain after domain, where domains weigh alike; within them rows do, or have weights."""
    alike = [np.ones(len(rows)) for rows in domains] if weights is None else weights
    return np.concatenate([own / (len(domains) * own.sum()) for own in alike])


def _true_class_values(P: Array, codes: Ints) -> Array:
    """What is said of the true classes: (n,), or (J, n) by many members."""
    return P[..., np.arange(len(codes)), codes]


def _class_scores(scores: Array) -> Array:
    """One column for each class, -inf where it was not trained on; of two classes the decision is for the second."""
    scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    return np.where(scores > UNSEEN_CLASS_SCORE, scores, -np.inf)


def softmax(scores: Array, beta: float = 1.0) -> Array:
    """Probabilities (n, C) from log-probabilities, or from votes of each class against the rest."""
    exponents = beta * _class_scores(scores)
    P = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


def adjust_priors(P: Array, ratio: Array) -> Array:
    """Probabilities (n, C) under other class frequencies, given the ratio (C,) of the new frequencies to the old ones.

    By Bayes' rule p'(c | x) is proportional to p(c | x) times that ratio, if the classes themselves stay the same.
    """
    scaled = P * ratio
    return scaled / scaled.sum(axis=1, keepdims=True)


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
        every = np.concatenate(rows)
        if len(np.unique(every)) == len(every):
            groups = np.arange(m) % MAX_FOLDS
            return cls(groups, np.arange(min(m, MAX_FOLDS))[:, None] != groups)
        sizes = [len(own) for own in rows]
        holds = csr_array((np.ones(len(every)), every, np.cumsum([0, *sizes])), shape=(m, int(every.max()) + 1))
        return cls(np.arange(m), (holds @ holds.T).toarray() == 0)

    def inner(self, fold: int) -> tuple[Ints, Mask]:
        """Folds within a fold: those of the domains that it keeps, and the domains that it and each of them keep."""
        others = np.unique(self.predicted_by[self.kept[fold]])
        return others, self.kept[fold] & self.kept[others]


def fit_temperatures(scores: Arrays, codes: Codes, kept: Mask, weights: Weights = None) -> Array:
    """Inverse temperatures of a member, one for each row of `kept`: the `beta` of the least log loss on these domains.

    The loss is convex in beta; Newton steps with a bracket search its logarithm, between 0.001 and 1000. Samples of a
    class that training did not show have an infinite loss at any temperature, and are left out. It is 1 where no
    sample is left. A domain that is not kept has no influence, not even on rounding.
    """
    S = np.concatenate([_class_scores(own) for own in scores])
    truth = np.arange(len(S)), np.concatenate(codes)
    domain = np.repeat(np.arange(len(codes)), [len(own) for own in codes])
    share = np.isfinite(S[truth]) * (1.0 if weights is None else np.concatenate(weights))
    totals = np.bincount(domain, share, minlength=len(codes))
    share = np.divide(share, totals[domain], out=np.zeros(len(S)), where=totals[domain] > 0)
    D = np.where(
        np.isfinite(S), S - S.max(axis=1, keepdims=True), UNSEEN_CLASS_MARGIN
    )  # never above 0, whatever the truth
    D_truth = np.where(share > 0, D[truth], 0.0)
    spread = np.where(D > UNSEEN_CLASS_MARGIN, -D, 0.0).sum(axis=1) / np.maximum(
        np.sum(D > UNSEEN_CLASS_MARGIN, axis=1), 1
    )
    size = max(1, BLOCK_SIZE // D.size)
    blocks = [kept[first : first + size] for first in range(0, len(kept), size)]
    return np.concatenate([_minimize_log_loss(D, D_truth, block[:, domain] * share, spread) for block in blocks])


def _minimize_log_loss(D: Array, D_truth: Array, A: Array, spread: Array) -> Array:
    """Inverse temperatures (F,) that minimize the loss of rows weighted by A (F, n)."""
    total = A.sum(axis=1)
    scale = np.divide(A @ spread, total, out=np.ones(len(A)), where=total > 0)
    u = np.clip(-np.log(np.where(scale > 0, scale, 1.0)), *LOG_INVERSE_TEMPERATURE_RANGE)
    low, high = np.full(len(A), LOG_INVERSE_TEMPERATURE_RANGE[0]), np.full(len(A), LOG_INVERSE_TEMPERATURE_RANGE[1])
    moving = np.ones(len(A), dtype=bool)  # one that has converged stays, however long others take
    for _ in range(MAX_TEMPERATURE_STEPS):
        beta = np.exp(u)
        E = np.exp(beta[:, None, None] * D)
        Z = E.sum(axis=2)
        mean = np.einsum("fnc,nc->fn", E, D) / Z
        square = np.einsum("fnc,nc->fn", E, D * D) / Z
        slope = np.sum(A * (mean - D_truth), axis=1)  # of the loss in beta, with which it grows
        curvature = np.sum(A * (square - mean**2), axis=1)
        low = np.where(slope < 0, u, low)
        high = np.where(slope > 0, u, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = np.clip(u - slope / (beta * curvature), *LOG_INVERSE_TEMPERATURE_RANGE)
        step = np.where((newton >= low) & (newton <= high), newton, (low + high) / 2)  # not a number: the middle
        step = np.where(moving & (slope != 0), step, u)
        moving &= np.abs(step - u) >= TEMPERATURE_TOLERANCE
        u = step
        if not moving.any():
            break
    return np.where(total > 0, np.exp(u), 1.0)


def fit_temperature(scores: Arrays, codes: Codes, weights: Weights = None) -> float:
    """Inverse temperature of a member on all domains, as `temperatures` finds it."""
    return float(fit_temperatures(scores, codes, np.ones((1, len(codes)), dtype=bool), weights)[0])


def fit_ensemble_weights(
    P: Arrays,
    codes: Codes,
    *,
    members: Mask | None = None,
    weights: Weights = None,
    kept: Mask | None = None,
    steps: int = 150,
    rate: float = 0.3,
    pull: float = 0.02,
) -> Array:
    """Weights (J,) of a linear pool, by exponentiated gradient on domain-balanced log loss.

    Minimizes the log loss of the pool plus `pull` times the Kullback-Leibler divergence of the weights from uniform
    ones, which is convex: members whose losses differ by much less than `pull` share alike. It starts from uniform
    weights at `rate`, which grows while the objective falls and is halved where it would rise, so that more steps are
    never worse. Only `members` take part; others get 0. `weights` are those of rows. With `kept` (B, m) there are B
    fits at once, each on the domains of its row, and the weights are (B, J); they are uniform where nothing is kept.
    """
    taking = np.flatnonzero(np.ones(len(P[0]), bool) if members is None else members)
    fits = np.ones((1, len(codes)), dtype=bool) if kept is None else kept
    q = np.concatenate([_true_class_values(p, c)[taking] for p, c in zip(P, codes, strict=True)], axis=1)
    q = np.maximum(q, MIN_PROBABILITY)
    domain = np.repeat(np.arange(len(codes)), [len(own) for own in codes])
    shares = fits[:, domain] * _row_weights(codes, weights)
    totals = shares.sum(axis=1, keepdims=True)
    shares = np.divide(shares, totals, out=np.zeros_like(shares), where=totals > 0)
    log_uniform = -np.log(len(taking))

    def objective(log_w: Array) -> tuple[Array, Array]:
        w = np.exp(log_w)
        mixed = w @ q
        divergence = xlogy(w, w).sum(axis=1) - log_uniform
        return pull * divergence - np.sum(shares * np.log(mixed), axis=1), mixed

    log_w = np.full((len(fits), len(taking)), log_uniform)
    rates = np.full((len(fits), 1), rate)
    value, mixed = objective(log_w)
    moving = np.ones((len(fits), 1), dtype=bool)  # one that has converged stays, however long others take
    for _ in range(steps):
        proposed = (1 - rates * pull) * log_w + rates * ((shares / mixed) @ q.T)
        proposed -= proposed.max(axis=1, keepdims=True)
        proposed -= np.log(np.exp(proposed).sum(axis=1, keepdims=True))
        after, mixed_after = objective(proposed)
        falls = moving & (after <= value)[:, None]
        moved = np.abs(np.exp(proposed) - np.exp(log_w)).max(axis=1, keepdims=True)
        log_w = np.where(falls, proposed, log_w)
        mixed = np.where(falls, mixed_after, mixed)
        value = np.where(falls[:, 0], after, value)
        # At 1 / pull a step forgets where it came from.
        rates = np.where(falls, np.minimum(1.5 * rates, 0.5 / max(pull, MIN_PROBABILITY)), rates / 2)
        moving &= ~falls | (moved > WEIGHT_TOLERANCE)
        if not moving.any():
            break
    found = np.zeros((len(fits), len(P[0])))
    found[:, taking] = np.exp(log_w)
    return found[0] if kept is None else found


def average_members(weights: Array, P: Array) -> Array:
    """The linear pool (n, C) of what members (J, n, C) say."""
    return np.tensordot(weights, P, axes=1)


def apply_inverse_temperature(P: Array, beta: float) -> Array:
    """Probabilities (n, C) at another inverse temperature; what has probability 0 keeps it."""
    if beta == 1.0:
        return P
    with np.errstate(divide="ignore"):
        return softmax(np.log(P), beta)


def prune_weights(weights: Array, P: Arrays, codes: Codes, fewest: int = 5) -> Array:
    """Weights without the members that do not matter, which get 0; the others are scaled to sum to 1.

    Members are dropped from the lightest on, as long as there are more than the `fewest`, which take at most so many
    times as long to ask as the dearest, and accuracy falls on no held-out domain by more than noise. If the smaller
    pool is wrong on b rows where the whole is right, and right on c where that is wrong, then the accuracy has fallen
    by (b - c) / n, and the standard error of this, were the two alike, is sqrt(b + c) / n: one such is noise.
    """
    order = np.argsort(weights, kind="stable")
    truth = np.concatenate(codes)
    mixed = np.zeros((len(truth), P[0].shape[2]))
    right = np.empty((len(weights), len(truth)), dtype=bool)  # of the pool of each member and of all that weigh more
    for member in order[::-1]:
        mixed += weights[member] * np.concatenate([p[member] for p in P])
        right[member] = mixed.argmax(axis=1) == truth
    whole = right[order[0]]
    firsts = np.cumsum([0, *(len(own) for own in codes[:-1])])
    kept = weights.copy()
    for member, heavier in pairwise(order[: max(len(order) - fewest, 0) + 1]):
        lost = np.add.reduceat(whole & ~right[heavier], firsts, dtype=np.intp)
        won = np.add.reduceat(right[heavier] & ~whole, firsts, dtype=np.intp)
        if np.any(lost - won > np.sqrt(lost + won)):
            break
        kept[member] = 0.0
    return kept / kept.sum()


def sample_skewed_batch(codes: Ints, rng: np.random.Generator, share: float = 0.8) -> Ints:
    """Rows of a batch as large, of which a random half of the classes present makes up this share.

    Rows are repeated only where there are too few, and then equally often, up to one; one class stays as it is.
    """
    present, n = np.unique(codes), len(codes)
    many = np.isin(codes, rng.permutation(present)[: len(present) // 2])
    if not many.any():
        return np.arange(n)
    drawn, size = [], round(share * n)
    for rows, allocate_rows in [(np.flatnonzero(many), size), (np.flatnonzero(~many), n - size)]:
        times, rest = divmod(allocate_rows, len(rows))
        drawn += [np.tile(rows, times), rng.permutation(rows)[:rest]]
    return np.concatenate(drawn)


def make_trial_batches(codes: Ints, seed: int | Sequence[int] = 0) -> list[Ints]:
    """Rows of the batches that a domain is asked about: the natural one, then skewed ones."""
    rng = np.random.default_rng(seed)
    return [np.arange(len(codes)), *(sample_skewed_batch(codes, rng) for _ in range(N_SKEWED_BATCHES))]


def neighbor_graph(X: Array, k: int = N_NEIGHBORS) -> csr_array:
    """Symmetrized graph of k nearest neighbors of a batch, (A + A') / 2; empty where rows are fewer than k + 2.

    Neighbors are looked for within blocks of rows that lie evenly spread over the batch; one block is exact.
    """
    if (n := X.shape[0]) < k + 2:
        return csr_array((n, n))
    A, n_blocks = np.empty((n, k), dtype=np.intp), -(-n // NEIGHBOR_BLOCK_ROWS)
    for rows in (np.arange(first, n, n_blocks) for first in range(n_blocks)):
        search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X[rows])
        A[rows] = rows[search.kneighbors(return_distance=False)]  # no row is a neighbor of itself
    graph = csr_array((np.full(n * k, 0.5), (np.repeat(np.arange(n), k), A.ravel())), shape=(n, n))
    return (graph + graph.T).tocsr()


def smooth_probabilities(P: Array, W: csr_array, lam: float, iterations: int = 30) -> Array:
    """Probabilities (n, C) that agree better among neighbors: LAME (Boudiaf and others 2022).

    Z <- softmax(log P + (2 lam / 5) W Z), from Z = P, until nothing moves. What has probability 0 keeps it.
    """
    if not lam:
        return P
    with np.errstate(divide="ignore"):
        Z, unary = P, np.log(P)
    strength = (2 * lam / N_NEIGHBORS) * W
    for _ in range(iterations):
        before = Z
        Z = unary + strength @ Z
        Z = np.exp(Z - Z.max(axis=1, keepdims=True))
        Z /= Z.sum(axis=1, keepdims=True)
        if np.abs(Z - before).max() < SMOOTHING_TOLERANCE:
            break
    return Z


def score_trials(batches: Iterable[Iterable[Array]], score: Callable[[int, int, Array], float]) -> Array:
    """Scores of a pool on natural and skewed batches: (2, m), times 100, so that one is a point of accuracy.

    `batches` hold, for each domain, the probabilities of its natural batch, then those of skewed ones; `score` is told
    the domain and the batch. What has no score, such as AUC on a single class, does not count.
    """
    found = [[100 * score(k, b, P) for b, P in enumerate(parts)] for k, parts in enumerate(batches)]
    natural, skewed = [parts[0] for parts in found], [[v for v in parts[1:] if v == v] for parts in found]
    return np.array([natural, [np.mean(own) if own else np.nan for own in skewed]])


@dataclass(frozen=True)
class AcceptanceTest:
    """Acceptance test of a transductive step, by its cross-fitted gains on each held-out domain, in points.

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

    @property
    def gains(self) -> Array:
        """One for each domain: the mean of that on its natural and those on its skewed batches."""
        return (self.natural + self.skewed) / 2

    @property
    def margin(self) -> float:
        """What the mean gain has to exceed."""
        return MIN_GAIN if len(self.gains) >= SMALL_N_DOMAINS else MIN_GAIN_SMALL

    @property
    def p_value(self) -> float:
        """Of the one-sided paired t test that the mean gain on natural batches is not positive; 1 for one domain."""
        m = len(self.natural)
        if m < 2:
            return 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            t = self.natural.mean() / (self.natural.std(ddof=1) / np.sqrt(m))
        return 1.0 if np.isnan(t) else float(stdtr(m - 1, -t))  # it is not a number where nothing changes

    @property
    def adopts(self) -> bool:
        """Whether the step is accepted."""
        if len(self.gains) < MIN_TEST_DOMAINS:
            return False
        significant = self.p_value <= SIGNIFICANCE
        return bool(significant and self.gains.mean() > self.margin and self.skewed.mean() >= -MAX_SKEWED_LOSS)

    @property
    def reason(self) -> str:
        """Why it is or is not, in plain words."""
        m = len(self.gains)
        used = f"{self.step} is {'' if self.adopts else 'not '}used"
        if m < MIN_TEST_DOMAINS:
            return f"{used}: a test of its gain needs at least {MIN_TEST_DOMAINS} held-out domains, and there are {m}."
        p = self.p_value
        natural, skewed = (round(float(gains.mean()), 1) + 0.0 for gains in (self.natural, self.skewed))  # not -0.0
        return (
            f"{used}: on {m} held-out domains it gains {natural:.1f} points on natural batches "
            f"(p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}, one-sided paired t test) and {skewed:.1f} on "
            f"skewed ones. A step is used if p <= {SIGNIFICANCE:g}, the mean of both gains exceeds {self.margin:g} "
            f"point{'s' * (self.margin != 1)}, and skewed batches lose at most {MAX_SKEWED_LOSS:g} point."
        )


def compare_trials(step: str, plain: Array, bold: Array) -> AcceptanceTest:
    """The guard of a step, by what was `tried` without and with it; domains that have no score have no say."""
    gains = bold - plain
    return AcceptanceTest(step, *gains[:, np.isfinite(gains).all(axis=0)])


@dataclass(frozen=True)
class ConformalSets:
    """Sets of classes that hold the true one on a new domain as often as asked (Lee, Barber, Willett 2023).

    `scores` holds 1 - p(true class) of the rows of each held-out domain. Where domains are exchangeable, each of them
    and the new one have a share of 1 / (m + 1), divided among rows; that of the new one lies at infinity. The promise
    is a mean over new domains: exact if one model gave all scores and saw none of the domains, close to it if each was
    scored by a model that did not see that one.
    """

    scores: Arrays

    @classmethod
    def from_predictions(cls, P: Arrays, codes: Codes) -> Self:
        """From out-of-domain probabilities (n_k, C)."""
        return cls([1 - _true_class_values(p, c) for p, c in zip(P, codes, strict=True)])

    @property
    def attainable(self) -> float:
        """The largest coverage that so many held-out domains attain."""
        return len(self.scores) / (len(self.scores) + 1)

    def threshold(self, coverage: float) -> float:
        """The score up to which classes belong to a set."""
        m, scores = len(self.scores), np.concatenate(self.scores)
        if not 0 < coverage < 1:
            raise ValueError(f"Coverage is a share between 0 and 1, not {coverage!r}; 0.9 asks for nine rows in ten.")
        if coverage - COVERAGE_ROUNDING > self.attainable:
            raise ValueError(
                f"Coverage {coverage:g} cannot be promised: {m} held-out domain{'s' * (m > 1)} can promise at most "
                f"1 - 1/(m + 1) = {m / (m + 1):.3g}, as the next may be the strangest. Ask for less, or bring more."
            )
        order = np.argsort(scores)
        held = np.cumsum(_row_weights(self.scores)[order]) * m / (m + 1)
        return float(scores[order[np.searchsorted(held, coverage - COVERAGE_ROUNDING)]])

    def sets(self, P: Array, coverage: float) -> Mask:
        """Which classes belong to the set of each row (n, C): never none, since the likeliest always does."""
        likeliest = np.arange(P.shape[1]) == P.argmax(axis=1)[:, None]
        return likeliest | (self.threshold(coverage) >= 1 - P)


def calibration_table(P: Arrays, codes: Codes, weights: Weights = None) -> dict[str, Any]:
    """How far probabilities (n_k, C) are to be believed: means over domains, as plain values.

    ``"ece"`` is the expected calibration error of the likeliest class, in bins of equal width, ``"log_loss"`` that of
    the true class; ``"bins"`` has the mean confidence, the accuracy and the share of rows of each bin that has any.
    """
    tables, share = [], np.split(len(codes) * _row_weights(codes, weights), np.cumsum([len(c) for c in codes])[:-1])
    for p, c, own in zip(P, codes, share, strict=True):  # shares of rows, and their confidence and hits, bin by bin
        place = np.minimum((N_CALIBRATION_BINS * p.max(axis=1)).astype(int), N_CALIBRATION_BINS - 1)
        values = (own, own * p.max(axis=1), own * (p.argmax(axis=1) == c))
        tables.append(np.array([np.bincount(place, v, minlength=N_CALIBRATION_BINS) for v in values]))
    truth = np.concatenate([_true_class_values(p, c) for p, c in zip(P, codes, strict=True)])
    bins = [row for row in np.mean(tables, axis=0).T.tolist() if row[0] > 0]
    return {
        "ece": float(np.mean([np.abs(table[1] - table[2]).sum() for table in tables])),
        "log_loss": float(-_row_weights(codes, weights) @ np.log(np.maximum(truth, MIN_PROBABILITY))),
        "bins": [{"confidence": sure / n, "accuracy": hits / n, "share": n} for n, sure, hits in bins],
    }
