"""``unseen monitor``: the history of predicted batches with control limits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..utils.io import check_output_path
from . import _options as o
from ._report import (
    escape_controls,
    make_console,
    make_table,
    print_notices,
    print_result,
    save_figure,
    translate_errors,
)

MAX_SHOWN_BATCHES = 20


def monitor(
    log: Annotated[Path, typer.Argument(metavar="LOG", dir_okay=False, help="Log that unseen predict --log wrote.")],
    *,
    run_length: Annotated[
        float,
        o.make_option(
            o.EVALUATION,
            min=2,
            metavar="N",
            help="Average number of batches until a false alarm, for all charts together.",
        ),
    ] = 500.0,
    figure: o.Figure = None,
    format: o.Format = "txt",
    quiet: o.Quiet = False,
) -> None:
    """Show the history of predicted batches, and raise alarms where it changed. Exit code 1 if the last batch is one.

    Example: unseen monitor site.sqlite --figure history.svg
    """
    from ..adaptation import read_batches, summarize_history

    with translate_errors():
        check_output_path(figure, ".png", ".svg", ".pdf")
        history = summarize_history(read_batches(log), run_length=run_length)
        print_notices(history["notices"])
        if figure is not None:
            from ..report import draw_monitoring

            save_figure(draw_monitoring(history), figure)
        print_result(history, show_history, format)
        if any(alarm["batch"] == len(history["batches"]) for alarm in history["alarms"]):
            raise typer.Exit(1)


def show_history(history: dict[str, Any]) -> None:
    """Print the last batches with their statistics, and the alarms."""
    n_batches = len(history["batches"])
    names = [one["name"] for one in history["series"]]
    table = make_table(["batch", "time"], ["rows", *names], "Batches; ! marks alarms")
    alarms = {(alarm["series"], alarm["batch"]) for alarm in history["alarms"]}
    for t in range(max(n_batches - MAX_SHOWN_BATCHES, 0), n_batches):
        batch = history["batches"][t]
        cells = []
        for one in history["series"]:
            value = one["values"][t]
            mark = " !" if (one["name"], t + 1) in alarms else ""
            cells.append("" if value is None else f"{value:.3f}{mark}")
        table.add_row(str(t + 1), batch["time"], f"{batch['rows']:,}", *cells)
    make_console().print(table)
    for alarm in history["alarms"]:
        typer.echo(
            escape_controls(
                f"Batch {alarm['batch']} ({alarm['time']}): {alarm['series']} is {alarm['direction']} than before."
            )
        )
    if not history["alarms"]:
        typer.echo("No alarm.")
    typer.echo(
        f"If nothing changes, a false alarm occurs once in {history['run_length']:g} batches on average, over all "
        f"{len(names)} charts together."
    )
