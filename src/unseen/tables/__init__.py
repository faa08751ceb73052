"""Tables in files or in memory: reading, checks, and encoding as numbers."""

from ._column_roles import MIN_DOMAIN_ROWS, Dates, TableOptions
from ._files import (
    FrameFile,
    Source,
    are_part_names,
    get_file_ending,
    is_folder_or_pattern,
    is_path,
    is_table,
    iter_batches,
    iter_file_batches,
    list_files,
    open_file,
    scan,
    write_excel,
)
from ._load import (
    SurveyedTable,
    Table,
    check_array_options,
    load_table,
    open_data,
    read_survey,
    survey_table,
    table_from_arrays,
)
from ._preparation import TablePreparation
from ._schema import (
    NEW_LEVEL_CODE,
    Column,
    Kind,
    NewValues,
    Scale,
    Schema,
    check_feature_magnitudes,
    encode_class_labels,
    make_preprocessor,
)
from ._survey import check_name_lengths, choose_batch_size
from ._values import (
    DATE_FORMATS,
    TableError,
    as_frame,
    as_text,
    convert_column,
    find_similar_column,
    format_count,
    format_unknown_column,
    has_columns,
    is_readable,
    raise_table_error,
    translate_read_errors,
)

__all__ = [
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
