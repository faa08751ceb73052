"""Transformations that know about domains but learn no components."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted, validate_data

from ..linalg import Array
from ..utils.estimator_mixins import DocLinkMixin, keyword_parameters
from ..utils.validation import EncodedLabels, require_named_domains
from ._domain_centering import DomainCenters, DomainTransformer


@keyword_parameters
class DomainCenterer(DocLinkMixin, OneToOneFeatureMixin, DomainTransformer, BaseEstimator):
    """Subtract each domain's own mean, and scale rows back to unit length.

    A simple trick that is hard to beat when domains differ by a shift. A domain that was not seen in `fit` is centered
    on the mean of the batch that is being transformed, without looking at labels: what it gives is *transductive*, it
    needs batches, and it assumes that class proportions differ little between domains.

    Parameters
    ----------
    renormalize : bool or "auto", default=True
        Whether to scale each row to unit Euclidean length after centering; "auto" does so if all rows had it in `fit`.

    Attributes
    ----------
    domains_ : ndarray of shape (n_domains,)
        Domains seen in `fit`; a single None if they were not named.
    means_ : ndarray of shape (n_domains, n_features)
        Their means.
    renormalizes_ : bool
        Whether rows are scaled.
    {features_in}

    Examples
    --------
    >>> from unseen import DomainCenterer
    >>> X, domain = [[0.0, 1.0], [2.0, 1.0], [9.0, 5.0], [9.0, 7.0]], ["a", "a", "b", "b"]
    >>> DomainCenterer().fit_transform(X, sample_domain=domain)
    array([[-1.,  0.],
           [ 1.,  0.],
           [ 0., -1.],
           [ 0.,  1.]])
    """

    renormalize: bool | Literal["auto"] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"renormalize": ["boolean", StrOptions({"auto"})]}

    @require_named_domains
    def fit(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Self:
        """Store the mean of each domain.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : None
            Not used.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample; None means one domain.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        self._validate_params()
        X = validate_data(self, X, dtype=(np.float64, np.float32))
        domains = EncodedLabels.from_domains(sample_domain, len(X))
        self.domains_ = domains.names
        self.means_ = np.stack([X[rows].mean(axis=0) for _, rows in domains.iter_rows()])
        # Rows that are directions stay so; in other units the length of a row says something.
        unit = self.renormalize == "auto" and np.allclose(row_norms(X, squared=True), 1.0, rtol=0, atol=1e-5)
        self.renormalizes_ = bool(unit) if self.renormalize == "auto" else bool(self.renormalize)
        return self

    def transform(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Center each domain: one that was seen in `fit` on its mean there, a new one on its mean in this batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample; None means one new domain.

        Returns
        -------
        X_centered : ndarray of shape (n_samples, n_features)
            The centered samples.
        """
        Z = self._centering().of_batch(self._uncentered(X), sample_domain)
        return self._scaled(Z)

    def _scaled(self, Z: Array) -> Array:
        if not self.renormalizes_:
            return Z
        # Rows to the size of one, by powers of two, which round nothing: then their squares are numbers.
        _, size = np.frexp(np.abs(Z).max(axis=1, keepdims=True))
        return normalize(np.ldexp(Z, -size, out=Z), copy=False)

    def _uncentered(self, X: Any) -> Array:
        return validate_data(self, X, reset=False, dtype=(np.float64, np.float32), copy=True)

    def _centering(self) -> DomainCenters:
        check_is_fitted(self)
        stored = dict(zip(self.domains_.tolist(), self.means_, strict=True))
        return DomainCenters(stored, "DomainCenterer", "Transform a batch of that domain.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
