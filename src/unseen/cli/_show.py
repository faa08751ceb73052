"""``unseen show``: what is inside a model file."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any

import typer
from rich.table import Table as RichTable

from ._report import make_console, make_table, print_result, show_columns, translate_errors

KIND_TEXTS = {
    "plain": "plain: classifies row by row",
    "inductive": "inductive: classifies row by row",
    "transductive": "transductive: looks at the rows of each new domain together, so it needs a batch of each",
}
SCALE_TEXTS = {"standardize": "columns to unit variance", "l2": "rows to unit length", "none": "none"}
MAX_SHOWN_NAMES = 12  # classes and domains listed by name
BAR_WIDTH = 20  # characters of a member that weighs everything


def show(
    model: Annotated[Path, typer.Argument(help="A file that unseen fit wrote.")],
    columns: Annotated[bool, typer.Option("--columns", help="Also list how every column was used.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole card as JSON.")] = False,
) -> None:
    """Show what a model was fitted on, what was chosen, and how it scored. Reads the card only, runs nothing.

    Example: unseen show model.unseen
    """
    from ..models import ModelFileError, read_card

    with translate_errors():
        facts = read_card(model)
        try:
            print_result(facts, as_json, print_card)
            show_columns(facts.get("data", {}).get("columns", []), columns and not as_json)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{model}: its card is not one that `unseen fit` wrote; --json shows it.") from error


def print_card(card: dict[str, Any]) -> None:
    """Print a card for people."""
    console = make_console()
    facts = RichTable.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_column(overflow="fold")
    for name, value in _card_facts(card):
        facts.add_row(name, value)
    console.print(facts)
    pool = card.get("pool") or {}
    if len(pool.get("members", [])) > 1:
        console.print("What is in the pool", style="italic")
        console.print(_member_table(pool["members"]))
    for line in _decision_lines(card, pool):
        console.print(line)
    scores = card.get("scores") or {}
    if scores.get("by_domain"):
        console.print("Accuracy on a domain held out, in percent", style="italic")
        console.print(_score_table(card, scores))
        if card.get("settings"):  # 1-NN has nothing to choose, and the weights of a pool did not see these domains
            said = "Settings were chosen on these same domains, so the figures are a little too good."
            console.print(said, style="dim")


def _card_facts(card: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values of what is there; cards of other origin may lack some."""
    data = card.get("data", {})
    domains = [quote_label(name) for name in data.get("domains", {})]
    classes = [quote_label(entry["class"]) for entry in data.get("classes", [])]
    versions = {key: card.get("machine", {}).get(key) for key in ("unseen", "python", "numpy", "scipy", "scikit-learn")}
    settings = card.get("settings", {})
    lines = [
        ("data", f"{data['name']}: {data['rows']:,} rows, {data['features']:,} features" if data else ""),
        ("domains", _format_names(domains)),
        ("classes", _format_names(classes)),
        ("model", str(card.get("model", ""))),
        ("settings", ", ".join(f"{name}={value}" for name, value in settings.items())),
        ("kind", KIND_TEXTS.get(str(card.get("kind")), "")),
        ("scaling", SCALE_TEXTS.get(str(card.get("scale")), "")),
        ("calibration", _calibration_text((card.get("pool") or {}).get("calibration", {}))),
        ("novelty", _novelty_text(card.get("novelty", {}).get("reference", {}))),
        ("created", str(card.get("created", ""))),
        ("command", str(card.get("command", ""))),
        ("versions", ", ".join(f"{name} {value}" for name, value in versions.items() if value)),
    ]
    return [(name, value) for name, value in lines if value]


def quote_label(label: object) -> str:
    """A label as people read it; in quotes if it holds commas, line breaks or what a terminal might obey."""
    text = str(label)
    return text if text.isprintable() and "," not in text and text == text.strip() != "" else repr(text)


def _format_names(names: list[str]) -> str:
    from ..utils.validation import format_list

    return f"{len(names)}: {format_list(names, MAX_SHOWN_NAMES, quote=False)}" if names else ""


def _novelty_text(reference: dict[str, float]) -> str:
    if not reference:
        return ""
    furthest = max(reference, key=lambda name: reference[name])
    middle = float(median(reference.values()))
    largest = f"{quote_label(furthest)} with {reference[furthest]:.3f}"
    return f"a source lies {middle:.3f} from the nearest other one (median); furthest is {largest}"


def _member_table(members: list[dict[str, Any]]) -> RichTable:
    """Members with their weights as bars, those of one variant in one line."""
    table, variants = make_table(["model", "kind", "weight"], [""]), dict[str, tuple[str, float, int]]()
    for one in members:
        _, weight, n = variants.get(one["model"], ("", 0.0, 0))
        variants[one["model"]] = one["kind"], weight + one["weight"], n + 1
    for name, (kind, weight, n) in sorted(variants.items(), key=lambda item: -item[1][1]):
        times = f" ({n} settings)" if n > 1 else ""
        table.add_row(f"{name}{times}", kind, "█" * max(1, round(BAR_WIDTH * weight)), f"{100 * weight:.0f}%")
    return table


def _decision_lines(card: dict[str, Any], pool: dict[str, Any]) -> list[str]:
    """Why steps that look at new domains are or are not taken, and what to expect of the next domain."""
    lines = [str(line) for line in pool.get("decisions", [])]
    return lines + ([str(card["promise"])] if card.get("promise") else [])


def _calibration_text(told: dict[str, Any]) -> str:
    """What tempering has done to probabilities, on held-out domains."""
    if not told:
        return ""
    before, after = told["before"], told["after"]
    return (
        f"on domains held out probabilities are off by {100 * after['ece']:.1f} points ({100 * before['ece']:.1f} "
        f"before they were tempered), log loss {after['log_loss']:.3f} ({before['log_loss']:.3f} before)"
    )


def _score_table(card: dict[str, Any], scores: dict[str, Any]) -> RichTable:
    rows, baseline = scores.get("rows") or {}, scores.get("baseline")  # cards of earlier versions have no rows
    models = [str(card.get("model")), *(["plain logistic"] if baseline else [])]
    table = make_table(["held-out domain"], [*(["rows scored"] if rows else []), *models])
    for name, score in scores["by_domain"].items():
        accuracies = [score, baseline[name]] if baseline else [score]
        counts = [f"{rows[name]:,}"] if rows else []
        table.add_row(quote_label(name), *counts, *(f"{100 * value:.1f}" for value in accuracies))
    table.add_section()
    means = [scores["mean"], fmean(baseline.values())] if baseline else [scores["mean"]]
    table.add_row("mean", *([""] if rows else []), *(f"{100 * mean:.1f}" for mean in means))
    return table
