"""``unseen fit``: fit a model to a table and write it to a file."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from . import _options as o
from ._report import message_console, print_notices, print_result, show_columns, translate_errors
from ._show import print_card
from ._user_methods import combine_methods, load_user_methods

EXACT_BY_FEATURE_MAP = {"none": True, "nystroem": False}  # with "auto", the number of rows decides
UNUSED_WITH_EXACT_KERNELS = "not used with exact kernels. Pass --feature-map nystroem to use landmarks."


def fit(
    data: o.Data,
    *,
    label: o.Label = None,
    domain: o.Domain = None,
    group: o.Group = None,
    features: o.Features = None,
    drop: o.Drop = None,
    unlabeled: o.Unlabeled = None,
    dates: o.Dates = "drop",
    categories: o.Categories = None,
    missing: o.Missing = None,
    max_per_domain: o.MaxPerDomain = None,
    min_domain_rows: o.MinDomainRows = 4,
    scale: o.Scale = "standardize",
    methods: o.FitMethods = "auto",
    with_models: o.With = None,
    trusted: o.Trusted = None,
    transductive: o.Transductive = False,
    balance: o.Balance = "none",
    metric: o.Metric = "accuracy",
    threshold: o.Threshold = None,
    positive: o.Positive = None,
    output: o.OutputModel,
    overwrite: o.Overwrite = False,
    format: o.Format = "txt",
    columns: o.Columns = False,
    quiet: o.Quiet = False,
    feature_map: o.FeatureMap = "auto",
    landmarks: o.Landmarks = None,
    seed: o.Seed = 0,
    jobs: o.AutomaticJobs = None,
    workers: o.Workers = None,
    scheduler: o.Scheduler = None,
) -> None:
    """Fit a model for domains that are not in the table, and evaluate it on held-out domains.

    Example: unseen fit patients.csv --label diagnosis --domain hospital -o model.unseen
    """
    from ..kernels import SizePlan
    from ..model_selection import get_metric
    from ..models import (
        check_storable,
        check_threshold,
        fit_notices,
        fit_table,
        model_card,
        open_row_stream,
        resolve_methods,
        save_model,
        with_threshold,
    )
    from ..tables import TableOptions, survey_table

    with translate_errors("Nothing was written."):
        o.check_model_output(output, overwrite)
        all_methods = combine_methods(o.parse_names(methods) or [], load_user_methods(with_models or []))
        get_metric(metric)  # raises an error for an unknown name before the table is read
        trusted_types = o.parse_names(trusted) or []
        check_storable([method.classifier for method in all_methods if method.own], trusted=trusted_types)
        not_allowed = [method.name for method in all_methods if method.transductive and not transductive]
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
            min_domain_rows=min_domain_rows,
            seed=seed,
            group=group,
            dates=dates,
            categories=o.parse_names(categories),
            missing=o.parse_missing(missing),
        )
        source = survey_table(data, request)
        try:
            n_methods = len(resolve_methods(all_methods))
            n_jobs = o.choose_jobs(jobs, source.rows, n_methods)
            plan = SizePlan.from_rows(
                source.rows,
                exact=EXACT_BY_FEATURE_MAP.get(feature_map),
                landmarks=landmarks,
                ensemble=n_methods > 1,
            )
            table = open_row_stream(source, plan, seed)
            landmark_options = {"--landmarks": landmarks, "--workers": workers, "--scheduler": scheduler}
            unused = [name for name, value in landmark_options.items() if value is not None and plan.exact]
            unused_notices = [f"{' and '.join(unused)} {UNUSED_WITH_EXACT_KERNELS}"] if unused else []
            check_threshold(threshold, len(table.samples.classes))
            print_notices([*fit_notices(table, all_methods, plan, metric), *unused_notices])
            with nullcontext() if plan.exact else o.open_cluster(workers, scheduler) as client:
                result = fit_table(
                    table,
                    all_methods,
                    scale=scale,
                    transductive=transductive,
                    balance=balance,
                    metric=metric,
                    random_state=seed,
                    n_jobs=n_jobs,
                    verbose=int(not quiet),
                    plan=plan,
                    stream=source,
                    client=client,
                )
        except MemoryError as error:
            raise MemoryError(f"{error} Use --max-per-domain to fit fewer rows.") from error
        result = with_threshold(result, threshold, positive)
        print_notices([*result.remarks, *filter(None, [result.threshold.get("rule")])])
        card = model_card(
            replace(table, notices=[*table.notices, *unused_notices, *result.remarks]),
            result,
            method=", ".join(method.name for method in all_methods),
            scale=scale,
            random_state=seed,
            source=source,
            command=o.current_command(),
        )
        save_model(result.model, output, card, trusted=trusted_types)

        def show(card: dict[str, Any]) -> None:
            print_card(card)
            if columns:
                show_columns(card["data"]["columns"])

        print_result(card, show, format)
        message_console.print(f"Wrote {output}")
