r"""Corrections for the sampling error of cell means in scatters between domains.

A cell mean :math:`\hat\mu_{sj}` of :math:`n_{sj}` samples has the covariance :math:`\Sigma / n_{sj}`, if :math:`\Sigma`
is the covariance of samples within cells. A scatter :math:`M W W^\top M^\top` of cell means therefore exceeds, in
expectation, that of the true means by :math:`c \Sigma` with :math:`c = \sum_{sj} \|W_{sj}\|^2 / n_{sj}`. Both
corrections replace the contrast :math:`W` by another one, so that scatters stay positive semi-definite and all solvers
apply as they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from ._cell_statistics import Array, Ints, Spectrum
from ._eigenproblem import ScatterProblem, WhitenedProblem
from ._scatters import average_class_means


def subtract_cell_noise(problem: ScatterProblem, whitened: WhitenedProblem, counts: Ints) -> ScatterProblem:
    r"""Subtract the expected sampling error from the first `n_noisy` penalties, as far as they stay positive.

    A penalty H is compared with the denominator without penalties, :math:`A_0`, which estimates
    :math:`t (n - p) \Sigma` for p cells and the weight t of the scatter within cells; norm penalty and ridge regularize
    the estimate. With :math:`H u = \lambda A_0 u`, the corrected penalty has the eigenvalues
    :math:`\max(\lambda - c / (t (n - p)), 0)` in the same directions. Since H has the rank of its contrast, that is
    :math:`M W V \operatorname{diag}(\max(1 - c / (t (n - p) \lambda), 0)) V^\top W^\top M^\top` with the right singular
    vectors V of :math:`A_0^{-1/2} M W`.
    """
    sizes = counts[counts > 0]
    degrees_of_freedom = problem.within_weight * (sizes.sum() - len(sizes))
    penalties = []
    for weight, contrast in problem.penalties[: problem.n_noisy]:
        cells = contrast / np.sqrt(sizes)[:, None]
        noise = float(np.square(cells).sum()) / degrees_of_freedom
        with np.errstate(divide="ignore", invalid="ignore"):  # A sine of zero makes the solver raise its own error.
            ratios = (whitened.cells @ cells) / whitened.sines[:, None]
        if not np.isfinite(ratios).all():
            return problem
        _, singular, right = linalg.svd(ratios, full_matrices=False, check_finite=False)
        kept = singular**2 > noise
        factors = np.sqrt(1 - noise / singular[kept] ** 2)
        penalties.append((weight, contrast @ right[kept].T * factors))
    return replace(problem, penalties=(*penalties, *problem.penalties[problem.n_noisy :]), n_noisy=0)


def shrink_cell_means(problem: ScatterProblem, counts: Ints, cell_gram: Array, total: float) -> ScatterProblem:
    r"""Shrink cell means toward the mean of their class in the first `n_noisy` penalties.

    A deviation :math:`\hat\mu_{sj} - \bar\mu_j` is multiplied by :math:`\tau^2 / (\tau^2 + \sigma^2 / n_{sj})`, the
    factor of the best linear predictor in a random-effects model. :math:`\sigma^2` is the trace of the covariance
    within cells, :math:`\tau^2` the moment estimate of the variance of cell means of a class, zero if it is negative.

    Parameters
    ----------
    problem : ScatterProblem
        The eigenproblem.
    counts : ndarray of shape (n_domains, n_classes)
        Number of samples in each cell.
    cell_gram : ndarray of shape (n_present_cells, n_present_cells)
        Inner products of the sums of centered samples over cells, each divided by the square root of its size.
    total : float
        Sum of the squared norms of all centered samples.
    """
    sizes = counts[counts > 0]
    columns = np.nonzero(counts)[1]
    class_means = average_class_means(counts)[columns]
    deviations = np.eye(len(sizes)) - class_means
    means_gram = cell_gram / np.sqrt(np.outer(sizes, sizes))
    squared = np.einsum("ij,jk,ik->i", deviations, means_gram, deviations)
    within = max(total - float(np.trace(cell_gram)), 0.0) / (sizes.sum() - len(sizes))
    cells_per_class = np.bincount(columns)[columns]
    # E |deviation|^2 is (1 - 1/m) tau^2 plus the error of a mean minus the average of the m means of its class.
    inverse_sizes = 1 / sizes
    mean_errors = np.bincount(columns, inverse_sizes)[columns] / cells_per_class**2
    errors = within * (inverse_sizes * (1 - 2 / cells_per_class) + mean_errors)
    degrees_of_freedom = float(np.sum(1 - 1 / cells_per_class))
    between = max(float(np.sum(squared - errors)) / degrees_of_freedom, 0.0) if degrees_of_freedom else 0.0
    factors = np.zeros(len(sizes))
    if between > 0:
        factors = between / (between + within * inverse_sizes)
    shrunk = class_means + factors[:, None] * deviations
    penalties = [(weight, shrunk.T @ contrast) for weight, contrast in problem.penalties[: problem.n_noisy]]
    return replace(problem, penalties=(*penalties, *problem.penalties[problem.n_noisy :]), n_noisy=0)


def spectrum_cell_gram(spectrum: Spectrum) -> tuple[Array, float]:
    """Return the arguments `cell_gram` and `total` of `shrink_cell_means` for a complete spectrum."""
    weighted = spectrum.values[:, None] * spectrum.cells
    return spectrum.cells.T @ weighted, float(spectrum.values.sum())
