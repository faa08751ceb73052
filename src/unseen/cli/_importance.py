"""``unseen importance``: how much the score of a model falls on labeled data if each column is permuted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..utils.io import check_output_path
from . import _options as o
from ._report import make_console, make_table, print_result, save_figure, select_format, translate_errors, write_text

MAX_SHOWN_DOMAINS = 8  # columns of the table; JSON and CSV have all


def importance(
    model: o.ModelFile,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Table with the label column of training.")],
    *,
    domain: o.NewDomain = None,
    max_per_domain: Annotated[
        int, o.make_option(o.DATA, min=2, metavar="N", help="Maximum number of samples per domain, drawn at random.")
    ] = 500,
    metric: Annotated[
        str | None,
        o.make_option(
            o.EVALUATION, metavar="NAME", show_default="that of the fit", help="Score whose loss is measured."
        ),
    ] = None,
    repeats: Annotated[
        int, o.make_option(o.EVALUATION, min=1, metavar="N", help="Number of permutations of each column.")
    ] = 5,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    report: o.Report = None,
    figure: o.Figure = None,
    quiet: o.Quiet = False,
    seed: o.Seed = 0,
) -> None:
    """Measure how much each column matters to a model on labeled data, by domain.

    Use data of domains that are not in the training data: there it is the importance that survives the shift.

    Example: unseen importance model.unseen new_hospitals.csv --domain hospital
    """
    from ..models import load_model

    with translate_errors():
        check_output_path(report, ".html", ".htm")
        check_output_path(figure, ".png", ".svg", ".pdf")
        o.check_result_output(output, inputs=(model, data))
        result = load_model(model).importance(
            data,
            sample_domain=domain,
            metric=metric,
            n_repeats=repeats,
            max_per_domain=max_per_domain,
            random_state=seed,
        )
        if report is not None:
            write_text(result.to_html(), report)
        if figure is not None:
            save_figure(result.plot(), figure)
        summary = result.summary()
        rows = [
            {**{key: entry[key] for key in ("column", "mean", "lower", "upper")}, **entry["by_domain"]}
            for entry in summary["columns"]
        ]
        print_result(summary, show_importance, select_format(format, output), output, rows)


def show_importance(summary: dict[str, Any]) -> None:
    """Print the mean loss of each column, its interval, and the loss on the first domains."""
    factor, digits = (100, 1) if summary["is_percent"] else (1, 3)
    domains = list(summary["scores"])[:MAX_SHOWN_DOMAINS]
    unit = ", in percentage points" if summary["is_percent"] else ""
    title = f"Loss of {summary['metric']} if a column is permuted{unit}"
    table = make_table(["column"], ["mean", "95% interval", *domains], title)

    def write(value: float | None) -> str:
        return "" if value is None else f"{factor * value:.{digits}f}"

    for entry in summary["columns"]:
        interval = f"{write(entry['lower'])} to {write(entry['upper'])}" if entry["lower"] is not None else ""
        losses = [write(entry["by_domain"][name]) for name in domains]
        table.add_row(entry["column"], write(entry["mean"]), interval, *losses)
    make_console().print(table)
