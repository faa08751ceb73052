"""Whether the pages of a Parquet file make sense: for others polars would ask for room that no machine has, and abort.

The format is laid out in https://parquet.apache.org/docs/file-format/, in structures of Thrift's compact protocol.
"""

from __future__ import annotations

import functools
import mmap
import os
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..files import ALWAYS, MOST_FOLD, check_inflation

Wanted = Mapping[int, Any]  # fields of a structure, each with those of the structures that it holds
PARQUET = b"PAR1"
ROW_GROUPS = 4  # of the footer
COLUMNS, ROWS = 1, 3  # of a row group
ELSEWHERE, METADATA, ENCRYPTED = 1, 3, 8  # of a column in a row group
VALUES, STORED, DATA, DICTIONARY = 5, 7, 9, 11  # of these metadata: how many, bytes, and where they begin
GROUP: Wanted = {
    ROWS: {},
    COLUMNS: {ELSEWHERE: {}, ENCRYPTED: {}, METADATA: {VALUES: {}, STORED: {}, DATA: {}, DICTIONARY: {}}},
}
TYPE, INFLATED, DEFLATED = 1, 2, 3  # of the header of a page; bytes before and after compression
OF_DICTIONARY = 2  # type of a page
ABOUT = {0: 5, OF_DICTIONARY: 7, 3: 8}  # by the type, the field of the header whose first field counts the values
PAGE: Wanted = {TYPE: {}, INFLATED: {}, DEFLATED: {}} | {number: {1: {}} for number in ABOUT.values()}
YES, NO, BYTE, SHORT, INT, LONG, DOUBLE, STRING, LIST, SET, _, STRUCT = range(1, 13)  # types of the protocol
DEEPEST = 32  # structures and lists inside each other; footers have some six


def check_parquet_sizes(path: Path) -> None:
    """Raise ValueError if pages of a file become too large, or if they say that they hold endless values."""
    known = path.stat()
    identity = known.st_dev, known.st_ino, known.st_ctime_ns, known.st_mtime_ns, known.st_size
    problem = _damage(os.fspath(path.absolute()), identity)
    if problem is not None:
        raise ValueError(problem)


@functools.lru_cache(maxsize=1024)  # a file is opened several times in one job
def _damage(path: str, identity: tuple[int, ...]) -> str | None:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if len(content) < 12 or content[:4] != PARQUET or content[-4:] != PARQUET:
            return None  # not such a file, or one that is encrypted: that is for the reader to say
        try:
            _walk(content)
        except ValueError as error:
            return str(error)
        except (IndexError, KeyError, TypeError, AttributeError):  # what is not where, or what, it should be
            return "it is damaged: a part of it is missing"
    return None


def _walk(content: mmap.mmap) -> None:
    size, length = len(content), int.from_bytes(content[-8:-4], "little")
    if length > size - 12:
        raise ValueError("it is damaged: its footer is longer than it is")
    most = 8 * max(ALWAYS, MOST_FOLD * size)  # a value is a bit at least
    rows = stored = read = 0
    for group in _row_groups(_Reader(content[size - 8 - length : size - 8])):
        _check_count(group[ROWS], most)
        rows += group[ROWS]
        _check_count(rows, most)
        for column in group[COLUMNS]:
            if ELSEWHERE in column:
                raise ValueError("its data lie in another file: give the files that hold them")
            if ENCRYPTED in column:  # with pages that nobody can look into without a key
                continue
            about = column[METADATA]
            _check_count(about[VALUES], most)
            _check_count(about[STORED], size, "bytes")
            stored += about[STORED]
            for page, length in _pages_of(content, about):
                read += length
                check_inflation(page[INFLATED], size, "write it without compression.")  # one is unpacked at a time
                if page[TYPE] in ABOUT:
                    held = page[INFLATED] if page[TYPE] == OF_DICTIONARY else about[VALUES]
                    _check_count(page[ABOUT[page[TYPE]]][1], held)
            if max(stored, read) > size:  # columns that share their bytes would take long
                raise ValueError("it is damaged: its columns are longer than it is")


def _check_count(count: int, most: int, what: str = "values") -> None:
    if not 0 <= count <= most:
        raise ValueError(f"it is damaged: a part of it cannot have {count:,} {what}")


def _row_groups(reader: _Reader) -> Iterator[dict[int, Any]]:
    """One after another: a table of many columns in many groups has millions of parts."""
    for number, kind in reader.fields():
        if number == ROW_GROUPS and kind == LIST:
            for held in reader.entries():
                yield reader.value(held, GROUP)
        else:
            reader.value(kind, {})


def _pages_of(content: mmap.mmap, about: dict[int, Any]) -> Iterator[tuple[dict[int, Any], int]]:
    """The headers of the pages of a column, and how long each of them is."""
    reader = _Reader(content)
    reader.skip(min((about[name] for name in (DATA, DICTIONARY) if about.get(name)), default=0))
    end = reader.at + about[STORED]
    while (start := reader.at) < end:
        page = reader.struct(PAGE)
        length = reader.at - start
        _check_count(page[INFLATED], 2**31, "bytes")
        reader.skip(page[DEFLATED])
        yield page, length


class _Reader:
    """Reads structures, each as a dict of the numbers and structures wanted of it; all else is passed over."""

    def __init__(self, content: bytes | mmap.mmap) -> None:
        self.content, self.at = content, 0

    def skip(self, length: int) -> None:
        _check_count(length, len(self.content) - self.at, "bytes")
        self.at += length

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a structure; whoever is told reads its value."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            yield number, head & 15

    def entries(self) -> Iterator[int]:
        """The type of each entry of a list; whoever is told reads it."""
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._unsigned()
        for _ in range(count):
            yield head & 15

    def struct(self, wanted: Wanted, depth: int = 0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for number, kind in self.fields():
            value = None if kind in (YES, NO) else self.value(kind, wanted.get(number, {}), depth)
            if number in wanted:
                found[number] = value
        return found

    def value(self, kind: int, wanted: Wanted, depth: int = 0) -> Any:
        if kind in (SHORT, INT, LONG):
            return self._signed()
        if kind in (STRING, DOUBLE):
            return self.skip(8 if kind == DOUBLE else self._unsigned())
        if depth > DEEPEST:
            raise ValueError("it is damaged: its footer has no end")
        if kind == STRUCT:
            return self.struct(wanted, depth + 1)
        if kind in (LIST, SET):
            values = (self.value(held, wanted, depth + 1) for held in self.entries())
            return list(values) if wanted else deque(values, maxlen=0)
        if kind in (YES, NO, BYTE):  # outside of a structure, a truth has a byte of its own
            return self._byte()
        raise ValueError(f"it is damaged: a part of it is of an unknown type, {kind}")  # there are no maps in Parquet

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _unsigned(self) -> int:
        byte = self._byte()
        number, shift = byte & 127, 7
        while byte & 128:
            if shift > 63:
                raise ValueError("it is damaged: a number in it has no end")
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
        return number

    def _byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]
