"""Held-out predictions, and the SQLite file that keeps them, from which an interrupted run continues.

In WAL mode each row is committed by itself, a process killed while it writes leaves the earlier rows intact, the
primary key makes every row unique, and the file can be read while a run writes to it. SQLite checks the integrity of
the file when it is opened; a damaged file raises an error and is not changed.
"""

from __future__ import annotations

import io
import json
import sqlite3
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..linalg import Array, Ints
from ..model_selection import Prediction
from ..utils.io import check_unchanged, create_sqlite_tables, get_file_identity, is_special_file, raise_if_disk_full

APPLICATION_ID = 0x756E7365  # "unse", in the header of every results file; other SQLite files raise an error
# An integrity check verifies the constraints as well.
SCHEMA = """
CREATE TABLE IF NOT EXISTS configurations (key TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (
    configuration TEXT NOT NULL REFERENCES configurations (key),
    method TEXT NOT NULL, task TEXT NOT NULL,
    repeat INTEGER NOT NULL CHECK (typeof(repeat) = 'integer'),
    content TEXT NOT NULL CHECK (typeof(content) = 'text'),
    codes BLOB CHECK (typeof(codes) IN ('blob', 'null')),
    probabilities BLOB CHECK (typeof(probabilities) IN ('blob', 'null')),
    PRIMARY KEY (configuration, method, task, repeat)
);
CREATE TABLE IF NOT EXISTS predictions (part TEXT PRIMARY KEY, content BLOB NOT NULL CHECK (typeof(content) = 'blob'));
"""
# Error codes of damage in a file with our application id; SQLITE_ERROR means that the schema does not parse.
DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
STORE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter where SQLite quotes a damaged schema
START_AGAIN = "Rename or remove the file; the same command then starts again."
STATUSES = ("ok", "failed", "skipped")
StoredPredictions = Mapping[str, Prediction]  # of one validation part, by key of the candidate


@dataclass(frozen=True)
class Row:
    """Predictions of one method, fitted to the sources of one task in one repeat, for the rows of its targets.

    Attributes
    ----------
    method, task : str
        Names of the method and of the task.
    targets : tuple of str
        Held-out domains.
    repeat : int
        Number of the random draw of the training data.
    status : {"ok", "failed", "skipped"}
        Whether the method succeeded, failed, or was skipped because the data are too large for it.
    reason : str
        Reason of a failure or of skipping.
    accuracy : float or None
        Share of the rows of the targets that are classified correctly; None after a failure. For another metric of the
        protocol, the mean of its scores over the targets; None where it is undefined.
    accuracies : dict of str to float
        The same for each target domain.
    validation : float or None
        The validation score of the selected settings. It does not depend on labels of the target, except with "oracle".
    settings : dict
        The selected settings.
    threshold : float or None
        Risk of the event from which the model predicts it, for two classes; None for more classes.
    transductive : bool
        Whether the method used the unlabeled rows of the targets.
    seconds : float
        Time for model selection, fitting and prediction; shared computations count once, for the first method.
    kind : {"plain", "reference", "invariant", "auto"}
        How the method uses domains: see `unseen.model_selection.Method`.
    importance : dict or None
        AUC of the model ("score") and its loss where each column is permuted ("losses"), if they were measured.
    machine : dict
        Versions, threads and machine.
    codes : ndarray of shape (n_rows,) or None
        Predicted classes of the rows of the targets, as positions among the sorted classes.
    probabilities : ndarray of shape (n_rows, n_classes) or None
        Predicted probabilities of all classes.

    Examples
    --------
    >>> from unseen.evaluation import Row
    >>> Row("1-NN", "A -> B", ("B",), accuracy=0.5).domain
    'B'
    """

    method: str
    task: str
    targets: tuple[str, ...] = ()
    repeat: int = 0
    status: str = "ok"
    reason: str = ""
    accuracy: float | None = None
    accuracies: dict[str, float] = field(default_factory=dict)
    validation: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    threshold: float | None = None
    transductive: bool = False
    seconds: float = 0.0
    kind: str = "plain"
    importance: dict[str, Any] | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    codes: Ints | None = field(default=None, repr=False, compare=False)
    probabilities: Array | None = field(default=None, repr=False, compare=False)

    @property
    def domain(self) -> str:
        """Name of the held-out domain, or names of several."""
        return ", ".join(self.targets)

    @property
    def has_score(self) -> bool:
        """Whether it has a score; some metrics are undefined if a class is missing."""
        return self.status == "ok" and self.accuracy is not None and bool(np.isfinite(self.accuracy))


def summarize_scores(scores: Sequence[float]) -> dict[str, float | None]:
    """Mean and standard deviation; None without enough scores."""
    return {
        "mean": float(np.mean(scores)) if scores else None,
        "sd": float(np.std(scores, ddof=1)) if len(scores) > 1 else None,
    }


def describe_failures(rows: Sequence[Row]) -> dict[str, Any]:
    """The reason of the first failure, whether a method was skipped, and a word for its missing scores."""
    failed = next((row.reason for row in rows if row.status != "ok"), "")
    is_skipped = any(row.status == "skipped" for row in rows)
    status = "skipped" if is_skipped else "failed" if failed else "undefined"
    return {"failed": failed, "skipped": is_skipped, "status": status}


class Store(AbstractContextManager["Store"]):
    """A file of results; use it as a context manager.

    Parameters
    ----------
    path : str, path or None
        The file, which is created with its parent folders if it does not exist. None stores in a temporary file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.evaluation import Row, Store
    >>> row = Row("1-NN", "A -> B", ("B",), accuracy=0.5)
    >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "results.sqlite")) as store:
    ...     store.add_configuration("example", {"seed": 0})
    ...     store.add("example", row)
    ...     store.rows("example") == [row]
    True
    """

    def __init__(self, path: str | Path | None) -> None:
        self._lock = threading.Lock()  # joblib reads arguments of calls in a thread of its own
        self._is_temporary = path is None
        if path is None:  # a temporary file of SQLite, which a killed process does not leave behind
            self.path = Path(tempfile.gettempdir())
            with _translate_sqlite_errors(self.path):
                self._connection = _connect("")
            return
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if is_special_file(self.path) or self.path.is_dir():
            raise ValueError(f"{self.path} is not a file. Use another name for the results file.")
        with _translate_sqlite_errors(self.path):
            _check_application(self.path)
            self._connection = _connect(self.path)
        self._identity = get_file_identity(self.path)

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _translate_sqlite_errors(self.path), self._lock, self._connection:
            yield
        if not self._is_temporary:
            check_unchanged(self.path, self._identity)

    def add_configuration(self, key: str, config: dict[str, Any]) -> None:
        """Store a configuration with its key."""
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO configurations VALUES (?, ?)", (key, json.dumps(config, sort_keys=True))
            )

    def add(self, configuration: str, row: Row) -> None:
        """Write one row and commit it; a later success replaces an earlier failure."""
        content = dict(vars(row))
        codes = content.pop("codes")
        P = content.pop("probabilities")
        content["n_classes"] = None if P is None else P.shape[1]
        blobs = [
            None if values is None else zlib.compress(np.ascontiguousarray(values, dtype=dtype).tobytes(), 1)
            for values, dtype in ((codes, "<i4"), (P, "<f8"))
        ]
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?)",
                (configuration, row.method, row.task, row.repeat, json.dumps(content), *blobs),
            )

    def rows(self, configuration: str) -> list[Row]:
        """Return all rows of a configuration."""
        with _translate_sqlite_errors(self.path), self._lock:
            records = self._connection.execute(
                "SELECT content, codes, probabilities FROM results WHERE configuration = ? "
                "ORDER BY task, method, repeat",
                (configuration,),
            ).fetchall()
        with _translate_decode_errors(self.path):
            return [_decode_row(*record) for record in records]

    def add_predictions(self, predictions: Mapping[str, StoredPredictions]) -> None:
        """Write the predictions of one training set for its validation parts, and commit them together."""
        records = [(part, _encode_predictions(by_key)) for part, by_key in predictions.items()]
        with self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO predictions VALUES (?, ?)", records)

    def has_predictions(self, part: str) -> bool:
        """Whether there are predictions for a validation part."""
        with _translate_sqlite_errors(self.path), self._lock:
            found = self._connection.execute("SELECT 1 FROM predictions WHERE part = ?", (part,)).fetchone()
        return found is not None

    def read_predictions(self, parts: Sequence[str]) -> list[StoredPredictions] | None:
        """Return the predictions for validation parts; None without parts, or if another run has removed some."""
        query = "SELECT content FROM predictions WHERE part = ?"
        with _translate_sqlite_errors(self.path), self._lock:
            records = [self._connection.execute(query, (part,)).fetchone() for part in parts]
        with _translate_decode_errors(self.path):
            return [_decode_predictions(content) for (content,) in records] if records and all(records) else None

    def remove_predictions(self) -> None:
        """Remove all predictions for validation parts, which a completed run does not need."""
        with self._transaction():
            n_removed = self._connection.execute("DELETE FROM predictions").rowcount
        if n_removed:
            with _translate_sqlite_errors(self.path), self._lock:
                self._connection.execute("VACUUM")


def _encode_predictions(by_key: StoredPredictions) -> bytes:
    """Predictions of one part: a list of plain values, and the arrays of candidates that could be fitted."""
    fitted = [one for one in by_key.values() if one.codes is not None]
    facts = [
        {**vars(one), "key": key, "codes": one.codes is not None, "responses": None} for key, one in by_key.items()
    ]
    buffer = io.BytesIO()
    np.savez(
        buffer,
        facts=np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
        codes=np.array([one.codes for one in fitted], dtype="<i4"),
        scores=np.array([one.responses["decision_scores"] for one in fitted], dtype="<f8"),
    )
    return buffer.getvalue()


def _decode_predictions(content: bytes) -> StoredPredictions:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        facts = json.loads(arrays["facts"].tobytes())
        fitted = iter(zip(arrays["codes"].astype(np.intp), arrays["scores"], strict=True))
    by_key = {}
    for values in facts:
        key = values.pop("key")
        codes, scores = next(fitted) if values["codes"] else (None, None)
        responses = {} if scores is None else {"decision_scores": scores}
        by_key[key] = Prediction(**{**values, "codes": codes, "responses": responses})
    return by_key


def _decode_row(content: str, codes: bytes | None, probabilities: bytes | None) -> Row:
    values = json.loads(content)
    n_classes = values.pop("n_classes")
    if values["status"] not in STATUSES:
        raise ValueError(f"status is {values['status']!r}")
    if codes is not None:
        values["codes"] = np.frombuffer(zlib.decompress(codes), dtype="<i4").astype(np.intp)
    if probabilities is not None:
        values["probabilities"] = np.frombuffer(zlib.decompress(probabilities), dtype="<f8").reshape(-1, n_classes)
    return Row(**{**values, "targets": tuple(values["targets"])})


@contextmanager
def _translate_decode_errors(path: Path) -> Iterator[None]:
    """Raise ValueError for contents of an intact database that no run has written."""
    try:
        yield
    except (EOFError, LookupError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged: a result in it cannot be decoded ({error}). {START_AGAIN}") from error


@contextmanager
def _translate_sqlite_errors(path: Path) -> Iterator[None]:
    """Convert errors of SQLite to errors that name the file, and that state a full disk."""
    try:
        yield
    except STORE_ERRORS as error:
        raise_if_disk_full(path, error)
        # The primary code; errors of Python, such as for text not in UTF-8, have none.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise ValueError(
                f"{path} cannot be opened as a results file ({error}). Use another file, or change its permissions."
            ) from error
        if code in DAMAGE_CODES:
            raise ValueError(f"{path} is damaged ({error}). {START_AGAIN}") from error
        raise OSError(f"{path} cannot be read or written ({error}).") from error


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


def _connect(path: Path | str) -> sqlite3.Connection:
    """Open a results file, create its tables if necessary, and check its integrity."""
    connection = sqlite3.connect(path, timeout=30, check_same_thread=False)
    try:
        create_sqlite_tables(connection, SCHEMA, application_id=APPLICATION_ID)
        (report,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if report != "ok":
            raise sqlite3.DatabaseError(" ".join(report.split()))
    except BaseException:
        connection.close()
        raise
    return connection
