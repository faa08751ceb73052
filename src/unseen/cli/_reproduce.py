"""``unseen reproduce``: the experiments of the CIDG paper, with the methods it compares and plain classifiers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from . import _options as o
from ._compare import print_failures
from ._options import Command, CommandGroup
from ._report import error_console, make_console, message_console, print_result, print_table, save_figure

reproduce = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Rerun the experiments of the CIDG paper.",
    epilog="Example: unseen reproduce synthetic --quick",
)

Figure = Annotated[Path, o.make_output_option(help="Write a figure to this file, as .svg and .png.")]
FIGURE_SUFFIXES = (".png", ".svg")


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
    from ..evaluation import (
        CHOSEN_BY,
        SYNTHETIC_METHODS,
        check_draw,
        draw_synthetic,
        draw_synthetic_figure,
        make_accuracy_table,
        run_synthetic,
    )
    from ..tables import load_table

    if data is None:
        draws = [draw_synthetic(seed) for seed in range(2 if quick else repeats)]
    else:
        draws = [check_draw(load_table(data))]
    n_jobs = o.choose_jobs(jobs, sum(len(draw.y) for draw in draws), len(SYNTHETIC_METHODS) * len(CHOSEN_BY))
    rows = run_synthetic(draws, grid=grid, quick=quick, n_jobs=n_jobs, verbose=int(not quiet))
    shown_rows = [row for row in rows if row.task == "a held-out domain" and row.repeat == 0]
    scatter_plots = draw_synthetic_figure(draws[0], shown_rows, grid=grid, quick=quick)
    for suffix in FIGURE_SUFFIXES:
        save_figure(scatter_plots, figure.with_suffix(suffix))
    name = "synthetic" if data is None else data.name
    title = f"{name}: accuracy on the target, %, by selection of settings; grid of CIDG: {grid}; paper: 86.67 for CIDG"
    _print_accuracies(make_accuracy_table(rows), title, output, format)


def run_study(
    load: Callable[[], Any],
    paper: str,
    name: str,
    *,
    methods: o.Methods = "",
    quick: o.Quick = False,
    selection: o.Selection = "domain",
    repeats: o.Repeats = 5,
    output: o.Output = o.STANDARD_OUTPUT,
    format: o.TableFormat = None,
    quiet: o.Quiet = False,
    store: o.Store = None,
    jobs: o.AutomaticJobs = None,
) -> None:
    """Run the study on a data set and print or write its table, with the published scores of a table of the paper."""
    from ..evaluation import Protocol, load_published, make_accuracy_table, make_tasks, run
    from ..model_selection import method_names
    from ..tables import table_from_arrays

    names = o.parse_names(methods) if methods else method_names(in_comparison=True)
    if not names:
        raise ValueError("--methods must name at least one method. --methods help lists all.")
    with o.open_store(name, store) as store:
        data = load()
        protocol = Protocol.paper(selection=selection, repeats=1 if quick else repeats, quick=quick)
        domains = list(data.domain_names)
        all_tasks = make_tasks(domains)
        if len(domains) == 4 and not quick:
            all_tasks += make_tasks(domains, 2)
        message_console.print(f"{len(all_tasks)} tasks, {len(names)} methods, {protocol.repeats} repeats -> {store}")
        rows = run(
            table_from_arrays(data.data, data.target, data.domain),
            names,
            protocol,
            tasks=all_tasks,
            store=store,
            n_jobs=o.choose_jobs(jobs, len(data.target), len(names)),
            verbose=int(not quiet),
        ).rows
    printed = "published score, with DeCAF6 features" if "surf" in name else "the paper's figure"
    title = f"{name}: accuracy on the held-out domains, %, settings selected by {protocol.selection!r}"
    _print_accuracies(make_accuracy_table(rows, load_published(paper, all_tasks), printed), title, output, format)
    n_failed = sum(row.status == "failed" for row in rows)
    if n_failed:
        error_console.print(f"{n_failed} of {len(rows)} runs failed. Run the same command again to retry them.")
        raise typer.Exit(1)


@reproduce.command("office-caltech", cls=Command)
@o.with_options(run_study, "run")
def office_caltech(
    *,
    run: o.Request,
    feature_set: Annotated[
        Literal["decaf6", "surf"],
        o.make_option(o.DATA, help="Features of the images; the paper uses decaf6."),
    ] = "decaf6",
    data_home: Annotated[
        Path | None,
        o.make_option(
            o.DATA,
            metavar="FOLDER",
            show_default="$UNSEEN_DATA, or a cache folder",
            help="Folder of the data files, for reading and downloading.",
        ),
    ] = None,
    download: Annotated[bool, o.make_option(o.DATA, "--download/--no-download", help="Download missing files.")] = True,
) -> None:
    """Reproduce table 3: Office+Caltech, ten tasks.

    Example: unseen reproduce office-caltech --feature-set surf --quick
    """
    from ..datasets import fetch_office_caltech

    load = partial(fetch_office_caltech, feature_set, data_home=data_home, download=download)
    run(load, "office-caltech", f"office-caltech-{feature_set}")


@reproduce.command("vlcs", cls=Command)
@o.with_options(run_study, "run")
def vlcs(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder with one file per domain; see unseen.datasets.load_vlcs.")
    ],
    *,
    run: o.Request,
) -> None:
    """Reproduce table 2: VLCS, ten tasks.

    Example: unseen reproduce vlcs ~/data/VLCS
    """
    from ..datasets import load_vlcs

    run(partial(load_vlcs, folder), "vlcs", "vlcs")


def _print_accuracies(table: dict[str, Any], title: str, output: Path, format: str | None) -> None:
    print_result(table, lambda _: _show_accuracies(table, title), output, format, table["cells"])


def _show_accuracies(table: dict[str, Any], title: str) -> None:
    """Print methods by tasks: best score in bold, published score in gray, transductive scores with a star.

    Tasks that do not fit into the terminal follow in another table.
    """
    console = make_console()
    cells = table["cells"]
    methods = table["methods"]
    summary = table["summary"]
    header = ["mean", "mean rank", "wins", *table["tasks"]]
    rows = []
    for method in methods:
        mean = summary["mean"][method]
        figures = ["failed" if mean is None else f"{mean:.2f}", f"{summary['mean_rank'][method]:.1f}"]
        scores = [_format_cell(cell) for cell in cells if cell["method"] == method]
        rows.append([*figures, str(summary["wins"][method]), *scores])
    while header:
        names_and_rows = [[method, *row] for method, row in zip(methods, rows, strict=True)]
        n_shown = print_table(["method", *header], names_and_rows, title) - 1
        header = header[n_shown:]
        rows = [row[n_shown:] for row in rows]
    if any(cell["published"] is not None for cell in cells):
        console.print(f"gray: {table['published_label']}", style="dim")
    print_failures([(cell["method"], cell) for cell in cells], "centered on unlabeled target data")


def _format_cell(cell: dict[str, Any]) -> Text:
    if cell["mean"] is None:
        return Text(cell["status"], style="red")
    # A single score has two decimals, as in the paper.
    accuracy = f"{cell['mean']:.1f} ±{cell['sd']:.1f}" if cell["repeats"] > 1 else f"{cell['mean']:.2f}"
    text = Text(f"{accuracy}{'*' * cell['transductive']}", style="bold" if cell["best"] else "")
    if cell["published"] is not None:
        text.append(f" {cell['published']:.1f}", style="bright_black")
    return text
