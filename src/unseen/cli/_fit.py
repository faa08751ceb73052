"""``unseen fit``: fit a model to a table and write it to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import _options as o
from ._report import add_note, message_console, print_notices, print_result
from ._show import print_card


@o.with_table_options
def fit(
    data: Annotated[list[Path] | None, typer.Argument(metavar="DATA", help=o.DATA_HELP)] = None,
    *,
    request: o.Request,
    from_files: Annotated[
        list[Path] | None,
        o.make_option(
            o.DATA,
            "--from",
            metavar="FILES",
            show_default="none",
            help="Fit from these files of unseen aggregate instead of DATA; their plan determines the model.",
        ),
    ] = None,
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
    quiet: o.Quiet = False,
    feature_map: o.FeatureMap = "auto",
    landmarks: o.Landmarks = None,
    jobs: o.AutomaticJobs = None,
    scheduler: o.Scheduler = None,
    seed: o.Seed = 0,
) -> None:
    """Fit a model for domains that are not in the table, and evaluate it on held-out domains.

    Example: unseen fit patients.csv --label diagnosis --domain hospital -o model.unseen
    """
    from ..model_selection import expand_methods, get_metric
    from ..models import check_storable
    from ..models import fit as fit_model
    from ..tables import survey_table

    if from_files:
        _fit_statistics(o.expand_patterns([*from_files, *(data or [])]), output, overwrite, format)
        return
    if data is None or len(data) != 1:
        raise ValueError("Pass one table, folder or quoted pattern as DATA; or --from with files of unseen aggregate.")
    with add_note("Nothing was written."):
        o.check_model_output(output, overwrite)
        all_methods = o.select_methods(methods, with_models)
        n_methods = len(expand_methods(all_methods, transductive=transductive))
        get_metric(metric)  # raises an error for an unknown name before the table is read
        trusted_types = o.parse_names(trusted) or []
        check_storable([method.classifier for method in all_methods if method.own], trusted=trusted_types)
        source = survey_table(data[0], request(seed=seed))
        with o.open_cluster(scheduler) as client:
            model = fit_model(
                source,
                methods=all_methods,
                scale=scale,
                transductive=transductive,
                balance=balance,
                metric=metric,
                threshold=threshold,
                positive=positive,
                feature_map=feature_map,
                n_landmarks=landmarks,
                random_state=seed,
                n_jobs=o.choose_jobs(jobs, source.rows, n_methods),
                verbose=int(not quiet),
                client=client,
            )
        model.card["command"] = o.current_command()
        print_notices(filter(None, [model.card["threshold"].get("rule")]))
        model.save(output, trusted=trusted_types)
    print_result(model.card, print_card, format=format)
    message_console.print(f"Wrote {output}")


def _fit_statistics(files: list[Path], output: Path, overwrite: bool, format: str) -> None:
    """Fit the models of a study from statistics of its sites."""
    from ..exchange import fit_statistics

    with add_note("Nothing was written."):
        o.check_model_output(output, overwrite)
        model = fit_statistics(files)
        model.card["command"] = o.current_command()
        model.save(output)
    print_result(model.card, print_card, format=format)
    message_console.print(f"Wrote {output}, with the models without each site. Send it to all sites to validate them.")
