"""What the explorer writes, and a fitted model on new rows: the same as the other commands would."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the explorer needs its extra")
pytest.importorskip("polars", reason="reading tables needs it")
pytest.importorskip("skops", reason="models need it")

from typer.testing import CliRunner

import unseen
from explore_server import call, serving, session_of, small_table
from unseen.cli._app import app
from unseen.explore import Explorer, NewDataView, python_code, save, table_source
from unseen.shift import Novelty
from unseen.tables import TableOptions, load_table


def write_table(path, table, rows=slice(None)):
    names = [column.name for column in table.schema.columns]
    places = np.unique(table.domain, return_inverse=True)[1]
    lines = [",".join([*names, "diagnosis", "hospital"])]
    samples = zip(table.X[rows].tolist(), table.y[rows], places[rows], strict=True)
    lines += [",".join([*map(str, x), str(label), f"h{place}"]) for x, label, place in samples]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """A session on a table in a file."""
    path = write_table(tmp_path_factory.mktemp("explored") / "patients.csv", small_table(100, n_domains=3))
    request = TableOptions("diagnosis", "hospital")
    return table_source(str(path), load_table(path, label="diagnosis", domain="hospital"), request, "standardize")()


@pytest.fixture(scope="module")
def model(read):
    """The file of a model of a setting."""
    path = Path(read.origin.command[0]).with_suffix(".unseen")
    save(read, read.setting({"head": "logistic", "conditional_weight": "10*scale"}), path)
    return path


@pytest.mark.parametrize("head", ["1-NN", "logistic"])
def test_a_saved_model_is_the_setting_on_all_domains(read, tmp_path, head):
    setting = read.setting({"head": head, "conditional_weight": "10*scale", "components": "1"})
    save(read, setting, tmp_path / "m.unseen")
    found = unseen.load_model(tmp_path / "m.unseen")
    prepared = found.table_model.prepare(read.table.X)
    wanted = setting.candidate().fit(prepared, read.table.y, read.table.domain)
    said = found.predict(read.table.X)
    np.testing.assert_array_equal(said, wanted.predict(prepared))
    scores = found.card["scores"]["by_domain"]
    held = read.solve(setting)
    assert scores[setting.held_out] == pytest.approx(held["accuracy"]), "the card has the figure of the page"
    assert "--setting" in found.card["command"]


def test_the_command_writes_the_same_model_and_report(read, tmp_path):
    setting = read.setting({"conditional_weight": "10*scale"})
    where = ["explore", *read.origin.command, "--setting", str(setting)]
    for name in ("m.unseen", "r.html"):
        result = CliRunner().invoke(app, [*where, "-o", str(tmp_path / name)])
        assert result.exit_code == 0, result.output
    save(read, setting, tmp_path / "own.unseen")
    models = (unseen.load_model(tmp_path / name) for name in ("m.unseen", "own.unseen"))
    first, second = (one.predict_proba(read.table.X) for one in models)
    np.testing.assert_array_equal(first, second)
    page = (tmp_path / "r.html").read_text()
    assert "CIDG (explored)" in page
    assert "logistic" in page


def test_the_page_saves_beside_where_the_command_was_started(tmp_path):
    with serving(Explorer({"small": session_of}, folder=tmp_path)) as server:
        (tmp_path / "small-explored.unseen").touch()
        status, _, told = call(server, "save", {"kind": "model", "setting": {}})
        assert status == 200, told
        assert told["path"] == str(tmp_path / "small-explored-2.unseen")
    assert (tmp_path / "small-explored.unseen").read_bytes() == b"", "nothing is overwritten"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small-explored-2.unseen", "small-explored.unseen"]


def test_new_rows_are_told_as_predict_tells_them(model, tmp_path):
    new = write_table(tmp_path / "new.csv", small_table(40, seed=1))
    view = NewDataView(model, new)
    with serving(Explorer({}, view)) as server:
        status, _, told = call(server, "model")
        assert call(server, "solve")[0] == 404
        assert call(server, "start")[2]["mode"] == "model"
    assert status == 200, told
    fitted = unseen.load_model(model)
    P = fitted.predict_proba(new)
    assert told["certainty"] == sorted(told["certainty"])
    np.testing.assert_allclose(told["certainty"], np.sort(P.max(axis=1)), rtol=1e-9)
    order = np.array(told["row"]) - 1
    np.testing.assert_allclose(told["probabilities"], P[order], rtol=1e-9)
    assert told["label"] == [str(name) for name in fitted.predict(new)[order]]
    assert told["summary"]["novelty"][0]["distance"] == pytest.approx(fitted.novelty(new).distance)
    assert json.dumps(told)


def test_a_model_wants_a_table_and_a_table_no_other(model, tmp_path):
    for arguments, reason in (([str(model)], "new table"), ([str(tmp_path), str(model)], "NEW needs a model file")):
        result = CliRunner().invoke(app, ["explore", *arguments])
        assert result.exit_code == 2
        assert reason in " ".join(result.output.split())


def test_the_plane_of_novelty_keeps_distances_between_three_sources():
    rng = np.random.default_rng(0)
    X, d = rng.normal(size=(90, 5)), np.repeat(["a", "b", "c"], 30)
    X += (d == "a")[:, None] * 2.0
    novelty = Novelty().fit(X, sample_domain=d)
    rows, sources = novelty.project_to_plane(X)
    assert rows.shape == (90, 2)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        apart = np.linalg.norm(novelty.means_[i] - novelty.means_[j])
        assert np.linalg.norm(sources[i] - sources[j]) == pytest.approx(apart)
    for k, name in enumerate(novelty.domains_):
        np.testing.assert_allclose(rows[d == name].mean(axis=0), sources[k], atol=1e-9)
    assert Novelty().fit(X[:60], sample_domain=d[:60]).project_to_plane(X[:7])[0].shape == (7, 2)


def test_the_code_of_a_table_reads_it_again(read):
    there = {}
    setting = read.setting({})
    exec(python_code(read, setting), there)
    assert there["accuracy"] == read.solve(setting)["accuracy"]
