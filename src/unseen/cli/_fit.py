"""``unseen fit``: from a table to a model file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..kernels import EXACT_ROWS
from ..labels import Labels
from ..models import (
    PROJECTIONS,
    SAMPLE_ROWS,
    Rows,
    TableFit,
    TableRows,
    fit_stream,
    fit_table,
    machine_facts,
    save_model,
)
from ..tables import Request, SurveyedTable, Table, loaded, survey_table
from ._new_table import RowProgress
from ._options import (
    Components,
    Data,
    Domain,
    Drop,
    FeatureMap,
    FeatureMapOption,
    Features,
    Jobs,
    Json,
    Label,
    MaxPerDomain,
    ScaleOption,
    Scheduler,
    Seed,
    Unlabelled,
    Workers,
    cluster,
    command_line,
    embedded_table,
    names_of,
    scale_for,
)
from ._report import check_target, errors, json_text, notices, reporting
from ._show import describe

ENDING = ".unseen"
SLOW = 5_000  # samples beyond which the exact kernel methods take minutes
WITH_KERNEL = ("auto", "rbf-svm", *PROJECTIONS)


class Method(StrEnum):
    """What can be fitted."""

    auto = "auto"
    cidg = "cidg"
    mda = "mda"
    sca = "sca"
    dica = "dica"
    kfda = "kfda"
    logistic = "logistic"
    linear_svm = "linear-svm"
    rbf_svm = "rbf-svm"
    undo_bias = "undo-bias"
    one_nearest = "1nn"


def fit(
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write, ending in .unseen.")],
    data: Data = None,
    label: Label = None,
    domain: Domain = None,
    features: Features = None,
    drop: Drop = None,
    unlabelled: Unlabelled = None,
    method: Annotated[Method, typer.Option(help="auto compares all and prefers simple models.")] = Method.auto,
    max_per_domain: MaxPerDomain = None,
    scale: ScaleOption = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    inductive: Annotated[
        bool, typer.Option("--inductive", help="No models that need a batch of the new domain to predict.")
    ] = False,
    feature_map: FeatureMapOption = FeatureMap.auto,
    components: Components = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Fit a model for places that are not in the table, and score it on each place held out.

    Example: unseen fit patients.csv --label diagnosis --domain hospital -o model.unseen
    """
    with reporting("Nothing was written."), warnings_as_notices():
        check_target(output, ENDING)
        asked = Request(label, domain, names_of(features), names_of(drop), unlabelled, max_per_domain, seed)
        source = TableRows(embedded_table(asked)) if data is None else survey_table(data, asked)
        scaling = scale_for(data, scale)
        large = feature_map is FeatureMap.nystroem or (feature_map is FeatureMap.auto and source.rows > EXACT_ROWS)
        how: dict[str, Any] = {"scale": scaling, "inductive": inductive, "seed": seed, "n_jobs": jobs, "verbose": 1}
        try:
            if large:
                table = source.table if isinstance(source, TableRows) else loaded(source.sampled(SAMPLE_ROWS, seed))
                notices([*table.notices, *_plan(source.rows, len(table.X)), *_advice(table, "")])
                with cluster(workers, scheduler) as client:
                    found = fit_stream(
                        source, table, method.value, components=components, progress=RowProgress, client=client, **how
                    )
                said = [stream_text(found)]
                notices(said)
            else:
                table = source.table if isinstance(source, TableRows) else loaded(source, seed)
                notices([*table.notices, *_advice(table, method.value)])
                said = list(_not_used(components, workers, scheduler))
                notices(said)
                found = fit_table(table, method.value, **how)
        except MemoryError as error:
            raise MemoryError(f"{error} With this command: --max-per-domain N.") from error
        facts = card(replace(table, notices=[*table.notices, *said]), found, method.value, scaling, seed, source)
        output.parent.mkdir(parents=True, exist_ok=True)
        save_model(found.model, output, facts)
        if as_json:
            typer.echo(json_text(facts))
        else:
            describe(facts)
        errors.print(f"Wrote {output}")


def _plan(rows: int, sampled: int) -> Iterator[str]:
    """What is about to be done with a large table."""
    yield (
        f"{rows:,} rows: a few choose the settings, {sampled:,} give the scales, the landmarks and the classifier, and "
        "a projection is fitted on all through landmarks, as with --feature-map nystroem."
    )


def stream_text(found: TableFit) -> str:
    """What saw how many rows, in a sentence."""
    facts = found.stream
    chosen = f"The settings were chosen, and scored, on {facts['choice_rows']:,} rows."
    if "landmarks" in facts:
        return (
            f"{chosen} The projection saw {facts['projection_rows']:,} rows through {facts['landmarks']:,} landmarks, "
            f"which miss {facts['trace_error']:.2g} of the kernel; the classifier behind it saw "
            f"{facts['classifier_rows']:,} rows."
        )
    return f"{chosen} {found.name} is no projection, so it saw a sample: {facts['classifier_rows']:,} rows."


def _not_used(components: int | None, workers: int | None, scheduler: str | None) -> Iterator[str]:
    asked = {"--components": components, "--workers": workers, "--scheduler": scheduler}
    names = [name for name, value in asked.items() if value is not None]
    if names:
        yield (
            f"{' and '.join(names)} not used: exact kernels are fitted here. Pass --feature-map nystroem for landmarks."
        )


def card(
    table: Table, found: TableFit, method: str, scale: str, seed: int, source: Rows | None = None
) -> dict[str, Any]:
    """All that is known about a model, in plain values; `source` has all rows if the table is a sample."""
    if isinstance(source, SurveyedTable):
        rows, domain_rows, class_rows = source.rows, source.domain_rows(), source.class_rows()
    else:
        rows, domain_rows, class_rows = len(table.X), _counts(table.domain), _counts(table.y)
    novelty = found.model.novelty
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_line(),
        "data": {
            "name": table.name,
            "rows": rows,
            "features": table.X.shape[1],
            "domains": domain_rows,
            "missing": _missing(table),
            "classes": [{"class": value, "rows": count} for value, count in class_rows.items()],
            "notices": list(table.notices),
        },
        "schema": table.schema.to_dict(),
        "method": method,
        "model": found.name,
        "kind": found.kind,
        "settings": found.settings,
        "scale": scale,
        "seed": seed,
        "probabilities": found.model.has_probabilities,
        "scores": {
            "measure": "accuracy on a domain by a model fitted on the other domains"
            + (f", among {found.stream['choice_rows']:,} rows" if found.stream else ""),
            "mean": found.mean,
            "by_domain": found.scores,
            "baseline": found.baseline,
        },
        "leaderboard": [
            {key: row[key] for key in ("model", "kind", "mean", "standard_error", "params", "chosen")}
            for row in found.leaderboard
            if np.isfinite(row["mean"])
        ],
        "stream": found.stream,
        "novelty": {
            "reference": dict(zip(novelty.domains_.tolist(), novelty.reference_.tolist(), strict=True)),
            "resolution": novelty.resolution_,
        },
        "machine": machine_facts(),
    }


def _missing(table: Table) -> dict[str, float]:
    """The share of missing values in each column that has any."""
    shares = np.isnan(table.X).mean(axis=0).round(4).tolist()
    return {name: share for name, share in zip(table.schema.feature_names, shares, strict=True) if share}


def _counts(values: Labels) -> dict[Any, int]:
    names, counts = np.unique(values, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def _advice(table: Table, method: str) -> Iterator[str]:
    if len(np.unique(table.domain)) == 2:
        yield "With two domains each is scored by a model that has seen only the other, which says little."
    if len(table.X) > SLOW and method in WITH_KERNEL:
        yield f"{len(table.X):,} rows will take a while with kernels; --max-per-domain 500 gives a quick first answer."


@contextmanager
def warnings_as_notices() -> Iterator[None]:
    """Print warnings as notices, each once, without the place in the code that they come from."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            notices(list(dict.fromkeys(str(warning.message) for warning in caught)))
