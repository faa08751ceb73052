"""The root command with its subcommands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .. import __version__
from ._adapt import adapt
from ._aggregate import aggregate
from ._combine import combine
from ._compare import compare
from ._demo import demo
from ._diagnose import diagnose
from ._explore import explore
from ._extract import extract
from ._fit import fit
from ._options import Command, CommandGroup
from ._plan import plan
from ._predict import predict
from ._reproduce import reproduce
from ._show import show
from ._sites import sites
from ._validate import validate

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


# The commands of each panel of the help. Without arguments, a command that needs some prints its help.
PANELS: dict[str, tuple[Any, ...]] = {
    "Understand the data": (compare, diagnose, explore, extract, sites),
    "Fit and use models": (fit, predict, adapt, show, validate),
    "Studies without moving rows": (plan, aggregate, combine),
    "Examples and experiments": (demo,),
}
for panel, commands in PANELS.items():
    for command in commands:
        needs_arguments = command not in (demo, explore)
        app.command(cls=Command, rich_help_panel=panel, no_args_is_help=needs_arguments)(command)
app.add_typer(reproduce, name="reproduce", rich_help_panel="Examples and experiments")


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"unseen {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Classify data from domains never seen in training.

    Example: unseen compare hospitals.csv --label diagnosis --domain hospital --report report.html
    """
