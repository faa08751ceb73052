"""``unseen predict``: classify the rows of a new table, however long it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..exceptions import SmallBatchError
from ..utils.io import check_target
from . import _options as o
from ._report import clean, errors, grid, notices, page, print_json, translate_errors
from ._show import readable

SHOWN = 20  # domains whose novelty is printed
LEGIBLE = 12  # classes that a table has room for
# How to avoid a SmallBatchError, in terms of options.
REMEDIES = {
    "batch": "predict a table with at least {min_rows} rows of each new domain",
    "inductive": "fit with --inductive",
    "source": "name a source domain in the column of --domain",
    "center": "leave out --center target",
}


def predict(
    model: Annotated[Path, typer.Argument(help="A file that unseen fit wrote.")],
    new: Annotated[Path, typer.Argument(help="A table; or a folder or pattern of several. Columns are found by name.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where predictions go: a .csv or .parquet file.")],
    center: Annotated[
        Literal["model", "target"],
        typer.Option(help="As the model was fitted, or on the new rows of each domain (transductive)."),
    ] = "model",
    domain: Annotated[str | None, typer.Option(help="Column that tells domains of the new table apart.")] = None,
    keep: Annotated[
        str | None, typer.Option(help="Columns to copy into the output, comma-separated, such as identifiers; or all.")
    ] = None,
    sets: Annotated[
        float | None,
        typer.Option(help="Add a column of sets of labels that hold the true one so often, such as 0.8."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows in memory at a time, fewer if they are wide.")] = 20_000,
    workers: o.Workers = None,
    scheduler: o.Scheduler = None,
    as_json: o.Json = False,
) -> None:
    """Predict the rows of a new table, in their order, and say how far they lie from what the model has seen.

    Example: unseen predict model.unseen new_hospital.csv -o predictions.csv
    """
    from ..models import RESULT_ENDINGS, load_model

    with translate_errors("Nothing was written."):
        check_target(output, *RESULT_ENDINGS, reads=(new, model))
        fitted, kept = load_model(model), "all" if keep == "all" else o.parse_names(keep)
        if sets is not None:  # before anything is read
            fitted.table_model.pool.threshold(sets)
        table = fitted.open_table(new, domain=domain, keep=kept, batch_size=batch_size)
        notices(table.notices)
        with o.cluster(workers, scheduler) as client:
            try:
                found = fitted.predict_table(table, output, center=center, sets=sets, client=client, verbose=1)
            except SmallBatchError as error:
                raise ValueError(f"{error.problem} {error.advice(REMEDIES)}") from error
        notices(found.notices)
        print_json(found.summary, as_json, show_predictions)
        errors.print(f"Wrote {output}")


def show_predictions(summary: dict[str, Any]) -> None:
    """Print how many rows got which label, how far they lie from the sources, and which labels were right."""
    names_domains = any(entry["domain"] is not None for entry in summary["novelty"])
    _say(_rows(summary["rows"]))
    for entry in summary["labels"]:
        _say(f"  {readable(entry['label'])}: {entry['rows']:,}")
    if summary["agreement"]:
        _print_agreement(summary["agreement"], names_domains)
    if summary["transductive"]:
        _say("The rows of each new domain were looked at together: the predictions are transductive.")
    if summary["sets"]:
        asked, size = 100 * summary["sets"]["coverage"], summary["sets"]["classes"]
        average = f"Sets of {size:.1f} labels on average, to hold the true one in {asked:g}% of rows of new domains."
        _say(summary["sets"]["note"] or average)
    found = sorted(summary["novelty"], key=lambda entry: -(entry["ratio"] or 0))
    _say_some([f"{readable(e['domain'])}: {e['text']}" if names_domains else e["text"] for e in found], "all nearer")


def _print_agreement(found: dict[str, Any], names_domains: bool) -> None:
    """Accuracy, and which label was predicted as which."""
    without = f"; {_rows(found['unlabeled'])} without a label" if found["unlabeled"] else ""
    _say(f"Accuracy: {_share(found)}{without}")
    domains = sorted(found["domains"], key=lambda entry: float(entry["accuracy"])) if names_domains else []
    _say_some([f"  {readable(entry['domain'])}: {_share(entry)}" for entry in domains], "none of them worse", "  ")
    names = [readable(name) for name in found["classes"]]
    if len(names) > LEGIBLE:
        _say(f"Which of the {len(names)} classes were taken for which: --json.")
        return
    table = grid(["label"], names, "Labels of the table, and what was predicted")
    rows = list(zip(names, found["counts"], strict=True))
    if found["others"]["rows"]:
        rows.append(("any other", found["others"]["counts"]))
    for name, counts in rows:
        table.add_row(name, *(f"{count:,}" for count in counts))
    page().print(table)


def _share(found: dict[str, Any]) -> str:
    return f"{100 * found['accuracy']:.1f}%, {found['right']:,} of {_rows(found['rows'])} right"


def _rows(number: int) -> str:
    from ..tables import format_count

    return format_count(number, "row")


def _say_some(lines: list[str], rest: str, indent: str = "") -> None:
    """Print a line for each domain, of the first few."""
    more = [f"{indent}... and {len(lines) - SHOWN} more domains, {rest}."] if len(lines) > SHOWN else []
    for line in lines[:SHOWN] + more:
        _say(line)


def _say(text: str) -> None:
    typer.echo(clean(text))
