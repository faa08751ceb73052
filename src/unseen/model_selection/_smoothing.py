"""Smoothing of predictions among nearest neighbors within a batch: a transductive step."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from sklearn.neighbors import NearestNeighbors

from ..linalg import Array

N_NEIGHBORS = 5
# Neighbors are searched within blocks of this many rows, so that time grows linearly beyond one block.
NEIGHBOR_BLOCK_ROWS = 4096
SMOOTHING_STRENGTHS = (0.5, 1.0, 2.0)
# Iterations end when no probability changes by more than this.
SMOOTHING_TOLERANCE = 1e-6


def neighbor_graph(X: Array, n_neighbors: int = N_NEIGHBORS) -> csr_array:
    """Symmetrized graph of the nearest neighbors in a batch, (A + A') / 2.

    The graph is empty where a batch has fewer than n_neighbors + 2 rows. Neighbors are searched within blocks of rows
    spread evenly over the batch; a single block is exact.
    """
    n = X.shape[0]
    if n < n_neighbors + 2:
        return csr_array((n, n))
    neighbors = np.empty((n, n_neighbors), dtype=np.intp)
    n_blocks = -(-n // NEIGHBOR_BLOCK_ROWS)
    for first in range(n_blocks):
        rows = np.arange(first, n, n_blocks)
        search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(X[rows])
        neighbors[rows] = rows[search.kneighbors(return_distance=False)]  # excludes the row itself
    edges = np.repeat(np.arange(n), n_neighbors), neighbors.ravel()
    graph = csr_array((np.full(n * n_neighbors, 0.5), edges), shape=(n, n))
    return (graph + graph.T).tocsr()


def smooth_probabilities(P: Array, graph: csr_array, strength: float, max_iterations: int = 30) -> Array:
    """Probabilities (n, C) that agree better among neighbors: LAME (Boudiaf and others, CVPR 2022).

    Iterates Z <- softmax(log P + (2 strength / n_neighbors) graph Z) from Z = P. Zeros stay zero.
    """
    if not strength:
        return P
    with np.errstate(divide="ignore"):
        log_P = np.log(P)
    scaled_graph = (2 * strength / N_NEIGHBORS) * graph
    Z = P
    for _ in range(max_iterations):
        previous = Z
        Z = log_P + scaled_graph @ Z
        Z = np.exp(Z - Z.max(axis=1, keepdims=True))
        Z /= Z.sum(axis=1, keepdims=True)
        if np.abs(Z - previous).max() < SMOOTHING_TOLERANCE:
            break
    return Z
