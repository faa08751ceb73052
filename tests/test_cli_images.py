"""The commands on photographs: a table of features, a comparison with thumbnails, the paper's tables."""

from __future__ import annotations

import json
import re
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
    own = ["--resize", "9x9", "--crop", "8", "--mean", "1,2,3", "--std", "2", "--white", "1", "--channels", "bgr"]
    code, said = run_command(app, *asked, *own)
    assert code == 0, said
    assert "24 images of 3 domains and 2 classes, tensor 'fc6' of tiny.onnx" in said
    assert "1 image could not be read" in said
    assert 'torn.png,"not an image' in (here / "features.skipped.csv").read_text()
    assert load_table(here / "features.parquet").X.shape == (24, 4)
    metadata = pytest.importorskip("polars").read_parquet_metadata(here / "features.parquet")
    how = json.loads(metadata["unseen.images"])["preprocessing"]
    assert how["resize"] == [9, 9]
    assert (how["crop"], how["mean"], how["std"], how["scale"], how["channels"]) == (8, [1, 2, 3], [2], 1.0, "bgr")
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
        (["--resize", "big"], "--resize must be a number of pixels"),
        (["--mean", "a,b"], "--mean must be one number, or three, comma-separated; got 'a,b'"),
        (["--crop", "9"], "8 x 8 pixels, so crop must be this size or None; got crop=9"),
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


METHODS = "CIDG,1-NN,logistic"


def test_a_comparison_of_photographs_shows_them(here, monkeypatch):
    pytest.importorskip("jinja2", reason="the report needs it")
    folder = photos(here / "photos")
    odd = folder / "leeds" / "cat" / "odd.png"
    Image.new("RGB", (30, 20), COLORS["dog"]).save(odd)  # a cat that looks like a dog
    asked = ["compare", folder, "--network", "tiny.onnx", "--methods", METHODS, "--quick", "--jobs", "1"]
    code, said = run_command(app, *asked, "--report", "report.html", "--format", "json")
    assert code == 0, said
    assert "The features are 'out' of tiny.onnx, sha256" in said
    page = (here / "report.html").read_text()
    assert "Samples that most methods misclassify" in page
    pictures = re.findall(r'src="data:image/jpeg;base64,[^"]+" alt="row (\d+)"', page)
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
    assert paths[int(pictures[0]) - 1] == "leeds/cat/odd.png"
    payload = json.loads(re.search(r'id="scatter-data">(.*?)</script>', page, re.DOTALL)[1])
    assert len(payload["pictures"]) == len(payload["row"])
    assert all(picture.startswith("data:image/jpeg") for picture in payload["pictures"])
    assert max(map(len, payload["pictures"])) < 4000
    facts = json.loads(said[said.index("{") : said.rindex("}") + 1])
    assert "pictures" not in facts  # of no use to machines
    assert facts["hardest"][0]["class"] == "cat"
    assert facts["hardest"][0]["samples"][0]["answer"] == "dog"
    # A second run finds features where the first one left them.
    monkeypatch.setattr("unseen.images._extract.decode_image", None)
    assert run_command(app, *asked, "--report", "again.html")[0] == 0
    assert sorted(path.name for path in here.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["photos"], "need an ONNX network to extract features (unseen.images.extract, or --network)"),
        (["--network", "tiny.onnx"], "Missing argument 'DATA'"),
        (["photos", "--network", "tiny.onnx", "--label", "cat"], "apply to tables, not to photographs"),
        (["photos", "--output-name", "fc6"], "--output-name cannot be used without --network"),
    ],
)
def test_compare_says_what_photographs_need(here, options, said):
    photos(here / "photos", n=1)
    code, text = run_command(app, "compare", *options)
    assert (code, said in text) == (2, True), text


QUICK = ["--quick", "--methods", "1-NN", "--jobs", "1", "--format", "csv"]
KINDS = {
    name: tuple(np.random.default_rng(i).integers(0, 255, 3))
    for i, name in enumerate(["bird", "car", "chair", "dog", "person"])
}


@pytest.mark.parametrize("layout", ["DomainBed", "Dassl"])
def test_the_tables_of_the_paper_are_made_from_photographs_of_vlcs(here, layout):
    if layout == "DomainBed":
        domains, classes, where = ["Caltech101", "LabelMe", "SUN09", "VOC2007"], KINDS, "{domain}/{label}/{i}.jpg"
    else:
        domains, where = ["CALTECH", "LABELME", "PASCAL", "SUN"], "{domain}/full/{label}/{i}.jpg"
        classes = dict(enumerate(KINDS.values()))
        photos(here / "VLCS", "{domain}/train/{label}/{i}.jpg", domains, classes, n=1)  # all of it is in full as well
    folder = photos(here / "VLCS", where, domains, classes, n=3)
    code, said = run_command(app, "reproduce", "vlcs", "--photos", folder, "--network", "tiny.onnx", *QUICK)
    assert code == 0, said
    assert all(f"-> {initial}" in said for initial in "VLCS")
    assert ("60 of 80 are used, those in 'full'" in said) == (layout == "Dassl")


def test_photographs_that_are_not_vlcs_are_told(here):
    folder = photos(here / "photos", n=1)
    code, said = run_command(app, "reproduce", "vlcs", "--photos", folder, "--network", "tiny.onnx", *QUICK)
    assert code == 2
    assert "bonn is not recognized" in said
    assert "the labels must be 1 to 5" in said
    code, said = run_command(app, "reproduce", "office-caltech", "--photos", folder, "--network", "tiny.onnx", *QUICK)
    assert code == 2
    assert "bonn is not one of amazon, webcam, dslr, caltech10" in said
    assert "it has 2 classes, not 10" in said
    code, said = run_command(app, "reproduce", "vlcs", "--photos", folder, *QUICK)
    assert (code, "--photos and --network must be used together" in said) == (2, True)
    assert run_command(app, "reproduce", "vlcs", *QUICK)[0] == 2


SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.mark.skipif(not (SHARED / "models").is_dir(), reason="the photographs are not at hand")
def test_the_tables_of_the_paper_are_made_from_the_photographs_of_office_caltech(here):
    folder, network = SHARED / "office_caltech_photos", SHARED / "models" / "efficientnet-lite0.onnx"
    asked = ["reproduce", "office-caltech", "--photos", folder, "--network", network, "--preset", "tf-lite"]
    code, said = run_command(app, *asked, *QUICK)
    assert code == 0, said
    assert "amazon,webcam,dslr -> caltech10" in said
