"""A results file that is damaged, foreign, removed, or on a full disk: nothing is deleted, and the reason is given."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import subprocess
import warnings
from dataclasses import replace

import numpy as np
import pytest

from command import run_command
from unseen.evaluation import Row, Store
from unseen.evaluation._store import APPLICATION_ID
from unseen.images._extract import Cache
from unseen.utils.io import atomic_write as whole
from unseen.utils.io import create_sqlite_tables

CODES = np.random.default_rng(0).integers(0, 5, 300)
ROW = Row("1-NN", "a -> b", ("b",), accuracy=0.5, accuracies={"b": 0.5}, settings={"C": 1.0}, codes=CODES)
ROWS = [replace(ROW, repeat=i, accuracy=i / 200, reason="x" * 300) for i in range(200)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "r.sqlite"
    with Store(path) as store:
        store.add_configuration("k", {"seed": 0})
        for row in ROWS:
            store.add("k", row)
    return path


@pytest.fixture
def path(written, tmp_path):
    return shutil.copy(written, tmp_path / "r.sqlite")


def overwrite(path, start, content):
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


def wipe_a_page(path):
    overwrite(path, path.stat().st_size // 8192 * 4096, bytes(4096))


def cut_off(path):
    os.truncate(path, path.stat().st_size * 2 // 3)


def update(path, statement):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement)


def store_text_as_codes(path):
    update(path, "UPDATE results SET codes = 'high' WHERE repeat = 3")


@pytest.mark.parametrize("damage", [wipe_a_page, cut_off, store_text_as_codes])
def test_a_damaged_file_is_an_error_that_names_it_and_is_not_changed(path, damage):
    damage(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"r\.sqlite is damaged .* Rename or remove the file; the same command then"):
        Store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("column", ["content = '{'", "content = '{}'", "content = '[1]'", "codes = x'00'"])
def test_contents_that_cannot_be_decoded_are_an_error_that_names_the_file(path, column):
    update(path, f"UPDATE results SET {column} WHERE repeat = 3")
    with Store(path) as store, pytest.raises(ValueError, match=r"r\.sqlite is damaged: .* Rename or remove the file"):
        store.rows("k")


def test_no_damaged_byte_ends_in_an_error_of_sqlite(path):
    rng, sound = np.random.default_rng(0), path.read_bytes()
    for trial in range(40):
        for file in path.parent.iterdir():
            file.unlink()
        content = bytearray(sound)
        for _ in range(1 + trial % 3):
            at = int(rng.integers(len(sound) if trial % 2 else 4096))
            content[at] = rng.integers(256)
        path.write_bytes(content)
        reason = ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with Store(path) as store:
                    store.rows("k")
            except (ValueError, OSError) as error:
                reason = str(error)
        assert reason == "" or "r.sqlite" in reason
        assert path.exists()


def of_another_program(path):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE bookmarks (address TEXT)")
        connection.execute("INSERT INTO bookmarks VALUES ('https://example.org')")


def of_another_program_with_a_log(path):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA application_id = 7")
        connection.execute("CREATE TABLE results (configuration TEXT, kind TEXT)")


def text(path):
    path.write_text("my notes, and not a database at all\n" * 50)


@pytest.mark.parametrize("make", [of_another_program, of_another_program_with_a_log, text])
def test_a_file_of_another_program_is_refused_and_not_a_byte_of_it_changes(tmp_path, make):
    path = tmp_path / "theirs.sqlite"
    make(path)
    before, changed = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(ValueError, match=r"theirs\.sqlite is not a results file .* not changed.* Use another file"):
        Store(path)
    assert path.read_bytes() == before
    assert path.stat().st_mtime_ns == changed
    assert [file.name for file in tmp_path.iterdir()] == ["theirs.sqlite"]


def test_a_run_that_is_killed_before_it_made_the_tables_leaves_a_file_that_the_next_one_accepts(tmp_path):
    """The application id must not wait in the log, where only a process that changes the file would find it."""
    path = tmp_path / "r.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        create_sqlite_tables(connection, "", application_id=APPLICATION_ID)
        shutil.copy(path, tmp_path / "killed.sqlite")
    with Store(tmp_path / "killed.sqlite") as store:
        assert store.rows("k") == []


def test_a_file_that_is_removed_while_it_is_used_is_missed_at_once(path):
    with Store(path) as store:
        store.add("k", ROW)
        path.rename(path.with_name("elsewhere"))
        with pytest.raises(OSError, match=r"r\.sqlite was removed or replaced"):
            store.add("k", ROW)


COMMANDS = {
    "compare": ("--quick",),
    "validate": ("--compare-with", "none"),
    "sites": (),
}


def run_with_store(tmp_path, command, store):
    """The exit code and the messages of a command on a small table that keeps its results."""
    pytest.importorskip("typer", reason="the command needs its extra")
    from unseen.cli._app import app

    lines = [f"{'abcd'[i % 4]},{i // 4 % 2},{np.sin(i)}" for i in range(120)]
    (tmp_path / "t.csv").write_text("\n".join(["site,label,u", *lines]))
    options = ("--methods", "nearest mean", "--jobs", 1, "--store", store)
    return run_command(app, command, tmp_path / "t.csv", *COMMANDS[command], *options)


@pytest.mark.parametrize("command", ["compare", "sites"])
def test_a_command_starts_again_when_a_damaged_file_is_removed(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    assert run_with_store(tmp_path, command, "r.sqlite")[0] == 0
    cut_off(tmp_path / "r.sqlite")
    code, text = run_with_store(tmp_path, command, "r.sqlite")
    assert code == 2
    assert "Error: r.sqlite is damaged" in text
    (tmp_path / "r.sqlite").unlink()
    assert run_with_store(tmp_path, command, "r.sqlite")[0] == 0


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


def test_a_disk_that_fills_up_is_called_full_and_keeps_its_rows(small_disk):
    with Store(small_disk / "r.sqlite") as store:
        store.add("k", ROWS[0])
        fill(small_disk)
        with pytest.raises(OSError, match="The disk is full"):
            store.add("k", replace(ROWS[1], codes=np.random.default_rng(0).integers(0, 1000, 100_000)))
    (small_disk / "filler").unlink()
    with Store(small_disk / "r.sqlite") as store:
        assert store.rows("k")[0] == ROWS[0]


def test_features_that_cannot_be_opened_name_another_path_first(tmp_path):
    with pytest.raises(OSError, match=r"cannot be used as a cache of features .* Pass another path or, if"):
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


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_calls_a_full_disk_full_and_says_how_to_go_on(small_disk, tmp_path, command):
    fill(small_disk)
    store = small_disk / "r.sqlite"
    code, text = run_with_store(tmp_path, command, store)
    assert code == 1, text
    assert f"Failed: The disk is full: {store} cannot be written. Free some space on it." in text
    assert "Run the same command again to continue" in text
    (small_disk / "filler").unlink()
    code, text = run_with_store(tmp_path, command, store)
    assert code == 0, text
