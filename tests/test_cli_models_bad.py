"""``unseen fit``, ``predict`` and ``show`` refuse with a reason, and leave nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")
import polars as pl
from typer.testing import CliRunner

from cli_models import app, unseen
from helpers import fit_model
from model_files import pack, unpack
from unseen import KFDA, fit
from unseen.cli import main
from unseen.exceptions import DataWarning
from unseen.models._model_file import save_model
from unseen.tables import load_table, make_preprocessor


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


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
@pytest.mark.system
def test_a_run_that_ends_midway_leaves_no_file_under_the_final_name(home, tmp_path, how):
    new = pl.concat([pl.read_parquet(home / "new.parquet")] * 2000)
    new.write_parquet(tmp_path / "long.parquet")
    output = tmp_path / "results" / "out.csv"
    command = ["predict", home / "plain.unseen", tmp_path / "long.parquet", "-o", output, "--batch-size", "5"]
    main = "from unseen.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", main, *map(str, command)], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not any(path.stat().st_size for path in output.parent.glob(".unseen-*/*")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, how)
    _, stderr = process.communicate(timeout=60)
    assert not output.exists()
    if how == signal.SIGINT:
        assert process.returncode == 130, stderr
        assert b"Interrupted. Nothing was written." in stderr
    elif how == signal.SIGKILL:
        assert process.returncode == -how
    else:
        assert process.returncode == 128 + how
    left = list(output.parent.iterdir())
    # A killed process cannot remove its temporary folder; it is hidden, and never taken for a result.
    assert [path.name.startswith(".unseen-") for path in left] == [True] * (how == signal.SIGKILL)


def replaced(home, name, **columns):
    """The new table with some columns changed, beside the other files."""
    table = pl.read_parquet(home / "new.parquet").with_columns(**columns)
    table.write_csv(home / name)
    return name


BAD = {
    "fit without output": ("fit train.csv", "Missing option '--output'"),
    "fit to a table": ("fit train.csv -o train.csv", "train.csv should end in .unseen"),
    "fit to a folder": ("fit train.csv -o folder.unseen", "folder.unseen is a folder. Pass the name of a file"),
    "fit below a file": ("fit train.csv -o new.csv/m.unseen", "new.csv/m.unseen cannot be written"),
    "predict below a file": ("predict plain.unseen new.csv -o new.csv/o.csv", "new.csv/o.csv cannot be written"),
    "no jobs": (
        "fit train.csv --jobs 0 -o m.unseen",
        "Use 1 or more processes, or -1 for one per core",
    ),
    "an open quotation mark": (
        'fit train.csv --drop "x0,x1 -o m.unseen',
        "a quotation mark is not closed",
    ),
    "unlabeled digits": ("fit --unlabeled 0 -o m.unseen", "Pass one table"),
    "lists for numbers": (
        "predict plain.unseen lists.parquet -o o.csv",
        "lists.parquet cannot be used: - it cannot be",
    ),
    "fit on nothing": ("fit none.csv -o m.unseen", "does not exist"),
    "unknown method": ("fit train.csv --methods magic -o m.unseen", "no method 'magic'; there are"),
    "unknown scale": ("fit train.csv --scale big -o m.unseen", "'big' is not one of"),
    "unknown label": ("fit train.csv --label lable -o m.unseen", "did you mean 'label'?"),
    "unknown feature": ("fit train.csv --features x0,y9 -o m.unseen", "'y9'"),
    "one row of each": ("fit train.csv --max-per-domain 1 -o m.unseen", "Invalid value for '--max-per-domain'"),
    "levels for l2": ("fit train.csv --scale l2 --methods 1-nn -o m.unseen", "'sex' hold levels"),
    "predict without output": ("predict plain.unseen new.csv", "Missing option '--output'"),
    "no model": ("predict none.unseen new.csv -o o.csv", "The file none.unseen does not exist"),
    "a table for a model": (
        "predict new.csv new.csv -o o.csv",
        "not a model file. Pass a file that `unseen fit` wrote",
    ),
    "no new table": ("predict plain.unseen none.csv -o o.csv", "does not exist"),
    "wrong ending": ("predict plain.unseen new.csv -o o.txt", "o.txt should end in .csv or .parquet"),
    "over its own input": ("predict plain.unseen new.csv -o ./new.csv", "would replace an input file"),
    "onto a folder": ("predict plain.unseen new.csv -o folder.csv", "is a folder. Pass the name of a file"),
    "unknown domain": ("predict plain.unseen new.csv -o o.csv --domain sight", "did you mean 'site'?"),
    "missing domains": ("predict target.unseen gaps.csv -o o.csv --domain site", "first for row 41"),
    "missing columns": ("predict plain.unseen few.csv -o o.csv", "no column 'sex': the columns are 'x0', 'x1'"),
    "no rows": ("predict plain.unseen empty.csv -o o.csv", "it holds no rows"),
    "no batch": ("predict plain.unseen new.csv -o o.csv --batch-size 0", "Invalid value for '--batch-size'"),
    "not ours": ("predict bare.unseen new.csv -o o.csv", "holds a KFDA, not a model that `unseen fit` wrote"),
    "show of nothing": ("show none.unseen", "The file none.unseen does not exist"),
    "show of a table": ("show new.csv", "not a model file"),
    "show of half a model": ("show half.unseen", "damaged or cut off"),
    "show of a strange card": ("show strange.unseen", "its card has data = 'none'; a dictionary is expected"),
}


@pytest.fixture(scope="module")
def bad_files(home):
    replaced(home, "gaps.csv", site=pl.Series(["lima"] * 40 + [None] * 10))
    pl.read_csv(home / "new.csv").select("x0", "x1").write_csv(home / "few.csv")
    (home / "empty.csv").write_text((home / "new.csv").read_text().splitlines()[0] + "\n")
    (home / "folder.csv").mkdir()
    (home / "folder.unseen").mkdir()
    lists = pl.read_parquet(home / "new.parquet").with_columns(x0=pl.concat_list("x1", "x2"))
    lists.write_parquet(home / "lists.parquet")
    (home / "half.unseen").write_bytes((home / "plain.unseen").read_bytes()[:5000])
    table = load_table(home / "train.csv", label="label", domain="site")
    prepared = make_preprocessor(table.schema).fit_transform(table.X)
    bare = KFDA().fit(prepared, table.y, sample_domain=table.domain)
    save_model(bare, home / "bare.unseen", {})
    card, payload = unpack(home / "bare.unseen")
    pack(home / "strange.unseen", {**card, "data": "none", "scores": [1]}, payload)
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

    monkeypatch.setattr("unseen.tables.survey_table", worked)
    monkeypatch.setattr("unseen.models.load_model", worked)
    (home / "taken.unseen").mkdir(exist_ok=True)
    assert unseen("fit", home / "train.csv", "-o", home / "taken.unseen")[0] == 2
    assert unseen("predict", home / "plain.unseen", home / "new.csv", "-o", home / "new.csv" / "o.csv")[0] == 2


def test_missing_columns_are_all_named_at_once(bad_files, tmp_path):
    text = unseen("predict", bad_files / "plain.unseen", bad_files / "few.csv", "-o", tmp_path / "o.csv")[1]
    assert "no column 'x2'" in text
    assert "no column 'sex'" in text
    assert "no value of 'sex' was missing in training" in text


def test_a_column_that_numbers_the_rows_is_no_domain(home, tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.models._new_data.MAX_DOMAINS", 40)
    replaced(home, "numbered.csv", site=pl.Series([f"row {i}" for i in range(50)]))
    code, text = unseen(
        "predict", home / "plain.unseen", home / "numbered.csv", "-o", tmp_path / "o.csv", "--domain", "site"
    )
    assert code == 2
    assert "names more than 40 domains; does it number the rows?" in text


EVIL = "\x1b[31m\x9b31mred\x07"


def evil(value, kept):
    """A card in which every text, and every name of a thing, is one that a terminal would obey."""
    if isinstance(value, dict):
        plain = ("date_format", "kind")  # which have few allowed values
        changed = {key: inside if key in plain else evil(inside, kept) for key, inside in value.items()}
        return {key if key in kept else EVIL + key: inside for key, inside in changed.items()}
    if isinstance(value, list):
        return [evil(inside, kept) for inside in value]
    return EVIL + value if isinstance(value, str) else value


def keys_of(value):
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


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
    for options in ([], ["--format", "json"]):
        result = CliRunner().invoke(app, [*map(str, command), *options])
        assert result.exit_code == 0
        assert "oslo" in result.output
        assert not set(result.output) & {"\x1b", "\x9b", "\x07"}


def test_without_its_extra_the_command_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "unseen.cli._app", None)
    with pytest.raises(SystemExit, match=r"The unseen command needs the extra 'cli' .*pip install 'unseen\[cli\]'"):
        main()


def test_few_domains_and_many_rows_are_told_of_before_a_fit(home, monkeypatch):
    monkeypatch.setattr("unseen.models._fit.SLOW_EXACT_ROWS", 10)
    table = load_table(home / "train.csv")
    two = replace(table, domain=np.where(table.domain == table.domain[0], "a", "b"))
    with pytest.warns(DataWarning) as told:
        model = fit(two, methods="kfda")
    texts = [str(one.message) for one in told]
    assert texts == model.card["data"]["notices"]
    assert any(text.startswith("With two domains each is scored by a model trained on the other") for text in texts)
    assert any("rows take minutes with exact kernels; max_per_domain=500" in text for text in texts)
    assert fit_model(table, "logistic").card["data"]["notices"] == table.notices
