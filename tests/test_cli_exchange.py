"""The commands of a study without moving rows: files from the first plan to the report, and errors of usage."""

from __future__ import annotations

import json

import polars as pl
import pytest

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")

from typer.testing import CliRunner

from test_exchange import SITES, make_rows, rows_of
from unseen.cli._app import app
from unseen.models import read_card


def call(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = make_rows(600).with_columns(pl.col("sex").replace("x", "f"))
    for site in SITES:
        rows_of(rows, site).write_csv(f"{site}.csv")
    return tmp_path


def test_a_study_from_its_draft_to_the_report(folder):
    assert call("plan", "study.toml", "--from", "bonn.csv", "--label", "ill")[0] == 0
    for site in SITES:
        assert call("aggregate", f"{site}.csv", "--plan", "study.toml", "-o", f"{site}.stats.json")[0] == 0
    assert call("fit", "--from", "*.stats.json", "-o", "models.unseen")[0] == 0
    for site in SITES:
        arguments = ("--model", "models.unseen", "--aggregate", "results.json", "--site", site, "--smallest-cell", 5)
        assert call("validate", f"{site}.csv", *arguments)[0] == 0
        (folder / "results.json").rename(f"{site}.site.json")
    files = [f"{site}.site.json" for site in SITES]
    arguments = ("--model", "models.unseen", "-o", "final.unseen", "--report", "report.html", "--unit", "patients")
    code, output = call("combine", *files, *arguments)
    assert code == 0, output
    assert "In short" in output
    assert "patients" in (folder / "report.html").read_text(encoding="utf-8")
    card = read_card("final.unseen")
    assert sorted(card["scores"]["by_domain"]) == SITES
    assert "exchange" not in card
    assert json.loads((folder / "bonn.site.json").read_text())["smallest_cell"] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "-o", "model.unseen"), "Pass one table"),
        (("fit", "bonn.csv", "kiel.csv", "-o", "model.unseen"), "Pass one table"),
        (("fit", "--from", "none.stats.json", "-o", "model.unseen"), "none.stats.json: the file does not exist"),
        (("fit", "--from", "bonn.csv", "-o", "model.unseen"), "bonn.csv: damaged or cut off"),
        (("validate", "bonn.csv", "--aggregate", "bonn.site.json"), "--aggregate needs --model"),
        (("combine", "*.site.json"), "*.site.json: the file does not exist"),
        (("combine", "bonn.site.json", "-o", "final.unseen"), "belong together"),
        (("aggregate", "bonn.csv", "--plan", "bonn.csv", "-o", "bonn.json"), "bonn.csv: not TOML"),
        (("aggregate", "bonn.csv", "--plan", "study.toml", "-o", "bonn.txt"), "should end in .json"),
    ],
)
def test_errors_of_usage_say_what_to_pass(folder, arguments, message):
    code, output = call(*arguments)
    assert code == 2
    assert message in " ".join(output.split())


def test_a_draft_does_not_replace_a_plan(folder):
    (folder / "study.toml").write_text("name = 'mine'")
    code, output = call("plan", "study.toml", "--from", "bonn.csv", "--label", "ill")
    assert code == 2
    assert "exists" in output
    assert (folder / "study.toml").read_text() == "name = 'mine'"
