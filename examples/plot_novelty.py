"""
Novelty of a new domain
=======================

Held-out scores apply only to new domains that are similar to the training domains. :class:`~unseen.shift.Novelty`
measures, without labels, the distance of a batch from the source domains, relative to the distances between these.
``unseen predict`` prints it for every new table.
"""

# %%
# Digits at increasing angles
# ---------------------------
# Train at 0 to 30 degrees, then evaluate batches at all angles up to 90 degrees.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from unseen.datasets import load_rotated_digits
from unseen.shift import Novelty

angles = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]
data = load_rotated_digits(angles=angles)
X = data.data / 16
seen = np.isin(data.domain, ["rot00", "rot10", "rot20", "rot30"])
novelty = Novelty().fit(X[seen], sample_domain=data.domain[seen])
model = SVC(C=10, gamma="scale").fit(X[seen], data.target[seen])

ratios, scores, far = [], [], []
for name in data.domain_names:
    rows = data.domain == name
    result = novelty.compare(X[rows])
    ratios.append(result.ratio)
    far.append(result.far)
    scores.append(model.score(X[rows], data.target[rows]))
    print(f"{name}: {result.text}")

# %%
# The novelty score increases with the angle, without labels, and the accuracy decreases. Novelty does not predict the
# accuracy: a shift in a direction that a classifier does not use is also novel, but harmless. It shows when to check a
# batch.
fig, left = plt.subplots(figsize=(7, 3.8), layout="constrained")
left.axvspan(-3, 33, color="0.92", zorder=0)
left.plot(angles, ratios, "o-", color="C0")
left.scatter(np.array(angles)[far], np.array(ratios)[far], s=90, facecolors="none", edgecolors="C0")
left.set(xlabel="angle of the batch (gray: angles of the sources; rings: called far)", ylim=(0, None))
left.set_ylabel("novelty, relative to the source domains", color="C0")
right = left.twinx()
right.plot(angles, scores, "s--", color="C3")
right.set_ylabel("accuracy of an SVM", color="C3")
right.set_ylim(0, 1.02)
plt.show()
