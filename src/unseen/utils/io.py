"""Values for JSON, atomic writes, early checks of output names, limits on decompression, creation of SQLite tables."""

from __future__ import annotations

import errno
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from gzip import GzipFile

MAX_COMPRESSION_RATIO = 200  # measured data rarely compress to 1/50 of their size; zeros alone compress to 1/1000
MAX_UNCHECKED_BYTES = 2**23  # decompressed data up to this size are accepted at any ratio
CHUNK_BYTES = 2**16
TEMPORARY_PREFIX = ".unseen-"
MAX_NAME_BYTES = 255  # of a file, on all common file systems
MIN_FREE_BYTES = 2**16  # with less free space, an SQLite error is attributed to a full disk
# Characters that change the direction of the following text, even outside the name that contains them, and two that
# break lines.
DIRECTION_CHARACTERS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
ESCAPED_DIRECTION = {code: f"\\u{code:04x}" for code in DIRECTION_CHARACTERS}
CONTROL_CHARACTERS = (*range(9), *range(11, 32), *range(127, 160))  # all except tab and newline
REPLACEMENTS = dict.fromkeys(CONTROL_CHARACTERS, "\ufffd") | ESCAPED_DIRECTION


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
    """Yield a new hidden folder with a unique name, which is removed at the end.

    It is created next to the output and not in the system's temporary folder, which may be too small for large tables,
    and because a file can be renamed only within one file system. Unlike a temporary file, a file in the folder has the
    permissions that the user's umask gives.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def raise_if_disk_full(path: Path, error: Exception) -> None:
    """Raise OSError with ENOSPC and the name of the file if an exception of any library is due to a full disk."""
    from sqlite3 import SQLITE_FULL, Error

    is_full = getattr(error, "errno", None) == errno.ENOSPC or f"(os error {errno.ENOSPC})" in str(error)
    if isinstance(error, Error):
        # On a full disk SQLite also fails with other codes, when it enlarges the index of its log or creates a file.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        is_full = code == SQLITE_FULL or shutil.disk_usage(path.parent).free < MIN_FREE_BYTES
    if is_full:
        raise OSError(errno.ENOSPC, "The disk is full", str(path)) from error


def get_file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, which change if it is replaced; None if it does not exist."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def check_unchanged(path: Path, before: tuple[int, int] | None) -> None:
    """Raise OSError if an open file was removed or replaced: what is written to it would be lost."""
    if get_file_identity(path) != before:
        raise OSError(f"{path} was removed or replaced while it was in use: later results are not in it.")


def is_special_file(path: Path) -> bool:
    """Whether a path is neither a file nor a folder: reading a pipe or a device may not terminate."""
    return path.exists() and not path.is_file() and not path.is_dir()


def check_output_path(path: Path | None, *endings: str, inputs: Iterable[Path] = ()) -> None:
    """Raise ValueError for an output file that cannot be written or would replace an input, before any computation."""
    if path is None:
        return
    too_long = [part for part in path.parts if len(os.fsencode(part)) > MAX_NAME_BYTES]
    if too_long:
        raise ValueError(f"{too_long[0]!r} is too long for the name of a file. Use at most {MAX_NAME_BYTES} bytes.")
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{path} should end in {' or '.join(endings)}.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Pass the name of a file.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"{path} cannot be written, because {folder} is not a writable folder. Choose another file.")
    if path.resolve() in [other.resolve() for other in inputs]:
        raise ValueError(f"{path} would replace an input file. Choose another name.")


def check_inflation(size: int, stored: int, remedy: str, max_ratio: int = MAX_COMPRESSION_RATIO) -> None:
    """Raise ValueError if `stored` compressed bytes become too many bytes; `remedy` says how to store them instead."""
    if size > max(MAX_UNCHECKED_BYTES, max_ratio * stored):
        raise ValueError(
            f"its {stored:,} compressed bytes become {size:,} or more, over {max_ratio} times as many. Such files are "
            f"rejected, because a small one could exhaust the memory. If its content is correct, {remedy}"
        )


def read_inflated(stream: IO[bytes] | GzipFile, stored: int, remedy: str) -> Iterator[bytes]:
    """Read a compressed stream in chunks; raise ValueError when it becomes too large, whatever size is declared."""
    size = 0
    while chunk := stream.read(CHUNK_BYTES):
        size += len(chunk)
        check_inflation(size, stored, remedy)
        yield chunk


def create_sqlite_tables(
    connection: sqlite3.Connection, schema: str, *, application_id: int | None = None, seconds: float = 30.0
) -> None:
    """Create the tables of an SQLite file in WAL mode, while another process may do the same.

    SQLite waits for a process that writes rows, but not for one that changes the journal mode or creates tables.
    """
    import sqlite3

    deadline = time.monotonic() + seconds
    while True:
        try:
            # Before WAL mode, so that the id is written to the file itself and not to its log.
            if application_id is not None and connection.execute("PRAGMA application_id").fetchone() == (0,):
                connection.execute(f"PRAGMA application_id = {application_id}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(schema)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def escape_controls(text: str) -> str:
    """Replace the control characters in text from files and tables, which a terminal would interpret."""
    return text.translate(REPLACEMENTS)


def plain_values(value: Any) -> Any:
    """Convert values to those that JSON can represent: numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(item) for item in value]
    if hasattr(value, "tolist"):  # an array or a scalar of NumPy
        return plain_values(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
