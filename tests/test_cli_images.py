"""The commands on photographs: a table of features."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command import run_command
from tiny_network import tiny_network

pytest.importorskip("typer", reason="the command needs its extra")
Image = pytest.importorskip("PIL.Image", reason="pictures need the extra images")
pytest.importorskip("onnxruntime", reason="networks need the extra images")
from unseen.cli._app import app  # noqa: E402
from unseen.tables import load_table  # noqa: E402

COLORS = {"cat": (200, 60, 60), "dog": (60, 200, 60)}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_network(tmp_path / "tiny.onnx")
    return tmp_path


def photos(folder, layout="{domain}/{label}/{i}.png", domains=("bonn", "leeds", "oslo"), classes=COLORS, n=4):
    """Pictures of which each class has its color, and each domain its own light."""
    random = np.random.default_rng(0)
    for shift, domain in enumerate(domains):
        for label, color in classes.items():
            for i in range(n):
                values = np.array(color) + 10 * shift + random.normal(0, 25, 3)
                path = folder / layout.format(domain=domain, label=label, i=i)
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (20, 16), tuple(np.clip(values, 0, 255).astype(int).tolist())).save(path)
    return folder


def test_extract_writes_a_table_and_lists_what_it_skipped(here):
    folder = photos(here / "photos")
    (folder / "bonn" / "cat" / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    asked = ["extract", folder, "-o", "features.parquet", "--network", "tiny.onnx", "--output-name", "fc6"]
    settings = ("resize=[9,9]", "crop=0.8", "mean=[1,2,3]", "std=2", "scale=1", "channels=bgr")
    own = [part for setting in settings for part in ("--override", setting)]
    code, said = run_command(app, *asked, *own)
    assert code == 0, said
    assert "24 images of 3 domains and 2 classes, tensor 'fc6' of tiny.onnx" in said
    assert "1 image could not be read" in said
    assert 'torn.png,"not an image' in (here / "features.skipped.csv").read_text()
    assert load_table(here / "features.parquet").X.shape == (24, 4)
    metadata = pytest.importorskip("polars").read_parquet_metadata(here / "features.parquet")
    how = json.loads(metadata["unseen.images"])["preprocessing"]
    assert how["resize"] == [9, 9]
    assert (how["crop"], how["mean"], how["std"], how["scale"], how["channels"]) == (0.8, [1, 2, 3], [2], 1.0, "bgr")
    code, said = run_command(app, *asked, "--strict")
    assert code == 2
    assert "torn.png cannot be read" in said
    (folder / "bonn" / "cat" / "torn.png").unlink()
    assert run_command(app, *asked)[0] == 0
    assert not (here / "features.skipped.csv").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--network", "none.onnx"], "The file 'none.onnx' does not exist"),
        (["--output-name", "fc8"], "no tensor 'fc8'. Did you mean 'fc6'?"),
        (["--override", "resize=big"], "--override 'resize=big' is not NAME=NUMBER"),
        (["--override", "resize=7"], "8 x 8 pixels, but resize=7 is smaller"),
        (["--domain-from", "nothing"], "must have one group"),
        (["-o", "features.csv"], "should end in .parquet"),
    ],
)
def test_extract_says_what_is_wrong_before_it_reads(here, options, said):
    given = {"-o": "features.parquet", "--network": "tiny.onnx"} | dict([options])
    code, text = run_command(
        app, "extract", photos(here / "photos", n=1), *(part for pair in given.items() for part in pair)
    )
    assert (code, said in text) == (2, True), text
    assert [path.name for path in Path(here).glob("*.parquet")] == []


def test_a_folder_of_photographs_is_not_a_table(here):
    photos(here / "photos", n=1)
    code, text = run_command(app, "compare", "photos")
    assert (code, "unseen extract computes such a table" in text) == (2, True), text
