"""Small jobs of the four commands that write, and what they read."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ._command import REPOSITORY, Place, Zygote

SITES = ("lima", "oslo", "riga")
METHODS = "1-NN,logistic,KFDA"
PHOTOS, BROKEN = 24, "photos/lima/flower/broken.png"
OLD = b"what was here before"  # under a final name, in some runs


@dataclass(frozen=True)
class Job:
    """A command and the files that it makes."""

    name: str
    command: str
    args: tuple[str, ...]
    makes: tuple[str, ...]
    keeps: tuple[str, ...] = ()  # SQLite files, which grow while it works
    every: int = 1  # it has its turn each so many times: some are slow

    def __str__(self) -> str:
        return self.name


def columns(*more: str) -> tuple[str, ...]:
    return ("--label", "diagnosis", "--domain", "site", *more)


STORED = ("r.sqlite",)
FEATURES = ("c.sqlite",)
MODEL = ("-o", "m.unseen", "--overwrite")
NETWORK = ("--network", "net.onnx", "--batch-size", "4")
STUDY = ("--methods", METHODS, "--quick", "--store", "r.sqlite", "--report", "r.html", "--format", "json", "--jobs")
JOBS = (
    Job("compare", "compare", ("compare", "train.csv", *columns(*STUDY, "1")), ("r.html",), STORED),
    Job("compare in two processes", "compare", ("compare", "train.csv", *columns(*STUDY, "2")), ("r.html",), STORED, 6),
    Job("compare with an ensemble", "compare", ("compare", "train.csv", *columns("--methods", "KFDA,logistic,auto",
        "--quick", "--store", "r.sqlite", "--report", "r.html", "--format", "json", "--jobs", "1")), ("r.html",),
        STORED, 3),
    Job("fit", "fit", ("fit", "train.csv", *columns("--methods", "logistic", *MODEL)), ("m.unseen",)),
    Job("fit a folder", "fit",
        ("fit", "parts", *columns("--methods", "KFDA", "--feature-map", "nystroem", *MODEL)), ("m.unseen",)),
    Job("predict text", "predict", ("predict", "given.unseen", "new.csv", "-o", "p.csv", "--batch-size", "40"),
        ("p.csv",)),
    Job("predict Parquet", "predict", ("predict", "given.unseen", "new.csv", "-o", "p.parquet", "--batch-size", "40",
        "--keep", "all", "--domain", "site"), ("p.parquet",)),
    Job("extract", "extract", ("extract", "photos", *NETWORK, "-o", "f.parquet", "--store", "c.sqlite", "--jobs", "2"),
        ("f.parquet", "f.skipped.csv"), FEATURES),
)  # fmt: skip


def frame_text(n: int, seed: int, sites: Sequence[str] = SITES) -> str:
    """Patients of some sites, as text."""
    rng = np.random.default_rng(seed)
    code, site = rng.integers(0, 2, n), np.arange(n) % len(sites)
    X = rng.normal(size=(n, 4)) + 1.5 * code[:, None] + 0.5 * site[:, None]
    lines = [
        ",".join([*(f"{value:.5f}" for value in X[i]), sites[site[i]], ("ill", "well")[code[i]]]) for i in range(n)
    ]
    return "\n".join(["age,weight,height,pulse,site,diagnosis", *lines, ""])


def make_home(home: Path, zygote: Zygote) -> None:
    """What all jobs read: tables, photographs, one of them broken, a network, a model."""
    from PIL import Image

    sys.path.insert(0, str(REPOSITORY / "tests"))
    from tiny_network import tiny_network

    (home / "train.csv").write_text(frame_text(120, 0))
    (home / "new.csv").write_text(frame_text(400, 1, ("cork", "kiel")))
    tiny_network(home / "net.onnx")
    (home / "parts").mkdir()
    for part in range(3):
        (home / "parts" / f"part-{part}.csv").write_text(frame_text(60, 2 + part))
    rng = np.random.default_rng(5)
    for i in range(PHOTOS):
        path = home / "photos" / SITES[i % 3] / ("flower", "leaf")[i // 3 % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 128, (12, 12, 3)) + 60 * (i // 3 % 2) + 10 * (i % 3)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    (home / BROKEN).write_bytes((home / "photos/lima/flower/0.png").read_bytes()[:60])
    place = Place(home.with_name("making"))
    run = zygote.start(
        place, ["fit", home / "train.csv", *columns("--methods", "logistic", "-o", home / "given.unseen")]
    )
    assert run.wait() == 0, run.err


def copy_home(home: Path, place: Place) -> None:
    """Put what jobs read into a place."""
    shutil.copytree(home, place.folder, dirs_exist_ok=True)
