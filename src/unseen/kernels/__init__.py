"""Kernels and how large they may grow: values, bandwidth rules, landmarks, and the plan for size.

Stands on the algebra. Offers `Kernel` as a value, the median rule, `PivotedNystroem` and what fits into memory.
"""

from ._kernel import (
    Centered,
    Kernel,
    KernelTransformer,
    centre,
    factor,
    is_multiple,
    median_squared_distance,
    require_spread,
    squared_distances,
)
from ._nystroem import PivotedNystroem
from ._plan import EXACT_ROWS, Plan, available_bytes, require_cells, require_scatter, require_square

__all__ = [
    "EXACT_ROWS",
    "Centered",
    "Kernel",
    "KernelTransformer",
    "PivotedNystroem",
    "Plan",
    "available_bytes",
    "centre",
    "factor",
    "is_multiple",
    "median_squared_distance",
    "require_cells",
    "require_scatter",
    "require_spread",
    "require_square",
    "squared_distances",
]
