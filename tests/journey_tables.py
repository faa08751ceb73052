"""Tables of the size that people have, and the commands on them in processes of their own."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LABEL = "outcome"
DOMAIN = "site"
ROLES = ("--label", LABEL, "--domain", DOMAIN)
SCREEN = 40  # lines of a terminal
SCRIPT = "import sys; from unseen.cli import main; sys.argv[0] = 'unseen'; main()"
REAL_TABLES = Path(__file__).parents[2] / "shared" / "data" / "tables"


@dataclass(frozen=True)
class Data:
    """A generated table, as a file and as arrays of its numeric features."""

    path: Path
    X: np.ndarray
    y: np.ndarray
    site: np.ndarray

    @property
    def sites(self) -> list[str]:
        return np.unique(self.site).tolist()


def make_table(path: Path, *, n_rows=2000, n_sites=6, n_classes=2, event_rate=None, mixed=False, seed=0) -> Data:
    """Write a table whose sites shift all features, with three features that depend on the class."""
    rng = np.random.default_rng(seed)
    site = np.arange(n_rows) % n_sites
    codes = rng.integers(n_classes, size=n_rows)
    if event_rate is not None:
        codes = (rng.random(n_rows) < event_rate).astype(int)
    X = rng.normal(size=(n_rows, 6)) + 0.4 * rng.normal(size=(n_sites, 6))[site]
    centers = np.linspace(-1.5, 1.5, n_classes)[:, None] * [1.0, 0.6, -0.8]
    X[:, :3] += (centers + 0.5 * np.random.default_rng(7).normal(size=(n_classes, 3)))[codes]
    X = X.round(4)
    columns = {f"x{j}": X[:, j].tolist() for j in range(X.shape[1])}
    if mixed:
        is_missing = rng.random(n_rows) < 0.2
        columns["x5"] = ["" if missing else value for missing, value in zip(is_missing, columns["x5"], strict=True)]
        columns["arrival"] = np.array(["walk-in", "ambulance", "transfer"])[rng.integers(3, size=n_rows)].tolist()
    y = np.array([f"class {code:02d}" for code in range(n_classes)])[codes]
    names = np.array([f"site {number:02d}" for number in range(n_sites)])[site]
    rows = zip(y.tolist(), names.tolist(), *columns.values(), strict=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([(LABEL, DOMAIN, *columns), *rows])
    return Data(path, X, y, names)


def run(*arguments, cwd: Path, check=True) -> subprocess.CompletedProcess:
    """Run a command in its own process; there is no traceback, and the exit code is 0 unless the caller checks it."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert "Traceback" not in done.stderr, done.stderr
    if check:
        assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if line.startswith("Note:")]
    assert len(notes) == len(set(notes)), notes
    return done


def first_screen(text: str) -> str:
    """Return the lines that a terminal shows without scrolling."""
    return "\n".join(text.splitlines()[:SCREEN])


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
