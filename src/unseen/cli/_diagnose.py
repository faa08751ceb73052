"""``unseen diagnose``: test for distribution shift between domains, before any modeling."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..utils.io import check_output_path
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
    data: o.Data,
    label: o.Label = None,
    domain: o.Domain = None,
    group: o.Group = None,
    features: o.Features = None,
    drop: o.Drop = None,
    unlabeled: o.Unlabeled = None,
    dates: o.Dates = "drop",
    categories: o.Categories = None,
    scale: o.Scale = "standardize",
    permutations: Annotated[int, typer.Option(min=19, help="Number of random permutations for each p-value.")] = 499,
    max_per_domain: Annotated[
        int, typer.Option(min=2, help="Maximum number of samples per domain in the tests of features.")
    ] = 500,
    report: o.Report = None,
    figure: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write a figure to this .png, .svg or .pdf file.")
    ] = None,
    seed: o.Seed = 0,
    columns: o.Columns = False,
    as_json: o.Json = False,
) -> None:
    """Test whether P(Y), P(X) and P(X|Y) differ between domains, and name methods that suit the shift.

    Example: unseen diagnose hospitals.csv --label diagnosis --domain hospital --figure shift.png
    """
    from ..shift import diagnose as diagnose_arrays
    from ..tables import TableOptions, make_preprocessor

    with translate_errors():
        check_output_path(report, ".html", ".htm")
        check_output_path(figure, ".png", ".svg", ".pdf")
        request = TableOptions(
            label=label,
            domain=domain,
            features=o.parse_names(features),
            drop=o.parse_names(drop),
            unlabeled=unlabeled,
            seed=seed,
            group=group,
            dates=dates,
            categories=o.parse_names(categories),
        )
        table = o.read_table(data, request)
        print_notices(table.notices)
        X = make_preprocessor(table.schema, scale).fit_transform(table.X)
        diagnosis = diagnose_arrays(
            X,
            table.y,
            sample_domain=table.domain,
            n_permutations=permutations,
            max_per_domain=max_per_domain,
            random_state=seed,
            verbose=1,
        )
        if report is not None:
            write_text(diagnosis.to_html(), report)
        if figure is not None:
            save_figure(diagnosis.plot(), figure)
        print_result(diagnosis.summary(), as_json, lambda _: typer.echo(escape_controls(str(diagnosis))))
        if columns and not as_json:
            show_columns(table.describe_columns())
