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
from ._extract import make_extractor, write_skipped
from ._report import error_console, print_notices, save_figure, show_table, translate_errors, write_text

if TYPE_CHECKING:
    from ..study import AccuracyTable

reproduce = typer.Typer(
    no_args_is_help=True,
    help="Rerun the experiments of the CIDG paper.",
    epilog="Example: unseen reproduce folder ./hospitals --quick",
)

Format = Annotated[
    Literal["markdown", "latex", "csv", "json"] | None, typer.Option(help="Print the table in this format.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", dir_okay=False, help="Write the table to this file, in --format or the format of its suffix."
    ),
]
Figure = Annotated[Path, typer.Option(dir_okay=False, help="Figure to write, as .svg and .png.")]
FIGURE_SUFFIXES = (".png", ".svg")
FORMAT_BY_SUFFIX = {".tex": "latex", ".csv": "csv", ".json": "json"}
Photos = Annotated[
    Path | None, typer.Option(file_okay=False, help="Folder of photographs in DOMAIN/CLASS/; needs --model.")
]
DataHome = Annotated[Path | None, typer.Option(help="Folder of the data files, for reading and downloading.")]


@reproduce.command("synthetic")
def synthetic(
    seeds: Annotated[
        int, typer.Option(min=1, help="Number of random samples of the data, unless --draw is given.")
    ] = 10,
    draw: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Table to use instead, with the domains domain 1, domain 2, domain 3 and validation.",
        ),
    ] = None,
    grid: Annotated[
        Literal["ours", "fine", "authors"],
        typer.Option(
            help="Grid of CIDG: the grid of this package, the same with finer steps between weights, or that of the "
            "authors' program."
        ),
    ] = "ours",
    figure: Figure = Path("synthetic.png"),
    quick: o.Quick = False,
    jobs: o.Jobs = 2,
    format: Format = None,
    output: Output = None,
) -> None:
    """Reproduce figure 1: the synthetic data, with three ways to select the settings.

    CIDG follows its authors' released code; "CIDG as printed" follows the equations of the paper.

    Example: unseen reproduce synthetic --draw toy.csv --grid authors
    """
    import numpy as np

    from ..study import (
        CHOSEN_BY,
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
        check_output_path(output)
        for suffix in FIGURE_SUFFIXES:
            check_output_path(figure.with_suffix(suffix))
        if draw is None:
            draws = [draw_synthetic(seed) for seed in range(2 if quick else seeds)]
        else:
            table = load_table(draw)
            draws = [check_draw(table.X, table.y, table.domain)]
        rows = run_synthetic(draws, grid=grid, quick=quick, n_jobs=jobs, verbose=1)
        name = "synthetic" if draw is None else draw.name
        title = (
            f"{name}: accuracy on the target, by selection of settings; grid of CIDG: {grid}; the paper: 86.67 for CIDG"
        )
        selection = CHOSEN_BY[1]
        problem = make_synthetic_problem(draws[0], selection, grid=grid, quick=quick)
        if draw is not None:
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
        _write_table(make_accuracy_table(rows), title, format, output)


@dataclass(frozen=True, kw_only=True)
class _StudyOptions:
    """Options of a study on a data set."""

    selection: Any
    repeats: int
    methods: str
    quick: bool
    jobs: int
    store: Path | None
    format: Any
    output: Path | None
    max_per_domain: int | None = None


@reproduce.command("office-caltech")
def office_caltech(
    photos: Photos = None,
    model: o.Network = None,
    output_name: o.OutputName = None,
    preset: o.Preset = "caffe",
    features: Annotated[str, typer.Option(help="Features: decaf6, as in the paper, or surf.")] = "decaf6",
    data_home: DataHome = None,
    download: Annotated[bool, typer.Option(help="Download missing files.")] = True,
    selection: o.Selection = "domain",
    repeats: o.Repeats = 5,
    methods: o.Methods = o.ALL_METHODS,
    quick: o.Quick = False,
    jobs: o.Jobs = 2,
    store: o.Store = None,
    format: Format = None,
    output: Output = None,
) -> None:
    """Reproduce table 3: Office+Caltech, ten tasks; with --photos, with features of the photographs.

    Example: unseen reproduce office-caltech --features surf --quick
    """
    from ..datasets import fetch_office_caltech

    options = _StudyOptions(
        selection=selection,
        repeats=repeats,
        methods=methods,
        quick=quick,
        jobs=jobs,
        store=store,
        format=format,
        output=output,
    )
    if photos is not None or model is not None:
        _run_on_photos("office-caltech", photos, model, output_name, preset, options)
        return
    load = partial(fetch_office_caltech, features, data_home=data_home, download=download)
    _run_study(load, "office-caltech", f"office-caltech-{features}", options, features)


@reproduce.command("vlcs")
def vlcs(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder with one file per domain; see unseen.datasets.load_vlcs.", show_default=False),
    ] = None,
    photos: Photos = None,
    model: o.Network = None,
    output_name: o.OutputName = None,
    preset: o.Preset = "caffe",
    selection: o.Selection = "domain",
    repeats: o.Repeats = 5,
    methods: o.Methods = o.ALL_METHODS,
    quick: o.Quick = False,
    jobs: o.Jobs = 2,
    store: o.Store = None,
    format: Format = None,
    output: Output = None,
) -> None:
    """Reproduce table 2: VLCS, ten tasks; with --photos, with features of the photographs, in either layout.

    Example: unseen reproduce vlcs --photos ~/data/VLCS --model alexnet.onnx --output-name fc6
    """
    from ..datasets import load_vlcs

    options = _StudyOptions(
        selection=selection,
        repeats=repeats,
        methods=methods,
        quick=quick,
        jobs=jobs,
        store=store,
        format=format,
        output=output,
    )
    if photos is not None or model is not None:
        _run_on_photos("vlcs", photos, model, output_name, preset, options)
        return
    if folder is None:
        raise typer.BadParameter("pass a folder with one file per domain, or --photos and --model.")
    _run_study(partial(load_vlcs, folder), "vlcs", "vlcs", options)


@reproduce.command("folder")
def folder_command(
    folder: Annotated[Path, typer.Argument(help="Folder with one file per domain; see unseen.datasets.load_folder.")],
    selection: o.Selection = "domain",
    repeats: o.Repeats = 5,
    methods: o.Methods = o.ALL_METHODS,
    max_per_domain: o.MaxPerDomain = None,
    quick: o.Quick = False,
    jobs: o.Jobs = 2,
    store: o.Store = None,
    format: Format = None,
    output: Output = None,
) -> None:
    """Run the protocol of the paper on your data: hold out each domain and, with four domains, each pair.

    Example: unseen reproduce folder ./hospitals --repeats 3 --format markdown
    """
    from ..datasets import load_folder

    options = _StudyOptions(
        selection=selection,
        repeats=repeats,
        methods=methods,
        quick=quick,
        jobs=jobs,
        store=store,
        format=format,
        output=output,
        max_per_domain=max_per_domain,
    )
    _run_study(partial(load_folder, folder), "", folder.expanduser().resolve().name, options)


def _run_on_photos(
    paper: str,
    folder: Path | None,
    model: Path | None,
    output_name: str | None,
    preset: str,
    options: _StudyOptions,
) -> None:
    """Run the study with features that a network computes from photographs."""
    from ..images import find_photos, photo_collection

    with translate_errors():
        if folder is None or model is None:
            raise ValueError("--photos and --model must be used together: the photographs and the network.")
        photos = find_photos(folder)
        print_notices(photos.notices)
        extractor = make_extractor(photos.name, model, output_name=output_name, preprocessing=preset)

    def load() -> Any:
        collection = photo_collection(paper, photos, extractor)
        write_skipped(collection.skipped, Path(f"{photos.name}.skipped.csv"))
        return collection

    _run_study(load, paper, f"{paper}-{model.stem}", options, extractor.facts["network"])


def _run_study(
    load: Callable[[], Any], paper: str, name: str, options: _StudyOptions, features: str | None = None
) -> None:
    """Run the study on a data set and print or write its table, with the published scores of a table of the paper."""
    from ..study import AccuracyTable, Protocol, load_published, make_accuracy_table, make_tasks, run, subsample_domains

    with translate_errors():
        check_output_path(options.output)
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
        error_console.print(f"{len(all_tasks)} tasks, {len(methods)} methods, {protocol.repeats} repeats -> {store}")
        kept = subsample_domains(data.domain, options.max_per_domain, y=data.target)
        rows = run(
            data.data[kept],
            data.target[kept],
            data.domain[kept],
            all_tasks,
            store=store,
            protocol=protocol,
            methods=methods,
            n_jobs=options.jobs,
            verbose=1,
        )
        is_paper_features = features in (None, "decaf6")
        printed = AccuracyTable.published_label if is_paper_features else "published score, with DeCAF6 features"
        table = make_accuracy_table(rows, load_published(paper, all_tasks) if paper else None, printed)
        title = f"{name}: accuracy on the held-out domains, settings selected by {protocol.selection!r}"
        _write_table(table, title, options.format, options.output)
        n_failed = sum(row.status == "failed" for row in rows)
    if n_failed:
        error_console.print(f"{n_failed} of {len(rows)} runs failed. Run the same command again to retry them.")
        raise typer.Exit(1)


def _write_table(table: AccuracyTable, title: str, format: Any, output: Path | None) -> None:
    """Print the table in the terminal, or write it in the given format or that of the suffix of the file."""
    if format is None and output is None:
        show_table(table, title)
        return
    if format is None and output is not None:
        format = FORMAT_BY_SUFFIX.get(output.suffix.lower(), "markdown")
    write_text(table.text(format), output)
