"""
Methods and centering on the data of the CIDG paper
===================================================

This example measures the gain of KFDA and CIDG from target centering, and the accuracy of plain classifiers, on ten
random data sets of the CIDG paper. Settings are selected on a labeled validation domain that is not used for training;
:ref:`the example on hyperparameters <sphx_glr_gallery_plot_choosing_weights.py>` shows why.

Scores with target centering are **transductive**: the mean is that of unlabeled samples of the new domain.
"""

# %%
# The methods
# -----------
# KFDA is CIDG without its invariance terms. CIDG is evaluated with the equations of the paper and with the conventions
# of the code that its authors released.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from unseen import CIDG, KFDA, ProjectionSearchCV, UndoBias
from unseen.datasets import make_synthetic
from unseen.model_selection import HeldOutDomains

threadpool_limits(1)  # matrices of 200 x 200 are too small to share between threads

KERNELS = {
    "gamma": ["0.003*median", "0.01*median", "0.03*median"],
    "ridge": ["1e-4*scale", "1e-2*scale", "scale", "100*scale"],
}
WEIGHTS = {name: [0, 1e3, 1e4, 1e5, 1e6] for name in ("conditional_weight", "prior_weight")}
METHODS = {
    "KFDA": (KFDA(), KERNELS),
    "CIDG, equations of the paper": (CIDG(), KERNELS | WEIGHTS),
    "CIDG, as released": (CIDG(norm_weight=1, scaling="unit_norm"), KERNELS | WEIGHTS),
}
DATA_SETS = [make_synthetic(validation_domain=True, random_state=seed) for seed in range(10)]
SOURCES, NEW = ("domain 1", "domain 2"), ("domain 3",)


def select_domains(data, *groups):
    """Return samples, classes and domains for each group of domains."""
    every = data.data, data.target, data.domain
    return [[part[np.isin(data.domain, names)] for part in every] for names in groups]


def score_with_selected_settings(projection, grid, data):
    """Select on the validation domain, train on the two sources, return the accuracy of 1-NN on the target."""
    known, (X, y, domain), (X_new, y_new, _) = select_domains(data, (*SOURCES, "validation"), SOURCES, NEW)
    search = ProjectionSearchCV(projection, grid, cv=HeldOutDomains(["validation"]), refit=False)
    params = search.fit(*known[:2], sample_domain=known[2]).best_params_
    model = clone(projection).set_params(**params).fit(X, y, sample_domain=domain)
    return KNeighborsClassifier(1).fit(model.transform(X, sample_domain=domain), y).score(model.transform(X_new), y_new)


accuracies = {}
for name, (projection, grid) in METHODS.items():
    for centering in ("source", "target"):
        centered = clone(projection).set_params(centering=centering)
        accuracies[name, centering] = [100 * score_with_selected_settings(centered, grid, data) for data in DATA_SETS]

# %%
# Plain classifiers, without a search and without data of the new domain:
linear_svm = make_pipeline(StandardScaler(), LinearSVC(dual=False))
PLAIN = {"Undo-Bias": UndoBias(tol=1e-3), "linear SVM": linear_svm, "1-NN": KNeighborsClassifier(1)}
for name, classifier in PLAIN.items():
    scores = accuracies[f"{name}, raw features", "source"] = []
    for data in DATA_SETS:
        (X, y, domain), (X_new, y_new, _) = select_domains(data, SOURCES, NEW)
        routed = {"sample_domain": domain} if name == "Undo-Bias" else {}
        scores.append(100 * classifier.fit(X, y, **routed).score(X_new, y_new))

print(f"Accuracy on the unseen domain, {len(DATA_SETS)} data sets  source centering    target centering (transductive)")
rows = list(dict.fromkeys(name for name, _ in accuracies))
for name in rows:
    cells = [accuracies[name, centering] for centering in ("source", "target") if (name, centering) in accuracies]
    print(f"  {name:45}" + "       ".join(f"{np.mean(cell):5.1f} ± {np.std(cell, ddof=1):4.1f}" for cell in cells))

# %%
# Plot
# ----
# The new domain is shifted as a whole, and so is its projection: with source centering, a linear SVM is better than all
# projections. With target centering, invariance weights improve the accuracy.
STYLES = {
    "source": ("#0072B2", "o", "source centering (inductive)"),
    "target": ("#D55E00", "s", "target centering (transductive)"),
}
figure, axis = plt.subplots(figsize=(8.4, 4.2), layout="constrained")
for centering, (color, marker, label) in STYLES.items():
    present = [name for name in rows if (name, centering) in accuracies]
    positions = np.array([rows.index(name) for name in present]) + (0.12 if centering == "target" else -0.12)
    values = np.array([accuracies[name, centering] for name in present])
    axis.errorbar(values.mean(axis=1), positions, xerr=values.std(axis=1, ddof=1), fmt=marker, color=color, label=label)
axis.axvline(100 / 3, color="0.5", linewidth=0.8, linestyle=":", label="chance")
axis.set_yticks(range(len(rows)), rows)
axis.margins(y=0.1)
axis.invert_yaxis()
axis.set(xlabel="accuracy on the unseen domain, %: mean and standard deviation of ten data sets", xlim=(20, 100))
figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
plt.show()
