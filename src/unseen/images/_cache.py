"""Features that were computed before, by what the picture holds and what was done to it.

SQLite in WAL mode: every batch is committed by itself, so that a process that is killed loses one batch at most. Beside
the features stands what each path held when it was last read: one that keeps its size and its time is not read again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.io import check_free_space, check_unchanged, create_once, file_identity

SCHEMA = """
CREATE TABLE IF NOT EXISTS pictures (path BLOB PRIMARY KEY, size INTEGER, changed INTEGER, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS features (
    content BLOB NOT NULL, way TEXT NOT NULL, numbers BLOB NOT NULL, checksum INTEGER, PRIMARY KEY (content, way)
);
CREATE TABLE IF NOT EXISTS thumbnails (content BLOB PRIMARY KEY, picture BLOB NOT NULL);
"""
FeatureRow = NDArray[np.float32]
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite quotes a broken schema


def _first_bytes(found: tuple[Any, ...] | None) -> bytes | None:
    """What a row begins with, if there is one, and if it is what was written: SQLite keeps anything in any column."""
    return found[0] if found is not None and isinstance(found[0], bytes) else None


class Cache(AbstractContextManager["Cache"]):
    """A file of features, for one `way` of making them; None keeps them in memory for as long as it is open."""

    def __init__(self, path: str | os.PathLike[str] | None, way: str) -> None:
        self.path, self.way = path, way
        self._lock = threading.Lock()  # pictures are looked up by the threads that read them
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with self._explained():
            self._connection = sqlite3.connect(
                ":memory:" if path is None else path, check_same_thread=False, timeout=30
            )
            try:
                create_once(self._connection, SCHEMA)
            except SQLITE_ERRORS:
                self._connection.close()
                raise
        self._identity = None if path is None else file_identity(Path(path))

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, self._explained(), self._connection:
            yield
        if self.path is not None:
            check_unchanged(Path(self.path), self._identity)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SQLITE_ERRORS as error:
            check_free_space(Path(self.path or ""), error)
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise ValueError(
                    f"{self.path} cannot be opened as a file of features ({error}). Name another."
                ) from error
            raise OSError(
                f"{self.path} cannot be used as a file of features ({error}). If it is damaged, delete it: all "
                "features are computed again."
            ) from error

    def content_of(self, path: str, size: int, changed: int) -> bytes | None:
        """The digest of what a path holds, if it was read before and has not been touched since."""
        query = "SELECT content FROM pictures WHERE path = ? AND size = ? AND changed = ?"
        with self._lock, self._explained():
            found = self._connection.execute(query, (os.fsencode(path), size, changed)).fetchone()
        return _first_bytes(found)

    def features(self, content: bytes) -> FeatureRow | None:
        """The features of a picture with that digest, if they are known."""
        query = "SELECT numbers, checksum FROM features WHERE content = ? AND way = ?"
        with self._lock, self._explained():
            found = self._connection.execute(query, (content, self.way)).fetchone()
        numbers = _first_bytes(found)
        if not numbers or len(numbers) % 4 or zlib.crc32(numbers) != found[1]:  # damaged ones are computed again
            return None
        return np.frombuffer(numbers, dtype="<f4")

    def known(self, content: bytes) -> FeatureRow:
        """Features that must be there."""
        found = self.features(content)
        if found is None:
            raise OSError(f"{self.path} has changed while it was used. Run the same again.")
        return found

    def thumbnail(self, content: bytes) -> bytes | None:
        """The small picture with that digest, if there is one."""
        with self._lock, self._explained():
            found = self._connection.execute("SELECT picture FROM thumbnails WHERE content = ?", (content,)).fetchone()
        return _first_bytes(found)

    def add_thumbnails(self, pictures: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep small pictures, by the digests of large ones."""
        with self._writing():
            self._connection.executemany("INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", pictures)

    def add(self, seen: Iterable[tuple[str, int, int, bytes]], features: Iterable[tuple[bytes, FeatureRow]]) -> None:
        """Keep what some paths hold, with sizes and times, and the features of some contents."""
        places = [(os.fsencode(path), *known) for path, *known in seen]
        rows = [(content, self.way, row.astype("<f4").tobytes()) for content, row in features]
        with self._writing():
            self._connection.executemany("INSERT OR REPLACE INTO pictures VALUES (?, ?, ?, ?)", places)
            insert = "INSERT OR REPLACE INTO features VALUES (?, ?, ?, ?)"
            self._connection.executemany(insert, [(*row, zlib.crc32(row[2])) for row in rows])
