"""``unseen diagnose``: test for distribution shift between domains, before any modeling."""

from __future__ import annotations

from typing import Annotated, Any

from . import _options as o
from ._report import name_options, print_lines, print_result, save_figure, show_columns, write_text


@o.with_table_options
def diagnose(
    data: o.Data,
    *,
    request: o.Request,
    max_per_domain: Annotated[
        int,
        o.make_option(
            o.DATA, min=2, metavar="N", help="Maximum number of samples per domain in the tests of features."
        ),
    ] = 500,
    scale: o.Scale = "standardize",
    permutations: Annotated[
        int,
        o.make_option(o.EVALUATION, min=19, metavar="N", help="Number of random permutations for each p-value."),
    ] = 499,
    alpha: Annotated[
        float,
        o.make_option(o.EVALUATION, min=0, max=1, metavar="LEVEL", help="Significance level of the tests."),
    ] = 0.05,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    report: o.Report = None,
    figure: o.Figure = None,
    columns: o.Columns = False,
    quiet: o.Quiet = False,
    seed: o.Seed = 0,
) -> None:
    """Test whether P(Y), P(X) and P(X|Y) differ between domains, and name methods that suit the shift.

    Example: unseen diagnose hospitals.csv --label diagnosis --domain hospital --figure shift.png
    """
    from ..report import render_diagnosis
    from ..shift import diagnose as diagnose_table
    from ..shift import summary_text

    table = o.read_table(data, request, seed)
    diagnosis = diagnose_table(
        table,
        scale=scale,
        n_permutations=permutations,
        max_per_domain=max_per_domain,
        alpha=alpha,
        random_state=seed,
    )
    summary = diagnosis.summary()
    if report is not None:
        write_text(render_diagnosis(summary), report)
    if figure is not None:
        save_figure(diagnosis.plot(), figure)

    def show(summary: dict[str, Any]) -> None:
        print_lines([name_options(summary_text(summary))])
        if columns:
            show_columns(table.describe_columns())

    print_result(summary, show, output, format, diagnosis.records())
