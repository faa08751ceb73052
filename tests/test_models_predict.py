"""``unseen.load_model``: the model of a file takes frames, files and arrays, and does all that the command does."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("typer", reason="the models here are made by the command")
pytest.importorskip("skops", reason="model files need the extra")
pytest.importorskip("pandas")
import pandas as pd
import polars as pl
from polars.testing import assert_frame_equal

import unseen
from cli_models import encoded, printed_json
from unseen.exceptions import NewDataWarning
from unseen.models import ModelFileError, save_model
from unseen.tables import TableError


@pytest.fixture
def model(home):
    return unseen.load_model(home / "source.unseen")


def forms(home):
    """The new table, in every form but that of an array."""
    frame = pl.read_parquet(home / "new.parquet")
    numbers = frame.select(pl.exclude("sex"))
    pandas = pd.DataFrame(dict(zip(numbers.columns, numbers.to_dict(as_series=False).values(), strict=True)))
    pandas.insert(0, "sex", pd.Categorical(frame["sex"].to_list()))
    return {
        "polars": frame,
        "lazy": frame.lazy(),
        "pandas": pandas,
        "text": home / "new.csv",
        "path": str(home / "new.parquet"),
    }


@pytest.mark.parametrize("form", ["polars", "lazy", "pandas", "text", "path"])
def test_frames_and_files_are_encoded_as_the_card_says(home, model, form):
    X, domain = encoded(home)
    data = forms(home)[form]
    np.testing.assert_array_equal(model.predict(data), model.estimator.predict(X))
    np.testing.assert_allclose(model.predict_proba(data), model.estimator.predict_proba(X), rtol=1e-12)
    assert model.novelty(data) == model.novelty(X)
    by_site = model.novelty(data, sample_domain="site")
    assert by_site == model.novelty(X, sample_domain=domain)
    assert sorted(by_site) == ["lima", "oslo"]


@pytest.mark.parametrize("name", ["target", "centred"])
def test_domains_are_named_by_a_column_or_one_by_one_or_by_files(home, name):
    model = unseen.load_model(home / f"{name}.unseen")
    X, domain = encoded(home)
    expected = model.predict_proba(X, sample_domain=domain)
    assert np.abs(expected - model.predict_proba(X)).max() > 1e-6
    frame = pl.read_parquet(home / "new.parquet")
    for data, named in ((frame, "site"), (frame, domain), (home / "sites", None)):
        np.testing.assert_allclose(model.predict_proba(data, sample_domain=named), expected, atol=1e-12)


@pytest.mark.parametrize("form", ["polars", "pandas", "path"])
@pytest.mark.parametrize("center", ["model", "target"])
def test_tables_are_predicted_as_by_the_command(home, tmp_path, model, form, center):
    output = tmp_path / "o.parquet"
    command = ["predict", home / "source.unseen", home / "new.parquet", "-o", output, "--domain", "site"]
    summary = printed_json(*command, "--keep", "site", "--center", center)
    found = model.predict_table(forms(home)[form], domain="site", keep=["site"], center=center)
    assert_frame_equal(found.frame, pl.read_parquet(output), rel_tol=1e-9)
    assert (found.path, found.summary["output"]) == (None, None)
    for key in ("rows", "labels", "transductive", "agreement"):
        assert found.summary[key] == summary[key]
    written = model.predict_table(forms(home)[form], tmp_path / "deep" / "own.csv", domain="site", center=center)
    assert written.frame is None
    assert pl.read_csv(written.path)["label"].to_list() == found.frame["label"].to_list()


def test_arrays_are_taken_as_they_are(home, model):
    X, _ = encoded(home)
    found = model.predict_table(X)
    assert found.frame["label"].to_list() == model.predict(X).tolist()
    assert found.summary["new_levels"] == []
    with pytest.raises(ValueError, match=r"4 columns, encoded as in training; got the shape \(50, 2\)"):
        model.predict_table(X[:, :2])


@pytest.mark.parametrize("name", ["plain", "pool", "smooth"])
def test_single_predictions_are_explained(home, name):
    model, (X, domain) = unseen.load_model(home / f"{name}.unseen"), encoded(home)
    told = model.explain(X, sample_domain=domain)
    assert [row["label"] for row in told] == model.predict(X, sample_domain=domain).tolist()
    likely = model.predict_proba(X, sample_domain=domain).max(axis=1)
    np.testing.assert_allclose([row["probability"] for row in told], likely)
    for row in told:
        assert (row["agreement"] == pytest.approx(1)) == (row["dissent"] == [])
        assert 0 <= row["farther"] <= 1
    assert model.explain(X, [3, 1], sample_domain=domain) == [told[3], told[1]]
    assert len(model.explain(X, domain == "lima", sample_domain=domain)) == (domain == "lima").sum()
    with pytest.warns(NewDataWarning, match="The new rows lie outside of what the model has seen"):
        assert {row["farther"] for row in model.explain(X + 1000)} == {0.0}


def test_members_that_dissent_are_named_as_the_card_names_them(home):
    model, (X, _) = unseen.load_model(home / "pool.unseen"), encoded(home)
    dissent = {name for row in model.explain(X) for name in row["dissent"]}
    assert dissent <= {"CIDG + LogisticRegression", "LogisticRegression", "KFDA + LogisticRegression"} | {
        "DomainCenterer + LogisticRegression"
    }
    assert dissent
    members = [{"model": f"member {j}"} for j in range(5)]
    named = unseen.models.Model(model.estimator, {**model.card, "pool": {"members": members}})
    pool, prepared = model.estimator.pool, model.estimator.prepare(X)
    said = pool.members_say(prepared).argmax(axis=2)
    for i, row in enumerate(named.explain(X)):
        chosen = model.classes_.tolist().index(row["label"])
        assert row["dissent"] == [f"member {j}" for j in np.flatnonzero(said[:, i] != chosen)]


def test_a_table_says_what_plays_no_part_before_it_is_predicted(home, model):
    frame = pl.read_parquet(home / "new.parquet").with_columns(mood=1)
    table = model.open_table(frame, keep="all", batch_size=7)
    assert "Pass --domain site" in table.notices[0]
    assert "mood" in model.predict_table(table).frame.columns
    assert any("1 column of The new table not used: mood" in text for text in model.open_table(frame).notices)


def test_what_cannot_be_predicted_is_refused_with_a_reason(home, tmp_path, model):
    frame = pl.read_parquet(home / "new.parquet")
    with pytest.raises(TableError, match=r"no column 'sex'(.|\n)*an empty column of that name is accepted"):
        model.predict(frame.drop("sex"))
    with pytest.raises(TableError, match="it holds no rows"):
        model.predict_table(frame.clear())
    with pytest.raises(TableError, match="2 columns are called 'x0'"):
        model.predict(pd.DataFrame([[1.0, 2.0]], columns=["x0", "x0"]))
    with pytest.raises(ValueError, match=r"should end in \.csv or \.parquet"):
        model.predict_table(frame, tmp_path / "o.xlsx")
    with pytest.raises(ValueError, match="center must be 'model' or 'target'"):
        model.predict_table(frame, center="moon")
    save_model(model.estimator, tmp_path / "no_card.unseen", {})
    bare = unseen.load_model(tmp_path / "no_card.unseen")
    assert len(bare.predict(encoded(home)[0])) == 50
    with pytest.raises(ModelFileError, match="does not say which columns the model needs"):
        bare.predict(frame)


def test_the_card_is_the_models_and_an_estimator_may_stand_alone(home, tmp_path, model):
    assert model.card == unseen.models.read_card(home / "source.unseen")
    assert model.classes_.tolist() == ["ill", "well"]
    save_model(model.estimator.pool.members_[0][0], tmp_path / "kfda.unseen", {"method": "kfda"})
    alone = unseen.load_model(tmp_path / "kfda.unseen")
    assert type(alone.estimator).__name__ == "KFDA"
    with pytest.raises(ModelFileError, match=r"kfda\.unseen: holds a KFDA, not a model that `unseen fit` wrote"):
        alone.predict(encoded(home)[0])
