"""Cells: the domain x class table that every method of the family depends on.

A *cell* holds the samples of one class in one domain. The low-rank scatters of all methods are combinations of the
cell means (:mod:`unseen.scatters`), so the counts, the sums over cells and one Gram matrix are all that a solver
needs to know about the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Membership:
    """Which cell each sample lies in.

    Attributes
    ----------
    counts : ndarray of shape (n_domains, n_classes)
        Samples in each cell; cells may be empty, whole rows and columns may not.
    cell : ndarray of shape (n_samples,)
        Each sample's cell, as ``domain * n_classes + class``.
    """

    counts: Ints
    cell: Ints

    @classmethod
    def of(cls, class_codes: Ints, domain_codes: Ints) -> Membership:
        """Count the cells of samples labelled 0..C-1 and 0..m-1."""
        n_classes, n_domains = class_codes.max() + 1, domain_codes.max() + 1
        cell = domain_codes * n_classes + class_codes
        counts = np.bincount(cell, minlength=n_domains * n_classes).reshape(n_domains, n_classes)
        return cls(counts.astype(np.intp), cell)

    @property
    def indicators(self) -> sparse.csr_array:
        """Orthonormal indicators of the present cells, ``1 / sqrt(n_sj)`` in each sample's column: (cells, n)."""
        present = np.flatnonzero(self.counts)
        row = np.searchsorted(present, self.cell)
        weight = 1 / np.sqrt(self.counts.ravel()[self.cell])
        n = len(self.cell)
        return sparse.csr_array((weight, (row, np.arange(n))), shape=(len(present), n))


@dataclass(frozen=True)
class Spectrum:
    """One decomposition of the centred data, enough for every setting of every method.

    Write the centred Gram matrix as ``Kc = V diag(values) V'``. A coefficient vector ``b = V beta`` gives the feature
    ``Kc b``; ``lift`` turns ``beta`` into what the estimator multiplies by: ``V`` itself for an exact kernel (dual
    coefficients), ``Fc' V`` for explicit features (weights on the features).

    Attributes
    ----------
    values : ndarray of shape (rank,)
        Eigenvalues of the centred Gram matrix.
    lift : ndarray of shape (n_samples or n_features, rank)
        Maps coordinates in the eigenbasis to coefficients.
    cells : ndarray of shape (rank, n_present_cells)
        The orthonormal cell indicators in the eigenbasis.
    outside : ndarray of shape (k, n_present_cells)
        A factor of what the eigenbasis misses of them: ``cells'cells + outside'outside = I``.
    """

    values: Array
    lift: Array
    cells: Array
    outside: Array

    def without_null(self) -> Spectrum:
        """Leave out the directions in which the data do not vary, as a pencil without ridge must."""
        keep = self.values != 0
        cells = self.cells[keep]
        return Spectrum(self.values[keep], self.lift[:, keep], cells, _missing(cells))


def gram_spectrum(K: Array, membership: Membership) -> Spectrum:
    """Decompose a centred n x n Gram matrix; `K` is destroyed."""
    values, vectors = linalg.eigh(K, overwrite_a=True, check_finite=False, driver="evd")
    noise = len(values) * np.finfo(float).eps * np.abs(values).max(initial=0.0)
    values[np.abs(values) <= noise] = 0.0  # rounding must not look like a negative eigenvalue
    cells = (membership.indicators @ vectors).T
    return Spectrum(values, vectors, cells, outside=np.zeros((0, cells.shape[1])))


@dataclass(frozen=True)
class Cells:
    """Sufficient statistics of explicit features: counts, sums and Gram matrix.

    Sums and Gram are kept about `origin`. About zero, features with a mean of 1e4 would lose eight digits when the
    Gram matrix is centred.

    Attributes
    ----------
    counts : ndarray of shape (n_domains, n_classes)
        Samples in each cell.
    sums : ndarray of shape (n_domains * n_classes, n_features)
        Sum of ``f - origin`` over each cell.
    gram : ndarray of shape (n_features, n_features)
        Sum of ``(f - origin)(f - origin)'`` over all samples.
    origin : ndarray of shape (n_features,)
        The point the statistics are taken about.
    """

    counts: Ints
    sums: Array
    gram: Array
    origin: Array

    @classmethod
    def of(cls, features: Array, membership: Membership) -> Cells:
        """Collect the statistics of a feature matrix, about its mean."""
        origin = features.mean(axis=0)
        shifted = features - origin
        sums = np.zeros((membership.counts.size, features.shape[1]))
        np.add.at(sums, membership.cell, shifted)
        return cls(membership.counts, sums, shifted.T @ shifted, origin)

    def __add__(self, other: Cells) -> Cells:
        """Statistics of both sets of samples, which must have the same cells, about the origin of the first."""
        shift = other.origin - self.origin
        sums = other.sums + other.counts.reshape(-1, 1) * shift
        lean = np.outer(other.sums.sum(axis=0), shift)
        gram = other.gram + lean + lean.T + other.counts.sum() * np.outer(shift, shift)
        return Cells(self.counts + other.counts, self.sums + sums, self.gram + gram, self.origin)

    @property
    def mean(self) -> Array:
        """Mean of all samples."""
        return self.origin + self.sums.sum(axis=0) / self.counts.sum()

    def spectrum(self) -> Spectrum:
        """Decompose the centred Gram matrix of the features."""
        n = self.counts.sum()
        drift = self.sums.sum(axis=0) / n
        values, vectors = linalg.eigh(self.gram - n * np.outer(drift, drift), check_finite=False)
        keep = values > len(values) * np.finfo(float).eps * values.max(initial=0.0)
        values, vectors = values[keep], vectors[:, keep]
        scale = np.sqrt(values)
        count = self.counts[self.counts > 0]
        centred = (self.sums[self.counts.ravel() > 0] - count[:, None] * drift) / np.sqrt(count)[:, None]
        cells = (vectors.T @ centred.T) / scale[:, None]
        return Spectrum(values, vectors * scale, cells, _missing(cells))


def _missing(cells: Array) -> Array:
    """Return a factor S of what orthonormal vectors lose by projection: ``S'S = I - cells'cells``."""
    loss, directions = linalg.eigh(np.eye(cells.shape[1]) - cells.T @ cells)
    return np.sqrt(np.clip(loss, 0.0, None))[:, None] * directions.T
