"""Output that the encoding of standard output cannot represent never makes a command fail, and files come first."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("polars", reason="reading tables needs the extra")
pytest.importorskip("skops", reason="model files need the extra")
pytest.importorskip("typer", reason="the command needs its extra")

from command import run_command
from unseen.cli._app import app

pytestmark = pytest.mark.system

SITES, LABELS = ("Αθήνα", "Brașov", "København"), ("krank", "gesund ✓")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a table whose domains and labels no 8-bit encoding has, and a model of it."""
    home = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    lines = [f"{SITES[i % 3]},{LABELS[i % 2]},{rng.normal() + i % 2:.3f},{rng.normal():.3f}" for i in range(90)]
    (home / "train.csv").write_text("\n".join(["site,label,größe,μ", *lines]), encoding="utf-8")
    with contextlib.chdir(home):
        code, output = run_command(app, *FIT, "-o", "given.unseen")
    assert code == 0, output
    return home


def unseen(folder, encoding, *args, stdout=subprocess.PIPE):
    """Run the command in a process whose standard output has an encoding."""
    command = [sys.executable, "-u", "-c", "from unseen.cli import main; main()", *args]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "NO_COLOR": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        command, cwd=folder, env=environment, stdout=stdout, stderr=subprocess.PIPE, timeout=300, check=False
    )


COLUMNS = ("--label", "label", "--domain", "site")
FIT = ("fit", "train.csv", *COLUMNS, "--methods", "logistic")
COMPARE = ("compare", "train.csv", *COLUMNS, "--methods", "1-NN,logistic", "--quick", "--jobs", "1")
COMMANDS = {
    "fit": (*FIT, "-o", "made.unseen"),
    "compare": (*COMPARE, "--report", "made.html"),
    "predict": ("predict", "given.unseen", "train.csv", "-o", "made.csv", "--domain", "site"),
    "diagnose": ("diagnose", "train.csv", *COLUMNS, "--permutations", "19", "--report", "made.html", "--columns"),
    "show": ("show", "given.unseen", "--columns"),
}


@pytest.mark.parametrize(
    ("command", "encoding"), [("predict", "ascii"), pytest.param("compare", "cp1252", marks=pytest.mark.slow)]
)
def test_characters_that_cannot_be_encoded_are_replaced(home, command, encoding):
    for path in home.glob("made.*"):
        path.unlink()
    done = unseen(home, encoding, *COMMANDS[command])
    assert done.returncode == 0, done.stderr.decode(encoding)
    assert b"Traceback" not in done.stderr
    assert b"?" in done.stdout
    assert len(list(home.glob("made.*"))) == (command != "show")


def test_nothing_is_lost_in_json(home):
    done = unseen(home, "ascii", "show", "given.unseen", "--format", "json")
    assert set(json.loads(done.stdout.decode("ascii"))["data"]["domains"]) == set(SITES)


def test_nothing_is_lost_in_predictions(home):
    done = unseen(home, "ascii", "predict", "given.unseen", "train.csv", "-o", "-", "--quiet")
    labels = {line.split(",")[0] for line in done.stdout.decode("utf-8").splitlines()[1:]}
    assert labels == set(LABELS)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full here")
@pytest.mark.parametrize("command", [pytest.param("compare", marks=pytest.mark.slow), "predict"])
def test_files_are_written_before_anything_is_printed(home, command):
    """Standard output on a full disk makes the first line that is printed an error."""
    for path in home.glob("made.*"):
        path.unlink()
    with open("/dev/full", "wb") as full:
        done = unseen(home, "utf-8", *COMMANDS[command], stdout=full)
    assert done.returncode != 0
    assert len(list(home.glob("made.*"))) == 1
