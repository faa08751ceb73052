"""
Selecting hyperparameters on held-out domains
=============================================

The amount of invariance of a projection should be selected for a new domain. This example compares two ways to select
it on the synthetic data of the CIDG paper, over ten random data sets, with an oracle that uses the labels of the
target.

- **Within the sources.** Train on 70% of every source domain and validate on the rest. This is the usual validation,
  but it measures the performance on known domains.
- **On a held-out domain.** Validate on a labeled fourth domain that is not used for training.
- **Oracle.** The best setting on the target, which cannot be known in practice; it shows what the grid contains.

All scores are **transductive**: each new domain is centered on the mean of its unlabeled samples. For other methods and
source centering, see :ref:`another example <sphx_glr_gallery_plot_methods_and_centering.py>`.
"""

# %%
# The grid
# --------
# Widths and ridges are multiples of scales of the data. The kernels are wide enough to relate domains; the effect of
# narrower ones is measured at the end.
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
DATA_SETS = [make_synthetic(validation_domain=True, random_state=seed) for seed in range(10)]


def domains(data, *names):
    """Return the samples, classes and domains of some domains."""
    rows = np.isin(data.domain, names)
    return data.data[rows], data.target[rows], data.domain[rows]


def search(projection, grid, cv, samples):
    """Score every setting without a refit."""
    X, y, domain = samples
    return ProjectionSearchCV(projection, grid, cv=cv, refit=False).fit(X, y, sample_domain=domain)


# %%
# Three ways to select settings
# -----------------------------
# The last search is the oracle. It computes the accuracy of *every* setting on the target, trained on the two sources,
# and thereby the range among settings that tie in the first two searches.
cidg = CIDG(**RELEASED, centering="target")
within, held_out, oracle = [], [], []
for seed, data in enumerate(DATA_SETS):
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
    """Accuracy on the target of the selected setting, and of the settings that tie with it, for each data set."""
    selected, tied = [], []
    for search_result, truth in zip(searches, oracle, strict=True):
        accuracy = truth.cv_results_["mean_test_score"]
        selected.append(accuracy[search_result.best_index_])
        tied.append(accuracy[search_result.cv_results_["rank_test_score"] == 1])
    return np.array(selected), tied


n_settings = len(oracle[0].cv_results_["params"])
print(f"Accuracy of 1-NN on the unseen domain, {len(DATA_SETS)} data sets, {n_settings} settings")
for name, searches in {"within the sources": within, "held-out domain": held_out}.items():
    selected, tied = on_target(searches)
    n_ties = sorted(int(result.cv_results_["n_ties"][result.best_index_]) for result in searches)
    print(f"  {name} (transductive)")
    print(f"    selected                {percent(selected)}")
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
print(f"    selected                {percent([search_result.best_score_ for search_result in oracle])}")

# %%
# Why
# ---
# Each dot is a setting, on the first data set. Held-out samples of the source domains reward a close fit to these
# domains: on this data set, settings with a better validation score tend to be worse on the target. The validation
# domain measures the performance on a new domain.
figure, axes = plt.subplots(1, 3, figsize=(12.6, 4.4), sharey=True, layout="constrained")
target = 100 * oracle[0].cv_results_["mean_test_score"]
panels = {"Within the sources, first data set": within[0], "Held-out domain, first data set": held_out[0]}
for axis, (title, result) in zip(axes, panels.items(), strict=False):
    validation = 100 * result.cv_results_["mean_test_score"]
    best = result.cv_results_["rank_test_score"] == 1
    axis.scatter(validation, target, s=12, color="0.6", linewidth=0, label="a setting")
    axis.scatter(validation[best], target[best], s=14, color="#D55E00", linewidth=0, label="best, and its ties")
    index = result.best_index_
    axis.scatter(validation[index], target[index], s=110, marker="*", color="#0072B2", label="selected", zorder=3)
    axis.set(xlabel="validation accuracy, %", title=title)
axes[0].set_ylabel("accuracy on the unseen domain, %")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)

for x, (searches, color) in enumerate([(within, "#D55E00"), (held_out, "#0072B2"), (oracle, "#009E73")]):
    selected, tied = on_target(searches)
    positions = x + np.linspace(-0.3, 0.3, len(selected))
    lows, highs = 100 * np.array([t.min() for t in tied]), 100 * np.array([t.max() for t in tied])
    axes[2].vlines(positions, lows, highs, color=color, alpha=0.4, linewidth=3)
    axes[2].scatter(positions, 100 * selected, s=26, color=color, zorder=3)
axes[2].set_xticks([0, 1, 2], ["within\nthe sources", "held-out\ndomain", "oracle\n(reference only)"])
axes[2].set_title("Ten data sets; bars span the ties")
for axis in axes:
    axis.axhline(100 / 3, color="0.5", linewidth=0.8, linestyle=":")
    axis.text(0.98, 100 / 3 - 1, "chance", transform=axis.get_yaxis_transform(), ha="right", va="top", color="0.4")
plt.show()

# %%
# Limitations of a validation domain
# ----------------------------------
# It is halfway between the sources and the target. Narrow kernels are wide enough for that distance but not for the
# whole, so their validation scores are too optimistic. Coarse steps between the weights reduce the accuracy, too. And
# the settings were selected for two source domains: if they are refitted on three, including the validation domain,
# their accuracy is low.


def score_on_target(projection, data, sources=("domain 1", "domain 2")):
    """Train 1-NN on the projected sources and score the target."""
    X, y, domain = domains(data, *sources)
    X_new, y_new, _ = domains(data, "domain 3")
    Z = projection.fit_transform(X, y, sample_domain=domain)
    return KNeighborsClassifier(1).fit(Z, y).score(projection.transform(X_new), y_new)


def select_from(grid):
    """Select on the validation domain, train on the two sources, score the target: one accuracy for each data set."""
    accuracies = []
    for data in DATA_SETS:
        known = domains(data, "domain 1", "domain 2", "validation")
        result = search(cidg, grid, HeldOutDomains(["validation"]), known)
        accuracies.append(score_on_target(clone(cidg).set_params(**result.best_params_), data))
    return accuracies


narrow = {**GRID, "gamma": [*GRID["gamma"], "0.1*median", "0.3*median"]}
coarse = {**GRID, "conditional_weight": [0, 1e2, 1e4, 1e6], "prior_weight": [0, 1e2, 1e4, 1e6]}
three = ("domain 1", "domain 2", "validation")
refitted = [
    score_on_target(clone(cidg).set_params(**result.best_params_), data, sources=three)
    for result, data in zip(held_out, DATA_SETS, strict=True)
]
print("CIDG, as released, target centering (transductive)")
print(f"  with narrow kernels in the grid         {percent(select_from(narrow))}")
print(f"  with coarse steps between weights       {percent(select_from(coarse))}")
print(f"  refitted with the validation domain too {percent(refitted)}")
