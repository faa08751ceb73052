"""The content of a model file: the preprocessing, the ensemble, and the novelty score of new data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators import DomainTransformer
from ..exceptions import ParameterError
from ..linalg import Array, Ints
from ..model_selection import EnsembleClassifier, is_transductive
from ..shift import Novelty
from ..utils.validation import Labels


@dataclass(eq=False)
class TableModel:
    """A fitted model of encoded tables, which `unseen.tables.Schema.encode` returns.

    Parameters
    ----------
    preprocessor : transformer
        Fitted on the source domains; a `TablePreparation` if trees take the columns of the table.
    ensemble : EnsembleClassifier
        Classifies preprocessed samples. It may have a single member.
    novelty : Novelty
        Fitted on the preprocessed source domains.
    threshold : float, default=None
        Probability of the positive class from which it is predicted, for two classes; None predicts the more probable
        class.
    positive_code : int, default=1
        Position of the positive class among the classes.

    Examples
    --------
    >>> from unseen.models import fit_table
    >>> from unseen.datasets import load_digits_table
    >>> table = load_digits_table()
    >>> model = fit_table(table, "1-NN").model
    >>> model.predict(table.X[:3]).shape
    (3,)
    """

    preprocessor: Any
    ensemble: EnsembleClassifier
    novelty: Novelty
    threshold: float | None = None
    positive_code: int = 1

    @property
    def classes_(self) -> Labels:
        """Classes in the order of the columns of `predict_proba`."""
        return self.ensemble.classes_

    @property
    def transductive(self) -> bool:
        """Whether predictions depend on the other samples of their domain."""
        return self.ensemble.transductive

    @property
    def centers_new_domains(self) -> bool:
        """Whether a member centers new domains on their samples."""
        return any(map(is_transductive, self.ensemble.members_))

    def prepare(self, X: Any) -> Array:
        """Features of encoded samples for the ensemble."""
        return np.asarray(self.preprocessor.transform(X), dtype=np.float64)

    def novelty_features(self, prepared: Array) -> Array:
        """Those of the prepared features by which the novelty of samples is scored: all but the columns for trees."""
        return prepared[:, : self.novelty.n_features_in_]

    def predict(self, X: Any, *, sample_domain: Any = None) -> Labels:
        """Predict the classes of encoded samples; a transductive model needs at least 10 of each new domain."""
        return self.predict_prepared(self.prepare(X), sample_domain)

    def predict_prepared(self, prepared: Any, sample_domain: Any = None) -> Labels:
        """Predict the classes of preprocessed samples."""
        if self.threshold is None:
            return self.ensemble.predict(prepared, sample_domain=sample_domain)
        P = self.ensemble.decision_proba(prepared, sample_domain=sample_domain)
        return self.classes_[self.decide(P)]

    def decide(self, P: Array) -> Ints:
        """Codes of the predicted classes, given the result of `decision_proba` or `combine_members` of the ensemble."""
        if self.threshold is None:
            return np.asarray(P.argmax(axis=1))
        is_positive = self.ensemble.with_natural_priors(P)[:, self.positive_code] >= self.threshold
        return np.where(is_positive, self.positive_code, 1 - self.positive_code)

    def predict_proba(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Predict class probabilities of encoded samples, for the class frequencies of the training data."""
        return self.ensemble.predict_proba(self.prepare(X), sample_domain=sample_domain)

    def check_can_center(self) -> None:
        """Raise ValueError if no member can be centered on new samples."""
        if not any(isinstance(member[0], DomainTransformer) for member in self.ensemble.members_):
            raise ParameterError(
                "centering",
                "centering='target' needs a model with a projection or a centered classifier, and this model has none. "
                "Use centering='model', or fit with method CIDG, MDA, SCA, DICA or KFDA.",
            )
