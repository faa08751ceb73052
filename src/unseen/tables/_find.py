"""Files of tables: one, a folder of them, or all that match a pattern."""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path

from ..labels import listed
from ._arrays import ARRAY_ENDINGS
from ._errors import TableError

TEXT_ENDINGS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
ARROW_ENDINGS = (".feather", ".arrow", ".ipc")
ENDINGS = (*TEXT_ENDINGS, ".parquet", *ARROW_ENDINGS, *ARRAY_ENDINGS)
# How programs that write a table in many files call them: part-00003-4f2a, chunk_3, 00012.
PART_NAME = re.compile(r"(part|chunk|shard|split|piece|block)[-_. ]?\d+([-_. ].*)?|\d+", re.IGNORECASE)


def files(path: str | os.PathLike[str]) -> list[tuple[str, Path]]:
    """The files of a table, each with its name without ending, sorted.

    Parameters
    ----------
    path : str or path
        A file; a folder, for all tables in it; or a pattern such as ``data/part-*.parquet``, for all that match.

    Returns
    -------
    files : list of (str, Path)
        Names and files.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.tables import files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ["leeds.csv.gz", "bonn.parquet", "notes.txt"]:
    ...         Path(folder, name).touch()
    ...     everything = [name for name, file in files(folder)]
    ...     some = [name for name, file in files(Path(folder, "*.parquet"))]
    >>> everything, some
    (['bonn', 'leeds'], ['bonn'])
    """
    path = Path(path).expanduser()
    if path.is_dir():
        inside = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
        return _tables(inside, "a folder must hold one file per domain, or parts of one table", path.name or str(path))
    if is_pattern(path):
        found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        return _tables(found, "a pattern must match files", str(path))
    if not path.exists():
        beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, beside, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise TableError([f"there is no such file or folder.{hint}"], source=str(path))
    if not ending_of(path):
        hint = " Save it as CSV." if path.suffix.lower() in (".xls", ".xlsx", ".ods") else ""
        raise TableError(
            [f"its name must end in {', '.join(ENDINGS)}, which tells its format.{hint}"], source=path.name
        )
    return [(_stem(path), path)]


def is_pattern(path: Path) -> bool:
    """Whether a path stands for whatever matches it; a file that is called so goes first."""
    return glob.has_magic(str(path)) and not path.exists()


def holds_several(path: str | os.PathLike[str]) -> bool:
    """Whether a path stands for several files, even if it turns out to be one."""
    path = Path(path).expanduser()
    return path.is_dir() or is_pattern(path)


def look_like_parts(names: Iterable[str]) -> bool:
    """Whether all of several files are called like the parts of one table."""
    names = list(names)
    return len(names) > 1 and all(PART_NAME.fullmatch(name) for name in names)


def data_name(path: str | os.PathLike[str]) -> str:
    """What the data are called: the file or folder; of a pattern, the folder that it searches."""
    path = Path(path).expanduser()
    if is_pattern(path):
        path = next(parent for parent in path.parents if not glob.has_magic(str(parent)))
    return path.resolve().name


def ending_of(path: Path) -> str | None:
    """The ending that tells the format, None if there is none."""
    fitting = [ending for ending in ENDINGS if path.name.lower().endswith(ending) and len(path.name) > len(ending)]
    return max(fitting, key=len, default=None)


def _tables(found: list[Path], demand: str, source: str) -> list[tuple[str, Path]]:
    tables = [entry for entry in found if entry.is_file() and ending_of(entry)]
    if not tables:
        problem = f"{demand}, ending in {', '.join(ENDINGS)}; there is {listed(entry.name for entry in found)}."
        raise TableError([problem], source=source)
    return sorted((_stem(table), table) for table in tables)


def _stem(path: Path) -> str:
    return path.name[: -len(ending_of(path) or "")]
