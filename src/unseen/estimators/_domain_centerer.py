"""Transformations that know about domains but learn no components."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted, validate_data

from ..citizen import DocLinkMixin
from ..labels import check_domains, domains_by_name, encode_domains


class DomainCenterer(DocLinkMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Subtract each domain's own mean, and scale rows back to unit length.

    A simple trick that is hard to beat when domains differ by a shift. A domain that was not seen in `fit` is centred
    on the mean of the batch that is being transformed, without looking at labels: what it gives is *transductive*, it
    needs batches, and it assumes that class proportions differ little between domains.

    Parameters
    ----------
    renormalize : bool, default=True
        Whether to scale each row to unit Euclidean length after centring.

    Attributes
    ----------
    domains_ : ndarray of shape (n_domains,)
        Domains seen in `fit`; a single None if they were not named.
    means_ : ndarray of shape (n_domains, n_features)
        Their means.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, if `X` had string column names.

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

    __metadata_request__fit: ClassVar = {"sample_domain": True}
    __metadata_request__transform: ClassVar = {"sample_domain": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"renormalize": ["boolean"]}

    def __init__(self, *, renormalize: bool = True) -> None:
        self.renormalize = renormalize

    @domains_by_name
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
        if sample_domain is None:
            self.domains_, codes = np.array([None], dtype=object), np.zeros(len(X), dtype=np.intp)
        else:
            self.domains_, codes = encode_domains(check_domains(sample_domain, len(X)))
        self.means_ = np.stack([X[codes == i].mean(axis=0) for i in range(len(self.domains_))])
        return self

    def transform(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Centre each domain: one that was seen in `fit` on its mean there, a new one on its mean in this batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        sample_domain : array-like of shape (n_samples,), default=None
            The domain of each sample; None means one new domain.

        Returns
        -------
        X_centred : ndarray of shape (n_samples, n_features)
            The centred samples.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32), copy=True)
        labels = None if sample_domain is None else check_domains(sample_domain, len(X))
        names, codes = encode_domains(np.zeros(len(X)) if labels is None else labels)
        stored = {} if labels is None else dict(zip(self.domains_.tolist(), self.means_, strict=True))
        for i, name in enumerate(names.tolist()):
            rows = codes == i
            if name not in stored and rows.sum() == 1:
                which = "X" if labels is None else f"domain {name!r}"
                raise ValueError(
                    f"DomainCenterer subtracts the mean of each new domain, but {which} has a single sample, which "
                    "would become all zeros whatever it is. Transform a batch of that domain."
                )
            X[rows] -= stored[name] if name in stored else X[rows].mean(axis=0)
        return normalize(X, copy=False) if self.renormalize else X

    @domains_by_name
    def fit_transform(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Any:
        """Fit, then transform the same samples.

        Parameters
        ----------
        X, y, sample_domain
            As for `fit`.

        Returns
        -------
        X_centred : ndarray of shape (n_samples, n_features)
            The centred samples.
        """
        return self.fit(X, y, sample_domain=sample_domain).transform(X, sample_domain=sample_domain)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
