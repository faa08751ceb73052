"""Small runs of the commands that write files: how they are started, what they read and what they leave."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).parents[1]
MAX_SECONDS = 300  # that no run here needs, on a machine that does other things as well
ORPHAN_SECONDS = 120  # in which the workers of a killed run must have ended
TIMES = ("seconds", "date", "created")  # in model cards, JSON files and rows of results files
NODE_ID = re.compile(r'("__id__": |"file": ")(\d+)')  # in a model file: addresses in memory
COLUMNS = ("--label", "diagnosis", "--domain", "site")


@dataclass(frozen=True)
class Job:
    """A command, the files that it writes, and the SQLite files that grow while it works."""

    name: str
    args: tuple[str, ...]
    makes: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()


COMPARE = ("compare", "train.csv", *COLUMNS, "--methods", "1-NN,logistic,KFDA", "--quick", "--store", "r.sqlite")
EXTRACT = ("extract", "photos", "--network", "net.onnx", "--batch-size", "4", "-o", "f.parquet", "--store", "c.sqlite")
VALIDATE = ("validate", "train.csv", *COLUMNS, "--methods", "logistic,1-NN", "--compare-with", "nearest mean")
SITES = ("sites", "sites.csv", *COLUMNS, "--methods", "logistic,nearest mean", "--store", "s.sqlite")
JOBS = (
    Job("compare", (*COMPARE, "--report", "r.html", "--jobs", "1"), ("r.html",), ("r.sqlite",)),
    Job("validate", (*VALIDATE, "--store", "v.sqlite", "-o", "v.json", "--jobs", "1"), ("v.json",), ("v.sqlite",)),
    Job("sites", (*SITES, "-o", "s.json", "--jobs", "1"), ("s.json",), ("s.sqlite",)),
    Job("compare in two processes", (*COMPARE, "--jobs", "2"), (), ("r.sqlite",)),
    Job("fit", ("fit", "train.csv", *COLUMNS, "--methods", "logistic", "-o", "m.unseen", "--overwrite"), ("m.unseen",)),
    Job("predict", ("predict", "given.unseen", "new.csv", "-o", "p.parquet", "--batch-size", "40"), ("p.parquet",)),
    Job("extract", EXTRACT, ("f.parquet",), ("c.sqlite",)),
)


class Run:
    """A process that runs the command in a folder, in its own session."""

    def __init__(self, folder: Path, args: Sequence[object]) -> None:
        paths = os.pathsep.join([str(REPOSITORY / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  open as long as the run
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from unseen.cli import main; main()", *map(str, args)],
            cwd=folder,
            env={**environment, "NO_COLOR": "1", "COLUMNS": "200"},
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
        )

    def wait(self) -> int:
        """The exit code, negative for a signal."""
        try:
            return self.process.wait(MAX_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise

    @property
    def errors(self) -> str:
        """Standard error so far."""
        self._errors.seek(0)
        return self._errors.read()

    def leftovers(self) -> list[str]:
        """Processes and shared memory that remain a while after the run has ended."""
        end = time.monotonic() + ORPHAN_SECONDS
        while left := [*_session_processes(self.process.pid), *_shared_memory(self.process.pid)]:
            if time.monotonic() > end:
                break
            time.sleep(0.1)
        return left


def _session_processes(session: int) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process ended
            state, _, _, own_session = (path / "stat").read_text().rpartition(") ")[2].split()[:4]
            if state != "Z" and int(own_session) == session:
                found.append(path.name)
    return found


def _shared_memory(pid: int) -> list[str]:
    return [path.name for path in Path("/dev/shm").glob(f"*[-_]{pid}[-_]*")]


def run_to_end(folder: Path, job: Job) -> None:
    """Run a job without disturbing it."""
    run = Run(folder, job.args)
    if run.wait() != 0:
        raise RuntimeError(f"{job.name} failed: {run.errors}")


def make_home(home: Path) -> None:
    """Write everything that the jobs read: tables, photographs, a network and a model."""
    from PIL import Image

    sys.path.insert(0, str(REPOSITORY / "tests"))
    from tiny_network import tiny_network

    home.mkdir()
    (home / "train.csv").write_text(_table_text(120, 0, ("lima", "oslo", "riga")))
    (home / "sites.csv").write_text(_table_text(200, 0, ("bern", "cork", "lima", "oslo", "riga")))
    (home / "new.csv").write_text(_table_text(400, 1, ("cork", "kiel")))
    tiny_network(home / "net.onnx")
    rng = np.random.default_rng(5)
    for i in range(24):
        path = home / "photos" / ("lima", "oslo", "riga")[i % 3] / ("flower", "leaf")[i // 3 % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (12, 12, 3)).astype(np.uint8)).save(path)
    run_to_end(home, Job("fit", ("fit", "train.csv", *COLUMNS, "--methods", "logistic", "-o", "given.unseen")))


def _table_text(n: int, seed: int, sites: Sequence[str]) -> str:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4)) + 1.5 * codes[:, None]
    lines = ["age,weight,height,pulse,site,diagnosis"]
    for i in range(n):
        values = ",".join(f"{value:.5f}" for value in X[i])
        lines.append(f"{values},{sites[i % len(sites)]},{('ill', 'well')[codes[i]]}")
    return "\n".join(lines) + "\n"


def list_files(folder: Path) -> set[str]:
    """All files below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def read_results(job: Job, folder: Path) -> dict[str, Any]:
    """The contents of all files of a finished job, without times."""
    contents = {name: read_content(folder / name) for name in job.makes}
    stored = {name: {key: value for key, (value, _) in read_rows(folder / name).items()} for name in job.keeps}
    return {**contents, **stored}


def read_content(path: Path) -> Any:
    """The content of a complete file, without times; an error if the file is not complete."""
    if path.suffix == ".unseen":
        with zipfile.ZipFile(path) as archive, archive.open("model.skops") as inner, zipfile.ZipFile(inner) as model:
            schema = model.read("schema.json").decode()
            numbers = {match[2]: i for i, match in enumerate(NODE_ID.finditer(schema))}
            arrays = {numbers[name[:-4]]: model.read(name) for name in model.namelist() if name != "schema.json"}
            columns = json.loads(archive.read("card.json"))["schema"]
            return columns, NODE_ID.sub(lambda match: f"{match[1]}{numbers[match[2]]}", schema), arrays
    if path.suffix == ".html":
        text = path.read_text()
        if not text.rstrip().endswith("</html>"):
            raise ValueError(f"{path} is not complete.")
        return text.count("<")  # the page contains times
    if path.suffix == ".json":
        return json.loads(path.read_text(), object_pairs_hook=lambda pairs: _without_times(dict(pairs)))
    return path.read_bytes()


def read_rows(path: Path) -> dict[Any, tuple[Any, Any]]:
    """Rows of an SQLite file by their keys: values without times, and what changes if a row is computed again.

    A damaged file raises. A copy is read, because opening such a file also repairs it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        for part in path.parent.glob(f"{path.name}*"):
            shutil.copy(part, scratch)
        with closing(sqlite3.connect(Path(scratch, path.name), timeout=30)) as connection:
            if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                raise ValueError(f"{path} is damaged.")
            connection.row_factory = sqlite3.Row
            tables = {row["name"] for row in connection.execute("SELECT name FROM sqlite_master")}
            if "results" in tables:
                return dict(_read_result(dict(row)) for row in connection.execute("SELECT rowid, * FROM results"))
            if "features" in tables:
                rows = [dict(row) for row in connection.execute("SELECT rowid, content, way, numbers FROM features")]
                return {(row["content"], row["way"]): (row["numbers"], row["rowid"]) for row in rows}
            return {}


def _read_result(row: dict[str, Any]) -> tuple[Any, tuple[Any, Any]]:
    """The key of a row of results, its values without times, and its number in the file and seconds."""
    key = tuple(row.pop(name) for name in ("configuration", "method", "task", "repeat"))
    content = json.loads(row.pop("content"))
    when = (row.pop("rowid"), content["seconds"])
    return key, ({**row, "content": _without_times(content)}, when)


def _without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in TIMES}
