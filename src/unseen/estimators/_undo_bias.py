"""Undo-Bias: a linear SVM with shared weights and an offset for each domain."""

from __future__ import annotations

import threading
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from ..linalg import Array, Ints, Membership, check_squares, largest_entry
from ..utils.validation import (
    DocLinkMixin,
    EncodedLabels,
    check_weights,
    encode_classes,
    keyword_parameters,
    require_named_domains,
)
from ._domain_centering import warn_about_labels

BIAS = 10.0  # a column this large makes the penalty on its weight, hence on the intercept, negligible
POSITIVE = Interval(Real, 0, None, closed="neither")
LIBLINEAR = threading.Lock()  # liblinear has one random state per process, which concurrent fits would share


@keyword_parameters
class UndoBias(DocLinkMixin, LinearClassifierMixin, BaseEstimator):
    r"""Linear SVM with a shared weight vector and one offset per domain (Khosla et al., ECCV 2012).

    For each class against the rest it minimizes

    .. math:: \tfrac12 \|w\|^2 + \tfrac{\lambda}{2} \sum_s \|\delta_s\|^2 + C_1 \sum_i \ell(y_i\, w^\top x_i)
              + C_2 \sum_i \ell(y_i (w + \delta_{s_i})^\top x_i)

    with the hinge loss. A domain that was never seen is classified with w alone. Features are standardized first.

    Parameters
    ----------
    shared_cost : float, default=1.0
        The paper's :math:`C_1`, cost of errors of the shared vector.
    domain_cost : float, default=1.0
        The paper's :math:`C_2`, cost of errors of the vectors of the domains.
    offset_penalty : float, default=1.0
        The paper's :math:`\lambda`; larger values make the domains more similar.
    tol : float, default=1e-4
        Tolerance of liblinear's stopping rule.
    max_iter : int, default=100000
        Maximum number of liblinear's passes over the data.
    random_state : int, RandomState instance or None, default=0
        Seed of liblinear's coordinate order. Concurrent fits in several threads run one after the other, because
        liblinear has one random generator per process; other users of liblinear, such as `LinearSVC`, are not locked.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    domains_ : ndarray of shape (n_domains,)
        Domains seen in training; a single None if they were not named.
    coef_ : ndarray of shape (1 or n_classes, n_features)
        Shared weights w, for X as given; one row if there are two classes.
    intercept_ : ndarray of shape (1 or n_classes,)
        Intercepts of the shared vectors.
    domain_coef_ : ndarray of shape (n_domains, 1 or n_classes, n_features)
        Offsets of each domain: the weights of domain s are ``coef_ + domain_coef_[s]``.
    domain_intercept_ : ndarray of shape (n_domains, 1 or n_classes)
        Offsets of the intercepts.
    n_iter_ : int
        Maximum number of passes of liblinear over the data, over all classes.
    {features_in}

    References
    ----------
    A. Khosla, T. Zhou, T. Malisiewicz, A. A. Efros, A. Torralba. "Undoing the Damage of Dataset Bias". ECCV 2012.

    Examples
    --------
    >>> from unseen import UndoBias
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> seen = data.domain != "domain 3"
    >>> model = UndoBias().fit(data.data[seen], data.target[seen], sample_domain=data.domain[seen])
    >>> model.predict(data.data[~seen]).shape
    (120,)
    """

    shared_cost: float = 1.0
    domain_cost: float = 1.0
    offset_penalty: float = 1.0
    tol: float = 1e-4
    max_iter: int = 100_000
    random_state: Any = 0

    __metadata_request__fit: ClassVar = {"sample_domain": True, "sample_weight": True}
    __metadata_request__score: ClassVar = {"sample_weight": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "shared_cost": [POSITIVE],
        "domain_cost": [POSITIVE],
        "offset_penalty": [POSITIVE],
        "tol": [POSITIVE],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    @require_named_domains
    def fit(self, X: Any, y: Any, *, sample_domain: Any = None, sample_weight: Any = None) -> Self:
        """Fit the shared vector and the offsets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples of all source domains.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample; None means one domain, with a `SingleDomainWarning`.
        sample_weight : array-like of shape (n_samples,), default=None
            Factor of both losses of a sample, and its weight in the standardization; None means 1.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=np.float64)
        classes, codes = encode_classes(y, type(self).__name__)
        domains = EncodedLabels.from_domains(sample_domain, len(X))
        warn_about_labels(classes, domains.names, Membership.from_codes(codes, domains.codes).counts, self)
        weight = check_weights(sample_weight, len(X))
        check_squares(largest_entry(X))
        scaler = StandardScaler().fit(X, sample_weight=weight)
        standard = np.hstack([scaler.transform(X), np.full((len(X), 1), BIAS)])
        rows = augment_by_domain(standard, domains.codes, len(domains.names), self.offset_penalty)
        weight_or_one = np.ones(len(X)) if weight is None else weight
        costs = np.concatenate([self.shared_cost * weight_or_one, self.domain_cost * weight_or_one])
        svm = LinearSVC(
            loss="hinge", fit_intercept=False, tol=self.tol, max_iter=self.max_iter, random_state=self.random_state
        )
        with LIBLINEAR:
            svm.fit(rows, np.concatenate([y, y]), sample_weight=costs)

        blocks = svm.coef_.reshape(len(svm.coef_), 1 + len(domains.names), -1)  # shared, then one per domain
        weights = blocks[:, :, :-1] / scaler.scale_
        intercepts = BIAS * blocks[:, :, -1] - weights @ scaler.mean_
        self.classes_ = classes
        self.domains_ = domains.names
        self.coef_ = weights[:, 0]
        self.intercept_ = intercepts[:, 0]
        self.n_iter_ = int(svm.n_iter_)
        offset_scale = 1 / np.sqrt(self.offset_penalty)
        self.domain_coef_ = offset_scale * weights[:, 1:].swapaxes(0, 1)
        self.domain_intercept_ = offset_scale * intercepts[:, 1:].T
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")  # a fit that failed has set the number of features


def augment_by_domain(X: Array, domain: Ints, n_domains: int, offset_penalty: float) -> sparse.csr_array:
    """Return rows [x, 0] and rows [x, x / sqrt(lambda) in the block of the domain], on which an SVM is Undo-Bias."""
    shared = sparse.csr_array(X)
    members = [sparse.csr_array(X * (domain == s)[:, None] / np.sqrt(offset_penalty)) for s in range(n_domains)]
    return sparse.block_array([[shared, None], [shared, sparse.hstack(members)]], format="csr")
