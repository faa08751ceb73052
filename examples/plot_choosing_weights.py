"""
Choosing the weights honestly
=============================

How invariant a projection should be is a question about a domain that nobody has seen. This example asks it in two ways
on the synthetic data of the CIDG paper, over ten draws, and compares the answers with an oracle that may look at the
target's labels.

- **Within the sources.** 70% of every source domain is trained on, the rest is classified. The usual validation, and
  the wrong one: it asks about domains that were seen.
- **On a held-out domain.** A labeled fourth domain takes no part in the fit.
- **Oracle.** The best setting on the target itself. Nobody can choose it; it shows what the grid contains.

All scores are **transductive**: each new domain is centered on its own mean, for which its unlabeled samples were used.
What becomes of other methods, and without that mean, is in
:ref:`another example <sphx_glr_gallery_plot_methods_and_centering.py>`.
"""

# %%
# The grid
# --------
# Widths and ridges are multiples of the data's own scales. The widths are those of kernels that reach from one domain
# to the next; what narrower ones do is measured at the end.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from unseen import CIDG, ProjectionSearchCV
from unseen.datasets import make_synthetic
from unseen.model_selection import HeldOutDomains, WithinDomainSplit

threadpool_limits(1)  # matrices of 200 x 200 are too small to share between threads

WIDTHS = {"gamma": ["0.003*median", "0.01*median", "0.03*median"]}
RIDGES = {"ridge": ["1e-4*scale", "1e-2*scale", "scale", "100*scale"]}
WEIGHTS = {
    "conditional_weight": [0, 1e3, 1e4, 1e5, 1e6],
    "prior_weight": [0, 1e3, 1e4, 1e5, 1e6],
}
GRID = {**WIDTHS, **RIDGES, **WEIGHTS}
RELEASED = {"norm_weight": 1, "scaling": "unit_norm"}  # the conventions of the authors' released code
DRAWS = [make_synthetic(validation_domain=True, random_state=seed) for seed in range(10)]


def domains(data, *names):
    """Return the samples, classes and domains of some domains."""
    rows = np.isin(data.domain, names)
    return data.data[rows], data.target[rows], data.domain[rows]


def search(projection, grid, cv, samples):
    """Score every setting; nothing is refitted."""
    X, y, domain = samples
    return ProjectionSearchCV(projection, grid, cv=cv, refit=False).fit(X, y, sample_domain=domain)


# %%
# Three ways to choose
# --------------------
# The last search is the oracle's. It gives the accuracy on the target of *every* setting, trained on the two sources,
# and with it the range among settings that tied in the first two.
cidg = CIDG(**RELEASED, centering="target")
within, held_out, oracle = [], [], []
for seed, data in enumerate(DRAWS):
    split = WithinDomainSplit(0.7, n_splits=1, random_state=seed)
    within.append(search(cidg, GRID, split, domains(data, "domain 1", "domain 2")))
    cv = HeldOutDomains(["validation"])
    held_out.append(search(cidg, GRID, cv, domains(data, "domain 1", "domain 2", "validation")))
    cv = HeldOutDomains(["domain 3"])
    oracle.append(search(cidg, GRID, cv, domains(data, "domain 1", "domain 2", "domain 3")))


def percent(values):
    """Mean and standard deviation, in percent."""
    return f"{100 * np.mean(values):5.1f} ± {100 * np.std(values, ddof=1):4.1f}"


def on_target(searches):
    """Accuracy on the target of the chosen setting, and of the settings that tied with it, for each draw."""
    chosen, tied = [], []
    for found, truth in zip(searches, oracle, strict=True):
        accuracy = truth.cv_results_["mean_test_score"]
        chosen.append(accuracy[found.best_index_])
        tied.append(accuracy[found.cv_results_["rank_test_score"] == 1])
    return np.array(chosen), tied


print(f"Accuracy of 1-NN on the unseen domain, {len(DRAWS)} draws, {len(oracle[0].cv_results_['params'])} settings")
for name, searches in {"within the sources": within, "held-out domain": held_out}.items():
    chosen, tied = on_target(searches)
    n_ties = sorted(int(found.cv_results_["n_ties"][found.best_index_]) for found in searches)
    print(f"  {name} (transductive)")
    print(f"    chosen                  {percent(chosen)}")
    print(f"    worst and best of ties  {percent([t.min() for t in tied])} and {percent([t.max() for t in tied])}")
    print(f"    n_ties                  {', '.join(map(str, n_ties))}")
    agreement = [
        spearmanr(a.cv_results_["mean_test_score"], b.cv_results_["mean_test_score"]).statistic
        for a, b in zip(searches, oracle, strict=True)
    ]
    print(
        f"    rank correlation        {np.mean(agreement):5.2f} ± {np.std(agreement, ddof=1):4.2f} with target accuracy"
    )
print("  oracle (transductive, for reference only)")
print(f"    chosen                  {percent([found.best_score_ for found in oracle])}")

# %%
# Why
# ---
# Each dot is a setting, on the first draw. Held-out samples of the sources reward a close fit to the sources, whatever
# comes of it elsewhere: on this draw, the better a setting does there, the worse it tends to do on the target. The
# validation domain asks the right question.
figure, axes = plt.subplots(1, 3, figsize=(12.6, 4.4), sharey=True, layout="constrained")
target = 100 * oracle[0].cv_results_["mean_test_score"]
panels = {"Within the sources, first draw": within[0], "Held-out domain, first draw": held_out[0]}
for axis, (title, found) in zip(axes, panels.items(), strict=False):
    validation = 100 * found.cv_results_["mean_test_score"]
    best = found.cv_results_["rank_test_score"] == 1
    axis.scatter(validation, target, s=12, color="0.6", linewidth=0, label="a setting")
    axis.scatter(validation[best], target[best], s=14, color="#D55E00", linewidth=0, label="best, and its ties")
    chosen = found.best_index_
    axis.scatter(validation[chosen], target[chosen], s=110, marker="*", color="#0072B2", label="chosen", zorder=3)
    axis.set(xlabel="validation accuracy, %", title=title)
axes[0].set_ylabel("accuracy on the unseen domain, %")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)

for x, (searches, color) in enumerate([(within, "#D55E00"), (held_out, "#0072B2"), (oracle, "#009E73")]):
    chosen, tied = on_target(searches)
    places = x + np.linspace(-0.3, 0.3, len(chosen))
    lows, highs = 100 * np.array([t.min() for t in tied]), 100 * np.array([t.max() for t in tied])
    axes[2].vlines(places, lows, highs, color=color, alpha=0.4, linewidth=3)
    axes[2].scatter(places, 100 * chosen, s=26, color=color, zorder=3)
axes[2].set_xticks([0, 1, 2], ["within\nthe sources", "held-out\ndomain", "oracle\n(reference only)"])
axes[2].set_title("Ten draws; bars span the ties")
for axis in axes:
    axis.axhline(100 / 3, color="0.5", linewidth=0.8, linestyle=":")
    axis.text(0.98, 100 / 3 - 1, "chance", transform=axis.get_yaxis_transform(), ha="right", va="top", color="0.4")
plt.show()

# %%
# What a validation domain cannot do
# ----------------------------------
# It lies halfway to the target. Narrow kernels bridge that distance and not the whole, so on the validation domain they
# look better than they are. Coarse steps between the weights cost something, too. And the settings were chosen for two
# sources: refitted on three, with the validation domain among them, they no longer suit.


def score_on_target(projection, data, sources=("domain 1", "domain 2")):
    """Train 1-NN on the projected sources and score the target."""
    X, y, domain = domains(data, *sources)
    X_new, y_new, _ = domains(data, "domain 3")
    Z = projection.fit_transform(X, y, sample_domain=domain)
    return KNeighborsClassifier(1).fit(Z, y).score(projection.transform(X_new), y_new)


def chosen_from(grid):
    """Choose on the validation domain, train on the two sources, score the target: an accuracy for each draw."""
    accuracies = []
    for data in DRAWS:
        known = domains(data, "domain 1", "domain 2", "validation")
        found = search(cidg, grid, HeldOutDomains(["validation"]), known)
        accuracies.append(score_on_target(clone(cidg).set_params(**found.best_params_), data))
    return accuracies


narrow = {**GRID, "gamma": [*GRID["gamma"], "0.1*median", "0.3*median"]}
coarse = {**GRID, "conditional_weight": [0, 1e2, 1e4, 1e6], "prior_weight": [0, 1e2, 1e4, 1e6]}
three = ("domain 1", "domain 2", "validation")
refitted = [
    score_on_target(clone(cidg).set_params(**found.best_params_), data, sources=three)
    for found, data in zip(held_out, DRAWS, strict=True)
]
print("CIDG, as released, target centering (transductive)")
print(f"  with narrow kernels in the grid         {percent(chosen_from(narrow))}")
print(f"  with coarse steps between weights       {percent(chosen_from(coarse))}")
print(f"  refitted with the validation domain too {percent(refitted)}")
