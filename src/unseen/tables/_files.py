"""Table files: listed from a path, folder or pattern, opened lazily, and read in batches."""

from __future__ import annotations

import csv
import difflib
import glob
import gzip
import logging
import math
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
import polars as pl
from numpy.lib import format as npy_format

from ..utils.io import check_inflation, read_inflated
from ..utils.optional_imports import optional_import
from ..utils.validation import Labels as Array
from ..utils.validation import format_list
from ._values import (
    TableError,
    check_not_forked,
    find_repeated_names,
    format_unknown_column,
    has_columns,
    raise_table_error,
    translate_read_errors,
)

# Warnings of SciPy after which the loaded arrays differ from the content of the file.
DISTORTING_WARNINGS = (
    "(Duplicate|Unreadable) variable|We do not support byte ordering|invalid value encountered in cast"
)
SPARSE_INDEX_BYTES = 8  # of the position of a value in a sparse matrix
MAX_SPARSE_RATIO = 1000  # of the size of a dense matrix to that of the sparse matrix in a file
ARRAY_ENDINGS = (".npz", ".mat")
# Usual names of the arrays, in lower case.
USUAL_FEATURES = frozenset({"x", "data", "features", "feas", "fts"})
USUAL_LABELS = frozenset({"y", "label", "labels", "gt"})
EXCEL_ENDINGS = (".xlsx",)
CELL_REFERENCE = re.compile(rb' r="([A-Z]{1,3})([0-9]{1,7})"')
MAX_EMPTY_CELLS = 10_000_000  # of the rectangle that holds all cells of a sheet, which is allocated
UNNAMED = "__UNNAMED__"  # the start of the names that fastexcel gives to columns without a name
MAX_EXCEL_ROWS = 1_048_575  # below the header
NOT_FINITE = [float("nan"), float("inf"), float("-inf")]
# Text that starts like a formula, a number or a link is written as text.
TEXT_OPTIONS = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_numbers": False,
    "strings_to_urls": False,
    "default_date_format": "yyyy-mm-dd hh:mm:ss",
}
# Files of text, by their ending, with the usual separator.
TEXT_ENDINGS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
ARROW_ENDINGS = (".feather", ".arrow", ".ipc")
ENDINGS = (*TEXT_ENDINGS, ".parquet", *ARROW_ENDINGS, *EXCEL_ENDINGS, *ARRAY_ENDINGS)
OTHER_FORMATS = {
    **dict.fromkeys((".xls", ".xlsb", ".ods"), " Save it as .xlsx or CSV."),
    ".zip": " Unpack it first.",
}
# Names that programs give to the files of one table, such as part-00003-4f2a, chunk_3 or 00012.
PART_NAME = re.compile(r"(part|chunk|shard|split|piece|block)[-_. ]?\d+([-_. ].*)?|\d+", re.IGNORECASE)
# If values are separated by a semicolon, as in many European files, the decimal separator is a comma.
DECIMAL_COMMA = r"^\s*([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)\s*$"
# The limit of the csv module is lower, and a header with another separator is read as one long field first.
MAX_HEADER_CHARACTERS = 2**24
MAX_COLUMNS = 100_000
MAX_SLICE_VALUES = 4_000_000  # decoded at a time from a Parquet file, whose row group may hold the whole table


def list_files(path: str | os.PathLike[str]) -> list[tuple[str, Path]]:
    """List the files of a table, each with its name without ending, sorted.

    Parameters
    ----------
    path : str or path
        A file; a folder, for all tables in it; or a pattern such as ``data/part-*.parquet``, for all matching files.

    Returns
    -------
    files : list of (str, Path)
        Names and paths.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.tables import list_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ["leeds.csv.gz", "bonn.parquet", "notes.txt"]:
    ...         Path(folder, name).touch()
    ...     all_names = [name for name, file in list_files(folder)]
    ...     parquet_names = [name for name, file in list_files(Path(folder, "*.parquet"))]
    >>> all_names, parquet_names
    (['bonn', 'leeds'], ['bonn'])
    """
    path = Path(path).expanduser()
    if path.is_dir():
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
        requirement = "a folder must hold one file per domain, or parts of one table"
        return _select_tables(entries, requirement, path.name or str(path))
    if is_pattern(path):
        matches = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        return _select_tables(matches, "a pattern must match files", str(path))
    if not path.exists():
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        similar = difflib.get_close_matches(path.name, siblings, n=1)
        hint = f" Did you mean {similar[0]!r}?" if similar else ""
        raise TableError([f"the file or folder does not exist.{hint}"], source=str(path))
    if not get_file_ending(path):
        hint = OTHER_FORMATS.get(path.suffix.lower(), "")
        raise TableError(
            [f"its name must end in {', '.join(ENDINGS)}, according to its format.{hint}"], source=path.name
        )
    if not path.is_file():
        raise TableError(["it is neither a file nor a folder."], source=path.name)
    return [(_stem(path), path)]


def is_path(data: Any) -> bool:
    """Whether data are given as a path."""
    return isinstance(data, (str, os.PathLike))


def is_table(data: Any, y: Any, sample_domain: Any) -> bool:
    """Whether labels and domains are columns of the data: of files, or of a frame without separate labels."""
    return is_path(data) or (has_columns(data) and y is None and sample_domain is None)


def is_pattern(path: Path) -> bool:
    """Whether a path is a pattern; a path that exists is not, even if its name contains wildcards."""
    return glob.has_magic(str(path)) and not path.exists()


def is_folder_or_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a path may stand for several files."""
    path = Path(path).expanduser()
    return path.is_dir() or is_pattern(path)


def are_part_names(names: Iterable[str]) -> bool:
    """Whether the names of several files are those of the parts of one table."""
    names = list(names)
    return len(names) > 1 and all(PART_NAME.fullmatch(name) for name in names)


def get_data_name(path: str | os.PathLike[str]) -> str:
    """Return the name of the file or folder; of a pattern, the name of the folder that it searches."""
    path = Path(path).expanduser()
    if is_pattern(path):
        path = next(parent for parent in path.parents if not glob.has_magic(str(parent)))
    return path.resolve().name


def get_file_ending(path: Source) -> str | None:
    """Return the ending that determines the format of a file; None if it is not supported."""
    matching = [ending for ending in ENDINGS if path.name.lower().endswith(ending) and len(path.name) > len(ending)]
    return max(matching, key=len, default=None)


def _select_tables(entries: list[Path], requirement: str, source: str) -> list[tuple[str, Path]]:
    """Select the table files among the entries of a folder; raise if there are none."""
    # A folder may hold other files, and lock files of open workbooks.
    tables = [
        entry for entry in entries if entry.is_file() and get_file_ending(entry) and not entry.name.startswith("~$")
    ]
    if not tables:
        names = format_list(entry.name for entry in entries)
        problem = f"{requirement}, ending in {', '.join(ENDINGS)}; it holds {names}."
        if entries and all(entry.is_dir() for entry in entries):
            problem += (
                " Photographs in DOMAIN/CLASS/ folders need a table of their features: unseen extract computes such a "
                "table with an ONNX network."
            )
        raise TableError([problem], source=source)
    return sorted((_stem(table), table) for table in tables)


def _stem(path: Path) -> str:
    return path.name[: -len(get_file_ending(path) or "")]


@dataclass(frozen=True, eq=False)
class FrameFile:
    """A frame in memory with the interface of a file."""

    frame: pl.DataFrame
    name: str = "The frame"
    suffix: str = ""

    def absolute(self) -> FrameFile:
        """Return itself, as it has no path."""
        return self


Source = Path | FrameFile


class TableFile(NamedTuple):
    """A file and its columns."""

    name: str  # without its ending
    path: Source
    types: dict[str, Any]  # the polars type of each column, by name


def scan(path: str | os.PathLike[str]) -> pl.LazyFrame:
    r"""Open one file lazily; its ending determines the format.

    Columns of .csv and .tsv files are text: whether a column holds numbers is determined from all of its rows, not from
    the first ones. The columns of .npz and .mat files are feature_0, feature_1 and so on, and the arrays of labels and
    domains under their names.

    Parameters
    ----------
    path : str or path
        The file: .csv or .tsv, also compressed as .csv.gz; .parquet, .feather, .arrow, .ipc, .npz or .mat; or .xlsx
        with one sheet, which needs the extra ``excel``.

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
        raise TableError(["it is a folder or a pattern. Pass one file."], source=str(path))
    [(_, file)] = list_files(path)
    raise_table_error(find_header_problems(file), file.name)
    return open_file(file)


def iter_batches(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, size: int = 50_000
) -> Iterator[pl.DataFrame]:
    r"""Read a file, or the files of a folder one after another, in batches of rows, in order.

    Parameters
    ----------
    path : str or path
        The file, as :func:`scan` opens it, or a folder or pattern of such files.
    columns : sequence of str or None
        The columns to read; None for all.
    size : int, default=50000
        Maximum number of rows in a batch. Memory use is bounded by this and by about four million values, not by the
        size of the file. One compressed row group of a Parquet file is kept in memory as well; .npz, .mat and .xlsx
        files are loaded completely.

    Yields
    ------
    frame : polars.DataFrame
        The next rows.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unseen.tables import iter_batches
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "clinic.csv")
    ...     _ = file.write_text("age,ill\n40,yes\n50,no\n60,no\n")
    ...     [batch["age"].to_list() for batch in iter_batches(file, ["age"], size=2)]
    [['40', '50'], ['60']]
    """
    for _, file in list_files(path):
        raise_table_error(find_header_problems(file), file.name)
        yield from iter_file_batches(file, columns, size)


def iter_file_batches(
    file: Source, columns: Sequence[str] | None, size: int, first: int = 0, rows: int | None = None
) -> Iterator[pl.DataFrame]:
    """Read one file in batches of rows, in order; of a Parquet file, optionally only `rows` rows from `first` on."""
    with translate_read_errors(file, all_exceptions=True):
        all_columns = open_file(file)
        lazy = _select_columns(file, all_columns, columns)
        # The metadata of the file hold its number of rows; with a selection of columns, polars would decode values.
        is_counted = isinstance(file, Path) and get_file_ending(file) in (".parquet", *ARROW_ENDINGS)
        n_rows = int(all_columns.select(pl.len()).collect().item()) if is_counted else None
        if n_rows is None or file.suffix.lower() != ".parquet":
            n_read = 0
            for frame in lazy.collect_batches(chunk_size=size, maintain_order=True):
                n_read += frame.height
                yield from frame.iter_slices(size)
            _check_row_count(file, n_read, n_read if n_rows is None else n_rows)  # polars stops at damaged data
            return
        end = n_rows if rows is None else min(first + rows, n_rows)
        # Batches would be cut from completely decoded row groups; of a slice, only its rows are decoded.
        step = max(size, MAX_SLICE_VALUES // max(1, len(lazy.collect_schema())))
        for start in range(first, end, step) or (first,):
            part = lazy.slice(start, min(step, end - start)).collect(engine="streaming")
            _check_row_count(file, part.height, max(0, min(step, end - start)))
            yield from part.iter_slices(size)


def _check_row_count(file: Source, n_read: int, n_declared: int) -> None:
    if n_read != n_declared:
        raise TableError(
            [f"it declares {n_declared:,} rows, but {n_read:,} could be read; it may be damaged."], source=file.name
        )


def find_header_problems(file: Source) -> list[str]:
    """Find columns with the same name, which polars would rename; raise if a file is too large to be read at all."""
    with translate_read_errors(file, all_exceptions=True):
        if isinstance(file, FrameFile):
            return []
        ending = get_file_ending(file)
        if ending in EXCEL_ENDINGS:
            check_workbook(file)
            return find_repeated_names(read_excel_header(file))
        if ending not in TEXT_ENDINGS:
            return []
        if file.suffix.lower() == ".gz":
            with gzip.open(file) as stream:
                for _ in read_inflated(stream, file.stat().st_size, "unpack it first."):
                    pass
        header, _ = _read_header(file)
        if len(header) > MAX_COLUMNS:
            raise TableError([f"it has more than {MAX_COLUMNS:,} columns. Leave some out."], source=file.name)
    return find_repeated_names(header)


def open_file(file: Source) -> pl.LazyFrame:
    """Open a file, whose name was checked before, or a frame lazily."""
    check_not_forked()
    if isinstance(file, FrameFile):
        return file.frame.lazy()
    ending = get_file_ending(file)
    with translate_read_errors(file, all_exceptions=True):
        if not file.stat().st_size:
            raise TableError(["it is empty."], source=file.name)
        if ending in ARRAY_ENDINGS:
            return read_arrays(file).lazy()
        if ending in TEXT_ENDINGS:
            header, separator = _read_header(file)
            # polars keeps doubled quotation marks in names. Repeated names are reported by find_header_problems.
            names = header if len(set(header)) == len(header) else None
            lazy = pl.scan_csv(file, separator=separator, new_columns=names, infer_schema=False, glob=False)
            if separator == ";":
                lazy = lazy.with_columns(pl.all().str.replace(DECIMAL_COMMA, "$1.$2"))
        elif ending in EXCEL_ENDINGS:
            lazy = read_excel(file).lazy()
        else:
            scan_columns = pl.scan_ipc if ending in ARROW_ENDINGS else pl.scan_parquet
            lazy = scan_columns(file, glob=False)
        lazy.collect_schema()  # a damaged file raises here, where the error is translated
        return lazy


def _select_columns(file: Source, lazy: pl.LazyFrame, columns: Sequence[str] | None) -> pl.LazyFrame:
    if columns is None:
        return lazy
    schema = lazy.collect_schema()
    problems = [format_unknown_column(name, schema) for name in columns if name not in schema]
    raise_table_error(problems, file.name)
    return lazy.select(pl.col(list(columns)))


def _read_header(file: Path) -> tuple[list[str], str]:
    """Read the names in the first row and their separator, which may be a semicolon or a tab in a .csv file."""
    separator = TEXT_ENDINGS[get_file_ending(file) or ""]
    open_text: Any = gzip.open if file.suffix.lower() == ".gz" else open
    previous_limit = csv.field_size_limit(MAX_HEADER_CHARACTERS)  # The limit is global, so it is restored.
    try:
        with open_text(file, "rt", encoding="utf-8-sig", newline="") as text:
            names = next(csv.reader(text, delimiter=separator), [])
            if len(names) == 1 and separator == ",":
                separator = next((mark for mark in (";", "\t") if mark in names[0]), separator)
                text.seek(0)
                names = next(csv.reader(text, delimiter=separator), [])
            return names, separator
    finally:
        csv.field_size_limit(previous_limit)


def read_excel(path: Path) -> pl.DataFrame:
    """Read the only sheet with data of a workbook, without rows and unnamed columns that are empty."""
    workbook, sheet = _open_sheet(path)
    frame = workbook.load_sheet(sheet, schema_sample_rows=None).to_polars()
    unnamed = [name for name in frame.columns if name.startswith(UNNAMED)]
    empty = [name for name in unnamed if frame[name].null_count() == frame.height]
    frame = frame.drop(empty)
    is_empty = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    return frame.filter(~is_empty)


def read_excel_header(path: Path) -> list[str]:
    """Read the names in the first row of the only sheet with data."""
    workbook, sheet = _open_sheet(path)
    row = workbook.load_sheet(sheet, header_row=None, n_rows=1, dtypes="string").to_polars()
    return [name for name in row.row(0) if name is not None]


def check_workbook(path: Path) -> None:
    """Raise for a workbook that becomes too large, when it is decompressed or because of a cell far from the others."""
    with ZipFile(path) as archive:
        for member in archive.infolist():
            n_cells = 0
            last_row = 0
            columns: set[bytes] = set()
            rest = b""
            with archive.open(member) as stream:
                for chunk in read_inflated(stream, path.stat().st_size, "save it as CSV."):
                    # A reference may be cut by the end of a chunk.
                    text, mark, rest = (rest + chunk).rpartition(b"<")
                    cells = CELL_REFERENCE.findall(text + mark)
                    n_cells += len(cells)
                    columns.update(column for column, _ in cells)
                    last_row = max(last_row, *(int(row) for _, row in cells), 0)
            last_column = max(columns, key=lambda name: (len(name), name), default=b"").decode()
            width = 0
            for letter in last_column:
                width = 26 * width + ord(letter) - ord("A") + 1
            if width * last_row - n_cells > MAX_EMPTY_CELLS:
                raise ValueError(
                    f"its {n_cells:,} cells are spread over {last_row:,} rows and {width:,} columns, up to "
                    f"{last_column}{last_row}. Delete the cells outside of the table, or save it as CSV"
                )


def _open_sheet(path: Path) -> tuple[Any, str]:
    """Open a workbook, and find its only sheet with data."""
    fastexcel = optional_import("fastexcel", f"Reading {path.name}")
    logging.getLogger("fastexcel").addHandler(logging.NullHandler())  # it reports empty columns to stderr otherwise
    workbook = fastexcel.read_excel(path)
    sheets = [name for name in workbook.sheet_names if workbook.load_sheet(name, header_row=None, n_rows=1).height > 0]
    if len(sheets) != 1:
        found = f"{len(sheets)} sheets with data, {format_list(sheets)}" if sheets else "no sheet with data"
        raise TableError(
            [
                f"a workbook must have one sheet with data; it has {found}. Keep one sheet in the file, or pass the "
                "DataFrame that polars.read_excel or pandas.read_excel returns."
            ],
            source=path.name,
        )
    return workbook, sheets[0]


def write_excel(frames: Iterable[pl.DataFrame], path: Path) -> None:
    """Write frames with the same columns to one sheet; missing and infinite numbers become empty cells."""
    xlsxwriter = optional_import("xlsxwriter", f"Writing {path.name}")
    frame = pl.concat(frames)
    if frame.height > MAX_EXCEL_ROWS:
        raise ValueError(
            f"{path.name}: a sheet of Excel holds at most {MAX_EXCEL_ROWS:,} rows. Write .csv or .parquet."
        )
    numbers = pl.col(pl.Float32, pl.Float64)
    with xlsxwriter.Workbook(path, TEXT_OPTIONS) as workbook:
        sheet = workbook.add_worksheet("predictions")
        sheet.write_row(0, 0, frame.columns)
        for row, values in enumerate(frame.with_columns(numbers.replace(NOT_FINITE, None)).iter_rows(), start=1):
            sheet.write_row(row, 0, values)


def read_npz(path: Path) -> dict[str, Array]:
    """Read the arrays of an .npz file; pickled objects are never loaded, since loading one can run any code."""
    with path.open("rb") as stream:
        if stream.read(len(npy_format.MAGIC_PREFIX)) == npy_format.MAGIC_PREFIX:
            raise ValueError("it is a single array, not an archive of named arrays; write it with numpy.savez")
    with ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    check_inflation(size, path.stat().st_size, "write them with numpy.savez.")
    with np.load(path, allow_pickle=False) as arrays, np.errstate(invalid="ignore"):  # of a damaged shape
        return {name: np.asarray(arrays[name]) for name in arrays.files}


def read_mat(path: Path) -> dict[str, Array]:
    """Read the variables of a .mat file, in the shapes that MATLAB shows."""
    from scipy.io import loadmat
    from scipy.sparse import issparse

    with warnings.catch_warnings():
        warnings.filterwarnings("error", DISTORTING_WARNINGS)
        try:
            loaded = loadmat(path)
        except NotImplementedError as error:
            raise ValueError("it is a MATLAB file of version 7.3. Save it with '-v7', or as a table") from error
    variables = {name: value for name, value in loaded.items() if not name.startswith("__")}
    for matrix in filter(issparse, variables.values()):
        if matrix.format == "csc":  # matrices of version 4 are not, and SciPy checks their indices
            matrix.check_format(full_check=True)  # otherwise toarray writes outside of its memory
            if np.diff(matrix.indptr).min(initial=0) < 0:  # which SciPy does not check if there are no values
                raise ValueError("it is damaged: a column of a sparse matrix ends before it begins")
        stored = matrix.nnz * (matrix.dtype.itemsize + SPARSE_INDEX_BYTES)
        size = math.prod(matrix.shape) * matrix.dtype.itemsize
        check_inflation(size, stored, "save the matrix as a full matrix.", MAX_SPARSE_RATIO)
    return {name: value.toarray() if issparse(value) else np.asarray(value) for name, value in variables.items()}


def read_arrays(path: Path) -> pl.DataFrame:
    """Read the matrix of features of an .npz or .mat file, and every vector with one entry per sample, as columns.

    Samples may be rows or columns of the matrix: the number of labels determines which or, without labels, the length
    of any vector; if both match, samples are rows.
    """
    try:
        contents = read_npz(path) if path.suffix.lower() == ".npz" else read_mat(path)
    except MemoryError as error:  # the size in a header is allocated before values are read
        raise ValueError("it declares more values than fit into memory; it may be damaged") from error
    # Older versions of polars require the native byte order.
    contents = {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in contents.items()}
    usual = [name for name in contents if name.lower() in USUAL_FEATURES]
    matrices = [name for name, array in contents.items() if array.ndim == 2 and min(array.shape) > 1]
    candidates = [name for name in usual or matrices if contents[name].dtype.kind in "fiub"]
    if len(candidates) != 1 or contents[candidates[0]].ndim != 2 or not contents[candidates[0]].size:
        arrays = format_list((f"{name} ({_shape_and_type(array)})" for name, array in contents.items()), quote=False)
        raise ValueError(
            "it is not clear which array holds the features. Name a matrix of numbers X, with a row per sample. The "
            f"arrays are {arrays}"
        )
    matrix = contents.pop(candidates[0])
    vectors = {name: vector for name, array in contents.items() if (vector := _as_vector(array)) is not None}
    labels = [name for name in vectors if name.lower() in USUAL_LABELS]
    lengths = {len(vectors[name]) for name in labels or vectors}
    if len(matrix) not in lengths and matrix.shape[1] in lengths:  # samples are columns
        matrix = matrix.T
    with np.errstate(invalid="ignore"):
        matrix = matrix + matrix.dtype.type(0)  # NaN of damaged files may signal; a sum does not
    frame = pl.from_numpy(matrix, schema=[f"feature_{i}" for i in range(matrix.shape[1])], orient="row")
    return frame.with_columns(pl.Series(name, own) for name, own in vectors.items() if len(own) == len(matrix))


def _as_vector(array: Array) -> Array | None:
    """Convert an array to a vector of numbers, dates or text, also from MATLAB cells; None if it is not a vector."""
    if not array.ndim or array.size != max(array.shape):
        return None
    if array.dtype == object:
        entries = [np.ravel(entry) for entry in array.ravel()]  # each an array of one string
        if any(len(entry) > 1 or entry.dtype == object for entry in entries):
            return None
        array = np.array([entry[0] if len(entry) else "" for entry in entries])
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind == "U":
        text = np.char.strip(array.ravel())
        np.char.decode(np.char.encode(text, "utf-8"), "utf-8")  # an error, where polars would panic on damaged text
        return text
    return array.ravel() if array.dtype.kind in "fiubmM" else None


def _shape_and_type(array: Array) -> str:
    return " x ".join(map(str, array.shape or (1,))) + (" text" if array.dtype.kind in "SU" else f" {array.dtype}")
