"""``unseen sites``: what further domains, and further rows of each domain, are worth on a new domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..utils.io import check_output_path
from . import _options as o
from ._report import (
    escape_controls,
    make_console,
    make_table,
    print_notices,
    print_result,
    save_figure,
    select_format,
    translate_errors,
)

N_TRAINING_SETS = 20  # at least; each is as much work as a method of a comparison


@o.with_table_options
def sites(
    data: o.Data,
    *,
    request: o.Request,
    scale: o.Scale = "standardize",
    methods: o.AverageMethods = "logistic,gradient boosting",
    metric: o.Metric = "accuracy",
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    figure: o.Figure = None,
    quiet: o.Quiet = False,
    store: o.Store = None,
    jobs: o.AutomaticJobs = None,
) -> None:
    """Estimate what more domains, or more rows of each, are worth: a learning curve over domains.

    Example: unseen sites hospitals.csv --label diagnosis --domain hospital --figure curve.png
    """
    from ..evaluation import site_learning_curve

    with translate_errors():
        check_output_path(figure, ".png", ".svg", ".pdf")
        o.check_result_output(output)
        table = o.read_table(data, request)
        print_notices(table.notices)
        store, resume = o.results_path(Path(table.name).stem.replace(" ", "-"), store)
        o.check_store(store)
    with translate_errors(resume):
        names = o.parse_names(methods) or []
        curve = site_learning_curve(
            table,
            scale=scale,
            methods=names,
            metric=metric,
            store=store,
            random_state=request.seed,
            n_jobs=o.choose_jobs(jobs, len(table.y), N_TRAINING_SETS * len(names)),
            verbose=int(not quiet),
        )
        if figure is not None:
            save_figure(curve.plot(), figure)
        summary = curve.to_dict()
        print_result(summary, show_curve, select_format(format, output), output, curve.records())


def show_curve(summary: dict[str, Any]) -> None:
    """Print the curve as a table, and what it says in sentences."""
    factor, digits = (100, 1) if summary["is_percent"] else (1, 3)
    metric = summary["metric"]
    title = f"{metric[0].upper()}{metric[1:]} on a new domain{', in percent' if summary['is_percent'] else ''}"
    table = make_table(["training domains"], ["mean", "95% prediction interval"], title)
    for points, mark in ((summary["points"], ""), (summary["extrapolated"], " (power law)")):
        for point in points:
            ends = " to ".join(f"{factor * point[end]:.{digits}f}" for end in ("lower", "upper"))
            table.add_row(f"{point['n_domains']}{mark}", f"{factor * point['mean']:.{digits}f}", ends)
    make_console().print(table)
    for sentence in summary["sentences"]:
        typer.echo(escape_controls(sentence))
