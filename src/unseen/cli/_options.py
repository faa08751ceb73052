"""Options that several commands share, and what they stand for."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..study._methods import METHODS
from ..study._protocol import thin

if TYPE_CHECKING:
    from ..tables import Table


class Scale(StrEnum):
    """How numbers are put on one scale."""

    standardize = "standardize"
    l2 = "l2"
    none = "none"


class Selection(StrEnum):
    """Who chooses the settings."""

    domain = "domain"
    within = "within"
    oracle = "oracle"


class Centering(StrEnum):
    """What projections are centred on."""

    target = "target"
    source = "source"


Data = Annotated[
    Path | None,
    typer.Argument(help="A table (.csv, .tsv, .parquet, .feather, .npz) or a folder with one file per domain."),
]
Label = Annotated[str | None, typer.Option("--label", help="Column of the classes; guessed from obvious names.")]
Domain = Annotated[str | None, typer.Option("--domain", help="Column of the domains; guessed from obvious names.")]
Features = Annotated[str | None, typer.Option("--features", help="Columns to use, comma-separated; all others if not.")]
Drop = Annotated[str | None, typer.Option("--drop", help="Columns to leave out, comma-separated.")]
MaxPerDomain = Annotated[
    int | None, typer.Option("--max-per-domain", min=2, help="At most so many samples of each domain, at random.")
]
ScaleOption = Annotated[
    Scale | None,
    typer.Option("--scale", help="Columns to unit variance, rows to unit length, or nothing. [default: standardize]"),
]
SelectionOption = Annotated[Selection, typer.Option("--selection", help="Who chooses the settings.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of all random draws.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes.")]
Quick = Annotated[bool, typer.Option("--quick", help="A smoke version: one repeat, small grids.")]
Repeats = Annotated[int, typer.Option("--repeats", min=1, help="Random draws of the training data.")]
Methods = Annotated[str, typer.Option("--methods", help="Comma-separated; see the documentation for the names.")]
ALL = ",".join(METHODS)
StoreOption = Annotated[
    Path | None, typer.Option("--store", dir_okay=False, help="File of results; rerun to continue.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON, for machines.")]
Report = Annotated[Path | None, typer.Option("--report", dir_okay=False, help="Write the report to this .html file.")]


def listed(names: str | None) -> list[str] | None:
    """Comma-separated names."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def read(
    data: Path | None,
    label: str | None,
    domain: str | None,
    features: str | None,
    drop: str | None,
    max_per_domain: int | None,
    seed: int,
) -> Table:
    """The table a command is about; the embedded rotated digits if none is named."""
    from ..tables import embedded, load_table

    if data is None:
        if label or domain or features or drop:
            raise ValueError("--label, --domain, --features and --drop speak of a table; name one, or leave them out.")
        table = embedded()
        kept = thin(table.domain, max_per_domain, seed)
        return replace(table, X=table.X[kept], y=table.y[kept], domain=table.domain[kept])
    return load_table(
        data,
        label=label,
        domain=domain,
        features=listed(features),
        drop=listed(drop),
        max_per_domain=max_per_domain,
        seed=seed,
    )


def scale_for(data: Path | None, scale: Scale | None) -> str:
    """What was asked for; otherwise standardised columns, or rows of unit length for the embedded images."""
    return scale.value if scale else "l2" if data is None else "standardize"


def command_line() -> str:
    """The command that repeats this run."""
    return shlex.join(["unseen", *sys.argv[1:]])
