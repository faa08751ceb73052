"""A small problem and fast models, for tests of invalid calls."""

from __future__ import annotations

import numpy as np

from helpers import three_domains
from unseen import CIDG, ProjectionSearchCV, UnseenClassifier

X, Y, D = three_domains(n_per_cell=2)
N = len(X)
GRAM = X @ X.T


def replace_entry(array, position, value):
    array = np.array(array, dtype=object if value is None or isinstance(value, list) else None)
    array[position] = value
    return array


def search(param_grid=None, estimator=None, **options):
    return ProjectionSearchCV(
        estimator or CIDG(), {"ridge": ["scale"]} if param_grid is None else param_grid, **options
    )


def plain(**options):
    return UnseenClassifier(["logistic"], **options)
