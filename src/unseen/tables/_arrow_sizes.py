"""Whether the parts of an Arrow file make sense: for others polars would ask for room that no machine has, and abort.

The format is laid out in https://arrow.apache.org/docs/format/Columnar.html, in tables of FlatBuffers.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..files import ALWAYS, MOST_FOLD, check_inflation

MAGIC = b"ARROW1"
DICTIONARIES, BATCHES = 2, 3  # fields of the footer
HEADER_TYPE, HEADER = 1, 2  # of a message
DICTIONARY, BATCH = 2, 3  # types of messages
LENGTH, BUFFERS, COMPRESSION = 0, 2, 3  # of a batch of rows
CONTINUATION = 0xFFFFFFFF


def check_arrow_sizes(path: Path) -> None:
    """Raise ValueError if what is compressed in a file becomes too large, or if it says that it has endless rows."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[: len(MAGIC)] != MAGIC or content[-len(MAGIC) :] != MAGIC:
            return  # not such a file: that is for the reader to say
        size = rows = 0
        try:
            for length, room in _record_batches(content):
                size, rows = size + room, rows + length
                check_inflation(size, len(content), "write it without compression.")
                if rows > 8 * max(ALWAYS, MOST_FOLD * len(content)):  # a row is a bit at least
                    raise ValueError(f"it is damaged: it cannot have {rows:,} rows")
        except struct.error as error:
            raise ValueError("it is damaged: a part of it lies outside of it") from error


def _record_batches(content: mmap.mmap) -> Iterator[tuple[int, int]]:
    """The rows of each batch, and the bytes that its compressed buffers say they become."""
    end = len(content) - len(MAGIC) - 4
    footer = _pointed(content, end - _number(content, "i", end))
    seen: set[int] = set()
    for number in (DICTIONARIES, BATCHES):
        for block in _entries(content, _field(content, footer, number), 24):
            start, length = _number(content, "q", block), _number(content, "i", block + 8)
            if start in seen:  # the same for many would take long
                raise ValueError("it is damaged: a part of it is there twice")
            seen.add(start)
            batch = _batch(content, start)
            if batch is not None:
                told = _field(content, batch, LENGTH)
                rows = _number(content, "q", told) if told is not None and number == BATCHES else 0
                yield rows, _bytes_told(content, batch, start + length)


def _batch(content: mmap.mmap, start: int) -> int | None:
    """Where the batch of a message is, if it holds one."""
    message = _pointed(content, start + (8 if _number(content, "I", start) == CONTINUATION else 4))
    kind, header = _field(content, message, HEADER_TYPE), _field(content, message, HEADER)
    if kind is None or header is None or content[kind] not in (DICTIONARY, BATCH):
        return None
    if content[kind] == BATCH:
        return _pointed(content, header)
    inside = _field(content, _pointed(content, header), 1)
    return None if inside is None else _pointed(content, inside)


def _bytes_told(content: mmap.mmap, batch: int, body: int) -> int:
    if _field(content, batch, COMPRESSION) is None:
        return 0
    buffers = _entries(content, _field(content, batch, BUFFERS), 16)
    places = ((_number(content, "q", at), _number(content, "q", at + 8)) for at in buffers)
    return sum(max(0, _number(content, "q", body + start)) for start, length in places if length)


def _number(content: mmap.mmap, kind: str, at: int) -> Any:
    if at < 0:  # which Python would count from the end
        raise struct.error
    return struct.unpack_from(f"<{kind}", content, at)[0]


def _pointed(content: mmap.mmap, at: int) -> int:
    """Where a table is that is pointed to from here."""
    return int(at + _number(content, "I", at))


def _field(content: mmap.mmap, table: int, number: int) -> int | None:
    """Where a field of a table is, if it is there."""
    layout = table - _number(content, "i", table)
    place = 4 + 2 * number
    offset = _number(content, "H", layout + place) if place < _number(content, "H", layout) else 0
    return table + offset if offset else None


def _entries(content: mmap.mmap, at: int | None, size: int) -> range:
    """Where the entries of a vector are."""
    if at is None:
        return range(0)
    start = _pointed(content, at)
    count = _number(content, "I", start)
    if start + 4 + count * size > len(content):
        raise struct.error
    return range(start + 4, start + 4 + count * size, size)
