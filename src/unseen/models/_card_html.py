"""The card of a model for people: one line of text, and HTML for notebooks.

A card may come from a file of a stranger, so every value is escaped. `check_card` has checked its structure when it was
loaded.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..model_selection import METHODS, Forecast
from ..tables import format_count
from ..utils.io import escape_controls
from ..utils.validation import format_list
from ._model_card import forecast_from_dict

# Sections of the cards of `unseen.fit`. An estimator that was saved with another card lacks them.
FIT_SECTIONS = ("created", "data", "ensemble", "kind", "schema", "scores")
MAX_NAMES = 8  # classes, domains, columns or levels that are listed
MAX_MEMBERS = 6
KIND_TEXTS = {
    "plain": "Each row is predicted by itself.",
    "inductive": "Each row is predicted by itself.",
    "transductive": "All rows of a new domain are predicted together: at least 10 rows of each are needed.",
}
COLUMN_KINDS = {"numeric": "Numbers", "categorical": "Categories", "date": "Dates"}
VERSION_NAMES = ("unseen", "python", "numpy", "scipy", "scikit-learn")
STYLE = """
.unseen-card{font:14px/1.45 system-ui,sans-serif;max-width:58rem;border:1px solid #8886;border-radius:6px;
 padding:.8em 1.1em}
.unseen-card h4{margin:0 0 .5em;font-size:1.15em;overflow-wrap:anywhere}
.unseen-card dl{margin:0}
.unseen-card dl>div{display:flex;flex-wrap:wrap;gap:0 1em;padding:.45em 0;border-top:1px solid #8884}
.unseen-card dt{flex:1 1 9.5em;font-weight:600}
.unseen-card dd{flex:7 1 16em;margin:0;min-width:0;overflow-wrap:anywhere}
.unseen-card p{margin:0 0 .25em}
.unseen-card .big{font-size:1.7em;font-weight:600;line-height:1.2}
.unseen-card .track{position:relative;height:.55em;border-radius:.3em;background:#8883;margin:.35em 0;max-width:26em}
.unseen-card .track i{position:absolute;top:0;bottom:0;border-radius:.3em;background:#2a78b8}
.unseen-card .track b{position:absolute;top:-.2em;bottom:-.2em;width:3px;margin-left:-1px;background:currentColor}
.unseen-card .ends{display:flex;justify-content:space-between;max-width:30.6em;font-size:.85em;opacity:.8}
.unseen-card ul{list-style:none;margin:.2em 0 0;padding:0}
.unseen-card li{margin:.25em 0}
.unseen-card table{border-collapse:collapse;margin:.3em 0;color:inherit;font:inherit}
.unseen-card td{padding:.1em 1.2em .1em 0;text-align:left}
.unseen-card td+td{text-align:right;font-variant-numeric:tabular-nums}
.unseen-card pre{margin:.2em 0 0;white-space:pre;overflow-x:auto;font-size:.93em}
.unseen-card summary{cursor:pointer}
.unseen-card .small{font-size:.9em;opacity:.85}
"""


def describe_card(card: Mapping[str, Any]) -> str:
    """Describe a model in one line: what it predicts, from what, and the data that it was trained on."""
    if not all(map(card.get, FIT_SECTIONS)):
        return escape_controls(str(card.get("model", "unknown")))
    data = card["data"]
    classes = format_list([entry["class"] for entry in data["classes"]], MAX_NAMES, quote=False)
    name = _model_name(card)
    target = card["schema"]["label"] or "classes"
    n_domains = format_count(len(data["domains"]), "domain")
    text = f"{name} predicts {target!r} ({classes}); {format_count(data['rows'], 'row')} of {n_domains}"
    return escape_controls(text)


def render_card(card: Mapping[str, Any]) -> str:
    """Render the card of a model as a fragment of HTML."""
    if not all(map(card.get, FIT_SECTIONS)):
        return f"<p>{_escape(describe_card(card))}: this card was not written by unseen.fit.</p>"
    facts = [(title, content) for title, section in SECTIONS.items() if (content := section(card))]
    title = _escape(card["schema"]["label"] or "the class")
    entries = "".join(f"<div><dt>{name}</dt><dd>{content}</dd></div>" for name, content in facts)
    heading = f"Model that predicts <em>{title}</em> in new domains"
    return f'<style>{STYLE}</style><div class="unseen-card"><h4>{heading}</h4><dl>{entries}</dl></div>'


def _escape(value: object) -> str:
    return html.escape(escape_controls(str(value)))


def _names(names: Iterable[Any], limit: int = MAX_NAMES) -> str:
    return _escape(format_list(list(names), limit, quote=False))


def _render_classes(card: Mapping[str, Any]) -> str:
    entries = card["data"]["classes"]
    texts = [f"{entry['class']} ({format_count(int(entry['rows']), 'row')})" for entry in entries]
    return f"{len(entries)} classes: {_names(texts)}"


def _render_training_data(card: Mapping[str, Any]) -> str:
    data = card["data"]
    domains = data["domains"]
    texts = [f"{name} ({int(rows):,})" for name, rows in domains.items()]
    size = f"{format_count(int(data['rows']), 'row')}, {format_count(int(data['features']), 'feature')}"
    return f"{size}, {format_count(len(domains), 'domain')}: {_names(texts)}"


def _render_expected_performance(card: Mapping[str, Any]) -> str:
    if not card.get("expected_performance"):
        return ""
    forecast = forecast_from_dict(card["expected_performance"])
    number = f'<p><span class="big">{_escape(forecast.format_score(forecast.mean))}</span> {_escape(forecast.metric)}'
    if not forecast.is_informative:
        return f"{number}</p><p>{_escape(forecast.explain_missing_interval())}.</p>{_render_scores(card, forecast)}"
    text = (
        f"{forecast.interval_text}, from {forecast.n_domains} held-out domains. It holds if a new domain differs from "
        "these as they differ from each other."
    )
    return f"{number}</p>{_render_interval(forecast)}<p>{_escape(text)}</p>{_render_scores(card, forecast)}"


def _render_interval(forecast: Forecast) -> str:
    """Draw the interval within the range of the metric; nothing if the range is not finite."""
    low, high = forecast.bounds
    width = high - low
    if not 0 < width < float("inf"):
        return ""
    start, center, end = (100 * (value - low) / width for value in (forecast.lower, forecast.mean, forecast.upper))
    bar = f'<i style="left:{start:.1f}%;width:{end - start:.1f}%"></i><b style="left:{center:.1f}%"></b>'
    ends = f"<span>{forecast.format_score(low)}</span><span>{forecast.format_score(high)}</span>"
    return f'<div class="track">{bar}</div><div class="ends">{ends}</div>'


def _render_scores(card: Mapping[str, Any], forecast: Forecast) -> str:
    scores = card["scores"]["by_domain"]
    rows = "".join(
        f"<tr><td>{_escape(name)}</td><td>{_escape(forecast.format_score(float(score)))}</td></tr>"
        for name, score in scores.items()
    )
    return f"<details><summary>Score on each held-out domain</summary><table>{rows}</table></details>"


def _model_name(card: Mapping[str, Any]) -> str:
    """The name of the model: of a single method, its description."""
    members = _summed_weights(card)
    if len(members) == 1:
        [name] = members
        return _describe_method(name) or name
    return f"an ensemble of {len(members)} models"


def _summed_weights(card: Mapping[str, Any]) -> dict[str, float]:
    """The weight of each model, summed over its settings, the largest first."""
    weights: dict[str, float] = {}
    for member in card["ensemble"]["members"]:
        name = str(member["model"])
        weights[name] = weights.get(name, 0.0) + float(member["weight"])
    return dict(sorted(weights.items(), key=lambda item: -item[1]))


def _describe_method(name: str) -> str:
    """The description of a method in the registry; empty if it is not there."""
    method = METHODS.get(name.partition(" + ")[0].partition(",")[0])
    return "" if method is None else method.description


def _render_members(card: Mapping[str, Any]) -> str:
    weights = _summed_weights(card)
    kind = _escape(KIND_TEXTS.get(str(card["kind"]), ""))
    if len(weights) == 1:
        [name] = weights
        settings = ", ".join(f"{key}={value}" for key, value in card.get("settings", {}).items())
        details = f'<p class="small">{_escape(name)}{_escape(f": {settings}" if settings else "")}</p>'
        return f"<p>{_escape(_capitalize(_model_name(card)))}. {kind}</p>{details}"
    items = []
    for name, weight in list(weights.items())[:MAX_MEMBERS]:
        description = _describe_method(name)
        text = f" ({_escape(description)})" if description else ""
        bar = f'<div class="track"><i style="left:0;width:{100 * min(weight, 1.0):.1f}%"></i></div>'
        items.append(f"<li>{weight:.0%} <b>{_escape(name)}</b>{text}{bar}</li>")
    if len(weights) > MAX_MEMBERS:
        items.append(f"<li>and {len(weights) - MAX_MEMBERS} more</li>")
    start = f"The mean of the probabilities of {len(weights)} models, with these weights. {kind}"
    return f"<p>{start}</p><ul>{''.join(items)}</ul>"


def _capitalize(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _render_columns(card: Mapping[str, Any]) -> str:
    columns = card["schema"]["columns"]
    lines = []
    for kind, title in COLUMN_KINDS.items():
        names = [column["name"] for column in columns if column["kind"] == kind]
        if kind == "categorical":
            names = [
                f"{column['name']} ({format_list(column['levels'], 5, quote=False)})"
                for column in columns
                if column["kind"] == kind
            ]
        if names:
            lines.append(f"<p>{title}: {_names(names)}</p>")
    may_be_absent = [column["name"] for column in columns if column.get("missing")]
    if may_be_absent:
        lines.append(f'<p class="small">May have missing values: {_names(may_be_absent)}</p>')
    return "".join(lines)


def _render_notices(card: Mapping[str, Any]) -> str:
    notices = card["data"]["notices"]
    if not notices:
        return ""
    items = "".join(f"<li>{_escape(notice)}</li>" for notice in notices)
    return f"<details><summary>{format_count(len(notices), 'note')}</summary><ul>{items}</ul></details>"


def _render_usage(card: Mapping[str, Any]) -> str:
    lines = [
        "model.predict(new_site)        # classes",
        "model.predict_proba(new_site)  # probabilities",
        "model.novelty(new_site)        # distance",
        'model.save("model.unseen")',
    ]
    return f"<pre>{_escape(chr(10).join(lines))}</pre>"


def _render_versions(card: Mapping[str, Any]) -> str:
    machine = card.get("machine", {})
    versions = ", ".join(f"{name} {machine[name]}" for name in VERSION_NAMES if machine.get(name))
    return f'<span class="small">{_escape(card["created"])}; {_escape(versions)}</span>'


def _render_threshold(card: Mapping[str, Any]) -> str:
    return _escape((card.get("threshold") or {}).get("text", ""))


SECTIONS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "Classes": _render_classes,
    "Trained on": _render_training_data,
    "Expected on a new domain": _render_expected_performance,
    "How it predicts": _render_members,
    "Decision threshold": _render_threshold,
    "Columns that it needs": _render_columns,
    "Notes": _render_notices,
    "Use": _render_usage,
    "Created": _render_versions,
}
