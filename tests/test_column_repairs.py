"""Columns in `diagnose`, `fit` and `predict`, and repairs of columns evaluated on held-out domains."""

import json
import warnings

import numpy as np
import pytest

import unseen
from unseen.exceptions import DataWarning, NewDataWarning
from unseen.shift import find_column_notices, try_repairs
from unseen.shift._column_repairs import Repair, find_repair
from unseen.shift._column_values import columns_from_matrix
from unseen.tables import load_table

pd = pytest.importorskip("pandas")


def make_table(seed=0, n_domains=6, size=80, harm=0.0, zeros=0.6):
    """A useful marker, a dose that is 0 where it was not recorded, and a code whose effect depends on the site."""
    rng = np.random.default_rng(seed)
    n = n_domains * size
    codes = np.repeat(np.arange(n_domains), size)
    ill = rng.integers(2, size=n)
    dose = rng.normal(50, 5, size=n) + 3 * ill
    dose[(codes == 1) & (rng.random(n) < zeros)] = 0
    sign = np.where(codes % 2 == 0, 1, -1)
    table = pd.DataFrame(
        {
            "marker": rng.normal(size=n) + ill,
            "dose": dose,
            "code": rng.normal(size=n) + harm * sign * (2 * ill - 1),
            "ill": ill,
            "site": [f"s{code}" for code in codes],
        }
    )
    return table


ROLES = {"label": "ill", "domain": "site"}


def test_diagnose_names_the_columns_and_what_to_do():
    diagnosis = unseen.diagnose(make_table(), **ROLES, n_permutations=19)
    [finding] = [finding for finding in diagnosis.columns.findings if finding.severity == "high"]
    assert (finding.column, finding.kind, finding.domains, finding.value) == ("dose", "point_mass", ("s1",), 0.0)
    text = str(diagnosis)
    assert text.index("'dose' is 0") < text.index("P(X)")
    assert 'missing={"dose": 0}' in text
    summary = diagnosis.summary()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["columns"]["heat_map"]["domains"] == [f"s{i}" for i in range(6)]
    frame = diagnosis.columns.to_frame()
    assert len(frame) == 3 * 6
    assert {"missing", "difference"} <= set(frame.columns)


def test_arrays_have_no_column_audit():
    table = make_table()
    X = table[["marker", "dose", "code"]].to_numpy()
    diagnosis = unseen.diagnose(X, table["ill"], sample_domain=table["site"], n_permutations=19)
    assert diagnosis.columns is None
    with pytest.raises(ValueError, match="try_repairs=True needs a table"):
        unseen.diagnose(X, table["ill"], sample_domain=table["site"], n_permutations=19, try_repairs=True)


def test_the_page_has_the_sentences_and_the_heat_map():
    pytest.importorskip("jinja2")
    page = unseen.diagnose(make_table(), **ROLES, n_permutations=19).to_html()
    assert "Columns that differ between domains" in page
    assert "&#39;dose&#39; is 0 in" in page
    assert page.index("Columns that differ") < page.index("Distribution shift")


def test_fit_warns_of_grave_findings_only():
    with pytest.warns(DataWarning, match="'dose' is 0 in"):
        unseen.fit(make_table(), **ROLES, methods="logistic")
    clean = make_table().drop(columns="dose")
    assert find_column_notices(load_table(clean, **ROLES)) == []


def test_a_repair_is_decided_without_the_held_out_domain():
    """Labels and values of the held-out domain may change; what is decided for it stays."""
    table = make_table(n_domains=4)
    before = try_repairs(table, **ROLES, methods=["logistic"], repairs=["stable"])["stable"].by_domain["s1"]
    changed = table.copy()
    here = changed["site"] == "s1"
    changed.loc[here, "dose"] = 7.0
    changed.loc[here, "ill"] = 1 - changed.loc[here, "ill"]
    after = try_repairs(changed, **ROLES, methods=["logistic"], repairs=["stable"])["stable"].by_domain["s1"]
    assert before == after
    assert before == Repair()  # the zeros are in s1 only


def test_repairs_are_what_the_audit_advises():
    table = load_table(make_table(harm=1.0), **ROLES)
    columns = columns_from_matrix(table.X, table.schema)
    assert find_repair(columns, table.y, table.domain, "missing") == Repair(missing={"dose": 0.0})
    drop = find_repair(columns, table.y, table.domain, "drop")
    assert set(drop.drop) == {"dose", "code"}
    repaired = Repair(("code",), {"dose": 0.0}).apply(table)
    assert repaired.schema.feature_names == ["marker", "dose"]
    assert np.isnan(repaired.X[:, 1]).sum() == (table.X[:, 1] == 0).sum()
    assert not np.isnan(table.X).any()


def test_leaving_out_a_harmful_column_gains_and_is_used_by_fit():
    table = make_table(seed=1, n_domains=6, size=80, harm=2.0)
    result = try_repairs(table, **ROLES, methods=["logistic"], metric="accuracy")
    trial = result["stable"]
    auc = trial.gains[0]
    assert auc.gain > 0.02
    assert auc.lower <= auc.gain <= auc.upper
    assert auc.gain == pytest.approx(np.mean(list(auc.by_domain.values())))
    assert auc.after - auc.before == pytest.approx(auc.gain)
    loss = trial.gains[1]
    assert loss.before - loss.after == pytest.approx(loss.gain)
    assert trial.test.is_accepted
    assert json.loads(json.dumps(result.summary())) == result.summary()
    with pytest.warns(DataWarning, match="Stable columns"):
        model = unseen.fit(table, **ROLES, columns="stable", methods="logistic")
    assert "code" not in model.schema.feature_names
    assert model.card["column_repair"]["used"]


def test_columns_stay_where_the_test_does_not_pass():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = unseen.fit(make_table(), **ROLES, columns="stable", methods="logistic")
    assert any("All columns are used" in str(warning.message) for warning in caught)
    assert model.schema.feature_names == ["marker", "dose", "code"]
    assert not model.card["column_repair"]["used"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repairs": ["all"]}, "repairs must be some of"),
        ({"repairs": []}, "repairs must be some of"),
        ({"methods": ["centered logistic"]}, "transductive"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        try_repairs(make_table(size=20), **ROLES, **options)


def test_two_domains_are_too_few_to_try_repairs():
    with pytest.raises(ValueError, match="at least 3 domains"):
        try_repairs(make_table(n_domains=2), **ROLES)


# New tables


@pytest.fixture(scope="module")
def model():
    table = make_table(seed=3, zeros=0.0).drop(columns="code")
    return unseen.fit(table, **ROLES, methods="logistic")


def new_rows(seed=4):
    return make_table(seed, n_domains=1).drop(columns=["code", "ill", "site"])


def test_a_new_table_like_training_has_no_notes(model):
    model.predict(new_rows())


def test_other_units_and_new_missingness_are_named_at_prediction(model):
    rows = new_rows()
    rows["dose"] = rows["dose"] * 1000
    rows.loc[:21, "marker"] = np.nan
    with pytest.warns(NewDataWarning) as caught:
        model.predict(rows)
    texts = [str(warning.message) for warning in caught]
    [units] = [text for text in texts if "other units" in text]
    assert "a factor of 1000" in units
    assert "divide by 1000" in units
    assert any("'marker' is missing in 28% of the rows" in text for text in texts)


def test_batches_of_any_size_have_the_same_notes(model, tmp_path):
    pl = pytest.importorskip("polars")
    rows = new_rows()
    rows["dose"] = rows["dose"] * 1000
    path = tmp_path / "new.csv"
    pl.from_pandas(rows).write_csv(path)
    whole = model.predict_table(path)
    parts = model.predict_table(path, batch_size=7)
    assert whole.notices == parts.notices
    assert any("a factor of 1000" in notice for notice in whole.notices)
    assert whole.summary["columns"][0]["contributions"][0]["column"] == "dose"


def test_the_summary_in_the_card_is_small_and_checked(model):
    assert len(json.dumps(model.card["column_summary"])) < 10_000
    card = {**model.card, "column_summary": {"version": 1, "columns": {"dose": {}}, "domains": []}}
    broken = unseen.models.Model(model.estimator, card)
    with pytest.raises(ValueError, match="Fit the model again"):
        broken.predict(new_rows())


# Command line


def test_sentences_name_options_on_the_command_line():
    pytest.importorskip("typer")
    from unseen.cli._report import name_column_options

    text = 'Treat it as one: missing={"my dose": 0}. Leave them out: drop=["a", "b c"]. Or drop=["a", "b", ...].'
    expected = "Treat it as one: --missing 'my dose=0'. Leave them out: --drop 'a,b c'. Or --drop a,b and so on."
    assert name_column_options(text) == expected
    assert name_column_options("drop=[nothing]") == "drop=[nothing]"
