"""What a model file holds: preparation of the features, the chosen model, and where the sources lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import normalize

from ..algebra import Array, Moments
from ..estimators import DomainCenterer, Projection, centring_of, uncentred
from ..labels import Labels
from ..selection import is_one_nearest, nearest
from ..shift import Novelty


@dataclass(eq=False)
class TableModel:
    """A fitted model for encoded tables, as `unseen.tables.Schema.encode` gives them.

    Parameters
    ----------
    preprocessor : transformer
        Fitted on the sources.
    pipeline : Pipeline
        At most one transformer that knows about domains, a projection or a DomainCenterer, then a classifier.
    novelty : Novelty
        Fitted on the prepared sources.

    Examples
    --------
    >>> from unseen.models import fit_table
    >>> from unseen.datasets import embedded
    >>> table = embedded()
    >>> model = fit_table(table, "1NN").model
    >>> model.predict(table.X[:3]).shape
    (3,)
    """

    preprocessor: Any
    pipeline: Pipeline
    novelty: Novelty

    @property
    def classes_(self) -> Labels:
        """The classes, in the order of the columns of `predict_proba`."""
        return self.pipeline[-1].classes_

    @property
    def transformer(self) -> Any:
        """The projection or centerer in front of the classifier; None if there is none."""
        return self.pipeline[0] if len(self.pipeline) > 1 else None

    @property
    def transductive(self) -> bool:
        """Whether predictions depend on the other samples of their domain."""
        return isinstance(self.transformer, DomainCenterer) or getattr(self.transformer, "centering", "") == "target"

    @property
    def has_probabilities(self) -> bool:
        """Whether the classifier gives probabilities."""
        return hasattr(self.pipeline[-1], "predict_proba")

    def prepare(self, X: Any) -> Array:
        """Encoded samples as the model and the novelty see them."""
        return np.asarray(self.preprocessor.transform(X), dtype=np.float64)

    def transform(self, prepared: Array, sample_domain: Any = None) -> Any:
        """Prepared samples as the classifier sees them."""
        there = self.transformer is not None
        return self.transformer.transform(prepared, sample_domain=sample_domain) if there else prepared

    def predict(self, X: Any, *, sample_domain: Any = None) -> Labels:
        """Classify encoded samples; a transductive model needs whole batches of each new domain."""
        return self.classify(self.transform(self.prepare(X), sample_domain))[0]

    def predict_proba(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Class probabilities of encoded samples, if the classifier has them."""
        return self.pipeline[-1].predict_proba(self.transform(self.prepare(X), sample_domain))

    def classify(self, Z: Any) -> tuple[Labels, Array | None]:
        """Classes of transformed samples, and their probabilities if the classifier has them."""
        classifier = self.pipeline[-1]
        if is_one_nearest(classifier):  # sooner, and once for both
            codes = classifier._y[nearest(classifier._fit_X, np.asarray(Z, dtype=np.float64))]
            return self.classes_[codes], np.eye(len(self.classes_))[codes]
        return classifier.predict(Z), classifier.predict_proba(Z) if self.has_probabilities else None


class Centres:
    """Centring on new domains whose samples arrive in pieces: `settle` the `moments` of all, then `transform` them.

    Gives what the model's transformer gives for whole batches under target centring, without ever holding one: a new
    domain's centre is the mean of its pieces' means. Domains seen in training keep the centre that they had there.
    """

    def __init__(self, model: TableModel) -> None:
        transformer = model.transformer
        if not isinstance(transformer, (DomainCenterer, Projection)):
            raise ValueError(
                "The model has no centre to move: only projections and centred classifiers do. Leave the centring out, "
                "or fit with --method cidg, mda, sca, dica or kfda."
            )
        self._transformer = transformer
        self._centring = replace(
            centring_of(transformer),
            who="Centring",
            advice="Predict a batch of that domain, or fit with --inductive.",
            nameless="the new table",
        )
        self._found: Mapping[Any, Moments] = {}

    def moments(self, prepared: Array, domain: Labels | None = None) -> dict[Any, Moments]:
        """What prepared samples tell about the centres of their domains, by name; without names they are of one."""
        return self._centring.moments(uncentred(self._transformer, prepared), domain)

    def settle(self, found: Mapping[Any, Moments]) -> None:
        """Take in what all samples of the first pass told, wherever they are; refuse domains that cannot be centred."""
        self._centring.require_batches(found)
        self._found = found

    def transform(self, prepared: Array, domain: Labels | None = None) -> Array:
        """Centre prepared samples of the second pass, and project them if the model does."""
        Z = self._centring.subtract(uncentred(self._transformer, prepared), domain, self._found)
        return normalize(Z, copy=False) if getattr(self._transformer, "renormalize", False) else Z
