"""Kernels and how large they may grow: values, bandwidth rules, landmarks, and the plan for size.

Stands on the algebra. Offers kernel values, the median rule, `PivotedNystroem` and what fits into memory.
"""

from ._kernel import (
    KERNELS,
    NON_NEGATIVE_KERNELS,
    SPARSE_KERNELS,
    about_origin,
    centre,
    evaluate,
    median_squared_distance,
    polynomial_to_centre,
    resolve_gamma,
    squared_distances,
)
from ._nystroem import PivotedNystroem
from ._plan import EXACT_ROWS, Plan, available_bytes, require_square
from ._scales import factor, is_multiple

__all__ = [
    "EXACT_ROWS",
    "KERNELS",
    "NON_NEGATIVE_KERNELS",
    "SPARSE_KERNELS",
    "PivotedNystroem",
    "Plan",
    "about_origin",
    "available_bytes",
    "centre",
    "evaluate",
    "factor",
    "is_multiple",
    "median_squared_distance",
    "polynomial_to_centre",
    "require_square",
    "resolve_gamma",
    "squared_distances",
]
