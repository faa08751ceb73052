"""The objective of Undo-Bias as its paper states it, and its optimum by another solver."""

from __future__ import annotations

import numpy as np
from scipy import optimize
from threadpoolctl import threadpool_limits

from unseen.estimators._undo_bias import BIAS


def moments(X):
    """Mean and standard deviation of each column; one for a constant column."""
    return X.mean(axis=0), np.where(np.ptp(X, axis=0) > 0, X.std(axis=0), 1.0)


def khosla(model, X, y, d, row):
    """1/2 |w|^2 + lambda/2 sum |delta_s|^2 + C1 sum hinge(y w.x) + C2 sum hinge(y (w + delta_s).x).

    Evaluated for the fitted weights of one class against the rest, in standardized features; the intercepts are the
    weights of a feature whose value is BIAS.
    """
    mean, scale = moments(X)
    X = (X - mean) / scale
    w, delta = model.coef_[row], model.domain_coef_[:, row]
    b, delta_b = model.intercept_[row] + w @ mean, model.domain_intercept_[:, row] + delta @ mean
    w, delta = w * scale, delta * scale
    sign = np.where(y == model.classes_[row if len(model.coef_) > 1 else 1], 1.0, -1.0)
    shared = X @ w + b
    own = shared + np.einsum("ij,ij->i", X, delta[d]) + delta_b[d]
    losses = [np.maximum(0, 1 - sign * score).sum() for score in (shared, own)]
    norm, norms = w @ w + (b / BIAS) ** 2, (delta**2).sum() + ((delta_b / BIAS) ** 2).sum()
    return (norm + model.offset_penalty * norms) / 2 + model.shared_cost * losses[0] + model.domain_cost * losses[1]


def optimum(model, X, y, d, row):
    """Maximum of the dual, sum(a) - a'Qa/2 over the box 0 <= a <= C, found by L-BFGS-B.

    Two rows of the problem have the product x.x', and x.x'/lambda more if both are rows of one domain's own vector.
    """
    mean, scale = moments(X)
    X = np.column_stack([(X - mean) / scale, np.full(len(X), BIAS)])
    sign = np.where(y == model.classes_[row if len(model.coef_) > 1 else 1], 1.0, -1.0)
    products = X @ X.T * sign * sign[:, None]
    Q = np.tile(products, (2, 2))
    Q[len(X) :, len(X) :] += products * (d[:, None] == d) / model.offset_penalty
    costs = np.repeat([model.shared_cost, model.domain_cost], len(X))
    value, a = 0.0, np.zeros(len(Q))
    with threadpool_limits(1):  # thousands of tiny products: threads would wait for each other
        for _ in range(100):  # a line search may give up early; a fresh start from where it stood gets it going
            result = optimize.minimize(
                lambda a: (a @ Q @ a / 2 - a.sum(), Q @ a - 1),
                a,
                jac=True,
                bounds=[(0, cost) for cost in costs],
                method="L-BFGS-B",
                options={"maxiter": 10_000, "maxfun": 50_000, "ftol": 0, "gtol": 1e-7, "maxcor": 20},
            )
            if -result.fun <= value * (1 + 1e-9):
                break
            value, a = -result.fun, result.x
    return value
