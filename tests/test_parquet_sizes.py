"""Whether the pages of a Parquet file make sense is asked before polars makes room for them."""

from __future__ import annotations

import lzma
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies

pytest.importorskip("polars", reason="tables need the extra")
import polars as pl

from unseen.tables._parquet_sizes import _damage, check_parquet_sizes

LONG, TEXT, LIST, STRUCT = 6, 8, 9, 12
CORPUS = Path(__file__).with_name("corpus") / "parquet"


def varint(number):
    head, rest = number & 127, number >> 7
    return bytes([head | 128]) + varint(rest) if rest else bytes([head])


def encoded(value):
    """Type and bytes in Thrift's compact protocol: numbers, texts, lists of structures, and structures as dicts."""
    if isinstance(value, int):
        return LONG, varint((value << 1) ^ (value >> 63))
    if isinstance(value, bytes):
        return TEXT, varint(len(value)) + value
    if isinstance(value, list):
        return LIST, bytes([0xF0 | STRUCT]) + varint(len(value)) + b"".join(encoded(part)[1] for part in value)
    parts = ((number, *encoded(part)) for number, part in value.items())
    return STRUCT, b"".join(bytes([kind]) + varint(number << 1) + content for number, kind, content in parts) + b"\0"


def file_of(page=None, about=None, rows=3, kind=0, footer=None, columns=1):
    """A file of one page, with something in it changed; `about` is what the footer says about its column."""
    header = {1: kind, 2: 24, 3: 200, {0: 5, 2: 7, 3: 8}.get(kind, 9): {1: 3}} | (page or {})
    content = encoded(header)[1] + bytes(200)
    about = {4: b"zstd", 5: 3, 7: len(content), 9: 4} | (about or {})
    end = encoded(footer or {4: [{1: [{3: about}] * columns, 3: rows}]})[1]
    return b"PAR1" + content + end + len(end).to_bytes(4, "little") + b"PAR1"


def check(folder, content):
    path = Path(folder, "x.parquet")
    path.write_bytes(content)
    _damage.cache_clear()  # times of files may be coarse
    check_parquet_sizes(path)


@pytest.mark.parametrize(
    "content",
    [
        file_of(),
        file_of(kind=1, page={9: b"an index"}),
        file_of(kind=2),
        file_of(kind=3),
        file_of(about={11: 4, 9: 10}),
        file_of(about={11: 0}),
        file_of(footer={4: []}),
        file_of(footer={4: [{1: [{8: {1: {}}}, {3: {5: -9}, 8: {1: {}}}], 3: 3}]}),  # encrypted columns
        file_of(footer={1: 2}),
        file_of(footer={4: 5}),
        b"PAR1 and nothing else",
        b"",
    ],
)
def test_what_makes_sense_is_left_to_the_reader(tmp_path, content):
    if content:
        check(tmp_path, content)
    check(tmp_path, b"PAR1" + content[4:-4] + b"PARE")  # encrypted


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (file_of({5: {1: 4}}), "cannot have 4 values"),
        (file_of({5: {1: -2}}), "cannot have -2 values"),
        (file_of({7: {1: 25}}, kind=2), "cannot have 25 values"),
        (file_of({8: {1: 4}}, kind=3), "cannot have 4 values"),
        (file_of({2: 2**31 - 1}), "compressed bytes become 2,147,483,647 or more.*without compression"),
        (file_of({2: -1}), "cannot have -1 bytes"),
        (file_of({3: 1000}), "cannot have 1,000 bytes"),
        (file_of(rows=2**40), "cannot have 1,099,511,627,776 values"),
        (file_of(about={5: 2**61}), "cannot have 2,305,843,009,213,693,952 values"),
        (file_of(about={7: 10**6}), "cannot have 1,000,000 bytes"),
        (file_of(about={9: 10**6}), "cannot have 1,000,000 bytes"),
        (file_of(about={9: b"here"}), "unknown type, 0"),
        (file_of(footer={4: [{3: 1}]}), "a part of it is missing"),
        (file_of(columns=9), "columns are longer than it is"),
        (file_of({99: [{}] * 9999}, about={7: 1}, columns=99), "columns are longer than it is"),
        (file_of(footer={4: [{1: [], 3: 6 * 10**7}] * 2}), "cannot have 120,000,000 values"),
        (file_of(footer={4: [{1: [{1: b"part-0.parquet", 3: {}}], 3: 3}]}), "its data lie in another file"),
        (b"PAR1" + b"\x19" * 5000 + (5000).to_bytes(4, "little") + b"PAR1", "has no end"),
        (b"PAR1" + bytes(4) + (2**31).to_bytes(4, "little") + b"PAR1", "footer is longer than it is"),
        (b"PAR1" + b"\x1c" * 99 + (99).to_bytes(4, "little") + b"PAR1", "has no end"),
        (b"PAR1" + b"\x16" + b"\xff" * 20 + (21).to_bytes(4, "little") + b"PAR1", "a number in it has no end"),
        (b"PAR1" + b"\x1b" + bytes(9) + (10).to_bytes(4, "little") + b"PAR1", "unknown type, 11"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, content, reason):
    with pytest.raises(ValueError, match=reason):
        check(tmp_path, content)


@pytest.mark.parametrize("compression", ["uncompressed", "zstd", "snappy", "lz4", "gzip", "brotli"])
@pytest.mark.parametrize("writer", ["polars", "pyarrow, old pages", "pyarrow, new pages"])
def test_files_of_others_make_sense(tmp_path, writer, compression):
    n, path = 2000, tmp_path / "x.parquet"
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"x": rng.normal(size=n), "c": rng.choice(["a", "bb"], n), "none": [None] * n, "z": np.zeros(n)}
    )
    frame = frame.with_columns(lists=pl.concat_list("x", "z"), levels=pl.col("c").cast(pl.Categorical))
    if writer == "polars":
        frame.write_parquet(path, compression=compression, row_group_size=700)
    else:
        options = {"compression": compression.replace("uncompressed", "none"), "row_group_size": 700}
        version = "1.0" if "old" in writer else "2.0"
        pq = pytest.importorskip("pyarrow.parquet", reason="another writer")
        pq.write_table(frame.to_arrow(), path, data_page_version=version, write_page_index=True, **options)
    check_parquet_sizes(path)
    frame.clear().write_parquet(path)
    check_parquet_sizes(path)


@given(strategies.data())
def test_damage_is_passed_on_or_put_into_words(tmp_path_factory, data):
    content = bytearray(file_of())
    for _ in range(data.draw(strategies.integers(1, 4))):
        content[data.draw(strategies.integers(4, len(content) - 5))] = data.draw(strategies.integers(0, 255))
    with suppress(ValueError):  # and nothing else
        check(tmp_path_factory.getbasetemp(), bytes(content))


@pytest.mark.parametrize("name", ["crash-2794", "crash-5266", "crash-9846"])
def test_pages_that_made_polars_abort_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="it is damaged: a part of it cannot have"):
        check(tmp_path, lzma.decompress((CORPUS / f"{name}.parquet.xz").read_bytes()))
