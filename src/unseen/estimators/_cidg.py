"""CIDG: conditional invariant domain generalization."""

from __future__ import annotations

from typing import Any, ClassVar

from ..linalg import (
    Ints,
    ScatterProblem,
    between_contrast,
    cell_within_contrast,
    conditional_contrast,
    prior_normalized_contrast,
)
from ..utils.estimator_mixins import keyword_parameters
from ._projection import NON_NEGATIVE, Projection


@keyword_parameters
class CIDG(Projection):
    r"""Conditional invariant domain generalization (Li et al., AAAI 2018).

    Learns components in which classes are well separated, samples of a class are close together, and the distribution
    of each class is the same in every domain: the leading generalized eigenvectors of

    .. math:: P B = (\gamma H + \alpha L + Q + \kappa K + \epsilon I) B \Gamma

    with between-class scatter P, within-class scatter Q, scatter of the class-conditional means over domains H and
    scatter of the prior-normalized domain means L.

    Parameters
    ----------
    n_components : int, default=None
        Number of components; None keeps all, at most ``n_classes - 1``.
    conditional_weight : float, "scale" or a multiple such as "10*scale", default="scale"
        The paper's :math:`\gamma`. Q is a sum over samples and H is not, so a useful weight grows with the number of
        samples: "scale" is ``n_samples``.
    prior_weight : float, "scale" or a multiple such as "10*scale", default="scale"
        The paper's :math:`\alpha`; "scale" as above.
    norm_weight : float, default=0.0
        Weight :math:`\kappa` of the RKHS norm: 0 in the paper, 1 in its authors' released code.
    {common}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    KFDA : CIDG without the invariance terms.
    MDA : A later method with domain-balanced class means.

    References
    ----------
    Y. Li, M. Gong, X. Tian, T. Liu, D. Tao. "Domain Generalization via Conditional Invariant Representations". AAAI
    2018.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from unseen import CIDG
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> seen = data.domain != "domain 3"
    >>> cidg = CIDG(conditional_weight=1e3, prior_weight=1e3, ridge=1e-3, centering="target")
    >>> Z = cidg.fit_transform(data.data[seen], data.target[seen], sample_domain=data.domain[seen])
    >>> Z.shape
    (200, 2)
    >>> one_nn = KNeighborsClassifier(1).fit(Z, data.target[seen])
    >>> accuracy = one_nn.score(cidg.transform(data.data[~seen]), data.target[~seen])
    """

    conditional_weight: float | str = "scale"
    prior_weight: float | str = "scale"
    norm_weight: float = 0.0

    _invariance_weights: ClassVar[tuple[str, ...]] = ("conditional_weight", "prior_weight")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Projection._parameter_constraints,
        "conditional_weight": [NON_NEGATIVE, str],
        "prior_weight": [NON_NEGATIVE, str],
        "norm_weight": [NON_NEGATIVE],
    }

    def _scatter_problem(self, counts: Ints, ridge: float) -> ScatterProblem:
        return ScatterProblem(
            numerator=between_contrast(counts),
            penalties=(
                (self._weight("conditional_weight", counts), conditional_contrast(counts)),
                (self._weight("prior_weight", counts), prior_normalized_contrast(counts)),
                (1.0, cell_within_contrast(counts)),
            ),
            norm_weight=self.norm_weight,
            ridge=ridge,
        )
