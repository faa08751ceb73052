"""Tables of a validation as CSV files and as one Excel workbook."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..tables import MAX_EXCEL_ROWS, TEXT_OPTIONS
from ..utils.io import atomic_write
from ..utils.optional_imports import optional_import

WORKBOOK = "validation.xlsx"


def write_tables(tables: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path) -> list[Path]:
    """Write each table as a CSV file and, if xlsxwriter is installed, all of them as sheets of one workbook."""
    paths = []
    for name, records in tables.items():
        path = folder / f"{name}.csv"
        with atomic_write(path) as file, file.open("w", newline="", encoding="utf-8") as text:
            writer = csv.writer(text)
            columns = list(dict.fromkeys(key for record in records for key in record))
            writer.writerow(columns)
            writer.writerows([_cell(record.get(column)) for column in columns] for record in records)
        paths.append(path)
    if find_spec("xlsxwriter") is not None:
        with atomic_write(folder / WORKBOOK) as file:
            _write_workbook(tables, file)
        paths.append(folder / WORKBOOK)
    return paths


def _write_workbook(tables: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    xlsxwriter = optional_import("xlsxwriter", "An Excel workbook")
    with xlsxwriter.Workbook(path, TEXT_OPTIONS) as workbook:
        for name, records in tables.items():
            sheet = workbook.add_worksheet(name)
            columns = list(dict.fromkeys(key for record in records for key in record))
            sheet.write_row(0, 0, columns)
            for number, record in enumerate(records[:MAX_EXCEL_ROWS], start=1):
                sheet.write_row(number, 0, [_cell(record.get(column)) for column in columns])


def _cell(value: Any) -> Any:
    """A value of a cell; numbers that are not finite are left empty."""
    if isinstance(value, (float, np.floating)) and not np.isfinite(value):
        return None
    return value.item() if isinstance(value, np.generic) else value
