"""``unseen fit`` and ``show``: what is fitted, printed and kept in the card."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")
import polars as pl
from typer.testing import CliRunner

from cli_models import SITES, frame, printed_json, unseen
from unseen.model_selection import METHODS, method_names
from unseen.models._model_file import read_card


def test_fit_says_what_it_chose_and_how_each_domain_did(home, tmp_path):
    code, text = unseen("fit", home / "train.csv", "--methods", "logistic", "-o", tmp_path / "deep" / "m.unseen")
    assert code == 0
    for part in (
        "train",
        "72 rows",
        "4 features",
        "north, south, west",
        "ill, well",
        "logistic",
        "C=",
        "mean",
        "Wrote",
    ):
        assert part in text
    assert "Note: Using 'site' as the domain column" in text
    assert (tmp_path / "deep" / "m.unseen").exists()


def test_the_card_of_fit_is_what_show_shows(home, tmp_path):
    path = tmp_path / "m.unseen"
    facts = printed_json(
        "fit", home / "train.csv", "--methods", "undo-bias", "--seed", 3, "--balance", "domains", "-o", path
    )
    shown = printed_json("show", path)
    assert {key: shown[key] for key in facts} == facts
    assert shown == read_card(path)
    assert facts["data"]["rows"] == 72
    assert facts["data"]["domains"] == dict.fromkeys(SITES, 24)
    assert facts["data"]["classes"] == [{"class": "ill", "rows": 36}, {"class": "well", "rows": 36}]
    assert (facts["seed"], facts["balance"]) == (3, "domains")
    assert facts["method"] == "Undo-Bias"
    assert set(facts["novelty"]["reference"]) == set(SITES)
    assert facts["scores"]["mean"] == pytest.approx(np.mean(list(facts["scores"]["by_domain"].values())))
    assert set(facts["scores"]["baseline"]) == set(SITES)
    text = unseen("show", path)[1]
    for part in ("Undo-Bias", "shared_cost", "inductive", "plain logistic", "scikit-learn", facts["created"]):
        assert part in text


def test_show_runs_nothing(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    assert unseen("show", home / "plain.unseen")[0] == 0


def test_auto_is_inductive_unless_transductive_models_are_allowed(home, tmp_path, monkeypatch):
    for name in method_names(in_ensemble=True):
        few = name in ("logistic", "RBF SVM", "centered logistic")
        monkeypatch.setitem(METHODS, name, replace(METHODS[name], in_ensemble=few))
    facts = printed_json("fit", home / "train.csv", "-o", tmp_path / "m.unseen")
    assert {row["kind"] for row in facts["leaderboard"]} == {"plain"}
    assert sum(row["is_selected"] for row in facts["leaderboard"]) == 1
    free = printed_json("fit", home / "train.csv", "--transductive", "-o", tmp_path / "m.unseen", "--overwrite")
    assert {row["kind"] for row in free["leaderboard"]} == {"plain", "transductive"}


def test_columns_of_codes_are_declared_categories(home, tmp_path):
    train = pl.read_csv(home / "train.csv").with_columns(ward_id=pl.int_range(72) % 7)
    train.write_csv(tmp_path / "train.csv")
    command = ["fit", tmp_path / "train.csv", "--methods", "1-nn", "-o", tmp_path / "m.unseen", "--overwrite"]
    assert unseen(*command, "--categories", "ward_id")[0] == 0
    uses = {use["column"]: use for use in read_card(tmp_path / "m.unseen")["data"]["columns"]}
    assert (uses["ward_id"]["use"], uses["ward_id"]["levels"]) == ("category", 7)
    assert "no column 'wards': did you mean 'ward_id'?" in unseen(*command, "--categories", "wards")[1]


def test_whole_numbers_stay_whole_numbers(tmp_path):
    table = pl.concat([frame(12, site, i, (-1, 7)) for i, site in enumerate(SITES)])
    table.write_parquet(tmp_path / "train.parquet")
    assert unseen("fit", tmp_path / "train.parquet", "--methods", "1-nn", "-o", tmp_path / "m.unseen")[0] == 0
    code, _ = unseen("predict", tmp_path / "m.unseen", tmp_path / "train.parquet", "-o", tmp_path / "o.parquet")
    assert code == 0
    found = pl.read_parquet(tmp_path / "o.parquet")
    assert found["label"].dtype == pl.Int64
    assert found["label"].to_list() == table["label"].to_list()


def test_scores_are_said_to_be_too_good_only_where_something_was_chosen_on_them(home, tmp_path):
    said = "The settings were selected on these domains"
    text = unseen("fit", home / "train.csv", "--methods", "1-nn", "-o", tmp_path / "m.unseen")[1]
    assert said not in text
    assert said not in unseen("show", tmp_path / "m.unseen")[1]
    assert said in unseen("show", home / "plain.unseen")[1]


def test_columns_with_commas_may_be_named_in_quotes(home, tmp_path):
    renamed = pl.read_csv(home / "train.csv").rename({"x0": "a, b", "x1": 'c"d'})
    renamed.write_csv(tmp_path / "t.csv")
    for option, features in (("--features", ["a, b", 'c"d']), ("--drop", ["x2", "sex"])):
        options = ["--methods", "1-nn", "-o", tmp_path / "m.unseen", "--overwrite", option, '"a, b", c"d']
        facts = printed_json("fit", tmp_path / "t.csv", *options)
        assert [column["name"] for column in facts["schema"]["columns"]] == features
    assert "in quotes" in unseen("fit", "--help")[1]


def test_rows_without_a_label_are_left_out_of_a_fit(home, tmp_path):
    labels = pl.when(pl.int_range(72) % 6 == 1).then(pl.lit("unknown")).otherwise("label")
    pl.read_csv(home / "train.csv").with_columns(label=labels).write_csv(tmp_path / "t.csv")
    options = ["--methods", "1-nn", "-o", tmp_path / "m.unseen", "--overwrite", "--unlabeled", "unknown"]
    code, text = unseen("fit", tmp_path / "t.csv", *options)
    assert code == 0
    assert "Note: Left out 12 rows of 72 with the label 'unknown'." in text
    assert read_card(tmp_path / "m.unseen")["data"]["rows"] == 60
    landmarks = ["--feature-map", "nystroem", "--methods", "kfda", "--landmarks", "10"]
    assert unseen("fit", tmp_path / "t.csv", *options, *landmarks)[0] == 0
    assert read_card(tmp_path / "m.unseen")["stream"]["projection_rows"] == 60


@pytest.mark.parametrize(
    "command", [["diagnose", "--permutations", "19"], ["compare", "--methods", "1-NN", "--quick", "--jobs", "1"]]
)
def test_compare_and_diagnose_leave_out_the_unlabeled_too(home, tmp_path, monkeypatch, command):
    from unseen.cli._app import app

    monkeypatch.chdir(tmp_path)
    labels = pl.when(pl.int_range(72) % 6 == 1).then(None).otherwise("label")
    pl.read_csv(home / "train.csv").with_columns(label=labels).write_csv(tmp_path / "t.csv")
    result = CliRunner().invoke(app, [*command, "t.csv", "--unlabeled", "NA", "--format", "json"])
    assert result.exit_code == 0, result.output
    assert "Left out 12 rows of 72 without a label." in " ".join(result.stderr.split())
    assert CliRunner().invoke(app, [*command, "t.csv"]).exit_code == 2
