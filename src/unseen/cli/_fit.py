"""``unseen fit``: from a table to a model file."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..machine import machine_facts
from ..model_file import save_model
from ..table_fit import PROJECTIONS, TableFit, fit_table
from ..tables import Table
from ._options import (
    Data,
    Domain,
    Drop,
    Features,
    Jobs,
    Json,
    Label,
    MaxPerDomain,
    ScaleOption,
    Seed,
    command_line,
    read,
    scale_for,
)
from ._report import errors, notices, reporting
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
    method: Annotated[Method, typer.Option(help="auto compares all and prefers simple models.")] = Method.auto,
    max_per_domain: MaxPerDomain = None,
    scale: ScaleOption = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    inductive: Annotated[
        bool, typer.Option("--inductive", help="No models that need a batch of the new domain to predict.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fit a model for places that are not in the table, and score it on each place held out.

    Example: unseen fit patients.csv --label diagnosis --domain hospital -o model.unseen
    """
    with reporting(), warnings_as_notices():
        if output.suffix.lower() != ENDING:
            raise ValueError(f"A model file ends in {ENDING}; got --output {output}.")
        output.parent.mkdir(parents=True, exist_ok=True)  # fails now rather than after the work
        table = read(data, label, domain, features, drop, max_per_domain, seed)
        notices([*table.notices, *_advice(table, method.value)])
        scaling = scale_for(data, scale)
        try:
            found = fit_table(
                table, method.value, scale=scaling, inductive=inductive, seed=seed, n_jobs=jobs, verbose=1
            )
        except MemoryError as error:
            raise MemoryError(f"{error} With this command: --max-per-domain N.") from error
        facts = card(table, found, method.value, scaling, seed)
        save_model(found.model, output, facts)
        if as_json:
            typer.echo(json.dumps(facts, ensure_ascii=False))
        else:
            describe(facts)
        errors.print(f"Wrote {output}")


def card(table: Table, found: TableFit, method: str, scale: str, seed: int) -> dict[str, Any]:
    """All that is known about a model, in plain values."""
    domains, domain_rows = np.unique(table.domain, return_counts=True)
    classes, class_rows = np.unique(table.y, return_counts=True)
    novelty = found.model.novelty
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_line(),
        "data": {
            "name": table.name,
            "rows": len(table.X),
            "features": table.X.shape[1],
            "domains": dict(zip(domains.tolist(), domain_rows.tolist(), strict=True)),
            "classes": [
                {"class": value, "rows": rows}
                for value, rows in zip(classes.tolist(), class_rows.tolist(), strict=True)
            ],
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
            "measure": "accuracy on a domain by a model fitted on the other domains",
            "mean": found.mean,
            "by_domain": found.scores,
            "baseline": found.baseline,
        },
        "leaderboard": [
            {key: row[key] for key in ("model", "kind", "mean", "standard_error", "params", "chosen")}
            for row in found.leaderboard
            if np.isfinite(row["mean"])
        ],
        "novelty": {
            "reference": dict(zip(novelty.domains_.tolist(), novelty.reference_.tolist(), strict=True)),
            "resolution": novelty.resolution_,
        },
        "machine": machine_facts(),
    }


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
