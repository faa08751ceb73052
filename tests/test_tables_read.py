"""Tables that can be used: what is read, in every format, whole, in batches and by draws."""

from __future__ import annotations

import csv
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from unseen.tables import iter_batches, load_table, scan
from written_tables import FRAME, WRITERS, assert_same, changed, written


@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_gives_the_same_table(tmp_path, ending):
    table = load_table(written(tmp_path, FRAME, ending))
    assert table.schema.feature_names == ["age", "sex", "smokes", "visits"]
    np.testing.assert_array_equal(table.X[:, 0], FRAME["age"])
    np.testing.assert_array_equal(table.X[:, 2], FRAME["smokes"])
    np.testing.assert_array_equal(np.isnan(table.X[:, 3]), FRAME["visits"].is_null())
    assert [c.kind for c in table.schema.columns] == ["numeric", "categorical", "numeric", "numeric"]
    assert table.y.tolist() == FRAME["diagnosis"].to_list()
    assert table.domain.tolist() == FRAME["hospital"].to_list()
    assert (table.y.dtype.kind, table.domain.dtype.kind, table.X.dtype) == ("U", "U", np.float64)
    assert (table.schema.label, table.schema.domain) == ("diagnosis", "hospital")
    assert table.name == f"patients.{ending}"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_of_a_folder_are_domains_and_agree_with_one_file(tmp_path, ending):
    whole = FRAME.sort("hospital")
    folder = tmp_path / "sites"
    folder.mkdir()
    for (name,), part in whole.group_by("hospital", maintain_order=True):
        written(folder, part.drop("hospital"), ending, name)
    table, single = load_table(folder), load_table(written(tmp_path, whole))
    np.testing.assert_array_equal(table.X, single.X)
    np.testing.assert_array_equal(table.domain, single.domain)
    np.testing.assert_array_equal(table.y, single.y)
    assert table.schema.domain is None
    assert "Each file is a domain, named as the file." in table.notices
    assert table.name == "sites"


def test_files_of_a_folder_may_differ_in_format_order_and_extra_columns(tmp_path):
    written(tmp_path, FRAME.drop("hospital"), "csv", "bonn")
    written(tmp_path, FRAME.drop("hospital").select(pl.all().reverse()).with_columns(bmi=1.5), "parquet", "leeds.north")
    table = load_table(tmp_path)
    assert table.schema.feature_names == ["age", "sex", "smokes", "visits"]
    assert sorted(set(table.domain)) == ["bonn", "leeds.north"]
    assert "Left out, since not every file has them: 'bmi'." in table.notices
    assert not any("bmi" in notice for notice in load_table(tmp_path, drop=["bmi"]).notices)


def test_a_column_that_repeats_the_domain_is_left_out_of_a_folder_unless_asked_for(tmp_path):
    for name in ("one", "two"):
        written(tmp_path, FRAME, "csv", name)
    by_file, by_column = load_table(tmp_path), load_table(tmp_path, domain="hospital")
    assert "hospital" not in by_file.schema.feature_names
    assert any("'hospital'. Set the parameter domain to use one of them." in notice for notice in by_file.notices)
    assert set(by_file.domain) == {"one", "two"}
    assert set(by_column.domain) == {"bonn", "leeds", "york"}
    assert by_column.schema.domain == "hospital"


def test_a_column_of_numbers_in_one_file_and_words_in_another_is_categorical(tmp_path):
    written(tmp_path, FRAME.drop("hospital"), "parquet", "bonn")
    words = FRAME.drop("hospital").with_columns(visits=pl.col("visits").cast(pl.String).fill_null("often"))
    written(tmp_path, words, "parquet", "leeds")
    column = load_table(tmp_path).schema.columns[3]
    assert (column.kind, column.levels) == ("categorical", ("0", "1", "2", "3", "often"))


def test_arrays_with_domains_are_a_table(tmp_path):
    X, y, d = np.arange(24.0).reshape(8, 3) ** 2, np.array([0, 1] * 4), np.array(list("aaaabbbb"))
    np.savez(tmp_path / "all.npz", X=X, y=y, domain=d, markers=["cd4", "cd8", "cd3"])
    table = load_table(tmp_path / "all.npz")
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(table.y, y)
    np.testing.assert_array_equal(table.domain, d)
    assert table.schema.feature_names == ["feature_0", "feature_1", "feature_2"]
    savemat(tmp_path / "all.mat", {"fts": X.T, "labels": y[None], "site": np.array(list(d), dtype=object)})
    same_in_matlab = load_table(tmp_path / "all.mat")
    np.testing.assert_array_equal(same_in_matlab.X, X)
    np.testing.assert_array_equal(same_in_matlab.domain, d)


def test_arrays_without_labels_can_be_read_in_batches(tmp_path):
    X = np.arange(10.0).reshape(5, 2)
    np.savez(tmp_path / "new.npz", X=X)
    parts = list(iter_batches(tmp_path / "new.npz", ["feature_1", "feature_0"], size=2))
    assert [part.height for part in parts] == [2, 2, 1]
    np.testing.assert_array_equal(pl.concat(parts).to_numpy(), X[:, ::-1])


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_header_of_any_length_is_read_whatever_separates_it(tmp_path, separator):
    path, names = tmp_path / "wide.csv", ["two\nlines", *(f"measurement_{i:05d}" for i in range(9000))]
    before = csv.field_size_limit()
    pl.DataFrame({name: [1, 2] for name in names}).write_csv(path, separator=separator)
    assert scan(path).collect_schema().names() == names
    assert csv.field_size_limit() == before


def test_numbers_are_read_on_all_rows_not_the_first_few(tmp_path):
    late = pl.concat([FRAME.with_columns(visits=pl.lit("1"))] * 100 + [FRAME.with_columns(visits=pl.lit("often"))])
    assert load_table(written(tmp_path, late)).schema.columns[3].levels == ("1", "often")


def test_semicolons_and_decimal_commas_are_read(tmp_path):
    path = tmp_path / "patients.csv"
    FRAME.write_csv(path, separator=";", decimal_comma=True)
    assert "30,5;" in path.read_text()
    assert_same(load_table(path), load_table(written(tmp_path, FRAME, "tsv")))


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path):
    path = tmp_path / "windows.csv"
    path.write_bytes(b"\xef\xbb\xbf" + FRAME.write_csv(line_terminator="\r\n").encode())
    assert_same(load_table(path), load_table(written(tmp_path, FRAME)))


def test_dates_categories_and_lists_of_typed_files_are_understood(tmp_path):
    frame = changed(sex=FRAME["sex"].cast(pl.Categorical), visits=FRAME["visits"].cast(pl.Decimal(10, 2)))
    frame = frame.with_columns(
        day=pl.date(2020, 1, 1 + pl.int_range(24) % 3), scan=pl.Series([[1, 2]] * 24), raw=pl.Series([b"x"] * 24)
    )
    table = load_table(written(tmp_path, frame, "parquet"))
    assert (
        "Left out, since they are dates: 'day'. Set the parameter dates to ordinal to use them as days since 1970."
    ) in table.notices
    assert "Left out, since they hold lists, records or bytes: 'scan', 'raw'." in table.notices
    np.testing.assert_array_equal(table.X[:, :4], load_table(written(tmp_path, FRAME)).X)


# NumPy's text drops NULs at its end, and a lone surrogate is no UTF-8.
NASTY = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12
) | st.sampled_from(
    [
        "=cmd()",
        '"',
        "''",
        ",",
        ";",
        "\t",
        "a\nb",
        "a\r\nb",
        "שלום",
        "👩‍🔬",
        "\u202eabc",
        "</script>",
        "%s{}",
        "\\",
        "#",
        " x ",
    ]
)
MEANS_MISSING = {"", "na", "n/a", "#n/a", "<na>", "nan", "null", "?"}


def survives(text):
    return text.strip().lower() not in MEANS_MISSING and text.strip("+-.0123456789eE_infaytINFAYT ") != ""


@settings(max_examples=40)
@given(
    st.lists(NASTY.filter(survives), min_size=3, max_size=3, unique=True),
    st.lists(NASTY.filter(survives), min_size=2, max_size=2, unique=True),
    NASTY.filter(survives),
    st.sampled_from(["csv", "tsv.gz", "parquet", "feather"]),
)
def test_nasty_strings_survive_as_labels_domains_levels_and_names(tmp_path_factory, levels, domains, name, ending):
    frame = pl.DataFrame(
        {name + "x": levels * 8, "domain": domains * 12, "label": [levels[i // 2 % 3] for i in range(24)]}
    )
    path = written(tmp_path_factory.mktemp("nasty"), frame, ending)
    table = load_table(path, label="label", domain="domain", features=[name + "x"])
    assert table.y.tolist() == frame["label"].to_list()
    assert table.domain.tolist() == frame["domain"].to_list()
    [column] = table.schema.columns
    assert column.name == name + "x"
    assert column.levels == tuple(sorted(levels))
    assert [column.levels[int(code)] for code in table.X[:, 0]] == levels * 8
    assert json.loads(json.dumps(table.schema.to_dict())) == table.schema.to_dict()


BIG = pl.DataFrame(
    {
        "site": [f"s{i % 3}" for i in range(600)],
        "x": np.random.default_rng(0).normal(size=600),
        "kind": [f"k{i % 11}" for i in range(600)],
        "label": [i // 3 % 2 for i in range(600)],
    }
)


def test_a_draw_keeps_the_order_of_the_file_and_depends_on_the_seed_alone(tmp_path):
    path = written(tmp_path, BIG)
    whole, drawn = load_table(path), load_table(path, max_per_domain=20, random_state=3)
    assert np.unique(drawn.domain, return_counts=True)[1].tolist() == [20, 20, 20]
    rows = [int(np.flatnonzero(whole.X[:, 0] == x)[0]) for x in drawn.X[:, 0]]
    assert rows == sorted(set(rows))
    np.testing.assert_array_equal(drawn.X, whole.X[rows])
    np.testing.assert_array_equal(drawn.y, whole.y[rows])
    np.testing.assert_array_equal(drawn.domain, whole.domain[rows])
    assert drawn.schema == whole.schema
    assert "Selected at most 20 rows of each domain: 60 of 600." in drawn.notices
    assert_same(drawn, load_table(path, max_per_domain=20, random_state=3))
    assert not np.array_equal(drawn.X, load_table(path, max_per_domain=20, random_state=4).X)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "feather"])
def test_batches_are_in_order_and_no_larger_than_asked(tmp_path, ending):
    path = written(tmp_path, BIG, ending)
    parts = list(iter_batches(path, ["kind", "x"], size=47))
    assert max(part.height for part in parts) <= 47
    assert pl.concat(parts)["x"].cast(pl.Float64).to_list() == BIG["x"].to_list()
    assert parts[0].columns == ["kind", "x"]
    assert pl.concat(iter_batches(path, None)).equals(scan(path).collect())
