"""Results, row by row, in one file that survives being killed.

SQLite in WAL mode: each row is committed by itself, a process killed in mid-write leaves the earlier rows intact, the
primary key makes every row unique, and the file can be read while a study runs. Append-only text would need its own
answers to torn lines and duplicates; Parquet cannot append a row. SQLite does not notice when a value changes on the
disk, so each row has a checksum; a damaged file is set aside, and its sound rows go on in a new one. The scores by
which settings are chosen are kept beside the rows, so that a run that was killed while it chose goes on from there.
"""

from __future__ import annotations

import json
import os
import sqlite3
import warnings
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, fields
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ..algebra import Ints
from ..files import check_room, check_same, identity, inflated, is_special, set_up, written
from ..selection import Score

Scores = dict[tuple[str, str], dict[str, Score]]  # for rows to train on and rows to test on, those of candidates

SCHEMA = """
CREATE TABLE IF NOT EXISTS configurations (key TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (
    configuration TEXT NOT NULL REFERENCES configurations (key),
    method TEXT NOT NULL, task TEXT NOT NULL, repeat INTEGER NOT NULL,
    seed INTEGER, accuracy REAL, accuracies TEXT, validation REAL, settings TEXT, ties INTEGER, transductive INTEGER,
    seconds REAL, status TEXT NOT NULL, reason TEXT, machine TEXT, kind TEXT, predicted BLOB, checksum INTEGER,
    PRIMARY KEY (configuration, method, task, repeat)
);
CREATE TABLE IF NOT EXISTS validations (configuration TEXT NOT NULL, content BLOB NOT NULL, checksum INTEGER);
"""


@dataclass(frozen=True)
class Row:
    """One method on one task in one repeat.

    Attributes
    ----------
    method, task : str
        Names of the method and of the task.
    repeat, seed : int
        Which draw of the training data, and its seed.
    accuracy : float or None
        Share of the targets' samples that are classified correctly; None after a failure. Under another metric of the
        protocol, the mean of its scores over the targets; None where it is undefined.
    accuracies : dict of str to float
        The same for each target domain.
    validation : float or None
        The score by which the settings were chosen; the target's labels have no part in it, except in an "oracle".
    settings : dict
        The chosen settings.
    ties : int
        How many other settings had the same score in the selection.
    transductive : bool
        Whether the method saw the targets' unlabelled samples.
    seconds : float
        Time for choosing, fitting and predicting.
    status : {"ok", "failed", "skipped"}
        Whether it worked, failed, or was not tried because the data are too large for it.
    reason : str
        Why it failed or was skipped.
    machine : dict
        Versions, threads and machine.
    kind : {"plain", "reference", "invariant", "auto"}
        What the method does with domains: see `unseen.selection.Method`.

    Examples
    --------
    >>> from unseen.study import Row
    >>> row = Row("1NN", "A -> B", 0, 0, 0.5, {"B": 0.5}, 0.6, {}, 0, False, 0.1, "ok", "", {})
    >>> row.accuracy
    0.5
    """

    method: str
    task: str
    repeat: int
    seed: int
    accuracy: float | None
    accuracies: dict[str, float]
    validation: float | None
    settings: dict[str, Any]
    ties: int
    transductive: bool
    seconds: float
    status: str
    reason: str
    machine: dict[str, Any]
    kind: str = "plain"


JSON_FIELDS = ("accuracies", "settings", "machine")
TYPES: dict[str, Any] = {  # of what is not text
    **dict.fromkeys(JSON_FIELDS, dict),
    **dict.fromkeys(("repeat", "seed", "ties"), int),
    **dict.fromkeys(("accuracy", "validation"), float | None),
    "seconds": float,
    "transductive": int,
}
MOST_PREDICTED = 2**28  # bytes: however many rows have the same class
ELSEWHERE = "move the file away, and the same command starts anew."
COLUMNS = tuple(field.name for field in fields(Row))
ALL = ", ".join(("configuration", *COLUMNS, "predicted"))
MARKS = ", ".join("?" * (2 + len(COLUMNS)))
INSERT = "INSERT OR REPLACE INTO results"
PART = "crc(configuration, content)"
ROW_BYTES = 64  # a row takes many more: few are written as often as to have a larger number than this allows
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # what is wrong is in the file
TROUBLE = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter where SQLite quotes a broken schema


class Store(AbstractContextManager["Store"]):
    """A file of results; use it as a context manager.

    Parameters
    ----------
    path : str or path
        The file, made if it does not exist, with the folders above it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.study import Row, Store
    >>> row = Row("1NN", "A -> B", 0, 0, 0.5, {"B": 0.5}, 0.6, {}, 0, False, 0.1, "ok", "", {})
    >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "results.sqlite")) as store:
    ...     store.open_configuration("example", {"seed": 0})
    ...     store.add("example", row)
    ...     store.rows("example") == [row]
    True
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if is_special(self.path):
            raise ValueError(f"{self.path} is not a file. Name another.")
        with _explained(self.path):
            try:
                self._connection = _sound_connection(self.path)
            except TROUBLE as error:
                if _code(error) not in DAMAGE:
                    raise
                _repair(self.path, error)
                self._connection = _sound_connection(self.path)
        self._identity = identity(self.path)

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with _explained(self.path), self._connection:
            yield
        check_same(self.path, self._identity)

    def open_configuration(self, key: str, config: dict[str, Any]) -> None:
        """Remember what a configuration's key stands for."""
        with self._writing():
            self._connection.execute(
                "INSERT OR REPLACE INTO configurations VALUES (?, ?)", (key, json.dumps(config, sort_keys=True))
            )

    def add(self, configuration: str, row: Row, predicted: Ints | None = None) -> None:
        """Write one row and commit it; a later success replaces an earlier failure.

        `predicted` are the predicted classes of the targets' samples, as positions among all classes in order.
        """
        values = [json.dumps(v) if name in JSON_FIELDS else v for name, v in vars(row).items()]
        blob = None if predicted is None else zlib.compress(predicted.astype("<i4").tobytes())
        with self._writing():
            added = self._connection.execute(f"{INSERT} ({ALL}) VALUES ({MARKS})", [configuration, *values, blob])
            self._connection.execute(f"UPDATE results SET checksum = crc({ALL}) WHERE rowid = ?", (added.lastrowid,))

    def predicted(self, configuration: str, method: str, task: str, repeat: int) -> Ints | None:
        """Predicted classes of one row, if it has any."""
        with _explained(self.path):
            found = self._connection.execute(
                "SELECT predicted FROM results WHERE configuration = ? AND method = ? AND task = ? AND repeat = ?",
                (configuration, method, task, repeat),
            ).fetchone()
        (blob,) = found or (None,)
        if blob is None:
            return None
        with _as_written(self.path):
            return np.frombuffer(inflated(blob, ELSEWHERE, MOST_PREDICTED), dtype="<i4").astype(np.intp)

    def add_scores(self, configuration: str, scores: Scores) -> None:
        """Write what a part of the validation found, and commit it."""
        content = zlib.compress(json.dumps(list(scores.items())).encode())
        with self._writing():
            found = self._connection.execute("INSERT INTO validations VALUES (?, ?, NULL)", (configuration, content))
            self._connection.execute(f"UPDATE validations SET checksum = {PART} WHERE rowid = ?", (found.lastrowid,))

    def scores(self, configuration: str) -> Scores:
        """What the validation has found so far; what failed will be tried again."""
        with _explained(self.path):
            query = "SELECT content FROM validations WHERE configuration = ?"
            found = self._connection.execute(query, (configuration,)).fetchall()
        read: Scores = {}
        with _as_written(self.path):
            for at, scores in (part for (content,) in found for part in json.loads(inflated(content, ELSEWHERE))):
                sound = {candidate: Score(*values) for candidate, values in scores.items()}
                read.setdefault(tuple(at), {}).update((key, score) for key, score in sound.items() if not score.error)
        return read

    def rows(self, configuration: str) -> list[Row]:
        """All rows of a configuration."""
        with _explained(self.path):
            found = self._connection.execute(
                f"SELECT {', '.join(COLUMNS)} FROM results WHERE configuration = ? ORDER BY task, method, repeat",
                (configuration,),
            ).fetchall()
        with _as_written(self.path):
            rows = (dict(zip(COLUMNS, values, strict=True)) for values in found)
            read = (row | {name: json.loads(row[name]) for name in JSON_FIELDS} for row in rows)
            return [_checked(Row(**row | {"transductive": bool(row["transductive"])})) for row in read]


@contextmanager
def _as_written(path: Path) -> Iterator[None]:
    """Refuse contents that have right checksums, but that nothing here has written."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} holds what no run has written ({error}). Name another file. Or move it away, and the same command "
            "starts anew."
        ) from error


def _checked(row: Row) -> Row:
    wrong = {name: value for name, value in vars(row).items() if not isinstance(value, TYPES.get(name, str))}
    wrong |= {name: value for name, value in row.accuracies.items() if not isinstance(value, (int, float))}
    if wrong:
        raise TypeError(", ".join(f"{name} is {value!r:.80}" for name, value in wrong.items()))
    return row


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say which file cannot be used, and whether the reason is a full disk."""
    try:
        yield
    except TROUBLE as error:
        check_room(path, error)
        if _code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise ValueError(f"{path} cannot be opened as a file of results ({error}). Name another.") from error
        raise OSError(f"{path} cannot be read or written ({error}).") from error


def _code(error: Exception) -> int:
    """SQLite's primary code; that of errors in Python's part, such as text that is no UTF-8, is SQLITE_ERROR."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30)
    connection.create_function("crc", -1, lambda *values: zlib.crc32(repr(values).encode()))
    return connection


def _sound_connection(path: Path) -> sqlite3.Connection:
    """A connection to a file that holds together, each row as it was written; its tables are made if need be."""
    connection = _connected(path)
    try:
        set_up(connection, "")
        columns = {column[1] for column in connection.execute("PRAGMA table_info(results)")}
        if "configuration" in columns and "kind" not in columns:  # of version 0.1, whose rows nobody would take up
            connection.execute("ALTER TABLE results RENAME TO results_of_version_0_1")
        set_up(connection, SCHEMA)
        changed = [
            connection.execute(f"SELECT count(*) FROM {table} WHERE checksum IS NOT {checksum}").fetchone()[0]
            for table, checksum in (("results", f"crc({ALL})"), ("validations", PART))
        ]
        if any(changed) or connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("it is not as it was written")
    except BaseException:
        connection.close()
        raise
    return connection


def _repair(path: Path, error: Exception) -> None:
    """Put the rows that are as they were written into a new file, and the damaged one aside, under another name."""
    with closing(_connected(path)) as damaged:
        try:
            damaged.execute("PRAGMA writable_schema=ON")  # nothing is written: files that were cut off are read, too
            damaged.execute(f"SELECT {ALL}, checksum FROM results LIMIT 0")
        except TROUBLE:
            raise ValueError(
                f"{path} is not a file of results ({error}). Name another file. If it was one, it is damaged beyond "
                "reading: move it away, and the same command starts anew."
            ) from error
        most = _most(damaged, path)
        configurations = _readable(damaged, "SELECT key, content FROM configurations WHERE TRUE", 1, most)
        rows = _readable(damaged, f"SELECT {ALL}, checksum FROM results WHERE checksum IS crc({ALL})", 1, most)
    with written(path) as repaired:
        with closing(_sound_connection(Path(":memory:"))) as fresh:  # no log lies beside it if this is killed
            with fresh:
                fresh.executemany("INSERT OR IGNORE INTO configurations VALUES (?, ?)", configurations)
                fresh.executemany(f"{INSERT} ({ALL}, checksum) VALUES ({MARKS}, ?)", rows)
            repaired.write_bytes(fresh.serialize())
        names = (path.with_name(f"{path.name}.damaged{number or ''}") for number in count())
        aside = next(name for name in names if not name.exists())
        for ending in ("-wal", "-shm", ""):  # a log that stayed beside the new file would be taken for its own
            if Path(f"{path}{ending}").exists():
                os.rename(f"{path}{ending}", f"{aside}{ending}")
    warnings.warn(
        f"{path} is damaged. {len(rows):,} of its rows are as they were written and were kept in a new file of that "
        f"name; the damaged file is now {aside}. What is missing is run again.",
        stacklevel=3,
    )


def _most(connection: sqlite3.Connection, path: Path) -> int:
    """The largest number of a result; where it cannot be read, one that is not likely to be exceeded."""
    size = path.stat().st_size
    try:
        return min(connection.execute("SELECT max(rowid) FROM results").fetchone()[0] or 0, size)
    except TROUBLE:
        return size // ROW_BYTES


def _readable(connection: sqlite3.Connection, query: str, low: int, high: int) -> list[Any]:
    """Rows numbered from `low` to `high`; each half is tried for itself where something cannot be read."""
    try:
        return connection.execute(f"{query} AND rowid BETWEEN ? AND ?", (low, high)).fetchall()
    except TROUBLE:
        if low >= high:
            return []  # one row that cannot be read: the file that is set aside still has what there is of it
        middle = (low + high) // 2
        return _readable(connection, query, low, middle) + _readable(connection, query, middle + 1, high)
