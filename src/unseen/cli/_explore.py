"""``unseen explore``: a local web page that shows the effect of the weights of a projection."""

from __future__ import annotations

from typing import Annotated

from . import _options as o
from ._report import error_console, print_notices, translate_errors


@o.with_table_options
def explore(
    data: o.OptionalData = None,
    *,
    request: o.Request,
    scale: o.OptionalScale = None,
    setting: Annotated[
        str,
        o.make_option(
            o.METHODS,
            metavar="TEXT",
            show_default="that of the page",
            help="Setting to start with: the part of the page's address after the #.",
        ),
    ] = "",
    browser: Annotated[
        bool, o.make_option(o.OUTPUT, "--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    quiet: o.Quiet = False,
    port: Annotated[
        int,
        o.make_option(o.COMPUTATION, min=0, max=65535, metavar="N", help="Port of the server; 0 selects a free one."),
    ] = 0,
) -> None:
    """Change the weights of a projection and see their effect, on a page that only this machine can open.

    Without DATA: the synthetic data of the CIDG paper, and scikit-learn's digits at six angles. Ctrl-C stops the
    server.

    Example: unseen explore hospitals.csv --label diagnosis --domain hospital
    """
    from ..explore import Server, Session, Setting, open_examples

    with translate_errors():
        if data is None:
            sources = open_examples(request.seed, scale)
        else:
            table = o.read_table(data, request)
            print_notices(table.notices)
            session = Session(table, scale or "standardize", seed=request.seed)
            Setting.parse(setting, session.domains)  # so that an error is printed here and not on the page
            sources = {table.name: lambda: session}
        server = Server(sources, port)
        error_console.print(
            f"{server.address}\nOnly this machine can open the page, with this address. Ctrl-C stops the server."
        )
        server.run(browser=browser, at=setting)
        error_console.print("The server has stopped.")
