"""
Prediction sets for new domains
===============================

``predict_set`` returns sets of classes that contain the true class with a given coverage, such as 80%, on average over
new *domains*. The sets are calibrated on held-out domains, because held-out samples of known domains are not
representative of new ones.
"""

# %%
# Three levels of coverage
# ------------------------
# Each angle is the new domain once; an ensemble is fitted on the others, with sets of 60 to 80% coverage. (With five
# source domains, the largest attainable coverage is 5/6.)
import matplotlib.pyplot as plt
import numpy as np

from unseen import UnseenClassifier
from unseen.datasets import load_rotated_digits

data = load_rotated_digits()
rng = np.random.default_rng(0)
few = np.sort(rng.permutation(len(data.target))[:720])
X, y, domain = data.data[few] / 16, data.target[few], data.domain[few]
levels = (0.6, 0.7, 0.8)
coverages, sizes = {}, {}
for new in np.unique(domain):
    seen = domain != new
    model = UnseenClassifier(["logistic", "CIDG"]).fit(X[seen], y[seen], sample_domain=domain[seen])
    for level in levels:
        sets = model.predict_set(X[~seen], level)
        coverages[new, level] = np.mean([label in classes for label, classes in zip(y[~seen], sets, strict=True)])
        sizes[new, level] = np.mean([len(classes) for classes in sets])

# %%
# Coverage on the new domains
# ---------------------------
for level in levels:
    coverage = np.mean([value for (_, at), value in coverages.items() if at == level])
    size = np.mean([value for (_, at), value in sizes.items() if at == level])
    print(f"nominal {level:.0%}: coverage {coverage:.0%} on average, {size:.1f} classes in a set")

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for new in np.unique(domain):
    ax.plot(levels, [coverages[new, level] for level in levels], "o-", alpha=0.7, label=f"new: {new}")
ax.plot(levels, levels, color="0.5", linewidth=2, zorder=0, label="nominal")
ax.set(xlabel="nominal coverage", ylabel="coverage", xticks=levels, ylim=(0, 1.02))
ax.legend(frameon=False, ncols=2, fontsize=8)
plt.show()

# %%
# The coverage is larger than the nominal one, because with five domains the quantile is conservative. The nominal
# coverage refers to the mean over new domains, not to each of them, and assumes that they are drawn from the same
# population as the source domains.
