"""Folders with one file per domain: every format gives the same data, and every mistake is named."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.io import savemat
from scipy.sparse import csr_array

from unseen.datasets import load_folder, load_vlcs

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(6, 4))
Y = np.array([1, 2, 3, 1, 2, 3])
WORDS = np.array(["ant", "bee", "cat", "ant", "bee", "cat"])


def save_mat(path, features, labels):
    savemat(path, {"fts": features, "labels": np.asarray(labels)[:, None]})


def save_npz(path, features, labels):
    np.savez(path, X=features, y=labels)


def save_csv(path, features, labels):
    rows = [",".join([*map(repr, row.tolist()), str(label)]) for row, label in zip(features, labels, strict=True)]
    header = ",".join([f"f{i}" for i in range(features.shape[1])] + ["label"])
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")


def save_parquet(path, features, labels):
    columns = {f"f{i}": column for i, column in enumerate(features.T)}
    pl.DataFrame({**columns, "gt": labels}).write_parquet(path)


FORMATS = {
    "mat": ("mat", save_mat),
    "npz": ("npz", save_npz),
    "csv": ("csv", save_csv),
    "parquet": ("parquet", save_parquet),
}


@pytest.fixture(params=FORMATS)
def save(request, tmp_path):
    """Write one domain in each of the formats."""
    ending, write = FORMATS[request.param]
    return lambda name, features, labels: write(tmp_path / f"{name}.{ending}", features, labels)


@pytest.mark.parametrize("labels", [Y, WORDS], ids=["integers", "strings"])
def test_every_format_gives_the_same_data(save, labels, tmp_path):
    save("one", X, labels)
    save("two", X[:3] + 1, labels[:3])
    (tmp_path / "README.md").write_text("not data", encoding="utf-8")
    data = load_folder(tmp_path)
    np.testing.assert_allclose(data.data, np.vstack([X, X[:3] + 1]), rtol=1e-15)
    assert data.target.tolist() == [*labels, *labels[:3]]
    assert data.target.dtype.kind == labels.dtype.kind
    assert data.domain.tolist() == ["one"] * 6 + ["two"] * 3
    assert data.target_names == sorted({str(label) for label in labels})


def test_square_files_of_matlab_are_read_as_matlab_shows_them(tmp_path):
    square = RANDOM.normal(size=(6, 6))
    save_mat(tmp_path / "old.mat", square, Y)
    save_npz(tmp_path / "new.npz", square, Y)
    data = load_folder(tmp_path)
    np.testing.assert_array_equal(data.data, np.vstack([square, square]))


@pytest.mark.parametrize("matrix", [X, X.T], ids=["rows", "columns"])
def test_the_number_of_labels_tells_rows_from_columns(matrix, tmp_path):
    np.savez(tmp_path / "a.npz", features=matrix, gt=Y[None])
    savemat(tmp_path / "b.mat", {"data": matrix, "Y": Y})
    np.testing.assert_array_equal(load_folder(tmp_path).data, np.vstack([X, X]))


def test_text_of_matlab_in_a_matrix_or_in_cells_gives_the_same_labels(tmp_path):
    cells = np.empty((6, 1), dtype=object)
    cells[:, 0] = WORDS
    savemat(tmp_path / "cells.mat", {"X": X, "labels": cells})
    savemat(tmp_path / "matrix.mat", {"X": X, "labels": np.array([w.ljust(5) for w in WORDS])})
    data = load_folder(tmp_path)
    assert data.target.tolist() == [*WORDS, *WORDS]


def test_sparse_counts_become_dense_doubles(tmp_path):
    counts = RANDOM.integers(0, 3, size=(6, 4)).astype(np.uint8)
    savemat(tmp_path / "sparse.mat", {"fts": csr_array(counts.astype(float)), "labels": Y})
    savemat(tmp_path / "bytes.mat", {"fts": counts, "labels": Y})
    data = load_folder(tmp_path)
    np.testing.assert_array_equal(data.data, np.vstack([counts, counts]))
    assert data.data.dtype == np.float64


def test_single_precision_stays_single(tmp_path):
    np.savez(tmp_path / "a.npz", X=X.astype(np.float32), y=Y)
    assert load_folder(tmp_path).data.dtype == np.float32


def test_given_names_override_the_usual_ones(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, deep=X + 1, y=Y, kind=WORDS)
    data = load_folder(tmp_path, features="deep", label="kind")
    np.testing.assert_array_equal(data.data, X + 1)
    assert data.target.tolist() == WORDS.tolist()


@pytest.mark.parametrize("start", [0, 1])
def test_classes_name_the_labels_from_zero_or_one(start, tmp_path):
    np.savez(tmp_path / "a.npz", X=X, y=Y - 1 + start, classes=["ant", "bee", "cat"])
    assert load_folder(tmp_path).target_names == ["ant", "bee", "cat"]


def test_classes_are_not_guessed_where_labels_do_not_tell_their_start(tmp_path):
    np.savez(tmp_path / "a.npz", X=X[:2], y=[1, 2], classes=["ant", "bee", "cat"])
    assert load_folder(tmp_path).target_names == ["1", "2"]
    np.savez(tmp_path / "a.npz", X=X[:2], y=[0, 2], classes=["ant", "bee", "cat"])
    assert load_folder(tmp_path).target_names == ["ant", "cat"]


def test_columns_of_tables_are_matched_by_name_and_text_is_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("u,v,file,y\n1,2,p,0\n3,NA,q,1\n", encoding="utf-8")
    (tmp_path / "[b].csv").write_text("file,y,v,u\np,0,20,10\n", encoding="utf-8")
    data = load_folder(tmp_path)
    assert data.feature_names == ["v", "u"]
    assert data.domain_names == ["[b]", "a"]
    np.testing.assert_array_equal(data.data, [[20, 10], [2, 1], [np.nan, 3]])
    assert "Left out, since they are not numbers: 'file'." in data.DESCR
    assert load_folder(tmp_path, features=["u"]).feature_names == ["u"]
    assert load_folder(tmp_path, label="file").target_names == ["p", "q"]


def test_tables_are_read_as_load_table_reads_them(tmp_path):
    """Semicolons, decimal commas, marks of missing values; but what nothing can be learned from stays."""
    (tmp_path / "a.csv").write_text("u;v;always;y\n1,5;?;1;0\n", encoding="utf-8")
    data = load_folder(tmp_path)
    np.testing.assert_array_equal(data.data, [[1.5, np.nan, 1]])
    assert (data.feature_names, data.target.tolist(), data.domain_names) == (["u", "v", "always"], [0], ["a"])


def test_the_only_matrix_is_the_features_and_labels_may_be_called_otherwise_in_each_file(tmp_path):
    np.savez(tmp_path / "a.npz", pixels=X, gt=Y)
    np.savez(tmp_path / "b.npz", pixels=X.T, labels=Y, weight=np.arange(4))
    data = load_folder(tmp_path)
    np.testing.assert_array_equal(data.data, np.vstack([X, X]))
    assert data.target.tolist() == [*Y, *Y]


def test_pickled_objects_are_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return exec, ("raise SystemExit('a pickle was run')",)

    np.savez(tmp_path / "a.npz", X=np.array([Bomb()], dtype=object), y=[1])
    with pytest.raises(ValueError, match="not a plain array, so not read"):
        load_folder(tmp_path)
    np.savez(tmp_path / "a.npz", X=X, y=Y, more=np.array([Bomb()], dtype=object))
    assert load_folder(tmp_path).data.shape == (6, 4)


CASES = {
    "no features": (
        {"a": {"p": X, "q": X, "y": Y}},
        r"a.npz: .*not clear which array holds the features.*'p \(6 x 4 float64\)'",
    ),
    "no labels": ({"a": {"X": X, "kind": Y}}, r"holds the labels. Set the parameter label\..*'feature_3', 'kind'"),
    "two features": (
        {"a": {"X": X, "data": X, "y": Y}},
        r"the parameter features. The arrays are 'X \(6 x 4 .*'data \(6 x 4",
    ),
    "two labels": (
        {"a": {"X": X, "gt": Y, "y": Y}},
        "'gt', 'y' could each be the label column. Set the parameter label",
    ),
    "lengths": ({"a": {"X": X, "y": Y[:5]}}, "'X' is 6 x 4 float64, but 'y' holds 5 labels"),
    "images": ({"a": {"X": X.reshape(6, 2, 2), "y": Y}}, "must be a matrix of numbers.*6 x 2 x 2"),
    "text features": ({"a": {"X": X.astype(str), "y": Y}}, "must be a matrix of numbers.*6 x 4 text"),
    "complex": ({"a": {"X": X * 1j, "y": Y}}, "must be a matrix of numbers.*complex"),
    "one-hot": ({"a": {"X": X, "y": np.eye(6)}}, "one integer or string per sample; it is 6 x 6"),
    "one number": ({"a": {"X": X, "y": 3}}, "one integer or string per sample; it is 1 int64"),
    "regression": (
        {"a": {"X": X, "y": X[:, 0]}},
        "6 distinct values in 6 rows, .*: they look like measurements",
    ),
    "missing label": ({"a": {"X": X, "y": [1, 2, np.nan, 1, 2, 3]}}, "'y' is missing in 1 row: row 3"),
    "infinite label": ({"a": {"X": X, "y": [1, 2, np.inf, 1, 2, 3]}}, "'inf': they look like measurements"),
    "empty string": ({"a": {"X": X, "y": ["a", " ", "a", "", "b", "b"]}}, "'y' is missing in 2 rows: rows 2, 4"),
    "dates": ({"a": {"X": X, "y": np.arange(6).astype("M8[D]")}}, "integer or string per sample; it is 6 datetime64"),
    "empty": ({"a": {"X": np.empty((0, 4)), "y": []}}, "must be a matrix of numbers.*0 x 4"),
    "widths": ({"a": {"X": X, "y": Y}, "b": {"X": X[:, :3], "y": Y}}, "differ in their columns: b lacks 'feature_3'"),
    "kinds": ({"a": {"X": X, "y": Y}, "b": {"X": X, "y": WORDS}}, "'b' has words, 'a' has numbers"),
    "few classes": (
        {"a": {"X": X, "y": Y, "classes": ["ant", "bee"]}},
        "2 names, which do not match the labels 1, 2, 3",
    ),
    "other classes": (
        {"a": {"X": X, "y": Y, "classes": ["p", "q", "r"]}, "b": {"X": X, "y": Y, "classes": ["p", "r", "q"]}},
        "'classes' differs: a has p, q, r; b has p, r, q",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_inside_arrays_is_said(case, tmp_path):
    files, message = CASES[case]
    for name, arrays in files.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_folder(tmp_path)


TABLES = {
    "no label": ({"a": "u,v\n1,2\n"}, "not clear which column holds the labels.*'u', 'v'"),
    "no numbers": ({"a": "u,y\nx,2\n"}, "no columns are left to be features"),
    "no rows": ({"a": "u,y\n"}, r"header but no rows \(a.csv\)"),
    "nothing": ({"a": ""}, "a.csv: "),
    "missing label": ({"a": "u,y\n1,0\n2,NA\n"}, "'y' is missing in 1 row: row 2"),
    "columns": ({"a": "u,v,y\n1,2,0\n", "b": "u,w,y\n1,2,0\n"}, "a lacks 'w'; b lacks 'v'"),
}


@pytest.mark.parametrize("case", TABLES)
def test_what_is_wrong_with_tables_is_said(case, tmp_path):
    files, message = TABLES[case]
    for name, text in files.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"label": "kind"}, ValueError, "no column 'kind': the columns are .*'feature_3', 'y'"),
        ({"features": "deep"}, ValueError, "no column 'deep': the columns are"),
        ({"features": ["X", "y"]}, ValueError, "no column 'X': "),
        ({"features": 3}, TypeError, "features must be names of columns; got 3"),
        ({"label": 3}, TypeError, "label must be the name of a column; got 3"),
    ],
)
def test_wrong_names_for_arrays_are_refused(options, error, message, tmp_path):
    np.savez(tmp_path / "a.npz", X=X, y=Y)
    with pytest.raises(error, match=message):
        load_folder(tmp_path, **options)


@pytest.mark.parametrize(
    ("features", "message"),
    [(["u", "w"], "no column 'w'"), (["u", "t"], "must be columns of numbers; 't' are not"), ("y", "'y'")],
)
def test_wrong_names_for_columns_are_refused(features, message, tmp_path):
    (tmp_path / "a.csv").write_text("u,t,y\n1,x,0\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_folder(tmp_path, features=features)


def test_all_problems_of_all_files_are_reported_at_once(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, y=Y)
    np.savez(tmp_path / "b.npz", X=X[:, :2], y=Y)
    np.savez(tmp_path / "c.npz", pixels=X, voxels=X, y=Y)
    savemat(tmp_path / "a.mat", {"X": X, "y": Y})
    np.save(tmp_path / "single.npy", X)
    (tmp_path / "single.npy").rename(tmp_path / "single.npz")
    (tmp_path / "torn.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:300])
    (tmp_path / "noise.mat").write_bytes(b"no matrix at all" * 20)
    with pytest.raises(ValueError, match="cannot be used") as caught:
        load_folder(tmp_path)
    text = str(caught.value)
    for part in [
        "c.npz: ",
        "single.npz: it cannot be read: it is a single array",
        "torn.npz: ",
        "noise.mat: ",
        "are called 'a',",
        "b lacks 'feature_2'",
    ]:
        assert part in text
    assert text.count("\n- ") == 6


def test_all_that_matlab_files_may_hold_is_passed_over_unharmed(tmp_path):
    cells = np.empty((2, 1), dtype=object)
    cells[:, 0] = ["a", "longer"]
    more = {
        "s": {"inner": np.eye(2), "cells": cells},
        "e": np.empty((0, 3)),
        "z": np.eye(2) * 1j,
        "t": np.array(["ab"]),
    }
    for compressed in (False, True):
        savemat(tmp_path / "a.mat", {"X": X, "y": Y, **more}, do_compression=compressed)
        np.testing.assert_array_equal(load_folder(tmp_path).data, X)


def test_damaged_and_truncated_matlab_files_are_all_reported(tmp_path):
    savemat(tmp_path / "a.mat", {"X": X, "y": Y}, do_compression=True)
    content = bytearray((tmp_path / "a.mat").read_bytes())
    content[160] ^= 255
    (tmp_path / "a.mat").write_bytes(content)
    savemat(tmp_path / "b.mat", {"X": X, "y": Y})
    (tmp_path / "b.mat").write_bytes((tmp_path / "b.mat").read_bytes()[:132])
    with pytest.raises(ValueError, match=r"a\.mat: it cannot be read(.|\n)*b\.mat: it cannot be read"):
        load_folder(tmp_path)


def test_sparse_entries_beyond_the_matrix_are_refused(tmp_path):
    savemat(tmp_path / "a.mat", {"X": csr_array(np.eye(6)), "y": Y})
    content = (tmp_path / "a.mat").read_bytes()
    rows = np.arange(6, dtype=np.int32).tobytes()
    assert content.count(rows) >= 1
    (tmp_path / "a.mat").write_bytes(content.replace(rows, (np.arange(6, dtype=np.int32) + 10**6).tobytes(), 1))
    with pytest.raises(ValueError, match=r"a\.mat: "):
        load_folder(tmp_path)


def test_tables_and_arrays_do_not_mix(tmp_path):
    save_npz(tmp_path / "a.npz", X, Y)
    save_csv(tmp_path / "b.csv", X, Y)
    with pytest.raises(ValueError, match=r"a lacks 'f0', .*; b lacks 'feature_0'"):
        load_folder(tmp_path)


def test_paths_that_are_no_folder_of_data_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_folder(tmp_path / "absent")
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    with pytest.raises(NotADirectoryError, match="is a file"):
        load_folder(tmp_path / "notes.txt")
    with pytest.raises(ValueError, match=r"one file per domain, .*\.npz, \.mat; it holds 'notes.txt'"):
        load_folder(tmp_path)


def test_a_matlab_file_of_version_7_3_is_told_how_to_be_saved(tmp_path):
    (tmp_path / "a.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(512))
    with pytest.raises(ValueError, match=r"a\.mat: it cannot be read: it is a MATLAB file of version 7\.3\. Save it"):
        load_folder(tmp_path)


def vlcs(folder, names, labels=(1, 2, 3, 4, 5), **more):
    for shift, name in enumerate(names):
        np.savez(folder / f"{name}.npz", X=np.full((5, 3), shift), y=labels, **more)
    return folder


@pytest.mark.parametrize(
    "names",
    [
        ("V", "L", "C", "S"),
        ("v", "l", "c", "s"),
        ("VOC2007", "LabelMe", "Caltech101", "SUN09"),
        ("PASCAL", "LABELME", "CALTECH", "SUN"),
        ("Pascal_decaf6", "labelme-decaf6", "vlcs caltech 101", "sun09.decaf"),
    ],
)
@pytest.mark.parametrize("labels", [(1, 2, 3, 4, 5), (0, 1, 2, 3, 4), ("Bird", "Car", "Chair", "Dog", "Person")])
def test_vlcs_is_recognized_under_its_many_names(names, labels, tmp_path):
    data = load_vlcs(vlcs(tmp_path, names, labels))
    assert data.domain_names == ["V", "L", "C", "S"]
    assert data.data[::5, 0].tolist() == [0, 1, 2, 3]
    assert data.target.tolist() == [0, 1, 2, 3, 4] * 4
    assert data.target_names == ["bird", "car", "chair", "dog", "person"]


def test_a_collection_of_vlcs_may_lack_a_class_that_others_have(tmp_path):
    vlcs(tmp_path, ["V", "L", "C", "S"])
    np.savez(tmp_path / "L.npz", X=np.ones((2, 3)), y=[2, 5])
    assert load_vlcs(tmp_path).target.tolist()[5:7] == [1, 4]


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (("V", "L", "C"), {}, r"no file for S \(also called sun, sun09\)"),
        (("V", "L", "C", "S", "Pascal"), {}, "Pascal and V are all recognized as V"),
        (("V", "L", "C", "S", "flickr"), {}, "flickr is not recognized"),
        (("V", "L", "C", "sun_caltech"), {}, "sun_caltech is not recognized"),
        (("V", "L", "C", "S"), {"labels": (2, 3, 4, 5, 6)}, "must be 1 to 5, or 0 to 4"),
        (("V", "L", "C", "S"), {"labels": (1, 1, 2, 3, 4)}, "V has 1, 2, 3, 4"),
        (("V", "L", "C", "S"), {"labels": ("bird", "car", "cat", "dog", "person")}, "bird, car, cat"),
        (("V", "L", "C", "S"), {"classes": ["car", "bird", "chair", "dog", "person"]}, "in this order; it is car"),
    ],
)
def test_what_is_not_vlcs_is_refused(names, options, message, tmp_path):
    with pytest.raises(ValueError, match=message) as caught:
        load_vlcs(vlcs(tmp_path, names, **options))
    assert "use load_folder" in str(caught.value)


def test_files_of_vlcs_that_count_differently_are_refused(tmp_path):
    vlcs(tmp_path, ["V", "L", "C", "S"])
    np.savez(tmp_path / "S.npz", X=np.ones((5, 3)), y=[0, 1, 2, 3, 4])
    with pytest.raises(ValueError, match=r"the same in all files; .*S has 0, 1, 2, 3, 4"):
        load_vlcs(tmp_path)


def test_parquet_at_which_polars_panics_is_called_damaged(tmp_path):
    file = tmp_path / "a.parquet"
    pl.DataFrame({"x": np.arange(30.0), "label": [1, 2, 1] * 10}).write_parquet(file)
    content = bytearray(file.read_bytes())
    content[16] ^= 127  # in the header of the first page
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot be used:\n- a\.parquet: it cannot be read"):
        load_folder(tmp_path)
