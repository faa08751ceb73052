"""
Classify a new domain
=====================

The synthetic data of the CIDG paper (Li et al., AAAI 2018) have three classes in two dimensions. From domain to domain
the classes are shifted to the right and their proportions change. Domains 1 and 2 are the source domains; domain 3 is
the target domain, whose labels are used for the final score only.

Kernel widths, weights and ridges are selected on a fourth, labeled *validation* domain. Held-out samples of the source
domains are not suitable: see :ref:`the example on hyperparameters <sphx_glr_gallery_plot_choosing_weights.py>`.

All target-centered scores are **transductive**: each new domain is centered on the mean of its unlabeled samples.
"""

# %%
# The data
# --------
import argparse

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from unseen import CIDG, KFDA, ProjectionSearchCV
from unseen.datasets import make_synthetic
from unseen.model_selection import HeldOutDomains

parser = argparse.ArgumentParser(description="Classify a new synthetic domain.")
parser.add_argument("--save", metavar="FILE", default=None, help="file of the figure (default: show it)")
options, _ = parser.parse_known_args()

data = make_synthetic(validation_domain=True, random_state=0)
source = np.isin(data.domain, ["domain 1", "domain 2"])
target = data.domain == "domain 3"
X, y, domain = data.data[source], data.target[source], data.domain[source]

# %%
# Select the settings on the validation domain
# --------------------------------------------
# Widths and ridges are multiples of scales of the data. The grid contains only kernels that are wide enough to relate
# domains. CIDG uses the conventions of the code of its authors, ``norm_weight=1`` and ``scaling="unit_norm"``; KFDA has
# no weights and uses the same widths and ridges. Among ties, the search selects the larger ridge and then the larger
# weights.
WIDTHS = {"gamma": ["0.003*median", "0.01*median", "0.03*median"]}
RIDGES = {"ridge": ["1e-4*scale", "1e-2*scale", "scale", "100*scale"]}
WEIGHTS = {"conditional_weight": [0, 1e3, 1e4, 1e5, 1e6], "prior_weight": [0, 1e3, 1e4, 1e5, 1e6]}


def select_and_fit(projection, grid):
    """Select settings on the validation domain, then fit on the two source domains."""
    search = ProjectionSearchCV(projection, grid, cv=HeldOutDomains(["validation"]), refit=False)
    search.fit(data.data[~target], data.target[~target], sample_domain=data.domain[~target])
    return projection.set_params(**search.best_params_).fit(X, y, sample_domain=domain)


released = {"norm_weight": 1, "scaling": "unit_norm"}
with threadpool_limits(1):  # matrices of 200 x 200 are too small to share between threads
    kfda = select_and_fit(KFDA(centering="target"), {**WIDTHS, **RIDGES})
    cidg = select_and_fit(CIDG(**released, centering="target"), {**WIDTHS, **RIDGES, **WEIGHTS})
    inductive = select_and_fit(CIDG(**released), {**WIDTHS, **RIDGES, **WEIGHTS})

# %%
# Score the target domain
# -----------------------


def accuracy(projection):
    """Train 1-NN on the projected sources and score it on the target."""
    one_nn = KNeighborsClassifier(1).fit(projection.transform(X, sample_domain=domain), y)
    return one_nn.score(projection.transform(data.data[target]), data.target[target])


raw_score = KNeighborsClassifier(1).fit(X, y).score(data.data[target], data.target[target])
kfda_score, cidg_score, inductive_score = (accuracy(projection) for projection in (kfda, cidg, inductive))

print("Accuracy of 1-NN on the unseen domain (chance: 33.3%)")
print(f"  raw features                           {raw_score:6.1%}")
print(f"  KFDA, target centering (transductive)   {kfda_score:6.1%}")
print(f"  CIDG, target centering (transductive)   {cidg_score:6.1%}")
print(f"  CIDG, source centering (inductive)      {inductive_score:6.1%}")
print(
    f"CIDG settings, selected on the validation domain: gamma = {cidg.gamma}, conditional_weight = "
    f"{cidg.conditional_weight:g}, prior_weight = {cidg.prior_weight:g}, ridge = {cidg.ridge}"
)

# %%
# Before and after
# ----------------
# Colors are classes, shapes are domains; the target domain is filled. On the left, the source sample nearest to any
# target sample belongs to class 3. On the right, the target domain is aligned with the source domains: class 1 on the
# left, class 2 on the right, class 3 at the bottom. The remaining shift rotates its classes, and some of them overlap.
COLORS = {1: "#0072B2", 2: "#D55E00", 3: "#009E73"}  # Okabe and Ito's, safe for color-blind readers
MARKERS = {"domain 1": "o", "domain 2": "s", "domain 3": "^"}


def draw(axes, features, domains, classes):
    """Plot samples, with the target domain filled and on top."""
    for name, marker in MARKERS.items():
        for label, color in COLORS.items():
            points = features[(domains == name) & (classes == label)]
            face = color if name == "domain 3" else "none"
            axes.scatter(*points.T, s=26, marker=marker, facecolor=face, edgecolor=color, linewidth=0.9, alpha=0.85)


shown = source | target
Z = cidg.transform(data.data[shown], sample_domain=data.domain[shown])
figure, (before, after) = plt.subplots(1, 2, figsize=(10, 4.9), layout="constrained")
draw(before, data.data[shown], data.domain[shown], data.target[shown])
draw(after, Z, data.domain[shown], data.target[shown])
before.set(xlabel="feature 1", ylabel="feature 2")
before.set_title(f"Before: raw features\n1-NN on the unseen domain: {raw_score:.1%}")
after.set(xlabel="component 1", ylabel="component 2")
after.set_title(f"After: CIDG, target centering (transductive)\n1-NN on the unseen domain: {cidg_score:.1%}")
handles = [
    *(Line2D([], [], color=c, marker="o", linestyle="", label=f"class {label}") for label, c in COLORS.items()),
    *(
        Line2D([], [], color="0.3", marker=m, linestyle="", markerfacecolor="0.3" if m == "^" else "none", label=name)
        for name, m in zip(
            ("domain 1 (source)", "domain 2 (source)", "domain 3 (unseen)"), MARKERS.values(), strict=True
        )
    ),
]
figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False, handletextpad=0.1)

if options.save:
    figure.savefig(options.save, dpi=100)
    print(f"Saved {options.save}")
else:
    plt.show()
