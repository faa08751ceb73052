"""Accuracy and stability of a fitted projection: residuals, completeness, and a jackknife over domains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, stats

from ..kernels import Kernel, check_square_memory
from ..linalg import (
    Array,
    Ints,
    Membership,
    ScatterProblem,
    Spectrum,
    WhitenedProblem,
    bound_component_errors,
    count_missing_eigenvalues,
    gram_spectrum,
    shrink_cell_means,
    spectral_residuals,
    spectrum_cell_gram,
    subtract_cell_noise,
)
from ._feature_space import check_gram
from ._projection import Projection, make_problem
from ._projection_problem import ProjectionProblem
from ._statistics import Statistics, feature_spectrum

MIN_JACKKNIFE_DOMAINS = 3


@dataclass(frozen=True)
class ProjectionCertificate:
    """Accuracy and stability of a fitted projection.

    Attributes
    ----------
    eigenvalues : ndarray of shape (n_components,)
        Eigenvalues of the fitted components.
    eigenvalue_errors : ndarray of shape (n_components,)
        Bounds on the relative errors of the eigenvalues, from the residuals; infinite without a ridge.
    component_errors : ndarray of shape (n_components,)
        Bounds on the sine of the angle between each component and the exact one (Davis and Kahan 1970); infinite where
        eigenvalues lie too close together to separate components.
    n_missing : int
        Number of larger eigenvalues that the fit missed, by Sylvester's law of inertia: 0 for a complete solution.
    domains : ndarray of shape (n_domains,)
        Names of the domains.
    jackknife_eigenvalues : ndarray of shape (n_domains, n_components)
        Eigenvalues without each domain; NaN where the others lack a class or have fewer components.
    intervals : ndarray of shape (n_components, 2)
        95% jackknife intervals of the eigenvalues, computed on a log scale; NaN with fewer than three domains.
    subspace_cosines : ndarray of shape (n_domains,)
        Smallest cosine between the fitted subspace and the one without each domain: 1 if they are equal, 0 if one of
        them has a direction that is orthogonal to the other.
    component_cosines : ndarray of shape (n_domains, n_components)
        Cosine between each component and the subspace without each domain. Its square is the share of the variance of
        the component on the training data that the components without the domain explain.
    """

    eigenvalues: Array
    eigenvalue_errors: Array
    component_errors: Array
    n_missing: int
    domains: Any
    jackknife_eigenvalues: Array
    intervals: Array
    subspace_cosines: Array
    component_cosines: Array

    @property
    def is_complete(self) -> bool:
        """Whether no larger eigenvalue was missed."""
        return self.n_missing == 0

    def summary(self) -> str:
        """Return a table of the components, and a sentence on the domain that changes the subspace most."""
        lines = ["component  eigenvalue  95% jackknife interval  relative error  angle (sine)"]
        rows = zip(self.eigenvalues, self.intervals, self.eigenvalue_errors, self.component_errors, strict=True)
        for number, (value, (low, high), error, sine) in enumerate(rows, 1):
            interval = "-" if np.isnan(low) else f"{low:.3g} to {high:.3g}"
            lines.append(f"{number:9d}  {value:10.3g}  {interval:>22}  {error:14.1e}  {sine:12.1e}")
        if self.is_complete:
            lines.append("No larger eigenvalue was missed.")
        else:
            lines.append(f"{self.n_missing} larger eigenvalues were missed.")
        if np.isfinite(self.subspace_cosines).any():
            worst = int(np.nanargmin(self.subspace_cosines))
            lines.append(
                f"The subspace changes most without {self.domains[worst]}: smallest cosine "
                f"{self.subspace_cosines[worst]:.3f}."
            )
        return "\n".join(lines)


def certify(
    projection: Projection, X: Any = None, y: Any = None, *, sample_domain: Any = None
) -> ProjectionCertificate:
    """Check the accuracy of a fitted projection, and how much it depends on single domains.

    The cost is that of one fit, plus O(cells^3) for each domain. The jackknife leaves the cells of a domain out of all
    scatters between cells; the scatter within cells stays that of all domains, times the share of samples that remain,
    and so do norm penalty and ridge.

    Parameters
    ----------
    projection : Projection
        A fitted projection, such as :class:`~unseen.CIDG`.
    X, y, sample_domain
        The training data, as for `fit`; not needed with `feature_map`, whose statistics the projection stores.

    Returns
    -------
    certificate : ProjectionCertificate
        Error bounds, completeness and jackknife results.

    Examples
    --------
    >>> from unseen import CIDG
    >>> from unseen.datasets import make_synthetic
    >>> from unseen.estimators import certify
    >>> data = make_synthetic(random_state=0)
    >>> cidg = CIDG().fit(data.data, data.target, sample_domain=data.domain)
    >>> certificate = certify(cidg, data.data, data.target, sample_domain=data.domain)
    >>> certificate.is_complete, bool(certificate.eigenvalue_errors.max() < 1e-8)
    (True, True)
    """
    projection.finalize()
    spectrum, counts, weights = _decompose(projection, X, y, sample_domain)
    problem = _make_symmetric_problem(projection, spectrum, counts)
    spectrum, coordinates = _to_eigenbasis(spectrum, weights, problem.ridge)
    spectrum, whitened = problem.whiten(spectrum)
    components = Components(projection.eigenvalues_, coordinates)
    return _certify_components(projection, problem, spectrum, whitened, components, projection.domains_)


def certify_spectrum(
    projection: Projection,
    spectrum: Spectrum,
    counts: Ints,
    domains: Any,
    callback: Callable[[], None] = lambda: None,
) -> ProjectionCertificate:
    """Return the certificate of the solution on a decomposition of the training data, without fitting the projection.

    Parameters
    ----------
    projection : Projection
        The parameters.
    spectrum : Spectrum
        A complete decomposition of the centered Gram matrix, without its lift.
    counts : ndarray of shape (n_domains, n_classes)
        Number of samples of each class in each domain.
    domains : array-like of shape (n_domains,)
        Names of the domains.
    callback : callable
        Called before each domain of the jackknife; it may raise, to stop the computation.

    Returns
    -------
    certificate : ProjectionCertificate
        As `certify` returns it for the fitted projection.
    """
    problem = _make_symmetric_problem(projection, spectrum, counts)
    if not problem.ridge:
        spectrum = replace(spectrum.without_null(), lift=None)
    spectrum, whitened = problem.whiten(spectrum)
    solution = problem.solve(spectrum, whitened).keep_leading(problem.max_components)
    components = Components(solution.eigenvalues, solution.coefficients)
    return _certify_components(projection, problem, spectrum, whitened, components, domains, callback)


class Components(NamedTuple):
    """Eigenvalues, and components of any length in the eigenbasis of the Gram matrix."""

    eigenvalues: Array
    coordinates: Array


def _make_symmetric_problem(projection: Projection, spectrum: Spectrum, counts: Ints) -> ProjectionProblem:
    problem = make_problem(projection, counts, float(np.linalg.norm(spectrum.values)))
    if not problem.scatter_problem.is_symmetric:
        raise ValueError(
            f"certify needs a symmetric eigenproblem; {type(projection).__name__} with as_published=True solves "
            "another one. Use as_published=False."
        )
    return problem


def _certify_components(
    projection: Projection,
    problem: ProjectionProblem,
    spectrum: Spectrum,
    whitened: WhitenedProblem,
    components: Components,
    domains: Any,
    callback: Callable[[], None] = lambda: None,
) -> ProjectionCertificate:
    """Return the certificate of components, from the result of `ProjectionProblem.whiten`."""
    counts = problem.counts
    corrected = problem.correct_cells(spectrum, whitened)
    eigenvalues, coordinates = components
    errors = spectral_residuals(spectrum, corrected, counts, eigenvalues, coordinates)
    component_errors = np.full(len(eigenvalues), np.inf)
    if np.isfinite(errors).all():
        component_errors = bound_component_errors(eigenvalues, errors)
    n_missing = count_missing_eigenvalues(eigenvalues, spectrum, whitened, corrected, counts)
    jackknife, component_cosines, subspace_cosines = _jackknife(
        projection, problem, spectrum, whitened, coordinates, callback
    )
    return ProjectionCertificate(
        eigenvalues=eigenvalues,
        eigenvalue_errors=errors,
        component_errors=component_errors,
        n_missing=n_missing,
        domains=domains,
        jackknife_eigenvalues=jackknife,
        intervals=_jackknife_intervals(eigenvalues, jackknife),
        subspace_cosines=subspace_cosines,
        component_cosines=component_cosines,
    )


def _decompose(projection: Projection, X: Any, y: Any, sample_domain: Any) -> tuple[Spectrum, Ints, Array]:
    """Return the spectrum of the training data, their table of counts, and the coefficients of the components."""
    if projection.feature_map is not None:
        cells = Statistics.from_arrays(projection.statistics_).cells
        return feature_spectrum(cells, type(projection).__name__), cells.counts, projection.coef_
    if X is None:
        raise ValueError(
            f"X is None, but {type(projection).__name__} was fitted without feature_map and stores no statistics. Pass "
            "the training data: certify(projection, X, y, sample_domain=...)."
        )
    X, classes, domains = projection._check_training_data(X, y, sample_domain, reset=False, is_complete=True)
    if len(X) != len(projection.dual_coef_):
        raise ValueError(
            f"X has {len(X)} samples, but the projection was fitted on {len(projection.dual_coef_)}. Pass the training "
            "data."
        )
    check_square_memory(X.shape[0], copies=3, caller="certify")
    if projection.kernel == "precomputed":
        check_gram(X)
    kernel = Kernel.from_estimator(projection, gamma=projection.gamma_).resolve(X)
    K = kernel.evaluate_for_centering(X)
    centered = kernel.center(K, type(projection).__name__)
    membership = Membership.from_codes(classes.codes, domains.codes)
    spectrum = gram_spectrum(K, membership, precision=centered.precision)
    return spectrum, membership.counts, projection.dual_coef_


def _to_eigenbasis(spectrum: Spectrum, weights: Array, ridge: float) -> tuple[Spectrum, Array]:
    """Return the spectrum without its lift, and the components in its eigenbasis."""
    if not ridge:
        spectrum = spectrum.without_null()
    return replace(spectrum, lift=None), spectrum.to_coordinates(weights)


def _jackknife(
    projection: Projection,
    problem: ProjectionProblem,
    spectrum: Spectrum,
    whitened: WhitenedProblem,
    coordinates: Array,
    callback: Callable[[], None],
) -> tuple[Array, Array, Array]:
    """Return the eigenvalues without each domain, and the cosines of components and subspaces."""
    counts = problem.counts
    n_components = coordinates.shape[1]
    eigenvalues = np.full((len(counts), n_components), np.nan)
    component_cosines = np.full((len(counts), n_components), np.nan)
    subspace_cosines = np.full(len(counts), np.nan)
    if len(counts) < MIN_JACKKNIFE_DOMAINS:
        return eigenvalues, component_cosines, subspace_cosines
    # Values of the components on the training data, in the eigenbasis.
    scores = spectrum.values[:, None] * coordinates
    directions = scores / np.linalg.norm(scores, axis=0)
    full = linalg.orth(scores)
    for s in range(len(counts)):
        callback()
        others = np.delete(counts, s, axis=0)
        if not others.any(axis=0).all():
            continue
        kept = np.nonzero(counts)[0] != s
        scatters = replace(make_problem(projection, others, 0.0).scatter_problem, ridge=problem.ridge)
        scatters = _correct_without_domain(scatters, problem, spectrum, whitened, kept)
        scatters = _divide_weights(scatters, others.sum() / counts.sum())
        solution = problem.solver(spectrum, whitened, scatters, counts, n_components).keep_leading(n_components)
        if len(solution.eigenvalues) < n_components:
            continue
        eigenvalues[s] = solution.eigenvalues
        subspace = linalg.orth(spectrum.values[:, None] * solution.coefficients)
        component_cosines[s] = np.linalg.norm(subspace.T @ directions, axis=0)
        subspace_cosines[s] = linalg.svdvals(full.T @ subspace).min()
    return eigenvalues, component_cosines, subspace_cosines


def _correct_without_domain(
    scatters: ScatterProblem, problem: ProjectionProblem, spectrum: Spectrum, whitened: WhitenedProblem, kept: Any
) -> ScatterProblem:
    """Return the scatters of the remaining domains on the table of all cells, corrected as those of all domains are.

    The variance within cells is estimated from all domains.
    """
    counts = problem.counts
    if scatters.cell_correction == "shrink":
        cell_gram, total = spectrum_cell_gram(spectrum)
        remaining = cell_gram[np.ix_(kept, kept)]
        sizes = counts[counts > 0]
        within = (total - np.trace(cell_gram)) / (sizes.sum() - len(sizes))
        total_remaining = float(np.trace(remaining) + within * (sizes[kept].sum() - kept.sum()))
        others = np.delete(counts, np.nonzero(counts)[0][~kept][0], axis=0)
        return _restore_cells(shrink_cell_means(scatters, others, remaining, total_remaining), kept)
    restored = _restore_cells(scatters, kept)
    if scatters.cell_correction == "unbiased":
        return subtract_cell_noise(restored, whitened, counts)
    return restored


def _divide_weights(problem: ScatterProblem, share: float) -> ScatterProblem:
    """Return an eigenproblem with the eigenvalues that multiplying the rest of the denominator by `share` gives."""
    return replace(
        problem,
        numerator=problem.numerator / np.sqrt(share),
        total_weight=problem.total_weight / share,
        penalties=tuple((weight / share, contrast) for weight, contrast in problem.penalties),
    )


def _restore_cells(problem: ScatterProblem, kept: Any) -> ScatterProblem:
    """Return the eigenproblem on the table of all cells, in which absent ones have a weight of zero."""

    def restore(contrast: Array) -> Array:
        full = np.zeros((len(kept), contrast.shape[1]))
        full[kept] = contrast
        return full

    penalties = tuple((weight, restore(contrast)) for weight, contrast in problem.penalties)
    return replace(problem, numerator=restore(problem.numerator), penalties=penalties)


def _jackknife_intervals(eigenvalues: Array, jackknife: Array) -> Array:
    """Return 95% intervals of eigenvalues from their jackknife variance on a log scale (Efron and Stein 1981)."""
    complete = jackknife[np.isfinite(jackknife).all(axis=1)]
    m = len(complete)
    if m < MIN_JACKKNIFE_DOMAINS:
        return np.full((len(eigenvalues), 2), np.nan)
    logs = np.log(complete)
    errors = np.sqrt((m - 1) / m * np.square(logs - logs.mean(axis=0)).sum(axis=0))
    margins = stats.t.ppf(0.975, m - 1) * errors
    return np.column_stack([eigenvalues * np.exp(-margins), eigenvalues * np.exp(margins)])
