"""What once failed: files that `make fuzz` found, given again to every reader of their kind."""

from __future__ import annotations

import lzma
import warnings
from pathlib import Path

import pytest

pytest.importorskip("skops", reason="model files need the extra")
pytest.importorskip("onnxruntime", reason="pictures need the extra")
pytest.importorskip("PIL", reason="pictures need the extra")

import readers
from unseen.tables import TableError

CORPUS = Path(__file__).with_name("corpus")
FILES = sorted(path for path in CORPUS.rglob("*.xz"))


@pytest.fixture(scope="module")
def home():
    with readers.open_home() as made:
        yield made


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_once_failed_is_read_or_refused_in_words(home, path):
    content = lzma.decompress(path.read_bytes())
    name = f"broken.{path.stem.partition('.')[2]}"
    for reader in readers.READERS[path.parent.name]:
        assert readers.run_reader(reader, home, name, content) in ("read", "refused")


def test_the_corpus_is_small_and_of_known_readers():
    assert sum(path.stat().st_size for path in FILES) < 500_000
    assert {path.parent.name for path in FILES} <= set(readers.READERS)


def test_every_reader_reads_what_is_sound(home):
    kinds = {"model": "patients.unseen", "csv": "patients.csv", "npz": "arrays.npz", "image": "picture.png"}
    for kind, name in kinds.items():
        content = (home.folder / name).read_bytes()
        assert readers.run_reader(readers.READERS[kind][0], home, name, content) == "read"


def raises(error):
    def reader(home, path):
        raise error

    return reader


def warns(home, path):
    warnings.warn("from a library", stacklevel=1)


@pytest.mark.parametrize(
    "reader",
    [raises(KeyError("x")), raises(ValueError("not of this package")), raises(MemoryError()), warns],
    ids=["key", "value", "memory", "warning"],
)
def test_a_replay_reports_errors_that_are_not_translated(home, reader):
    with pytest.raises(readers.ForeignError):
        readers.run_reader(reader, home, "x.csv", b"")


def test_a_replay_accepts_errors_of_the_package(home):
    assert readers.run_reader(raises(TableError(["it is empty."])), home, "x.csv", b"") == "refused"
