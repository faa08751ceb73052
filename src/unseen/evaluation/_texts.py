"""Texts of a validation: a page for colleagues in plain language, paragraphs for a paper, a reporting checklist.

The words are in ``texts.csv`` and ``checklist.csv``. A row is used if the fact that its column `when` names is true; a
row of a fact that is a list is repeated with the values of each entry. This module computes the facts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from ..model_selection import group_by
from ..report import format_number
from ._measures import FEW_EVENTS, MeasureSummary

if TYPE_CHECKING:
    from ._result import ValidationResult

MAX_NAMED = 4  # sites in a sentence
MAX_LISTED = 12  # columns and classes in the checklist
# What an interval of a measure that lies above 1, or below 1, means for predicted risks.
CALIBRATION = {
    "observed_expected": ("too low", "too high"),
    "calibration_slope": ("too cautious", "too extreme (high ones too high, low ones too low)"),
}
Facts = dict[str, Any]


class Texts:
    """The texts of a validation, all made from the same facts."""

    def __init__(self, result: ValidationResult) -> None:
        self.facts = collect_facts(result)

    def colleagues(self) -> list[dict[str, Any]]:
        """One page in plain language: main figures, what was tested, what to use, what to expect, what to doubt."""
        return [{"heading": heading, "sentences": words} for heading, words in self._parts("colleagues")]

    def methods(self) -> list[str]:
        """Paragraphs for the Methods section of a paper, and the references that they cite."""
        paragraphs = [" ".join(words) for _, words in self._parts("methods")]
        cited = set(re.findall(r"\w+ \d{4}(?=[,)])", " ".join(paragraphs)))
        references = [row["reference"] for row in _read_rows("references.csv") if row["key"] in cited]
        return [*paragraphs, f"References: {' '.join(references)}"]

    def results(self) -> list[str]:
        """Paragraphs for the Results section of a paper."""
        return [" ".join(words) for _, words in self._parts("results")]

    def checklist(self) -> list[dict[str, str]]:
        """Items of TRIPOD-Cluster and TRIPOD+AI with their section, and the answer or what the author has to add.

        The items are worded for this report; the original checklists are those of Debray et al. (2023), BMJ
        380:e071018, and Collins et al. (2024), BMJ 385:e078378.
        """
        items = []
        for rows in group_by(_read_rows("checklist.csv"), lambda row: row["item"]):
            answers = [row["answer"].format(**self.facts) for row in rows if row["when"] and self.facts[row["when"]]]
            answer = next(iter(answers), "AUTHOR: to be filled in")
            items.append({"section": rows[0]["section"], "item": rows[0]["item"], "answer": answer})
        return items

    def _parts(self, text: str) -> Iterator[tuple[str, list[str]]]:
        """The parts of a text that have words."""
        own = [row for row in _read_rows("texts.csv") if row["text"] == text]
        for rows in group_by(own, lambda row: row["part"]):
            words = []
            for row in rows:
                fact = self.facts[row["when"]]
                entries = fact if isinstance(fact, list) else [{}] * bool(fact)
                words += [row["words"].format_map({**self.facts, **entry}) for entry in entries]
            if words:
                yield rows[0]["part"].format(**self.facts), words


@cache
def _read_rows(name: str) -> list[dict[str, str]]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def interval_text(ends: tuple[float, float], digits: int = 2) -> str:
    """Format an interval."""
    return f"{format_number(ends[0], digits)} to {format_number(ends[1], digits)}"


def percent_range(shares: Sequence[float]) -> str:
    """Format the range of shares."""
    return f"{100 * min(shares):.1f}% to {100 * max(shares):.1f}%"


def list_names(names: Sequence[Any], n_shown: int = MAX_NAMED) -> str:
    """List the first names."""
    texts = list(map(str, names))
    if len(texts) > n_shown:
        return f"{', '.join(texts[:n_shown])} and {len(texts) - n_shown} more"
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def per_hundred(name: str, summary: MeasureSummary, *, is_complement: bool = False) -> Facts:
    """A share, or its complement, as a number out of 100, and its range at a new site if there are enough sites."""
    if not summary.is_defined:
        return {name: ""}
    values = np.array([summary.value, *summary.prediction_interval])
    if is_complement:
        values = 1 - values[[0, 2, 1]]
    share, low, high = (f"{100 * value:.0f}" for value in values)
    return {name: share, f"{name}_range": f" (at a new site likely {low} to {high})" if summary.has_range else ""}


def collect_facts(result: ValidationResult) -> Facts:
    """Collect everything that the texts say about a validation."""
    settings = result.settings
    records = result.site_records
    n_rows = sum(one["rows"] for one in records)
    n_sites = len(records)
    columns = result.columns
    sizes = [one["rows"] for one in records]
    missing = [one["missing_share"] for one in records if one["missing_share"] is not None]
    failed = [one["site"] for one in records if one["failure"]]
    few = [one["site"] for one in records if one["few_events"]]
    sites = f"{n_sites} site{'s' * (n_sites > 1)}"
    facts = {
        "scale": "standardize",
        "balance": "none",
        "version": "",
        "command": "",
        "design": "",
        "imputation": "the median of the training sites",
        "exchanged": False,
        **settings.facts,
        "always": True,
        "external": bool(settings.external),
        "internal": not settings.external,
        "internal_auto": not settings.external and settings.method == "auto",
        "internal_other": not settings.external and settings.method != "auto" and "exchanged" not in settings.facts,
        "binary": result.is_binary,
        "multiclass": not result.is_binary,
        "several_sites": n_sites > 1,
        "one_site": n_sites == 1,
        "prior": settings.use_prior,
        "repeated": result.has_repeated_units,
        "method": settings.method,
        "level": f"{settings.level:.0%}",
        "unit": result.unit,
        "sites": sites,
        "n_sites": n_sites,
        "n_others": n_sites - 1,
        "n_rows": f"{n_rows:,}",
        "site_sizes": _describe_sizes(sizes, result.unit),
        "size": f"{n_rows:,} {result.unit} from {sites}",
        "event_count": "",
        "event_share": "",
        "n_classes": len(result.classes),
        "class_names": list_names(result.classes.tolist(), MAX_LISTED),
        "columns": bool(columns),
        "n_columns": len(columns),
        "column_names": list_names(columns, MAX_LISTED),
        "missing": f" ({percent_range(missing)} of all values)" if missing else "",
        "subgroups": ", ".join(result.subgroups),
        "failed": list_names(failed),
        "failures": f"; no model without {', '.join(failed)}" if failed else "",
        "few": few and (f"{len(few)} of {sites} ({list_names(few)})" if len(few) < n_sites else f"all {sites}"),
        "n_few": len(few),
        "few_limit": FEW_EVENTS,
        "outcomes": f"events or fewer than {FEW_EVENTS} non-events" if result.is_binary else "rows of the rarest class",
        "expectation": "What to expect at a new site" if n_sites > 1 else "Performance",
        "recommendation": result.recommendation.sentence if result.recommendation else "",
        "threshold": 0.5 if settings.aim is None else settings.aim,
        "chosen_threshold": result.is_binary and isinstance(settings.aim, str),
        "fixed_threshold": result.is_binary and not isinstance(settings.aim, str),
        "compared": "AUC" if result.is_binary else "log loss",
        **_list_measures(result),
        **_list_differences(result),
        **_describe_development(result, n_rows - max(sizes)),
    }
    return facts | (_describe_binary(result) if result.is_binary else _describe_classes(result))


def _describe_sizes(sizes: Sequence[int], unit: str) -> str:
    """The numbers of rows of the sites."""
    if min(sizes) == max(sizes):
        return f"{min(sizes):,} {unit} each"
    return f"{min(sizes):,} to {max(sizes):,} {unit}"


def _list_measures(result: ValidationResult) -> Facts:
    """The summary of each measure of the reported method."""
    level = f"{result.settings.level:.0%}"
    entries = []
    for (method, measure, of_class), one in result.summaries.items():
        if method != result.settings.method or not one.is_defined:
            continue
        more = ""
        if one.effects is not None:
            more = (
                f"; {level} prediction interval {interval_text(one.prediction_interval)}; tau "
                f"{format_number(one.effects.tau, 2)}, I² {format_number(100 * one.effects.i2, 0)}%"
            )
            if one.n_dropped:
                more += f"; not defined at {one.n_dropped} site{'s' * (one.n_dropped > 1)}"
        entry = {"label": result.label_measure(measure, of_class), "value": format_number(one.value, 2), "more": more}
        entries.append({**entry, "interval": interval_text(one.interval)})
    return {"measures": entries}


def _list_differences(result: ValidationResult) -> Facts:
    """The differences from other methods with their intervals."""
    entries = [
        {
            "other": record["method"],
            "difference": format_number(record["difference"], 3),
            "interval": interval_text((record["low"], record["high"]), 3),
        }
        for record in result.comparison_records
        if np.isfinite(record["difference"])
    ]
    listed = ", ".join(f"{one['other']} {one['difference']} ({one['interval']})" for one in entries)
    return {"differences": entries, "differences_listed": result.recommendation and listed}


def _describe_development(result: ValidationResult, n_training: int) -> Facts:
    """The number of rows that the model needs, and whether the training sites have it."""
    size = result.development_size
    if size is None or result.settings.external:
        return {"needed": "", "not_needed": True}
    return {
        "needed": f"{size.n_rows:,.0f}",
        "not_needed": False,
        "n_parameters": size.n_parameters,
        "r2": format_number(size.r2, 2),
        "n_training": f"{n_training:,}",
        "enough": "is enough" if n_training >= size.n_rows else "is too few",
    }


def _describe_classes(result: ValidationResult) -> Facts:
    """How well each of several classes is told from the others."""
    summaries = {name: result.get_summary("auc", of_class=name) for name in result.classes.tolist()}
    aucs = [{"name": name, **per_hundred("auc", one)} for name, one in summaries.items() if one.is_defined]
    of_events = ("key_figures", "bias", "auc", "flagging", "benefit", "observed", "explanations", "miscalibrated")
    return {"class_aucs": aucs, "worst": "", **dict.fromkeys(of_events, "")}


def _describe_binary(result: ValidationResult) -> Facts:
    """Discrimination, calibration and usefulness of predicted risks."""
    settings = result.settings
    names = ("auc", "calibration_slope", "observed_expected", "sensitivity", "specificity")
    auc, slope, ratio, sensitivity, specificity = (result.get_summary(name) for name in names)
    estimates = {name: result.estimates[settings.method, name, settings.positive] for name in names}
    figures = [
        f"{label} {format_number(one.value, 2)} ({interval_text(one.interval)})"
        for label, one in (("AUC", auc), ("calibration slope", slope), ("observed:expected ratio", ratio))
        if one.is_defined
    ]
    n_events = sum(one["events"] for one in result.site_records)
    n_rows = sum(one["rows"] for one in result.site_records)
    share = f"{n_events:,} ({100 * n_events / n_rows:.1f}%)"
    prevalences = percent_range([one["prevalence"] for one in result.site_records])
    facts: Facts = {
        "class_aucs": [],
        "event": result.event,
        "outcome": settings.event or settings.positive,
        "event_count": f", of which {share} have the event",
        "event_share": f", of which {share} had the event ({prevalences} by site)",
        "prevalences": prevalences,
        "key_figures": ", ".join(figures),
        "bias": [],
        "miscalibrated": [],
        **per_hundred("auc", auc),
        **per_hundred("flagged", sensitivity),
        **per_hundred("alarms", specificity, is_complement=True),
        **per_hundred("observed", ratio),
        "worst": "",
        "flagging": sensitivity.is_defined and specificity.is_defined,
        "threshold_range": _describe_thresholds(result),
        "aim": _describe_aim(settings.aim),
        "odds": "as much as" if result.odds == 1 else f"{format_number(1 / result.odds, 1)} times as much as",
        "alarm_weight": (
            "the same weight as" if result.odds == 1 else f"{format_number(result.odds, 3)} times the weight of"
        ),
        "benefit": _describe_benefit(result),
        "explanations": [
            {"explanation": one.explanation} for one in (auc, sensitivity, specificity) if one.explanation
        ],
    }
    for measure, meanings in CALIBRATION.items():
        overall = _side_of_one(result.get_summary(measure).interval)
        sides = {site: _side_of_one(one.interval) for site, one in estimates[measure].items()}
        for side, meaning in zip((1, -1), meanings, strict=True):
            places = [site for site in sides if sides[site] == side]
            facts["bias"] += [{"meaning": meaning}] * (overall == side)
            facts["miscalibrated"] += [{"meaning": meaning, "places": list_names(places)}] * bool(places)
    known = {site: one for site, one in estimates["auc"].items() if np.isfinite(one.value)}
    if len(known) > 1:
        worst = min(known, key=lambda site: known[site].value)
        interval = interval_text(known[worst].interval)
        facts |= {"worst": worst, "worst_auc": f"{format_number(known[worst].value, 2)} ({interval})"}
    return facts


def _side_of_one(interval: tuple[float, float]) -> int:
    """Side of 1 on which an interval lies: -1 below, 1 above, 0 if it contains 1 or is not defined."""
    return int(interval[0] > 1) - int(interval[1] < 1)


def _describe_benefit(result: ValidationResult) -> str:
    """Whether the model is more useful than flagging nobody and than flagging everybody, at the stated odds."""
    parts = []
    for whom, measure in (("nobody", "net_benefit"), ("everybody", "net_benefit_over_all")):
        one = result.get_summary(measure)
        if not one.is_defined:
            return ""
        low, high = one.interval
        verdict = "not clearly different from"
        if low > 0 or high < 0:
            verdict = "more useful than" if low > 0 else "less useful than"
        figures = f"{format_number(100 * one.value, 1)}, {interval_text((100 * low, 100 * high), 1)}"
        parts.append(f"{verdict} flagging {whom} (net benefit per 100 {result.unit} {figures})")
    return " and ".join(parts)


def _describe_thresholds(result: ValidationResult) -> str:
    """The median threshold of the sites, and their range."""
    thresholds = [one["threshold"] for one in result.site_records if one["threshold"] is not None]
    low, median, high = (f"{100 * value:.0f}%" for value in np.quantile(thresholds, [0, 0.5, 1]))
    return median if low == high else f"{median} ({low} to {high}, depending on the site)"


def _describe_aim(aim: str | float | None) -> str:
    """How a threshold was chosen."""
    name, _, value = str(aim).partition("=")
    if name == "youden":
        return ", the threshold with the largest sum of sensitivity and specificity at the other sites"
    if name == "cost":
        misses, alarms = value.split(":")
        return f", chosen at the other sites so that a missed event costs {misses} and a false alarm {alarms}"
    if name in ("sensitivity", "specificity"):
        return f", chosen for a {name} of {float(value):.0%} at the other sites"
    return ""
