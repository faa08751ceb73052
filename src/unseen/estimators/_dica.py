"""DICA and UDICA: domain-invariant component analysis."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import linalg
from sklearn.utils._param_validation import Interval

from ..linalg import (
    Ints,
    ScatterProblem,
    Solution,
    Spectrum,
    WhitenedProblem,
    apply_inverse,
    check_distinct_means,
    dica_output_contrast,
    domain_contrast,
)
from ..utils.estimator_mixins import keyword_parameters
from ._projection import Projection
from ._projection_problem import ReducedSolver

# Smallest eigenvalue of the published matrix relative to its largest entry. The matrix is not symmetric, so that
# smaller eigenvalues have few correct digits.
MIN_EIGENVALUE = 1e-6
# Smallest ridge, and smallest eigenvalue of a direction, relative to the largest eigenvalue of the kernel matrix.
# Labels also act on directions in which samples do not vary, limited by the ridge only. With a smaller ridge these
# directions are dropped.
MIN_VARIATION = 1e-8


@keyword_parameters
class DICA(Projection):
    r"""Domain-invariant component analysis (Muandet et al. 2013).

    Learns components whose distribution P(X) varies little between domains while they still predict the labels. With
    :math:`D` the scatter of the domain means and :math:`\Sigma_y` the regularized covariance of the class indicators,

    .. math:: \tfrac{1}{n} M_y \Sigma_y^{-1} M_y^\top B = (D + K + \lambda I) B \Gamma ,

    where the columns of :math:`M_y` are class sums. ``supervised=False`` replaces the left side by the total scatter
    (UDICA) and needs no labels.

    Parameters
    ----------
    n_components : int, default=None
        Number of components; None keeps all, at most ``n_classes - 1``. With ``supervised=False`` None means 2.
    supervised : bool, default=True
        Whether to use labels; False is UDICA.
    output_ridge : float, default=1e-3
        The paper's :math:`\epsilon`, which regularizes the covariance of the class indicators.
    as_published : bool, default=False
        Solve the non-symmetric problem of the released code,
        :math:`L (L + n \epsilon I)^{-1} K^2 B = (D + K + \lambda I) B \Gamma`. Its solutions are not stationary points
        of the objective; solutions of the default, symmetric form are. With ``scaling="unit_norm"`` the columns also
        follow the convention of that code.
    {common}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    SCA : Adds within-class scatter.
    CIDG : Aligns class-conditional distributions instead of the marginal distribution.

    References
    ----------
    K. Muandet, D. Balduzzi, B. Schölkopf. "Domain Generalization via Invariant Feature Representation". ICML 2013.

    Examples
    --------
    >>> from unseen import DICA
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> DICA(ridge=0.1).fit_transform(data.data, data.target, sample_domain=data.domain).shape
    (320, 2)
    >>> DICA(3, supervised=False).fit_transform(data.data, sample_domain=data.domain).shape
    (320, 3)
    """

    supervised: bool = True
    output_ridge: float = 1e-3
    as_published: bool = False

    _ridge_power: ClassVar[int] = 1
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Projection._parameter_constraints,
        "supervised": ["boolean"],
        "output_ridge": [Interval(Real, 0, None, closed="neither")],
        "as_published": ["boolean"],
    }

    def _needs_labels(self) -> bool:
        return self.supervised

    def _default_components(self, counts: Ints) -> int | None:
        return None if self.supervised else 2

    def _scatter_problem(self, counts: Ints, ridge: float) -> ScatterProblem:
        if self.supervised:
            numerator = dica_output_contrast(counts, self.output_ridge)
            total_weight = 0.0
        else:
            numerator = np.zeros((np.count_nonzero(counts), 0))
            total_weight = 1 / counts.sum()
        return ScatterProblem(
            numerator=numerator,
            total_weight=total_weight,
            penalties=((1.0, domain_contrast(counts)),),
            within_weight=0.0,
            norm_weight=1.0,
            ridge=ridge,
            is_symmetric=not (self.supervised and self.as_published),
        )

    def _reduced_solver(self) -> ReducedSolver:
        if self.supervised and self.as_published:
            return partial(_solve_as_published, output_ridge=self.output_ridge)
        return super()._reduced_solver()


def _solve_as_published(
    spectrum: Spectrum,
    whitened: WhitenedProblem,
    problem: ScatterProblem,
    counts: Ints,
    n_components: int | None,
    *,
    output_ridge: float,
) -> Solution:
    """Solve ``L (L + n eps I)^-1 K^2 b = A b g`` for all components.

    With ``L = Zc Zc'``, these are the eigenpairs of the C x C matrix ``S Zc' K^2 A^-1 Zc``.
    """
    class_sizes = counts.sum(axis=0)
    n = class_sizes.sum()
    n_classes = len(class_sizes)
    # Centered class indicators in the eigenbasis (Z), and their part outside of it.
    present = counts > 0
    members = np.sqrt(counts[present])[:, None] * np.eye(n_classes)[np.nonzero(counts)[1]]
    members -= np.sqrt(counts[present])[:, None] * class_sizes / n
    Z = spectrum.cells @ members
    outside = spectrum.outside @ members
    largest = float(np.abs(spectrum.values).max())
    if problem.ridge <= MIN_VARIATION * largest:
        Z = np.where(np.abs(spectrum.values)[:, None] > MIN_VARIATION * largest, Z, 0.0)
        outside = 0 * outside
    cells = spectrum.values[:, None] * spectrum.cells
    check_distinct_means(spectrum.values[:, None] * Z, largest * float(np.linalg.norm(members)))
    solved, half = apply_inverse(spectrum, whitened, problem, counts, Z)
    covariance = np.diag(class_sizes) - np.outer(class_sizes, class_sizes) / n
    S = linalg.inv(covariance + n * output_ridge * np.eye(n_classes))
    M = S @ Z.T @ (spectrum.values[:, None] ** 2 * solved)
    size = np.abs(M).max() or 1.0  # LAPACK returns zeros if all eigenvalues are tiny.
    values, vectors = linalg.eig(M / size)
    order = np.argsort(-values.real)[: n_classes - 1]
    if np.abs(values[order].imag).max() > 1e-9 or not values[order].real.min() > -MIN_EIGENVALUE:
        raise ValueError(
            "The published eigenproblem of DICA has no real, positive solution on these data. Use as_published=False."
        )
    order = order[values[order].real > MIN_EIGENVALUE]
    # Scale columns so that B'AB = I; outside of the eigenbasis, A is the ridge.
    root = np.sqrt(problem.ridge) or 1.0
    vectors = vectors[:, order].real
    vectors = vectors / np.linalg.norm(np.vstack([half, outside / root]) @ vectors, axis=0)
    B = solved @ vectors
    B_outside = outside @ vectors / (root * root)
    return Solution(
        size * values[order].real,
        spectrum.to_coefficients(B),
        np.linalg.norm(np.vstack([B, B_outside]), axis=0),
        cells.T @ B / np.sqrt(counts[present])[:, None],
    )
