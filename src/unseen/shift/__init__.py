"""Tests of distribution shift between domains, and novelty scores of new batches.

`diagnose` tests P(Y), P(X) and P(X|Y) by permutation and returns a `Diagnosis` with numbers, texts and figures.
`Novelty` measures the distance of new samples from the source domains. `audit_columns` and `try_repairs` find columns
that are not comparable between domains, and evaluate whether leaving them out helps. The package imports `linalg`,
`kernels`, `metrics`, `model_selection`, `tables` and `report`.
"""

from ._column_audit import ColumnAudit, Finding, audit_columns
from ._column_diagnosis import ColumnDiagnosis, diagnose_columns, find_column_notices
from ._column_repairs import ColumnRepairs, RepairTrial, evaluate_table_repairs, find_repair, try_repairs
from ._column_shift import ColumnShifts, measure_column_shift
from ._column_values import columns_from_matrix
from ._diagnose import ClassShift, Diagnosis, Shift, diagnose
from ._interpretation import summary_text
from ._new_columns import NewColumns, compare_columns, summarize_columns
from ._novelty import FAR_RATIO, Novelty, NoveltyResult

__all__ = [
    "ClassShift",
    "ColumnDiagnosis",
    "ColumnRepairs",
    "Diagnosis",
    "Novelty",
    "NoveltyResult",
    "Shift",
    "audit_columns",
    "compare_columns",
    "diagnose",
    "measure_column_shift",
    "summarize_columns",
    "try_repairs",
]
