"""What a model file holds: preparation of the features, the pool of models, and where the sources lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators import DomainTransformer
from ..linalg import Array
from ..model_selection import EnsembleClassifier, is_transductive
from ..shift import Novelty
from ..utils.validation import Labels


@dataclass(eq=False)
class TableModel:
    """A fitted model for encoded tables, as `unseen.tables.Schema.encode` gives them.

    Parameters
    ----------
    preprocessor : transformer
        Fitted on the sources.
    pool : Pool
        What classifies prepared samples: many members, or one.
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
    pool: EnsembleClassifier
    novelty: Novelty

    @property
    def classes_(self) -> Labels:
        """The classes, in the order of the columns of `predict_proba`."""
        return self.pool.classes_

    @property
    def transductive(self) -> bool:
        """Whether predictions depend on the other samples of their domain."""
        return self.pool.transductive

    @property
    def centers(self) -> bool:
        """Whether a member centers new domains on their own samples."""
        return any(map(is_transductive, self.pool.members_))

    def prepare(self, X: Any) -> Array:
        """Encoded samples as the model and the novelty see them."""
        return np.asarray(self.preprocessor.transform(X), dtype=np.float64)

    def predict(self, X: Any, *, sample_domain: Any = None) -> Labels:
        """Classify encoded samples; a transductive model needs at least 10 of each new domain."""
        return self.pool.predict(self.prepare(X), sample_domain=sample_domain)

    def predict_proba(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Class probabilities of encoded samples, which refer to the natural class frequencies."""
        return self.pool.predict_proba(self.prepare(X), sample_domain=sample_domain)

    def require_center(self) -> None:
        """Raise if there is nothing in the model that could be centered on new samples."""
        if not any(isinstance(member[0], DomainTransformer) for member in self.pool.members_):
            raise ValueError(
                "The model has no center to move: only projections and centered classifiers do. Leave the centering "
                "out, "
                "or fit with --method CIDG, MDA, SCA, DICA or KFDA."
            )
