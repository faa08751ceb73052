"""``unseen fit``, ``predict`` and ``show``: what they print and write, and how they refuse."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")
import polars as pl
import typer
from typer.testing import CliRunner

from unseen import CIDG, KFDA, DomainCenterer
from unseen.cli._fit import Method, card, fit
from unseen.cli._predict import predict
from unseen.cli._show import show
from unseen.model_file import load_model, read_card, save_model
from unseen.table_fit import METHODS, Candidate, TableFit, fit_candidate, fit_table
from unseen.table_model import Centres, TableModel
from unseen.tables import Schema, load_table, preprocessor

APP = typer.Typer(pretty_exceptions_enable=False)
for command in (fit, predict, show):
    APP.command()(command)
FEATURES = ["x0", "x1", "x2", "sex"]
SITES = ["north", "south", "west"]
NASTY = ['he said "no"', "a, b", "two\nlines", "=1+1", "@cmd", "-x", "😀 שלום", " spaces ", "tab\there", "it's; fine"]


def unseen(*args):
    result = CliRunner().invoke(APP, [*map(str, args)], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
    return result.exit_code, " ".join(re.sub(r"[\u2500-\u257f]", " ", text).split())


def printed_json(*args):
    result = CliRunner().invoke(APP, [*map(str, args), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def frame(n, site, seed, labels=("ill", "well"), names=SITES):
    """Patients of one site: three numbers with gaps, a column of levels, a label."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % len(labels)
    centre = np.random.default_rng(99).normal(size=(len(labels), 3)) * 2
    X = centre[codes] + 0.7 * names.index(site) + rng.normal(size=(n, 3))
    columns = {f"x{i}": [None if rng.random() < 0.05 else float(v) for v in X[:, i]] for i in range(3)}
    sex = rng.choice(["f", "m"], n).tolist()
    return pl.DataFrame({**columns, "sex": sex, "site": [site] * n, "label": [labels[c] for c in codes]})


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A training table, new tables, and a fitted model of every kind."""
    folder = tmp_path_factory.mktemp("home")
    train = pl.concat([frame(24, site, i) for i, site in enumerate(SITES)])
    train.write_csv(folder / "train.csv")
    new = pl.concat([frame(30, "lima", 7, names=["lima"]), frame(20, "oslo", 8, names=["oslo"])])
    new.write_parquet(folder / "new.parquet")
    new.write_csv(folder / "new.csv")
    (folder / "sites").mkdir()
    for name in ("lima", "oslo"):
        new.filter(pl.col("site") == name).drop("site").write_csv(folder / "sites" / f"{name}.csv")
    table = load_table(folder / "train.csv", label="label", domain="site")
    assert unseen("fit", folder / "train.csv", "--method", "logistic", "-o", folder / "plain.unseen")[0] == 0
    assert unseen("fit", folder / "train.csv", "--method", "rbf-svm", "-o", folder / "svm.unseen")[0] == 0
    write(table, folder / "source.unseen", KFDA(ridge=1.0), LogisticRegression())
    write(table, folder / "target.unseen", CIDG(ridge=1.0, centering="target"), LogisticRegression())
    write(table, folder / "centred.unseen", DomainCenterer(), LogisticRegression())
    return folder


def write(table, path, transformer, classifier):
    """What `fit` writes, with a choice made by hand."""
    plain = fit_table(table, "1nn")
    pipeline = Pipeline([("transformer", transformer), ("classifier", classifier)])
    prepared = plain.model.prepare(table.X)
    fitted = fit_candidate(Candidate("", "", {}, pipeline), prepared, table.y, table.domain)
    model = TableModel(plain.model.preprocessor, fitted, plain.model.novelty)
    found = TableFit(model, "by hand", "transductive", {}, plain.scores, None, [])
    save_model(model, path, card(table, found, "auto", "standardize", 0))


def encoded(home, name="new.parquet"):
    """The new table, whole, as a model sees it."""
    _, facts = load_model(home / "plain.unseen")
    table = pl.read_parquet(home / name)
    return Schema.from_dict(facts["schema"]).encode(table), table["site"].to_numpy()


def predictions(path):
    return pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)


def probabilities(table):
    return table.select(pl.col("^p\\(.*$")).to_numpy()


@pytest.mark.parametrize("command", ["fit", "predict", "show"])
def test_help_has_an_example(command):
    code, text = unseen(command, "--help")
    assert code == 0
    assert f"Example: unseen {command}" in text


def test_the_command_offers_every_method():
    assert [method.value for method in Method] == list(METHODS)


def test_fit_says_what_it_chose_and_how_each_domain_did(home, tmp_path):
    code, text = unseen("fit", home / "train.csv", "--method", "logistic", "-o", tmp_path / "deep" / "m.unseen")
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
    facts = printed_json("fit", home / "train.csv", "--method", "undo-bias", "--seed", 3, "-o", path)
    shown = printed_json("show", path)
    assert {key: shown[key] for key in facts} == facts
    assert shown == read_card(path)
    assert facts["data"]["rows"] == 72
    assert facts["data"]["domains"] == dict.fromkeys(SITES, 24)
    assert facts["data"]["classes"] == [{"class": "ill", "rows": 36}, {"class": "well", "rows": 36}]
    assert facts["seed"] == 3
    assert facts["method"] == "undo-bias"
    assert set(facts["novelty"]["reference"]) == set(SITES)
    assert facts["scores"]["mean"] == pytest.approx(np.mean(list(facts["scores"]["by_domain"].values())))
    assert set(facts["scores"]["baseline"]) == set(SITES)
    text = unseen("show", path)[1]
    for part in ("undo-bias", "shared_cost", "inductive", "plain logistic", "scikit-learn", facts["created"]):
        assert part in text


def test_show_runs_nothing(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    assert unseen("show", home / "plain.unseen")[0] == 0


def test_auto_may_be_kept_inductive(home, tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.selection._unseen.offered", lambda X, transductive, _: _few(transductive))
    facts = printed_json("fit", home / "train.csv", "--inductive", "-o", tmp_path / "m.unseen")
    assert {row["kind"] for row in facts["leaderboard"]} == {"plain"}
    assert sum(row["chosen"] for row in facts["leaderboard"]) == 1
    free = printed_json("fit", home / "train.csv", "-o", tmp_path / "m.unseen")
    assert {row["kind"] for row in free["leaderboard"]} == {"plain", "transductive"}


def _few(transductive):
    return ["logistic", "rbf_svm", *(["centered_logistic"] if transductive else [])]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("size", [7, 20_000])
@pytest.mark.parametrize("model", ["plain", "source", "svm"])
def test_predictions_are_those_of_the_whole_table_in_its_order(home, tmp_path, model, size, ending):
    output = tmp_path / f"out{ending}"
    command = ["predict", home / f"{model}.unseen", home / f"new{ending}", "-o", output, "--batch-size", size]
    facts = printed_json(*command)
    fitted, _ = load_model(home / f"{model}.unseen")
    X, _ = encoded(home)
    found = predictions(output)
    np.testing.assert_array_equal(found["label"].to_numpy(), fitted.predict(X))
    if model == "svm":
        assert found.columns == ["label"]
        assert not facts["probabilities"]
    else:
        assert found.columns == ["label", "p(ill)", "p(well)"]
        np.testing.assert_allclose(probabilities(found), fitted.predict_proba(X), rtol=1e-12)
    assert facts["rows"] == len(found) == 50
    assert {entry["label"]: entry["rows"] for entry in facts["labels"]} == dict(
        found["label"].value_counts().iter_rows()
    )
    assert list(tmp_path.iterdir()) == [output]


def test_models_without_probabilities_say_so(home, tmp_path):
    assert (
        "gives labels without probabilities"
        in unseen("predict", home / "svm.unseen", home / "new.csv", "-o", tmp_path / "o.csv")[1]
    )


@pytest.mark.parametrize("model", ["target", "centred"])
@pytest.mark.parametrize("size", [3, 20_000])
@pytest.mark.parametrize("by_domain", [False, True])
def test_transductive_predictions_in_pieces_are_those_of_whole_batches(home, tmp_path, model, size, by_domain):
    output = tmp_path / "out.parquet"
    options = ["--domain", "site"] if by_domain else []
    command = ["predict", home / f"{model}.unseen", home / "new.parquet", "-o", output, "--batch-size", size, *options]
    assert printed_json(*command)["transductive"]
    fitted, _ = load_model(home / f"{model}.unseen")
    X, domain = encoded(home)
    found = predictions(output)
    expected = fitted.predict_proba(X, sample_domain=domain if by_domain else None)
    np.testing.assert_allclose(probabilities(found), expected, atol=1e-10)
    assert ("domain" in found.columns) == by_domain


def test_a_model_centred_on_the_sources_may_be_centred_on_the_target(home, tmp_path):
    output = tmp_path / "out.parquet"
    command = ["predict", home / "source.unseen", home / "new.parquet", "-o", output, "--domain", "site"]
    assert not printed_json(*command)["transductive"]
    before = probabilities(predictions(output))
    assert printed_json(*command, "--center", "target", "--batch-size", 4)["transductive"]
    fitted, _ = load_model(home / "source.unseen")
    fitted.transformer.set_params(centering="target")
    X, domain = encoded(home)
    after = probabilities(predictions(output))
    np.testing.assert_allclose(after, fitted.predict_proba(X, sample_domain=domain), atol=1e-10)
    assert np.abs(after - before).max() > 0.01


def test_a_folder_is_one_domain_per_file(home, tmp_path):
    output = tmp_path / "out.csv"
    facts = printed_json("predict", home / "target.unseen", home / "sites", "-o", output, "--batch-size", 11)
    fitted, _ = load_model(home / "target.unseen")
    X, domain = encoded(home)  # lima before oslo, as in the folder
    found = predictions(output)
    assert found["domain"].to_list() == domain.tolist()
    np.testing.assert_allclose(probabilities(found), fitted.predict_proba(X, sample_domain=domain), atol=1e-10)
    assert [entry["domain"] for entry in facts["novelty"]] == ["lima", "oslo"]


@given(
    cuts=st.lists(st.integers(0, 50), max_size=5),
    names=st.lists(st.sampled_from([*SITES, "a", "b"]), min_size=50, max_size=50),
)
@settings(max_examples=15)
@pytest.mark.parametrize("model", ["target", "centred"])
def test_centres_found_in_pieces_are_those_of_the_whole(home, model, cuts, names):
    """New domains anywhere among known ones, and pieces of any size, empty ones too."""
    fitted, _ = load_model(home / f"{model}.unseen")
    prepared = fitted.prepare(encoded(home)[0])
    domain = np.array(names)
    domain[:2] = domain[2:4] = ["a", "b"]  # no new domain of a single sample
    centres, cuts = Centres(fitted), sorted(cuts)
    pieces = list(zip(np.split(prepared, cuts), np.split(domain, cuts), strict=True))
    for piece, its_domain in pieces:
        if len(piece):
            centres.add(piece, its_domain)
    centres.check()
    found = np.vstack([centres.transform(*piece) for piece in pieces if len(piece[0])])
    np.testing.assert_allclose(found, fitted.transformer.transform(prepared, sample_domain=domain), atol=1e-10)


def test_columns_are_found_by_name_whatever_their_order_and_company(home, tmp_path):
    new = pl.read_csv(home / "new.csv", infer_schema=False)
    shuffled = new.select(pl.lit("?").alias("mood"), *reversed(FEATURES), "site")
    shuffled.write_csv(tmp_path / "shuffled.csv")
    code, text = unseen("predict", home / "plain.unseen", tmp_path / "shuffled.csv", "-o", tmp_path / "a.csv")
    assert code == 0
    assert "1 column of shuffled.csv not used: mood." in text
    assert "Pass --domain site to tell domains apart" in text
    unseen("predict", home / "plain.unseen", home / "new.csv", "-o", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_rows_from_far_away_are_warned_of(home, tmp_path):
    new = pl.read_parquet(home / "new.parquet")
    new.with_columns(pl.col("x0", "x1", "x2") + 500).write_csv(tmp_path / "far.csv")
    code, text = unseen("predict", home / "plain.unseen", tmp_path / "far.csv", "-o", tmp_path / "o.csv")
    assert code == 0
    assert "Far outside" in text
    assert "Warning: The new rows lie outside of what the model has seen" in text
    assert "Warning" not in unseen("predict", home / "plain.unseen", home / "train.csv", "-o", tmp_path / "o.csv")[1]
    facts = printed_json(
        "predict", home / "plain.unseen", tmp_path / "far.csv", "-o", tmp_path / "o.csv", "--domain", "site"
    )
    assert [entry["far"] for entry in facts["novelty"]] == [True, True]


def test_labels_of_any_kind_survive(tmp_path):
    """Through training, the model file, and a CSV file that two readers agree on."""
    table = pl.concat([frame(4 * len(NASTY), site, i, NASTY) for i, site in enumerate(SITES)])
    table.write_parquet(tmp_path / "train.parquet")
    assert unseen("fit", tmp_path / "train.parquet", "--method", "1nn", "-o", tmp_path / "m.unseen")[0] == 0
    output = tmp_path / "out.csv"
    code, text = unseen("predict", tmp_path / "m.unseen", tmp_path / "train.parquet", "-o", output)
    assert code == 0
    assert "look like formulas to a spreadsheet" in text
    with output.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    expected = table["label"].to_list()  # 1-NN knows its training data by heart
    assert [row["label"] for row in rows] == expected
    assert pl.read_csv(output)["label"].to_list() == expected
    assert set(rows[0]) == {"label", *(f"p({name})" for name in NASTY)}
    assert b"\x1b" not in unseen("show", tmp_path / "m.unseen")[1].encode()


def test_whole_numbers_stay_whole_numbers(tmp_path):
    table = pl.concat([frame(12, site, i, (-1, 7)) for i, site in enumerate(SITES)])
    table.write_parquet(tmp_path / "train.parquet")
    assert unseen("fit", tmp_path / "train.parquet", "--method", "1nn", "-o", tmp_path / "m.unseen")[0] == 0
    code, text = unseen("predict", tmp_path / "m.unseen", tmp_path / "train.parquet", "-o", tmp_path / "o.parquet")
    assert code == 0
    assert "formula" not in text
    found = pl.read_parquet(tmp_path / "o.parquet")
    assert found["label"].dtype == pl.Int64
    assert found["label"].to_list() == table["label"].to_list()


def leave_it(path):
    path.write_text("old")
    return path


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_an_error_midway_leaves_what_was_there(home, tmp_path, ending):
    lines = (home / "new.csv").read_text().splitlines()
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join([*lines, "tall,1,2,f,oslo,ill"]) + "\n")
    output = leave_it(tmp_path / f"out{ending}")
    code, text = unseen("predict", home / "plain.unseen", bad, "-o", output, "--batch-size", 5)
    assert code == 2
    assert "column 'x0' must hold numbers" in text
    assert "'tall'" in text
    assert output.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", f"out{ending}"]


SCRIPT = """
import typer
from unseen.cli._predict import predict
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(predict)
app()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_run_that_ends_midway_leaves_no_file_under_the_final_name(home, tmp_path, how):
    new = pl.concat([pl.read_parquet(home / "new.parquet")] * 2000)
    new.write_parquet(tmp_path / "long.parquet")
    output = tmp_path / "results" / "out.csv"
    command = [home / "plain.unseen", tmp_path / "long.parquet", "-o", output, "--batch-size", "5"]
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, *map(str, command)], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not any(path.stat().st_size for path in Path(tmp_path / "results").glob(".out.csv.*")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, how)
    _, said = process.communicate(timeout=60)
    assert not output.exists()
    if how == signal.SIGINT:
        assert process.returncode == 1
        assert b"Stopped. Nothing was written." in said
        assert list(output.parent.iterdir()) == []


def replaced(home, name, **columns):
    """The new table with some columns changed, beside the other files."""
    table = pl.read_parquet(home / "new.parquet").with_columns(**columns)
    table.write_csv(home / name)
    return name


def test_a_transductive_model_refuses_a_domain_of_one_row(home, tmp_path):
    pl.read_parquet(home / "new.parquet").head(1).write_csv(tmp_path / "one.csv")
    code, text = unseen("predict", home / "target.unseen", tmp_path / "one.csv", "-o", tmp_path / "o.csv")
    assert code == 2
    assert "the new table has a single sample, which would become all zeros" in text
    three = pl.read_parquet(home / "new.parquet").head(3).with_columns(site=pl.Series(["lima", "oslo", "lima"]))
    three.write_csv(tmp_path / "three.csv")
    command = ["predict", home / "centred.unseen", tmp_path / "three.csv", "-o", tmp_path / "o.csv", "--domain", "site"]
    code, text = unseen(*command)
    assert code == 2
    assert "domain 'oslo' has a single sample" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.csv", "three.csv"]


BAD = {
    "fit without output": ("fit train.csv", "Missing option '--output'"),
    "fit to a table": ("fit train.csv -o train.csv", "train.csv should end in .unseen"),
    "fit to a folder": ("fit train.csv -o folder.unseen", "folder.unseen is a folder; name a file"),
    "fit below a file": ("fit train.csv -o new.csv/m.unseen", "new.csv/m.unseen cannot be written"),
    "predict below a file": ("predict plain.unseen new.csv -o new.csv/o.csv", "new.csv/o.csv cannot be written"),
    "no jobs": ("fit train.csv --jobs 0 -o m.unseen", "at least one process is needed; -1 means one for each core"),
    "an open quotation mark": (
        'fit train.csv --drop "x0,x1 -o m.unseen',
        "a quotation mark is opened but never closed",
    ),
    "unlabelled digits": ("fit --unlabelled 0 -o m.unseen", "speak of a table"),
    "lists for numbers": (
        "predict plain.unseen lists.parquet -o o.csv",
        "lists.parquet cannot be used: - it cannot be",
    ),
    "fit on nothing": ("fit none.csv -o m.unseen", "no such file"),
    "unknown method": ("fit train.csv --method magic -o m.unseen", "'magic' is not one of"),
    "unknown scale": ("fit train.csv --scale big -o m.unseen", "'big' is not one of"),
    "unknown label": ("fit train.csv --label lable -o m.unseen", "did you mean 'label'?"),
    "unknown feature": ("fit train.csv --features x0,y9 -o m.unseen", "'y9'"),
    "one row of each": ("fit train.csv --max-per-domain 1 -o m.unseen", "Invalid value for '--max-per-domain'"),
    "levels for l2": ("fit train.csv --scale l2 --method 1nn -o m.unseen", "'sex' hold levels"),
    "predict without output": ("predict plain.unseen new.csv", "Missing option '--output'"),
    "no model": ("predict none.unseen new.csv -o o.csv", "No such file or directory"),
    "a table for a model": (
        "predict new.csv new.csv -o o.csv",
        "not a model file. Pass a file that `unseen fit` wrote",
    ),
    "no new table": ("predict plain.unseen none.csv -o o.csv", "no such file"),
    "wrong ending": ("predict plain.unseen new.csv -o o.xlsx", "o.xlsx should end in .csv or .parquet"),
    "over its own input": ("predict plain.unseen new.csv -o ./new.csv", "would replace what is read"),
    "onto a folder": ("predict plain.unseen new.csv -o folder.csv", "is a folder; name a file"),
    "no centre to move": ("predict plain.unseen new.csv -o o.csv --center target", "has no centre to move"),
    "unknown centre": ("predict plain.unseen new.csv -o o.csv --center moon", "'moon' is not one of"),
    "unknown domain": ("predict plain.unseen new.csv -o o.csv --domain sight", "did you mean 'site'?"),
    "missing domains": ("predict target.unseen gaps.csv -o o.csv --domain site", "first for row 41"),
    "missing columns": ("predict plain.unseen few.csv -o o.csv", "no column 'x1'"),
    "no rows": ("predict plain.unseen empty.csv -o o.csv", "it holds no rows"),
    "no batch": ("predict plain.unseen new.csv -o o.csv --batch-size 0", "Invalid value for '--batch-size'"),
    "not ours": ("predict bare.unseen new.csv -o o.csv", "holds a KFDA, not a model that `unseen fit` wrote"),
    "show of nothing": ("show none.unseen", "No such file or directory"),
    "show of a table": ("show new.csv", "not a model file"),
    "show of half a model": ("show half.unseen", "damaged or cut off"),
    "show of a strange card": ("show strange.unseen", "its card is not one that `unseen fit` wrote"),
}


@pytest.fixture(scope="module")
def bad_files(home):
    replaced(home, "gaps.csv", site=pl.Series(["lima"] * 40 + [None] * 10))
    pl.read_csv(home / "new.csv").select("x0", "sex").write_csv(home / "few.csv")
    (home / "empty.csv").write_text((home / "new.csv").read_text().splitlines()[0] + "\n")
    (home / "folder.csv").mkdir()
    (home / "folder.unseen").mkdir()
    lists = pl.read_parquet(home / "new.parquet").with_columns(x0=pl.concat_list("x1", "x2"))
    lists.write_parquet(home / "lists.parquet")
    (home / "half.unseen").write_bytes((home / "plain.unseen").read_bytes()[:5000])
    table = load_table(home / "train.csv", label="label", domain="site")
    prepared = preprocessor(table.schema).fit_transform(table.X)
    bare = KFDA().fit(prepared, table.y, sample_domain=table.domain)
    save_model(bare, home / "bare.unseen", {})
    save_model(bare, home / "strange.unseen", {"data": "none", "scores": [1]})
    return home


@pytest.mark.parametrize("case", BAD)
def test_bad_command_lines_and_files_are_refused_with_a_reason(bad_files, monkeypatch, case):
    monkeypatch.chdir(bad_files)
    before = sorted(path.name for path in bad_files.iterdir())
    command, reason = BAD[case]
    code, text = unseen(*command.split())
    assert code == 2
    assert reason in text
    assert sorted(path.name for path in bad_files.iterdir()) == before


def test_a_target_that_cannot_be_written_is_refused_before_the_work(home, monkeypatch):
    def worked(*_):
        raise AssertionError

    monkeypatch.setattr("unseen.cli._fit.survey", worked)
    monkeypatch.setattr("unseen.cli._predict.load_model", worked)
    (home / "taken.unseen").mkdir(exist_ok=True)
    assert unseen("fit", home / "train.csv", "-o", home / "taken.unseen")[0] == 2
    assert unseen("predict", home / "plain.unseen", home / "new.csv", "-o", home / "new.csv" / "o.csv")[0] == 2


def test_missing_columns_are_all_named_at_once(bad_files, tmp_path):
    text = unseen("predict", bad_files / "plain.unseen", bad_files / "few.csv", "-o", tmp_path / "o.csv")[1]
    assert "'x1'" in text
    assert "'x2'" in text


def test_a_column_that_numbers_the_rows_is_no_domain(home, tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.cli._predict.MAX_DOMAINS", 40)
    replaced(home, "numbered.csv", site=pl.Series([f"row {i}" for i in range(50)]))
    code, text = unseen(
        "predict", home / "plain.unseen", home / "numbered.csv", "-o", tmp_path / "o.csv", "--domain", "site"
    )
    assert code == 2
    assert "names more than 40 domains; does it number the rows?" in text


def test_a_disk_that_cannot_be_written_fails_with_one(home, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", fail)
    code, text = unseen("predict", home / "plain.unseen", home / "new.csv", "-o", tmp_path / "o.csv")
    assert code == 1
    assert "Failed: No space left on device" in text
    assert list(tmp_path.iterdir()) == []


def test_columns_that_are_missing_here_but_not_in_training_are_named(home, tmp_path):
    new = pl.read_parquet(home / "new.parquet")
    changed = new.with_columns(x1=None, sex=pl.when(pl.int_range(50) < 20).then("sex"), x2=pl.lit(1e200))
    changed.write_parquet(tmp_path / "gaps.parquet")
    for model in ("plain", "centred"):  # one pass over the table, and two
        command = ["predict", home / f"{model}.unseen", tmp_path / "gaps.parquet", "-o", tmp_path / "o.csv"]
        text = unseen(*command, "--batch-size", 7)[1]
        assert (
            "Note: Mostly missing here, so the predictions rest on the other columns: 'x1 (50 of 50 values)', "
            "'x2 (50 of 50 values)', 'sex (30 of 50 values)'." in text
        )
        assert [entry["column"] for entry in printed_json(*command)["mostly_missing"]] == ["x1", "x2", "sex"]
    assert (
        "Mostly missing" not in unseen("predict", home / "plain.unseen", home / "new.csv", "-o", tmp_path / "o.csv")[1]
    )


def test_what_was_missing_in_training_as_well_is_no_news(home, tmp_path):
    train = pl.read_csv(home / "train.csv").with_columns(x1=pl.when(pl.int_range(72) % 3 == 0).then("x1"))
    train.write_csv(tmp_path / "train.csv")
    assert unseen("fit", tmp_path / "train.csv", "--method", "1nn", "-o", tmp_path / "m.unseen")[0] == 0
    missing = read_card(tmp_path / "m.unseen")["data"]["missing"]
    assert missing["x1"] == pytest.approx(2 / 3, abs=0.05)
    assert "sex" not in missing
    new = pl.read_csv(home / "new.csv").with_columns(x1=None, x2=None)
    new.write_csv(tmp_path / "new.csv")
    text = unseen("predict", tmp_path / "m.unseen", tmp_path / "new.csv", "-o", tmp_path / "o.csv")[1]
    assert "other columns: 'x2 (50 of 50 values)'." in text


def test_scores_are_said_to_be_too_good_only_where_something_was_chosen_on_them(home, tmp_path):
    said = "Settings were chosen on these same domains"
    text = unseen("fit", home / "train.csv", "--method", "1nn", "-o", tmp_path / "m.unseen")[1]
    assert said not in text
    assert said not in unseen("show", tmp_path / "m.unseen")[1]
    assert said in unseen("show", home / "plain.unseen")[1]


def test_columns_with_commas_may_be_named_in_quotes(home, tmp_path):
    renamed = pl.read_csv(home / "train.csv").rename({"x0": "a, b", "x1": 'c"d'})
    renamed.write_csv(tmp_path / "t.csv")
    for option, features in (("--features", ["a, b", 'c"d']), ("--drop", ["x2", "sex"])):
        options = ["--method", "1nn", "-o", tmp_path / "m.unseen", option, '"a, b", c"d']
        facts = printed_json("fit", tmp_path / "t.csv", *options)
        assert [column["name"] for column in facts["schema"]["columns"]] == features
    assert "in quotes" in unseen("fit", "--help")[1]


EVIL = "\x1b[31m\x9b31mred\x07"


def evil(value, kept):
    """A card in which every text, and every name of a thing, is one that a terminal would obey."""
    if isinstance(value, dict):
        return {key if key in kept else EVIL + key: evil(inside, kept) for key, inside in value.items()}
    if isinstance(value, list):
        return [evil(inside, kept) for inside in value]
    return EVIL + value if isinstance(value, str) else value


def keys_of(value):
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def test_no_escape_sequence_of_a_card_reaches_the_terminal(home, tmp_path):
    fitted, facts = load_model(home / "plain.unseen")
    save_model(fitted, tmp_path / "evil.unseen", evil(facts, keys_of(facts) - set(SITES)))
    for options in ([], ["--json"]):
        result = CliRunner().invoke(APP, ["show", str(tmp_path / "evil.unseen"), *options])
        assert result.exit_code == 0
        assert "red" in result.output
        assert not set(result.output) & {"\x1b", "\x9b", "\x07"}
    printed = printed_json("show", tmp_path / "evil.unseen")
    assert printed["command"].startswith(EVIL)  # for machines it is what it was


def test_no_escape_sequence_of_a_table_reaches_the_terminal(home, tmp_path):
    new = pl.read_parquet(home / "new.parquet").with_columns(site=EVIL + pl.col("site"), **{EVIL: 1})
    new.write_parquet(tmp_path / "evil.parquet")
    command = [
        "predict",
        home / "plain.unseen",
        tmp_path / "evil.parquet",
        "--domain",
        "site",
        "-o",
        tmp_path / "o.csv",
    ]
    for options in ([], ["--json"]):
        result = CliRunner().invoke(APP, [*map(str, command), *options])
        assert result.exit_code == 0
        assert "oslo" in result.output
        assert not set(result.output) & {"\x1b", "\x9b", "\x07"}


def test_rows_without_a_label_are_left_out_of_a_fit(home, tmp_path):
    labels = pl.when(pl.int_range(72) % 6 == 1).then(pl.lit("unknown")).otherwise("label")
    pl.read_csv(home / "train.csv").with_columns(label=labels).write_csv(tmp_path / "t.csv")
    options = ["--method", "1nn", "-o", tmp_path / "m.unseen", "--unlabelled", "unknown"]
    code, text = unseen("fit", tmp_path / "t.csv", *options)
    assert code == 0
    assert "Note: Left out 12 rows of 72 with the label 'unknown', which stands for none." in text
    assert read_card(tmp_path / "m.unseen")["data"]["rows"] == 60
    landmarks = ["--feature-map", "nystroem", "--method", "kfda", "--components", "10"]
    assert unseen("fit", tmp_path / "t.csv", *options, *landmarks)[0] == 0
    assert read_card(tmp_path / "m.unseen")["stream"]["projection_rows"] == 60


@pytest.mark.parametrize("command", [["diagnose", "--permutations", "19"], ["compare", "--methods", "1NN", "--quick"]])
def test_compare_and_diagnose_leave_out_the_unlabelled_too(home, tmp_path, monkeypatch, command):
    from unseen.cli._app import app

    monkeypatch.chdir(tmp_path)
    labels = pl.when(pl.int_range(72) % 6 == 1).then(None).otherwise("label")
    pl.read_csv(home / "train.csv").with_columns(label=labels).write_csv(tmp_path / "t.csv")
    result = CliRunner().invoke(app, [*command, "t.csv", "--unlabelled", "NA", "--json"])
    assert result.exit_code == 0, result.output
    assert "Left out 12 rows of 72 without a label." in " ".join(result.stderr.split())
    assert CliRunner().invoke(app, [*command, "t.csv"]).exit_code == 2


def test_a_real_folder_with_unlabelled_cells_can_be_diagnosed():
    from unseen.cli._app import app

    folder = Path(__file__).parents[2] / "shared" / "data" / "gvhd"
    if not folder.is_dir():
        pytest.skip("the real data gvhd is not beside the project")
    result = CliRunner().invoke(app, ["diagnose", str(folder), "--unlabelled", "0", "--permutations", "19", "--json"])
    assert result.exit_code == 0, result.output
    assert "0" not in {str(name) for name in json.loads(result.stdout)["classes"]}
