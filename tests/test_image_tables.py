"""Tables of pictures: found in any layout, nothing read twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tiny_network import tiny_network
from unseen.images import _extract as extraction
from unseen.images import extract, find_photos
from unseen.tables import TableError, load_table

pytest.importorskip("PIL.Image", reason="pictures need the extra images")
pytest.importorskip("onnxruntime", reason="networks need the extra images")
from pictures import folder_of, saved, solid, some_photos

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def network(tmp_path):
    return tiny_network(tmp_path / "tiny.onnx")


def counting(monkeypatch):
    """The contents of the files that are decoded."""
    opened, decode = [], extraction.decode_image
    monkeypatch.setattr(extraction, "decode_image", lambda held: (opened.append(held), decode(held))[1])
    return opened


def test_a_second_run_decodes_no_picture_again(tmp_path, network, monkeypatch):
    folder, how = some_photos(tmp_path), {"cache": tmp_path / "cache.sqlite", "preprocessing": {}}
    first = extract(folder, network, **how)
    opened = counting(monkeypatch)
    again = extract(folder, network, **how)
    np.testing.assert_array_equal(again.X, first.X)
    assert opened == []
    os.utime(folder / "bonn/cat/0.png", (1, 1))
    (folder / "bonn/cat/1.png").write_bytes(saved(solid((1, 2, 3)), "x.png"))
    third = extract(folder, network, **how)
    assert len(opened) == 1  # what was only touched holds what it held
    np.testing.assert_allclose(third.X[1], [1, 2, 3, 0], atol=0.01)
    extract(folder, network, **how | {"output_name": "fc6"})
    assert len(opened) == 1 + len(first.X)  # another output is another matter


def test_a_file_that_holds_no_features_is_refused(tmp_path, network):
    (tmp_path / "cache.sqlite").write_text("dear diary " * 100)
    with pytest.raises(OSError, match="cannot be used as a cache of features"):
        extract(some_photos(tmp_path), network, cache=tmp_path / "cache.sqlite")


KILLED = """
import os, signal, sys
from unseen.images import _network, extract

run, calls = _network.Network.features, []
def features(self, pictures):
    calls.append(len(pictures))
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(self, pictures)
_network.Network.features = features
extract(sys.argv[1], sys.argv[2], cache=sys.argv[3], batch_size=4)
"""


@pytest.mark.system
def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path, network, monkeypatch):
    folder, cache = some_photos(tmp_path), tmp_path / "cache.sqlite"
    done = subprocess.run([sys.executable, "-c", KILLED, folder, network, cache], check=False)
    assert done.returncode == -signal.SIGKILL
    opened = counting(monkeypatch)
    found = extract(folder, network, cache=cache, batch_size=4)
    assert len(found.X) == 24
    assert len(opened) == 24 - 3 * 4


def test_the_table_is_taken_as_it_is_and_says_how_it_was_made(tmp_path, network):
    photos = find_photos(some_photos(tmp_path))
    written = extract(photos, network, output_name="fc6", preprocessing="tf-lite")
    written.write(tmp_path / "features.parquet")
    assert (written.paths, written.skipped) == (photos.paths, [])
    table = load_table(tmp_path / "features.parquet")
    assert table.X.shape == (24, 4)
    assert (table.y.tolist(), table.domain.tolist()) == (photos.label, photos.domain)
    np.testing.assert_array_equal(table.X, written.X)
    facts = json.loads(
        pytest.importorskip("polars").read_parquet_metadata(tmp_path / "features.parquet")["unseen.images"]
    )
    assert facts["output"] == "fc6"
    assert facts["preprocessing"]["mean"] == [127.0]
    assert len(facts["sha256"]) == 64
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features.parquet", "photos", "tiny.onnx"]


def test_a_table_needs_one_picture_that_can_be_read(tmp_path, network):
    photos = find_photos(folder_of(tmp_path, {"bonn/cat/1.png": b"no"}))
    with pytest.raises(TableError, match=r"none of its 1 image can be read: .*1.png: not an image"):
        extract(photos, network)


def touched(tmp_path, *names):
    return folder_of(tmp_path, dict.fromkeys(names, b""))


def test_folders_are_domains_and_classes(tmp_path):
    plain = touched(tmp_path / "a", "VOC2007/dog/1.jpg", "LabelMe/bird/x.jpg", "LabelMe/dog/y.jpg", "LabelMe/notes.txt")
    found = find_photos(plain)
    assert (found.domain, found.label) == (["LabelMe", "LabelMe", "VOC2007"], ["bird", "dog", "dog"])
    splits = touched(tmp_path / "b", "SUN/train/0/1.jpg", "SUN/test/1/2.jpg")
    with pytest.raises(TableError, match=r"DOMAIN/CLASS/; 2 of 2 paths do not match, such as SUN/test/1/2"):
        find_photos(splits)
    found = find_photos(splits, r"(?P<domain>\w+)/(train|test)/(?P<label>\d)")
    assert (found.domain, found.label) == (["SUN", "SUN"], ["1", "0"])


def test_a_pattern_finds_domains_and_classes_in_paths(tmp_path):
    folder = touched(tmp_path, "fox/north_1.jpg", "fox/south_2.jpg", ".hidden.jpg", ".old/north_3.jpg")
    assert find_photos(folder, r"/(\w+)_").domain == ["north", "south"]
    assert find_photos(folder, r"/(\w+)_").label == ["fox", "fox"]
    found = find_photos(folder, r"(?P<domain>north|south)_(?P<label>\d)")
    assert (found.domain, found.label) == (["north", "south"], ["1", "2"])
    for pattern, said in (
        ("(", "not a regular expression"),
        ("north", "one group"),
        ("(north)", r"1 of 2 paths.*south_2"),
    ):
        with pytest.raises(ValueError, match=said):
            find_photos(folder, pattern)


def test_a_table_lists_pictures_from_its_own_folder(tmp_path):
    (tmp_path / "list.csv").write_text("path,label,domain\na/1.jpg,cat,bonn\n/b/2.jpg,dog,oslo\n")
    found = find_photos(tmp_path / "list.csv")
    assert found.files == [tmp_path / "a/1.jpg", Path("/b/2.jpg")]
    assert (found.label, found.domain, found.name) == (["cat", "dog"], ["bonn", "oslo"], "list")
    (tmp_path / "list.csv").write_text("path,label\n1.jpg,cat\n")
    with pytest.raises(TableError, match="no column 'domain'"):
        find_photos(tmp_path / "list.csv")
    (tmp_path / "list.csv").write_text("path,label,domain\n1.jpg,cat,bonn\n1.jpg,,bonn\n")
    with pytest.raises(TableError, match=r"(?s)row 2 has no path.*listed more than once"):
        find_photos(tmp_path / "list.csv")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_no_text_are_no_obstacle(tmp_path, network):
    folder = tmp_path / "photos"
    path = os.fsencode(folder) + b"/bonn/caf\xe9/1.png"
    os.makedirs(os.path.dirname(path))
    Path(os.fsdecode(path)).write_bytes(saved(solid(), "x.png"))
    photos = find_photos(folder)
    assert photos.label == ["caf\ufffd"]
    written = extract(photos, network, cache=tmp_path / "cache.sqlite")
    written.write(tmp_path / "features.parquet")
    assert (written.skipped, len(written.X)) == ([], 1)


def test_folders_of_another_shape_are_told_what_to_do(tmp_path):
    with pytest.raises(TableError, match=r"1 of 2 paths do not match, such as cat/1.jpg. Pass .* as domain_from"):
        find_photos(touched(tmp_path, "cat/1.jpg", "bonn/cat/2.jpg"))
    with pytest.raises(TableError, match="contains no images"):
        find_photos(touched(tmp_path / "other", "notes.txt"))


@pytest.mark.skipif(not (SHARED / "models").is_dir(), reason="the photographs are not at hand")
def test_features_of_real_photographs_are_those_computed_elsewhere():
    network = SHARED / "models" / "efficientnet-lite0.onnx"
    found = extract(SHARED / "office_caltech_photos", network, preprocessing="tf-lite")
    known = {}
    for file in (SHARED / "office_caltech_efflite0").glob("*.npz"):
        with np.load(file) as data:
            known |= dict(zip(data["paths"].tolist(), data["X"], strict=True))
    expected = np.array([known["/".join(Path(path).parts[-3:])] for path in found.paths])
    assert len(expected) == 80
    assert np.linalg.norm(found.X - expected, axis=1).max() <= 1e-3 * np.linalg.norm(expected, axis=1).min()
