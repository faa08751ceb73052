"""
Recentering and retraining a deployed model
===========================================

A model is fitted on eight labeled sites, and each month there is a new site. Every site has its own shift of the
measurements. In July and August a new assay is introduced, which changes the relation of the markers to the diagnoses.

Three policies are compared. *Never recenter* uses the model as it was fitted. *Recenter* centers it on the first forty
patients of a site, without their labels. *Recenter, and retrain on alarm* uses labels of forty further patients of each
site and retrains on the latest four sites if at least two in a row are below the lower bound of the prediction
interval. :doc:`A tutorial </tutorials/production>` describes one such year step by step; this example simulates twenty.
"""

# %%
# Sites and models
# ----------------
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from unseen import CIDG
from unseen.shift import Novelty

threadpool_limits(1)  # many small fits are slower with two threads of BLAS

MARKERS = 2.5 * np.array([[1, 0, 0, 0.5], [0, 1, 0, -0.5], [0, 0, 1, 0]])  # means of four markers for three diagnoses
MONTHS = np.arange(1, 13)


def new_site(rng, turned=0.0, rows=240):
    """Return patients and diagnoses of a site with a random offset."""
    y = rng.integers(3, size=rows)
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(turned), -np.sin(turned)], [np.sin(turned), np.cos(turned)]]
    return MARKERS[y] @ turn + rng.normal(size=4) + rng.normal(size=(rows, 4)), y


def learn(sites):
    """Fit a projection, a classifier and a novelty score."""
    X, y = (np.concatenate(parts) for parts in zip(*sites, strict=True))
    site = np.repeat(np.arange(len(sites)), [len(labels) for _, labels in sites])
    cidg = CIDG(gamma="0.1*median", ridge="0.1*scale").fit(X, y, sample_domain=site)
    head = LogisticRegression(C=100, max_iter=1000).fit(cidg.transform(X), y)
    return cidg, head, Novelty().fit(X, sample_domain=site)


def lower_bound(sites):
    """Return the lower end of a 95% prediction interval for the accuracy on a new site."""
    scores = []
    for k, (X, y) in enumerate(sites):
        cidg, head, _ = learn(sites[:k] + sites[k + 1 :])
        scores.append(head.score(cidg.recenter(X).transform(X), y))
    spread = np.std(scores, ddof=1) * np.sqrt(1 + 1 / len(scores))
    return np.mean(scores) - stats.t.ppf(0.975, len(scores) - 1) * spread


# %%
# Twelve months
# -------------
# Labels of forty patients of each site are used for monitoring (*audited*); the other 160 for evaluation only.
def year(seed):
    """Return accuracies of the three policies in each month, and the months in which the third one retrains."""
    rng = np.random.default_rng(seed)
    sites = [tuple(part[:80] for part in new_site(rng)) for _ in range(8)]
    fixed = current = learn(sites)
    bound, below, alarms, scores = lower_bound(sites), 0, [], []
    for month in MONTHS:
        X, y = new_site(rng, turned=0.6 * np.clip(month - 6, 0, 2))
        first, audited, others = X[:40], slice(40, 80), slice(80, None)
        (cidg, head, _), (renewed, its_head, _) = fixed, current
        on_site, renewed_on_site = cidg.recenter(first), renewed.recenter(first)
        scores.append(
            [
                head.score(cidg.transform(X[others]), y[others]),
                head.score(on_site.transform(X[others]), y[others]),
                its_head.score(renewed_on_site.transform(X[others]), y[others]),
            ]
        )
        sites.append((X[audited], y[audited]))
        below = below + 1 if its_head.score(renewed_on_site.transform(X[audited]), y[audited]) < bound else 0
        if below >= 2:
            current = learn(sites[-4:])
            alarms.append(month)
    return scores, alarms


scores, alarms = zip(*(year(seed) for seed in range(20)), strict=True)
scores = np.array(scores)
for name, values in zip(("never recenter", "recenter", "retrain on alarm"), scores.mean(axis=0).T, strict=True):
    print(f"{name:<18} {values[:6].mean():.0%} until June, {values[6:].mean():.0%} after")

# %%
# Plot
# ----
# Means over twenty years, with the interquartile range. Recentering improves the accuracy by about ten points from the
# first month, but does not help if the relation of markers and diagnoses changes. Only labels reveal this change, and
# only retraining corrects it.
COLORS = ("#0072B2", "#D55E00", "#009E73")  # Okabe and Ito's, safe for color-blind readers
NAMES = ("never recenter", "recenter each site", "recenter, and retrain on alarm")

figure, (above, beneath) = plt.subplots(
    2, 1, figsize=(8.4, 5.6), sharex=True, height_ratios=[4, 1], layout="constrained"
)
for policy, (name, color) in enumerate(zip(NAMES, COLORS, strict=True)):
    low, high = np.quantile(scores[:, :, policy], [0.25, 0.75], axis=0)
    above.fill_between(MONTHS, low, high, color=color, alpha=0.15, linewidth=0)
    above.plot(MONTHS, scores[:, :, policy].mean(axis=0), color=color, marker="o", markersize=4, label=name)
above.axvline(6.5, color="0.5", linestyle=":")
above.annotate("a new assay", (6.6, above.get_ylim()[0]), color="0.3", xytext=(2, 4), textcoords="offset points")
above.set_ylabel("accuracy on the new site")
above.legend(loc="lower left", frameon=False)
counts = np.bincount(np.concatenate([*alarms]).astype(int), minlength=13)[1:]
beneath.bar(MONTHS, counts, color=COLORS[2])
beneath.set(ylabel="retrained", xlabel="month", xticks=MONTHS)
for axis in (above, beneath):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
