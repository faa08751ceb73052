"""How the command talks: tables, errors, exit codes (0 done, 1 the job failed, 2 bad usage or input)."""

from __future__ import annotations

import errno
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ..utils.io import atomic_write

if TYPE_CHECKING:
    from ..study import AccuracyTable, Cell

# Marks that turn the direction of what follows, also beyond the name that holds them, and two that break lines.
DIRECTION_CHARACTERS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
ESCAPED_DIRECTION = {code: f"\\u{code:04x}" for code in DIRECTION_CHARACTERS}
CONTROL_CHARACTERS = (
    dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "\ufffd") | ESCAPED_DIRECTION
)  # but tab and newline


def escape_controls(text: str) -> str:
    """Text of files and tables without what a terminal would obey."""
    return text.translate(CONTROL_CHARACTERS)


class Terminal(Console):
    """Prints names and messages as they are: brackets in them are no markup, escape sequences no commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Cells of tables and lines of text all come through here."""
        return super().render_str(escape_controls(text), **options)


error_console = Terminal(stderr=True, soft_wrap=True)
PARAMETER = re.compile(r"the parameter (\w+)")  # how notes of the library name one
PIPE_WIDTH = 240  # columns of a table that goes into a file or a pipe


def make_console() -> Terminal:
    """Standard output, as wide as it is."""
    return Terminal(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def make_table(names: Iterable[str], figures: Iterable[str], title: str | None = None) -> RichTable:
    """An empty table with columns of names, and of figures to the right of them."""
    table = RichTable(title=title, title_justify="left", header_style="bold")
    for name in names:
        table.add_column(escape_controls(name))
    for name in figures:
        table.add_column(escape_controls(name), justify="right")
    return table


def select_fitting_columns(columns: Mapping[Any, Sequence[str | Text]], width: int, needed: int) -> list[Any]:
    """The first columns for which a table has room, but as many as are needed at least."""
    widths = [3 + max(Text.assemble(cell).cell_len for cell in cells) for cells in columns.values()]  # edge and spaces
    used = list(accumulate(widths, initial=1))[1:]
    return [name for i, (name, total) in enumerate(zip(columns, used, strict=True)) if i < needed or total <= width]


def shorten(name: str, most: int) -> str:
    """A name that is not too wide: what is too much is taken out of its middle, since names tend to begin alike."""
    text = escape_controls(name)
    if cell_len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{set_cell_size(text, most - 1 - half)}…{set_cell_size(text[::-1], half)[::-1]}"


@contextmanager
def translate_errors(resume: str = "") -> Iterator[None]:
    """Turn exceptions that a user can act on into a message and an exit code, and warnings into notices, each once."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                print_notices(dict.fromkeys(str(warning.message) for warning in caught))
    except KeyboardInterrupt:
        error_console.print(f"Stopped. {resume}".strip())
        raise typer.Exit(1) from None
    except (ValueError, TypeError, ImportError, FileNotFoundError, NotADirectoryError) as error:
        error_console.print(Text.assemble(("Error: ", "bold red"), escape_controls(str(error))))
        raise typer.Exit(2) from None
    except (BrokenProcessPool, OSError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        if isinstance(error, BrokenProcessPool):
            reason = "A process died: it was killed, or memory ran out. Try --jobs 1 or --max-per-domain."
        elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
            reason = f"The disk is full: {error.filename or 'a file'} cannot be written. Make room on it."
        error_console.print(Text.assemble(("Failed: ", "bold red"), escape_controls(f"{reason} {resume}".strip())))
        raise typer.Exit(1) from None


def print_notices(lines: Iterable[str]) -> None:
    """Say what was assumed or left out; parameters of the library are options here."""
    for line in lines:
        options = PARAMETER.sub(lambda match: f"--{match[1].replace('_', '-')}", line)
        error_console.print(Text.assemble(("Note: ", "bold"), escape_controls(options)))


def print_result(facts: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], None]) -> None:
    """Print results for people, or as JSON in which characters that a terminal would obey are escaped.

    In JSON, characters that the encoding of standard output lacks are escaped as well, so that nothing is lost.
    """
    if not as_json:
        show(facts)
        return
    controls = {
        code: f"\\u{code:04x}" for code in range(127, 160)
    } | ESCAPED_DIRECTION  # json leaves DEL and so on as they are
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    typer.echo(json.dumps(facts, ensure_ascii=not is_unicode, allow_nan=False).translate(controls))


def show_table(table: AccuracyTable, title: str) -> None:
    """Print a table like the paper's: best in bold, the printed figure in gray, transductive entries starred."""
    from ..study import summary_lines

    console = make_console()
    rich = make_table(["task"], table.methods, title)
    for task in table.tasks:
        rich.add_row(task, *(_format_cell(table.cells[task, method]) for method in table.methods))
    rich.add_section()
    for name, values in summary_lines(table):
        rich.add_row(name, *values)
    console.print(rich)
    if any(cell.transductive for cell in table.cells.values()):
        console.print("* transductive: centered on unlabeled target data", style="dim")
    if any(cell.published is not None for cell in table.cells.values()):
        console.print(f"gray: {table.printed}", style="dim")
    failures = {m: f"{c.word}: {c.failed}" for (_, m), c in table.cells.items() if c.failed}
    for method, reason in failures.items():
        console.print(f"{method} {reason}", style="red")


def _format_cell(cell: Cell) -> Text:
    if cell.repeats == 0:
        return Text(cell.word, style="red")
    accuracy = f"{cell.mean:.1f} ±{cell.sd:.1f}" if cell.repeats > 1 else f"{cell.mean:.2f}"  # papers print two digits
    text = Text(f"{accuracy}{'*' if cell.transductive else ''}", style="bold" if cell.best else "")
    if cell.published is not None:
        text.append(f"\n{cell.published:.1f}", style="bright_black")
    return text


def show_columns(uses: list[dict[str, Any]], wanted: bool = True) -> None:
    """Print how every column of a table was used."""
    from ..report import describe_columns

    if wanted:
        table = make_table(["column", "use"], [])
        for name, use in describe_columns(uses):
            table.add_row(name, use)
        make_console().print(table)


def write_text(text: str, path: Path | None) -> None:
    """Write to a file, whole or not at all, or print."""
    if path is None:
        typer.echo(escape_controls(text) if sys.stdout.isatty() else text, nl=False)
        return
    with atomic_write(path) as file:
        file.write_text(text, encoding="utf-8")
    error_console.print(f"Wrote {path}")


def save_figure(figure: Any, path: Path) -> None:
    """Write a picture to a file, whole or not at all."""
    with atomic_write(path) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a name that the font cannot write is drawn as boxes
        figure.savefig(file, dpi=150, format=path.suffix[1:].lower())
    error_console.print(f"Wrote {path}")
