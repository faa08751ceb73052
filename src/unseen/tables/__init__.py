"""People's own tables: read, checked, and turned into numbers."""

from ._agreement import Agreement
from ._column_roles import Dates, Request
from ._errors import TableError, format_count, similar_column, translate_read_errors, unknown_column
from ._files import (
    batches,
    ending_of,
    file_batches,
    has_columns,
    holds_several,
    is_path,
    is_table,
    list_files,
    look_like_parts,
    scan,
)
from ._frames import as_frame
from ._load import SurveyedTable, Table, load_table, read_survey, survey_files, survey_table
from ._schema import Column, NewValues, Schema, check_table_size, preprocessor
from ._survey import batch_size, require_short_names
from ._values import as_text, is_readable

__all__ = [
    "Agreement",
    "Column",
    "Schema",
    "Table",
    "TableError",
    "batches",
    "list_files",
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
    "check_table_size",
    "ending_of",
    "file_batches",
    "format_count",
    "has_columns",
    "holds_several",
    "is_path",
    "is_readable",
    "is_table",
    "look_like_parts",
    "read_survey",
    "require_short_names",
    "similar_column",
    "survey_files",
    "survey_table",
    "translate_read_errors",
    "unknown_column",
]
