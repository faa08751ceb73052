"""Errors that list all problems of a table at once, and texts for counts and unknown columns."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import polars as pl

from ..utils.validation import format_list

MAX_SHOWN = 8  # names, values or rows listed in a message
NO_LINE_ENDS = "its header has no line ending that is recognized. Save it with line endings of Unix or Windows"
REASONS = {  # by a phrase in the message of a reader
    "(?i)utf-?8": "it is not UTF-8 text. Save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')",
    "not properly escaped": "a quotation mark is opened but never closed",
    "field limit": "its header is too long; a quotation mark may be opened but never closed",
    "more fields": "a row has more values than the header has names",
    "new_columns": NO_LINE_ENDS,
}


class TableError(ValueError):
    """A table that cannot be used.

    Parameters
    ----------
    problems : iterable of str
        The problems, one sentence each.
    source : str, default="The table"
        The file or table that has the problems.

    Attributes
    ----------
    problems : list of str
        The problems. The message has one line for each.

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
        # By default, exceptions are unpickled from their message, which here is built from the problems.
        return type(self), (self.problems, self.source)


def raise_table_error(problems: Sequence[str], source: str = "The table") -> None:
    """Raise a TableError if there are problems."""
    if problems:
        raise TableError(problems, source)


@contextmanager
def translate_read_errors(path: Any, *, all_exceptions: bool = False) -> Iterator[None]:
    """Turn exceptions of polars, or with `all_exceptions` those of any reader of files, into a TableError."""
    kinds: tuple[type[BaseException], ...] = (pl.exceptions.PanicException, pl.exceptions.PolarsError)
    if all_exceptions:
        kinds = (*kinds, Exception)
    try:
        yield
    except (ImportError, MemoryError, TableError):
        raise
    except kinds as error:
        text = str(error).strip() or type(error).__name__
        known_reasons = (reason for phrase, reason in REASONS.items() if re.search(phrase, text))
        reason = next(known_reasons, text.splitlines()[0].rstrip(".:"))
        raise TableError([f"it cannot be read: {reason}."], source=path.name) from error


_reading_process: int | None = None  # which has read tables, itself or before it was forked


def check_not_forked() -> None:
    """Raise RuntimeError in a process that was forked after tables were read, where polars would wait forever."""
    global _reading_process
    if _reading_process is None:
        _reading_process = os.getpid()
    if _reading_process != os.getpid():
        raise RuntimeError(
            "Tables cannot be read in a process that was forked after tables were read, because the threads of polars "
            "are not in it. Start processes with joblib, or with multiprocessing.get_context('spawn')."
        )


def format_count(number: int, noun: str) -> str:
    """Format a number with its noun, in the plural if needed."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def format_unknown_column(
    name: str, names: Iterable[str], subject: str = "it has no", *, candidates: Iterable[str] | None = None
) -> str:
    """Report that a column is not among the names, and suggest a similar one of the candidates, or of all names."""
    names = list(names)
    similar = find_similar_column(name, names if candidates is None else candidates)
    hint = f"the columns are {format_list(names)}." if similar is None else f"did you mean {similar!r}?"
    return f"{subject} column {name!r}: {hint}"


def find_similar_column(name: str, candidates: Iterable[str]) -> str | None:
    """Find the candidate most similar to a name, ignoring case; None if none is similar."""
    by_lower = {other.lower(): other for other in candidates}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None
