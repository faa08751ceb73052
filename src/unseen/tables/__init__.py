"""People's own tables: read, checked, and turned into numbers."""

from ._errors import TableError
from ._files import batches, scan
from ._find import files
from ._load import Table, embedded, load_table
from ._preprocess import preprocessor
from ._schema import Column, Schema

__all__ = [
    "Column",
    "Schema",
    "Table",
    "TableError",
    "batches",
    "embedded",
    "files",
    "load_table",
    "preprocessor",
    "scan",
]
