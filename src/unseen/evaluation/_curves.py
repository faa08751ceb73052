"""Curves of predicted risks of a site or of all sites, and their distributions, as plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ..linalg import Array
from ..metrics import calibration_curve, decision_curve

Outcomes = NDArray[np.bool_]
CURVE_POINTS = 60  # of each curve, which is finer than its width on a page in pixels / 5
ROC_POINTS = 80
RISK_BINS = 30


def make_curves(events: Outcomes, risks: Array, thresholds: Array) -> dict[str, Any]:
    """Curves and risk distributions of some rows; a curve that is not defined is None."""
    has_both = bool(events.any() and not events.all())
    return {
        "calibration": _calibration(events, risks) if has_both else None,
        "decision": _decision(events, risks, thresholds),
        "roc": _roc(events, risks) if has_both else None,
        "risks": _risk_distributions(events, risks, float(thresholds[-1])),
    }


def common_thresholds(risks: Array) -> Array:
    """Thresholds of decision curves, up to the highest predicted risks that more than a few rows reach."""
    highest = float(np.quantile(risks, 0.99))
    return np.linspace(0.01, min(max(highest, 0.2), 0.95), CURVE_POINTS)


def _calibration(events: Outcomes, risks: Array) -> dict[str, list[float]] | None:
    if np.ptp(risks) == 0:
        return None
    curve = calibration_curve(events, risks, n_points=CURVE_POINTS)
    if not np.isfinite(curve.observed).all():
        return None
    points = {"predicted": curve.predicted, "observed": curve.observed, "low": curve.low, "high": curve.high}
    return {name: values.tolist() for name, values in points.items()}


def _decision(events: Outcomes, risks: Array, thresholds: Array) -> dict[str, list[float]]:
    curve = decision_curve(events, risks, thresholds)
    reach = float(ndtri(0.975))
    return {
        "threshold": curve.thresholds.tolist(),
        "model": curve.model.tolist(),
        "treat_all": curve.treat_all.tolist(),
        "low": (curve.model - reach * curve.model_se).tolist(),
        "high": (curve.model + reach * curve.model_se).tolist(),
    }


def _risk_distributions(events: Outcomes, risks: Array, highest: float) -> dict[str, list[float]]:
    """Shares of rows with and without the event by predicted risk; risks above the highest are in the last bin."""
    edges = np.linspace(0.0, highest, RISK_BINS + 1)
    shares = {}
    for name, rows in (("events", events), ("others", ~events)):
        counts = np.histogram(np.minimum(risks[rows], highest), edges)[0]
        shares[name] = (counts / max(int(rows.sum()), 1)).tolist()
    return {"edges": edges.tolist(), **shares}


def _roc(events: Outcomes, risks: Array) -> dict[str, list[float]]:
    """False and true positive rates, at most `ROC_POINTS` of them, with both corners."""
    order = np.argsort(-risks, kind="stable")
    is_last_of_ties = np.append(np.diff(risks[order]) != 0, True)
    tpr = np.cumsum(events[order])[is_last_of_ties] / events.sum()
    fpr = np.cumsum(~events[order])[is_last_of_ties] / (~events).sum()
    fpr = np.concatenate([[0.0], fpr])
    tpr = np.concatenate([[0.0], tpr])
    kept = np.unique(np.linspace(0, len(fpr) - 1, ROC_POINTS).round().astype(int))
    return {"fpr": fpr[kept].tolist(), "tpr": tpr[kept].tolist()}
