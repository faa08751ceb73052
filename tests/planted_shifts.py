"""Samples whose domains differ in known ways, and their diagnosis."""

from __future__ import annotations

import numpy as np

from unseen.shift import diagnose


def sample(counts, means, rng, n_features=3):
    """Normal samples: `counts` (domains, classes), `means` (domains, classes) along the first feature."""
    d, y = (np.repeat(index, np.ravel(counts)) for index in map(np.ravel, np.indices(np.shape(counts))))
    X = rng.normal(size=(len(y), n_features))
    X[:, 0] += np.asarray(means, dtype=float)[d, y]
    order = rng.permutation(len(y))
    return X[order], np.array(["a", "b", "c"])[y[order]], np.array(["p", "q", "r"])[d[order]]


EVEN = [[50, 50, 50]] * 3
SKEWED = [[90, 30, 30], [30, 90, 30], [30, 30, 90]]
FIXED = [[0, 3, 6]] * 3
TRUTH = {  # counts, means, what is detected
    "nothing": (EVEN, FIXED, set()),
    "label shift": (SKEWED, FIXED, {"label", "covariate"}),
    "every class moves": (EVEN, [[0, 3, 6], [1, 4, 7], [2, 5, 8]], {"covariate", "conditional", "prior_normalized"}),
    "one class moves": (EVEN, [[0, 3, 6], [2, 3, 6], [4, 3, 6]], {"covariate", "conditional", "prior_normalized"}),
    "classes change places": (EVEN, [[0, 3, 6], [3, 6, 0], [6, 0, 3]], {"conditional"}),
    "everything": (
        SKEWED,
        [[0, 3, 6], [1, 4, 7], [2, 5, 8]],
        {"label", "covariate", "conditional", "prior_normalized"},
    ),
}


def planted(name, seed=1, **options):
    counts, means, _ = TRUTH[name]
    X, y, d = sample(counts, means, np.random.default_rng(seed))
    return diagnose(X, y, sample_domain=d, **{"n_permutations": 399, **options})
