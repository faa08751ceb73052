"""Whether the pages of a Parquet file make sense: for others polars would ask for room that no machine has, and abort.

The format is laid out in https://parquet.apache.org/docs/file-format/, in structures of Thrift's compact protocol.
"""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..files import ALWAYS, MOST_FOLD, check_inflation

PARQUET = b"PAR1"
ROW_GROUPS = 4  # of the footer
COLUMNS, ROWS = 1, 3  # of a row group
METADATA = 3  # of a column in a row group
VALUES, STORED, DATA, DICTIONARY = 5, 7, 9, 11  # of these metadata: how many, bytes, and where they begin
TYPE, INFLATED, DEFLATED = 1, 2, 3  # of the header of a page; bytes before and after compression
OF_DICTIONARY = 2  # type of a page
ABOUT = {0: 5, OF_DICTIONARY: 7, 3: 8}  # by the type, the field of the header whose first field counts the values
YES, NO, BYTE, SHORT, INT, LONG, DOUBLE, STRING, LIST, SET, _, STRUCT = range(1, 13)  # types of the protocol
DEEPEST = 32  # structures inside each other; footers have some six


def check_parquet_sizes(path: Path) -> None:
    """Raise ValueError if pages of a file become too large, or if they say that they hold endless values."""
    known = path.stat()
    problem = _damage(os.fspath(path.absolute()), known.st_mtime_ns, known.st_size)
    if problem is not None:
        raise ValueError(problem)


@functools.lru_cache(maxsize=1024)  # a file is opened several times in one job
def _damage(path: str, _mtime: int, size: int) -> str | None:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if size < 12 or content[:4] != PARQUET or content[-4:] != PARQUET:
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
    stored = 0
    for group in _Reader(content, size - 8 - length).struct().get(ROW_GROUPS, []):
        _check_count(group[ROWS], most)
        for column in group[COLUMNS]:
            about = column[METADATA]
            _check_count(about[VALUES], most)
            _check_count(about[STORED], size, "bytes")
            stored += about[STORED]
            if stored > size:  # columns that share their bytes would take long
                raise ValueError("it is damaged: its columns are longer than it is")
            for page in _page_headers(content, about):
                check_inflation(page[INFLATED], size, "write it without compression.")  # one is unpacked at a time
                if page[TYPE] in ABOUT:
                    held = page[INFLATED] if page[TYPE] == OF_DICTIONARY else about[VALUES]
                    _check_count(page[ABOUT[page[TYPE]]][1], held)


def _check_count(count: int, most: int, what: str = "values") -> None:
    if not 0 <= count <= most:
        raise ValueError(f"it is damaged: a part of it cannot have {count:,} {what}")


def _page_headers(content: mmap.mmap, about: dict[int, Any]) -> Iterator[dict[int, Any]]:
    """The headers of the pages of a column."""
    reader = _Reader(content, min((about[name] for name in (DATA, DICTIONARY) if about.get(name)), default=0))
    end = reader.at + about[STORED]
    while reader.at < end:
        page = reader.struct()
        _check_count(page[INFLATED], 2**31, "bytes")
        reader.skip(page[DEFLATED])
        yield page


class _Reader:
    """Reads structures from a place on, each as a dict of what its fields hold; texts and fractions are passed over."""

    def __init__(self, content: mmap.mmap, at: int) -> None:
        self.content, self.at = content, 0
        self.skip(at)

    def skip(self, length: int) -> None:
        _check_count(length, len(self.content) - self.at, "bytes")
        self.at += length

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > DEEPEST:
            raise ValueError("it is damaged: its footer has no end")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[number] = kind == YES if kind in (YES, NO) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (SHORT, INT, LONG):
            return self._signed()
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 15, depth) for _ in range(count)]
        if kind in (YES, NO, BYTE):  # outside of a structure, a truth has a byte of its own
            return self._byte()
        if kind not in (DOUBLE, STRING):  # nor is there a map in any structure of Parquet
            raise ValueError(f"it is damaged: a part of it is of an unknown type, {kind}")
        return self.skip(8 if kind == DOUBLE else self._unsigned())

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _unsigned(self) -> int:
        number, shift = 0, 0
        while (byte := self._byte()) & 128:
            number |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("it is damaged: a number in it has no end")
        return number | byte << shift

    def _byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]
