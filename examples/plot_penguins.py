"""
The sex of a penguin species that is not in the training data
=============================================================

Male penguins are larger than females in every species, but the species differ more than the sexes. A classifier that is
trained on two species and looks accurate in cross-validation fails on the third. CIDG finds a direction in which the
sexes differ in the same way in all species; centered on the unlabeled birds of the new species, it classifies them too.

All scores of CIDG are **transductive**: the new species is centered on the mean of its birds, without their labels.
"""

# %%
# Cross-validation and the third species
# --------------------------------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unseen import CIDG
from unseen.datasets import load_penguins

X, y, species = load_penguins(return_X_y=True)
plain = make_pipeline(StandardScaler(), LogisticRegression())
invariant = make_pipeline(StandardScaler(), CIDG(kernel="linear", centering="target"), LogisticRegression())

print(f"logistic regression, ten-fold cross-validation: {cross_val_score(plain, X, y, cv=10).mean():.1%}")
for new in np.unique(species):
    train = species != new
    plain.fit(X[train], y[train])
    invariant.fit(X[train], y[train], cidg__sample_domain=species[train])
    test = X[~train], y[~train]
    print(f"trained without {new:9}: logistic regression {plain.score(*test):.1%}, CIDG {invariant.score(*test):.1%}")

# %%
# What the models see
# -------------------
# Length and depth of the bill are enough to show why. Left: the boundary of logistic regression for Adelie and
# Chinstrap penguins is in the wrong place for Gentoo penguins. Right: the component of CIDG, fitted to the same two
# species and the same two measurements; zero separates the sexes of all three.
new = "Gentoo"
train = species != new
bills = X[:, :2]
plain.fit(bills[train], y[train])
invariant.fit(bills[train], y[train], cidg__sample_domain=species[train])
colors = {"female": "#d95f02", "male": "#1b6ca8"}

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
lengths = np.linspace(bills[:, 0].min() - 1, bills[:, 0].max() + 1, 200)
depths = np.linspace(bills[:, 1].min() - 0.5, bills[:, 1].max() + 0.5, 200)
grid = np.stack(np.meshgrid(lengths, depths), axis=-1).reshape(-1, 2)
left.contour(lengths, depths, plain.predict_proba(grid)[:, 1].reshape(200, 200), levels=[0.5], colors="black")
for sex, color in colors.items():
    for mask, opacity, size in ((train, 0.3, 12), (~train, 1.0, 20)):
        shown = mask & (y == sex)
        left.scatter(*bills[shown].T, s=size, color=color, alpha=opacity, linewidths=0)
left.set(xlabel="bill length (mm)", ylabel="bill depth (mm)")
left.set_title(
    f"Trained on pale species, {new} in bold: {plain.score(bills[~train], y[~train]):.0%} correct", fontsize=10
)

rng = np.random.default_rng(0)
for row, name in enumerate(np.unique(species)):
    component = invariant[:-1].transform(bills[species == name])[:, 0]
    height = row + rng.uniform(-0.3, 0.3, size=len(component))
    opacity = 1.0 if name == new else 0.3
    for sex, color in colors.items():
        shown = y[species == name] == sex
        label = sex if name == new else None
        right.scatter(component[shown], height[shown], s=16, color=color, alpha=opacity, label=label, linewidths=0)
right.axvline(0, color="black")
right.set_yticks(range(3), np.unique(species))
right.set(xlabel="component of CIDG, each species centered on its mean")
accuracy = invariant.score(bills[~train], y[~train])
right.set_title(f"CIDG, trained on the same birds: {accuracy:.0%} of {new} correct", fontsize=10)
right.legend(loc="lower right", framealpha=0.9)
plt.show()
