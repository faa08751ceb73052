"""``unseen.load_model``: the model of a file takes frames, files and arrays, and does all that the command does."""

from __future__ import annotations

import json

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
from cli_models import unseen as command
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


@pytest.mark.parametrize("name", ["target", "centered"])
def test_domains_are_named_by_a_column_or_one_by_one_or_by_files(home, name):
    model = unseen.load_model(home / f"{name}.unseen")
    X, domain = encoded(home)
    expected = model.predict_proba(X, sample_domain=domain)
    assert np.abs(expected - model.predict_proba(X)).max() > 1e-6
    frame = pl.read_parquet(home / "new.parquet")
    for data, named in ((frame, "site"), (frame, domain), (home / "sites", None)):
        np.testing.assert_allclose(model.predict_proba(data, sample_domain=named), expected, atol=1e-12)


@pytest.mark.parametrize("form", ["polars", "pandas", "path"])
def test_tables_are_predicted_as_by_the_command(home, tmp_path, model, form):
    output = tmp_path / "o.parquet"
    command = ["predict", home / "source.unseen", home / "new.parquet", "-o", output, "--domain", "site"]
    summary = printed_json(*command, "--keep", "site")
    found = model.predict_table(forms(home)[form], domain="site", keep=["site"])
    assert_frame_equal(found.frame, pl.read_parquet(output), rel_tol=1e-9)
    assert (found.path, found.summary["output"]) == (None, None)
    for key in ("rows", "labels", "transductive", "agreement"):
        assert found.summary[key] == summary[key]
    written = model.predict_table(forms(home)[form], tmp_path / "deep" / "own.csv", domain="site")
    assert written.frame is None
    assert pl.read_csv(written.path)["label"].to_list() == found.frame["label"].to_list()


def test_arrays_are_taken_as_they_are(home, model):
    X, _ = encoded(home)
    found = model.predict_table(X)
    assert found.frame["label"].to_list() == model.predict(X).tolist()
    assert not any("values that training did not have" in text for text in found.summary["differences"])
    with pytest.raises(ValueError, match=r"4 columns, encoded as in training; got the shape \(50, 2\)"):
        model.predict_table(X[:, :2])


def test_a_table_says_what_plays_no_part_before_it_is_predicted(home, model):
    frame = pl.read_parquet(home / "new.parquet").with_columns(mood=1)
    table = model.open_table(frame, keep="all", batch_size=7)
    assert "Set the parameter domain to site" in table.notices[0]
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
    with pytest.raises(ValueError, match=r"should end in \.csv or \.parquet or \.xlsx"):
        model.predict_table(frame, tmp_path / "o.txt")
    save_model(model.estimator, tmp_path / "no_card.unseen", {})
    bare = unseen.load_model(tmp_path / "no_card.unseen")
    assert len(bare.predict(encoded(home)[0])) == 50
    with pytest.raises(ModelFileError, match="does not describe the columns that the model needs"):
        bare.predict(frame)


# New data that differ from those of training


def differing(home):
    """The new table with a new level, a column that is all missing, one that is absent, and numbers from far away."""
    frame = pl.read_parquet(home / "new.parquet").with_columns(
        sex=pl.when(pl.int_range(50) < 9).then(pl.lit("x")).otherwise("sex"),
        x0=pl.col("x0") + 500,
        x1=pl.lit(None, dtype=pl.Float64),
    )
    return frame.drop("x2")


@pytest.mark.parametrize("name", ["plain", "source"])
def test_python_warns_in_the_words_that_the_command_prints(home, tmp_path, name):
    frame = differing(home)
    frame.write_csv(tmp_path / "new.csv")
    text = command("predict", home / f"{name}.unseen", tmp_path / "new.csv", "-o", tmp_path / "o.csv")[1]
    model = unseen.load_model(home / f"{name}.unseen")
    for ask in (model.predict, model.predict_proba, lambda data: model.predict_set(data, 0.7)):
        with pytest.warns(NewDataWarning) as caught:
            ask(frame)
        notes = [str(warning.message) for warning in caught]
        assert {warning.filename for warning in caught} == {__file__}
        starts = ("The column 'x2' is", "Mostly", "The column 'sex'", "Columns whose", "The new")
        for note, start in zip(notes, starts, strict=True):
            assert note.startswith(start)
            assert f"Note: {note}" in text
    told = model.predict_table(tmp_path / "new.csv")
    assert told.notices[-len(notes) :] == notes
    assert any("Set the parameter domain to site" in notice for notice in told.notices)
    opened = model.open_table(tmp_path / "new.csv")
    assert model.predict_table(opened).notices == notes  # the rest is in the notices of the table


def test_data_like_those_of_training_raise_no_warning(home, model):
    for data in (pl.read_csv(home / "train.csv"), home / "train.csv", home / "new.csv"):
        model.predict(data)  # a warning would be an error


def test_one_missing_value_of_one_row_is_no_news_where_values_were_missing_in_training(home, model):
    row = {**pl.read_parquet(home / "new.parquet").row(0, named=True), "x1": None}
    model.predict(row)  # a warning would be an error
    with pytest.warns(NewDataWarning, match=r"Mostly missing here, .* 'sex \(1 of 1 values\)'"):
        model.predict({**row, "sex": None})


def test_an_absent_column_is_a_missing_one_if_values_were_missing_in_training(home, tmp_path, model):
    frame = pl.read_parquet(home / "new.parquet")
    with pytest.warns(NewDataWarning, match=r"'x1' is absent\. Some of its values were missing in training"):
        found = model.predict_proba(frame.drop("x1"))
    with pytest.warns(NewDataWarning, match="Mostly missing here"):
        expected = model.predict_proba(frame.with_columns(x1=None))
    np.testing.assert_array_equal(found, expected)
    with pytest.warns(NewDataWarning, match=r"Did you mean 'X1'\?"):
        model.predict(frame.rename({"x1": "X1"}))
    with pytest.raises(TableError, match="no value of 'sex' was missing in training, so the column is required; an"):
        model.predict(frame.drop("sex"))
    with pytest.warns(NewDataWarning, match="Mostly missing here"):
        model.predict(frame.with_columns(sex=None))


def test_files_of_a_folder_may_lack_different_columns(home, tmp_path, model):
    for name, absent in (("lima", "x1"), ("oslo", "x2")):
        frame = pl.read_parquet(home / "new.parquet").filter(pl.col("site") == name)
        frame.drop("site", absent).write_parquet(tmp_path / f"{name}.parquet")
    whole = pl.concat([pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("lima", "oslo")], how="diagonal")
    with pytest.warns(NewDataWarning, match=r"'x\d' is absent from (lima|oslo)\.parquet\."):
        found = model.predict_proba(tmp_path)
    with pytest.warns(NewDataWarning, match=r"Mostly missing here.*'x1 \(30 of 50 values\)'"):
        np.testing.assert_array_equal(found, model.predict_proba(model.schema.encode(whole)))
    frame = model.predict_table(model.open_table(tmp_path, batch_size=7)).frame
    np.testing.assert_allclose(frame["p(ill)"].to_numpy(), found[:, 0], rtol=1e-12)


def test_a_table_with_no_column_of_the_model_is_refused():
    """Also where every column may be absent."""
    rng = np.random.default_rng(0)
    train = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"]).mask(rng.random((60, 2)) < 0.1)
    train = train.assign(site=np.repeat(["x", "y", "z"], 20), label=np.tile(["u", "v"], 30))
    model = unseen.fit(train, methods="logistic", label="label", domain="site")
    with pytest.raises(TableError, match=r"no column 'a'(.|\n)*no column 'b'"):
        model.predict({"c": 1.0})


# Data with names that are no frames


def test_columns_and_rows_by_name_are_predicted_like_a_frame(home, model):
    frame = pl.read_parquet(home / "new.parquet")
    expected = model.predict_proba(frame)
    columns, rows = frame.to_dict(as_series=False), frame.to_dicts()
    pandas = pd.DataFrame(columns)
    several = {
        "lists": columns,
        "polars series": frame.to_dict(),
        "pandas series": {name: pandas[name] for name in pandas},
        "arrays": {name: pandas[name].to_numpy() for name in pandas},
        "rows": rows,
    }
    for data in several.values():
        np.testing.assert_array_equal(model.predict_proba(data), expected)
        assert model.predict_table(data).frame.height == 50
    for i in (0, 20):
        for row in (rows[i], pandas.iloc[i]):
            np.testing.assert_allclose(model.predict_proba(row), expected[i : i + 1], rtol=1e-12)
        assert model.predict(rows[i]).shape == (1,)


def test_a_model_is_fitted_to_columns_and_rows_by_name(home):
    frame = pl.read_csv(home / "train.csv")
    expected = unseen.fit(frame, methods="logistic", label="label", domain="site")
    for data in (frame.to_dict(as_series=False), frame.to_dicts()):
        found = unseen.fit(data, methods="logistic", label="label", domain="site")
        assert found.schema == expected.schema
        np.testing.assert_array_equal(found.predict_proba(frame), expected.predict_proba(frame))


UNKNOWN = {
    "a mixed dict": ({"x0": 1.0, "x1": [2.0]}, TableError, "either columns or the values of one row, not both"),
    "columns of two lengths": ({"x0": [1.0], "x1": [2.0, 3.0]}, TableError, "height of column"),
    "text": ([["a", "b"]], TypeError, "data must be a path, a DataFrame of pandas or polars, a dict.* got list"),
    "an object": (object(), TypeError, "data must be a path, a DataFrame.* got object"),
    "one dimension": (
        np.zeros(4),
        ValueError,
        r"a row for each sample and 4 columns, encoded as in training; got the shape \(4,\)",
    ),
    "a Series with a name twice": (pd.Series([1.0, 2.0], index=["x0", "x0"]), TableError, "2 columns are called 'x0'"),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_data_of_other_kinds_are_refused_in_our_words(model, what):
    data, kind, reason = UNKNOWN[what]
    with pytest.raises(kind, match=reason):
        model.predict(data)


def test_a_table_of_another_kind_is_refused_in_our_words():
    for data in (np.zeros((4, 2)), object(), [1, 2]):
        with pytest.raises(TypeError, match=r"A table must be a path, a DataFrame of pandas or polars, a dict of"):
            unseen.fit(data, label="a", domain="b")


# Labels that are booleans


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_boolean_labels_come_back_as_booleans(home, tmp_path, ending):
    train = pl.read_csv(home / "train.csv").with_columns(label=pl.col("label") == "ill")
    path = tmp_path / f"train.{ending}"
    getattr(train, f"write_{ending}")(path)
    unseen.fit(path, methods="logistic", label="label", domain="site").save(tmp_path / "m.unseen")
    model = unseen.load_model(tmp_path / "m.unseen")
    labels = model.predict(train)
    assert labels.dtype == bool
    assert model.classes_.tolist() == [False, True]
    found = model.predict_table(path)
    assert found.frame["label"].dtype == pl.Boolean
    assert found.frame["label"].to_list() == labels.tolist()
    assert found.summary["agreement"]["right"] == (labels == train["label"].to_numpy()).sum()
    assert model.predict_set(train, 0.7)[0].dtype == bool
    assert json.loads(json.dumps(found.summary))["labels"][1]["label"] is True


def test_a_classifier_gives_booleans_for_booleans(home):
    X, _ = encoded(home, "new.parquet")
    X, domain = np.nan_to_num(X), np.resize(["a", "b", "c"], 50)
    model = unseen.UnseenClassifier(["logistic"]).fit(X, np.arange(50) % 2 == 0, sample_domain=domain)
    assert model.predict(X).dtype == bool


def test_the_card_is_the_models_and_an_estimator_may_stand_alone(home, tmp_path, model):
    assert model.card == unseen.models.read_card(home / "source.unseen")
    assert model.classes_.tolist() == ["ill", "well"]
    save_model(model.estimator.ensemble.members_[0][0], tmp_path / "kfda.unseen", {"method": "kfda"})
    alone = unseen.load_model(tmp_path / "kfda.unseen")
    assert type(alone.estimator).__name__ == "KFDA"
    with pytest.raises(ModelFileError, match=r"kfda\.unseen: holds a KFDA, not a model that `unseen fit` wrote"):
        alone.predict(encoded(home)[0])
