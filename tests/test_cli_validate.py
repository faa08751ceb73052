"""``unseen validate``: from a table to a report, tables and numbers, and from a mistake to a message."""

from __future__ import annotations

import csv
import json
import re

import pytest

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("polars", reason="reading tables needs the extra")
import numpy as np

from command import run_command
from unseen.cli._app import app

FAST = ("--methods", "nearest mean", "--compare-with", "none")


def unseen(*args):
    return run_command(app, "validate", *args)


@pytest.fixture
def trials(tmp_path, monkeypatch):
    """Six sites with a binary outcome."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with open("trials.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["site", "age", "score", "died"])
        for site in ("aachen", "bonn", "essen", "kiel", "mainz", "trier"):
            for _ in range(40):
                age, score = rng.normal(size=2)
                died = rng.random() < 1 / (1 + np.exp(-age))
                writer.writerow([site, f"{age:.4f}", f"{score:.4f}", "yes" if died else "no"])
    return tmp_path / "trials.csv"


def test_a_table_gives_a_plain_summary_a_report_and_tables(trials):
    code, text = unseen(
        *(trials, "--label", "died", "--threshold", "youden", *FAST, "--report", "r.html", "--tables", "tables")
    )
    assert code == 0, text
    for words in ("What to expect at a new site", "When not to trust it", "AUC (c-statistic)", "on 6 sites"):
        assert words in text
    assert "The event is 'yes', the last of both classes in sorted order; --positive changes it." in text
    assert "For your colleagues" in (trials.parent / "r.html").read_text(encoding="utf-8")
    assert (trials.parent / "tables" / "measures.csv").exists()


def test_the_json_result_contains_everything(trials):
    code, text = unseen(trials, "--label", "died", "--positive", "no", *FAST, "-o", "result.json")
    assert code == 0, text
    result = json.loads((trials.parent / "result.json").read_text(encoding="utf-8"))
    assert result["positive"] == "no"
    assert {"sites", "measures", "summary", "curves", "colleagues", "methods_text", "checklist"} <= set(result)
    assert "unseen" in result["facts"]["command"]


def test_the_csv_result_is_the_summary(trials):
    code, text = unseen(trials, "--label", "died", *FAST, "-o", "result.csv")
    assert code == 0, text
    with (trials.parent / "result.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["measure"] == "auc"


def test_a_model_file_is_validated_on_new_sites(trials):
    code, text = run_command(app, "fit", trials, "--label", "died", "--methods", "logistic", "-o", "model.unseen")
    assert code == 0, text
    lines = trials.read_text(encoding="utf-8").replace("aachen,", "ulm,").replace("bonn,", "wien,").splitlines()
    new = trials.parent / "new.csv"
    new.write_text("\n".join(lines[:81]), encoding="utf-8")
    options = ("--event", "death", "--unit", "patients", "--by", "age", "--cost", "3:1", "--report", "r.html")
    code, text = unseen(new, "--model", "model.unseen", "--positive", "yes", *options, "-o", "result.json")
    assert code == 0, text
    result = json.loads((trials.parent / "result.json").read_text(encoding="utf-8"))
    assert [site["site"] for site in result["sites"]] == ["ulm", "wien"]
    assert result["odds"] == pytest.approx(1 / 3)
    assert {one["column"] for one in result["subgroups"]} == {"age"}
    assert "applied without change" in (trials.parent / "r.html").read_text(encoding="utf-8")
    new.write_text("\n".join(lines[:41]), encoding="utf-8")
    code, text = unseen(new, "--model", "model.unseen", "--positive", "yes", "--unit", "patients")
    assert code == 0, text
    assert "on 1 site" in text
    assert "40 patients from 1 site" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cost", "cheap"), "--cost='cheap' is not allowed"),
        (("--by", "weight"), "--by='weight' is not a column"),
        (("--threshold", "best"), "--threshold='best' is not allowed"),
        (("--positive", "perhaps"), "--positive='perhaps' is not a class. Use 'no' or 'yes'"),
        (("--report", "report.txt"), "report.txt should end in .html"),
        (("--compare-with", "magic"), "There is no method 'magic'"),
    ],
)
def test_a_mistake_is_named_by_its_option(trials, options, message):
    code, text = unseen(trials, "--label", "died", "--methods", "nearest mean", *options)
    assert code == 2
    assert message in text


def test_values_that_stand_for_missing_ones_and_importance_are_options(trials):
    text = trials.read_text(encoding="utf-8")
    trials.write_text(re.sub(r"(?m)^bonn,[-.\d]+", "bonn,-99", text), encoding="utf-8")
    code, text = unseen(
        trials,
        "--label",
        "died",
        "--missing",
        "age=-99",
        "--importance",
        *FAST,
        "--store",
        "kept.sqlite",
        "-o",
        "r.json",
    )
    assert code == 0, text
    result = json.loads((trials.parent / "r.json").read_text(encoding="utf-8"))
    assert {site["site"]: site["missing_share"] for site in result["sites"]}["bonn"] == 0.5
    assert [one["column"] for one in result["importance"]["columns"]] == ["age", "score"]
    assert result["importance"]["columns"][0]["by_domain"]["bonn"] == 0
    code, text = unseen(
        trials, "--label", "died", "--missing", "age=-99", "--importance", *FAST, "--store", "kept.sqlite"
    )
    assert "Loss of AUC if a column is permuted" in text
