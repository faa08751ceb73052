"""Broken tables of every format: text, Parquet, Arrow, and the arrays of NumPy and MATLAB."""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet
from scipy import sparse
from scipy.io import savemat

from readers import DOMAIN, PATIENTS, X, Y

from .mutators import LARGE, Random, bomb, npy, npz_bomb, scrambled, unzipped, zipped

Broken = tuple[str, bytes]  # the name of a file, whose ending tells its format, and what it holds

CELLS = (
    *(
        "",
        " ",
        '"',
        '"a',
        'a"b',
        '""',
        '"a,b"',
        "\0",
        "é",
        "\ufeff",
        "\r",
        "\n",
        "'",
        "NA",
        "NULL",
        "#N/A",
        "?",
        "x" * 70_000,
    ),
    *(
        "1e999",
        "-1e999",
        "nan",
        "inf",
        "-0",
        "1e-320",
        "+5",
        "--5",
        "0x10",
        "1_000",
        "1,5",
        "9" * 400,
        "TRUE",
        "0.1e",
        "١٢",
    ),
    *("2024-02-30", "2024-01-01T25:00", "0000-01-01", "9999-12-31T23:59:60", "2024-01-01 00:00:00.1+99:99", "=cmd()"),
)
ENCODINGS = (
    "utf-8",
    "utf-8",
    "utf-8",
    "utf-8",
    "utf-8",
    "utf-8-sig",
    "latin-1",
    "utf-16",
    "utf-32",
    "utf-16-le",
    "utf-7",
)


def broken_csv(rng: Random) -> Broken:
    """Rows with odd cells, odd separators, odd line ends, in odd encodings, compressed or not."""
    rows = [list(PATIENTS.columns), *([str(v if v is not None else "") for v in row] for row in PATIENTS.iter_rows())]
    if rng.random() < 0.1:
        rows = [["path", "label", "domain"], *([f"{i}.png", "ab"[i % 2], "cde"[i % 3]] for i in range(9))]
    for _ in range(rng.randrange(4)):
        row = rng.choice((rows[0], rng.choice(rows) if rows else []))
        kind, at = rng.randrange(8), rng.randrange(len(row)) if row else 0
        if kind < 4 and row:
            row[at] = rng.choice(CELLS)
        elif kind == 4:
            row.insert(at, rng.choice((*CELLS, *rows[0][:1])))
        elif kind == 5 and row:
            del row[at]
        elif kind == 6:
            del rows[1 + rng.randrange(len(rows)) :]
        else:
            rows.insert(rng.randrange(len(rows)), rng.choice(([], [""], ["x"] * 40, rows[0], row * 3)))
    separator, end = (
        rng.choice((",", ",", ",", ";", "\t", "|", ", ")),
        rng.choice(("\n", "\n", "\n", "\r\n", "\r", "\n\n")),
    )
    text = end.join(separator.join(row) for row in rows) + rng.choice((end, "", "\0", '"'))
    content = text.encode(rng.choice(ENCODINGS), "replace")
    if rng.random() < 0.35 and content:
        content = scrambled(content, (b'a,"b', b"\xff\xfe", b"\0" * 9), rng)
    ending = rng.choice(("csv", "csv", "csv", "tsv", "csv.gz", "tsv.gz"))
    if ending.endswith("gz"):
        content = gzip.compress(content, 1, mtime=0)
        if rng.random() < 0.005:
            first = rng.choice((b"x", b"hospital,diagnosis,x\na,b,"))
            content = bomb(first, rng.choice(b"\0,\n"), bits=31)
        elif rng.random() < 0.4:
            content = scrambled(content, (), rng)
    return f"broken.{ending}", content


def _column(kind: int, n: int) -> Any:
    """Columns of every type that Arrow has, and some values that they hold."""
    day, noon = date(2024, 2, 29), datetime(2024, 2, 29, 12)
    far = pa.array([2**62] * n, pa.int64())
    columns: tuple[Callable[[], Any], ...] = (
        lambda: pa.array(np.linspace(-1, 1, n)),
        lambda: pa.array([float("nan"), float("inf"), -1e308, None][:n] + [0.0] * (n - 4)),
        lambda: pa.array([2**63 - 1, -(2**63)][:n] + [0] * max(0, n - 2)),
        lambda: pa.array([2**64 - 1] * n, pa.uint64()),
        lambda: pa.array(np.zeros(n, np.float16)),
        lambda: pa.array([None] * n, pa.null()),
        lambda: pa.array([None] * n, pa.float64()),
        lambda: pa.array([i % 2 == 0 for i in range(n)]),
        lambda: pa.array([Decimal("1.50"), None][:n] + [Decimal(2)] * max(0, n - 2), pa.decimal128(38, 10)),
        lambda: pa.array([Decimal(10) ** 60] * n, pa.decimal256(76, 2)),
        lambda: pa.array([day] * n, pa.date32()),
        lambda: pa.array([noon] * n, pa.timestamp("ns", "Europe/Berlin")),
        lambda: pa.array([noon] * n, pa.timestamp("us", "+05:30")),
        lambda: far.cast(pa.timestamp("s")),
        lambda: far.cast(pa.timestamp("us", "UTC")),
        lambda: pa.array([noon.replace(tzinfo=UTC)] * n, pa.timestamp("ms", "Nowhere/Land")),
        lambda: pa.array([timedelta(days=1), None][:n] + [timedelta(0)] * max(0, n - 2), pa.duration("us")),
        lambda: far.cast(pa.duration("s")),
        lambda: pa.array([time(12, 30)] * n, pa.time64("ns")),
        lambda: pa.array([[1.0], [], None][:n] + [[2.0, 3.0]] * max(0, n - 3)),
        lambda: pa.array([[1.0, 2.0]] * n, pa.list_(pa.float64(), 2)),
        lambda: pa.array([{"a": 1, "b": "x"}] * n),
        lambda: pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([b"\xff\0"] * n, pa.binary()),
        lambda: pa.array([b"abcd"] * n, pa.binary(4)),
        lambda: pa.array(["x", "y", None][:n] + ["x"] * max(0, n - 3)).dictionary_encode(),
        lambda: pa.array([0.5] * n).dictionary_encode(),
        lambda: pa.array(["é\u202e" * 50] * n, pa.large_string()),
        lambda: pa.array(["", " ", "NA"][:n] + ["1.5"] * max(0, n - 3), pa.string_view()),
        lambda: pa.array([str(i) for i in range(n)]),
        lambda: pa.array(np.arange(n) + 1),
        lambda: pa.array(np.arange(n, dtype=np.int8), pa.int8()),
    )
    return columns[kind % len(columns)]()


NAMES = (
    "age",
    "visits",
    "sex",
    "x",
    "",
    " ",
    "id",
    "Unnamed: 0",
    "a\0b",
    "é" * 40,
    "patient",
    "path",
    "label",
    "domain",
    "date",
)


def _odd_table(rng: Random) -> pa.Table:
    """Patients, and columns of any types."""
    frame = PATIENTS.drop(rng.sample(PATIENTS.columns, rng.randrange(2)))
    n = rng.choice((24, 24, 24, 24, 1, 0, 3000))
    plain = frame.to_arrow().slice(0, n) if n <= 24 else pa.concat_tables([frame.to_arrow()] * 125)
    names, columns = list(plain.column_names), [column.combine_chunks() for column in plain.columns]
    for _ in range(rng.randrange(5)):
        try:
            made = _column(rng.randrange(10**6), n)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # far times have no room in small units
            continue
        if len(made) == n:
            at, name = rng.randrange(len(names) + 1), rng.choice((*NAMES, f"c{rng.randrange(99)}", *names[:2]))
            if rng.random() < 0.2 and names:  # in the place of a column that has a role
                at = rng.randrange(len(names))
                name = names.pop(at)
                del columns[at]
            names.insert(at, name)
            columns.insert(at, made)
    return pa.Table.from_arrays(columns, names=names)


@cache
def _columnar(kind: str) -> tuple[bytes, ...]:
    rng, found = Random(kind), list[bytes]()
    while len(found) < 60:
        table, buffer = _odd_table(rng), io.BytesIO()
        try:
            if kind == "parquet":
                how = rng.choice(("none", "snappy", "gzip", "zstd", "brotli", "lz4"))
                parquet.write_table(table, buffer, compression=how, row_group_size=rng.choice((5, 1000)), version="2.6")
            elif rng.random() < 0.1:
                with pa.ipc.new_stream(buffer, table.schema) as writer:  # not a file, and yet Arrow
                    writer.write_table(table)
            else:
                feather.write_feather(table, buffer, compression=rng.choice(("uncompressed", "lz4", "zstd")))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            continue  # not every type has a place in every format
        found.append(buffer.getvalue())
    for _ in range(4):
        buffer = io.BytesIO()
        (PATIENTS.write_parquet if kind == "parquet" else PATIENTS.write_ipc)(buffer)
        found.append(buffer.getvalue())
    return tuple(found)


def _cut(content: bytes, rng: Random) -> bytes:
    """The beginning of a file whose copy was interrupted."""
    return content[: rng.randrange(len(content))]


def broken_parquet(rng: Random) -> Broken:
    """Columns of unusual types, in complete files and in files that were cut off."""
    content = rng.choice(_columnar("parquet"))
    return "broken.parquet", content if rng.random() < 0.7 else _cut(content, rng)


def broken_arrow(rng: Random) -> Broken:
    """Columns of unusual types, in complete files and in files that were cut off."""
    content = rng.choice(_columnar("arrow"))
    ending = rng.choice(("feather", "arrow", "ipc"))
    return f"broken.{ending}", content if rng.random() < 0.7 else _cut(content, rng)


@cache
def _npz() -> tuple[bytes, ...]:
    found = []
    for arrays in (
        {"X": X, "y": Y, "domain": DOMAIN},
        {"data": X.astype(np.float32).T, "labels": DOMAIN, "classes": np.array(["a", "b", "c"])},
        {"X": X, "gt": Y[:, None], "when": np.arange(24).astype("M8[D]"), "flag": Y > 0, "b": DOMAIN.astype("S")},
    ):
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        found.append(buffer.getvalue())
    return tuple(found)


NPZ_NAMES = (
    "X.npy",
    "y.npy",
    "domain.npy",
    "x.npy",
    "data.npy",
    "",
    "classes.npy",
    "../y.npy",
    "y",
    "X.npy/",
    "a\ud800".encode("utf-8", "replace").decode(),
)


def broken_npz(rng: Random) -> Broken:
    """Archives with right checksums of arrays with odd headers; pickles; archives that inflate; blind changes."""
    content = rng.choice(_npz())
    if rng.random() < 0.25:
        return "broken.npz", scrambled(content, _npz(), rng)
    members = unzipped(content)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice([*members])
        kind = rng.random()
        if kind < 0.75:
            members[name] = npy(rng, members[name]) if members[name][:6] == b"\x93NUMPY" else b""
        elif kind < 0.85:
            members[rng.choice(NPZ_NAMES)] = members.pop(name)
        elif kind < 0.9:
            members[rng.choice(NPZ_NAMES)] = rng.choice((b"", b"PK\3\4", b"\x80\4K\1.", members[name]))
        else:
            del members[name]
        if not members:
            break
    if rng.random() < 0.002:
        return "broken.npz", npz_bomb(rng.choice(("|u1", "|b1")), 2**28)
    return "broken.npz", zipped(members, rng.choice((0, 0, 0, 8, 12, 14)))


@cache
def _mats() -> tuple[bytes, ...]:
    cells = np.empty((24, 1), object)
    cells[:, 0] = DOMAIN
    cases: tuple[dict[str, Any], ...] = (
        {"X": X, "y": Y[:, None], "domain": cells},
        {"fts": X.astype(np.float32), "labels": Y + 1.0, "classes": np.array(["ill", "well"], object)},
        {"X": sparse.csc_matrix(X), "y": Y, "z": X + 1j, "s": {"a": 1, "b": {"c": "text"}}, "t": "text"},
        {"feas": (X * 9).astype(np.int16), "y": Y.astype(np.uint8), "flag": Y > 0, "e": np.empty((0, 3))},
        {"X": X, "y": DOMAIN, "cube": np.zeros((2, 3, 4)), "c": np.array([[cells, 1]], dtype=object)},
    )
    found = []
    for i, arrays in enumerate((*cases, *cases)):
        buffer = io.BytesIO()
        savemat(buffer, arrays, do_compression=i >= len(cases), format="5")
        found.append(b"MATLAB 5.0 MAT-file".ljust(116) + buffer.getvalue()[116:])
    buffer = io.BytesIO()
    savemat(buffer, {"X": X, "y": Y}, format="4")
    return (*found, buffer.getvalue())


def broken_mat(rng: Random) -> Broken:
    """Variables of all classes, in complete files and in files that were cut off."""
    content = rng.choice(_mats())
    return "broken.mat", content if rng.random() < 0.3 else _cut(content, rng)


def _hdf5(case: int, rng: Random) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:

        def put(name: str, value: Any, kind: str = "double") -> Any:
            made = file.create_dataset(name, data=np.asarray(value))
            made.attrs["MATLAB_class"] = np.bytes_(kind)
            return made

        put("X", X.T)
        put("y", Y[None, :].astype(float))
        references = [put(f"#refs#/{i}", [[ord(c)] for c in name], "char").ref for i, name in enumerate(DOMAIN)]
        cells = file.create_dataset("domain", (1, 24), h5py.ref_dtype)
        cells[0] = references
        cells.attrs["MATLAB_class"] = np.bytes_("cell")
        odd: tuple[Callable[[], Any], ...] = (
            lambda: None,
            lambda: put("t", [[2**16 - 1, 0xD800, 65]], "char"),
            lambda: put("t", [[2**40, -1]], "char"),
            lambda: put("e", [0, 2**40], "double").attrs.__setitem__("MATLAB_empty", 1),
            lambda: put("e", [-1, 3], "char").attrs.__setitem__("MATLAB_empty", 1),
            lambda: put("s", np.zeros(3, [("a", "f8"), ("b", "i4")])),
            lambda: file.create_dataset("v", data=["a", "bc"], dtype=h5py.string_dtype()),
            lambda: file.create_dataset("v", (4,), h5py.vlen_dtype(np.dtype("f8"))),
            lambda: file.create_dataset("huge", (2**20, 2**20), "f8"),
            lambda: file.create_dataset("large", (2**14, 2**14), "f8", chunks=(2**7, 2**7)),
            lambda: file.create_dataset("large", data=np.zeros((2**12, 2**10)), compression="gzip"),
            lambda: file.__setitem__("soft", h5py.SoftLink("/soft")),
            lambda: file.__setitem__("gone", h5py.SoftLink("/nowhere")),
            lambda: file.__setitem__("away", h5py.ExternalLink("/dev/zero", "/")),
            lambda: file.__setitem__("again", file["/"]),
            lambda: file.create_dataset("out", (4, 4), "f8", external=[("/dev/zero", 0, 128)]),
            lambda: file["domain"].__setitem__((0, 3), h5py.Reference()),
            lambda: file["domain"].__setitem__((0, 3), file["X"].ref),
            lambda: file["domain"].__setitem__((0, 3), file["/"].ref),
            lambda: file["X"].attrs.__setitem__("MATLAB_class", rng.choice(([1, 2], 5, "cell", "char", b"\xff", ""))),
            lambda: file["y"].attrs.__setitem__("MATLAB_class", rng.choice(("cell", "char", "struct", np.zeros(0)))),
            lambda: file.create_dataset("n", data=h5py.Empty("f8")).attrs.__setitem__("MATLAB_class", "double"),
            lambda: file.create_dataset("z", data=5.0),
            lambda: file.create_dataset("é\u202e", data=np.zeros((24, 1), np.complex128)),
            lambda: file["X"].attrs.__delitem__("MATLAB_class"),
            lambda: file.create_group("group").create_group("deep"),
        )
        odd[case % len(odd)]()
    return buffer.getvalue()


@cache
def _hdf5s() -> tuple[bytes, ...]:
    return tuple(_hdf5(case, Random(case)) for case in range(60))


def broken_mat73(rng: Random) -> Broken:
    """Odd things in HDF5: links, references, empty and huge data; behind MATLAB's header or not; blind changes."""
    content = rng.choice(_hdf5s())
    if rng.random() < 0.8:
        found = bytearray(content)
        if rng.random() < 0.4:
            for _ in range(rng.choice((1, 2, 4))):
                at = rng.randrange(len(found) // 8) * 8
                found[at : at + 8] = struct.pack("<Q", rng.choice((*LARGE, rng.randrange(len(found)))) % 2**64)
            content = bytes(found)
        else:
            content = scrambled(content, (), rng, 8)
    if rng.random() < 0.2:
        content = b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + bytes(384) + content
    return "broken.mat", content
