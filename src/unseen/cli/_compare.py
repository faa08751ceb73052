"""``unseen compare``: every method on every held-out domain, a table, a verdict and a report."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from ..files import check_target
from . import _options as o
from ._report import answer, errors, grid, notices, page, reporting, write
from ._with import beside, own_methods


def compare(
    data: o.Data = None,
    label: o.Label = None,
    domain: o.Domain = None,
    features: o.Features = None,
    drop: o.Drop = None,
    unlabelled: o.Unlabelled = None,
    methods: o.Methods = o.ALL,
    with_models: o.With = None,
    repeats: o.Repeats = 3,
    selection: o.Selection = "domain",
    scale: o.Scale = None,
    center: Annotated[
        Literal["target", "source"],
        typer.Option(help="Centre projections on the new domain (transductive) or the sources."),
    ] = "target",
    max_per_domain: o.MaxPerDomain = None,
    quick: o.Quick = False,
    report: o.Report = None,
    store: o.Store = None,
    seed: o.Seed = 0,
    jobs: o.Jobs = 2,
    workers: o.Workers = None,
    scheduler: o.Scheduler = None,
    as_json: o.Json = False,
) -> None:
    """Hold out each domain, run every method, and say whether invariance helps.

    Without DATA: scikit-learn's digits at six angles.

    Example: unseen compare hospitals.csv --label diagnosis --domain hospital --report report.html
    """
    from ..study import Work, compare_table, imbalance
    from ..tables import Request

    with reporting():
        check_target(report, ".html", ".htm")
        asked = Request(label, domain, o.names_of(features), o.names_of(drop), unlabelled, max_per_domain, seed)
        table = o.read(data, asked)
        caution = imbalance(Counter(table.y.tolist()))
        notices([*table.notices, *([caution] if caution else [])])
        how, chosen = o.scale_for(data, scale), beside(o.names_of(methods) or [], own_methods(with_models or []))
        protocol = o.protocol_of(selection, repeats, quick, preprocess=how, centering=center, seed=seed)
        plan = protocol.plan(table.domain)
        notices([] if plan.exact else [str(plan)])
        kept, resume = o.results_of(Path(table.name).stem.replace(" ", "-"), store)
    with reporting(resume):
        errors.print(
            f"{len(table.y):,} samples, {len(set(table.domain.tolist()))} domains, {len(chosen)} methods, "
            f"{protocol.repeats} repeats -> {kept}"
        )
        with o.cluster(workers, scheduler) as client:
            work = Work(kept, n_jobs=jobs, verbose=1, client=client)
            found = compare_table(table, protocol, chosen, work, command=o.command_line())
        summary = found.summary()
        answer(summary, as_json, show_comparison)
        if report is not None:
            write(found.to_html(), report)
    if any(method["failed"] and not method["skipped"] for method in summary["methods"]):
        errors.print("Some methods failed, for the reasons above; the same command tries them again.")
        raise typer.Exit(1)


def show_comparison(summary: dict[str, Any]) -> None:
    """Print methods by held-out domains, best first, and the verdict."""
    console = page()
    figures = [*summary["domains"], "mean ± sd", "seconds"]
    metric, share = summary["verdict"]["metric"], summary["verdict"]["share"]
    digits = 1 if share else 3
    rich = grid(["method", "kind"], figures, f"{metric.replace('_', ' ')} on the held-out domain{', %' * share}")
    best = {
        d: max((m["accuracies"][d]["mean"] for m in summary["methods"] if m["accuracies"][d]), default=None)
        for d in summary["domains"]
    }
    for method in sorted(summary["methods"], key=lambda m: math.inf if m["mean"] is None else -m["mean"]):
        star = "*" if method["transductive"] else ""
        cells = [_cell(method["accuracies"][d], best[d], _word(method), digits) for d in summary["domains"]]
        spread = "" if method["sd"] is None else f" ± {method['sd']:.{digits}f}"
        mean = _word(method) if method["mean"] is None else f"{method['mean']:.{digits}f}{spread}"
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
    if summary["verdict"]["recommendation"]:
        console.print(summary["verdict"]["recommendation"]["sentence"], style="bold")


def _word(method: dict[str, Any]) -> str:
    return "skipped" if method["skipped"] else "failed" if method["failed"] else "undefined"


def _cell(cell: dict[str, float] | None, best: float | None, word: str, digits: int) -> Text:
    if cell is None:
        return Text(word, style="red")
    spread = f" ±{cell['sd']:.{digits}f}" if cell["sd"] else ""
    return Text(f"{cell['mean']:.{digits}f}{spread}", style="bold" if cell["mean"] == best else "")
