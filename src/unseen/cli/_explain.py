"""``unseen explain``: the columns and the members of the ensemble behind the predictions of single rows."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from . import _options as o
from ._report import escape_controls, print_result, translate_errors
from ._show import quote_label


def explain(
    model: o.ModelFile,
    new: o.NewData,
    *,
    domain: o.NewDomain = None,
    rows: Annotated[
        str,
        o.make_option(o.DATA, metavar="ROWS", help="Rows to explain, from 1, comma-separated."),
    ] = "1",
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.Format = "txt",
    quiet: o.Quiet = False,
) -> None:
    """Explain the predictions of single rows: the columns that drive them, and whether the models agree.

    Example: unseen explain model.unseen new_hospital.csv --rows 1,5
    """
    from ..models import load_model

    with translate_errors():
        o.check_result_output(output, inputs=(model, new))
        positions = _parse_rows(rows)
        try:
            explanations = load_model(model).explain(new, positions, sample_domain=domain)
        except IndexError as error:
            raise ValueError(f"--rows {rows}: the table has fewer rows.") from error
        result = [{"row": row + 1, **entry} for row, entry in zip(positions, explanations, strict=True)]
        print_result({"rows": result}, show_explanations, format, output)


def _parse_rows(text: str) -> list[int]:
    names = o.parse_names(text) or []
    if not names or not all(name.isdecimal() and int(name) >= 1 for name in names):
        raise ValueError(f"--rows must be numbers of rows, from 1, with commas between them; got {text!r}.")
    return [int(name) - 1 for name in names]


def show_explanations(result: dict[str, Any]) -> None:
    """Print a paragraph for each row."""
    for entry in result["rows"]:
        label = quote_label(entry["label"])
        typer.echo(escape_controls(f"Row {entry['row']}: {label}, probability {entry['probability']:.2f}"))
        for column in entry["columns"]:
            typer.echo(escape_controls(f"  {column['column']}: {column['effect']:+.2f} against its usual value"))
        if entry["dissent"]:
            names = ", ".join(entry["dissent"])
            typer.echo(escape_controls(f"  {entry['agreement']:.0%} of the ensemble agrees; not {names}"))
        typer.echo(f"  {entry['farther']:.0%} of the training rows lie farther from their center than this row.")
