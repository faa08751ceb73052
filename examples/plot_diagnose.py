"""
Which distributions differ between domains
==========================================

:func:`unseen.diagnose` tests whether class proportions, features, or features within classes differ between domains.
Different methods are suitable for the three cases, which can look similar in a scatter plot.
"""

# %%
# Three cases
# -----------
# Two classes in three domains. In the first case only the class proportions differ. In the second case the features of
# both classes have the same shift. In the third case the classes exchange their distributions in the domain south, and
# the distribution of all features stays the same.
import matplotlib.pyplot as plt
import numpy as np

from unseen import diagnose

DOMAINS, N = np.array(["north", "east", "south"]), 100
rng = np.random.default_rng(0)


def make_case(shares, offsets):
    """Samples of three domains, given the share of the first class and the offset of each class in each domain."""
    X, y, d = [], [], []
    for name, share, offset in zip(DOMAINS, shares, offsets, strict=True):
        classes = (np.arange(N) >= share * N).astype(int)
        X.append(rng.normal(size=(N, 2)) + np.array([[-1.5, 0], [1.5, 0]])[classes] + np.array(offset)[classes])
        y.append(classes)
        d.append(np.full(N, name))
    return np.concatenate(X), np.concatenate(y), np.concatenate(d)


no_shift = [(0, 0), (0, 0)]
cases = {
    "only class proportions": make_case([0.2, 0.5, 0.8], [no_shift] * 3),
    "all classes together": make_case([0.5] * 3, [[(0, s), (0, s)] for s in (-2, 0, 2)]),
    "classes exchanged": make_case([0.5] * 3, [no_shift, no_shift, [(3, 0), (-3, 0)]]),
}

fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharex=True, sharey=True, layout="constrained")
for ax, (name, (X, y, d)) in zip(axes, cases.items(), strict=True):
    for marker, label in zip("o^", (0, 1), strict=True):
        for color, domain in zip(("C0", "C1", "C2"), DOMAINS, strict=True):
            rows = (y == label) & (d == domain)
            ax.scatter(*X[rows].T, s=12, c=color, marker=marker, alpha=0.6)
    ax.set(title=name, xlabel="first feature")
axes[0].set_ylabel("second feature")
fig.suptitle("Colors are domains, markers are classes")

# %%
# Results of the diagnosis
# ------------------------
# P(X|Y) is the most important line. No shift is detected in the first case, where invariance cannot help, but in the
# other two. P(X) alone does not detect the third case, where only the labels of the same features differ: no method can
# be expected to predict the domain south from the others, and the diagnosis reports it as an outlier.
for name, (X, y, d) in cases.items():
    print(f"--- {name}")
    print("\n".join(str(diagnose(X, y, sample_domain=d, random_state=0)).splitlines()[1:]))

# %%
# Plot
# ----
# Distances between the domains, and the effect size of every shift.
X, y, d = cases["all classes together"]
diagnose(X, y, sample_domain=d, random_state=0).plot()
plt.show()
