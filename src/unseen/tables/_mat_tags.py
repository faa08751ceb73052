"""Whether the elements of a MATLAB file of version 5 make sense: on others SciPy's reader can crash Python."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator

from ..files import check_inflation, inflated

HEADER = 128
INT32, UINT32, MATRIX, COMPRESSED = 5, 6, 14, 15  # types of elements
NUMBERS, TEXT = frozenset({*range(1, 8), 9, 12, 13}), frozenset({16, 17, 18})
TYPES = NUMBERS | TEXT | {MATRIX, COMPRESSED}
CHARACTERS, SPARSE, NUMERIC, OPAQUE = 4, 5, range(6, 16), 17  # classes of matrices
IS_COMPLEX = 0x800
MOST_DIMENSIONS = 32
REMEDY = "save it with '-nocompression'."


def check_mat_tags(content: bytes) -> bool:
    """Walk through all elements of a file; raise ValueError at the first that cannot be one. False if it has none."""
    # As SciPy tells: of version 5 if there is no zero at the start and it says 1, and big-endian unless it says IM.
    order, version = ("<", content[125:126]) if content[126:HEADER] == b"IM" else (">", content[124:125])
    if len(content) < HEADER or 0 in content[:4] or version != b"\1":
        return False
    size = 0
    for element in _elements(content[HEADER:], order, compressed=True):
        kind, data = element
        if kind == COMPRESSED:
            inside = inflated(data, REMEDY)
            size += len(inside)
            check_inflation(size, len(content), REMEDY)
            _check_elements(list(_elements(inside, order)), order)
        else:
            _check_elements([element], order)
    return True


def _check_elements(elements: Iterable[tuple[int, bytes]], order: str) -> None:
    for kind, data in elements:
        if kind == MATRIX and data:
            parts = list(_elements(data, order))
            _check_matrix(parts, order)
            _check_elements(parts, order)


def _check_matrix(parts: list[tuple[int, bytes]], order: str) -> None:
    """A matrix is its class and flags, its shape, its name and, unless it holds other matrices, its values."""
    if not parts or parts[0][0] != UINT32 or len(parts[0][1]) != 8:
        raise ValueError("it is damaged: a matrix does not say of which class it is")
    flags = struct.unpack_from(f"{order}I", parts[0][1])[0]
    own_class = flags & 0xFF
    if own_class == OPAQUE:  # laid out in its own way
        return
    kind, data = parts[1] if len(parts) > 1 else (0, b"")
    dimensions = len(data) // 4
    if kind not in (INT32, UINT32) or len(data) % 4 or not 2 <= dimensions <= MOST_DIMENSIONS:
        raise ValueError("it is damaged: a matrix has no shape")
    shape = struct.unpack(f"{order}{dimensions}i", data)
    if min(shape) < 0:
        raise ValueError("it is damaged: a matrix has a negative length")
    if own_class != SPARSE and math.prod(shape) > sum(len(part) for _, part in parts):  # an entry is a byte at least
        raise ValueError("it is damaged: a matrix says it is larger than it is")
    if own_class in (CHARACTERS, SPARSE, *NUMERIC):
        needed = 1 + (own_class != CHARACTERS and bool(flags & IS_COMPLEX)) + 2 * (own_class == SPARSE)
        allowed = NUMBERS | TEXT if own_class == CHARACTERS else NUMBERS
        values = [kind for kind, _ in parts[3 : 3 + needed]]
        if len(values) < needed or not allowed.issuperset(values):
            raise ValueError("it is damaged: a matrix lacks its values")


def _elements(content: bytes, order: str, *, compressed: bool = False) -> Iterator[tuple[int, bytes]]:
    """The type and data of each element."""
    position = 0
    while position < len(content):
        if position + 8 > len(content):
            raise ValueError("it is damaged: it ends within an element")
        kind, size = struct.unpack_from(f"{order}II", content, position)
        start = position + 8
        if packed := kind >> 16:  # up to four bytes of data are in the tag itself
            kind, size, start = kind & 0xFFFF, packed, position + 4
        if kind not in TYPES or (kind == COMPRESSED and not compressed):
            raise ValueError(f"it is damaged: an element is of type {kind}, which cannot be there")
        end = start + size
        if end > len(content) or (packed and size > 4):
            raise ValueError("it is damaged: an element is longer than its place")
        yield kind, content[start:end]
        position = end if kind == COMPRESSED else end + -end % 8
