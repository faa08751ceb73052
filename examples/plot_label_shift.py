"""
Target centering under label shift
==================================

Centering a new domain on its own mean removes any shift of the domain. But the mean also changes if the batch has other
class proportions, and centering then shifts every class to the wrong place. :class:`~unseen.UnseenClassifier` is
therefore inductive by default, and simulates such batches in its acceptance test of transductive models.
"""

# %%
# There are three classes and two features, and domains are shifted along the first feature. The new domain is predicted
# in batches with a share of the first class from a third to nine tenths.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from unseen import CIDG, DomainCenterer

rng = np.random.default_rng(0)
MEANS = np.array([[0.0, 0.0], [2.0, 1.5], [4.0, 0.0]])


def domain_of(shift, shares, n=300):
    """Samples and classes of a domain."""
    y = rng.choice(3, size=n, p=shares)
    return MEANS[y] + [shift, 0] + 0.5 * rng.normal(size=(n, 2)), y


shifts, even = (-1.0, 0.0, 1.0), np.full(3, 1 / 3)
parts = [domain_of(shift, even) for shift in shifts]
X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
d = np.repeat(["a", "b", "c"], 300)

plain = LogisticRegression().fit(X, y)
centered = make_pipeline(DomainCenterer(), LogisticRegression()).fit(X, y, domaincenterer__sample_domain=d)
cidg = make_pipeline(CIDG(kernel="linear", centering="target", conditional_weight=1e3), LogisticRegression())
cidg.fit(X, y, cidg__sample_domain=d)
models = {
    "logistic (inductive)": plain,
    "centered logistic (transductive)": centered,
    "CIDG, target centering (transductive)": cidg,
}

shares = np.linspace(1 / 3, 0.9, 8)
scores = {name: [] for name in models}
for share in shares:
    batch = [domain_of(2.0, [share, (1 - share) / 2, (1 - share) / 2]) for _ in range(20)]
    for name, model in models.items():
        scores[name].append(np.mean([model.score(*one) for one in batch]))

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for name, values in scores.items():
    ax.plot(shares, values, "o-", label=name)
ax.set(xlabel="share of the first class in the batch", ylabel="accuracy on the new domain", ylim=(0, 1.02))
ax.legend(frameon=False)
plt.show()

# %%
# With equal class proportions, centering on the batch improves the accuracy; with skewed batches the improvement is
# lost. ``UnseenClassifier(transductive=True)`` scores such models on natural and on skewed batches of held-out domains.
# It uses them only if their gain on natural batches is significant, the mean gain exceeds one point, and skewed batches
# lose at most one point.
for name, values in scores.items():
    print(f"{name:<38} even {values[0]:.0%}, skewed {values[-1]:.0%}")
