"""The blocks of the README run as printed, on the tables of its example."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")

from journey_tables import read_rows, run

pytestmark = pytest.mark.journeys
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def run_block(code, folder):
    (folder / "block.py").write_text(code)
    done = subprocess.run([sys.executable, "block.py"], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def percentages(text):
    return [int(number) for number in re.findall(r"(\d+)%", text)]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    return folder, run_block(BLOCKS[1], folder)


def test_the_block_of_penguins_prints_the_accuracies_that_it_shows(tmp_path):
    plain, cidg = percentages(run_block(BLOCKS[0], tmp_path))
    assert percentages(BLOCKS[0].splitlines()[-1])[:2] == [plain, cidg]


def test_the_block_of_hospitals_prints_what_its_comments_show(example):
    _, output = example
    expected, *rest = output.splitlines()
    shown = [percentages(comment) for comment in re.findall(r"# (.*%.*)$", BLOCKS[1], flags=re.MULTILINE)]
    mean, level, lower, upper = percentages(expected)
    assert np.allclose(shown[0], [mean, level, lower, upper], atol=3)
    assert "nearest source" in rest[0]
    accuracy, adapted = percentages("".join(rest[1:]))
    assert abs(accuracy - shown[1][0]) <= 3
    assert abs(adapted - shown[2][0]) <= 3
    assert lower < accuracy < upper


def test_the_commands_run_as_printed(example):
    folder, _ = example
    commands = re.findall(r"^\$ (unseen .*?)(?: +#.*)?$", README, flags=re.MULTILINE)
    assert [shlex.split(command)[1] for command in commands] == ["compare", "fit", "predict"]
    for command in commands:
        run(*shlex.split(command)[1:], cwd=folder)
    labels = [row["label"] for row in read_rows(folder / "predictions.csv")]
    truth = [row["diagnosis"] for row in read_rows(folder / "new_hospital.csv")]
    assert accuracy_score(truth, labels) > 0.7
    assert (folder / "report.html").exists()
