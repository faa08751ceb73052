"""Output of the commands: results on standard output; notes, progress and errors on standard error; exit codes.

The exit code is 0 for success, 1 for a failure, 2 for invalid usage or input, and 130 for an interrupt by Ctrl-C.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from itertools import accumulate
from pathlib import Path
from typing import Any

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ..exceptions import DataWarning, ParameterError
from ..utils.io import atomic_write, escape_controls

Cell = str | Text
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


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text to standard output, without control characters, and without breaking them."""
    for line in lines:
        typer.echo(escape_controls(line))


def make_console() -> Terminal:
    """Return a console for standard output, as wide as the terminal, or as COLUMNS."""
    return Terminal(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH)


def print_table(
    header: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    title: str = "",
    *,
    n_text: int = 1,
    total: Iterable[Sequence[Cell]] = (),
) -> int:
    """Print a table as wide as the terminal, and return the number of columns that fit.

    The first `n_text` columns are left-aligned and always shown; numbers follow, of which those at the end are left
    out if they do not fit. Rows of `total` are separated from the others.
    """
    console = make_console()
    groups = [list(rows), list(total)]
    all_rows = [[escape_controls(name) for name in header], *groups[0], *groups[1]]
    widths = [3 + max(Text.assemble(cell).cell_len for cell in column) for column in zip(*all_rows, strict=True)]
    totals = accumulate(widths, initial=1)  # an edge; each column has another edge and two spaces
    n_shown = max(n_text + 1, sum(width <= console.width for width in totals) - 1)
    table = RichTable(title=title or None, title_justify="left", header_style="bold")
    for i, name in enumerate(all_rows[0][:n_shown]):
        table.add_column(name, justify="left" if i < n_text else "right")
    for group in groups:
        for row in group:
            table.add_row(*row[:n_shown])
        table.add_section()
    console.print(table)
    return min(n_shown, len(header))


def shorten(name: str, max_width: int) -> str:
    """Shorten a name by cutting out its middle, since names often have a common prefix."""
    text = escape_controls(name)
    if cell_len(text) <= max_width:
        return text
    half = (max_width - 1) // 2
    return f"{set_cell_size(text, max_width - 1 - half)}…{set_cell_size(text[::-1], half)[::-1]}"


@contextmanager
def add_note(note: str) -> Iterator[None]:
    """Print a note, such as how to continue, after the message of an error or an interrupt."""
    try:
        yield
    except BaseException as error:
        error.add_note(note)
        raise


@contextmanager
def translate_errors() -> Iterator[None]:
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
    except KeyboardInterrupt as error:
        error_console.print(" ".join(["Interrupted.", *_notes(error)]))
        raise typer.Exit(INTERRUPT_EXIT_CODE) from None
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
        text = " ".join([reason, *_notes(error)])
        error_console.print(Text.assemble(("Failed: ", "bold red"), escape_controls(text)))
        raise typer.Exit(1) from None


def _describe_missing_file(error: FileNotFoundError) -> str:
    """Return a sentence for the error of the operating system, with a file of a similar name; other errors have one."""
    if error.filename is None:
        return str(error)
    path = Path(error.filename)
    similar = get_close_matches(path.name, os.listdir(path.parent) if path.parent.is_dir() else [], n=1)
    hint = f"Did you mean {similar[0]!r}?" if similar else "Check its name and folder."
    return f"The file {path} does not exist. {hint}"


@contextmanager
def exit_on_closed_output() -> Iterator[None]:
    """Exit without a message if the program that reads standard output, such as head, has ended."""
    try:
        yield
    except BrokenPipeError:
        # Python writes what remains when it exits, and would print another error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None


def _notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def describe_error(error: Exception) -> str:
    """Return the message of an error, which names the option of the parameter at fault."""
    if not isinstance(error, ParameterError):
        return name_options(str(error))
    name = {"preprocess": "scale"}.get(error.parameter, error.parameter)  # the only option of another name
    option = f"--{name.replace('_', '-')}"
    return f"{option}{error.message.removeprefix(error.parameter)}"


def name_options(text: str) -> str:
    """Name the options of the command line instead of parameters of Python."""
    return re.sub(r"\bthe\s+parameter\s+(\w+)", lambda match: f"--{match[1].replace('_', '-')}", text)


def print_notices(lines: Iterable[str]) -> None:
    """Print assumptions and omissions to standard error."""
    for line in lines:
        message_console.print(Text.assemble(("Note: ", "bold"), escape_controls(name_options(line))))


def print_result(
    result: dict[str, Any] | Callable[[], dict[str, Any]],
    show: Callable[[Any], None],
    output: Path = STANDARD_OUTPUT,
    format: str | None = None,
    table: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Print a result with `show`, or as JSON, or its table as CSV; or write it to a file.

    Without a format, that of the suffix of the file is used, or text. A function that computes the result is called
    for JSON alone.
    """
    format = format or FORMAT_BY_SUFFIX.get(output.suffix.lower(), "txt")
    if format == "txt" and output == STANDARD_OUTPUT:
        with exit_on_closed_output():
            show(result)
        return
    text = io.StringIO()
    if format == "json":
        # On standard output all characters are escaped that a terminal might interpret, or that its encoding lacks.
        content = result() if callable(result) else result
        json.dump(content, text, ensure_ascii=output == STANDARD_OUTPUT, allow_nan=False)
        text.write("\n")
    elif format == "csv":
        if table is None:
            raise ValueError("This result is not a table, and cannot be written as CSV. Use --format json.")
        writer = csv.DictWriter(text, fieldnames=list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    else:
        with redirect_stdout(text):
            show(result)
    write_text(text.getvalue(), output)


def show_columns(uses: list[dict[str, Any]]) -> None:
    """Print the use of every column of a table."""
    from ..report import describe_columns

    print_table(["column", "use"], describe_columns(uses), n_text=2)


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
