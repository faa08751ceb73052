"""``unseen explore``: a page of this machine on which weights can be moved and watched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..utils.io import check_target
from . import _options as o
from ._report import error_console, escape_controls, print_notices, print_result, translate_errors

if TYPE_CHECKING:
    from ..explore import Session

PRINTED_KEYS = ("held", "accuracy", "validation", "scatters", "components", "ridge", "eigenvalues")


def explore(
    data: o.Data = None,
    new: Annotated[Path | None, typer.Argument(help="A new table, if DATA is a model that unseen fit wrote.")] = None,
    label: o.Label = None,
    domain: o.Domain = None,
    group: o.Group = None,
    features: o.Features = None,
    drop: o.Drop = None,
    unlabeled: o.Unlabeled = None,
    dates: o.Dates = "drop",
    categories: o.Categories = None,
    max_per_domain: o.MaxPerDomain = None,
    scale: o.Scale = None,
    example: Annotated[
        Literal["synthetic", "digits"], typer.Option(help="Without DATA, the data that are shown first.")
    ] = "synthetic",
    at: Annotated[str, typer.Option(help="A setting: the part of the page's address behind the #.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write that setting's model (.unseen) or report (.html).")
    ] = None,
    seed: o.Seed = 0,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to serve; 0 takes a free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures of that setting; serve nothing.")] = False,
) -> None:
    """Move the weights of a projection and watch what they do, on a page that only this machine can open.

    Without DATA: the synthetic data of the CIDG paper, and scikit-learn's digits at six angles. With a model and a new
    table: where the rows lie among the sources, and which predictions are least certain. Ctrl-C ends it.

    Example: unseen explore hospitals.csv --label diagnosis --domain hospital
    """
    from ..explore import Explorer, NewDataView, Server, embedded_sources, table_source
    from ..tables import Request

    with translate_errors():
        check_target(output, ".unseen", ".html")
        if data is not None and data.suffix == ".unseen":
            if new is None:
                raise ValueError("A model is looked at on a new table: unseen explore model.unseen new_table.csv")
            _serve(Server(Explorer({}, NewDataView(data, new, domain)), port), browser)
            return
        if new is not None:
            raise ValueError(f"A second table goes with a model: {data} does not end in .unseen.")
        if data is None:
            sources = embedded_sources(seed, scale)
            sources = {example: sources.pop(example), **sources}
        else:
            asked = Request(
                label, domain, o.parse_names(features), o.parse_names(drop), unlabeled, max_per_domain, seed
            )
            asked = replace(asked, group=group, dates=dates, categories=o.parse_names(categories))
            table = o.read_table(data, asked)
            print_notices(table.notices)
            sources = {table.name: table_source(str(data), table, asked, scale or "standardize")}
        if as_json or output is not None:
            _print_setting(next(iter(sources.values()))(), at, output, as_json)
            return
        if data is not None:  # what is wrong with a table is said here, and not on the page
            session = next(iter(sources.values()))()
            sources = {name: lambda: session for name in sources}
            session.setting(at)
        _serve(Server(Explorer(sources), port), browser, at)


def _print_setting(session: Session, at: str, output: Path | None, as_json: bool) -> None:
    """Print the figures of a setting, and write its model or its report."""
    from ..explore import save

    setting = session.setting(at)
    found: dict[str, Any] = session.solve(setting)
    if output is not None:
        save(session, setting, output)
        error_console.print(f"Wrote {output}")
    facts = {"setting": str(setting), **{name: found[name] for name in PRINTED_KEYS}}
    print_result(
        facts, as_json, lambda _: typer.echo(escape_controls(f"Accuracy on {setting.held}: {found['accuracy']:.4f}"))
    )


def _serve(serving: Any, browser: bool, at: str = "") -> None:
    error_console.print(f"{serving.address}\nOnly this machine can open it, with this address. Ctrl-C ends it.")
    serving.run(browser=browser, at=at)
    error_console.print("Ended.")
