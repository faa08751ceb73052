"""Files that are there whole or not at all, of which nothing is left lying about, and which do not fill the memory."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import signal
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

MOST_FOLD = 200  # data of people are rarely a fiftieth of their size when compressed, zeros alone a thousandth
ALWAYS = 2**23  # bytes that may come of anything
PIECE = 2**16
GZIP = 31  # what zlib calls the frame of a gzip file
NO_ROOM = 65536  # bytes: with less than this left on the disk, a failure of SQLite to write has its reason there
_unfinished: set[Path] = set()  # temporaries of this process


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to; what is there at the end replaces `path`, unless something was raised.

    The folder is made if there is none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary(path) as file:
        try:
            yield file
            os.replace(file, path)
        except Exception as error:
            check_room(path, error)
            raise


def check_room(path: Path, error: Exception) -> None:
    """Call a full disk full and name the file that there was no room for, whatever words a library has for it."""
    from sqlite3 import SQLITE_FULL, Error  # which few need

    full = getattr(error, "errno", None) == errno.ENOSPC or f"(os error {errno.ENOSPC})" in str(error)
    if isinstance(error, Error):  # it also fails to enlarge its index of the log, or to make a file at all
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        full = code == SQLITE_FULL or shutil.disk_usage(path.parent).free < NO_ROOM
    if full:
        raise OSError(errno.ENOSPC, "The disk is full", str(path)) from error


def identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another that is given its name; None if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def check_same(path: Path, before: tuple[int, int] | None) -> None:
    """Refuse to go on with an open file that has lost its name: nobody would find what is written to it."""
    if identity(path) != before:
        raise OSError(f"{path} was removed or replaced while it was used: later results are not in it.")


def is_special(path: Path) -> bool:
    """Whether there is something that is neither a file nor a folder: reading a pipe or a device may never end."""
    return path.exists() and not path.is_file() and not path.is_dir()


def check_target(path: Path | None, *endings: str, reads: Iterable[Path] = ()) -> None:
    """Refuse a file that cannot be written, or would replace what is read, before any work is done for it."""
    if path is None:
        return
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{path} should end in {' or '.join(endings)}.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"{path} cannot be written: there is no writing into {folder}. Name another file.")
    if path.resolve() in [other.resolve() for other in reads]:
        raise ValueError(f"{path} would replace what is read; choose another name.")


@contextmanager
def temporary(path: Path) -> Iterator[Path]:
    """Give a name beside `path` for a file or a folder that is removed at the end, and when the process is terminated.

    What processes that were killed have left beside `path` is removed at the start.
    """
    name = f".{path.name}.{platform.node()}."  # of other machines, which may share the folder, nothing can be known
    for entry in path.parent.glob(".*"):
        pid = re.fullmatch(re.escape(name) + r"(\d{1,9})", entry.name)
        if pid and entry not in _unfinished and not _is_other(int(pid[1])):
            with suppress(PermissionError):  # somebody else's, who will sweep it
                _remove(entry)
    own = path.with_name(f"{name}{os.getpid()}")
    # Python ends at once on SIGTERM. A handler that somebody else has set is left alone.
    main = threading.current_thread() is threading.main_thread()
    unhandled = main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    _unfinished.add(own)
    try:
        if unhandled:
            signal.signal(signal.SIGTERM, _terminate)
        yield own
    finally:
        _remove(own)
        _unfinished.discard(own)
        if unhandled:  # not before: what is terminated while it removes a folder would leave the rest of it
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_other(pid: int) -> bool:
    """Whether another process with this number runs."""
    if pid == os.getpid() or os.name != "posix":  # elsewhere, asking would end it
        return pid != os.getpid()
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _terminate(number: int, _: FrameType | None) -> None:
    """Remove what is unfinished, and end as if there had been no handler."""
    for path in tuple(_unfinished):
        if path.name.endswith(f".{os.getpid()}"):  # a forked child has its parent's list and this handler
            _remove(path)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def check_inflation(size: int, stored: int, remedy: str, fold: int = MOST_FOLD) -> None:
    """Raise ValueError if so many stored bytes become too many."""
    if size > max(ALWAYS, fold * stored):
        raise ValueError(
            f"its {stored:,} compressed bytes become {size:,} or more, over {fold} times as many, which is refused "
            f"lest a small file fills the memory. If they are what you want, {remedy}"
        )


def inflated(content: bytes, remedy: str, most: int = 0) -> bytes:
    """What zlib has compressed, unless it is too large; `most` bytes, if given, are not."""
    unpacker, limit = zlib.decompressobj(), max(ALWAYS, MOST_FOLD * len(content), most)
    try:
        found = unpacker.decompress(content, limit + 1)
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from error
    if len(found) > limit:
        check_inflation(len(found), len(content), remedy)
    if not unpacker.eof:
        raise ValueError("it is damaged: its compressed data are cut off")
    return found


def check_gzip(path: Path, remedy: str) -> None:
    """Raise ValueError if a gzip file becomes too large. Reads all of it, as nothing in it can be relied on."""
    read = size = 0
    with path.open("rb") as file:
        unpacker = zlib.decompressobj(wbits=GZIP)
        while piece := file.read(PIECE):
            read += len(piece)
            while piece:
                try:
                    size += len(unpacker.decompress(piece, 16 * PIECE))
                except zlib.error:
                    return  # whoever reads it comes no further, and says why
                check_inflation(size, read, remedy)
                piece = unpacker.unconsumed_tail
                if unpacker.eof:  # another file may follow in the same one
                    piece, unpacker = unpacker.unused_data, zlib.decompressobj(wbits=GZIP)


def set_up(
    connection: sqlite3.Connection, schema: str, *, application_id: int | None = None, seconds: float = 30.0
) -> None:
    """Create the tables of an SQLite file in WAL mode, while another process may be doing the same.

    SQLite waits for a process that writes rows, but not for one that changes the journal mode, or creates tables that
    both miss.
    """
    import sqlite3

    deadline = time.monotonic() + seconds
    while True:
        try:
            # Before there is a log, so that it is in the file itself.
            if application_id is not None and connection.execute("PRAGMA application_id").fetchone() == (0,):
                connection.execute(f"PRAGMA application_id = {application_id}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(schema)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)
