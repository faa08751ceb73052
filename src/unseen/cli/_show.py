"""``unseen show``: print the model card of a model file."""

from __future__ import annotations

from typing import Annotated, Any

from rich.table import Table as RichTable

from . import _options as o
from ._report import make_console, make_table, print_result, select_format, show_columns, translate_errors


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
    from ..models import quote_label

    table = make_table(["class", "term"], ["coefficient", "if missing"])
    for row in result["coefficients"]:
        missing = "" if row["if_missing"] is None else f"{row['if_missing']:.6g}"
        table.add_row(quote_label(row["class"]), row["term"], f"{row['coefficient']:.6g}", missing)
    console = make_console()
    console.print(table)
    console.print("Log odds against the first class: intercept + sum of coefficient * term. Calibration is included.")


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
        console.print(block["title"], style="italic")
        table = make_table(*block["columns"])
        for row in block["rows"]:
            table.add_row(*row)
        if block["total"]:
            table.add_section()
            table.add_row(*block["total"])
        console.print(table)
