"""What each section of the page shows, worked out from the summary before any HTML is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ._charts import Axis, compute_shades, count_decimals, scale_to_canvas
from ._format import format_number, is_number

Section = dict[str, Any]
DIAGRAM_SIDE = 260  # side of the reliability diagram
MAX_CLASSES_SIDE_BY_SIDE = 6  # classes; confusion tables with more are shown one domain at a time


def prepare_verdict(summary: Mapping[str, Any]) -> Section:
    """What to do, and the intervals of the verdict on one axis: overall first, then each held-out domain."""
    verdict = summary["verdict"]
    overall = {key: verdict[key] for key in ("difference", "low", "high")}
    auto = verdict.get("auto")
    intervals = [
        *([{"domain": None, "label": "Auto against plain", **auto}] if auto else []),
        {"domain": None, "label": "Invariant against plain" if auto else "All domains", **overall},
        *(verdict["per_domain"] or []),
    ]
    axis = Axis.around(row[key] for row in intervals for key in overall)

    def placed(row: Mapping[str, Any]) -> Section:
        low, high = row["low"], row["high"]
        known = is_number(low) and is_number(high)
        at = {f"{key}_at": axis.at(row[key]) for key in overall}
        return {**row, **at, "known": known, "beyond_zero": known and (low > 0 or high < 0)}

    ticks = axis.ticks()
    zero = [value for value, _ in ticks].index(0.0)
    metric, share = _metric_name(summary)
    return {
        **verdict,
        "metric": metric,
        "share": share,
        "digits": 1 if share else 3,
        "advice": _prepare_advice(verdict.get("recommendation"), share),
        "auto": auto,
        "known": is_number(intervals[0]["difference"]),
        "rows": [placed(row) for row in intervals],
        "zero": axis.at(0.0),
        # Every other label is left out where there is little room; zero keeps its own.
        "ticks": [(value, at, (i - zero) % 2 == 1) for i, (value, at) in enumerate(ticks)],
    }


def _prepare_advice(advice: Mapping[str, Any] | None, share: bool) -> Section | None:
    """What to use, and on one axis the held-out domains, their mean and where the next one is expected."""
    if not advice:
        return None
    scores, ends = advice["scores"], {key: advice[key] for key in ("expected", "low", "high")}
    axis = Axis.around([*scores.values(), *ends.values()], zero=False)
    use, _, rest = advice["sentence"].partition(". ")
    return {
        **advice,
        "use": use,
        "rest": rest,
        "dots": [(name, score, axis.at(score)) for name, score in scores.items() if is_number(score)],
        **{f"{key}_at": axis.at(value) for key, value in ends.items()},
        "ticks": [(value, at) for value, at in axis.ticks() if not share or 0 <= value <= 100],
    }


def _metric_name(summary: Mapping[str, Any]) -> tuple[str, bool]:
    """What the scores are called, and whether they are percentages."""
    verdict = summary.get("verdict") or {}
    return str(verdict.get("metric") or "accuracy").replace("_", " "), verdict.get("share", True)


def prepare_methods(summary: Mapping[str, Any]) -> Section:
    """Cells with shades, the automatic method first, and the best of each column among the methods that compete."""
    domains, methods = summary["domains"], sorted(summary["methods"], key=lambda one: one["kind"] != "auto")
    metric, share = _metric_name(summary)
    digits = 1 if share else 3
    found = [[method["accuracies"].get(name) or {} for name in domains] for method in methods]
    means = [[cell.get("mean") for cell in cells] for cells in found]
    # Ties at the precision shown are all best; the last column is the mean over domains.
    competing = [
        [
            round(v, digits) if is_number(v) and method["kind"] != "reference" else None
            for v in (*values, method["mean"])
        ]
        for method, values in zip(methods, means, strict=True)
    ]
    tops = [max(filter(is_number, column), default=math.inf) for column in zip(*competing, strict=True)]
    rows = []
    for method, cells, row_shades, values in zip(methods, found, compute_shades(means), competing, strict=True):
        *best, best_mean = (value == top for value, top in zip(values, tops, strict=True))
        shown = [
            {"mean": cell.get("mean"), "sd": cell.get("sd"), "shade": shade, "best": is_best}
            for cell, shade, is_best in zip(cells, row_shades, best, strict=True)
        ]
        rows.append({**method, "cells": shown, "best": best_mean})
    repeated = any(cell["sd"] is not None for row in rows for cell in row["cells"])
    about = {"metric": metric, "share": share, "digits": digits}
    return {"domains": domains, "rows": rows, "repeated": repeated, **about}


def prepare_ensemble(summary: Mapping[str, Any]) -> Section:
    """Mean weights as bars, steps with what came of them, and the reliability diagram on a square."""
    pool = summary["pool"]
    known = [weight for weight in pool["weights"].values() if is_number(weight)]
    most = max(known, default=0.0) or 1.0
    bars = [(name, w, round(100 * w / most, 3) if is_number(w) else 0) for name, w in pool["weights"].items()]
    dots = [
        {
            **one,
            "x": round(DIAGRAM_SIDE * one["confidence"], 1),
            "y": round(DIAGRAM_SIDE * (1 - one["accuracy"]), 1),
            "r": round(2 + 18 * math.sqrt(one["share"]), 1),
        }
        for one in pool["calibration"]["bins"]
        if all(is_number(one[name]) for name in ("confidence", "accuracy", "share"))
    ]
    return {**pool, "bars": bars, "dots": dots, "square": DIAGRAM_SIDE}


def prepare_embedding(summary: Mapping[str, Any]) -> Section:
    """The section, and under "payload" what the script draws."""
    embedding, pictures = summary["embedding"], summary.get("pictures") or {}
    domains = [str(name) for name in embedding["domains"]]
    payload = {
        "classes": [str(name) for name in embedding["classes"]],
        "domains": domains,
        "heldOut": domains.index(str(embedding["held_out"])) if str(embedding["held_out"]) in domains else -1,
        "panels": [scale_to_canvas(embedding["before"]), scale_to_canvas(embedding["after"])],
        **{name: [int(code) for code in embedding[name]] for name in ("class", "domain", "row")},
        "pictures": [pictures.get(str(row)) for row in embedding["row"]] if pictures else [],
    }
    return {**embedding, "payload": payload}


def prepare_diagnosis(summary: Mapping[str, Any]) -> Section:
    """The distances as two heat maps that share their scale."""
    diagnosis = summary["diagnosis"]
    distances = diagnosis["distances"]
    apart = {
        kind: [[None if i == j else value for j, value in enumerate(row)] for i, row in enumerate(distances[kind])]
        for kind in ("marginal", "conditional")
    }
    everything = [row for rows in apart.values() for row in rows]
    top = max((value for row in everything for value in row if is_number(value)), default=1.0)
    maps = {kind: {"rows": rows, "shades": compute_shades(rows, low=0.0, high=top)} for kind, rows in apart.items()}
    return {**diagnosis, "maps": maps, "decimals": count_decimals(everything)}


def prepare_confusion(summary: Mapping[str, Any]) -> Section:
    """Each table with the share of its row as shade, and what part of a class was found."""
    tables, prepared = summary["confusion"], []
    domains = list(dict.fromkeys(table["domain"] for table in tables))
    for table in tables:
        totals = table.get("totals") or [sum(row) for row in table["counts"]]
        share = [[n / max(total, 1) for n in row] for row, total in zip(table["counts"], totals, strict=True)]
        found = [100 * share[i][i] if total else None for i, total in enumerate(totals)]
        texts = [[format_number(n, 0 if float(n).is_integer() else 1) for n in row] for row in table["counts"]]
        shown = {
            "found": found,
            "shades": compute_shades(share, low=0.0, high=1.0),
            "group": domains.index(table["domain"]),
        }
        prepared.append({**table, **shown, "texts": texts})
    together = all(len(table["classes"]) <= MAX_CLASSES_SIDE_BY_SIDE for table in tables)
    left_out = max((table.get("left_out", 0) for table in tables), default=0)
    repeats = max((table.get("repeats", 1) for table in tables), default=1)
    advice = (summary.get("verdict") or {}).get("recommendation") or {}
    return {
        "tables": prepared,
        "domains": domains,
        "together": together,
        "left_out": left_out,
        "repeats": repeats,
        "recommended": all(table["method"] == advice.get("method") for table in tables),
    }


def prepare_hardest(summary: Mapping[str, Any]) -> list[Section]:
    """Samples that most methods get wrong, by class, each with its picture if there is one."""
    pictures = summary.get("pictures") or {}
    return [
        {**part, "samples": [{**one, "picture": pictures.get(str(one["row"]))} for one in part["samples"]]}
        for part in summary["hardest"]
    ]


def prepare_surface(summary: Mapping[str, Any]) -> Section:
    """Scores with one row for each value of y and one column for each value of x."""
    surface = summary["surface"]
    scores = surface["scores"]
    if len(scores) != len(surface["y"]) or any(len(row) != len(surface["x"]) for row in scores):
        raise ValueError(
            f"The scores of the validation surface need {len(surface['y'])} rows, one for each y, and "
            f"{len(surface['x'])} columns, one for each x; got rows of length {[len(row) for row in scores]}."
        )
    return {**surface, "shades": compute_shades(scores), "decimals": count_decimals(scores)}


# In the order of the page: the key that a section needs, its heading, and what prepares it.
SECTIONS: list[tuple[str, str, Callable[[Mapping[str, Any]], Any]]] = [
    ("verdict", "Verdict", prepare_verdict),
    ("methods", "Accuracy where each domain was held out", prepare_methods),
    ("pool", "The pool", prepare_ensemble),
    ("embedding", "Before and after", prepare_embedding),
    ("diagnosis", "How the domains differ", prepare_diagnosis),
    ("confusion", "Which classes are confused", prepare_confusion),
    ("hardest", "What most methods get wrong", prepare_hardest),
    ("surface", "What validation saw", prepare_surface),
    ("settings", "Chosen settings", lambda summary: summary["settings"]),
    ("provenance", "How it was made", lambda summary: summary["provenance"]),
]


def prepare_sections(summary: Mapping[str, Any]) -> list[Section]:
    """The sections that the summary has something for."""
    present = [section for section in SECTIONS if summary.get(section[0]) not in (None, [])]
    metric = _metric_name(summary)[0].capitalize()
    return [
        {"name": name, "title": title.replace("Accuracy", metric), "view": view(summary)}
        for name, title, view in present
    ]
