"""Files of tables: found by path, folder or pattern, opened lazily, and read in batches."""

from __future__ import annotations

import csv
import difflib
import glob
import gzip
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from ..utils.io import check_gzip
from ..utils.validation import format_list
from ._arrays import ARRAY_ENDINGS, ArrayNames, read_arrays
from ._errors import TableError, format_count, format_unknown_column, raise_table_error, translate_read_errors
from ._values import import_polars

if TYPE_CHECKING:
    import polars as pl

TEXT_ENDINGS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
ARROW_ENDINGS = (".feather", ".arrow", ".ipc")
ENDINGS = (*TEXT_ENDINGS, ".parquet", *ARROW_ENDINGS, *ARRAY_ENDINGS)
# How programs that write a table in many files call them: part-00003-4f2a, chunk_3, 00012.
PART_NAME = re.compile(r"(part|chunk|shard|split|piece|block)[-_. ]?\d+([-_. ].*)?|\d+", re.IGNORECASE)


def list_files(path: str | os.PathLike[str]) -> list[tuple[str, Path]]:
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
    if not get_file_ending(path):
        hint = " Save it as CSV." if path.suffix.lower() in (".xls", ".xlsx", ".ods") else ""
        raise TableError(
            [f"its name must end in {', '.join(ENDINGS)}, which tells its format.{hint}"], source=path.name
        )
    if not path.is_file():
        raise TableError(["it is neither a file nor a folder."], source=path.name)
    return [(_stem(path), path)]


def is_path(data: Any) -> bool:
    """Whether data are in files."""
    return isinstance(data, (str, os.PathLike))


def has_columns(data: Any) -> bool:
    """Whether data in memory have columns by name: a frame of any library, or what `as_frame` makes one of."""
    if hasattr(type(data), "columns") or isinstance(data, Mapping) or is_pandas_series(data):
        return True  # to ask a lazy frame itself for its columns would read it
    return is_structured(data) or is_list_of_rows(data)


def is_structured(data: Any) -> bool:
    """Whether data are an array of records with named fields."""
    return getattr(getattr(data, "dtype", None), "names", None) is not None


def is_pandas_series(data: Any) -> bool:
    """Whether data are one row of a frame of pandas, with the names of its columns."""
    return hasattr(type(data), "to_frame") and hasattr(type(data), "index")


def is_list_of_rows(data: Any) -> bool:
    """Whether data are a list of rows with named values."""
    return isinstance(data, (list, tuple)) and bool(data) and all(isinstance(row, Mapping) for row in data)


def is_table(data: Any, y: Any, sample_domain: Any) -> bool:
    """Whether labels and domains are in columns of the data: of files, or of a frame that comes without others."""
    return is_path(data) or (has_columns(data) and y is None and sample_domain is None)


def is_pattern(path: Path) -> bool:
    """Whether a path stands for whatever matches it; a file that is called so goes first."""
    return glob.has_magic(str(path)) and not path.exists()


def is_folder_or_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a path stands for several files, even if it turns out to be one."""
    path = Path(path).expanduser()
    return path.is_dir() or is_pattern(path)


def are_part_names(names: Iterable[str]) -> bool:
    """Whether all of several files are called like the parts of one table."""
    names = list(names)
    return len(names) > 1 and all(PART_NAME.fullmatch(name) for name in names)


def get_data_name(path: str | os.PathLike[str]) -> str:
    """What the data are called: the file or folder; of a pattern, the folder that it searches."""
    path = Path(path).expanduser()
    if is_pattern(path):
        path = next(parent for parent in path.parents if not glob.has_magic(str(parent)))
    return path.resolve().name


def get_file_ending(path: Source) -> str | None:
    """The ending that tells the format, None if there is none."""
    fitting = [ending for ending in ENDINGS if path.name.lower().endswith(ending) and len(path.name) > len(ending)]
    return max(fitting, key=len, default=None)


def _tables(found: list[Path], demand: str, source: str) -> list[tuple[str, Path]]:
    tables = [entry for entry in found if entry.is_file() and get_file_ending(entry)]
    if not tables:
        problem = f"{demand}, ending in {', '.join(ENDINGS)}; there is {format_list(entry.name for entry in found)}."
        if found and all(entry.is_dir() for entry in found):
            problem += " Photographs in DOMAIN/CLASS/ need a network: --model NETWORK.onnx."
        raise TableError([problem], source=source)
    return sorted((_stem(table), table) for table in tables)


def _stem(path: Path) -> str:
    return path.name[: -len(get_file_ending(path) or "")]


# Where ; separates the values, as in much of Europe, a comma is the decimal point.
DECIMAL_COMMA = r"^\s*([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)\s*$"
MAX_HEADER_CHARACTERS = 2**24  # characters; csv allows for less, and a header that is not split yet is one long field
MAX_CELL_BYTES = 100_000  # of text: longer values are neither numbers, nor dates, nor categories
MAX_BATCH_TEXT_BYTES = 2**26  # of a batch
MAX_SLICE_VALUES = 4_000_000  # of a Parquet file, decoded at a time: a row group may hold the whole table


@dataclass(frozen=True, eq=False)
class FrameFile:
    """A frame in memory in the place of a file, which has no ending."""

    frame: pl.DataFrame
    name: str = "The frame"
    suffix: str = ""

    def absolute(self) -> FrameFile:
        """Where it is: here."""
        return self


Source = Path | FrameFile


class TableFile(NamedTuple):
    """A file and its columns."""

    name: str  # without its ending
    path: Source
    types: dict[str, Any]  # the polars type of each column, by name
    beside: tuple[str, ...] = ()  # vectors that stand beside a matrix of features, and are not features
    names: ArrayNames | None = None  # of its arrays, if it has any
    classes: tuple[str, ...] = ()  # names of the classes, where it gives them


def scan(path: str | os.PathLike[str]) -> pl.LazyFrame:
    r"""Open one file lazily, by its ending.

    Columns of .csv and .tsv files are text: whether a column holds numbers is decided on all of its rows, not on the
    first few. The columns of .npz and .mat files are feature_0, feature_1 and so on, and the arrays of labels and
    domains by their own names.

    Parameters
    ----------
    path : str or path
        The file: .csv, .tsv, .csv.gz, .tsv.gz, .parquet, .feather, .arrow, .ipc, .npz or .mat.

    Returns
    -------
    frame : polars.LazyFrame
        The table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.tables import scan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "clinic.csv")
    ...     _ = file.write_text("age,ill\n40,yes\n50,no\n")
    ...     scan(file).collect().to_dicts()
    [{'age': '40', 'ill': 'yes'}, {'age': '50', 'ill': 'no'}]
    """
    if is_folder_or_pattern(path):
        raise TableError(["it is a folder or a pattern: give one file."], source=str(path))
    [(_, file)] = list_files(path)
    raise_table_error(find_header_problems(file), file.name)
    return _scan(file)


def iter_batches(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, size: int = 50_000
) -> Iterator[pl.DataFrame]:
    r"""Read a file, or the files of a folder one after another, a few rows at a time, in order.

    Parameters
    ----------
    path : str or path
        The file, as :func:`scan` opens it, or a folder or pattern of such files.
    columns : sequence of str or None
        The columns to read; None for all.
    size : int, default=50000
        The most rows in a batch. Memory is bounded by this and by some four million values, not by the size of the
        file. Of a Parquet file, one row group may be held as well, compressed; .npz and .mat files are loaded whole.

    Yields
    ------
    frame : polars.DataFrame
        The next rows.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.tables import batches
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "clinic.csv")
    ...     _ = file.write_text("age,ill\n40,yes\n50,no\n60,no\n")
    ...     [batch["age"].to_list() for batch in batches(file, ["age"], size=2)]
    [['40', '50'], ['60']]
    """
    for _, file in list_files(path):
        raise_table_error(find_header_problems(file), file.name)
        yield from iter_file_batches(file, columns, size)


def iter_file_batches(
    file: Source,
    columns: Sequence[str] | None,
    size: int,
    first: int = 0,
    rows: int | None = None,
    names: ArrayNames | None = None,
) -> Iterator[pl.DataFrame]:
    """Read one file a few rows at a time, in order; of a Parquet file, only some rows from the first on if asked."""
    is_text = isinstance(file, Path) and get_file_ending(file) in TEXT_ENDINGS  # where every cell takes its own bytes
    for frame in _decoded_batches(file, columns, size, first, rows, names):
        with translate_read_errors(file, anything=True):
            frames = [frame] if is_text else _bounded_text(file, frame)
        yield from frames


def _bounded_text(file: Source, frame: pl.DataFrame) -> list[pl.DataFrame]:
    """Refuse text that is too long, and split a batch whose text would take much memory once it is copied.

    Files and frames may hold a repeated text once for all rows, but most operations of polars write it out for each.
    """
    pl = import_polars()
    lengths = [pl.col(name).str.len_bytes() for name, kind in frame.schema.items() if kind == pl.String]
    categorical = [name for name, kind in frame.schema.items() if kind in (pl.Categorical, pl.Enum)]
    lengths += [pl.col(name).cat.len_bytes() for name in categorical]
    if not lengths:
        return [frame]
    sizes = frame.select(lengths)
    longest = {name: size or 0 for name, size in zip(sizes.columns, sizes.max().row(0), strict=True)}
    problems = [
        f"column {name!r} holds text of {size:,} bytes in a cell; at most {MAX_CELL_BYTES:,} are read. Leave it out."
        for name, size in longest.items()
        if size > MAX_CELL_BYTES
    ]
    raise_table_error(problems, file.name)
    if sum(longest.values()) * frame.height <= MAX_BATCH_TEXT_BYTES:
        return [frame]
    batch = sizes.sum_horizontal().cast(pl.Int64).cum_sum().to_numpy() // MAX_BATCH_TEXT_BYTES
    starts = [0, *(np.flatnonzero(np.diff(batch)) + 1).tolist()]
    return [frame.slice(start, stop - start) for start, stop in itertools.pairwise([*starts, frame.height])]


def _decoded_batches(
    file: Source, columns: Sequence[str] | None, size: int, first: int, rows: int | None, names: ArrayNames | None
) -> Iterator[pl.DataFrame]:
    with translate_read_errors(file, anything=True):
        if isinstance(file, Path) and get_file_ending(file) in ARRAY_ENDINGS:
            arrays = read_arrays(file, names)
            for rows_here in gen_batches(len(arrays.matrix), size):
                yield _selected(file, arrays.frame(rows_here).lazy(), columns).collect()
            return
        whole = _scan(file)
        lazy = _selected(file, whole, columns)
        if isinstance(file, FrameFile) or get_file_ending(file) in TEXT_ENDINGS:
            for frame in lazy.collect_batches(chunk_size=size, maintain_order=True):
                yield from frame.iter_slices(size)
            return
        # The number of rows is asked of the file, which knows it: a selection of columns would have to be decoded.
        height = int(whole.select(import_polars().len()).collect().item())
        if get_file_ending(file) in ARROW_ENDINGS:
            seen = 0
            for frame in lazy.collect_batches(chunk_size=size, maintain_order=True):
                seen += frame.height
                yield from frame.iter_slices(size)
            _require_rows(file, seen, height)  # polars ends without a word where it stumbles
            return
        end = height if rows is None else min(first + rows, height)
        # A batch would be cut from whole decoded row groups, but of a range of rows only its own are decoded.
        step = max(size, MAX_SLICE_VALUES // max(1, len(lazy.collect_schema())))
        for start in range(first, end, step) or (first,):
            part = lazy.slice(start, min(step, end - start)).collect(engine="streaming")
            _require_rows(file, part.height, max(0, min(step, end - start)))
            yield from part.iter_slices(size)


def _require_rows(file: Source, seen: int, told: int) -> None:
    if seen != told:
        raise TableError([f"of {told:,} rows that it tells of, {seen:,} are there."], source=file.name)


def open_table(name: str, file: Source, names: ArrayNames | None = None) -> TableFile:
    """Find out the columns of a file and their types."""
    with translate_read_errors(file, anything=True):
        if isinstance(file, Path) and get_file_ending(file) in ARRAY_ENDINGS:
            arrays = read_arrays(file, names)
            types = dict(arrays.frame(slice(1)).schema)
            return TableFile(name, file, types, tuple(arrays.vectors), arrays.names, arrays.classes)
        return TableFile(name, file, dict(_scan(file).collect_schema()))


def find_header_problems(file: Source) -> list[str]:
    """Columns that share a name; polars would rename them without a word."""
    with translate_read_errors(file, anything=True):
        if isinstance(file, FrameFile) or get_file_ending(file) not in TEXT_ENDINGS:
            return []
        if file.suffix.lower() == ".gz":
            check_gzip(file, "unpack it first.")
        header, _ = _header_of(file)
    return find_repeated_names(header)


def find_repeated_names(names: Iterable[str]) -> list[str]:
    """What is wrong with names of columns that are not different."""
    twice = sorted((name, times) for name, times in Counter(names).items() if times > 1)
    return [f"{format_count(times, 'column')} are called {name!r}: rename them." for name, times in twice]


def _scan(file: Source) -> pl.LazyFrame:
    if isinstance(file, FrameFile):
        return file.frame.lazy()
    ending, pl = get_file_ending(file), import_polars()
    with translate_read_errors(file, anything=True):
        if not file.stat().st_size:
            raise TableError(["it is empty."], source=file.name)
        if ending in ARRAY_ENDINGS:
            return read_arrays(file).frame().lazy()
        if ending in TEXT_ENDINGS:
            header, separator = _header_of(file)
            # polars leaves quotation marks in names doubled, and renames repeated names: those are refused elsewhere.
            names = header if len(set(header)) == len(header) else None
            lazy = pl.scan_csv(file, separator=separator, new_columns=names, infer_schema=False, glob=False)
            if separator == ";":
                lazy = lazy.with_columns(pl.all().str.replace(DECIMAL_COMMA, "$1.$2"))
        else:
            scan_columns = pl.scan_ipc if ending in ARROW_ENDINGS else pl.scan_parquet
            lazy = scan_columns(file, glob=False)
        lazy.collect_schema()  # a broken file fails here, where the reason can be given
        return lazy


def _selected(file: Source, lazy: pl.LazyFrame, columns: Sequence[str] | None) -> pl.LazyFrame:
    if columns is None:
        return lazy
    held = lazy.collect_schema()
    problems = [format_unknown_column(name, held) for name in columns if name not in held]
    raise_table_error(problems, file.name)
    return lazy.select(import_polars().col(list(columns)))


def _header_of(file: Path) -> tuple[list[str], str]:
    """The names in the first row as they are written, and what separates them, whatever the ending says."""
    separator = TEXT_ENDINGS[get_file_ending(file) or ""]
    opener = gzip.open if file.suffix.lower() == ".gz" else open
    before = csv.field_size_limit(MAX_HEADER_CHARACTERS)  # one limit for all readers, so it is put back
    try:
        with opener(file, "rt", encoding="utf-8-sig", newline="") as text:
            line = next(csv.reader(text, delimiter=separator), [])
            if len(line) != 1 or separator != ",":
                return line, separator
            other = next((mark for mark in (";", "\t") if mark in line[0]), separator)
            text.seek(0)
            return next(csv.reader(text, delimiter=other), []), other
    finally:
        csv.field_size_limit(before)
