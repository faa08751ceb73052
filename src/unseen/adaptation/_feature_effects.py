"""Effects of features in a new domain, on top of the predictions of a fitted model.

The probabilities p(c | x) of the model become

    p'(c | x) proportional to exp(scale * log p(c | x) + offset_c + x' w_c),

with the priors of `fit_offsets` for offsets and scale, and w_c ~ N(0, feature_std^2 / d) for d features that are
standardized on the labeled rows. So the effects of all features together have a standard deviation of `feature_std`
logits before labels are seen. Without effects this is `fit_offsets`; with a scale of 0 and a wide prior it is a local
logistic regression. The negative log posterior is convex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from ..linalg import Array, Ints
from ._offsets import MIN_SCALE, OffsetPrior, apply_offsets, log_probabilities

MAX_ITERATIONS = 100
# Singular values below this share of the largest are rounding: their directions have no labeled row.
RANK_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class FeatureEffects:
    """Class offsets (C,), a scale of the logits, and weights (d, C) of the features."""

    offsets: Array
    scale: float
    weights: Array

    def apply(self, P: Array, X: Array) -> Array:
        """Probabilities (n, C) of rows with probabilities `P` and features `X`."""
        return apply_offsets(P, self.offsets, self.scale, X @ self.weights)


def fit_feature_effects(P: Array, X: Array, codes: Ints, prior: OffsetPrior, feature_std: float) -> FeatureEffects:
    """Posterior mode of offsets, scale and feature effects.

    Parameters
    ----------
    P : ndarray of shape (n, C)
        Probabilities of labeled rows.
    X : ndarray of shape (n, d)
        Their features.
    codes : ndarray of shape (n,)
        Positions of their classes.
    prior : OffsetPrior
        Variances of offsets and scale.
    feature_std : float
        Standard deviation of the effects of all features together.

    Returns
    -------
    effects : FeatureEffects
        The estimate.
    """
    L = log_probabilities(P)
    n_classes = L.shape[1]
    center = X.mean(axis=0)
    spread = X.std(axis=0)
    spread = np.where(spread > RANK_TOLERANCE * np.maximum(np.abs(center), 1), spread, 1.0)
    U, singular, V = np.linalg.svd((X - center) / spread * (feature_std / np.sqrt(X.shape[1])), full_matrices=False)
    is_kept = singular > RANK_TOLERANCE * max(singular.max(initial=0.0), 1.0)
    # In these coordinates (n, r) the effects have independent standard normal priors.
    Z = U[:, is_kept] * singular[is_kept]
    indicators = np.arange(n_classes) == codes[:, None]
    precision = np.ones(n_classes * (1 + Z.shape[1]) + 1)
    precision[:n_classes] = 1 / prior.offset_variance
    precision[n_classes] = 1 / prior.scale_variance

    def objective(theta: Array) -> tuple[float, Array]:
        effects = theta[n_classes + 1 :].reshape(-1, n_classes)
        logits = (1 + theta[n_classes]) * L + theta[:n_classes] + Z @ effects
        top = logits.max(axis=1, keepdims=True)
        E = np.exp(logits - top)
        total = E.sum(axis=1, keepdims=True)
        residual = E / total - indicators
        loss = np.sum(top + np.log(total)) - np.sum(logits[indicators])
        gradient = [residual.sum(axis=0), [np.sum(residual * L)], (Z.T @ residual).ravel()]
        penalty = 0.5 * float(np.sum(precision * theta**2))
        return float(loss) + penalty, np.concatenate(gradient) + precision * theta

    result = minimize(
        objective, np.zeros(len(precision)), jac=True, method="L-BFGS-B", options={"maxiter": MAX_ITERATIONS}
    )
    theta = result.x
    effects = theta[n_classes + 1 :].reshape(-1, n_classes)
    weights = (V[is_kept].T @ effects) * (feature_std / np.sqrt(X.shape[1])) / spread[:, None]
    scale = max(1 + float(theta[n_classes]), MIN_SCALE)
    return FeatureEffects(theta[:n_classes] - center @ weights, scale, weights)
