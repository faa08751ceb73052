"""``unseen validate``: validate the model of ``unseen fit`` on each held-out site, with a report for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from ..utils.io import check_output_path
from . import _options as o
from ._report import (
    make_console,
    make_table,
    message_console,
    print_notices,
    print_result,
    select_format,
    translate_errors,
)
from ._user_methods import combine_methods, load_user_methods

MAX_SHOWN_SITES = 8  # columns of the table of importance; JSON has all
COMPARE_HELP = "Methods to validate beside the model, comma-separated; none for none."


@o.with_table_options
def validate(
    data: o.Data,
    *,
    request: o.Request,
    scale: o.Scale = "standardize",
    model: Annotated[
        Path | None,
        o.make_option(
            o.METHODS,
            metavar="FILE",
            exists=True,
            dir_okay=False,
            show_default="fit new models",
            help="Validate this model file as it is on the labeled sites of DATA, one or several.",
        ),
    ] = None,
    methods: o.FitMethods = "auto",
    compare_with: Annotated[
        str,
        o.make_option(
            o.METHODS,
            metavar="NAMES",
            help=COMPARE_HELP,
            show_default="logistic regression, boosted trees and a forest",
        ),
    ] = "",
    with_models: o.With = None,
    transductive: o.Transductive = False,
    balance: o.Balance = "none",
    metric: o.Metric = "accuracy",
    threshold: o.Threshold = None,
    positive: o.Positive = None,
    cost: Annotated[
        str | None,
        o.make_option(
            o.EVALUATION,
            metavar="MISS:ALARM",
            show_default="that of the threshold",
            help="Cost of a missed event to that of a false alarm in net benefit, such as 5:1.",
        ),
    ] = None,
    event: Annotated[
        str, o.make_option(o.EVALUATION, metavar="NAME", help="Name of the event in texts.", show_default="the class")
    ] = "",
    unit: Annotated[
        str, o.make_option(o.EVALUATION, metavar="NAME", help="Name of rows in texts.", show_default="rows")
    ] = "",
    by: Annotated[
        str | None,
        o.make_option(
            o.EVALUATION,
            metavar="COLUMNS",
            show_default="none",
            help="Columns by whose values all measures are repeated for subgroups, comma-separated.",
        ),
    ] = None,
    tau_prior: Annotated[
        Literal["none", "empirical"],
        o.make_option(o.EVALUATION, help="Prior on the standard deviation between sites, for few sites."),
    ] = "none",
    importance: Annotated[
        bool,
        o.make_option(
            o.EVALUATION, "--importance", help="Also measure the importance of columns on each held-out site."
        ),
    ] = False,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    report: o.Report = None,
    tables: Annotated[
        Path | None,
        o.make_option(
            o.OUTPUT,
            metavar="FOLDER",
            file_okay=False,
            show_default="none",
            help="Write all tables, with the predictions, to CSV files in this folder.",
        ),
    ] = None,
    quiet: o.Quiet = False,
    store: Annotated[
        Path | None,
        o.make_option(
            o.COMPUTATION,
            metavar="FILE",
            dir_okay=False,
            show_default="none",
            help="File that stores completed predictions; rerun the command to continue an interrupted run.",
        ),
    ] = None,
    jobs: o.AutomaticJobs = None,
) -> None:
    """Validate the model that fit returns on each held-out site: discrimination, calibration, usefulness, report.

    Example: unseen validate trials.csv --label died --domain trial --threshold sensitivity=0.9 --report report.html
    """
    from ..evaluation import DEFAULT_COMPARISONS
    from ..evaluation import validate as validate_table

    resume = "Pass --store to keep completed results." if store is None else "Run the same command again to continue."
    with translate_errors(resume):
        check_output_path(report, ".html", ".htm")
        check_output_path(store)
        check_output_path(None if tables is None else tables / "sites.csv")
        o.check_result_output(output)
        names = {"": list(DEFAULT_COMPARISONS), "none": []}.get(compare_with, o.parse_names(compare_with) or [])
        user_methods = load_user_methods(with_models or [])
        others = combine_methods(names, user_methods) if names else user_methods
        table = None if model is not None else o.read_table(data, request)
        n_models = 0 if table is None else (1 + len(others)) * len(set(table.domain.tolist()))
        result = validate_table(
            data if table is None else table,
            domain=request.domain if table is None else None,
            model=model,
            positive=positive,
            threshold=threshold,
            cost=cost,
            event=event,
            unit=unit,
            by=o.parse_names(by) or [],
            methods=o.parse_names(methods),
            compare_with=others,
            metric=metric,
            tau_prior=tau_prior,
            importance=importance,
            scale=scale,
            transductive=transductive,
            balance=balance,
            store=store,
            random_state=request.seed,
            n_jobs=None if table is None else o.choose_jobs(jobs, len(table.y), n_models),
            verbose=int(not quiet),
            command=o.current_command(),
        )
        print_notices(result.settings.notices)
        if report is not None:
            result.write_report(report)
            message_console.print(f"Wrote {report}")
        if tables is not None:
            paths = result.write_tables(tables)
            message_console.print(f"Wrote {len(paths)} files to {tables}")
        print_result(result.to_dict(), show_validation, select_format(format, output), output, result.summary_records)


def show_validation(result: dict[str, Any]) -> None:
    """Print the page in plain language, and the summary over sites as a table."""
    from ..report import format_number

    console = make_console()
    for part in result["colleagues"]:
        console.print(part["heading"], style="bold")
        for sentence in part["sentences"]:
            console.print(f"- {sentence}")
    level = f"{result['level']:.0%}"
    title = f"{result['method']} on {len(result['sites'])} site{'s' * (len(result['sites']) > 1)}"
    numbers = ["mean", f"{level} confidence", "tau", "I2, %", f"{level} prediction"]
    table = make_table(["measure"], numbers, title)
    for record in result["summary"]:
        if record["method"] != result["method"] or record["estimate"] is None:
            continue
        name = result["measure_names"][record["measure"]]["label"]
        if result["positive"] is None and record["class"] is not None:
            name = f"{name}: {record['class']}"
        table.add_row(
            name,
            format_number(record["estimate"], 3),
            f"{format_number(record['low'], 2)} to {format_number(record['high'], 2)}",
            format_number(record["tau"], 2),
            format_number(record["i2"] and 100 * record["i2"], 0),
            f"{format_number(record['prediction_low'], 2)} to {format_number(record['prediction_high'], 2)}",
        )
    console.print(table)
    if result["importance"]:
        show_importance(result["importance"])


def show_importance(importance: dict[str, Any]) -> None:
    """Print the mean loss of each column, its interval, and the loss on the first sites."""
    from ..report import format_number

    sites = list(importance["scores"])[:MAX_SHOWN_SITES]
    title = f"Loss of {importance['metric']} if a column is permuted"
    table = make_table(["column"], ["mean", "95% interval", *sites], title)
    for entry in importance["columns"]:
        interval = f"{format_number(entry['lower'], 3)} to {format_number(entry['upper'], 3)}"
        losses = [format_number(entry["by_domain"][name], 3) for name in sites]
        table.add_row(entry["column"], format_number(entry["mean"], 3), interval, *losses)
    make_console().print(table)
