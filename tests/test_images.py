"""From files of pictures to rows of features: every kind of file, every kind of network, nothing read twice."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import zlib
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
from unseen.images import Extractor, ImageFeatures, Preprocessing, extract, find_photos, photo_table
from unseen.images import _extract as extraction
from unseen.models import save_model
from unseen.tables import TableError, load_table

Image = pytest.importorskip("PIL.Image", reason="pictures need the extra images")
pytest.importorskip("onnxruntime", reason="networks need the extra images")
SHARED = Path(__file__).parents[2] / "shared" / "data"
RED, TEAL = (200, 40, 20), (10, 120, 130)


def solid(colour=RED, mode="RGB", size=(12, 10)):
    return Image.new("RGB", size, colour).convert(mode)


def with_alpha(colour, alpha):
    picture = solid(colour, "RGBA")
    picture.putalpha(alpha)
    return picture


def deep(values):
    return Image.fromarray(np.full((10, 12), values, dtype=np.uint16))


def gray(colour):
    return (Image.new("RGB", (1, 1), colour).convert("L").getpixel((0, 0)),) * 3


def see_through():
    picture = solid(RED).quantize(4)
    picture.info["transparency"] = picture.getpixel((0, 0))
    return picture


HALF = tuple((c + 255) / 2 for c in RED)
# A picture, how it is saved, and the colour that a network should see.
GOOD = {
    "colour.jpg": (solid(), {"quality": 95}, RED),
    "progressive.jpeg": (solid(), {"quality": 95, "progressive": True}, RED),
    "SHOUTING.JPG": (solid(TEAL), {"quality": 95, "format": "JPEG"}, TEAL),
    "colour.png": (solid(), {}, RED),
    "colour.bmp": (solid(), {}, RED),
    "colour.tif": (solid(), {}, RED),
    "packed.tiff": (solid(), {"compression": "tiff_lzw"}, RED),
    "colour.webp": (solid(), {"lossless": True}, RED),
    "gray.png": (solid(mode="L"), {}, gray(RED)),
    "gray.jpg": (solid(mode="L"), {}, gray(RED)),
    "one_bit.png": (solid((255, 255, 255), "1"), {}, (255, 255, 255)),
    "palette.png": (solid().quantize(4), {}, RED),
    "palette_clear.png": (see_through(), {}, (255, 255, 255)),
    "half_clear.png": (with_alpha(RED, 128), {}, HALF),
    "clear.webp": (with_alpha(RED, 0), {"lossless": True}, (255, 255, 255)),
    "gray_alpha.png": (with_alpha(RED, 255).convert("LA"), {}, gray(RED)),
    "cmyk.jpg": (solid(mode="CMYK"), {"quality": 95}, RED),
    "cmyk.tif": (solid(mode="CMYK"), {}, RED),
    "deep.png": (deep(40 * 257), {}, (40, 40, 40)),
    "deep.tif": (deep(200 * 257), {}, (200, 200, 200)),
    "one_pixel.png": (solid(size=(1, 1)), {}, RED),
    "thin.png": (solid(size=(3, 700)), {}, RED),
    "pages.tif": (solid(), {"save_all": True, "append_images": [solid(TEAL)]}, RED),
    "moving.webp": (solid(), {"save_all": True, "append_images": [solid(TEAL)], "lossless": True}, RED),
    "Füße und Blätter.png": (solid(TEAL), {}, TEAL),
}


def saved(picture, name="x.jpg", **options):
    buffer = io.BytesIO()
    picture.save(buffer, **{"format": Image.registered_extensions()[Path(name).suffix.lower()], **options})
    return buffer.getvalue()


def bomb(side):
    """A short PNG that says it has very many pixels, all of them black."""
    chunks = (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(10_000)))
    coded = (struct.pack(">I", len(c)) + kind + c + struct.pack(">I", zlib.crc32(kind + c)) for kind, c in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(coded)


BROKEN = {
    "empty.jpg": (b"", "no picture"),
    "text.png": (b"dear diary", "no picture"),
    "program.png": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no picture"),
    "cut.jpg": (saved(Image.effect_noise((60, 60), 90), "x.jpg")[:900], "truncated"),
    "cut.png": (saved(Image.effect_noise((60, 60), 90), "x.png")[:900], "truncated|broken"),
    "cut.tif": (saved(Image.effect_noise((60, 60), 90), "x.tif")[:700], ""),
    "bomb.png": (bomb(100_000), "10000000000 pixels"),
    "small_bomb.png": (bomb(10_000), "10,000 x 10,000 pixels; at most"),
    "fractions.tif": (saved(solid(mode="F"), "x.tif"), "fractions"),
    "wide.tif": (saved(Image.fromarray(np.full((4, 4), 10**6, np.int32)), "x.tif"), "16 bits"),
}


@pytest.fixture
def network(tmp_path):
    return tiny_network(tmp_path / "tiny.onnx")


def folder_of(tmp_path, contents):
    """Pictures as bytes by their paths below a folder."""
    for name, content in contents.items():
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "photos"


def some_photos(tmp_path, n=6):
    colours = np.random.default_rng(0).integers(0, 255, (4 * n, 3)).tolist()
    places = [(domain, label, i) for domain in ("bonn", "oslo") for label in ("cat", "dog") for i in range(n)]
    return folder_of(
        tmp_path,
        {
            f"{d}/{c}/{i}.png": saved(solid(tuple(colour)), "x.png")
            for (d, c, i), colour in zip(places, colours, strict=True)
        },
    )


@pytest.mark.parametrize("name", GOOD)
def test_every_kind_of_picture_is_seen_in_its_colours(name, tmp_path, network):
    picture, options, colour = GOOD[name]
    (tmp_path / name).write_bytes(saved(picture, name, **options))
    found = extract([tmp_path / name], network, output_name="flat", preprocessing={})
    assert found.skipped == []
    np.testing.assert_allclose(found.X[0], colour, atol=4)


def test_what_cannot_be_read_is_listed_with_its_reason(tmp_path, network):
    contents = {f"bonn/cat/{name}": content for name, (content, _) in BROKEN.items()}
    folder = folder_of(tmp_path, {**contents, "bonn/cat/good.png": saved(solid(), "x.png")})
    (folder / "bonn" / "cat" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    found = extract(folder, network, preprocessing={})
    assert [Path(path).name for path in found.paths] == ["good.png"]
    assert found.label == ["cat"]
    reasons = {Path(path).name: reason for path, reason in found.skipped}
    assert "No such file" in reasons.pop("gone.png")
    assert reasons.keys() == BROKEN.keys()
    for name, (_, said) in BROKEN.items():
        assert re.search(said, reasons[name]), (name, reasons[name])
    with pytest.raises(ValueError, match=r"small_bomb.png cannot be read: it has 10,000 x 10,000 pixels"):
        extract([folder / "bonn/cat/small_bomb.png"], network, strict=True)


def test_pictures_are_turned_as_their_camera_says(tmp_path, network):
    half = np.zeros((20, 20, 3), np.uint8)
    half[:10] = 255
    upright, turned = Image.fromarray(half), Image.fromarray(half).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it by 270 degrees
    (tmp_path / "turned.jpg").write_bytes(saved(turned, exif=exif, quality=95))
    how = Preprocessing()
    seen = extraction.decoded((tmp_path / "turned.jpg").read_bytes())
    np.testing.assert_allclose(how.pixels(seen, 8, 8), how.pixels(upright, 8, 8), atol=6)


def noise(size):
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8))


def test_the_preset_of_the_paper_is_the_centre_of_a_square_in_blue_green_red():
    picture, how = noise((400, 300)), Preprocessing.of("caffe")
    assert how.size(224, 224) == (224, 224)
    assert how.size(227, 227) == (227, 227)  # CaffeNet's own
    square = np.asarray(picture.resize((256, 256), Image.Resampling.BILINEAR), float)[16:240, 16:240]
    np.testing.assert_allclose(how.pixels(picture, 224, 224), square[..., ::-1] - how.mean, atol=1e-4)


def test_the_preset_of_torchvision_keeps_the_proportions():
    picture, how = noise((400, 300)), Preprocessing.of("torchvision")
    whole = np.asarray(picture.resize((341, 256), Image.Resampling.BILINEAR), float)[16:240, 58:282]
    np.testing.assert_allclose(how.pixels(picture, 224, 224), (whole / 255 - how.mean) / how.std, atol=1e-4)
    double = np.asarray(noise((600, 300)).resize((512, 256), Image.Resampling.BILINEAR), float)[16:240, 144:368]
    np.testing.assert_allclose(how.pixels(noise((600, 300)), 224, 224), (double / 255 - how.mean) / how.std, atol=1e-4)


def test_a_share_is_cut_out_before_resizing():
    picture, how = noise((401, 300)), Preprocessing.of("tf-lite")
    side = int(300 * 224 / 256)
    left, top = (401 - side) // 2, (300 - side) // 2
    cut = picture.crop((left, top, left + side, top + side)).resize((96, 96), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(how.pixels(picture, 96, 96), (np.asarray(cut, np.float32) - 127) / 128)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"preset": "coffee"}, "preset must be one of caffe"),
        ({"crop": 30.5}, "crop must be"),
        ({"resize": 0}, "resize must be"),
        ({"mean": [1, 2]}, "mean must be 1 or 3"),
        ({"std": 0}, "none of them 0"),
        ({"channels": "grb"}, "channels must be one of rgb, bgr"),
        ({"colour": 1}, "no setting 'colour'"),
    ],
)
def test_settings_that_make_no_sense_are_told(wrong, said):
    with pytest.raises(ValueError, match=said):
        Preprocessing.of(wrong)


def test_sizes_that_do_not_fit_the_network_are_told():
    with pytest.raises(ValueError, match="224 x 224 pixels: crop cannot be 200"):
        Preprocessing(crop=200).size(224, 224)
    with pytest.raises(ValueError, match="resize to more than 128"):
        Preprocessing(128).size(224, 224)
    assert Preprocessing(32).size(None, None) == (32, 32)
    assert Preprocessing(300, 240).size(None, None) == (240, 240)


@pytest.mark.parametrize("how", [{"layout": "NHWC"}, {"batch": 1}, {"batch": 5}, {"size": "side"}])
def test_networks_of_every_layout_give_the_same_features(how, tmp_path, network):
    folder = some_photos(tmp_path)
    other = tiny_network(tmp_path / "other.onnx", **how)
    settings = {"preprocessing": {"resize": 8}, "output_name": "fc6"}
    np.testing.assert_allclose(extract(folder, other, **settings).X, extract(folder, network, **settings).X, rtol=1e-5)


def test_a_network_of_one_channel_sees_gray(tmp_path):
    network = tiny_network(tmp_path / "gray.onnx", channels=1)
    (tmp_path / "x.png").write_bytes(saved(solid(), "x.png"))
    found = extract([tmp_path / "x.png"], network, output_name="flat", preprocessing={})
    np.testing.assert_allclose(found.X, [gray(RED)[:1]], atol=1)
    assert extract([tmp_path / "x.png"], network, output_name="flat", preprocessing="caffe").X.shape == (1, 1)


def test_weights_may_lie_beside_the_network_and_count_as_part_of_it(tmp_path, network):
    weights, folder = tmp_path / "other.onnx.data", some_photos(tmp_path, 1)
    other = tiny_network(tmp_path / "other.onnx", beside=weights)
    plain, found = extract(folder, network, preprocessing={}), extract(folder, other, preprocessing={})
    np.testing.assert_allclose(found.X, plain.X)
    weights.write_bytes(bytes(len(weights.read_bytes())))
    again = extract(folder, other, preprocessing={})
    assert not again.X.any()
    assert again.facts["sha256"] != found.facts["sha256"]


def test_a_network_of_whole_pixels_is_given_no_others(tmp_path):
    network = tiny_network(tmp_path / "whole.onnx", whole=True, layout="NHWC")
    (tmp_path / "x.png").write_bytes(saved(solid(), "x.png"))
    np.testing.assert_allclose(extract([tmp_path / "x.png"], network, output_name="flat", preprocessing={}).X, [RED])
    with pytest.raises(ValueError, match=r"whole.onnx takes whole pixels.* set scale to 255"):
        extract([tmp_path / "x.png"], network)


def test_any_tensor_may_be_the_output(tmp_path, network):
    folder = some_photos(tmp_path, 1)
    widths = {name: extract(folder, network, output_name=name).X.shape[1] for name in (None, "fc6", "flat", "layer6")}
    assert widths == {None: 4, "fc6": 4, "flat": 3, "layer6": 4}
    assert (extract(folder, network, output_name="fc6").X < 0).any()
    assert (extract(folder, network).X >= 0).all()  # after the ReLU
    with pytest.raises(ValueError, match=r"no tensor 'fc7'. Did you mean 'fc6'\? Its outputs are 'out'"):
        extract(folder, network, output_name="fc7")


def test_what_is_no_network_for_pictures_is_told(tmp_path):
    folder = some_photos(tmp_path, 1)
    (tmp_path / "bad.onnx").write_bytes(b"not a network at all")
    with pytest.raises(ValueError, match="not an ONNX file"):
        extract(folder, tmp_path / "bad.onnx")
    whole = tiny_network(tmp_path / "whole.onnx").read_bytes()
    (tmp_path / "bad.onnx").write_bytes(whole[:-20])
    with pytest.raises(ValueError, match="not an ONNX file, or it is damaged"):
        extract(folder, tmp_path / "bad.onnx")
    with pytest.raises(FileNotFoundError, match="Pass a network"):
        extract(folder, tmp_path / "none.onnx")
    with pytest.raises(ValueError, match="does not take pictures"):
        extract(folder, tiny_network(tmp_path / "five.onnx", channels=5, weights=np.ones((5, 4))))


def counting(monkeypatch):
    """Names of the files that are read, and the number of those that are decoded."""
    read, opened = [], []
    plainly, decode = Path.read_bytes, extraction.decoded
    monkeypatch.setattr(Path, "read_bytes", lambda path: (read.append(path.name), plainly(path))[1])
    monkeypatch.setattr(extraction, "decoded", lambda held: (opened.append(held), decode(held))[1])
    return read, opened


def test_a_second_run_reads_no_picture_again(tmp_path, network, monkeypatch):
    folder, how = some_photos(tmp_path), {"cache": tmp_path / "cache.sqlite", "preprocessing": {}}
    first = extract(folder, network, **how)
    read, opened = counting(monkeypatch)
    again = extract(folder, network, **how)
    np.testing.assert_array_equal(again.X, first.X)
    assert (read, opened) == (["tiny.onnx"], [])
    touched, changed = folder / "bonn/cat/0.png", folder / "bonn/cat/1.png"
    os.utime(touched, (1, 1))
    changed.write_bytes(saved(solid((1, 2, 3)), "x.png"))
    third = extract(folder, network, **how)
    assert sorted(read[1:]) == ["0.png", "1.png", "tiny.onnx"]
    assert len(opened) == 1  # what was only touched holds what it held
    np.testing.assert_allclose(third.X[1], [1, 2, 3, 0], atol=0.01)
    extract(folder, network, **how | {"output_name": "fc6"})
    assert len(opened) == 1 + len(first.X)  # another output is another matter


def test_a_file_that_holds_no_features_is_refused(tmp_path, network):
    (tmp_path / "cache.sqlite").write_text("dear diary " * 100)
    with pytest.raises(OSError, match="cannot be used as a file of features"):
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
    _, opened = counting(monkeypatch)
    found = extract(folder, network, cache=cache, batch_size=4)
    assert len(found.X) == 24
    assert len(opened) == 24 - 3 * 4


def test_the_table_is_taken_as_it_is_and_says_how_it_was_made(tmp_path, network, monkeypatch):
    monkeypatch.setattr(extraction, "BLOCK_VALUES", 20)  # five rows
    photos = find_photos(some_photos(tmp_path))
    files, skipped = Extractor(model=network, output_name="fc6", preprocessing="tf-lite").write(
        photos, tmp_path / "features.parquet"
    )
    assert (files, skipped) == (photos.files, [])
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
    with pytest.raises(TableError, match=r"none of its 1 picture can be read: .*1.png: no picture"):
        Extractor(model=network).write(photos, tmp_path / "features.parquet")
    assert not (tmp_path / "features.parquet").exists()


def touched(tmp_path, *names):
    return folder_of(tmp_path, dict.fromkeys(names, b""))


def test_both_layouts_of_vlcs_are_recognised(tmp_path):
    plain = touched(tmp_path / "a", "VOC2007/dog/1.jpg", "LabelMe/bird/x.jpg", "LabelMe/dog/y.jpg", "LabelMe/notes.txt")
    found = find_photos(plain)
    assert (found.domain, found.label) == (["LabelMe", "LabelMe", "VOC2007"], ["bird", "dog", "dog"])
    splits = touched(
        tmp_path / "b",
        *(f"PASCAL/{split}/{c}/{split}{c}.jpg" for split in ("train", "crossval", "test", "full") for c in (0, 1)),
        "SUN/train/0/1.jpg",
        "SUN/test/1/2.jpg",
    )
    found = find_photos(splits)
    assert found.domain == ["PASCAL", "PASCAL", "SUN", "SUN"]
    assert found.label == ["0", "1", "1", "0"]
    assert "4 of 10 are used, those in 'full', 'test', 'train'" in found.notices[0]


def test_a_pattern_finds_domains_and_classes_in_paths(tmp_path):
    folder = touched(tmp_path, "fox/north_1.jpg", "fox/south_2.jpg", ".hidden.jpg", ".old/north_3.jpg")
    assert find_photos(folder, r"/(\w+)_").domain == ["north", "south"]
    assert find_photos(folder, r"/(\w+)_").label == ["fox", "fox"]
    found = find_photos(folder, r"(?P<domain>north|south)_(?P<label>\d)")
    assert (found.domain, found.label) == (["north", "south"], ["1", "2"])
    for pattern, said in (
        ("(", "no regular expression"),
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
    assert ours.write(photos, tmp_path / "features.parquet") == (photos.files, [])
    assert len(ours.extract(photos).X) == 1


def test_folders_of_another_shape_are_told_what_to_do(tmp_path):
    with pytest.raises(TableError, match=r"1 of 2 do not, such as cat/1.jpg. Pass --domain-from"):
        find_photos(touched(tmp_path, "cat/1.jpg", "bonn/cat/2.jpg"))
    with pytest.raises(TableError, match="holds no pictures"):
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


def coloured(tmp_path):
    """Paths, classes and domains of pictures whose colours tell the class."""
    folder, classes = tmp_path / "coloured", {"red": (200, 30, 30), "blue": (30, 30, 200)}
    rng, rows = np.random.default_rng(0), []
    for place in ("bonn", "leeds", "oslo"):
        for name, colour in classes.items():
            for i in range(4):
                values = np.clip(np.array(colour) + rng.integers(-20, 20, 3), 0, 255).tolist()
                path = folder_of(folder, {f"{place}/{name}/{i}.png": saved(solid(tuple(values)), "x.png")})
                rows.append((str(path / place / name / f"{i}.png"), name, place))
    return map(np.array, zip(*rows, strict=True))


def test_a_pipeline_from_file_names_to_labels_is_saved_without_its_network(tmp_path, network):
    pytest.importorskip("skops", reason="model files need it")
    paths, y, domain = coloured(tmp_path)
    steps = ImageFeatures(model=str(network), output_name="fc6", preprocessing={"scale": 1, "mean": [0.5]}), CIDG()
    pipeline = make_pipeline(*steps, KNeighborsClassifier(1, algorithm="brute"))
    pipeline.fit(paths, y, cidg__sample_domain=domain)
    assert (pipeline.predict(paths) == y).all()
    assert (pipeline.predict(paths[:, None]) == y).all()
    assert steps[0].get_feature_names_out().tolist() == [f"imagefeatures{j}" for j in range(4)]
    save_model(pipeline, tmp_path / "model.unseen", {})

    # In a process that has not heard of this room.
    code = "import sys, unseen; print(*unseen.load_model(sys.argv[1]).estimator.predict(sys.argv[2:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "model.unseen", *paths[:5]], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == y[:5].tolist(), done.stderr
    tiny_network(network, weights=np.ones((3, 4), np.float32))
    with pytest.raises(ValueError, match="This was fitted with another network: sha256"):
        load_model(tmp_path / "model.unseen").estimator.predict(paths)


def test_the_transformer_says_what_is_wrong(tmp_path, network):
    features = ImageFeatures(model=str(network))
    with pytest.raises(ValueError, match=r"path of a picture for each sample; got shape \(2, 2\)"):
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
    coloured(tmp_path)
    table = photo_table(tmp_path / "coloured" / "photos", network)
    found = unseen.compare(table, methods=["1NN", "nearest mean"], repeats=1, quick=True)
    assert found.summary()["data"]["n_samples"] == 24
    assert found.summary()["hardest"] == []  # colours tell the classes
    assert found.summary()["pictures"] == {}  # without a projection nothing is plotted
    addresses = table.pictures([0, 23])
    assert all(address.startswith("data:image/jpeg;base64,") for address in addresses)
    Path(table.pictures.files[0]).unlink()
    assert table.pictures([0]) == [""]
