"""Results, row by row, in one file that survives being killed.

SQLite in WAL mode: each row is committed by itself, a process killed in mid-write leaves the earlier rows intact, the
primary key makes every row unique, and the file can be read while a study runs. Append-only text would need its own
answers to torn lines and duplicates; Parquet cannot append a row.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..algebra import Ints

SCHEMA = """
CREATE TABLE IF NOT EXISTS configurations (key TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (
    configuration TEXT NOT NULL REFERENCES configurations (key),
    method TEXT NOT NULL, task TEXT NOT NULL, repeat INTEGER NOT NULL,
    seed INTEGER, accuracy REAL, accuracies TEXT, validation REAL, settings TEXT, ties INTEGER, transductive INTEGER,
    seconds REAL, status TEXT NOT NULL, reason TEXT, machine TEXT, predicted BLOB,
    PRIMARY KEY (configuration, method, task, repeat)
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
        Which draw of the training data, and its seed.
    accuracy : float or None
        Share of the targets' samples that are classified correctly; None after a failure.
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


JSON_FIELDS = ("accuracies", "settings", "machine")
COLUMNS = tuple(field.name for field in fields(Row))


class Store:
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
        try:
            self._connection = sqlite3.connect(self.path, timeout=30)
        except sqlite3.OperationalError as error:
            raise ValueError(f"{self.path} cannot be opened as a file of results ({error}). Name another.") from error
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.executescript(SCHEMA)
            self._connection.execute(f"SELECT configuration, {', '.join(COLUMNS)}, predicted FROM results LIMIT 0")
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise ValueError(f"{self.path} is not a file of results ({error}). Name another file.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def open_configuration(self, key: str, config: dict[str, Any]) -> None:
        """Remember what a configuration's key stands for."""
        with self._connection:
            self._connection.execute(
                "INSERT OR IGNORE INTO configurations VALUES (?, ?)", (key, json.dumps(config, sort_keys=True))
            )

    def add(self, configuration: str, row: Row, predicted: Ints | None = None) -> None:
        """Write one row and commit it; a later success replaces an earlier failure.

        `predicted` are the predicted classes of the targets' samples, as positions among all classes in order.
        """
        values = [json.dumps(v) if name in JSON_FIELDS else v for name, v in vars(row).items()]
        blob = None if predicted is None else zlib.compress(predicted.astype("<i4").tobytes())
        marks = ", ".join("?" * (2 + len(values)))
        with self._connection:
            self._connection.execute(
                f"INSERT OR REPLACE INTO results (configuration, {', '.join(COLUMNS)}, predicted) VALUES ({marks})",
                [configuration, *values, blob],
            )

    def predicted(self, configuration: str, method: str, task: str, repeat: int) -> Ints | None:
        """Predicted classes of one row, if it has any."""
        found = self._connection.execute(
            "SELECT predicted FROM results WHERE configuration = ? AND method = ? AND task = ? AND repeat = ?",
            (configuration, method, task, repeat),
        ).fetchone()
        if found is None or found[0] is None:
            return None
        return np.frombuffer(zlib.decompress(found[0]), dtype="<i4").astype(np.intp)

    def rows(self, configuration: str) -> list[Row]:
        """All rows of a configuration."""
        found = self._connection.execute(
            f"SELECT {', '.join(COLUMNS)} FROM results WHERE configuration = ? ORDER BY task, method, repeat",
            (configuration,),
        )
        return [_row(dict(zip(COLUMNS, values, strict=True))) for values in found]


def _row(values: dict[str, Any]) -> Row:
    for name in JSON_FIELDS:
        values[name] = json.loads(values[name])
    values["transductive"] = bool(values["transductive"])
    return Row(**values)
