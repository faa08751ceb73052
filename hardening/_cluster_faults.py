"""A Dask cluster whose workers and scheduler are lost while a command works on it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from ._bench import Bench
from ._command import LONG, REPOSITORY, Place, Run, say
from ._jobs import METHODS, Job, columns

PATIENCE = 3  # seconds without workers after which the scheduler gives up a computation; by default it waits
SECONDS = 60  # in which a lost cluster should have been told of, on a machine that does other things as well
FIT = ("fit", "parts", *columns("--methods", "KFDA", "--feature-map", "nystroem", "-o", "m.unseen", "--overwrite"))
COMPARE = ("compare", "train.csv", *columns("--methods", METHODS, "--quick", "--store", "r.sqlite", "--format", "json"))
JOBS = (
    Job("compare", "compare", COMPARE, (), ("r.sqlite",)),
    Job("fit", "fit", FIT, ("m.unseen",)),
    Job("predict", "predict", ("predict", "given.unseen", "parts", "-o", "p.csv"), ("p.csv",)),
)
WORKER, WORKERS, SCHEDULER = "a Dask worker lost", "all Dask workers lost", "the Dask scheduler lost"

# In a worker: each task leaves a file that says so, and takes a while, so that the worker can be killed meanwhile.
SLOW = """
import os, time
from pathlib import Path
import distributed.worker

name = next(name for name in ("_run_task_simple", "apply_function_simple") if hasattr(distributed.worker, name))
quick = getattr(distributed.worker, "undisturbed", getattr(distributed.worker, name))  # Dask loads this twice
distributed.worker.undisturbed = quick

def slow(*args, **more):
    Path({busy!r}, str(os.getpid())).touch()
    time.sleep(0.5)
    return quick(*args, **more)

setattr(distributed.worker, name, slow)
"""

COUNT = """
import sys, distributed
distributed.Client(sys.argv[1], timeout=60).wait_for_workers(int(sys.argv[2]), 120)
"""


class Cluster(AbstractContextManager["Cluster"]):
    """A scheduler and workers, as processes that can be killed one by one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.busy = folder, folder / "busy"
        self.busy.mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]  # always the same: the command is part of what is written
        (folder / "slow.py").write_text(SLOW.format(busy=str(self.busy)))
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """Where the scheduler is."""
        return f"tcp://127.0.0.1:{self.port}"

    def _started(self, name: str, *args: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{name}", "--no-dashboard", *map(str, args)]
        paths = os.pathsep.join([str(REPOSITORY / "src"), *filter(None, sys.path)])
        environment = {"PYTHONPATH": paths, "DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT": f"{PATIENCE}s"}
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env={**os.environ, **environment})

    def start(self, workers: int) -> None:
        """Start so many workers, and a scheduler if there is none."""
        if self.scheduler is None:
            self.scheduler = self._started("dask_scheduler", "--host", "127.0.0.1", "--port", self.port)
        how = "--no-nanny", "--nthreads", 1, "--preload", "slow.py", "--local-directory", self.folder
        self.workers += [self._started("dask_worker", self.address, *how) for _ in range(workers)]
        asked = [sys.executable, "-c", COUNT, self.address, str(len(self.workers))]
        subprocess.run(asked, check=True, timeout=LONG)

    def at_work(self) -> list[int]:
        """Workers that have had something to do."""
        return [int(path.name) for path in self.busy.iterdir()]

    def rest(self) -> None:
        """Forget who had."""
        for path in self.busy.iterdir():
            path.unlink()

    def lose(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        """Kill some."""
        for process in processes:
            process.kill()
            process.wait(LONG)
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        if self.scheduler is not None and self.scheduler.poll() is not None:
            self.scheduler = None

    def __exit__(self, *_: object) -> None:
        self.lose([*self.workers, *([self.scheduler] if self.scheduler else [])])


def begun(bench: Bench, cluster: Cluster, job: Job, place: Place) -> Run:
    """A run that has something done by a worker."""
    cluster.rest()
    run = bench.zygote.start(place, job.args)
    while not cluster.at_work():
        assert not run.ended(0.02), run.err
    return run


def one_command(bench: Bench, cluster: Cluster, job: Job) -> None:
    """Lose a worker, all workers and the scheduler, one after the other, and mend it each time."""
    bench.reference(job)

    def lost(fault: str, processes: Callable[[], Sequence[subprocess.Popen[bytes]]], says: str) -> Place:
        place = bench.filled()
        run = begun(bench, cluster, job, place)
        cluster.lose(processes())
        start = time.monotonic()
        well = bench.ended(fault, job, run, place, says)
        seen = bench.seen[fault]
        seen.bad("unclear", fault == WORKER and not well, f"{fault}, {job}", run.err)
        if well:
            bench.compare(fault, job, run, place)
        else:
            seen.seconds = max(seen.seconds, time.monotonic() - start)
        return place

    lost(WORKER, lambda: [worker for worker in cluster.workers if worker.pid == cluster.at_work()[0]], "")
    place = lost(WORKERS, lambda: cluster.workers, "no workers")
    cluster.start(2)
    bench.again(WORKERS, job, place)
    place = lost(SCHEDULER, lambda: [process for process in (cluster.scheduler,) if process], "scheduler")
    cluster.lose(cluster.workers)
    cluster.start(2)
    bench.again(SCHEDULER, job, place)


def lose(bench: Bench) -> None:
    """Do so to three commands."""
    with Cluster(bench.root / "cluster") as cluster:
        cluster.start(2)
        for job in JOBS:
            there = replace(job, name=f"{job} on a cluster", args=(*job.args, "--scheduler", cluster.address))
            one_command(bench, cluster, there)
            say(f"faults: {there}")
