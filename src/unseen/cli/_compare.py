"""``unseen compare``: evaluate every method on every held-out domain; print advice, a table and a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
)
from ._user_methods import combine_methods, load_user_methods

if TYPE_CHECKING:
    from ..model_selection import Method
    from ..tables import Table

Cell = str | Text
NAME_WIDTHS = (18, 9)  # of domains in the table, tried in this order until all domains fit


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
) -> None:
    """Evaluate methods by leave-one-domain-out cross-validation, and recommend one.

    To try it without data: unseen demo. Tables of photographs: unseen extract.

    Example: unseen compare hospitals.csv --label diagnosis --domain hospital --report report.html
    """
    from ..evaluation import describe_imbalance
    from ..model_selection import AUTO_TRANSDUCTIVE, get_metric

    with translate_errors():
        check_output_path(report, ".html", ".htm")
        o.check_result_output(output)
        all_methods = combine_methods(o.parse_names(methods) or [], load_user_methods(with_models or []))
        if transductive and methods == o.COMPARED_METHODS():  # "auto" is the same as "auto, transductive" then
            all_methods = [method for method in all_methods if method.name != AUTO_TRANSDUCTIVE]
        table = o.read_table(data, request)
        imbalance = describe_imbalance(Counter(table.y.tolist()), get_metric(metric).label)
        print_notices([*table.notices, *filter(None, [imbalance])])
    run_and_report(
        table,
        all_methods,
        output=output,
        format=format,
        report=report,
        store=store,
        jobs=jobs,
        verbose=int(not quiet),
        scheduler=scheduler,
        scale=scale,
        transductive=transductive,
        balance=balance,
        quick=quick,
        metric=metric,
        protocol=protocol,
        threshold=threshold,
        positive=positive,
        random_state=request.seed,
    )


def run_and_report(
    table: Table,
    methods: Sequence[Method],
    *,
    output: Path,
    format: str | None,
    report: Path | None,
    store: Path | None,
    jobs: int | None,
    verbose: int,
    scheduler: str | None = None,
    **settings: Any,
) -> None:
    """Compare methods on a table, write the report and print the results; exit with code 1 if a method fails.

    Further settings are parameters of `unseen.compare`.
    """
    from ..evaluation import Protocol
    from ..evaluation import compare as compare_methods

    with translate_errors():
        plan = Protocol().plan(table.domain)
        if not plan.exact:
            print_notices([str(plan)])
        store, resume = o.results_path(Path(table.name).stem.replace(" ", "-"), store)
        o.check_store(store)
    with translate_errors(resume):
        n_domains = len(set(table.domain.tolist()))
        message_console.print(f"{len(table.y):,} samples, {n_domains} domains, {len(methods)} methods -> {store}")
        with o.open_cluster(scheduler) as client:
            comparison = compare_methods(
                table,
                methods=methods,
                store=store,
                n_jobs=o.choose_jobs(jobs, len(table.y), len(methods)),
                verbose=verbose,
                client=client,
                command=o.current_command(),
                **settings,
            )
        if report is not None:
            comparison.write_report(report)
            message_console.print(f"Wrote {report}")
        summary = comparison.to_dict()
        print_result(summary, show_comparison, select_format(format, output), output, list_scores(summary))
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
    """Print the recommendation, then scores by method and held-out domain, auto first and the others by mean score."""
    from ..report import rank_methods

    console = make_console()
    verdict = summary["verdict"]
    if verdict["recommendation"]:
        console.print(verdict["recommendation"]["sentence"], style="bold")
    for sentence in (verdict["headline"], *verdict["sentences"]):
        console.print(sentence)
    methods = rank_methods(summary["methods"])
    for name_width in NAME_WIDTHS:
        columns = _make_columns(methods, summary["domains"], verdict["share"], name_width)
        shown = select_fitting_columns(columns, console.width, n_required=2)
        n_hidden = sum(isinstance(key, int) and key not in shown for key in columns)
        if not n_hidden:
            break
    title = f"{verdict['metric'].replace('_', ' ')} on the held-out domain{', %' if verdict['share'] else ''}"
    table = make_table(["method"], [str(columns[key][0]) for key in shown[1:]], title)
    for i in range(len(methods)):
        table.add_row(*(columns[key][1 + i] for key in shown))
    console.print(table)
    if n_hidden:
        text = f"{n_hidden} of {len(summary['domains'])} domains do not fit; --format csv and --report show all."
        console.print(text, style="dim")
    if any(method["transductive"] for method in methods):
        console.print("* transductive: uses unlabeled samples of the held-out domain", style="dim")
    for method in methods:
        if method["failed"]:
            console.print(f"{method['name']} {_status_word(method)}: {method['failed']}", style="red")


def _make_columns(
    methods: list[dict[str, Any]], domains: list[str], is_percentage: bool, name_width: int
) -> dict[Any, list[Cell]]:
    """Make the columns of the table, in order of importance: each a header and a cell for each method.

    The key of a domain is its number, since its name may be that of another column.
    """
    factor, digits = (100, 1) if is_percentage else (1, 3)

    def format_score(score: dict[str, Any] | None, status: str) -> str:
        if score is None or score["mean"] is None:
            return status
        spread = "" if score["sd"] is None else f" ±{factor * score['sd']:.{digits}f}"
        return f"{factor * score['mean']:.{digits}f}{spread}"

    columns: dict[Any, list[Cell]] = {
        "method": ["method", *(f"{method['name']}{'*' * method['transductive']}" for method in methods)],
        "mean": ["mean ± sd", *(format_score(method, _status_word(method)) for method in methods)],
    }
    for key, domain in enumerate(domains):
        cells = [method["accuracies"][domain] for method in methods]
        best = max((cell["mean"] for cell in cells if cell), default=None)
        columns[key] = [shorten(domain, name_width)]
        for method, cell in zip(methods, cells, strict=True):
            style = "red" if cell is None else "bold" if cell["mean"] == best else ""
            columns[key].append(Text(format_score(cell, _status_word(method)), style=style))
    columns["kind"] = ["kind", *(method["kind"] for method in methods)]
    columns["seconds"] = ["seconds", *(f"{method['seconds']:.1f}" for method in methods)]
    return columns


def _status_word(method: dict[str, Any]) -> str:
    if method["skipped"]:
        return "skipped"
    return "failed" if method["failed"] else "undefined"
