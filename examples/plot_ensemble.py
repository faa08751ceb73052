"""
Many models, one answer
=======================

:class:`~unseen.UnseenClassifier` asks many models about domains that they were not trained on, and weighs them by what
they said there. With ``transductive=True`` it uses unlabeled samples of the new domain if that improves predictions of
held-out domains.
"""

# %%
# Fit
# ---
# Five angles to learn from, and a sixth that nobody has seen.
import matplotlib.pyplot as plt
import numpy as np

from unseen import UnseenClassifier
from unseen.datasets import load_rotated_digits
from unseen.model_selection import LeaderboardDisplay

data = load_rotated_digits()
rng = np.random.default_rng(0)
few = np.sort(rng.permutation(len(data.target))[:900])
X, y, domain = data.data[few] / 16, data.target[few], data.domain[few]
seen = domain != "rot75"
model = UnseenClassifier(["logistic", "RBF SVM", "CIDG"], transductive=True)
model.fit(X[seen], y[seen], sample_domain=domain[seen])

# %%
# Who is in the pool, and why
# ---------------------------
for member in model.members_:
    print(f"{member['weight']:5.1%}  {member['model']:<28} {member['kind']}")
print(*model.decisions_, sep="\n")

# %%
# Filled diamonds classify single samples; open ones need a batch of the new domain. Small dots are held-out domains.
LeaderboardDisplay.from_classifier(model)
plt.show()

# %%
# What to expect, and what came
# -----------------------------
# The forecast was made without the sixth angle. It holds if that angle is to the others what they are to each other;
# this one lies outside of them.
low, high = model.forecast_[-2:]
score = model.score(X[~seen], y[~seen])
print(f"forecast for one more domain: {low:.0%} to {high:.0%}; the sixth angle: {score:.0%}")

# %%
# Can its probabilities be believed?
# ----------------------------------
# Predictions of the sixth angle in bins of equal size: the mean probability of the predicted class, and how often it
# was right.
P = model.predict_proba(X[~seen])
sure, right = P.max(axis=1), model.classes_[P.argmax(axis=1)] == y[~seen]
bins = np.array_split(np.argsort(sure), 6)
fig, ax = plt.subplots(figsize=(4.2, 4), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
ax.plot([sure[b].mean() for b in bins], [right[b].mean() for b in bins], "o-")
ax.set(xlabel="probability of the predicted class", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
plt.show()
