"""``unseen adapt``: adapt a model to a few labels of a new domain, or print what to expect from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..utils.io import check_output_path
from . import _options as o
from ._report import (
    error_console,
    escape_controls,
    make_console,
    make_table,
    print_notices,
    print_result,
    save_figure,
    translate_errors,
)


def adapt(
    model: Annotated[Path, typer.Argument(help="Model file that unseen fit wrote.")],
    site: Annotated[
        Path | None,
        typer.Argument(help="Table of one new domain with labels. Rows without a label serve transductive models."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="File to write the adapted model to.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of the classes. [default: the label column of training]")
    ] = None,
    domain: Annotated[
        str | None, typer.Option(help="Column of the domain, to verify that it is new. [default: as in training]")
    ] = None,
    level: Annotated[
        Literal["auto", "none", "offsets", "weights", "refit", "local"],
        typer.Option(
            help="Keep the model; fit class offsets and temperature; also member weights; refit with the new domain; "
            "or a local model only. auto selects by simulation on the source domains."
        ),
    ] = "auto",
    source: Annotated[
        Path | None, typer.Option(help="Training table, which --level refit needs. [default: none]")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the expected gain against the number of labels, and exit.")
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(dir_okay=False, help="With --plan: write a figure to this .png, .svg or .pdf file.")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Adapt a model to one new domain, of which some rows have labels; or plan how many labels to collect.

    Example: unseen adapt model.unseen new_hospital.csv -o new_hospital.unseen
    """
    from ..models import load_model

    with translate_errors("Nothing was written."):
        if plan:
            o.require_option("an adapted model; leave out --plan", {"SITE": site, "--output": output})
            check_output_path(figure, ".png", ".svg", ".pdf")
            print_plan(load_model(model), figure, as_json)
            return
        if site is None or output is None:
            raise ValueError("Pass a table of the new domain and --output, or --plan to print what to expect.")
        o.require_option("--plan", {"--figure": figure})
        check_output_path(output, inputs=tuple(path for path in (model, site, source) if path is not None))
        adapted = load_model(model).adapt(site, label, level=level, domain=domain, source=source)
        adapted.save(output)
        adaptation = adapted.card["adaptation"]
        print_notices(adaptation["notices"])
        print_result(adaptation, as_json, show_adaptation)
        error_console.print(f"Wrote {output}")


def print_plan(model: Any, figure: Path | None, as_json: bool) -> None:
    """Print the expected gain of each level of adaptation, and write the figure."""
    plan = model.adaptation_plan
    if plan is None:
        raise ValueError(f"{model.name}: it was fitted by an earlier version, without a plan of adaptation. Fit again.")
    summary = plan.summary()
    if figure is not None:
        from ..report import draw_adaptation_plan

        save_figure(draw_adaptation_plan(summary), figure)
    print_result(summary, as_json, show_plan)


def show_plan(summary: dict[str, Any]) -> None:
    """Print the sentences of a plan, and the curve of each level as a table."""
    sizes = [str(point["labels"]) for point in summary["curves"][0]["points"]] if summary["curves"] else []
    title = f"Gain in accuracy, points, simulated on {len(summary['domains'])} held-out domains, by number of labels"
    table = make_table(["level"], sizes, title)
    for curve in summary["curves"]:
        cells = [
            "" if point["accuracy"] is None else f"{100 * point['accuracy']['mean']:+.1f}" for point in curve["points"]
        ]
        table.add_row(curve["name"], *cells)
    make_console().print(table)
    for sentence in summary["sentences"]:
        typer.echo(escape_controls(sentence))


def show_adaptation(adaptation: dict[str, Any]) -> None:
    """Print the level of adaptation, the reason, and the offsets."""
    typer.echo(escape_controls(adaptation["reason"]))
    if adaptation["offsets"] is not None:
        offsets = ", ".join(f"{name} {value:+.2f}" for name, value in adaptation["offsets"].items())
        typer.echo(escape_controls(f"Class offsets: {offsets}. Scale of the logits: {adaptation['scale']:.2f}."))
