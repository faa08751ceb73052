"""Tests of distribution shift between domains, the column audit, and novelty scores of new batches.

`diagnose` tests P(Y), P(X) and P(X|Y) by permutation and returns a `Diagnosis` with numbers, texts and figures; its
`columns` name the columns of a table that are not comparable between domains. `Novelty` measures the distance of new
samples from the source domains. The package imports `linalg`, `kernels`, `tables` and `report`.
"""

from ._column_audit import ColumnDiagnosis, Finding, audit_table, diagnose_columns, find_column_notices
from ._diagnose import Diagnosis, Shift, diagnose, summary_text
from ._novelty import Novelty, NoveltyResult, embed

__all__ = [
    "ColumnDiagnosis",
    "Diagnosis",
    "Novelty",
    "NoveltyResult",
    "Shift",
    "diagnose",
]
