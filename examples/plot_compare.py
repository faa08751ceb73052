"""
Does invariance help on these data?
===================================

:func:`unseen.compare` holds out each domain once. Every method selects its settings on the others, is trained on them
and predicts the held-out domain. The verdict compares the best invariant method with the best plain classifier, paired
by sample, with a confidence interval, which is wide for few domains.
"""

# %%
# Handwritten digits, rotated by five angles
# ------------------------------------------
# With ``store``, results are written to a file, and an interrupted comparison continues from there.
import matplotlib.pyplot as plt

import unseen
from unseen.datasets import load_rotated_digits

data = load_rotated_digits(angles=(0, 15, 30, 45, 60))
comparison = unseen.compare(
    data.data,
    data.target,
    sample_domain=data.domain,
    methods=["1-NN", "logistic", "RBF SVM", "KFDA", "CIDG"],
    quick=True,
    random_state=0,
)
print(comparison)

# %%
# Plot
# ----
# There is one row for each method and one dot for each held-out domain. Open markers are *transductive*: these methods
# use unlabeled samples of the held-out domain.
comparison.plot()
plt.show()

# %%
# Table
# -----
# ``comparison.to_html()`` returns a report with all results.
print(comparison.to_frame().to_string(float_format="{:.3f}".format))
