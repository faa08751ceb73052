"""``unseen diagnose``: how the domains differ, before any modelling."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from ..shift import diagnose as diagnose_arrays
from ..study import subject_of_table
from ..tables import Request
from ._options import (
    Data,
    Domain,
    Drop,
    Features,
    Json,
    Label,
    Report,
    ScaleOption,
    Seed,
    Unlabelled,
    names_of,
    read,
    scale_for,
)
from ._report import check_target, clean, errors, json_text, notices, reporting, write


def diagnose(
    data: Data = None,
    label: Label = None,
    domain: Domain = None,
    features: Features = None,
    drop: Drop = None,
    unlabelled: Unlabelled = None,
    scale: ScaleOption = None,
    permutations: Annotated[int, typer.Option(min=19, help="Random permutations behind each p-value.")] = 499,
    max_per_domain: Annotated[
        int, typer.Option("--max-per-domain", min=2, help="Samples of each domain that the tests of features use.")
    ] = 500,
    report: Report = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", dir_okay=False, help="Draw the diagnosis: .png, .svg or .pdf.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Tell how the domains differ: in P(Y), in P(X), in P(X|Y), and which methods that suits.

    Without DATA: scikit-learn's digits at six angles.

    Example: unseen diagnose hospitals.csv --label diagnosis --domain hospital --figure shift.png
    """
    with reporting():
        check_target(report, ".html", ".htm")
        check_target(figure, ".png", ".svg", ".pdf")
        asked = Request(label, domain, names_of(features), names_of(drop), unlabelled, seed=seed)
        table = read(data, asked)
        notices(table.notices)
        prepared = subject_of_table(table, scale_for(data, scale)).prepared()  # type: ignore[arg-type]
        found = diagnose_arrays(
            prepared,
            table.y,
            sample_domain=table.domain,
            n_permutations=permutations,
            max_per_domain=max_per_domain,
            random_state=seed,
            verbose=1,
        )
        if report is not None:
            write(found.to_html(), report)
        if figure is not None:
            figure.parent.mkdir(parents=True, exist_ok=True)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph")  # a name that the font cannot write is drawn as boxes
                found.plot().savefig(figure, dpi=150)
            errors.print(f"Wrote {figure}")
        typer.echo(json_text(found.summary()) if as_json else clean(str(found)))
