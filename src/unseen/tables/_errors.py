"""Everything that is wrong with a table, said at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..utils.validation import format_list
from ._values import import_polars

MAX_SHOWN = 8  # names, values and rows are listed up to this many
NO_LINE_ENDS = "its first line does not end where its names do. Save it again, with the line ends of Unix or Windows"
REASONS = {  # by what a reader says
    "(?i)utf-?8": "it is not UTF-8 text. Save it again as UTF-8 (in a spreadsheet: 'CSV UTF-8')",
    "not properly escaped": "a quotation mark is opened but never closed",
    "field limit": "its header has no end; perhaps a quotation mark is opened but never closed",
    "more fields": "a row has more values than the header has names",
    "new_columns": NO_LINE_ENDS,
}


class TableError(ValueError):
    """A table that cannot be used.

    Parameters
    ----------
    problems : iterable of str
        All that is wrong, a sentence for each.
    source : str, default="The table"
        What the problems were found in.

    Attributes
    ----------
    problems : list of str
        The problems, as given. The message has a line for each.

    Examples
    --------
    >>> from unseen.tables import TableError
    >>> print(TableError(["it has no column 'age'.", "it has one row."], source="new.csv"))
    new.csv cannot be used:
    - it has no column 'age'.
    - it has one row.
    """

    def __init__(self, problems: Iterable[str], source: str = "The table") -> None:
        self.problems = list(problems)
        self.source = source
        super().__init__(f"{source} cannot be used:\n" + "\n".join(f"- {problem}" for problem in self.problems))

    def __reduce__(self) -> tuple[type[TableError], tuple[list[str], str]]:
        # Exceptions are rebuilt from their message alone, which here is made from the problems.
        return type(self), (self.problems, self.source)


def raise_table_error(problems: Sequence[str], source: str = "The table") -> None:
    """Raise a TableError if there are problems."""
    if problems:
        raise TableError(problems, source)


@contextmanager
def translate_read_errors(path: Any, *, anything: bool = False) -> Iterator[None]:
    """What polars cannot do with a file, or `anything` that a reader raises on a broken one, becomes a TableError."""
    exceptions = import_polars().exceptions
    kinds = (exceptions.PanicException, Exception if anything else exceptions.PolarsError)
    try:
        yield
    except (ImportError, MemoryError, TableError):
        raise
    except kinds as error:
        text = str(error).strip() or type(error).__name__
        known = (reason for phrase, reason in REASONS.items() if re.search(phrase, text))
        reason = next(known, text.splitlines()[0].rstrip(".:"))
        raise TableError([f"it cannot be read: {reason}."], source=path.name) from error


def format_count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def format_unknown_column(
    name: str, names: Iterable[str], where: str = "it has no", *, candidates: Iterable[str] | None = None
) -> str:
    """That a column is not among the names, and which one may be meant, of the candidates or of all."""
    names = list(names)
    near = find_similar_column(name, names if candidates is None else candidates)
    hint = f"did you mean {near!r}?" if near is not None else f"the columns are {format_list(names)}."
    return f"{where} column {name!r}: {hint}"


def find_similar_column(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate whose name resembles a name most, if one does."""
    by_lower = {other.lower(): other for other in candidates}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None
