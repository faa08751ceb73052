"""Coefficients of a logistic model: other programs get the probabilities of `predict_proba` from them."""

from __future__ import annotations

import numpy as np
import pytest

import unseen
from test_single_rows import make_frame

pl = pytest.importorskip("polars")
pytestmark = [
    pytest.mark.filterwarnings("ignore::unseen.exceptions.NewDataWarning"),
    pytest.mark.filterwarnings("ignore::unseen.exceptions.DataWarning"),
]


def evaluate(rows, frame):
    """Log odds by the rules that the table states, with nothing but the table."""
    total = np.zeros(frame.height)
    for row in rows:
        name = row["column"]
        if name is None:
            total += row["coefficient"]
            continue
        values = frame[name].to_list()
        total += row["coefficient"] * np.array([evaluate_term(row, value) for value in values])
    return total


def evaluate_term(row, value):
    name, term = row["column"], row["term"]
    if row["if_missing"] is not None:
        x = row["if_missing"] if value is None else value
        return eval(term.replace(name, repr(x)), {"log": np.log, "max": max}) if "log" in term else x
    if term == f"{name} is missing":
        return value is None
    if term.startswith(f"{name} = "):
        level = term.removeprefix(f"{name} = ")
        return value is not None and (value == level or (not isinstance(value, str) and f"{value:g}" == level))
    raise AssertionError(term)


@pytest.mark.parametrize(
    ("n_classes", "options"), [(2, {}), (3, {}), (2, {"scale": "none"}), (3, {"balance": "classes"})], ids=str
)
def test_log_odds_are_the_sum_of_the_terms(n_classes, options):
    table = make_frame(200)
    if n_classes == 2:
        table = table.filter(pl.col("label") != "middle")
    model = unseen.fit(table, label="label", domain="site", methods="logistic", **options)
    frame = make_frame(60, seed=3)
    P = model.predict_proba(frame.drop("label", "site"))
    coefficients = model.coefficients()
    assert coefficients["term"].str.starts_with("log(1 + max(dose").any() == ("scale" not in options)
    for k, label in enumerate(model.classes_[1:].tolist(), start=1):
        rows = coefficients.filter(pl.col("class") == label).to_dicts()
        np.testing.assert_allclose(evaluate(rows, frame), np.log(P[:, k] / P[:, 0]), atol=1e-9)


def test_the_command_writes_them_as_csv(tmp_path):
    pytest.importorskip("typer")
    from cli_models import unseen as run_command

    model = unseen.fit(make_frame(160), label="label", domain="site", methods="logistic")
    model.save(tmp_path / "m.unseen")
    code, text = run_command("show", tmp_path / "m.unseen", "--coefficients")
    assert code == 0, text
    assert "(intercept)" in text
    assert "Calibration is included" in text
    code, text = run_command("show", tmp_path / "m.unseen", "--coefficients", "-o", tmp_path / "c.csv")
    assert code == 0, text
    written = pl.read_csv(tmp_path / "c.csv")
    expected = model.coefficients()
    assert written["term"].to_list() == expected["term"].to_list()
    np.testing.assert_allclose(written["coefficient"], expected["coefficient"])
    code, text = run_command("show", tmp_path / "m.unseen", "--format", "csv")
    assert code == 2
    assert "cannot be written as CSV" in text


def test_other_models_have_none(few_trees):
    model = unseen.fit(make_frame(160), label="label", domain="site", methods=["gradient boosting"])
    with pytest.raises(ValueError, match=r"one logistic regression of the columns\. Fit with methods='logistic'"):
        model.coefficients()
