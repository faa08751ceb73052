"""Writing files completely or not at all, checking output names early, and limits on decompression."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

MAX_COMPRESSION_RATIO = (
    200  # data of people are rarely a fiftieth of their size when compressed, zeros alone a thousandth
)
MAX_UNCHECKED_BYTES = 2**23  # bytes that may come of anything
CHUNK_BYTES = 2**16
GZIP_WBITS = 31  # what zlib calls the frame of a gzip file
TEMPORARY_PREFIX = ".unseen-"  # of temporary folders
MIN_FREE_BYTES = 65536  # bytes: with less than this left on the disk, a failure of SQLite to write has its reason there


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary file name; the file written there replaces `path` at the end, unless an exception is raised.

    Missing folders are created.
    """
    try:
        with temporary_folder(path.parent) as folder:
            yield folder / path.name
            os.replace(folder / path.name, path)
    except Exception as error:
        raise_if_disk_full(path, error)
        raise


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Yield a new hidden folder, removed at the end. Its name is unique, also among threads and machines.

    It is beside the output and not in the system's temporary folder: large tables need room, and a file can be renamed
    only within one file system. A file in it has the permissions that the user's umask gives, unlike a temporary file.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def raise_if_disk_full(path: Path, error: Exception) -> None:
    """Call a full disk full and name the file that there was no room for, whatever words a library has for it."""
    from sqlite3 import SQLITE_FULL, Error  # which few need

    full = getattr(error, "errno", None) == errno.ENOSPC or f"(os error {errno.ENOSPC})" in str(error)
    if isinstance(error, Error):  # it also fails to enlarge its index of the log, or to make a file at all
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        full = code == SQLITE_FULL or shutil.disk_usage(path.parent).free < MIN_FREE_BYTES
    if full:
        raise OSError(errno.ENOSPC, "The disk is full", str(path)) from error


def get_file_identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another that is given its name; None if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def check_unchanged(path: Path, before: tuple[int, int] | None) -> None:
    """Refuse to go on with an open file that has lost its name: nobody would find what is written to it."""
    if get_file_identity(path) != before:
        raise OSError(f"{path} was removed or replaced while it was used: later results are not in it.")


def is_special_file(path: Path) -> bool:
    """Whether there is something that is neither a file nor a folder: reading a pipe or a device may never end."""
    return path.exists() and not path.is_file() and not path.is_dir()


def check_output_path(path: Path | None, *endings: str, reads: Iterable[Path] = ()) -> None:
    """Raise ValueError for an output file that cannot be written or would replace an input, before any work is done."""
    if path is None:
        return
    _check_name_length(path)
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{path} should end in {' or '.join(endings)}.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file.")
    folder = _existing_folder(path)
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"{path} cannot be written: there is no writing into {folder}. Name another file.")
    if path.resolve() in [other.resolve() for other in reads]:
        raise ValueError(f"{path} would replace what is read; choose another name.")


def _existing_folder(path: Path) -> Path:
    # Not Path.exists, which raises for a name that is too long.
    return next(parent for parent in path.absolute().parents if os.path.exists(parent))


def _check_name_length(path: Path) -> None:
    """Raise ValueError if the file system does not accept the name of a new file, or one of the folders above it."""
    folder = _existing_folder(path)
    names = [folder / part for part in path.absolute().relative_to(folder).parts]
    names.append(path.absolute().parent / f"{TEMPORARY_PREFIX}{'x' * 8}" / path.name)  # where `written` writes it first
    for name in names:
        try:
            os.lstat(name)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise ValueError(
                    f"The name {path.name!r} or the path of this file is too long for the file system in {folder}. "
                    "Use a shorter one."
                ) from error


def check_inflation(size: int, stored: int, remedy: str, fold: int = MAX_COMPRESSION_RATIO) -> None:
    """Raise ValueError if so many stored bytes become too many."""
    if size > max(MAX_UNCHECKED_BYTES, fold * stored):
        raise ValueError(
            f"its {stored:,} compressed bytes become {size:,} or more, over {fold} times as many, which is refused "
            f"lest a small file fills the memory. If they are what you want, {remedy}"
        )


def decompress(content: bytes, remedy: str, most: int = 0) -> bytes:
    """What zlib has compressed, unless it is too large; `most` bytes, if given, are not."""
    unpacker, limit = zlib.decompressobj(), max(MAX_UNCHECKED_BYTES, MAX_COMPRESSION_RATIO * len(content), most)
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
        unpacker = zlib.decompressobj(wbits=GZIP_WBITS)
        while piece := file.read(CHUNK_BYTES):
            read += len(piece)
            while piece:
                try:
                    size += len(unpacker.decompress(piece, 16 * CHUNK_BYTES))
                except zlib.error:
                    return  # whoever reads it comes no further, and says why
                check_inflation(size, read, remedy)
                piece = unpacker.unconsumed_tail
                if unpacker.eof:  # another file may follow in the same one
                    piece, unpacker = unpacker.unused_data, zlib.decompressobj(wbits=GZIP_WBITS)


def create_sqlite_tables(
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
