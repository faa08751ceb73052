"""Statistics of cells, and spectral decompositions of centered data.

A *cell* holds the samples of one class in one domain. The low-rank scatters of all methods are combinations of the
cell means (:mod:`unseen.linalg`), so a solver needs the counts, the sums over cells and one Gram matrix of the data,
and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.linalg import blas

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

KRYLOV_STEP = 8  # powers of the Gram matrix between two decompositions
MAX_KRYLOV_SIZE = 1000  # dimensions beyond which a full eigendecomposition is not more expensive
# Squares of values within these limits, and sums of such squares, neither overflow nor underflow in double precision.
MIN_SQUARABLE = 1e-150
MAX_SQUARABLE = 1e150

# The wheels of NumPy and SciPy contain one BLAS each. Its threads stay active for a while after a product. Where
# products alternate with SciPy's factorizations, two sets of threads compete for the same cores; on two cores that can
# be slower than one thread. So products in loops use SciPy's BLAS too.


def product(A: Array, B: Array) -> Array:
    """Return ``A @ B``, without copies if both are in C order or transposed."""
    return blas.dgemm(1.0, B.T, A.T).T


def gram(A: Array) -> Array:
    """Return ``A.T @ A``, exactly symmetric."""
    upper = blas.dsyrk(1.0, A.T)
    return np.triu(upper, 1).T + upper


def norm(A: Array) -> float:
    """Return the Frobenius norm of a matrix in C or Fortran order."""
    return float(blas.dnrm2(A.ravel(order="K")))


@dataclass(frozen=True)
class Membership:
    """The cell of each sample.

    Attributes
    ----------
    counts : ndarray of shape (n_domains, n_classes)
        Number of samples in each cell. Cells may be empty, entire rows and columns may not.
    cell : ndarray of shape (n_samples,)
        Cell of each sample, as ``domain * n_classes + class``.
    """

    counts: Ints
    cell: Ints

    @classmethod
    def from_codes(cls, class_codes: Ints, domain_codes: Ints, shape: tuple[int, int] | None = None) -> Membership:
        """Count the cells of samples with classes 0..C-1 and domains 0..m-1, in a table of `shape` if given."""
        n_domains, n_classes = shape or (domain_codes.max() + 1, class_codes.max() + 1)
        cell = domain_codes * n_classes + class_codes
        counts = np.bincount(cell, minlength=n_domains * n_classes).reshape(n_domains, n_classes)
        return cls(counts.astype(np.intp), cell)

    @property
    def indicators(self) -> sparse.csr_array:
        """Orthonormal indicators of the present cells, with entries ``1 / sqrt(n_sj)``: shape (cells, n_samples)."""
        present = np.flatnonzero(self.counts)
        row = np.searchsorted(present, self.cell)
        weight = 1 / np.sqrt(self.counts.ravel()[self.cell])
        n = len(self.cell)
        return sparse.csr_array((weight, (row, np.arange(n))), shape=(len(present), n))


@dataclass(frozen=True)
class Spectrum:
    """A spectral decomposition of the centered data, sufficient for every setting of every method.

    Write the centered Gram matrix as ``Kc = V diag(values) V'``. A coefficient vector ``b = V beta`` gives the feature
    ``Kc b``; ``lift`` maps ``beta`` to the coefficients of the estimator: ``V`` itself for an exact kernel (dual
    coefficients), ``Fc' V`` for explicit features (weights of the features).

    Attributes
    ----------
    values : ndarray of shape (rank,)
        Eigenvalues of the centered Gram matrix.
    lift : ndarray of shape (n_samples or n_features, rank) or None
        Maps coordinates in the eigenbasis to coefficients; None is the identity.
    cells : ndarray of shape (rank, n_present_cells)
        The orthonormal cell indicators in the eigenbasis.
    outside : ndarray of shape (k, n_present_cells)
        A factor of the part of the indicators outside of the eigenbasis: ``cells'cells + outside'outside = I``.
    precision : float
        Bound on the rounding errors of the Gram matrix, relative to its Frobenius norm.
    """

    values: Array
    lift: Array | None
    cells: Array
    outside: Array
    precision: float = 0.0

    @property
    def rounding(self) -> float:
        """Bound on the norm of the rounding errors of the Gram matrix."""
        return self.precision * float(np.linalg.norm(self.values))

    def without_null(self) -> Spectrum:
        """Drop the directions in which the data do not vary, as an eigenproblem without ridge requires."""
        keep = self.values != 0
        cells = self.cells[keep]
        lift = np.eye(len(keep)) if self.lift is None else self.lift
        return Spectrum(self.values[keep], lift[:, keep], cells, _projection_defect(cells), self.precision)

    def without_negative_rounding(self) -> Spectrum:
        """Set negative eigenvalues to zero that rounding errors explain, rather than an indefinite kernel."""
        is_rounding = (self.values < 0) & (self.values >= -self.rounding)
        return replace(self, values=np.where(is_rounding, 0.0, self.values)) if is_rounding.any() else self

    def to_coefficients(self, coordinates: Array) -> Array:
        """Return the coefficients for coordinates in the eigenbasis."""
        return coordinates if self.lift is None else product(self.lift, coordinates)

    def to_coordinates(self, coefficients: Array) -> Array:
        """Return the coordinates in the eigenbasis for coefficients in its span: the inverse of `to_coefficients`."""
        if self.lift is None:
            return coefficients
        # The columns of the lift are orthogonal.
        return product(self.lift.T, coefficients) / np.einsum("ij,ij->j", self.lift, self.lift)[:, None]


def default_precision(n_samples: int) -> float:
    """Return a bound on rounding errors with an n x n matrix, relative to its norm: n times the unit roundoff."""
    return n_samples * float(np.finfo(float).eps)


def gram_spectrum(
    K: Array, membership: Membership, basis: Array | None = None, precision: float | None = None
) -> Spectrum:
    """Decompose a centered n x n Gram matrix, or its restriction to the rows of a `basis`; `K` is overwritten.

    `precision` bounds the rounding errors of `K` relative to its norm; None means `default_precision`.
    """
    if precision is None:
        precision = default_precision(len(membership.cell))
    values, vectors = linalg.eigh(K, overwrite_a=True, check_finite=False, driver="evd")
    noise = len(values) * np.finfo(float).eps * np.abs(values).max(initial=0.0)
    values[np.abs(values) <= noise] = 0.0
    lift = vectors if basis is None else product(basis.T, vectors)
    cells = (membership.indicators @ lift).T
    return Spectrum(values, lift, cells, np.zeros((0, cells.shape[1])), precision)


def krylov_spectra(
    K: Array, membership: Membership, n_random: int, precision: float | None = None
) -> Iterator[Spectrum]:
    """Decompose a centered Gram matrix on Krylov spaces of increasing size.

    The spaces are spanned by powers of `K` applied to the cell indicators and to `n_random` random vectors. Components
    are functions of `K` applied to cells, or belong to its largest eigenvalues, and Krylov spaces approximate both. A
    few hundred dimensions suffice for any number of samples, unless the ridge is tiny or eigenvalues lie close
    together. `residuals` shows whether a space is large enough.
    """
    width = np.count_nonzero(membership.counts) + n_random
    max_size = min(MAX_KRYLOV_SIZE, len(K) // 4)
    basis = np.empty((max_size - max_size % (KRYLOV_STEP * width), len(K)))  # one vector per row
    small = np.empty((len(basis), len(basis)))
    # Any vectors without a symmetry of the data work. A fixed seed gives reproducible results.
    rng = np.random.default_rng(0)
    block = np.vstack([membership.indicators.toarray(), rng.normal(size=(n_random if len(basis) else 0, len(K)))])
    for end in range(width, len(basis) + 1, width):
        for _ in range(2):  # A second pass removes what cancellation leaves.
            block -= product(product(block, basis[: end - width].T), basis[: end - width])
            block = linalg.qr(block.T, mode="economic", check_finite=False)[0].T
        basis[end - width : end] = block
        block = product(block, K)
        small[end - width : end, :end] = product(block, basis[:end].T)  # Only the lower triangle is read.
        if end % (KRYLOV_STEP * width) == 0:
            yield gram_spectrum(small[:end, :end].copy(), membership, basis[:end], precision)


@dataclass(frozen=True)
class CellStatistics:
    """Sufficient statistics of explicit features: counts, cell means and the scatter within cells.

    Statistics of chunks can be added. Second moments are stored about the mean of their cell and means in twice the
    working precision, so that sums contain no subtraction: a large common offset, domains that lie far apart and many
    chunks do not cost digits.

    Attributes
    ----------
    counts : ndarray of shape (n_domains, n_classes)
        Number of samples in each cell.
    means : ndarray of shape (n_domains * n_classes, n_features)
        Mean of each cell, zero for an empty one.
    tails : ndarray of shape (n_domains * n_classes, n_features)
        Rounding errors of the means: ``means + tails`` has twice the working precision.
    inside : ndarray of shape (n_features, n_features)
        Sum of ``(f - mean)(f - mean)'`` over all samples, each about the mean of its cell.
    """

    counts: Ints
    means: Array
    tails: Array
    inside: Array

    @classmethod
    def from_features(cls, features: Array, membership: Membership) -> CellStatistics:
        """Collect the statistics of a feature matrix."""
        cell = membership.cell
        size = membership.counts.size
        n = membership.counts.reshape(-1, 1)
        # A sparse product sums over cells ten times faster than np.add.at and needs no sorting.
        members = sparse.csr_array((np.ones(len(cell)), (cell, np.arange(len(cell)))), shape=(size, len(cell)))
        with np.errstate(over="ignore", invalid="ignore"):  # `spectrum` raises for values that are too large.
            means = (members @ features) / np.maximum(n, 1)
            residual = means[cell]
            np.subtract(features, residual, out=residual)  # In place: allocation costs more than subtraction.
            tails = (members @ residual) / np.maximum(n, 1)
            # The residuals refer to the rounded means; the second term corrects the last digits.
            return cls(membership.counts, means, tails, gram(residual) - gram(np.sqrt(n) * tails))

    def __add__(self, other: CellStatistics) -> CellStatistics:
        """Return the statistics of both sets of samples, which must have the same table of cells."""
        n = self.counts.reshape(-1, 1)
        k = other.counts.reshape(-1, 1)
        total = np.maximum(n + k, 1)
        both = ((n > 0) & (k > 0)).ravel()
        with np.errstate(over="ignore", invalid="ignore"):
            gap = (other.means - self.means) + (other.tails - self.tails)
            # Start from the mean of the larger part, so that an empty part changes nothing.
            near = np.where(n >= k, self.means, other.means)
            step = np.where(n >= k, self.tails + gap * (k / total), other.tails - gap * (n / total))
            means = near + step
            between = gap[both] * np.sqrt(n[both] * (k[both] / total[both]))
            inside = gram(between)
            inside += self.inside
            inside += other.inside
            return CellStatistics(self.counts + other.counts, means, step - (means - near), inside)

    def reindex(self, rows: Ints, columns: Ints, shape: tuple[int, int]) -> CellStatistics:
        """Move the cells to a table of `shape`: domain i to row ``rows[i]``, class j to column ``columns[j]``."""
        counts = np.zeros(shape, dtype=np.intp)
        counts[np.ix_(rows, columns)] = self.counts
        cells = (rows[:, None] * shape[1] + columns).ravel()
        means, tails = np.zeros((2, counts.size, len(self.inside)))
        means[cells] = self.means
        tails[cells] = self.tails
        return CellStatistics(counts, means, tails, self.inside)

    @property
    def mean(self) -> Array:
        """Mean of all samples."""
        return self._center_means()[1]

    def _center_means(self) -> tuple[Array, Array]:
        """Return the means of the present cells about the mean of all samples, and that mean."""
        present = self.counts.ravel() > 0
        weight = self.counts[self.counts > 0] / self.counts.sum()
        origin = self.means[present][0]  # Any cell mean is a suitable origin: the other means are close to it.
        deviations = (self.means[present] - origin) + self.tails[present]
        shift = weight @ deviations
        return deviations - shift, origin + shift

    def spectrum(self) -> Spectrum:
        """Decompose the centered Gram matrix of the features."""
        with np.errstate(over="ignore", invalid="ignore"):
            indicators = np.sqrt(self.counts[self.counts > 0])[:, None] * self._center_means()[0]
            total = self.inside + gram(indicators)
        check_gram_norm(norm(total))
        driver = "evd" if len(total) > 1 else None  # Older SciPy fails with "evd" for a 1 x 1 matrix.
        values, vectors = linalg.eigh(total, overwrite_a=True, check_finite=False, driver=driver)
        keep = values > len(values) * np.finfo(float).eps * values.max(initial=0.0)
        values, vectors = values[keep], vectors[:, keep]
        scale = np.sqrt(values)
        cells = product(vectors.T, indicators.T) / scale[:, None]
        return Spectrum(
            values, vectors * scale, cells, _projection_defect(cells), default_precision(int(self.counts.sum()))
        )


def check_gram_norm(size: float) -> None:
    """Raise if the square of a centered Gram matrix of this norm would overflow or underflow; zero is allowed."""
    if size and not MIN_SQUARABLE < size < MAX_SQUARABLE:
        adjective, effect = ("small", "underflows") if size < 1 else ("large", "overflows")
        raise ValueError(
            f"X is too {adjective}: the norm of its centered Gram matrix is {size:.3g}, and its square {effect} in "
            "double precision. Scale X, for example with sklearn.preprocessing.StandardScaler."
        )


def largest_entry(X: Any) -> float:
    """Return the largest absolute entry, without modifying X as ``abs`` of a sparse matrix with duplicates would."""
    return float(np.abs(X.data if sparse.issparse(X) else X).max(initial=0.0))


def check_squares(largest: float, name: str = "X") -> None:
    """Raise if sums of squares of values up to `largest` would overflow or underflow; zero is allowed."""
    if largest and not MIN_SQUARABLE < largest < MAX_SQUARABLE:
        adjective, effect = ("small", "underflow") if largest < 1 else ("large", "overflow")
        power = -int(np.clip(np.log10(largest), -300, 300))
        raise ValueError(
            f"{name} is too {adjective}: the squares of values up to {largest:.3g} {effect} in double precision. Scale "
            f"X, for example multiply it by 1e{power}."
        )


def _projection_defect(cells: Array) -> Array:
    """Return a factor S of the loss of orthonormal vectors by projection: ``S'S = I - cells'cells``."""
    loss, directions = linalg.eigh(np.eye(cells.shape[1]) - gram(cells))
    noise = 32 * max(cells.shape) * np.finfo(float).eps  # Zero up to rounding: its square root would not be small.
    return np.sqrt(np.where(loss > noise, loss, 0.0))[:, None] * directions.T


@dataclass(frozen=True, eq=False)
class Moments:
    """The number of samples, their mean, and the sum of their squared distances from it.

    Parameters
    ----------
    count : int
        Number of samples.
    mean : ndarray of shape (n_features,)
        Mean of the samples.
    scatter : float
        Sum of the squared distances of the samples from the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.linalg import Moments
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 4.0]])
    >>> total = Moments.from_values(X[:1]) + Moments.from_values(X[1:])
    >>> total.count, total.mean.tolist(), round(total.scatter, 9)
    (3, [2.0, 2.0], 14.0)
    """

    count: int
    mean: Array
    scatter: float

    @classmethod
    def from_values(cls, values: Array) -> Moments:
        """Return the moments of samples, of which there may be none."""
        if not len(values):
            return cls(0, np.zeros(values.shape[1]), 0.0)
        mean = values.mean(axis=0)
        return cls(len(values), mean, float(np.square(values - mean).sum()))

    @property
    def trace(self) -> float:
        """Trace of the covariance; NaN for fewer than two samples."""
        return self.scatter / (self.count - 1) if self.count > 1 else np.nan

    def __add__(self, other: Moments) -> Moments:
        """Merge two sets of samples without cancellation (Chan, Golub, LeVeque 1983)."""
        total = self.count + other.count
        if not total:
            return self
        step = other.mean - self.mean
        between = float(step @ step) * self.count * other.count / total
        return Moments(total, self.mean + step * (other.count / total), self.scatter + other.scatter + between)


def merge_moments(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> dict[Any, Any]:
    """Add the moments, or other values that can be added, of groups with the same name."""
    merged = dict(first)
    for name, value in second.items():
        merged[name] = merged[name] + value if name in merged else value
    return merged
