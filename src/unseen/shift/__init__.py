"""Tests of distribution shift between domains, the column audit, and novelty scores of new batches.

`diagnose` tests P(Y), P(X) and P(X|Y) by permutation and returns a `Diagnosis` with numbers, texts and figures; its
`columns` name the columns of a table that are not comparable between domains. `Novelty` measures the distance of new
samples from the source domains. The package imports `linalg`, `kernels`, `tables` and `report`.
"""

from ._column_audit import (
    MAGNITUDES,
    MISSING_CODES,
    ORDINARY_ZEROS,
    ColumnDiagnosis,
    ColumnValues,
    DomainRows,
    Finding,
    audit_table,
    columns_from_matrix,
    diagnose_columns,
    find_column_notices,
    find_conversions,
    format_number,
    format_range,
    is_missing_code,
    measure_magnitudes,
    name_conversions,
)
from ._diagnose import Diagnosis, Shift, diagnose, summary_text
from ._novelty import FAR_RATIO, Novelty, NoveltyResult

__all__ = [
    "ColumnDiagnosis",
    "Diagnosis",
    "Novelty",
    "NoveltyResult",
    "Shift",
    "diagnose",
]
