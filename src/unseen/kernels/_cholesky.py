"""Randomly pivoted Cholesky factorization of a positive semi-definite matrix, in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg

from ..linalg import Array, Ints, gram, product

NEGATIVE_TOLERANCE = float(np.sqrt(np.finfo(float).eps))  # of negative residuals, relative to the diagonal


def pivoted_cholesky(
    values: Callable[[Any, Any], Array],
    diagonal: Array,
    *,
    n_pivots: int,
    tolerance: float,
    block_size: int,
    rounding: Array,
    random: np.random.RandomState,
) -> tuple[Array, Ints, Array]:
    """Factorize a positive semi-definite matrix K from a small number of its rows, ``K ~ F'F`` (Chen et al. 2023).

    ``values(rows, columns)`` evaluates a part of K; `columns` may be a full slice. Pivots are proposed in blocks of
    `block_size`, up to `n_pivots` or until the trace of ``K - F'F`` is at most `tolerance` times the trace of K.
    Residuals up to `rounding` are rounding errors and are ignored. Returns F, whose columns at the pivots are upper
    triangular, the pivots in order of selection, and the diagonal of ``K - F'F``, which is never negative. Raises
    LinAlgError if K is not positive semi-definite.
    """
    n = len(diagonal)
    # With a tolerance the number of pivots is not known in advance: the factor grows as needed.
    factor = np.empty((min(n_pivots, 4 * block_size) if tolerance else n_pivots, n))
    pivots = np.empty(0, dtype=np.intp)
    target = tolerance * diagonal.sum()
    residual = diagonal.copy()
    slack = np.maximum(NEGATIVE_TOLERANCE * diagonal, rounding)
    while len(pivots) < n_pivots:
        remaining = residual.sum()
        if not remaining > target:
            break
        weights = np.where(residual > rounding, residual, 0.0)
        if not weights.any():
            break
        computed = factor[: len(pivots)]
        proposals = random.choice(n, size=block_size, p=weights / weights.sum())
        # A repeated proposal would be rejected, so only the first one is kept.
        proposals = proposals[np.sort(np.unique(proposals, return_index=True)[1])]
        block = np.zeros((1, 1)) if len(proposals) == 1 else values(proposals, proposals) - gram(computed[:, proposals])
        np.fill_diagonal(block, residual[proposals])
        # Proposals are drawn from the residual before the block. The rejection probability corrects for the pivots of
        # the same block, so that accepted pivots have the distribution of pivots drawn one at a time.
        thresholds = np.maximum(random.uniform(size=len(proposals)) * residual[proposals], rounding[proposals])
        accepted, triangle = _eliminate(block, thresholds, n_pivots - len(pivots))
        chosen = proposals[accepted]
        rows = values(chosen, slice(None))
        rows -= product(computed[:, chosen].T, computed)
        rows = linalg.blas.dtrsm(1.0, triangle, rows.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
        rows[:, pivots] = 0.0  # Exactly zero, without rounding errors.
        rows[:, chosen] = triangle.T
        # Each row explains a known part of the trace: keep as many rows as the tolerance needs.
        traces = remaining - np.cumsum(np.einsum("ij,ij->i", rows, rows))
        count = min(len(rows), 1 + int(np.count_nonzero(traces > target)))
        rows = rows[:count]
        chosen = chosen[:count]
        factor = _grow(factor, len(pivots) + count, n_pivots)
        factor[len(pivots) : len(pivots) + count] = rows
        pivots = np.concatenate([pivots, chosen])
        residual -= np.einsum("ij,ij->j", rows, rows)
        if not (residual >= -slack).all():
            raise np.linalg.LinAlgError(
                f"after {len(pivots)} pivots the smallest entry of the residual diagonal is {residual.min():.2g}."
            )
        residual = np.maximum(residual, 0.0)
    return factor[: len(pivots)], pivots, residual


def _grow(factor: Array, n_rows: int, max_rows: int) -> Array:
    """Return the factor with memory for at least `n_rows` rows; the size doubles, so that copies are rare."""
    if n_rows <= len(factor):
        return factor
    larger = np.empty((min(max_rows, max(n_rows, 2 * len(factor))), factor.shape[1]))
    larger[: len(factor)] = factor
    return larger


def _eliminate(block: Array, thresholds: Array, max_rows: int) -> tuple[list[int], Array]:
    """Factorize the rows whose pivot exceeds its threshold, in order; `block` is overwritten."""
    accepted: list[int] = []
    lower = np.zeros_like(block)
    for i, threshold in enumerate(thresholds):
        if len(accepted) < max_rows and block[i, i] > threshold:
            column = block[i:, i] / np.sqrt(block[i, i])
            block[i:, i:] -= np.outer(column, column)
            lower[i:, len(accepted)] = column
            accepted.append(i)
    return accepted, lower[accepted, : len(accepted)]
