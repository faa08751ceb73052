"""A log of predicted batches in an SQLite file, and its history with control charts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..linalg import Array
from ..utils.io import create_sqlite_tables, raise_if_disk_full
from ._control_charts import RUN_LENGTH, draw_control_chart

APPLICATION_ID = 0x756E736E  # "unsn": marks SQLite files that this module wrote
COLUMNS = "time, model, source, rows, labels, novelty, confidence, labeled, correct"
CREATE = """
CREATE TABLE IF NOT EXISTS batches (
    id INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    model TEXT NOT NULL,
    source TEXT NOT NULL,
    rows INTEGER NOT NULL,
    labels TEXT NOT NULL,
    novelty REAL,
    confidence REAL,
    labeled INTEGER NOT NULL,
    correct INTEGER NOT NULL
);
"""
MAX_CHARTED_CLASSES = 10  # more shares would make every chart insensitive
MAX_SIZE_RATIO = 4.0  # of batches, beyond which limits are approximate
MIN_BATCHES = 3  # before a chart starts
BUSY_SECONDS = 30.0  # to wait for another process that appends a batch


def append_batch(path: Path, summary: Mapping[str, Any], *, model: str = "", source: str = "") -> None:
    """Append the facts of a batch to a log, which is created if it does not exist.

    Parameters
    ----------
    path : Path
        The log.
    summary : mapping
        Summary of predictions: `rows`, `labels`, `novelty`, `confidence` and `agreement`.
    model : str, default=""
        The model: its checksum or name.
    source : str, default=""
        The table that was predicted.
    """
    agreement = summary.get("agreement") or {"rows": 0, "right": 0}
    ratios = [entry["ratio"] for entry in summary.get("novelty", []) if entry.get("ratio") is not None]
    labels = {str(entry["label"]): entry["rows"] for entry in summary["labels"]}
    row = (
        datetime.now(UTC).isoformat(timespec="seconds"),
        model,
        source,
        summary["rows"],
        json.dumps(labels),
        max(ratios) if ratios else None,
        summary.get("confidence"),
        agreement["rows"],
        agreement["right"],
    )
    with _open(path) as connection, connection:
        create_sqlite_tables(connection, CREATE, application_id=APPLICATION_ID)
        connection.execute(f"INSERT INTO batches ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def read_batches(path: Path) -> list[dict[str, Any]]:
    """All batches of a log, in the order in which they were appended."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such log. Append batches with append_batch first.")
    with _open(path) as connection:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise ValueError(f"{path}: not a log of predictions. Pass a file that append_batch wrote.")
        rows = connection.execute(f"SELECT {COLUMNS} FROM batches ORDER BY id").fetchall()
    names = COLUMNS.split(", ")
    batches = [dict(zip(names, row, strict=True)) for row in rows]
    return [{**batch, "labels": json.loads(batch["labels"])} for batch in batches]


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a log; raise ValueError if the file is not one."""
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            identifier = connection.execute("PRAGMA application_id").fetchone()[0]
            is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if identifier != APPLICATION_ID and not (is_empty and not identifier):
                raise ValueError(f"{path}: an SQLite file of another program. Use another name for the log.")
            yield connection
    except sqlite3.DatabaseError as error:
        raise_if_disk_full(path, error)
        if isinstance(error, sqlite3.OperationalError):
            raise OSError(f"{path}: cannot be read or written ({error}).") from error
        raise ValueError(f"{path}: not a log of predictions ({error}). Use another name for the log.") from error


def summarize_history(batches: list[dict[str, Any]], *, run_length: float = RUN_LENGTH) -> dict[str, Any]:
    """The history of a log in plain values: series with their charts, alarms and notices.

    Parameters
    ----------
    batches : list of dict
        Result of `read_batches`.
    run_length : float, default=500
        Average number of batches until a false alarm, for all series together, while nothing changes.

    Returns
    -------
    history : dict
        `series`, each with `name`, `values` and `ewma`; the `limit` of all charts; `alarms`, each with `batch`, `time`,
        `series` and `direction`; `notices`; and facts of the batches.
    """
    series = _make_series(batches)
    scores = np.array([transformed for _, _, transformed in series]).reshape(len(series), len(batches)).T
    chart = draw_control_chart(scores, run_length)
    alarms = [
        {
            "batch": int(t) + 1,
            "time": batches[int(t)]["time"],
            "series": series[int(s)][0],
            "direction": "higher" if chart.ewma[t, s] > 0 else "lower",
        }
        for t, s in np.argwhere(chart.alarms)
    ]
    return {
        "batches": [{key: batch[key] for key in ("time", "model", "source", "rows")} for batch in batches],
        "series": [
            {"name": name, "values": _to_list(values), "ewma": _to_list(chart.ewma[:, s])}
            for s, (name, values, _) in enumerate(series)
        ],
        "limit": chart.limit,
        "run_length": run_length,
        "alarms": alarms,
        "notices": _make_notices(batches),
    }


def _make_series(batches: list[dict[str, Any]]) -> list[tuple[str, Array, Array]]:
    """Name, values, and values on a scale on which they are about normal, of each series that has any."""
    rows = np.array([batch["rows"] for batch in batches], dtype=float)
    series = []
    novelty = _column(batches, "novelty")
    if np.isfinite(novelty).any():
        series.append(("novelty", novelty, np.log(np.maximum(novelty, 1e-3))))
    confidence = _column(batches, "confidence")
    if np.isfinite(confidence).any():
        clipped = np.clip(confidence, 1e-6, 1 - 1e-6)
        series.append(("mean confidence", confidence, np.log(clipped / (1 - clipped))))
    classes = list(dict.fromkeys(name for batch in batches for name in batch["labels"]))
    if len(classes) == 2:
        classes = classes[:1]  # the share of the other class is one minus this
    if len(classes) <= MAX_CHARTED_CLASSES:
        for name in classes:
            counts = np.array([batch["labels"].get(name, 0) for batch in batches], dtype=float)
            series.append((f"share of {name}", counts / np.maximum(rows, 1), _angle(counts, rows)))
    labeled = np.array([batch["labeled"] for batch in batches], dtype=float)
    if (labeled > 0).any():
        correct = np.array([batch["correct"] for batch in batches], dtype=float)
        accuracy = np.where(labeled > 0, correct / np.maximum(labeled, 1), np.nan)
        series.append(("accuracy", accuracy, np.where(labeled > 0, _angle(correct, labeled), np.nan)))
    return series


def _angle(counts: Array, totals: Array) -> Array:
    """Anscombe's transformation of shares, whose variance does not depend on the share."""
    return np.arcsin(np.sqrt((counts + 0.375) / (totals + 0.75)))


def _column(batches: list[dict[str, Any]], name: str) -> Array:
    return np.array([np.nan if batch[name] is None else batch[name] for batch in batches], dtype=float)


def _to_list(values: Array) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def _make_notices(batches: list[dict[str, Any]]) -> list[str]:
    notices = []
    if len(batches) < MIN_BATCHES:
        notices.append(f"{len(batches)} batches: a chart starts with the third batch.")
    rows = [batch["rows"] for batch in batches]
    if rows and max(rows) > MAX_SIZE_RATIO * min(rows):
        notices.append(
            f"Batches have {min(rows):,} to {max(rows):,} rows. Small batches vary more, so the limits are approximate."
        )
    models = list(dict.fromkeys(batch["model"] for batch in batches))
    if len(models) > 1:
        notices.append(f"The batches were predicted by {len(models)} models; a change of model can raise an alarm.")
    return notices
