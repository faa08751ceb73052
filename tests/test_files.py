"""Files are written whole or not at all, and temporaries do not outlive their process for long."""

from __future__ import annotations

import os
import platform
import signal
import sqlite3
import subprocess
import sys

import pytest

from unseen.files import check_target, set_up, temporary, written

pytestmark = pytest.mark.skipif(os.name != "posix", reason="asks POSIX which processes run")

WAIT = """
import sys, time
from pathlib import Path
from unseen.files import temporary, written
path = Path(sys.argv[1])
with written(path) as file, temporary(path.with_name("parts")) as folder:
    folder.mkdir()
    (folder / "0").touch()
    file.touch()
    print("there", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def ended(tmp_path):
    """End a process in the middle of its writing; return its number and what it leaves."""

    def end(how):
        command = [sys.executable, "-c", WAIT, str(tmp_path / "out")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            assert len(list(tmp_path.iterdir())) == 2
            process.send_signal(how)
        assert process.returncode == -how
        return process.pid, sorted(path.name for path in tmp_path.iterdir())

    return end


def test_a_process_that_is_terminated_leaves_nothing(ended):
    assert ended(signal.SIGTERM)[1] == []


def test_what_a_killed_process_leaves_is_swept_at_the_next_write(ended, tmp_path):
    pid, left = ended(signal.SIGKILL)
    assert left == [f".{name}.{platform.node()}.{pid}" for name in ("out", "parts")]
    with written(tmp_path / "out") as file, temporary(tmp_path / "parts"):
        file.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_only_leftovers_of_dead_processes_of_this_machine_are_swept(ended, tmp_path):
    dead, _ = ended(signal.SIGKILL)
    node = platform.node()
    others = [f".out.{node}.{os.getppid()}", f".out.elsewhere.{dead}", f".out2.{node}.{dead}", f".out.{node}.x", ".out"]
    for name in others:
        (tmp_path / name).touch()
    with written(tmp_path / "out") as outer, written(tmp_path / "out2"):
        outer.touch()
        with temporary(tmp_path / "out3"):
            assert outer.exists()  # one's own are not swept either
        (tmp_path / f".out2.{node}.{os.getpid()}").touch()
    assert {path.name for path in tmp_path.iterdir() if path.name in others} == set(others) - {f".out2.{node}.{dead}"}


FORK = """
import os, signal, sys
from pathlib import Path
from unseen.files import written
with written(Path(sys.argv[1])) as file:
    file.touch()
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        os.write(tell, b".")
        signal.pause()
        os._exit(0)
    os.read(ready, 1)
    os.kill(child, signal.SIGTERM)
    assert os.waitpid(child, 0)[1] == signal.SIGTERM
"""


def test_a_child_that_is_terminated_leaves_its_parents_files(tmp_path):
    subprocess.run([sys.executable, "-c", FORK, tmp_path / "out"], check=True, timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_handler_of_sigterm_is_left_alone_and_ours_is_taken_down(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    try:
        for theirs in (signal.SIG_DFL, signal.SIG_IGN):
            signal.signal(signal.SIGTERM, theirs)
            with temporary(tmp_path / "out"):
                assert (signal.getsignal(signal.SIGTERM) == theirs) is (theirs != signal.SIG_DFL)
            assert signal.getsignal(signal.SIGTERM) == theirs
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_handler_stays_until_all_is_removed(tmp_path, monkeypatch):
    before, seen = signal.getsignal(signal.SIGTERM), []
    monkeypatch.setattr("unseen.files.shutil.rmtree", lambda *_, **__: seen.append(signal.getsignal(signal.SIGTERM)))
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with temporary(tmp_path / "parts") as folder:
            folder.mkdir()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(seen) == 1
    assert seen != [signal.SIG_DFL]


def test_a_target_is_refused_before_it_is_written(tmp_path):
    path = tmp_path / "deep" / "out.csv"
    check_target(None)
    check_target(path, ".csv", reads=[tmp_path / "in.csv"])
    with written(path) as file:  # which makes the folder
        file.touch()
    for target, reason in (
        (path.with_suffix(".txt"), "should end in .csv"),
        (path / "below.csv", "cannot be written"),
        (path.parent / ".." / "deep" / "out.csv", "would replace what is read"),
    ):
        with pytest.raises(ValueError, match=reason):
            check_target(target, ".csv", reads=[path])


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
    set_up(connection, "CREATE")
    assert connection.done == [*["PRAGMA journal_mode = WAL"] * 3, "CREATE"]
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        set_up(Busy(10**6), "CREATE", seconds=0.1)
    damaged = Busy(1, sqlite3.SQLITE_CORRUPT)
    with pytest.raises(sqlite3.OperationalError):
        set_up(damaged, "CREATE")
    assert len(damaged.done) == 1
