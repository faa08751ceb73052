"""The equations of the papers, transcribed literally: dense n x n matrices, slow and obvious.

The oracle for the fast code, so it shares nothing with it. Everything is written with + - * / and @ alone, so that the
same lines run in double precision and, on arrays of mpmath numbers, in 50 digits. Equation numbers are those of Li et
al. (2018) unless another paper is named. `K` is always the centered kernel matrix (Algorithm 1, step 2).
"""

from __future__ import annotations

import mpmath
import numpy as np
from scipy import linalg


def centered(K):
    """Algorithm 1, step 2: K - 1K - K1 + 1K1."""
    n = len(K)
    return K - K.sum(axis=0)[None, :] / n - K.sum(axis=1)[:, None] / n + K.sum() / n / n


def outer(v):
    return v[:, None] * v[None, :]


def cell_mean(K, y, d, s, j):
    """Phi mu_sj: the mean embedding of class j in domain s, seen from every sample (eqs. 2 and 7).

    An absent cell counts as the average of its class over the domains that have it.
    """
    members = (d == s) & (y == j)
    if members.any():
        return K[:, members].sum(axis=1) / int(members.sum())
    having = [t for t in np.unique(d) if ((d == t) & (y == j)).any()]
    return sum(cell_mean(K, y, d, t, j) for t in having) / len(having)


def conditional(K, y, d):
    """H, eq. (6)."""
    domains, classes = np.unique(d), np.unique(y)
    H = 0 * K
    for j in classes:
        average = sum(cell_mean(K, y, d, s, j) for s in domains) / len(domains)
        for s in domains:
            H = H + outer(cell_mean(K, y, d, s, j) - average) / len(domains)
    return H


def prior_normalized(K, y, d):
    """L, eq. (12), with the prior-normalized means of eq. (13)."""
    domains, classes = np.unique(d), np.unique(y)
    means = [sum(cell_mean(K, y, d, s, j) for j in classes) / len(classes) for s in domains]
    average = sum(means) / len(domains)
    return sum(outer(average - mean) for mean in means) / len(domains)


def between(K, y):
    """P, eq. (15)."""
    means = {j: K[:, y == j].sum(axis=1) / int((y == j).sum()) for j in np.unique(y)}
    grand = sum(int((y == j).sum()) * means[j] for j in means) / len(y)
    return sum(int((y == j).sum()) * outer(means[j] - grand) for j in means)


def within(K, y):
    """Q, eq. (17)."""
    Q = 0 * K
    for j in np.unique(y):
        deviations = K[:, y == j] - K[:, y == j].sum(axis=1)[:, None] / int((y == j).sum())
        Q = Q + deviations @ deviations.T
    return Q


def domain_scatter(K, d):
    """Distributional variance of the domains' marginals (Muandet et al. 2013)."""
    means = [K[:, d == s].sum(axis=1) / int((d == s).sum()) for s in np.unique(d)]
    average = sum(means) / len(means)
    return sum(outer(mean - average) for mean in means) / len(means)


def identity(K):
    return np.eye(len(K)) + 0 * K


def cidg(K, y, d, *, conditional_weight, prior_weight, ridge, norm_weight=0):
    """Numerator and denominator of eq. (22), with the ridge that follows it."""
    A = conditional_weight * conditional(K, y, d) + prior_weight * prior_normalized(K, y, d)
    return between(K, y), A + within(K, y) + norm_weight * K + ridge * identity(K)


def kfda(K, y, d, *, ridge):
    return between(K, y), within(K, y) + ridge * identity(K)


def sca(K, y, d, *, between_weight, domain_weight, ridge):
    """Ghifary et al. (2017), eq. (17)."""
    N = (1 - between_weight) * (K @ K) / len(K) + between_weight * between(K, y)
    return N, domain_weight * domain_scatter(K, d) + K + within(K, y) + ridge * identity(K)


def label_kernel(K, y):
    """Centered kernel matrix of the labels, 1 for the same class and 0 otherwise."""
    return centered((y[:, None] == y[None, :]) + 0 * K)


def inverse(M):
    return linalg.inv(M) if M.dtype == float else np.array((mpmath.matrix(M.tolist()) ** -1).tolist(), dtype=object)


def dica(K, y, d, *, ridge, output_ridge):
    """Muandet et al. (2013), eq. (8), with the numerator in its symmetric form."""
    L, n = label_kernel(K, y), len(K)
    N = K @ L @ inverse(L + n * output_ridge * identity(K)) @ K / n
    return N, domain_scatter(K, d) + K + ridge * identity(K)


def udica(K, y, d, *, ridge):
    return (K @ K) / len(K), domain_scatter(K, d) + K + ridge * identity(K)


def mda(K, y, d, *, discrepancy_weight, conditional_weight, within_weight, ridge):
    """Hu et al. (2019), eq. (20), from the averages over pairs of classes and of domains that define its terms."""
    domains, classes, n = np.unique(d), np.unique(y), len(y)
    m, C = len(domains), len(classes)

    def share(s, j):  # p(y = j given domain s)
        return np.sum((d == s) & (y == j)) / (np.sum(d == s) + 0 * K[0, 0])

    u = {
        j: sum(share(s, j) * cell_mean(K, y, d, s, j) for s in domains) / sum(share(s, j) for s in domains)
        for j in classes
    }
    F, P, G, Q = 0 * K, 0 * K, 0 * K, 0 * K
    grand = sum(sum(share(s, j) for s in domains) / m * u[j] for j in classes)
    for j in classes:
        P = P + int((y == j).sum()) * outer(u[j] - grand) / n
        deviations = K[:, y == j] - u[j][:, None]
        Q = Q + deviations @ deviations.T / n
        for k in classes:
            if k < j:
                F = F + 2 * outer(u[j] - u[k]) / (C * (C - 1))
        for s in domains:
            for t in domains:
                if t < s:
                    shift = cell_mean(K, y, d, s, j) - cell_mean(K, y, d, t, j)
                    G = G + 2 * outer(shift) / (C * m * (m - 1))
    N = discrepancy_weight * F + (1 - discrepancy_weight) * P
    return N, conditional_weight * G + within_weight * Q + K + ridge * identity(K)


def scatter_inside_cells(K, y, d):
    """Scatter of the samples of each class in each domain about their own mean."""
    S = 0 * K
    for s in np.unique(d):
        for j in np.unique(y[d == s]):
            members = (d == s) & (y == j)
            deviations = K[:, members] - cell_mean(K, y, d, s, j)[:, None]
            S = S + deviations @ deviations.T
    return S


def n_cells(y, d):
    return len(set(zip(y.tolist(), d.tolist(), strict=True)))


def without_noise(H, factor, reference):
    """H minus `factor` times the reference, without its negative part in the pencil (H, reference)."""
    values, U = linalg.eigh(H, reference)
    U = reference @ U
    return (U * np.maximum(values - factor, 0)) @ U.T


def noise_factor(scatter, y, d):
    """c in E[scatter of estimated means] = scatter of true means + c Sigma.

    On the identity matrix every mean is the vector of its weights, whose squares sum to its variance.
    """
    return np.trace(scatter(np.eye(len(y)), y, d))


def cidg_unbiased(K, y, d, *, conditional_weight, prior_weight, ridge, norm_weight=0):
    """CIDG without the expected sampling error of H and L."""
    fixed = scatter_inside_cells(K, y, d) + norm_weight * K + ridge * identity(K)
    degrees_of_freedom = len(y) - n_cells(y, d)
    A = within(K, y) + norm_weight * K + ridge * identity(K)
    for weight, scatter in ((conditional_weight, conditional), (prior_weight, prior_normalized)):
        A = A + weight * without_noise(scatter(K, y, d), noise_factor(scatter, y, d) / degrees_of_freedom, fixed)
    return between(K, y), A


def sca_unbiased(K, y, d, *, between_weight, domain_weight, ridge):
    fixed = scatter_inside_cells(K, y, d) + K + ridge * identity(K)
    factor = np.trace(domain_scatter(np.eye(len(y)), d)) / (len(y) - n_cells(y, d))
    N, A = sca(K, y, d, between_weight=between_weight, domain_weight=0, ridge=ridge)
    return N, A + domain_weight * without_noise(domain_scatter(K, d), factor, fixed)


def shrinkage_factors(K, y, d):
    """tau^2 / (tau^2 + sigma^2 / n_sj) by cell, with moment estimates of the random-effects model."""
    weights = {}
    for s in np.unique(d):
        for j in np.unique(y[d == s]):
            members = (d == s) & (y == j)
            weights[s, j] = members / members.sum()
    averages = {j: np.mean([w for (_, k), w in weights.items() if k == j], axis=0) for j in np.unique(y)}
    inside = sum(K[i, i] - 2 * K[i] @ weights[d[i], y[i]] for i in range(len(y)))
    inside += sum(w @ K @ w * np.count_nonzero(w) for w in weights.values())
    sigma2 = inside / (len(y) - len(weights))
    excess, degrees_of_freedom = 0.0, 0.0
    for (_, j), w in weights.items():
        shift = w - averages[j]
        m = sum(k == j for _, k in weights)
        excess += shift @ K @ shift - sigma2 * (shift @ shift)
        degrees_of_freedom += 1 - 1 / m
    tau2 = max(excess / degrees_of_freedom, 0)
    return {cell: tau2 / (tau2 + sigma2 * (w @ w)) for cell, w in weights.items()}, weights, averages


def shrunken_means(K, y, d):
    """Cell means, seen from every sample, shrunk toward the average mean of their class."""
    factors, weights, averages = shrinkage_factors(K, y, d)
    return {(s, j): K @ (averages[j] + factors[s, j] * (weights[s, j] - averages[j])) for (s, j) in weights}, {
        j: K @ average for j, average in averages.items()
    }


def cidg_shrunken(K, y, d, *, conditional_weight, prior_weight, ridge, norm_weight=0):
    """CIDG with shrunken cell means in H and L; an absent cell is the average of the present ones of its class."""
    means, _ = shrunken_means(K, y, d)
    domains, classes = np.unique(d), np.unique(y)
    by_class = {j: [means[s, j] for s in domains if (s, j) in means] for j in classes}
    full = {
        (s, j): means[s, j] if (s, j) in means else sum(by_class[j]) / len(by_class[j])
        for s in domains
        for j in classes
    }
    H = sum(
        outer(full[s, j] - sum(full[t, j] for t in domains) / len(domains)) / len(domains)
        for s in domains
        for j in classes
    )
    normalized = {s: sum(full[s, j] for j in classes) / len(classes) for s in domains}
    average = sum(normalized.values()) / len(domains)
    L = sum(outer(mean - average) for mean in normalized.values()) / len(domains)
    A = within(K, y) + norm_weight * K + ridge * identity(K)
    return between(K, y), A + conditional_weight * H + prior_weight * L


def solve(N, A, q):
    """Leading eigenpairs of N B = A B Gamma with B'AB = I, eq. (22)."""
    if N.dtype == float:
        values, B = linalg.eigh((N + N.T) / 2, (A + A.T) / 2)
        return values[::-1][:q], B[:, ::-1][:, :q]
    factor = mpmath.cholesky(mpmath.matrix(A.tolist()))
    whiten = factor**-1
    values, vectors = mpmath.eigsy(whiten * mpmath.matrix(N.tolist()) * whiten.T)
    B = np.array((whiten.T * vectors).tolist(), dtype=object)
    values = np.array(list(values), dtype=object)
    order = np.argsort(-values.astype(float))[:q]
    return values[order].astype(float), B[:, order].astype(float)


def target_features(K_target, B, values):
    """Algorithm 1, steps 4 and 5: center on the batch itself and project. `K_target` is (n_source, n_target)."""
    n, n_t = K_target.shape
    source, target = np.full((n, n), 1 / n), np.full((n_t, n_t), 1 / n_t)
    K = K_target - source @ K_target - K_target @ target + source @ K_target @ target
    return K.T @ B / np.sqrt(values)
