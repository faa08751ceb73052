"""Tables that can be used: what is read, in every format, and what is said about it."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat

pl = pytest.importorskip("polars")

from unseen.datasets import load_folder, load_rotated_digits  # noqa: E402
from unseen.tables import batches, embedded, load_table, preprocessor, scan  # noqa: E402

FRAME = pl.DataFrame(
    {
        "hospital": ["bonn", "leeds", "york"] * 8,
        "age": [30.5 + 3 * i for i in range(24)],
        "sex": [["f", "m", None][i % 5 % 3] for i in range(24)],
        "smokes": [i % 7 < 3 for i in range(24)],
        "visits": [i % 4 if i % 6 else None for i in range(24)],
        "diagnosis": [["ill", "well", "unclear"][i // 2 % 3] for i in range(24)],
    }
)
WRITERS = {
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "csv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv().encode())),
    "tsv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv(separator="\t").encode())),
    "parquet": lambda frame, path: frame.write_parquet(path),
    "feather": lambda frame, path: frame.write_ipc(path, compression="zstd"),
    "arrow": lambda frame, path: frame.write_ipc(path),
    "ipc": lambda frame, path: frame.write_ipc(path),
    "CSV": lambda frame, path: frame.write_csv(path),
}


def written(folder, frame, ending="csv", name="patients"):
    path = folder / f"{name}.{ending}"
    WRITERS[ending](pl.DataFrame(frame), path)
    return path


def assert_same(one, two):
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.y, two.y)
    np.testing.assert_array_equal(one.domain, two.domain)
    assert one.schema == two.schema


def changed(**columns):
    return FRAME.with_columns(**{name: pl.Series(values) for name, values in columns.items()})


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
    assert any("'hospital'. Pass --domain to use one." in notice for notice in by_file.notices)
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
    np.savez(tmp_path / "all.npz", X=X, y=y, domain=d, weight=np.linspace(0, 1, 8))
    table = load_table(tmp_path / "all.npz")
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(table.y, y)
    np.testing.assert_array_equal(table.domain, d)
    assert table.schema.feature_names == ["feature_0", "feature_1", "feature_2"]
    assert "Left out, since they are not in the matrix of features: 'weight'." in table.notices
    savemat(tmp_path / "all.mat", {"fts": X.T, "labels": y[None], "site": np.array(list(d), dtype=object)})
    same_in_matlab = load_table(tmp_path / "all.mat")
    np.testing.assert_array_equal(same_in_matlab.X, X)
    np.testing.assert_array_equal(same_in_matlab.domain, d)


def test_a_folder_of_arrays_agrees_with_load_folder(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("amazon", "dslr"):
        np.savez(tmp_path / f"{name}.npz", X=rng.normal(size=(9, 4)).astype(np.float32), y=[1, 2, 3] * 3)
    table, bunch = load_table(tmp_path), load_folder(tmp_path)
    np.testing.assert_array_equal(table.X, bunch.data)
    np.testing.assert_array_equal(table.y, bunch.target)
    np.testing.assert_array_equal(table.domain, bunch.domain)
    assert table.schema.feature_names == bunch.feature_names


def test_arrays_without_labels_can_be_read_in_batches(tmp_path):
    X = np.arange(10.0).reshape(5, 2)
    np.savez(tmp_path / "new.npz", X=X)
    parts = list(batches(tmp_path / "new.npz", ["feature_1", "feature_0"], size=2))
    assert [part.height for part in parts] == [2, 2, 1]
    np.testing.assert_array_equal(pl.concat(parts).to_numpy(), X[:, ::-1])


def test_the_embedded_table_is_the_rotated_digits_and_needs_no_polars():
    table, data = embedded(), load_rotated_digits()
    np.testing.assert_array_equal(table.X, data.data)
    np.testing.assert_array_equal(table.domain, data.domain)
    assert (table.name, table.schema.feature_names) == ("rotated digits", data.feature_names)
    code = "import sys; import unseen.tables as t; t.embedded(); print('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("label", "domain"),
    [("diagnosis", "hospital"), ("Class", "SITE"), ("y", "Patient ID"), ("Species", "centre"), ("target", "batch_id")],
)
def test_telling_names_are_found_and_said(tmp_path, label, domain):
    table = load_table(written(tmp_path, FRAME.rename({"diagnosis": label, "hospital": domain})))
    assert (table.schema.label, table.schema.domain) == (label, domain)
    assert f"Using {label!r} as the label column: pass --label to choose another." in table.notices
    assert f"Using {domain!r} as the domain column: pass --domain to choose another." in table.notices


def test_nothing_is_said_about_columns_that_were_asked_for(tmp_path):
    table = load_table(written(tmp_path, FRAME), label="smokes", domain="diagnosis", features=["visits"])
    assert table.schema.feature_names == ["visits"]
    assert not any("Using" in notice for notice in table.notices)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"features": ["visits", "age"]}, ["visits", "age"]),
        ({"features": ["visits", "age", "visits"]}, ["visits", "age"]),
        ({"features": "age"}, ["age"]),
        ({"drop": ["age", "sex"]}, ["smokes", "visits"]),
        ({"features": ["visits", "age", "sex"], "drop": ["age"]}, ["visits", "sex"]),
    ],
)
def test_features_keeps_and_drop_removes(tmp_path, options, names):
    table = load_table(written(tmp_path, FRAME), **options)
    assert table.schema.feature_names == names
    everything = load_table(written(tmp_path, FRAME))
    for position, name in enumerate(names):
        np.testing.assert_array_equal(
            table.X[:, position], everything.X[:, everything.schema.feature_names.index(name)]
        )


def test_dropping_a_telling_column_leaves_the_other(tmp_path):
    frame = FRAME.with_columns(batch=FRAME["hospital"])
    assert load_table(written(tmp_path, frame), drop=["hospital"]).schema.domain == "batch"


IDENTIFIERS = {
    "from 0": range(24),
    "from 1": [str(i) for i in range(1, 25)],
    "sample_id": np.random.default_rng(0).permutation(1000)[:24].tolist(),
    "SampleID": [10 * i for i in range(24)],
    "uuid": [f"{7 * i:x}-{i}" for i in range(24)],
    "note": [f"patient {i}" for i in range(24)],
    "nearly": [f"patient {i % 23}" for i in range(24)],
}
FEATURES = {
    "squares": [i * i for i in range(24)],
    "refractive index": [1.3 + i / 100 for i in range(24)],
    "bmi_id": [i // 2 for i in range(24)],
    "acid": [i * i for i in range(24)],
    "town": [f"town {i % 12}" for i in range(24)],
}


@pytest.mark.parametrize("name", IDENTIFIERS)
def test_identifiers_are_left_out_unless_asked_for(tmp_path, name):
    path = written(tmp_path, changed(**{name: IDENTIFIERS[name]}))
    table = load_table(path)
    assert table.schema.feature_names == ["age", "sex", "smokes", "visits"]
    assert f"Left out, since they identify samples rather than describe them: {name!r}." in table.notices
    assert load_table(path, features=[name]).schema.feature_names == [name]


@pytest.mark.parametrize("name", FEATURES)
def test_what_only_resembles_an_identifier_is_kept(tmp_path, name):
    assert name in load_table(written(tmp_path, changed(**{name: FEATURES[name]}))).schema.feature_names


def test_row_numbers_that_start_again_in_each_file_are_left_out(tmp_path):
    for name in ("bonn", "leeds"):
        written(tmp_path, FRAME.drop("hospital").with_row_index("nr", offset=1), "csv", name)
    assert "nr" not in load_table(tmp_path).schema.feature_names


CONSTANTS = {"same": ["x"] * 24, "none": [None] * 24, "seven": [7] * 24, "seven or missing": [None, *[7] * 23]}


@pytest.mark.parametrize("asked", [False, True])
def test_constant_columns_are_left_out_even_if_asked_for(tmp_path, asked):
    path = written(tmp_path, changed(**CONSTANTS))
    table = load_table(path, features=["age", *CONSTANTS] if asked else None)
    assert not set(CONSTANTS) & set(table.schema.feature_names)
    left_out = "'same', 'none', 'seven', 'seven or missing'"
    assert f"Left out, since they hold a single value or none: {left_out}." in table.notices


def test_one_level_beside_missing_values_says_something(tmp_path):
    path = written(tmp_path, changed(allergy=["yes", None] * 12), "parquet")
    assert "allergy" in load_table(path).schema.feature_names


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("mark", ["NA", "n/a", "nan", "NULL", "?", " ", "#N/A", "<NA>"])
def test_marks_of_missing_values_do_not_turn_numbers_into_words(tmp_path, ending, mark):
    values = [mark if i % 5 == 2 else f"{i * 1.5}" for i in range(24)]
    table = load_table(written(tmp_path, changed(age=values), ending))
    assert table.schema.columns[0].kind == "numeric"
    np.testing.assert_array_equal(table.X[:, 0], [np.nan if value == mark else float(value) for value in values])
    said = f"Read as numbers, with {mark!r} for missing values: 'age'."
    assert (said in table.notices) == (mark != " ")


def test_a_typing_error_among_numbers_is_pointed_out(tmp_path):
    values = [str(i % 12) for i in range(24)]
    values[16] = "1O"
    table = load_table(written(tmp_path, changed(age=values)))
    assert table.schema.columns[0].kind == "categorical"
    assert "'age' is not read as numbers because of 1 value, such as '1O' in row 17." in table.notices


def test_infinite_numbers_count_as_missing_and_are_counted(tmp_path):
    ages = [float("inf"), float("-inf"), float("nan"), *range(21)]
    for ending in ("csv", "parquet"):
        table = load_table(written(tmp_path, changed(age=ages), ending))
        assert np.isnan(table.X[:3, 0]).all()
        assert "Numbers that are infinite or beyond 1e150 count as missing: 'age (2 values)'." in table.notices


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_too_large_to_be_squared_count_as_missing(tmp_path, ending):
    ages = [1.01e150, -1e308, *range(22)]
    table = load_table(written(tmp_path, changed(age=ages), ending))
    assert np.isnan(table.X[:2, 0]).all()
    assert "Numbers that are infinite or beyond 1e150 count as missing: 'age (2 values)'." in table.notices
    none = load_table(written(tmp_path, changed(age=[1e200] * 24), ending))
    assert "Numbers that are infinite or beyond 1e150 count as missing: 'age (24 values)'." in none.notices
    large = load_table(written(tmp_path, changed(age=[9e149, -9e149, *range(22)]), ending))
    assert not np.isnan(large.X[:, 0]).any()
    for scaled in (preprocessor(table.schema).fit_transform(found.X) for found in (table, large)):
        assert np.isfinite(scaled).all()


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_durations_are_seconds(tmp_path, unit):
    lengths = pl.Series([timedelta(seconds=1.5 * i) for i in range(23)] + [None], dtype=pl.Duration(unit))
    frame = changed(age=lengths, hospital=pl.Series([timedelta(days=i % 3) for i in range(24)]))
    table = load_table(written(tmp_path, frame, "parquet"))
    np.testing.assert_array_equal(table.X[:, 0], [*(1.5 * np.arange(23)), np.nan])
    assert table.schema.columns[0].kind == "numeric"
    assert table.domain[:3].tolist() == ["0", "86400", "172800"]
    np.testing.assert_array_equal(table.schema.encode(frame)[:, 0], table.X[:, 0])


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_header_of_any_length_is_read_whatever_separates_it(tmp_path, separator):
    path, names = tmp_path / "wide.csv", ["two\nlines", *(f"measurement_{i:05d}" for i in range(9000))]
    before = csv.field_size_limit()
    pl.DataFrame({name: [1, 2] for name in names}).write_csv(path, separator=separator)
    assert scan(path).collect_schema().names() == names
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("column", "names", "said"),
    [
        ("hospital", ["Leeds", "Leeds ", "york"], "'Leeds' and 'Leeds ' are taken as different domains"),
        ("hospital", ["Leeds", "york", "LEEDS"], "'Leeds' and 'LEEDS' are taken as different domains"),
        ("diagnosis", ["ill", " Ill", "ill\xa0"], "'ill', ' Ill' and 'ill\\xa0' are taken as different classes"),
    ],
)
def test_names_that_differ_by_spaces_or_case_alone_are_pointed_out(tmp_path, column, names, said):
    values = [names[i % 3 if column == "hospital" else i // 2 % 3] for i in range(24)]
    table = load_table(written(tmp_path, changed(**{column: values}), "parquet"))
    assert f"{said}: if they are the same, write them alike." in table.notices
    assert not any("taken as different" in notice for notice in load_table(written(tmp_path, FRAME)).notices)


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
    assert table.schema.columns[-1].levels == ("2020-01-01", "2020-01-02", "2020-01-03")
    assert "Left out, since they hold lists, records or bytes: 'scan', 'raw'." in table.notices
    np.testing.assert_array_equal(table.X[:, :4], load_table(written(tmp_path, FRAME)).X)


LABELS = {
    "integers": ([3, 1, 2], [3, 1, 2], "i"),
    "whole floats": ([3.0, 1.0, 2.0], [3, 1, 2], "i"),
    "large integers": ([2**60 + 1, 2**60, 5], [2**60 + 1, 2**60, 5], "i"),
    "fractions": ([0.5, 1.0, 1.5], ["0.5", "1.0", "1.5"], "U"),
    "codes": (["007", "008", "9"], ["007", "008", "9"], "U"),
    "text": (["b", " b", "a,\n\"'🙂"], ["b", " b", "a,\n\"'🙂"], "U"),
    "truth": ([True, False, True], ["True", "False", "True"], "U"),
}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(("given_labels", "expected", "kind"), LABELS.values(), ids=LABELS)
def test_labels_stay_what_they_are(tmp_path, ending, given_labels, expected, kind):
    values = [label for label in given_labels for _ in range(8)]
    path = written(tmp_path, changed(diagnosis=values), ending)
    expected = [label for label in expected for _ in range(8)]
    y = load_table(path).y
    if given_labels[0] is True and ending == "csv":
        expected = [label.lower() for label in expected]  # as polars writes them
    if given_labels[0] == 0.5 and ending == "parquet":
        expected = [label.removesuffix(".0") for label in expected]
    assert (y.tolist(), y.dtype.kind) == (expected, kind)


@pytest.mark.parametrize(
    ("sites", "names"), [([1, 2, 3], "123"), ([1.0, 2.0, 3.0], "123"), ([True, False, True], None)]
)
def test_domains_are_always_text(tmp_path, sites, names):
    table = load_table(written(tmp_path, changed(hospital=sites * 8), "parquet"))
    assert table.domain.dtype.kind == "U"
    assert table.domain.tolist() == (list(names) if names else ["True", "False", "True"]) * 8


def test_a_domain_may_lack_some_classes_but_sharing_none_is_said(tmp_path):
    diagnoses = ["ill", "well", "well"] * 8
    table = load_table(written(tmp_path, changed(diagnosis=[f"{d}{i % 2}" for i, d in enumerate(diagnoses)])))
    assert "No class of these domains occurs in any other: 'bonn'." in table.notices


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
    whole, drawn = load_table(path), load_table(path, max_per_domain=20, seed=3)
    assert np.unique(drawn.domain, return_counts=True)[1].tolist() == [20, 20, 20]
    rows = [int(np.flatnonzero(whole.X[:, 0] == x)[0]) for x in drawn.X[:, 0]]
    assert rows == sorted(set(rows))
    np.testing.assert_array_equal(drawn.X, whole.X[rows])
    np.testing.assert_array_equal(drawn.y, whole.y[rows])
    np.testing.assert_array_equal(drawn.domain, whole.domain[rows])
    assert drawn.schema == whole.schema
    assert "Drew at most 20 rows of each domain: 60 of 600." in drawn.notices
    assert_same(drawn, load_table(path, max_per_domain=20, seed=3))
    assert not np.array_equal(drawn.X, load_table(path, max_per_domain=20, seed=4).X)


def test_a_draw_larger_than_every_domain_takes_all(tmp_path):
    path = written(tmp_path, BIG)
    assert_same(load_table(path, max_per_domain=200), load_table(path))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_small_batches_and_one_batch_agree(tmp_path, monkeypatch, ending):
    path = written(tmp_path, BIG, ending)
    at_once = load_table(path)
    monkeypatch.setattr("unseen.tables._survey.VALUES_PER_BATCH", 7)
    assert_same(load_table(path), at_once)
    assert_same(load_table(path, max_per_domain=9), load_table(path, max_per_domain=9))


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "feather"])
def test_batches_are_in_order_and_no_larger_than_asked(tmp_path, ending):
    path = written(tmp_path, BIG, ending)
    parts = list(batches(path, ["kind", "x"], size=47))
    assert max(part.height for part in parts) <= 47
    assert pl.concat(parts)["x"].cast(pl.Float64).to_list() == BIG["x"].to_list()
    assert parts[0].columns == ["kind", "x"]
    assert pl.concat(batches(path, None)).equals(scan(path).collect())


def test_batches_of_a_folder_follow_each_other(tmp_path):
    for name in "ba":
        written(tmp_path, BIG.with_columns(site=pl.lit(name)), "csv", name)
    assert pl.concat(batches(tmp_path, ["site"]))["site"].to_list() == ["a"] * 600 + ["b"] * 600


def test_reading_does_not_change_the_file_or_the_arguments(tmp_path):
    path, features = written(tmp_path, FRAME), ["age", "sex"]
    before = path.read_bytes()
    load_table(path, features=features)
    assert (path.read_bytes(), features) == (before, ["age", "sex"])
