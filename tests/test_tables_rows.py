"""Which rows of a table are used: their places in the user's files, and those that have no label."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.tables import TableError, load_table

N = 240
FRAME = pl.DataFrame(
    {
        "site": [f"s{i % 3}" for i in range(N)],
        "x": np.random.default_rng(0).normal(size=N),
        "level": [f"k{i % 4}" for i in range(N)],
        "label": [i // 3 % 2 + 1 for i in range(N)],
    }
)


def at(frame, ending, folder, name="patients"):
    path = folder / f"{name}.{ending}"
    if ending == "csv":
        frame.write_csv(path)
    elif ending == "npz":
        np.savez(
            path, X=frame.select("x", "u").to_numpy(), label=frame["label"], site=frame["site"].to_numpy().astype(str)
        )
    else:
        frame.write_parquet(path, row_group_size=31)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("limit", [None, 20])
def test_every_row_knows_its_place_in_the_file(tmp_path, monkeypatch, ending, limit):
    monkeypatch.setattr("unseen.tables._survey.PART_ROWS", 50)
    monkeypatch.setattr("unseen.tables._load.choose_batch_size", lambda width: 17)
    table = load_table(at(FRAME, ending, tmp_path), max_per_domain=limit)
    assert len(table.rows) == len(table.X) == (60 if limit else N)
    np.testing.assert_array_equal(table.X[:, 0], FRAME["x"].to_numpy()[table.rows])
    np.testing.assert_array_equal(table.domain, FRAME["site"].to_numpy()[table.rows])


@settings(max_examples=15)
@given(st.lists(st.booleans(), min_size=N, max_size=N), st.sampled_from([0, -7, "?", "unknown"]))
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_leaving_out_the_unlabeled_is_having_a_table_without_them(tmp_path_factory, ending, unlabeled, mark):
    keep = np.array(unlabeled) | (np.arange(N) < 24)
    labels = [label if kept else mark for label, kept in zip(FRAME["label"].to_list(), keep, strict=True)]
    labels = pl.Series([str(label) for label in labels]) if isinstance(mark, str) else pl.Series(labels)
    frame = FRAME.with_columns(
        label=labels,
        level=pl.when(pl.Series(keep)).then("level").otherwise(pl.lit("only there")),
        nr=pl.int_range(N),
    )
    folder = tmp_path_factory.mktemp("unlabeled")
    table = load_table(at(frame, ending, folder), unlabeled=str(mark))
    alone = load_table(at(frame.filter(pl.Series(keep)).drop("nr"), ending, folder, "alone"))
    np.testing.assert_array_equal(table.X, alone.X)
    np.testing.assert_array_equal(table.y, alone.y)
    np.testing.assert_array_equal(table.domain, alone.domain)
    assert table.schema == alone.schema  # no level of theirs, and row numbers are still seen to be row numbers
    np.testing.assert_array_equal(table.rows, np.flatnonzero(keep))


def marked(places, mark="none"):
    labels = FRAME["label"].cast(pl.String).to_list()
    return FRAME.with_columns(label=pl.Series([mark if i in places else label for i, label in enumerate(labels)]))


def test_how_many_are_unlabeled_is_said_and_what_is_left_of_no_domain(tmp_path):
    table = load_table(at(marked({*range(0, N, 3), 1}), "csv", tmp_path), unlabeled="none")
    assert "Left out 81 rows of 240 with the label 'none', so that no rows remain of 's0'." in table.notices
    assert set(table.domain.tolist()) == {"s1", "s2"}
    again = load_table(at(marked({1}), "csv", tmp_path), unlabeled=" none ")
    assert "Left out 1 row of 240 with the label 'none'." in again.notices


def test_a_missing_label_is_pointed_to_its_row_even_where_others_are_left_out(tmp_path):
    frame = marked(range(10, 20)).with_columns(
        label=pl.when(pl.int_range(N) == 30).then(None).otherwise(marked(range(10, 20))["label"])
    )
    with pytest.raises(TableError, match=r"is missing in 1 row: row 31\. .*the parameter unlabeled to NA"):
        load_table(at(frame, "csv", tmp_path), unlabeled="none")


@pytest.mark.parametrize(
    ("places", "value", "reason"),
    [
        (
            range(5),
            "nobody",
            "no row has the label 'nobody' of unlabeled rows (the parameter unlabeled); the labels are '1', '2', "
            "'none'",
        ),
        (range(N), "none", "all 240 rows have the label 'none' of unlabeled rows (the parameter unlabeled)"),
        (range(1, N), "none", "must hold at least two classes"),
    ],
)
def test_a_value_for_unlabeled_rows_that_cannot_be_right_is_refused(tmp_path, places, value, reason):
    with pytest.raises(TableError) as caught:
        load_table(at(marked(places), "csv", tmp_path), unlabeled=value)
    assert reason in str(caught.value)


def test_a_domain_of_one_class_is_used_where_others_have_more():
    """With three mixed domains, domain and class can be told apart; with two they cannot, and it is refused."""
    one_class = pl.DataFrame(
        {"site": ["s9"] * 30, "x": np.linspace(-1, 1, 30), "level": ["k0"] * 30, "label": [1] * 30}
    ).cast(FRAME.schema)
    table = load_table(pl.concat([FRAME, one_class]), label="label", domain="site")
    assert (table.domain == "s9").sum() == 30
    assert any("1 domain of 4 with samples of one class only: 's9'" in notice for notice in table.notices)
    with pytest.raises(TableError, match="'s9' has samples of one class only, '1'"):
        load_table(pl.concat([FRAME.filter(pl.col("site") != "s0"), one_class]), label="label", domain="site")


def with_small_domains():
    """Two domains of 3 rows among others, one of which alone has a third class."""
    few = pl.DataFrame(
        {"site": ["t1"] * 3 + ["t2"] * 3, "x": np.linspace(0, 1, 6), "level": ["k0"] * 6, "label": [1, 2, 3, 1, 2, 1]}
    )
    return pl.concat([FRAME[:100], few.cast(FRAME.schema), FRAME[100:]])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("limit", [None, 20])
def test_domains_with_few_rows_are_left_out_and_named(tmp_path, ending, limit):
    frame = with_small_domains()
    table = load_table(at(frame, ending, tmp_path), max_per_domain=limit)
    assert (
        "Left out 2 domains of 5 with fewer than 4 rows: 't1', 't2'. Set the parameter min_domain_rows to change this."
        in table.notices
    )
    assert set(table.domain.tolist()) == {"s0", "s1", "s2"}
    assert set(table.y.tolist()) == {1, 2}
    np.testing.assert_array_equal(table.X[:, 0], frame["x"].to_numpy()[table.rows])
    if limit is None:
        assert len(table.X) == N
        assert len(load_table(frame, min_domain_rows=3).X) == N + 6
        assert set(load_table(frame, min_domain_rows=80).domain.tolist()) == {"s0", "s1", "s2"}
