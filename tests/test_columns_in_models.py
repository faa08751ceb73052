"""Findings on columns in `diagnose`, `fit`, `validate` and `predict`."""

import re

import numpy as np
import pytest

import unseen
from unseen.exceptions import DataWarning, NewDataWarning
from unseen.shift import find_column_notices
from unseen.tables import load_table

pd = pytest.importorskip("pandas")
ROLES = {"label": "ill", "domain": "site"}


def make_table(seed=0, n_domains=6, zeros=0.6):
    """A useful marker, and a dose that is 0 where it was not recorded."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_domains), 80)
    ill = rng.integers(2, size=len(codes))
    dose = rng.normal(50, 5, size=len(codes)) + 3 * ill
    dose[(codes == 1) & (rng.random(len(codes)) < zeros)] = 0
    site = [f"s{code}" for code in codes]
    return pd.DataFrame({"marker": rng.normal(size=len(codes)) + ill, "dose": dose, "ill": ill, "site": site})


def test_diagnose_starts_with_the_columns_and_what_to_do():
    diagnosis = unseen.diagnose(make_table(), **ROLES, n_permutations=19)
    [finding] = [finding for finding in diagnosis.columns.findings if finding.severity == "high"]
    assert (finding.column, finding.kind, finding.domains, finding.value) == ("dose", "missing_code", ("s1",), 0.0)
    text = str(diagnosis)
    assert text.index("'dose' is 0") < text.index("P(X)")
    assert "If 0 stands for a missing value" in " ".join(text.split())
    assert diagnosis.summary()["columns"]["heat_map"]["domains"] == [f"s{i}" for i in range(6)]
    pytest.importorskip("jinja2")
    page = diagnosis.to_html()
    assert page.index("Columns that differ between domains") < page.index("&#39;dose&#39; is 0 in")


def test_arrays_have_no_column_audit():
    table = make_table()
    X = table[["marker", "dose"]].to_numpy()
    diagnosis = unseen.diagnose(X, table["ill"], sample_domain=table["site"], n_permutations=19)
    assert diagnosis.columns is None


def test_fit_warns_of_grave_findings_only():
    with pytest.warns(DataWarning, match="'dose' is 0 in"):
        unseen.fit(make_table(), **ROLES, methods="logistic")
    assert find_column_notices(load_table(make_table(zeros=0.0), **ROLES)) == []


def test_validate_notes_different_units_and_codes_of_missing_values():
    table = make_table(zeros=0.0)
    table["height"] = np.random.default_rng(1).normal(170, 9, size=len(table))
    table.loc[table["site"] == "s2", "height"] /= 2.54  # inches
    table.loc[::10, "dose"] = 999
    result = unseen.validate(table, **ROLES, methods="nearest mean", compare_with=())
    notices = " ".join(result.settings.notices)
    assert "'height' in s2 look as if they were in different units" in notices
    assert "a factor of 1/2.54" in notices
    assert "'dose' is 999 in" in notices


# New tables


@pytest.fixture(scope="module")
def model():
    return unseen.fit(make_table(seed=3, zeros=0.0), **ROLES, methods="logistic")


def new_rows(seed=4):
    return make_table(seed, n_domains=1).drop(columns=["ill", "site"])


def test_new_tables_like_training_have_no_notes(model):
    for seed in range(4, 9):
        model.predict(new_rows(seed))


def test_columns_in_other_units_are_named_at_prediction(model):
    rows = new_rows()
    rows["dose"] = rows["dose"] * 1000
    with pytest.warns(NewDataWarning) as caught:
        model.predict(rows)
    [shift] = [str(warning.message) for warning in caught if "far from that of training" in str(warning.message)]
    assert re.search(r"standard deviations: 'dose' \(\+[\d,]+\.\d\)\. Check their units", shift)


def test_batches_of_any_size_have_the_same_notes(model, tmp_path):
    pl = pytest.importorskip("polars")
    rows = new_rows()
    rows["dose"] = rows["dose"] * 1000
    path = tmp_path / "new.csv"
    pl.from_pandas(rows).write_csv(path)
    whole = model.predict_table(path)
    parts = model.predict_table(path, batch_size=7)
    assert whole.notices == parts.notices
    [shifted] = [text for text in whole.summary["differences"] if "far from that of training" in text]
    training = make_table(seed=3, zeros=0.0)["dose"]
    expected = (rows["dose"].mean() - training.mean()) / training.std(ddof=0)
    assert f": 'dose' ({expected:+,.1f}). Check" in shifted
