"""Cells: the domain x class table that every method of the family depends on.

A *cell* holds the samples of one class in one domain. The low-rank scatters of all methods are combinations of the
cell means (:mod:`unseen.linalg`), so the counts, the sums over cells and one Gram matrix are all that a solver
needs to know about the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.linalg import blas

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Gram = Callable[[Array], Array]

KRYLOV_STEP = 8  # powers between one look and the next
MAX_KRYLOV_SIZE = 1000  # dimensions beyond which a whole eigendecomposition is no dearer

# The wheels of NumPy and SciPy bring a BLAS each, with threads of its own that stay awake for a while after a product.
# Where products alternate with factorizations, which are SciPy's, two sets of threads then wait for the same cores: on
# two cores that may take longer than one thread. So products in loops are SciPy's too, unless the loop is about a
# feature map of somebody else's, whose products are NumPy's.


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


@dataclass(frozen=True)
class Membership:
    """Which cell each sample lies in.

    Attributes
    ----------
    counts : ndarray of shape (n_domains, n_classes)
        Samples in each cell; cells may be empty, whole rows and columns may not.
    cell : ndarray of shape (n_samples,)
        Each sample's cell, as ``domain * n_classes + class``.
    """

    counts: Ints
    cell: Ints

    @classmethod
    def from_codes(cls, class_codes: Ints, domain_codes: Ints, shape: tuple[int, int] | None = None) -> Membership:
        """Count the cells of samples labeled 0..C-1 and 0..m-1, in a table of a larger `shape` if there is one."""
        n_domains, n_classes = shape or (domain_codes.max() + 1, class_codes.max() + 1)
        cell = domain_codes * n_classes + class_codes
        counts = np.bincount(cell, minlength=n_domains * n_classes).reshape(n_domains, n_classes)
        return cls(counts.astype(np.intp), cell)

    @property
    def indicators(self) -> sparse.csr_array:
        """Orthonormal indicators of the present cells, ``1 / sqrt(n_sj)`` in each sample's column: (cells, n)."""
        present = np.flatnonzero(self.counts)
        row = np.searchsorted(present, self.cell)
        weight = 1 / np.sqrt(self.counts.ravel()[self.cell])
        n = len(self.cell)
        return sparse.csr_array((weight, (row, np.arange(n))), shape=(len(present), n))


@dataclass(frozen=True)
class Spectrum:
    """One decomposition of the centered data, enough for every setting of every method.

    Write the centered Gram matrix as ``Kc = V diag(values) V'``. A coefficient vector ``b = V beta`` gives the feature
    ``Kc b``; ``lift`` turns ``beta`` into what the estimator multiplies by: ``V`` itself for an exact kernel (dual
    coefficients), ``Fc' V`` for explicit features (weights on the features).

    Attributes
    ----------
    values : ndarray of shape (rank,)
        Eigenvalues of the centered Gram matrix.
    lift : ndarray of shape (n_samples or n_features, rank) or None
        Maps coordinates in the eigenbasis to coefficients; None leaves them as they are.
    cells : ndarray of shape (rank, n_present_cells)
        The orthonormal cell indicators in the eigenbasis.
    outside : ndarray of shape (k, n_present_cells)
        A factor of what the eigenbasis misses of them: ``cells'cells + outside'outside = I``.
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
        """Leave out the directions in which the data do not vary, as a pencil without ridge must."""
        keep = self.values != 0
        cells, lift = self.cells[keep], np.eye(len(keep)) if self.lift is None else self.lift
        return Spectrum(self.values[keep], lift[:, keep], cells, _defect(cells), self.precision)

    def without_negative_rounding(self) -> Spectrum:
        """Set negative eigenvalues to zero that rounding errors could have made, not an indefinite kernel."""
        rounded = (self.values < 0) & (self.values >= -self.rounding)
        return replace(self, values=np.where(rounded, 0.0, self.values)) if rounded.any() else self

    def lifted(self, coordinates: Array) -> Array:
        """Coefficients from coordinates in the eigenbasis."""
        return coordinates if self.lift is None else product(self.lift, coordinates)


def default_precision(n_samples: int) -> float:
    """Rounding errors of arithmetic with an n x n matrix, relative to its norm: n times the unit roundoff."""
    return n_samples * float(np.finfo(float).eps)


def gram_spectrum(
    K: Array, membership: Membership, basis: Array | None = None, precision: float | None = None
) -> Spectrum:
    """Decompose a centered n x n Gram matrix, or what is left of it on the rows of a `basis`; `K` is destroyed.

    `precision` bounds the rounding errors of `K` relative to its norm; None means those of a matrix of this size.
    """
    if precision is None:
        precision = default_precision(len(membership.cell))
    values, vectors = linalg.eigh(K, overwrite_a=True, check_finite=False, driver="evd")
    noise = len(values) * np.finfo(float).eps * np.abs(values).max(initial=0.0)
    values[np.abs(values) <= noise] = 0.0
    lift = vectors if basis is None else product(basis.T, vectors)
    cells = (membership.indicators @ lift).T
    return Spectrum(values, lift, cells, np.zeros((0, cells.shape[1])), precision)


def krylov_spectra(K: Array, membership: Membership, more: int, precision: float | None = None) -> Iterator[Spectrum]:
    """Decompose a centered Gram matrix on ever larger spaces: what its powers make of the cells and `more` vectors.

    Components are functions of `K` applied to cells, or belong to its largest eigenvalues, and powers bring forth both.
    A few hundred dimensions hold them, however many samples there are, unless the ridge is tiny or eigenvalues lie
    close together. Whether a space is large enough, `residual` tells.
    """
    width = np.count_nonzero(membership.counts) + more
    most = min(MAX_KRYLOV_SIZE, len(K) // 4)
    basis = np.empty((most - most % (KRYLOV_STEP * width), len(K)))  # a vector in each row
    small = np.empty((len(basis), len(basis)))
    rng = np.random.default_rng(0)  # any vectors will do that share no symmetry with the data; the same ones each time
    block = np.vstack([membership.indicators.toarray(), rng.normal(size=(more if len(basis) else 0, len(K)))])
    for end in range(width, len(basis) + 1, width):
        for _ in range(2):  # what is orthogonal only up to cancellation, or arbitrary, is made so again
            block -= product(product(block, basis[: end - width].T), basis[: end - width])
            block = linalg.qr(block.T, mode="economic", check_finite=False)[0].T
        basis[end - width : end] = block
        block = product(block, K)
        small[end - width : end, :end] = product(block, basis[:end].T)  # the lower triangle is all that is read
        if end % (KRYLOV_STEP * width) == 0:
            yield gram_spectrum(small[:end, :end].copy(), membership, basis[:end], precision)


@dataclass(frozen=True)
class CellStatistics:
    """Sufficient statistics of explicit features: counts, cell means and the scatter inside the cells.

    They add up, over chunks and over machines. Second moments are kept about the mean of their own cell and means to
    twice the working precision, so that sums have plus signs alone: neither a large common offset, nor domains far
    apart, nor many chunks cost digits.

    Attributes
    ----------
    counts : ndarray of shape (n_domains, n_classes)
        Samples in each cell.
    means : ndarray of shape (n_domains * n_classes, n_features)
        Mean of each cell, zero for an empty one.
    tails : ndarray of shape (n_domains * n_classes, n_features)
        What rounding took from the means.
    inside : ndarray of shape (n_features, n_features)
        Sum of ``(f - mean)(f - mean)'`` over all samples, each about the mean of its cell.
    """

    counts: Ints
    means: Array
    tails: Array
    inside: Array

    @classmethod
    def from_features(cls, features: Array, membership: Membership, gram: Gram = gram) -> CellStatistics:
        """Collect the statistics of a feature matrix."""
        cell, size = membership.cell, membership.counts.size
        n = membership.counts.reshape(-1, 1)
        # A sparse product adds up cells ten times faster than np.add.at and needs no sorting.
        members = sparse.csr_array((np.ones(len(cell)), (cell, np.arange(len(cell)))), shape=(size, len(cell)))
        with np.errstate(over="ignore", invalid="ignore"):  # `spectrum` refuses what is too large
            means = (members @ features) / np.maximum(n, 1)
            residual = means[cell]
            np.subtract(features, residual, out=residual)  # fresh memory costs more than subtracting: one array will do
            tails = (members @ residual) / np.maximum(n, 1)
            # The residuals are about the rounded means: a correction in the last digits.
            return cls(membership.counts, means, tails, gram(residual) - gram(np.sqrt(n) * tails))

    def plus(self, other: CellStatistics, gram: Gram = gram) -> CellStatistics:
        """Statistics of both sets of samples, which must have the same table of cells: ``self + other``."""
        n, k = self.counts.reshape(-1, 1), other.counts.reshape(-1, 1)
        total = np.maximum(n + k, 1)
        both = ((n > 0) & (k > 0)).ravel()
        with np.errstate(over="ignore", invalid="ignore"):
            gap = (other.means - self.means) + (other.tails - self.tails)
            # Move from the mean of the larger part: an empty one then changes nothing.
            near = np.where(n >= k, self.means, other.means)
            step = np.where(n >= k, self.tails + gap * (k / total), other.tails - gap * (n / total))
            means = near + step
            between = gap[both] * np.sqrt(n[both] * (k[both] / total[both]))
            inside = gram(between)
            inside += self.inside
            inside += other.inside
            return CellStatistics(self.counts + other.counts, means, step - (means - near), inside)

    __add__ = plus

    def placed(self, rows: Ints, columns: Ints, shape: tuple[int, int]) -> CellStatistics:
        """Lay the cells out in a larger table: domain i in row ``rows[i]``, class j in column ``columns[j]``."""
        counts = np.zeros(shape, dtype=np.intp)
        counts[np.ix_(rows, columns)] = self.counts
        where = (rows[:, None] * shape[1] + columns).ravel()
        means, tails = np.zeros((2, counts.size, len(self.inside)))
        means[where], tails[where] = self.means, self.tails
        return CellStatistics(counts, means, tails, self.inside)

    @property
    def mean(self) -> Array:
        """Mean of all samples."""
        return self._about_mean()[1]

    def _about_mean(self) -> tuple[Array, Array]:
        """Means of the present cells about the mean of all samples, and that mean."""
        present = self.counts.ravel() > 0
        weight = self.counts[self.counts > 0] / self.counts.sum()
        origin = self.means[present][0]  # any mean will do: beside it the others are small
        about_origin = (self.means[present] - origin) + self.tails[present]
        drift = weight @ about_origin
        return about_origin - drift, origin + drift

    def spectrum(self) -> Spectrum:
        """Decompose the centered Gram matrix of the features."""
        with np.errstate(over="ignore", invalid="ignore"):
            indicators = np.sqrt(self.counts[self.counts > 0])[:, None] * self._about_mean()[0]
            total = self.inside + gram(indicators)
        check_range(norm(total))
        driver = "evd" if len(total) > 1 else None  # older SciPy gives it no room for a single number
        values, vectors = linalg.eigh(total, overwrite_a=True, check_finite=False, driver=driver)
        keep = values > len(values) * np.finfo(float).eps * values.max(initial=0.0)
        values, vectors = values[keep], vectors[:, keep]
        scale = np.sqrt(values)
        cells = product(vectors.T, indicators.T) / scale[:, None]
        return Spectrum(values, vectors * scale, cells, _defect(cells), default_precision(int(self.counts.sum())))


def check_range(size: float) -> None:
    """Raise if the square of a centered Gram matrix of this norm, or a multiple of it, would not be a finite number.

    A norm of zero is no matter of size.
    """
    if size and not 1e-150 < size < 1e150:
        which, what = ("small", "less") if size < 1 else ("large", "more")
        raise ValueError(
            f"X is too {which}: its centered Gram matrix has a norm of {size:.3g}, whose square is {what} than a "
            "number "
            "in double precision can be. Scale X, for example with sklearn.preprocessing.StandardScaler."
        )


def largest_entry(X: Any) -> float:
    """The largest absolute entry of samples, which stay as they are: abs() of a sparse matrix adds entries up in it."""
    return float(np.abs(X.data if sparse.issparse(X) else X).max(initial=0.0))


def check_squares(largest: float, what: str = "X") -> None:
    """Raise if squares of values up to the `largest`, summed up, would be infinite, or lost below the least number."""
    if largest and not 1e-150 < largest < 1e150:
        which, wrong = ("small", "less") if largest < 1 else ("large", "more")
        power = -int(np.clip(np.log10(largest), -300, 300))
        raise ValueError(
            f"{what} is too {which}: the squares of values up to {largest:.3g} are {wrong} than numbers in double "
            f"precision can be. Scale X, for example multiply it by 1e{power}."
        )


def _defect(cells: Array) -> Array:
    """Return a factor S of what orthonormal vectors lose by projection: ``S'S = I - cells'cells``."""
    loss, directions = linalg.eigh(np.eye(cells.shape[1]) - gram(cells))
    noise = 32 * max(cells.shape) * np.finfo(float).eps  # nothing: its square root would be taken for something
    return np.sqrt(np.where(loss > noise, loss, 0.0))[:, None] * directions.T


@dataclass(frozen=True, eq=False)
class Moments:
    """The number of samples, their mean, and the sum of their squared distances from it.

    Parameters
    ----------
    count : int
        How many samples there are.
    mean : ndarray of shape (n_features,)
        Their mean.
    scatter : float
        The sum of their squared distances from the mean.

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
        """The moments of some samples, none too."""
        if not len(values):
            return cls(0, np.zeros(values.shape[1]), 0.0)
        mean = values.mean(axis=0)
        return cls(len(values), mean, float(np.square(values - mean).sum()))

    @property
    def trace(self) -> float:
        """Trace of the covariance; NaN for fewer than two samples."""
        return self.scatter / (self.count - 1) if self.count > 1 else np.nan

    def __add__(self, other: Moments) -> Moments:
        """Pool two sets of samples (Chan, Golub, LeVeque 1983): no cancellation, however many pieces there are."""
        total = self.count + other.count
        if not total:
            return self
        step = other.mean - self.mean
        between = float(step @ step) * self.count * other.count / total
        return Moments(total, self.mean + step * (other.count / total), self.scatter + other.scatter + between)


def merge_moments(one: Mapping[Any, Any], two: Mapping[Any, Any]) -> dict[Any, Any]:
    """Moments, or whatever adds up, of several groups, by name, with those of further samples."""
    return {**one, **{name: one[name] + more if name in one else more for name, more in two.items()}}
