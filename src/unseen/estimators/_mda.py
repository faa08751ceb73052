"""MDA: multidomain discriminant analysis."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from ..linalg import (
    Ints,
    ScatterProblem,
    cell_within_contrast,
    mda_between_contrast,
    mda_class_discrepancy_contrast,
    mda_class_offset_contrast,
    mda_domain_discrepancy_contrast,
)
from ..utils.estimator_mixins import keyword_parameters
from ._projection import NON_NEGATIVE, Projection


@keyword_parameters
class MDA(Projection):
    r"""Multidomain discriminant analysis (Hu et al., UAI 2019).

    Like CIDG, MDA aligns class-conditional distributions. It averages classes over domains of equal weight and divides
    every scatter by its number of terms, so its weights do not depend on the sample size:

    .. math:: (\beta F + (1 - \beta) P) B = (\gamma G + \alpha Q + K + \epsilon I) B \Gamma

    Parameters
    ----------
    n_components : int, default=None
        Number of components; None keeps all, at most ``n_classes - 1``.
    discrepancy_weight : float, default=0.5
        The paper's :math:`\beta`, between 0 and 1: average class discrepancy F against between-class scatter P.
    conditional_weight : float, default=1.0
        The paper's :math:`\gamma`, of the average domain discrepancy G.
    within_weight : float, default=1.0
        The paper's :math:`\alpha`, of the multidomain within-class scatter Q.
    {common}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    CIDG : The method it extends; G is a multiple of CIDG's H.

    References
    ----------
    S. Hu, K. Zhang, Z. Chen, L. Chan. "Domain Generalization via Multidomain Discriminant Analysis". UAI 2019.

    Examples
    --------
    >>> from unseen import MDA
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> MDA(ridge=1e-3).fit_transform(data.data, data.target, sample_domain=data.domain).shape
    (320, 2)
    """

    discrepancy_weight: float = 0.5
    conditional_weight: float = 1.0
    within_weight: float = 1.0

    _ridge_power: ClassVar[int] = 1
    _invariance_weights: ClassVar[tuple[str, ...]] = ("conditional_weight",)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Projection._parameter_constraints,
        "discrepancy_weight": [Interval(Real, 0, 1, closed="both")],
        "conditional_weight": [NON_NEGATIVE],
        "within_weight": [NON_NEGATIVE],
    }

    def _scatter_problem(self, counts: Ints, ridge: float) -> ScatterProblem:
        beta = self.discrepancy_weight
        within = self.within_weight / counts.sum()
        discrepancy = np.sqrt(beta) * mda_class_discrepancy_contrast(counts)
        between = np.sqrt(1 - beta) * mda_between_contrast(counts)
        return ScatterProblem(
            numerator=np.hstack([discrepancy, between]),
            penalties=(
                (self.conditional_weight, mda_domain_discrepancy_contrast(counts)),
                (within, cell_within_contrast(counts)),
                (within, mda_class_offset_contrast(counts)),
            ),
            within_weight=within,
            norm_weight=1.0,
            ridge=ridge,
        )
