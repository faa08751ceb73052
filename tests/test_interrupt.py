"""A long search can be interrupted, and shows its progress where somebody can see it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from joblib import cpu_count
from joblib._parallel_backends import LokyBackend
from sklearn.utils.parallel import delayed

from cluster_work import after
from helpers import three_domains
from unseen import CIDG, ProjectionSearchCV
from unseen.utils.jobs import parallel, progress, track

pytestmark = pytest.mark.system

X, Y, D = three_domains()
LONG = 120  # seconds that nothing here should ever need

ENDLESS = """
import time
import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from unseen import CIDG, ProjectionSearchCV

class Slow(KNeighborsClassifier):
    def fit(self, X, y):
        print("working", flush=True)
        time.sleep(0.2)
        return super().fit(X, y)

rng = np.random.default_rng(0)
X, y, d = rng.normal(size=(60, 3)), np.arange(60) % 2, np.arange(60) // 20
grid = {"gamma": list(np.logspace(-3, 3, 500)), "ridge": [1.0, 2.0]}
ProjectionSearchCV(CIDG(), grid, classifier=Slow(1), n_jobs=2).fit(X, y, sample_domain=d)
"""

# A command while a file is half written.
COMMAND = """
import sys
from pathlib import Path
from unseen.cli import main
from unseen.utils.io import atomic_write

sys.argv[0] = "unseen"
with atomic_write(Path("half.txt")) as file:
    file.write_text("half")
    main()
"""


def processes_of(session):
    """Processes of a session that have not ended; zombies have, and only wait to be counted."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended while we looked
            state, _, _, its_session = path.read_text().rpartition(") ")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found.append(int(path.parent.name))
    return found


def shared_memory(process, tmp_path):
    """What joblib shares among processes: folders and semaphores, in memory where there is enough."""
    return [*Path("/dev/shm").glob(f"*[-_]{process.pid}[-_]*"), *(tmp_path / "shared").iterdir()]


def wait_until(condition, seconds=LONG):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the time is over"
        time.sleep(0.02)


@contextlib.contextmanager
def working(tmp_path, script, *arguments, at_work):
    """A process of its own session, once its work has begun; no process and no shared memory is left afterwards."""
    (tmp_path / "script.py").write_text(script)
    (tmp_path / "shared").mkdir()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(tmp_path / "shared")}
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        command = [sys.executable, "script.py", *arguments]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=out, stderr=err, env=environment, start_new_session=True
        )

    def has_begun():
        assert process.poll() is None, (tmp_path / "err").read_text()
        return len(processes_of(process.pid)) >= 4 and at_work(process)  # two workers and a tracker or two

    try:
        wait_until(has_begun)
        yield process
        process.wait(timeout=30)
        wait_until(lambda: not processes_of(process.pid), 60)  # idle workers of joblib would wait for 300 s
        assert not shared_memory(process, tmp_path)
    finally:
        for pid in processes_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(timeout=30)


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts processes in /proc")


@needs_proc
@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(os.kill, id="the process alone", marks=pytest.mark.slow),
        pytest.param(os.killpg, id="all, as a terminal does"),
    ],
)
def test_an_interrupted_search_stops_at_once_and_leaves_no_process_behind(tmp_path, interrupt):
    with working(tmp_path, ENDLESS, at_work=lambda _: (tmp_path / "out").read_text().count("working") > 3) as process:
        interrupt(process.pid, signal.SIGINT)
    assert process.returncode == -signal.SIGINT
    assert "\nKeyboardInterrupt\n" in (tmp_path / "err").read_text()


OPTIONS = {
    "sites": ["--methods", "gradient boosting"],
    "validate": ["--methods", "gradient boosting", "--compare-with", "none"],
    "compare": ["--methods", "gradient boosting"],
    "fit": ["--output", "model.unseen"],
}


def start_command(tmp_path, command, at_work):
    """Start a command with two workers on a table so large that joblib shares it."""
    pytest.importorskip("typer", reason="the command needs its extra")
    rng = np.random.default_rng(0)
    d = np.arange(2000) % 6
    y = rng.integers(2, size=2000)
    X = rng.normal(size=(2000, 80)) + y[:, None]
    header = ",".join(["label", "domain", *(f"x{i}" for i in range(80))])
    np.savetxt(tmp_path / "table.csv", np.column_stack([y, d, X]), delimiter=",", header=header, comments="")
    arguments = [command, "table.csv", "--label", "label", "--domain", "domain", "--jobs", "2", *OPTIONS[command]]
    return working(tmp_path, COMMAND, *arguments, at_work=at_work)


@needs_proc
@pytest.mark.parametrize("command", ["compare", "validate"])
def test_the_workers_of_a_killed_command_end_and_free_what_they_share(tmp_path, command):
    def at_work(process):
        return any("memmapping" in path.name for path in shared_memory(process, tmp_path))

    with start_command(tmp_path, command, at_work) as process:
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


SIGNALS = [*((command, "SIGINT") for command in OPTIONS), ("validate", "SIGTERM"), ("compare", "SIGTERM")]


@needs_proc
@pytest.mark.parametrize(("command", "name"), [*SIGNALS, pytest.param("compare", "SIGHUP", marks=pytest.mark.slow)])
def test_a_signal_to_all_processes_of_a_command_prints_at_most_one_line(tmp_path, command, name):
    """Sent while the workers start, since they would print tracebacks then."""
    number = getattr(signal, name)
    with start_command(tmp_path, command, lambda _: True) as process:
        time.sleep(0.3)  # the workers import modules now
        os.killpg(process.pid, number)
    printed = (tmp_path / "err").read_text()
    assert process.returncode == 128 + number, printed
    assert "Traceback" not in printed
    assert printed.count("Interrupted.") == (name == "SIGINT")
    left = {path.name for path in tmp_path.iterdir()} - {"script.py", "shared", "table.csv", "out", "err"}
    assert not [name for name in left if "sqlite" not in name]  # the file half.txt, a model, temporary files


def test_results_may_come_as_they_are_finished_and_threads_are_no_more_than_cores(tmp_path, monkeypatch):
    for name in LokyBackend.MAX_NUM_THREADS_VARS:
        monkeypatch.delenv(name, raising=False)
    found = []
    for name, threads in parallel(2, ordered=False)(delayed(after)(tmp_path, names) for names in ("cab", "a", "b")):
        (tmp_path / name).touch()  # what the first item waits for
        found.append(name)
        assert threads == max(cpu_count() // 2, 1)
    assert found == ["a", "b", "c"]


# Progress


@pytest.fixture
def terminal(monkeypatch, capfd):
    """Fit with a pseudo-terminal as standard error; return what the terminal was shown. Nothing else is printed."""
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    def fit(verbose):
        ours, theirs = pty.openpty()
        shown = []

        def watch():
            with contextlib.suppress(OSError):  # the other end was closed
                while part := os.read(ours, 4096):
                    shown.append(part)

        watcher = threading.Thread(target=watch)
        watcher.start()
        with open(theirs, "w") as screen, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", screen)
            ProjectionSearchCV(CIDG(), {"ridge": [1.0]}, verbose=verbose).fit(X, Y, sample_domain=D)
        watcher.join(timeout=LONG)
        os.close(ours)
        assert capfd.readouterr() == ("", "")
        return b"".join(shown).decode()

    return fit


def test_on_a_terminal_there_is_a_bar(terminal):
    pytest.importorskip("rich")
    shown = terminal(verbose=1)
    assert "CIDG search" in shown
    assert "━" in shown
    assert "100%" in shown
    assert "done" not in shown


def test_on_a_terminal_without_rich_there_are_lines(terminal, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr("unseen.utils.jobs.LOG_INTERVAL_SECONDS", -1)
    shown = terminal(verbose=1)
    assert "CIDG search: 3/3 done" in shown
    assert "━" not in shown


def test_on_a_terminal_silence_is_silent(terminal):
    assert terminal(verbose=0) == ""


def test_a_log_has_few_lines_and_an_estimate(capsys, monkeypatch):
    clock = iter(np.arange(0.0, 100.0, 2.0))  # every item takes two seconds
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert list(track(iter("abcdefg"), 7, "letters", verbose=1)) == list("abcdefg")
    assert capsys.readouterr().err.splitlines() == [
        "letters: 3/7 done, 6 s, about 8 s left",
        "letters: 6/7 done, 12 s, about 2 s left",
        "letters: 7/7 done, 14 s, about 0 s left",
    ]


def test_a_long_job_prints_lines_and_a_short_one_nothing(capsys, monkeypatch):
    clock = iter([0.0, 6.0, 7.0, 0.0, 1.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    for pieces in ([1500, 2000], [3000]):
        with progress("Reading", 3000) as advance:
            for rows in pieces:
                advance(rows)  # more than there are, as after a lost worker
    assert capsys.readouterr().err.splitlines() == [
        "Reading: 1,500/3,000 done, 6 s, about 6 s left",
        "Reading: 3,000/3,000 done, 7 s, about 0 s left",
    ]


class Notebook:
    """A console of rich as it is in a notebook, whose output is no terminal."""

    def __init__(self, **_):
        self.is_jupyter, self.is_terminal, self.is_dumb_terminal = True, False, False


@pytest.mark.parametrize("widgets", [True, False])
def test_a_notebook_shows_a_bar_if_it_has_widgets_and_lines_otherwise(monkeypatch, capsys, widgets):
    """rich draws bars in notebooks by means of ipywidgets."""
    console = pytest.importorskip("rich.console")
    monkeypatch.setattr(console, "Console", Notebook)
    monkeypatch.setattr("unseen.utils.jobs.LOG_INTERVAL_SECONDS", -1)
    monkeypatch.setattr("unseen.utils.jobs.find_spec", lambda name: object() if widgets else None)
    made = []

    class Bar(contextlib.nullcontext):
        def __init__(self, *columns, console, transient):
            super().__init__()
            made.append(console)

        def add_task(self, description, total):
            return 0

        def advance(self, task, more):
            pass

    monkeypatch.setattr("rich.progress.Progress", Bar)
    assert list(track("ab", 2, "letters", verbose=1)) == ["a", "b"]
    assert len(made) == widgets
    assert bool(capsys.readouterr().err) != widgets


def test_a_terminal_that_cannot_move_gets_lines(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("unseen.utils.jobs.LOG_INTERVAL_SECONDS", -1)
    assert "CIDG search: 3/3 done" in terminal(verbose=1)
