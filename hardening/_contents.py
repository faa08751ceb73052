"""What files hold, but for times: what must be the same however often a job was ended and taken up again."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from ._jobs import Job

Rows = dict[Any, Any]
TIMES = ("seconds", "date", "created")  # in what is printed, and in the card of a model
ID = re.compile(r'("__id__": |"file": ")(\d+)')  # of a model file: addresses in memory


def kept_rows(path: Path) -> Rows:
    """Rows of an SQLite file by their keys; an error if the file or one of its rows is damaged.

    A copy is read: whoever opens such a file also mends what a kill left beside it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        for beside in path.parent.glob(f"{path.name}*"):
            shutil.copy(beside, scratch)
        with closing(sqlite3.connect(Path(scratch, path.name), timeout=30)) as connection:
            sound = connection.execute("PRAGMA integrity_check").fetchone()
            assert sound == ("ok",), f"{path} is damaged: {sound}"
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            return {} if not tables else _results(connection) if "results" in tables else _features(connection)


def _results(connection: sqlite3.Connection) -> Rows:
    cursor = connection.execute("SELECT * FROM results")
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    keys = [tuple(row[name] for name in ("method", "task", "repeat")) for row in rows]
    assert len(set(keys)) == len(keys), "there are rows twice"
    return {
        key: ({n: v for n, v in row.items() if n != "seconds"}, row["seconds"])
        for key, row in zip(keys, rows, strict=True)
    }


def _features(connection: sqlite3.Connection) -> Rows:
    rows = connection.execute("SELECT content, way, numbers, checksum FROM features").fetchall()
    assert all(zlib.crc32(numbers) == checksum for _, _, numbers, checksum in rows), "a row is damaged"
    return {(content, way): (numbers, 0.0) for content, way, numbers, _ in rows}


def content_of(path: Path) -> Any:
    """What a file says, but for times; an error if it is not whole."""
    if path.suffix == ".unseen":
        with zipfile.ZipFile(path) as archive, archive.open("model.skops") as inner, zipfile.ZipFile(inner) as model:
            assert archive.testzip() is None, f"{path} is damaged"
            schema = model.read("schema.json").decode()
            numbers = {found[2]: i for i, found in enumerate(ID.finditer(schema))}
            arrays = {numbers[n[:-4]]: model.read(n) for n in model.namelist() if n != "schema.json"}
            told = without_times(json.loads(archive.read("card.json")))
            facts = {name: value for name, value in told.items() if name not in ("payload", "sha256")}
            return facts, ID.sub(lambda found: f"{found[1]}{numbers[found[2]]}", schema), arrays
    if path.suffix == ".html":
        text = path.read_text()
        assert text.rstrip().endswith("</html>"), f"{path} is not whole"
        return re.sub(r"\d", "", text).count("<")  # times are all over it; its elements are not
    return path.read_bytes()


def without_times(told: Any) -> Any:
    """Plain values, without seconds and dates."""
    if isinstance(told, dict):
        return {key: without_times(value) for key, value in told.items() if key not in TIMES}
    return [without_times(value) for value in told] if isinstance(told, list) else told


def final(job: Job, folder: Path, printed: str) -> dict[str, Rows]:
    """All that a finished job has made, as rows by their keys, for each file and for what was printed."""
    found: dict[str, Rows] = {}
    for name in job.makes:
        content = content_of(folder / name)
        lines = Counter(content.splitlines()) if name.endswith(".csv") else {"": content}
        found[name] = dict(lines)
    for name in job.keeps:
        found[name] = {key: value for key, (value, _) in kept_rows(folder / name).items()}
    if "json" in job.args:
        found["printed"] = {"": without_times(json.loads(printed))}
    return found


def differences(expected: Mapping[str, Rows], found: Mapping[str, Rows]) -> Counter[str]:
    """How many rows are lost, doubled or different."""
    counts: Counter[str] = Counter()
    for name, rows in expected.items():
        own = found[name]
        counts["lost"] += len(rows.keys() - own.keys())
        counts["doubled"] += len(own.keys() - rows.keys())
        for key in rows.keys() & own.keys():
            if name.endswith(".csv"):  # how often each line is there
                counts["lost"] += max(rows[key] - own[key], 0)
                counts["doubled"] += max(own[key] - rows[key], 0)
            else:
                counts["different"] += rows[key] != own[key]
    return counts
