"""``unseen fit``: from a table to a model file."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..utils.io import check_target
from . import _options as o
from ._own_methods import combine_methods, find_method, load_user_methods
from ._report import error_console, print_notices, print_result, show_columns, translate_errors
from ._show import print_card

EXACT_BY_FEATURE_MAP = {"none": True, "nystroem": False}  # otherwise the number of rows decides
UNUSED_WITH_EXACT_KERNELS = "not used: exact kernels are fitted here. Pass --feature-map nystroem for landmarks."


def fit(
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write, ending in .unseen.")],
    data: o.Data = None,
    label: o.Label = None,
    domain: o.Domain = None,
    group: o.Group = None,
    features: o.Features = None,
    drop: o.Drop = None,
    unlabeled: o.Unlabeled = None,
    dates: o.Dates = "drop",
    categories: o.Categories = None,
    method: Annotated[
        str,
        typer.Option(
            callback=o.list_methods_on_help,
            is_eager=True,
            help="auto pools many models; --method help lists them, and what they are.",
        ),
    ] = "auto",
    with_models: o.With = None,
    max_per_domain: o.MaxPerDomain = None,
    scale: o.Scale = None,
    seed: o.Seed = 0,
    jobs: o.Jobs = 1,
    inductive: Annotated[
        bool, typer.Option("--inductive", help="Nothing that needs a batch of the new domain to predict.")
    ] = False,
    balance: o.Weighing = "none",
    feature_map: o.FeatureMap = "auto",
    components: o.Components = None,
    workers: o.Workers = None,
    scheduler: o.Scheduler = None,
    columns: o.Columns = False,
    as_json: o.Json = False,
) -> None:
    """Fit a model for places that are not in the table, and score it on each place held out.

    Example: unseen fit patients.csv --label diagnosis --domain hospital -o model.unseen
    """
    from ..kernels import SizePlan
    from ..model_selection import method_names
    from ..models import (
        AUTO,
        TableRows,
        check_storable,
        fit_notices,
        fit_table,
        model_card,
        open_row_stream,
        save_model,
    )
    from ..tables import Request, survey_table

    with translate_errors("Nothing was written."):
        check_target(output, ".unseen")
        own = load_user_methods(with_models or [])
        wanted = combine_methods(method_names(automatic=True), own) if method == AUTO else [find_method(method, own)]
        check_storable([(one.transformer, one.classifier) for one in wanted if one.own or method != AUTO])
        method = method if method == AUTO else wanted[0].name
        asked = Request(label, domain, o.parse_names(features), o.parse_names(drop), unlabeled, max_per_domain, seed)
        asked = replace(asked, group=group, dates=dates, categories=o.parse_names(categories))
        source = TableRows(o.embedded_table(asked)) if data is None else survey_table(data, asked)
        how: dict[str, Any] = {"scale": o.resolve_scale(data, scale), "seed": seed}
        try:
            plan = SizePlan.from_rows(source.rows, exact=EXACT_BY_FEATURE_MAP.get(feature_map), landmarks=components)
            table = open_row_stream(source, plan, seed)
            asked_for = {"--components": components, "--workers": workers, "--scheduler": scheduler}
            unused = " and ".join(name for name, value in asked_for.items() if value is not None and plan.exact)
            said = [f"{unused} {UNUSED_WITH_EXACT_KERNELS}"] if unused else []
            print_notices([*fit_notices(table, wanted, plan), *said])
            work: dict[str, Any] = {"inductive": inductive, "balance": balance, "n_jobs": jobs, "verbose": 1}
            with nullcontext() if plan.exact else o.open_cluster(workers, scheduler) as client:
                found = fit_table(table, wanted, plan=plan, stream=source, client=client, **work, **how)
        except MemoryError as error:
            raise MemoryError(f"{error} With this command: --max-per-domain N.") from error
        print_notices(found.remarks)
        table = replace(table, notices=[*table.notices, *said, *found.remarks])
        card = model_card(table, found, method=method, source=source, command=o.current_command(), **how)
        save_model(found.model, output, card)
        print_result(card, as_json, print_card)
        show_columns(card["data"]["columns"], columns and not as_json)
        error_console.print(f"Wrote {output}")
