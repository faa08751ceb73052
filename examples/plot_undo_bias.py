"""
A shared model, and what each place adds
========================================

:class:`~unseen.UndoBias` does not seek invariant features. It learns one linear classifier for all places and an offset
for each; a new place gets the shared one alone. What the offsets hold is the bias of the places, to be looked at.
"""

# %%
# A symptom that misleads
# -----------------------
# The first feature tells the classes apart everywhere. The second does so too in the north, by the habits of a large
# hospital, not at all in the east, and the other way round in the south: it must not be trusted in a fourth place.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import LinearSVC

from unseen import UndoBias

rng = np.random.default_rng(0)
habits = {"north": (1.5, 600), "east": (0.0, 100), "south": (-1.5, 100)}
X, y, d = [], [], []
for place, (habit, n) in habits.items():
    sign = rng.choice([-1, 1], n)
    X.append(np.column_stack([1.0 * sign, habit * sign, 0 * sign]) + rng.normal(size=(n, 3)))
    y.append(sign)
    d.append(np.full(n, place))
X, y, d = map(np.concatenate, (X, y, d))

pooled = LinearSVC(C=1.0, random_state=0).fit(X, y)
fig, ax = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
place, width = np.arange(3), 0.15
ax.bar(place - 2 * width, pooled.coef_[0], width, label="one SVM for all", color="0.6")
model = UndoBias(shared_cost=0.01, offset_penalty=10).fit(X, y, sample_domain=d)
ax.bar(place - width, model.coef_[0], width, label="Undo-Bias, shared", color="C3")
for i, (name, offset) in enumerate(zip(model.domains_, model.domain_coef_, strict=True)):
    ax.bar(place + i * width, offset[0], width, label=f"offset of {name}", color=f"C{i}", alpha=0.6)
ax.axhline(0, color="0.3", linewidth=0.8)
ax.set_xticks(place, ["symptom", "habit", "noise"])
ax.set_ylabel("weight")
ax.legend(frameon=False, fontsize=8, ncols=2)
plt.show()

# %%
# In a fourth hospital without the habit
# --------------------------------------
# In one SVM for all, the largest place has the last word. Offsets take its habit up, if ``offset_penalty`` is of a
# middling size: too small, and they take up the symptom as well; too large, and there is one SVM for all again.
sign = rng.choice([-1, 1], 5000)
X_new = np.column_stack([1.0 * sign, np.zeros(5000), np.zeros(5000)]) + rng.normal(size=(5000, 3))
share = abs(pooled.coef_[0, 1] / pooled.coef_[0, 0])
print(f"one SVM for all        {pooled.score(X_new, sign):.1%}, habit / symptom {share:.2f}")
for penalty in (0.3, 1, 10, 1000):
    model = UndoBias(shared_cost=0.01, offset_penalty=penalty).fit(X, y, sample_domain=d)
    share = abs(model.coef_[0, 1] / model.coef_[0, 0])
    print(f"offset_penalty={penalty:<7g} {model.score(X_new, sign):.1%}, habit / symptom {share:.2f}")
