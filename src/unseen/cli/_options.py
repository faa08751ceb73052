"""The root command, options that several commands share, and functions that interpret them.

A command declares its parameters with the objects of this module, so that one thing has one name in all commands. An
option that only one command has is made with `make_option` in the module of that command. The first
argument is the panel of the help that shows the option: DATA, PHOTOGRAPHS, METHODS, EVALUATION, OUTPUT or COMPUTATION.
The parameters of a command follow this order. A default that is not a value, such as None, is described with
`show_default`; text in square brackets would be interpreted as markup. A command is registered in ``_app.py``.

Here and in the commands, other packages are imported inside functions, so that ``--help`` does not wait for the import
of scikit-learn.
"""

from __future__ import annotations

import csv
import inspect
import io
import logging
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from .. import __version__
from ..utils.io import check_output_path
from ._report import STANDARD_OUTPUT as STANDARD_OUTPUT
from ._report import add_note, print_notices, print_table, set_quiet, translate_errors

if TYPE_CHECKING:
    from ..model_selection import Method
    from ..tables import Table, TableOptions

DATA = "Data"
PHOTOGRAPHS = "Photographs"
METHODS = "Methods"
EVALUATION = "Evaluation"
OUTPUT = "Output"
COMPUTATION = "Computation"

MIN_PARALLEL_WORK = 5_000  # rows times methods from which several processes are faster than one
CONNECT_SECONDS = 10


def list_methods_on_help(names: str) -> str:
    """Print all methods and exit if the value of the option is "help"."""
    if names.strip().lower() != "help":
        return names
    from ..model_selection import METHODS as REGISTRY

    rows = [(method.name, method.kind, method.description) for method in REGISTRY.values()]
    print_table(["method", "kind", "description"], rows, n_text=3)
    raise typer.Exit


def choose_jobs(jobs: int | None, n_rows: int, n_methods: int) -> int:
    """Return the number of processes: by default one per core, and one for small tables.

    A new process imports the package, which takes about as long as five methods take for a thousand rows.
    """
    if jobs is not None:
        return jobs
    return -1 if n_rows * n_methods >= MIN_PARALLEL_WORK else 1


def _check_jobs(jobs: int | None) -> int | None:
    if jobs == 0:
        raise typer.BadParameter("0 is not allowed. Use 1 or more processes, or -1 for one per core.")
    return jobs


def make_option(panel: str, *names: str, **settings: Any) -> Any:
    """Make an option that the help shows in a panel."""
    return typer.Option(*names, rich_help_panel=panel, **settings)


def make_output_option(*names: str, endings: Sequence[str] = (), panel: str = OUTPUT, **settings: Any) -> Any:
    """Make the option of a file to write, whose name is checked before anything is computed."""

    def check(path: Path | None) -> Path | None:
        if path != STANDARD_OUTPUT:
            check_output_path(path, *endings)
        return path

    return make_option(panel, *names, metavar="FILE", dir_okay=False, callback=check, **settings)


def make_methods_option(text: str = "", **settings: Any) -> Any:
    """Make the option --methods, with a text on how the methods are used."""
    return make_option(
        METHODS,
        "--methods",
        metavar="NAMES",
        callback=list_methods_on_help,
        is_eager=True,
        help=f"Methods, comma-separated; --methods help lists them.{text}",
        **settings,
    )


# Data
DATA_HELP = (
    "Table (.csv, .tsv, .xlsx, .parquet, .feather, .npz), or several: a folder, or a pattern in quotes. Each "
    "of several files is one domain, unless --domain names a column or the file names are those of parts of a table."
)
Data = Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file that unseen fit wrote.")]
NewData = Annotated[
    Path,
    typer.Argument(metavar="NEW", help="New table; or a folder or a pattern of several. Columns are matched by name."),
]
GUESSED = "a column with an obvious name"
Label = Annotated[str | None, make_option(DATA, metavar="COLUMN", show_default=GUESSED, help="Column of the classes.")]
Domain = Annotated[str | None, make_option(DATA, metavar="COLUMN", show_default=GUESSED, help="Column of the domains.")]
NewDomain = Annotated[
    str | None,
    make_option(
        DATA, "--domain", metavar="COLUMN", show_default="one domain", help="Column of the domains of the new table."
    ),
]
Group = Annotated[
    str | None,
    make_option(DATA, metavar="COLUMN", show_default="none", help="Column of groups of rows, such as the patient."),
]
Features = Annotated[
    str | None,
    make_option(
        DATA,
        metavar="COLUMNS",
        show_default="all others",
        help="Columns to use, comma-separated; quote names that contain commas: 'age,\"a, b\"'.",
    ),
]
Drop = Annotated[
    str | None,
    make_option(
        DATA, metavar="COLUMNS", show_default="none", help="Columns to leave out, in the syntax of --features."
    ),
]
Unlabeled = Annotated[
    str | None,
    make_option(
        DATA,
        metavar="LABEL",
        show_default="none",
        help="Leave out rows with this label, such as 0 or unknown; NA for missing labels.",
    ),
]
Dates = Annotated[Literal["drop", "ordinal"], make_option(DATA, help="Drop dates, or use them as days since 1970.")]
Categories = Annotated[
    str | None,
    make_option(
        DATA,
        metavar="COLUMNS",
        show_default="none",
        help="Numeric columns that are categories, such as codes, comma-separated.",
    ),
]
Missing = Annotated[
    list[str] | None,
    make_option(
        DATA,
        metavar="COLUMN=VALUE",
        show_default="none",
        help="Treat a value of a column as missing, such as chol=0. Can be repeated.",
    ),
]
MinDomainRows = Annotated[
    int,
    make_option(DATA, min=1, metavar="N", help="Leave out domains with fewer rows."),
]
MaxPerDomain = Annotated[
    int | None,
    make_option(
        DATA,
        min=2,
        metavar="N",
        show_default="all",
        help="Maximum number of samples per domain, drawn at random.",
    ),
]
Scale = Annotated[
    Literal["standardize", "l2", "none"],
    make_option(DATA, help="Scale columns to unit variance, rows to unit length, or neither."),
]

# Photographs
Network = Annotated[
    Path,
    make_option(
        PHOTOGRAPHS,
        metavar="FILE",
        dir_okay=False,
        help="ONNX file of a network that computes features of photographs.",
    ),
]
OutputName = Annotated[
    str | None,
    make_option(
        PHOTOGRAPHS,
        metavar="NAME",
        show_default="its first output",
        help="Tensor of the network to use as features.",
    ),
]
Preset = Annotated[
    Literal["caffe", "torchvision", "tf-lite"],
    make_option(PHOTOGRAPHS, help="Preprocessing of the images with which the network was trained."),
]
DomainFrom = Annotated[
    str | None,
    make_option(
        PHOTOGRAPHS,
        metavar="REGEX",
        show_default="the folders",
        help="Regular expression with one group that matches the domain in each path.",
    ),
]

# Methods
Methods = Annotated[str, make_methods_option(show_default="all")]  # "" for the default of the library
FitMethods = Annotated[
    str, make_methods_option(" Several make an ensemble; auto is the ensemble of unseen.UnseenClassifier.")
]
AverageMethods = Annotated[str, make_methods_option(" Their mean is evaluated, each with one setting.")]
With = Annotated[
    list[str] | None,
    make_option(
        METHODS,
        "--with",
        metavar="LOCATION:NAME",
        show_default="none",
        help="Add your classifier, from file.py:NAME or package.module:NAME. Runs its code. Can be repeated.",
    ),
]
Trusted = Annotated[
    str | None,
    make_option(
        METHODS,
        metavar="TYPES",
        show_default="none",
        help="Types of your own classifier that the model file contains, comma-separated; unseen show lists them.",
    ),
]
Transductive = Annotated[
    bool,
    make_option(
        METHODS,
        "--transductive",
        help="Allow transductive models, which predict batches of a new domain, not single rows.",
    ),
]
Balance = Annotated[
    Literal["none", "classes", "domains"],
    make_option(METHODS, help="Give all classes, or all domains, equal weight in training; 1-NN ignores weights."),
]
Quick = Annotated[bool, make_option(METHODS, "--quick", help="Run a short version: one repeat, small grids.")]

# Evaluation
Metric = Annotated[
    str,
    make_option(
        EVALUATION,
        metavar="NAME",
        help="Score of the evaluation: accuracy, balanced_accuracy, f1_macro, roc_auc, average_precision, log_loss, or "
        "a scorer of scikit-learn.",
    ),
]
Selection = Annotated[
    Literal["domain", "within", "oracle"],
    make_option(EVALUATION, help="Select settings on held-out domains, within the training domains, or on the target."),
]
Repeats = Annotated[
    int, make_option(EVALUATION, min=1, metavar="N", help="Number of random samples of the training data.")
]

Threshold = Annotated[
    str | None,
    make_option(
        EVALUATION,
        metavar="AIM",
        show_default="0.5",
        help="Decision threshold: a probability, youden, sensitivity=0.9, specificity=0.9 or cost=5:1; chosen on "
        "out-of-domain predictions.",
    ),
]
Positive = Annotated[
    str | None,
    make_option(EVALUATION, metavar="LABEL", show_default="the last of both labels", help="Label of the event."),
]

Cost = Annotated[
    str | None,
    make_option(
        EVALUATION,
        metavar="MISS:ALARM",
        show_default="that of the threshold",
        help="Cost of a missed event relative to that of a false alarm in net benefit, such as 5:1.",
    ),
]
Event = Annotated[
    str, make_option(EVALUATION, metavar="NAME", help="Name of the event in texts.", show_default="the class")
]
Unit = Annotated[
    str,
    make_option(EVALUATION, metavar="NAME", help="Name of rows in texts, such as patients.", show_default="rows"),
]
TauPrior = Annotated[
    Literal["none", "empirical"],
    make_option(EVALUATION, help="Prior on the standard deviation between sites, for few sites."),
]

# Exchange between sites
Site = Annotated[
    str | None,
    make_option(OUTPUT, metavar="NAME", show_default="the output file up to its first dot", help="Name of the site."),
]
SiteOutput = Annotated[
    Path, make_output_option("--output", "-o", endings=(".json",), help="File of the site to write, ending in .json.")
]

# Output
Output = Annotated[
    Path,
    make_output_option(
        "--output",
        "-o",
        allow_dash=True,
        show_default="standard output",
        help="File to write the result to; - is standard output.",
    ),
]
OutputModel = Annotated[
    Path, make_option(OUTPUT, "--output", "-o", metavar="FILE", help="Model file to write, ending in .unseen.")
]
Overwrite = Annotated[bool, make_option(OUTPUT, "--overwrite", help="Replace an existing model file.")]
Format = Annotated[Literal["txt", "json"], make_option(OUTPUT, help="Print the result as text, or completely as JSON.")]
TableFormat = Annotated[
    Literal["txt", "json", "csv"] | None,
    make_option(
        OUTPUT,
        show_default="by the suffix of --output, or txt",
        help="Write the result as text, completely as JSON, or its table as CSV.",
    ),
]
Report = Annotated[
    Path | None,
    make_output_option(endings=(".html", ".htm"), show_default="none", help="Write a report to this .html file."),
]
Figure = Annotated[
    Path | None,
    make_output_option(
        endings=(".png", ".svg", ".pdf"), show_default="none", help="Write a figure to this .png, .svg or .pdf file."
    ),
]
Columns = Annotated[bool, make_option(OUTPUT, "--columns", help="Also list the use of every column.")]
Quiet = Annotated[
    bool,
    make_option(
        OUTPUT, "--quiet", "-q", callback=set_quiet, help="Print results and errors only, no notes and no progress."
    ),
]

# Computation
FeatureMap = Annotated[
    Literal["auto", "none", "nystroem"],
    make_option(
        COMPUTATION,
        help="Exact kernels (none), landmarks for any number of rows (nystroem), or landmarks above 8,000 rows (auto).",
    ),
]
Landmarks = Annotated[
    int | None,
    make_option(
        COMPUTATION,
        min=1,
        metavar="N",
        show_default="1000, fewer if they suffice",
        help="Number of landmarks of the feature map.",
    ),
]
BatchSize = Annotated[
    int,
    make_option(
        COMPUTATION, min=1, metavar="N", help="Maximum number of rows in memory, fewer if they have many columns."
    ),
]
Store = Annotated[
    Path | None,
    make_output_option(
        panel=COMPUTATION,
        show_default="a name in the current folder",
        help="File that stores intermediate results; rerun the command to continue an interrupted run.",
    ),
]
Seed = Annotated[int, make_option(COMPUTATION, min=0, metavar="N", help="Seed of the random number generators.")]
JOBS_HELP = "Number of processes; -1 for one per core. Work on a cluster does not use them."
AutomaticJobs = Annotated[
    int | None,
    make_option(
        COMPUTATION,
        "--jobs",
        "-j",
        metavar="N",
        callback=_check_jobs,
        show_default="one per core, 1 for small tables",
        help=JOBS_HELP,
    ),
]
Scheduler = Annotated[
    str | None,
    make_option(
        COMPUTATION,
        metavar="ADDRESS",
        show_default="none",
        help="Address of a running Dask scheduler, such as tcp://HOST:8786.",
    ),
]


def table_options(
    *,
    label: Label = None,
    domain: Domain = None,
    group: Group = None,
    features: Features = None,
    drop: Drop = None,
    unlabeled: Unlabeled = None,
    dates: Dates = "drop",
    categories: Categories = None,
    missing: Missing = None,
    max_per_domain: MaxPerDomain = None,
    min_domain_rows: MinDomainRows = 4,
    seed: Seed = 0,
) -> TableOptions:
    """Make the request of a table from the options that commands share."""
    from ..tables import TableOptions

    return TableOptions(
        label=label,
        domain=domain,
        group=group,
        features=parse_names(features),
        drop=parse_names(drop),
        unlabeled=unlabeled,
        dates=dates,
        categories=parse_names(categories),
        missing=parse_missing(missing),
        max_per_domain=max_per_domain,
        min_domain_rows=min_domain_rows,
        seed=seed,
    )


def name_site(site: str | None, output: Path) -> str:
    """Return the name of a site: as it is given, or the name of its file up to the first dot."""
    return output.name.partition(".")[0] if site is None else site


def expand_patterns(paths: Iterable[Path]) -> list[Path]:
    """Return the files of patterns that the shell did not expand, and other names as they are."""
    return [Path(name) for path in paths for name in sorted(glob(str(path))) or [str(path)]]


Request = Any  # a function of `with_options`


def with_options(function: Callable[..., Any], name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that a function takes as keywords, and pass it the function with their values.

    An option that the command itself declares under the same name is the command's.
    """
    signature = inspect.signature(function, eval_str=True, locals={"TableOptions": Any})

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        declared = dict(inspect.signature(command, eval_str=True).parameters)
        del declared[name]
        arguments = [parameter for parameter in declared.values() if parameter.kind != parameter.KEYWORD_ONLY]
        options = [parameter for parameter in declared.values() if parameter.kind == parameter.KEYWORD_ONLY]
        shared = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind == parameter.KEYWORD_ONLY and parameter.name not in declared
        ]

        @wraps(command)
        def run(**values: Any) -> None:
            chosen = {parameter.name: values.pop(parameter.name) for parameter in shared}
            values[name] = partial(function, **chosen)
            command(**values)

        run.__signature__ = inspect.Signature([*arguments, *shared, *options])  # type: ignore[attr-defined]
        return run

    return decorate


with_table_options = with_options(table_options, "request")


class _HiddenFlagTypes:
    """The help of a command shows no type for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with --help; without an empty metavar, the help would show ``<bool>`` for flags."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class Command(_HiddenFlagTypes, TyperCommand):
    """A command whose help breaks lines at the width of the terminal only."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        paragraphs = inspect.cleandoc(settings["help"]).split("\n\n")
        settings["help"] = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
        super().__init__(name, **settings)


class CommandGroup(_HiddenFlagTypes, TyperGroup):
    """A group of commands. Errors and interrupts, also those of options and imports, become messages."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command of the group."""
        with translate_errors():
            return super().invoke(ctx)


app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"unseen {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Classify data from domains never seen in training.

    Example: unseen compare hospitals.csv --label diagnosis --domain hospital --report report.html
    """


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


def parse_pairs(items: Sequence[str] | None, option: str, example: str) -> list[tuple[str, str]]:
    """Parse entries of the form NAME=VALUE: one in each item, or several with commas between them."""
    pairs = []
    for entry in [entry for item in items or [] for entry in parse_names(item) or [""]]:
        name, _, value = (part.strip() for part in entry.rpartition("="))
        if not name or not value:
            raise ValueError(f"{option} {entry!r} is not of the form NAME=VALUE, such as {example}.")
        pairs.append((name, value))
    return pairs


def parse_missing(items: Sequence[str] | None) -> dict[str, list[str]] | None:
    """Parse values that stand for missing values, by column."""
    missing: dict[str, list[str]] = {}
    for column, value in parse_pairs(items, "--missing", "chol=0"):
        missing.setdefault(column, []).append(value)
    return missing or None


def select_methods(names: str, locations: Sequence[str] | None, default: Sequence[str] = ()) -> list[Method]:
    """Return the methods of --methods and the classifiers of --with, which replace methods of the same name."""
    from ..model_selection import get_method
    from ._user_methods import load_user_method

    user_methods = {method.name: method for method in map(load_user_method, locations or [])}
    methods = [user_methods.get(name) or get_method(name) for name in (parse_names(names) if names else default) or []]
    if not methods and not user_methods:
        raise ValueError("--methods must name at least one method. --methods help lists all.")
    return list(dict.fromkeys([*methods, *user_methods.values()]))


def read_table(data: Path, request: Request, seed: int) -> Table:
    """Read the table of a command, and print the assumptions that were made."""
    from ..tables import read_survey, survey_table

    table = read_survey(survey_table(data, request(seed=seed)), seed)
    print_notices(table.notices)
    return table


@contextmanager
def open_cluster(scheduler: str | None) -> Iterator[Any]:
    """Yield a Dask client of a running scheduler; None without its address."""
    from ..utils.jobs import ClusterLostError
    from ..utils.optional_imports import optional_import

    if scheduler is None:
        yield None
        return
    distributed = optional_import("distributed", "Working on a cluster")
    # It would print the traceback of an error which the command reports itself.
    log = logging.getLogger("distributed.client")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        with distributed.Client(scheduler, timeout=CONNECT_SECONDS) as client:
            if not client.nthreads():
                text = f"The cluster at {scheduler} has no workers yet. The computation starts when they connect."
                print_notices([text])
            yield client
    except ClusterLostError as error:
        raise ConnectionError(str(error)) from error
    finally:
        log.setLevel(level)


@contextmanager
def open_store(name: str, store: Path | None) -> Iterator[Path]:
    """Yield the file of results of a study; if the study is interrupted, print how to continue it."""
    store = store or Path(f"{Path(name).stem.replace(' ', '-')}.unseen-results.sqlite")
    check_output_path(Path(f"{store}-journal"))  # which SQLite writes next to it
    with add_note(f"Completed results are stored in {store}. Run the same command again to continue."):
        yield store


def check_model_output(path: Path, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """Raise ValueError, before any computation, if a model file cannot be written or would be replaced."""
    if path == STANDARD_OUTPUT:
        raise ValueError("A model cannot be written to standard output. Pass the name of a file that ends in .unseen.")
    check_output_path(path, ".unseen", inputs=inputs)
    if path.exists() and not overwrite:
        raise ValueError(f"{path} exists. Pass --overwrite to replace it, or choose another name.")


def current_command() -> str:
    """Return the command that repeats this run."""
    return shlex.join(["unseen", *sys.argv[1:]])
