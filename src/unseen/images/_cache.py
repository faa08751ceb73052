"""A cache of features, by the digest of the image and the settings with which its features were computed.

The cache is an SQLite file in WAL mode. Every batch is committed separately, so that a killed process loses at most one
batch. The cache also stores the digest of each path with its size and modification time: a file that has not changed
since is not read again.
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

from ..utils.io import check_unchanged, create_sqlite_tables, get_file_identity, raise_if_disk_full

SCHEMA = """
CREATE TABLE IF NOT EXISTS pictures (path BLOB PRIMARY KEY, size INTEGER, changed INTEGER, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS features (
    content BLOB NOT NULL, way TEXT NOT NULL, numbers BLOB NOT NULL, checksum INTEGER, PRIMARY KEY (content, way)
);
"""
FeatureRow = NDArray[np.float32]
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # a damaged schema in an error message may not be valid UTF-8


def _first_bytes(row: tuple[Any, ...] | None) -> bytes | None:
    """Return the first value of a row if it is bytes: SQLite stores values of any type in any column."""
    if row is None or not isinstance(row[0], bytes):
        return None
    return row[0]


class Cache(AbstractContextManager["Cache"]):
    """A file of features that were computed with the settings of `settings_key`; with `path` None, it is in memory."""

    def __init__(self, path: str | os.PathLike[str] | None, settings_key: str) -> None:
        self.path = path
        self.settings_key = settings_key
        self._lock = threading.Lock()  # the threads that read images use the cache
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with self._translate_errors():
            database = ":memory:" if path is None else path
            self._connection = sqlite3.connect(database, check_same_thread=False, timeout=30)
            try:
                create_sqlite_tables(self._connection, SCHEMA)
            except SQLITE_ERRORS:
                self._connection.close()
                raise
        self._identity = None if path is None else get_file_identity(Path(path))

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._translate_errors(), self._connection:
            yield
        if self.path is not None:
            check_unchanged(Path(self.path), self._identity)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except SQLITE_ERRORS as error:
            raise_if_disk_full(Path(self.path or ""), error)
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise ValueError(
                    f"{self.path} cannot be opened as a cache of features ({error}). Pass another path."
                ) from error
            raise OSError(
                f"{self.path} cannot be used as a cache of features ({error}). If it is damaged, delete it; all "
                "features are then computed again."
            ) from error

    def _select(self, query: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        with self._lock, self._translate_errors():
            row: tuple[Any, ...] | None = self._connection.execute(query, values).fetchone()
        return row

    def find_digest(self, path: str, size: int, changed: int) -> bytes | None:
        """Return the digest of a file that was read before and has the same size and modification time."""
        query = "SELECT content FROM pictures WHERE path = ? AND size = ? AND changed = ?"
        return _first_bytes(self._select(query, (os.fsencode(path), size, changed)))

    def find_features(self, digest: bytes) -> FeatureRow | None:
        """Return the features of the image with this digest, if they are stored."""
        query = "SELECT numbers, checksum FROM features WHERE content = ? AND way = ?"
        row = self._select(query, (digest, self.settings_key))
        numbers = _first_bytes(row)
        # Damaged features are computed again.
        if row is None or not numbers or len(numbers) % 4 or zlib.crc32(numbers) != row[1]:
            return None
        return np.frombuffer(numbers, dtype="<f4")

    def get_features(self, digest: bytes) -> FeatureRow:
        """Return the features of the image with this digest, which must be stored."""
        features = self.find_features(digest)
        if features is None:
            raise OSError(f"{self.path} was changed by another process while it was used. Run the computation again.")
        return features

    def add(self, files: Iterable[tuple[str, int, int, bytes]], features: Iterable[tuple[bytes, FeatureRow]]) -> None:
        """Store the digests of files, given as path, size, modification time and digest, and features by digest."""
        file_rows = [(os.fsencode(path), size, changed, digest) for path, size, changed, digest in files]
        feature_rows = []
        for digest, row in features:
            numbers = row.astype("<f4").tobytes()
            feature_rows.append((digest, self.settings_key, numbers, zlib.crc32(numbers)))
        with self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO pictures VALUES (?, ?, ?, ?)", file_rows)
            self._connection.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?, ?)", feature_rows)
