"""The subcommands, by the panel of the help that lists them."""

from __future__ import annotations

from typing import Any

from ._adapt import adapt
from ._aggregate import aggregate
from ._combine import combine
from ._compare import compare
from ._demo import demo
from ._diagnose import diagnose
from ._explore import explore
from ._extract import extract
from ._fit import fit
from ._options import Command, app
from ._plan import plan
from ._predict import predict
from ._reproduce import reproduce
from ._show import show
from ._sites import sites
from ._validate import validate

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
