"""
Grid search with one decomposition
==================================

After one decomposition of the kernel matrix, each setting of the weights is an eigenproblem of the size of the domain x
class table, independent of the number of samples. This example compares the time with solving the dense eigenproblem of
the paper for every setting.
"""

# %%
# Dense solution
# --------------
# For one setting: compute the scatters from the centered kernel matrix, and solve the dense generalized eigenproblem of
# order n.
import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import eigh
from sklearn.metrics.pairwise import rbf_kernel

from unseen import CIDG, ProjectionSearchCV

rng = np.random.default_rng(0)
n, C, m = 600, 4, 4
y, d = rng.integers(0, C, n), rng.integers(0, m, n)
X = rng.normal(size=(n, 8)) + 1.5 * rng.normal(size=(C, 8))[y] + rng.normal(size=(m, 8))[d]


def textbook(conditional_weight, ridge, gamma=0.05):
    """Eigenvalues of CIDG without a prior term, from dense matrices."""
    H = np.eye(n) - 1 / n
    K = H @ rbf_kernel(X, gamma=gamma) @ H
    cell = {(s, j): K[:, (d == s) & (y == j)].mean(axis=1) for s in range(m) for j in range(C)}
    A, N = ridge * np.eye(n), np.zeros((n, n))
    for j in range(C):
        own = K[:, y == j]
        mean, over = own.mean(axis=1), np.mean([cell[s, j] for s in range(m)], axis=0)
        A += (own - mean[:, None]) @ (own - mean[:, None]).T  # within
        A += conditional_weight / m * sum(np.outer(cell[s, j] - over, cell[s, j] - over) for s in range(m))
        N += own.shape[1] * np.outer(mean, mean)  # between: the mean of all is zero, because K is centered
    return eigh(N, A, eigvals_only=True)[::-1][: C - 1]


ours = CIDG(gamma=0.05, conditional_weight=1e3, prior_weight=0, ridge=1.0).fit(X, y, sample_domain=d)
start = time.perf_counter()
values = textbook(1e3, 1.0)
one = time.perf_counter() - start
print("eigenvalues agree:", np.allclose(values, ours.eigenvalues_[: C - 1]))

# %%
# ProjectionSearchCV
# ------------------
# Grids of increasing size, four folds, three kernel widths. All settings share the decompositions.
sizes, seconds, searches = [], [], {}
for k in (1, 3, 7, 13):
    grid = {
        "gamma": ["0.1*median", "median", "10*median"],
        "conditional_weight": [f"{w:g}*scale" for w in np.geomspace(1e-2, 1e4, k)],
        "ridge": [f"{r:g}*scale" for r in np.geomspace(1e-3, 1e3, k)],
    }
    start = time.perf_counter()
    search = ProjectionSearchCV(CIDG(), grid, refit=False).fit(X, y, sample_domain=d)
    seconds.append(time.perf_counter() - start)
    searches[k] = search
    sizes.append(len(search.cv_results_["params"]))
    print(f"{sizes[-1]:4d} settings on 4 folds: {seconds[-1]:.1f} s")

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.loglog(sizes, seconds, "o-", label="ProjectionSearchCV, classifier included")
ax.loglog(sizes, [4 * size * one for size in sizes], "s--", label="dense eigenproblem for each setting")
ax.set(xlabel="settings", ylabel="seconds")
ax.legend(frameon=False)
plt.show()

# %%
# Fine grids
# ----------
# The validation surface of the third grid: mean accuracy on held-out domains. A cross marks the selected setting.
results = searches[7].cv_results_
surface = results["mean_test_score"].reshape(7, 3, 7)  # by conditional_weight, gamma and ridge
best = np.unravel_index(searches[7].best_index_, surface.shape)
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
for panel, (ax, gamma) in enumerate(zip(axes, grid["gamma"], strict=True)):
    image = ax.imshow(surface[:, panel], origin="lower", vmin=surface.min(), vmax=surface.max())
    ax.set(title=f"gamma = {gamma}", xlabel="ridge", ylabel="conditional_weight")
    if panel == best[1]:
        ax.plot(best[2], best[0], "x", color="white")
fig.colorbar(image, ax=axes)
plt.show()
