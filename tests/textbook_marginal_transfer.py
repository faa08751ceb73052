"""Marginal transfer learning as its paper prints it, one pair of samples at a time.

Equations are those of Blanchard, Deshmukh, Dogan, Lee and Scott (JMLR 22, 2021): the kernel of pairs is the product of
a Gaussian kernel of mean embeddings and a Gaussian kernel of samples, and the decision function minimizes the mean over
domains of the mean loss of their samples, plus a multiple of its squared norm.
"""

from __future__ import annotations

import numpy as np


def gaussian(x, z, gamma):
    return np.exp(-gamma * np.sum((x - z) ** 2))


def embedding_inner_product(P, Q, gamma):
    """Inner product of the mean embeddings of two empirical distributions."""
    return sum(gaussian(x, z, gamma) for x in P for z in Q) / (len(P) * len(Q))


def embedding_distance(P, Q, gamma):
    """Squared distance between the mean embeddings."""
    inner = embedding_inner_product
    return inner(P, P, gamma) + inner(Q, Q, gamma) - 2 * inner(P, Q, gamma)


def kernel_of_pairs(X, domain, Y, other_domain, *, gamma, embedding_gamma, s):
    """Values k((P, x), (P', x')) of all samples of X with all samples of Y, each with its own domains."""
    distances = {}
    for p in set(domain.tolist()):
        for q in set(other_domain.tolist()):
            distances[p, q] = embedding_distance(X[domain == p], Y[other_domain == q], embedding_gamma)
    K = np.empty((len(X), len(Y)))
    for i in range(len(X)):
        for j in range(len(Y)):
            of_domains = np.exp(-distances[domain[i], other_domain[j]] / (2 * s**2))
            K[i, j] = of_domains * gaussian(X[i], Y[j], gamma)
    return K


def domain_loss_weights(domain):
    """Weights 1 / (N n_i): every domain counts once, whatever its number of samples."""
    names, counts = np.unique(domain, return_counts=True)
    return np.array([1 / (len(names) * counts[names == name][0]) for name in domain])


def binary_logistic(K, y, weights, penalty):
    """Newton's method for ``sum_i w_i log(1 + exp(-y_i f(x_i))) + penalty |f|^2`` with ``f = K a + b``, y in -1, 1."""
    n = len(K)
    a, b = np.zeros(n), 0.0
    for _ in range(100):
        margins = y * (K @ a + b)
        slope = -weights * y / (1 + np.exp(margins))
        curvature = weights / ((1 + np.exp(margins)) * (1 + np.exp(-margins)))
        gradient = np.append(K @ (slope + 2 * penalty * a), slope.sum())
        hessian = np.empty((n + 1, n + 1))
        hessian[:n, :n] = K * curvature @ K + 2 * penalty * K
        hessian[:n, n] = hessian[n, :n] = K @ curvature
        hessian[n, n] = curvature.sum()
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-15)[0]
        a, b = a - step[:n], b - step[n]
        if np.abs(step).max() < 1e-13:
            break
    return a, b


def softmax_gradient(K, codes, weights, penalty, dual_coef, intercept):
    """Gradient of the multinomial objective in function space and in the intercepts; zero at the solution."""
    F = K @ dual_coef + intercept
    P = np.exp(F - F.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    errors = weights[:, None] * (P - np.eye(P.shape[1])[codes])
    return K @ (errors + 2 * penalty * dual_coef), errors.sum(axis=0)
