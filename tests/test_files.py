"""Files are written completely or not at all, and output names are checked before any work."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading

import pytest

from unseen.utils.io import atomic_write, check_output_path, create_sqlite_tables, temporary_folder


def test_a_file_is_replaced_when_it_is_complete(tmp_path):
    path = tmp_path / "new" / "out.csv"
    for content in ("first", "second"):
        with atomic_write(path) as file:
            file.write_text(content)
            assert file.suffix == ".csv"
            assert not path.exists() or path.read_text() == "first"
        assert path.read_text() == content
        assert [entry.name for entry in path.parent.iterdir()] == ["out.csv"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def write():
        with atomic_write(path) as file, temporary_folder(tmp_path) as folder:
            file.write_text("half")
            (folder / "part").touch()
            raise error

    with pytest.raises(error):
        write()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.csv"]


def test_threads_that_write_the_same_file_do_not_meet(tmp_path):
    """The last one to finish wins, and each has written a file of its own until then."""
    path, barrier, failures = tmp_path / "out", threading.Barrier(8), []

    def write(number):
        try:
            with atomic_write(path) as file:
                file.write_text(str(number) * 1000)
                barrier.wait(timeout=30)
                assert file.read_text() == str(number) * 1000
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(set(path.read_text())) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_file_has_the_permissions_of_any_new_file(tmp_path):
    with atomic_write(tmp_path / "out") as file:
        file.touch()
    (tmp_path / "other").touch()
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


@pytest.mark.skipif(not hasattr(os, "pathconf"), reason="asks POSIX how long names may be")
def test_a_name_is_accepted_if_and_only_if_it_can_be_written(tmp_path):
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    path = tmp_path / ("x" * (longest - 4) + ".csv")
    check_output_path(path, ".csv")
    with atomic_write(path) as file:
        file.touch()
    assert path.exists()
    for name in (path.with_name("x" + path.name), tmp_path / ("y" * (longest + 1)) / "out.csv"):
        with pytest.raises(ValueError, match=r"is too long for the name of a file. Use at most 255 bytes"):
            check_output_path(name, ".csv")


LONG = "x" * 300
TOO_LONG = {
    "fit": ["fit", "none.csv", "-o", f"{LONG}.unseen"],
    "predict": ["predict", "none.unseen", "none.csv", "-o", f"{LONG}.csv"],
    "report of compare": ["compare", "none.csv", "--report", f"{LONG}.html"],
    "report of validate": ["validate", "none.csv", "--report", f"{LONG}.html"],
    "tables of validate": ["validate", "none.csv", "--tables", LONG],
    "store of validate": ["validate", "none.csv", "--store", f"{LONG}.sqlite"],
    "report of diagnose": ["diagnose", "none.csv", "--report", f"{LONG}.html"],
    "figure of diagnose": ["diagnose", "none.csv", "--figure", f"{LONG}.png"],
    "extract": ["extract", "none", "--network", "none.onnx", "-o", f"{'x' * 247}.parquet"],  # beside it: .skipped.csv
    "figure of reproduce": ["reproduce", "synthetic", "--figure", f"{LONG}.png"],
    "output of reproduce": ["reproduce", "vlcs", "none", "-o", f"{LONG}.tex"],
}


@pytest.mark.skipif(not hasattr(os, "pathconf"), reason="asks POSIX how long names may be")
@pytest.mark.parametrize("command", TOO_LONG.values(), ids=TOO_LONG)
def test_a_command_refuses_a_name_that_is_too_long_before_any_work(tmp_path, monkeypatch, command):
    pytest.importorskip("typer", reason="the command needs its extra")
    from command import run_command
    from unseen.cli._app import app

    monkeypatch.chdir(tmp_path)
    code, text = run_command(app, *command)
    assert code == 2, text
    assert "too long for the name of a file" in text
    assert list(tmp_path.iterdir()) == []


def test_a_target_is_refused_before_it_is_written(tmp_path):
    path = tmp_path / "deep" / "out.csv"
    check_output_path(None)
    check_output_path(path, ".csv", inputs=[tmp_path / "in.csv"])
    with atomic_write(path) as file:  # which makes the folder
        file.touch()
    for target, reason in (
        (path.with_suffix(".txt"), "should end in .csv"),
        (path / "below.csv", "cannot be written"),
        (path.parent / ".." / "deep" / "out.csv", "would replace an input file"),
    ):
        with pytest.raises(ValueError, match=reason):
            check_output_path(target, ".csv", inputs=[path])


class Busy:
    """A connection that is told so many times that the file is locked."""

    def __init__(self, times, code=sqlite3.SQLITE_BUSY):
        self.times, self.code, self.done = times, code, []

    def execute(self, text):
        self.done.append(text)

    def executescript(self, text):
        self.times -= 1
        if self.times >= 0:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self.code
            raise error
        self.done.append(text)


def test_tables_are_made_once_another_process_has_made_its_own():
    connection = Busy(2)
    create_sqlite_tables(connection, "CREATE")
    assert connection.done == [*["PRAGMA journal_mode = WAL"] * 3, "CREATE"]
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        create_sqlite_tables(Busy(10**6), "CREATE", seconds=0.1)
    damaged = Busy(1, sqlite3.SQLITE_CORRUPT)
    with pytest.raises(sqlite3.OperationalError):
        create_sqlite_tables(damaged, "CREATE")
    assert len(damaged.done) == 1
