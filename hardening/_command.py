"""Runs of the command: started, watched, ended; what they leave in folders, in memory and among processes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
LONG = 300  # seconds that no run here needs, on a machine that does other things as well
GRACE = 15  # seconds in which a terminated run should be gone
ORPHANED = 120  # seconds in which workers of a dead one should be: those that were just starting notice it afterwards
MARK = "UNSEEN_HARDENING"


class Zygote:
    """A process that starts runs of the command, one at a time; see `_zygote`."""

    def __init__(self) -> None:
        theirs_in, self._requests = os.pipe()
        self._answers, theirs_out = os.pipe()
        command = [sys.executable, "-m", "hardening._zygote", str(theirs_in), str(theirs_out)]
        paths = os.pathsep.join(filter(None, [str(REPOSITORY), *sys.path]))
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, pass_fds=(theirs_in, theirs_out), env=environment, cwd=REPOSITORY, stdin=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._requests)
        self.process.wait(timeout=LONG)
        os.close(self._answers)

    def start(self, place: Place, args: Sequence[object], **how: Any) -> Run:
        """Start the command; `how` goes to the zygote, as what to hook."""
        place.runs += 1
        out, err = (place.told / f"{place.runs}.{kind}" for kind in ("out", "err"))
        own = {"TMPDIR": str(place.temporary), "COLUMNS": "200", "NO_COLOR": "1", MARK: place.mark}
        request = {
            "args": [str(arg) for arg in args],
            "folder": str(place.folder),
            "environment": own,
            "out": str(out),
            "err": str(err),
            **how,
        }
        os.write(self._requests, json.dumps(request).encode() + b"\n")
        return Run(self, self.answer(LONG)["pid"], out, err, place.mark)

    def answer(self, seconds: float) -> dict[str, Any]:
        """The next answer; TimeoutError if there is none in time."""
        end = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            if not select.select([self._answers], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError
            more = os.read(self._answers, 65536)
            assert more, "the process that starts the commands has ended"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)


@dataclass
class Run:
    """A run of the command."""

    zygote: Zygote
    pid: int
    out_path: Path
    err_path: Path
    mark: str
    status: int | None = None

    def ended(self, seconds: float) -> bool:
        """Whether it ends within so many seconds."""
        if self.status is None:
            with contextlib.suppress(TimeoutError):
                self.status = self.zygote.answer(seconds)["status"]
        return self.status is not None

    def wait(self, seconds: float = LONG) -> int:
        """Its exit code, negative for a signal; a run that does not end is killed, and an error."""
        if not self.ended(seconds):
            self.signal(signal.SIGKILL)
            self.ended(LONG)
            raise TimeoutError(f"still running after {seconds} s: {self.err}")
        assert self.status is not None
        return os.waitstatus_to_exitcode(self.status)

    def signal(self, number: int) -> None:
        """Send a signal to it, not to its workers; nothing if it has ended by itself."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    @property
    def out(self) -> str:
        """What it has printed."""
        return self.out_path.read_text() if self.out_path.exists() else ""  # it may be killed before it opens them

    @property
    def err(self) -> str:
        """What it has said."""
        return self.err_path.read_text() if self.err_path.exists() else ""


@dataclass
class Place:
    """A folder to work in, one for temporary files, and one for what runs say."""

    root: Path
    runs: int = 0
    mark: str = field(init=False)

    def __post_init__(self) -> None:
        self.mark = f"{os.getpid()}-{self.root.name}"
        for folder in (self.folder, self.temporary, self.told):
            folder.mkdir(parents=True)

    @property
    def folder(self) -> Path:
        return self.root / "work"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def told(self) -> Path:
        return self.root / "told"


def names_in(folder: Path) -> set[str]:
    """All files below a folder, and empty folders."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or not any(path.iterdir())}


def left_processes(run: Run) -> list[int]:
    """Processes of the run's session, or that were started with its mark; those that have ended do not count."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            state, _, _, session = (path / "stat").read_text().rpartition(") ")[2].split()[:4]
            marked = f"{MARK}={run.mark}".encode() in (path / "environ").read_bytes().split(b"\0")
            if state != "Z" and (int(session) == run.pid or marked):
                found.append(int(path.name))
    return found


def left_memory(run: Run) -> list[str]:
    """What joblib shares among processes: folders and semaphores of this run, in memory."""
    return [path.name for path in Path("/dev/shm").glob(f"*[-_]{run.pid}[-_]*")]


def outlived(run: Run, seconds: float = ORPHANED) -> list[str]:
    """Processes and shared memory that are still there some time after a run has ended."""
    end = time.monotonic() + seconds
    while left := [*map(str, left_processes(run)), *left_memory(run)]:
        if time.monotonic() > end:
            return left
        time.sleep(0.05)
    return []


def say(text: str) -> None:
    """Progress, for whoever waits."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def mounted(folder: Path, megabytes: float) -> Iterator[Path]:
    """A small disk; PermissionError where nothing can be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    size = f"size={int(megabytes * 1024)}k"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], capture_output=True, text=True)
    if done.returncode:
        raise PermissionError(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write to a disk that was mounted here."""
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
