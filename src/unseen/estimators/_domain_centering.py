"""Centering of domains on stored means or on the means of new samples, in batches or in pieces."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.base import TransformerMixin

from ..linalg import Array, Moments
from ..utils.validation import EncodedLabels, Labels, require_named_domains

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
    unnamed : str, default="X"
        Name of samples without labels in the error message.
    """

    stored_means: Mapping[Any, Array]
    owner: str
    advice: str
    unnamed: str = "X"

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
                subject = self.unnamed if name is None else f"domain {name!r}"
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


def transform_without_centering(transformer: DomainTransformer, X: Any) -> Array:
    """Return the output of a fitted transformer before centering, as a new array."""
    return transformer._transform_uncentered(X)


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
    """Center and scale the output of `transform_without_centering`.

    `moments` are those of all samples of new domains; None means that `Z` holds all of them.
    """
    if moments is not None:
        transformer._domain_centers().subtract(Z, domain, moments)
    elif transformer._centers_batches():
        transformer._domain_centers().center_batch(Z, domain)
    else:
        Z -= transformer.offset_
    return transformer._scale(Z)
