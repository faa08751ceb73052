"""The projections: KFDA, and CIDG, MDA, SCA and DICA, which add invariance across domains."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from ..linalg import (
    Ints,
    ScatterProblem,
    between_contrast,
    cell_within_contrast,
    conditional_contrast,
    dica_output_contrast,
    domain_contrast,
    mda_between_contrast,
    mda_class_discrepancy_contrast,
    mda_class_offset_contrast,
    mda_domain_discrepancy_contrast,
    prior_normalized_contrast,
)
from ..utils.validation import keyword_parameters
from ._projection import NON_NEGATIVE, Projection


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

    _ridge_power: ClassVar[int] = 1
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Projection._parameter_constraints,
        "supervised": ["boolean"],
        "output_ridge": [Interval(Real, 0, None, closed="neither")],
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
        )
