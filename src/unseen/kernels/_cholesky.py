"""Randomly pivoted Cholesky: a positive semi-definite matrix from a few of its rows, in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg

from ..linalg import Array, Ints, gram, product

NEGATIVE_TOLERANCE = float(np.sqrt(np.finfo(float).eps))  # negative residuals, relative to the diagonal


class NotPositiveError(ArithmeticError):
    """A matrix that was to be factorised is not positive semi-definite."""


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
    """Factorize a positive semi-definite matrix K from a few of its rows, ``K ~ F'F`` (Chen et al. 2023).

    ``values(rows, columns)`` evaluates a part of K; `columns` may be a full slice. Pivots are proposed `block_size` at
    a time, up to `n_pivots` or until the trace of ``K - F'F`` is at most `tolerance` times that of K. A residual of at
    most `rounding` consists of rounding errors and is left alone. Gives F, whose columns at the pivots are upper
    triangular, the pivots in the order in which they were picked, and the diagonal of ``K - F'F``, never negative.
    """
    n = len(diagonal)
    # Who sets a tolerance does not know how many pivots there will be: room is made as it is needed.
    factor = np.empty((min(n_pivots, 4 * block_size) if tolerance else n_pivots, n))
    pivots = np.empty(0, dtype=np.intp)
    target = tolerance * diagonal.sum()
    residual = diagonal.copy()
    slack = np.maximum(NEGATIVE_TOLERANCE * diagonal, rounding)
    while len(pivots) < n_pivots and (remaining := residual.sum()) > target:
        weights = np.where(residual > rounding, residual, 0.0)
        if not weights.any():
            break
        known = factor[: len(pivots)]
        drawn = random.choice(n, size=block_size, p=weights / weights.sum())
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]  # a second time it would be rejected
        block = np.zeros((1, 1)) if len(drawn) == 1 else values(drawn, drawn) - gram(known[:, drawn])
        np.fill_diagonal(block, residual[drawn])
        # A proposal drawn from the residual of before is kept with the probability that makes up for what the pivots
        # of its own block have taken away since: kept ones follow the law of one draw at a time.
        thresholds = np.maximum(random.uniform(size=len(drawn)) * residual[drawn], rounding[drawn])
        kept, triangle = _eliminate(block, thresholds, n_pivots - len(pivots))
        chosen = drawn[kept]
        rows = values(chosen, slice(None))
        rows -= product(known[:, chosen].T, known)
        rows = linalg.blas.dtrsm(1.0, triangle, rows.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
        rows[:, pivots] = 0.0  # exactly, not up to rounding
        rows[:, chosen] = triangle.T
        # Each row by itself tells how much of the trace it explains: keep no more than the tolerance asks for.
        left = remaining - np.cumsum(np.einsum("ij,ij->i", rows, rows))
        count = min(len(rows), 1 + int(np.count_nonzero(left > target)))
        rows, chosen = rows[:count], chosen[:count]
        factor = _with_room(factor, len(pivots) + count, n_pivots)
        factor[len(pivots) : len(pivots) + count] = rows
        pivots = np.concatenate([pivots, chosen])
        residual -= np.einsum("ij,ij->j", rows, rows)
        if not (residual >= -slack).all():
            raise NotPositiveError(
                f"after {len(pivots)} pivots the least of the residual diagonal is {residual.min():.2g}."
            )
        residual = np.maximum(residual, 0.0)
    return factor[: len(pivots)], pivots, residual


def _with_room(factor: Array, rows: int, most: int) -> Array:
    """The factor, with room for so many rows; more than needed, so that few copies are made."""
    if rows <= len(factor):
        return factor
    larger = np.empty((min(most, max(rows, 2 * len(factor))), factor.shape[1]))
    larger[: len(factor)] = factor
    return larger


def _eliminate(block: Array, thresholds: Array, most: int) -> tuple[list[int], Array]:
    """Cholesky of the rows whose pivot is above its threshold when its turn comes; `block` is destroyed."""
    kept: list[int] = []
    lower = np.zeros_like(block)
    for i, threshold in enumerate(thresholds):
        if len(kept) < most and block[i, i] > threshold:
            column = block[i:, i] / np.sqrt(block[i, i])
            block[i:, i:] -= np.outer(column, column)
            lower[i:, len(kept)] = column
            kept.append(i)
    return kept, lower[kept, : len(kept)]
