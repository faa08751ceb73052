"""The sections of the report of a validation: forest plots and curves; templates read the rest from the summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ._charts import Axis, Panel, largest_entry, shade_cells
from ._format import is_number

Section = dict[str, Any]
MARGIN_OF_ESTIMATES = 0.6  # share of the range of estimates by which an axis may extend beyond them
LOWEST_NET_BENEFIT = -0.05
MAX_CLASSES_WITH_FORESTS = 4  # forest plots of more classes are folded
MAX_IMPORTANT_COLUMNS = 20  # more do not fit on a page beside the curves; files have all
KEY_MEASURES = ("auc", "calibration_slope", "observed_expected", "sensitivity", "specificity")
OPEN_FORESTS = ("auc", "calibration_in_the_large", "calibration_slope", "net_benefit")  # of a comparison
LARGEST_RISK_TICK = 0.05  # steps of the end of an axis of risks
UNIT = Axis(0.0, 1.0)
DIAGONAL = "M0,100L100,0"


def prepare_validation_page(summary: Mapping[str, Any]) -> list[Section]:
    """Prepare all sections of the report of a validation."""
    table = prepare_summary(summary)
    sections = [
        ("validation_colleagues", "For your colleagues", {**summary, "figures": prepare_key_figures(summary)}),
        ("validation_sites", "Sites", summary),
        ("validation_summary", "Summary over sites", table),
        ("validation_forest", "Performance at each site", prepare_forests(summary)),
        ("validation_subgroups", "Subgroups", prepare_subgroups(summary)),
        ("validation_curves", "Curves", prepare_curves(summary)),
        ("importance", "Importance of columns", prepare_importance(summary)),
        ("validation_methods", "Appendix: methods and text for a paper", summary),
        ("validation_checklist", "Appendix: reporting checklist", summary["checklist"]),
    ]
    return [{"name": name, "title": title, "view": view} for name, title, view in sections if view]


def prepare_validation(report: Mapping[str, Any]) -> Section:
    """Prepare the section of a comparison: summary, forest plots and curves, of which the less important are folded."""
    summary = report["validation"]
    forests = prepare_forests(summary)
    table = prepare_summary(summary)
    first: tuple[str, ...] = OPEN_FORESTS
    if summary["positive"] is None:
        # Four measures of each of several classes would be longer than the rest of the page.
        table["rows"] = [row for row in table["rows"] if row["measure"] in ("log_loss", "auc")]
        first = ("auc",) if len(summary["classes"]) <= MAX_CLASSES_WITH_FORESTS else ()
    return {
        **summary,
        "table": table,
        "forest": [plot for plot in forests if plot["measure"] in first],
        "folded": "Other measures" if first else "Forest plots of each class",
        "more": [plot for plot in forests if plot["measure"] not in first],
        "curves": prepare_curves(summary, is_folded=True),
    }


def prepare_summary(summary: Mapping[str, Any]) -> Section:
    """Prepare the random-effects summary of the reported method, and the measures that compare it with others."""
    is_binary = summary["positive"] is not None
    shown = ("auc", "calibration_slope", "observed_expected", "brier", "net_benefit") if is_binary else ("log_loss",)
    return {**summary, "rows": _main_records(summary), "shown": shown, "compared": "AUC" if is_binary else "log loss"}


def prepare_key_figures(summary: Mapping[str, Any]) -> list[Section]:
    """Prepare a few key figures for readers who are not statisticians, with the worst site of each."""
    figures = []
    for record in _main_records(summary):
        if record["measure"] in KEY_MEASURES and is_number(record["estimate"]):
            sites = [site for site in record["sites"] if is_number(site["value"])]
            figures.append({**record, "worst": min(sites, key=_goodness) if len(sites) > 1 else None})
    return figures


def _goodness(record: Mapping[str, Any]) -> float:
    """Order of sites from worst to best."""
    value = float(record["value"])
    if record["measure"] in ("observed_expected", "calibration_slope"):
        return -abs(math.log(value)) if value > 0 else -math.inf
    return value


def prepare_subgroups(summary: Mapping[str, Any]) -> dict[str, dict[str, list[Section]]]:
    """Prepare a table for each column of subgroups: the key measures of each subgroup."""
    tables: dict[str, dict[str, list[Section]]] = {}
    for record in summary["subgroups"]:
        if record["measure"] in KEY_MEASURES and record["class"] == summary["positive"]:
            label = summary["measure_names"][record["measure"]]["label"]
            rows = tables.setdefault(record["column"], {})
            rows.setdefault(record["subgroup"], []).append({**record, "label": label})
    return tables


def prepare_importance(summary: Mapping[str, Any]) -> Section | None:
    """Prepare the losses of permuted columns as a heat map of columns by domains."""
    importance = summary.get("importance")
    if not importance:
        return None
    domains = list(importance["scores"])
    columns = importance["columns"][:MAX_IMPORTANT_COLUMNS]
    losses = [[entry["by_domain"].get(name) for name in domains] for entry in columns]
    cells = shade_cells(losses, high=max(largest_entry(losses, 1.0), 1e-12))
    return {**importance, "domains": domains, "rows": list(zip(columns, cells, strict=True))}


def prepare_forests(summary: Mapping[str, Any]) -> list[Section]:
    """Prepare a forest plot for each measure: sites, their summary, and the prediction interval as a band."""
    if len(summary["sites"]) == 1:
        return []  # the summary has the only row
    return [
        _prepare_forest(record)
        for record in _main_records(summary)
        if record["in_forest"] and is_number(record["estimate"])
    ]


def _prepare_forest(record: Mapping[str, Any]) -> Section:
    axis = _forest_axis(record)
    rows = []
    for site in record["sites"]:
        is_known = is_number(site["value"])
        rows.append(
            {
                **site,
                "at": axis.end(site["value"], 0.0) if is_known else None,
                "low_at": axis.end(site["low"], 0.0),
                "high_at": axis.end(site["high"], 100.0),
                "low_cut": not axis.contains(site["low"]),
                "high_cut": not axis.contains(site["high"]),
            }
        )
    return {
        **record,
        "rows": rows,
        "at": axis.end(record["estimate"], 0.0),
        "low_at": axis.end(record["low"], 0.0),
        "high_at": axis.end(record["high"], 100.0),
        "band_low": axis.end(record["prediction_low"], 0.0),
        "band_high": axis.end(record["prediction_high"], 100.0),
        "ideal_at": axis.position(record["ideal"]) if axis.contains(record["ideal"]) else None,
        "ticks": axis.ticks(5),
    }


def _forest_axis(record: Mapping[str, Any]) -> Axis:
    """An axis that shows all estimates, and intervals as far as they do not make the estimates indistinguishable."""
    is_log = record["scale"] == "log"

    def transform(values: Sequence[Any]) -> list[float]:
        known = [value for value in values if is_number(value) and (value > 0 or not is_log)]
        return [math.log(value) for value in known] if is_log else known

    estimates = transform([*(site["value"] for site in record["sites"]), record["estimate"], record["ideal"]])
    ends = transform([site[key] for site in record["sites"] for key in ("low", "high")])
    ends += transform([record[key] for key in ("low", "high", "prediction_low", "prediction_high")])
    margin = MARGIN_OF_ESTIMATES * max(max(estimates) - min(estimates), 0.1)
    low = max(min([*ends, *estimates]), min(estimates) - margin)
    high = min(max([*ends, *estimates]), max(estimates) + margin)
    padding = 0.03 * (high - low) or 0.1
    return (
        Axis(math.exp(low - padding), math.exp(high + padding), True) if is_log else Axis(low - padding, high + padding)
    )


def prepare_curves(summary: Mapping[str, Any], *, is_folded: bool = False) -> Section | None:
    """Prepare calibration, decision and ROC curves, and predicted risks, of all rows together and of each site."""
    curves = summary.get("curves")
    if not curves:
        return None
    pooled = curves["pooled"]
    every = [pooled, *curves["sites"].values()]
    # Axes end at the highest risk that more than a few rows reach, so that rare events do not fill a corner only.
    highest_risk = pooled["decision"]["threshold"][-1]
    risk = Axis(0.0, min(math.ceil(highest_risk / LARGEST_RISK_TICK) * LARGEST_RISK_TICK, 1.0))
    benefit = largest_entry([[one["decision"]["model"][0], one["decision"]["treat_all"][0]] for one in every], 0.05)
    share = largest_entry([[*one["risks"]["events"], *one["risks"]["others"]] for one in every], 0.05)
    panels = (
        Panel(risk, risk),
        Panel(Axis(0.0, highest_risk), Axis(LOWEST_NET_BENEFIT, max(benefit, 0.05) * 1.05)),
        Panel(UNIT, UNIT),
        Panel(Axis(0.0, pooled["risks"]["edges"][-1]), Axis(0.0, max(share, 0.05) * 1.05)),
    )
    views = (_calibration_view, _decision_view, _roc_view, _risk_view)
    sites = {
        site: [view(panel, one) for view, panel in zip(views, panels, strict=True)]
        for site, one in curves["sites"].items()
        if len(curves["sites"]) > 1
    }
    together = [view(panel, pooled) for view, panel in zip(views, panels, strict=True)]
    for i, one in enumerate(together[:3]):  # lines of predicted risks would cover each other
        one["others"] = [site[i]["line"] for site in sites.values()]
    return {"is_folded": is_folded, "pooled": together, "sites": sites}


def _view(kind: str, panel: Panel, x_title: str, y_title: str, **drawn: Any) -> Section:
    """A panel without a line shows why; percentages are on all axes but that of net benefit."""
    return {
        "kind": kind,
        "x_title": x_title,
        "y_title": y_title,
        "x_ticks": panel.x.ticks(4),
        "y_ticks": panel.y.ticks(4),
        "y_factor": 1 if kind == "Decision curve" else 100,
        "guides": [],
        "area": "",
        "others": [],
        **drawn,
    }


def _calibration_view(panel: Panel, curves: Mapping[str, Any]) -> Section:
    curve = curves["calibration"] or {"predicted": [], "observed": [], "low": [], "high": []}
    line = panel.line(curve["predicted"], curve["observed"])
    area = panel.area(curve["predicted"], curve["low"], curve["high"]) if line else ""
    return _view("Calibration", panel, "predicted risk, %", "observed, %", line=line, area=area, guides=[DIAGONAL])


def _decision_view(panel: Panel, curves: Mapping[str, Any]) -> Section:
    curve = curves["decision"]
    thresholds = curve["threshold"]
    return _view(
        "Decision curve",
        panel,
        "threshold, %",
        "net benefit",
        line=panel.line(thresholds, curve["model"]),
        area=panel.area(thresholds, curve["low"], curve["high"]),
        guides=[panel.line(thresholds, curve["treat_all"]), panel.line([panel.x.low, panel.x.high], [0.0, 0.0])],
    )


def _roc_view(panel: Panel, curves: Mapping[str, Any]) -> Section:
    curve = curves["roc"] or {"fpr": [], "tpr": []}
    line = panel.line(curve["fpr"], curve["tpr"])
    return _view("ROC curve", panel, "false positive rate, %", "sensitivity, %", line=line, guides=[DIAGONAL])


def _risk_view(panel: Panel, curves: Mapping[str, Any]) -> Section:
    """Distributions of predicted risks: an area for rows without the event, a line for those with it."""
    shares = curves["risks"]
    edges = [edge for edge in shares["edges"] for _ in range(2)][1:-1]
    events = [share for share in shares["events"] for _ in range(2)]
    others = [share for share in shares["others"] for _ in range(2)]
    return _view(
        "Predicted risks",
        panel,
        "predicted risk, %",
        "share of each group, %",
        line=panel.line(edges, events),
        area=panel.area(edges, [0.0] * len(edges), others),
    )


def _main_records(summary: Mapping[str, Any]) -> list[Section]:
    """The summary of each measure of the reported method, with its names and its values at the sites."""
    values: dict[tuple[Any, Any], list[Mapping[str, Any]]] = {}
    for one in summary["measures"]:
        if one["method"] == summary["method"]:
            values.setdefault((one["measure"], one["class"]), []).append(one)
    records = []
    for record in summary["summary"]:
        if record["method"] == summary["method"]:
            names = summary["measure_names"][record["measure"]]
            has_class = summary["positive"] is None and record["class"] is not None
            records.append(
                {
                    **record,
                    **names,
                    "label": f"{names['label']}: {record['class']}" if has_class else names["label"],
                    "note": record["explanation"],
                    "sites": values.get((record["measure"], record["class"]), []),
                }
            )
    return records
