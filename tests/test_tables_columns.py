"""What the columns of a table are taken for: label, domain, features, identifiers, missing values; and what is said."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from unseen.tables import TableError, load_table, make_preprocessor
from written_tables import FRAME, changed, written


@pytest.mark.parametrize(
    ("label", "domain"),
    [("diagnosis", "hospital"), ("Class", "SITE"), ("y", "Patient ID"), ("Species", "center"), ("target", "batch_id")],
)
def test_telling_names_are_found_and_said(tmp_path, label, domain):
    table = load_table(written(tmp_path, FRAME.rename({"diagnosis": label, "hospital": domain})))
    assert (table.schema.label, table.schema.domain) == (label, domain)
    assert f"Using {label!r} as the label column. Set the parameter label to choose another." in table.notices
    assert f"Using {domain!r} as the domain column. Set the parameter domain to choose another." in table.notices


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


def test_free_text_is_called_so(tmp_path):
    text = [f"patient {i} complains of a headache" for i in range(24)]
    frame = changed(report=text)
    table = load_table(written(tmp_path, frame))
    assert (
        "Left out, since they hold free text: 'report'. Convert text to columns of numbers to use it." in table.notices
    )
    assert table.left_out == {"report": "free text"}
    with pytest.raises(
        TableError, match=r"no columns are left to be features\. Free text is not used: 'report'\. Conv"
    ):
        load_table(frame.select("hospital", "diagnosis", "report"))


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


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("mark", ["NA", "n/a", "nan", "NULL", "?", " ", "#N/A", "<NA>"])
def test_marks_of_missing_values_do_not_turn_numbers_into_words(tmp_path, ending, mark):
    values = [mark if i % 5 == 2 else f"{i * 1.5}" for i in range(24)]
    table = load_table(written(tmp_path, changed(age=values), ending))
    assert table.schema.columns[0].kind == "numeric"
    np.testing.assert_array_equal(table.X[:, 0], [np.nan if value == mark else float(value) for value in values])


def test_a_typing_error_among_numbers_is_pointed_out(tmp_path):
    values = [str(i % 12) for i in range(24)]
    values[16] = "1O"
    table = load_table(written(tmp_path, changed(age=values)))
    assert table.schema.columns[0].kind == "categorical"
    assert "'age' is not read as numbers because of 1 value, such as '1O' in row 17." in table.notices


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
    for scaled in (make_preprocessor(table.schema).fit_transform(found.X) for found in (table, large)):
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


@pytest.mark.parametrize(
    ("column", "names", "notice"),
    [
        ("hospital", ["Leeds", "Leeds ", "york"], "'Leeds', 'Leeds ' are different domains"),
        ("hospital", ["Leeds", "york", "LEEDS"], "'Leeds', 'LEEDS' are different domains"),
        ("diagnosis", ["ill", " Ill", "ill\xa0"], "'ill', ' Ill', 'ill\\xa0' are different classes"),
    ],
)
def test_names_that_differ_by_spaces_or_case_alone_are_reported(tmp_path, column, names, notice):
    values = [names[i % 3 if column == "hospital" else i // 2 % 3] for i in range(24)]
    table = load_table(written(tmp_path, changed(**{column: values}), "parquet"))
    assert f"{notice}. If they are the same, use one spelling." in table.notices
    assert not any("use one spelling" in notice for notice in load_table(written(tmp_path, FRAME)).notices)


LABELS = {
    "integers": ([3, 1, 2], [3, 1, 2], "i"),
    "whole floats": ([3.0, 1.0, 2.0], [3, 1, 2], "i"),
    "large integers": ([2**60 + 1, 2**60, 5], [2**60 + 1, 2**60, 5], "i"),
    "fractions": ([0.5, 1.0, 1.5], ["0.5", "1.0", "1.5"], "U"),
    "codes": (["007", "008", "9"], ["007", "008", "9"], "U"),
    "text": (["b", " b", "a,\n\"'🙂"], ["b", " b", "a,\n\"'🙂"], "U"),
    "truth": ([True, False, True], [True, False, True], "b"),
}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(("given_labels", "expected", "kind"), LABELS.values(), ids=LABELS)
def test_labels_stay_what_they_are(tmp_path, ending, given_labels, expected, kind):
    values = [label for label in given_labels for _ in range(8)]
    path = written(tmp_path, changed(diagnosis=values), ending)
    expected = [label for label in expected for _ in range(8)]
    y = load_table(path).y
    if given_labels[0] == 0.5 and ending == "parquet":
        expected = [label.removesuffix(".0") for label in expected]
    assert (y.tolist(), y.dtype.kind) == (expected, kind)


def test_a_domain_may_lack_some_classes_but_sharing_none_is_said(tmp_path):
    diagnoses = ["ill", "well", "well"] * 8
    table = load_table(written(tmp_path, changed(diagnosis=[f"{d}{i % 2}" for i, d in enumerate(diagnoses)])))
    assert "No class of these domains occurs in any other domain: 'bonn'." in table.notices


DAYS = pl.date_range(pl.date(2024, 1, 30), pl.date(2024, 2, 22), eager=True)


@pytest.mark.parametrize(
    "day",
    [
        DAYS,
        DAYS.cast(pl.Datetime("ms")),
        DAYS.cast(pl.String),
        DAYS.cast(pl.String) + "T00:00",
        DAYS.dt.strftime(" %F "),
    ],
    ids=["date", "datetime", "text", "text with time", "text with spaces"],
)
def test_dates_are_left_out_or_days_since_1970(tmp_path, day):
    path = written(tmp_path, changed(day=day), "parquet")
    table = load_table(path)
    assert "day" not in table.schema.feature_names
    assert (
        "Left out, since they are dates: 'day'. Set the parameter dates to ordinal to use them as days since 1970."
    ) in table.notices
    for asked in ({"dates": "ordinal"}, {"features": ["day"]}):
        used = load_table(path, **asked)
        assert used.schema.columns[-1].kind == "date"
        np.testing.assert_array_equal(used.X[:, -1], np.arange(24) + (DAYS[0] - date(1970, 1, 1)).days)


def test_times_are_parts_of_days_wherever_they_were_taken(tmp_path):
    moments = ["1970-01-02 12:00", "1970-01-02T13:00:00+01:00", "1970-01-02 09:30:00.000-0230", "1970-01-02T12:00Z"]
    table = load_table(
        written(tmp_path, changed(when=["NA", *moments * 5, "", "1970-01-01", "1970-01-01"])), dates="ordinal"
    )
    np.testing.assert_array_equal(table.X[:, -1], [np.nan, *[1.5] * 20, np.nan, 0.0, 0.0])


@pytest.mark.parametrize("odd", ["soon", "2024-02-31", "2024-01-01 25:00", "31.1.2024", "1/2/2024", "2024"])
def test_a_column_with_something_else_than_dates_holds_levels(tmp_path, odd):
    table = load_table(written(tmp_path, changed(day=[odd, *["2024-01-01", "2024-01-02"] * 11, odd])))
    assert table.schema.columns[-1].levels == tuple(sorted({odd, "2024-01-01", "2024-01-02"}))


WRITTEN = {"dd.mm.yyyy": "%d.%m.%Y", "dd/mm/yyyy": "%d/%m/%Y", "mm/dd/yyyy": "%m/%d/%Y"}


@pytest.mark.parametrize("short", [False, True], ids=["01.02.2024", "1.2.2024"])
@pytest.mark.parametrize("date_format", WRITTEN)
def test_dates_are_read_as_they_are_written_in_europe_and_in_america(tmp_path, date_format, short):
    pattern = WRITTEN[date_format].replace("%d", "%-d").replace("%m", "%-m") if short else WRITTEN[date_format]
    day = DAYS.dt.strftime(pattern)
    path = written(tmp_path, changed(day=day))
    left_out = load_table(path)
    assert left_out.left_out["day"] == "date"
    table = load_table(path, dates="ordinal")
    assert table.schema.columns[-1].date_format == date_format
    expected = np.arange(24) + (DAYS[0] - date(1970, 1, 1)).days
    np.testing.assert_array_equal(table.X[:, -1], expected)
    assert not any("to avoid ambiguity" in notice for notice in table.notices)
    for again in (DAYS, DAYS.cast(pl.String), day, day + " 12:00"):  # a new table may have them typed, or as ISO 8601
        X = table.schema.encode(changed(day=again))
        np.testing.assert_array_equal(X[:, -1], expected + 0.5 * str(again[0]).endswith("12:00"))
    with pytest.raises(TableError, match="column 'day' must hold dates"):
        table.schema.encode(changed(day=["31/31/2024"] * 24))


def test_dates_whose_day_and_month_cannot_be_told_apart_are_noted_where_they_are_used(tmp_path):
    path = written(tmp_path, changed(day=[f"{1 + i % 6:02d}/{1 + i % 12:02d}/2024" for i in range(24)]))
    table = load_table(path, dates="ordinal")
    expected_notice = (
        "Dates in 'day' are read as mm/dd/yyyy, but all of them are valid as dd/mm/yyyy too. Write dates as yyyy-mm-dd "
        "to avoid ambiguity."
    )
    assert expected_notice in table.notices
    expected = [(date(2024, 1 + i % 6, 1 + i % 12) - date(1970, 1, 1)).days for i in range(24)]
    np.testing.assert_array_equal(table.X[:, -1], expected)
    assert not any("to avoid ambiguity" in notice for notice in load_table(path).notices)


def test_integers_are_categories_where_they_are_declared_so(tmp_path):
    codes = [i % 3 + 1 if i % 8 else None for i in range(24)]
    for ending in ("csv", "parquet"):
        path = written(tmp_path, changed(code=codes), ending)
        assert load_table(path).schema.columns[-1].kind == "numeric"
        table = load_table(path, categories=["code"])
        column = table.schema.columns[-1]
        assert (column.kind, column.levels, column.missing) == ("categorical", ("1", "2", "3"), True)
        np.testing.assert_array_equal(table.X[:, -1], [np.nan if code is None else code - 1 for code in codes])
        for again in (codes, [c and float(c) for c in codes], [c and f"{c}.0" for c in codes]):
            np.testing.assert_array_equal(table.schema.encode(changed(code=again)), table.X)
    written_as_floats = written(tmp_path, changed(code=[c and float(c) for c in codes]), "csv", "floats")
    np.testing.assert_array_equal(load_table(written_as_floats, categories="code").X, table.X)


def test_declared_categories_are_features_whatever_they_look_like(tmp_path):
    path = written(tmp_path, changed(site_id=[i % 12 for i in range(24)], key=[f"k{i}" for i in range(24)], day=DAYS))
    kept = load_table(path, categories=["site_id", "key", "day"])
    kinds = {column.name: column.kind for column in kept.schema.columns}
    assert [kinds[name] for name in ("site_id", "key", "day")] == ["categorical"] * 3
    for wrong, said in (
        ("keys", "no column 'keys': did you mean 'key'"),
        ("diagnosis", "cannot be a category as well"),
    ):
        with pytest.raises(TableError, match=said):
            load_table(path, label="diagnosis", categories=[wrong])
    with pytest.raises(TypeError, match="categories must be names of columns"):
        load_table(path, categories=[1])


def admissions(n=600):
    """Rows of four hospitals, in the words of a well-known table of hospital stays."""
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "hospital": np.repeat(["a", "b", "c", "d"], n // 4),
            "encounter_id": rng.permutation(10 * n)[:n],
            "patient_nbr": 1000 * np.repeat(np.arange(4), n // 4) + rng.integers(0, n // 8, n),
            "discharge_disposition_id": rng.choice(26, n) + 1,
            "time_in_hospital": rng.integers(1, 15, n),
            "readmitted": rng.choice(["yes", "no"], n),
        }
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_codes_are_no_groups_and_patients_are(tmp_path, ending):
    path = written(tmp_path, admissions(), ending)
    table = load_table(path, label="readmitted")
    assert table.schema.feature_names == ["discharge_disposition_id", "time_in_hospital"]
    assert table.left_out == {"encounter_id": "identifier", "patient_nbr": "names a group"}
    assert (
        "'patient_nbr' repeats within domains. Set the parameter group to patient_nbr to keep its rows together."
    ) in table.notices
    declared = load_table(path, label="readmitted", categories=["discharge_disposition_id"])
    assert len(declared.schema.columns[0].levels) == 26


def test_what_is_called_an_id_names_groups_if_its_values_stay_in_their_domains(tmp_path):
    nested = admissions().with_columns(slide_id=pl.int_range(600) // 15, readmitted=pl.col("readmitted"))
    assert load_table(written(tmp_path, nested), label="readmitted").left_out["slide_id"] == "names a group"
    many = admissions().with_columns(case_id=pl.int_range(600) % 150 // 2)  # the same numbers in each hospital
    assert load_table(written(tmp_path, many), label="readmitted").left_out["case_id"] == "names a group"


@pytest.mark.parametrize("name", ["patient_nbr", "mrn", "MRN", "PatientNumber", "record no", "medical_record_number"])
def test_integers_that_differ_in_every_row_and_are_called_so_are_identifiers(tmp_path, name):
    numbers = np.random.default_rng(1).permutation(10_000)[:600]
    frame = admissions().drop("patient_nbr", "encounter_id").with_columns(pl.Series(name, numbers))
    table = load_table(written(tmp_path, frame), label="readmitted")
    assert table.left_out == {name: "identifier"}
    assert f"Left out, since they identify samples rather than describe them: {name!r}." in table.notices


def visits(**more):
    """Four hospitals, each with six patients who came twice, by the same numbers."""
    patients = [{"hospital": h, "patient_id": p} for h in "abcd" for p in range(6) for _ in range(2)]
    return pl.DataFrame(patients).with_columns(x=pl.int_range(48) * 7 % 11, label=pl.int_range(48) // 3 % 2, **more)


def test_patients_are_no_domains_beside_hospitals_and_are_no_features(tmp_path):
    table = load_table(written(tmp_path, visits()))
    assert (table.schema.domain, table.schema.feature_names, table.group) == ("hospital", ["x"], None)
    assert (
        "'patient_id' repeats within domains. Set the parameter group to patient_id to keep its rows together."
    ) in table.notices
    once = load_table(written(tmp_path, visits().unique(["hospital", "patient_id"], maintain_order=True)))
    assert not any("repeats" in notice for notice in once.notices)
    assert load_table(written(tmp_path, visits()), features=["patient_id"]).schema.feature_names == ["patient_id"]


def test_places_are_preferred_to_codes_and_two_places_are_asked_about(tmp_path):
    renamed = visits().rename({"hospital": "hospital_id"})
    assert load_table(written(tmp_path, renamed)).schema.domain == "hospital_id"
    coded = visits(study_id=pl.int_range(48) % 5)
    assert load_table(written(tmp_path, coded)).schema.domain == "hospital"
    with pytest.raises(TableError, match="'hospital', 'scanner' could each be the domain column"):
        load_table(written(tmp_path, visits(scanner=pl.int_range(48) % 5)))


def test_groups_go_with_their_rows(tmp_path):
    with pytest.raises(TableError, match=r"6 of 6 groups have rows in several domains, such as '0' in 'a', 'b', 'c'"):
        load_table(written(tmp_path, visits()), group="patient_id")
    nested = visits().with_columns(patient_id=pl.concat_str("hospital", "patient_id"))
    table = load_table(written(tmp_path, nested), group="patient_id", max_per_domain=6)
    assert table.group.tolist() == [f"{table.domain[i]}{row % 12 // 2}" for i, row in enumerate(table.rows)]
    kept = np.array([5, 1])
    assert table.take(kept).group.tolist() == table.group[kept].tolist()
    assert not any("repeats" in notice for notice in table.notices)
    for wrong, said in (("hospital", "both the domain and the group"), ("patient", "no column 'patient'")):
        with pytest.raises(TableError, match=said):
            load_table(written(tmp_path, visits()), domain="hospital", group=wrong)
    lost = visits().with_columns(patient_id=pl.when(pl.int_range(48) != 2).then("patient_id"))
    with pytest.raises(TableError, match="the group column 'patient_id' is missing in 1 row: row 3"):
        load_table(written(tmp_path, lost), group="patient_id")


def test_every_column_has_a_use_or_a_reason(tmp_path):
    frame = changed(one=[1] * 24, none=[None] * 24, record=[f"r{i}" for i in range(24)], day=DAYS)
    uses = load_table(written(tmp_path, frame, "parquet"), drop=["age"]).describe_columns()
    assert [use["column"] for use in uses[:2]] == ["diagnosis", "hospital"]
    left_out = {"age": "dropped", "one": "constant", "none": "all missing", "record": "identifier", "day": "date"}
    assert {use["column"]: use["why"] for use in uses if use["use"] == "left out"} == left_out
    assert sorted(use["column"] for use in uses) == sorted(frame.columns)
