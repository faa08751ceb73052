"""SCA: scatter component analysis."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from ..linalg import Ints, ScatterProblem, between_contrast, cell_within_contrast, domain_contrast
from ..utils.estimator_mixins import keyword_parameters
from ._projection import NON_NEGATIVE, Projection


@keyword_parameters
class SCA(Projection):
    r"""Scatter component analysis (Ghifary et al. 2017).

    Learns components with large total and between-class scatter and small domain and within-class scatter:

    .. math:: \left(\frac{1 - \beta}{n} K^2 + \beta P\right) B = (\delta D + K + Q + \epsilon I) B \Gamma

    where D is the scatter of the domain means. SCA aligns the marginal distributions without regard to classes, which
    is wrong if class proportions differ between domains.

    Parameters
    ----------
    n_components : int, default=None
        Number of components; None means ``2 * (n_classes - 1)``, because the total scatter has many more.
    between_weight : float, default=0.5
        The paper's :math:`\beta`, between 0 and 1: between-class against total scatter.
    domain_weight : float, "scale" or a multiple such as "10*scale", default="scale"
        The paper's :math:`\delta`; "scale" is ``n_samples``, on the scale of the within-class scatter.
    {common}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    CIDG : Aligns class-conditional distributions instead.
    DICA : Aligns marginal distributions without within-class scatter.

    References
    ----------
    M. Ghifary, D. Balduzzi, W. B. Kleijn, M. Zhang. "Scatter Component Analysis: A Unified Framework for Domain
    Adaptation and Domain Generalization". IEEE TPAMI 39(7), 2017.

    Examples
    --------
    >>> from unseen import SCA
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> SCA(ridge=1e-3).fit_transform(data.data, data.target, sample_domain=data.domain).shape
    (320, 4)
    """

    between_weight: float = 0.5
    domain_weight: float | str = "scale"

    _invariance_weights: ClassVar[tuple[str, ...]] = ("domain_weight",)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Projection._parameter_constraints,
        "between_weight": [Interval(Real, 0, 1, closed="both")],
        "domain_weight": [NON_NEGATIVE, str],
    }

    def _default_components(self, counts: Ints) -> int:
        return 2 * (counts.shape[1] - 1)

    def _scatter_problem(self, counts: Ints, ridge: float) -> ScatterProblem:
        return ScatterProblem(
            numerator=self.between_weight**0.5 * between_contrast(counts),
            total_weight=(1 - self.between_weight) / counts.sum(),
            penalties=(
                (self._weight("domain_weight", counts), domain_contrast(counts)),
                (1.0, cell_within_contrast(counts)),
            ),
            norm_weight=1.0,
            ridge=ridge,
        )
