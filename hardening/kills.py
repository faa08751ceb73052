"""Commands that are ended at random times, half of them while they write, and run again."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.measure import Row

from .commands import JOBS, Job, Run, list_files, make_home, read_content, read_results, read_rows, run_to_end

KILLS = dict.fromkeys(("compare", "validate", "sites"), 20)
OTHER_KILLS = 6  # of each other job
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
GRACE_SECONDS = 15  # in which a stopped run must end
CLAIMS = {
    "different": "results that differ from those of an undisturbed run",
    "half-written": "incomplete or damaged files under their final name",
    "repeated": "stored rows that were computed again",
    "left": "processes, shared memory or files that remain",
    "late": f"runs that took more than {GRACE_SECONDS} s to end",
    "unclear": "other exit codes, or tracebacks",
}


def rows() -> Iterator[Row]:
    """Kill every job, run it again, and count what is wrong."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as root:
        make_home(Path(root, "home"))
        for job in JOBS:
            kill_job(job, Path(root), counts)
            print(f"kills: {job.name}: {dict(counts)}", file=sys.stderr, flush=True)
    attempts = {job.name: KILLS.get(job.name, OTHER_KILLS) for job in JOBS}
    detail = "attempts: " + ", ".join(f"{n} of {name}" for name, n in attempts.items())
    for number in SIGNALS:
        yield Row(f"runs ended by {number.name}", counts[number.name], sum(attempts.values()) / 6, False, detail)
    yield Row("of these, while a file was being written", counts["writing"], 0, False, "or a database was open")
    for kind, claim in CLAIMS.items():
        yield Row(claim, counts[kind], 0, True, "after each signal, and after each resumed run")


def kill_job(job: Job, root: Path, counts: Counter[str]) -> None:
    """Kill a job at several moments; after each, check the files, run it again and compare the results."""
    folder = root / "work"
    shutil.copytree(root / "home", folder)
    start = time.monotonic()
    run_to_end(folder, job)
    seconds = time.monotonic() - start
    expected = read_results(job, folder)
    names = list_files(folder)
    rng = np.random.default_rng(0)
    for number in range(KILLS.get(job.name, OTHER_KILLS)):
        shutil.rmtree(folder)
        shutil.copytree(root / "home", folder)
        how = SIGNALS[number % len(SIGNALS)]
        run = Run(folder, job.args)
        if number % 2:
            _wait_for_writing(run, folder)
            time.sleep(rng.uniform(0, 0.05))
        else:
            time.sleep(rng.uniform(0.3, 1) * seconds)
        is_writing = _is_writing(folder)
        _send(run, how)
        if not _ends_in_time(run):
            counts["late"] += 1
            run.process.kill()
        code = run.wait()
        if code in (-how, 128 + how):
            counts[how.name] += 1
            counts["writing"] += is_writing
        counts["unclear"] += code not in (0, -how, 128 + how) or "Traceback" in run.errors
        left = run.leftovers()
        temporary = [path.name for path in folder.glob(".unseen-*")]
        if how != signal.SIGKILL:
            left += temporary
        counts["left"] += len(left)
        for name in temporary:  # nothing removes those of a run that SIGKILL ended
            shutil.rmtree(folder / name)
        kept = _check_files(job, folder, expected, counts)
        run_to_end(folder, job)
        counts["different"] += read_results(job, folder) != expected
        for name, before in kept.items():
            after = read_rows(folder / name)
            counts["repeated"] += sum(after.get(key, (None, None))[1] != when for key, (_, when) in before.items())
        counts["left"] += len(list_files(folder) - names)
    shutil.rmtree(folder)


def _send(run: Run, how: signal.Signals) -> None:
    """Send a signal to a run: to all of its processes if it is an interrupt, as a terminal does."""
    with suppress(ProcessLookupError):  # the run has ended
        if how == signal.SIGINT:
            os.killpg(run.process.pid, how)
        else:
            run.process.send_signal(how)


def _is_writing(folder: Path) -> bool:
    return any(folder.glob(".unseen-*")) or any(folder.glob("*.sqlite-*"))


def _wait_for_writing(run: Run, folder: Path) -> None:
    while run.process.poll() is None and not _is_writing(folder):
        time.sleep(0.001)


def _ends_in_time(run: Run) -> bool:
    end = time.monotonic() + GRACE_SECONDS
    while run.process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    return run.process.poll() is not None


def _check_files(job: Job, folder: Path, expected: dict[str, Any], counts: Counter[str]) -> dict[str, Any]:
    """Check that files under final names are complete; return the rows of the SQLite files."""
    kept = {}
    for name in (*job.makes, *job.keeps):
        if not (folder / name).exists():
            continue
        try:
            if name in job.keeps:
                kept[name] = read_rows(folder / name)
                wrong = [key for key, (value, _) in kept[name].items() if expected[name].get(key) != value]
                counts["different"] += len(wrong)
            elif read_content(folder / name) != expected[name]:
                counts["half-written"] += 1
        except Exception as error:  # any error of a reader of a damaged file
            print(f"kills: {job.name}: {name}: {error!r}", file=sys.stderr)
            counts["half-written"] += 1
    return kept
