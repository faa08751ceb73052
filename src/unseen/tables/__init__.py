"""Tables in files or in memory: reading, checks, and encoding as numbers."""

from ._agreement import Agreement, encode_class_labels
from ._column_roles import MIN_DOMAIN_ROWS, Dates, TableOptions
from ._data import check_array_options, open_data, table_from_arrays
from ._errors import TableError, find_similar_column, format_count, format_unknown_column, translate_read_errors
from ._excel import MAX_EXCEL_ROWS, TEXT_OPTIONS, write_excel
from ._files import (
    are_part_names,
    get_file_ending,
    has_columns,
    is_folder_or_pattern,
    is_path,
    is_table,
    iter_batches,
    iter_file_batches,
    list_files,
    scan,
)
from ._frames import as_frame
from ._load import SurveyedTable, Table, load_table, read_survey, survey_files, survey_table
from ._schema import Column, NewValues, Scale, Schema, check_feature_magnitudes, make_preprocessor
from ._survey import check_name_lengths, choose_batch_size
from ._values import as_text, is_readable, select_formulas

__all__ = [
    "Agreement",
    "Column",
    "Schema",
    "Table",
    "TableError",
    "iter_batches",
    "list_files",
    "load_table",
    "make_preprocessor",
    "scan",
]
