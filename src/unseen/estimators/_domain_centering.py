"""Centering: which mean is subtracted from the samples of a domain, wherever and in whatever pieces they are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.base import TransformerMixin

from ..linalg import Array, Moments
from ..utils.validation import EncodedLabels, Labels, require_named_domains

Centers = Mapping[Any, Moments] | None


@dataclass(frozen=True)
class DomainCenters:
    """Domains seen in training keep the mean that is stored for them; each new one is centered on its own.

    A batch is centered at once by `of_batch`. Samples in pieces, here or on a cluster, are read twice: `moments` of all
    pieces are pooled, `require_batches` refuses what cannot be centered, and `subtract` centers each piece. Without
    labels samples are of one new domain, whose name is None.

    Parameters
    ----------
    stored : mapping
        Means of the domains seen in training, by name.
    who, advice : str
        Who subtracts means, and what to do if there is a single sample to take one of.
    nameless : str, default="X"
        What samples without labels are called.
    """

    stored: Mapping[Any, Array]
    who: str
    advice: str
    nameless: str = "X"

    def moments(self, values: Array, domain: Labels | EncodedLabels | None = None) -> dict[Any, Moments]:
        """What samples tell about the means of new domains, by name."""
        coded, known = self._of(values, domain)
        return {name: Moments.from_values(values[rows]) for name, rows in coded.iter_rows() if name not in known}

    def require_batches(self, found: Mapping[Any, Moments]) -> None:
        """Raise for a new domain that cannot be centered on itself, once all its samples have been found."""
        for name, moments in found.items():
            if moments.count == 1:
                which = self.nameless if name is None else f"domain {name!r}"
                raise ValueError(
                    f"{self.who} subtracts the mean of each new domain, but {which} has a single sample, which would "
                    f"become all zeros whatever it is. {self.advice}"
                )

    def subtract(self, values: Array, domain: Labels | EncodedLabels | None, found: Mapping[Any, Moments]) -> Array:
        """Center samples in place."""
        coded, known = self._of(values, domain)
        for name, rows in coded.iter_rows():
            values[rows] -= known[name] if name in known else found[name].mean
        return values

    def of_batch(self, values: Array, domain: Labels | EncodedLabels | None = None) -> Array:
        """Center all samples that there are of their domains in place."""
        found = self.moments(values, domain)
        self.require_batches(found)
        return self.subtract(values, domain, found)

    def _of(self, values: Array, domain: Labels | EncodedLabels | None) -> tuple[EncodedLabels, Mapping[Any, Array]]:
        return EncodedLabels.from_domains(domain, len(values)), {} if domain is None else self.stored


class DomainTransformer(TransformerMixin):
    """A transformer that centers domains; a subclass says how."""

    _uncentered: Callable[[Any], Array]
    _centering: Callable[[], DomainCenters]
    offset_: Any  # what is subtracted where nothing is centered on new samples
    __metadata_request__fit: ClassVar = {"sample_domain": True}
    __metadata_request__transform: ClassVar = {"sample_domain": True}

    def _place(self) -> Hashable:
        """What transformers agree on whose uncentered samples are combinations of the same things."""
        return id(self)

    def _uncentered_beside(self, others: Sequence[Any], X: Any) -> list[Array]:
        """Uncentered samples of others in the same place, which are all that there are beside this one."""
        return [self._uncentered(X)]

    def _centers_batches(self) -> bool:
        """Whether what is subtracted depends on the samples that are transformed."""
        return True

    def _scaled(self, Z: Array) -> Array:
        """What is done to samples once they are centered."""
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
    """Samples as a fitted transformer has them before it centers them, in an array of their own."""
    return transformer._uncentered(X)


def get_domain_centers(transformer: DomainTransformer) -> DomainCenters:
    """How a fitted transformer centers the samples of domains."""
    return transformer._centering()


def centers_batches(transformer: DomainTransformer) -> bool:
    """Whether a fitted transformer subtracts a mean of the samples that it transforms.

    A projection that was fitted with ``centering="target"`` does not, once it is `recentered`.
    """
    return transformer._centers_batches()


def transform_all_without_centering(transformers: Sequence[DomainTransformer], X: Any) -> list[Array]:
    """The same for several transformers: those that know the same samples look at new ones once."""
    places, found = [transformer._place() for transformer in transformers], dict[int, Array]()
    for place in dict.fromkeys(places):
        alike = [i for i, own in enumerate(places) if own == place]
        values = transformers[alike[0]]._uncentered_beside([transformers[i] for i in alike], X)
        found |= dict(zip(alike, values, strict=True))
    return [found[i] for i in range(len(places))]


def apply_centering(
    transformer: DomainTransformer, Z: Array, domain: Labels | EncodedLabels | None, found: Centers = None
) -> Array:
    """Finish what `uncentered` began: domains that are centered on new samples have been `found`, or are here."""
    if found is not None:
        get_domain_centers(transformer).subtract(Z, domain, found)
    elif transformer._centers_batches():
        get_domain_centers(transformer).of_batch(Z, domain)
    else:
        Z -= transformer.offset_
    return transformer._scaled(Z)
