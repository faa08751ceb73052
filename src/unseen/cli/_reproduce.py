"""``unseen reproduce``: the paper's experiments, with every method it compares and plain classifiers beside them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..utils.io import check_target
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
    Literal["markdown", "latex", "csv", "json"] | None, typer.Option(help="Instead of the table in the terminal.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", dir_okay=False, help="Write the table to this file; its ending, or --format, says how."
    ),
]
Figure = Annotated[Path, typer.Option(dir_okay=False, help="The picture; an .svg and a .png of this name.")]
FIGURE_SUFFIXES = (".png", ".svg")
FORMAT_BY_SUFFIX = {".tex": "latex", ".csv": "csv", ".json": "json"}
Photos = Annotated[Path | None, typer.Option(file_okay=False, help="The photographs, in DOMAIN/CLASS/; needs --model.")]
DataHome = Annotated[Path | None, typer.Option(help="Folder with the files, or where to put them.")]


@reproduce.command("synthetic")
def synthetic(
    seeds: Annotated[int, typer.Option(min=1, help="Random draws of the data, unless --draw names one.")] = 10,
    draw: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="A table in place of the draws, with the domains domain 1, domain 2, domain 3 and validation.",
        ),
    ] = None,
    grid: Annotated[
        Literal["ours", "fine", "authors"],
        typer.Option(
            help="What CIDG chooses from: the settings behind our tables, the same with finer steps between weights, "
            "or those of its authors' program."
        ),
    ] = "ours",
    figure: Figure = Path("synthetic.png"),
    quick: o.Quick = False,
    jobs: o.Jobs = 2,
    format: Format = None,
    output: Output = None,
) -> None:
    """Figure 1: the synthetic data, under three ways to choose the settings.

    CIDG follows its authors' released code; "CIDG as printed" follows the equations of the paper.

    Example: unseen reproduce synthetic --draw toy.csv --grid authors
    """
    import numpy as np

    from ..study import (
        CHOSEN_BY,
        accuracy_table,
        check_draw,
        fresh_draw,
        run_synthetic,
        synthetic_figure,
        synthetic_problem,
        ties,
    )
    from ..tables import load_table

    with translate_errors():
        check_target(output)
        for suffix in FIGURE_SUFFIXES:
            check_target(figure.with_suffix(suffix))
        if draw is None:
            draws = [fresh_draw(seed) for seed in range(2 if quick else seeds)]
        else:
            table = load_table(draw)
            draws = [check_draw(table.X, table.y, table.domain)]
        rows = run_synthetic(draws, grid=grid, quick=quick, n_jobs=jobs, verbose=1)
        name = "synthetic" if draw is None else draw.name
        title = f"{name}: target, settings chosen on ..., grid of CIDG: {grid}; the paper prints 86.67 for CIDG"
        problem = synthetic_problem(draws[0], CHOSEN_BY[1], grid=grid, quick=quick)
        for method in ("CIDG", "CIDG as printed") if draw is not None else ():
            tied = 100 * ties(method, problem)
            if len(tied) > 1:
                how = f"{tied.min():.2f} to {tied.max():.2f}, {np.median(tied):.2f} in the median"
                print_notices(
                    [f"{method}: {len(tied)} settings tie on {CHOSEN_BY[1]}; on the target they score {how}."]
                )
        drawn = synthetic_figure(problem, [r for r in rows if r.task == CHOSEN_BY[1] and r.repeat == 0])
        for suffix in FIGURE_SUFFIXES:
            save_figure(drawn, figure.with_suffix(suffix))
        _write_table(accuracy_table(rows), title, format, output)


@reproduce.command("office-caltech")
def office_caltech(
    photos: Photos = None,
    model: o.Network = None,
    output_name: o.OutputName = None,
    preset: o.Preset = "caffe",
    features: Annotated[str, typer.Option(help="decaf6 (the paper's) or surf.")] = "decaf6",
    data_home: DataHome = None,
    download: Annotated[bool, typer.Option(help="Whether files that are missing are downloaded.")] = True,
    selection: o.Selection = "domain",
    repeats: o.Repeats = 5,
    methods: o.Methods = o.ALL_METHODS,
    quick: o.Quick = False,
    jobs: o.Jobs = 2,
    store: o.Store = None,
    format: Format = None,
    output: Output = None,
) -> None:
    """Table 3: Office+Caltech, ten tasks; with --photos, from the photographs themselves.

    Example: unseen reproduce office-caltech --features surf --quick
    """
    from ..datasets import fetch_office_caltech

    if photos is not None or model is not None:
        _run_on_photos("office-caltech", locals())
        return
    load = partial(fetch_office_caltech, features, data_home=data_home, download=download)
    _run_study(load, "office-caltech", f"office-caltech-{features}", locals())


@reproduce.command("vlcs")
def vlcs(
    folder: Annotated[
        Path | None, typer.Argument(help="One file per domain; see unseen.datasets.load_vlcs.", show_default=False)
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
    """Table 2: VLCS, ten tasks; with --photos, from the photographs themselves, in either layout.

    Example: unseen reproduce vlcs --photos ~/data/VLCS --model alexnet.onnx --output-name fc6
    """
    from ..datasets import load_vlcs

    if photos is not None or model is not None:
        _run_on_photos("vlcs", locals())
        return
    if folder is None:
        raise typer.BadParameter("name a folder with one file per domain, or --photos and --model.")
    _run_study(partial(load_vlcs, folder), "vlcs", "vlcs", locals())


@reproduce.command("folder")
def folder_command(
    folder: Annotated[Path, typer.Argument(help="One file per domain; see unseen.datasets.load_folder.")],
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
    """The paper's protocol on a folder of your own: leave out each domain and, with four domains, each pair.

    Example: unseen reproduce folder ./hospitals --repeats 3 --format markdown
    """
    from ..datasets import load_folder

    _run_study(partial(load_folder, folder), "", folder.expanduser().resolve().name, locals())


def _run_on_photos(paper: str, options: dict[str, Any]) -> None:
    """The same from photographs, with features of a network."""
    from ..images import find_photos, photo_collection

    with translate_errors():
        if options["photos"] is None or options["model"] is None:
            raise ValueError("--photos names the photographs and --model the network: both are needed.")
        photos = find_photos(options["photos"])
        print_notices(photos.notices)
        ours = make_extractor(photos.name, options["model"], options["output_name"], options["preset"])

    def load() -> Any:
        found = photo_collection(paper, photos, ours)
        write_skipped(found.skipped, Path(f"{photos.name}.skipped.csv"))
        return found

    _run_study(load, paper, f"{paper}-{options['model'].stem}", options | {"features": ours.facts["network"]})


def _run_study(load: Callable[[], Any], paper: str, name: str, options: dict[str, Any]) -> None:
    """Run the study on some data and print or write its table."""
    from ..study import AccuracyTable, accuracy_table, published, run, subsample_task, tasks

    with translate_errors():
        check_target(options["output"])
        store, resume = o.results_path(name, options["store"])
        o.check_store(store)
        data = load()
    with translate_errors(resume):
        quick, chosen = options["quick"], o.parse_names(options["methods"]) or []
        protocol = o.make_protocol(options["selection"], options["repeats"], quick)
        domains = list(data.domain_names)
        todo = tasks(domains) + (tasks(domains, 2) if len(domains) == 4 and not quick else [])
        error_console.print(f"{len(todo)} tasks, {len(chosen)} methods, {protocol.repeats} repeats -> {store}")
        kept = subsample_task(data.domain, options.get("max_per_domain"), y=data.target)
        X, y, domain = data.data[kept], data.target[kept], data.domain[kept]
        work = {"store": store, "protocol": protocol, "methods": chosen, "n_jobs": options["jobs"], "verbose": 1}
        rows = run(X, y, domain, todo, **work)
        other = options.get("features") not in (None, "decaf6")
        printed = "the paper's figure, for DeCAF6 features" if other else AccuracyTable.printed
        table = accuracy_table(rows, published(paper, todo) if paper else None, printed)
        title = f"{name}: accuracy on the unseen domains, settings chosen by {protocol.selection!r}"
        _write_table(table, title, options["format"], options["output"])
        failed = [row for row in rows if row.status == "failed"]
    if failed:
        error_console.print(f"{len(failed)} of {len(rows)} runs failed; run the same command again to try them again.")
        raise typer.Exit(1)


def _write_table(table: AccuracyTable, title: str, format: Any, output: Path | None) -> None:
    """Show the table in the terminal, or write it in the format asked for or told by the file's ending."""
    if format is None and output is None:
        show_table(table, title)
        return
    by_ending = FORMAT_BY_SUFFIX.get(output.suffix.lower(), "markdown") if output else "markdown"
    write_text(table.text(format or by_ending), output)
