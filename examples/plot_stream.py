"""
Streaming: partial_fit in chunks
================================

A projection on explicit features needs counts, sums and one Gram matrix, which are additive over chunks, files and
machines. ``partial_fit`` is therefore exact, and memory does not depend on the number of rows.
"""

# %%
# Thirty thousand rows, at once and in shuffled chunks.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator

from unseen import CIDG, PivotedNystroem

rng = np.random.default_rng(0)
n = 30_000
y, d = rng.integers(0, 4, n), rng.integers(0, 5, n)
X = rng.normal(size=(n, 10)) + rng.normal(size=(4, 10))[y] + 0.5 * rng.normal(size=(5, 10))[d]

landmarks = FrozenEstimator(PivotedNystroem(150, random_state=0).fit(X[:2000]))
whole = CIDG(feature_map=landmarks, conditional_weight="scale").fit(X, y, sample_domain=d)
Z = whole.transform(X[:500])

# %%
# The same projection from chunks of different sizes. The differences are rounding errors.
sizes, differences = [100, 300, 1000, 3000, 10_000], []
for size in sizes:
    stream = CIDG(feature_map=landmarks, conditional_weight="scale")
    order = rng.permutation(n)
    for start in range(0, n, size):
        rows = order[start : start + size]
        stream.partial_fit(X[rows], y[rows], sample_domain=d[rows])
    differences.append(np.abs(stream.transform(X[:500]) - Z).max() / np.abs(Z).max())
print({size: f"{difference:.1e}" for size, difference in zip(sizes, differences, strict=True)})

# %%
# Time
# ----
# The time is proportional to the number of rows; memory is constant.
counts, seconds = [2000, 4000, 8000, 16_000, 30_000], []
for rows in counts:
    start = time.perf_counter()
    stream = CIDG(feature_map=landmarks)
    for i in range(0, rows, 1000):
        stream.partial_fit(X[i : i + 1000], y[i : i + 1000], sample_domain=d[i : i + 1000])
    stream.transform(X[:1])
    seconds.append(time.perf_counter() - start)

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.loglog(sizes, differences, "o-")
left.set(
    xlabel="rows in a chunk", ylabel="largest relative difference", title="difference from one pass", ylim=(1e-16, 1e-6)
)
right.plot(counts, seconds, "o-")
right.set(xlabel="rows", ylabel="seconds", title="time of a stream", ylim=(0, None), xlim=(0, None))
plt.show()
