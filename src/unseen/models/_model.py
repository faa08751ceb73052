"""What a model file holds: preparation of the features, the chosen model, and where the sources lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import normalize

from ..algebra import Array, Moments
from ..estimators import Centring, DomainCenterer, Projection, centring_of, uncentred
from ..labels import Labels
from ..selection import is_one_nearest, is_transductive, nearest, placed, seen_by_classifier
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
        return is_transductive(self.pipeline)

    @property
    def has_probabilities(self) -> bool:
        """Whether the classifier gives probabilities."""
        return hasattr(self.pipeline[-1], "predict_proba")

    def prepare(self, X: Any) -> Array:
        """Encoded samples as the model and the novelty see them."""
        return np.asarray(self.preprocessor.transform(X), dtype=np.float64)

    def represent(self, prepared: Array, sample_domain: Any = None) -> Any:
        """Prepared samples as the classifier sees them."""
        return seen_by_classifier(self.pipeline, prepared, sample_domain)

    def predict(self, X: Any, *, sample_domain: Any = None) -> Labels:
        """Classify encoded samples; a transductive model needs whole batches of each new domain."""
        return self.classify(self.represent(self.prepare(X), sample_domain), sample_domain)[0]

    def predict_proba(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Class probabilities of encoded samples, if the classifier has them."""
        classifier, Z = placed(self.pipeline[-1], self.represent(self.prepare(X), sample_domain), sample_domain)
        return classifier.predict_proba(Z)

    def classify(self, Z: Any, sample_domain: Any = None) -> tuple[Labels, Array | None]:
        """Classes of transformed samples, and their probabilities if the classifier has them."""
        classifier, Z = placed(self.pipeline[-1], Z, sample_domain)
        if is_one_nearest(classifier):  # sooner, and once for both
            codes = classifier._y[nearest(classifier._fit_X, np.asarray(Z, dtype=np.float64))]
            return self.classes_[codes], np.eye(len(self.classes_))[codes]
        return classifier.predict(Z), classifier.predict_proba(Z) if self.has_probabilities else None

    def centring(self) -> Centring:
        """How new domains are centred on their own samples, whatever pieces these come in."""
        if not isinstance(self.transformer, (DomainCenterer, Projection)):
            if self.transductive:
                raise ValueError(
                    "A step inside the model looks at all samples of a new domain, which a table that is read in "
                    "pieces does not give it. Use load_model(file).predict(table), or fit a pipeline of two steps: the "
                    "projection or DomainCenterer, then the classifier."
                )
            raise ValueError(
                "The model has no centre to move: only projections and centred classifiers do. Leave the centring out, "
                "or fit with --method CIDG, MDA, SCA, DICA or KFDA."
            )
        advice = "Predict a batch of that domain, or fit with --inductive."
        return replace(centring_of(self.transformer), who="Centring", advice=advice, nameless="the new table")

    def uncentred(self, prepared: Array) -> Array:
        """Prepared samples before they are centred, for the moments of their `centring`."""
        return uncentred(self.transformer, prepared)

    def centred(self, prepared: Array, domain: Labels | None, centres: Mapping[Any, Moments]) -> Array:
        """Prepared samples as the classifier sees them, new domains centred by the moments of all their pieces.

        That is what the transformer gives for whole batches under target centring, without ever holding one. Domains
        seen in training keep the centre that they had there.
        """
        Z = self.centring().subtract(self.uncentred(prepared), domain, centres)
        return normalize(Z, copy=False) if getattr(self.transformer, "renormalize", False) else Z
