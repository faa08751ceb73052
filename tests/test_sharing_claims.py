"""What candidates share, and which rows are where, is what each would have by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evaluation_sample import SAMPLES, SPLITS, X
from unseen import CIDG
from unseen.kernels import _nystroem as _plan
from unseen.model_selection import (
    PreparedSplits,
)
from unseen.utils.samples import Samples

# What is shared


@pytest.mark.parametrize("far", [1e9, 1e12, 1e15])
def test_a_row_outside_a_split_does_not_change_the_rounding_of_its_distances(far):
    stretched = np.vstack([X, np.full((1, X.shape[1]), far)])
    more = Samples(stretched, np.append(SAMPLES.y, SAMPLES.y[0]), np.append(SAMPLES.domain, SAMPLES.domain[0]))
    near, beside = (PreparedSplits.from_splits(samples, {0: SPLITS[0]}) for samples in (SAMPLES, more))
    for ours, theirs in zip(beside.distances, near.distances, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for kernel in ("rbf", "linear", "poly", "laplacian"):
        model = CIDG(kernel=kernel, gamma=0.1)
        one, two = (rows.decompose(model).project(model)[0] for rows in (near, beside))
        np.testing.assert_array_equal(one.train, two.train)
        np.testing.assert_array_equal(one.test, two.test)


@pytest.mark.parametrize("kernel", ["linear", "precomputed", "rbf"])
def test_kernel_matrices_of_a_search_are_refused_where_three_do_not_fit(kernel, monkeypatch):
    samples = replace(SAMPLES, X=X @ X.T) if kernel == "precomputed" else SAMPLES
    need = 3 * 8 * len(X) ** 2
    monkeypatch.setattr(_plan, "available_bytes", lambda: need)
    PreparedSplits.from_splits(samples, {0: SPLITS[0]}).decompose(CIDG(kernel=kernel))
    monkeypatch.setattr(_plan, "available_bytes", lambda: need - 1)
    with pytest.raises(MemoryError, match=r"A search over CIDG .* needs 3 matrices"):
        PreparedSplits.from_splits(samples, {0: SPLITS[0]}).decompose(CIDG(kernel=kernel))
