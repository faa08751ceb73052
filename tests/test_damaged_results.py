"""A file of results that was damaged, or has no room: what is sound is kept, nothing is deleted, the reason is said."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import subprocess
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from command import run_command
from unseen.files import written as whole
from unseen.images._cache import Cache
from unseen.study import Row, Store

ROW = Row("1NN", "a -> b", 0, 0, 0.5, {"b": 0.5}, None, {"C": 1.0}, 0, False, 0.1, "ok", "", {"cores": 2})
ROWS = [replace(ROW, repeat=i, seed=i, accuracy=i / 200, reason="x" * 300) for i in range(200)]
CODES = np.random.default_rng(0).integers(0, 5, 300)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "r.sqlite"
    with Store(path) as store:
        store.open_configuration("k", {"seed": 0})
        for row in ROWS:
            store.add("k", row, CODES + row.repeat)
    return path


@pytest.fixture
def path(written, tmp_path):
    return shutil.copy(written, tmp_path / "r.sqlite")


def kept(path):
    """Rows of a file whose damage is told of: each as it was written, with its predictions."""
    with pytest.warns(UserWarning, match=r"r\.sqlite is damaged\. \d+ of its rows .* is now .*r\.sqlite\.damaged"):
        store = Store(path)
    with store:
        rows = store.rows("k")
        assert all(row == ROWS[row.repeat] for row in rows)
        for row in rows:
            np.testing.assert_array_equal(store.predicted("k", row.method, row.task, row.repeat), CODES + row.repeat)
    return rows


def read(path):
    """Rows of a file, and what was said of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with Store(path) as store:
                return store.rows("k"), [str(warning.message) for warning in caught]
        except ValueError as error:
            assert path.exists()
            return [], [str(error)]


def overwrite(path, start, content):
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


def test_rows_outside_a_damaged_page_are_kept_and_the_old_file_too(path):
    overwrite(path, path.stat().st_size // 8192 * 4096, bytes(4096))
    before = path.read_bytes()
    rows = kept(path)
    assert 180 < len(rows) < 200
    assert path.with_name("r.sqlite.damaged").read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["r.sqlite", "r.sqlite.damaged"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Store(path) as store:
            assert store.rows("k") == rows
            store.add("k", ROWS[0], CODES)
    overwrite(path, path.stat().st_size // 8192 * 4096, bytes(4096))
    kept(path)
    assert path.with_name("r.sqlite.damaged").read_bytes() == before  # nor is one that was set aside earlier replaced
    assert path.with_name("r.sqlite.damaged1").exists()


def test_a_value_that_changed_on_the_disk_is_noticed(path):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE results SET accuracy = 0.99 WHERE repeat = 3")
        connection.execute("UPDATE results SET predicted = x'00' WHERE repeat = 4")
        connection.execute("UPDATE results SET settings = '{' WHERE repeat = 5")
        connection.execute("UPDATE results SET reason = CAST(x'ff' AS TEXT) WHERE repeat = 6")
    assert {row.repeat for row in kept(path)} == set(range(200)) - {3, 4, 5, 6}


def test_a_file_that_was_cut_off_keeps_its_beginning(path):
    os.truncate(path, path.stat().st_size * 2 // 3)
    assert len(kept(path)) > 50


def test_no_damage_ends_in_a_traceback_or_a_wrong_row(path):
    rng, whole = np.random.default_rng(0), path.read_bytes()
    for trial in range(40):
        for file in path.parent.iterdir():
            file.unlink()
        content = bytearray(whole)
        for _ in range(1 + trial % 3):
            at = int(rng.integers(len(whole) if trial % 2 else 4096))
            content[at] = rng.integers(256)
        path.write_bytes(content)
        rows, told = read(path)
        assert all(row == ROWS[row.repeat] for row in rows)
        assert len(rows) == 200 or told


def test_a_repair_that_is_killed_leaves_no_log_that_nobody_would_sweep(path, monkeypatch):
    seen = set()

    class Watched(sqlite3.Connection):
        def executemany(self, *args):
            done = super().executemany(*args)
            seen.update(file.name for file in path.parent.iterdir())
            return done

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Watched))
    os.truncate(path, path.stat().st_size * 2 // 3)
    assert kept(path)
    assert "r.sqlite" in seen
    assert not {name for name in seen if name.startswith(".") and name.endswith(("-wal", "-shm", "-journal"))}


def test_a_file_that_is_removed_while_it_is_used_is_missed_at_once(path):
    with Store(path) as store:
        store.add("k", ROW)
        path.rename(path.with_name("elsewhere"))
        with pytest.raises(OSError, match=r"r\.sqlite was removed or replaced"):
            store.add("k", ROW)
    with Cache(path.with_name("c.sqlite"), "way") as cache:
        cache.add([("p", 1, 1, b"0")], [(b"0", np.ones(2, np.float32))])
        path.with_name("c.sqlite").unlink()
        with pytest.raises(OSError, match=r"c\.sqlite was removed or replaced"):
            cache.add([("q", 1, 1, b"1")], [(b"1", np.ones(2, np.float32))])


def test_a_command_goes_on_from_a_damaged_file(tmp_path, monkeypatch):
    pytest.importorskip("typer", reason="the command needs its extra")
    from unseen.cli._app import app

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = [f"{'abc'[i % 3]},{i % 2},{rng.normal() + i % 2},{rng.normal()}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["site,label,u,v", *lines]))
    command = ("compare", "t.csv", "--methods", "1NN,logistic", "--quick", "--jobs", 1, "--store", "r.sqlite")
    assert run_command(app, *command)[0] == 0
    with contextlib.closing(sqlite3.connect("r.sqlite")) as connection, connection:
        connection.execute("UPDATE results SET predicted = x'00' WHERE task = (SELECT min(task) FROM results)")
    code, text = run_command(app, *command)
    assert code == 0
    assert "Note: r.sqlite is damaged. 4 of its rows" in text
    assert "damaged" not in run_command(app, *command)[1]


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 2 MB."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def fill(disk):
    with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_disk_that_is_full_at_the_start_is_called_full(small_disk):
    fill(small_disk)
    with pytest.raises(OSError, match="The disk is full") as told:
        Store(small_disk / "r.sqlite")
    assert told.value.errno == errno.ENOSPC


def test_a_disk_that_fills_up_is_called_full_and_keeps_its_rows(small_disk):
    with Store(small_disk / "r.sqlite") as store:
        store.add("k", ROWS[0])
        fill(small_disk)
        with pytest.raises(OSError, match="The disk is full"):
            store.add("k", ROWS[1], np.random.default_rng(0).integers(0, 1000, 100_000))
    (small_disk / "filler").unlink()
    with Store(small_disk / "r.sqlite") as store:
        assert store.rows("k")[0] == ROWS[0]


def test_features_that_find_no_room_are_not_called_damaged(small_disk):
    fill(small_disk)
    with pytest.raises(OSError, match="The disk is full") as told:
        Cache(small_disk / "c.sqlite", "way")
    assert told.value.filename == str(small_disk / "c.sqlite")


def test_features_that_cannot_be_opened_are_not_called_damaged(tmp_path):
    with pytest.raises(ValueError, match=r"cannot be opened as a file of features .* Name another\."):
        Cache(tmp_path, "way")


@pytest.mark.parametrize("write", ["write_bytes", "write_csv", "write_parquet"])
def test_a_file_that_finds_no_room_is_named_whoever_writes_it(small_disk, write):
    numbers = np.random.default_rng(0).random(10_000)
    table = pytest.importorskip("polars").DataFrame({"x": numbers})
    fill(small_disk)
    with pytest.raises(OSError, match="The disk is full") as told, whole(small_disk / "out") as file:
        file.write_bytes(numbers.tobytes()) if write == "write_bytes" else getattr(table, write)(file)
    assert told.value.errno == errno.ENOSPC
    assert told.value.filename == str(small_disk / "out")
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_a_command_calls_a_full_disk_full_and_says_how_to_go_on(small_disk, tmp_path):
    pytest.importorskip("typer", reason="the command needs its extra")
    from unseen.cli._app import app

    lines = [f"{'abc'[i % 3]},{i % 2},{np.sin(i)}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["site,label,u", *lines]))
    fill(small_disk)
    store = small_disk / "r.sqlite"
    command = ("compare", tmp_path / "t.csv", "--methods", "1NN", "--quick", "--jobs", 1, "--store", store)
    code, text = run_command(app, *command)
    assert code == 1, text
    assert f"Failed: The disk is full: {store} cannot be written. Make room on it." in text
    assert "run the same command again to continue" in text
    (small_disk / "filler").unlink()
    assert run_command(app, *command)[0] == 0
