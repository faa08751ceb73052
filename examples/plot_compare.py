"""
Does invariance help on these data?
===================================

:func:`unseen.compare` holds out each domain once. Every method chooses its settings on the others, is trained on them
and classifies the one that was left out. The verdict pairs the best invariant method with the best plain one, sample by
sample, and comes with an interval: few domains tell little, and it says so.
"""

# %%
# Handwritten digits, turned by five angles
# -----------------------------------------
# A file of results is kept if ``results`` names one, and a comparison that was stopped goes on from there.
import matplotlib.pyplot as plt

import unseen
from unseen.datasets import load_rotated_digits

data = load_rotated_digits(angles=(0, 15, 30, 45, 60))
comparison = unseen.compare(
    data.data,
    data.target,
    sample_domain=data.domain,
    methods=["1NN", "logistic", "RBF SVM", "KFDA", "CIDG"],
    repeats=1,
    quick=True,
    random_state=0,
)
print(comparison)

# %%
# As a picture
# ------------
# One row for each method, one dot for each held-out domain. Open markers saw the unlabeled samples of the domain that
# they are scored on: their scores are *transductive*.
comparison.plot()
plt.show()

# %%
# As a table
# ----------
# ``comparison.to_html("report.html")`` writes the page with everything in it.
print(comparison.frame().to_string(float_format="{:.3f}".format))
