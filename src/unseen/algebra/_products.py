"""Matrix products by SciPy's BLAS.

The wheels of NumPy and of SciPy bring a BLAS each, with threads of its own that stay awake for a while after a product.
Where products alternate with factorisations, which are SciPy's, two sets of threads then wait for the same cores: on
two cores that may take longer than one thread. So products in loops are SciPy's too, unless the loop is about a feature
map of somebody else's, whose products are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import blas

Array = np.ndarray[Any, np.dtype[np.float64]]


def product(A: Array, B: Array) -> Array:
    """``A @ B``; without copies if both are in C order, or transposed."""
    return blas.dgemm(1.0, B.T, A.T).T


def gram(A: Array) -> Array:
    """``A.T @ A``, exactly symmetric."""
    upper = blas.dsyrk(1.0, A.T)
    return np.triu(upper, 1).T + upper


def gram_by_numpy(A: Array) -> Array:
    """The same by NumPy's BLAS."""
    return A.T @ A


def norm(A: Array) -> float:
    """Frobenius norm of a matrix in C or Fortran order."""
    return float(blas.dnrm2(A.ravel(order="K")))


Gram = Callable[[Array], Array]
