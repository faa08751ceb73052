"""Whole jobs as users feel them, start-up included: seconds on two quiet cores."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .measure import Row

# Those that version 0.1 compared, in 62 to 85 s.
ELEVEN = "1-NN,KPCA,KFDA,DICA,Undo-Bias,SCA,CIDG,MDA,logistic,linear SVM,RBF SVM"
UNSEEN = [sys.executable, "-c", "from unseen.cli import main; main()"]
CLASSIFIER = """
import time
import numpy as np
from unseen import UnseenClassifier
from unseen.datasets import load_rotated_digits
data = load_rotated_digits()
few = np.isin(data.domain, sorted(set(data.domain))[:5])
X, y, domain = data.data[few].astype(float), data.target[few], data.domain[few]
wall, cpu = time.perf_counter(), time.process_time()
UnseenClassifier(transductive=True).fit(X, y, sample_domain=domain)
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        helped, _ = _timed("--help", folder=folder)
        yield Row("unseen --help, s", helped, 1, True, "the best of three")
        compared, first = _timed("demo", "--methods", ELEVEN, folder=folder, runs=1)
        yield Row("unseen demo, eleven methods, s", compared, 20, True, "two processes")
        yield Row("the same: until it says something, s", first, 3, True, "start-up, reading")
        table = Path(folder, "table.csv")
        table.write_text(_table(480, 8))
        fitted, _ = _timed("fit", str(table), "-o", str(Path(folder, "model.unseen")), folder=folder)
        yield Row("unseen fit, 480 rows of 8 columns, s", fitted, 8, True, "one process")
    done = subprocess.run([sys.executable, "-c", CLASSIFIER], capture_output=True, text=True, check=True)
    wall, cpu = map(float, done.stdout.split())
    yield Row(
        "UnseenClassifier.fit, 1,498 x 64, 5 domains: 57 s of version 0.1 / ours", 57 / wall, 4, False, f"{wall:.1f} s"
    )
    yield Row("the same: 106 CPU seconds of version 0.1 / ours", 106 / cpu, 4, False, f"{cpu:.1f} s")


def _timed(*arguments: str, folder: str, runs: int = 3) -> tuple[float, float]:
    """The shortest time of a command, and until its first line."""
    found = []
    for _ in range(runs):
        for results in Path(folder).glob("*.sqlite*"):
            results.unlink()
        start = time.perf_counter()
        process = subprocess.Popen([*UNSEEN, *arguments], cwd=folder, text=True, stdout=-1, stderr=subprocess.STDOUT)
        assert process.stdout is not None
        process.stdout.readline()
        first = time.perf_counter() - start
        process.communicate()
        if process.returncode:
            raise RuntimeError(f"unseen {' '.join(arguments)} ended with {process.returncode}.")
        found.append((time.perf_counter() - start, first))
    return min(found)


def _table(n: int, n_features: int) -> str:
    """A table of four hospitals whose means differ."""
    rng = np.random.default_rng(0)
    place, ill = rng.integers(0, 4, n), rng.integers(0, 2, n)
    X = rng.normal(size=(n, n_features)) + ill[:, None] * rng.normal(size=n_features) + rng.normal(size=(4, 8))[place]
    lines = [",".join(["hospital", "diagnosis", *(f"x{j}" for j in range(n_features))])]
    for p, i, x in zip(place, ill, X, strict=True):
        lines.append(",".join([f"h{p}", "ill" if i else "well", *(f"{value:.4f}" for value in x)]))
    return "\n".join(lines)
