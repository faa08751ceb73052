"""
Sets of classes that hold the true one
======================================

A label alone does not say when to doubt it. ``predict_set`` gives the classes that cannot be ruled out, so many of them
that in, say, eight of ten new *domains'* samples the true class is among them. The promise is made from held-out
domains, because held-out samples of known domains know nothing of new ones.
"""

# %%
# A promise for each level
# ------------------------
# Each angle in turn is the new domain; a pool is fitted on the others and promises 60 to 80 percent. (With five
# sources, 5 of 6 is the most that can be promised: with so few domains nobody can know more.)
import matplotlib.pyplot as plt
import numpy as np

from unseen import UnseenClassifier
from unseen.datasets import load_rotated_digits

data = load_rotated_digits()
rng = np.random.default_rng(0)
few = np.sort(rng.permutation(len(data.target))[:720])
X, y, domain = data.data[few] / 16, data.target[few], data.domain[few]
levels = (0.6, 0.7, 0.8)
held, sizes = {}, {}
for new in np.unique(domain):
    seen = domain != new
    model = UnseenClassifier(["logistic", "CIDG"]).fit(X[seen], y[seen], sample_domain=domain[seen])
    for level in levels:
        sets = model.predict_set(X[~seen], level)
        held[new, level] = np.mean([label in own for label, own in zip(y[~seen], sets, strict=True)])
        sizes[new, level] = np.mean([len(own) for own in sets])

# %%
# What was kept of it
# -------------------
for level in levels:
    kept = [value for (_, at), value in held.items() if at == level]
    size = np.mean([value for (_, at), value in sizes.items() if at == level])
    print(f"promised {level:.0%}: held {np.mean(kept):.0%} on average, {size:.1f} classes in a set")

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for new in np.unique(domain):
    ax.plot(levels, [held[new, level] for level in levels], "o-", alpha=0.7, label=f"new: {new}")
ax.plot(levels, levels, color="0.5", linewidth=2, zorder=0, label="as promised")
ax.set(xlabel="promised", ylabel="share of sets that hold the true class", xticks=levels, ylim=(0, 1.02))
ax.legend(frameon=False, ncols=2, fontsize=8)
plt.show()

# %%
# More is kept than was promised: with five domains the quantile that makes the promise is a cautious one. What is
# promised is the mean over new domains, not each of them, and it supposes that they are to the sources what these are
# to each other.
