"""The pool: out-of-domain probabilities of many members, and what can be made of them for the next domain.

Arrays alone, no estimators. There are J members, m held-out domains and C classes. ``P[k]``, of shape (J, n_k, C),
holds what the members say of domain k, none of them trained on it, and ``codes[k]`` the positions of the true classes.
Every mean is one over domains, each of which weighs alike however many rows it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import log_softmax
from sklearn.neighbors import NearestNeighbors

from ..algebra import Array, Ints

Arrays = Sequence[Array]  # one for each domain, as are Codes
Codes = Sequence[Ints]
Weights = Arrays | None  # of rows, if they do not weigh alike within their domain
Mask = npt.NDArray[np.bool_]
LOWEST = -1e9  # scores from here down are those of classes that training did not show
FLOOR = 1e-12  # of probabilities whose logarithm is taken
NEIGHBOURS, BINS = 5, 15
BLOCK = 4096  # rows among which neighbours are looked for: beyond it time grows with the rows, not with their square
STRENGTHS, STILL = (0.5, 1.0, 2.0), 1e-6  # of smoothing, and what change of a probability ends it
DRAWS = 5  # of skewed batches from each domain
FEW = 4  # domains from which nested scores are taken at their word
ROUNDING = 1e-9  # of sums of the shares of rows


def _shares(domains: Sequence[npt.NDArray[Any]], weights: Weights = None) -> Array:
    """The weight of each row, domain after domain, where domains weigh alike; within them rows do, or have weights."""
    alike = [np.ones(len(rows)) for rows in domains] if weights is None else weights
    return np.concatenate([own / (len(domains) * own.sum()) for own in alike])


def _of_truth(P: Array, codes: Ints) -> Array:
    """What is said of the true classes: (n,), or (J, n) by many members."""
    return P[..., np.arange(len(codes)), codes]


def _columns(scores: Array) -> Array:
    """One column for each class, -inf where it was not trained on; of two classes the decision is for the second."""
    scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    return np.where(scores > LOWEST, scores, -np.inf)


def softmax(scores: Array, beta: float = 1.0) -> Array:
    """Probabilities (n, C) from log-probabilities, or from votes of each class against the rest."""
    exponents = beta * _columns(scores)
    P = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


def with_priors(P: Array, ratio: Array) -> Array:
    """Probabilities (n, C) under other class frequencies, given the ratio (C,) of the new frequencies to the old ones.

    By Bayes' rule p'(c | x) is proportional to p(c | x) times that ratio, if the classes themselves stay the same.
    """
    scaled = P * ratio
    return scaled / scaled.sum(axis=1, keepdims=True)


def temperature(scores: Arrays, codes: Codes, weights: Weights = None) -> float:
    """Inverse temperature of a member: the `beta` of `softmax` of the least log loss on held-out domains.

    The loss is convex in it; the search is over its logarithm, between 0.001 and 1000. Rows of a class that training
    did not show have an infinite loss at any temperature, and are left out.
    """
    margins, rows = [], []  # by how much other classes exceed the true one, and what these rows weigh
    for k, (S, c) in enumerate(zip(map(_columns, scores), codes, strict=True)):
        own = np.isfinite(_of_truth(S, c)) * (1.0 if weights is None else weights[k])
        known = own > 0
        margins += [S[known] - _of_truth(S, c)[known, None]] if known.any() else []
        rows += [own[known]] if known.any() else []
    if not margins:
        return 1.0
    D, share = np.concatenate(margins), _shares(margins, rows)

    def loss(log_beta: float) -> float:
        exponents = np.exp(log_beta) * D
        top = exponents.max(axis=1)
        return float(share @ (top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))))

    return float(np.exp(minimize_scalar(loss, bounds=np.log([1e-3, 1e3]), method="bounded", options={"xatol": 1e-7}).x))


def pool_weights(
    P: Arrays,
    codes: Codes,
    *,
    members: Mask | None = None,
    weights: Weights = None,
    steps: int = 150,
    rate: float = 0.3,
    pull: float = 0.02,
) -> Array:
    """Weights (J,) of a linear pool, by exponentiated gradient on domain-balanced log loss.

    Minimises the log loss of the pool plus `pull` times the Kullback-Leibler divergence of the weights from uniform
    ones, which is convex: members whose losses differ by much less than `pull` share alike. It starts from uniform
    weights at `rate`, which grows while the objective falls and is halved where it would rise, so that more steps are
    never worse. Only `members` take part; others get 0. `weights` are those of rows.
    """
    taking = np.flatnonzero(np.ones(len(P[0]), bool) if members is None else members)
    q = np.concatenate([_of_truth(p[taking], c) for p, c in zip(P, codes, strict=True)], axis=1)
    q, share, log_uniform = np.maximum(q, FLOOR), _shares(codes, weights), -np.log(len(taking))

    def objective(log_w: Array) -> tuple[float, Array]:
        mixed = np.exp(log_w) @ q
        return float(pull * np.exp(log_w) @ (log_w - log_uniform) - share @ np.log(mixed)), mixed

    log_w = np.full(len(taking), log_uniform)
    value, mixed = objective(log_w)
    for _ in range(steps):
        proposed = log_softmax((1 - rate * pull) * log_w + rate * (q @ (share / mixed)))
        after, mixed_after = objective(proposed)
        if after <= value:
            log_w, value, mixed = proposed, after, mixed_after
            rate = min(1.5 * rate, 0.5 / max(pull, FLOOR))  # at 1 / pull a step forgets where it came from
        else:
            rate /= 2
    found = np.zeros(len(P[0]))
    found[taking] = np.exp(log_w)
    return found


def pooled(weights: Array, P: Array) -> Array:
    """The linear pool (n, C) of what members (J, n, C) say."""
    return np.tensordot(weights, P, axes=1)


def nested_weights(P: Arrays, codes: Codes, *, weights: Weights = None, **options: Any) -> Array:
    """Weights (m, J): those for domain k are fitted on the other domains, or uniform where there is no other."""
    if len(P) == 1:
        return pool_weights(P, codes, **{**options, "steps": 0})[None]
    found = []
    for rest in ([other for other in range(len(P)) if other != k] for k in range(len(P))):
        own = None if weights is None else [weights[i] for i in rest]
        found.append(pool_weights([P[i] for i in rest], [codes[i] for i in rest], weights=own, **options))
    return np.array(found)


def prune(weights: Array, P: Arrays, codes: Codes, fewest: int = 5) -> Array:
    """Weights without the members that do not matter, which get 0; the others are scaled to sum to 1.

    Members are dropped from the lightest on, as long as there are more than the `fewest`, which take at most so many
    times as long to ask as the dearest, and accuracy falls on no held-out domain by more than noise. If the smaller
    pool is wrong on b rows where the whole is right, and right on c where that is wrong, then the accuracy has fallen
    by (b - c) / n, and the standard error of this, were the two alike, is sqrt(b + c) / n: one such is noise.
    """
    kept, whole = weights, [pooled(weights, p).argmax(axis=1) == c for p, c in zip(P, codes, strict=True)]
    for member in np.argsort(weights, kind="stable")[:-fewest]:
        fewer = np.where(np.arange(len(weights)) == member, 0, kept)
        right = [pooled(fewer, p).argmax(axis=1) == c for p, c in zip(P, codes, strict=True)]
        changed = [(np.sum(w & ~r), np.sum(r & ~w)) for w, r in zip(whole, right, strict=True)]
        if any(lost - won > np.sqrt(lost + won) for lost, won in changed):
            break
        kept = fewer
    return kept / kept.sum()


def skewed(codes: Ints, rng: np.random.Generator, share: float = 0.8) -> Ints:
    """Rows of a batch as large, of which a random half of the classes present makes up this share.

    Rows are repeated only where there are too few, and then equally often, up to one; one class stays as it is.
    """
    present, n = np.unique(codes), len(codes)
    many = np.isin(codes, rng.permutation(present)[: len(present) // 2])
    if not many.any():
        return np.arange(n)
    drawn, size = [], round(share * n)
    for rows, quota in [(np.flatnonzero(many), size), (np.flatnonzero(~many), n - size)]:
        times, rest = divmod(quota, len(rows))
        drawn += [np.tile(rows, times), rng.permutation(rows)[:rest]]
    return np.concatenate(drawn)


def trial_batches(codes: Ints, seed: int | Sequence[int] = 0) -> list[Ints]:
    """Rows of the batches that a domain is asked about: the natural one, then skewed ones."""
    rng = np.random.default_rng(seed)
    return [np.arange(len(codes)), *(skewed(codes, rng) for _ in range(DRAWS))]


def neighbour_graph(X: Array, k: int = NEIGHBOURS) -> csr_array:
    """Symmetrised graph of k nearest neighbours of a batch, (A + A') / 2; empty where rows are fewer than k + 2.

    Neighbours are looked for within blocks of rows that lie evenly spread over the batch; one block is exact.
    """
    if (n := X.shape[0]) < k + 2:
        return csr_array((n, n))
    A, n_blocks = np.empty((n, k), dtype=np.intp), -(-n // BLOCK)
    for rows in (np.arange(first, n, n_blocks) for first in range(n_blocks)):
        search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X[rows])
        A[rows] = rows[search.kneighbors(return_distance=False)]  # no row is a neighbour of itself
    graph = csr_array((np.full(n * k, 0.5), (np.repeat(np.arange(n), k), A.ravel())), shape=(n, n))
    return (graph + graph.T).tocsr()


def smoothed(P: Array, W: csr_array, lam: float, iterations: int = 30) -> Array:
    """Probabilities (n, C) that agree better among neighbours: LAME (Boudiaf and others 2022).

    Z <- softmax(log P + (2 lam / 5) W Z), from Z = P, until nothing moves. What has probability 0 keeps it.
    """
    with np.errstate(divide="ignore"):
        Z, unary = P, np.log(P)
    for _ in range(iterations if lam else 0):
        Z, before = softmax(unary + (2 * lam / NEIGHBOURS) * (W @ Z)), Z
        if np.abs(Z - before).max() < STILL:
            break
    return Z


def tried(batches: Iterable[Iterable[Array]], score: Callable[[int, int, Array], float]) -> Array:
    """Scores of a pool on natural and skewed batches: (2, m), times 100, so that one is a point of accuracy.

    `batches` hold, for each domain, the probabilities of its natural batch, then those of skewed ones; `score` is told
    the domain and the batch. What has no score, such as AUC on a single class, does not count.
    """
    found = [[100 * score(k, b, P) for b, P in enumerate(parts)] for k, parts in enumerate(batches)]
    natural, skewed = [parts[0] for parts in found], [[v for v in parts[1:] if v == v] for parts in found]
    return np.array([natural, [np.mean(own) if own else np.nan for own in skewed]])


@dataclass(frozen=True)
class Guard:
    """Whether a transductive step has earned its place, by its gains on each held-out domain, in points.

    Their mean has to exceed both 1 point and 1 standard error, and that on natural batches 0: nobody pays for a skew
    that is not there. Of fewer than 4 domains nested scores are worth little: the mean then has to exceed 5 points and
    3 standard errors, and every domain has to gain.
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
        m = len(self.gains)
        error = self.gains.std(ddof=1) / np.sqrt(m) if m > 1 else np.inf
        return float(max(1.0, error) if m >= FEW else max(5.0, 3 * error))

    @property
    def adopts(self) -> bool:
        """Whether the step is taken."""
        gained = self.natural.mean() > 0 and (len(self.gains) >= FEW or self.gains.min() > 0)
        return bool(gained and self.gains.mean() > self.margin)

    @property
    def reason(self) -> str:
        """Why it is or is not, in a sentence."""
        m, means = len(self.gains), [values.mean() for values in (self.natural, self.skewed, self.gains)]
        asked = f"more than {self.margin:.1f} is asked for" if m > 1 else "one domain says nothing about the next"
        asked += f" on {m} domains, and a gain on each of them" if 1 < m < FEW else ""
        asked += ", with a gain on natural ones" if m > 1 and means[0] <= 0 else ""
        found = "it gains {:.1f} points on natural held-out batches and {:.1f} on skewed ones, {:.1f} on average"
        return f"{self.step} is {'' if self.adopts else 'not '}used: {found.format(*means)}, and {asked}."


def guarded(step: str, plain: Array, bold: Array) -> Guard:
    """The guard of a step, by what was `tried` without and with it; domains that have no score have no say."""
    gains = bold - plain
    return Guard(step, *gains[:, np.isfinite(gains).all(axis=0)])


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
    def of(cls, P: Arrays, codes: Codes) -> Self:
        """From out-of-domain probabilities (n_k, C)."""
        return cls([1 - _of_truth(p, c) for p, c in zip(P, codes, strict=True)])

    @property
    def attainable(self) -> float:
        """The largest coverage that so many held-out domains attain."""
        return len(self.scores) / (len(self.scores) + 1)

    def threshold(self, coverage: float) -> float:
        """The score up to which classes belong to a set."""
        m, scores = len(self.scores), np.concatenate(self.scores)
        if not 0 < coverage < 1:
            raise ValueError(f"Coverage is a share between 0 and 1, not {coverage!r}; 0.9 asks for nine rows in ten.")
        if coverage - ROUNDING > self.attainable:
            raise ValueError(
                f"Coverage {coverage:g} cannot be promised: {m} held-out domain{'s' * (m > 1)} can promise at most "
                f"1 - 1/(m + 1) = {m / (m + 1):.3g}, as the next may be the strangest. Ask for less, or bring more."
            )
        order = np.argsort(scores)
        held = np.cumsum(_shares(self.scores)[order]) * m / (m + 1)
        return float(scores[order[np.searchsorted(held, coverage - ROUNDING)]])

    def sets(self, P: Array, coverage: float) -> Mask:
        """Which classes belong to the set of each row (n, C): never none, since the likeliest always does."""
        likeliest = np.arange(P.shape[1]) == P.argmax(axis=1)[:, None]
        return likeliest | (self.threshold(coverage) >= 1 - P)


def calibration(P: Arrays, codes: Codes, weights: Weights = None) -> dict[str, Any]:
    """How far probabilities (n_k, C) are to be believed: means over domains, as plain values.

    ``"ece"`` is the expected calibration error of the likeliest class, in bins of equal width, ``"log_loss"`` that of
    the true class; ``"bins"`` has the mean confidence, the accuracy and the share of rows of each bin that has any.
    """
    tables, share = [], np.split(len(codes) * _shares(codes, weights), np.cumsum([len(c) for c in codes])[:-1])
    for p, c, own in zip(P, codes, share, strict=True):  # shares of rows, and their confidence and hits, bin by bin
        place = np.minimum((BINS * p.max(axis=1)).astype(int), BINS - 1)
        values = (own, own * p.max(axis=1), own * (p.argmax(axis=1) == c))
        tables.append(np.array([np.bincount(place, v, minlength=BINS) for v in values]))
    truth = np.concatenate([_of_truth(p, c) for p, c in zip(P, codes, strict=True)])
    bins = [row for row in np.mean(tables, axis=0).T.tolist() if row[0] > 0]
    return {
        "ece": float(np.mean([np.abs(table[1] - table[2]).sum() for table in tables])),
        "log_loss": float(-_shares(codes, weights) @ np.log(np.maximum(truth, FLOOR))),
        "bins": [{"confidence": sure / n, "accuracy": hits / n, "share": n} for n, sure, hits in bins],
    }
