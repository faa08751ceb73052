"""Decision thresholds of models with two classes, chosen on out-of-domain predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ParameterError
from ..linalg import Array
from ..metrics import ThresholdChoice, choose_threshold
from ..model_selection import MIN_DOMAINS_FOR_INTERVAL, forecast, score_labels
from ..utils.validation import Labels
from ._table_fit import TableFit
from ._table_model import TableModel

RANKING_AIMS = ("youden", "sensitivity", "specificity")  # aims that do not depend on class frequencies


def choose_positive(classes: Labels, positive: Any) -> tuple[Any, str]:
    """Return the class that is the event, and how it was determined; None for more than two classes."""
    names = classes.tolist()
    if len(names) > 2:
        if positive is not None:
            raise ParameterError(
                "positive", f"positive={positive!r} needs two classes, but there are {len(names)}. Leave it out."
            )
        return None, ""
    if positive is None:
        rule = (
            f"The event is {names[1]!r}, the last of both classes in sorted order; the parameter positive changes it."
        )
        return names[1], rule
    matches = [name for name in names if name == positive or str(name) == str(positive)]
    if not matches:
        raise ParameterError("positive", f"positive={positive!r} is not a class. Use {names[0]!r} or {names[1]!r}.")
    return matches[0], ""


def check_threshold(threshold: str | float | None, n_classes: int) -> None:
    """Raise ValueError for a threshold that cannot be chosen, before any computation."""
    if threshold is None:
        return
    if n_classes > 2:
        raise ParameterError(
            "threshold", f"threshold={threshold!r} needs two classes, but there are {n_classes}. Leave it out."
        )
    try:
        choose_threshold([0, 1], [0.4, 0.6], threshold)
    except ValueError as error:
        raise ParameterError("threshold", str(error).replace("aim=", "threshold=", 1)) from None


def choose_domain_threshold(
    events: NDArray[np.bool_], risks: Array, sizes: Sequence[int], aim: str | float
) -> ThresholdChoice:
    """Choose a threshold on rows of several domains, which follow each other; all domains have the same weight."""
    weight = np.concatenate([np.full(size, 1 / size) for size in sizes])
    return choose_threshold(events, risks, aim, sample_weight=weight)


def choose_fit_threshold(fit: TableFit, positive: Any, aim: str | float) -> ThresholdChoice:
    """Choose a threshold for the event on the cross-fitted out-of-domain predictions of a fit."""
    events, risks = _held_out_risks(fit, positive)
    sizes = [len(part) for part in events]
    return choose_domain_threshold(np.concatenate(events), np.concatenate(risks), sizes, aim)


def _held_out_risks(fit: TableFit, positive: Any) -> tuple[list[NDArray[np.bool_]], list[Array]]:
    """Whether rows are events, and their out-of-domain risks, for each held-out domain."""
    if fit.fitted is None:
        raise ValueError("The fit has no out-of-domain predictions, on which a threshold could be chosen.")
    column = int(np.flatnonzero(fit.model.classes_ == positive)[0])
    events = [codes == column for codes in fit.fitted.codes]
    risks = [fit.model.ensemble.with_natural_priors(P)[:, column] for P in fit.fitted.held_out]
    return events, risks


def with_threshold(fit: TableFit, threshold: str | float | None, positive: Any = None) -> TableFit:
    """Return the fit with a model that decides by a threshold; without a threshold, the fit as it is.

    The threshold, its sensitivity and specificity, and their prediction intervals are stored for the model card. Scores
    and expected performance become those of the labels that the threshold gives, if the metric depends on labels.
    Intervals and scores are cross-fitted: each domain is classified by the threshold of the others.
    """
    if threshold is None:
        if positive is not None:
            raise ParameterError(
                "positive", f"positive={positive!r} has no effect without a threshold. Set threshold, or leave it out."
            )
        return fit
    classes = fit.model.classes_
    check_threshold(threshold, len(classes))
    event, rule = choose_positive(classes, positive)
    choice = choose_fit_threshold(fit, event, threshold)
    events, risks = _held_out_risks(fit, event)
    flagged = _flag_held_out(events, risks, threshold, choice.threshold)
    intervals = {
        "sensitivity": _share_interval(events, flagged),
        "specificity": _share_interval([~part for part in events], [~part for part in flagged]),
    }
    performance = " and ".join(
        f"a {name} of {100 * value:.0f}%{_interval_text(intervals[name])}"
        for name, value in (("sensitivity", choice.sensitivity), ("specificity", choice.specificity))
    )
    text = (
        f"Rows with a probability of {event!r} of at least {choice.threshold:.3g} are labeled {event!r}: the threshold "
        f"for {choice.aim}, on out-of-domain predictions with {performance}."
    )
    facts = {
        "value": choice.threshold,
        "class": event,
        "rule": rule,
        "aim": choice.aim,
        "sensitivity": choice.sensitivity,
        "specificity": choice.specificity,
        "intervals": intervals,
        "text": text,
    }
    column = int(np.flatnonzero(classes == event)[0])
    model = replace(fit.model, threshold=choice.threshold, positive_code=column)
    return replace(_with_label_scores(fit, flagged, column), model=model, threshold=facts)


def _flag_held_out(
    events: list[NDArray[np.bool_]], risks: list[Array], aim: str | float, threshold: float
) -> list[NDArray[np.bool_]]:
    """Whether rows reach a threshold that was chosen on the other domains, or the common one if they allow none."""
    flagged = []
    for k, domain_risks in enumerate(risks):
        others = [j for j in range(len(risks)) if j != k]
        outcomes = np.concatenate([events[j] for j in others]) if others else np.empty(0, dtype=bool)
        domain_threshold = threshold
        if 0 < outcomes.sum() < len(outcomes):
            sizes = [len(events[j]) for j in others]
            other_risks = np.concatenate([risks[j] for j in others])
            domain_threshold = choose_domain_threshold(outcomes, other_risks, sizes, aim).threshold
        flagged.append(domain_risks >= domain_threshold)
    return flagged


def _share_interval(rows: list[NDArray[np.bool_]], flagged: list[NDArray[np.bool_]]) -> tuple[float, float] | None:
    """95% prediction interval for the share of these rows that is flagged in a new domain; None for few domains."""
    counts = np.array([part.sum() for part in rows])
    is_used = counts > 0
    if is_used.sum() < MIN_DOMAINS_FOR_INTERVAL:
        return None
    shares = np.array([np.mean(f[r]) for f, r, used in zip(flagged, rows, is_used, strict=True) if used])
    _, low, high = forecast(shares, n_rows=counts[is_used])
    return low, high


def _interval_text(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return ""
    return f" (95% prediction interval for a new domain: {100 * interval[0]:.0f}% to {100 * interval[1]:.0f}%)"


def _with_label_scores(fit: TableFit, flagged: list[NDArray[np.bool_]], column: int) -> TableFit:
    """The fit with scores and expected performance of the labels of held-out rows, if the metric depends on labels."""
    fitted = fit.fitted
    assert fitted is not None
    classes = fit.model.classes_
    scores = [
        score_labels(fitted.metric.scoring, classes[codes], classes[np.where(is_positive, column, 1 - column)])
        for codes, is_positive in zip(fitted.codes, flagged, strict=True)
    ]
    if None in scores:
        return fit
    fitted = replace(fitted, scores=np.where(np.isfinite(fitted.scores), np.array(scores, dtype=float), np.nan))
    by_domain = dict(zip(fit.scores, fitted.scores.tolist(), strict=True))
    return replace(fit, fitted=fitted, scores=by_domain, forecast=fitted.forecast)


def move_threshold(model: TableModel, aim: str, ratio: Array) -> TableModel:
    """The model of other class frequencies, with a threshold that classifies the same rows as before.

    `ratio` (2,) holds the new class frequencies over the old ones, by which the odds are multiplied. A threshold for
    sensitivity, specificity or their sum keeps these. A number, or a threshold for costs, refers to probabilities and
    stays.
    """
    if model.threshold is None or not aim.startswith(RANKING_AIMS):
        return model
    odds = model.threshold / (1 - model.threshold) * ratio[model.positive_code] / ratio[1 - model.positive_code]
    return replace(model, threshold=float(odds / (1 + odds)))
