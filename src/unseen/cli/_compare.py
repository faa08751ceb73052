"""``unseen compare``: evaluate every method on every held-out domain; print a table, a verdict and a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from ..utils.io import check_output_path
from . import _options as o
from ._report import (
    error_console,
    make_console,
    make_table,
    message_console,
    print_notices,
    print_result,
    select_fitting_columns,
    select_format,
    shorten,
    translate_errors,
    write_text,
)
from ._user_methods import combine_methods, load_user_methods

if TYPE_CHECKING:
    from ..evaluation import Protocol, ValidationOptions
    from ..model_selection import Method
    from ..tables import Table

Cell = str | Text
REQUIRED_COLUMNS = ("method", "mean ± sd")
OPTIONAL_COLUMNS = ("worst", "best", "kind", "seconds")
# Maximum widths of domain names, and whether spreads are shown, tried in this order until all domains fit.
DOMAIN_COLUMN_LAYOUTS = ((24, True), (14, True), (9, True), (9, False), (6, False))


@o.with_table_options
def compare(
    data: o.Data,
    *,
    request: o.Request,
    scale: o.Scale = "standardize",
    methods: o.Methods = o.COMPARED_METHODS,
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
    grid: Annotated[
        Literal["ensemble", "lean", "full"],
        o.make_option(
            o.METHODS,
            help="Settings as in ensembles, all (full), or all but the widest kernel and smallest ridge (lean).",
        ),
    ] = "ensemble",
    quick: o.Quick = False,
    metric: o.Metric = "accuracy",
    selection: o.Selection = "domain",
    repeats: o.OptionalRepeats = None,
    threshold: o.Threshold = None,
    positive: o.Positive = None,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    report: o.Report = None,
    quiet: o.Quiet = False,
    store: o.Store = None,
    jobs: o.AutomaticJobs = None,
    scheduler: o.Scheduler = None,
) -> None:
    """Evaluate methods by leave-one-domain-out cross-validation, and test whether invariance helps.

    To try it without data: unseen demo. Tables of photographs: unseen extract.

    Example: unseen compare hospitals.csv --label diagnosis --domain hospital --report report.html
    """
    from ..evaluation import COMPARISON_PROTOCOL, ValidationOptions, choose_repeats, describe_imbalance
    from ..model_selection import AUTO_TRANSDUCTIVE, get_metric
    from ..shift import find_column_notices

    with translate_errors():
        check_output_path(report, ".html", ".htm")
        o.check_result_output(output)
        all_methods = combine_methods(o.parse_names(methods) or [], load_user_methods(with_models or []))
        if transductive and methods == o.COMPARED_METHODS():  # "auto" is the same as "auto, transductive" then
            all_methods = [method for method in all_methods if method.name != AUTO_TRANSDUCTIVE]
        protocol = replace(
            COMPARISON_PROTOCOL,
            selection=selection,
            repeats=choose_repeats(repeats, quick),
            quick=quick,
            seed=request.seed,
            preprocess=scale,
            centering="target" if transductive else "source",
            metric=metric,
            balance=balance,
            grid=grid,
        )
        table = o.read_table(data, request)
        imbalance = describe_imbalance(Counter(table.y.tolist()), get_metric(metric).label)
        print_notices([*table.notices, *find_column_notices(table), *filter(None, [imbalance])])
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
        scheduler=scheduler,
        validation=ValidationOptions(positive, threshold),
    )


def run_and_report(
    table: Table,
    protocol: Protocol,
    methods: Sequence[Method],
    *,
    output: Path,
    format: str | None,
    report: Path | None,
    store: Path | None,
    jobs: int | None,
    verbose: int,
    scheduler: str | None = None,
    validation: ValidationOptions | None = None,
) -> None:
    """Compare methods on a table, write the report and print the results; exit with code 1 if a method fails."""
    from ..evaluation import Execution, ValidationOptions, compare_table
    from ..report import render_comparison

    with translate_errors():
        plan = protocol.plan(table.domain)
        if not plan.exact:
            print_notices([str(plan)])
        store, resume = o.results_path(Path(table.name).stem.replace(" ", "-"), store)
        o.check_store(store)
    with translate_errors(resume):
        n_domains = len(set(table.domain.tolist()))
        message_console.print(
            f"{len(table.y):,} samples, {n_domains} domains, {len(methods)} methods, "
            f"{protocol.repeats} repeat{'s' if protocol.repeats > 1 else ''} -> {store}"
        )
        with o.open_cluster(scheduler) as client:
            execution = Execution(
                store, n_jobs=o.choose_jobs(jobs, len(table.y), len(methods)), verbose=verbose, client=client
            )
            comparison = compare_table(
                table,
                protocol,
                methods,
                execution,
                command=o.current_command(),
                validation=validation or ValidationOptions(),
            )
        summary = comparison.summary()
        if report is not None:
            write_text(render_comparison(summary), report)
        without_pictures = {name: value for name, value in summary.items() if name != "pictures"}
        print_result(without_pictures, show_comparison, select_format(format, output), output, list_scores(summary))
    if any(method["failed"] and not method["skipped"] for method in summary["methods"]):
        error_console.print(
            "Some methods failed; the reasons are listed above. Run the same command again to retry them."
        )
        raise typer.Exit(1)


def list_scores(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """List the scores of each method on each held-out domain; a score that is missing is None."""
    return [
        {
            "method": method["name"],
            "kind": method["kind"],
            "transductive": method["transductive"],
            "domain": domain,
            "metric": summary["verdict"]["metric"],
            "mean": cell["mean"] if cell else None,
            "sd": cell["sd"] if cell else None,
            "status": "ok" if cell else _status_word(method),
        }
        for method in summary["methods"]
        for domain, cell in method["accuracies"].items()
    ]


def show_comparison(summary: dict[str, Any]) -> None:
    """Print scores by method and held-out domain, with auto first and the others by mean score, and the verdict."""
    from ..report import rank_methods

    console = make_console()
    domains = summary["domains"]
    verdict = summary["verdict"]
    is_percentage = verdict["share"]
    methods = rank_methods(summary["methods"])
    columns, shown = _fit_columns(methods, domains, is_percentage, console.width)
    title = f"{verdict['metric'].replace('_', ' ')} on the held-out domain{', %' if is_percentage else ''}"
    table = make_table(shown[:1], [], title)
    for key in shown[1:]:
        table.add_column(str(columns[key][0]), justify="left" if key == "kind" else "right", no_wrap=True)
    for i in range(len(methods)):
        table.add_row(*(columns[key][1 + i] for key in shown))
    console.print(table)
    n_hidden = len(set(_domain_keys(domains)) - set(shown))
    if n_hidden:
        text = f"{n_hidden} of {len(domains)} domains do not fit; --format csv and --report show all of them."
        console.print(text, style="dim")
    if any(method["transductive"] for method in summary["methods"]):
        console.print("* transductive: uses unlabeled samples of the held-out domain", style="dim")
    for method in summary["methods"]:
        if method["failed"]:
            console.print(f"{method['name']} {_status_word(method)}: {method['failed']}", style="red")
    console.print()
    console.print(verdict["headline"], style="bold")
    for sentence in verdict["sentences"]:
        console.print(sentence)
    if verdict["recommendation"]:
        console.print(verdict["recommendation"]["sentence"], style="bold")


def _fit_columns(
    methods: list[dict[str, Any]], domains: list[str], is_percentage: bool, width: int
) -> tuple[dict[Any, list[Cell]], list[Any]]:
    """Make the columns of the table, and return them with the keys of those that fit into the width.

    Long names and spreads are shortened first, then other columns are left out. Domains are left out if even they alone
    do not fit.
    """
    domain_keys = list(_domain_keys(domains))
    for max_width, has_spread in DOMAIN_COLUMN_LAYOUTS:
        columns = _make_columns(methods, domains, max_width, has_spread, is_percentage)
        order = [*REQUIRED_COLUMNS, *domain_keys, *OPTIONAL_COLUMNS]
        fitting = select_fitting_columns({key: columns[key] for key in order}, width, n_required=2)
        if set(domain_keys) <= set(fitting):
            return columns, [key for key in columns if key in fitting]
    order = [*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS, *domain_keys]
    return columns, select_fitting_columns({key: columns[key] for key in order}, width, n_required=4)


def _make_columns(
    methods: list[dict[str, Any]], domains: list[str], max_width: int, has_spread: bool, is_percentage: bool
) -> dict[Any, list[Cell]]:
    """Make the columns of the table: each a header and a cell for each method."""
    columns: dict[Any, list[Cell]] = {name: [name] for name in ("method", "mean ± sd", "worst", "best", "kind")}
    for key, domain in zip(_domain_keys(domains), domains, strict=True):
        columns[key] = [shorten(domain, max_width)]
    columns["seconds"] = ["seconds"]
    factor, digits = (100, 1) if is_percentage else (1, 3)
    best_scores = {}
    for domain in domains:
        scores = [method["accuracies"][domain]["mean"] for method in methods if method["accuracies"][domain]]
        best_scores[domain] = max(scores, default=None)
    for method in methods:
        status = _status_word(method)
        scores = [factor * cell["mean"] for cell in method["accuracies"].values() if cell]
        mean = status if method["mean"] is None else f"{factor * method['mean']:.{digits}f}"
        if method["mean"] is not None and method["sd"] is not None:
            mean += f" ± {factor * method['sd']:.{digits}f}"
        columns["method"].append(f"{method['name']}{'*' if method['transductive'] else ''}")
        columns["mean ± sd"].append(mean)
        columns["worst"].append(f"{min(scores):.{digits}f}" if scores else "")
        columns["best"].append(f"{max(scores):.{digits}f}" if scores else "")
        columns["kind"].append(method["kind"])
        for key, domain in zip(_domain_keys(domains), domains, strict=True):
            cell = method["accuracies"][domain]
            columns[key].append(_format_cell(cell, best_scores[domain], status, has_spread, is_percentage))
        columns["seconds"].append(f"{method['seconds']:.1f}")
    return columns


def _domain_keys(domains: list[str]) -> range:
    return range(len(domains))  # the name of a domain may be that of another column


def _status_word(method: dict[str, Any]) -> str:
    if method["skipped"]:
        return "skipped"
    return "failed" if method["failed"] else "undefined"


def _format_cell(
    cell: dict[str, float] | None, best: float | None, status: str, has_spread: bool, is_percentage: bool
) -> Text:
    if cell is None:
        return Text(status, style="red")
    factor, digits = (100, 1) if is_percentage else (1, 3)
    spread = f" ±{factor * cell['sd']:.{digits}f}" if cell["sd"] and has_spread else ""
    return Text(f"{factor * cell['mean']:.{digits}f}{spread}", style="bold" if cell["mean"] == best else "")
