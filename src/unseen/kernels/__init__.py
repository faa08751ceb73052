"""Kernels, bandwidth rules, explicit features from landmarks, and memory checks.

The package imports `linalg` and `utils`.
"""

from ._kernel import (
    CenteredKernel,
    Kernel,
    KernelTransformer,
    center_kernel,
    check_gram,
    check_spread,
    median_squared_distance,
    parse_multiple,
    squared_distances,
)
from ._nystroem import (
    EXACT_ROWS,
    PivotedNystroem,
    SizePlan,
    available_bytes,
    check_memory,
    check_scatter_memory,
    check_square_memory,
    combine_features,
    compute_features,
    fit_feature_map,
    is_fitted_map,
    map_features,
    map_in_blocks,
)

__all__ = [
    "EXACT_ROWS",
    "CenteredKernel",
    "Kernel",
    "KernelTransformer",
    "PivotedNystroem",
    "SizePlan",
    "available_bytes",
    "center_kernel",
    "check_gram",
    "check_memory",
    "check_scatter_memory",
    "check_spread",
    "check_square_memory",
    "combine_features",
    "compute_features",
    "fit_feature_map",
    "is_fitted_map",
    "map_features",
    "map_in_blocks",
    "median_squared_distance",
    "parse_multiple",
    "squared_distances",
]
