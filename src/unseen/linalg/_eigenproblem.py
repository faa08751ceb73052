r"""The generalized eigenproblem of all methods, solved at the size of the domain x class table.

In the eigenbasis of the centered Gram matrix (eigenvalues :math:`\lambda`) the denominator of a method is

.. math:: A = \operatorname{diag}(D) - t\,\lambda Z Z^\top \lambda + \sum_i w_i\, \lambda Z W_i W_i^\top Z^\top \lambda,
          \qquad D = t \lambda^2 + \kappa \lambda + \epsilon,

where :math:`Z` holds the orthonormal cell indicators. Dividing by :math:`D^{1/2}` on both sides makes it the identity
except on the span of :math:`F = D^{-1/2} \lambda Z`, one direction per cell. On that span :math:`I - t F^\top F =
S^\top S` with :math:`S = ((\kappa\lambda + \epsilon) / D)^{1/2} Z`, so cosines and sines are
computed without subtraction: weights of 1e8 and ridges of 1e-12 keep their digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ._cell_statistics import Array, Ints, Spectrum, default_precision, gram, product

# Largest ratio of a penalty to the smallest sine for which the columns of contrasts may be linearly dependent.
MAX_PENALTY_RATIO = 1e4
# Relative size below which a singular value of a contrast is zero. Contrasts consist of ratios of counts, so smaller
# values are rounding errors.
RANK_TOLERANCE = 1e-10
# Smallest allowed eigenvalue of the whitened denominator of an indefinite kernel. It is a difference of numbers of
# order one, so a smaller value has fewer than half of its digits correct.
MIN_DENOMINATOR_EIGENVALUE = 1e-8
# Number of eigenvalues of the Gram matrix up to which components come from a singular value decomposition. It keeps
# twice as many digits of small eigenvalues as an eigendecomposition, and takes ten times as long.
MAX_SVD_SIZE = 200
# Relative difference up to which eigenvalues count as equal in the check that Lanczos iterations have missed none. Any
# of the eigenvalues that are equal to the smallest requested one is correct.
EIGENVALUE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class ScatterProblem:
    """The generalized eigenproblem of a method: scatters in the numerator and in the denominator.

    Attributes
    ----------
    numerator : ndarray of shape (n_present_cells, k)
        Contrast (see :mod:`unseen.linalg`) of the scatter to maximize.
    penalties : sequence of (weight, contrast) pairs
        Scatters to minimize.
    ridge : float
        Weight of ``tr(B'B)`` in the denominator.
    within_weight : float
        Weight of the scatter within cells in the denominator.
    norm_weight : float
        Weight of the RKHS norm ``tr(B'KB)`` in the denominator.
    total_weight : float
        Weight of the total scatter in the numerator.
    """

    numerator: Array
    penalties: tuple[tuple[float, Array], ...]
    ridge: float
    within_weight: float = 1.0
    norm_weight: float = 0.0
    total_weight: float = 0.0

    @property
    def is_low_rank(self) -> bool:
        """Whether the cost of a solution depends on the number of cells only, not on the number of samples."""
        return self.total_weight == 0


@dataclass(frozen=True)
class WhitenedProblem:
    """An eigenproblem whose fixed part D is the identity, reduced to the directions that the cells span.

    Attributes
    ----------
    basis : ndarray of shape (rank, p)
        Orthonormal directions Q, in whitened coordinates.
    cells : ndarray of shape (p, n_present_cells)
        T, the cells in that basis: ``F = Q T``.
    sines : ndarray of shape (p,)
        Square roots of the remaining diagonal of the denominator.
    directions : ndarray of shape (n_samples or n_features, p)
        Q lifted to coefficients.
    norm_factor : ndarray of shape (any, p)
        A matrix whose Gram matrix is that of the columns of B; the norms of the columns follow from it.
    spread : float
        Largest length of a unit vector of samples in whitened coordinates. Relative to it, tiny values are rounding
        errors.
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
    """Components that solve an eigenproblem, by decreasing eigenvalue; solvers normalize them so that ``B'AB = I``.

    Attributes
    ----------
    eigenvalues : ndarray of shape (q,)
        Ratio of numerator to denominator for each component.
    coefficients : ndarray of shape (n_samples or n_features, q)
        The components as coefficients (see `Spectrum.lift`).
    norms : ndarray of shape (q,)
        2-norms of the columns of B.
    cell_means : ndarray of shape (n_present_cells, q)
        Mean of each component over each cell, about the mean of all samples.
    """

    eigenvalues: Array
    coefficients: Array
    norms: Array
    cell_means: Array

    def drop_rounding(self, perturbation: float) -> Solution:
        r"""Drop components that rounding errors of the Gram matrix could explain.

        A root of the numerator is :math:`K E W`, with a contrast W of orthonormal cell indicators E. An error
        :math:`\delta K` changes the root of the eigenvalue of a component b by :math:`b^\top \delta K E W`, which is at
        most :math:`\|b\| \|\delta K\| \|W\|`, and :math:`\|b\| \le 1 / \sqrt\epsilon`. `perturbation` is
        :math:`\|\delta K\| \|W\|`: a component is kept if the root of its eigenvalue is larger than its bound.
        """
        return self.keep(np.sqrt(self.eigenvalues) > perturbation * self.norms)

    def keep(self, which: Any) -> Solution:
        """Keep the components that an index, a slice or a mask selects."""
        return Solution(
            self.eigenvalues[which], self.coefficients[:, which], self.norms[which], self.cell_means[:, which]
        )

    def normalize(self, scaling: Literal["paper", "unit_norm"], counts: Ints, X: Any = None) -> Solution:
        """Multiply by Gamma^-1/2 (Algorithm 1, step 5), and fix the signs.

        "unit_norm" first scales the columns to unit length. The class mean with the largest absolute coordinate becomes
        positive. If two class means of opposite sign have equal size, the cell means decide, then the coefficients,
        then the features `X` that the coefficients weigh. The result does not depend on the order of samples or on the
        names of classes and domains.
        """
        share = (counts / counts.sum(axis=0))[counts > 0]
        class_means = np.zeros((counts.shape[1], len(self.eigenvalues)))
        np.add.at(class_means, np.nonzero(counts)[1], share[:, None] * self.cell_means)
        largest_weights = np.zeros(len(self.eigenvalues))
        if X is not None:
            weights = X.T @ self.coefficients
            largest_weights = weights[np.abs(weights).argmax(axis=0), np.arange(weights.shape[1])]
        components = zip(class_means.T, self.cell_means.T, self.coefficients.T, largest_weights, strict=True)
        factors = np.array([_component_sign(*component) for component in components]) / np.sqrt(self.eigenvalues)
        if scaling == "unit_norm":
            factors = factors / self.norms
        return Solution(
            eigenvalues=self.eigenvalues,
            coefficients=self.coefficients * factors,
            norms=self.norms * np.abs(factors),
            cell_means=self.cell_means * factors,
        )


class SingularProblemError(np.linalg.LinAlgError):
    """The denominator is zero in some directions, so the ratio has no maximum."""


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


def whiten(spectrum: Spectrum, problem: ScatterProblem) -> WhitenedProblem:
    """Reduce the eigenproblem to cell space; of the weights only within_weight, norm_weight and ridge matter."""
    values = spectrum.values
    root = np.sqrt(_fixed_diagonal(values, problem))
    F = (values / root)[:, None] * spectrum.cells
    Q, T, sines = _cosines_and_sines(F, _sine_factor(spectrum, problem, root), problem.within_weight)
    Q[values == 0] = 0.0  # As in F. Division by a tiny root would amplify rounding errors.
    unwhitened = Q / root[:, None]
    spread = float(np.abs(values / root).max(initial=0.0))
    return WhitenedProblem(Q, T, sines, spectrum.to_coefficients(unwhitened), unwhitened, spread, spectrum.rounding)


def _sine_factor(spectrum: Spectrum, problem: ScatterProblem, root: Array) -> Array:
    """Return a factor S of the rest of the whitened denominator: ``within_weight F'F + S'S = I``.

    Its rows are those of the cells, times ``sqrt((kappa lambda + eps) / D)``, and the part of the cells outside of the
    eigenbasis. Where an indefinite kernel makes ``kappa lambda + eps`` negative, rows are subtracted, and the
    difference must be positive definite.
    """
    weights = problem.norm_weight * spectrum.values + problem.ridge
    S = np.vstack([(np.sqrt(np.maximum(weights, 0.0)) / root)[:, None] * spectrum.cells, spectrum.outside])
    negative = weights < 0
    if not negative.any():
        return S
    subtracted = (np.sqrt(-weights[negative]) / root[negative])[:, None] * spectrum.cells[negative]
    remaining, directions = linalg.eigh(gram(S) - gram(subtracted), check_finite=False)
    if remaining.min() <= MIN_DENOMINATOR_EIGENVALUE * max(1.0, remaining.max()):
        raise IndefiniteKernelError(float(spectrum.values.min()))
    return np.sqrt(remaining)[:, None] * directions.T


def residuals(
    multiply: Callable[[Array], Array], indicators: Any, counts: Ints, problem: ScatterProblem, solution: Solution
) -> Array:
    """Return a bound on the relative error of each eigenvalue, from the residual of its component.

    For a component with ``b'Ab = 1`` and ``A >= eps I``, an eigenvalue lies within ``|N b - A b g| / sqrt(eps)`` of g.
    Components may have any length. Without a ridge the bound is infinite. `multiply` multiplies by the Gram matrix, and
    `indicators` are the cells, both in the basis of the coefficients.
    """
    B = solution.coefficients
    g = solution.eigenvalues
    KB = multiply(B)
    cells = indicators @ KB

    def apply_scatter(contrast: Array) -> Array:
        W = _indicator_contrast(contrast, counts)
        return W @ (W.T @ cells)

    low_rank = -problem.within_weight * cells
    for weight, contrast in problem.penalties:
        low_rank += weight * apply_scatter(contrast)
    # N = K numerator and A = K denominator + ridge I, applied to B.
    numerator = problem.total_weight * KB + indicators.T @ apply_scatter(problem.numerator)
    denominator = problem.within_weight * KB + problem.norm_weight * B + indicators.T @ low_rank
    residual = multiply(numerator - g * denominator) - problem.ridge * g * B
    lengths = np.sqrt(np.sum(KB * denominator + problem.ridge * B**2, axis=0))
    with np.errstate(divide="ignore"):
        return np.linalg.norm(residual, axis=0) / (lengths * np.sqrt(problem.ridge) * g)


def bound_component_errors(eigenvalues: Array, errors: Array) -> Array:
    r"""Bound the errors of components by those of eigenvalues and the gaps between them (Davis and Kahan 1970).

    The error of a component is the sine of its angle to the exact component, in the metric of the denominator. It is at
    most the residual over the distance to the nearest other eigenvalue. Zero counts as an eigenvalue, because every
    numerator of low rank has it.

    Parameters
    ----------
    eigenvalues : ndarray of shape (q,)
        Eigenvalues, positive.
    errors : ndarray of shape (q,)
        Bounds on their relative errors.

    Returns
    -------
    bounds : ndarray of shape (q,)
        Bounds on the sines; infinite where a gap does not exceed the errors of the adjacent eigenvalues.
    """
    absolute = errors * eigenvalues
    gaps = np.abs(eigenvalues[:, None] - eigenvalues) - absolute
    np.fill_diagonal(gaps, np.inf)
    gaps = np.minimum(gaps.min(axis=1, initial=np.inf), eigenvalues)
    return np.where(gaps > absolute, absolute / np.maximum(gaps, absolute), np.inf)


EQUAL_MEANS_MESSAGE = "The class means coincide, so no component separates the classes. Check y, X and the kernel."


def solve(whitened: WhitenedProblem, problem: ScatterProblem, counts: Ints) -> Solution:
    """Solve an eigenproblem with a low-rank numerator in O(cells^3), for any number of samples."""
    upper, pivots = _qr_triangle(_factor_denominator(whitened, problem, counts))
    contrast = _indicator_contrast(problem.numerator, counts)
    numerator = whitened.cells @ contrast
    # Smaller differences between class means are rounding errors.
    if np.linalg.norm(numerator) <= 1e-13 * whitened.spread * np.linalg.norm(contrast):
        raise ValueError(EQUAL_MEANS_MESSAGE)
    # BLAS's dtrsm: LAPACK's dtrtrs starts all threads even for a small number of cells.
    root = linalg.blas.dtrsm(1.0, upper, numerator[pivots], trans_a=True)
    left, singular, _ = linalg.svd(root, full_matrices=False, check_finite=False)
    # Smaller singular values are rounding errors of the decomposition. Contrasts of class means have at most C - 1
    # directions.
    rank = int(np.sum(singular > max(numerator.shape) * np.finfo(float).eps * singular.max(initial=0.0)))
    rank = min(rank, counts.shape[1] - 1)
    coordinates = np.empty((len(upper), rank))
    coordinates[pivots] = linalg.blas.dtrsm(1.0, upper, left[:, :rank])
    solution = Solution(
        singular[:rank] ** 2,
        whitened.directions @ coordinates,
        np.linalg.norm(whitened.norm_factor @ coordinates, axis=0),
        whitened.cells.T @ coordinates / np.sqrt(counts[counts > 0])[:, None],
    ).drop_rounding(whitened.rounding * float(np.linalg.norm(contrast, 2)))
    if not len(solution.eigenvalues):
        raise ValueError(EQUAL_MEANS_MESSAGE)
    return solution


def solve_with_total(
    spectrum: Spectrum, whitened: WhitenedProblem, problem: ScatterProblem, counts: Ints, n_components: int
) -> Solution:
    """Solve an eigenproblem with the total scatter in the numerator, by the leading eigenpairs of A^-1/2 N A^-1/2."""
    Q = whitened.basis
    root = np.sqrt(_fixed_diagonal(spectrum.values, problem))
    # The whitened total scatter is diag(roots^2), A^-1/2 = (I + Q correction Q') / root, and Q numerator is a root of
    # the whitened low-rank scatter.
    roots = np.sqrt(problem.total_weight) * np.abs(spectrum.values) / root
    inverse_root = _inverse_square_root(_factor_denominator(whitened, problem, counts))
    correction = inverse_root - np.eye(len(inverse_root))
    contrast = _indicator_contrast(problem.numerator, counts)
    numerator = inverse_root @ whitened.cells @ contrast
    leading = _lanczos_eigenpairs(roots**2, Q, correction, numerator, n_components)
    if leading is None:
        factor = np.hstack([np.diag(roots) + Q @ correction @ (Q.T * roots), Q @ numerator])
        if len(roots) <= MAX_SVD_SIZE:
            vectors, singular, _ = linalg.svd(factor, full_matrices=False, check_finite=False)
            leading = singular**2, vectors
        else:
            leading = linalg.eigh(gram(factor.T), check_finite=False)
    values, vectors = leading
    order = np.argsort(values)[::-1][:n_components]
    # The error of an eigenvalue of a symmetric matrix is the rounding error of the largest one.
    order = order[values[order] > default_precision(int(counts.sum())) * values.max(initial=0.0)]
    vectors = vectors[:, order]
    coordinates = vectors + Q @ (correction @ (Q.T @ vectors))
    unwhitened = coordinates / root[:, None]
    solution = Solution(
        values[order],
        spectrum.to_coefficients(unwhitened),
        np.linalg.norm(unwhitened, axis=0),
        whitened.cells.T @ (Q.T @ coordinates) / np.sqrt(counts[counts > 0])[:, None],
    )
    contrast_norm = float(np.linalg.norm(contrast, 2)) if contrast.size else 0.0
    solution = solution.drop_rounding(whitened.rounding * np.hypot(np.sqrt(problem.total_weight), contrast_norm))
    if not len(solution.eigenvalues):
        raise ValueError("No component exceeds the rounding errors of the kernel matrix. Check X and the kernel.")
    return solution


def _lanczos_eigenpairs(
    variances: Array, Q: Array, correction: Array, numerator: Array, n_components: int
) -> tuple[Array, Array] | None:
    """Return the leading eigenpairs of ``A^-1/2 N A^-1/2`` by Lanczos iterations; None if a dense solver is better."""
    size = len(variances)
    if size <= MAX_SVD_SIZE or n_components > size // 4:  # faster only for a small share of the components
        return None

    def multiply(x: Array) -> Array:
        inside = Q.T @ x
        scaled = variances * (x + Q @ (correction @ inside))
        return scaled + Q @ (correction @ (Q.T @ scaled) + numerator @ (numerator.T @ inside))

    def multiply_rest(x: Array) -> Array:
        return multiply(x) - vectors @ (values * (vectors.T @ x))

    starts = np.random.default_rng(0).normal(size=(2, size))  # A fixed seed gives reproducible results.
    try:
        operator = LinearOperator((size, size), matvec=multiply, dtype=np.float64)
        values, vectors = eigsh(operator, k=n_components, which="LA", v0=starts[0], ncv=4 * n_components + 20)
        # Iterations from one vector find one copy of a multiple eigenvalue; others appear through rounding errors, or
        # not at all. A missing copy is the largest eigenvalue of what remains.
        rest = LinearOperator((size, size), matvec=multiply_rest, dtype=np.float64)
        (largest,) = eigsh(rest, k=1, which="LA", v0=starts[1], tol=1e-6, return_eigenvectors=False)
    except ArpackError:  # The iterations did not converge; a dense solver does not iterate.
        return None
    rounding = default_precision(size) * values.max()
    is_complete = largest <= values.min() * (1 + EIGENVALUE_TOLERANCE) + rounding
    return (values, vectors) if is_complete else None


def _fixed_diagonal(values: Array, problem: ScatterProblem) -> Array:
    diagonal = problem.within_weight * values**2 + problem.norm_weight * values + problem.ridge
    if np.any(diagonal <= 0):
        if problem.norm_weight and values.min() < 0:
            raise IndefiniteKernelError(float(values.min()))
        raise SingularProblemError("The denominator is not positive definite.")
    return diagonal


def _cosines_and_sines(F: Array, S: Array, within_weight: float) -> tuple[Array, Array, Array]:
    """Factor F = Q T, with Q orthonormal and ``I - within_weight T T' = diag(sines^2)``.

    S satisfies ``within_weight F'F + S'S = I``, so both share right singular vectors. Sines near 0 are accurate only
    when taken from S, cosines near 0 only from F: each block of vectors is taken from the matrix in which it is small.
    """
    if within_weight == 0:
        Q, c, right = linalg.svd(F, full_matrices=False, check_finite=False)
        keep = c > 1e-14 * c.max(initial=0.0)
        return Q[:, keep], c[keep, None] * right[keep], np.ones(keep.sum())
    C = np.sqrt(within_weight) * F
    sines, right = linalg.svd(_qr_triangle(S, pivoting=False)[0], check_finite=False)[1:]
    sines = np.concatenate([sines, np.zeros(len(right) - len(sines))])  # S may have fewer rows than there are cells.
    small = sines <= 0.7
    rotated = product(C, right[small].T)
    c = np.linalg.norm(rotated, axis=0)
    Q = rotated / c
    if small.all():
        return Q, c[:, None] * right / np.sqrt(within_weight), sines
    rest = product(C, right[~small].T)
    rest -= product(Q, product(Q.T, rest))
    Q_rest, c_rest, rotation = linalg.svd(rest, full_matrices=False, check_finite=False)
    keep = c_rest > 1e-14 * max(c.max(initial=0.0), c_rest.max(initial=0.0))
    c_rest = c_rest[keep]
    Q = np.hstack([Q, Q_rest[:, keep]])
    right = np.vstack([right[small], rotation[keep] @ right[~small]])
    sines = np.concatenate([sines[small], np.sqrt((1 - np.minimum(c_rest, 1)) * (1 + c_rest))])
    T = np.concatenate([c, c_rest])[:, None] * right / np.sqrt(within_weight)
    return Q, T, sines


def _factor_denominator(whitened: WhitenedProblem, problem: ScatterProblem, counts: Ints) -> Array:
    """Return a factor J of the whitened denominator: ``A = J'J`` on the span of the cells."""
    if problem.norm_weight == 0 and whitened.sines.min(initial=1.0) < (1e-12 if problem.ridge else 1e-7):
        reason = "the ridge is below rounding errors" if problem.ridge else "the ridge is zero"
        raise SingularProblemError(f"Some directions have no scatter within cells, and {reason}.")
    penalties = [(weight, _indicator_contrast(contrast, counts)) for weight, contrast in problem.penalties if weight]
    rows = [np.sqrt(weight) * (whitened.cells @ contrast).T for weight, contrast in penalties]
    largest_penalty = max((np.abs(row).max(initial=0.0) for row in rows), default=0.0)
    if largest_penalty > MAX_PENALTY_RATIO * whitened.sines.min(initial=1.0):
        rows = [(whitened.cells @ _full_rank_contrast(penalties)).T]
    return np.vstack([*rows, np.diag(whitened.sines)])


def _full_rank_contrast(penalties: list[tuple[float, Array]]) -> Array:
    """Return one contrast for a weighted sum of scatters, with as many columns as its rank.

    Dependent columns are dependent up to rounding errors only, which a huge weight would amplify. So the independent
    columns of each contrast are kept, all expressed in one basis of their common span.
    """
    span, sizes, _ = linalg.svd(np.hstack([contrast for _, contrast in penalties]), full_matrices=False)
    span = span[:, sizes > RANK_TOLERANCE * sizes[0]]
    parts = []
    for weight, contrast in penalties:
        upper, pivots = _qr_triangle(contrast.T @ span)
        rank = np.count_nonzero(np.abs(np.diagonal(upper)) > RANK_TOLERANCE * abs(upper[0, 0]))
        part = np.empty((rank, len(pivots)))
        part[:, pivots] = np.sqrt(weight) * upper[:rank]
        parts.append(part)
    upper, pivots = _qr_triangle(np.vstack(parts))
    return span[:, pivots] @ upper.T


def _qr_triangle(J: Array, *, pivoting: bool = True) -> tuple[Array, Ints]:
    """Return R and p of the QR factorization of ``J[:, p]``, accurate row by row (Cox and Higham 1998).

    Rows are sorted by size, so that small rows keep their relative accuracy. Without pivoting p leaves the columns in
    place.
    """
    order = np.argsort(-np.abs(J).max(axis=1, initial=0.0), kind="stable")
    upper, *pivots = linalg.qr(J[order], mode="r", pivoting=pivoting, check_finite=False)
    return upper[: J.shape[1]], pivots[0] if pivoting else np.arange(J.shape[1])


def _inverse_square_root(J: Array) -> Array:
    """Return ``(J'J)^-1/2`` from the inverse of a triangle; its large entries come from small rows, so are accurate."""
    upper, pivots = _qr_triangle(J)
    left, singular, _ = linalg.svd(linalg.blas.dtrsm(1.0, upper, np.eye(len(upper))), check_finite=False)
    left[pivots] = left.copy()
    return (left * singular) @ left.T


def _indicator_contrast(contrast: Array, counts: Ints) -> Array:
    """Rewrite a contrast of cell means as a contrast of orthonormal cell indicators."""
    return contrast / np.sqrt(counts[counts > 0])[:, None]


def _component_sign(class_means: Array, cell_means: Array, coefficients: Array, largest_weight: float) -> float:
    noise = 1e-7 * np.abs(cell_means).max()
    candidates = [cell_means, coefficients]
    if np.abs(class_means).max() > noise:
        candidates.insert(0, class_means)
    if len(cell_means) == 1:  # A single cell has mean zero, up to rounding errors.
        candidates = [coefficients]
    for values in candidates:
        positive = values.max()
        negative = -values.min()
        if abs(positive - negative) > 1e-6 * max(positive, negative):
            return 1.0 if positive > negative else -1.0
    # The data are perfectly symmetric: the features decide or, without features, the order of the classes.
    return 1.0 if (largest_weight or class_means[0]) >= 0 else -1.0
