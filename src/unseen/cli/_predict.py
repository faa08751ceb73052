"""``unseen predict``: classify the rows of a new table of any length."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from ..exceptions import SmallBatchError
from ..utils.io import check_output_path
from . import _options as o
from ._report import (
    add_note,
    exit_on_closed_output,
    message_console,
    print_lines,
    print_notices,
    print_result,
    print_table,
)
from ._user_methods import append_to_path

MAX_SHOWN_DOMAINS = 20
# Ways to avoid a SmallBatchError, in terms of options.
REMEDIES = {
    "batch": "predict a table with at least {min_rows} rows of each new domain",
    "inductive": "fit without --transductive",
    "source": "name a source domain in the column --domain",
}


def predict(
    model: o.ModelFile,
    new: o.NewData,
    *,
    domain: o.NewDomain = None,
    missing: o.Missing = None,
    keep: Annotated[
        str | None,
        o.make_option(
            o.DATA,
            metavar="COLUMNS",
            show_default="none",
            help="Columns to copy to the output, comma-separated, such as identifiers; or all.",
        ),
    ] = None,
    coverage: Annotated[
        float | None,
        o.make_option(
            o.METHODS, metavar="SHARE", show_default="none", help="Add prediction sets with this coverage, such as 0.8."
        ),
    ] = None,
    prior: Annotated[
        str | None,
        o.make_option(
            o.METHODS,
            metavar="CLASS=SHARE",
            show_default="as in training",
            help="Known class frequencies at the new domain, comma-separated, such as ill=0.03; others share the rest.",
        ),
    ] = None,
    trusted: o.Trusted = None,
    output: Annotated[
        Path,
        o.make_option(
            o.OUTPUT,
            "--output",
            "-o",
            metavar="FILE",
            allow_dash=True,
            help="File to write predictions to, by its suffix; - writes CSV to standard output.",
        ),
    ],
    format: o.Format = "txt",
    quiet: o.Quiet = False,
    batch_size: o.BatchSize = 20_000,
    scheduler: o.Scheduler = None,
) -> None:
    """Predict the rows of a new table, in their order, and report how novel their domains are.

    Example: unseen predict model.unseen new_hospital.csv -o predictions.csv
    """
    from ..models import RESULT_ENDINGS, load_model

    is_printed = output == o.STANDARD_OUTPUT
    if is_printed and format != "txt":
        raise ValueError(
            f"Standard output cannot hold both the predictions (--output -) and the summary (--format {format}). "
            "Write the predictions to a file, or omit --format."
        )
    check_output_path(None if is_printed else output, *RESULT_ENDINGS, inputs=(new, model))
    trusted_types = o.parse_names(trusted) or []
    if trusted_types:
        append_to_path(Path.cwd())  # as for --with
    with add_note("Nothing was written."):
        fitted_model = load_model(model, trusted=trusted_types)
        if prior is not None:
            fitted_model = fitted_model.with_prior(parse_shares(prior))
        if coverage is not None:  # an unattainable coverage is an error before the table is read
            fitted_model.table_model.ensemble.resolve_coverage(coverage)
        kept_columns = "all" if keep == "all" else o.parse_names(keep)
        table = fitted_model.open_table(
            new, domain=domain, keep=kept_columns, missing=o.parse_missing(missing), batch_size=batch_size
        )
        print_notices(table.notices)
        with o.open_cluster(scheduler) as client, _open_output(output) as file:
            try:
                prediction = fitted_model.predict_table(
                    table, file, coverage=coverage, client=client, verbose=int(not quiet)
                )
            except SmallBatchError as error:
                raise ValueError(f"{error.problem} {error.advice(REMEDIES)}") from error
    print_notices(prediction.notices)
    if not is_printed:
        print_result(prediction.summary, show_predictions, format=format)
        message_console.print(f"Wrote {output}")
    elif not quiet:
        with redirect_stdout(sys.stderr):
            show_predictions(prediction.summary)


def parse_shares(text: str) -> dict[str, float]:
    """Parse comma-separated classes and their shares, such as ``ill=0.03``."""
    pairs = o.parse_pairs([text], "--prior", "ill=0.03,well=0.97")
    try:
        return {name: float(value) for name, value in pairs}
    except ValueError as error:
        raise ValueError(f"--prior {text!r} does not have numbers as shares: {error}.") from None


@contextmanager
def _open_output(output: Path) -> Iterator[Path]:
    """Yield the file to write; for standard output a temporary CSV file, which is printed if no exception is raised."""
    if output != o.STANDARD_OUTPUT:
        yield output
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "predictions.csv"
        yield file
        # Bytes, so that labels are not changed if the encoding of standard output lacks their characters.
        with file.open("rb") as content, exit_on_closed_output():
            copyfileobj(content, sys.stdout.buffer)
            sys.stdout.buffer.flush()


def show_predictions(summary: dict[str, Any]) -> None:
    """Print the number of rows of each label, the accuracy if labels are known, and the novelty of the domains."""
    from ..models import quote_label
    from ..tables import format_count

    has_domains = any(entry["domain"] is not None for entry in summary["novelty"])
    print_lines([format_count(summary["rows"], "row")])
    print_lines(f"  {quote_label(entry['label'])}: {entry['rows']:,}" for entry in summary["labels"])
    if summary["agreement"]:
        show_agreement(summary["agreement"], has_domains)
    if summary["transductive"]:
        print_lines(["The predictions are transductive: they use all rows of each new domain together."])
    sets = summary["sets"]
    if sets:
        coverage = 100 * sets["coverage"]
        text = f"Prediction sets have {sets['classes']:.1f} labels on average, for a coverage of {coverage:g}%."
        print_lines([sets["note"] or text])
    novelty = sorted(summary["novelty"], key=lambda entry: -(entry["ratio"] or 0))
    _print_first(
        [f"{quote_label(entry['domain'])}: {entry['text']}" if has_domains else entry["text"] for entry in novelty],
        "less novel",
    )


def show_agreement(agreement: dict[str, Any], has_domains: bool) -> None:
    """Print the accuracy and the confusion matrix."""
    from ..models import quote_label
    from ..tables import format_count

    def format_accuracy(entry: dict[str, Any]) -> str:
        return f"{100 * entry['accuracy']:.1f}%, {entry['right']:,} of {format_count(entry['rows'], 'row')} correct"

    unlabeled = f"; {format_count(agreement['unlabeled'], 'row')} without a label" if agreement["unlabeled"] else ""
    print_lines([f"Accuracy: {format_accuracy(agreement)}{unlabeled}"])
    if has_domains:
        domains = sorted(agreement["domains"], key=lambda entry: float(entry["accuracy"]))
        lines = [f"  {quote_label(entry['domain'])}: {format_accuracy(entry)}" for entry in domains]
        _print_first(lines, "with higher accuracy")
    names = [quote_label(name) for name in agreement["classes"]]
    rows = [(name, *map(str, counts)) for name, counts in zip(names, agreement["counts"], strict=True)]
    if agreement["others"]["rows"]:
        rows.append(("any other", *map(str, agreement["others"]["counts"])))
    n_shown = print_table(["label", *names], rows, "Confusion matrix (columns: predicted labels)")
    if n_shown <= len(names):
        print_lines([f"{len(names) + 1 - n_shown} of {len(names)} classes do not fit; --format json has them."])


def _print_first(lines: list[str], rest: str) -> None:
    """Print the lines of the first domains, and describe the rest."""
    print_lines(lines[:MAX_SHOWN_DOMAINS])
    if len(lines) > MAX_SHOWN_DOMAINS:
        print_lines([f"  ... and {len(lines) - MAX_SHOWN_DOMAINS} more domains, {rest}."])
