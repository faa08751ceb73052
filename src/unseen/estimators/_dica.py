"""DICA and UDICA: domain-invariant component analysis."""

from __future__ import annotations

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

# Of the largest entry of the published matrix, which is not symmetric: eigenvalues that are smaller have few digits.
ROUNDING = 1e-6
# Of the largest eigenvalue of the kernel matrix. Labels weigh on directions in which samples do not vary, too, as much
# as a ridge lets them; beside a smaller ridge they would weigh without end, and such directions are left out.
VARIES = 1e-8


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
        Number of components; None keeps all that exist, at most ``n_classes - 1``. Unsupervised, None means 2.
    supervised : bool, default=True
        Whether labels are used; False is UDICA.
    output_ridge : float, default=1e-3
        The paper's :math:`\epsilon`, which regularises the covariance of the class indicators.
    as_published : bool, default=False
        Solve the non-symmetric problem of the released code,
        :math:`L (L + n \epsilon I)^{-1} K^2 B = (D + K + \lambda I) B \Gamma`. Its solutions are not stationary points
        of the objective; the default, symmetric form's are. With ``scaling="unit_norm"`` it follows that code's
        convention for the columns too.
    {common}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    SCA : Adds within-class scatter.
    CIDG : Makes class-conditional distributions alike instead of the marginal.

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
        return ScatterProblem(
            numerator=dica_output_contrast(counts, self.output_ridge)
            if self.supervised
            else np.zeros((np.count_nonzero(counts), 0)),
            total_weight=0.0 if self.supervised else 1 / counts.sum(),
            penalties=((1.0, domain_contrast(counts)),),
            within_weight=0.0,
            norm_weight=1.0,
            ridge=ridge,
            is_symmetric=not (self.supervised and self.as_published),
        )

    def _solve_pencil(
        self, spectrum: Spectrum, pencil: WhitenedProblem, recipe: ScatterProblem, counts: Ints
    ) -> Solution:
        if recipe.is_symmetric:
            return super()._solve_pencil(spectrum, pencil, recipe, counts)
        return _solve_as_published(spectrum, pencil, recipe, counts, self.output_ridge)


def _solve_as_published(
    spectrum: Spectrum, pencil: WhitenedProblem, recipe: ScatterProblem, counts: Ints, output_ridge: float
) -> Solution:
    """L (L + n eps I)^-1 K^2 b = A b g: with L = Zc Zc', eigenpairs of the C x C matrix S Zc' K^2 A^-1 Zc."""
    class_sizes = counts.sum(axis=0)
    n, n_classes = class_sizes.sum(), len(class_sizes)
    # Centered class indicators in the eigenbasis, and what it misses of them.
    present = counts > 0
    members = np.sqrt(counts[present])[:, None] * np.eye(n_classes)[np.nonzero(counts)[1]]
    members -= np.sqrt(counts[present])[:, None] * class_sizes / n
    Z, missed = spectrum.cells @ members, spectrum.outside @ members
    largest = float(np.abs(spectrum.values).max())
    if recipe.ridge <= VARIES * largest:
        Z, missed = np.where(np.abs(spectrum.values)[:, None] > VARIES * largest, Z, 0.0), 0 * missed
    cells = spectrum.values[:, None] * spectrum.cells
    check_distinct_means(spectrum.values[:, None] * Z, largest * float(np.linalg.norm(members)))
    solved, half = apply_inverse(spectrum, pencil, recipe, counts, Z)
    covariance = np.diag(class_sizes) - np.outer(class_sizes, class_sizes) / n
    S = linalg.inv(covariance + n * output_ridge * np.eye(n_classes))
    M = S @ Z.T @ (spectrum.values[:, None] ** 2 * solved)
    size = np.abs(M).max() or 1.0  # LAPACK takes eigenvalues that are all tiny for none
    values, vectors = linalg.eig(M / size)
    order = np.argsort(-values.real)[: n_classes - 1]
    if np.abs(values[order].imag).max() > 1e-9 or not values[order].real.min() > -ROUNDING:
        raise ValueError("DICA's published eigenproblem has no real, positive solution here; use as_published=False.")
    order = order[values[order].real > ROUNDING]
    # B'AB = I, column by column; where samples do not vary, A is the ridge.
    root = np.sqrt(recipe.ridge) or 1.0
    vectors = vectors[:, order].real
    vectors = vectors / np.linalg.norm(np.vstack([half, missed / root]) @ vectors, axis=0)
    B, rest = solved @ vectors, missed @ vectors / (root * root)
    return Solution(
        size * values[order].real,
        spectrum.to_coefficients(B),
        np.linalg.norm(np.vstack([B, rest]), axis=0),
        cells.T @ B / np.sqrt(counts[present])[:, None],
    )
