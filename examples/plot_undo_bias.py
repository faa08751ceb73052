"""
A shared model with an offset for each domain
=============================================

:class:`~unseen.UndoBias` does not learn invariant features. It learns one linear classifier for all domains and an
offset for each; a new domain is classified by the shared classifier. The offsets show the bias of each domain.
"""

# %%
# A misleading feature
# --------------------
# The first feature separates the classes in all domains. The second one also does so in the domain north, because of
# the habits of a large hospital, not at all in the domain east, and with the opposite sign in the domain south: it is
# misleading for a new domain.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import LinearSVC

from unseen import UndoBias

rng = np.random.default_rng(0)
habits = {"north": (1.5, 600), "east": (0.0, 100), "south": (-1.5, 100)}
X, y, d = [], [], []
for hospital, (habit, n) in habits.items():
    sign = rng.choice([-1, 1], n)
    X.append(np.column_stack([1.0 * sign, habit * sign, 0 * sign]) + rng.normal(size=(n, 3)))
    y.append(sign)
    d.append(np.full(n, hospital))
X, y, d = map(np.concatenate, (X, y, d))

single = LinearSVC(C=1.0, random_state=0).fit(X, y)
fig, ax = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
position, width = np.arange(3), 0.15
ax.bar(position - 2 * width, single.coef_[0], width, label="one SVM for all", color="0.6")
model = UndoBias(shared_cost=0.01, offset_penalty=10).fit(X, y, sample_domain=d)
ax.bar(position - width, model.coef_[0], width, label="Undo-Bias, shared", color="C3")
for i, (name, offset) in enumerate(zip(model.domains_, model.domain_coef_, strict=True)):
    ax.bar(position + i * width, offset[0], width, label=f"offset of {name}", color=f"C{i}", alpha=0.6)
ax.axhline(0, color="0.3", linewidth=0.8)
ax.set_xticks(position, ["symptom", "habit", "noise"])
ax.set_ylabel("weight")
ax.legend(frameon=False, fontsize=8, ncols=2)
plt.show()

# %%
# A new hospital without the habit
# --------------------------------
# The largest domain dominates a single SVM for all domains. With a suitable ``offset_penalty``, offsets represent its
# habit. If the penalty is too small, they also represent the symptom; if it is too large, the model is a single SVM
# again.
sign = rng.choice([-1, 1], 5000)
X_new = np.column_stack([1.0 * sign, np.zeros(5000), np.zeros(5000)]) + rng.normal(size=(5000, 3))
share = abs(single.coef_[0, 1] / single.coef_[0, 0])
print(f"one SVM for all        {single.score(X_new, sign):.1%}, habit / symptom {share:.2f}")
for penalty in (0.3, 1, 10, 1000):
    model = UndoBias(shared_cost=0.01, offset_penalty=penalty).fit(X, y, sample_domain=d)
    share = abs(model.coef_[0, 1] / model.coef_[0, 0])
    print(f"offset_penalty={penalty:<7g} {model.score(X_new, sign):.1%}, habit / symptom {share:.2f}")
