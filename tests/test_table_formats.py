"""Workbooks hold the same table as a text file, and results are written to workbooks."""

from __future__ import annotations

import sys
from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest

import unseen
from unseen.tables import TableError, list_files, load_table, scan
from written_tables import assert_same

N = 60
RNG = np.random.default_rng(0)
FRAME = pl.DataFrame(
    {
        "age": [None if i % 11 == 0 else float(age) for i, age in enumerate(RNG.normal(50, 10, N).round(1))],
        "grade": RNG.integers(1, 5, N),
        "sex": RNG.choice(["f", "m"], N),
        "day": [date(2024, 1, 1) + timedelta(days=int(day)) for day in RNG.integers(0, 300, N)],
        "smokes": RNG.random(N) < 0.5,
        "mixed": ["NA" if i % 7 == 0 else str(i / 4) for i in range(N)],
        "ill": RNG.choice(["yes", "no"], N),
        "site": np.repeat(["bonn", "leeds", "oslo"], N // 3),
    }
)
OPTIONS = {"label": "ill", "domain": "site", "dates": "ordinal"}


def write_workbook(path, *sheets):
    """Write sheets, each a list of rows."""
    xlsxwriter = pytest.importorskip("xlsxwriter")
    pytest.importorskip("fastexcel")
    with xlsxwriter.Workbook(path) as workbook:
        for number, rows in enumerate(sheets):
            sheet = workbook.add_worksheet(f"sheet {number}")
            formats = workbook.add_format({"num_format": "yyyy-mm-dd"})
            for i, row in enumerate(rows):
                for j, value in enumerate(row):
                    if isinstance(value, date):
                        sheet.write_datetime(i, j, datetime(value.year, value.month, value.day), formats)
                    else:
                        sheet.write(i, j, value)


def as_rows(frame):
    return [frame.columns, *frame.rows()]


def write(path, frame=FRAME):
    write_workbook(path, as_rows(frame), [])


def test_a_workbook_holds_the_table_of_the_text_file(tmp_path):
    FRAME.write_csv(tmp_path / "t.csv")
    write(tmp_path / "t.xlsx")
    found, expected = load_table(tmp_path / "t.xlsx", **OPTIONS), load_table(tmp_path / "t.csv", **OPTIONS)
    assert_same(found, expected)
    assert found.notices == expected.notices
    assert scan(tmp_path / "t.xlsx").collect().height == N


def test_rows_and_columns_of_a_workbook_that_are_empty_are_not_read(tmp_path):
    rows = as_rows(FRAME.select("age", "ill", "site"))
    rows = [[*row[:2], None, row[2]] for row in rows]
    write_workbook(tmp_path / "gaps.xlsx", [*rows, [None] * 4, [None, None, None, None]])
    table = load_table(tmp_path / "gaps.xlsx", label="ill", domain="site")
    assert (len(table.X), table.schema.feature_names) == (N, ["age"])


def test_numbers_and_text_in_one_column_of_a_workbook_are_read_as_in_a_text_file(tmp_path):
    rows = [["age", "ill", "site"]] + [["?" if i == 5 else i * 1.5, i % 2, "ab"[i // 20]] for i in range(40)]
    write_workbook(tmp_path / "mixed.xlsx", rows)
    table = load_table(tmp_path / "mixed.xlsx", label="ill", domain="site")
    np.testing.assert_array_equal(table.X[:, 0], [np.nan if i == 5 else i * 1.5 for i in range(40)])
    assert table.y.dtype.kind == "i"


def test_files_that_cannot_be_used_get_a_reason(tmp_path):
    write_workbook(tmp_path / "two.xlsx", as_rows(FRAME[:3, :2]), as_rows(FRAME[:3, :2]))
    write_workbook(tmp_path / "none.xlsx", [])
    write_workbook(tmp_path / "names.xlsx", [["age", "ill", "age"], [1, 2, 3]])
    (tmp_path / "text.xlsx").write_text("age,ill\n1,2\n")
    (tmp_path / "table.zip").touch()
    reasons = {
        "two.xlsx": "it has 2 sheets with data, 'sheet 0', 'sheet 1'. Keep one sheet in the file, or pass the",
        "none.xlsx": "it has no sheet with data",
        "names.xlsx": "2 columns are called 'age'. Rename them",
        "text.xlsx": "it cannot be read: File is not a zip file",
        "table.zip": "according to its format. Unpack it first.",
    }
    for name, reason in reasons.items():
        with pytest.raises(TableError) as error:
            load_table(tmp_path / name, **OPTIONS)
        assert reason in str(error.value), name
        assert str(error.value).startswith(name)


def test_a_missing_reader_names_the_extra(tmp_path, monkeypatch):
    write(tmp_path / "t.xlsx")
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(ImportError, match=r"Reading t\.xlsx needs fastexcel.*unseen\[excel\]"):
        load_table(tmp_path / "t.xlsx")


def test_a_folder_leaves_out_archives_and_lock_files(tmp_path):
    for name in ("bonn.csv", "~$leeds.xlsx", "photos.zip"):
        (tmp_path / name).touch()
    assert [name for name, _ in list_files(tmp_path)] == ["bonn"]


def test_predictions_in_a_workbook_are_those_of_the_text_file(tmp_path):
    pytest.importorskip("xlsxwriter")
    pytest.importorskip("fastexcel")
    table = FRAME.select("age", "sex", "ill", "site").with_columns(
        ill=pl.col("ill").replace_strict({"yes": "=1+1", "no": "http://x"})
    )
    model = unseen.fit(table, label="ill", domain="site", methods="logistic")
    new = table.with_columns(day=FRAME["day"], note=pl.lit("007"))
    written = {}
    for ending in ("csv", "xlsx"):
        path = tmp_path / f"predictions.{ending}"
        model.predict_table(new, path, domain="site", keep=["day", "note"], batch_size=7)
        written[ending] = path
    found = pl.read_excel(written["xlsx"]).with_columns(pl.col("day").dt.date())
    expected = pl.read_csv(written["csv"], schema_overrides={"note": pl.String}, try_parse_dates=True)
    assert found.columns == expected.columns
    assert found["label"].to_list() == expected["label"].to_list()
    assert set(found["label"]) <= {"=1+1", "http://x"}  # text, neither a formula nor a link
    assert found["note"].to_list() == expected["note"].to_list() == ["007"] * N
    assert found["day"].to_list() == expected["day"].to_list()
    np.testing.assert_allclose(found["p(=1+1)"], expected["p(=1+1)"])
