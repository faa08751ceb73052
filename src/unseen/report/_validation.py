"""The report of a validation: forest plots, curves and tables, computed before the templates are rendered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._charts import Axis
from ._format import MISSING_TEXT, format_number, is_number
from ._importance import prepare_importance

Section = dict[str, Any]
PANEL_WIDTH = 300
PANEL_HEIGHT = 180
MARGINS = (38, 10, 12, 34)  # left, right, top and bottom of the frame of a panel, in pixels
MARGIN_OF_ESTIMATES = 0.6  # share of the range of estimates by which an axis may extend beyond them
LOWEST_NET_BENEFIT = -0.05
MAX_CLASSES_WITH_FORESTS = 4  # forest plots of more classes are folded
MAX_IMPORTANT_COLUMNS = 20  # more do not fit on a page beside the curves; files have all
KEY_MEASURES = ("auc", "calibration_slope", "observed_expected", "sensitivity", "specificity")
OPEN_FORESTS = ("auc", "calibration_in_the_large", "calibration_slope", "net_benefit")  # of a comparison
LARGEST_RISK_TICK = 0.05  # steps of the end of an axis of risks


def prepare_validation_page(summary: Mapping[str, Any]) -> list[Section]:
    """Prepare all sections of the report of a validation."""
    sections = [
        ("validation_colleagues", "For your colleagues", prepare_colleagues(summary)),
        ("validation_sites", "Sites", prepare_sites(summary)),
        ("validation_summary", "Summary over sites", prepare_summary(summary)),
        ("validation_forest", "Performance at each site", prepare_forests(summary)),
        ("validation_subgroups", "Subgroups", prepare_subgroups(summary)),
        ("validation_curves", "Curves", prepare_curves(summary)),
        ("importance", "Importance of columns", prepare_importance(summary, MAX_IMPORTANT_COLUMNS)),
        ("validation_methods", "Appendix: methods and text for a paper", prepare_texts(summary)),
        ("validation_checklist", "Appendix: reporting checklist", summary["checklist"]),
    ]
    return [{"name": name, "title": title, "view": view} for name, title, view in sections if view]


def prepare_validation(report: Mapping[str, Any]) -> Section:
    """Prepare the section of a comparison: summary, forest plots and curves, of which the less important are folded."""
    summary = report["validation"]
    forests = prepare_forests(summary)
    table = prepare_summary(summary)
    curves = prepare_curves(summary)
    first: tuple[str, ...] = OPEN_FORESTS
    if summary["positive"] is None:
        # Four measures of each of several classes would be longer than the rest of the page.
        table["rows"] = [row for row in table["rows"] if row["measure"] in ("log_loss", "auc")]
        first = ("auc",) if len(summary["classes"]) <= MAX_CLASSES_WITH_FORESTS else ()
    return {
        "method": summary["method"],
        "design": summary.get("design", ""),
        "event": summary["positive"],
        "sites": prepare_sites(summary),
        "summary": table,
        "forest": [plot for plot in forests if plot["measure"] in first],
        "folded": "Other measures" if first else "Forest plots of each class",
        "more": [plot for plot in forests if plot["measure"] not in first],
        "curves": curves and {**curves, "is_folded": True},
    }


def prepare_colleagues(summary: Mapping[str, Any]) -> Section:
    """Prepare the page in plain language, with a few key figures."""
    figures = []
    for record in _main_records(summary, "summary"):
        if record["measure"] not in KEY_MEASURES or not is_number(record["estimate"]):
            continue
        ends = (record["prediction_low"], record["prediction_high"])
        values = [one for one in _main_records(summary, "measures") if _same_measure(one, record)]
        values = [one for one in values if is_number(one["value"])]
        worst = min(values, key=lambda one: _goodness(one)) if len(values) > 1 else None
        figures.append(
            {
                "label": _label(summary, record),
                "estimate": record["estimate"],
                "interval": _range_text(record["low"], record["high"]),
                "range": _range_text(*ends) if record["has_range"] else "",
                "worst": "" if worst is None else f"{format_number(worst['value'], 2)} ({worst['site']})",
            }
        )
    return {
        "parts": summary["colleagues"],
        "figures": figures,
        "level": summary["level"],
        "n_sites": len(summary["sites"]),
    }


def _goodness(record: Mapping[str, Any]) -> float:
    """Order of sites from worst to best."""
    value = float(record["value"])
    if record["measure"] in ("observed_expected", "calibration_slope"):
        return -abs(math.log(value)) if value > 0 else -math.inf
    return value


def prepare_sites(summary: Mapping[str, Any]) -> Section:
    """Prepare the table of sites."""
    is_binary = summary["positive"] is not None or len(summary["classes"]) == 2
    counts = [] if is_binary else [f"rows_{name}" for name in summary["classes"]]
    return {
        "is_binary": is_binary,
        "is_chosen": isinstance(summary["threshold_aim"], str),
        "rows": summary["sites"],
        "counts": counts,
        "classes": summary["classes"],
        "limit": summary["few_events_limit"],
        "unit": summary["unit"],
        "has_missing": any(is_number(site["missing_share"]) for site in summary["sites"]),
    }


def prepare_summary(summary: Mapping[str, Any]) -> Section:
    """Prepare the random-effects summary of the reported method, and a comparison with the other methods."""
    rows = []
    for record in _main_records(summary, "summary"):
        rows.append(
            {
                **record,
                "label": _label(summary, record),
                "explanation_of_measure": summary["measure_names"][record["measure"]]["explanation"],
                "interval": _range_text(record["low"], record["high"]),
                "prediction": _range_text(record["prediction_low"], record["prediction_high"]),
            }
        )
    differences = {record["method"]: record for record in summary["comparison"]}
    is_binary = summary["positive"] is not None
    shown = ("auc", "calibration_slope", "observed_expected", "brier", "net_benefit") if is_binary else ("log_loss",)
    others = []
    for method in summary["methods"]:
        cells = []
        for name in shown:
            records = [one for one in summary["summary"] if one["method"] == method and one["measure"] == name]
            cells.append(records[0]["estimate"] if records else None)
        difference = differences.get(method)
        others.append(
            {
                "method": method,
                "cells": cells,
                "difference": None if difference is None else difference["difference"],
                "interval": "" if difference is None else _range_text(difference["low"], difference["high"], 3),
            }
        )
    return {
        "rows": rows,
        "level": summary["level"],
        "uses_prior": summary["uses_prior"],
        "n_sites": len(summary["sites"]),
        "method": summary["method"],
        "others": others if len(others) > 1 else [],
        "columns": [summary["measure_names"][name]["label"] for name in shown],
        "compared": "AUC" if is_binary else "log loss",
    }


def prepare_subgroups(summary: Mapping[str, Any]) -> list[Section]:
    """Prepare a table for each column of subgroups, with the key measures and their intervals."""
    tables: dict[str, Section] = {}
    for record in summary["subgroups"]:
        if record["measure"] not in KEY_MEASURES or record["class"] != summary["positive"]:
            continue
        table = tables.setdefault(record["column"], {"column": record["column"], "labels": [], "rows": {}})
        label = summary["measure_names"][record["measure"]]["label"]
        if label not in table["labels"]:
            table["labels"].append(label)
        row = table["rows"].setdefault(record["subgroup"], {**record, "cells": []})
        text = _range_text(record["low"], record["high"])
        row["cells"].append({"value": record["estimate"], "text": text})
    return list(tables.values())


def prepare_forests(summary: Mapping[str, Any]) -> list[Section]:
    """Prepare a forest plot for each measure: sites, their summary, and the prediction interval as a band."""
    plots: list[Section] = []
    if len(summary["sites"]) == 1:
        return plots  # the summary has the only row
    for record in _main_records(summary, "summary"):
        facts = summary["measure_names"][record["measure"]]
        if not facts["in_forest"] or not is_number(record["estimate"]):
            continue
        values = [one for one in _main_records(summary, "measures") if _same_measure(one, record)]
        plots.append(_prepare_forest(record, values, facts, _label(summary, record)))
    return plots


def _prepare_forest(
    record: Mapping[str, Any], values: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], label: str
) -> Section:
    is_log = record["scale"] == "log"

    def transform(value: Any) -> float | None:
        if not is_number(value):
            return None
        if is_log:
            return math.log(value) if value > 0 else None
        return float(value)

    axis = _forest_axis(record, values, facts, transform)

    def at(value: Any) -> float | None:
        number = transform(value)
        return None if number is None else min(max(axis.position(number) or 0.0, 0.0), 100.0)

    def is_beyond(value: Any) -> bool:
        number = transform(value)
        return number is None or not axis.low <= number <= axis.high

    rows = []
    for one in values:
        is_known = is_number(one["value"])
        low, high = one["low"], one["high"]
        rows.append(
            {
                "site": one["site"],
                "value": one["value"],
                "at": at(one["value"]) if is_known else None,
                "low_at": _end(at(low), 0.0) if is_known else None,
                "high_at": _end(at(high), 100.0) if is_known else None,
                "low_cut": is_known and is_beyond(low),
                "high_cut": is_known and is_beyond(high),
                "text": _range_text(low, high) if is_known else "not defined",
            }
        )
    ticks = axis.ticks(5)
    if is_log:
        # Round ratios instead of round logarithms.
        ratios = [
            ratio for ratio in (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 5, 10) if not is_beyond(ratio)
        ]
        step = max(1, math.ceil(len(ratios) / 6))
        anchor = ratios.index(1) if 1 in ratios else 0
        kept = [ratio for i, ratio in enumerate(ratios) if (i - anchor) % step == 0]
        ticks = [(ratio, at(ratio) or 0.0) for ratio in kept]
    return {
        "measure": record["measure"],
        "label": label,
        "rows": rows,
        "estimate": record["estimate"],
        "at": at(record["estimate"]),
        "low_at": _end(at(record["low"]), 0.0),
        "high_at": _end(at(record["high"]), 100.0),
        "text": _range_text(record["low"], record["high"]),
        "band_low": _end(at(record["prediction_low"]), 0.0),
        "band_high": _end(at(record["prediction_high"]), 100.0),
        "prediction": _range_text(record["prediction_low"], record["prediction_high"]),
        "ideal": None if facts["ideal"] is None or is_beyond(facts["ideal"]) else at(facts["ideal"]),
        "ideal_value": facts["ideal"],
        "ticks": ticks,
        "explanation": facts["explanation"],
        "missing_interval": record["explanation"],
    }


def _forest_axis(record: Mapping[str, Any], values: Sequence[Mapping[str, Any]], facts: Any, transform: Any) -> Axis:
    """An axis that shows all estimates, and intervals as far as they do not make the estimates indistinguishable."""
    estimates = [transform(one["value"]) for one in values] + [transform(record["estimate"])]
    estimates = [number for number in estimates if number is not None]
    ends = [transform(one[key]) for one in values for key in ("low", "high")]
    ends += [transform(record[key]) for key in ("low", "high", "prediction_low", "prediction_high")]
    ends = [number for number in ends if number is not None]
    if facts["ideal"] is not None:
        estimates.append(transform(facts["ideal"]))
    margin = MARGIN_OF_ESTIMATES * max(max(estimates) - min(estimates), 0.1)
    low = max(min([*ends, *estimates]), min(estimates) - margin)
    high = min(max([*ends, *estimates]), max(estimates) + margin)
    padding = 0.03 * (high - low) or 0.1
    return Axis(low - padding, high + padding)


def _end(position: float | None, otherwise: float) -> float:
    return otherwise if position is None else position


@dataclass(frozen=True)
class Panel:
    """Coordinates of a small plot with two axes."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        """Horizontal position in pixels."""
        left, right = MARGINS[:2]
        share = (value - self.x_low) / (self.x_high - self.x_low)
        return round(left + share * (PANEL_WIDTH - left - right), 1)

    def y(self, value: float) -> float:
        """Vertical position in pixels."""
        top, bottom = MARGINS[2:]
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return round(PANEL_HEIGHT - bottom - share * (PANEL_HEIGHT - top - bottom), 1)

    def path(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        """A path through points; it is interrupted where points lie outside of the panel."""
        parts = []
        is_started = False
        for x, y in zip(xs, ys, strict=True):
            if not is_number(y) or not self.y_low <= y <= self.y_high or not self.x_low <= x <= self.x_high:
                is_started = False
                continue
            parts.append(f"{'L' if is_started else 'M'}{self.x(x)},{self.y(y)}")
            is_started = True
        return "".join(parts)

    def area(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
        """A closed path between two curves."""
        points = [*zip(xs, high, strict=True), *zip(reversed(xs), reversed(low), strict=True)]
        clipped = [
            (x, min(max(y, self.y_low), self.y_high))
            for x, y in points
            if is_number(y) and self.x_low <= x <= self.x_high
        ]
        return "M" + "L".join(f"{self.x(x)},{self.y(y)}" for x, y in clipped) + "Z"

    def ticks(self, *, percent: bool = True) -> Section:
        """Ticks of both axes as pairs of a text and a position."""
        x_axis = Axis(self.x_low, self.x_high)
        y_axis = Axis(self.y_low, self.y_high)
        return {
            "x": [(_percent_text(value), self.x(value)) for value, _ in x_axis.ticks(4)],
            "y": [
                (_percent_text(value) if percent else f"{value:g}".replace("-", "\u2212"), self.y(value))
                for value, _ in y_axis.ticks(4)
            ],
        }

    def frame(self, *, percent: bool = True) -> Section:
        """Sizes and ticks, which templates draw."""
        left, right, top, bottom = MARGINS
        return {
            "width": PANEL_WIDTH,
            "height": PANEL_HEIGHT,
            "left": left,
            "right": PANEL_WIDTH - right,
            "top": top,
            "bottom": PANEL_HEIGHT - bottom,
            "ticks": self.ticks(percent=percent),
        }


def _percent_text(value: float) -> str:
    return f"{100 * value:.0f}"


def prepare_curves(summary: Mapping[str, Any]) -> Section | None:
    """Prepare calibration, decision and ROC curves of all rows together and of each site."""
    curves = summary.get("curves")
    if not curves:
        return None
    unit = Panel(0.0, 1.0, 0.0, 1.0)
    calibration = _calibration_panel(curves)
    decision = _decision_panel(curves)
    risks = _risk_panel(curves)
    pooled = curves["pooled"]
    sites = curves["sites"]

    def panels(one: Mapping[str, Any]) -> list[Section]:
        return [
            _calibration_view(calibration, one),
            _decision_view(decision, one),
            _roc_view(unit, one),
            _risk_view(risks, one),
        ]

    others = [
        [_calibration_line(calibration, one) for one in sites.values() if one["calibration"]],
        [_decision_line(decision, one) for one in sites.values()],
        [_roc_line(unit, one) for one in sites.values() if one["roc"]],
        [],
    ]
    return {
        "is_folded": False,
        "pooled": [
            {**panel, "others": lines if len(sites) > 1 else []}
            for panel, lines in zip(panels(pooled), others, strict=True)
        ],
        "sites": [{"site": site, "panels": panels(one)} for site, one in sites.items()] if len(sites) > 1 else [],
    }


def _calibration_panel(curves: Mapping[str, Any]) -> Panel:
    """Axes up to the highest risk that more than a few rows reach, so that rare events do not fill a corner only."""
    highest = curves["pooled"]["decision"]["threshold"][-1]
    end = min(math.ceil(highest / LARGEST_RISK_TICK) * LARGEST_RISK_TICK, 1.0)
    return Panel(0.0, end, 0.0, end)


def _risk_panel(curves: Mapping[str, Any]) -> Panel:
    every = [curves["pooled"], *curves["sites"].values()]
    highest = max(max(*one["risks"]["events"], *one["risks"]["others"]) for one in every)
    return Panel(0.0, curves["pooled"]["risks"]["edges"][-1], 0.0, max(highest, 0.05) * 1.05)


def _risk_view(panel: Panel, curves: Mapping[str, Any]) -> Section:
    """Distributions of predicted risks: an area for rows without the event, a line for those with it."""
    shares = curves["risks"]
    edges = [edge for edge in shares["edges"] for _ in range(2)][1:-1]
    events = [share for share in shares["events"] for _ in range(2)]
    others = [share for share in shares["others"] for _ in range(2)]
    return {
        "kind": "Predicted risks",
        "frame": panel.frame(),
        "x_title": "predicted risk, %",
        "y_title": "share of each group, %",
        "guides": [],
        "line": panel.path(edges, events),
        "area": panel.area(edges, [0.0] * len(edges), others),
        "empty": "",
    }


def _calibration_line(panel: Panel, curves: Mapping[str, Any]) -> str:
    return panel.path(curves["calibration"]["predicted"], curves["calibration"]["observed"])


def _decision_line(panel: Panel, curves: Mapping[str, Any]) -> str:
    return panel.path(curves["decision"]["threshold"], curves["decision"]["model"])


def _roc_line(panel: Panel, curves: Mapping[str, Any]) -> str:
    return panel.path(curves["roc"]["fpr"], curves["roc"]["tpr"])


def _calibration_view(panel: Panel, curves: Mapping[str, Any]) -> Section:
    curve = curves["calibration"]
    diagonal = panel.path([0.0, panel.x_high], [0.0, panel.x_high])
    view: Section = {
        "kind": "Calibration",
        "frame": panel.frame(),
        "x_title": "predicted risk, %",
        "y_title": "observed, %",
        "guides": [{"path": diagonal, "text": "", "x": 0, "y": 0}],
        "line": "",
        "area": "",
        "empty": "not defined: one outcome only" if curve is None else "",
    }
    if curve is not None:
        view["line"] = _calibration_line(panel, curves)
        view["area"] = panel.area(curve["predicted"], curve["low"], curve["high"])
    return view


def _decision_panel(curves: Mapping[str, Any]) -> Panel:
    every = [curves["pooled"], *curves["sites"].values()]
    highest = max(max(one["decision"]["model"][0], one["decision"]["treat_all"][0]) for one in every)
    thresholds = curves["pooled"]["decision"]["threshold"]
    return Panel(0.0, thresholds[-1], LOWEST_NET_BENEFIT, max(highest, 0.05) * 1.05)


def _decision_view(panel: Panel, curves: Mapping[str, Any]) -> Section:
    curve = curves["decision"]
    treat_all = panel.path(curve["threshold"], curve["treat_all"])
    # The label of "treat all" is where its curve has fallen to a third of its height.
    third = next(
        (i for i, value in enumerate(curve["treat_all"]) if value < curve["treat_all"][0] / 3),
        len(curve["treat_all"]) - 1,
    )
    label_y = max(curve["treat_all"][third], panel.y_low)
    return {
        "kind": "Decision curve",
        "frame": panel.frame(percent=False),
        "x_title": "threshold, %",
        "y_title": "net benefit",
        "guides": [
            {
                "path": treat_all,
                "text": "treat all",
                "x": panel.x(curve["threshold"][third]) - 4,
                "y": panel.y(label_y) + 4,
                "anchor": "end",
            },
            {
                "path": panel.path([panel.x_low, panel.x_high], [0.0, 0.0]),
                "text": "treat none",
                "x": panel.x(panel.x_high),
                "y": panel.y(0.0) + 13,
                "anchor": "end",
            },
        ],
        "line": _decision_line(panel, curves),
        "area": panel.area(curve["threshold"], curve["low"], curve["high"]),
        "empty": "",
    }


def _roc_view(panel: Panel, curves: Mapping[str, Any]) -> Section:
    return {
        "kind": "ROC curve",
        "frame": panel.frame(),
        "x_title": "false positive rate, %",
        "y_title": "sensitivity, %",
        "guides": [{"path": panel.path([0.0, 1.0], [0.0, 1.0]), "text": "", "x": 0, "y": 0}],
        "line": _roc_line(panel, curves) if curves["roc"] else "",
        "area": "",
        "empty": "" if curves["roc"] else "not defined: one outcome only",
    }


def prepare_texts(summary: Mapping[str, Any]) -> Section:
    """Prepare the paragraphs for a paper, and what is needed to repeat the computation."""
    return {
        "methods": summary["methods_text"],
        "results": summary["results_text"],
        "facts": summary["facts"],
        "notices": summary["notices"],
        "columns": summary["facts"].get("columns") or [],
    }


def _main_records(summary: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Records of the reported method."""
    return [record for record in summary[key] if record["method"] == summary["method"]]


def _same_measure(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one["measure"] == other["measure"] and one["class"] == other["class"])


def _label(summary: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    label = str(summary["measure_names"][record["measure"]]["label"])
    return label if summary["positive"] is not None or record["class"] is None else f"{label}: {record['class']}"


def _range_text(low: Any, high: Any, digits: int = 2) -> str:
    if not is_number(low) and not is_number(high):
        return MISSING_TEXT
    return f"{format_number(low, digits)} to {format_number(high, digits)}"
