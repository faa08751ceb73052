"""The commands on columns and domains: audits and learning curves."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
import polars as pl
from typer.testing import CliRunner

import unseen as library
from unseen.cli._app import app
from unseen.exceptions import DataWarning


def unseen(*args):
    """Exit code, standard output and standard error."""
    result = CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five hospitals; cholesterol is 0 where it was not measured."""
    path = tmp_path_factory.mktemp("hospitals")
    rng = np.random.default_rng(0)
    ill = rng.integers(2, size=300)
    hospital = np.repeat(["bonn", "graz", "leeds", "lyon", "oslo"], 60)
    chol = np.round(rng.normal(220, 30, size=300) + 10 * ill)
    chol[(hospital == "graz") & (rng.random(300) < 0.5)] = 0
    table = pl.DataFrame({"age": rng.normal(50, 8, size=300) + 8 * ill, "chol": chol, "ill": ill, "hospital": hospital})
    table.write_csv(path / "all.csv")
    code, _, err = unseen(
        *("fit", path / "all.csv", "--label", "ill", "--domain", "hospital", "--methods", "logistic"),
        *("--missing", "chol=0", "-o", path / "model.unseen"),
    )
    assert code == 0, err
    table.filter(pl.col("hospital") == "oslo").with_columns(pl.col("chol") / 38.67).write_csv(path / "new.csv")
    return path


ROLES = ("--label", "ill", "--domain", "hospital")


def test_diagnose_reports_a_code_of_missing_values(folder):
    code, out, err = unseen("diagnose", folder / "all.csv", *ROLES, "--permutations", 19)
    assert code == 0, err
    assert "1. 'chol' is 0 in" in out
    assert "If 0 stands for a missing value" in " ".join(out.split())
    code, out, _ = unseen(
        "diagnose", folder / "all.csv", *ROLES, "--permutations", 19, "--missing", "chol=0", "--format", "json"
    )
    assert code == 0
    assert not [entry for entry in json.loads(out)["columns"]["findings"] if entry["kind"] == "missing_code"]


def test_compare_reports_errors_in_columns(folder, tmp_path):
    options = {"label": "ill", "domain": "hospital", "methods": ["nearest mean"]}
    with pytest.warns(DataWarning, match="'chol' is 0 in .*If 0 stands for a missing value"):
        library.compare(folder / "all.csv", quick=True, **options)
    command = ("--methods", "nearest mean", "--quick", "--store", tmp_path / "kept.sqlite")
    code, _, err = unseen("compare", folder / "all.csv", *ROLES, *command, "--report", tmp_path / "r.html")
    assert code == 0, err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for text in (err, page):
        assert text.count("If 0 stands for a missing value") == 1


def test_predict_names_the_unit_and_the_columns(folder):
    code, _, err = unseen("predict", folder / "model.unseen", folder / "new.csv", "-o", folder / "o.csv")
    assert code == 0, err
    assert "'chol'" in err
    assert "Check their units" in err


def test_sites_prints_the_curve_and_its_sentences(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ("--methods", "logistic", "--figure", folder / "curve.png")
    code, out, err = unseen("sites", folder / "all.csv", *ROLES, *options)
    assert code == 0, err
    assert "Expected gain from two more domains" in out
    assert (folder / "curve.png").stat().st_size > 0
    assert (tmp_path / "all.unseen-results.sqlite").exists()
    monkeypatch.setattr("unseen.model_selection._refit.evaluate_candidates", lambda _, __, splits, *___, **____: splits)
    code, out, _ = unseen("sites", folder / "all.csv", *ROLES, "--methods", "logistic", "--format", "csv")
    assert code == 0  # nothing is left to evaluate
    rows = out.splitlines()
    assert rows[0] == "n_domains,mean,lower,upper,n_models,extrapolated"
    assert len(rows) == 1 + 4 + 5
