"""
Methods and centering on ten draws of the paper's data
=====================================================

What do KFDA and CIDG gain from the mean of the new domain, and what do plain classifiers do without it? Ten draws of
the synthetic data of the CIDG paper answer. A labeled validation domain, which takes no part in the fit, chooses the
settings of each method; :ref:`the example on choosing <sphx_glr_gallery_plot_choosing_weights.py>` shows why.

Scores with target centering are **transductive**: the mean is that of unlabeled samples of the new domain.
"""

# %%
# The contest
# -----------
# KFDA is CIDG without its weights. CIDG takes part with the equations of the paper and with the conventions of the code
# that its authors released.
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
DRAWS = [make_synthetic(validation_domain=True, random_state=seed) for seed in range(10)]
SOURCES, NEW = ("domain 1", "domain 2"), ("domain 3",)


def parts_of(data, *groups):
    """Samples, classes and domains, for each group of domains."""
    every = data.data, data.target, data.domain
    return [[part[np.isin(data.domain, names)] for part in every] for names in groups]


def with_chosen_settings(projection, grid, data):
    """Choose on the validation domain, train on the two sources, return 1-NN's accuracy on the new domain."""
    known, (X, y, domain), (X_new, y_new, _) = parts_of(data, (*SOURCES, "validation"), SOURCES, NEW)
    search = ProjectionSearchCV(projection, grid, cv=HeldOutDomains(["validation"]), refit=False)
    chosen = search.fit(*known[:2], sample_domain=known[2]).best_params_
    model = clone(projection).set_params(**chosen).fit(X, y, sample_domain=domain)
    return KNeighborsClassifier(1).fit(model.transform(X, sample_domain=domain), y).score(model.transform(X_new), y_new)


accuracies = {}
for name, (projection, grid) in METHODS.items():
    for centering in ("source", "target"):
        centered = clone(projection).set_params(centering=centering)
        accuracies[name, centering] = [100 * with_chosen_settings(centered, grid, data) for data in DRAWS]

# %%
# Plain classifiers need neither a search nor anything of the new domain.
linear_svm = make_pipeline(StandardScaler(), LinearSVC(dual=False))
PLAIN = {"Undo-Bias": UndoBias(tol=1e-3), "linear SVM": linear_svm, "1-NN": KNeighborsClassifier(1)}
for name, classifier in PLAIN.items():
    scores = accuracies[f"{name}, raw features", "source"] = []
    for data in DRAWS:
        (X, y, domain), (X_new, y_new, _) = parts_of(data, SOURCES, NEW)
        routed = {"sample_domain": domain} if name == "Undo-Bias" else {}
        scores.append(100 * classifier.fit(X, y, **routed).score(X_new, y_new))

print(f"Accuracy on the unseen domain, {len(DRAWS)} draws     source centering    target centering (transductive)")
rows = list(dict.fromkeys(name for name, _ in accuracies))
for name in rows:
    cells = [accuracies[name, centering] for centering in ("source", "target") if (name, centering) in accuracies]
    print(f"  {name:45}" + "       ".join(f"{np.mean(cell):5.1f} ± {np.std(cell, ddof=1):4.1f}" for cell in cells))

# %%
# The picture
# -----------
# The new domain is displaced as a whole, and a projection displaces it with all its classes: without its mean the best
# features are of no use, and a linear SVM does better than any of them. With its mean, the weights that ask for
# invariance pay.
STYLES = {
    "source": ("#0072B2", "o", "nothing known of the new domain"),
    "target": ("#D55E00", "s", "centered on the new domain's mean (transductive)"),
}
figure, axis = plt.subplots(figsize=(8.4, 4.2), layout="constrained")
for centering, (color, marker, label) in STYLES.items():
    present = [name for name in rows if (name, centering) in accuracies]
    places = np.array([rows.index(name) for name in present]) + (0.12 if centering == "target" else -0.12)
    values = np.array([accuracies[name, centering] for name in present])
    axis.errorbar(values.mean(axis=1), places, xerr=values.std(axis=1, ddof=1), fmt=marker, color=color, label=label)
axis.axvline(100 / 3, color="0.5", linewidth=0.8, linestyle=":", label="chance")
axis.set_yticks(range(len(rows)), rows)
axis.margins(y=0.1)
axis.invert_yaxis()
axis.set(xlabel="accuracy on the unseen domain, %: mean and standard deviation of ten draws", xlim=(20, 100))
figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
plt.show()
