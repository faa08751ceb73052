"""Options that several commands share, and what they stand for.

Here and in the commands, rooms are entered by the functions that need them: help is there before scikit-learn would be.
"""

from __future__ import annotations

import csv
import io
import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..utils.io import check_target
from ._report import make_console, make_table, print_notices

if TYPE_CHECKING:
    from ..study import Protocol
    from ..tables import Request, Table

CONNECT_SECONDS = 10
LOCAL_CONFIG = {
    # Errors of local workers are raised here, and lost work is repeated: their logs would only repeat it.
    "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical",
    # Workers that died are started again. If none comes back, the work fails instead of waiting forever.
    "distributed.scheduler.no-workers-timeout": "60s",
    # Status pages are not protected by TLS, so they are not served.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


def list_methods_on_help(names: str) -> str:
    """Instead of going on, list all methods if somebody asks for help with them."""
    if names.strip().lower() != "help":
        return names
    from ..model_selection import METHODS

    table = make_table(["method", "kind", "what it is"], [])
    for method in METHODS.values():
        table.add_row(method.name, method.kind, method.about)
    make_console().print(table)
    raise typer.Exit


def _check_jobs(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("at least one process is needed; -1 means one for each core.")
    return jobs


Data = Annotated[
    Path | None,
    typer.Argument(
        help="A table (.csv, .tsv, .parquet, .feather, .npz), or several: a folder, or a pattern in quotes. Each of "
        "several files is a domain; or all are parts of one table, if --domain names a column or they are called so."
    ),
]
Network = Annotated[
    Path | None, typer.Option("--model", dir_okay=False, help="DATA are photographs, for this network, an ONNX file.")
]
OutputName = Annotated[str | None, typer.Option(help="The tensor to take, any of the network's. [default: its output]")]
Preset = Annotated[
    Literal["caffe", "torchvision", "tf-lite"],
    typer.Option(help="What is done to pictures first: as the network was trained."),
]
DomainFrom = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Find the domain in the path of each picture: by a group, in parentheses."),
]
Label = Annotated[str | None, typer.Option(help="Column of the classes; guessed from obvious names.")]
Domain = Annotated[str | None, typer.Option(help="Column of the domains; guessed from obvious names.")]
Group = Annotated[str | None, typer.Option(help="Column of what several rows come from, such as the patient.")]
Dates = Annotated[Literal["drop", "ordinal"], typer.Option(help="Leave out dates, or use them as days since 1970.")]
Categories = Annotated[
    str | None,
    typer.Option(help="Columns of numbers that are categories, such as codes, comma-separated (default: none)."),
]
Columns = Annotated[bool, typer.Option("--columns", help="Also list how every column was used.")]
Features = Annotated[
    str | None,
    typer.Option(
        help="Columns to use, comma-separated, in quotes where they hold commas: 'age,\"a, b\"'. [default: all others]"
    ),
]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out, written like --features.")]
Unlabeled = Annotated[
    str | None, typer.Option(help="Leave out rows with this label, such as 0 or unknown; NA for missing ones.")
]
Metric = Annotated[
    str,
    typer.Option(
        help="What is compared: accuracy, balanced_accuracy, f1, roc_auc, average_precision, log_loss, or a scorer of "
        "scikit-learn."
    ),
]
MaxPerDomain = Annotated[int | None, typer.Option(min=2, help="At most so many samples of each domain, at random.")]
Scale = Annotated[
    Literal["standardize", "l2", "none"] | None,
    typer.Option(help="Columns to unit variance, rows to unit length, or nothing. [default: standardize]"),
]
Weighing = Annotated[
    Literal["none", "classes", "domains"],
    typer.Option(help="Let all classes, or all domains, weigh alike in training; 1-NN takes no weights."),
]
FeatureMap = Annotated[
    Literal["auto", "none", "nystroem"],
    typer.Option(
        help="Exact kernels (none), landmarks that let a projection see any number of rows (nystroem), or landmarks "
        "only above 8,000 rows (auto)."
    ),
]
Components = Annotated[int | None, typer.Option(min=1, help="Landmarks. [default: 1000, fewer if they suffice]")]
Workers = Annotated[int | None, typer.Option(min=1, help="Leave the work to so many Dask workers, started here.")]
Scheduler = Annotated[str | None, typer.Option(help="The same on a running Dask cluster, such as tcp://HOST:8786.")]
Selection = Annotated[Literal["domain", "within", "oracle"], typer.Option(help="Who chooses the settings.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random draws.")]
JOBS_HELP = "Processes; -1 for one on each core. Not used for what Dask workers do."
Jobs = Annotated[int, typer.Option("--jobs", "-j", callback=_check_jobs, help=JOBS_HELP)]
Quick = Annotated[bool, typer.Option("--quick", help="A smoke version: one repeat, small grids.")]
Repeats = Annotated[int, typer.Option(min=1, help="Random draws of the training data.")]
Methods = Annotated[
    str,
    typer.Option(
        callback=list_methods_on_help,
        is_eager=True,
        help="Comma-separated; --methods help lists them.",
        show_default="all",
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="PLACE:NAME",
        help="Also this classifier of your own: file.py:NAME or package.module:NAME. Its code runs. May be repeated.",
    ),
]
Store = Annotated[Path | None, typer.Option(dir_okay=False, help="File of results; rerun to continue.")]
Json = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON, for machines.")]
Report = Annotated[Path | None, typer.Option(dir_okay=False, help="Write the report to this .html file.")]


def _all_methods() -> str:
    from ..model_selection import method_names

    return ",".join(method_names(compared=True))


ALL_METHODS: Any = _all_methods  # called when a command runs: help needs no table of methods


def parse_names(names: str | None) -> list[str] | None:
    """Comma-separated names; those that hold commas are in quotes, as in a CSV file."""
    if names is None:
        return None
    try:
        lines = list(csv.reader(io.StringIO(names, newline=""), skipinitialspace=True, strict=True))
    except csv.Error:
        raise ValueError(
            f"{names!r} is no list of names: a quotation mark is opened but never closed, or followed by more than a "
            "comma."
        ) from None
    return [name.strip() for line in lines for name in line if name.strip()]


def read_table(data: Path | None, request: Request) -> Table:
    """The table a command is about; the embedded rotated digits if none is named."""
    from ..tables import read_survey, survey_table

    if data is None:
        return embedded_table(request)
    return read_survey(survey_table(data, request), request.seed)


def embedded_table(request: Request) -> Table:
    """The rotated digits, for commands without a table."""
    from ..datasets import embedded_digits
    from ..tables import Request

    if request != Request(max_per_domain=request.max_per_domain, seed=request.seed):
        raise ValueError(
            "--label, --domain, --group, --features, --drop, --unlabeled, --dates and --categories speak of a table; "
            "name one, or leave them out."
        )
    table = embedded_digits()
    return table.take(table.samples.thinned(most=request.max_per_domain, seed=request.seed))


@contextmanager
def open_cluster(workers: int | None, scheduler: str | None) -> Iterator[Any]:
    """Yield a Dask client of a running cluster or of local workers; None without either option."""
    from ..estimators import ClusterLostError
    from ..utils.optional_imports import optional_import

    if workers is None and scheduler is None:
        yield None
        return
    if workers is not None and scheduler is not None:
        raise ValueError("--workers starts workers here, --scheduler uses those of a cluster: choose one.")
    distributed = optional_import("distributed", "Working on a cluster")
    try:
        if scheduler is not None:
            with (
                _silence_logger("distributed.client"),
                distributed.Client(scheduler, timeout=CONNECT_SECONDS) as client,
            ):
                if not client.nthreads():
                    print_notices(
                        [f"The cluster at {scheduler} has no workers yet. The work starts when they connect."]
                    )
                yield client
        elif workers is not None:
            with local_cluster(workers) as local, distributed.Client(local) as client:
                yield client
    except ClusterLostError as error:
        raise ConnectionError(str(error)) from error


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """Start local Dask workers that only this process can use.

    A Dask scheduler runs whatever code it is sent, and a port of this machine is open to all of its users. TLS with a
    certificate that exists only in the memory of this process and of its workers keeps others out.
    """
    from ..utils.optional_imports import optional_import

    optional_import("cryptography", "Starting local Dask workers that other users cannot reach")
    distributed = optional_import("distributed", "Starting local Dask workers")
    with (
        import_module("dask").config.set(LOCAL_CONFIG),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            security=distributed.Security.temporary(),
            dashboard_address="127.0.0.1:0",  # None would take a fixed port, which may be in use
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,
        ) as local,
    ):
        yield local


@contextmanager
def _silence_logger(name: str) -> Iterator[None]:
    """Keep a logger from telling, with a traceback, what is told as an error here."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def resolve_scale(data: Path | None, scale: Any) -> Any:
    """What was asked for; otherwise standardized columns, or rows of unit length for the embedded images."""
    return scale or ("l2" if data is None else "standardize")


def require_option(option: str, **others: Any) -> None:
    """Refuse options that mean nothing without another."""
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise ValueError(f"{' and '.join(given)} need {option}, which is missing.")


def make_protocol(selection: Any, repeats: int, quick: bool, **more: Any) -> Protocol:
    """How a study is run; a quick one has one repeat."""
    from ..study import Protocol

    return Protocol(selection, repeats=1 if quick else repeats, quick=quick, **more)


def results_path(name: str, store: Path | None) -> tuple[Path, str]:
    """The file of results of a study of that name, and what to say if it is stopped."""
    store = store or Path(f"{name}.unseen-results.sqlite")
    return store, f"What is done is kept in {store}; run the same command again to continue."


def check_store(store: Path) -> None:
    """Raise ValueError if a results file, or the journal that SQLite writes beside it, cannot be created."""
    check_target(store)
    check_target(Path(f"{store}-journal"))


def current_command() -> str:
    """The command that repeats this run."""
    return shlex.join(["unseen", *sys.argv[1:]])
