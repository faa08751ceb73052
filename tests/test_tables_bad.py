"""Tables that cannot be used, and what is said about each."""

from __future__ import annotations

import gzip
import pickle

import numpy as np
import polars as pl
import pytest

from unseen.tables import TableError, iter_batches, list_files, load_table, scan

GOOD = ["hospital,age,sex,diagnosis"] + [
    f"{place},{40 + i},{'fm'[i // 2 % 2]},{'ill' if i % 2 else 'well'}" for place in ("bonn", "leeds") for i in range(8)
]


def with_rows(*rows):
    return "\n".join([*GOOD, *rows]) + "\n"


def replaced(old, new):
    return with_rows().replace(old, new)


def columns(**extra):
    """A good table with columns more, or other ones."""
    base = {
        "hospital": ["bonn"] * 8 + ["leeds"] * 8,
        "age": [40.5, 41, 42, 43, 44, 45, 46, 47] * 2,
        "diagnosis": ["ill", "well"] * 8,
    }
    return {name: values for name, values in (base | extra).items() if values is not None}


def csv_of(**extra):
    return pl.DataFrame(columns(**extra)).write_csv()


BAD_TEXTS = {
    "empty": ("", {}, ["it is empty."]),
    "blank": ("\n\n", {}, ["cannot be read: empty CSV"]),
    "header only": (GOOD[0], {}, ["it has a header but no rows."]),
    "header with a code only": ("hospital,ward_id,diagnosis", {}, ["it has a header but no rows."]),
    "old Mac line ends": (with_rows().replace("\n", "\r"), {}, ["Save it with line endings of"]),
    "repeated names": (replaced("age,sex", "age,age"), {}, ["2 columns are called 'age'. Rename them."]),
    "unknown label": (with_rows(), {"label": "diagnose"}, ["no column 'diagnose': did you mean 'diagnosis'?"]),
    "unknown domain": (with_rows(), {"domain": "HOSPITALS"}, ["no column 'HOSPITALS': did you mean 'hospital'?"]),
    "unknown feature": (with_rows(), {"features": ["agee"]}, ["no column 'agee': did you mean 'age'?"]),
    "unknown drop": (with_rows(), {"drop": ["qqq"]}, ["no column 'qqq': the columns are 'hospital', 'age', 'sex'"]),
    "label is domain": (
        with_rows(),
        {"label": "hospital", "domain": "hospital"},
        ["'hospital' is both the label and the domain column. Choose two columns."],
    ),
    "label is feature": (with_rows(), {"label": "sex", "features": ["sex"]}, ["cannot be a feature as well"]),
    "label is dropped": (with_rows(), {"label": "sex", "drop": ["sex"]}, ["cannot be dropped as well"]),
    "no telling label": (
        replaced("diagnosis", "result"),
        {},
        [
            "it is not clear which column holds the labels. Set the parameter label.",
            "columns are 'hospital', 'age', 'sex', 'result'.",
        ],
    ),
    "no telling domain": (replaced("hospital", "where"), {}, ["it is not clear which column holds the domains"]),
    "two telling domains": (
        replaced("age", "Scanner"),
        {},
        ["'hospital', 'Scanner' could each be the domain column. Set the parameter domain to choose one."],
    ),
    "missing labels": (
        with_rows("bonn,50,f,", "bonn,51,f,NA", "leeds,52,f,ill"),
        {},
        ["the label column 'diagnosis' is missing in 2 rows: rows 17, 18. Fill in the values, or leave out the rows."],
    ),
    "missing domains": (with_rows(",50,f,ill"), {}, ["the domain column 'hospital' is missing in 1 row: row 17."]),
    "many missing domains": (with_rows(*["?,50,f,ill"] * 20), {}, ["missing in 20 rows", "24 and 12 more"]),
    "one domain": ("\n".join(GOOD[:9]), {}, ["holds 1 domain, 'bonn': two or more are needed"]),
    "one class": (replaced("well", "ill"), {}, ["must hold at least two classes; it holds 'ill'"]),
    "a domain with one class": (
        with_rows(*["york,50,f,ill"] * 9),
        {},
        ["the domain 'york' has samples of one class only, 'ill'"],
    ),
    "a domain in two spellings": (
        with_rows(*["Leeds ,50,f,ill"] * 9),
        {},
        ["- 'leeds', 'Leeds ' are different domains", "the domain 'Leeds ' has samples of one class only"],
    ),
    "small domains only": (
        "\n".join([GOOD[0], *(row for row in GOOD[1:] if row[-1] == "l")][:9]).replace("leeds", "bonn"),
        {"min_domain_rows": 99},
        ["holds 0 domains: two or more are needed", "1 domain of 1 with fewer than 99 rows left out"],
    ),
    "a measured label": (
        csv_of(hospital=["a", "b"] * 25, age=list(range(50)), diagnosis=[i + 0.25 for i in range(50)]),
        {},
        ["'diagnosis' has 50 distinct values in 50 rows, such as '0.25', '1.25', '2.25': they look like measurements"],
    ),
    "a numbered label": (
        csv_of(hospital=["a", "b"] * 25, age=[i % 7 for i in range(50)], diagnosis=list(range(50))),
        {},
        ["or identifiers, not like classes"],
    ),
    "no features": (
        with_rows(),
        {"drop": ["age", "sex"]},
        ["no columns are left to be features."],
    ),
    "constant features": (
        csv_of(age=[7] * 16, sex=["f"] * 16, height=[None] * 16, weight=[None, *[70] * 15]),
        {},
        ["no columns are left to be features."],
    ),
    "too many levels": (
        csv_of(
            hospital=["a", "b"] * 600,
            age=[f"v{i}" for i in range(1200)],
            diagnosis=["ill", "ill", "well", "well"] * 300,
        ),
        {"features": ["age"]},
        ["the column 'age' has more than 1,000 distinct values that are not numbers"],
    ),
    "a row that is too long": (with_rows("bonn,50,f,ill,7"), {}, ["a row has more values than the header has names"]),
    "an open quotation mark": (with_rows('bonn,50,"f,ill'), {}, ["a quotation mark is opened but never closed"]),
}


@pytest.mark.parametrize(("text", "options", "fragments"), BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_a_bad_csv_file_is_refused_with_its_reason(tmp_path, text, options, fragments):
    file = tmp_path / "patients.csv"
    file.write_bytes(text.encode())
    with pytest.raises(TableError) as caught:
        load_table(file, **options)
    assert str(caught.value).startswith("patients.csv cannot be used:\n- ")
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_the_table_from_which_the_bad_ones_are_made_is_good(tmp_path):
    file = tmp_path / "patients.csv"
    file.write_text(with_rows())
    assert load_table(file).X.shape == (16, 2)


BAD_BYTES = {
    "latin1.csv": ("hospital,diagnosis,x\nköln,ill,1\n".encode("latin-1"), "it is not UTF-8 text"),
    "utf16.csv": (with_rows().encode("utf-16"), "it is not UTF-8 text"),
    "latin1_inside.csv": (with_rows("köln,50,f,ill").encode("latin-1"), "it is not UTF-8 text"),
    "plain.csv.gz": (with_rows().encode(), "it cannot be read: Not a gzipped file"),
    "cut.csv.gz": (gzip.compress(with_rows().encode())[:40], "it cannot be read"),
    "text.parquet": (with_rows().encode(), "it cannot be read"),
    "text.feather": (with_rows().encode(), "it cannot be read"),
    "text.npz": (with_rows().encode(), "it cannot be read"),
    "pickle.npz": (pickle.dumps({"X": 1}), "it cannot be read"),
    "text.mat": (with_rows().encode(), "it cannot be read"),
    "book.xls": (b"PK", "its name must end in .csv, .tsv, .csv.gz"),
    "none": (b"", "its name must end in .csv"),
}


@pytest.mark.parametrize(("name", "content", "fragment"), [(n, *rest) for n, rest in BAD_BYTES.items()], ids=BAD_BYTES)
def test_an_unreadable_file_is_refused_with_its_reason(tmp_path, name, content, fragment):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError) as caught:
        load_table(tmp_path / name)
    assert str(caught.value).startswith(f"{name} cannot be used:\n- ")
    assert fragment in str(caught.value)
    assert len(str(caught.value)) < 400


def test_an_old_spreadsheet_gets_the_advice_to_save_it_as_xlsx_or_csv(tmp_path):
    (tmp_path / "book.xls").touch()
    with pytest.raises(TableError, match=r"Save it as .xlsx or CSV\."):
        load_table(tmp_path / "book.xls")


def test_a_parquet_file_cut_short_is_refused(tmp_path):
    file = tmp_path / "patients.parquet"
    pl.DataFrame(columns()).write_parquet(file)
    whole = file.read_bytes()
    for length in (3, len(whole) // 2, len(whole) - 5):
        file.write_bytes(whole[:length])
        with pytest.raises(TableError, match="cannot be read"):
            load_table(file)


def test_a_file_that_is_not_there_is_named_with_the_nearest_one(tmp_path):
    (tmp_path / "patients.csv").touch()
    with pytest.raises(TableError, match=r"the file or folder does not exist\. Did you mean 'patients\.csv'\?"):
        load_table(tmp_path / "patient.csv")
    with pytest.raises(TableError, match=r"the file or folder does not exist\.$"):
        load_table(tmp_path / "nowhere" / "patient.csv")


def test_all_problems_are_told_at_once(tmp_path):
    file = tmp_path / "patients.csv"
    file.write_text(replaced("age,sex", "age,age") + "bonn,50,f,\n,50,f,ill\n")
    with pytest.raises(TableError) as caught:
        load_table(file, domain="hospitl", features=["agee", "age"], drop=["nothing at all"])
    problems = caught.value.problems
    assert [problem[:26] for problem in problems] == [
        "2 columns are called 'age'",
        "it has no column 'hospitl'",
        "it has no column 'agee': d",
        "it has no column 'nothing ",
        "the label column 'diagnosi",
    ]
    assert str(caught.value).count("\n- ") == len(problems)


def test_one_column_for_both_roles_is_the_only_problem(tmp_path):
    file = tmp_path / "patients.csv"
    file.write_text(with_rows(",50,f,ill"))
    with pytest.raises(TableError) as caught:
        load_table(file, label="hospital", domain="hospital")
    assert caught.value.problems == ["'hospital' is both the label and the domain column. Choose two columns."]


def test_a_header_without_end_is_refused_for_its_quotation_mark(tmp_path):
    file = tmp_path / "patients.csv"
    file.write_text('"hospital,age,sex,diagnosis\n' + "x" * 2**24)
    with pytest.raises(TableError, match="a quotation mark may be opened but never closed"):
        load_table(file)


@pytest.mark.parametrize("where", ["_survey.parse_numbers", "_schema.parse_numbers", "_survey.as_text"])
def test_what_polars_cannot_do_is_a_table_error(tmp_path, monkeypatch, where):
    def fail(*_):
        raise pl.exceptions.InvalidOperationError("casting from Wibble not supported\n\nand much more")

    file = tmp_path / "patients.csv"
    file.write_text(with_rows())
    monkeypatch.setattr(f"unseen.tables.{where}", fail)
    with pytest.raises(TableError, match=r"patients\.csv.*\n.*it cannot be read: casting from Wibble not supported\.$"):
        load_table(file)


def test_a_table_error_survives_pickling():
    error = TableError(["a.", "b."], source="x.csv")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.problems) == (str(error), ["a.", "b."])


def write_folder(folder, **tables):
    for name, table in tables.items():
        pl.DataFrame(table).write_csv(folder / f"{name}.csv")


SITE = {"age": [1.5, 2, 3, 4, 5], "y": [0, 1, 0, 1, 0]}


def test_every_bad_file_of_a_folder_is_named(tmp_path):
    write_folder(tmp_path, bonn=SITE, leeds=SITE)
    (tmp_path / "york.csv").write_text("age,age,y\n1,2,3\n")
    (tmp_path / "oslo.parquet").write_text("no")
    with pytest.raises(TableError) as caught:
        load_table(tmp_path)
    assert "york.csv: 2 columns are called 'age'" in str(caught.value)
    assert "oslo.parquet: it cannot be read" in str(caught.value)


def test_rows_of_a_folder_are_counted_in_each_file(tmp_path):
    write_folder(tmp_path, bonn=SITE, leeds=SITE | {"y": [0, None, 0, 1, None]})
    with pytest.raises(TableError, match=r"missing in 2 rows: rows 2 of leeds\.csv, 5 of leeds\.csv"):
        load_table(tmp_path)


@pytest.mark.parametrize(
    ("tables", "options", "fragment"),
    [
        ({}, {}, "a folder must hold one file per domain"),
        ({"bonn": SITE}, {}, "the folder holds 1 domain, 'bonn': two or more are needed"),
        ({"bonn": SITE, "leeds": SITE | {"y": [1] * 5}}, {}, "the domain 'leeds' has samples of one class only, '1'"),
        ({"bonn": SITE, "leeds": {"age": [], "y": []}}, {}, "these files have a header but no rows: 'leeds.csv'"),
        ({"bonn": SITE, "leeds": {"bmi": [1.0] * 5, "y": [0, 1] * 2 + [1]}}, {}, "no columns are left to be features"),
        ({"bonn": SITE, "leeds": {"age": [1.0]}}, {"label": "y"}, "'leeds.csv': no column 'y', which other files have"),
        ({"bonn": SITE, "leeds": SITE}, {"label": "x"}, "no file has a column 'x': the columns are 'age', 'y'"),
    ],
)
def test_a_bad_folder_is_refused_with_its_reason(tmp_path, tables, options, fragment):
    write_folder(tmp_path, **tables)
    with pytest.raises(TableError) as caught:
        load_table(tmp_path, **options)
    assert fragment in str(caught.value)


def test_two_files_of_one_name_would_be_one_domain(tmp_path):
    write_folder(tmp_path, bonn=SITE, leeds=SITE)
    pl.DataFrame(SITE).write_parquet(tmp_path / "bonn.parquet")
    with pytest.raises(TableError, match="two or more files are called 'bonn'"):
        load_table(tmp_path)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_per_domain": 2.0}, TypeError, r"max_per_domain must be an integer; got 2\.0"),
        (
            {"max_per_domain": 1},
            ValueError,
            "max_per_domain must be at least 2; got 1",
        ),
        ({"min_domain_rows": 0}, ValueError, "min_domain_rows must be at least 1; got 0"),
        ({"features": [1]}, TypeError, r"features must be names of columns; got \[1\]"),
        ({"drop": [None]}, TypeError, r"drop must be names of columns; got \[None\]"),
    ],
)
def test_a_bad_option_is_refused_before_anything_is_read(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        load_table(tmp_path / "not there.csv", **options)


def test_a_folder_cannot_be_scanned_as_one_file(tmp_path):
    with pytest.raises(TableError, match="it is a folder"):
        scan(tmp_path)


@pytest.mark.parametrize("read", [scan, lambda file: list(iter_batches(file, None))], ids=["scan", "batches"])
def test_repeated_names_are_refused_wherever_a_file_is_read(tmp_path, read):
    (tmp_path / "new.csv").write_text("age,age\n1,2\n")
    with pytest.raises(TableError, match=r"new\.csv cannot be used:\n- 2 columns are called 'age'"):
        read(tmp_path / "new.csv")


def test_batches_name_the_columns_that_are_not_there(tmp_path):
    (tmp_path / "new.csv").write_text("age,sex\n1,2\n")
    with pytest.raises(TableError, match=r"no column 'Agee': did you mean 'age'\?\n- it has no column 'weight'"):
        list(iter_batches(tmp_path / "new.csv", ["Agee", "weight"]))


def test_hidden_and_other_files_of_a_folder_are_passed_over(tmp_path):
    write_folder(tmp_path, bonn=SITE)
    for name in (".leeds.csv", "notes.txt", "york"):
        (tmp_path / name).touch()
    (tmp_path / "deep.csv").mkdir()
    assert [name for name, _ in list_files(tmp_path)] == ["bonn"]


def test_labels_and_domains_without_end_are_refused_before_they_are_counted_together(tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.tables._checks.MAX_CELLS", 1000)
    monkeypatch.setattr("unseen.tables._survey.Survey.counts", None)
    file, rows = tmp_path / "patients.csv", np.arange(300)
    for label, reason in (
        (rows, "300 distinct values in 300 rows"),
        (rows % 150, "150 classes in 60 domains are too"),
    ):
        pl.DataFrame({"patient": rows % 60, "age": rows % 9, "y": label}).write_csv(file)
        with pytest.raises(TableError, match=reason):
            load_table(file)
