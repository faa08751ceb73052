"""A study that is killed or interrupted continues where it was, and ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from unseen.datasets import make_synthetic
from unseen.evaluation import Protocol, run
from unseen.tables import table_from_arrays

pytestmark = pytest.mark.system

LONG = 60  # seconds that nothing here should ever need
METHODS = ["1-NN", "KFDA", "CIDG", "logistic"]
ROWS = 3 * 3 * len(METHODS)

SLOWED = """
import sys, time
import unseen.evaluation._run as engine
from unseen.evaluation import Protocol

predict = engine.Study.predict

def slowed(study, job):
    time.sleep(0.1)
    return predict(study, job)

engine.Study.predict = slowed
"""
STUDY = """
from unseen.datasets import make_synthetic
from unseen.tables import table_from_arrays

data = make_synthetic(random_state=0)
engine.run(
    table_from_arrays(data.data, data.target, data.domain), ["1-NN", "KFDA", "CIDG", "logistic"],
    Protocol.paper(repeats=3, quick=True), store=sys.argv[1],
)
"""


def start(tmp_path, script, *args):
    path = tmp_path / "script.py"
    path.write_text(SLOWED + script)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(path), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=tmp_path,
        start_new_session=True,
    )


def count(store):
    """Rows in a store that may not exist yet, read beside the process that writes it."""
    if not store.exists():
        return 0
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=10)) as connection:
        try:
            return connection.execute("SELECT count(*) FROM results").fetchone()[0]
        except sqlite3.OperationalError:  # its tables are not there yet
            return 0


def wait_for_rows(process, store, wanted):
    deadline = time.monotonic() + LONG
    while count(store) < wanted:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def end(process):
    if process.poll() is None:
        process.kill()
    return process.communicate(timeout=LONG)


def resume(store):
    data = make_synthetic(random_state=0)
    table = table_from_arrays(data.data, data.target, data.domain)
    return run(table, METHODS, Protocol.paper(repeats=3, quick=True), store=store).rows


def facts(rows):
    return [(r.task, r.method, r.repeat, r.accuracy, r.accuracies, r.settings, r.status) for r in rows]


def test_a_study_killed_twice_ends_as_an_undisturbed_one(tmp_path):
    store = tmp_path / "results.sqlite"
    kept = []
    for wanted in (4, 12):
        process = start(tmp_path, STUDY, store)
        try:
            wait_for_rows(process, store, wanted)
            os.kill(process.pid, signal.SIGKILL)
            process.wait(timeout=LONG)
        finally:
            end(process)
        assert process.returncode == -signal.SIGKILL
        kept.append(count(store))
        assert wanted <= kept[-1] < ROWS
    rows = resume(store)
    assert count(store) == len(rows) == ROWS
    assert len({(row.task, row.method, row.repeat) for row in rows}) == ROWS
    assert facts(rows) == facts(resume(tmp_path / "undisturbed.sqlite"))
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
