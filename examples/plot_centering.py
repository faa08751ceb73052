"""
Source centering, target centering and recentering
==================================================

Projections subtract a mean in the space of the kernel. For a new domain there are two options, and the choice can have
a large effect.

- ``centering="source"`` subtracts the mean of the training data. Samples are transformed independently, and no data of
  the new domain are needed.
- ``centering="target"`` subtracts the mean of the batch, as in Algorithm 1 of the CIDG paper. Scores are then
  **transductive**: they use unlabeled target data.
- ``recenter(batch)`` estimates that mean once and returns a copy that transforms single samples.
"""

# %%
# Source and target centering
# ---------------------------
# The settings are those that :ref:`the first example <sphx_glr_gallery_plot_unseen_domain.py>` selected on its
# validation domain. The source samples are projected in the same way in both cases; only the target domain differs.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from unseen import CIDG
from unseen.datasets import make_synthetic

data = make_synthetic(random_state=0)
source = data.domain != "domain 3"
X, y, domain = data.data[source], data.target[source], data.domain[source]
X_new, y_new = data.data[~source], data.target[~source]

settings = {
    "gamma": "0.01*median",
    "conditional_weight": 1e5,
    "prior_weight": 1e6,
    "norm_weight": 1,
    "ridge": "100*scale",
    "scaling": "unit_norm",
}
by_source = CIDG(**settings, centering="source").fit(X, y, sample_domain=domain)
by_target = CIDG(**settings, centering="target").fit(X, y, sample_domain=domain)

Z = by_source.transform(X)
one_nn = KNeighborsClassifier(1).fit(Z, y)
Z_source, Z_target = by_source.transform(X_new), by_target.transform(X_new)
print(f"source centering (inductive):    {one_nn.score(Z_source, y_new):.1%}")
print(f"target centering (transductive): {one_nn.score(Z_target, y_new):.1%}")

# %%
# The two projections of the target domain differ by a translation only.
shift = Z_source - Z_target
print("same shift for all samples:", np.allclose(shift, shift[0]))

# %%
# Single samples of a new site
# ----------------------------
# A single sample cannot be centered on its own mean, so ``centering="target"`` raises an error. ``recenter`` stores the
# mean of a batch and can then transform single samples.
on_site = by_source.recenter(X_new)
print("same as the whole batch:", np.allclose(on_site.transform(X_new[:1]), Z_target[:1]))
try:
    by_target.transform(X_new[:1])
except ValueError as error:
    print("ValueError:", error)

# %%
# Label shift
# -----------
# The mean of a batch depends on the shift of the domain, which centering removes, and on the class proportions. Target
# centering cannot distinguish the two. Here the batch contains all samples of class 1 but only five of class 2 and five
# of class 3.
kept = np.concatenate([np.flatnonzero(y_new == label)[:count] for label, count in ((1, 40), (2, 5), (3, 5))])
Z_shifted = by_target.transform(X_new[kept])
Z_balanced = Z_target[kept]
print(f"the 50 samples, mean of a balanced batch (transductive):  {one_nn.score(Z_balanced, y_new[kept]):.1%}")
print(f"the 50 samples, mean of their own batch (transductive):   {one_nn.score(Z_shifted, y_new[kept]):.1%}")

# %%
# Plot
# ----
# Hollow circles are source samples, filled triangles the target domain; crosses are their means. With source centering
# the whole target domain is displaced, by three times the distance between classes.
COLORS = {1: "#0072B2", 2: "#D55E00", 3: "#009E73"}  # Okabe and Ito's, safe for color-blind readers

panels = {
    "Source centering (inductive)": (Z_source, y_new),
    "Target centering (transductive)": (Z_target, y_new),
    "Target centering, label shift (transductive)": (Z_shifted, y_new[kept]),
}
figure, axes = plt.subplots(1, 3, figsize=(12.6, 4.6), sharex=True, sharey=True, layout="constrained")
for axis, (title, (points, labels)) in zip(axes, panels.items(), strict=True):
    for label, color in COLORS.items():
        axis.scatter(*Z[y == label].T, s=22, facecolor="none", edgecolor=color, linewidth=0.8, alpha=0.6)
        axis.scatter(*points[labels == label].T, s=26, marker="^", color=color, label=f"class {label}")
    axis.scatter(*Z.mean(axis=0), s=90, marker="x", color="0.45", linewidth=2, label="mean of the sources")
    axis.scatter(*points.mean(axis=0), s=90, marker="+", color="black", linewidth=2, label="mean of the unseen batch")
    axis.set_title(f"{title}\n1-NN: {one_nn.score(points, labels):.1%}")
    axis.set_xlabel("component 1")
axes[0].set_ylabel("component 2")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
plt.show()
