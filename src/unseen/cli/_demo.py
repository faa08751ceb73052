"""``unseen demo``: compare methods on an example that is part of scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from ..utils.io import check_output_path
from . import _options as o
from ._compare import run_and_report
from ._report import translate_errors
from ._user_methods import combine_methods


def demo(
    max_per_domain: o.MaxPerDomain = None,
    methods: o.Methods = o.COMPARED_METHODS,
    quick: o.Quick = False,
    repeats: o.Repeats = 1,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    report: Annotated[
        Path, o.make_option(o.OUTPUT, metavar="FILE", dir_okay=False, help="Write a report to this .html file.")
    ] = Path("report.html"),
    quiet: o.Quiet = False,
    store: o.Store = None,
    seed: o.Seed = 0,
    jobs: o.AutomaticJobs = None,
) -> None:
    """Compare methods on an example: scikit-learn's digits, rotated by six angles, which are the domains.

    The images are scaled to unit length.

    Example: unseen demo --report report.html
    """
    from ..evaluation import COMPARISON_PROTOCOL

    with translate_errors():
        check_output_path(report, ".html", ".htm")
        o.check_result_output(output)
        table = o.embedded_table(max_per_domain, seed)
        protocol = replace(COMPARISON_PROTOCOL, repeats=repeats, quick=quick, seed=seed, preprocess="l2")
        all_methods = combine_methods(o.parse_names(methods) or [], [])
    run_and_report(
        table,
        protocol,
        all_methods,
        output=output,
        format=format,
        report=report,
        store=store,
        jobs=jobs,
        verbose=int(not quiet),
    )
