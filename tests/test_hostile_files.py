"""Small files that would fill the memory, never end, or say what is not so: refused, with the reason."""

from __future__ import annotations

import gzip
import io
import os
import sqlite3
import struct
import tracemalloc
import zipfile
import zlib
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.io import savemat

pytest.importorskip("skops")
import polars as pl

from unseen.evaluation import Row, Store
from unseen.images import find_photos
from unseen.models import ModelFileError, load_model
from unseen.tables import TableError, iter_batches, load_table

ZEROS = bytes(2**25)  # more than comes of any small file
HEADER = "{'descr': '|u1', 'fortran_order': False, 'shape': (SHAPE), }\n"


@contextmanager
def in_little_memory(most=2**25):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def refused(path, reason, read=load_table):
    with pytest.raises(TableError, match=reason):
        read(path)


def npz_of(shape, content, compression=zipfile.ZIP_DEFLATED):
    text = HEADER.replace("SHAPE", shape).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("X.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + content)
    return buffer.getvalue()


def test_a_small_archive_of_arrays_does_not_become_large(tmp_path):
    file = tmp_path / "x.npz"
    file.write_bytes(npz_of("2097152, 16", ZEROS))
    with in_little_memory():
        refused(file, r"compressed bytes become 33,554,\d+ or more, over 200 times as many.*numpy\.savez")


def test_an_array_that_is_said_to_be_larger_than_its_file_is_not_made_room_for(tmp_path):
    file = tmp_path / "x.npz"
    reasons = {
        "1099511627776, 1048576": "it declares more values than fit into memory; it may be damaged",
        "-1, 2": "negative dimensions",
        "100, 2": "EOF: reading array data",
    }
    for shape, reason in reasons.items():
        file.write_bytes(npz_of(shape, bytes(100)))
        refused(file, reason)


def test_a_small_compressed_text_does_not_become_large(tmp_path):
    file = tmp_path / "x.csv.gz"
    file.write_bytes(gzip.compress(b"hospital,diagnosis,x\n") + gzip.compress(ZEROS))
    with in_little_memory():
        refused(file, r"compressed bytes become 8,\d+,\d+ or more.*unpack it first")
    file.write_bytes(gzip.compress(b"x,y\n" + b"0,0\n" * 10_000))  # 100 times as large: that is how zeros are
    assert sum(frame.height for frame in iter_batches(file)) == 10_000


def understate_size(path, size=100):
    """Declare fewer bytes of each member than an archive holds."""
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        at = content.find(signature)
        while at >= 0:
            content[at + offset : at + offset + 4] = struct.pack("<I", size)
            at = content.find(signature, at + 4)
    path.write_bytes(content)


def write_sheet(path, cells):
    """Write a workbook whose only sheet has the given XML of cells."""
    xlsxwriter = pytest.importorskip("xlsxwriter")
    pytest.importorskip("fastexcel")
    with xlsxwriter.Workbook(path) as workbook:
        workbook.add_worksheet("sheet")
    sheet = f'<worksheet xmlns="{SHEET_NAMES}"><sheetData>{cells}</sheetData></worksheet>'
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (members | {"xl/worksheets/sheet1.xml": sheet.encode()}).items():
            archive.writestr(name, content)


SHEET_NAMES = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
FIRST_ROW = '<row r="1"><c r="A1"><v>1</v></c><c r="B1"><v>2</v></c></row>'


def test_a_cell_far_from_the_table_is_named(tmp_path):
    """The rectangle from A1 to this cell would take 400 GB, for which the reader ends the process."""
    file = tmp_path / "x.xlsx"
    write_sheet(file, FIRST_ROW + '<row r="1048576"><c r="XFD1048576"><v>2</v></c></row>')
    refused(file, "its 3 cells are spread over 1,048,576 rows and 16,384 columns, up to XFD1048576. Delete")
    write_sheet(file, FIRST_ROW + '<row r="1048576"><c r="B1048576"><v>2</v></c></row>')
    assert next(iter_batches(file)).shape == (1, 2)


@pytest.mark.parametrize("is_understated", [False, True])
def test_what_a_workbook_holds_is_measured_while_it_is_read(tmp_path, is_understated):
    file = tmp_path / "x.xlsx"
    write_sheet(file, FIRST_ROW + "<row/>" * 3_000_000)
    if is_understated:
        understate_size(file)
    reason = "Bad CRC-32 for file" if is_understated else "compressed bytes become .* or more, over 200 times as many"
    with in_little_memory():
        refused(file, reason)


def test_the_number_of_columns_is_bounded(tmp_path):
    (tmp_path / "x.csv").write_text(",".join(f"c{i}" for i in range(200_000)) + "\n")
    refused(tmp_path / "x.csv", "it has more than 100,000 columns. Leave some out.")


def test_a_sparse_matlab_matrix_is_not_expanded_beyond_a_thousand_times_its_size(tmp_path):
    file = tmp_path / "x.mat"
    savemat(file, {"X": sparse.csc_array((10**6, 10**3)), "y": np.zeros(10)})
    with in_little_memory():
        refused(file, "become 8,000,000,000 or more, over 1000 times as many.*as a full matrix")


def test_a_matlab_file_that_declares_more_values_than_memory_holds_is_refused(tmp_path):
    file = tmp_path / "x.mat"
    savemat(file, {"X": sparse.coo_array(np.eye(3))}, format="4")
    assert next(iter_batches(file)).to_numpy().tolist() == np.eye(3).tolist()
    file.write_bytes(struct.pack("<5i", 0, 2**31 - 1, 2**20, 0, 2) + b"X\0" + bytes(72))
    refused(file, "it declares more values than fit into memory; it may be damaged")


def test_columns_of_a_sparse_matlab_matrix_end_after_they_begin(tmp_path):
    file = tmp_path / "x.mat"
    savemat(file, {"X": sparse.csc_array((24, 3))})
    content = file.read_bytes()
    starts = struct.pack("<4i", 0, 0, 0, 0)
    at = content.rindex(starts)
    file.write_bytes(content[:at] + struct.pack("<4i", 0, 18304, 6144, 0) + content[at + 16 :])
    refused(file, "ends before it begins", lambda path: list(iter_batches(path)))


def write_repeated_text(path, length, rows=20_000, column="note"):
    """A file of some 2 KB whose column repeats one text, which Parquet stores once."""
    pa = pytest.importorskip("pyarrow", reason="writes a dictionary without expanding it")
    import pyarrow.parquet as pq

    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["y" * length]))
    columns = {
        "hospital": ["bonn", "leeds"] * (rows // 2),
        "diagnosis": ["ill", "ill", "well", "well"] * (rows // 4),
        "x": np.arange(rows) % 7 + 0.5,
    }
    pq.write_table(pa.table(columns | {column: text}), path, compression="zstd", store_schema=False)


def test_labels_domains_and_groups_that_are_too_long_are_refused_by_column(tmp_path):
    write_repeated_text(tmp_path / "x.parquet", length=1001, rows=40)
    problem = r"column 'note' holds a value of 1,001 characters; labels, domains and groups may have at most 1,000\."
    for role in ("label", "domain", "group"):
        refused(tmp_path / "x.parquet", problem, lambda path, role=role: load_table(path, **{role: "note"}))
    listed = pl.read_parquet(tmp_path / "x.parquet")
    listed.select(path=pl.lit("a.png"), label="note", domain="hospital").head(1).write_csv(tmp_path / "photos.csv")
    with pytest.raises(TableError, match="column 'label' holds a value of 1,001 characters"):
        find_photos(tmp_path / "photos.csv")


def test_a_matlab_file_with_two_variables_of_one_name_is_refused(tmp_path):
    file = tmp_path / "x.mat"
    savemat(file, {"X": np.eye(3)})
    content = file.read_bytes()
    file.write_bytes(content + content[128:])
    refused(file, 'Duplicate variable name "X"')


def test_rows_that_polars_leaves_out_without_a_word_are_missed(tmp_path, monkeypatch):
    frame = pl.DataFrame({"x": range(10)})
    frame.write_ipc(tmp_path / "x.arrow")
    frame.write_parquet(tmp_path / "x.parquet")
    half = pl.LazyFrame.slice
    monkeypatch.setattr(pl.LazyFrame, "collect_batches", lambda *_, **__: iter([frame.head(5)]))
    monkeypatch.setattr(pl.LazyFrame, "slice", lambda lazy, start, n: half(lazy, start, n // 2))
    for name in ("x.arrow", "x.parquet"):
        refused(tmp_path / name, "it declares 10 rows, but 5 could be read", lambda path: list(iter_batches(path)))


@pytest.fixture
def pipe(tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no pipes in folders here")
    return lambda name: os.mkfifo(tmp_path / name) or tmp_path / name


def test_a_pipe_is_not_waited_for(pipe):
    refused(pipe("x.csv"), "it is neither a file nor a folder")
    with pytest.raises(ModelFileError, match="not a file"):
        load_model(pipe("x.unseen"))
    with pytest.raises(ValueError, match="is not a file"):
        Store(pipe("x.sqlite"))


ROW = Row("1-NN", "a -> b", ("b",), accuracy=0.5, accuracies={"b": 0.5}, settings={"C": 1.0})


def test_a_file_that_does_not_keep_its_rows_is_refused(tmp_path):
    from unseen.evaluation import run
    from unseen.tables import table_from_arrays

    path = tmp_path / "r.sqlite"
    with Store(path) as store:
        store.add_configuration("k", {})
        store.add("k", replace(ROW))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON results BEGIN DELETE FROM results; END")
    X, domain = np.random.default_rng(0).normal(size=(24, 2)), np.repeat(["a", "b", "c"], 8)
    with pytest.raises(ValueError, match="lacks results that were written to it"):
        run(table_from_arrays(X, np.arange(24) % 2, domain), ["1-NN"], store=path, n_jobs=1)


@pytest.fixture
def pictures():
    pytest.importorskip("PIL", reason="pictures need the extra")
    return pytest.importorskip("unseen.images._pixels")


def test_a_picture_that_would_become_very_long_is_refused(pictures):
    from PIL import Image

    for preset, size in (("torchvision", (1, 3000)), ("torchvision", (3000, 1)), ("caffe", (1, 100_000))):
        with pytest.raises(ValueError, match=f"it has {size[0]:,} x {size[1]:,} pixels, too many or too narrow"):
            pictures.PRESETS[preset].pixels(Image.new("RGB", size), 224, 224)


def test_pictures_and_weights_that_are_no_files_are_not_read(tmp_path, pipe):
    pytest.importorskip("onnxruntime", reason="networks need the extra")
    from tiny_network import tiny_network
    from unseen.images import extract

    found = extract([pipe("x.png")], tiny_network(tmp_path / "plain.onnx"), n_jobs=1)
    assert [skipped.reason for skipped in found.skipped] == ["it is not a regular file"]


WEIGHT_FILES = {
    "/dev/zero": "outside the folder of the network",
    "../x": "outside the folder of the network",
    "weights": "not a regular file",
    "link": "outside the folder of the network",
}


@pytest.mark.parametrize("inside", ["the graph", "a subgraph"])
@pytest.mark.parametrize("place", WEIGHT_FILES)
def test_a_network_reads_weights_only_from_files_in_its_own_folder(tmp_path, pipe, place, inside):
    onnx = pytest.importorskip("onnx", reason="networks need the extra")
    from tiny_network import store_externally, tiny_model
    from unseen.images._network import Network

    pipe("weights")
    (tmp_path / "link").symlink_to("/etc/passwd")
    model = tiny_model()
    node = onnx.helper.make_node("If", ["x"], ["y"], then_branch=onnx.GraphProto())
    model.graph.node.append(node)
    graph = model.graph if inside == "the graph" else model.graph.node[-1].attribute[0].g
    store_externally(graph.initializer.add(name="more"), place)
    (tmp_path / "network.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=f"it stores weights in '{place}', which is {WEIGHT_FILES[place]}"):
        Network(tmp_path / "network.onnx")


def test_features_that_were_altered_are_computed_again(tmp_path):
    pytest.importorskip("onnxruntime", reason="networks need the extra")
    from PIL import Image

    from tiny_network import tiny_network
    from unseen.images import extract

    picture, cache = tmp_path / "x.png", tmp_path / "features.sqlite"
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(picture)
    how = {"model": tiny_network(tmp_path / "n.onnx"), "cache": cache, "n_jobs": 1}
    first = extract([picture], **how).X
    for change in (
        "features SET numbers = 'text'",
        "features SET numbers = 1.5",
        f"features SET numbers = x'0102', checksum = {zlib.crc32(bytes([1, 2]))}",
    ):
        with closing(sqlite3.connect(cache)) as connection, connection:
            connection.execute(f"UPDATE {change}")
        np.testing.assert_array_equal(extract([picture], **how).X, first)
