"""``unseen plan``: check the plan of a study over several sites, or draft one from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import _options as o
from ._report import print_lines, print_result, print_table, write_text


def plan(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="Plan of the study, a .toml file.")],
    *,
    draft_from: Annotated[
        Path | None,
        o.make_option(
            o.DATA,
            "--from",
            metavar="TABLE",
            show_default="check STUDY",
            help="Draft STUDY from the columns of this table, the rows of one site or a public table.",
        ),
    ] = None,
    label: o.Label = None,
    format: o.Format = "txt",
    quiet: o.Quiet = False,
) -> None:
    """Check the plan that all sites of a study use, or draft one: columns, scales, classes, settings, smallest cell.

    Example: unseen plan study.toml --from bonn.csv --label died
    """
    from ..exchange import draft_plan, load_plan

    if draft_from is not None:
        if study.exists():
            raise ValueError(f"{study} exists. Remove it, or choose another name for the draft.")
        write_text(draft_plan(draft_from, label=label, name=study.stem), study)
    print_result(load_plan(study).summary(), show_plan, format=format)


def show_plan(summary: dict[str, Any]) -> None:
    """Print what sites agree on, and what will leave them."""
    rows = [(column["column"], column["use"]) for column in summary["columns"]]
    print_table(["column", "use"], rows, f"{summary['name']}: {summary['label']}", n_text=2)
    event = "" if summary["positive"] is None else f"; the event is {summary['positive']}"
    print_lines(
        [
            f"Classes: {', '.join(map(str, summary['classes']))}{event}.",
            f"Features: {summary['features']}.",
            f"Settings ({len(summary['settings'])}): {'; '.join(summary['settings'])}.",
            f"Each site sends {summary['n_numbers']:,} sums, of classes with at least {summary['smallest_cell']} rows.",
        ]
    )
