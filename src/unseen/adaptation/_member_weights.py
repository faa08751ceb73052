"""Member weights of a linear opinion pool, updated from a few labels of a new domain."""

from __future__ import annotations

import numpy as np

from ..linalg import Array

N_STEPS = 30
# Probabilities of true classes are raised to this value, so that a row that no member explains has no weight.
MIN_PROBABILITY = 1e-12


def update_weights(q: Array, weights: Array, prior_rows: float, n_steps: int = N_STEPS) -> Array:
    """Posterior modes (B, J) of the weights of a linear opinion pool in B problems, by the EM algorithm.

    The prior is a Dirichlet density whose logarithm is ``prior_rows * sum_j weights_j log w_j``: the weights of the
    model count like that many rows. Each step is ``w_j proportional to prior_rows * weights_j + sum_i r_ij``, where
    ``r_ij`` is the share of member j in the probability of the true class of row i. It never decreases the posterior.

    Parameters
    ----------
    q : ndarray of shape (B, n, J)
        Probabilities of the true classes of labeled rows, by member.
    weights : ndarray of shape (J,)
        Weights of the model, which sum to 1.
    prior_rows : float
        Number of rows that these weights count for.
    n_steps : int, default=30
        Number of steps.

    Returns
    -------
    weights : ndarray of shape (B, J)
        The updated weights, which sum to 1.
    """
    q = np.maximum(q, MIN_PROBABILITY)
    w = np.repeat(weights[None], len(q), axis=0)
    for _ in range(n_steps):
        mixed = np.matmul(q, w[:, :, None])
        responsibilities = w * np.matmul((1 / mixed).transpose(0, 2, 1), q)[:, 0]
        w = (prior_rows * weights + responsibilities) / (prior_rows + q.shape[1])
    return w
