"""Decision thresholds of models with two classes, chosen on out-of-domain predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..linalg import Array
from ..metrics import ThresholdChoice, choose_threshold
from ..utils.validation import Labels
from ._table_fit import TableFit


def choose_positive(classes: Labels, positive: Any) -> tuple[Any, str]:
    """Return the class that is the event, and how it was determined; None for more than two classes."""
    names = classes.tolist()
    if len(names) > 2:
        if positive is not None:
            raise ValueError(f"positive={positive!r} needs two classes, but there are {len(names)}. Leave it out.")
        return None, ""
    if positive is None:
        rule = (
            f"The event is {names[1]!r}, the last of both classes in sorted order; the parameter positive changes it."
        )
        return names[1], rule
    matches = [name for name in names if name == positive or str(name) == str(positive)]
    if not matches:
        raise ValueError(f"positive={positive!r} is not a class. Use {names[0]!r} or {names[1]!r}.")
    return matches[0], ""


def check_threshold(threshold: str | float | None, n_classes: int) -> None:
    """Raise ValueError for a threshold that cannot be chosen, before any computation."""
    if threshold is None:
        return
    if n_classes > 2:
        raise ValueError(f"threshold={threshold!r} needs two classes, but there are {n_classes}. Leave it out.")
    try:
        choose_threshold([0, 1], [0.4, 0.6], threshold)
    except ValueError as error:
        raise ValueError(str(error).replace("aim=", "threshold=", 1)) from None


def choose_domain_threshold(
    events: NDArray[np.bool_], risks: Array, sizes: Sequence[int], aim: str | float
) -> ThresholdChoice:
    """Choose a threshold on rows of several domains, which follow each other; all domains have the same weight."""
    weight = np.concatenate([np.full(size, 1 / size) for size in sizes])
    return choose_threshold(events, risks, aim, sample_weight=weight)


def choose_fit_threshold(fit: TableFit, positive: Any, aim: str | float) -> ThresholdChoice:
    """Choose a threshold for the event on the cross-fitted out-of-domain predictions of a fit."""
    if fit.fitted is None:
        raise ValueError("The fit has no out-of-domain predictions, on which a threshold could be chosen.")
    column = int(np.flatnonzero(fit.model.classes_ == positive)[0])
    probabilities = fit.model.ensemble.with_natural_priors(np.concatenate(fit.fitted.held_out))
    events = np.concatenate(fit.fitted.codes) == column
    return choose_domain_threshold(events, probabilities[:, column], [len(codes) for codes in fit.fitted.codes], aim)


def with_threshold(fit: TableFit, threshold: str | float | None, positive: Any = None) -> TableFit:
    """Return the fit with a model that decides by a threshold; without a threshold, the fit as it is.

    The threshold and its cross-fitted sensitivity and specificity are stored for the model card.
    """
    if threshold is None:
        if positive is not None:
            raise ValueError(
                f"positive={positive!r} has no effect without a threshold. Set threshold, or leave it out."
            )
        return fit
    classes = fit.model.classes_
    check_threshold(threshold, len(classes))
    event, rule = choose_positive(classes, positive)
    choice = choose_fit_threshold(fit, event, threshold)
    text = (
        f"Rows with a probability of {event!r} of at least {choice.threshold:.3g} are labeled {event!r}: the threshold "
        f"for {choice.aim}, on out-of-domain predictions with a sensitivity of {100 * choice.sensitivity:.0f}% and a "
        f"specificity of {100 * choice.specificity:.0f}%."
    )
    facts = {
        "value": choice.threshold,
        "class": event,
        "rule": rule,
        "aim": choice.aim,
        "sensitivity": choice.sensitivity,
        "specificity": choice.specificity,
        "text": text,
    }
    model = replace(fit.model, threshold=choice.threshold, positive_code=int(np.flatnonzero(classes == event)[0]))
    return replace(fit, model=model, threshold=facts)
