"""Where the commands write: standard output, files and formats; notes; files that exist; exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")
import typer
from typer.testing import CliRunner

from unseen.cli._app import app
from unseen.cli._options import CommandGroup
from unseen.cli._report import add_note


def run(*args):
    return CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})


def read_rows(text):
    return list(csv.DictReader(io.StringIO(text)))


# Standard output and files


def test_predictions_on_standard_output_are_those_of_a_file(home, tmp_path):
    command = ["predict", home / "plain.unseen", home / "new.csv", "-o"]
    result = run(*command, tmp_path / "p.csv")
    printed = run(*command, "-")
    assert (result.exit_code, printed.exit_code) == (0, 0)
    assert printed.stdout == (tmp_path / "p.csv").read_text(encoding="utf-8")
    assert result.stdout.splitlines()[0] == "50 rows"
    assert "50 rows" in printed.stderr
    quiet = run(*command, "-", "--quiet")
    assert (quiet.stdout, quiet.stderr) == (printed.stdout, "")
    assert list(tmp_path.iterdir()) == [tmp_path / "p.csv"]


def test_standard_output_has_room_for_one_result(home):
    result = run("predict", home / "plain.unseen", home / "new.csv", "-o", "-", "--format", "json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "cannot hold both the predictions (--output -) and the summary (--format json)" in result.stderr


@pytest.mark.parametrize("name", ["tests.csv", "result.json", "result.txt"])
def test_a_file_has_the_format_of_its_suffix_and_the_text_that_is_printed(home, tmp_path, name):
    command = ["diagnose", home / "train.csv", "--permutations", 19]
    path = tmp_path / name
    written = run(*command, "-o", path)
    assert (written.exit_code, written.stdout) == (0, "")
    assert f"Wrote {path}" in written.stderr
    assert path.read_text(encoding="utf-8") == run(*command, "--format", path.suffix[1:]).stdout


def test_the_table_of_a_diagnosis_has_the_numbers_of_its_json(home):
    command = ["diagnose", home / "train.csv", "--permutations", 19, "--quiet", "--format"]
    rows = read_rows(run(*command, "csv").stdout)
    summary = json.loads(run(*command, "json").stdout)
    tests = [*summary["tests"], *summary["classes_tests"]]
    assert [float(row["p_value"]) for row in rows] == [test["p_value"] for test in tests]
    assert [row["test"] for row in rows[-2:]] == ["P(X|Y=ill)", "P(X|Y=well)"]


def test_quiet_omits_notes_and_progress_and_only_in_its_own_run(home):
    command = ["diagnose", home / "train.csv", "--permutations", 19]
    quiet = run(*command, "--quiet")
    loud = run(*command)
    assert quiet.stderr == ""
    assert "Note: Using 'site' as the domain column" in loud.stderr
    assert quiet.stdout == loud.stdout
    assert "does not exist" in run("diagnose", "nowhere.csv", "--quiet").stderr


def test_a_reader_that_ends_early_is_not_an_error():
    reading, writing = os.pipe()
    os.close(reading)
    code = "import typer\nfrom unseen.cli._report import write_text\ntyper.run(lambda: write_text('row\\n' * 100_000))"
    done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


# Files that exist, and files that do not


def test_a_model_is_replaced_only_if_that_is_stated(home, tmp_path):
    path = tmp_path / "m.unseen"
    path.write_text("old")
    command = ["fit", home / "train.csv", "--methods", "majority", "-o", path]
    result = run(*command)
    assert result.exit_code == 2
    assert f"{path} exists. Pass --overwrite to replace it" in result.stderr
    assert path.read_text() == "old"
    assert run(*command, "--overwrite").exit_code == 0
    assert f"{path} exists. Pass --overwrite" in run(*command).stderr
    assert run("show", path).exit_code == 0


def test_a_model_is_not_printed(home):
    result = run("fit", home / "train.csv", "-o", "-")
    assert result.exit_code == 2
    assert "A model cannot be written to standard output" in result.stderr


@pytest.mark.parametrize("command", [["show", "{}"], ["predict", "{}", "new.csv", "-o", "-"]], ids=["show", "predict"])
def test_a_missing_model_gets_a_sentence(home, command):
    path = home / "plane.unseen"
    result = run(*(word.format(path) for word in command))
    assert result.exit_code == 2
    assert f"Error: The file {path} does not exist. Did you mean 'plain.unseen'?" in " ".join(result.stderr.split())


# Interrupts and errors


def test_an_interrupt_outside_the_computation_exits_with_130_and_a_sentence():
    """Such as during the imports of a command."""
    group = typer.Typer(cls=CommandGroup)

    @group.command()
    def slow():
        raise KeyboardInterrupt

    @group.command()
    def other():
        with add_note("Nothing was written."):
            raise KeyboardInterrupt

    result = CliRunner().invoke(group, ["slow"])
    assert (result.exit_code, result.stderr) == (130, "Interrupted.\n")
    result = CliRunner().invoke(group, ["other"])
    assert (result.exit_code, result.stderr) == (130, "Interrupted. Nothing was written.\n")


def test_an_error_of_a_parameter_names_its_option(home, tmp_path):
    command = ["predict", home / "plain.unseen", home / "new.csv", "-o", tmp_path / "p.csv", "--coverage", "0.99"]
    result = run(*command)
    assert result.exit_code == 2
    assert "Error: --coverage=0.99 is not attainable" in result.stderr
