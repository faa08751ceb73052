"""``unseen show``: print the model card of a model file."""

from __future__ import annotations

from typing import Annotated, Any

from rich.table import Table as RichTable

from ..utils.io import check_output_path
from . import _options as o
from ._report import make_console, print_lines, print_result, print_table, show_columns


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

    check_output_path(output, inputs=[model])
    if coefficients:
        rows = load_model(model).coefficients().to_dicts()
        print_result({"coefficients": rows}, show_coefficients, output, format, rows)
        return

    def show_card(card: dict[str, Any]) -> None:
        print_card(card)
        if columns:
            show_columns((card.get("data") or {}).get("columns") or [])

    print_result(read_card(model), show_card, output, format)


def show_coefficients(result: dict[str, Any]) -> None:
    """Print the coefficients of a logistic model as a table."""
    from ..models import quote_label

    rows = []
    for row in result["coefficients"]:
        missing = "" if row["if_missing"] is None else f"{row['if_missing']:.6g}"
        rows.append([quote_label(row["class"]), row["term"], f"{row['coefficient']:.6g}", missing])
    print_table(["class", "term", "coefficient", "if missing"], rows, n_text=2)
    print_lines(["Log odds against the first class: intercept + sum of coefficient * term. Calibration is included."])


def print_card(card: dict[str, Any]) -> None:
    """Print a model card."""
    from ..models import summarize_card

    summary = summarize_card(card)
    console = make_console()
    facts = RichTable.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_column(overflow="fold")
    for name, text in summary["facts"].items():
        facts.add_row(name, text)
    console.print(facts)
    for block in summary["blocks"]:
        if isinstance(block, str):
            console.print(block)
            continue
        text_columns, number_columns = block["columns"]
        header = [*text_columns, *number_columns]
        total = [block["total"]] if block["total"] else []
        print_table(header, block["rows"], block["title"], n_text=len(text_columns), total=total)
