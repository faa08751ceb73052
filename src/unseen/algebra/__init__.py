"""The mathematics: cells of classes and domains, their scatters, one pencil, its solution.

A method is a recipe over contrasts of cell means; the solver adds and never subtracts. Imports NumPy and SciPy only.
"""

from ._cells import Array, Cells, Ints, Membership, Spectrum, gram_spectrum, require_range
from ._moments import Moments, pooled
from ._pencil import (
    Recipe,
    SingularPencilError,
    Whitened,
    apply_inverse,
    cholesky_is_sound,
    solve,
    solve_with_total,
    whiten,
    whiten_by_cholesky,
)
from ._products import Gram, gram, gram_by_numpy, norm, product
from ._scatters import (
    between,
    cell_means,
    cell_within,
    conditional,
    dica_output,
    domain,
    domain_averaged_class_means,
    mda_between,
    mda_class_discrepancy,
    mda_class_offset,
    mda_domain_discrepancy,
    pooled_class_means,
    prior_normalised,
)
from ._solution import Solution

__all__ = [
    "Array",
    "Cells",
    "Gram",
    "Ints",
    "Membership",
    "Moments",
    "Recipe",
    "SingularPencilError",
    "Solution",
    "Spectrum",
    "Whitened",
    "apply_inverse",
    "between",
    "cell_means",
    "cell_within",
    "cholesky_is_sound",
    "conditional",
    "dica_output",
    "domain",
    "domain_averaged_class_means",
    "gram",
    "gram_by_numpy",
    "gram_spectrum",
    "mda_between",
    "mda_class_discrepancy",
    "mda_class_offset",
    "mda_domain_discrepancy",
    "norm",
    "pooled",
    "pooled_class_means",
    "prior_normalised",
    "product",
    "require_range",
    "solve",
    "solve_with_total",
    "whiten",
    "whiten_by_cholesky",
]
