"""``unseen compare``: evaluate every method on every held-out domain; print advice, a table and a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from . import _options as o
from ._report import (
    Cell,
    error_console,
    make_console,
    message_console,
    print_notices,
    print_result,
    print_table,
    shorten,
)

NAME_WIDTHS = (9, 18)  # of domains in the header of the table: at least, and at most
OTHER_WIDTH = 45  # of the other columns


@o.with_table_options
def compare(
    data: o.Data,
    *,
    request: o.Request,
    scale: o.Scale = "standardize",
    methods: o.Methods = "",
    with_models: o.With = None,
    transductive: Annotated[
        bool,
        o.make_option(
            o.METHODS,
            "--transductive",
            help="Let all methods use the rows of the held-out domain without their labels.",
        ),
    ] = False,
    balance: o.Balance = "none",
    quick: o.Quick = False,
    metric: o.Metric = "accuracy",
    protocol: Annotated[
        Literal["default", "paper"],
        o.make_option(
            o.EVALUATION,
            help="Hold out each domain once and use all other rows; or five draws of 70%, as in the CIDG paper.",
        ),
    ] = "default",
    threshold: o.Threshold = None,
    positive: o.Positive = None,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    report: o.Report = None,
    quiet: o.Quiet = False,
    store: o.Store = None,
    jobs: o.AutomaticJobs = None,
    scheduler: o.Scheduler = None,
    seed: o.Seed = 0,
) -> None:
    """Evaluate methods by leave-one-domain-out cross-validation, and recommend one.

    To try it without data: unseen demo. Tables of photographs: unseen extract.

    Example: unseen compare hospitals.csv --label diagnosis --domain hospital --report report.html
    """
    from ..evaluation import Protocol, comparison_methods, describe_imbalance
    from ..evaluation import compare as compare_methods
    from ..model_selection import get_metric

    all_methods = o.select_methods(methods, with_models, comparison_methods(transductive))
    metric_label = get_metric(metric).label  # an unknown name is an error before the table is read
    table = o.read_table(data, request, seed)
    plan = Protocol().plan(table.domain)
    imbalance = describe_imbalance(Counter(table.y.tolist()), metric_label)
    print_notices(filter(None, [imbalance, "" if plan.exact else str(plan)]))
    n_domains = len(set(table.domain.tolist()))
    with o.open_store(table.name, store) as store, o.open_cluster(scheduler) as client:
        message_console.print(f"{len(table.y):,} samples, {n_domains} domains, {len(all_methods)} methods -> {store}")
        comparison = compare_methods(
            table,
            methods=all_methods,
            scale=scale,
            transductive=transductive,
            balance=balance,
            quick=quick,
            metric=metric,
            protocol=protocol,
            threshold=threshold,
            positive=positive,
            random_state=seed,
            store=store,
            n_jobs=o.choose_jobs(jobs, len(table.y), len(all_methods)),
            verbose=int(not quiet),
            client=client,
            command=o.current_command(),
        )
    if report is not None:
        comparison.write_report(report)
        message_console.print(f"Wrote {report}")
    overview = comparison.overview
    print_result(comparison.to_dict, lambda _: show_comparison(overview), output, format, comparison.records())
    if any(method["status"] == "failed" for method in overview["methods"]):
        error_console.print(
            "Some methods failed; the reasons are listed above. Run the same command again to retry them."
        )
        raise typer.Exit(1)


def show_comparison(summary: dict[str, Any]) -> None:
    """Print the recommendation, then scores by method and held-out domain, auto first and the others by mean score."""
    from ..report import arrange_scores

    console = make_console()
    verdict = summary["verdict"]
    domains = summary["domains"]
    if verdict["recommendation"]:
        console.print(verdict["recommendation"]["sentence"], style="bold")
    for sentence in (verdict["headline"], *verdict["sentences"]):
        console.print(sentence)
    factor, digits = (100, 1) if verdict["share"] else (1, 3)
    methods = arrange_scores(summary)
    rows: list[list[Cell]] = []
    for method in methods:
        row: list[Cell] = [f"{method['name']}{'*' * method['transductive']}"]
        for cell in method["cells"]:
            if cell["mean"] is None:
                text = method["status"]
            else:
                text = f"{factor * cell['mean']:.{digits}f}"
                text += "" if cell["sd"] is None else f" ±{factor * cell['sd']:.{digits}f}"
            row.append(Text(text, style="bold" if cell["best"] else ""))
        rows.append(row)
    title = f"{verdict['metric'].replace('_', ' ')} on the held-out domain{', %' if verdict['share'] else ''}"
    name_width = sorted([*NAME_WIDTHS, (console.width - OTHER_WIDTH) // len(domains)])[1]
    header = ["method", "mean ± sd", *(shorten(domain, name_width) for domain in domains)]
    n_hidden = len(header) - print_table(header, rows, title)
    if n_hidden:
        text = f"{n_hidden} of {len(domains)} domains do not fit; --format csv and --report show all."
        console.print(text, style="dim")
    print_failures([(method["name"], method) for method in methods], "uses unlabeled samples of the held-out domain")


def print_failures(results: Iterable[tuple[str, dict[str, Any]]], transductive: str) -> None:
    """Print the meaning of the star of transductive methods, and the reasons of those that failed."""
    console = make_console()
    named = list(results)
    if any(result["transductive"] for _, result in named):
        console.print(f"* transductive: {transductive}", style="dim")
    for name, result in named:
        if result["failed"]:
            console.print(f"{name} {result['status']}: {result['failed']}", style="red")
