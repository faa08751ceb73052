"""The eigenproblem of a projection: choice of the solver, checks of its accuracy, and the final components."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ..exceptions import FewerComponentsWarning, warn
from ..kernels import CenteredKernel
from ..linalg import (
    Array,
    IndefiniteKernelError,
    Ints,
    Membership,
    ScatterProblem,
    SingularProblemError,
    Solution,
    Spectrum,
    WhitenedProblem,
    bound_component_errors,
    count_missing_eigenvalues,
    gram_spectrum,
    is_cholesky_accurate,
    krylov_spectra,
    residuals,
    solve,
    solve_with_total,
    spectral_residuals,
    whiten_by_cholesky,
    whiten_by_eigh,
)

MAX_EIGH_ROWS = 500  # Up to this size an eigendecomposition is cheap enough to be preferred for its accuracy.
MIN_KRYLOV_ROWS_PER_CELL = 150  # From this ratio on a Krylov space is small compared with the kernel matrix.
MIN_KRYLOV_RIDGE = 1e-5  # relative to the denominator; a smaller ridge needs large Krylov spaces
EIGENVALUE_ACCURACY = 1e-9  # relative, of a solution in a Krylov space
COMPONENT_ACCURACY = 1e-7  # sine of the angle to the exact component, of solutions without an eigendecomposition
EPS = float(np.finfo(float).eps)

# Solves a reduced eigenproblem: spectrum, whitened problem, scatter problem, counts, number of components or None.
ReducedSolver = Callable[[Spectrum, WhitenedProblem, ScatterProblem, Ints, int | None], Solution]


def solve_reduced(
    spectrum: Spectrum, whitened: WhitenedProblem, problem: ScatterProblem, counts: Ints, n_components: int | None
) -> Solution:
    """Solve a symmetric eigenproblem after its reduction to cell space."""
    if problem.total_weight:
        return solve_with_total(spectrum, whitened, problem, counts, n_components or len(spectrum.values))
    return solve(whitened, problem, counts)


class CheckedSolution(NamedTuple):
    """All components, and the accuracy of those that are kept.

    Attributes
    ----------
    solution : Solution
        All components.
    residual : ndarray of shape (n_kept,)
        Bounds on the relative errors of the eigenvalues that are kept; NaN for an eigenproblem that is not symmetric.
    is_complete : bool or None
        Whether no larger eigenvalue was missed; None if this is not known.
    """

    solution: Solution
    residual: Array
    is_complete: bool | None


@dataclass(frozen=True)
class ProjectionProblem:
    """The eigenproblem of a projection for a table of counts, with all parameters resolved to numbers.

    Attributes
    ----------
    scatter_problem : ScatterProblem
        The scatters of the numerator and the denominator, and the ridge.
    counts : ndarray of shape (n_domains, n_classes)
        Number of samples of each class in each domain.
    invariance : float
        Sum of the weights of the terms that penalize differences between domains.
    n_components : int or None
        Number of components that the user requested.
    default_components : int or None
        Number of components if `n_components` is None; None keeps all.
    scaling : {"paper", "unit_norm"}
        Length of the components.
    solver : callable
        Solves the reduced eigenproblem.
    estimator : Projection
        The estimator, whose parameters error messages state.
    """

    scatter_problem: ScatterProblem
    counts: Ints
    invariance: float
    n_components: int | None
    default_components: int | None
    scaling: Literal["paper", "unit_norm"]
    solver: ReducedSolver
    estimator: Any

    @property
    def name(self) -> str:
        """The name of the method."""
        return type(self.estimator).__name__

    @property
    def ridge(self) -> float:
        """The ridge as a number."""
        return self.scatter_problem.ridge

    @property
    def max_components(self) -> int | None:
        """Number of components to keep; None keeps all."""
        return self.default_components if self.n_components is None else self.n_components

    def whiten(self, spectrum: Spectrum) -> tuple[Spectrum, WhitenedProblem]:
        """Reduce the eigenproblem to cell space; the result does not depend on the weights of the penalties.

        Returns the part of the spectrum in which the data vary, and the reduced problem.
        """
        with self._explain_singularity():
            varying = spectrum.without_negative_rounding() if self.scatter_problem.norm_weight else spectrum
            if not self.ridge:
                varying = varying.without_null()
            return varying, whiten_by_eigh(varying, self.scatter_problem)

    def solve(self, varying: Spectrum, whitened: WhitenedProblem) -> Solution:
        """Return all components, from the result of `whiten`; the spectrum must be complete."""
        with self._explain_singularity():
            return self.solver(varying, whitened, self.scatter_problem, self.counts, self.max_components)

    def solve_spectrum(self, spectrum: Spectrum) -> CheckedSolution:
        """Return all components, from a complete spectrum."""
        varying, whitened = self.whiten(spectrum)
        solution = self.solve(varying, whitened)
        kept = solution.keep_leading(self.max_components)
        problem = self.scatter_problem
        if not problem.is_symmetric:
            return CheckedSolution(solution, np.full(len(kept.eigenvalues), np.nan), None)
        in_eigenbasis = replace(kept, coefficients=varying.to_coordinates(kept.coefficients))
        with np.errstate(over="ignore", invalid="ignore"):  # Weights of 1e300 overflow; there is no bound then.
            errors = spectral_residuals(varying, self.counts, problem, in_eigenbasis)
        is_complete = self._is_complete(kept, varying, whitened)
        return CheckedSolution(solution, np.where(np.isnan(errors), np.inf, errors), is_complete)

    def solve_gram(self, K: Array, centered: CenteredKernel, membership: Membership) -> CheckedSolution:
        """Return all components, from a centered kernel matrix, which is overwritten."""
        problem = self.scatter_problem
        solution = None
        if len(K) > MAX_EIGH_ROWS and problem.is_symmetric and self.ridge:
            n_cells = np.count_nonzero(self.counts)
            denominator_norm = problem.within_weight * centered.size**2 + problem.norm_weight * centered.size
            # Krylov spaces are faster than a Cholesky factorization if they stay small, which takes a large ridge.
            has_small_space = (
                MIN_KRYLOV_ROWS_PER_CELL * n_cells < len(K) and self.ridge > MIN_KRYLOV_RIDGE * denominator_norm
            )
            if problem.total_weight or has_small_space:
                solution = self._solve_in_krylov_spaces(K, membership, centered.precision)
            if solution is None and is_cholesky_accurate(problem, centered.size):
                error = EPS * denominator_norm / self.ridge
                solution = self._solve_by_cholesky(K, membership, centered.precision, error)
        if solution is None:
            solution = self.solve_spectrum(gram_spectrum(K, membership, precision=centered.precision))
        return solution

    def select_components(self, solution: Solution, X: Any = None) -> Solution:
        """Keep the requested components, and fix their scale and sign; `X` are the samples that they weigh, if any."""
        n_available = len(solution.eigenvalues)
        if self.n_components is not None and self.n_components > n_available:
            warn(
                f"n_components={self.n_components}, but only {n_available} carry information and are kept: the "
                f"numerator of {self.name} has numerical rank {n_available} on these data, and further "
                "components would be amplified noise.",
                FewerComponentsWarning,
            )
        leading = solution.keep_leading(self.max_components)
        return leading.scale(self.scaling).orient(self.counts, X)

    def _solve_by_cholesky(
        self, K: Array, membership: Membership, precision: float, error: float
    ) -> CheckedSolution | None:
        """Solve by a Cholesky factorization; None if eigenvalues of this relative `error` are not accurate enough."""
        whitened = whiten_by_cholesky(K, membership, self.scatter_problem, precision)
        if whitened is None:
            return None
        solution = solve(whitened, self.scatter_problem, self.counts)
        if not self._are_accurate(solution, np.full(len(solution.eigenvalues), error)):
            return None
        kept = solution.keep_leading(self.max_components)
        is_complete = self._is_complete(kept, None, whitened)
        return CheckedSolution(solution, residuals(K, membership, self.scatter_problem, kept), is_complete)

    def _solve_in_krylov_spaces(self, K: Array, membership: Membership, precision: float) -> CheckedSolution | None:
        """Solve in the smallest Krylov space that is accurate enough; None if no small space is."""
        n_components = self.max_components
        problem = self.scatter_problem
        n_random = (n_components or len(K)) if problem.total_weight else 0
        for spectrum in krylov_spectra(K, membership, n_random, precision):
            # The residuals do not show that a denominator is indefinite.
            if problem.norm_weight and spectrum.values.min() < -spectrum.rounding:
                return None
            varying, whitened = self.whiten(spectrum)
            if problem.total_weight and n_components is not None:
                # One component more than requested: the gap to the next eigenvalue bounds the error of the last one.
                solution = solve_with_total(varying, whitened, problem, self.counts, n_components + 1)
            else:
                solution = self.solve(varying, whitened)
            errors = residuals(K, membership, problem, solution)
            if errors[:n_components].max(initial=0.0) < EIGENVALUE_ACCURACY and self._are_accurate(solution, errors):
                # A count in a subspace proves nothing, but contrasts of class means have at most C - 1 eigenvalues.
                has_all = problem.is_low_rank and len(solution.eigenvalues) == self.counts.shape[1] - 1
                return CheckedSolution(solution, errors[:n_components], True if has_all else None)
            if not self._are_accurate(solution, np.full(len(errors), EPS)):
                return None  # Even the smallest possible residuals would not be enough.
        return None

    def _is_complete(self, kept: Solution, varying: Spectrum | None, whitened: WhitenedProblem) -> bool | None:
        """Whether no eigenvalue larger than the smallest one kept was missed; None if numbers overflow."""
        with np.errstate(over="raise", invalid="raise"):
            try:
                n_missing = count_missing_eigenvalues(
                    kept.eigenvalues, varying, whitened, self.scatter_problem, self.counts
                )
            except FloatingPointError:
                return None
        return n_missing == 0

    def _are_accurate(self, solution: Solution, errors: Array) -> bool:
        """Whether components are accurate enough if eigenvalues have these relative errors."""
        bounds = bound_component_errors(solution.eigenvalues, errors)[: self.max_components]
        return bool(bounds.max(initial=0.0) < COMPONENT_ACCURACY)

    @contextmanager
    def _explain_singularity(self) -> Iterator[None]:
        """Turn errors of the solver into errors that name the parameters of the estimator."""
        try:
            yield
        except IndefiniteKernelError as error:
            raise ValueError(self._indefinite_kernel_message(error.smallest)) from error
        except SingularProblemError as error:
            raise ValueError(
                f"The generalized eigenproblem of {self.name} is singular with ridge="
                f"{self.estimator.ridge!r}: {error} Set ridge to a larger positive number; it is on the scale of the "
                "squared eigenvalues of the kernel matrix."
            ) from error

    def _indefinite_kernel_message(self, smallest: float) -> str:
        """Explain why a norm penalty requires a positive semi-definite kernel, and what to do."""
        estimator = self.estimator
        weight = ""
        advice = ""
        if hasattr(estimator, "norm_weight"):
            weight = f" (norm_weight={estimator.norm_weight!r})"
            advice = ", or norm_weight=0"
        min_ridge = -self.scatter_problem.norm_weight * smallest
        return (
            f"kernel={estimator.kernel!r} is not positive semi-definite on X: its centered matrix has the eigenvalue "
            f"{smallest:.3g}. The norm penalty of {self.name}{weight} is then negative in some directions, and "
            f"ridge={estimator.ridge!r}, a value of {self.ridge:.3g}, does not outweigh it there. Use a positive "
            f'semi-definite kernel such as "rbf", or a ridge above {min_ridge:.3g}{advice}.'
        )
