"""
Is this place like the others?
==============================

A model is only as good as the resemblance of the next place to those it knows. :class:`~unseen.shift.Novelty` measures,
without labels, how far a batch lies from the sources, in units of how far these lie from each other. ``unseen predict``
prints it with every new table.
"""

# %%
# Digits that turn further and further
# ------------------------------------
# Learned from at 0 to 30 degrees; then batches at every angle up to 90.
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
    own = data.domain == name
    result = novelty.start().add(X[own]).result()
    ratios.append(result.ratio)
    far.append(result.far)
    scores.append(model.score(X[own], data.target[own]))
    print(f"{name}: {result.text}")

# %%
# Novelty rises before anybody has a label, and accuracy falls. It does not say how much: a shift in a direction that no
# classifier uses is novel, too, and harmless. It says when to look.
fig, left = plt.subplots(figsize=(7, 3.8), layout="constrained")
left.axvspan(-3, 33, color="0.92", zorder=0)
left.plot(angles, ratios, "o-", color="C0")
left.scatter(np.array(angles)[far], np.array(ratios)[far], s=90, facecolors="none", edgecolors="C0")
left.set(xlabel="angle of the batch (gray: angles of the sources; rings: called far)", ylim=(0, None))
left.set_ylabel("novelty, in distances between sources", color="C0")
right = left.twinx()
right.plot(angles, scores, "s--", color="C3")
right.set_ylabel("accuracy of an SVM", color="C3")
right.set_ylim(0, 1.02)
plt.show()
