"""Columns of arrays have the text, numbers, dates and missing values of the same columns in polars."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pl = pytest.importorskip("polars")

from unseen.tables import _values as values  # noqa: E402
from unseen.tables._array_frame import UNREADABLE, ArrayFrame, make_column  # noqa: E402

NOON = datetime(2024, 5, 17, 12, 30, 15, 250_000)
COLUMNS = {
    "booleans": [True, False, True, True],
    "integers": [3, -1, 0, 7],
    "numbers": [1.0, None, 0.25, -3.0],
    "text": ["a", " NA ", None, "true"],
    "numbers as text": ["1.0", "1", "x", "-2e3"],
    "dates": [date(2024, 2, 29), None, date(1969, 12, 31), date(1970, 1, 1)],
    "times": [NOON, datetime(2024, 5, 17), None, datetime(1970, 1, 1, 23, 59, 59)],
    "durations": [timedelta(seconds=90), timedelta(days=-1), None, timedelta(milliseconds=1)],
}


def both(name):
    """A column as an array, and as a series of polars."""
    return make_column(COLUMNS[name])[0], pl.Series(name, COLUMNS[name])


def frames():
    arrays = ArrayFrame({name: make_column(column)[0] for name, column in COLUMNS.items()})
    return arrays, pl.DataFrame({name: pl.Series(name, column) for name, column in COLUMNS.items()})


@pytest.mark.parametrize("name", COLUMNS)
def test_text_levels_and_missing_values_are_those_of_polars(name):
    array, series = both(name)
    expected = values.as_text(series)
    text = values.as_text(array)
    assert text.tolist() == expected.to_list()
    assert values.as_levels(array).tolist() == values.as_levels(series).to_list()
    np.testing.assert_array_equal(values.find_missing(array), values.find_missing(series))
    assert values.list_distinct(text) == values.list_distinct(expected)
    assert values.longest_text(text) == values.longest_text(expected)
    names, ranks = values.rank_text(text)
    assert names == values.rank_text(expected)[0]
    np.testing.assert_array_equal(ranks, values.rank_text(expected)[1])
    for as_codes in (False, True):
        levels = values.list_levels(array, as_codes=as_codes)
        assert sorted(levels) == sorted(values.list_levels(series, as_codes=as_codes))
    rows = values.find_missing(text)  # missing values, and texts that stand for them
    assert sorted(values.list_marks(array, rows)) == sorted(values.list_marks(series, rows))


def test_equal_texts_have_equal_hashes():
    text = np.array(["a", "b", "a", None], dtype=object)
    hashes = values.hash_text(text)
    assert hashes[0] == hashes[2]
    assert len(set(hashes.tolist())) == 3


def test_numbers_and_what_is_not_a_number_are_those_of_polars():
    chosen = [name for name in COLUMNS if name not in ("dates", "times")]
    arrays, table = frames()
    found, wrong = values.parse_numbers(arrays[chosen])
    expected, expected_wrong = values.parse_numbers(table[chosen])
    np.testing.assert_array_equal(found, expected)
    assert wrong.keys() == expected_wrong.keys() == {chosen.index("text"), chosen.index("numbers as text")}
    for position in wrong:
        np.testing.assert_array_equal(wrong[position], expected_wrong[position])
    np.testing.assert_array_equal(values.as_floats(arrays["numbers"]), values.as_floats(table["numbers"]))


def test_values_that_stand_for_missing_ones_are_those_of_polars():
    marks = {
        "integers": ["0.0", "7"],
        "numbers": ["-3"],
        "text": ["a"],
        "dates": ["1970-01-01"],
        "durations": ["90"],
        "booleans": ["nothing"],
        "no such column": ["1"],
    }
    arrays, table = (values.mark_missing(frame, marks) for frame in frames())
    np.testing.assert_array_equal(values.count_missing(arrays), values.count_missing(table))
    for name in COLUMNS:
        assert values.as_text(arrays[name]).tolist() == values.as_text(table[name]).to_list(), name
    assert arrays.types["integers"] == "float64"  # integers have no missing value
    assert arrays.types["booleans"] == "bool"  # in which nothing was marked


DATES = st.one_of(
    st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(str),
    st.dates().map(lambda day: day.isoformat()),
    st.sampled_from(
        [
            "2024-02-30",
            "2023-02-29",
            "2024-05-17T24:00",
            "2024-05-17 12:60",
            "2024-05-17 12:30:61",
            "2024-05-17T12:30:15+02:00",
            "2024-05-17T12:30:15-05:30",
            "2024-05-17T12:30:15Z",
            "soon",
            "",
        ]
    ),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(DATES, min_size=1, max_size=5))
def test_days_are_those_of_polars(texts):
    found = values.parse_days(np.array(texts, dtype=object))
    expected = values.parse_days(pl.Series(texts, dtype=pl.String)).to_numpy()
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("given", "kind", "special"),
    [
        ([1, None, Decimal("0.5")], "f", None),
        ([True, None], "O", None),
        ([None, None], "f", None),
        ([b"bytes"], "O", UNREADABLE),
        ([[1, 2], None], "O", UNREADABLE),
        (np.array([1, 2], dtype=np.uint8), "u", None),
        ([timedelta(1), None], "m", None),
    ],
)
def test_values_of_one_type_become_a_column_of_that_type(given, kind, special):
    column, found = make_column(given)
    assert (column.dtype.kind, found) == (kind, special)
    assert len(column) == len(given)


def test_times_with_a_zone_are_converted_to_utc():
    here = timezone(timedelta(hours=2))
    column, _ = make_column([datetime(2024, 5, 17, 1, tzinfo=here), datetime(2024, 5, 17, 1, tzinfo=UTC), None])
    assert values.as_text(column).tolist() == ["2024-05-16 23:00:00.000000", "2024-05-17 01:00:00.000000", None]


def test_a_frame_selects_and_adds_columns_and_rows():
    frame, _ = frames()
    assert (frame.height, frame.width) == (4, len(COLUMNS))
    assert ArrayFrame({}).height == 0
    assert frame.filter(np.array([True, False, False, True]))["integers"].tolist() == [3, 7]
    assert [part.height for part in frame.iter_slices(3)] == [3, 1]
    assert frame[["integers", "text"]].columns == ["integers", "text"]
    assert frame.to_series(1).tolist() == COLUMNS["integers"]
    assert frame.with_columns({"integers": np.zeros(4)})["integers"].tolist() == [0.0] * 4
    assert ArrayFrame(frame.data, {"text": "category"}).types["text"] == "category"
