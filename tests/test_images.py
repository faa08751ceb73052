"""From files of pictures to rows of features: every kind of file and every kind of network."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from tiny_network import tiny_model, tiny_network
from unseen.images import Preprocessing, extract
from unseen.images import _extract as extraction
from unseen.tables import TableError

pytest.importorskip("PIL.Image", reason="pictures need the extra images")
pytest.importorskip("onnxruntime", reason="networks need the extra images")
from pictures import RED, TEAL, Image, folder_of, noise, saved, solid, some_photos


@pytest.fixture
def network(tmp_path):
    return tiny_network(tmp_path / "tiny.onnx")


def with_alpha(color, alpha):
    picture = solid(color, "RGBA")
    picture.putalpha(alpha)
    return picture


def deep(values):
    return Image.fromarray(np.full((10, 12), values, dtype=np.uint16))


def gray(color):
    return (Image.new("RGB", (1, 1), color).convert("L").getpixel((0, 0)),) * 3


def see_through():
    picture = solid(RED).quantize(4)
    picture.info["transparency"] = picture.getpixel((0, 0))
    return picture


HALF = tuple((c + 255) / 2 for c in RED)
# A picture, how it is saved, and the color that a network should see.
GOOD = {
    "color.jpg": (solid(), {"quality": 95}, RED),
    "progressive.jpeg": (solid(), {"quality": 95, "progressive": True}, RED),
    "SHOUTING.JPG": (solid(TEAL), {"quality": 95, "format": "JPEG"}, TEAL),
    "color.png": (solid(), {}, RED),
    "color.bmp": (solid(), {}, RED),
    "color.tif": (solid(), {}, RED),
    "packed.tiff": (solid(), {"compression": "tiff_lzw"}, RED),
    "color.webp": (solid(), {"lossless": True}, RED),
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


def bomb(side):
    """A short PNG that says it has very many pixels, all of them black."""
    chunks = (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(10_000)))
    coded = (struct.pack(">I", len(c)) + kind + c + struct.pack(">I", zlib.crc32(kind + c)) for kind, c in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(coded)


BROKEN = {
    "empty.jpg": (b"", "not an image in a supported format"),
    "text.png": (b"dear diary", "not an image in a supported format"),
    "program.png": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image in a supported format"),
    "cut.jpg": (saved(Image.effect_noise((60, 60), 90), "x.jpg")[:900], "truncated"),
    "cut.png": (saved(Image.effect_noise((60, 60), 90), "x.png")[:900], "truncated|broken"),
    "cut.tif": (saved(Image.effect_noise((60, 60), 90), "x.tif")[:700], ""),
    "bomb.png": (bomb(100_000), "10000000000 pixels"),
    "small_bomb.png": (bomb(10_000), "10,000 x 10,000 pixels; the maximum is"),
    "fractions.tif": (saved(solid(mode="F"), "x.tif"), "floating point numbers"),
    "wide.tif": (saved(Image.fromarray(np.full((4, 4), 10**6, np.int32)), "x.tif"), "16 bits"),
}


@pytest.mark.parametrize("name", GOOD)
def test_every_kind_of_picture_is_seen_in_its_colors(name, tmp_path, network):
    picture, options, color = GOOD[name]
    (tmp_path / name).write_bytes(saved(picture, name, **options))
    found = extract([tmp_path / name], network, output_name="flat", preprocessing={})
    assert found.skipped == []
    np.testing.assert_allclose(found.X[0], color, atol=4)


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
    seen = extraction.decode_image((tmp_path / "turned.jpg").read_bytes())
    np.testing.assert_allclose(how.pixels(seen, 8, 8), how.pixels(upright, 8, 8), atol=6)


def test_the_preset_of_the_paper_is_the_center_of_a_square_in_blue_green_red():
    picture, how = noise((400, 300)), Preprocessing.from_spec("caffe")
    assert how.output_size(224, 224) == (224, 224)
    assert how.output_size(227, 227) == (227, 227)  # CaffeNet's own
    square = np.asarray(picture.resize((256, 256), Image.Resampling.BILINEAR), float)[16:240, 16:240]
    np.testing.assert_allclose(how.pixels(picture, 224, 224), square[..., ::-1] - how.mean, atol=1e-4)


def test_the_preset_of_torchvision_keeps_the_proportions():
    picture, how = noise((400, 300)), Preprocessing.from_spec("torchvision")
    whole = np.asarray(picture.resize((341, 256), Image.Resampling.BILINEAR), float)[16:240, 58:282]
    np.testing.assert_allclose(how.pixels(picture, 224, 224), (whole / 255 - how.mean) / how.std, atol=1e-4)
    double = np.asarray(noise((600, 300)).resize((512, 256), Image.Resampling.BILINEAR), float)[16:240, 144:368]
    np.testing.assert_allclose(how.pixels(noise((600, 300)), 224, 224), (double / 255 - how.mean) / how.std, atol=1e-4)


def test_a_share_is_cut_out_before_resizing():
    picture, how = noise((401, 300)), Preprocessing.from_spec("tf-lite")
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
        ({"std": 0}, "std without 0"),
        ({"channels": "grb"}, "channels must be one of rgb, bgr"),
        ({"color": 1}, "unknown setting 'color'"),
    ],
)
def test_settings_that_make_no_sense_are_told(wrong, said):
    with pytest.raises(ValueError, match=said):
        Preprocessing.from_spec(wrong)


def test_sizes_that_do_not_fit_the_network_are_told():
    with pytest.raises(ValueError, match=r"resize=128 is smaller\. Use a larger resize"):
        Preprocessing(128).output_size(224, 224)
    assert Preprocessing(32).output_size(None, None) == (32, 32)
    assert Preprocessing(300).output_size(None, None) == (224, 224)


@pytest.mark.parametrize("how", [{"layout": "NHWC"}, {"batch": 1}, {"batch": 5}, {"size": "side"}])
def test_networks_of_every_layout_give_the_same_features(how, tmp_path, network):
    folder = some_photos(tmp_path)
    other = tiny_network(tmp_path / "other.onnx", **how)
    settings = {"preprocessing": {"resize": 8}, "output_name": "fc6"}
    np.testing.assert_allclose(extract(folder, other, **settings).X, extract(folder, network, **settings).X, rtol=1e-5)


def test_weights_may_lie_beside_the_network_and_count_as_part_of_it(tmp_path, network):
    weights, folder = tmp_path / "other.onnx.data", some_photos(tmp_path, 1)
    other = tiny_network(tmp_path / "other.onnx", beside=weights)
    plain, found = extract(folder, network, preprocessing={}), extract(folder, other, preprocessing={})
    np.testing.assert_allclose(found.X, plain.X)
    weights.write_bytes(bytes(len(weights.read_bytes())))
    again = extract(folder, other, preprocessing={})
    assert not again.X.any()
    assert again.facts["sha256"] != found.facts["sha256"]


def test_any_tensor_may_be_the_output(tmp_path, network):
    folder = some_photos(tmp_path, 1)
    widths = {name: extract(folder, network, output_name=name).X.shape[1] for name in (None, "fc6", "flat")}
    assert widths == {None: 4, "fc6": 4, "flat": 3}
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
    with pytest.raises(FileNotFoundError, match="Pass an ONNX file"):
        extract(folder, tmp_path / "none.onnx")
    for how in ({"channels": 5, "weights": np.ones((5, 4))}, {"channels": 1}, {"whole": True, "layout": "NHWC"}):
        with pytest.raises(ValueError, match="does not take images: it needs one input of floats"):
            extract(folder, tiny_network(tmp_path / "other.onnx", **how))


def test_a_network_without_outputs_is_refused(tmp_path):
    folder, model = some_photos(tmp_path, 1), tiny_model()
    del model.graph.output[:]
    for content in (b"", model.SerializeToString()):
        (tmp_path / "bad.onnx").write_bytes(content)
        with pytest.raises(ValueError, match=r"not an ONNX file, or it is damaged \(it declares no output"):
            extract(folder, tmp_path / "bad.onnx")


def test_files_of_too_many_bytes_are_not_read(tmp_path, network, monkeypatch):
    monkeypatch.setattr("unseen.images._extract.MAX_FILE_BYTES", 10)
    with pytest.raises(TableError, match=r"it has \d+ bytes; the maximum is 10"):
        extract(some_photos(tmp_path, 1), network)


def test_onnxruntime_collects_no_telemetry(tmp_path, monkeypatch):
    runtime = pytest.importorskip("onnxruntime")
    calls = []
    monkeypatch.setattr(runtime, "disable_telemetry_events", lambda: calls.append("disabled"))
    monkeypatch.setattr(runtime, "InferenceSession", lambda *_, **__: calls.append("opened"))
    extraction.Network(tiny_network(tmp_path / "n.onnx")).session  # noqa: B018
    assert calls == ["disabled", "opened"]
