r"""One solver for the whole family: a generalized eigenproblem of the size of the domain x class table.

In the eigenbasis of the centered Gram matrix (eigenvalues :math:`\lambda`) the denominator of a method is

.. math:: A = \operatorname{diag}(D) - t\,\lambda Z Z^\top \lambda + \sum_i w_i\, \lambda Z W_i W_i^\top Z^\top \lambda,
          \qquad D = t \lambda^2 + \kappa \lambda + \epsilon,

where :math:`Z` holds the orthonormal cell indicators. Dividing by :math:`D^{1/2}` on both sides makes it the identity
except on the span of :math:`F = D^{-1/2} \lambda Z`, one direction per cell. There :math:`I - t F^\top F = S^\top S`
with :math:`S = ((\kappa\lambda + \epsilon) / D)^{1/2} Z`, so cosines and sines are both computed from plus signs and
nothing is ever subtracted: weights of 1e8 and ridges of 1e-12 keep their digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ._cell_statistics import Array, Ints, Membership, Spectrum, default_precision, gram, norm, product

LARGEST_CONDITION = 1e4  # beside sines: penalties up to which columns of contrasts need not be independent
INDEPENDENT = 1e-10  # contrasts are made of ratios of counts: what is smaller, beside the largest, is rounding
# Least eigenvalue of the whitened denominator of an indefinite kernel. It is a difference of numbers of order one, so
# below this fewer than half of its digits are known.
POSITIVE_DEFINITE = 1e-8
# Relative difference up to which eigenvalues are equal, for the check that Lanczos iterations have missed none: of the
# ones equal to the smallest that is wanted, any will do.
EQUAL_EIGENVALUES = 1e-9
DENSE_BELOW = 200  # eigenvalues of the Gram matrix up to which Lanczos iterations do not pay


@dataclass(frozen=True)
class ScatterProblem:
    """A method: what it makes large, what it keeps small.

    Attributes
    ----------
    numerator : ndarray of shape (n_present_cells, k)
        Contrast (see :mod:`unseen.linalg`) of the scatter to make large.
    penalties : sequence of (weight, contrast) pairs
        Scatters to keep small.
    ridge : float
        Weight of ``tr(B'B)`` in the denominator.
    inside : float
        Weight of the scatter inside cells in the denominator.
    norm : float
        Weight of the RKHS norm ``tr(B'KB)`` in the denominator.
    total : float
        Weight of the total scatter in the numerator.
    symmetric : bool
        Whether the solvers here serve; a method with another pencil solves it by itself.
    """

    numerator: Array
    penalties: tuple[tuple[float, Array], ...]
    ridge: float
    inside: float = 1.0
    norm: float = 0.0
    total: float = 0.0
    symmetric: bool = True

    @property
    def low_rank(self) -> bool:
        """Whether a solution is a matter of the cells alone, however many samples there are."""
        return self.symmetric and self.total == 0


@dataclass(frozen=True)
class Whitened:
    """A pencil whose fixed part D is the identity, reduced to the directions that the cells span.

    Attributes
    ----------
    basis : ndarray of shape (rank, p)
        Orthonormal directions Q, in whitened coordinates.
    cells : ndarray of shape (p, n_present_cells)
        T, the cells in that basis: ``F = Q T``.
    sines : ndarray of shape (p,)
        Square roots of the diagonal that remains of the denominator.
    directions : ndarray of shape (n_samples or n_features, p)
        Q lifted to coefficients.
    norm_factor : ndarray of shape (any, p)
        A matrix with the Gram matrix of the columns of B: norms of B follow from it.
    spread : float
        The largest that a unit vector of samples can be in whitened coordinates; what is tiny beside it is rounding.
    rounding : float
        Bound on the norm of the rounding errors of the centered Gram matrix.
    """

    basis: Array
    cells: Array
    sines: Array
    directions: Array
    norm_factor: Array
    spread: float
    rounding: float = 0.0


@dataclass(frozen=True)
class Solution:
    """Components of a pencil, in order of decreasing eigenvalue; solvers normalize them so that ``B'AB = I``.

    Attributes
    ----------
    eigenvalues : ndarray of shape (q,)
        Ratio of numerator to denominator for each component.
    coefficients : ndarray of shape (n_samples or n_features, q)
        The components, lifted (see `Spectrum.lift`).
    norms : ndarray of shape (q,)
        2-norms of the columns of B.
    cell_means : ndarray of shape (n_present_cells, q)
        Mean of each component over each cell, about the mean of all samples.
    """

    eigenvalues: Array
    coefficients: Array
    norms: Array
    cell_means: Array

    def first(self, q: int | None) -> Solution:
        """Keep the leading components."""
        return self._take(slice(q))

    def above_rounding(self, perturbation: float) -> Solution:
        r"""Leave out components that rounding errors of the Gram matrix could have made.

        A root of the numerator is :math:`K E W`, with a contrast W of orthonormal cell indicators E. An error
        :math:`\delta K` changes the root of the eigenvalue of a component b by :math:`b^\top \delta K E W`, which is at
        most :math:`\|b\| \|\delta K\| \|W\|`, and :math:`\|b\| \le 1 / \sqrt\epsilon`. `perturbation` is
        :math:`\|\delta K\| \|W\|`: a component is kept if the root of its eigenvalue is larger than its bound.
        """
        return self._take(np.sqrt(self.eigenvalues) > perturbation * self.norms)

    def _take(self, which: Any) -> Solution:
        return Solution(
            self.eigenvalues[which], self.coefficients[:, which], self.norms[which], self.cell_means[:, which]
        )

    def times(self, factors: Array) -> Solution:
        """Multiply each component by a factor."""
        coefficients, cell_means = self.coefficients * factors, self.cell_means * factors
        return Solution(self.eigenvalues, coefficients, self.norms * np.abs(factors), cell_means)

    def scaled(self, scaling: Literal["paper", "unit_norm"]) -> Solution:
        """Multiply by Gamma^-1/2 (Algorithm 1, step 5), after making the columns unit vectors for "unit_norm"."""
        factors = 1 / np.sqrt(self.eigenvalues)
        return self.times(factors if scaling == "paper" else factors / self.norms)

    def oriented(self, counts: Ints, X: Any = None) -> Solution:
        """Fix the signs: the class whose mean has the largest absolute coordinate gets a positive one.

        Two equal classes of opposite sign leave that open; the cell means decide then, after them the coefficients, and
        last the features `X` that the coefficients weigh. Nothing of this depends on the order of samples or on the
        names of classes and domains.
        """
        share = (counts / counts.sum(axis=0))[counts > 0]
        class_means = np.zeros((counts.shape[1], len(self.eigenvalues)))
        np.add.at(class_means, np.nonzero(counts)[1], share[:, None] * self.cell_means)
        leanings = np.zeros(len(self.eigenvalues)) if X is None else _leanings(X.T @ self.coefficients)
        views = class_means.T, self.cell_means.T, self.coefficients.T, leanings
        return self.times(np.array([_sign(*parts) for parts in zip(*views, strict=True)]))


class SingularProblemError(np.linalg.LinAlgError):
    """The denominator has directions of zero weight, so the ratio has no maximum."""


class IndefiniteKernelError(SingularProblemError):
    """Negative eigenvalues of the Gram matrix make the denominator indefinite: its norm penalty is not a norm.

    Attributes
    ----------
    smallest : float
        The most negative eigenvalue of the centered Gram matrix.
    """

    def __init__(self, smallest: float) -> None:
        super().__init__(f"The centered Gram matrix has the eigenvalue {smallest:.3g}.")
        self.smallest = smallest


def whiten_by_eigh(spectrum: Spectrum, recipe: ScatterProblem) -> Whitened:
    """Reduce the pencil to cell space from an eigendecomposition; depends on inside, norm and ridge alone."""
    values = spectrum.values
    root = np.sqrt(_diagonal(values, recipe))
    F = (values / root)[:, None] * spectrum.cells
    Q, T, sines = _cosines_and_sines(F, _sine_factor(spectrum, recipe, root), recipe.inside)
    Q[values == 0] = 0.0  # as F is there: divided by a tiny root, rounding would not stay what it is
    unwhitened = Q / root[:, None]
    spread = float(np.abs(values / root).max(initial=0.0))
    return Whitened(Q, T, sines, spectrum.lifted(unwhitened), unwhitened, spread, spectrum.rounding)


def _sine_factor(spectrum: Spectrum, recipe: ScatterProblem, root: Array) -> Array:
    """Return a factor S of what is left of the whitened denominator: ``inside F'F + S'S = I``.

    Its rows are those of the cells, times ``sqrt((kappa lambda + eps) / D)``, and what the eigenbasis misses of them.
    Where an indefinite kernel makes ``kappa lambda + eps`` negative, rows are subtracted, and the difference must be
    positive definite.
    """
    weights = recipe.norm * spectrum.values + recipe.ridge
    S = np.vstack([(np.sqrt(np.maximum(weights, 0.0)) / root)[:, None] * spectrum.cells, spectrum.outside])
    negative = weights < 0
    if not negative.any():
        return S
    subtracted = (np.sqrt(-weights[negative]) / root[negative])[:, None] * spectrum.cells[negative]
    remaining, directions = linalg.eigh(gram(S) - gram(subtracted), check_finite=False)
    if remaining.min() <= POSITIVE_DEFINITE * max(1.0, remaining.max()):
        raise IndefiniteKernelError(float(spectrum.values.min()))
    return np.sqrt(remaining)[:, None] * directions.T


def cholesky_is_sound(recipe: ScatterProblem, size: float) -> bool:
    """Whether `whiten_by_cholesky` serves a recipe on a Gram matrix of Frobenius norm `size`."""
    return recipe.low_rank and recipe.ridge > 1e-8 * (recipe.inside * size**2 + recipe.norm * size)


def whiten_by_cholesky(
    K: Array, membership: Membership, recipe: ScatterProblem, precision: float | None = None
) -> Whitened | None:
    """Reduce the pencil to cell space by one Cholesky factorization of ``M = t K^2 + kappa K + eps I``.

    Several times cheaper than the eigendecomposition of `K`, for a single fit. The factorization squares the condition
    number: sound while the ridge is above 1e-8 of the largest eigenvalue of `M`. None for a kernel that is not positive
    semi-definite where that matters. `precision` is that of `gram_spectrum`.
    """
    if precision is None:
        precision = default_precision(len(K))
    indicators = membership.indicators
    # K is symmetric, so its transpose is the same matrix in the memory order that BLAS reads without a copy.
    fixed = linalg.blas.dsyrk(recipe.inside, K.T, beta=recipe.norm, c=K.T, lower=True)
    fixed.ravel(order="K")[:: len(K) + 1] += recipe.ridge
    lower, failed = linalg.lapack.dpotrf(fixed, lower=True, overwrite_a=True, clean=False)
    if failed:
        return None
    rhs = np.asfortranarray(np.hstack([(indicators @ K).T, indicators.T.toarray()]))
    solved, _ = linalg.lapack.dtrtrs(lower, rhs, lower=True, overwrite_b=True)
    F, inverse = np.hsplit(solved, 2)
    # S'S = E'(kappa K + eps I) M^-1 E. The first term is small where sines are, so its root may be taken of a product.
    values, vectors = linalg.eigh(recipe.norm * product(F.T, inverse), check_finite=False)
    size = norm(K)
    rounding = precision * size
    if values.min() < -default_precision(len(K)) - recipe.norm * rounding / recipe.ridge:  # an indefinite kernel
        return None
    S = np.vstack([np.sqrt(recipe.ridge) * inverse, np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T])
    Q, T, sines = _cosines_and_sines(F, S, recipe.inside)
    directions, _ = linalg.lapack.dtrtrs(lower, np.asfortranarray(Q), lower=True, trans=True)
    spread = float(size / np.sqrt(recipe.inside * size**2 + recipe.norm * size + recipe.ridge))
    return Whitened(Q, T, sines, directions, directions, spread, rounding)


def residuals(K: Array, membership: Membership, recipe: ScatterProblem, solution: Solution) -> Array:
    """How far each component is from solving the pencil, as a bound on the relative error of its eigenvalue.

    With ``B'AB = I`` and ``A >= eps I``, an eigenvalue lies within ``|N b - A b g| / sqrt(eps)`` of each g.
    """
    indicators, g = membership.indicators, solution.eigenvalues
    KB = product(K, solution.coefficients)
    cells = indicators @ KB
    low_rank = recipe.inside * g * cells
    for weight, contrast in ((np.ones(1), recipe.numerator), *((-w * g, contrast) for w, contrast in recipe.penalties)):
        W = _orthonormal(contrast, membership.counts)
        low_rank += weight * (W @ (W.T @ cells))
    full = (recipe.total - recipe.inside * g) * KB - recipe.norm * g * solution.coefficients
    left = product(K, full + indicators.T @ low_rank) - recipe.ridge * g * solution.coefficients
    return np.linalg.norm(left, axis=0) / (np.sqrt(recipe.ridge) * g)


def residual(K: Array, membership: Membership, recipe: ScatterProblem, solution: Solution) -> float:
    """The largest of the `residuals`."""
    return float(residuals(K, membership, recipe, solution).max(initial=0.0))


def component_errors(eigenvalues: Array, errors: Array) -> Array:
    r"""Bound the errors of components by those of eigenvalues and the gaps between them (Davis and Kahan 1970).

    A component is known up to the sine of its angle to the exact one, in the metric of the denominator. That is at
    most the residual over the distance to the nearest other eigenvalue. Zero counts as an eigenvalue: it is one of
    every numerator of low rank.

    Parameters
    ----------
    eigenvalues : ndarray of shape (q,)
        Eigenvalues, positive.
    errors : ndarray of shape (q,)
        Bounds on their relative errors.

    Returns
    -------
    bounds : ndarray of shape (q,)
        Bounds on the sines; infinite where a gap is no larger than the errors of the eigenvalues on its sides.
    """
    absolute = errors * eigenvalues
    gaps = np.abs(eigenvalues[:, None] - eigenvalues) - absolute
    np.fill_diagonal(gaps, np.inf)
    gaps = np.minimum(gaps.min(axis=1, initial=np.inf), eigenvalues)
    return np.where(gaps > absolute, absolute / np.maximum(gaps, absolute), np.inf)


COINCIDENT_MEANS = "The class means coincide, so no component tells classes apart. Check y, X and the kernel."


def check_distinct_means(differences: Array, size: float) -> None:
    """Raise if differences between class means are rounding beside what they could be at most."""
    if np.linalg.norm(differences) <= 1e-13 * size:
        raise ValueError(COINCIDENT_MEANS)


def solve(pencil: Whitened, recipe: ScatterProblem, counts: Ints) -> Solution:
    """Solve a pencil whose numerator is low-rank; O(cells^3), whatever the number of samples."""
    upper, pivots = _pivoted_triangle(_denominator(pencil, recipe, counts))
    contrast = _orthonormal(recipe.numerator, counts)
    numerator = pencil.cells @ contrast
    check_distinct_means(numerator, pencil.spread * float(np.linalg.norm(contrast)))
    # BLAS's dtrsm rather than LAPACK's dtrtrs, which wakes all threads even for a handful of cells.
    whitened = linalg.blas.dtrsm(1.0, upper, numerator[pivots], trans_a=True)
    left, singular, _ = linalg.svd(whitened, full_matrices=False, check_finite=False)
    # What the decomposition itself rounds; and contrasts of class means carry at most C - 1 directions.
    rank = int(np.sum(singular > max(numerator.shape) * np.finfo(float).eps * singular.max(initial=0.0)))
    rank = min(rank, counts.shape[1] - 1)
    coordinates = np.empty((len(upper), rank))
    coordinates[pivots] = linalg.blas.dtrsm(1.0, upper, left[:, :rank])
    solution = Solution(
        singular[:rank] ** 2,
        pencil.directions @ coordinates,
        np.linalg.norm(pencil.norm_factor @ coordinates, axis=0),
        pencil.cells.T @ coordinates / np.sqrt(counts[counts > 0])[:, None],
    ).above_rounding(pencil.rounding * float(np.linalg.norm(contrast, 2)))
    if not len(solution.eigenvalues):
        raise ValueError(COINCIDENT_MEANS)
    return solution


def solve_with_total(
    spectrum: Spectrum, pencil: Whitened, recipe: ScatterProblem, counts: Ints, n_components: int
) -> Solution:
    """Solve a pencil whose numerator has the total scatter too, from the leading eigenpairs of A^-1/2 N A^-1/2."""
    root = np.sqrt(_diagonal(spectrum.values, recipe))
    variances = recipe.total * (spectrum.values / root) ** 2
    inverse_root = _inverse_root(_denominator(pencil, recipe, counts))
    contrast = _orthonormal(recipe.numerator, counts)
    numerator = inverse_root @ pencil.cells @ contrast
    Q, correction = pencil.basis, inverse_root - np.eye(len(inverse_root))  # A^-1/2 = I + Q correction Q'
    if len(variances) < DENSE_BELOW:  # singular values of a root of it keep twice as many digits of small eigenvalues
        roots = np.sqrt(variances)
        factor = np.hstack([np.diag(roots) + Q @ correction @ (Q.T * roots), Q @ numerator])
        vectors, values, _ = linalg.svd(factor, full_matrices=False, check_finite=False)
        values = values**2
    else:
        values, vectors = _leading(variances, Q, correction, numerator, n_components)
    order = np.argsort(values)[::-1][:n_components]
    # Eigenvalues of a symmetric matrix are known up to rounding of the largest.
    order = order[values[order] > default_precision(int(counts.sum())) * values.max(initial=0.0)]
    vectors = vectors[:, order]
    coordinates = vectors + Q @ (correction @ (Q.T @ vectors))
    unwhitened = coordinates / root[:, None]
    solution = Solution(
        values[order],
        spectrum.lifted(unwhitened),
        np.linalg.norm(unwhitened, axis=0),
        pencil.cells.T @ (Q.T @ coordinates) / np.sqrt(counts[counts > 0])[:, None],
    )
    contrast_norm = float(np.linalg.norm(contrast, 2)) if contrast.size else 0.0
    solution = solution.above_rounding(pencil.rounding * np.hypot(np.sqrt(recipe.total), contrast_norm))
    if not len(solution.eigenvalues):
        raise ValueError("No component exceeds the rounding errors of the kernel matrix. Check X and the kernel.")
    return solution


def _leading(variances: Array, Q: Array, correction: Array, numerator: Array, n_components: int) -> tuple[Array, Array]:
    """The leading eigenpairs, at least, of the numerator between two roots of the inverse denominator."""
    # The diagonal v of the numerator and A^-1/2 on both sides of it: v, and a matrix of low rank on Q and v Q.
    both = np.hstack([Q, variances[:, None] * Q])
    inner = correction @ product(Q.T, both[:, Q.shape[1] :]) @ correction + numerator @ numerator.T
    middle = np.block([[inner, correction], [correction, np.zeros_like(inner)]])
    size = len(variances)
    if n_components <= size // 4:  # Lanczos pays only for a few components of many
        start = np.ones(size) / np.sqrt(size)  # a fixed start keeps the result reproducible
        operator = LinearOperator(
            (size, size), matvec=lambda x: variances * x + both @ (middle @ (x @ both)), dtype=np.float64
        )
        try:
            values, vectors = eigsh(operator, k=n_components, which="LA", v0=start, ncv=4 * n_components + 20)
        except ArpackError:  # no convergence; the dense solver below needs none
            values = np.empty(0)
        if len(values) and _none_is_missing(values, variances, both, middle):
            return values, vectors
    first = max(size - n_components, 0)
    values, vectors = linalg.eigh(
        np.diag(variances) + both @ middle @ both.T, subset_by_index=[first, size - 1], check_finite=False
    )
    return values, vectors


def _none_is_missing(values: Array, diagonal: Array, factor: Array, middle: Array) -> bool:
    """Whether ``diag(diagonal) + factor middle factor'`` has no eigenvalues above the least of `values` but these.

    In exact arithmetic, Lanczos iterations from one vector find one copy of a multiple eigenvalue; others appear
    through rounding errors, or not at all.
    """
    least, largest = values.min(), values.max()
    rounding = default_precision(len(diagonal)) * largest
    threshold = least + max(EQUAL_EIGENVALUES * abs(least), rounding)
    if np.any(diagonal == threshold):  # the count below would divide by zero
        return False
    return _count_above(threshold, diagonal, factor, middle) == np.count_nonzero(values > threshold)


def _count_above(threshold: float, diagonal: Array, factor: Array, middle: Array) -> int:
    """How many eigenvalues of ``diag(diagonal) + factor middle factor'`` lie above a threshold, by Sylvester's inertia.

    With ``e = diagonal - threshold`` and ``middle = U diag(c) U'``, either Schur complement of the block matrix
    ``[[diag(e), G], [G', -1/c]]``, ``G = factor U``, tells its inertia. Rows and columns of the small complement are
    multiplied by ``sqrt(abs(c))``, so that a c of zero, whatever its sign by rounding, adds as much as it takes away.
    No entry of the diagonal may be equal to the threshold.
    """
    shifted = diagonal - threshold
    weights, turn = linalg.eigh(middle, check_finite=False)
    G = product(factor, turn * np.sqrt(np.abs(weights)))
    signs = np.where(weights < 0, -1.0, 1.0)
    complement = np.diag(signs) + product(G.T, G / shifted[:, None])
    negative = np.count_nonzero(linalg.eigvalsh(complement, check_finite=False) < 0)
    return int(np.count_nonzero(shifted > 0) + negative - np.count_nonzero(signs < 0))


def apply_inverse(
    spectrum: Spectrum, pencil: Whitened, recipe: ScatterProblem, counts: Ints, x: Array
) -> tuple[Array, Array]:
    """A^-1 x in the eigenbasis, by the same reduction, and on the way a matrix h with ``h'h = x' A^-1 x``."""
    root = np.sqrt(_diagonal(spectrum.values, recipe))[:, None]
    inverse_root = _inverse_root(_denominator(pencil, recipe, counts))

    def halfway(y: Array) -> Array:
        inside = pencil.basis.T @ y
        return y + pencil.basis @ (inverse_root @ inside - inside)

    half = halfway(x / root)
    return halfway(half) / root, half


def _diagonal(values: Array, recipe: ScatterProblem) -> Array:
    diagonal = recipe.inside * values**2 + recipe.norm * values + recipe.ridge
    if np.any(diagonal <= 0):
        if recipe.norm and values.min() < 0:
            raise IndefiniteKernelError(float(values.min()))
        raise SingularProblemError("The denominator is not positive definite.")
    return diagonal


def _cosines_and_sines(F: Array, S: Array, inside: float) -> tuple[Array, Array, Array]:
    """Factor F = Q T, with Q orthonormal and ``I - inside T T' = diag(sines^2)``.

    S satisfies ``inside F'F + S'S = I``, so both share right singular vectors. Sines near 0 are accurate only when
    taken from S, cosines near 0 only from F: each block of vectors is taken from the matrix in which it is small.
    """
    if inside == 0:
        Q, c, right = linalg.svd(F, full_matrices=False, check_finite=False)
        keep = c > 1e-14 * c.max(initial=0.0)
        return Q[:, keep], c[keep, None] * right[keep], np.ones(keep.sum())
    C = np.sqrt(inside) * F
    sines, right = linalg.svd(_triangle(S), check_finite=False)[1:]
    sines = np.concatenate([sines, np.zeros(len(right) - len(sines))])  # S may have fewer rows than cells
    small = sines <= 0.7
    rotated = product(C, right[small].T)
    c = np.linalg.norm(rotated, axis=0)
    Q = rotated / c
    if small.all():
        return Q, c[:, None] * right / np.sqrt(inside), sines
    rest = product(C, right[~small].T)
    rest -= product(Q, product(Q.T, rest))
    Q_rest, c_rest, turn = linalg.svd(rest, full_matrices=False, check_finite=False)
    keep = c_rest > 1e-14 * max(c.max(initial=0.0), c_rest.max(initial=0.0))
    c_rest = c_rest[keep]
    Q = np.hstack([Q, Q_rest[:, keep]])
    right = np.vstack([right[small], turn[keep] @ right[~small]])
    sines = np.concatenate([sines[small], np.sqrt((1 - np.minimum(c_rest, 1)) * (1 + c_rest))])
    T = np.concatenate([c, c_rest])[:, None] * right / np.sqrt(inside)
    return Q, T, sines


def _denominator(pencil: Whitened, recipe: ScatterProblem, counts: Ints) -> Array:
    """Return a factor J of the whitened denominator: A = J'J on the span of the cells."""
    if recipe.norm == 0 and pencil.sines.min(initial=1.0) < (1e-12 if recipe.ridge else 1e-7):
        few = "a ridge that is lost in rounding" if recipe.ridge else "no ridge"
        raise SingularProblemError(f"Some directions have no scatter inside cells and {few}.")
    penalties = [(weight, _orthonormal(contrast, counts)) for weight, contrast in recipe.penalties if weight]
    rows = [np.sqrt(weight) * (pencil.cells @ contrast).T for weight, contrast in penalties]
    if max((np.abs(row).max(initial=0.0) for row in rows), default=0.0) > LARGEST_CONDITION * pencil.sines.min(
        initial=1.0
    ):
        rows = [(pencil.cells @ _of_full_rank(penalties)).T]
    return np.vstack([*rows, np.diag(pencil.sines)])


def _of_full_rank(penalties: list[tuple[float, Array]]) -> Array:
    """One contrast for a weighted sum of scatters, with as many columns as its rank.

    Columns that depend on each other do so up to rounding, and a huge weight would make something of that: in each
    contrast as many are kept as are independent, and all of them in a basis of what they span together.
    """
    span, sizes, _ = linalg.svd(np.hstack([contrast for _, contrast in penalties]), full_matrices=False)
    span = span[:, sizes > INDEPENDENT * sizes[0]]
    parts = []
    for weight, contrast in penalties:
        upper, pivots = _pivoted_triangle(contrast.T @ span)
        rank = np.count_nonzero(np.abs(np.diagonal(upper)) > INDEPENDENT * abs(upper[0, 0]))
        part = np.empty((rank, len(pivots)))
        part[:, pivots] = np.sqrt(weight) * upper[:rank]
        parts.append(part)
    upper, pivots = _pivoted_triangle(np.vstack(parts))
    return span[:, pivots] @ upper.T


def _triangle(J: Array) -> Array:
    """R of the QR factorization, from rows in order of size: then small rows keep their relative accuracy."""
    (upper,) = linalg.qr(_in_order(J), mode="r", check_finite=False)
    return upper[: J.shape[1]]


def _pivoted_triangle(J: Array) -> tuple[Array, Ints]:
    """R and p of the QR factorization of ``J[:, p]``: beside huge rows others keep theirs too (Cox and Higham 1998)."""
    upper, pivots = linalg.qr(_in_order(J), mode="r", pivoting=True, check_finite=False)
    return upper[: J.shape[1]], pivots


def _in_order(J: Array) -> Array:
    """The largest rows first."""
    return J[np.argsort(-np.abs(J).max(axis=1, initial=0.0), kind="stable")]


def _inverse_root(J: Array) -> Array:
    """(J'J)^-1/2, from the inverse of a triangle: what is large in it belongs to small rows, and is accurate."""
    upper, pivots = _pivoted_triangle(J)
    left, singular, _ = linalg.svd(linalg.blas.dtrsm(1.0, upper, np.eye(len(upper))), check_finite=False)
    left[pivots] = left.copy()
    return (left * singular) @ left.T


def _orthonormal(contrast: Array, counts: Ints) -> Array:
    """Rewrite a contrast of cell means as one of orthonormal cell indicators."""
    return contrast / np.sqrt(counts[counts > 0])[:, None]


def _leanings(weights: Array) -> Array:
    """For each component, its weight on the feature on which it is largest."""
    return weights[np.abs(weights).argmax(axis=0), np.arange(weights.shape[1])]


def _sign(class_means: Array, cell_means: Array, coefficients: Array, leaning: float) -> float:
    noise = 1e-7 * np.abs(cell_means).max()
    views = [class_means, cell_means] if np.abs(class_means).max() > noise else [cell_means]
    if len(cell_means) == 1:  # a single cell has mean zero, up to rounding
        views = []
    for view in (*views, coefficients):
        highest, lowest = view.max(), -view.min()
        if abs(highest - lowest) > 1e-6 * max(highest, lowest):
            return 1.0 if highest > lowest else -1.0
    # Perfectly symmetric data: the features decide, and without them the order of the classes.
    return 1.0 if (leaning or class_means[0]) >= 0 else -1.0
