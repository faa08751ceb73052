"""ComBat as its papers print it: one feature, one site, one scan at a time, with the full design matrix.

Equations are those of Johnson, Li and Rabinovic (Biostatistics 8, 2007), section 3 and appendix A.1, in the notation
of Fortin and others (NeuroImage 167, 2018): ``y_ijv = alpha_v + X_ij beta_v + gamma_iv + delta_iv epsilon_ijv`` for
scan j of site i and feature v.
"""

from __future__ import annotations

import numpy as np


def combat(X, domain, covariates=None, *, eb=True, mean_only=False, reference=None, tol=1e-4, max_iter=1000):
    """Harmonized samples, shape (n_samples, n_features)."""
    n, p = X.shape
    sites = sorted(set(domain.tolist()))
    C = np.zeros((n, 0)) if covariates is None else np.asarray(covariates, dtype=float)

    # Step 1: least squares with one indicator for each site, and the covariates.
    design = np.column_stack([*[(domain == site).astype(float) for site in sites], C])
    coefficients, *_ = np.linalg.lstsq(design, X, rcond=None)
    site_coefficients, beta = coefficients[: len(sites)], coefficients[len(sites) :]
    counts = np.array([np.sum(domain == site) for site in sites])
    residuals = X - design @ coefficients
    if reference is None:
        # The constraint sum_i n_i gamma_iv = 0 identifies alpha_v.
        alpha = counts @ site_coefficients / n
        sigma = np.sqrt(np.sum(residuals**2, axis=0) / n)
    else:
        alpha = site_coefficients[sites.index(reference)]
        rows = domain == reference
        sigma = np.sqrt(np.sum(residuals[rows] ** 2, axis=0) / np.sum(rows))
    Z = (X - alpha - C @ beta) / sigma

    # Step 2 and 3: estimates of each site, shrunk towards what the features of the site have in common.
    harmonized = np.empty_like(X)
    for site in sites:
        rows = np.flatnonzero(domain == site)
        if site == reference:
            gamma, delta2 = np.zeros(p), np.ones(p)
        else:
            gamma, delta2 = site_effects(Z[rows], eb=eb, mean_only=mean_only, tol=tol, max_iter=max_iter)
        for j in rows:
            for v in range(p):
                standard = (Z[j, v] - gamma[v]) / np.sqrt(delta2[v])
                harmonized[j, v] = sigma[v] * standard + alpha[v] + C[j] @ beta[:, v]
    return harmonized


def site_effects(Z, *, eb, mean_only, tol, max_iter):
    """Location and squared scale of one site for each feature, from its standardized scans."""
    n, p = Z.shape
    gamma_hat = np.array([sum(Z[:, v]) / n for v in range(p)])
    delta2_hat = np.ones(p)
    if not mean_only:
        delta2_hat = np.array([sum((Z[:, v] - gamma_hat[v]) ** 2) / (n - 1) for v in range(p)])
    if not eb:
        return gamma_hat, delta2_hat

    # Moment estimates: gamma_iv ~ N(gamma_bar, tau2) and delta2_iv ~ inverse gamma (lambda, theta).
    gamma_bar = np.mean(gamma_hat)
    tau2 = np.var(gamma_hat, ddof=1)
    if mean_only:
        return posterior_mean(n, gamma_hat, gamma_bar, tau2, np.ones(p)), np.ones(p)
    mean, variance = np.mean(delta2_hat), np.var(delta2_hat, ddof=1)
    shape = (mean**2 + 2 * variance) / variance
    rate = (mean**3 + mean * variance) / variance

    gamma, delta2 = gamma_hat, delta2_hat
    for _ in range(max_iter):
        new_gamma = posterior_mean(n, gamma_hat, gamma_bar, tau2, delta2)
        sums = np.array([sum((Z[:, v] - new_gamma[v]) ** 2) for v in range(p)])
        new_delta2 = (rate + sums / 2) / (n / 2 + shape - 1)
        # The released programs divide by the old location with its sign.
        change = max(np.max(np.abs(new_gamma - gamma) / gamma), np.max(np.abs(new_delta2 - delta2) / delta2))
        gamma, delta2 = new_gamma, new_delta2
        if change <= tol:
            return gamma, delta2
    raise RuntimeError("no convergence")


def posterior_mean(n, gamma_hat, gamma_bar, tau2, delta2):
    return (n * tau2 * gamma_hat + delta2 * gamma_bar) / (n * tau2 + delta2)
