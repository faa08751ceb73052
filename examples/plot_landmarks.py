"""
Landmarks, and what they miss
=============================

A kernel matrix of a hundred thousand samples does not fit into memory. :class:`~unseen.PivotedNystroem` describes each
sample by its kernel values with a few landmarks, and knows what it misses: ``trace_error_`` is computed, not estimated.
"""

# %%
# Two clouds, and a small cluster far away
# ----------------------------------------
# Landmarks that are drawn uniformly tend to overlook the cluster. Those of randomly pivoted Cholesky are drawn where
# the ones before miss most, so it is found early.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import rbf_kernel

from unseen import PivotedNystroem

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(-2, 1, (800, 2)), rng.normal(2, 1, (800, 2)), rng.normal((9, -6), 0.2, (12, 2))])
gamma = 0.1
K = rbf_kernel(X, gamma=gamma)

pivoted = PivotedNystroem(20, gamma=gamma, random_state=0).fit(X)
uniform = Nystroem(gamma=gamma, n_components=20, random_state=0).fit(X)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharex=True, sharey=True, layout="constrained")
for ax, (name, points) in zip(
    axes, (("uniform", uniform.components_), ("pivoted", X[pivoted.component_indices_])), strict=True
):
    ax.scatter(*X.T, s=4, c="0.75")
    ax.scatter(*points.T, s=40, c="C3", marker="x")
    ax.set_title(f"20 {name} landmarks")
plt.show()

# %%
# The certificate
# ---------------
# What is missed of the trace of the kernel matrix, for growing numbers of features. Pivoted landmarks need no look at
# the matrix to know it; for the others it is computed from the whole of it here.
counts = [5, 10, 20, 40, 80]
missed = {"random Fourier features": [], "uniform landmarks": [], "pivoted landmarks": [], "its certificate": []}
for r in counts:
    fourier = RBFSampler(gamma=gamma, n_components=r, random_state=0).fit_transform(X)
    missed["random Fourier features"].append(np.abs(K - fourier @ fourier.T).sum() / K.sum())
    for name, made in (("uniform landmarks", Nystroem), ("pivoted landmarks", PivotedNystroem)):
        fitted = made(n_components=r, gamma=gamma, random_state=0).fit(X)
        Z = fitted.transform(X)
        missed[name].append(1 - np.sum(Z**2) / len(X))
    missed["its certificate"].append(fitted.trace_error_)

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for name, values in missed.items():
    style = {"linestyle": "--", "marker": "s", "fillstyle": "none"} if "certificate" in name else {"marker": "o"}
    ax.loglog(counts, values, label=name, **style)
ax.set(xlabel="features", ylabel="missed of the kernel")
ax.legend(frameon=False)
plt.show()
