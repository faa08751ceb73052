"""``unseen predict``: classify the rows of a new table of any length."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..exceptions import SmallBatchError
from ..utils.io import check_output_path
from . import _options as o
from ._report import (
    error_console,
    escape_controls,
    make_console,
    make_table,
    print_notices,
    print_result,
    translate_errors,
)
from ._show import quote_label

MAX_SHOWN_DOMAINS = 20
MAX_SHOWN_CLASSES = 12  # in the confusion matrix
# Ways to avoid a SmallBatchError, in terms of options.
REMEDIES = {
    "batch": "predict a table with at least {min_rows} rows of each new domain",
    "inductive": "fit without --transductive",
    "source": "name a source domain in the column --domain",
    "center": "omit --center target",
}


def predict(
    model: Annotated[Path, typer.Argument(help="Model file that unseen fit wrote.")],
    new: Annotated[
        Path, typer.Argument(help="New table; or a folder or a pattern of several. Columns are matched by name.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write predictions to, .csv or .parquet.")],
    center: Annotated[
        Literal["model", "target"],
        typer.Option(help="Center as the model was fitted, or on the new rows of each domain (transductive)."),
    ] = "model",
    domain: Annotated[
        str | None, typer.Option(help="Column of the domains of the new table. [default: one domain]")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="Columns to copy to the output, comma-separated, such as identifiers; or all.")
    ] = None,
    sets: Annotated[
        float | None,
        typer.Option(help="Add prediction sets with this coverage, such as 0.8."),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Maximum number of rows in memory, fewer if they have many columns.")
    ] = 20_000,
    workers: o.Workers = None,
    scheduler: o.Scheduler = None,
    as_json: o.Json = False,
) -> None:
    """Predict the rows of a new table, in their order, and report how novel their domains are.

    Example: unseen predict model.unseen new_hospital.csv -o predictions.csv
    """
    from ..models import RESULT_ENDINGS, load_model

    with translate_errors("Nothing was written."):
        check_output_path(output, *RESULT_ENDINGS, inputs=(new, model))
        fitted_model = load_model(model)
        if sets is not None:  # an unattainable coverage is an error before the table is read
            fitted_model.table_model.ensemble.threshold(sets)
        kept_columns = "all" if keep == "all" else o.parse_names(keep)
        table = fitted_model.open_table(new, domain=domain, keep=kept_columns, batch_size=batch_size)
        print_notices(table.notices)
        with o.open_cluster(workers, scheduler) as client:
            try:
                prediction = fitted_model.predict_table(
                    table, output, centering=center, coverage=sets, client=client, verbose=1
                )
            except SmallBatchError as error:
                raise ValueError(f"{error.problem} {error.advice(REMEDIES)}") from error
        print_notices(prediction.notices)
        print_result(prediction.summary, as_json, show_predictions)
        error_console.print(f"Wrote {output}")


def show_predictions(summary: dict[str, Any]) -> None:
    """Print the number of rows of each label, the accuracy if labels are known, and the novelty of the domains."""
    has_domains = any(entry["domain"] is not None for entry in summary["novelty"])
    _print_line(_format_rows(summary["rows"]))
    for entry in summary["labels"]:
        _print_line(f"  {quote_label(entry['label'])}: {entry['rows']:,}")
    if summary["agreement"]:
        _print_agreement(summary["agreement"], has_domains)
    if summary["transductive"]:
        _print_line("The predictions are transductive: they use all rows of each new domain together.")
    sets = summary["sets"]
    if sets:
        coverage = 100 * sets["coverage"]
        text = f"Prediction sets have {sets['classes']:.1f} labels on average, for a coverage of {coverage:g}%."
        _print_line(sets["note"] or text)
    lines = []
    for entry in sorted(summary["novelty"], key=lambda entry: -(entry["ratio"] or 0)):
        lines.append(f"{quote_label(entry['domain'])}: {entry['text']}" if has_domains else entry["text"])
    _print_lines(lines, "all less novel")


def _print_agreement(agreement: dict[str, Any], has_domains: bool) -> None:
    """Print the accuracy and the confusion matrix."""
    unlabeled = f"; {_format_rows(agreement['unlabeled'])} without a label" if agreement["unlabeled"] else ""
    _print_line(f"Accuracy: {_format_accuracy(agreement)}{unlabeled}")
    if has_domains:
        domains = sorted(agreement["domains"], key=lambda entry: float(entry["accuracy"]))
        lines = [f"  {quote_label(entry['domain'])}: {_format_accuracy(entry)}" for entry in domains]
        _print_lines(lines, "with higher accuracy", indent="  ")
    names = [quote_label(name) for name in agreement["classes"]]
    if len(names) > MAX_SHOWN_CLASSES:
        _print_line(f"The confusion matrix of {len(names)} classes is too wide to print; --json has it.")
        return
    table = make_table(["label"], names, "Confusion matrix (columns: predicted labels)")
    rows = list(zip(names, agreement["counts"], strict=True))
    if agreement["others"]["rows"]:
        rows.append(("any other", agreement["others"]["counts"]))
    for name, counts in rows:
        table.add_row(name, *(f"{count:,}" for count in counts))
    make_console().print(table)


def _format_accuracy(entry: dict[str, Any]) -> str:
    return f"{100 * entry['accuracy']:.1f}%, {entry['right']:,} of {_format_rows(entry['rows'])} correct"


def _format_rows(n_rows: int) -> str:
    from ..tables import format_count

    return format_count(n_rows, "row")


def _print_lines(lines: list[str], rest: str, indent: str = "") -> None:
    """Print the lines of the first domains, and describe the rest."""
    for line in lines[:MAX_SHOWN_DOMAINS]:
        _print_line(line)
    if len(lines) > MAX_SHOWN_DOMAINS:
        _print_line(f"{indent}... and {len(lines) - MAX_SHOWN_DOMAINS} more domains, {rest}.")


def _print_line(text: str) -> None:
    typer.echo(escape_controls(text))
