"""Output of the commands: results on standard output; notes, progress and errors on standard error; exit codes.

The exit code is 0 for success, 1 for a failure, 2 for invalid usage or input, and 130 for an interrupt by Ctrl-C.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ..exceptions import DataWarning, ParameterError
from ..utils.io import ESCAPED_DIRECTION, atomic_write, escape_controls

STANDARD_OUTPUT = Path("-")
FORMAT_BY_SUFFIX = {".csv": "csv", ".json": "json"}
INTERRUPT_EXIT_CODE = 130  # 128 + SIGINT, as a shell reports it
PIPE_WIDTH = 240  # columns of a table that is written to a file or a pipe


class Terminal(Console):
    """A console that prints names and messages literally, without markup and without escape sequences."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False, width: int | None = None) -> None:
        super().__init__(markup=False, highlight=False, stderr=stderr, soft_wrap=soft_wrap, width=width)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a cell of a table or a line of text without control characters."""
        return super().render_str(escape_controls(text), **options)


error_console = Terminal(stderr=True, soft_wrap=True)
message_console = Terminal(stderr=True, soft_wrap=True)  # for notes and progress, which --quiet suppresses


def set_quiet(quiet: bool) -> bool:
    """Suppress notes and progress, or print them; the callback of --quiet, which every command has."""
    message_console.quiet = quiet
    return quiet


def make_console() -> Terminal:
    """Return a console for standard output, as wide as the terminal, or as COLUMNS."""
    return Terminal(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH)


def make_table(text_columns: Iterable[str], number_columns: Iterable[str], title: str | None = None) -> RichTable:
    """Make an empty table with left-aligned text columns, followed by right-aligned number columns."""
    table = RichTable(title=title, title_justify="left", header_style="bold")
    for name in text_columns:
        table.add_column(escape_controls(name))
    for name in number_columns:
        table.add_column(escape_controls(name), justify="right")
    return table


def select_fitting_columns(columns: Mapping[Any, Sequence[str | Text]], width: int, n_required: int) -> list[Any]:
    """Return the first columns that fit into the width, but at least `n_required`."""
    n_extra = 3  # characters of a column besides its text: an edge and two spaces
    widths = [n_extra + max(Text.assemble(cell).cell_len for cell in cells) for cells in columns.values()]
    totals = list(accumulate(widths, initial=1))[1:]
    return [
        name for i, (name, total) in enumerate(zip(columns, totals, strict=True)) if i < n_required or total <= width
    ]


def shorten(name: str, max_width: int) -> str:
    """Shorten a name by cutting out its middle, since names often have a common prefix."""
    text = escape_controls(name)
    if cell_len(text) <= max_width:
        return text
    half = (max_width - 1) // 2
    return f"{set_cell_size(text, max_width - 1 - half)}…{set_cell_size(text[::-1], half)[::-1]}"


@contextmanager
def translate_errors(resume: str = "") -> Iterator[None]:
    """Turn exceptions that a user can act on into a message and an exit code, and print each warning once.

    Warnings about the data are printed at once, others at the end.
    """
    later: list[str] = []
    shown: set[str] = set()

    def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = str(message)
        if text in shown:
            return
        shown.add(text)
        if issubclass(category, DataWarning):
            print_notices([text])
        else:
            later.append(text)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show_warning
            try:
                yield
            finally:
                print_notices(later)
    except KeyboardInterrupt:
        exit_on_interrupt(resume)
    except (ValueError, TypeError, ImportError, FileNotFoundError, NotADirectoryError) as error:
        reason = _describe_missing_file(error) if isinstance(error, FileNotFoundError) else describe_error(error)
        error_console.print(Text.assemble(("Error: ", "bold red"), escape_controls(reason)))
        raise typer.Exit(2) from None
    except (BrokenProcessPool, OSError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        if isinstance(error, BrokenProcessPool):
            reason = "A process died: it was killed, or memory ran out. Use --jobs 1 or --max-per-domain."
        elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
            reason = f"The disk is full: {error.filename or 'a file'} cannot be written. Free some space on it."
        text = f"{reason} {resume}".strip()
        error_console.print(Text.assemble(("Failed: ", "bold red"), escape_controls(text)))
        raise typer.Exit(1) from None


def _describe_missing_file(error: FileNotFoundError) -> str:
    """Return a sentence for the error of the operating system, with a file of a similar name; other errors have one."""
    if not isinstance(error.filename, str | os.PathLike):
        return str(error)
    path = Path(error.filename)
    siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    similar = get_close_matches(path.name, siblings, n=1)
    hint = f" Did you mean {similar[0]!r}?" if similar else " Check its name and folder."
    return f"The file {path} does not exist.{hint}"


@contextmanager
def exit_on_closed_output() -> Iterator[None]:
    """Exit without a message if the program that reads standard output, such as head, has ended."""
    try:
        yield
    except BrokenPipeError:
        # Python writes what remains when it exits, and would print another error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None


def exit_on_interrupt(resume: str = "") -> NoReturn:
    """Print that the command was interrupted, and what remains of its work, and exit."""
    error_console.print(f"Interrupted. {resume}".strip())
    raise typer.Exit(INTERRUPT_EXIT_CODE) from None


def describe_error(error: Exception) -> str:
    """Return the message of an error, which names the option of the parameter at fault."""
    if not isinstance(error, ParameterError):
        return str(error)
    name = {"preprocess": "scale"}.get(error.parameter, error.parameter)  # the only option of another name
    option = f"--{name.replace('_', '-')}"
    return f"{option}{error.message.removeprefix(error.parameter)}"


def print_notices(lines: Iterable[str]) -> None:
    """Print assumptions and omissions to standard error."""
    for line in lines:
        message_console.print(Text.assemble(("Note: ", "bold"), escape_controls(line)))


def select_format(format: str | None, output: Path = STANDARD_OUTPUT) -> str:
    """Return the format of a result: the given one, or that of the suffix of the output file, or text."""
    return format or FORMAT_BY_SUFFIX.get(output.suffix.lower(), "txt")


def print_result(
    result: dict[str, Any],
    show: Callable[[dict[str, Any]], None],
    format: str = "txt",
    output: Path = STANDARD_OUTPUT,
    table: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Print a result with `show`, or as JSON, or its table as CSV; or write it to a file."""
    if format == "json":
        write_text(_format_json(result, output), output)
    elif format == "csv":
        write_text(_format_csv(table), output)
    elif output == STANDARD_OUTPUT:
        with exit_on_closed_output():
            show(result)
    else:
        text = io.StringIO()
        with redirect_stdout(text):
            show(result)
        write_text(text.getvalue(), output)


def _format_json(result: dict[str, Any], output: Path) -> str:
    """Return JSON in which control characters are escaped.

    Characters that the encoding of standard output lacks are escaped as well, so that nothing is lost.
    """
    # json.dumps does not escape DEL and the control characters after it.
    escapes = {code: f"\\u{code:04x}" for code in range(127, 160)} | ESCAPED_DIRECTION
    is_unicode = output != STANDARD_OUTPUT or (sys.stdout.encoding or "").lower().startswith("utf")
    return json.dumps(result, ensure_ascii=not is_unicode, allow_nan=False).translate(escapes) + "\n"


def _format_csv(table: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def show_columns(uses: list[dict[str, Any]]) -> None:
    """Print the use of every column of a table."""
    from ..report import describe_columns

    table = make_table(["column", "use"], [])
    for name, use in describe_columns(uses):
        table.add_row(name, use)
    make_console().print(table)


def write_text(text: str, path: Path = STANDARD_OUTPUT) -> None:
    """Print a text, or write it atomically to a file."""
    if path == STANDARD_OUTPUT:
        with exit_on_closed_output():
            typer.echo(escape_controls(text) if sys.stdout.isatty() else text, nl=False)
        return
    with atomic_write(path) as file:
        file.write_text(text, encoding="utf-8")
    message_console.print(f"Wrote {path}")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure atomically to a file."""
    with atomic_write(path) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # characters that the font lacks are drawn as boxes
        figure.savefig(file, dpi=150, format=path.suffix[1:].lower())
    message_console.print(f"Wrote {path}")
