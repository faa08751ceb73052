"""The model card: a description of a fitted model as a dictionary for JSON, and its summary for people.

A card may come from a file of a stranger. `check_card` checks its structure when it is loaded, and every value that is
shown is escaped.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from statistics import fmean, median
from typing import Any, get_args

import numpy as np

from ..model_selection import METHODS, FittedEnsemble, Forecast, LeaderboardRow, describe_expected_performance
from ..shift import Novelty
from ..tables import DATE_FORMATS, Kind, Schema, SurveyedTable, Table, TableError, format_count
from ..utils.io import escape_controls, plain_values
from ..utils.jobs import environment_info
from ..utils.validation import format_list

LEADERBOARD_KEYS = ("model", "kind", "mean", "standard_error", "weight", "reason", "params", "is_selected")


def model_card(
    table: Table,
    source: SurveyedTable | Table,
    selected: FittedEnsemble,
    scored: FittedEnsemble,
    novelty: Novelty,
    *,
    leaderboard: Iterable[LeaderboardRow],
    baseline: dict[str, float] | None,
    stream: dict[str, Any],
    **settings: Any,
) -> dict[str, Any]:
    """Describe a model: its training data, the model selection, the scores and the columns that it needs.

    `table` is in memory, all rows of `source` or a sample. `scored` is the selected ensemble with the scores of labels
    that a threshold gives. The settings of the fit become entries of the card.
    """
    if isinstance(source, SurveyedTable):
        n_rows = source.rows
        domain_rows = source.count_domain_rows()
        class_rows = source.count_class_rows()
    else:
        n_rows = len(table.X)
        domain_rows = Counter(np.sort(table.domain).tolist())
        class_rows = Counter(np.sort(table.y).tolist())
    domains = novelty.domains_.tolist()
    missing_shares = np.isnan(table.X).mean(axis=0).round(4).tolist()
    measure = f"{scored.forecast.metric} on a domain by a model fitted on the other domains"
    if stream:
        measure += f"; that model was fitted to {stream['choice_rows']:,} rows"
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {
            "name": table.name,
            "rows": n_rows,
            "features": table.X.shape[1],
            "domains": domain_rows,
            "missing": {name: n for name, n in zip(table.schema.feature_names, missing_shares, strict=True) if n},
            "classes": [{"class": value, "rows": count} for value, count in class_rows.items()],
            "notices": list(table.notices),
            "columns": table.describe_columns(),
        },
        "schema": table.schema.to_dict(),
        "model": selected.name,
        "kind": selected.kind,
        "settings": selected.members[0].params if len(selected.members) == 1 else {},
        **settings,
        "ensemble": selected.to_dict(),
        "expected_performance": {
            **plain_values(asdict(scored.forecast)),
            "text": describe_expected_performance(scored.forecast),
        },
        "scores": {
            "measure": measure,
            "metric": scored.forecast.metric,
            "mean": scored.mean,
            "by_domain": dict(zip(domains, scored.scores.tolist(), strict=True)),
            "rows": {name: len(codes) for name, codes in zip(domains, scored.predictions.codes, strict=True)},
            "baseline": baseline,
        },
        "leaderboard": [
            {key: getattr(row, key) for key in LEADERBOARD_KEYS} for row in leaderboard if np.isfinite(row.mean)
        ],
        "stream": stream,
        "novelty": {
            "reference": dict(zip(domains, novelty.reference_.tolist(), strict=True)),
            "resolution": novelty.resolution_,
        },
        "machine": environment_info(),
    }


def forecast_from_dict(data: Mapping[str, Any]) -> Forecast:
    """Make a forecast from the entry of a card, in which None stands for infinite bounds."""
    low, high, lowest, highest = (
        sign * np.inf if value is None else value
        for sign, value in zip((-1, 1, -1, 1), (data["lower"], data["upper"], *data["bounds"]), strict=True)
    )
    values = {**data, "lower": low, "upper": high, "bounds": (lowest, highest), "scores": tuple(data["scores"])}
    del values["text"]
    return Forecast(**values)


MAX_SHOWN_VALUE = 60  # characters in an error message
MAX_NUMBER = 1e18
WEIGHT_TOLERANCE = 1e-6  # of their sum, for rounding errors
VERSION = re.compile(r"[0-9][0-9A-Za-z.+]{0,40}")  # which enters a command that users are told to run
# What the value of a field may be; a question mark at the end of a kind stands for None as well.
KINDS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: type(value) is str,
    "a count": lambda value: type(value) is int and 0 <= value < MAX_NUMBER,
    "a number": lambda value: type(value) in (int, float) and abs(value) < MAX_NUMBER,
    "a number from 0 to 1": lambda value: type(value) in (int, float) and 0 <= value <= 1,
    "true or false": lambda value: type(value) is bool,
    "text or a number": lambda value: type(value) in (bool, int, float, str),
    "a kind of column": lambda value: type(value) is str and value in get_args(Kind),
    "a format of dates": lambda value: type(value) is str and value in DATE_FORMATS,
    "a version": lambda value: type(value) is str and VERSION.fullmatch(value) is not None,
    "any value": lambda value: True,
}
ANY_NAME = "*"  # key of a dictionary whose entries all have the same kind
CALIBRATION = {"ece": "a number", "log_loss": "a number"}
# What a card may contain. A question mark at the end of a name marks fields that may be absent, None or empty.
CARD_FIELDS: dict[str, Any] = {
    "unseen?": "a version",
    "scikit-learn?": "a version",
    "payload?": {"sha256": "text"},
    "trusted_types?": ["text"],
    **dict.fromkeys(("created?", "command?", "method?", "model?", "kind?", "scale?", "balance?"), "text"),
    **{name: {ANY_NAME: "any value"} for name in ("settings?", "machine?", "stream?")},
    "leaderboard?": [{"model": "text"}],
    "data?": {
        "name": "text",
        "rows": "a count",
        "features": "a count",
        "domains": {ANY_NAME: "a count"},
        "missing?": {ANY_NAME: "a number from 0 to 1"},
        "classes": [{"class": "text or a number", "rows": "a count"}],
        "notices": ["text"],
        "columns?": [{"column": "text", "use": "text", "levels": "a count?", "why": "text?"}],
    },
    "schema?": {
        "columns": [
            {
                "name": "text",
                "kind": "a kind of column",
                "levels": ["text"],
                "date_format": "a format of dates",
                "missing": "true or false",
                "missing_values": ["text"],
            }
        ],
        **dict.fromkeys(("label", "domain", "group"), "text?"),
    },
    "ensemble?": {
        "members": [{"model": "text", "weight": "a number from 0 to 1", "kind": "text"}],
        "decisions?": ["text"],
        "calibration?": {"before": CALIBRATION, "after": CALIBRATION},
    },
    "threshold?": {"value": "a number", "text": "text"},
    "expected_performance?": {
        **dict.fromkeys(("mean", "level"), "a number"),
        **dict.fromkeys(("lower", "upper"), "a number?"),
        "metric": "text",
        "scores": ["a number"],
        "bounds": ["a number?"],
        "is_percent": "true or false",
        "text": "text",
    },
    "scores?": {
        "metric?": "text",
        "mean": "a number",
        "by_domain": {ANY_NAME: "a number"},
        "rows?": {ANY_NAME: "a count"},
        "baseline?": {ANY_NAME: "a number"},
    },
    "novelty?": {"reference": {ANY_NAME: "a number"}},
    "adaptation?": {
        "level": "text",
        "reason": "text",
        "labels": "a count",
        "offsets?": {ANY_NAME: "a number"},
        "scale": "a number",
        "notices": ["text"],
        "domain": "text?",
        "created": "text",
        "parent": {"name": "text", "created": "text?", "sha256": "text?"},
    },
}


def check_card(card: Any) -> None:
    """Raise ValueError, which names the field, unless a card of any origin has the structure that `model_card` writes.

    Fields may be absent, and others may be added: an estimator can be saved with a card of any content. Those that are
    present have their types, so that a card can be printed, rendered and used without further checks.
    """
    _check_value(card, CARD_FIELDS, "")
    scores = card.get("scores") or {}
    for name in ("rows", "baseline"):
        if scores.get(name) and scores[name].keys() != scores["by_domain"].keys():
            raise ValueError(f"its card has other domains in scores/{name} than in scores/by_domain")
    forecast = card.get("expected_performance")
    if forecast and len(forecast["bounds"]) != 2:
        raise ValueError("its card has expected_performance/bounds that are not two numbers")
    members = (card.get("ensemble") or {}).get("members", [])
    if sum(member["weight"] for member in members) > 1 + WEIGHT_TOLERANCE:
        raise ValueError("its card has ensemble/members whose weights sum to more than 1")
    if card.get("schema"):
        try:
            Schema.from_dict(card["schema"])
        except TypeError as error:  # of a field that no column has
            raise ValueError(f"its card does not describe the columns that the model needs: {error}") from error
        except TableError as error:
            raise ValueError(f"its card has schema/columns that are not possible: {error.problems[0]}") from error


def _check_value(value: Any, kind: Any, path: str) -> None:
    """Compare a value with the kind that is expected, and the values inside of it."""
    if isinstance(kind, str):
        name = kind.removesuffix("?")
        is_valid = KINDS[name](value) or (value is None and name != kind)
    else:
        name = "a list" if isinstance(kind, list) else "a dictionary"
        is_valid = type(value) is type(kind)
    if not is_valid:
        text = repr(value) if len(repr(value)) <= MAX_SHOWN_VALUE else type(value).__name__
        raise ValueError(f"its card has {path or 'the content'} = {text}; {name} is expected")
    if isinstance(kind, list):
        for i, entry in enumerate(value):
            _check_value(entry, kind[0], f"{path}/{i}")
    elif isinstance(kind, dict):
        fields = dict.fromkeys(value, kind[ANY_NAME]) if ANY_NAME in kind else kind
        for key, entry_kind in fields.items():
            field = key if ANY_NAME in kind else key.removesuffix("?")
            field_path = f"{path}/{field}" if path else field
            if field in value and not (field != key and value[field] in (None, {})):
                _check_value(value[field], entry_kind, field_path)
            elif field == key:
                raise ValueError(f"its card lacks {field_path}")


# Sections of the cards of `unseen.fit`. An estimator that was saved with another card lacks them.
FIT_SECTIONS = ("created", "data", "ensemble", "kind", "schema", "scores")
BAR_WIDTH = 20  # characters of a bar for a weight of 1
MAX_NAMES = 12  # classes, domains or columns that are listed
KIND_TEXTS = {
    "plain": "plain: classifies row by row",
    "inductive": "inductive: classifies row by row",
    "transductive": "transductive: uses all rows of each new domain together, so it needs a batch of each",
}
SCALE_TEXTS = {"standardize": "columns to unit variance", "l2": "rows to unit length", "none": "none"}
VERSION_NAMES = ("unseen", "python", "numpy", "scipy", "scikit-learn")
STYLE = """
.unseen-card{font:14px/1.45 system-ui,sans-serif;max-width:58rem;border:1px solid #8886;border-radius:6px;
 padding:.8em 1.1em}
.unseen-card h4{margin:0 0 .5em;font-size:1.15em;overflow-wrap:anywhere}
.unseen-card dl{margin:.5em 0}
.unseen-card dl>div{display:flex;flex-wrap:wrap;gap:0 1em;padding:.45em 0;border-top:1px solid #8884}
.unseen-card dt{flex:1 1 9.5em;font-weight:600}
.unseen-card dd{flex:7 1 16em;margin:0;min-width:0;overflow-wrap:anywhere}
.unseen-card p{margin:0 0 .25em}
.unseen-card table{border-collapse:collapse;margin:.3em 0;color:inherit;font:inherit}
.unseen-card td{padding:.1em 1.2em .1em 0;text-align:left}
.unseen-card summary{cursor:pointer}
"""


def describe_card(card: Mapping[str, Any]) -> str:
    """Describe a model in one line: what it predicts, from what, and the data that it was trained on."""
    if not all(map(card.get, FIT_SECTIONS)):
        return escape_controls(str(card.get("model", "unknown")))
    data = card["data"]
    classes = format_list([entry["class"] for entry in data["classes"]], MAX_NAMES, quote=False)
    names = {member["model"] for member in card["ensemble"]["members"]}
    name = _describe_method(names.pop()) if len(names) == 1 else f"an ensemble of {len(names)} models"
    target = card["schema"]["label"] or "classes"
    n_domains = format_count(len(data["domains"]), "domain")
    text = f"{name} predicts {target!r} ({classes}); {format_count(data['rows'], 'row')} of {n_domains}"
    return escape_controls(text)


def _describe_method(name: str) -> str:
    """The description of a method in the registry, or the name."""
    method = METHODS.get(name.partition(" + ")[0].partition(",")[0])
    return name if method is None else method.description


def quote_label(label: object) -> str:
    """Return a label as text, quoted if it contains commas, line breaks or control characters."""
    text = str(label)
    is_plain = text.isprintable() and "," not in text and text == text.strip() and text != ""
    return text if is_plain else repr(text)


def summarize_card(card: Mapping[str, Any]) -> dict[str, Any]:
    """Summarize a card in text; cards of other versions may lack some of it.

    Returns
    -------
    summary : dict
        `facts` by name, and `blocks` that follow them: sentences, and tables with `title`, `columns` (those of text and
        those of numbers), `rows` and `total`, a last row or None.
    """
    data = card.get("data") or {}
    ensemble = card.get("ensemble") or {}
    forecast = card.get("expected_performance")
    machine = card.get("machine") or {}
    facts = {
        "data": f"{data['name']}: {data['rows']:,} rows, {data['features']:,} features" if data else "",
        "domains": _count_names(data.get("domains", ())),
        "classes": _count_names(entry["class"] for entry in data.get("classes", [])),
        "model": str(card.get("model", "")),
        "settings": ", ".join(f"{name}={value}" for name, value in (card.get("settings") or {}).items()),
        "kind": KIND_TEXTS.get(str(card.get("kind")), ""),
        "scaling": SCALE_TEXTS.get(str(card.get("scale")), ""),
        "calibration": _calibration_text(ensemble.get("calibration")),
        "threshold": str((card.get("threshold") or {}).get("text", "")),
        "novelty": _novelty_text((card.get("novelty") or {}).get("reference", {})),
        "adapted": _adaptation_text(card.get("adaptation")),
        "created": str(card.get("created", "")),
        "command": str(card.get("command", "")),
        "own types": ", ".join(card.get("trusted_types") or []),
        "versions": ", ".join(f"{name} {machine[name]}" for name in VERSION_NAMES if machine.get(name)),
    }
    remark = "The settings were selected on these domains, so the scores are slightly optimistic."
    blocks = [
        _member_table(ensemble.get("members", [])),
        *(ensemble.get("decisions") or []),
        forecast and forecast["text"],
        _score_table(card),
        # 1-NN has no settings to select, and the scores of an ensemble are cross-fitted.
        remark if card.get("settings") and card.get("scores") else "",
    ]
    return {"facts": {name: text for name, text in facts.items() if text}, "blocks": list(filter(None, blocks))}


def _count_names(labels: Any) -> str:
    names = [quote_label(label) for label in labels]
    return f"{len(names)}: {format_list(names, MAX_NAMES, quote=False)}" if names else ""


def _calibration_text(calibration: Mapping[str, Any] | None) -> str:
    """Describe the calibration of the probabilities on held-out domains."""
    if not calibration:
        return ""
    before = calibration["before"]
    after = calibration["after"]
    return (
        f"calibration error on held-out domains {100 * after['ece']:.1f} points, log loss {after['log_loss']:.3f}; "
        f"without temperature scaling {100 * before['ece']:.1f} points, log loss {before['log_loss']:.3f}"
    )


def _novelty_text(reference: Mapping[str, float]) -> str:
    if not reference:
        return ""
    furthest = max(reference, key=lambda name: reference[name])
    return (
        f"distance from a source domain to the nearest other one: median {float(median(reference.values())):.3f}, "
        f"largest {reference[furthest]:.3f} ({quote_label(furthest)})"
    )


def _adaptation_text(adaptation: Mapping[str, Any] | None) -> str:
    """Describe how a model was adapted to a new domain, and from which model."""
    if not adaptation:
        return ""
    parent = adaptation["parent"]
    checksum = f", SHA-256 {parent['sha256'][:12]}..." if parent["sha256"] else ""
    domain = f" of {quote_label(adaptation['domain'])}" if adaptation["domain"] is not None else ""
    return (
        f"{adaptation['created']}, to {adaptation['labels']:,} labels{domain}, level {adaptation['level']}; from "
        f"{parent['name']}{checksum}"
    )


def _member_table(members: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The models of an ensemble of several with their weights as bars, the largest first; settings share a line."""
    if len(members) < 2:
        return None
    models: dict[str, list[dict[str, Any]]] = {}
    for member in members:
        models.setdefault(member["model"], []).append(member)
    weights = {name: sum(member["weight"] for member in settings) for name, settings in models.items()}
    rows = []
    for name in sorted(models, key=lambda name: -weights[name]):
        settings = f" ({len(models[name])} settings)" if len(models[name]) > 1 else ""
        bar = "█" * max(1, round(BAR_WIDTH * weights[name]))
        rows.append([f"{name}{settings}", models[name][0]["kind"], bar, f"{100 * weights[name]:.0f}%"])
    columns = (["model", "kind", "weight"], [""])
    return {"title": "Members of the ensemble", "columns": columns, "rows": rows, "total": None}


def _score_table(card: Mapping[str, Any]) -> dict[str, Any] | None:
    """The scores by held-out domain, beside those of the baseline if there is one, and their means."""
    scores = card.get("scores")
    if not scores or not scores["by_domain"]:
        return None
    is_percent = (card.get("expected_performance") or {}).get("is_percent", True)

    def format_score(score: float) -> str:
        return f"{100 * score:.1f}" if is_percent else f"{score:.3f}"

    columns = {str(card.get("model")): [*scores["by_domain"].values(), scores["mean"]]}
    if scores.get("baseline"):
        columns["plain logistic"] = [*scores["baseline"].values(), fmean(scores["baseline"].values())]
    cells = {name: list(map(format_score, values)) for name, values in columns.items()}
    if scores.get("rows"):
        cells = {"rows scored": [*(f"{count:,}" for count in scores["rows"].values()), ""], **cells}
    *rows, total = map(list, zip([*map(quote_label, scores["by_domain"]), "mean"], *cells.values(), strict=True))
    metric = str(scores.get("metric") or "accuracy")
    title = f"{metric[0].upper()}{metric[1:]} on held-out domains{', in percent' if is_percent else ''}"
    return {"title": title, "columns": (["held-out domain"], list(cells)), "rows": rows, "total": total}


def render_card(card: Mapping[str, Any]) -> str:
    """Render the card of a model as a fragment of HTML."""
    if not all(map(card.get, FIT_SECTIONS)):
        return f"<p>{_escape(describe_card(card))}: this card was not written by unseen.fit.</p>"
    summary = summarize_card(card)
    title = f"<h4>Model that predicts <em>{_escape(card['schema']['label'] or 'the class')}</em> in new domains</h4>"
    columns = [column["name"] for column in card["schema"]["columns"]]
    facts = {**summary["facts"], "columns": format_list(columns, MAX_NAMES, quote=False)}
    entries = [f"<div><dt>{name.capitalize()}</dt><dd>{_escape(text)}</dd></div>" for name, text in facts.items()]
    blocks = map(_render_block, [*summary["blocks"], *card["data"]["notices"]])
    content = f"{title}<dl>{''.join(entries)}</dl>{''.join(blocks)}"
    return f'<style>{STYLE}</style><div class="unseen-card">{content}</div>'


def _render_block(block: Any) -> str:
    """Render a sentence or a table."""
    if isinstance(block, str):
        return f"<p>{_escape(block)}</p>"
    header = [name for names in block["columns"] for name in names]
    rows = [header, *block["rows"], *filter(None, [block["total"]])]
    lines = [f"<tr>{''.join(f'<td>{_escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    return f"<details><summary>{_escape(block['title'])}</summary><table>{''.join(lines)}</table></details>"


def _escape(value: object) -> str:
    return html.escape(escape_controls(str(value)))
