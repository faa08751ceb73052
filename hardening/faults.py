"""Full disks, folders without write permission, and two runs that share a file. Mounting small disks needs root."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from benchmarks.measure import Row

from .commands import JOBS, Job, Run, list_files, make_home, read_content, read_results, run_to_end

DISK_BYTES = 40 * 2**20
BLOCK_BYTES = 4096
PAIRS = 10  # runs of each job that share its files
CLAIMS = {
    "unclear": "runs that end neither well nor with a clear error",
    "half-written": "incomplete files under their final name",
    "different": "results that differ, after the fault was repaired",
    "left": "files that remain, after the fault was repaired",
}


def rows() -> Iterator[Row]:
    """Simulate every fault for every job, repair it, and run the job again."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        make_home(root / "home")
        for job in JOBS:
            expected = _Expected(root, job)
            for share in (0.0, 0.4):
                full_disk(expected, share, counts)
            read_only_folder(expected, counts)
            two_at_once(expected, counts)
            print(f"faults: {job.name}: {dict(counts)}", file=sys.stderr, flush=True)
    names = ", ".join(job.name for job in JOBS)
    yield Row("runs with a fault", counts["runs"], len(JOBS), False, f"{names}: full disk, read-only folder, two runs")
    for kind, claim in CLAIMS.items():
        yield Row(
            claim, counts[kind], 0, True, f"{counts['well']} of {counts['runs']} runs ended well despite the fault"
        )


class _Expected:
    """A job, its results without a fault, the files that it leaves, and their size."""

    def __init__(self, root: Path, job: Job) -> None:
        self.home = root / "home"
        self.folder = root / "work"
        self.job = job
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.home, self.folder)
        run_to_end(self.folder, job)
        self.results = read_results(job, self.folder)
        self.names = list_files(self.folder)
        made = [self.folder / name for name in self.names - list_files(self.home)]
        self.size = sum(-(-path.stat().st_size // BLOCK_BYTES) * BLOCK_BYTES for path in made)
        shutil.rmtree(self.folder)

    def check_fault(self, run: Run, message: str, counts: Counter[str]) -> None:
        """Check that a run ends well, or with an error that matches; and that its files are complete."""
        code = run.wait()
        counts["runs"] += 1
        counts["well"] += code == 0
        is_clear = code in (1, 2) and re.search(r"^(Error|Failed): .+", run.errors, re.MULTILINE)
        is_clear = is_clear and "Traceback" not in run.errors and re.search(message, run.errors, re.IGNORECASE)
        if code != 0 and not is_clear:
            counts["unclear"] += 1
            print(f"faults: {self.job.name}: exit code {code}: {run.errors}", file=sys.stderr)
        for name in self.job.makes:
            path = self.folder / name
            counts["half-written"] += path.exists() and read_content(path) != self.results[name]

    def check_repaired(self, counts: Counter[str]) -> None:
        """Check that the same command gives the expected results without the fault."""
        run_to_end(self.folder, self.job)
        counts["different"] += read_results(self.job, self.folder) != self.results
        counts["left"] += len(list_files(self.folder) - self.names)


@contextmanager
def _small_disk(expected: _Expected) -> Iterator[None]:
    expected.folder.mkdir()
    size = f"size={DISK_BYTES // 1024}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", expected.folder], check=True)
    try:
        shutil.copytree(expected.home, expected.folder, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", expected.folder], check=True)
        expected.folder.rmdir()


def full_disk(expected: _Expected, share: float, counts: Counter[str]) -> None:
    """A disk with room for a share of the files of a job."""
    with _small_disk(expected):
        filler = expected.folder / "filler"
        room = shutil.disk_usage(expected.folder).free - int(share * expected.size)
        filler.write_bytes(bytes(room // BLOCK_BYTES * BLOCK_BYTES))
        expected.check_fault(Run(expected.folder, expected.job.args), "disk is full", counts)
        filler.unlink()
        expected.check_repaired(counts)


def read_only_folder(expected: _Expected, counts: Counter[str]) -> None:
    """A folder without write permission."""
    with _small_disk(expected):
        subprocess.run(["mount", "-o", "remount,ro", expected.folder], check=True)
        try:
            expected.check_fault(Run(expected.folder, expected.job.args), "writ|read-?only|opened", counts)
        finally:
            subprocess.run(["mount", "-o", "remount,rw", expected.folder], check=True)
        expected.check_repaired(counts)


def two_at_once(expected: _Expected, counts: Counter[str]) -> None:
    """Two runs of a job in one folder, a fraction of a second apart."""
    rng = np.random.default_rng(0)
    for _ in range(PAIRS):
        shutil.copytree(expected.home, expected.folder)
        first = Run(expected.folder, expected.job.args)
        time.sleep(rng.uniform(0, 0.3))
        second = Run(expected.folder, expected.job.args)
        for run in (first, second):
            if run.wait() != 0:
                counts["unclear"] += 1
                print(f"faults: two runs of {expected.job.name}: {run.errors}", file=sys.stderr)
        counts["runs"] += 2
        counts["well"] += 2
        counts["different"] += read_results(expected.job, expected.folder) != expected.results
        counts["left"] += len(list_files(expected.folder) - expected.names)
        shutil.rmtree(expected.folder)
