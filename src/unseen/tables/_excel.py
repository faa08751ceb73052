"""Excel workbooks: reading of the only sheet with data, and writing of frames."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import polars as pl

from ..utils.io import read_inflated
from ..utils.optional_imports import optional_import
from ..utils.validation import format_list
from ._errors import TableError

EXCEL_ENDINGS = (".xlsx",)
CELL_REFERENCE = re.compile(rb' r="([A-Z]{1,3})([0-9]{1,7})"')
MAX_EMPTY_CELLS = 10_000_000  # of the rectangle that holds all cells of a sheet, which is allocated
UNNAMED = "__UNNAMED__"  # the start of the names that fastexcel gives to columns without a name
MAX_EXCEL_ROWS = 1_048_575  # below the header
# Text that starts like a formula, a number or a link is written as text.
TEXT_OPTIONS = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_numbers": False,
    "strings_to_urls": False,
}


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
    """Write frames with the same columns to one sheet, row by row; missing and infinite numbers become empty cells."""
    xlsxwriter = optional_import("xlsxwriter", f"Writing {path.name}")
    n_written = 0
    with xlsxwriter.Workbook(path, TEXT_OPTIONS) as workbook:
        sheet = workbook.add_worksheet("predictions")
        date_format = workbook.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        for frame in frames:
            if not n_written:
                sheet.write_row(0, 0, frame.columns)
            if n_written + frame.height > MAX_EXCEL_ROWS:
                raise ValueError(
                    f"{path.name}: a sheet of Excel holds at most {MAX_EXCEL_ROWS:,} rows. Write .csv or .parquet."
                )
            for values in frame.iter_rows():
                n_written += 1
                for position, value in enumerate(values):
                    if value is None or (isinstance(value, float) and not math.isfinite(value)):
                        continue
                    if hasattr(value, "isoformat"):
                        sheet.write_datetime(n_written, position, value, date_format)
                    elif isinstance(value, str):
                        sheet.write_string(n_written, position, value)
                    else:
                        sheet.write(n_written, position, value)
