"""``unseen compare``: every method on every held-out domain, a table, a verdict and a report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ..study import Protocol, compare_subject, subject_of_table
from ..tables import Request
from ._fit import warnings_as_notices
from ._options import (
    ALL,
    Centering,
    Data,
    Domain,
    Drop,
    Features,
    Jobs,
    Json,
    Label,
    MaxPerDomain,
    Methods,
    Quick,
    Repeats,
    Report,
    ScaleOption,
    Scheduler,
    Seed,
    Selection,
    SelectionOption,
    StoreOption,
    Unlabelled,
    Workers,
    cluster,
    command_line,
    names_of,
    read,
    scale_for,
)
from ._report import PAGE, Terminal, check_target, clean, errors, json_text, notices, reporting, write


def compare(
    data: Data = None,
    label: Label = None,
    domain: Domain = None,
    features: Features = None,
    drop: Drop = None,
    unlabelled: Unlabelled = None,
    methods: Methods = ALL,
    repeats: Repeats = 3,
    selection: SelectionOption = Selection.domain,
    scale: ScaleOption = None,
    center: Annotated[
        Centering, typer.Option("--center", help="Centre projections on the new domain (transductive) or the sources.")
    ] = Centering.target,
    max_per_domain: MaxPerDomain = None,
    quick: Quick = False,
    report: Report = None,
    store: StoreOption = None,
    seed: Seed = 0,
    jobs: Jobs = 2,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Hold out each domain, run every method, and say whether invariance helps.

    Without DATA: scikit-learn's digits at six angles.

    Example: unseen compare hospitals.csv --label diagnosis --domain hospital --report report.html
    """
    with reporting():
        check_target(report, ".html", ".htm")
        asked = Request(label, domain, names_of(features), names_of(drop), unlabelled, max_per_domain, seed)
        table = read(data, asked)
        notices(table.notices)
        how = scale_for(data, scale)
        protocol = Protocol(
            selection.value,
            repeats=1 if quick else repeats,
            preprocess=how,  # type: ignore[arg-type]
            centering=center.value,
            quick=quick,
            seed=seed,
        )
        store = store or Path(f"{Path(table.name).stem.replace(' ', '-')}.unseen-results.sqlite")
        chosen = names_of(methods) or []
    with reporting(f"What is done is kept in {store}; run the same command again to continue."), warnings_as_notices():
        errors.print(
            f"{len(table.y):,} samples, {len(set(table.domain.tolist()))} domains, {len(chosen)} methods, "
            f"{protocol.repeats} repeats -> {store}"
        )
        with cluster(workers, scheduler) as client:
            found = compare_subject(
                subject_of_table(table, how),  # type: ignore[arg-type]
                protocol,
                chosen,
                store=store,
                n_jobs=jobs,
                verbose=1,
                client=client,
                command=command_line(),
            )
        summary = found.summary()
        if as_json:
            typer.echo(json_text(summary))
        else:
            show_comparison(summary)
        if report is not None:
            write(found.to_html(), report)
    if any(method["failed"] and not method["skipped"] for method in summary["methods"]):
        errors.print("Some methods failed, for the reasons above; the same command tries them again.")
        raise typer.Exit(1)


def show_comparison(summary: dict[str, Any]) -> None:
    """Print methods by held-out domains, best first, and the verdict."""
    console = Terminal(width=None if sys.stdout.isatty() else PAGE)
    rich = Table(title="accuracy on the held-out domain, %", title_justify="left", header_style="bold")
    rich.add_column("method")
    rich.add_column("kind")
    for name in summary["domains"]:
        rich.add_column(clean(name), justify="right")
    rich.add_column("mean ± sd", justify="right")
    rich.add_column("seconds", justify="right")
    best = {
        d: max((m["accuracies"][d]["mean"] for m in summary["methods"] if m["accuracies"][d]), default=None)
        for d in summary["domains"]
    }
    for method in sorted(summary["methods"], key=lambda m: -(m["mean"] or -1.0)):
        star = "*" if method["transductive"] else ""
        cells = [_cell(method["accuracies"][d], best[d], _word(method)) for d in summary["domains"]]
        spread = "" if method["sd"] is None else f" ± {method['sd']:.1f}"
        mean = _word(method) if method["mean"] is None else f"{method['mean']:.1f}{spread}"
        rich.add_row(f"{method['name']}{star}", method["kind"], *cells, mean, f"{method['seconds']:.1f}")
    console.print(rich)
    if any(method["transductive"] for method in summary["methods"]):
        console.print("* transductive: saw unlabelled samples of the held-out domain", style="dim")
    for method in summary["methods"]:
        if method["failed"]:
            console.print(f"{method['name']} {_word(method)}: {method['failed']}", style="red")
    console.print()
    console.print(summary["verdict"]["headline"], style="bold")
    for sentence in summary["verdict"]["sentences"]:
        console.print(sentence)


def _word(method: dict[str, Any]) -> str:
    return "skipped" if method["skipped"] else "failed"


def _cell(cell: dict[str, float] | None, best: float | None, word: str) -> Text:
    if cell is None:
        return Text(word, style="red")
    spread = f" ±{cell['sd']:.1f}" if cell["sd"] else ""
    return Text(f"{cell['mean']:.1f}{spread}", style="bold" if cell["mean"] == best else "")
