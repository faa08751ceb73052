"""Tables of a validation as CSV files and as one Excel workbook."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..utils.io import atomic_write
from ..utils.optional_imports import optional_import

WORKBOOK = "validation.xlsx"
MAX_SHEET_ROWS = 1_048_575  # of an Excel sheet, below its header


def write_tables(tables: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path) -> list[Path]:
    """Write each table as a CSV file and, if openpyxl is installed, all of them as sheets of one workbook."""
    paths = []
    for name, records in tables.items():
        path = folder / f"{name}.csv"
        with atomic_write(path) as file, file.open("w", newline="", encoding="utf-8") as text:
            writer = csv.writer(text)
            columns = list(dict.fromkeys(key for record in records for key in record))
            writer.writerow(columns)
            writer.writerows([_cell(record.get(column)) for column in columns] for record in records)
        paths.append(path)
    if find_spec("openpyxl") is not None:
        with atomic_write(folder / WORKBOOK) as file:
            _write_workbook(tables, file)
        paths.append(folder / WORKBOOK)
    return paths


def _write_workbook(tables: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    openpyxl = optional_import("openpyxl", "An Excel workbook")
    workbook = openpyxl.Workbook(write_only=True)
    for name, records in tables.items():
        sheet = workbook.create_sheet(name)
        columns = list(dict.fromkeys(key for record in records for key in record))
        sheet.append(columns)
        for record in records[:MAX_SHEET_ROWS]:
            sheet.append([_cell(record.get(column)) for column in columns])
    workbook.save(path)


def _cell(value: Any) -> Any:
    """A value of a cell; numbers that are not finite are left empty."""
    if isinstance(value, (float, np.floating)) and not np.isfinite(value):
        return None
    return value.item() if isinstance(value, np.generic) else value
