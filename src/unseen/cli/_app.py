"""The root command with its subcommands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from .. import __version__
from ._adapt import adapt
from ._compare import compare
from ._demo import demo
from ._diagnose import diagnose
from ._explore import explore
from ._extract import extract
from ._fit import fit
from ._options import Command, CommandGroup
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


def register(command: Callable[..., None], panel: str, *, needs_arguments: bool = True) -> None:
    """Add a command to a panel of the help. Without arguments, a command that needs some prints its help."""
    app.command(cls=Command, rich_help_panel=panel, no_args_is_help=needs_arguments)(command)


DATA = "Understand the data"
MODELS = "Fit and use models"
STUDIES = "Examples and experiments"
register(compare, DATA)
register(diagnose, DATA)
register(explore, DATA, needs_arguments=False)
register(extract, DATA)
register(sites, DATA)
register(fit, MODELS)
register(predict, MODELS)
register(adapt, MODELS)
register(show, MODELS)
register(validate, MODELS)
register(demo, STUDIES, needs_arguments=False)
app.add_typer(reproduce, name="reproduce", rich_help_panel=STUDIES)


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
