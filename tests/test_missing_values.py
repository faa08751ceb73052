"""Values that stand for missing values: in training, in new tables, and on the command line."""

import numpy as np
import polars as pl
import pytest

import unseen
from unseen.tables import Schema, TableError, TableOptions, load_table


def make_frame(seed=0):
    rng = np.random.default_rng(seed)
    chol = np.round(rng.normal(220, 30, size=90))
    chol[::4] = 0
    return pl.DataFrame(
        {
            "chol": chol,
            "code": np.where(rng.random(90) < 0.3, "-9", rng.choice(["1", "2", "x"], size=90)),
            "site": np.repeat(["a", "b", "c"], 30),
            "ill": np.tile(["yes", "no"], 45),
        }
    )


def test_a_marked_value_equals_an_empty_cell():
    frame = make_frame()
    emptied = frame.with_columns(
        chol=pl.when(pl.col("chol") == 0).then(None).otherwise(pl.col("chol")),
        code=pl.when(pl.col("code") == "-9").then(None).otherwise(pl.col("code")),
    )
    marked = load_table(frame, label="ill", domain="site", missing={"chol": 0, "code": [-9, "unknown"]})
    empty = load_table(emptied, label="ill", domain="site")
    np.testing.assert_array_equal(marked.X, empty.X)
    assert [column.levels for column in marked.schema.columns] == [column.levels for column in empty.schema.columns]
    assert all(column.missing for column in marked.schema.columns)


@pytest.mark.parametrize("value", [0, 0.0, "0", "0.0", " 0 "])
def test_numbers_are_compared_as_numbers(value):
    table = load_table(make_frame(), label="ill", domain="site", missing={"chol": value})
    assert np.isnan(table.X[:, 0]).sum() == len(range(0, 90, 4))


def test_a_model_treats_new_tables_as_training():
    frame = make_frame()
    model = unseen.fit(frame, label="ill", domain="site", missing={"chol": 0}, methods="logistic")
    assert Schema.from_dict(model.schema.to_dict()) == model.schema
    new = frame.drop("ill", "site").head(20)
    emptied = new.with_columns(chol=pl.when(pl.col("chol") == 0).then(None).otherwise(pl.col("chol")))
    np.testing.assert_array_equal(model.predict_proba(new), model.predict_proba(emptied))
    other = new.with_columns(chol=pl.when(pl.col("chol") == 0).then(-1).otherwise(pl.col("chol")))
    table = model.open_table(other, missing={"chol": -1})
    np.testing.assert_array_equal(np.isnan(table.read()[0]), np.isnan(model.schema.encode(new)))


@pytest.mark.parametrize(
    ("missing", "error", "message"),
    [
        (["chol"], TypeError, "must map names of columns"),
        ({"chol": []}, ValueError, "must hold a number or text"),
        ({"chol": ""}, ValueError, "must hold a number or text"),
        ({"cholesterol": 0}, TableError, "'cholesterol'"),
        ({"ill": "no"}, TableError, "label column"),
    ],
)
def test_wrong_values_are_named(missing, error, message):
    with pytest.raises(error, match=message):
        load_table(make_frame(), label="ill", domain="site", missing=missing)


def test_arrays_have_no_columns_to_mark():
    with pytest.raises(ValueError, match="'missing'"):
        unseen.fit(np.zeros((4, 1)), [0, 1, 0, 1], sample_domain=list("aabb"), missing={"chol": 0})


def test_options_of_the_command_are_parsed():
    pytest.importorskip("typer")
    from unseen.cli._options import parse_missing

    assert parse_missing(None) is None
    assert parse_missing(["chol=0", "age=-9,age=999", "a=b=1"]) == {"chol": ["0"], "age": ["-9", "999"], "a=b": ["1"]}
    assert TableOptions(missing=parse_missing(["chol=0"])).missing == {"chol": ("0",)}
    for wrong in ("chol", "=0", "chol=", ""):
        with pytest.raises(ValueError, match="NAME=VALUE"):
            parse_missing([wrong])
