"""The sections of the pages: each a template with the values of a summary, and the axes on which it is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ._charts import Axis, Panel, largest_entry
from ._format import arrange_scores, is_number

Section = dict[str, Any]
Summary = Mapping[str, Any]
LEAST_SCALE = 0.5  # standard deviations at the ends of the colors, so that small differences do not look large
MOST_SCALE = 3.0  # beyond, all differences have the same color, so that one broken column does not hide the others
INTERVAL_KEYS = ("difference", "low", "high")
MAX_SENTENCES = 8  # on columns; the rest is folded
MAX_COLUMNS = 10  # of a wide table, those that shift most
MARGIN_OF_ESTIMATES = 0.6  # share of the range of estimates by which an axis may extend beyond them
LOWEST_NET_BENEFIT = -0.05
KEY_MEASURES = ("auc", "calibration_slope", "observed_expected", "sensitivity", "specificity")
LARGEST_RISK_TICK = 0.05  # steps of the end of an axis of risks


def make_sections(*sections: tuple[str, str, Any]) -> list[Section]:
    """Return the sections that have content, given the template, the heading and the content of each."""
    return [{"name": name, "title": title, "view": view} for name, title, view in sections if view]


def comparison_sections(summary: Summary) -> list[Section]:
    """Prepare the page of a comparison: what to use, what to check in the data, then details."""
    verdict = summary.get("verdict")
    metric = str(verdict["metric"] if verdict else "accuracy").replace("_", " ").capitalize()
    validation = summary.get("validation")
    diagnosis = summary.get("diagnosis")
    columns = diagnosis and diagnosis.get("columns")
    return make_sections(
        ("verdict", "Verdict", verdict and prepare_verdict(verdict)),
        ("methods", f"{metric} on each held-out domain", summary.get("methods") and prepare_methods(summary)),
        ("columns", "Columns that differ between domains", columns and prepare_columns(columns)),
        ("validation", "Discrimination and calibration", validation and prepare_validation(validation)),
        ("confusion", "Confusion matrices", summary.get("confusion")),
        ("ensemble", "The ensemble", summary.get("ensemble")),
        ("diagnosis", "Distribution shift between domains", diagnosis and prepare_diagnosis(diagnosis)),
        ("settings", "Selected hyperparameters", summary.get("settings")),
        ("provenance", "Reproducibility", summary.get("provenance")),
    )


def diagnosis_sections(summary: Summary) -> list[Section]:
    """Prepare the page of a diagnosis."""
    columns = summary.get("columns")
    return make_sections(
        ("columns", "Columns that differ between domains", columns and prepare_columns(columns)),
        ("diagnosis", "Distribution shift between domains", prepare_diagnosis(summary)),
    )


def validation_sections(summary: Summary) -> list[Section]:
    """Prepare the page of a validation."""
    table = prepare_summary(summary)
    importance = summary.get("importance")
    return make_sections(
        ("validation_colleagues", "For your colleagues", {**summary, "figures": prepare_key_figures(table["rows"])}),
        ("validation_sites", "Sites", summary),
        ("validation_summary", "Summary over sites", table),
        ("validation_forest", "Performance at each site", prepare_forests(table)),
        ("validation_subgroups", "Subgroups", prepare_subgroups(summary)),
        ("validation_curves", "Curves", prepare_curves(summary)),
        ("importance", "Importance of columns", importance and prepare_importance(importance)),
        ("validation_methods", "Appendix: methods and text for a paper", summary),
        ("validation_checklist", "Appendix: reporting checklist", summary["checklist"]),
    )


def prepare_verdict(verdict: Summary) -> Section:
    """Prepare the axis of the differences, and that of the scores of the recommended method."""
    ends = [row[key] for row in verdict["intervals"] for key in INTERVAL_KEYS]
    view = {**verdict, "axis": Axis.from_values([0, *ends])}
    advice = verdict["recommendation"]
    if advice:
        view["score_axis"] = Axis.from_values([*advice["scores"].values(), advice["low"], advice["high"]])
    return view


def prepare_methods(summary: Summary) -> Section:
    """Prepare the table of scores, and the range of its shades."""
    rows = arrange_scores(summary)
    cells = [cell for row in rows for cell in row["cells"][1:]]
    numbers = [cell["mean"] for cell in cells if is_number(cell["mean"])] or [0.0]
    return {
        "verdict": summary.get("verdict") or {"metric": "accuracy", "share": True},
        "domains": summary["domains"],
        "rows": rows,
        "is_repeated": any(cell["sd"] is not None for cell in cells),
        "range": (min(numbers), max(numbers)),
    }


def prepare_columns(columns: Summary) -> Section:
    """Prepare the sentences on columns, and the heat map of columns by domains.

    The ends of the scale are those of the figure: small differences do not look large, and one broken column does not
    hide the others.
    """
    heat_map = columns["heat_map"]
    return {
        "sentences": columns["sentences"][:MAX_SENTENCES],
        "more": columns["sentences"][MAX_SENTENCES:],
        "domains": heat_map["domains"],
        "rows": list(zip(heat_map["columns"], heat_map["differences"], heat_map["explained"], strict=True))[
            :MAX_COLUMNS
        ],
        "largest": min(largest_entry(heat_map["differences"], LEAST_SCALE), MOST_SCALE),
        "n_columns": columns["n_columns"],
    }


def prepare_diagnosis(diagnosis: Summary) -> Section:
    """Prepare the distances as two heat maps with one scale."""
    rows = [row for distances in diagnosis["distances"].values() for row in distances]
    return {**diagnosis, "largest": largest_entry(rows, 0.0) or 1.0}


def prepare_importance(importance: Summary) -> Section:
    """Prepare the losses of permuted columns as a heat map of columns by domains."""
    losses = [entry["by_domain"].values() for entry in importance["columns"]]
    return {**importance, "domains": list(importance["scores"]), "largest": largest_entry(losses, 1e-12)}


def prepare_summary(summary: Summary) -> Section:
    """Prepare the random-effects summary of the reported method, and the measures that compare it with others.

    Each row has the names of its measure and its values at the sites.
    """
    is_binary = summary["positive"] is not None
    values: dict[tuple[Any, Any], list[Summary]] = {}
    for one in summary["measures"]:
        if one["method"] == summary["method"]:
            values.setdefault((one["measure"], one["class"]), []).append(one)
    rows = []
    for record in summary["summary"]:
        if record["method"] == summary["method"]:
            names = summary["measure_names"][record["measure"]]
            row = {**record, "note": record["explanation"], "explanation": names["explanation"]}
            rows.append({**names, **row, "sites": values.get((record["measure"], record["class"]), [])})
    shown = ("auc", "calibration_slope", "observed_expected", "brier", "net_benefit") if is_binary else ("log_loss",)
    table = {**summary, "rows": rows, "shown": shown, "compared": "AUC" if is_binary else "log loss"}
    differences = {one["method"]: one["difference"] for one in summary["comparison"] if is_number(one["difference"])}

    def rank(method: str) -> float:
        """The reported method first, then the others from the best one; a log loss is better if it is lower."""
        if method == summary["method"]:
            return -math.inf
        if method not in differences:
            return math.inf
        return differences[method] if is_binary else -differences[method]

    return {**table, "methods": sorted(summary["methods"], key=rank)}


def prepare_validation(summary: Summary) -> Section:
    """Prepare the summary for the page of a comparison: of several classes, the log loss and the AUC of each."""
    table = prepare_summary(summary)
    if summary["positive"] is None:
        table["rows"] = [row for row in table["rows"] if row["measure"] in ("log_loss", "auc")]
    return table


def prepare_key_figures(rows: Sequence[Section]) -> list[Section]:
    """Prepare a few key figures for readers who are not statisticians, with the worst site of each."""
    figures = []
    for row in rows:
        if row["measure"] in KEY_MEASURES and is_number(row["estimate"]):
            sites = [site for site in row["sites"] if is_number(site["value"])]
            figures.append({**row, "worst": min(sites, key=_goodness) if len(sites) > 1 else None})
    return figures


def _goodness(record: Summary) -> float:
    """Order of sites from worst to best: ratios are best at 1, other measures at their maximum."""
    value = float(record["value"])
    if record["measure"] in ("observed_expected", "calibration_slope"):
        return -abs(math.log(value)) if value > 0 else -math.inf
    return value


def prepare_subgroups(summary: Summary) -> dict[str, dict[str, list[Section]]]:
    """Prepare a table for each column of subgroups: the key measures of each subgroup."""
    tables: dict[str, dict[str, list[Section]]] = {}
    for record in summary["subgroups"]:
        if record["measure"] in KEY_MEASURES and record["class"] == summary["positive"]:
            label = summary["measure_names"][record["measure"]]["label"]
            rows = tables.setdefault(record["column"], {})
            rows.setdefault(record["subgroup"], []).append({**record, "label": label})
    return tables


def prepare_forests(table: Section) -> list[Section]:
    """Prepare a forest plot for each measure, unless there is a single site, whose values are in the summary."""
    rows = table["rows"] if len(table["sites"]) > 1 else []
    return [{**row, "axis": _forest_axis(row)} for row in rows if row["in_forest"] and is_number(row["estimate"])]


def _forest_axis(row: Section) -> Axis:
    """An axis that shows all estimates, and intervals as far as they do not make the estimates indistinguishable."""
    is_log = row["scale"] == "log"

    def transform(values: Sequence[Any]) -> list[float]:
        known = [value for value in values if is_number(value) and (value > 0 or not is_log)]
        return [math.log(value) for value in known] if is_log else known

    estimates = transform([*(site["value"] for site in row["sites"]), row["estimate"], row["ideal"]])
    ends = [site[key] for site in row["sites"] for key in ("low", "high")]
    ends += [row[key] for key in ("low", "high", "prediction_low", "prediction_high")]
    shown = [*transform(ends), *estimates]
    margin = MARGIN_OF_ESTIMATES * max(max(estimates) - min(estimates), 0.1)
    low = max(min(shown), min(estimates) - margin)
    high = min(max(shown), max(estimates) + margin)
    padding = 0.03 * (high - low) or 0.1
    return Axis(low - padding, high + padding, is_log)


def prepare_curves(summary: Summary) -> Section | None:
    """Prepare calibration, decision and ROC curves, and predicted risks, of all rows together and of each site."""
    if not summary["curves"]:
        return None
    pooled = summary["curves"]["pooled"]
    sites = summary["curves"]["sites"]
    every = [pooled, *sites.values()]
    # Axes end at the highest risk that more than a few rows reach, so that rare events do not fill a corner only.
    highest_risk = pooled["decision"]["threshold"][-1]
    risk = Axis(0.0, min(math.ceil(highest_risk / LARGEST_RISK_TICK) * LARGEST_RISK_TICK, 1.0))
    benefit = largest_entry([[one["decision"]["model"][0], one["decision"]["treat_all"][0]] for one in every], 0.05)
    share = largest_entry([[*one["risks"]["events"], *one["risks"]["others"]] for one in every], 0.05)
    unit = Axis(0.0, 1.0)
    return {
        "pooled": pooled,
        "sites": sites if len(sites) > 1 else {},
        "panels": {
            "calibration": Panel(risk, risk),
            "decision": Panel(Axis(0.0, highest_risk), Axis(LOWEST_NET_BENEFIT, 1.05 * benefit)),
            "roc": Panel(unit, unit),
            "risks": Panel(Axis(0.0, pooled["risks"]["edges"][-1]), Axis(0.0, 1.05 * share)),
        },
    }
