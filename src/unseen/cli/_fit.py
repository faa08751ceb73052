"""``unseen fit``: fit a model to a table and write it to a file."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..utils.io import check_output_path
from . import _options as o
from ._report import error_console, print_notices, print_result, show_columns, translate_errors
from ._show import print_card
from ._user_methods import combine_methods, find_method, load_user_methods

EXACT_BY_FEATURE_MAP = {"none": True, "nystroem": False}  # with "auto", the number of rows decides
UNUSED_WITH_EXACT_KERNELS = "not used with exact kernels. Pass --feature-map nystroem to use landmarks."


def fit(
    data: o.Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write, ending in .unseen.")],
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
            help="Method to fit; auto fits an ensemble. --method help lists all methods.",
        ),
    ] = "auto",
    with_models: o.With = None,
    max_per_domain: o.MaxPerDomain = None,
    scale: o.Scale = "standardize",
    seed: o.Seed = 0,
    jobs: o.Jobs = 1,
    transductive: Annotated[
        bool,
        typer.Option(
            "--transductive", help="Allow transductive models, which predict batches of a new domain, not single rows."
        ),
    ] = False,
    balance: o.Weighing = "none",
    feature_map: o.FeatureMap = "auto",
    components: o.Components = None,
    workers: o.Workers = None,
    scheduler: o.Scheduler = None,
    columns: o.Columns = False,
    as_json: o.Json = False,
) -> None:
    """Fit a model for domains that are not in the table, and evaluate it on held-out domains.

    Example: unseen fit patients.csv --label diagnosis --domain hospital -o model.unseen
    """
    from ..kernels import SizePlan
    from ..models import (
        AUTO,
        check_storable,
        fit_notices,
        fit_table,
        model_card,
        open_row_stream,
        resolve_methods,
        save_model,
    )
    from ..tables import TableOptions, survey_table

    with translate_errors("Nothing was written."):
        check_output_path(output, ".unseen")
        user_methods = load_user_methods(with_models or [])
        if method == AUTO:
            methods = combine_methods([AUTO], user_methods)
            check_storable([(one.transformer, one.classifier) for one in methods if one.own])
        else:
            methods = [find_method(method, user_methods)]
            method = methods[0].name
            check_storable([(methods[0].transformer, methods[0].classifier)])
        not_allowed = [one.name for one in methods if one.transductive and not transductive]
        if not_allowed:
            raise ValueError(
                f"The method {not_allowed[0]!r} is transductive: it predicts batches of a new domain, not single rows. "
                "Pass --transductive to allow this, or use another method."
            )
        request = TableOptions(
            label=label,
            domain=domain,
            features=o.parse_names(features),
            drop=o.parse_names(drop),
            unlabeled=unlabeled,
            max_per_domain=max_per_domain,
            seed=seed,
            group=group,
            dates=dates,
            categories=o.parse_names(categories),
        )
        source = survey_table(data, request)
        try:
            plan = SizePlan.from_rows(
                source.rows,
                exact=EXACT_BY_FEATURE_MAP.get(feature_map),
                landmarks=components,
                ensemble=len(resolve_methods(methods)) > 1,
            )
            table = open_row_stream(source, plan, seed)
            landmark_options = {"--components": components, "--workers": workers, "--scheduler": scheduler}
            unused = [name for name, value in landmark_options.items() if value is not None and plan.exact]
            unused_notices = [f"{' and '.join(unused)} {UNUSED_WITH_EXACT_KERNELS}"] if unused else []
            print_notices([*fit_notices(table, methods, plan), *unused_notices])
            with nullcontext() if plan.exact else o.open_cluster(workers, scheduler) as client:
                result = fit_table(
                    table,
                    methods,
                    scale=scale,
                    transductive=transductive,
                    balance=balance,
                    seed=seed,
                    n_jobs=jobs,
                    verbose=1,
                    plan=plan,
                    stream=source,
                    client=client,
                )
        except MemoryError as error:
            raise MemoryError(f"{error} Use --max-per-domain to fit fewer rows.") from error
        print_notices(result.remarks)
        card = model_card(
            replace(table, notices=[*table.notices, *unused_notices, *result.remarks]),
            result,
            method=method,
            scale=scale,
            seed=seed,
            source=source,
            command=o.current_command(),
        )
        save_model(result.model, output, card)
        print_result(card, as_json, print_card)
        if columns and not as_json:
            show_columns(card["data"]["columns"])
        error_console.print(f"Wrote {output}")
