r"""The scatters of all methods, each as a contrast of cell means.

Let the columns of :math:`M` be the mean embeddings :math:`\mu_{sj}` of the cells (domain s, class j) that have samples,
domain by domain. Every low-rank scatter of the paper is :math:`M W W^\top M^\top` with a contrast :math:`W` that
depends on the table of counts only. Each contrast function takes that table, shape (n_domains, n_classes), and returns
its :math:`W`, shape (n_present_cells, columns). Empty cells cost nothing.

The mean of an empty cell is defined as the average of its class over the domains that have the class. Every formula
then holds as written, and a class that is absent from a domain contributes no shift there.

Equation numbers are those of Li et al., "Domain Generalization via Conditional Invariant Representations" (AAAI 2018),
unless another paper is named.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ._cell_statistics import Array, CellStatistics, Ints


def average_class_means(counts: Ints) -> Array:
    """Return the mean of mu_sj over the domains that have class j: shape (n_classes, n_present_cells)."""
    return _weighted_class_sums(counts, 1 / (counts > 0).sum(axis=0)[np.nonzero(counts)[1]])


def pooled_class_means(counts: Ints) -> Array:
    """Return mu_j, the mean of all samples of a class: shape (n_classes, n_present_cells)."""
    return _weighted_class_sums(counts, (counts / counts.sum(axis=0))[counts > 0])


def conditional_contrast(counts: Ints) -> Array:
    """Total scatter of class-conditional distributions: the paper's H, eq. (6)."""
    return _deviations_from_class(counts, average_class_means(counts)).T / np.sqrt(len(counts))


def prior_normalized_contrast(counts: Ints) -> Array:
    """Scatter of class-prior-normalized marginals: the paper's L, eq. (12)."""
    n_domains, n_classes = counts.shape
    shift = _domain_sums(counts, _deviations_from_class(counts, average_class_means(counts)))
    return shift.T / (n_classes * np.sqrt(n_domains))


def between_contrast(counts: Ints) -> Array:
    """Between-class scatter: the paper's P, eq. (15)."""
    class_sizes = counts.sum(axis=0)
    means = pooled_class_means(counts)
    grand = class_sizes @ means / class_sizes.sum()
    return (np.sqrt(class_sizes)[:, None] * (means - grand)).T


def cell_within_contrast(counts: Ints) -> Array:
    """Scatter of the cells of a class about its pooled mean; plus the scatter within cells it is Q, eq. (17)."""
    return (np.sqrt(counts[counts > 0])[:, None] * _deviations_from_class(counts, pooled_class_means(counts))).T


def domain_contrast(counts: Ints) -> Array:
    """Domain scatter, or distributional variance, of Muandet et al. (2013) and Ghifary et al. (2017)."""
    share = (counts / counts.sum(axis=1, keepdims=True))[counts > 0]
    means = _domain_sums(counts, np.diag(share))
    return (means - means.mean(axis=0)).T / np.sqrt(len(counts))


def dica_output_contrast(counts: Ints, output_ridge: float) -> Array:
    """Numerator of supervised DICA: the central subspace for the class indicator kernel.

    Muandet et al. (2013) write it with n x n matrices, L (L + n eps I)^-1 K^2 / n; L has the classes as its only
    non-trivial directions, so a C x C matrix holds the same information.
    """
    class_sizes = counts.sum(axis=0)
    n = class_sizes.sum()
    sums = class_sizes[:, None] * pooled_class_means(counts)
    covariance = np.diag(class_sizes) - np.outer(class_sizes, class_sizes) / n
    root = linalg.cholesky(covariance + n * output_ridge * np.eye(len(class_sizes)), lower=True)
    return linalg.solve_triangular(root, sums, lower=True).T / np.sqrt(n)


def domain_averaged_class_means(counts: Ints) -> Array:
    """Return u_j of MDA (Hu et al. 2019): class means with domain weights p(s given j) under equal domain priors."""
    share = counts / counts.sum(axis=1, keepdims=True)
    return _weighted_class_sums(counts, (share / share.sum(axis=0))[counts > 0])


def mda_class_discrepancy_contrast(counts: Ints) -> Array:
    """Average class discrepancy: F of Hu et al. (2019), eq. (11)."""
    means = domain_averaged_class_means(counts)
    return np.sqrt(2 / (counts.shape[1] - 1)) * (means - means.mean(axis=0)).T


def mda_between_contrast(counts: Ints) -> Array:
    """Multi-domain between-class scatter: P of Hu et al. (2019), eq. (15)."""
    means = domain_averaged_class_means(counts)
    prior = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0)
    class_sizes = counts.sum(axis=0)
    return (np.sqrt(class_sizes / class_sizes.sum())[:, None] * (means - prior @ means)).T


def mda_domain_discrepancy_contrast(counts: Ints) -> Array:
    """Average domain discrepancy: G of Hu et al. (2019), eq. (6), a multiple of CIDG's conditional scatter."""
    n_domains, n_classes = counts.shape
    n_pairs = n_classes * max(n_domains - 1, 1)  # A single domain has a contrast of zero.
    return np.sqrt(2 * n_domains / n_pairs) * conditional_contrast(counts)


def mda_class_offset_contrast(counts: Ints) -> Array:
    """Difference of MDA's Q, eq. (18), and n times the within-class scatter: Q is about u_j, not about mu_j."""
    offset = pooled_class_means(counts) - domain_averaged_class_means(counts)
    return (np.sqrt(counts.sum(axis=0))[:, None] * offset).T


def scatter_traces(cells: CellStatistics) -> dict[str, float]:
    """Return the traces of the scatters in the objective of CIDG.

    The between-class and within-class scatters are sums over samples and add up to the total scatter; the others are
    sums over means.
    """
    contrasts = {
        "between": between_contrast,
        "within": cell_within_contrast,
        "conditional": conditional_contrast,
        "prior": prior_normalized_contrast,
    }
    means = cells.means[cells.counts.ravel() > 0] - cells.mean
    traces = {name: float(np.square(contrast(cells.counts).T @ means).sum()) for name, contrast in contrasts.items()}
    traces["within"] += float(np.trace(cells.inside))
    return traces


def _weighted_class_sums(counts: Ints, weights: Array) -> Array:
    """Return weighted sums over the present cells of each class: shape (n_classes, n_present_cells)."""
    sums = np.zeros((counts.shape[1], len(weights)))
    sums[np.nonzero(counts)[1], np.arange(len(weights))] = weights
    return sums


def _deviations_from_class(counts: Ints, class_means: Array) -> Array:
    """Return each present cell minus the mean of its class: shape (n_present_cells, n_present_cells)."""
    return np.eye(int(np.count_nonzero(counts))) - class_means[np.nonzero(counts)[1]]


def _domain_sums(counts: Ints, combinations: Array) -> Array:
    """Return sums over the present cells of each domain: shape (n_domains, n_present_cells)."""
    first_cells = np.searchsorted(np.nonzero(counts)[0], np.arange(len(counts)))
    return np.add.reduceat(combinations, first_cells, axis=0)
