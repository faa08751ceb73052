"""Weights of a linear opinion pool of candidates, fitted on out-of-domain probabilities.

There are J candidates, m held-out domains and C classes. ``P[k]``, of shape (J, n_k, C), holds the probabilities that
candidates trained without domain k predict for it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import xlogy

from ..linalg import Array
from ._calibration import MIN_PROBABILITY, Arrays, Codes, Mask, RowWeights, row_weights, true_class_values

# A step that changes all weights by less than this does not show in any probability.
WEIGHT_TOLERANCE = 1e-10
# Weight of the divergence from uniform weights. Values from 0.005 to 0.1 give the same accuracy within noise.
UNIFORM_PENALTY = 0.02
# Members of an ensemble that are never pruned: together they cost at most that many times the most expensive one.
MIN_MEMBERS = 5
# Share of the rows of a domain that may be lost by pruning: with thousands of rows smaller losses exceed their standard
# error on one of many domains by chance, and do not matter.
MAX_PRUNING_LOSS = 0.005


def fit_ensemble_weights(
    P: Arrays,
    codes: Codes,
    *,
    members: Mask | None = None,
    weights: RowWeights = None,
    kept: Mask | None = None,
    n_steps: int = 150,
    first_rate: float = 0.3,
    uniform_penalty: float = UNIFORM_PENALTY,
) -> Array:
    """Weights (J,) of an ensemble, by exponentiated gradient on domain-balanced log loss.

    Minimizes the log loss of the ensemble plus `uniform_penalty` times the Kullback-Leibler divergence of the weights
    from uniform ones. The objective is convex; candidates whose losses differ by much less than the penalty get equal
    weights. The rate grows while the objective decreases and is halved where it would increase, so that more steps are
    never worse. Only `members` take part; others get 0. `weights` are those of rows. With `kept` (B, m) there are B
    fits at once, each on the domains of its row, and the weights are (B, J), uniform where nothing is kept.
    """
    participants = np.flatnonzero(np.ones(len(P[0]), bool) if members is None else members)
    fits = np.ones((1, len(codes)), dtype=bool) if kept is None else kept
    q = np.concatenate([true_class_values(p, c)[participants] for p, c in zip(P, codes, strict=True)], axis=1)
    q = np.maximum(q, MIN_PROBABILITY)
    domain = np.repeat(np.arange(len(codes)), [len(part) for part in codes])
    shares = fits[:, domain] * row_weights(codes, weights)
    totals = shares.sum(axis=1, keepdims=True)
    shares = np.divide(shares, totals, out=np.zeros_like(shares), where=totals > 0)
    log_uniform = -np.log(len(participants))

    def objective(log_w: Array) -> tuple[Array, Array]:
        w = np.exp(log_w)
        mixed = w @ q
        divergence = xlogy(w, w).sum(axis=1) - log_uniform
        return uniform_penalty * divergence - np.sum(shares * np.log(mixed), axis=1), mixed

    log_w = np.full((len(fits), len(participants)), log_uniform)
    rates = np.full((len(fits), 1), first_rate)
    value, mixed = objective(log_w)
    moving = np.ones((len(fits), 1), dtype=bool)  # a fit that has converged stays where it is
    for _ in range(n_steps):
        proposed = (1 - rates * uniform_penalty) * log_w + rates * ((shares / mixed) @ q.T)
        proposed -= proposed.max(axis=1, keepdims=True)
        proposed -= np.log(np.exp(proposed).sum(axis=1, keepdims=True))
        proposed_value, proposed_mixed = objective(proposed)
        decreases = moving & (proposed_value <= value)[:, None]
        change = np.abs(np.exp(proposed) - np.exp(log_w)).max(axis=1, keepdims=True)
        log_w = np.where(decreases, proposed, log_w)
        mixed = np.where(decreases, proposed_mixed, mixed)
        value = np.where(decreases[:, 0], proposed_value, value)
        # At a rate of 1 / uniform_penalty a step no longer depends on the weights it starts from.
        max_rate = 0.5 / max(uniform_penalty, MIN_PROBABILITY)
        rates = np.where(decreases, np.minimum(1.5 * rates, max_rate), rates / 2)
        moving &= ~decreases | (change > WEIGHT_TOLERANCE)
        if not moving.any():
            break
    result = np.zeros((len(fits), len(P[0])))
    result[:, participants] = np.exp(log_w)
    return result[0] if kept is None else result


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
