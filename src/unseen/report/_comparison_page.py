"""The sections of the report of a comparison, and of that of a diagnosis: values that the templates show."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ._charts import Axis, compute_shades, largest_entry, scale_to_canvas, shade_cells
from ._figures import LEAST_SCALE, MOST_SCALE
from ._format import is_number, rank_methods
from ._validation_page import prepare_validation

Section = dict[str, Any]
INTERVAL_KEYS = ("difference", "low", "high")
NO_SCORE = {"mean": None, "sd": None}
MAX_SENTENCES = 8  # on columns; the rest is folded
MAX_COLUMNS = 10  # of a wide table, those that shift most
MAX_CLASSES_SIDE_BY_SIDE = 6  # confusion tables with more classes are shown one domain at a time


def prepare_verdict(summary: Mapping[str, Any]) -> Section:
    """Prepare the recommendation, and the intervals of the verdict on one axis: overall first, then each domain."""
    verdict = summary["verdict"]
    auto = verdict.get("auto")
    intervals = []
    if auto:
        intervals.append({"domain": None, "label": "Auto against plain", **auto})
    overall = {key: verdict[key] for key in INTERVAL_KEYS}
    intervals.append({"domain": None, "label": "Invariant against plain" if auto else "All domains", **overall})
    if verdict.get("opt_in"):
        intervals.append({"domain": None, "label": "Auto, transductive against auto", **verdict["opt_in"]})
    intervals += verdict["per_domain"] or []
    metric, is_percentage = _metric_name(summary)
    intervals = [_to_shown_unit(interval, is_percentage) for interval in intervals]
    axis = Axis.from_values(interval[key] for interval in intervals for key in INTERVAL_KEYS)
    ticks = axis.ticks()
    zero = [value for value, _ in ticks].index(0.0)
    return {
        **verdict,
        "metric": metric,
        "share": is_percentage,
        "digits": 1 if is_percentage else 3,
        "advice": _prepare_advice(verdict.get("recommendation"), is_percentage),
        "auto": auto,
        "known": is_number(intervals[0]["difference"]),
        "rows": [_place_interval(interval, axis) for interval in intervals],
        "zero": axis.position(0.0),
        # On narrow screens every other label is hidden; that of zero always remains.
        "ticks": [(value, position, (i - zero) % 2 == 1) for i, (value, position) in enumerate(ticks)],
    }


def _place_interval(interval: Mapping[str, Any], axis: Axis) -> Section:
    """Add positions on the axis, and whether the interval excludes zero."""
    low = interval["low"]
    high = interval["high"]
    is_known = is_number(low) and is_number(high)
    positions = {f"{key}_at": axis.position(interval[key]) for key in INTERVAL_KEYS}
    return {**interval, **positions, "known": is_known, "beyond_zero": is_known and (low > 0 or high < 0)}


def _prepare_advice(advice: Mapping[str, Any] | None, is_percentage: bool) -> Section | None:
    """Prepare the recommendation: on one axis the held-out domains, their mean and the prediction interval."""
    if not advice:
        return None
    scores = _to_shown_unit(advice["scores"], is_percentage)
    expected = _to_shown_unit({key: advice[key] for key in ("expected", "low", "high")}, is_percentage)
    axis = Axis.from_values([*scores.values(), *expected.values()], include_zero=False)
    use, _, rest = advice["sentence"].partition(". ")
    return {
        **advice,
        "use": use,
        "rest": rest,
        "dots": [(name, score, axis.position(score)) for name, score in scores.items() if is_number(score)],
        **{f"{key}_at": axis.position(value) for key, value in expected.items()},
        "ticks": [(value, position) for value, position in axis.ticks() if not is_percentage or 0 <= value <= 100],
    }


def _to_shown_unit(values: Mapping[str, Any], is_percentage: bool) -> Section:
    """Convert the numbers among values to percent, if the report shows them so."""
    if not is_percentage:
        return dict(values)
    return {key: 100 * value if is_number(value) else value for key, value in values.items()}


def _metric_name(summary: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the name of the metric, and whether its scores are percentages."""
    verdict = summary.get("verdict") or {}
    return str(verdict.get("metric") or "accuracy").replace("_", " "), verdict.get("share", True)


def prepare_methods(summary: Mapping[str, Any]) -> Section:
    """Prepare the table of scores: shades, the automatic method first, and the best method of each column."""
    domains = summary["domains"]
    metric, is_percentage = _metric_name(summary)
    digits = 1 if is_percentage else 3
    rows = []
    for method in rank_methods(summary["methods"]):
        cells = [_to_shown_unit(method["accuracies"].get(name) or NO_SCORE, is_percentage) for name in domains]
        mean = _to_shown_unit({"mean": method["mean"], "sd": method["sd"]}, is_percentage)
        rows.append({**method, **mean, "cells": cells, "best": False})
    shades = compute_shades([[cell["mean"] for cell in row["cells"]] for row in rows])
    for row, row_shades in zip(rows, shades, strict=True):
        for cell, shade in zip(row["cells"], row_shades, strict=True):
            cell.update(shade=shade, best=False)
    # Ties at the displayed precision are all best. References do not compete. The first column has the means.
    for column in zip(*([row, *row["cells"]] for row in rows if row["kind"] != "reference"), strict=True):
        rounded = [round(cell["mean"], digits) if is_number(cell["mean"]) else -math.inf for cell in column]
        for cell, value in zip(column, rounded, strict=True):
            cell["best"] = value == max(rounded) > -math.inf
    return {
        "domains": domains,
        "rows": rows,
        "repeated": any(cell["sd"] is not None for row in rows for cell in row["cells"]),
        "metric": metric,
        "share": is_percentage,
        "digits": digits,
    }


def prepare_ensemble(summary: Mapping[str, Any]) -> Section:
    """Prepare the mean weights as bars, the transductive steps, and the reliability diagram."""
    ensemble = summary["ensemble"]
    largest = largest_entry([ensemble["weights"].values()], 0.0) or 1.0
    dots = [
        {**one, "x": 100 * one["confidence"], "y": 100 * (1 - one["accuracy"]), "r": 2 + 18 * math.sqrt(one["share"])}
        for one in ensemble["calibration"]["bins"]
        if all(is_number(one[name]) for name in ("confidence", "accuracy", "share"))
    ]
    return {**ensemble, "largest": largest, "dots": dots}


def prepare_embedding(summary: Mapping[str, Any]) -> Section:
    """Prepare the scatter plots; "payload" holds the values for the script."""
    embedding = summary["embedding"]
    domains = [str(name) for name in embedding["domains"]]
    held_out = str(embedding["held_out"])
    payload = {
        "classes": [str(name) for name in embedding["classes"]],
        "domains": domains,
        "heldOut": domains.index(held_out) if held_out in domains else -1,
        "panels": [scale_to_canvas(embedding["before"]), scale_to_canvas(embedding["after"])],
        **{name: [int(code) for code in embedding[name]] for name in ("class", "domain", "row")},
    }
    return {**embedding, "payload": payload}


def prepare_diagnosis(summary: Mapping[str, Any]) -> Section:
    """Prepare the distances as two heat maps with one scale."""
    diagnosis = summary["diagnosis"]
    distances = {
        kind: [[None if i == j else value for j, value in enumerate(row)] for i, row in enumerate(rows)]
        for kind, rows in diagnosis["distances"].items()
    }
    largest = largest_entry([row for rows in distances.values() for row in rows], 1.0)
    return {**diagnosis, "maps": {kind: shade_cells(rows, high=largest) for kind, rows in distances.items()}}


def prepare_columns(summary: Mapping[str, Any]) -> Section:
    """Prepare the sentences on columns, and the heat map of columns by domains."""
    columns = summary["columns"]
    heat_map = columns["heat_map"]
    # The same ends of the scale as in the figure: small differences do not look large, and one broken column does not
    # hide the others.
    high = min(max(largest_entry(heat_map["differences"], 0.0), LEAST_SCALE), MOST_SCALE)
    cells = shade_cells(heat_map["differences"][:MAX_COLUMNS], high=high, size=abs)
    return {
        "sentences": columns["sentences"][:MAX_SENTENCES],
        "more": columns["sentences"][MAX_SENTENCES:],
        "domains": heat_map["domains"],
        "rows": list(zip(heat_map["columns"], cells, heat_map["explained"], strict=False)),
        "hidden": columns["n_columns"] - len(cells),
    }


def prepare_confusion(summary: Mapping[str, Any]) -> Section:
    """Prepare the confusion tables: the share of each row as shade, and the recall of each class."""
    tables = summary["confusion"]
    domains = list(dict.fromkeys(table["domain"] for table in tables))
    prepared = []
    for table in tables:
        totals = table.get("totals") or [sum(row) for row in table["counts"]]
        shares = [[n / max(total, 1) for n in row] for row, total in zip(table["counts"], totals, strict=True)]
        recall = [100 * shares[i][i] if total else None for i, total in enumerate(totals)]
        shades = compute_shades(shares, low=0.0, high=1.0)
        prepared.append({**table, "recall": recall, "shades": shades, "group": domains.index(table["domain"])})
    advice = (summary.get("verdict") or {}).get("recommendation") or {}
    return {
        "tables": prepared,
        "domains": domains,
        "side_by_side": all(len(table["classes"]) <= MAX_CLASSES_SIDE_BY_SIDE for table in tables),
        "left_out": max((table.get("left_out", 0) for table in tables), default=0),
        "repeats": max((table.get("repeats", 1) for table in tables), default=1),
        "recommended": all(table["method"] == advice.get("method") for table in tables),
    }


# In the order of the page: the key that a section needs, its heading, and the function that prepares it.
SECTIONS: list[tuple[str, str, Callable[[Mapping[str, Any]], Any]]] = [
    ("verdict", "Verdict", prepare_verdict),
    ("methods", "Accuracy on each held-out domain", prepare_methods),
    ("validation", "Discrimination, calibration and usefulness on each held-out domain", prepare_validation),
    ("ensemble", "The ensemble", prepare_ensemble),
    ("embedding", "Features before and after projection", prepare_embedding),
    ("columns", "Columns that differ between domains", prepare_columns),
    ("diagnosis", "Distribution shift between domains", prepare_diagnosis),
    ("confusion", "Confusion matrices", prepare_confusion),
    ("settings", "Selected hyperparameters", lambda summary: summary["settings"]),
    ("provenance", "Reproducibility", lambda summary: summary["provenance"]),
]


def prepare_sections(summary: Mapping[str, Any]) -> list[Section]:
    """Prepare the sections for which the summary has values."""
    metric, _ = _metric_name(summary)
    summary = {**summary, "columns": (summary.get("diagnosis") or {}).get("columns")}
    sections = []
    for name, title, prepare in SECTIONS:
        if summary.get(name) not in (None, []):
            title = title.replace("Accuracy", metric.capitalize())
            sections.append({"name": name, "title": title, "view": prepare(summary)})
    return sections
