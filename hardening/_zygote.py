"""Start the command quickly and many times, with hooks in what it writes: ``python -m hardening._zygote``.

A process that has imported all that the command needs forks for each run, so that a run is the work alone and random
moments fall into it. Requests come as lines of JSON on one pipe, answers go out on another: a number of a process when
it starts, its status when it has ended. Hooks are in the forked process alone; the package knows nothing of them.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

ROOMS = ("model_selection", "study", "tables", "models", "images", "kernels", "shift", "report", "estimators")
HEAVY = ("skops.io", "PIL.Image", "sklearn.svm", "sklearn.ensemble", "sklearn.neighbors")  # but what starts threads
BEGINNINGS = ("INSERT", "UPDATE", "CREATE", "ALTER")


class Moments:
    """Where the command writes: each is counted, and at one of them the process waits to be killed or to be let go."""

    def __init__(self, told: str, pause_at: int | None, torn: bool) -> None:
        self.told, self.pause_at, self.torn, self.count = told, pause_at, torn, 0

    def __call__(self, name: str, before: Callable[[], object] = lambda: None) -> None:
        """A moment has come; `before` brings the disk to the state that a kill here would leave, if one comes."""
        if threading.current_thread() is not threading.main_thread():
            return
        here, self.count = self.count, self.count + 1
        if self.pause_at is None or here == self.pause_at:
            with open(self.told, "a") as file:
                file.write(f"{name}\n")
        if here == self.pause_at:
            if self.torn:
                before()
            os.rename(self.told, f"{self.told}.paused")  # whole, for whoever waits for it
            while not os.path.exists(f"{self.told}.go"):
                time.sleep(0.02)


def hook_sqlite(moment: Moments) -> None:
    """Moments after each change and before each commit: what is written is not yet in force."""
    connect = sqlite3.connect

    class Connection(sqlite3.Connection):
        def _moment(self, sql: str) -> None:
            if sql.lstrip().startswith(BEGINNINGS):
                moment(f"SQLite, {sql.split()[0]}, not committed")

        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            found = super().execute(sql, *rest)
            self._moment(sql)
            return found

        def executemany(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            found = super().executemany(sql, *rest)
            self._moment(sql)
            return found

        def executescript(self, sql: str) -> sqlite3.Cursor:
            moment("SQLite, before the tables are made")
            return super().executescript(sql)

        def __exit__(self, *error: Any) -> Any:
            moment("SQLite, before the commit")
            return super().__exit__(*error)

    sqlite3.connect = lambda path, **more: connect(path, factory=Connection, **more)  # type: ignore[assignment]


def hook_files(moment: Moments) -> None:
    """Moments around names that change, and within files that are written, when half of them is on the disk."""
    replace, writestr, write_text = os.replace, zipfile.ZipFile.writestr, Path.write_text

    def replaced(source: Any, target: Any) -> None:
        ours = Path(source).parent.name.startswith(".unseen-")
        if ours:
            moment("before the name is given")
        replace(source, target)
        if ours:
            moment("after the name is given")

    def archived(self: zipfile.ZipFile, *args: Any, **more: Any) -> None:
        writestr(self, *args, **more)
        if isinstance(self.filename, str) and self.fp is not None:  # not the archive within the archive, in memory
            moment("in the archive", self.fp.flush)

    def text(self: Path, content: str, **more: Any) -> int:
        half = len(content) // 2
        moment("in the text", lambda: write_text(self, content[:half], **more))
        return write_text(self, content, **more)

    os.replace, zipfile.ZipFile.writestr, Path.write_text = replaced, archived, text  # type: ignore[method-assign]


def hook_polars(moment: Moments) -> None:
    """Moments within tables: Rust writes them, so that half of what it wrote is what a kill would leave."""
    import polars as pl

    write_csv, write_parquet = pl.DataFrame.write_csv, pl.DataFrame.write_parquet
    sink_parquet = pl.LazyFrame.sink_parquet

    def halved(path: Any) -> Callable[[], object]:
        return lambda: os.truncate(path, os.path.getsize(path) // 2)

    def rows(self: Any, file: Any, **more: Any) -> Any:
        found = write_csv(self, file, **more)
        moment("in the rows", file.flush)
        return found

    def part(self: Any, file: Any, **more: Any) -> Any:
        found = write_parquet(self, file, **more)
        moment("in a part", halved(file))
        return found

    def sink(self: Any, file: Any, **more: Any) -> Any:
        found = sink_parquet(self, file, **more)
        moment("in the table", halved(file))
        return found

    pl.DataFrame.write_csv, pl.DataFrame.write_parquet, pl.LazyFrame.sink_parquet = rows, part, sink  # type: ignore


def hook_reads(moment: Moments) -> None:
    """Moments before a table is opened to be read."""
    import polars as pl

    scan_csv = pl.scan_csv

    def scanned(*args: Any, **more: Any) -> Any:
        moment("before a table is read")
        return scan_csv(*args, **more)

    pl.scan_csv = scanned


def set_back(seconds: float) -> None:
    """Let the clock jump back by so much, again and again, from the first second on; the monotonic one goes on."""
    import datetime

    start, real = time.monotonic(), time.time

    def back() -> float:
        return real() - seconds * (1 + int(20 * (time.monotonic() - start)))

    class Shifted(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.fromtimestamp(back(), tz)

    time.time, time.time_ns = back, lambda: int(1e9 * back())
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("unseen") and hasattr(module, "datetime"):
            module.datetime = Shifted


def become(request: dict[str, Any]) -> None:
    """In the forked process: be the command."""
    os.setsid()
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # as the environment says
    if "dask" in sys.modules:
        sys.modules["dask"].config.refresh()
    for descriptor, name in ((1, "out"), (2, "err")):
        opened = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    if request.get("user"):
        os.setgid(request["user"])
        os.setuid(request["user"])
    if "moments" in request:
        moment = Moments(request["moments"], request["pause_at"], request.get("torn", False))
        reads = [hook_reads] if request.get("reads") else []
        for hook in (hook_sqlite, hook_files, hook_polars, *reads):
            hook(moment)
    if "set_back" in request:
        set_back(request["set_back"])
    sys.argv = ["unseen", *request["args"]]


def serve(requests: int, answers: int) -> bool:
    """Fork for each request; True in a forked process, False at the end of the requests."""
    with open(requests) as lines, open(answers, "w") as told:
        for line in lines:
            child = os.fork()
            if not child:
                become(json.loads(line))
                return True
            print(json.dumps({"pid": child}), file=told, flush=True)
            print(json.dumps({"status": os.waitpid(child, 0)[1]}), file=told, flush=True)
    return False


if __name__ == "__main__":
    main = import_module("unseen.cli").main
    for name in (*(f"unseen.{room}" for room in ROOMS), "unseen.cli._app", *HEAVY):
        import_module(name)
    threads = {path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")}
    assert threads <= {"python", "jemalloc_bg_thd"}, f"a process with threads cannot be forked safely: {threads}"
    if serve(int(sys.argv[1]), int(sys.argv[2])):
        main()
