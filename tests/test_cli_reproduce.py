"""``unseen reproduce``: what it prints and writes, and how it refuses."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command needs its extra")

from typer.testing import CliRunner

from command import run_command
from helpers import three_domains
from unseen.cli._app import app
from unseen.datasets import _office_caltech
from unseen.evaluation import draw_synthetic, run_synthetic

FEW = "1-NN,KFDA,logistic"
X, Y, CODES = three_domains(n_per_cell=4, n_classes=5, n_domains=4, seed=1)


def save(folder, names):
    folder.mkdir()
    for code, name in enumerate(names):
        own = np.equal(CODES, code)
        np.savez(folder / f"{name}.npz", X=X[own], y=Y[own] + 1)
    return folder


def save_draw(path, X, y, domain):
    rows = [f"{a!r},{b!r},{label},{name}" for (a, b), label, name in zip(X.tolist(), y, domain, strict=True)]
    path.write_text("\n".join(["x1,x2,class,domain", *rows]))
    return path


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    """A folder with four domains named as those of VLCS, in a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    return save(tmp_path / "hospitals", ["VOC2007", "LabelMe", "Caltech101", "SUN09"])


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Nothing here may use the network."""

    def refuse(url, destination, blob_id):
        raise OSError(f"{url} could not be reached")

    monkeypatch.setattr(_office_caltech, "download_file", refuse)


def unseen(*args):
    return run_command(app, *args)


def test_the_root_has_help_with_an_example_and_a_version():
    assert "Example: unseen compare" in unseen("--help")[1]
    code, text = unseen("--version")
    assert code == 0
    assert re.fullmatch(r"unseen \d+\.\d+\.\d+\S*", text)


def test_a_table_is_written_in_the_format_asked_for(hospitals, tmp_path):
    base = ["reproduce", "vlcs", hospitals, "--quick", "--methods", FEW, "--jobs", 1]
    texts = []
    for name, options in (("a.csv", ()), ("b.json", ()), ("a.txt", ("csv",)), ("b.txt", ("json",))):
        path = tmp_path / "new" / name
        code, text = unseen(*base, "--output", path, *(("--format", *options) if options else ()))
        assert code == 0
        assert f"Wrote {path}" in text
        assert [found.name for found in path.parent.iterdir() if found.name.startswith(".")] == []
        texts.append(path.read_text(encoding="utf-8"))
    assert texts[:2] == texts[2:]
    assert texts[0].startswith("task,method,mean,")
    found = json.loads(texts[1])
    assert len(found["cells"]) == 12
    assert set(found["summary"]["mean"]) == set(FEW.split(","))


def test_without_an_output_the_formatted_table_alone_goes_to_standard_output(hospitals):
    command = ["reproduce", "vlcs", str(hospitals), "--quick", "--methods", "1-NN", "--jobs", "1", "--format", "json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.stderr
    assert len(json.loads(result.stdout)["cells"]) == 4
    assert "4 tasks, 1 methods" in result.stderr


def test_the_papers_figures_stand_beside_those_of_vlcs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = save(tmp_path / "VLCS", ["VOC2007", "LabelMe", "Caltech101", "SUN09"])
    output = tmp_path / "vlcs.csv"
    code, text = unseen("reproduce", "vlcs", folder, "--quick", "--methods", FEW, "--jobs", 1, "-o", output)
    assert code == 0
    assert "4 tasks, 3 methods, 1 repeats -> vlcs.unseen-results.sqlite" in text
    table = output.read_text(encoding="utf-8")
    assert re.search(r'^"L,C,S -> V",1-NN,.*,53\.27,', table, flags=re.MULTILINE)
    code, text = unseen("reproduce", "vlcs", folder, "--methods", "1-NN", "--repeats", 1, "--jobs", 1)
    assert code == 0
    assert "10 tasks, 1 methods, 1 repeats" in text
    assert "gray: the paper's figure" in text


@pytest.mark.parametrize("flag", [[], ["--no-download"]], ids=["unreachable", "not asked"])
@pytest.mark.parametrize("features", ["decaf6", "surf"])
def test_office_caltech_without_its_files_says_which_are_missing(tmp_path, flag, features):
    code, text = unseen("reproduce", "office-caltech", "--feature-set", features, "--data-home", tmp_path, *flag)
    assert code == (2 if flag else 1)
    for file, _ in _office_caltech.PUBLISHED_FILES[features].values():
        assert file in text
    assert f"put them into {tmp_path / 'office_caltech'}" in text


MISTAKES = {
    "no folder": (["reproduce", "vlcs"], "Missing argument"),
    "an unknown method": (
        ["reproduce", "vlcs", "hospitals", "--methods", "1-NN,magic"],
        "There is no method 'magic'",
    ),
    "no repeats": (["reproduce", "vlcs", "hospitals", "--repeats", "0"], "'--repeats'"),
    "no jobs": (["reproduce", "vlcs", "hospitals", "--jobs", "0"], "0 is not allowed. Use 1 or more processes"),
    "an unknown format": (["reproduce", "vlcs", "hospitals", "--format", "html"], "'html' is not one of"),
    "a store that is no store": (
        ["reproduce", "vlcs", "hospitals", "--store", "notes.txt"],
        "notes.txt is not a results file",
    ),
    "a draw that is no draw": (
        ["reproduce", "synthetic", "--data", "places.csv"],
        "and the domains domain 1, domain 2",
    ),
    "an unknown grid": (["reproduce", "synthetic", "--grid", "best"], "'best' is not one of"),
    "a figure that is a folder": (["reproduce", "synthetic", "--figure", "empty"], "'empty' is a directory"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_refused_with_exit_code_2(what, hospitals, tmp_path):
    (tmp_path / "notes.txt").write_text("not a database\n" * 100)
    (tmp_path / "empty").mkdir()
    drawn = draw_synthetic(0)
    save_draw(tmp_path / "places.csv", drawn.X, drawn.y, np.repeat(["north", "south"], 220))
    arguments, message = MISTAKES[what]
    code, text = unseen(*arguments)
    assert code == 2, text
    assert message.lower() in text.lower()
    assert "Traceback" not in text


def test_the_synthetic_experiment_draws_its_figure(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    code, text = unseen("reproduce", "synthetic", "--quick", "--jobs", 1, "--figure", "new/picture.png")
    assert code == 0
    assert "within the sources" in text
    assert "the target (oracle)" in text
    assert (tmp_path / "new" / "picture.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "new" / "picture.svg").read_text()
    assert "</svg>" in drawn
    assert "domain 3, unseen" in drawn  # beside the outlines of its letters


def test_a_table_takes_the_place_of_the_draws(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    drawn, output = draw_synthetic(3), tmp_path / "table.json"
    file = save_draw(tmp_path / "toy.csv", drawn.X, drawn.y, drawn.domain)
    options = ["--data", file, "--grid", "authors", "--quick", "--jobs", 1, "-o", output]
    runs = []

    def watch(draws, **settings):
        runs.append((draws, run_synthetic(draws, **settings)))
        return runs[0][1]

    monkeypatch.setattr("unseen.evaluation.run_synthetic", watch)
    code, text = unseen("reproduce", "synthetic", *options)
    assert code == 0, text
    found = {(c["task"], c["method"]): c["mean"] for c in json.loads(output.read_text())["cells"]}
    (((draw,), rows),) = runs
    np.testing.assert_array_equal(draw.X, drawn.X)
    assert {"CIDG", "CIDG as printed"} <= {row.method for row in rows}
    assert found == {(row.task, row.method): pytest.approx(100 * row.accuracy) for row in rows}
    assert all(cell["repeats"] == 1 for cell in json.loads(output.read_text())["cells"])
