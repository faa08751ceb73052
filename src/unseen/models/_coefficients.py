"""The coefficients of a logistic model in the units of the table, so that other programs can apply it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler

from ..linalg import Array
from ..model_selection import EnsembleClassifier, TablePreparation
from ..tables import Schema
from ._table_model import TableModel

INTERCEPT = "(intercept)"
ONLY_LOGISTIC = "Coefficients exist only for a model that consists of one logistic regression of the columns"


@dataclass(frozen=True)
class Term:
    """A prepared feature, (term - center) / scale.

    Attributes
    ----------
    column : str
        Column of the table.
    term : str
        What is computed of its values: the column itself, a logarithm, or an indicator that is 1 or 0.
    center, scale : float
        The feature is the term less `center`, divided by `scale`.
    if_missing : float or None
        Value that replaces missing values of the column; None for indicators.
    """

    column: str
    term: str
    center: float = 0.0
    scale: float = 1.0
    if_missing: float | None = None


def list_coefficients(model: TableModel, schema: Schema) -> list[dict[str, Any]]:
    """List intercept and coefficients; see :meth:`unseen.models.Model.coefficients`."""
    ensemble = model.ensemble
    weights, intercepts = _read_member(ensemble)
    terms = list(_list_terms(model.preprocessor, schema))
    if weights.shape[1] != len(terms):
        raise ValueError(f"{ONLY_LOGISTIC}, and this one uses other features.")
    slope, offsets = _read_calibration(ensemble)
    centers = np.array([term.center for term in terms])
    scales = np.array([term.scale for term in terms])
    rows = []
    for k in range(1, len(ensemble.classes_)):
        coefficients = slope * (weights[k] - weights[0]) / scales
        intercept = slope * (intercepts[k] - intercepts[0]) + offsets[k] - float(coefficients @ centers)
        label = ensemble.classes_[k].item()
        start = {"class": label, "column": None, "term": INTERCEPT, "coefficient": intercept, "if_missing": None}
        rows.append(start)
        for term, coefficient in zip(terms, coefficients.tolist(), strict=True):
            rows.append(
                {
                    "class": label,
                    "column": term.column,
                    "term": term.term,
                    "coefficient": coefficient,
                    "if_missing": term.if_missing,
                }
            )
    return rows


def _read_member(ensemble: EnsembleClassifier) -> tuple[Array, Array]:
    """Weights and intercepts of the decision score of each class, in terms of prepared features."""
    steps = [step for member in ensemble.members_ for _, step in member.steps]
    if len(steps) == 1 and type(steps[0]) is Pipeline:
        steps = [step for _, step in steps[0].steps]
    kinds = [type(step) for step in steps]
    if kinds not in ([LogisticRegression], [StandardScaler, LogisticRegression]):
        names = ", ".join(kind.__name__ for kind in kinds[:5])
        raise ValueError(f"{ONLY_LOGISTIC}; this one has {names}. Fit with methods='logistic'.")
    if ensemble.transductive:
        raise ValueError(f"{ONLY_LOGISTIC}; this one is transductive.")
    logistic = steps[-1]
    weights = logistic.coef_
    intercepts = logistic.intercept_
    if len(steps) == 2:
        weights = weights / steps[0].scale_
        intercepts = intercepts - weights @ steps[0].mean_
    if len(weights) == 1:  # the difference of the scores of two classes
        weights = np.vstack([-weights, weights]) / 2
        intercepts = np.concatenate([-intercepts, intercepts]) / 2
    return weights, intercepts


def _read_calibration(ensemble: EnsembleClassifier) -> tuple[float, Array]:
    """The log odds against the first class are `slope` times the difference of scores, plus an offset of each class."""
    n_classes = len(ensemble.classes_)
    scores = np.zeros((2, n_classes))
    scores[1, 1] = 1.0
    logits = np.log(ensemble.with_natural_priors(ensemble.combine_scores([scores], np.zeros((2, 1)))))
    odds = logits - logits[:, :1]
    return float(odds[1, 1] - odds[0, 1]), odds[0]


def _list_terms(preparation: Any, schema: Schema) -> Iterator[Term]:
    """The prepared features of a table in their order."""
    preprocessor = preparation
    tails = np.full(len(schema.columns), np.nan)
    if isinstance(preparation, TablePreparation):
        preprocessor = preparation.preprocessor_
        tails = preparation.tail_scales_
    parts = [("numbers", preprocessor, np.arange(len(schema.columns)))]
    if isinstance(preprocessor, ColumnTransformer):
        parts = [(name, part, columns) for name, part, columns in preprocessor.transformers_ if name != "remainder"]
    names = schema.feature_names
    for _, part, columns in parts:
        if isinstance(part, OneHotEncoder):
            levels = [schema.columns[j].levels for j in columns]
            yield from _list_indicators(part, [names[j] for j in columns], levels)
        else:
            yield from _list_numbers(part, [names[j] for j in columns], tails[columns])
    if isinstance(preparation, TablePreparation) and preparation.code_encoder_ is not None:
        coded = [names[j] for j in preparation.coded_columns_]
        yield from _list_indicators(preparation.code_encoder_, coded, [() for _ in coded])


def _list_numbers(pipeline: Pipeline, names: list[str], tails: Array) -> Iterator[Term]:
    steps = {type(step): step for _, step in pipeline.steps}
    if Normalizer in steps:
        raise ValueError("Coefficients do not exist for scale='l2', which divides each row by its length.")
    imputer = pipeline.steps[0][1]
    scaler = steps.get(StandardScaler)
    for j, name in enumerate(names):
        center = 0.0 if scaler is None else float(scaler.mean_[j])
        scale = 1.0 if scaler is None else float(scaler.scale_[j])
        median = float(imputer.statistics_[j])
        tail = float(tails[j])
        if np.isfinite(tail):
            text = f"log(1 + max({name}, 0) / {tail!r})"
            yield Term(name, text, center, scale, if_missing=tail * float(np.expm1(median)))
        else:
            yield Term(name, name, center, scale, if_missing=median)


def _list_indicators(encoder: OneHotEncoder, names: list[str], levels: list[tuple[str, ...]]) -> Iterator[Term]:
    rare = encoder.infrequent_categories_
    for name, texts, categories, infrequent in zip(names, levels, encoder.categories_, rare, strict=True):
        is_rare = np.zeros(len(categories), dtype=bool)
        if infrequent is not None:
            is_rare = np.isin(categories, infrequent) | (np.isnan(categories) & np.isnan(infrequent).any())
        for value in categories[~is_rare].tolist():
            yield Term(name, _name_indicator(name, value, texts))
        if is_rare.any():
            rare_names = [_name_level(value, texts) for value in categories[is_rare].tolist()]
            yield Term(name, f"{name} in {', '.join(rare_names)} or not in training")


def _name_indicator(name: str, value: float, texts: tuple[str, ...]) -> str:
    return f"{name} is missing" if np.isnan(value) else f"{name} = {_name_level(value, texts)}"


def _name_level(value: float, texts: tuple[str, ...]) -> str:
    if np.isnan(value):
        return "missing"
    return texts[int(value)] if texts else f"{value:g}"
