"""DomainCenterer: subtract the mean of each domain."""

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
    """Subtract the mean of each domain, and scale rows of unit length back to unit length.

    A simple method that works well if domains differ by a shift. A domain that was not seen in `fit` is centered on the
    mean of the batch to transform, without labels. The result is *transductive*: it requires batches, and it assumes
    that class proportions differ little between domains.

    Parameters
    ----------
    renormalize : bool or "auto", default="auto"
        Whether to scale each row to unit Euclidean length after centering; "auto" does so if all rows have unit length
        in `fit`.

    Attributes
    ----------
    domains_ : ndarray of shape (n_domains,)
        Domains seen in `fit`; a single None if they were not named.
    means_ : ndarray of shape (n_domains, n_features)
        Mean of each domain.
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

    renormalize: bool | Literal["auto"] = "auto"

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
        if self.renormalize == "auto":
            # Rows of unit length are directions; otherwise the length of a row carries information.
            self.renormalizes_ = bool(np.allclose(row_norms(X, squared=True), 1.0, rtol=0, atol=1e-5))
        else:
            self.renormalizes_ = bool(self.renormalize)
        return self

    def transform(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Center each domain: a domain of `fit` on its mean in `fit`, a new domain on its mean in X.

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
        Z = self._domain_centers().center_batch(self._transform_uncentered(X), sample_domain)
        return self._scale(Z)

    def _scale(self, Z: Array) -> Array:
        if not self.renormalizes_:
            return Z
        # Scaling by powers of two, which is exact, keeps the squares from overflow and underflow.
        _, exponent = np.frexp(np.abs(Z).max(axis=1, keepdims=True))
        return normalize(np.ldexp(Z, -exponent, out=Z), copy=False)

    def _transform_uncentered(self, X: Any) -> Array:
        return validate_data(self, X, reset=False, dtype=(np.float64, np.float32), copy=True)

    def _domain_centers(self) -> DomainCenters:
        check_is_fitted(self)
        stored = dict(zip(self.domains_.tolist(), self.means_, strict=True))
        return DomainCenters(stored, "DomainCenterer", "Transform a batch of that domain.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
