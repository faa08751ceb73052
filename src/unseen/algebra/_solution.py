"""What a solver returns: components, their scale and their sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ._cells import Array, Ints


@dataclass(frozen=True)
class Solution:
    """Components of a pencil, in order of decreasing eigenvalue; solvers normalise them so that ``B'AB = I``.

    Attributes
    ----------
    eigenvalues : ndarray of shape (q,)
        Ratio of numerator to denominator for each component.
    coefficients : ndarray of shape (n_samples or n_features, q)
        The components, lifted (see `Spectrum.lift`).
    norms : ndarray of shape (q,)
        2-norms of the columns of B.
    cell_means : ndarray of shape (n_present_cells, q)
        Mean of each component over each cell, about the mean of all samples.
    """

    eigenvalues: Array
    coefficients: Array
    norms: Array
    cell_means: Array

    def first(self, q: int | None) -> Solution:
        """Keep the leading components."""
        return Solution(self.eigenvalues[:q], self.coefficients[:, :q], self.norms[:q], self.cell_means[:, :q])

    def times(self, factors: Array) -> Solution:
        """Multiply each component by a factor."""
        return Solution(
            self.eigenvalues,
            self.coefficients * factors,
            self.norms * np.abs(factors),
            self.cell_means * factors,
        )

    def scaled(self, scaling: Literal["paper", "unit_norm"]) -> Solution:
        """Multiply by Gamma^-1/2 (Algorithm 1, step 5), after making the columns unit vectors for "unit_norm"."""
        factors = 1 / np.sqrt(self.eigenvalues)
        return self.times(factors if scaling == "paper" else factors / self.norms)

    def oriented(self, counts: Ints, X: Any = None) -> Solution:
        """Fix the signs: the class whose mean has the largest absolute coordinate gets a positive one.

        Two equal classes of opposite sign leave that open; the cell means decide then, after them the coefficients, and
        last the features `X` that the coefficients weigh. Nothing of this depends on the order of samples or on the
        names of classes and domains.
        """
        views = self._views(counts)
        leanings = np.zeros(len(self.eigenvalues)) if X is None else _leanings(X.T @ self.coefficients)
        signs = [_sign(*parts) for parts in zip(*views, leanings, strict=True)]
        return self.times(np.array(signs))

    def _views(self, counts: Ints) -> tuple[Array, Array, Array]:
        """Class means, cell means and coefficients, one row per component."""
        weights = counts / counts.sum(axis=0)
        class_of = np.nonzero(counts)[1]
        class_means = np.zeros((counts.shape[1], self.cell_means.shape[1]))
        np.add.at(class_means, class_of, weights[counts > 0][:, None] * self.cell_means)
        return class_means.T, self.cell_means.T, self.coefficients.T


def _leanings(weights: Array) -> Array:
    """For each component, its weight on the feature on which it is largest."""
    return weights[np.abs(weights).argmax(axis=0), np.arange(weights.shape[1])]


def _sign(class_means: Array, cell_means: Array, coefficients: Array, leaning: float) -> float:
    noise = 1e-7 * np.abs(cell_means).max()
    views = [class_means, cell_means] if np.abs(class_means).max() > noise else [cell_means]
    if len(cell_means) == 1:  # a single cell has mean zero, up to rounding
        views = []
    for view in (*views, coefficients):
        highest, lowest = view.max(), -view.min()
        if abs(highest - lowest) > 1e-6 * max(highest, lowest):
            return 1.0 if highest > lowest else -1.0
    # Perfectly symmetric data: the features decide, and without them the order of the classes.
    return 1.0 if (leaning or class_means[0]) >= 0 else -1.0
