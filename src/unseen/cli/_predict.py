"""``unseen predict``: classify the rows of a new table, however long it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from rich.text import Text

from ..cells import Array
from ..labels import Labels
from ..model_file import ModelFileError, load_model
from ..novelty import Accumulator, NoveltyResult
from ..table_model import Centres, TableModel
from ..tables import Schema
from ..tables._errors import listed
from ._fit import warnings_as_notices
from ._new_table import MAX_DOMAINS, NewTable, Piece
from ._options import Json
from ._report import check_target, clean, errors, json_text, notices, reporting
from ._results_file import ENDINGS, ResultsFile
from ._show import readable

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes spreadsheets take a cell for a formula
SHOWN = 20  # domains whose novelty is printed


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
    batch_size: Annotated[int, typer.Option(min=1, help="Rows in memory at a time, fewer if they are wide.")] = 20_000,
    as_json: Json = False,
) -> None:
    """Predict the rows of a new table, in their order, and say how far they lie from what the model has seen.

    Example: unseen predict model.unseen new_hospital.csv -o predictions.csv
    """
    with reporting("Nothing was written."), warnings_as_notices():
        check_target(output, *ENDINGS)
        results = ResultsFile(output)
        if output.resolve() in (new.resolve(), model.resolve()):
            raise ValueError(f"--output {output} would replace what is read; choose another name.")
        fitted, card = load_model(model)
        if not isinstance(fitted, TableModel):
            raise ModelFileError(f"{model}: holds a {type(fitted).__name__}, not a model that `unseen fit` wrote.")
        table = NewTable(new, _schema(model, card), domain, batch_size)
        notices([*table.notices, *_advice(fitted, output)])
        run = Run(fitted, table, center is Center.target)
        with results:
            for frame in run.frames():
                results.write(frame)
            results.commit()
        summary = run.summary(output, _mostly_missing(table, _missing_before(model, card)))
        notices(list(_about_missing(summary)))
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


def _mostly_missing(table: NewTable, before: dict[str, float]) -> list[dict[str, Any]]:
    """Features of which more than half is missing, and was not in training."""
    named = zip(table.schema.feature_names, table.missing.tolist(), strict=True)
    return [
        {"column": name, "missing": missing}
        for name, missing in named
        if 2 * missing > table.rows and before.get(name, 0.0) <= 0.5
    ]


def _about_missing(summary: dict[str, Any]) -> Iterator[str]:
    if summary["mostly_missing"]:
        columns = [f"{e['column']} ({e['missing']:,} of {summary['rows']:,} values)" for e in summary["mostly_missing"]]
        yield f"Mostly missing here, so the predictions rest on the other columns: {listed(columns)}."


class Run:
    """One pass over the table; two if new domains are centred, the first of which finds their centres."""

    def __init__(self, model: TableModel, table: NewTable, target: bool) -> None:
        self.model = model
        self.table = table
        self.centres = Centres(model) if target or model.transductive else None
        self.batches: dict[str | None, Accumulator] = {}
        self.labels: Counter[Any] = Counter()
        self.rows = 0

    def frames(self) -> Iterator[pl.DataFrame]:
        """Predictions, piece by piece."""
        if self.centres is not None:
            for piece in self.table.pieces("Centring"):
                prepared = self.model.prepare(piece.X)
                self._watch(prepared, piece.domain)
                self.centres.add(prepared, piece.domain)
            self.centres.check()
        for piece in self.table.pieces("Predicting"):
            prepared = self.model.prepare(piece.X)
            if self.centres is None:
                self._watch(prepared, piece.domain)
            yield self._predicted(piece, self._transformed(prepared, piece.domain))

    def _transformed(self, prepared: Array, domain: Labels | None) -> Any:
        if self.centres is not None:
            return self.centres.transform(prepared, domain)
        transformer = self.model.transformer
        return prepared if transformer is None else transformer.transform(prepared)

    def _predicted(self, piece: Piece, Z: Any) -> pl.DataFrame:
        classifier = self.model.pipeline[-1]
        labels = classifier.predict(Z)
        self.labels.update(labels.tolist())
        self.rows += len(labels)
        columns: dict[str, Any] = {} if piece.domain is None else {"domain": piece.domain}
        columns["label"] = labels
        if self.model.has_probabilities:
            probabilities = classifier.predict_proba(Z)
            columns |= {f"p({name})": probabilities[:, i] for i, name in enumerate(self.model.classes_.tolist())}
        return pl.DataFrame(columns)

    def _watch(self, prepared: Array, domain: Labels | None) -> None:
        """Collect the novelty of each domain."""
        for name in [None] if domain is None else np.unique(domain).tolist():
            if name not in self.batches:
                self.batches[name] = self.model.novelty.start()
            self.batches[name].add(prepared if name is None else prepared[domain == name])
        if len(self.batches) > MAX_DOMAINS:
            raise ValueError(
                f"The column {self.table.domain!r} names more than {MAX_DOMAINS:,} domains; does it number the rows? "
                "Pass a column that says where rows come from."
            )

    def summary(self, output: Path, mostly_missing: list[dict[str, Any]]) -> dict[str, Any]:
        """What was done, in plain values."""
        novelty = [{"domain": name, **_plain(batch.result())} for name, batch in self.batches.items()]
        return {
            "output": str(output),
            "rows": self.rows,
            "labels": [{"label": label, "rows": self.labels[label]} for label in self.model.classes_.tolist()],
            "probabilities": self.model.has_probabilities,
            "transductive": self.centres is not None,
            "mostly_missing": mostly_missing,
            "novelty": novelty,
        }


def _plain(result: NoveltyResult) -> dict[str, Any]:
    """A result as JSON can have it."""
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in asdict(result).items()}


def _advice(model: TableModel, output: Path) -> Iterator[str]:
    if not model.has_probabilities:
        yield f"{type(model.pipeline[-1]).__name__} gives labels without probabilities; there are no columns for them."
    risky = [name for name in model.classes_.tolist() if isinstance(name, str) and name.startswith(FORMULA)]
    if risky and output.suffix.lower() == ".csv":
        yield (
            f"Labels such as {risky[0]!r} look like formulas to a spreadsheet. They are written as they are; import "
            "that column as text."
        )


def _print(summary: dict[str, Any], names_domains: bool) -> None:
    _say(f"{summary['rows']:,} rows")
    for entry in summary["labels"]:
        _say(f"  {readable(entry['label'])}: {entry['rows']:,}")
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


def _say(text: str) -> None:
    typer.echo(clean(text))
