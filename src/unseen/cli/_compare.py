"""``unseen compare``: every method on every held-out domain, a table, a verdict and a report."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from ..utils.io import check_target
from . import _options as o
from ._extract import read_photo_table
from ._own_methods import combine_methods, load_user_methods
from ._report import (
    error_console,
    make_console,
    make_table,
    print_notices,
    print_result,
    select_fitting_columns,
    shorten,
    show_columns,
    translate_errors,
    write_text,
)


def compare(
    data: o.Data = None,
    model: o.Network = None,
    output_name: o.OutputName = None,
    preset: o.Preset = "torchvision",
    domain_from: o.DomainFrom = None,
    label: o.Label = None,
    domain: o.Domain = None,
    group: o.Group = None,
    features: o.Features = None,
    drop: o.Drop = None,
    unlabeled: o.Unlabeled = None,
    dates: o.Dates = "drop",
    categories: o.Categories = None,
    methods: o.Methods = o.ALL_METHODS,
    with_models: o.With = None,
    repeats: o.Repeats = 3,
    selection: o.Selection = "domain",
    scale: o.Scale = None,
    center: Annotated[
        Literal["target", "source"],
        typer.Option(help="Center projections on the new domain (transductive) or the sources."),
    ] = "target",
    metric: o.Metric = "accuracy",
    balance: o.Weighing = "none",
    max_per_domain: o.MaxPerDomain = None,
    quick: o.Quick = False,
    grids: Annotated[
        Literal["lean", "full"],
        typer.Option("--grid", help="All settings, or without the widest kernel and the smallest ridge."),
    ] = "lean",
    report: o.Report = None,
    store: o.Store = None,
    seed: o.Seed = 0,
    jobs: o.Jobs = 2,
    workers: o.Workers = None,
    scheduler: o.Scheduler = None,
    columns: o.Columns = False,
    as_json: o.Json = False,
) -> None:
    """Hold out each domain, run every method, and say whether invariance helps.

    Without DATA: scikit-learn's digits at six angles. With --model, DATA are photographs, as for unseen extract.

    Example: unseen compare hospitals.csv --label diagnosis --domain hospital --report report.html
    """
    from ..model_selection import get_metric
    from ..study import Execution, compare_table, imbalance
    from ..tables import Request

    with translate_errors():
        check_target(report, ".html", ".htm")
        asked = Request(label, domain, o.parse_names(features), o.parse_names(drop), unlabeled, max_per_domain, seed)
        asked = replace(asked, group=group, dates=dates, categories=o.parse_names(categories))
        if model is None:
            o.require_option("--model", **{"--output-name": output_name, "--domain-from": domain_from})
            table = o.read_table(data, asked)
        else:
            table = read_photo_table(data, asked, domain_from, extraction=(model, output_name, preset))
        caution = imbalance(Counter(table.y.tolist()), get_metric(metric).label)
        print_notices([*table.notices, *([caution] if caution else [])])
        how, chosen = (
            o.resolve_scale(data, scale),
            combine_methods(o.parse_names(methods) or [], load_user_methods(with_models or [])),
        )
        rules: dict[str, Any] = {
            "preprocess": how,
            "centering": center,
            "metric": metric,
            "balance": balance,
            "grid": grids,
        }
        protocol = o.make_protocol(selection, repeats, quick, seed=seed, **rules)
        plan = protocol.plan(table.domain)
        print_notices([] if plan.exact else [str(plan)])
        kept, resume = o.results_path(Path(table.name).stem.replace(" ", "-"), store)
        o.check_store(kept)
    with translate_errors(resume):
        error_console.print(
            f"{len(table.y):,} samples, {len(set(table.domain.tolist()))} domains, {len(chosen)} methods, "
            f"{protocol.repeats} repeat{'s' * (protocol.repeats > 1)} -> {kept}"
        )
        with o.open_cluster(workers, scheduler) as client:
            work = Execution(kept, n_jobs=jobs, verbose=1, client=client)
            found = compare_table(table, protocol, chosen, work, command=o.current_command())
        summary = found.summary()
        if report is not None:
            write_text(found.to_html(), report)
        print_result({name: part for name, part in summary.items() if name != "pictures"}, as_json, show_comparison)
        show_columns(summary["data"]["columns"], columns and not as_json)
    if any(method["failed"] and not method["skipped"] for method in summary["methods"]):
        error_console.print("Some methods failed, for the reasons above; the same command tries them again.")
        raise typer.Exit(1)


def show_comparison(summary: dict[str, Any]) -> None:
    """Print methods by held-out domains, auto and then the best first, and the verdict.

    Of many domains, as many are shown as there is room for.
    """
    from ..report import rank_methods

    console, domains = make_console(), summary["domains"]
    metric, share = summary["verdict"]["metric"], summary["verdict"]["share"]
    methods = rank_methods(summary["methods"])
    for widest in DOMAIN_COLUMN_WIDTHS:
        columns = _make_columns(methods, domains, widest, digits=1 if share else 3)
        shown = select_fitting_columns(columns, console.width, needed=4)
        if len(shown) == len(columns):
            break
    rich = make_table(shown[:1], [], f"{metric.replace('_', ' ')} on the held-out domain{', %' * share}")
    for name in shown[1:]:
        rich.add_column(str(columns[name][0]), justify="left" if name == "kind" else "right", no_wrap=True)
    for i in range(len(methods)):
        rich.add_row(*(columns[name][1 + i] for name in shown))
    console.print(rich)
    absent = len(set(_domain_keys(domains)) - set(shown))
    if absent:
        text = f"{absent} of {len(domains)} domains not shown, for want of room: --report and --json have all of them."
        console.print(text, style="dim")
    if any(method["transductive"] for method in summary["methods"]):
        console.print("* transductive: saw unlabeled samples of the held-out domain", style="dim")
    for method in summary["methods"]:
        if method["failed"]:
            console.print(f"{method['name']} {_status_word(method)}: {method['failed']}", style="red")
    console.print()
    console.print(summary["verdict"]["headline"], style="bold")
    for sentence in summary["verdict"]["sentences"]:
        console.print(sentence)
    if summary["verdict"]["recommendation"]:
        console.print(summary["verdict"]["recommendation"]["sentence"], style="bold")


Cell = str | Text
DOMAIN_COLUMN_WIDTHS = (24, 14, 9)  # of the name of a domain above its column, the less the less room there is


def _make_columns(methods: list[dict[str, Any]], domains: list[str], widest: int, digits: int) -> dict[Any, list[Cell]]:
    """A header and a cell for each method, of each column, the most important columns first."""
    found: dict[Any, list[Cell]] = {name: [name] for name in ("method", "mean ± sd", "worst", "best", "kind")}
    found |= {key: [shorten(domain, widest)] for key, domain in zip(_domain_keys(domains), domains, strict=True)}
    found["seconds"] = ["seconds"]
    accuracies = {d: [m["accuracies"][d]["mean"] for m in methods if m["accuracies"][d]] for d in domains}
    for method in methods:
        own = [cell["mean"] for cell in method["accuracies"].values() if cell]
        spread = "" if method["sd"] is None else f" ± {method['sd']:.{digits}f}"
        found["method"].append(f"{method['name']}{'*' if method['transductive'] else ''}")
        found["mean ± sd"].append(
            _status_word(method) if method["mean"] is None else f"{method['mean']:.{digits}f}{spread}"
        )
        found["worst"].append(f"{min(own):.{digits}f}" if own else "")
        found["best"].append(f"{max(own):.{digits}f}" if own else "")
        found["kind"].append(method["kind"])
        for key, domain in zip(_domain_keys(domains), domains, strict=True):
            best = max(accuracies[domain], default=None)
            found[key].append(_format_cell(method["accuracies"][domain], best, _status_word(method), digits))
        found["seconds"].append(f"{method['seconds']:.1f}")
    return found


def _domain_keys(domains: list[str]) -> range:
    return range(len(domains))  # a domain may be called like another column


def _status_word(method: dict[str, Any]) -> str:
    return "skipped" if method["skipped"] else "failed" if method["failed"] else "undefined"


def _format_cell(cell: dict[str, float] | None, best: float | None, word: str, digits: int) -> Text:
    if cell is None:
        return Text(word, style="red")
    spread = f" ±{cell['sd']:.{digits}f}" if cell["sd"] else ""
    return Text(f"{cell['mean']:.{digits}f}{spread}", style="bold" if cell["mean"] == best else "")
