"""``unseen adapt``: adapt a model to a few labels of a new domain, or print what to expect from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from . import _options as o
from ._report import add_note, message_console, print_lines, print_notices, print_result, print_table, save_figure


def adapt(
    model: o.ModelFile,
    site: Annotated[
        Path | None,
        typer.Argument(
            metavar="SITE",
            help="Table of one new domain with labels. Only transductive models use rows without a label.",
        ),
    ] = None,
    *,
    label: Annotated[
        str | None,
        o.make_option(o.DATA, metavar="COLUMN", show_default="as in training", help="Column of the classes."),
    ] = None,
    domain: Annotated[
        str | None,
        o.make_option(
            o.DATA,
            metavar="COLUMN",
            show_default="as in training, if SITE has it",
            help="Column of the domain, to verify that it is new.",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        o.make_option(o.DATA, metavar="DATA", show_default="none", help="Training table, which --level refit needs."),
    ] = None,
    level: Annotated[
        Literal["auto", "none", "offsets", "features", "refit"],
        o.make_option(
            o.METHODS,
            help="Keep the model; fit class offsets and a temperature; add effects of the features; or refit with the "
            "new domain. auto selects offsets by simulation on the source domains, and features by cross-validation.",
        ),
    ] = "auto",
    plan: Annotated[
        bool,
        o.make_option(o.METHODS, "--plan", help="Print the expected gain against the number of labels; needs no SITE."),
    ] = False,
    output: Annotated[
        Path | None,
        o.make_option(
            o.OUTPUT,
            "--output",
            "-o",
            metavar="FILE",
            dir_okay=False,
            show_default="none with --plan",
            help="Model file to write, ending in .unseen.",
        ),
    ] = None,
    overwrite: o.Overwrite = False,
    figure: o.Figure = None,
    format: o.Format = "txt",
    quiet: o.Quiet = False,
) -> None:
    """Adapt a model to one new domain, of which some rows have labels; or plan how many labels to collect.

    --figure draws the plan.

    Example: unseen adapt model.unseen new_hospital.csv -o new_hospital.unseen
    """
    from ..models import load_model

    if plan:
        if site is not None or output is not None:
            raise ValueError("--plan needs the model only. Leave out SITE and --output, or leave out --plan.")
        print_plan(load_model(model), figure, format)
        return
    if site is None or output is None:
        raise ValueError("Pass a table of the new domain and --output, or --plan to print what to expect.")
    if figure is not None:
        raise ValueError("--figure cannot be used without --plan.")
    with add_note("Nothing was written."):
        o.check_model_output(output, overwrite, [path for path in (model, site, source) if path is not None])
        adapted = load_model(model).adapt(site, label, level=level, domain=domain, source=source)
        adapted.save(output)
    adaptation = adapted.card["adaptation"]
    print_notices(adaptation["notices"])
    print_result(adaptation, show_adaptation, format=format)
    message_console.print(f"Wrote {output}")


def print_plan(model: Any, figure: Path | None, format: str) -> None:
    """Print the expected gain of each level of adaptation, and write the figure."""
    summary = model.plan_adaptation().summary()
    if figure is not None:
        from ..report import draw_adaptation_plan

        save_figure(draw_adaptation_plan(summary), figure)
    print_result(summary, show_plan, format=format)


def show_plan(summary: dict[str, Any]) -> None:
    """Print the changes of accuracy and log loss by each level as a table, and the sentences of a plan."""
    for curve in summary["curves"]:
        rows = [
            [
                str(point["labels"]),
                *_format_change(point["accuracy"], "{:+.1f}", 100),
                *_format_change(point["log_loss"], "{:+.3f}", -1),
            ]
            for point in curve["points"]
        ]
        title = f"Change by {curve['name']}, simulated on {len(summary['domains'])} domains"
        header = ["labels", "accuracy, %", "90% interval", "log loss", "90% interval"]
        print_table(header, rows, title, n_text=0)
    print_lines(summary["sentences"])


def _format_change(gain: dict[str, float] | None, number: str, unit: float) -> tuple[str, str]:
    """Format the mean and the prediction interval of a gain; a gain in log loss is a negative change."""
    if gain is None:
        return "", ""
    low, high = sorted((unit * gain["low"], unit * gain["high"]))
    return number.format(unit * gain["mean"]), f"{number.format(low)} to {number.format(high)}"


def show_adaptation(adaptation: dict[str, Any]) -> None:
    """Print the level of adaptation, the reason, and the offsets."""
    print_lines([adaptation["reason"]])
    if adaptation["offsets"] is not None:
        offsets = ", ".join(f"{name} {value:+.2f}" for name, value in adaptation["offsets"].items())
        print_lines([f"Class offsets: {offsets}. Scale of the logits: {adaptation['scale']:.2f}."])
