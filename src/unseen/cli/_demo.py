"""``unseen demo``: compare methods on an example that is part of scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..utils.io import check_output_path
from . import _options as o
from ._compare import run_and_report
from ._report import translate_errors
from ._user_methods import combine_methods


def demo(
    methods: o.Methods = o.COMPARED_METHODS,
    repeats: o.Repeats = 1,
    quick: o.Quick = False,
    max_per_domain: o.MaxPerDomain = None,
    report: Annotated[Path, typer.Option(dir_okay=False, help="Write the report to this .html file.")] = Path(
        "report.html"
    ),
    store: o.Store = None,
    seed: o.Seed = 0,
    jobs: o.Jobs = 2,
    as_json: o.Json = False,
) -> None:
    """Compare methods on an example: scikit-learn's digits, rotated by six angles, which are the domains.

    The images are scaled to unit length.

    Example: unseen demo --report report.html
    """
    from ..study import COMPARISON_PROTOCOL

    with translate_errors():
        check_output_path(report, ".html", ".htm")
        table = o.embedded_table(max_per_domain, seed)
        n_repeats = 1 if quick else repeats
        protocol = replace(COMPARISON_PROTOCOL, repeats=n_repeats, quick=quick, seed=seed, preprocess="l2")
        all_methods = combine_methods(o.parse_names(methods) or [], [])
    run_and_report(table, protocol, all_methods, report=report, store=store, jobs=jobs, as_json=as_json)
