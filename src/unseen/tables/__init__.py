"""People's own tables: read, checked, and turned into numbers."""

from ._agreement import Agreement
from ._errors import TableError, counted, similar_column, understanding, unknown_column
from ._files import (
    batches,
    ending_of,
    file_batches,
    files,
    has_columns,
    holds_several,
    is_path,
    is_table,
    look_like_parts,
    scan,
)
from ._frames import as_frame
from ._load import SurveyedTable, Table, load_table, loaded, survey_files, survey_table
from ._roles import Dates, Request
from ._schema import Column, NewValues, Schema, preprocessor, require_sizes
from ._survey import batch_size, require_short_names
from ._values import as_text, is_readable

__all__ = [
    "Agreement",
    "Column",
    "Schema",
    "Table",
    "TableError",
    "batches",
    "files",
    "load_table",
    "preprocessor",
    "scan",
]
# For other rooms, and for nobody else.
__all__ += [
    "Dates",
    "NewValues",
    "Request",
    "SurveyedTable",
    "as_frame",
    "as_text",
    "batch_size",
    "counted",
    "ending_of",
    "file_batches",
    "has_columns",
    "holds_several",
    "is_path",
    "is_readable",
    "is_table",
    "loaded",
    "look_like_parts",
    "require_short_names",
    "require_sizes",
    "similar_column",
    "survey_files",
    "survey_table",
    "understanding",
    "unknown_column",
]
