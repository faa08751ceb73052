"""Tables of pictures: found in any layout, nothing read twice, and from file names to labels."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import unseen
from tiny_network import tiny_network
from unseen import CIDG, load_model
from unseen.images import Extractor, ImageFeatures, extract, find_photos, photo_table
from unseen.images import _extract as extraction
from unseen.models import save_model
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
    extractor = Extractor(model=network, output_name="fc6", preprocessing="tf-lite")
    written = extractor.write(photos, tmp_path / "features.parquet")
    assert (written.paths, written.skipped) == (photos.paths, [])
    table = load_table(tmp_path / "features.parquet")
    assert table.X.shape == (24, 4)
    assert (table.y.tolist(), table.domain.tolist()) == (photos.label, photos.domain)
    np.testing.assert_array_equal(table.X, extract(photos, network, output_name="fc6", preprocessing="tf-lite").X)
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
        Extractor(model=network).write(photos, tmp_path / "features.parquet")
    assert not (tmp_path / "features.parquet").exists()


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
    ours = Extractor(model=network, cache=tmp_path / "cache.sqlite")
    assert ours.write(photos, tmp_path / "features.parquet").skipped == []
    assert len(ours.extract(photos).X) == 1


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


def colored(tmp_path):
    """Paths, classes and domains of pictures whose colors tell the class."""
    folder, classes = tmp_path / "colored", {"red": (200, 30, 30), "blue": (30, 30, 200)}
    rng, rows = np.random.default_rng(0), []
    for place in ("bonn", "leeds", "oslo"):
        for name, color in classes.items():
            for i in range(4):
                values = np.clip(np.array(color) + rng.integers(-20, 20, 3), 0, 255).tolist()
                path = folder_of(folder, {f"{place}/{name}/{i}.png": saved(solid(tuple(values)), "x.png")})
                rows.append((str(path / place / name / f"{i}.png"), name, place))
    return map(np.array, zip(*rows, strict=True))


def test_a_pipeline_from_file_names_to_labels_is_saved_without_its_network(tmp_path, network):
    pytest.importorskip("skops", reason="model files need it")
    paths, y, domain = colored(tmp_path)
    steps = ImageFeatures(model=str(network), output_name="fc6", preprocessing={"scale": 1, "mean": [0.5]}), CIDG()
    pipeline = make_pipeline(*steps, KNeighborsClassifier(1, algorithm="brute"))
    pipeline.fit(paths, y, cidg__sample_domain=domain)
    assert (pipeline.predict(paths) == y).all()
    assert (pipeline.predict(paths[:, None]) == y).all()
    assert steps[0].get_feature_names_out().tolist() == [f"imagefeatures{j}" for j in range(4)]
    save_model(pipeline, tmp_path / "model.unseen", {})

    # In a process that has not imported unseen.images, and in whose folder the network is.
    code = "import sys, unseen; print(*unseen.load_model(sys.argv[1]).estimator.predict(sys.argv[2:]))"
    command = [sys.executable, "-c", code, tmp_path / "model.unseen", *paths[:5]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=network.parent)
    assert done.stdout.split() == y[:5].tolist(), done.stderr
    loaded = load_model(tmp_path / "model.unseen").estimator.set_params(imagefeatures__model=str(network))
    assert (loaded.predict(paths) == y).all()
    tiny_network(network, weights=np.ones((3, 4), np.float32))
    with pytest.raises(ValueError, match="This transformer was fitted with another network: sha256"):
        loaded.predict(paths)


def test_the_transformer_says_what_is_wrong(tmp_path, network):
    features = ImageFeatures(model=str(network))
    with pytest.raises(ValueError, match=r"path of an image for each sample; got shape \(2, 2\)"):
        features.fit([[1, 2], [3, 4]])
    with pytest.raises(NotFittedError):
        features.transform(["x.png"])
    features.fit(["x.png"])
    with pytest.raises(ValueError, match=r"x.png cannot be read: No such file"):
        features.transform([tmp_path / "x.png"])
    features.set_params(preprocessing="caffe")
    with pytest.raises(ValueError, match="fitted with other settings"):
        features.transform(["x.png"])
    assert clone(features).get_params() == features.get_params()


def test_photographs_are_compared_from_python(tmp_path, network):
    colored(tmp_path)
    table = photo_table(tmp_path / "colored" / "photos", network)
    found = unseen.compare(table, methods=["1-NN", "nearest mean"], quick=True)
    assert found.to_dict()["data"]["n_samples"] == 24
    assert found.to_dict()["pictures"] == {}  # without a projection nothing is plotted
    addresses = table.pictures([0, 23])
    assert all(address.startswith("data:image/jpeg;base64,") for address in addresses)
    Path(table.pictures.files[0]).unlink()
    assert table.pictures([0]) == [""]
