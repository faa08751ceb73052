"""Ways to break a file: blindly, byte by byte, or by its structure, so that its checksums and lengths are right."""

from __future__ import annotations

import copy
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

Random = random.Random
NUMBERS = (0, 1, 2, 3, 7, 8, 16, 127, 128, 255, 256, 1000, 0x7FFF, 0xFFFF, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
LARGE = (*NUMBERS, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -1, -2, -(2**31), -(2**63))
VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "\0", "nan", "é\u202e\ud800", "x" * 5000, [], {}, [[]], {"": None}, [None] * 3, 1.5, -0.0),
    *(1e308, float("nan"), float("inf"), -float("inf"), *LARGE, 10**400),
)


def _flip(content: bytearray, rng: Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 8, 32))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def _overwrite(content: bytearray, rng: Random) -> None:
    for _ in range(rng.choice((1, 2, 4))):
        content[rng.randrange(len(content))] = rng.randrange(256)


def _cut(content: bytearray, rng: Random) -> None:
    del content[rng.randrange(len(content)) :]


def _remove(content: bytearray, rng: Random) -> None:
    start = rng.randrange(len(content))
    del content[start : start + rng.choice((1, 4, 16, 256))]


def _repeat(content: bytearray, rng: Random) -> None:
    start = rng.randrange(len(content))
    piece = content[start : start + rng.choice((1, 4, 16, 256, 4096))]
    at = rng.randrange(len(content))
    content[at:at] = piece * rng.choice((1, 1, 2, 20))


def _number(content: bytearray, rng: Random) -> None:
    size, order = rng.choice((1, 2, 4, 4, 8)), rng.choice(("little", "big"))
    at = rng.randrange(len(content))
    value = rng.choice(LARGE) % (1 << 8 * size)
    content[at : at + size] = value.to_bytes(size, order)  # type: ignore[arg-type]


def _zeros(content: bytearray, rng: Random) -> None:
    start = rng.randrange(len(content))
    end = min(len(content), start + rng.choice((1, 4, 16, 256)))
    content[start:end] = bytes([rng.choice((0, 255))]) * (end - start)


def _insert(content: bytearray, rng: Random) -> None:
    at = rng.randrange(len(content))
    content[at:at] = rng.randbytes(rng.choice((1, 2, 4, 16, 64)))


BLIND: tuple[Callable[[bytearray, Random], None], ...] = (
    *(_flip, _flip, _overwrite, _overwrite, _cut, _remove, _repeat, _number, _number, _number, _zeros, _insert),
)


def scrambled(content: bytes, others: Sequence[bytes], rng: Random, most: int = 4) -> bytes:
    """One or several blind changes; sometimes the end of another file in the place of its own."""
    found = bytearray(content)
    if others and rng.random() < 0.05:
        other = rng.choice(others)
        found[rng.randrange(len(found) + 1) :] = other[rng.randrange(len(other) + 1) :]
    for _ in range(rng.randint(1, most)):
        if found:
            rng.choice(BLIND)(found, rng)
    return bytes(found)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all parts of a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, own in inside for place in places(own, (*at, key)))]


def altered(value: Any, rng: Random) -> Any:
    """A JSON value in which one part is another value, gone, doubled, nested, or what another part is."""
    value = copy.deepcopy(value)
    ways = places(value)
    way = rng.choice(ways)
    if not way:
        return rng.choice(VALUES)
    home = _part(value, way[:-1])
    old, kind = home[way[-1]], rng.randrange(6)
    if kind == 0:
        home[way[-1]] = copy.deepcopy(_part(value, rng.choice(ways)))
    elif kind == 1:
        del home[way[-1]]
    elif kind == 2:
        home[way[-1]] = _close(old, rng)
    elif kind == 3 and isinstance(home, list):
        home.insert(way[-1], copy.deepcopy(old))
    elif kind == 3:
        home[rng.choice(("", "x", "__id__", "key"))] = home.pop(way[-1])
    elif kind == 4 and rng.random() < 0.1:
        for _ in range(rng.choice((5, 60, 90))):
            old = rng.choice(([old], {"content": old}))
        home[way[-1]] = old
    else:
        home[way[-1]] = rng.choice(VALUES)
    return value


def _part(value: Any, way: Sequence[Any]) -> Any:
    for key in way:
        value = value[key]
    return value


def _close(old: Any, rng: Random) -> Any:
    """A value of the same type, or nearly."""
    if isinstance(old, bool) or old is None:
        return rng.choice((True, False, None))
    if isinstance(old, (int, float)):
        return rng.choice((old + 1, old - 1, -old, float(old), str(old), rng.choice(LARGE)))
    if isinstance(old, str):
        return rng.choice((old + "x", old[1:], old.upper(), old[::-1], old * 3, f" {old}", "".join(sorted(old))))
    return rng.choice((list(old), [old, old], str(old), len(old)))


def json_bytes(value: Any, rng: Random) -> bytes:
    """JSON as Python writes it, with NaN and lone surrogates; now and then something that is almost JSON."""
    text = json.dumps(value)
    if rng.random() < 0.05:
        text = rng.choice(
            (text[:-1], text.replace('"', "'"), text + text, "[" * 100_000, '{"a":' * 5000, "\ufeff" + text)
        )
    return text.encode("utf-8", "surrogatepass")


def zipped(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive with right checksums; a name may be there twice."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return buffer.getvalue()


def unzipped(content: bytes) -> dict[str, bytes]:
    """The members of an archive by their names."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


DTYPES = (
    *("<f8", "<f4", ">f8", "<f2", "<f16", "<i8", "|i1", "|u1", "<u8", "|b1", "<c16", "|O", "|O8", "<U1", "<U7", "|S3"),
    *("<U0", "|S0", "|V8", "|V0", "<M8[ns]", "<M8[D]", "<m8[s]", "<M8", "<U1000000000", "nonsense", "f8,i4", "<f8x"),
)


def npy(rng: Random, content: bytes) -> bytes:
    """An .npy member whose header says something else than its bytes, or something odd."""
    version, start = content[6], 10 if content[6:7] == b"\1" else 12
    length = int.from_bytes(content[8:start], "little")
    said, data = content[start : start + length].decode("latin-1"), content[start + length :]
    kind = rng.randrange(9) if "'shape'" in said and "'descr'" in said else 8
    if kind < 3:
        shape = tuple(rng.choice((*LARGE, 3, 24, 72)) for _ in range(rng.randrange(4)))
        said = said[: said.index("'shape'")] + f"'shape': {rng.choice((shape, [3], 24, '(1', (True,)))!r}, }}"
    elif kind < 6:
        first = said.index("'descr'")
        descr = rng.choice((*DTYPES, [("a", "<f8"), ("b", "|O")], [("a", "<f8", (10**6, 10**6))], {"names": []}, 8))
        said = f"{said[:first]}'descr': {descr!r}, {said[said.index(', ', first) + 2 :]}"
    elif kind == 6:
        said = said.replace("False", rng.choice(("True", "None", "0", "[]")))
    elif kind == 7:
        said = rng.choice(("", "{}", "(" * 5000, "{" + "'a': 1, " * 3000 + "}", "1+1j", "__import__('os')", said[5:]))
    else:
        data = scrambled(data or b"\0", (), rng)
    version = rng.choice((version, version, version, 1, 2, 3, 0, 9))
    text = said.encode("utf-8", "replace") + b" " * rng.randrange(3) + b"\n"
    size = len(text) if rng.random() < 0.95 else rng.choice(NUMBERS)
    head = struct.pack("<H", size % 2**16) if version == 1 else struct.pack("<I", size % 2**32)
    return b"\x93NUMPY" + bytes([version, 0]) + head + text + data


@cache
def bomb(first: bytes = b"", fill: int = 0, size: int = 2**28, bits: int = 15) -> bytes:
    """Many equal bytes, compressed a thousandfold; 31 bits give a gzip file."""
    packer, block = zlib.compressobj(9, wbits=bits), bytes([fill]) * 2**20
    return packer.compress(first) + b"".join(packer.compress(block) for _ in range(size // 2**20)) + packer.flush()


@cache
def npz_bomb(dtype: str, size: int) -> bytes:
    """An archive of one matrix of zeros."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({size >> 4}, 16)}}\n".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", 8) as archive, archive.open("X.npy", "w") as member:
        member.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header)
        for _ in range(size >> 20):
            member.write(bytes(2**20))
    return buffer.getvalue()


def varint(value: int) -> bytes:
    """A number as protobuf and Thrift write it."""
    value %= 2**64
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(digits) + bytes([value])


def other_varint(content: bytes, rng: Random) -> bytes:
    """Another number in the place of one that some bytes may be."""
    start = rng.randrange(len(content))
    end = start
    while end < len(content) - 1 and content[end] >= 0x80:
        end += 1
    return content[:start] + varint(rng.choice(LARGE) * rng.choice((1, 2))) + content[end + 1 :]
