"""One case in seventeen: what a comparison says where always saying no is nearly always right."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command needs its extra")
from typer.testing import CliRunner

import unseen
from unseen.cli._app import app
from unseen.exceptions import DataWarning

pytestmark = pytest.mark.usefixtures("few_trees")

SITES, ROWS, CASES = ("north", "south", "east", "west"), 100, 6
METHODS = ["majority", "logistic"]
OPTIONS = ("--methods", ",".join(METHODS), "--quick", "--jobs", 1)
BALANCED = ("--metric", "balanced_accuracy", "--balance", "classes")


@pytest.fixture(scope="module")
def clinics(tmp_path_factory):
    """A column that shifts a little with the disease, two that do not, and 6% who have it, in each of four clinics."""
    rng = np.random.default_rng(0)
    ill = np.tile(np.arange(ROWS) < CASES, len(SITES))
    X = rng.normal(size=(len(ill), 3)) + np.outer(ill, [1, 0, 0]) + np.repeat(rng.normal(size=(4, 3)) / 3, ROWS, axis=0)
    lines = [
        ",".join([site, *(f"{x:.4f}" for x in row), "yes" if sick else "no"])
        for site, row, sick in zip(np.repeat(SITES, ROWS), X, ill, strict=True)
    ]
    path = tmp_path_factory.mktemp("minority") / "clinics.csv"
    path.write_text("\n".join(["clinic,a,b,c,disease", *lines]))
    return path


def compared(path, *options):
    """Summary of a comparison through the command, and what was said beside it."""
    args = ("compare", path, "--label", "disease", "--domain", "clinic", *OPTIONS, *options, "--format", "json")
    store = ("--store", path.with_name(f"{len(options)}.sqlite"))
    result = CliRunner().invoke(app, [*map(str, args + store)], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), " ".join(result.stderr.split())


def found_cases(summary, method):
    """How many of those who have the disease the recommended method found, on each domain."""
    yes = summary["data"]["classes"].index("yes")
    return [part["counts"][yes][yes] for part in summary["confusion"] if part["method"] == method]


def test_by_accuracy_the_command_warns_before_the_work_and_shows_what_saying_no_would_give(clinics):
    summary, said = compared(clinics)
    advice = "Class yes has 6.0% of the samples; always predicting no has an accuracy of 94.0%. Accuracy depends little"
    assert said.index(advice) < said.index("metric balanced_accuracy") < said.index("400 samples, 4 domains")
    means = {method["name"]: method["mean"] for method in summary["methods"]}
    assert set(means) == set(METHODS)
    assert means["majority"] == max(means.values()) == pytest.approx(0.94)
    use = summary["verdict"]["recommendation"]["method"]
    assert sum(found_cases(summary, use)) == 0  # so bad is what accuracy prefers
    assert any("metric balanced_accuracy" in sentence for sentence in summary["verdict"]["sentences"])


def test_by_balanced_accuracy_a_model_is_chosen_that_finds_cases(clinics):
    summary, said = compared(clinics, *BALANCED)
    assert "metric balanced_accuracy" not in said
    means = {method["name"]: method["mean"] for method in summary["methods"]}
    assert means["majority"] == 0.5
    advice = summary["verdict"]["recommendation"]
    assert advice["method"] != "majority"
    assert advice["expected"] == means[advice["method"]] == max(means.values()) > 0.6
    assert all(cases > 0 for cases in found_cases(summary, advice["method"]))
    assert summary["verdict"]["metric"] == "balanced accuracy"


def test_fit_warns_of_the_rare_class_before_the_work(clinics, monkeypatch):
    monkeypatch.setattr("unseen.utils.jobs.LOG_INTERVAL_SECONDS", 0)  # short jobs print nothing
    args = ("fit", clinics, "--label", "disease", "--domain", "clinic", "--methods", "logistic")
    output = ("-o", clinics.with_name("model.unseen"))
    result = CliRunner().invoke(app, [*map(str, args + output)], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    advice = "Class yes has 6.0% of the samples; always predicting no has an accuracy of 94.0%. Accuracy, by which"
    assert said.index(advice) < said.index("compare by balanced_accuracy first") < said.index("Choosing settings")
    with pytest.warns(DataWarning, match=advice):
        model = unseen.fit(clinics, methods="logistic", label="disease", domain="clinic")
    assert any(advice in notice for notice in model.card["data"]["notices"])
