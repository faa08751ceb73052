"""Folders with one file per domain: every format gives the same data, and every mistake is named."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.io import savemat
from scipy.sparse import csr_array

from unseen.datasets import load_vlcs
from unseen.tables import load_table

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(6, 4))
Y = np.array([1, 2, 3, 1, 2, 3])
WORDS = np.array(["ant", "bee", "cat", "ant", "bee", "cat"])


def read(folder, **options):
    return load_table(folder, min_domain_rows=1, **options)


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
    data = read(tmp_path)
    np.testing.assert_allclose(data.X, np.vstack([X, X[:3] + 1]), rtol=1e-15)
    assert data.y.tolist() == [*labels, *labels[:3]]
    assert data.y.dtype.kind == labels.dtype.kind
    assert data.domain.tolist() == ["one"] * 6 + ["two"] * 3


SQUARE = RANDOM.normal(size=(6, 6))
COUNTS = RANDOM.integers(0, 3, size=(6, 4)).astype(np.uint8)
CELLS = np.empty((6, 1), dtype=object)
CELLS[:, 0] = WORDS
OTHER = {"s": {"inner": np.eye(2), "cells": CELLS[:2]}, "e": np.empty((0, 3)), "z": np.eye(2) * 1j}
ARRAYS = {
    "square": ({"fts": SQUARE, "y": Y[:, None]}, SQUARE, Y),
    "rows": ({"features": X, "y": Y}, X, Y),
    "columns": ({"data": X.T, "y": Y[None]}, X, Y),
    "only matrix": ({"pixels": X.T, "y": Y, "weight": np.arange(4)}, X, Y),
    "bytes": ({"fts": COUNTS, "y": Y}, COUNTS, Y),
    "text": ({"X": X, "y": np.array([word.ljust(5) for word in WORDS])}, X, WORDS),
}
MATLAB = {
    "other content": ({"X": X, "y": Y, **OTHER}, X, Y),
    "sparse": ({"fts": csr_array(COUNTS.astype(float)), "y": Y}, COUNTS, Y),
    "cells": ({"X": X, "y": CELLS}, X, WORDS),
}


@pytest.mark.parametrize("ending", ["npz", "mat"])
@pytest.mark.parametrize("case", [*ARRAYS, *MATLAB])
def test_arrays_are_a_matrix_of_features_and_vectors_of_the_samples(case, ending, tmp_path):
    if case in MATLAB and ending == "npz":
        pytest.skip("NumPy stores these as pickled objects")
    arrays, matrix, labels = (ARRAYS | MATLAB)[case]
    for name in ("one", "two"):
        if ending == "npz":
            np.savez(tmp_path / f"{name}.npz", **arrays)
        else:
            savemat(tmp_path / f"{name}.mat", arrays, do_compression=name == "two")
    data = read(tmp_path)
    np.testing.assert_array_equal(data.X, np.vstack([matrix, matrix]))
    assert data.y.tolist() == [*labels, *labels]


def test_columns_of_tables_are_matched_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("u;v;file;y\n1,5;2;p;0\n3;?;q;1\n4;5;p;1\n", encoding="utf-8")
    (tmp_path / "[b].csv").write_text("file,y,v,u\np,0,20,10\nq,1,30,11\n", encoding="utf-8")
    data = read(tmp_path)
    assert data.schema.feature_names == ["file", "v", "u"]
    assert np.unique(data.domain).tolist() == ["[b]", "a"]
    np.testing.assert_array_equal(data.X[:, 1:], [[20, 10], [30, 11], [2, 1.5], [np.nan, 3], [5, 4]])
    assert any("Each file is a domain" in notice for notice in data.notices)
    assert read(tmp_path, features=["u"]).schema.feature_names == ["u"]
    assert np.unique(read(tmp_path, label="file").y).tolist() == ["p", "q"]


def test_pickled_objects_are_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return exec, ("raise SystemExit('a pickle was run')",)

    save_npz(tmp_path / "b.npz", X, Y)
    for arrays in ({"X": np.array([Bomb()], dtype=object), "y": [1]}, {"X": X, "y": Y, "more": np.array([Bomb()])}):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
            read(tmp_path)


CASES = {
    "no features": ({"p": X, "q": X, "y": Y}, r"not clear which array holds the features.* p \(6 x 4 float64\)"),
    "no labels": ({"X": X, "kind": Y}, r"holds the labels. Set the parameter label\..*'feature_3', 'kind'"),
    "two features": ({"X": X, "data": X, "y": Y}, r"The arrays are X \(6 x 4 .*data \(6 x 4"),
    "two labels": ({"X": X, "gt": Y, "y": Y}, "'gt', 'y' could each be the label column"),
    "lengths": ({"X": X, "y": Y[:5]}, "not clear which column holds the labels"),
    "images": ({"X": X.reshape(6, 2, 2), "y": Y}, "Name a matrix of numbers X.*6 x 2 x 2"),
    "text features": ({"X": X.astype(str), "y": Y}, "Name a matrix of numbers X.*6 x 4 text"),
    "complex": ({"X": X * 1j, "y": Y}, "Name a matrix of numbers X.*complex"),
    "one-hot": ({"X": X, "y": np.eye(6)}, "not clear which column holds the labels"),
    "one number": ({"X": X, "y": 3}, "not clear which column holds the labels"),
    "missing label": ({"X": X, "y": [1, 2, np.nan, 1, 2, 3]}, "'y' is missing in 2 rows: rows 3 of a.npz, 3 of b.npz"),
    "empty string": ({"X": X, "y": ["a", " ", "a", "", "b", "b"]}, "'y' is missing in 4 rows"),
    "empty": ({"X": np.empty((0, 4)), "y": []}, "Name a matrix of numbers X.*0 x 4"),
}


@pytest.mark.parametrize(("arrays", "message"), CASES.values(), ids=CASES)
def test_what_is_wrong_inside_arrays_is_said(arrays, message, tmp_path):
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read(tmp_path)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"label": "kind"}, ValueError, "no column 'kind': the columns are .*'feature_3', 'y'"),
        ({"features": ["X", "y"]}, ValueError, "no column 'X': "),
        ({"features": 3}, TypeError, "features must be names of columns; got 3"),
        ({"label": 3}, TypeError, "label must be the name of a column; got 3"),
    ],
)
def test_wrong_names_are_refused(options, error, message, tmp_path):
    save_npz(tmp_path / "a.npz", X, Y)
    with pytest.raises(error, match=message):
        read(tmp_path, **options)


def test_all_problems_of_all_files_are_reported_at_once(tmp_path):
    save_npz(tmp_path / "a.npz", X, Y)
    np.savez(tmp_path / "c.npz", pixels=X, voxels=X, y=Y)
    savemat(tmp_path / "a.mat", {"X": X, "y": Y}, do_compression=True)
    np.save(tmp_path / "single.npy", X)
    (tmp_path / "single.npy").rename(tmp_path / "single.npz")
    (tmp_path / "torn.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:300])
    (tmp_path / "noise.mat").write_bytes(b"no matrix at all" * 20)
    damaged = bytearray((tmp_path / "a.mat").read_bytes())
    damaged[160] ^= 255
    (tmp_path / "damaged.mat").write_bytes(damaged)
    savemat(tmp_path / "short.mat", {"X": X, "y": Y})
    (tmp_path / "short.mat").write_bytes((tmp_path / "short.mat").read_bytes()[:132])
    savemat(tmp_path / "beyond.mat", {"X": csr_array(np.eye(6)), "y": Y})
    rows = np.arange(6, dtype=np.int32)
    content = (tmp_path / "beyond.mat").read_bytes()
    assert content.count(rows.tobytes()) >= 1
    (tmp_path / "beyond.mat").write_bytes(content.replace(rows.tobytes(), (rows + 10**6).tobytes(), 1))
    (tmp_path / "new.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(512))
    with pytest.raises(ValueError, match="cannot be used") as caught:
        read(tmp_path)
    text = str(caught.value)
    names = ["c.npz", "single.npz", "torn.npz", "noise.mat", "damaged.mat", "short.mat", "beyond.mat", "new.mat"]
    for part in [*(f"{name}: it cannot be read: " for name in names), "are called 'a',", "Save it with '-v7'"]:
        assert part in text


def test_paths_that_are_no_folder_of_data_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    for name in ("absent", "notes.txt"):
        with pytest.raises(NotADirectoryError, match="is not a folder"):
            load_vlcs(tmp_path / name)
    with pytest.raises(ValueError, match="a folder must hold one file per domain"):
        read(tmp_path)


def vlcs(folder, names, labels=(1, 2, 3, 4, 5)):
    for shift, name in enumerate(names):
        np.savez(folder / f"{name}.npz", X=np.full((5, 3), shift), y=labels)
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
        (("V", "L", "C"), {}, "one file for each of .* recognized are C as C, L as L, V as V"),
        (("V", "L", "C", "S", "Pascal"), {}, "recognized are C as C, L as L, Pascal as V, S as S, V as V"),
        (("V", "L", "C", "S", "flickr"), {}, "flickr as unknown"),
        (("V", "L", "C", "sun_caltech"), {}, "sun_caltech as unknown"),
        (("V", "L", "C", "S"), {"labels": (2, 3, 4, 5, 6)}, "must be 1 to 5, or 0 to 4"),
        (("V", "L", "C", "S"), {"labels": (1, 1, 2, 3, 4)}, "got 1, 2, 3, 4"),
        (("V", "L", "C", "S"), {"labels": ("bird", "car", "cat", "dog", "person")}, "bird, car, cat"),
    ],
)
def test_what_is_not_vlcs_is_refused(names, options, message, tmp_path):
    with pytest.raises(ValueError, match=message) as caught:
        load_vlcs(vlcs(tmp_path, names, **options))
    assert "use load_table" in str(caught.value)


def test_files_of_vlcs_that_count_differently_are_refused(tmp_path):
    vlcs(tmp_path, ["V", "L", "C", "S"])
    np.savez(tmp_path / "S.npz", X=np.ones((5, 3)), y=[0, 1, 2, 3, 4])
    with pytest.raises(ValueError, match="the same in all files; got 0, 1, 2, 3, 4, 5"):
        load_vlcs(tmp_path)
