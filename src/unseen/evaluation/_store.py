"""Results of a comparison in one SQLite file, from which an interrupted run continues.

In WAL mode each row is committed by itself, a process killed while it writes leaves the earlier rows intact, the
primary key makes every row unique, and the file can be read while a study runs. Append-only text would need its own
handling of torn lines and duplicates; Parquet cannot append a row. SQLite checks the integrity of the file when it is
opened: a damaged file is renamed, and the run starts again with a new one. The validation scores by which settings are
chosen are stored beside the rows, so that a run killed during validation continues from there.
"""

from __future__ import annotations

import json
import os
import sqlite3
import warnings
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ..linalg import Array, Ints
from ..model_selection import Score
from ..utils.io import check_unchanged, create_sqlite_tables, get_file_identity, is_special_file, raise_if_disk_full

Scores = dict[tuple[str, str], dict[str, Score]]  # by keys of training rows and test rows, and of the candidate

APPLICATION_ID = 0x756E736E  # "unsn", in the header of every results file; other SQLite files raise an error
# An integrity check verifies the constraints as well.
SCHEMA = """
CREATE TABLE IF NOT EXISTS configurations (key TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (
    configuration TEXT NOT NULL REFERENCES configurations (key),
    method TEXT NOT NULL, task TEXT NOT NULL,
    repeat INTEGER NOT NULL CHECK (typeof(repeat) = 'integer'),
    seed INTEGER NOT NULL CHECK (typeof(seed) = 'integer'),
    accuracy REAL CHECK (typeof(accuracy) IN ('real', 'null')),
    accuracies TEXT NOT NULL CHECK (typeof(accuracies) = 'text'),
    validation REAL CHECK (typeof(validation) IN ('real', 'null')),
    settings TEXT NOT NULL CHECK (typeof(settings) = 'text'),
    ties INTEGER NOT NULL CHECK (typeof(ties) = 'integer'),
    transductive INTEGER NOT NULL CHECK (transductive IN (0, 1)),
    seconds REAL NOT NULL CHECK (typeof(seconds) = 'real'),
    status TEXT NOT NULL CHECK (status IN ('ok', 'failed', 'skipped')),
    reason TEXT NOT NULL CHECK (typeof(reason) = 'text'),
    machine TEXT NOT NULL CHECK (typeof(machine) = 'text'),
    kind TEXT NOT NULL CHECK (typeof(kind) = 'text'),
    predicted BLOB CHECK (typeof(predicted) IN ('blob', 'null')),
    PRIMARY KEY (configuration, method, task, repeat)
);
CREATE TABLE IF NOT EXISTS probabilities (
    configuration TEXT NOT NULL, method TEXT NOT NULL, task TEXT NOT NULL, repeat INTEGER NOT NULL,
    n_classes INTEGER NOT NULL CHECK (typeof(n_classes) = 'integer' AND n_classes > 0),
    content BLOB NOT NULL CHECK (typeof(content) = 'blob'),
    PRIMARY KEY (configuration, method, task, repeat)
);
CREATE TABLE IF NOT EXISTS validations (
    configuration TEXT NOT NULL, content BLOB NOT NULL CHECK (typeof(content) = 'blob')
);
"""


@dataclass(frozen=True)
class Row:
    """One method on one task in one repeat.

    Attributes
    ----------
    method, task : str
        Names of the method and of the task.
    repeat, seed : int
        Number of the random draw of the training data, and its seed.
    accuracy : float or None
        Share of the samples of the targets that are classified correctly; None after a failure. For another metric of
        the protocol, the mean of its scores over the targets; None where it is undefined.
    accuracies : dict of str to float
        The same for each target domain.
    validation : float or None
        The validation score of the selected settings. It does not depend on labels of the target, except with "oracle".
    settings : dict
        The selected settings.
    ties : int
        Number of other settings with the same validation score.
    transductive : bool
        Whether the method used the unlabeled samples of the targets.
    seconds : float
        Time for model selection, fitting and prediction.
    status : {"ok", "failed", "skipped"}
        Whether the method succeeded, failed, or was skipped because the data are too large for it.
    reason : str
        Reason of a failure or of skipping.
    machine : dict
        Versions, threads and machine.
    kind : {"plain", "reference", "invariant", "auto"}
        How the method uses domains: see `unseen.model_selection.Method`.

    Examples
    --------
    >>> from unseen.evaluation import Row
    >>> row = Row("1-NN", "A -> B", 0, 0, 0.5, {"B": 0.5}, 0.6, {}, 0, False, 0.1, "ok", "", {})
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
ROW_COLUMNS = tuple(field.name for field in fields(Row))
# Error codes of damage in a file with our application id; SQLITE_ERROR means that the schema does not parse.
DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
STORE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter where SQLite quotes a damaged schema


class Store(AbstractContextManager["Store"]):
    """A file of results; use it as a context manager.

    Parameters
    ----------
    path : str or path
        The file, which is created with its parent folders if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.evaluation import Row, Store
    >>> row = Row("1-NN", "A -> B", 0, 0, 0.5, {"B": 0.5}, 0.6, {}, 0, False, 0.1, "ok", "", {})
    >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "results.sqlite")) as store:
    ...     store.add_configuration("example", {"seed": 0})
    ...     store.add("example", row)
    ...     store.rows("example") == [row]
    True
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if is_special_file(self.path) or self.path.is_dir():
            raise ValueError(f"{self.path} is not a file. Use another name for the results file.")
        with _translate_sqlite_errors(self.path):
            _check_application(self.path)
            try:
                self._connection = _connect(self.path)
            except STORE_ERRORS as error:
                if _primary_code(error) not in DAMAGE_CODES:
                    raise
                _set_aside(self.path, error)
                self._connection = _connect(self.path)
        self._identity = get_file_identity(self.path)

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _translate_sqlite_errors(self.path), self._connection:
            yield
        check_unchanged(self.path, self._identity)

    def add_configuration(self, key: str, config: dict[str, Any]) -> None:
        """Store a configuration with its key."""
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO configurations VALUES (?, ?)", (key, json.dumps(config, sort_keys=True))
            )

    def add(
        self, configuration: str, row: Row, predicted: Ints | None = None, probabilities: Array | None = None
    ) -> None:
        """Write one row and commit it; a later success replaces an earlier failure.

        `predicted` are the predicted classes of the samples of the targets, as positions in the sorted classes, and
        `probabilities` those of all classes, which are stored in single precision.
        """
        values = [json.dumps(value) if name in JSON_FIELDS else value for name, value in vars(row).items()]
        blob = None if predicted is None else zlib.compress(predicted.astype("<i4").tobytes())
        columns = ", ".join(("configuration", *ROW_COLUMNS, "predicted"))
        placeholders = ", ".join("?" * (2 + len(ROW_COLUMNS)))
        with self._transaction():
            self._connection.execute(
                f"INSERT OR REPLACE INTO results ({columns}) VALUES ({placeholders})", [configuration, *values, blob]
            )
            if probabilities is not None:
                content = zlib.compress(probabilities.astype("<f4").tobytes())
                key = (configuration, row.method, row.task, row.repeat)
                self._connection.execute(
                    "INSERT OR REPLACE INTO probabilities VALUES (?, ?, ?, ?, ?, ?)",
                    (*key, probabilities.shape[1], content),
                )

    def predictions(self, configuration: str, method: str, task: str, repeat: int) -> Ints | None:
        """Return the predicted classes of one row, if it has any."""
        with _translate_sqlite_errors(self.path):
            record = self._connection.execute(
                "SELECT predicted FROM results WHERE configuration = ? AND method = ? AND task = ? AND repeat = ?",
                (configuration, method, task, repeat),
            ).fetchone()
        if record is None or record[0] is None:
            return None
        (blob,) = record
        with _translate_decode_errors(self.path):
            return np.frombuffer(zlib.decompress(blob), dtype="<i4").astype(np.intp)

    def probabilities(self, configuration: str, method: str, task: str, repeat: int) -> Array | None:
        """Return the predicted probabilities of one row, a column for each class, if they were stored."""
        with _translate_sqlite_errors(self.path):
            record = self._connection.execute(
                "SELECT n_classes, content FROM probabilities "
                "WHERE configuration = ? AND method = ? AND task = ? AND repeat = ?",
                (configuration, method, task, repeat),
            ).fetchone()
        if record is None:
            return None
        n_classes, content = record
        with _translate_decode_errors(self.path):
            P = np.frombuffer(zlib.decompress(content), dtype="<f4").reshape(-1, n_classes).astype(np.float64)
        return P / P.sum(axis=1, keepdims=True)  # without the rounding to single precision

    def add_scores(self, configuration: str, scores: Scores) -> None:
        """Write the scores of one part of the validation, and commit them."""
        content = zlib.compress(json.dumps(list(scores.items())).encode())
        with self._transaction():
            self._connection.execute("INSERT INTO validations VALUES (?, ?)", (configuration, content))

    def scores(self, configuration: str) -> Scores:
        """Return all validation scores so far, without those of failures, which are computed again."""
        with _translate_sqlite_errors(self.path):
            query = "SELECT content FROM validations WHERE configuration = ? ORDER BY rowid"
            records = self._connection.execute(query, (configuration,)).fetchall()
        scores: Scores = {}
        with _translate_decode_errors(self.path):
            for (content,) in records:
                for (train, test), by_candidate in json.loads(zlib.decompress(content)):
                    for candidate, values in by_candidate.items():
                        score = Score(*values)
                        if not score.error:
                            scores.setdefault((train, test), {})[candidate] = score
        return scores

    def rows(self, configuration: str) -> list[Row]:
        """Return all rows of a configuration."""
        with _translate_sqlite_errors(self.path):
            records = self._connection.execute(
                f"SELECT {', '.join(ROW_COLUMNS)} FROM results WHERE configuration = ? ORDER BY task, method, repeat",
                (configuration,),
            ).fetchall()
        rows = []
        with _translate_decode_errors(self.path):
            for record in records:
                values = dict(zip(ROW_COLUMNS, record, strict=True))
                for name in JSON_FIELDS:
                    values[name] = json.loads(values[name])
                values["transductive"] = bool(values["transductive"])
                rows.append(Row(**values))
        return rows


@contextmanager
def _translate_decode_errors(path: Path) -> Iterator[None]:
    """Raise ValueError for contents of an intact database that no run has written."""
    try:
        yield
    except (LookupError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(
            f"{path} is damaged: a result in it cannot be decoded ({error}). Rename or remove the file; the same "
            "command then starts again."
        ) from error


@contextmanager
def _translate_sqlite_errors(path: Path) -> Iterator[None]:
    """Convert errors of SQLite to errors that name the file, and that state a full disk."""
    try:
        yield
    except STORE_ERRORS as error:
        raise_if_disk_full(path, error)
        if _primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise ValueError(
                f"{path} cannot be opened as a results file ({error}). Use another file, or change its permissions."
            ) from error
        raise OSError(f"{path} cannot be read or written ({error}).") from error


def _primary_code(error: Exception) -> int:
    """Return the primary error code of SQLite; errors of Python, such as for text not in UTF-8, are SQLITE_ERROR."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _check_application(path: Path) -> None:
    """Raise ValueError for a file of another program, before SQLite opens it and may change it.

    The application id is at a fixed place of the header, see https://www.sqlite.org/fileformat.html.
    """
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise ValueError(
            f"{path} cannot be opened as a results file ({error}). Use another file, or change its permissions."
        ) from error
    if header and (header[:16] != b"SQLite format 3\0" or header[68:72] != APPLICATION_ID.to_bytes(4)):
        raise ValueError(
            f"{path} is not a results file of this version of unseen, or its header is damaged. It was not changed. "
            "Use another file, or rename this one."
        )


def _connect(path: Path) -> sqlite3.Connection:
    """Open a results file, create its tables if necessary, and check its integrity."""
    connection = sqlite3.connect(path, timeout=30)
    try:
        create_sqlite_tables(connection, SCHEMA, application_id=APPLICATION_ID)
        (report,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if report != "ok":
            raise sqlite3.DatabaseError(" ".join(report.split()))
    except BaseException:
        connection.close()
        raise
    return connection


def _set_aside(path: Path, error: Exception) -> None:
    """Rename a damaged file."""
    names = (path.with_name(f"{path.name}.damaged{number or ''}") for number in count())
    new_path = next(name for name in names if not name.exists())
    for ending in ("-wal", "-shm", ""):  # SQLite would apply a remaining log to the new file
        if Path(f"{path}{ending}").exists():
            os.rename(f"{path}{ending}", f"{new_path}{ending}")
    warnings.warn(
        f"{path} is damaged ({error}). It was renamed to {new_path}, and the run starts again with a new file.",
        stacklevel=4,
    )
