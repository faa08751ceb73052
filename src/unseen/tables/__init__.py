"""People's own tables: read, checked, and turned into numbers."""

from ._agreement import Agreement
from ._domain_file import DomainFile, brief, read_array_file
from ._errors import TableError, counted, listed, understanding, unknown_column
from ._files import batches, file_batches, scan
from ._find import ending_of, files, holds_several, look_like_parts
from ._folder_agreement import class_names, disagreements, feature_names, same_columns
from ._load import Table, load_table, loaded, survey_table
from ._preprocess import preprocessor
from ._read_tables import read_table_file
from ._schema import Column, NewValues, Schema
from ._survey import batch_size
from ._surveyed import Piece, SurveyedTable, level
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
    "DomainFile",
    "NewValues",
    "Piece",
    "SurveyedTable",
    "as_text",
    "batch_size",
    "brief",
    "class_names",
    "counted",
    "disagreements",
    "ending_of",
    "feature_names",
    "file_batches",
    "holds_several",
    "is_readable",
    "level",
    "listed",
    "loaded",
    "look_like_parts",
    "read_array_file",
    "read_table_file",
    "same_columns",
    "survey_table",
    "understanding",
    "unknown_column",
]
