"""``unseen show``: print the model card of a model file."""

from __future__ import annotations

from collections import Counter
from statistics import fmean, median
from typing import Annotated, Any

from rich.table import Table as RichTable

from . import _options as o
from ._report import make_console, make_table, print_result, select_format, show_columns, translate_errors

KIND_TEXTS = {
    "plain": "plain: classifies row by row",
    "inductive": "inductive: classifies row by row",
    "transductive": "transductive: uses all rows of each new domain together, so it needs a batch of each",
}
SCALE_TEXTS = {"standardize": "columns to unit variance", "l2": "rows to unit length", "none": "none"}
MAX_SHOWN_NAMES = 12  # of classes and of domains
BAR_WIDTH = 20  # characters of a bar for a weight of 1


def show(
    model: o.ModelFile,
    *,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    columns: o.Columns = False,
    coefficients: Annotated[
        bool,
        o.make_option(
            o.OUTPUT, "--coefficients", help="List the coefficients of a logistic model, in the units of the table."
        ),
    ] = False,
    quiet: o.Quiet = False,
) -> None:
    """Show the data, the settings and the scores of a model. Reads only the model card, and runs no code from the file.

    Example: unseen show model.unseen
    """
    from ..models import load_model, read_card

    with translate_errors():
        o.check_result_output(output, inputs=[model])
        selected_format = select_format(format, output)
        if coefficients:
            rows = load_model(model).coefficients().to_dicts()
            print_result({"coefficients": rows}, show_coefficients, selected_format, output, rows)
            return
        if selected_format == "csv":
            raise ValueError("--format csv needs --coefficients: a model card is not a table. Use --format json.")
        card = read_card(model)

        def show_card(card: dict[str, Any]) -> None:
            print_card(card)
            if columns:
                show_columns(card.get("data", {}).get("columns", []))

        print_result(card, show_card, selected_format, output)


def show_coefficients(result: dict[str, Any]) -> None:
    """Print the coefficients of a logistic model as a table."""
    table = make_table(["class", "term"], ["coefficient", "if missing"])
    for row in result["coefficients"]:
        missing = "" if row["if_missing"] is None else f"{row['if_missing']:.6g}"
        table.add_row(quote_label(row["class"]), row["term"], f"{row['coefficient']:.6g}", missing)
    console = make_console()
    console.print(table)
    console.print("Log odds against the first class: intercept + sum of coefficient * term. Calibration is included.")


def print_card(card: dict[str, Any]) -> None:
    """Print a model card."""
    console = make_console()
    facts = RichTable.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_column(overflow="fold")
    for name, value in _card_facts(card):
        facts.add_row(name, value)
    console.print(facts)
    ensemble = card.get("ensemble") or {}
    if len(ensemble.get("members", [])) > 1:
        console.print("Members of the ensemble", style="italic")
        console.print(_member_table(ensemble["members"]))
    for decision in ensemble.get("decisions", []):
        console.print(str(decision))
    if card.get("expected_performance"):
        console.print(str(card["expected_performance"]["text"]))
    scores = card.get("scores") or {}
    if scores.get("by_domain"):
        console.print(_score_title(card), style="italic")
        console.print(_score_table(card, scores))
        # 1-NN has no settings to select, and the scores of an ensemble are cross-fitted.
        if card.get("settings"):
            text = "The settings were selected on these domains, so the scores are slightly optimistic."
            console.print(text, style="dim")


def _card_facts(card: dict[str, Any]) -> list[tuple[str, str]]:
    """Return names and values of the facts that the card contains; cards of other versions may lack some."""
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
        ("calibration", _calibration_text((card.get("ensemble") or {}).get("calibration", {}))),
        ("threshold", str((card.get("threshold") or {}).get("text", ""))),
        ("novelty", _novelty_text(card.get("novelty", {}).get("reference", {}))),
        ("adapted", _adaptation_text(card.get("adaptation") or {})),
        ("created", str(card.get("created", ""))),
        ("command", str(card.get("command", ""))),
        ("own types", ", ".join(card.get("trusted_types", []))),
        ("versions", ", ".join(f"{name} {value}" for name, value in versions.items() if value)),
    ]
    return [(name, value) for name, value in lines if value]


def quote_label(label: object) -> str:
    """Return a label as text, quoted if it contains commas, line breaks or control characters."""
    text = str(label)
    is_plain = text.isprintable() and "," not in text and text == text.strip() and text != ""
    return text if is_plain else repr(text)


def _format_names(names: list[str]) -> str:
    from ..utils.validation import format_list

    return f"{len(names)}: {format_list(names, MAX_SHOWN_NAMES, quote=False)}" if names else ""


def _novelty_text(reference: dict[str, float]) -> str:
    if not reference:
        return ""
    furthest = max(reference, key=lambda name: reference[name])
    return (
        f"median distance of a source domain to the nearest other one {float(median(reference.values())):.3f}; "
        f"largest {reference[furthest]:.3f}, of {quote_label(furthest)}"
    )


def _member_table(members: list[dict[str, Any]]) -> RichTable:
    """Make a table of the members with their weights as bars; the settings of one model share a line."""
    kinds: dict[str, str] = {}
    weights: dict[str, float] = {}
    n_settings: Counter[str] = Counter()
    for member in members:
        name = member["model"]
        kinds[name] = member["kind"]
        weights[name] = weights.get(name, 0.0) + member["weight"]
        n_settings[name] += 1
    table = make_table(["model", "kind", "weight"], [""])
    for name, weight in sorted(weights.items(), key=lambda item: -item[1]):
        settings = f" ({n_settings[name]} settings)" if n_settings[name] > 1 else ""
        bar = "█" * max(1, round(BAR_WIDTH * weight))
        table.add_row(f"{name}{settings}", kinds[name], bar, f"{100 * weight:.0f}%")
    return table


def _adaptation_text(adaptation: dict[str, Any]) -> str:
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


def _calibration_text(calibration: dict[str, Any]) -> str:
    """Describe the calibration of the probabilities on held-out domains."""
    if not calibration:
        return ""
    before = calibration["before"]
    after = calibration["after"]
    text = (
        f"calibration error on held-out domains {100 * after['ece']:.1f} points ({100 * before['ece']:.1f} without "
        f"temperature scaling), log loss {after['log_loss']:.3f}"
    )
    if after["log_loss"] > before["log_loss"]:
        return f"{text}; scaling does not reduce it here ({before['log_loss']:.3f} without)"
    return f"{text} ({before['log_loss']:.3f} without)"


def _score_title(card: dict[str, Any]) -> str:
    """Return the title of the table of scores."""
    name = str((card.get("scores") or {}).get("metric") or "accuracy")
    return f"{name[0].upper()}{name[1:]} on held-out domains{', in percent' if _is_percent(card) else ''}"


def _is_percent(card: dict[str, Any]) -> bool:
    return bool((card.get("expected_performance") or {}).get("is_percent", True))


def format_score(card: dict[str, Any], score: float) -> str:
    """Format a score, in percent if the metric is a share."""
    return f"{100 * score:.1f}" if _is_percent(card) else f"{score:.3f}"


def _score_table(card: dict[str, Any], scores: dict[str, Any]) -> RichTable:
    """Make a table of scores by held-out domain; cards of earlier versions have no numbers of rows."""
    n_rows = scores.get("rows") or {}
    baseline = scores.get("baseline")
    number_columns = ["rows scored"] if n_rows else []
    number_columns.append(str(card.get("model")))
    if baseline:
        number_columns.append("plain logistic")
    table = make_table(["held-out domain"], number_columns)
    for name, score in scores["by_domain"].items():
        cells = [f"{n_rows[name]:,}"] if n_rows else []
        cells.append(format_score(card, score))
        if baseline:
            cells.append(format_score(card, baseline[name]))
        table.add_row(quote_label(name), *cells)
    table.add_section()
    cells = [""] if n_rows else []
    cells.append(format_score(card, scores["mean"]))
    if baseline:
        cells.append(format_score(card, fmean(baseline.values())))
    table.add_row("mean", *cells)
    return table
