"""``unseen predict``: classify the rows of a new table, however long it is."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from rich.table import Table as RichTable
from rich.text import Text

from ..estimators import mapped
from ..labels import listed
from ..models import Centres, ModelFileError, TableModel, load_model
from ..shift import NoveltyResult
from ..tables import Schema, counted
from ._fit import warnings_as_notices
from ._new_table import MAX_DOMAINS, NewTable, Piece, RowProgress
from ._options import Json, Scheduler, Workers, cluster, names_of
from ._predicting import Done, Findings, OnPieces, centre, classify
from ._report import PAGE, Terminal, check_target, clean, errors, json_text, notices, reporting
from ._results_file import ENDINGS, results_file
from ._show import readable

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes spreadsheets take a cell for a formula
SHOWN = 20  # domains whose novelty is printed
LEGIBLE = 12  # classes that a table has room for


class Center(StrEnum):
    """What projections are centred on."""

    model = "model"
    target = "target"


def predict(
    model: Annotated[Path, typer.Argument(help="A file that unseen fit wrote.")],
    new: Annotated[Path, typer.Argument(help="A table; or a folder or pattern of several. Columns are found by name.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where predictions go: a .csv or .parquet file.")],
    center: Annotated[
        Center, typer.Option(help="As the model was fitted, or on the new rows of each domain (transductive).")
    ] = Center.model,
    domain: Annotated[str | None, typer.Option(help="Column that tells domains of the new table apart.")] = None,
    keep: Annotated[
        str | None, typer.Option(help="Columns to copy into the output, comma-separated, such as identifiers; or all.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows in memory at a time, fewer if they are wide.")] = 20_000,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Predict the rows of a new table, in their order, and say how far they lie from what the model has seen.

    Example: unseen predict model.unseen new_hospital.csv -o predictions.csv
    """
    with reporting("Nothing was written."), warnings_as_notices():
        check_target(output, *ENDINGS)
        if output.resolve() in (new.resolve(), model.resolve()):
            raise ValueError(f"--output {output} would replace what is read; choose another name.")
        fitted, card = load_model(model)
        if not isinstance(fitted, TableModel):
            raise ModelFileError(f"{model}: holds a {type(fitted).__name__}, not a model that `unseen fit` wrote.")
        kept = None if keep == "all" else names_of(keep) or []
        table = NewTable(new, _schema(model, card), domain, batch_size, kept)
        notices([*table.notices, *_advice(fitted)])
        run, before = Run(fitted, table, center is Center.target), _missing_before(model, card)
        with (
            cluster(workers, scheduler) as client,
            results_file(output) as write,
            closing(run.frames(client)) as frames,
        ):
            for frame in frames:
                write(frame)
        summary = run.summary(output, before)
        notices([*_about_missing(summary), *_about_formulas(summary), *_about_new(summary)])
        if as_json:
            typer.echo(json_text(summary))
        else:
            _print(summary, table.names_domains)
        errors.print(f"Wrote {output}")


def _schema(model: Path, card: dict[str, Any]) -> Schema:
    try:
        return Schema.from_dict(card["schema"])
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{model}: its card does not say which columns the model needs.") from error


def _missing_before(model: Path, card: dict[str, Any]) -> dict[str, float]:
    """The share of missing values in columns of the training table; older models do not tell."""
    try:
        return {str(name): float(share) for name, share in card.get("data", {}).get("missing", {}).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelFileError(f"{model}: its card does not say what was missing in training.") from error


def _about_missing(summary: dict[str, Any]) -> Iterator[str]:
    if summary["mostly_missing"]:
        columns = [f"{e['column']} ({e['missing']:,} of {summary['rows']:,} values)" for e in summary["mostly_missing"]]
        yield f"Mostly missing here, so the predictions rest on the other columns: {listed(columns)}."


def _about_formulas(summary: dict[str, Any]) -> Iterator[str]:
    names = [entry["label"] for entry in summary["labels"]] + [entry["domain"] for entry in summary["novelty"]]
    risky = [name for name in names if isinstance(name, str) and name.startswith(FORMULA)]
    if risky and summary["output"].lower().endswith(".csv"):
        yield (
            f"Names such as {risky[0]!r} look like formulas to a spreadsheet. They are written as they are; import "
            "their column as text."
        )


def _about_new(summary: dict[str, Any]) -> Iterator[str]:
    """Values that the model knows nothing of: in features, and among the labels."""
    for entry in summary["new_levels"]:
        yield (
            f"The column {entry['column']!r} holds what training did not, in {entry['rows']:,} of "
            f"{counted(summary['rows'], 'row')}: {listed(entry['levels'])}. Such values count as rare ones."
        )
    others = (summary["agreement"] or {}).get("others", {"rows": 0})
    if others["rows"]:
        yield (
            f"{counted(others['rows'], 'row')} with labels that the model was not trained on, such as "
            f"{others['labels'][0]!r}: no prediction can be right there."
        )


class Run:
    """One pass over the table; two if new domains are centred, the first of which finds their centres."""

    def __init__(self, model: TableModel, table: NewTable, target: bool) -> None:
        self.model = model
        self.table = table
        self.centres = Centres(model) if target or model.transductive else None
        self.found = Findings(np.zeros(len(table.encoding.schema.columns), dtype=np.intp))

    def frames(self, client: Any = None) -> Generator[pl.DataFrame]:
        """Predictions, piece by piece, made here or by the workers of a cluster."""
        if self.centres is not None:
            for done in self._each("Centring", partial(centre, self.model, self.centres), client):
                self.centres.pool(done.centres or {})
            self.centres.check()
        for done in self._each("Predicting", partial(classify, self.model, self.centres), client):
            if done.frame is not None:
                yield done.frame

    def _each(self, description: str, act: Callable[[Piece], Done], client: Any) -> Iterator[Done]:
        """All pieces in order, with progress on standard error."""
        work, parts = OnPieces(self.table.encoding, act), self.table.parts()
        pieces = map(work, parts) if client is None else mapped(work.all, parts, client)
        with RowProgress(description, self.table.rows) as advance:
            for done in chain.from_iterable(pieces):
                self.found += done.findings
                if len(self.found.novelty) > MAX_DOMAINS:
                    raise ValueError(
                        f"The column {self.table.encoding.domain!r} names more than {MAX_DOMAINS:,} domains; does it "
                        "number the rows? Pass a column that says where rows come from."
                    )
                yield done
                advance(done.rows)

    def summary(self, output: Path, before: dict[str, float]) -> dict[str, Any]:
        """What was done, in plain values, given what was missing in training."""
        labels, of, agreement = self.found.labels, self.model.novelty.of, self.found.agreement
        return {
            "output": str(output),
            "rows": labels.total(),
            "labels": [{"label": label, "rows": labels[label]} for label in self.model.classes_.tolist()],
            "probabilities": self.model.has_probabilities,
            "transductive": self.centres is not None,
            "mostly_missing": self._mostly_missing(before),
            "new_levels": [
                {"column": name, "rows": new.rows, "levels": list(new.examples)} for name, new in self.found.new.items()
            ],
            "agreement": agreement.summary() if agreement is not None and agreement.rows else None,
            "novelty": [{"domain": name, **_plain(of(batch))} for name, batch in self.found.novelty.items()],
        }

    def _mostly_missing(self, before: dict[str, float]) -> list[dict[str, Any]]:
        """Features of which more than half is missing, and was not in training."""
        named = zip(self.table.encoding.schema.feature_names, self.found.missing.tolist(), strict=True)
        return [
            {"column": name, "missing": missing}
            for name, missing in named
            if 2 * missing > self.table.rows and before.get(name, 0.0) <= 0.5
        ]


def _plain(result: NoveltyResult) -> dict[str, Any]:
    """A result as JSON can have it."""
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in asdict(result).items()}


def _advice(model: TableModel) -> Iterator[str]:
    if not model.has_probabilities:
        yield f"{type(model.pipeline[-1]).__name__} gives labels without probabilities; there are no columns for them."


def _print(summary: dict[str, Any], names_domains: bool) -> None:
    _say(counted(summary["rows"], "row"))
    for entry in summary["labels"]:
        _say(f"  {readable(entry['label'])}: {entry['rows']:,}")
    if summary["agreement"]:
        _print_agreement(summary["agreement"], names_domains)
    if summary["transductive"]:
        _say("Each new domain was centred on its own rows: the predictions are transductive.")
    found = sorted(summary["novelty"], key=lambda entry: -(entry["ratio"] or 0))
    for entry in found[:SHOWN]:
        _say(f"{readable(entry['domain'])}: {entry['text']}" if names_domains else entry["text"])
    if len(found) > SHOWN:
        _say(f"... and {len(found) - SHOWN} more domains, all nearer.")
    far = [entry for entry in found if entry["far"]]
    if far:
        where = f" ({', '.join(readable(entry['domain']) for entry in far[:SHOWN])})" if names_domains else ""
        text = f"The new rows{where} lie outside of what the model has seen. Check some predictions by hand."
        errors.print(Text.assemble(("Warning: ", "bold yellow"), clean(text)))


def _print_agreement(found: dict[str, Any], names_domains: bool) -> None:
    """Accuracy, and which label was predicted as which."""
    without = f"; {counted(found['unlabelled'], 'row')} without a label" if found["unlabelled"] else ""
    _say(f"Accuracy: {_share(found)}{without}")
    domains = sorted(found["domains"], key=lambda entry: float(entry["accuracy"])) if names_domains else []
    for entry in domains[:SHOWN]:
        _say(f"  {readable(entry['domain'])}: {_share(entry)}")
    if len(domains) > SHOWN:
        _say(f"  ... and {len(domains) - SHOWN} more domains, none of them worse.")
    names = [readable(name) for name in found["classes"]]
    if len(names) > LEGIBLE:
        _say(f"Which of the {len(names)} classes were taken for which: --json.")
        return
    table = RichTable(title="Labels of the table, and what was predicted", title_justify="left", header_style="bold")
    table.add_column("label")
    for name in names:
        table.add_column(clean(name), justify="right")
    rows = list(zip(names, found["counts"], strict=True))
    if found["others"]["rows"]:
        rows.append(("any other", found["others"]["counts"]))
    for name, counts in rows:
        table.add_row(name, *(f"{count:,}" for count in counts))
    Terminal(width=None if sys.stdout.isatty() else PAGE).print(table)


def _share(found: dict[str, Any]) -> str:
    return f"{100 * found['accuracy']:.1f}%, {found['right']:,} of {counted(found['rows'], 'row')} right"


def _say(text: str) -> None:
    typer.echo(clean(text))
