"""``unseen explore``: a local web page that shows the effect of the weights of a projection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..utils.io import check_output_path
from . import _options as o
from ._report import error_console, escape_controls, message_console, print_notices, print_result, translate_errors

if TYPE_CHECKING:
    from ..explore import Server, Session

PRINTED_KEYS = ("held_out", "accuracy", "validation", "scatters", "components", "ridge", "eigenvalues")


def explore(
    data: o.OptionalData = None,
    new: Annotated[
        Path | None, typer.Argument(metavar="NEW", help="New table, if DATA is a model file that unseen fit wrote.")
    ] = None,
    label: o.Label = None,
    domain: o.Domain = None,
    group: o.Group = None,
    features: o.Features = None,
    drop: o.Drop = None,
    unlabeled: o.Unlabeled = None,
    dates: o.Dates = "drop",
    categories: o.Categories = None,
    max_per_domain: o.MaxPerDomain = None,
    scale: o.OptionalScale = None,
    example: Annotated[
        Literal["synthetic", "digits"],
        o.make_option(o.DATA, help="Example data that are shown first, without DATA."),
    ] = "synthetic",
    setting: Annotated[
        str,
        o.make_option(
            o.METHODS,
            metavar="TEXT",
            show_default="that of the page",
            help="Setting to start with: the part of the page's address after the #.",
        ),
    ] = "",
    output: Annotated[
        Path | None,
        o.make_option(
            o.OUTPUT,
            "--output",
            "-o",
            metavar="FILE",
            dir_okay=False,
            show_default="none",
            help="Write the model (.unseen) or the report (.html) of the setting, without a server.",
        ),
    ] = None,
    overwrite: o.Overwrite = False,
    format: Annotated[
        Literal["txt", "json"] | None,
        o.make_option(
            o.OUTPUT, show_default="none", help="Print the results of the setting as text or JSON, without a server."
        ),
    ] = None,
    browser: Annotated[
        bool, o.make_option(o.OUTPUT, "--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    quiet: o.Quiet = False,
    seed: o.Seed = 0,
    port: Annotated[
        int,
        o.make_option(o.COMPUTATION, min=0, max=65535, metavar="N", help="Port of the server; 0 selects a free one."),
    ] = 0,
) -> None:
    """Change the weights of a projection and see their effect, on a page that only this machine can open.

    Without DATA: the synthetic data of the CIDG paper, and scikit-learn's digits at six angles. With a model and a new
    table: the position of the rows among the source domains, and the least certain predictions. Ctrl-C stops the
    server.

    Example: unseen explore hospitals.csv --label diagnosis --domain hospital
    """
    from ..explore import Explorer, NewDataView, Server, embedded_sources, table_source
    from ..tables import TableOptions

    with translate_errors():
        check_output_path(output, ".unseen", ".html")
        if output is not None and output.suffix == ".unseen":
            o.check_model_output(output, overwrite)
        if data is not None and data.suffix == ".unseen":
            if new is None:
                raise ValueError(
                    f"{data} is a model, which needs a new table. Use: unseen explore {data.name} new_table.csv"
                )
            _serve(Server(Explorer({}, NewDataView(data, new, domain)), port), browser)
            return
        if new is not None:
            raise ValueError(f"NEW needs a model file as DATA, which ends in .unseen; got {data}.")
        if data is None:
            sources = embedded_sources(seed, scale)
            sources = {example: sources.pop(example), **sources}
        else:
            request = TableOptions(
                label=label,
                domain=domain,
                features=o.parse_names(features),
                drop=o.parse_names(drop),
                unlabeled=unlabeled,
                max_per_domain=max_per_domain,
                seed=seed,
                group=group,
                dates=dates,
                categories=o.parse_names(categories),
            )
            table = o.read_table(data, request)
            print_notices(table.notices)
            sources = {table.name: table_source(str(data), table, request, scale or "standardize")}
        if format is not None or output is not None:
            open_first = next(iter(sources.values()))
            _print_setting(open_first(), setting, output, format or "txt")
            return
        if data is not None:
            # Open the table before the server starts, so that its errors are printed here and not on the page.
            session = next(iter(sources.values()))()
            session.setting(setting)
            sources = {name: lambda: session for name in sources}
        _serve(Server(Explorer(sources), port), browser, setting)


def _print_setting(session: Session, at: str, output: Path | None, format: str) -> None:
    """Print the results of a setting, and write its model or its report."""
    from ..explore import save

    setting = session.setting(at)
    solution = session.solve(setting)
    if output is not None:
        save(session, setting, output)
        message_console.print(f"Wrote {output}")
    result = {"setting": str(setting), **{name: solution[name] for name in PRINTED_KEYS}}
    text = f"Accuracy on {setting.held_out}: {solution['accuracy']:.4f}"
    print_result(result, lambda _: typer.echo(escape_controls(text)), format)


def _serve(server: Server, browser: bool, at: str = "") -> None:
    error_console.print(
        f"{server.address}\nOnly this machine can open the page, with this address. Ctrl-C stops the server."
    )
    server.run(browser=browser, at=at)
    error_console.print("The server has stopped.")
