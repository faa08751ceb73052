"""KFDA: kernel Fisher discriminant analysis."""

from __future__ import annotations

from ..linalg import Ints, ScatterProblem, between_contrast, cell_within_contrast
from ..utils.estimator_mixins import keyword_parameters
from ._projection import Projection


@keyword_parameters
class KFDA(Projection):
    r"""Kernel Fisher discriminant analysis (Mika et al. 1999).

    Learns components in which classes are well separated and samples of a class are close together:

    .. math:: P B = (Q + \epsilon I) B \Gamma

    KFDA is CIDG with both invariance weights zero; only ``centering="target"`` uses domains.

    Parameters
    ----------
    n_components : int, default=None
        Number of components; None keeps all, at most ``n_classes - 1``.
    {common}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    CIDG : Adds invariance across domains.
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : The linear classifier.

    References
    ----------
    S. Mika, G. Rätsch, J. Weston, B. Schölkopf, K.-R. Müller. "Fisher discriminant analysis with kernels". NNSP 1999.

    Examples
    --------
    >>> from unseen import KFDA
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> KFDA(ridge=1e-3).fit_transform(data.data, data.target, sample_domain=data.domain).shape
    (320, 2)
    """

    def _scatter_problem(self, counts: Ints, ridge: float) -> ScatterProblem:
        return ScatterProblem(
            numerator=between_contrast(counts), penalties=((1.0, cell_within_contrast(counts)),), ridge=ridge
        )
