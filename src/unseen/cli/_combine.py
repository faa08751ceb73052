"""``unseen combine``: combine the results of sites to a validation report, and select the setting of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import _options as o
from ._report import add_note, message_console, print_notices, print_result
from ._validate import show_validation


def combine(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="Files that validate --aggregate wrote, one for each site."),
    ],
    *,
    model: Annotated[
        Path | None,
        o.make_option(
            o.METHODS,
            metavar="FILE",
            show_default="none",
            help="Model file of fit --from, to write it with the selected setting.",
        ),
    ] = None,
    cost: o.Cost = None,
    event: o.Event = "",
    unit: o.Unit = "",
    tau_prior: o.TauPrior = "none",
    report: o.Report = None,
    output: Annotated[
        Path | None,
        o.make_option(
            o.OUTPUT,
            "--output",
            "-o",
            metavar="FILE",
            show_default="none",
            help="Model file to write, ending in .unseen: the model of all sites with the selected setting.",
        ),
    ] = None,
    overwrite: o.Overwrite = False,
    format: o.TableFormat = None,
    quiet: o.Quiet = False,
) -> None:
    """Combine the results of sites: the validation report of all rows, without the rows.

    Example: unseen combine *.site.json --report report.html
    """
    from ..exchange import combine as combine_files

    if (model is None) != (output is None):
        raise ValueError("--model and --output belong together: the model to complete, and the file to write.")
    with add_note("Nothing was written."):
        if output is not None and model is not None:
            o.check_model_output(output, overwrite, inputs=[model])
        result = combine_files(
            o.expand_patterns(files),
            model=model,
            cost=cost,
            event=event,
            unit=unit,
            tau_prior=tau_prior,
            command=o.current_command(),
        )
    print_notices(result.settings.notices)
    if output is not None and result.model is not None:
        result.model.save(output)
        message_console.print(f"Wrote {output}")
    if report is not None:
        result.write_report(report)
        message_console.print(f"Wrote {report}")
    print_result(result.to_dict(), show_validation, format=format, table=result.summary_records)
