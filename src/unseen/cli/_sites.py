"""``unseen sites``: the gain from more domains, and from more rows of each domain, on a new domain."""

from __future__ import annotations

from typing import Any

from . import _options as o
from ._report import print_lines, print_result, print_table, save_figure

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
    seed: o.Seed = 0,
) -> None:
    """Estimate the gain from more domains, or from more rows of each: a learning curve over domains.

    Example: unseen sites hospitals.csv --label diagnosis --domain hospital --figure curve.png
    """
    from ..evaluation import site_learning_curve

    names = o.parse_names(methods) or []
    table = o.read_table(data, request, seed)
    with o.open_store(table.name, store) as store:
        curve = site_learning_curve(
            table,
            scale=scale,
            methods=names,
            metric=metric,
            store=store,
            random_state=seed,
            n_jobs=o.choose_jobs(jobs, len(table.y), N_TRAINING_SETS * len(names)),
            verbose=int(not quiet),
        )
    if figure is not None:
        save_figure(curve.plot(), figure)
    print_result(curve.to_dict(), show_curve, output, format, curve.records())


def show_curve(summary: dict[str, Any]) -> None:
    """Print the curve as a table, and what follows from it in sentences."""
    from ..report import format_score

    rows = []
    for name, mark in (("points", ""), ("extrapolated", " (power law)")):
        for point in summary[name]:
            mean, lower, upper = (format_score(point[key], summary["is_percent"]) for key in ("mean", "lower", "upper"))
            rows.append((f"{point['n_domains']}{mark}", mean, f"{lower} to {upper}"))
    metric = summary["metric"]
    title = f"{metric[0].upper()}{metric[1:]} on a new domain{', in percent' if summary['is_percent'] else ''}"
    print_table(["training domains", "mean", "95% prediction interval"], rows, title)
    print_lines(summary["sentences"])
