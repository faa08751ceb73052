"""The blocks of the README run as printed, on the tables of its example."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.metrics import accuracy_score

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")

from journey_tables import read_rows, run

pytestmark = pytest.mark.journeys
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    subprocess.run([sys.executable, ROOT / "examples" / "hospitals.py"], cwd=folder, check=True)
    assert {path.name for path in folder.iterdir()} == set(re.findall(r"\b(\w+\.csv)[,;]", README))
    return folder


def test_the_python_block_prints_an_interval(example):
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    (example / "block.py").write_text(code)
    done = subprocess.run([sys.executable, "block.py"], cwd=example, capture_output=True, text=True, check=True)
    assert re.match(r"\d+%, 95% prediction interval \d+% to \d+%\n", done.stdout)
    assert "nearest source" in done.stdout or "Within reach" in done.stdout


def test_the_commands_run_as_printed(example):
    commands = re.findall(r"^\$ (unseen .*?)(?: +#.*)?$", README, flags=re.MULTILINE)
    assert [shlex.split(command)[1] for command in commands] == ["diagnose", "compare", "fit", "predict"]
    for command in commands:
        run(*shlex.split(command)[1:], cwd=example)
    labels = [row["label"] for row in read_rows(example / "predictions.csv")]
    truth = [row["diagnosis"] for row in read_rows(example / "new_hospital_later.csv")]
    assert accuracy_score(truth, labels) > 0.7
    assert (example / "report.html").exists()
