"""Options that several commands share, and functions that interpret them.

Here and in the commands, other packages are imported inside functions, so that ``--help`` does not wait for the import
of scikit-learn.
"""

from __future__ import annotations

import csv
import io
import logging
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..utils.io import check_output_path
from ._report import make_console, make_table, print_notices

if TYPE_CHECKING:
    from ..tables import Table, TableOptions

CONNECT_SECONDS = 10
LOCAL_CONFIG = {
    # Errors of local workers are raised in this process, and lost work is repeated. The workers' logs add nothing.
    "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical",
    # Workers that died are restarted. If none comes back, the work fails instead of waiting forever.
    "distributed.scheduler.no-workers-timeout": "60s",
    # Status pages are not protected by TLS, so they are not served.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


def list_methods_on_help(names: str) -> str:
    """Print all methods and exit if the value of the option is "help"."""
    if names.strip().lower() != "help":
        return names
    from ..model_selection import METHODS

    table = make_table(["method", "kind", "description"], [])
    for method in METHODS.values():
        table.add_row(method.name, method.kind, method.description)
    make_console().print(table)
    raise typer.Exit


def _check_jobs(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("0 is not allowed. Use 1 or more processes, or -1 for one per core.")
    return jobs


DATA_HELP = (
    "Table (.csv, .tsv, .parquet, .feather, .npz), or several: a folder, or a pattern in quotes. Each of several files "
    "is one domain, unless --domain names a column or the file names are those of parts of a table."
)
Data = Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)]
OptionalData = Annotated[Path | None, typer.Argument(metavar="DATA", help=DATA_HELP)]
Network = Annotated[
    Path | None, typer.Option("--model", dir_okay=False, help="ONNX file of a network; DATA are then photographs.")
]
OutputName = Annotated[
    str | None, typer.Option(help="Tensor of the network to use as features. [default: its first output]")
]
Preset = Annotated[
    Literal["caffe", "torchvision", "tf-lite"],
    typer.Option(help="Preprocessing of the images with which the network was trained."),
]
DomainFrom = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Regular expression with one group that matches the domain in each path."),
]
Label = Annotated[str | None, typer.Option(help="Column of the classes. [default: a column with an obvious name]")]
Domain = Annotated[str | None, typer.Option(help="Column of the domains. [default: a column with an obvious name]")]
Group = Annotated[str | None, typer.Option(help="Column of groups of rows, such as the patient.")]
Dates = Annotated[Literal["drop", "ordinal"], typer.Option(help="Drop dates, or use them as days since 1970.")]
Categories = Annotated[
    str | None,
    typer.Option(help="Numeric columns that are categories, such as codes, comma-separated. [default: none]"),
]
Columns = Annotated[bool, typer.Option("--columns", help="Also list the use of every column.")]
Features = Annotated[
    str | None,
    typer.Option(
        help="Columns to use, comma-separated; quote names that contain commas: 'age,\"a, b\"'. [default: all others]"
    ),
]
Drop = Annotated[str | None, typer.Option(help="Columns to drop, in the syntax of --features.")]
Unlabeled = Annotated[
    str | None, typer.Option(help="Drop rows with this label, such as 0 or unknown; NA for missing labels.")
]
Metric = Annotated[
    str,
    typer.Option(
        help="Score to compare: accuracy, balanced_accuracy, f1, roc_auc, average_precision, log_loss, or a scorer of "
        "scikit-learn."
    ),
]
MaxPerDomain = Annotated[
    int | None, typer.Option(min=2, help="Maximum number of samples per domain, drawn at random. [default: all]")
]
SCALE_HELP = "Scale columns to unit variance, rows to unit length, or neither."
Scale = Annotated[Literal["standardize", "l2", "none"], typer.Option(help=SCALE_HELP)]
OptionalScale = Annotated[
    Literal["standardize", "l2", "none"] | None,
    typer.Option(help=SCALE_HELP, show_default="standardize; of the examples: none and l2"),
]
Weighing = Annotated[
    Literal["none", "classes", "domains"],
    typer.Option(help="Give all classes, or all domains, equal weight in training; 1-NN ignores weights."),
]
FeatureMap = Annotated[
    Literal["auto", "none", "nystroem"],
    typer.Option(
        help="Exact kernels (none), landmarks for any number of rows (nystroem), or landmarks above 8,000 rows (auto)."
    ),
]
Components = Annotated[
    int | None, typer.Option(min=1, help="Number of landmarks. [default: 1000, fewer if they suffice]")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of local Dask workers. [default: none]")]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a running Dask scheduler, such as tcp://HOST:8786. [default: none]")
]
Selection = Annotated[
    Literal["domain", "within", "oracle"],
    typer.Option(help="Select settings on held-out domains, within the training domains, or on the target."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random number generator.")]
JOBS_HELP = "Number of processes; -1 for one per core. Work on Dask workers does not use them."
Jobs = Annotated[int, typer.Option("--jobs", "-j", callback=_check_jobs, help=JOBS_HELP)]
Quick = Annotated[bool, typer.Option("--quick", help="Run a short version: one repeat, small grids.")]
Repeats = Annotated[int, typer.Option(min=1, help="Number of random samples of the training data.")]
Methods = Annotated[
    str,
    typer.Option(
        callback=list_methods_on_help,
        is_eager=True,
        help="Methods, comma-separated; --methods help lists them.",
        show_default="all",
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="LOCATION:NAME",
        help="Add your classifier, from file.py:NAME or package.module:NAME. Runs its code. Can be repeated.",
    ),
]
Store = Annotated[
    Path | None, typer.Option(dir_okay=False, help="File that stores results; rerun to continue an interrupted run.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the complete result as JSON.")]
Report = Annotated[Path | None, typer.Option(dir_okay=False, help="Write a report to this .html file.")]


def _all_methods() -> str:
    from ..model_selection import method_names

    return ",".join(method_names(in_comparison=True))


def _compared_methods() -> str:
    from ..study import comparison_methods

    return ",".join(f'"{name}"' for name in comparison_methods())


# Called when a command runs, so that --help does not import the registry.
ALL_METHODS: Any = _all_methods
COMPARED_METHODS: Any = _compared_methods


def parse_names(names: str | None) -> list[str] | None:
    """Parse comma-separated names; names that contain commas are quoted, as in a CSV file."""
    if names is None:
        return None
    try:
        lines = list(csv.reader(io.StringIO(names, newline=""), skipinitialspace=True, strict=True))
    except csv.Error:
        raise ValueError(
            f"{names!r} is not a comma-separated list of names: a quotation mark is not closed, or not followed by a "
            "comma."
        ) from None
    return [name.strip() for line in lines for name in line if name.strip()]


def read_table(data: Path, request: TableOptions) -> Table:
    """Read the table of a command."""
    from ..tables import read_survey, survey_table

    return read_survey(survey_table(data, request), request.seed)


def embedded_table(max_per_domain: int | None, seed: int) -> Table:
    """Return the rotated digits, the example of ``unseen demo``."""
    from ..datasets import load_digits_table

    table = load_digits_table()
    return table.take(table.samples.subsample_rows(max_per_domain=max_per_domain, seed=seed))


@contextmanager
def open_cluster(workers: int | None, scheduler: str | None) -> Iterator[Any]:
    """Yield a Dask client of a running scheduler or of local workers; None without either option."""
    from ..estimators import ClusterLostError
    from ..utils.optional_imports import optional_import

    if workers is None and scheduler is None:
        yield None
        return
    if workers is not None and scheduler is not None:
        raise ValueError("--workers and --scheduler cannot be used together. Pass one of them.")
    distributed = optional_import("distributed", "Working on a cluster")
    try:
        if scheduler is not None:
            with (
                _silence_logger("distributed.client"),
                distributed.Client(scheduler, timeout=CONNECT_SECONDS) as client,
            ):
                if not client.nthreads():
                    text = f"The cluster at {scheduler} has no workers yet. The computation starts when they connect."
                    print_notices([text])
                yield client
        elif workers is not None:
            with local_cluster(workers) as local, distributed.Client(local) as client:
                yield client
    except ClusterLostError as error:
        raise ConnectionError(str(error)) from error


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """Start local Dask workers that only this process can use.

    A Dask scheduler runs any code that it receives, and all users of the machine can connect to its ports. TLS with a
    certificate that exists only in the memory of this process and its workers excludes them.
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
            dashboard_address="127.0.0.1:0",  # None would use a fixed port, which may be occupied
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,
        ) as local,
    ):
        yield local


@contextmanager
def _silence_logger(name: str) -> Iterator[None]:
    """Silence a logger that would print a traceback of an error which the command reports itself."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def require_option(required: str, options: Mapping[str, Any]) -> None:
    """Raise ValueError if options are given that have no effect without the required one."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ValueError(f"{' and '.join(given)} cannot be used without {required}.")


def results_path(name: str, store: Path | None) -> tuple[Path, str]:
    """Return the file of results of a study, and the message to print if the study is interrupted."""
    store = store or Path(f"{name}.unseen-results.sqlite")
    return store, f"Completed results are stored in {store}. Run the same command again to continue."


def check_store(store: Path) -> None:
    """Raise ValueError if a results file, or the journal that SQLite writes next to it, cannot be created."""
    check_output_path(store)
    check_output_path(Path(f"{store}-journal"))


def current_command() -> str:
    """Return the command that repeats this run."""
    return shlex.join(["unseen", *sys.argv[1:]])
