"""A long search can be interrupted, and shows its progress where somebody can see it."""

from __future__ import annotations

import contextlib
import os
import pickle
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
from sklearn.base import clone
from sklearn.utils.parallel import delayed

from cluster_work import after
from helpers import three_domains
from unseen import CIDG, ProjectionSearchCV, UnseenClassifier
from unseen.estimators import parallel
from unseen.utils.progress import progress, track

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

WAITING = """
import sys, time
import numpy as np
import unseen.evaluation._run as engine
from unseen.datasets import make_synthetic
from unseen.evaluation import make_tasks

def run_job(*args):
    for _ in range(500):
        print("working", flush=True)
        time.sleep(0.2)

engine.run_job = run_job
data = make_synthetic(random_state=0)
X = np.repeat(data.data, 1000, axis=1)  # so large that joblib shares it
engine.run(X, data.target, data.domain, make_tasks(data.domain_names), store=sys.argv[1], n_jobs=2)
"""

# The same as a command, with a file half written.
COMMAND = """
import sys, time
from pathlib import Path
import numpy as np
import unseen.evaluation._run as engine
from unseen.cli import main
from unseen.datasets import make_synthetic
from unseen.utils.io import atomic_write

def run_job(*args):
    for _ in range(500):
        print("working", flush=True)
        time.sleep(0.2)

engine.run_job = run_job
data = make_synthetic(random_state=0)
X = np.repeat(data.data, 1000, axis=1)
folder = Path(sys.argv[1]).parent
(folder / "data").mkdir()
for name in data.domain_names:
    rows = data.domain == name
    np.savez(folder / "data" / f"{name}.npz", X=X[rows], y=data.target[rows])
sys.argv[1:] = ["compare", str(folder / "data"), "--methods", "1-NN", "--jobs", "2", "--store", sys.argv[1]]
with atomic_write(folder / "half.txt") as file:
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


@contextlib.contextmanager
def working(tmp_path, script):
    """A process of a session of its own, once both its workers are at it; nothing of it is left afterwards."""
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "results.sqlite")]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(tmp_path / "shared")}
    (tmp_path / "shared").mkdir()
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment, start_new_session=True)
    try:
        deadline = time.monotonic() + LONG
        while (tmp_path / "out").read_text().count("working") < 4:
            assert process.poll() is None, (tmp_path / "err").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert len(processes_of(process.pid)) >= 3
        yield process
    finally:
        for pid in processes_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(timeout=30)


def wait_for_the_end(session, seconds):
    deadline = time.monotonic() + seconds
    while processes_of(session):
        assert time.monotonic() < deadline, "processes are left"
        time.sleep(0.1)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts processes in /proc")
@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(os.kill, id="the process alone", marks=pytest.mark.slow),
        pytest.param(os.killpg, id="all, as a terminal does"),
    ],
)
def test_an_interrupted_search_stops_at_once_and_leaves_no_process_behind(tmp_path, interrupt):
    with working(tmp_path, ENDLESS) as process:
        interrupt(process.pid, signal.SIGINT)
        process.wait(timeout=30)
        assert process.returncode == -signal.SIGINT
        assert "\nKeyboardInterrupt\n" in (tmp_path / "err").read_text()
        wait_for_the_end(process.pid, 30)


def shared_memory(process, tmp_path):
    """What joblib shares among processes: folders and semaphores, in memory where there is enough."""
    return [*Path("/dev/shm").glob(f"*[-_]{process.pid}[-_]*"), *(tmp_path / "shared").iterdir()]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts processes in /proc")
def test_the_workers_of_a_comparison_end_within_10_seconds_of_a_killed_parent(tmp_path):
    with working(tmp_path, WAITING) as process:
        assert any("memmapping" in path.name for path in shared_memory(process, tmp_path))
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        wait_for_the_end(process.pid, 10)
    assert not shared_memory(process, tmp_path)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts processes in /proc")
@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGHUP", marks=pytest.mark.slow)])
def test_a_command_that_is_terminated_or_loses_its_terminal_leaves_nothing_behind(tmp_path, name):
    """A terminal that is closed sends SIGHUP to all processes of a command, so that none is left to clean up."""
    pytest.importorskip("typer", reason="the command needs its extra")
    number = getattr(signal, name)
    with working(tmp_path, COMMAND) as process:
        assert any("memmapping" in path.name for path in shared_memory(process, tmp_path))
        assert any(path.name.startswith(".unseen-") for path in tmp_path.iterdir())
        os.killpg(process.pid, number)
        process.wait(timeout=30)
        wait_for_the_end(process.pid, 30)
    assert process.returncode == 128 + number
    assert not shared_memory(process, tmp_path)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith((".unseen-", "half"))]


RUNS = {
    "sites": [],
    "validate": [],
    "compare": [],
    "fit": ["--output", "model.unseen"],
}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts processes in /proc")
@pytest.mark.parametrize(("command", "name"), [*((command, "SIGINT") for command in RUNS), ("validate", "SIGTERM")])
def test_a_signal_to_all_processes_of_a_command_prints_at_most_one_line(tmp_path, command, name):
    """Sent while the workers start, since they would print tracebacks then."""
    pytest.importorskip("typer", reason="the command needs its extra")
    X, y, d = three_domains(n_per_cell=50, n_domains=6, n_classes=2)
    header = ",".join(["label", "domain", *(f"x{i}" for i in range(X.shape[1]))])
    np.savetxt(tmp_path / "table.csv", np.column_stack([y, d, X]), delimiter=",", header=header, comments="")
    script = "import sys; from unseen.cli import main; sys.argv[0] = 'unseen'; main()"
    arguments = [command, "table.csv", "--label", "label", "--domain", "domain", "--jobs", "2", *RUNS[command]]
    with (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=err,
            start_new_session=True,
        )
    try:
        while len(processes_of(process.pid)) < 4:  # a tracker or two, and the first worker
            assert process.poll() is None, (tmp_path / "err").read_text()
            time.sleep(0.01)
        time.sleep(0.3)  # the worker imports modules now
        os.killpg(process.pid, getattr(signal, name))
        process.wait(timeout=60)
        wait_for_the_end(process.pid, 30)
    finally:
        for pid in processes_of(process.pid):
            os.kill(pid, signal.SIGKILL)
    printed = (tmp_path / "err").read_text()
    assert process.returncode == 128 + getattr(signal, name), printed
    assert "Traceback" not in printed
    assert printed.count("Interrupted.") == (name == "SIGINT")
    assert not (tmp_path / "model.unseen").exists()
    assert not [*Path("/dev/shm").glob(f"*[-_]{process.pid}[-_]*")]


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
    assert capsys.readouterr().err == "Reading: 1,500/3,000 done, 6 s, about 6 s left\n"


def test_the_remaining_time_follows_from_costs(capsys, monkeypatch):
    clock = iter([0.0, 6.0, 12.0, 7200.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with progress("letters", 3, print_last=True, cost=102.0) as advance:
        for cost in (1.0, 1.0, 100.0):
            advance(1, cost)
    assert capsys.readouterr().err.splitlines() == [
        "letters: 1/3 done, 6 s, about 10 min left",
        "letters: 2/3 done, 12 s, about 10 min left",
        "letters: 3/3 done, 2.0 h, about 0 s left",
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
    monkeypatch.setattr("unseen.utils.progress.find_spec", lambda name: object() if widgets else None)
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
    assert "CIDG search: 3/3 done" in terminal(verbose=1)


# scikit-learn's callbacks


class Recorder:
    """Keeps what it is told."""

    def __init__(self):
        self.told = []

    def setup(self, estimator, context):
        self.told.append(("setup", context.task_name, context.max_subtasks))

    def on_fit_task_begin(self, estimator, context):
        self.told.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context):
        self.told.append(("end", context.task_name, context.task_id))

    def teardown(self, estimator, context):
        self.told.append(("teardown", context.task_name, context.max_subtasks))


@pytest.mark.parametrize(
    ("estimator", "parts"),
    [
        (ProjectionSearchCV(CIDG(), {"gamma": [0.1, 0.2], "ridge": [1.0, 2.0]}), 6),  # two kernels, three folds
        (UnseenClassifier(["logistic", "linear SVM"]), 6),  # two methods
    ],
    ids=["search", "classifier"],
)
def test_callbacks_hear_of_every_part(estimator, parts):
    pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    recorder = Recorder()
    estimator = clone(estimator).set_callbacks(recorder)
    estimator.fit(X, Y, sample_domain=D)
    expected = [("setup", "fit", parts), ("begin", "fit", 0)]
    expected += [(event, "part", k) for k in range(parts) for event in ("begin", "end")]
    assert recorder.told == [*expected, ("end", "fit", 0), ("teardown", "fit", parts)]
    silent = clone(estimator).set_callbacks().fit(X, Y, sample_domain=D)
    np.testing.assert_array_equal(silent.predict(X), estimator.predict(X))
    assert "_callback_fit_ctx" not in vars(estimator)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(estimator)).predict(X), estimator.predict(X))


def test_callbacks_are_torn_down_after_a_failure():
    pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")

    def broken(model, X, y):
        raise RuntimeError("broken")

    recorder = Recorder()
    search = ProjectionSearchCV(CIDG(), {"ridge": [1.0]}, scoring=broken).set_callbacks(recorder)
    with pytest.raises(RuntimeError, match="broken"):
        search.fit(X, Y, sample_domain=D)
    assert recorder.told[-1] == ("teardown", "fit", 3)


def test_scikit_learns_progress_bar_works(capfd):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    pytest.importorskip("rich")
    ProjectionSearchCV(CIDG(), {"ridge": [1.0]}).set_callbacks(callback.ProgressBar()).fit(X, Y, sample_domain=D)
    assert "100%" in capfd.readouterr().out
