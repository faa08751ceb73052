"""Adaptation of a model of tables to one new domain: a few labels, or a known class prevalence."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..linalg import Array
from ..model_selection import REFIT, adapt_ensemble, check_new_domain, check_not_adapted
from ..tables import TableError, as_text, encode_class_labels, is_folder_or_pattern, is_path
from ..utils.samples import Samples
from ..utils.validation import Labels, format_list
from ._fit import move_threshold
from ._model import Model

PRIOR_TOLERANCE = 1e-6  # of sums of class frequencies, which people round


def adapt_model(
    model: Model, data: Any, label: str | None, *, level: str = "auto", domain: str | None = None, source: Any = None
) -> Model:
    """Adapt a model to the labeled rows of a table; see :meth:`unseen.models.Model.adapt`."""
    check_not_adapted(model.card.get("adaptation"))
    table_model = model.table_model
    X, labels, names = _read_labeled(model, data, label, domain)
    if names is not None:
        check_new_domain(sorted(set(names.tolist())), [*(model.card.get("data") or {}).get("domains", {})])
    source_data = None
    if source is not None:
        if model.card.get("stream"):
            raise ValueError(
                f"level={REFIT!r} needs a model that was fitted to all rows of the training table at once, and this "
                "one was fitted to a larger table through landmarks. Leave source out, or fit a new model to both "
                "tables."
            )
        source_data = _read_source(model, source)
    ensemble, description = adapt_ensemble(
        table_model.ensemble,
        table_model.prepare(X),
        labels,
        level=level,
        source=source_data,
        balance=model.card.get("balance", "none"),
    )
    adaptation = {
        **description,
        "domain": None if names is None else str(names[0]),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "parent": {
            "name": model.name,
            "created": model.card.get("created"),
            "sha256": (model.card.get("payload") or {}).get("sha256"),
        },
    }
    adapted = replace(table_model, ensemble=ensemble)
    return replace(model, estimator=adapted, card={**model.card, "adaptation": adaptation})


def adjust_model_prior(model: Model, prior: Mapping[Any, float]) -> Model:
    """The model for other class frequencies; see :meth:`unseen.models.Model.with_prior`."""
    ensemble = model.table_model.ensemble
    source = source_frequencies(model)
    ratio = complete_prior(prior, ensemble.classes_, source) / source
    if ensemble.prior_ratio is None:
        adjusted = ensemble.with_offsets(np.log(ratio))
    else:
        adjusted = copy(ensemble).set_params(prior_ratio=ensemble.prior_ratio * ratio)
    threshold = model.card.get("threshold") or {}
    table_model = move_threshold(model.table_model, str(threshold.get("aim", "")), ratio)
    card = model.card
    if table_model is not model.table_model:
        text = (
            f"{threshold['text']} For the given class frequencies that is a probability of "
            f"{table_model.threshold:.3g}, which labels the same rows."
        )
        card = {**card, "threshold": {**threshold, "value": table_model.threshold, "text": text}}
    return replace(model, estimator=replace(table_model, ensemble=adjusted), card=card)


def source_frequencies(model: Model) -> Array:
    """The class frequencies that the probabilities of a model refer to.

    They are those of the training rows; offsets of an adapted model multiply them.
    """
    rows = {str(entry["class"]): entry["rows"] for entry in (model.card.get("data") or {}).get("classes", [])}
    names = [str(label) for label in model.classes_.tolist()]
    if set(names) - rows.keys():
        raise ValueError(f"{model.name}: its card does not list the class frequencies of training, which prior needs.")
    offsets = (model.card.get("adaptation") or {}).get("offsets") or dict.fromkeys(names, 0.0)
    frequencies = np.array([rows[name] * np.exp(offsets[name]) for name in names])
    return frequencies / frequencies.sum()


def complete_prior(prior: Mapping[Any, float], classes: Labels, source: Array) -> Array:
    """Frequencies of all classes; classes that are not named share the rest as in training."""
    names = [str(label) for label in classes.tolist()]
    values = {str(label): value for label, value in prior.items()}
    unknown = [name for name in values if name not in names]
    if unknown:
        raise ValueError(
            f"prior names classes that the model does not have: {format_list(unknown, 5)}. Its classes are "
            f"{format_list(names, 10)}."
        )
    if not all(isinstance(value, (int, float, np.number)) and 0 < value < 1 for value in values.values()):
        raise ValueError(f"prior={dict(prior)!r} must contain frequencies between 0 and 1.")
    frequencies = np.array([values.get(name, np.nan) for name in names])
    is_open = np.isnan(frequencies)
    rest = 1 - np.nansum(frequencies)
    if rest <= PRIOR_TOLERANCE if is_open.any() else abs(rest) > PRIOR_TOLERANCE:
        raise ValueError(
            f"prior must sum to 1 over all {len(names)} classes, or to less than 1 if it leaves some out; it names "
            f"{len(values)} classes, which sum to {1 - rest:.6g}."
        )
    frequencies[is_open] = rest * source[is_open] / source[is_open].sum()
    return frequencies / frequencies.sum()


def _read_labeled(model: Model, data: Any, label: str | None, domain: str | None) -> tuple[Array, Any, Labels | None]:
    """Encoded rows, their classes (None where missing, other values where unknown), and their domains."""
    schema = model.schema
    label = schema.label if label is None else label
    if label is None:
        raise ValueError("label is not known from the training table. Set label to the column of the classes.")
    if domain is None and schema.domain is not None and model.open_table(data).has_column(schema.domain):
        domain = schema.domain
    try:
        rows = model.open_table(data, domain=domain, keep=[label]).read()
    except TableError as error:
        problems = [f"{problem} Labels are needed to adapt a model." for problem in error.problems]
        raise TableError(problems, error.source) from error
    codes = encode_class_labels(rows.kept[label], model.classes_)
    values = np.array(as_text(rows.kept[label]).to_list(), dtype=object)
    values[codes >= 0] = model.classes_[codes[codes >= 0].astype(int)]
    return rows.X, values, rows.domain


def _read_source(model: Model, source: Any) -> Samples:
    """The training table, encoded and prepared as the model does."""
    schema = model.schema
    domain = None if is_path(source) and is_folder_or_pattern(source) else schema.domain
    X, domains, codes = model.read_labeled(source, None, domain)
    if domains is None:
        raise ValueError(f"source must name the domains in the column {schema.domain!r}, as in training.")
    return Samples(model.table_model.prepare(X), model.classes_[codes], domains, classes=model.classes_)
