"""
An ensemble for a new domain
============================

:class:`~unseen.UnseenClassifier` evaluates many models on held-out domains and fits ensemble weights to their
out-of-domain predictions. With ``transductive=True`` it uses unlabeled samples of the new domain if this passes an
acceptance test on held-out domains.
"""

# %%
# Fit
# ---
# Train on five angles and predict a sixth.
import matplotlib.pyplot as plt
import numpy as np

from unseen import UnseenClassifier
from unseen.datasets import load_rotated_digits

data = load_rotated_digits()
rng = np.random.default_rng(0)
few = np.sort(rng.permutation(len(data.target))[:900])
X, y, domain = data.data[few] / 16, data.target[few], data.domain[few]
seen = domain != "rot75"
model = UnseenClassifier(["logistic", "RBF SVM", "CIDG"], transductive=True)
model.fit(X[seen], y[seen], sample_domain=domain[seen])

# %%
# Members of the ensemble
# -----------------------
for member in model.members_:
    print(f"{member['weight']:5.1%}  {member['model']:<28} {member['kind']}")
print(*model.decisions_, sep="\n")

# %%
# All models with their accuracy on held-out domains, best first.
print(model.leaderboard_)

# %%
# Forecast and accuracy
# ---------------------
# The forecast does not use the sixth angle. It assumes that this angle differs from the others as they differ from each
# other; here it is outside of their range.
print(model.forecast_)
print(f"accuracy on the sixth angle: {model.score(X[~seen], y[~seen]):.0%}")

# %%
# Calibration
# -----------
# Predictions of the sixth angle in bins of equal size: the mean probability of the predicted class, and the accuracy.
P = model.predict_proba(X[~seen])
confidence, correct = P.max(axis=1), model.classes_[P.argmax(axis=1)] == y[~seen]
bins = np.array_split(np.argsort(confidence), 6)
fig, ax = plt.subplots(figsize=(4.2, 4), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
ax.plot([confidence[b].mean() for b in bins], [correct[b].mean() for b in bins], "o-")
ax.set(xlabel="probability of the predicted class", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.02))
plt.show()
