"""Columns become numbers, and numbers become ready for a classifier."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from unseen.tables import Column, Schema, TableError, make_preprocessor

SCHEMA = Schema(
    (Column("age", "numeric"), Column("sex", "categorical", ("f", "m")), Column("visits", "numeric")),
    label="ill",
    domain="site",
)
FRAME = pl.DataFrame({"age": [40.5, None, 60.0], "sex": ["m", "f", None], "visits": [1, 0, 3]})
ENCODED = [[40.5, 1, 1], [np.nan, 0, 0], [60, np.nan, 3]]


def assert_encodes(frame, expected=ENCODED, schema=SCHEMA):
    np.testing.assert_array_equal(schema.encode(frame), np.array(expected, dtype=float))


def test_order_and_extra_columns_do_not_matter():
    assert_encodes(FRAME)
    assert_encodes(FRAME.select(pl.all().exclude("age"), "age"))
    assert_encodes(FRAME.select(pl.lit("x").alias("extra"), "visits", "sex", "age", pl.lit(1).alias("ill")))


@pytest.mark.parametrize(
    "drift",
    [
        pl.col("visits").cast(pl.Float64),
        pl.col("visits").cast(pl.Float32),
        pl.col("visits").cast(pl.UInt8),
        pl.col("visits").cast(pl.String),
        pl.col("visits").cast(pl.Decimal(5, 1)),
        pl.format(" {} ", pl.col("visits")).alias("visits"),
        pl.col("age").cast(pl.String),
        pl.col("age").cast(pl.String).fill_null("NA"),
        pl.col("age").fill_null(float("nan")),
        pl.col("age").fill_null(float("inf")),
        pl.col("sex").cast(pl.Categorical),
        pl.col("sex").cast(pl.Enum(["m", "x", "f"])),
        pl.col("sex").fill_null("?"),
        pl.col("sex").fill_null(""),
    ],
)
def test_the_type_in_which_values_are_stored_does_not_matter(drift):
    assert_encodes(FRAME.with_columns(drift))


def test_truth_values_are_numbers_typed_or_written():
    for values in (
        [True, None, False],
        ["True", "", "False"],
        ["true", "na", "FALSE"],
        ["1", None, "0"],
        [1.0, None, 0],
    ):
        assert_encodes(
            FRAME.with_columns(visits=pl.Series(values)), [[40.5, 1, 1], [np.nan, 0, np.nan], [60, np.nan, 0]]
        )


def test_levels_that_look_like_numbers_match_numbers():
    schema = Schema((Column("grade", "categorical", ("1", "2", "2.5", "x")),))
    for values in (["2", "1", "2.5"], [2.0, 1.0, 2.5]):
        assert_encodes(pl.DataFrame({"grade": values}), [[1], [0], [2]], schema)
    assert_encodes(pl.DataFrame({"grade": [2, 1, None]}), [[1], [0], [np.nan]], schema)


def test_a_level_never_seen_is_minus_one():
    assert_encodes(FRAME.with_columns(sex=pl.Series(["x", "M", "f "])), [[40.5, -1, 1], [np.nan, -1, 0], [60, -1, 3]])
    assert_encodes(pl.DataFrame({"a": ["x", None]}), [[-1], [np.nan]], Schema((Column("a", "categorical"),)))


def test_words_where_numbers_were_are_an_error_for_all_columns_at_once():
    frame = FRAME.with_columns(age=pl.Series(["old", "young", "1"]), visits=pl.Series(["1", "2", "often"]))
    with pytest.raises(TableError) as caught:
        SCHEMA.encode(frame)
    assert caught.value.problems == [
        "column 'age' must hold numbers, but 2 values cannot be read as one, such as 'old'.",
        "column 'visits' must hold numbers, but 1 value cannot be read as one, such as 'often'.",
    ]


def test_an_empty_frame_gives_an_empty_matrix():
    assert SCHEMA.encode(FRAME.clear()).shape == (0, 3)


def test_check_columns_names_all_missing_columns_with_the_nearest_and_returns_the_unused():
    assert SCHEMA.check_columns(["x", "visits", "ill", "sex", "site", "age"], "new.csv") == ["x"]
    with pytest.raises(TableError) as caught:
        SCHEMA.check_columns(["Age", "sex"], "new.csv")
    assert str(caught.value) == (
        "new.csv cannot be used:\n- it has no column 'age': did you mean 'Age'?\n"
        "- it has no column 'visits': the columns are 'Age', 'sex'.\n"
        "- no value of 'age', 'visits' was missing in training, so the column is required; an empty column of that "
        "name is accepted, and its values are treated as missing."
    )


def test_a_schema_survives_json():
    assert Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict()))) == SCHEMA
    assert SCHEMA.feature_names == ["age", "sex", "visits"]


# --- make_preprocessor ---

NUMBERS = Schema(tuple(Column(f"x{i}", "numeric") for i in range(3)))
CLASSIFIER = LogisticRegression()


def sources(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(50, 9, n), rng.integers(0, 2, n), rng.poisson(2, n)]).astype(float)
    X[::7, 0] = np.nan
    X[::9, 1] = np.nan
    return X


@pytest.mark.parametrize("scale", ["standardize", "none"])
def test_the_output_is_dense_finite_and_as_wide_whatever_the_new_rows_hold(scale):
    fitted = make_preprocessor(SCHEMA, scale).fit(sources())
    wild = np.array([[np.nan] * 3, [1e9, -1, -5], [0, 7, 0]])
    assert fitted.transform(sources()).shape == (60, 5)  # two numbers, and f, m, missing
    out = fitted.transform(wild)
    assert isinstance(out, np.ndarray)
    assert (out.shape, out.dtype) == ((3, 5), np.float64)
    assert np.isfinite(out).all()


def test_l2_gives_rows_of_length_one_and_none_changes_nothing():
    X = np.random.default_rng(0).uniform(1, 9, size=(20, 3))
    np.testing.assert_allclose(np.linalg.norm(make_preprocessor(NUMBERS, "l2").fit_transform(X), axis=1), 1)
    np.testing.assert_array_equal(make_preprocessor(NUMBERS, "none").fit_transform(X), X)


def test_new_levels_share_a_column_with_rare_ones_and_are_zero_without_any():
    schema = Schema((Column("c", "categorical", ("a", "b", "c")),))
    common = np.repeat([0.0, 1.0], 100)[:, None]
    with_rare = np.vstack([common, [[2.0]]])
    none_rare, some_rare = make_preprocessor(schema).fit(common), make_preprocessor(schema).fit(with_rare)
    np.testing.assert_array_equal(
        none_rare.transform([[0.0], [-1.0], [2.0], [np.nan]]), [[1, 0], [0, 0], [0, 0], [0, 0]]
    )
    np.testing.assert_array_equal(some_rare.transform([[1.0], [-1.0], [2.0]]), [[0, 1, 0], [0, 0, 1], [0, 0, 1]])


@pytest.mark.parametrize(
    ("schema", "scale", "message"),
    [
        (NUMBERS, "normalize", "scale must be one of standardize, l2, none; got 'normalize'"),
        (SCHEMA, "l2", "scale='l2' requires a table of numbers, but 'sex' hold levels"),
    ],
)
def test_a_scale_that_cannot_be_used_is_refused(schema, scale, message):
    with pytest.raises(ValueError, match=message):
        make_preprocessor(schema, scale)
