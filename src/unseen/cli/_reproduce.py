"""``unseen reproduce``: the experiments of the CIDG paper, with the methods it compares and plain classifiers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..utils.io import check_output_path
from . import _options as o
from ._options import Command, CommandGroup
from ._report import (
    error_console,
    message_console,
    print_notices,
    print_result,
    save_figure,
    select_format,
    show_table,
    translate_errors,
)

if TYPE_CHECKING:
    from ..evaluation import AccuracyTable

reproduce = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Rerun the experiments of the CIDG paper.",
    epilog="Example: unseen reproduce folder ./hospitals --quick",
)

Figure = Annotated[
    Path, o.make_option(o.OUTPUT, metavar="FILE", dir_okay=False, help="Write a figure to this file, as .svg and .png.")
]
FIGURE_SUFFIXES = (".png", ".svg")
DataHome = Annotated[
    Path | None,
    o.make_option(
        o.DATA,
        metavar="FOLDER",
        show_default="$UNSEEN_DATA, or a cache folder",
        help="Folder of the data files, for reading and downloading.",
    ),
]


@reproduce.command("synthetic", cls=Command)
def synthetic(
    data: Annotated[
        Path | None,
        o.make_option(
            o.DATA,
            metavar="FILE",
            dir_okay=False,
            show_default="random samples",
            help="Table of a sample, with the domains domain 1, domain 2, domain 3 and validation.",
        ),
    ] = None,
    grid: Annotated[
        Literal["ours", "fine", "authors"],
        o.make_option(
            o.METHODS,
            help="Grid of CIDG: the grid of this package, the same with finer steps between weights, or that of the "
            "authors' program.",
        ),
    ] = "ours",
    quick: o.Quick = False,
    repeats: Annotated[
        int,
        o.make_option(o.EVALUATION, min=1, metavar="N", help="Number of random samples of the data, without --data."),
    ] = 10,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    figure: Figure = Path("synthetic.png"),
    quiet: o.Quiet = False,
    jobs: o.AutomaticJobs = None,
) -> None:
    """Reproduce figure 1: the synthetic data, with three ways to select the settings.

    CIDG follows its authors' released code; "CIDG as printed" follows the equations of the paper.

    Example: unseen reproduce synthetic --data toy.csv --grid authors
    """
    import numpy as np

    from ..evaluation import (
        CHOSEN_BY,
        SYNTHETIC_METHODS,
        check_draw,
        draw_synthetic,
        draw_synthetic_figure,
        make_accuracy_table,
        make_synthetic_problem,
        run_synthetic,
        tied_target_accuracies,
    )
    from ..tables import load_table

    with translate_errors():
        o.check_result_output(output)
        for suffix in FIGURE_SUFFIXES:
            check_output_path(figure.with_suffix(suffix))
        if data is None:
            draws = [draw_synthetic(seed) for seed in range(2 if quick else repeats)]
        else:
            table = load_table(data)
            draws = [check_draw(table.X, table.y, table.domain)]
        n_jobs = o.choose_jobs(jobs, sum(len(draw[1]) for draw in draws), len(SYNTHETIC_METHODS) * len(CHOSEN_BY))
        rows = run_synthetic(draws, grid=grid, quick=quick, n_jobs=n_jobs, verbose=int(not quiet))
        name = "synthetic" if data is None else data.name
        title = (
            f"{name}: accuracy on the target, by selection of settings; grid of CIDG: {grid}; the paper: 86.67 for CIDG"
        )
        selection = CHOSEN_BY[1]
        problem = make_synthetic_problem(draws[0], selection, grid=grid, quick=quick)
        if data is not None:
            for method in ("CIDG", "CIDG as printed"):
                scores = 100 * tied_target_accuracies(method, problem)
                if len(scores) > 1:
                    print_notices(
                        [
                            f"{method}: {len(scores)} settings tie on {selection}. Their scores on the target are "
                            f"{scores.min():.2f} to {scores.max():.2f}, with median {np.median(scores):.2f}."
                        ]
                    )
        shown_rows = [row for row in rows if row.task == selection and row.repeat == 0]
        scatter_plots = draw_synthetic_figure(problem, shown_rows)
        for suffix in FIGURE_SUFFIXES:
            save_figure(scatter_plots, figure.with_suffix(suffix))
        _print_table(make_accuracy_table(rows), title, format, output)


@dataclass(frozen=True, kw_only=True)
class _StudyOptions:
    """Options of a study on a data set."""

    selection: Any
    repeats: int
    methods: str
    quick: bool
    output: Path
    format: str | None
    quiet: bool
    store: Path | None
    jobs: int | None
    max_per_domain: int | None = None


@reproduce.command("office-caltech", cls=Command)
def office_caltech(
    feature_set: Annotated[
        Literal["decaf6", "surf"],
        o.make_option(o.DATA, help="Features of the images; the paper uses decaf6."),
    ] = "decaf6",
    data_home: DataHome = None,
    download: Annotated[bool, o.make_option(o.DATA, "--download/--no-download", help="Download missing files.")] = True,
    methods: o.Methods = o.ALL_METHODS,
    quick: o.Quick = False,
    selection: o.Selection = "domain",
    repeats: o.Repeats = 5,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    quiet: o.Quiet = False,
    store: o.Store = None,
    jobs: o.AutomaticJobs = None,
) -> None:
    """Reproduce table 3: Office+Caltech, ten tasks.

    Example: unseen reproduce office-caltech --feature-set surf --quick
    """
    from ..datasets import fetch_office_caltech

    options = _StudyOptions(
        selection=selection,
        repeats=repeats,
        methods=methods,
        quick=quick,
        output=output,
        format=format,
        quiet=quiet,
        store=store,
        jobs=jobs,
    )
    load = partial(fetch_office_caltech, feature_set, data_home=data_home, download=download)
    _run_study(load, "office-caltech", f"office-caltech-{feature_set}", options, feature_set)


@reproduce.command("vlcs", cls=Command)
def vlcs(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder with one file per domain; see unseen.datasets.load_vlcs.")
    ],
    methods: o.Methods = o.ALL_METHODS,
    quick: o.Quick = False,
    selection: o.Selection = "domain",
    repeats: o.Repeats = 5,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    quiet: o.Quiet = False,
    store: o.Store = None,
    jobs: o.AutomaticJobs = None,
) -> None:
    """Reproduce table 2: VLCS, ten tasks.

    Example: unseen reproduce vlcs ~/data/VLCS
    """
    from ..datasets import load_vlcs

    options = _StudyOptions(
        selection=selection,
        repeats=repeats,
        methods=methods,
        quick=quick,
        output=output,
        format=format,
        quiet=quiet,
        store=store,
        jobs=jobs,
    )
    _run_study(partial(load_vlcs, folder), "vlcs", "vlcs", options)


@reproduce.command("folder", cls=Command)
def folder_command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Folder with one file per domain; see unseen.datasets.load_folder."),
    ],
    max_per_domain: o.MaxPerDomain = None,
    methods: o.Methods = o.ALL_METHODS,
    quick: o.Quick = False,
    selection: o.Selection = "domain",
    repeats: o.Repeats = 5,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    quiet: o.Quiet = False,
    store: o.Store = None,
    jobs: o.AutomaticJobs = None,
) -> None:
    """Run the protocol of the paper on your data: hold out each domain and, with four domains, each pair.

    Example: unseen reproduce folder ./hospitals --repeats 3
    """
    from ..datasets import load_folder

    options = _StudyOptions(
        selection=selection,
        repeats=repeats,
        methods=methods,
        quick=quick,
        output=output,
        format=format,
        quiet=quiet,
        store=store,
        jobs=jobs,
        max_per_domain=max_per_domain,
    )
    _run_study(partial(load_folder, folder), "", folder.expanduser().resolve().name, options)


def _run_study(
    load: Callable[[], Any], paper: str, name: str, options: _StudyOptions, features: str | None = None
) -> None:
    """Run the study on a data set and print or write its table, with the published scores of a table of the paper."""
    from ..evaluation import (
        AccuracyTable,
        Protocol,
        load_published,
        make_accuracy_table,
        make_tasks,
        run,
        subsample_domains,
    )

    with translate_errors():
        o.check_result_output(options.output)
        store, resume = o.results_path(name, options.store)
        o.check_store(store)
        data = load()
    with translate_errors(resume):
        methods = o.parse_names(options.methods) or []
        quick = options.quick
        protocol = Protocol(options.selection, repeats=1 if quick else options.repeats, quick=quick)
        domains = list(data.domain_names)
        all_tasks = make_tasks(domains)
        if len(domains) == 4 and not quick:
            all_tasks += make_tasks(domains, 2)
        message_console.print(f"{len(all_tasks)} tasks, {len(methods)} methods, {protocol.repeats} repeats -> {store}")
        kept = subsample_domains(data.domain, options.max_per_domain, y=data.target)
        rows = run(
            data.data[kept],
            data.target[kept],
            data.domain[kept],
            all_tasks,
            store=store,
            protocol=protocol,
            methods=methods,
            n_jobs=o.choose_jobs(options.jobs, len(kept), len(methods)),
            verbose=int(not options.quiet),
        )
        is_paper_features = features in (None, "decaf6")
        printed = AccuracyTable.published_label if is_paper_features else "published score, with DeCAF6 features"
        table = make_accuracy_table(rows, load_published(paper, all_tasks) if paper else None, printed)
        title = f"{name}: accuracy on the held-out domains, settings selected by {protocol.selection!r}"
        _print_table(table, title, options.format, options.output)
        n_failed = sum(row.status == "failed" for row in rows)
    if n_failed:
        error_console.print(f"{n_failed} of {len(rows)} runs failed. Run the same command again to retry them.")
        raise typer.Exit(1)


def _print_table(table: AccuracyTable, title: str, format: str | None, output: Path) -> None:
    print_result(
        table.to_dict(), lambda _: show_table(table, title), select_format(format, output), output, table.records()
    )
