"""Files that sites exchange: JSON that a person can read, written atomically and checked when it is read.

The files of other sites are untrusted. `Record` is the only way to read a value from one: every value has its type and
range checked, and every error names the file and the field.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..linalg import Array, Ints
from ..utils.io import atomic_write, check_output_path, escape_controls, is_special_file

VERSION = 1  # of all formats of this package
MAX_BYTES = 2**26  # of a file: 300 random features of 30 classes take 4 MB
MAX_TEXT = 200  # characters of a name
MAX_ENTRIES = 10_000  # of a list
MAX_COUNT = 10**12
MAX_NUMBER = 1e30  # features of a plan are standardized; squares of larger numbers could overflow
MAX_SHOWN = 60  # characters of a value in an error message


class ExchangeError(ValueError):
    """A file of a study, or the data of a site, that cannot be used; the message names the file.

    Examples
    --------
    >>> from unseen.exchange import ExchangeError, load_plan
    >>> try:
    ...     load_plan("missing.toml")
    ... except ExchangeError as error:
    ...     print(error)
    missing.toml: the file does not exist.
    """

    def __init__(self, message: str) -> None:
        super().__init__(escape_controls(message))  # it may contain texts of the file


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a text file of limited size."""
    path = Path(path)
    try:
        if is_special_file(path) or path.is_dir():
            raise ExchangeError(f"{path}: not a file.")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ExchangeError(f"{path}: has {size:,} bytes; at most {MAX_BYTES:,} are read.")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ExchangeError(f"{path}: the file does not exist.") from None
    except UnicodeDecodeError as error:
        raise ExchangeError(f"{path}: not a text file ({error.reason}).") from error


def read_record(path: str | os.PathLike[str], kind: str) -> Record:
    """Read a JSON file of a kind, such as "statistics"; the values of the record are checked when they are used."""

    def reject(constant: str) -> Any:
        raise ValueError(f"{constant} is not a number")

    text = read_text(path)
    try:
        content = json.loads(text, parse_constant=reject)
    except (ValueError, RecursionError) as error:
        raise ExchangeError(f"{path}: damaged or cut off ({error}). Send it again.") from error
    record = Record(content, str(path))
    if record.text("format") != f"unseen {kind}":
        raise ExchangeError(f"{path}: holds {record.text('format')!r}; a file with 'unseen {kind}' is needed here.")
    if record.count("version") != VERSION:
        raise ExchangeError(
            f"{path}: has version {record.count('version')} of the format; unseen {__version__} reads {VERSION}."
        )
    return record


def write_record(path: str | os.PathLike[str], kind: str, content: Mapping[str, Any]) -> None:
    """Write a JSON file, with short lists of numbers in one line each."""
    path = Path(path)
    check_output_path(path, ".json")
    text = json.dumps({"format": f"unseen {kind}", "version": VERSION, **content}, indent=1, allow_nan=False)
    text = re.sub(r"\[[^\[\]{}\"]*\]", lambda numbers: re.sub(r"\s+", " ", numbers[0]), text)
    with atomic_write(path) as file:
        file.write_text(text + "\n", encoding="utf-8")


class Record:
    """A dictionary of unknown origin; its methods return checked values, or raise ExchangeError.

    Parameters
    ----------
    content : object
        The content.
    source : str
        Name of the file.
    path : str, default=""
        Where the dictionary is in the file.
    """

    def __init__(self, content: Any, source: str, path: str = "") -> None:
        self.source = source
        self.path = path
        self.content = content
        if type(content) is not dict:
            self.fail("", "a dictionary is expected", content)

    def fail(self, key: str, reason: str, *values: Any) -> Any:
        """Raise ExchangeError about a field."""
        field = "/".join(filter(None, (self.path, key))) or "the content"
        shown = [repr(value) if len(repr(value)) <= MAX_SHOWN else type(value).__name__ for value in values]
        raise ExchangeError(f"{self.source}: {' = '.join([field, *shown])}: {reason}.")

    def value(self, key: str) -> Any:
        """Return a value of any type; raise if there is none."""
        if key not in self.content:
            self.fail(key, "is missing")
        return self.content[key]

    def check_keys(self, allowed: Mapping[str, Any] | set[str]) -> None:
        """Raise for a key that is not allowed, such as a misspelled one."""
        for key in self.content:
            if key not in allowed:
                self.fail(str(key), f"is not known. Use {', '.join(sorted(allowed))}")

    def text(self, key: str) -> str:
        """Return a short text, which is not empty."""
        value = self.value(key)
        if type(value) is not str or not 0 < len(value) <= MAX_TEXT or not value.isprintable():
            self.fail(key, f"a text of 1 to {MAX_TEXT} printable characters is expected", value)
        return str(value)

    def count(self, key: str, low: int = 0, high: int = MAX_COUNT) -> int:
        """Return a whole number."""
        value = self.value(key)
        if type(value) is not int or not low <= value <= high:
            self.fail(key, f"a whole number from {low} to {high} is expected", value)
        return int(value)

    def number(self, key: str, low: float = -MAX_NUMBER, high: float = MAX_NUMBER) -> float:
        """Return a finite number."""
        value = self.value(key)
        if type(value) not in (int, float) or not low <= value <= high:
            self.fail(key, f"a number from {low:g} to {high:g} is expected", value)
        return float(value)

    def optional_number(self, key: str, low: float = -MAX_NUMBER, high: float = MAX_NUMBER) -> float:
        """Return a finite number, or NaN for null."""
        return math.nan if self.value(key) is None else self.number(key, low, high)

    def entries(self, key: str) -> list[Any]:
        """Return a list."""
        value = self.value(key)
        if type(value) is not list or len(value) > MAX_ENTRIES:
            self.fail(key, f"a list of at most {MAX_ENTRIES:,} entries is expected")
        return list(value)

    def texts(self, key: str) -> list[str]:
        """Return a list of different short texts."""
        values = self.entries(key)
        own = Record({str(i): value for i, value in enumerate(values)}, self.source, f"{self.path}/{key}".strip("/"))
        texts = [own.text(str(i)) for i in range(len(values))]
        if len(set(texts)) < len(texts):
            self.fail(key, "names a value twice", values)
        return texts

    def record(self, key: str) -> Record:
        """Return a dictionary."""
        return Record(self.value(key), self.source, f"{self.path}/{key}".strip("/"))

    def records(self, key: str) -> Iterator[Record]:
        """Iterate over a list of dictionaries."""
        for i, value in enumerate(self.entries(key)):
            yield Record(value, self.source, f"{self.path}/{key}/{i}".strip("/"))

    def array(self, key: str, *shape: int) -> Array:
        """Return finite numbers in nested lists of a shape."""
        value = self.value(key)
        try:
            array = np.array(value, dtype=object)
            is_number = array.shape == shape and all(type(entry) in (int, float) for entry in array.ravel().tolist())
            numbers = array.astype(np.float64) if is_number else np.full(1, np.nan)
        except (ValueError, OverflowError):  # lists of different lengths; a whole number beyond all limits
            numbers = np.full(1, np.nan)
        if numbers.size and not np.abs(numbers).max() <= MAX_NUMBER:  # False for NaN
            self.fail(key, f"finite numbers in the shape {shape} are expected")
        return numbers.reshape(shape)

    def counts(self, key: str, n: int) -> Ints:
        """Return a list of whole numbers of 0 or more."""
        values = self.entries(key)
        if len(values) != n or not all(type(value) is int and 0 <= value <= MAX_COUNT for value in values):
            self.fail(key, f"{n} whole numbers of 0 or more are expected", values)
        return np.array(values, dtype=np.intp)

    def symmetric(self, key: str, n: int) -> Array:
        """Return a positive semi-definite matrix, of which the file holds the lower triangle row by row."""
        numbers = self.array(key, n * (n + 1) // 2)
        matrix = np.zeros((n, n))
        matrix[np.tril_indices(n)] = numbers
        matrix += np.tril(matrix, -1).T
        values = np.linalg.eigvalsh(matrix)
        if len(values) and values[0] < -1e-9 * max(values[-1], 1e-30):
            self.fail(key, "is not the scatter of any rows, since it has a negative eigenvalue")
        return matrix


def lower_triangle(matrix: Array) -> list[float]:
    """Return the numbers that `Record.symmetric` reads."""
    triangle: list[float] = matrix[np.tril_indices(len(matrix))].tolist()
    return triangle


def check_different_sites(files: Iterable[tuple[str, str]]) -> None:
    """Raise if two files, given by their site and their name, are of the same site."""
    names: dict[str, str] = {}
    for site, source in files:
        if site in names:
            raise ExchangeError(f"{source}: is of the site {site!r}, as {names[site]} is. Use one of them.")
        names[site] = source
