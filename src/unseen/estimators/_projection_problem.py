"""The eigenproblem of a projection: choice of the solver, checks of its accuracy, and the final components."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

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
    gram_spectrum,
    krylov_spectra,
    product,
    residuals,
    solve,
    solve_with_total,
    whiten,
)

MAX_EIGH_ROWS = 500  # Up to this size an eigendecomposition is cheap enough to be preferred for its accuracy.
MIN_KRYLOV_RIDGE = 1e-8  # relative to the denominator; a smaller ridge needs large Krylov spaces
EIGENVALUE_ACCURACY = 1e-9  # relative, of a solution in a Krylov space
COMPONENT_ACCURACY = 1e-7  # sine of the angle to the exact component, of a solution in a Krylov space
EPS = float(np.finfo(float).eps)


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
    max_components : int or None
        Number of components to keep; None keeps all.
    estimator : Projection
        The estimator, whose parameters error messages state.
    """

    scatter_problem: ScatterProblem
    counts: Ints
    invariance: float
    max_components: int | None
    estimator: Any

    @property
    def name(self) -> str:
        """The name of the method."""
        return type(self.estimator).__name__

    @property
    def ridge(self) -> float:
        """The ridge as a number."""
        return self.scatter_problem.ridge

    def whiten(self, spectrum: Spectrum) -> tuple[Spectrum, WhitenedProblem]:
        """Reduce the eigenproblem to cell space; the result does not depend on the weights of the penalties.

        Returns the part of the spectrum in which the data vary, and the reduced problem.
        """
        with self._explain_singularity():
            varying = spectrum.without_negative_rounding() if self.scatter_problem.norm_weight else spectrum
            if not self.ridge:
                varying = varying.without_null()
            return varying, whiten(varying, self.scatter_problem)

    def solve(self, varying: Spectrum, whitened: WhitenedProblem, n_more: int = 0) -> Solution:
        """Return all components, from the result of `whiten`; with the total scatter, `n_more` than are kept."""
        problem = self.scatter_problem
        with self._explain_singularity():
            if problem.is_low_rank:
                return solve(whitened, problem, self.counts)
            n_components = len(varying.values) if self.max_components is None else self.max_components + n_more
            return solve_with_total(varying, whitened, problem, self.counts, n_components)

    def solve_spectrum(self, spectrum: Spectrum) -> tuple[Solution, Array]:
        """Return all components, from a complete spectrum, and bounds on the relative errors of their eigenvalues."""
        varying, whitened = self.whiten(spectrum)
        solution = self.solve(varying, whitened)
        kept = solution.keep_leading(self.max_components)
        in_eigenbasis = replace(kept, coefficients=varying.to_coordinates(kept.coefficients))
        with np.errstate(over="ignore", invalid="ignore"):  # Weights of 1e300 overflow; there is no bound then.
            errors = residuals(
                lambda B: varying.values[:, None] * B, varying.cells.T, self.counts, self.scatter_problem, in_eigenbasis
            )
        return solution, np.where(np.isnan(errors), np.inf, errors)

    def solve_gram(self, K: Array, centered: CenteredKernel, membership: Membership) -> tuple[Solution, Array]:
        """Return the result of `solve_spectrum` for a centered kernel matrix, which is overwritten."""
        problem = self.scatter_problem
        denominator_norm = problem.within_weight * centered.size**2 + problem.norm_weight * centered.size
        if len(K) > MAX_EIGH_ROWS and self.ridge > MIN_KRYLOV_RIDGE * denominator_norm:
            accurate = self._solve_in_krylov_spaces(K, membership, centered.precision)
            if accurate is not None:
                return accurate
        return self.solve_spectrum(gram_spectrum(K, membership, precision=centered.precision))

    def select_components(self, solution: Solution, X: Any = None) -> Solution:
        """Keep the requested components, and fix their scale and sign; `X` are the samples that they weigh, if any."""
        n_available = len(solution.eigenvalues)
        requested = self.estimator.n_components
        if requested is not None and requested > n_available:
            warn(
                f"n_components={requested}, but only {n_available} carry information and are kept: the "
                f"numerator of {self.name} has numerical rank {n_available} on these data, and further "
                "components would be amplified noise.",
                FewerComponentsWarning,
            )
        leading = solution.keep_leading(self.max_components)
        return leading.scale(self.estimator.scaling).orient(self.counts, X)

    def _solve_in_krylov_spaces(
        self, K: Array, membership: Membership, precision: float
    ) -> tuple[Solution, Array] | None:
        """Solve in the smallest Krylov space that is accurate enough; None if no small space is."""
        n_components = self.max_components
        problem = self.scatter_problem
        n_random = 0 if problem.is_low_rank else n_components or len(K)
        for spectrum in krylov_spectra(K, membership, n_random, precision):
            # The residuals do not show that a denominator is indefinite.
            if problem.norm_weight and spectrum.values.min() < -spectrum.rounding:
                return None
            # One component more than requested: the gap to the next eigenvalue bounds the error of the last one.
            solution = self.solve(*self.whiten(spectrum), n_more=1)
            errors = residuals(lambda B: product(K, B), membership.indicators, self.counts, problem, solution)
            if errors[:n_components].max(initial=0.0) < EIGENVALUE_ACCURACY and self._are_accurate(solution, errors):
                return solution, errors[:n_components]
            if not self._are_accurate(solution, np.full(len(errors), EPS)):
                return None  # Even the smallest possible residuals would not be enough.
        return None

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
            weight = self.scatter_problem.norm_weight
            raise ValueError(
                f"kernel={self.estimator.kernel!r} is not positive semi-definite on X: its centered matrix has the "
                f"eigenvalue {error.smallest:.3g}. The norm penalty of {self.name} (weight {weight:g}) is then "
                f"negative in some directions, and ridge={self.estimator.ridge!r}, a value of {self.ridge:.3g}, does "
                'not outweigh it there. Use a positive semi-definite kernel such as "rbf", a ridge above '
                f"{-weight * error.smallest:.3g}, or a method without that penalty."
            ) from error
        except SingularProblemError as error:
            raise ValueError(
                f"The generalized eigenproblem of {self.name} is singular with ridge="
                f"{self.estimator.ridge!r}: {error} Set ridge to a larger positive number; it is on the scale of the "
                "squared eigenvalues of the kernel matrix."
            ) from error
