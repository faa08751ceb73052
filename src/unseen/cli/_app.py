"""The root command with its subcommands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .. import __version__
from ._adapt import adapt
from ._compare import compare
from ._demo import demo
from ._diagnose import diagnose
from ._explore import explore
from ._extract import extract
from ._fit import fit
from ._monitor import monitor
from ._predict import predict
from ._reproduce import reproduce
from ._show import show

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")
COMMANDS_WITH_EXAMPLES: tuple[Any, ...] = (demo, explore)  # these run without arguments; the others print their help
for command in (adapt, compare, demo, diagnose, explore, extract, fit, monitor, predict, show):
    app.command(no_args_is_help=command not in COMMANDS_WITH_EXAMPLES)(command)
app.add_typer(reproduce, name="reproduce")


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"unseen {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Classify data from domains never seen in training.

    Example: unseen compare hospitals.csv --label diagnosis --domain hospital --report report.html
    """
