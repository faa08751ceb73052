"""The JSON of a command is the result of the call in Python."""

from __future__ import annotations

import json
import math

import pytest

pytest.importorskip("typer", reason="the command needs its extra")
pytest.importorskip("skops", reason="model files need the extra")

import polars as pl

import unseen
from command import run_command
from unseen.cli._app import app
from unseen.datasets import load_hospitals
from unseen.evaluation import site_learning_curve

ROLES = {"label": "diagnosis", "domain": "hospital"}
METHODS = ["logistic", "nearest mean"]
CALLS = {
    "fit": (
        ["--methods", "logistic,nearest mean", "--metric", "roc_auc", "-o", "model.unseen"],
        lambda data: unseen.fit(data, **ROLES, methods=METHODS, metric="roc_auc").card,
    ),
    "compare": (
        ["--methods", "logistic,nearest mean", "--quick", "--metric", "log_loss"],
        lambda data: unseen.compare(data, **ROLES, methods=METHODS, quick=True, metric="log_loss").to_dict(),
    ),
    "validate": (
        ["--methods", "logistic", "--compare-with", "nearest mean", "--threshold", "youden"],
        lambda data: unseen.validate(
            data, **ROLES, methods=["logistic"], compare_with=["nearest mean"], threshold="youden"
        ).to_dict(),
    ),
    "sites": (
        ["--methods", "logistic"],
        lambda data: site_learning_curve(data, **ROLES, methods=["logistic"]).to_dict(),
    ),
    "diagnose": (
        ["--permutations", "99", "--alpha", "0.1"],
        lambda data: unseen.diagnose(data, **ROLES, n_permutations=99, alpha=0.1).summary(),
    ),
}
# The command, which the checklist quotes, and times.
IGNORED = {"command", "checklist", "created", "date", "seconds", "provenance"}


def comparable(value):
    """The value as JSON has it, without what differs between two runs."""
    if isinstance(value, dict):
        return {str(name): comparable(entry) for name, entry in value.items() if name not in IGNORED}
    if isinstance(value, list | tuple):
        return [comparable(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.filterwarnings("ignore::unseen.exceptions.DataWarning", "ignore::unseen.exceptions.CoverageWarning")
@pytest.mark.parametrize("command", CALLS)
def test_the_json_of_a_command_is_the_result_of_the_call(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["aachen", "berlin", "bonn", *(["bremen"] if command == "sites" else [])]
    load_hospitals()[0].filter(pl.col("hospital").is_in(names)).write_csv("hospitals.csv")
    options, call = CALLS[command]
    roles = [part for name, column in ROLES.items() for part in (f"--{name}", column)]
    code, text = run_command(app, command, "hospitals.csv", *roles, *options, "--format", "json", "--quiet")
    assert code == 0, text
    printed = json.loads(text)
    assert comparable(printed) == comparable(json.loads(json.dumps(call("hospitals.csv"))))
