"""Estimates from a few labels of a new domain, on top of the predictions of a fitted model.

A model predicts probabilities p(c | x). At a new domain these become

    p'(c | x) proportional to exp(scale * log p(c | x) + offset_c),

where `scale` is an inverse temperature relative to that of the model. Offsets and scale have normal priors that are
centered at no change, offset_c ~ N(0, offset_variance) and scale ~ N(1, scale_variance). The estimate is the mode of
the posterior, whose negative logarithm is convex, because it is linear in the parameters up to the log-sum-exp.

Offsets of many problems with equal numbers of labels are fitted at once: arrays have a leading axis of problems.
Inside, the axis of classes comes first, because NumPy is slow at sums over a short last axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..linalg import Array, Ints

# Smaller probabilities are raised to this value before their logarithm is taken: one row with a probability of zero
# would otherwise determine the scale alone.
MIN_PROBABILITY = 1e-6
# The scale of the logits stays positive, so that the order of the classes of a row never reverses without offsets.
MIN_SCALE = 0.1
MAX_NEWTON_STEPS = 30
# After a Newton step with all entries below this the error is about its square, which no probability shows.
STEP_TOLERANCE = 1e-4
MAX_HALVINGS = 40
VALUE_ROUNDING = 1e-12  # relative


@dataclass(frozen=True)
class OffsetPrior:
    """Variances of the normal priors of class offsets and of the scale of the logits."""

    offset_variance: float = 0.25
    scale_variance: float = 0.04


def log_probabilities(P: Array) -> Array:
    """Logarithms of probabilities, which are raised to a minimum first."""
    return np.log(np.maximum(P, MIN_PROBABILITY))


def apply_offsets(P: Array, offsets: Array, scale: float | Array = 1.0) -> Array:
    """Probabilities (..., n, C) with class offsets (..., C) and a scale of the logits (...,)."""
    Z = np.asarray(scale)[..., None, None] * log_probabilities(P) + offsets[..., None, :]
    Z -= Z.max(axis=-1, keepdims=True)
    E = np.exp(Z)
    return E / E.sum(axis=-1, keepdims=True)


def fit_offsets(P: Array, codes: Ints, prior: OffsetPrior) -> tuple[Array, Array]:
    """Posterior modes of the class offsets (B, C) and scales (B,) of B problems.

    Parameters
    ----------
    P : ndarray of shape (B, n, C)
        Probabilities of labeled rows.
    codes : ndarray of shape (B, n)
        Positions of their classes.
    prior : OffsetPrior
        Variances of the priors.

    Returns
    -------
    offsets : ndarray of shape (B, C)
        They sum to zero.
    scale : ndarray of shape (B,)
        The scales of the logits.
    """
    precision = np.array([[1 / prior.offset_variance, 1 / prior.scale_variance]])
    problem = _Problem.from_probabilities(P, codes, precision)
    theta, _, _ = problem.minimize()
    return theta[:-1].T, np.maximum(1 + theta[-1], MIN_SCALE)


def log_evidence(P: Array, codes: Ints, priors: list[OffsetPrior]) -> Array:
    """Logarithm of the marginal likelihood of the labels of one domain for each prior, by Laplace's approximation.

    With the mode t, the Hessian H of the negative log posterior at the mode and the prior precision D,
    log p(y) = log p(y | t) - t' D t / 2 + log det(D) / 2 - log det(H) / 2.
    """
    precision = np.array([[1 / prior.offset_variance, 1 / prior.scale_variance] for prior in priors])
    shape = (len(priors), *P.shape)
    problem = _Problem.from_probabilities(np.broadcast_to(P, shape), np.broadcast_to(codes, shape[:2]), precision)
    _, value, hessian = problem.minimize()
    return 0.5 * (np.log(problem.D).sum(axis=0) - np.linalg.slogdet(hessian)[1]) - value


@dataclass(frozen=True)
class _Problem:
    """B problems with parameters theta (C + 1, B): the class offsets, then the scale minus 1.

    `L` (C, B, n) holds log-probabilities, `counts` (C, B) the numbers of labels of each class, `L_true` (B,) the sums
    of the log-probabilities of true classes, and `D` (C + 1, B) the prior precision.
    """

    L: Array
    counts: Array
    L_true: Array
    D: Array

    @classmethod
    def from_probabilities(cls, P: Array, codes: Ints, precision: Array) -> Self:
        n_classes = P.shape[2]
        L = np.ascontiguousarray(log_probabilities(P).transpose(2, 0, 1))
        indicators = np.arange(n_classes)[:, None, None] == codes
        D = np.empty((n_classes + 1, len(P)))
        D[:-1] = precision[:, 0]
        D[-1] = precision[:, 1]
        return cls(L, indicators.sum(axis=2).astype(float), np.sum(L * indicators, axis=(0, 2)), D)

    def softmax(self, theta: Array) -> tuple[Array, Array]:
        """Probabilities (C, B, n) and log-sum-exps (B, n)."""
        Z = (1 + theta[-1])[:, None] * self.L + theta[:-1, :, None]
        top = Z.max(axis=0)
        E = np.exp(Z - top)
        total = E.sum(axis=0)
        return E / total, top + np.log(total)

    def objective(self, theta: Array, log_sum: Array) -> Array:
        """Negative log posterior (B,) without constants."""
        log_likelihood = (1 + theta[-1]) * self.L_true + np.sum(theta[:-1] * self.counts, axis=0) - log_sum.sum(axis=1)
        return 0.5 * np.sum(self.D * theta**2, axis=0) - log_likelihood

    def derivatives(self, theta: Array, P: Array) -> tuple[Array, Array]:
        """Gradients (C + 1, B) and Hessians (B, C + 1, C + 1)."""
        C = len(self.L)
        totals = P.sum(axis=2)
        mean = np.sum(P * self.L, axis=0)
        covariance = P * (self.L - mean)  # of the indicator of each class with L, row by row
        gradient = self.D * theta
        gradient[:-1] += totals - self.counts
        gradient[-1] += mean.sum(axis=1) - self.L_true
        by_problem = P.transpose(1, 0, 2)
        hessian = np.empty((P.shape[1], C + 1, C + 1))
        hessian[:, :-1, :-1] = -np.matmul(by_problem, by_problem.transpose(0, 2, 1))
        hessian[:, -1, :-1] = covariance.sum(axis=2).T
        hessian[:, :-1, -1] = hessian[:, -1, :-1]
        hessian[:, -1, -1] = np.sum(covariance * self.L, axis=(0, 2))
        diagonal = np.arange(C + 1)
        hessian[:, diagonal[:-1], diagonal[:-1]] += totals.T
        hessian[:, diagonal, diagonal] += self.D.T
        return gradient, hessian

    def minimize(self) -> tuple[Array, Array, Array]:
        """Modes, objective and Hessians, by Newton's method; a step that would increase the objective is halved."""
        theta = np.zeros(self.D.shape)
        P, log_sum = self.softmax(theta)
        value = self.objective(theta, log_sum)
        for _ in range(MAX_NEWTON_STEPS):
            gradient, hessian = self.derivatives(theta, P)
            step = np.linalg.solve(hessian, gradient.T[:, :, None])[:, :, 0].T
            for _ in range(MAX_HALVINGS):
                P, log_sum = self.softmax(theta - step)
                proposed = self.objective(theta - step, log_sum)
                # Rounding of the value must not stop a step that is correct to the last digits.
                increases = proposed > value + VALUE_ROUNDING * np.abs(value)
                if not increases.any():
                    break
                step = np.where(increases, step / 2, step)
            theta = theta - step
            value = proposed
            if np.abs(step).max(initial=0) < STEP_TOLERANCE:
                break
        return theta, value, self.derivatives(theta, P)[1]
