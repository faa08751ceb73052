"""Sizes at which programs fall over: ten million rows, 5,000 classes, 2,000 domains: results or clear refusals."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from benchmarks.measure import Row

UNSEEN = [sys.executable, "-c", "from unseen.cli import main; main()"]
ROWS = int(os.environ.get("UNSEEN_LOAD_ROWS", 10_000_000))
PARTS = 10
MINUTES = 30  # of one core


@dataclass(frozen=True)
class Job:
    """How a command ended: its code, what it said, how long it took, of how much work, and the most memory it held."""

    code: int
    said: str
    seconds: float
    cpu: float
    megabytes: float

    @property
    def clear(self) -> bool:
        """A result, or a refusal in words."""
        return self.code == 0 or (self.code in (1, 2) and "Traceback" not in self.said and "Error" in self.said)

    def __str__(self) -> str:
        ended = (
            "a result" if self.code == 0 else f"refused: {' '.join(self.said.split()).rpartition('Error: ')[2][:160]}"
        )
        return f"{self.seconds:.0f} s, {self.cpu:.0f} CPU-s, {self.megabytes:,.0f} MB: {ended}"


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from wide_tables(folder)
        yield from many_rows(folder / "default", ROWS // 10)
        yield from many_rows(folder / "CIDG", ROWS, "--methods", "CIDG")


def many_rows(folder: Path, n: int, *options: str) -> Iterator[Row]:
    """Parquet files that should not be in memory at once, through fit and predict; by default fit makes a pool."""
    (folder / "parts").mkdir(parents=True)
    for part in range(PARTS):
        table(n // PARTS, 20, n_classes=4, n_domains=8, seed=part).write_parquet(folder / f"parts/part{part}.parquet")
    size = sum(path.stat().st_size for path in (folder / "parts").iterdir()) / 1e6
    what = f"{n:,} rows x 20 columns of Parquet, {size:,.0f} MB, {' '.join(options) or 'the default pool'}"
    roles = ("--label", "diagnosis", "--domain", "hospital")
    fitted = command(folder, "fit", "parts/*.parquet", *roles, *options, "-o", "big.unseen")
    predicted = command(folder, "predict", "big.unseen", "parts/*.parquet", "-o", "predictions.parquet")
    done = (
        pl.scan_parquet(folder / "predictions.parquet").select(pl.len()).collect().item() if not predicted.code else 0
    )
    for job, name in ((fitted, "fit"), (predicted, "predict")):
        yield Row(f"{name}, {what}: CPU minutes", job.cpu / 60, MINUTES, True, str(job))
        yield Row("the same: most memory, MB", job.megabytes, 1500, True, "of the process, imports included")
    yield Row("the same: rows predicted", done, n, False, "of as many")


def wide_tables(folder: Path) -> Iterator[Row]:
    """Many classes and many domains through three commands."""
    many = {"5,000 classes": table(20_000, 10, 5000, 4, 0), "2,000 domains": table(20_000, 10, 4, 2000, 0)}
    for name, frame in many.items():
        frame.write_csv(folder / "table.csv")
        roles = ("table.csv", "--label", "diagnosis", "--domain", "hospital")
        for job in (("diagnose", *roles), ("compare", *roles), ("fit", *roles, "-o", "model.unseen")):
            done = command(folder, *job)
            yield Row(
                f"{name}, {job[0]}: CPU minutes to a result or a refusal", done.cpu / 60, MINUTES, True, str(done)
            )
            yield Row(f"{name}, {job[0]}: ends otherwise", not done.clear, 0, True, "")


def table(n: int, n_features: int, n_classes: int, n_domains: int, seed: int) -> pl.DataFrame:
    """Shifted Gaussian classes; the classes and domains are those of every seed."""
    rng = np.random.default_rng(seed)
    fixed = np.random.default_rng(0)
    means, shifts = fixed.normal(size=(n_classes, n_features)), 0.5 * fixed.normal(size=(n_domains, n_features))
    order = rng.permutation(n)
    y, d = order % n_classes, order // n_classes % n_domains  # every class in every domain, as far as rows reach
    X = (rng.normal(size=(n, n_features)) + means[y] + shifts[d]).astype(np.float32)
    labels = pl.Series("diagnosis", y).cast(pl.String), pl.Series("hospital", d).cast(pl.String)
    return pl.DataFrame({f"x{j}": X[:, j] for j in range(n_features)}).with_columns(*labels)


def command(folder: Path, *arguments: str) -> Job:
    """Run a command; its memory is the most that the process or one of its children held."""
    start = time.perf_counter()
    print(f"unseen {' '.join(arguments)}", file=sys.stderr, flush=True)
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen([*UNSEEN, *arguments], cwd=folder, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        said.seek(0)
        text = said.read()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    job = Job(process.returncode, text, time.perf_counter() - start, cpu, usage.ru_maxrss / 1024)
    print(job, file=sys.stderr, flush=True)
    return job
