"""Every reader of files, called as users call it. A reader must read a file, or raise an error of the package."""

from __future__ import annotations

import ast
import base64
import json
import linecache
import os
import shutil
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

import unseen
from tiny_network import tiny_network
from unseen import CIDG
from unseen.evaluation import Protocol, Store, Task, run
from unseen.images import extract, find_photos
from unseen.model_selection import HEADS, EnsembleClassifier
from unseen.models import ModelFileError, TableModel, load_model, read_card, save_model
from unseen.shift import Novelty
from unseen.tables import Table, TableError, iter_batches, load_table, make_preprocessor, scan, table_from_arrays

SOURCE = str(Path(unseen.__file__).parent)
PATIENTS = pl.DataFrame(
    {
        "hospital": ["bonn", "leeds", "york"] * 8,
        "age": [30.5 + 3 * i for i in range(24)],
        "sex": [["f", "m", None][i % 5 % 3] for i in range(24)],
        "visits": [i % 4 if i % 6 else None for i in range(24)],
        "diagnosis": [["ill", "well"][i // 2 % 2] for i in range(24)],
    }
)
X = np.random.default_rng(0).normal(size=(24, 3)).round(2)
DOMAIN, Y = np.array(["bonn", "leeds", "york"] * 8), np.arange(24) // 2 % 2
TASKS = [Task(("leeds", "york"), ("bonn",))]


MEMBERS = (
    Pipeline([("transformer", CIDG(n_components=1)), ("classifier", LogisticRegression())]),
    Pipeline([("classifier", SVC())]),
    Pipeline([("classifier", HEADS["1-NN"])]),
)


def make_model(table: Table, *members: Pipeline) -> tuple[TableModel, dict[str, Any]]:
    """Make a small model as `fit` does, and its card, without model selection, which takes time."""
    prepared = make_preprocessor(table.schema).fit(table.X)
    Z, n = prepared.transform(table.X), len(members)
    pool = EnsembleClassifier([*members], np.full(n, 1 / n), np.ones(n), conformal_scores=[np.linspace(0, 1, 5)] * 3)
    novelty = Novelty(n_components=4).fit(Z, sample_domain=table.domain)
    fitted = pool.fit(Z, table.y, sample_domain=table.domain)
    counts = {"rows": len(table.X), "features": table.X.shape[1], "domains": {}, "classes": [], "notices": []}
    card = {"schema": table.schema.to_dict(), "data": {"name": table.name, "missing": {"visits": 0.2}, **counts}}
    return TableModel(prepared, fitted, novelty), card


class Home:
    """A folder with a model for each kind of table, a network, a picture, and valid files to read with broken ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.work = folder / "work"
        PATIENTS.write_csv(folder / "patients.csv")
        np.savez(folder / "arrays.npz", X=X, y=Y, domain=DOMAIN)
        for name, members in (("patients.csv", MEMBERS[:1]), ("arrays.npz", MEMBERS[2:])):
            model, card = make_model(load_table(folder / name), *members)
            save_model(model, self.model_path(name), card)
        tiny_network(folder / "network.onnx")
        Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(folder / "picture.png")
        self.network = folder / "network.onnx"
        self.patients, self.arrays = (load_model(self.model_path(name)) for name in ("patients.csv", "arrays.npz"))

    def model_path(self, name: str) -> Path:
        return self.folder / f"{name.partition('.')[0]}.unseen"

    @property
    def picture(self) -> str:
        return str(self.folder / "picture.png")

    def run(self, store: Path) -> Any:
        """Run a small study that is stored in a file."""
        table = table_from_arrays(X, Y, DOMAIN)
        return run(table, ["1-NN"], Protocol(quick=True, scale="none"), tasks=TASKS, store=store, n_jobs=1)


Reader = Callable[[Home, Path], Any]


def _model(home: Home, path: Path) -> None:
    model = load_model(path)
    read_card(path)
    for data in (PATIENTS, X):
        try:
            model.predict(data)
            model.predict_proba(data)
        except ValueError as error:  # The model may be for other columns, and must report it.
            check_own_error(error)


def _model_table(home: Home, path: Path) -> None:
    model = load_model(path)
    model.predict_table(PATIENTS, domain="hospital")
    model.novelty(PATIENTS)
    model.save(home.work / "copy.unseen")


def _scan_and_read(home: Home, path: Path) -> None:
    scan(path)
    for _ in iter_batches(path, size=7):
        pass


def _in_folder(home: Home, path: Path) -> None:
    """Read the file as one domain of a folder."""
    folder = home.work / "folder"
    folder.mkdir()
    valid = home.folder / ("arrays.npz" if path.suffix in (".npz", ".mat") else "patients.csv")
    shutil.copy(valid, folder / f"valid{valid.suffix}")
    shutil.copy(path, folder / path.name)
    load_table(folder)


def _photo_list(home: Home, path: Path) -> None:
    find_photos(path)


def _store(home: Home, path: Path) -> None:
    with Store(path) as store:
        for (key,) in store._connection.execute("SELECT DISTINCT configuration FROM results").fetchall():
            store.rows(key)


def _cache(home: Home, path: Path) -> None:
    extract([home.picture], home.network, cache=path, n_jobs=1, strict=True)


def _network(home: Home, path: Path) -> None:
    extract([home.picture], path, n_jobs=1, strict=True)


def _make_then_read(read_folder: Reader) -> Reader:
    """Make a folder from a description, then read it; links and pipes cannot be stored in a repository."""

    def read(home: Home, path: Path) -> None:
        folder = home.work / "made"
        make_folder(json.loads(path.read_text()), folder)
        read_folder(home, folder)

    return read


def make_folder(description: list[dict[str, str]], folder: Path) -> None:
    """Make the described files, folders, pipes and links."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in description:
        name = os.fsencode(entry["name"]) if "\0" not in entry["name"] else b"zero"
        place = os.path.join(os.fsencode(folder), name)
        if os.path.lexists(place):
            continue
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if entry["kind"] == "folder":
            os.mkdir(place)
        elif entry["kind"] == "pipe":
            os.mkfifo(place)
        elif entry["kind"] == "link":
            os.symlink(os.fsencode(entry["content"]), place)
        else:
            with open(place, "wb") as file:
                file.write(base64.b64decode(entry["content"]))


def _read_each(home: Home, folder: Path) -> None:
    """Read every entry of a folder by its path."""
    readers: tuple[Callable[[Any], Any], ...] = (load_table, load_model, Store, home.patients.predict, _read_batches)
    readers += (
        lambda path: extract([path], home.network, n_jobs=1, strict=True),
        lambda path: extract([home.picture], path, n_jobs=1),
    )
    for entry in sorted(folder.iterdir()):
        for read in readers:
            try:
                read(entry)
            except (ValueError, OSError) as error:
                check_own_error(error)


def _read_batches(path: Path) -> None:
    list(iter_batches(path))


TABLE: tuple[Reader, ...] = (lambda home, path: load_table(path), _scan_and_read, _in_folder)
READERS: dict[str, tuple[Reader, ...]] = {
    "model": (_model, _model_table),
    "csv": (*TABLE, lambda home, path: home.patients.predict(path), _photo_list),
    "parquet": (*TABLE, lambda home, path: home.patients.predict(path), _photo_list),
    "arrow": (*TABLE, lambda home, path: home.patients.predict_table(path), _photo_list),
    "npz": (*TABLE, lambda home, path: home.arrays.predict(path)),
    "mat": (*TABLE, lambda home, path: home.arrays.predict(path)),
    "mat73": TABLE,
    "image": (
        lambda home, path: extract([path], home.network, n_jobs=1, strict=True),
        lambda home, path: extract([path], home.network, preprocessing="tf-lite", n_jobs=1),
    ),
    "network": (_network,),
    "results": (_store, lambda home, path: home.run(path)),
    "features": (_cache,),
    "folder": tuple(
        map(
            _make_then_read,
            (
                lambda home, folder: load_table(folder),
                lambda home, folder: home.patients.predict(folder),
                lambda home, folder: extract(folder, home.network, n_jobs=1),
                _read_each,
            ),
        )
    ),
}


class ForeignError(Exception):
    """An error or a warning of another library that the package does not translate."""


def check_own_error(error: BaseException) -> None:
    """Raise ForeignError unless an error is one of this package, with a message.

    That is a TableError or a ModelFileError; a ValueError, TypeError or OSError from a ``raise`` statement of the
    package; or an error of the operating system about the given path, for example that it is a folder.
    """
    if isinstance(error, ForeignError):
        raise error
    if isinstance(error, (TableError, ModelFileError)):
        is_own = bool(str(error))
    elif isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        is_own = True
    else:
        is_own = (
            isinstance(error, (ValueError, TypeError, OSError)) and bool(str(error)) and _is_raised_by_package(error)
        )
    if not is_own:
        raise ForeignError(f"{type(error).__name__}: {str(error)[:300]}") from error


def _is_raised_by_package(error: BaseException) -> bool:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not last.tb_frame.f_code.co_filename.startswith(SOURCE):
        return False
    return any(
        first <= last.tb_lineno <= end for first, end in _find_raise_statements(last.tb_frame.f_code.co_filename)
    )


@cache
def _find_raise_statements(file: str) -> list[tuple[int, int]]:
    """Find the lines of the raise statements of a file."""
    nodes = ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
    return [(node.lineno, node.end_lineno or node.lineno) for node in nodes if isinstance(node, ast.Raise)]


@contextmanager
def _record_warnings() -> Iterator[list[str]]:
    """Record warnings of libraries; those of the package come from a line that calls `warn`."""
    recorded: list[str] = []

    def record(message: Any, category: type[Warning], *_: Any) -> None:
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__") == "warnings":
            frame = frame.f_back
        assert frame is not None
        file, line = frame.f_code.co_filename, linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if not (file.startswith(SOURCE) and "warn" in line):
            recorded.append(f"{category.__name__} from {Path(file).name}: {str(message)[:300]}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = record  # type: ignore[assignment]
        yield recorded


def run_reader(reader: Reader, home: Home, name: str, content: bytes) -> str:
    """Call a reader with a file of the given content; return "read" or "refused", or raise ForeignError."""
    shutil.rmtree(home.work, ignore_errors=True)
    home.work.mkdir()
    path = home.work / name
    path.write_bytes(content)
    with _record_warnings() as warned:
        try:
            reader(home, path)
            outcome = "read"
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # A panic of polars is not an Exception.
            check_own_error(error)
            outcome = "refused"
    if warned:
        raise ForeignError(warned[0])
    return outcome


@contextmanager
def open_home() -> Iterator[Home]:
    """Make a home in a temporary folder, which is also the current folder."""
    previous = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Home(Path(folder, "home"))
        finally:
            os.chdir(previous)
