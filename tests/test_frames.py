"""Frames of pandas and polars by the names of their columns: read, compared, diagnosed and fitted as files are."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

pd = pytest.importorskip("pandas")

import unseen  # noqa: E402
from unseen.tables import TableError, load_table  # noqa: E402
from written_tables import assert_same  # noqa: E402

N = 96
RNG = np.random.default_rng(3)
ILL = RNG.random(N) < 0.5
PATIENTS = pd.DataFrame(
    {
        "hospital": pd.Categorical(np.repeat(["bonn", "leeds", "york"], N // 3)),
        "patient_id": np.repeat(np.arange(24), 4),
        "age": RNG.normal(50, 10, N) + 15 * ILL,
        "weight": RNG.normal(70, 9, N).astype(np.float32),
        "sex": pd.array(RNG.choice(["f", "m"], N), dtype="string"),
        "smokes": pd.array([None, True, False] * (N // 3), dtype="boolean"),
        "visits": pd.array([None if i % 6 == 0 else i % 4 for i in range(N)], dtype="Int64"),
        "admitted": pd.date_range("2020-01-01", periods=N, freq="36h"),
        "seen": pd.date_range("2021-03-01 10:30", periods=N, freq="1D", tz="Europe/Berlin"),
        "born": [f"19{50 + i % 40}-0{1 + i % 9}-11" for i in range(N)],
        "ward": 7,
        "note": None,
        "diagnosis": np.where(ILL, "ill", "well"),
    }
)
ODD = PATIENTS.assign(
    band=pd.cut(PATIENTS["age"], 3),
    mixed=[1 if i % 2 else "a" for i in range(N)],
    half=pd.Series([1 if i % 2 else 2.5 for i in range(N)], dtype=object),  # whole numbers and others
).astype({"weight": float})  # single precision is written in fewer digits
ASKED = [{}, {"dates": "ordinal", "group": "patient_id"}, {"features": ["age", "born"], "max_per_domain": 10}]


@pytest.mark.parametrize(("asked", "unit"), list(zip(ASKED, ["s", "ns", "ms"], strict=True)), ids=str)
def test_a_frame_is_read_as_its_parquet_file(tmp_path, asked, unit):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    frame = PATIENTS.astype({"admitted": f"datetime64[{unit}]"})
    frame.to_parquet(tmp_path / "patients.parquet", index=False)
    expected = load_table(tmp_path / "patients.parquet", **asked)
    path = tmp_path / "patients.parquet"
    for same in (frame, pl.read_parquet(path), pl.scan_parquet(path), pyarrow.parquet.read_table(path)):
        found = load_table(same, **asked)
        assert_same(found, expected)
        assert (found.notices, found.left_out) == (expected.notices, expected.left_out)
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_array_equal(found.group, expected.group)


@pytest.mark.parametrize(
    "levels",
    [[1, 2, 3], [1.0, 2.5, 3.0], ["1", "2", "3"], [True, False, True], ["2024-01-01", "2024-01-02", "2024-01-03"]],
    ids=["integers", "floats", "digits", "booleans", "dates"],
)
def test_columns_of_a_categorical_type_are_categories_whatever_their_values(levels):
    values = [levels[i % 3] for i in range(N)]
    plain = load_table(PATIENTS.assign(grade=values)).schema.columns
    assert all(column.kind != "categorical" for column in plain if column.name == "grade")
    pandas = PATIENTS.assign(grade=pd.Categorical(values))
    names = sorted({str(value).removesuffix(".0") for value in values})
    frames = [pandas]
    if isinstance(levels[0], str):
        polars = pl.DataFrame({name: PATIENTS[name].to_list() for name in ("hospital", "age", "diagnosis")})
        frames += [
            polars.with_columns(grade=pl.Series(values, dtype=kind)) for kind in (pl.Categorical, pl.Enum(levels))
        ]
    for frame in frames:
        column = load_table(frame).schema.columns[-1]
        assert (column.name, column.kind, list(column.levels)) == ("grade", "categorical", names)
    table = load_table(pandas)
    np.testing.assert_array_equal(table.schema.encode(pl.DataFrame(_plain(pandas, values))), table.X)


def _plain(frame, values):
    """The same columns with plain values in the place of categories."""
    kept = ("age", "weight", "sex", "smokes", "visits")
    columns = {name: frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in kept}
    return {**columns, "grade": values}


def test_what_is_wrong_with_a_frame_is_told_as_of_a_file():
    with pytest.raises(TableError, match="The frame cannot be used:\n- it has no column 'diagnoses': did you mean"):
        load_table(PATIENTS, label="diagnoses")
    with pytest.raises(TableError, match=r"2 columns are called 'age'\. Rename them"):
        load_table(PATIENTS.rename(columns={"weight": "age"}))
    gap = PATIENTS.assign(diagnosis=PATIENTS["diagnosis"].where(PATIENTS.index != 4))
    with pytest.raises(TableError, match="'diagnosis' is missing in 1 row: row 5"):
        load_table(gap)
    assert len(load_table(gap, unlabeled="NA").y) == N - 1


def test_a_frame_may_come_beside_labels_and_domains():
    X = PATIENTS[["age", "weight"]]
    few = {"methods": ["1-NN"], "quick": True}
    found = unseen.compare(X, PATIENTS["diagnosis"], sample_domain=PATIENTS["hospital"], **few)
    assert found.to_dict()["data"]["n_features"] == 2


def test_a_missing_label_of_pandas_is_told_in_our_words():
    X, domain = PATIENTS[["age", "weight"]].to_numpy(), PATIENTS["hospital"].to_numpy()
    for kind in ("Int64", "string", "object"):
        y = pd.Series(ILL.astype(int)).astype(kind)
        y.iloc[3] = pd.NA
        for model in (unseen.KFDA(), unseen.UndoBias(), unseen.UnseenClassifier()):
            with pytest.raises(ValueError, match=r"y has no label for 1 of 96 samples \(first at position 3\)"):
                model.fit(X, y, sample_domain=domain)
        with pytest.raises(ValueError, match="y has no label for 1 of 96 samples"):
            unseen.diagnose(X, y, sample_domain=domain)


def test_a_dask_dataframe_is_told_how_to_be_read():
    dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
    with pytest.raises(TypeError, match=r"Dask dataframe cannot be read as a table. Pass the path.* compute\(\)"):
        load_table(dd.from_pandas(PATIENTS[["hospital", "age", "diagnosis"]], npartitions=2))


def test_a_panic_of_polars_becomes_an_error_that_names_the_frame(monkeypatch):
    """A panic is no Exception: left alone, it would pass every handler of the caller."""

    def panic(*_, **__):
        raise pl.exceptions.PanicException("assertion failed: offsets")

    monkeypatch.setattr("unseen.tables._values.convert_column", panic)
    with pytest.raises(
        TableError, match=r"The frame cannot be used:\n- it cannot be read: assertion failed: offsets\."
    ):
        load_table(PATIENTS)


# Runs in a process in which no package of an extra can be imported.
WITHOUT_EXTRAS = """
import sys

EXTRAS = "dask distributed fastexcel jinja2 matplotlib onnx onnxruntime PIL pooch rich skops typer xlsxwriter"

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS.split():
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocker())
import pandas as pd
import unseen

frame = pd.DataFrame({"age": [20, 30, 60, 70] * 6, "ill": ["no", "no", "yes", "yes"] * 6})
frame["hospital"] = [f"{i // 8}" for i in range(24)]
model = unseen.fit(frame, label="ill", domain="hospital", methods="logistic")
print(model)
print(model.predict(frame.head(3)).tolist())
try:
    model.save("model.unseen")
except ImportError as error:
    print(error)
"""


def test_a_frame_of_pandas_needs_no_extra(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_EXTRAS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *_, labels, said = done.stdout.splitlines()
    assert labels == "['no', 'no', 'yes']"
    assert "needs skops" in said
    assert "pip install 'unseen[cli]'" in said
    assert not list(tmp_path.iterdir())


# Prints what forked processes say that read a table, before their parent has done so and after it.
FORKED = """
import os
import unseen.tables
from unseen.tables import load_table

columns = {"age": list(range(24)), "ill": [0, 1] * 12, "site": ["a"] * 12 + ["b"] * 12}
columns["age"][0] = 5
for _ in range(2):
    if os.fork() == 0:
        try:
            print(len(load_table(columns, label="ill", domain="site").X), flush=True)
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    os.wait()
    load_table(columns, label="ill", domain="site")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_reads_tables_or_says_why_not():
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    before, after = done.stdout.splitlines()
    assert before == "24", done.stderr
    assert "in a process that was forked after tables" in after
