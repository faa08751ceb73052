"""``unseen diagnose``: how the domains differ, before any modeling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..utils.io import check_target
from . import _options as o
from ._report import (
    escape_controls,
    print_notices,
    print_result,
    save_figure,
    show_columns,
    translate_errors,
    write_text,
)


def diagnose(
    data: o.Data = None,
    label: o.Label = None,
    domain: o.Domain = None,
    group: o.Group = None,
    features: o.Features = None,
    drop: o.Drop = None,
    unlabeled: o.Unlabeled = None,
    dates: o.Dates = "drop",
    categories: o.Categories = None,
    scale: o.Scale = None,
    permutations: Annotated[int, typer.Option(min=19, help="Random permutations behind each p-value.")] = 499,
    max_per_domain: Annotated[
        int, typer.Option(min=2, help="Samples of each domain that the tests of features use.")
    ] = 500,
    report: o.Report = None,
    figure: Annotated[Path | None, typer.Option(dir_okay=False, help="Draw the diagnosis: .png, .svg or .pdf.")] = None,
    seed: o.Seed = 0,
    columns: o.Columns = False,
    as_json: o.Json = False,
) -> None:
    """Tell how the domains differ: in P(Y), in P(X), in P(X|Y), and which methods that suits.

    Without DATA: scikit-learn's digits at six angles.

    Example: unseen diagnose hospitals.csv --label diagnosis --domain hospital --figure shift.png
    """
    from ..shift import diagnose as diagnose_arrays
    from ..tables import Request, preprocessor

    with translate_errors():
        check_target(report, ".html", ".htm")
        check_target(figure, ".png", ".svg", ".pdf")
        asked = Request(label, domain, o.parse_names(features), o.parse_names(drop), unlabeled, seed=seed)
        table = o.read_table(data, replace(asked, group=group, dates=dates, categories=o.parse_names(categories)))
        print_notices(table.notices)
        prepared = preprocessor(table.schema, o.resolve_scale(data, scale)).fit_transform(table.X)
        limits: dict[str, Any] = {"n_permutations": permutations, "max_per_domain": max_per_domain}
        found = diagnose_arrays(prepared, table.y, sample_domain=table.domain, random_state=seed, verbose=1, **limits)
        if report is not None:
            write_text(found.to_html(), report)
        if figure is not None:
            save_figure(found.plot(), figure)
        print_result(found.summary(), as_json, lambda _: typer.echo(escape_controls(str(found))))
        show_columns(table.column_uses(), columns and not as_json)
