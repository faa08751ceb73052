"""``unseen validate``: validate the model of ``unseen fit`` on each held-out site, with a report for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ..utils.io import check_output_path
from . import _options as o
from ._report import add_note, make_console, message_console, print_notices, print_result, print_table


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
            help="Baselines to validate as well, comma-separated; or none.",
            show_default="logistic regression, boosted trees and a forest",
        ),
    ] = "",
    with_models: o.With = None,
    transductive: o.Transductive = False,
    balance: o.Balance = "none",
    metric: o.Metric = "accuracy",
    threshold: o.Threshold = None,
    positive: o.Positive = None,
    cost: o.Cost = None,
    event: o.Event = "",
    unit: o.Unit = "",
    by: Annotated[
        str | None,
        o.make_option(
            o.EVALUATION,
            metavar="COLUMNS",
            show_default="none",
            help="Columns by whose values all measures are repeated for subgroups, comma-separated.",
        ),
    ] = None,
    tau_prior: o.TauPrior = "none",
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
    aggregate: Annotated[
        Path | None,
        o.make_output_option(
            endings=(".json",),
            show_default="none",
            help="With --model: write only the results of this site to this .json file, for unseen combine.",
        ),
    ] = None,
    site: o.Site = None,
    smallest_cell: Annotated[
        int | None,
        o.make_option(
            o.OUTPUT,
            min=1,
            metavar="N",
            show_default="that of the study, or 10",
            help="Smallest count of rows that --aggregate writes; smaller ones are merged or rounded.",
        ),
    ] = None,
    quiet: o.Quiet = False,
    store: Annotated[
        Path | None,
        o.make_output_option(
            panel=o.COMPUTATION,
            show_default="none",
            help="File that stores completed predictions; rerun the command to continue an interrupted run.",
        ),
    ] = None,
    jobs: o.AutomaticJobs = None,
    seed: o.Seed = 0,
) -> None:
    """Validate the model that fit returns on each held-out site: discrimination, calibration, usefulness, report.

    Example: unseen validate trials.csv --label died --domain trial --threshold sensitivity=0.9 --report report.html
    """
    from ..evaluation import DEFAULT_COMPARISONS
    from ..evaluation import validate as validate_table

    if aggregate is not None:
        _write_results(data, model, aggregate, o.name_site(site, aggregate), threshold, positive, smallest_cell)
        return
    check_output_path(None if tables is None else tables / "sites.csv")
    if compare_with == "none" and not with_models:
        others = []
    else:
        others = o.select_methods(compare_with.replace("none", ","), with_models, DEFAULT_COMPARISONS)
    table = None if model is not None else o.read_table(data, request, seed)
    n_models = 0 if table is None else (1 + len(others)) * len(set(table.domain.tolist()))
    with add_note("Pass --store to keep results." if store is None else "Run the same command again to continue."):
        result = validate_table(
            data if table is None else table,
            domain=request().domain if table is None else None,
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
            random_state=seed,
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
    print_result(result.to_dict(), show_validation, output, format, result.summary_records)


def _write_results(
    data: Path,
    model: Path | None,
    output: Path,
    site: str,
    threshold: str | None,
    positive: str | None,
    smallest_cell: int | None,
) -> None:
    """Write the results of a model on one site."""
    from ..exchange import score_site

    if model is None:
        raise ValueError("--aggregate needs --model, the file of the model that all sites validate.")
    try:
        number = None if threshold is None else float(threshold)
    except ValueError:
        raise ValueError(f"--threshold {threshold} cannot be chosen at one site. Use a number.") from None
    results = score_site(model, data, site=site, threshold=number, positive=positive, smallest_cell=smallest_cell)
    results.save(output)
    message_console.print(f"Wrote {output}. Read it before you send it.")


def show_validation(result: dict[str, Any]) -> None:
    """Print the page in plain language, and the summary over sites as a table."""
    from ..report import format_interval, format_number

    console = make_console()
    for part in result["colleagues"]:
        console.print(part["heading"], style="bold")
        for sentence in part["sentences"]:
            console.print(f"- {sentence}")
    rows = []
    for record in result["summary"]:
        if record["method"] == result["method"] and record["estimate"] is not None:
            rows.append(
                [
                    record["label"],
                    format_number(record["estimate"], 3),
                    format_interval(record["low"], record["high"]),
                    format_interval(record["prediction_low"], record["prediction_high"]),
                    format_number(record["tau"], 2),
                    format_number(record["i2"] and 100 * record["i2"], 0),
                ]
            )
    level = f"{result['level']:.0%}"
    title = f"{result['method']} on {len(result['sites'])} site{'s' * (len(result['sites']) > 1)}"
    print_table(["measure", "mean", f"{level} confidence", f"{level} prediction", "tau", "I2, %"], rows, title)
    if result["importance"]:
        show_importance(result["importance"])


def show_importance(importance: dict[str, Any]) -> None:
    """Print the mean loss of each column, its interval, and the loss on the first sites."""
    from ..report import format_interval, format_number

    rows = [
        [
            entry["column"],
            format_number(entry["mean"], 3),
            format_interval(entry["lower"], entry["upper"], 3),
            *(format_number(entry["by_domain"][name], 3) for name in importance["scores"]),
        ]
        for entry in importance["columns"]
    ]
    title = f"Loss of {importance['metric']} if a column is permuted"
    print_table(["column", "mean", "95% interval", *importance["scores"]], rows, title)
