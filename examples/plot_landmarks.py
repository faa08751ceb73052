"""
Landmarks and their approximation error
=======================================

A kernel matrix of a hundred thousand samples does not fit into memory. :class:`~unseen.PivotedNystroem` computes
features of each sample from its kernel values with a few landmarks. ``trace_error_`` is the exact approximation error.
"""

# %%
# Two clusters and a small distant one
# ------------------------------------
# Uniformly drawn landmarks often miss the small cluster. Those of randomly pivoted Cholesky are drawn where the
# approximation error of the previous ones is large, so the cluster gets a landmark early.
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
# Approximation error
# -------------------
# Relative error of the trace of the kernel matrix, for increasing numbers of features. ``trace_error_`` is known
# without the full matrix; for the others, the error is computed from the full matrix.
counts = [5, 10, 20, 40, 80]
errors = {"random Fourier features": [], "uniform landmarks": [], "pivoted landmarks": [], "trace_error_": []}
for r in counts:
    fourier = RBFSampler(gamma=gamma, n_components=r, random_state=0).fit_transform(X)
    errors["random Fourier features"].append(np.abs(K - fourier @ fourier.T).sum() / K.sum())
    for name, feature_map in (("uniform landmarks", Nystroem), ("pivoted landmarks", PivotedNystroem)):
        fitted = feature_map(n_components=r, gamma=gamma, random_state=0).fit(X)
        Z = fitted.transform(X)
        errors[name].append(1 - np.sum(Z**2) / len(X))
    errors["trace_error_"].append(fitted.trace_error_)

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for name, values in errors.items():
    style = {"linestyle": "--", "marker": "s", "fillstyle": "none"} if name == "trace_error_" else {"marker": "o"}
    ax.loglog(counts, values, label=name, **style)
ax.set(xlabel="features", ylabel="relative error of the kernel")
ax.legend(frameon=False)
plt.show()
