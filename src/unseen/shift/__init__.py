"""Tests of distribution shift between domains, and novelty scores of new batches.

`diagnose` tests P(Y), P(X) and P(X|Y) by permutation and returns a `Diagnosis` with numbers, texts and figures.
`Novelty` measures the distance of new samples from the source domains. The package imports `linalg`, `kernels`,
`tables` and `report`.
"""

from ._column_audit import audit_columns
from ._column_shift import measure_column_shift
from ._diagnose import ClassShift, Diagnosis, Shift, diagnose
from ._new_columns import compare_columns, summarize_columns
from ._novelty import Novelty, NoveltyResult

__all__ = ["ClassShift", "Diagnosis", "Novelty", "NoveltyResult", "Shift", "diagnose"]
