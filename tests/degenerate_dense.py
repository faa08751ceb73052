"""The pencils of large problems in double precision, written as products of matrices."""

from __future__ import annotations

import numpy as np

import textbook
from helpers import METHODS


def dense(name, K, y, d, ridge):
    """The same pencils in double precision, for many classes and domains: sums over cells are products."""
    n, m, C = len(y), d.max() + 1, y.max() + 1
    cells, cell = np.unique(d * C + y, return_inverse=True)
    s, j = np.divmod(cells, C)
    of_cell, of_class, of_domain = (np.eye(k)[codes] for k, codes in ((len(cells), cell), (C, y), (m, d)))
    mu, sizes = K @ of_cell / of_cell.sum(axis=0), of_class.sum(axis=0)
    having = np.eye(C)[j]
    average = mu @ having / having.sum(axis=0)
    shift = mu - average[:, j]
    pooled = K @ of_class / sizes
    H, L = shift @ shift.T / m, shift @ np.eye(m)[s]
    L = L @ L.T / m / C**2
    spread = pooled - pooled @ sizes[:, None] / n
    P, inside = (spread * sizes) @ spread.T, K - pooled[:, y]
    domains = K @ of_domain / of_domain.sum(axis=0)
    domains = domains - domains.mean(axis=1, keepdims=True)
    D, Q, eye = domains @ domains.T / m, inside @ inside.T, np.eye(n)
    weights = METHODS[name][2]
    if name.startswith("CIDG"):
        invariance = weights["conditional_weight"] * H + weights["prior_weight"] * L
        return P, invariance + Q + weights.get("norm_weight", 0) * K + ridge * eye
    if name == "KFDA":
        return P, Q + ridge * eye
    if name == "SCA":
        beta = weights["between_weight"]
        return (1 - beta) * K @ K / n + beta * P, weights["domain_weight"] * D + K + Q + ridge * eye
    if name == "UDICA":
        return K @ K / n, D + K + ridge * eye
    if name == "DICA":
        return textbook.dica(K, y, d, ridge=ridge, **weights)
    share = of_cell.sum(axis=0) / of_domain.sum(axis=0)[s]
    u = mu * share @ having / (share @ having)
    mean = u @ (share @ having)[:, None] / m
    pairs = u - u.mean(axis=1, keepdims=True)
    F, P = 2 / (C - 1) * pairs @ pairs.T, ((u - mean) * sizes) @ (u - mean).T / n
    beta, within = weights["discrepancy_weight"], (K - u[:, y]) @ (K - u[:, y]).T / n
    G = weights["conditional_weight"] * 2 * m / (C * (m - 1)) * H
    return beta * F + (1 - beta) * P, G + weights["within_weight"] * within + K + ridge * eye
