"""DomainCenterer, and the centering of domains on stored means or on the means of new samples."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted, validate_data

from ..linalg import Array, Ints, Moments
from ..utils.validation import (
    DocLinkMixin,
    EncodedLabels,
    Labels,
    keyword_parameters,
    require_named_domains,
    warn_masked_labels,
    warn_single_domain,
)

MomentsByDomain = Mapping[Any, Moments]


@dataclass(frozen=True)
class DomainCenters:
    """The centers of domains: stored means for the domains of the training data, and their own means for new domains.

    `center_batch` centers complete domains. Samples that come in pieces are read twice: the `moments` of all pieces are
    added, `check_batch_sizes` raises for a domain that cannot be centered, and `subtract` centers each piece. Samples
    without labels belong to one new domain, whose name is None.

    Parameters
    ----------
    stored_means : mapping
        Means of the domains seen in training, by name.
    owner, advice : str
        The estimator or parameter that subtracts means, and what to do if a domain has a single sample; for the error
        message.
    """

    stored_means: Mapping[Any, Array]
    owner: str
    advice: str

    def moments(self, values: Array, domain: Labels | EncodedLabels | None = None) -> dict[Any, Moments]:
        """Return the moments of the samples of each new domain, by name."""
        stored_means = self._stored_means_for(domain)
        labels = EncodedLabels.from_domains(domain, len(values))
        return {
            name: Moments.from_values(values[rows]) for name, rows in labels.iter_rows() if name not in stored_means
        }

    def check_batch_sizes(self, moments: MomentsByDomain) -> None:
        """Raise if all samples of a new domain are one sample, which cannot be centered on its own mean."""
        for name, of_domain in moments.items():
            if of_domain.count == 1:
                subject = "X" if name is None else f"domain {name!r}"
                raise ValueError(
                    f"{self.owner} subtracts the mean of each new domain, but {subject} has a single sample, which "
                    f"would become all zeros. {self.advice}"
                )

    def subtract(self, values: Array, domain: Labels | EncodedLabels | None, moments: MomentsByDomain) -> Array:
        """Center samples in place; `moments` are those of all samples of new domains."""
        stored_means = self._stored_means_for(domain)
        for name, rows in EncodedLabels.from_domains(domain, len(values)).iter_rows():
            values[rows] -= stored_means[name] if name in stored_means else moments[name].mean
        return values

    def center_batch(self, values: Array, domain: Labels | EncodedLabels | None = None) -> Array:
        """Center samples in place; they must be all samples of their domains."""
        moments = self.moments(values, domain)
        self.check_batch_sizes(moments)
        return self.subtract(values, domain, moments)

    def _stored_means_for(self, domain: Labels | EncodedLabels | None) -> Mapping[Any, Array]:
        """Return the stored means; samples without labels are a new domain, even if one was stored without a name."""
        return {} if domain is None else self.stored_means


class DomainTransformer(TransformerMixin):
    """Base class of transformers that center domains."""

    _transform_uncentered: Callable[[Any], Array]
    _domain_centers: Callable[[], DomainCenters]
    offset_: Any  # the mean to subtract if the transformer does not center batches
    __metadata_request__fit: ClassVar = {"sample_domain": True}
    __metadata_request__transform: ClassVar = {"sample_domain": True}

    def _space_key(self) -> Hashable:
        """Return a key that is equal for transformers whose outputs are combinations of the same features."""
        return id(self)

    def _transform_group_uncentered(self, group: Sequence[Any], X: Any) -> list[Array]:
        """Return the uncentered outputs of all transformers of a group that has the same `_space_key`."""
        return [self._transform_uncentered(X)]

    def _centers_batches(self) -> bool:
        """Whether the subtracted mean depends on the samples to transform."""
        return True

    def _scale(self, Z: Array) -> Array:
        """Scale samples after they are centered."""
        return Z

    @require_named_domains
    def fit_transform(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Any:
        """Fit, then transform the same samples.

        Parameters
        ----------
        X, y, sample_domain
            As for `fit`.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features or n_components)
            The training samples as `transform` gives them.
        """
        return self.fit(X, y, sample_domain=sample_domain).transform(X, sample_domain=sample_domain)


def warn_about_labels(classes: Labels, domains: Labels, counts: Ints, estimator: BaseEstimator) -> None:
    """Warn about a single domain, and about domains whose labels look masked."""
    warn_single_domain(domains, type(estimator).__name__)
    warn_masked_labels(classes, domains, counts, type(estimator).__name__)


def get_domain_centers(transformer: DomainTransformer) -> DomainCenters:
    """Return the centers of a fitted transformer."""
    return transformer._domain_centers()


def centers_batches(transformer: DomainTransformer) -> bool:
    """Whether a fitted transformer subtracts a mean of the samples that it transforms.

    A projection with ``centering="target"`` does not after `recenter`.
    """
    return transformer._centers_batches()


def transform_all_without_centering(transformers: Sequence[DomainTransformer], X: Any) -> list[Array]:
    """Return the outputs of several transformers before centering; kernel values or features are computed once."""
    keys = [transformer._space_key() for transformer in transformers]
    outputs: dict[int, Array] = {}
    for key in dict.fromkeys(keys):
        positions = [i for i, other in enumerate(keys) if other == key]
        group = [transformers[i] for i in positions]
        outputs |= zip(positions, group[0]._transform_group_uncentered(group, X), strict=True)
    return [outputs[i] for i in range(len(keys))]


def apply_centering(
    transformer: DomainTransformer,
    Z: Array,
    domain: Labels | EncodedLabels | None,
    moments: MomentsByDomain | None = None,
) -> Array:
    """Center and scale the output of a transformer before centering.

    `moments` are those of all samples of new domains; None means that `Z` holds all of them.
    """
    if moments is not None:
        transformer._domain_centers().subtract(Z, domain, moments)
    elif transformer._centers_batches():
        transformer._domain_centers().center_batch(Z, domain)
    else:
        Z -= transformer.offset_
    return transformer._scale(Z)


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
        return apply_centering(self, self._transform_uncentered(X), sample_domain)

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
