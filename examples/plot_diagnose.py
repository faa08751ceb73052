"""
What moves from domain to domain
================================

Before any model: do the class proportions differ between the places, the features, or the features of each class? The
three call for different answers, and :func:`unseen.diagnose` tells them apart, even where two of them look alike in a
scatter plot.
"""

# %%
# Three worlds
# ------------
# Two classes in three places. In the first world only the class proportions change. In the second the features of both
# classes move together. In the third the classes change places in the south, and the features as a whole stay as they
# are.
import matplotlib.pyplot as plt
import numpy as np

from unseen import diagnose

PLACES, N = np.array(["north", "east", "south"]), 100
rng = np.random.default_rng(0)


def world(shares, moves):
    """Samples of three places: the share of the first class, and where each class lies in each place."""
    X, y, d = [], [], []
    for place, share, own in zip(PLACES, shares, moves, strict=True):
        classes = (np.arange(N) >= share * N).astype(int)
        X.append(rng.normal(size=(N, 2)) + np.array([[-1.5, 0], [1.5, 0]])[classes] + np.array(own)[classes])
        y.append(classes)
        d.append(np.full(N, place))
    return np.concatenate(X), np.concatenate(y), np.concatenate(d)


still = [(0, 0), (0, 0)]
worlds = {
    "only class proportions": world([0.2, 0.5, 0.8], [still] * 3),
    "all classes together": world([0.5] * 3, [[(0, s), (0, s)] for s in (-2, 0, 2)]),
    "classes change places": world([0.5] * 3, [still, still, [(3, 0), (-3, 0)]]),
}

fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharex=True, sharey=True, layout="constrained")
for ax, (name, (X, y, d)) in zip(axes, worlds.items(), strict=True):
    for marker, label in zip("o^", (0, 1), strict=True):
        for color, place in zip(("C0", "C1", "C2"), PLACES, strict=True):
            own = (y == label) & (d == place)
            ax.scatter(*X[own].T, s=12, c=color, marker=marker, alpha=0.6)
    ax.set(title=name, xlabel="first feature")
axes[0].set_ylabel("second feature")
fig.suptitle("Colors are places, markers are classes")

# %%
# What the diagnosis says
# -----------------------
# P(X|Y) is the line to look at. It is silent in the first world, where invariance has nothing to work on, and loud in
# the other two. P(X) alone misses the third, where only the labels of the same features differ: no method can be
# expected to get the south right from the others, and the diagnosis names it as the odd one out.
for name, (X, y, d) in worlds.items():
    print(f"--- {name}")
    print("\n".join(str(diagnose(X, y, sample_domain=d, random_state=0)).splitlines()[1:]))

# %%
# The same as a picture
# ---------------------
# Distances between the places, and the size of every shift.
X, y, d = worlds["all classes together"]
diagnose(X, y, sample_domain=d, random_state=0).plot()
plt.show()
