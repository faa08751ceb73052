r"""Selection of weights and ridge by the gradient of the held-out log loss, instead of a grid.

With :math:`N b_k = g_k A b_k` and :math:`B^\top A B = I`, a change :math:`dA` of the denominator changes the components
by

.. math:: db_k = -\tfrac12 S_{kk} b_k + \sum_{j \ne k} \frac{g_k S_{jk}}{g_j - g_k} b_j - (A^{-1} dA - B S)_k,
          \qquad S = B^\top dA B,

where the last term belongs to the directions in which the numerator is zero. A weight changes A by a scatter of cell
means, the ridge by a multiple of the identity, so that all products are of the size of the table of cells. The logistic
regression on the components is differentiated through its optimality condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, optimize

from ..estimators import Projection, invariance_weights, make_problem
from ..linalg import Array, Ints, Solution, Spectrum, WhitenedProblem, apply_inverse
from ..utils.samples import Samples
from ._candidate import clone_with_params
from ._decompositions import Decomposition, KernelBasis
from ._split_evaluation import FeatureStage
from ._validation import Split

START_MULTIPLES = (1.0, 100.0)  # of the unit of each weight; every weight and the ridge start there together
WEIGHT_BOUNDS = (1e-4, 1e6)  # multiples of the unit of a weight
RIDGE_BOUNDS = (1e-6, 1e4)  # multiples of the unit of the ridge
MAX_ITERATIONS = 25
PENALTY = 1.0  # of the squared coefficients of the logistic regression, as in scikit-learn's default
INTERCEPT_PENALTY = 1e-8  # makes the Hessian of the softmax regression regular
MAX_NEWTON_STEPS = 50
NEWTON_TOLERANCE = 1e-8  # decrease of the objective, relative to it
EQUAL_EIGENVALUES = 1e-10  # relative difference below which two components count as one subspace


def optimize_settings(
    projection: Projection, samples: Samples, splits: Sequence[Split], kernels: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return, for each kernel, the weights and the ridge with the smallest held-out log loss.

    Parameters
    ----------
    projection : Projection
        The projection, with a low-rank numerator and without cell correction.
    samples : Samples
        Samples, classes and domains.
    splits : sequence of (train, test)
        Rows of the splits over whose held-out samples the log loss is averaged.
    kernels : sequence of dict
        Parameters of each kernel; its weights are optimized separately.

    Returns
    -------
    settings : list of dict
        The kernel parameters, with optimized weights and ridge.
    """
    names = (*invariance_weights(projection), "ridge")
    _check_supported(projection, samples)
    stage = FeatureStage(samples)
    settings = []
    for kernel in kernels:
        base = clone_with_params(projection, kernel)
        objectives = [
            SplitObjective(stage.source(base).decompose(train, test), samples.codes[train], samples.codes[test])
            for train, test in splits
        ]
        multiples = _minimize(base, names, objectives)
        settings.append({**kernel, **_to_params(base, names, multiples)})
    return settings


def _check_supported(projection: Projection, samples: Samples) -> None:
    counts = samples.counts()
    problem = make_problem(projection, counts[counts.sum(axis=1) > 0], 1.0).scatter_problem
    if not problem.is_low_rank or problem.cell_correction != "none":
        raise ValueError(
            f'optimizer="gradient" needs a projection with a low-rank numerator and cell_correction="none"; got '
            f'{projection!r}. Use CIDG, KFDA, MDA or supervised DICA, or optimizer="grid".'
        )


def _minimize(projection: Projection, names: Sequence[str], objectives: Sequence[SplitObjective]) -> Array:
    """Return the multiples of the units of all parameters with the smallest mean loss, from several starts."""

    def mean_loss(logs: Array) -> tuple[float, Array]:
        params = _to_params(projection, names, np.exp(logs))
        setting = clone_with_params(projection, params)
        results = [objective.evaluate(setting, names) for objective in objectives]
        return float(np.mean([loss for loss, _ in results])), np.mean([slope for _, slope in results], axis=0)

    bounds = [np.log(RIDGE_BOUNDS if name == "ridge" else WEIGHT_BOUNDS) for name in names]
    best = None
    for multiple in START_MULTIPLES:
        start = np.full(len(names), np.log(multiple))
        result = optimize.minimize(
            mean_loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": MAX_ITERATIONS}
        )
        if best is None or result.fun < best.fun:
            best = result
    assert best is not None  # There is at least one start.
    return np.exp(best.x)


def _to_params(projection: Projection, names: Sequence[str], multiples: Array) -> dict[str, Any]:
    """Return parameters from multiples of their units: "scale" where the parameter has that unit, else 1."""
    return {
        name: f"{multiple:.9g}*scale" if isinstance(getattr(projection, name), str) else float(multiple)
        for name, multiple in zip(names, multiples, strict=True)
    }


@dataclass(frozen=True)
class SplitObjective:
    """The log loss on the held-out samples of one split, and its derivatives.

    Attributes
    ----------
    decomposition : Decomposition
        The decomposed training samples.
    train_codes, test_codes : ndarrays of int
        Classes of the training and of the held-out samples.
    """

    decomposition: Decomposition
    train_codes: Ints
    test_codes: Ints

    def evaluate(self, projection: Projection, names: Sequence[str]) -> tuple[float, Array]:
        """Return the loss, and its derivatives with respect to the logarithms of parameters."""
        decomposition = self.decomposition
        problem = make_problem(projection, decomposition.counts, decomposition.size)
        varying, whitened = problem.whiten(decomposition.spectrum)
        solution = problem.solve(varying, whitened)
        n_components = min(problem.max_components or len(solution.eigenvalues), len(solution.eigenvalues))
        slopes = ComponentSlopes(varying, whitened, solution, n_components)
        features = decomposition.combine(solution.coefficients[:, :n_components])
        head = LogisticHead.fit(features, self.train_codes, self.test_codes)
        gradient = []
        for name in names:
            direction = self._change_of_denominator(projection, name)
            coefficients = slopes.differentiate(problem.scatter_problem, decomposition.counts, direction)
            gradient.append(head.differentiate(decomposition.combine(coefficients)))
        return head.loss, np.array(gradient)

    def _change_of_denominator(self, projection: Projection, name: str) -> Callable[[Spectrum, Array], Array]:
        """Return the derivative of A with respect to the logarithm of a parameter, as a function of components."""
        counts = self.decomposition.counts
        problem = make_problem(projection, counts, self.decomposition.size).scatter_problem
        if name == "ridge":
            return lambda spectrum, B: problem.ridge * B
        without = make_problem(clone_with_params(projection, {name: 0.0}), counts, self.decomposition.size)
        root_sizes = np.sqrt(counts[counts > 0])[:, None]
        # Weights of penalties are linear in the parameter.
        changes = [
            (weight - base, contrast / root_sizes)
            for (weight, contrast), (base, _) in zip(problem.penalties, without.scatter_problem.penalties, strict=True)
            if weight != base
        ]

        def apply(spectrum: Spectrum, B: Array) -> Array:
            cells = spectrum.cells.T @ (spectrum.values[:, None] * B)
            total = np.zeros_like(cells)
            for weight, W in changes:
                total += weight * (W @ (W.T @ cells))
            return spectrum.values[:, None] * (spectrum.cells @ total)

        return apply


@dataclass(frozen=True)
class ComponentSlopes:
    """Derivatives of components with respect to changes of the denominator."""

    spectrum: Spectrum
    whitened: WhitenedProblem
    solution: Solution
    n_components: int

    def differentiate(self, problem: Any, counts: Ints, change: Callable[[Spectrum, Array], Array]) -> Array:
        """Return the derivatives of the leading components, in the eigenbasis of the Gram matrix."""
        B = self.solution.coefficients
        g = self.solution.eigenvalues
        leading = B[:, : self.n_components]
        changed = change(self.spectrum, leading)
        S = B.T @ changed
        gaps = g[:, None] - g[: self.n_components]
        is_equal = np.abs(gaps) <= EQUAL_EIGENVALUES * g[0]
        mixing = np.where(is_equal, 0.0, g[: self.n_components] * S / np.where(is_equal, 1.0, gaps))
        diagonal = np.arange(self.n_components)
        mixing[diagonal, diagonal] = -0.5 * S[diagonal, diagonal]
        outside, _ = apply_inverse(self.spectrum, self.whitened, problem, counts, changed)
        return B @ mixing - (outside - B @ S)


@dataclass(frozen=True)
class LogisticHead:
    """A softmax regression on standardized components, with its loss on held-out samples and its derivatives."""

    train: Array
    test: Array
    scale: Array
    coefficients: Array
    errors: Array
    test_errors: Array
    probabilities: Array
    adjoint: Array
    is_known: Any
    loss: float

    @classmethod
    def fit(cls, features: KernelBasis, train_codes: Ints, test_codes: Ints) -> LogisticHead:
        """Fit the regression; held-out samples of classes without training samples do not count."""
        classes = np.unique(train_codes)
        is_known = np.isin(test_codes, classes)
        test_features = (features.test - features.offset)[is_known]
        scale = features.train.std(axis=0)
        mean = features.train.mean(axis=0)
        train = _add_intercept((features.train - mean) / scale)
        test = _add_intercept((test_features - mean) / scale)
        Y = (train_codes[:, None] == classes).astype(float)
        Y_test = (test_codes[is_known, None] == classes).astype(float)
        coefficients = _fit_softmax(train, Y)
        P = _softmax(train @ coefficients)
        P_test = _softmax(test @ coefficients)
        test_errors = (P_test - Y_test) / max(len(Y_test), 1)
        hessian = _softmax_hessian(train, P)
        adjoint = linalg.solve(hessian, (test.T @ test_errors).ravel(), assume_a="pos").reshape(coefficients.shape)
        loss = -float(np.sum(Y_test * np.log(np.maximum(P_test, np.finfo(float).tiny)))) / max(len(Y_test), 1)
        return cls(train, test, scale, coefficients, P - Y, test_errors, P, adjoint, is_known, loss)

    def differentiate(self, changed: KernelBasis) -> float:
        """Return the derivative of the loss for derivatives of the features."""
        d_mean = changed.train.mean(axis=0)
        d_train = changed.train - d_mean
        d_test = (changed.test - changed.offset)[self.is_known] - d_mean
        # The derivative of a standard deviation, relative to it.
        standardized = self.train[:, :-1]
        d_scale = np.mean(standardized * d_train, axis=0) / self.scale
        d_train = d_train / self.scale - standardized * d_scale
        d_test = d_test / self.scale - self.test[:, :-1] * d_scale
        weights = self.coefficients[:-1]
        d_scores = d_train @ weights
        P = self.probabilities
        d_probabilities = P * (d_scores - np.sum(P * d_scores, axis=1, keepdims=True))
        d_gradient = self.train.T @ d_probabilities
        d_gradient[:-1] += d_train.T @ self.errors
        return float(np.sum(self.test_errors * (d_test @ weights)) - np.sum(self.adjoint * d_gradient))


def _add_intercept(X: Array) -> Array:
    return np.column_stack([X, np.ones(len(X))])


def _softmax(scores: Array) -> Array:
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def _penalties(n_features: int, n_classes: int) -> Array:
    penalties = np.full((n_features, n_classes), PENALTY)
    penalties[-1] = INTERCEPT_PENALTY
    return penalties


def _fit_softmax(X: Array, Y: Array) -> Array:
    """Fit a softmax regression with a squared penalty by Newton's method with step halving."""
    penalties = _penalties(X.shape[1], Y.shape[1])

    def objective(coefficients: Array) -> float:
        scores = X @ coefficients
        peak = scores.max(axis=1)
        log_sums = peak + np.log(np.exp(scores - peak[:, None]).sum(axis=1))
        return float(np.sum(log_sums) - np.sum(Y * scores) + 0.5 * np.sum(penalties * coefficients**2))

    coefficients = np.zeros(penalties.shape)
    value = objective(coefficients)
    for _ in range(MAX_NEWTON_STEPS):
        P = _softmax(X @ coefficients)
        gradient = X.T @ (P - Y) + penalties * coefficients
        step = linalg.solve(_softmax_hessian(X, P), gradient.ravel(), assume_a="pos").reshape(gradient.shape)
        decrease = float(np.sum(gradient * step))
        if decrease < NEWTON_TOLERANCE * (1 + abs(value)):
            # Convergence is quadratic here: one more step is as accurate as the derivatives of the optimum need.
            return coefficients - step
        length = 1.0
        while objective(coefficients - length * step) > value - 1e-4 * length * decrease and length > 1e-6:
            length /= 2
        coefficients = coefficients - length * step
        value = objective(coefficients)
    return coefficients


def _softmax_hessian(X: Array, P: Array) -> Array:
    """Return the Hessian of the penalized softmax regression, with coefficients in row-major order."""
    n_features, n_classes = X.shape[1], P.shape[1]
    blocks = np.zeros((n_features, n_classes, n_features, n_classes))
    for a in range(n_classes):
        for b in range(a, n_classes):
            weights = P[:, a] * ((a == b) - P[:, b])
            block = X.T @ (weights[:, None] * X)
            blocks[:, a, :, b] = block
            blocks[:, b, :, a] = block
    hessian = blocks.reshape(n_features * n_classes, -1)
    hessian[np.diag_indices_from(hessian)] += _penalties(n_features, n_classes).ravel()
    return hessian
