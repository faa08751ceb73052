"""``unseen explore``: a local web page that shows the effect of the weights of a projection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import _options as o
from ._report import error_console


@o.with_table_options
def explore(
    data: Annotated[Path | None, typer.Argument(metavar="DATA", help=o.DATA_HELP)] = None,
    *,
    request: o.Request,
    scale: o.Scale = "standardize",
    browser: Annotated[
        bool, o.make_option(o.OUTPUT, "--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    quiet: o.Quiet = False,
    port: Annotated[
        int,
        o.make_option(o.COMPUTATION, min=0, max=65535, metavar="N", help="Port of the server; 0 selects a free one."),
    ] = 0,
    seed: o.Seed = 0,
) -> None:
    """Change the weights of a projection and see their effect, on a page that only this machine can open.

    Without DATA: the synthetic data of the CIDG paper, and scikit-learn's digits at six angles. Ctrl-C stops the
    server.

    Example: unseen explore hospitals.csv --label diagnosis --domain hospital
    """
    from ..explore import Server, Session, open_examples

    if data is None:
        sources = open_examples(seed)
    else:
        table = o.read_table(data, request, seed)
        session = Session(table, scale, seed=seed)
        sources = {table.name: lambda: session}
    server = Server(sources, port)
    error_console.print(
        f"{server.address}\nOnly this machine can open the page, with this address. Ctrl-C stops the server."
    )
    server.run(browser=browser)
    error_console.print("The server has stopped.")
