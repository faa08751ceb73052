"""Distances between domains, and the one that stands apart from the others."""

from __future__ import annotations

import numpy as np

from ..algebra import Array, Ints, Membership

GAP = 1.25  # the odd domain's smallest distance is more than this many times the largest between the others


def cell_sums(gram: Array, membership: Membership) -> tuple[Array, Array]:
    """Sums of a kernel matrix over pairs of cells, (m, C, m, C), and of its diagonal over cells, (m, C)."""
    counts = membership.counts
    present = np.flatnonzero(counts)
    indicators = membership.indicators
    scale = np.sqrt(counts.ravel()[present])
    sums = np.zeros((counts.size, counts.size))
    sums[np.ix_(present, present)] = scale[:, None] * (indicators @ (indicators @ gram).T) * scale
    diagonal = np.zeros(counts.size)
    np.add.at(diagonal, membership.cell, np.diagonal(gram))
    return sums.reshape(*counts.shape, *counts.shape), diagonal.reshape(counts.shape)


def squared_distances(sums: Array, diagonal: Array, counts: Ints) -> Array:
    """Unbiased squared mean discrepancies between groups (Gretton et al. 2012, eq. 3); NaN for groups of one.

    Parameters
    ----------
    sums, diagonal : ndarray of shape (m, m) and (m,)
        Sums of the kernel over pairs of groups, and over each group's samples with themselves.
    counts : ndarray of shape (m,)
        Samples in each group.
    """
    pairs = np.where(counts > 1, counts * (counts - 1.0), np.nan)
    within = (np.diagonal(sums) - diagonal) / pairs
    sizes = np.outer(counts, counts)
    between = sums / np.where(sizes > 0, sizes, np.nan)
    squared = within[:, None] + within - 2 * between
    np.fill_diagonal(squared, 0.0)
    return squared


def distance_matrices(gram: Array, membership: Membership) -> tuple[Array, Array]:
    """Distances between domains: of P(X), and of P(X|Y) as the root mean square over the classes that a pair shares.

    Estimates of squared distances are unbiased, so they may fall below zero; such distances are reported as 0. NaN
    stands where there is nothing to compare.
    """
    sums, diagonal = cell_sums(gram, membership)
    counts = membership.counts
    marginal = squared_distances(sums.sum(axis=(1, 3)), diagonal.sum(axis=1), counts.sum(axis=1))
    by_class = np.array(
        [squared_distances(sums[:, j, :, j], diagonal[:, j], counts[:, j]) for j in range(counts.shape[1])]
    )
    shared = np.isfinite(by_class)
    conditional = np.where(shared, by_class, 0.0).sum(axis=0) / np.where(shared.any(axis=0), shared.sum(axis=0), np.nan)
    return np.sqrt(np.maximum(marginal, 0.0)), np.sqrt(np.maximum(conditional, 0.0))


def standing_apart(gram: Array, membership: Membership, *, by_class: bool, rng: np.random.Generator) -> int | None:
    """Return the domain that stands apart from the others, if it does in both halves of the samples too.

    `by_class` judges by P(X|Y), otherwise by P(X).
    """
    order = rng.permutation(len(membership.cell))
    order = order[np.argsort(membership.cell[order], kind="stable")]  # so that each half has its share of every cell
    found = set()
    for part in (order, order[::2], order[1::2]):
        cell = membership.cell[part]
        counts = np.bincount(cell, minlength=membership.counts.size).reshape(membership.counts.shape)
        distances = distance_matrices(gram[np.ix_(part, part)], Membership(counts.astype(np.intp), cell))
        found.add(odd_one_out(distances[by_class]))
    return found.pop() if len(found) == 1 else None


def odd_one_out(distances: Array) -> int | None:
    """Return the domain that is farther from every other one than these are from one another, by the factor `GAP`."""
    n_domains = len(distances)
    if n_domains < 3 or not np.isfinite(distances).all():
        return None
    candidate = int(np.argmax(distances.sum(axis=1)))
    others = np.delete(np.arange(n_domains), candidate)
    nearest = distances[candidate, others].min()
    farthest = distances[np.ix_(others, others)].max()
    return candidate if nearest > GAP * farthest else None
