"""The content of a model file: the preprocessing, the ensemble, and the novelty score of new data; its coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler

from ..linalg import Array, Ints
from ..model_selection import EnsembleClassifier, is_transductive
from ..shift import Novelty
from ..tables import Column, Schema, TablePreparation
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
    >>> import unseen
    >>> from unseen.datasets import load_hospitals
    >>> hospitals, _ = load_hospitals()
    >>> features = ["age", "temperature", "heart_rate", "crp"]
    >>> model = unseen.fit(hospitals, label="diagnosis", domain="hospital", features=features, methods="1-NN")
    >>> model.estimator.classes_.tolist()
    ['bacterial', 'viral']
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
        prepared = self.prepare(X)
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


INTERCEPT = "(intercept)"


@dataclass(frozen=True)
class Term:
    """A prepared feature, (term - center) / scale.

    Attributes
    ----------
    column : str
        Column of the table; None for the intercept.
    term : str
        What is computed of its values: the column itself, a logarithm, or an indicator that is 1 or 0.
    center, scale : float
        The feature is the term less `center`, divided by `scale`.
    if_missing : float or None
        Value that replaces missing values of the column; None for indicators.
    """

    column: str | None
    term: str
    center: float = 0.0
    scale: float = 1.0
    if_missing: float | None = None


def list_coefficients(model: TableModel, schema: Schema) -> list[dict[str, Any]]:
    """List intercept and coefficients; see :meth:`unseen.models.Model.coefficients`."""
    intercepts, slopes = _log_odds(model)
    terms = list(_list_terms(model.preprocessor, schema))
    coefficients = slopes / np.array([term.scale for term in terms])
    intercepts = intercepts - coefficients @ np.array([term.center for term in terms])
    return [
        {
            "class": label,
            "column": term.column,
            "term": term.term,
            "coefficient": float(value),
            "if_missing": term.if_missing,
        }
        for label, intercept, values in zip(model.classes_[1:].tolist(), intercepts, coefficients, strict=True)
        for term, value in zip([Term(None, INTERCEPT), *terms], [intercept, *values], strict=True)
    ]


def _log_odds(model: TableModel) -> tuple[Array, Array]:
    """Intercepts (C - 1,) and slopes (C - 1, n) of the log odds of each class against the first.

    The inverse temperatures multiply the decision values, class offsets and effects of features are added to them, and
    the ratio of class frequencies multiplies the odds.
    """
    ensemble = model.ensemble
    classifier = ensemble.members_[0][-1]
    if len(ensemble.members_) > 1 or len(ensemble.members_[0]) > 1 or not isinstance(classifier, LogisticRegression):
        raise ValueError(
            "Coefficients exist only for a model that consists of one logistic regression of the columns. Fit with "
            "methods='logistic'."
        )
    factor = ensemble.inverse_temperature * ensemble.inverse_temperatures[0]
    slopes = factor * classifier.coef_
    intercepts = factor * classifier.intercept_
    if len(slopes) > 1:  # with two classes, decision values are those of the second class against the first
        slopes = slopes[1:] - slopes[0]
        intercepts = intercepts[1:] - intercepts[0]
    if ensemble.calibration_offsets is not None:
        intercepts = intercepts + ensemble.calibration_offsets[1:] - ensemble.calibration_offsets[0]
    if ensemble.prior_ratio is not None:
        intercepts = intercepts + np.log(ensemble.prior_ratio[1:] / ensemble.prior_ratio[0])
    if ensemble.feature_effects is not None:
        slopes = slopes + (ensemble.feature_effects[:, 1:] - ensemble.feature_effects[:, :1]).T
    return intercepts, slopes


def _list_terms(preparation: Any, schema: Schema) -> Iterator[Term]:
    """The prepared features of a table in their order."""
    preprocessor = preparation
    tails = np.full(len(schema.columns), np.nan)
    if isinstance(preparation, TablePreparation):
        preprocessor = preparation.preprocessor_
        tails = preparation.tail_scales_
    parts = [("numbers", preprocessor, np.arange(len(schema.columns)))]
    if isinstance(preprocessor, ColumnTransformer):
        parts = [part for part in preprocessor.transformers_ if part[0] != "remainder"]
    for _, part, columns in parts:
        chosen = [schema.columns[j] for j in columns]
        if isinstance(part, OneHotEncoder):
            yield from _list_indicators(part, chosen)
        else:
            yield from _list_numbers(part, [column.name for column in chosen], tails[columns])
    if isinstance(preparation, TablePreparation) and preparation.code_encoder_ is not None:
        yield from _list_indicators(preparation.code_encoder_, [schema.columns[j] for j in preparation.coded_columns_])


def _list_numbers(pipeline: Pipeline, names: list[str], tails: Array) -> Iterator[Term]:
    steps = {type(step): step for _, step in pipeline.steps}
    if Normalizer in steps:
        raise ValueError("Coefficients do not exist for scale='l2', which divides each row by its length.")
    scaler = steps.get(StandardScaler)
    centers = np.zeros(len(names)) if scaler is None else scaler.mean_
    scales = np.ones(len(names)) if scaler is None else scaler.scale_
    columns = zip(names, centers, scales, pipeline.steps[0][1].statistics_, tails, strict=True)
    for name, center, scale, median, tail in columns:
        term = name
        if np.isfinite(tail):
            term = f"log(1 + max({name}, 0) / {float(tail)!r})"
            median = tail * np.expm1(median)
        yield Term(name, term, float(center), float(scale), if_missing=float(median))


def _list_indicators(encoder: OneHotEncoder, columns: list[Column]) -> Iterator[Term]:
    def name_level(column: Column, value: float) -> str:
        if np.isnan(value):
            return "missing"
        return column.levels[int(value)] if column.levels else f"{value:g}"

    for column, categories, infrequent in zip(
        columns, encoder.categories_, encoder.infrequent_categories_, strict=True
    ):
        is_rare = np.zeros(len(categories), dtype=bool)
        if infrequent is not None:
            is_rare = np.isin(categories, infrequent) | (np.isnan(categories) & np.isnan(infrequent).any())
        for value in categories[~is_rare].tolist():
            relation = "is" if np.isnan(value) else "="
            yield Term(column.name, f"{column.name} {relation} {name_level(column, value)}")
        if is_rare.any():
            rare_names = [name_level(column, value) for value in categories[is_rare].tolist()]
            yield Term(column.name, f"{column.name} in {', '.join(rare_names)} or not in training")
