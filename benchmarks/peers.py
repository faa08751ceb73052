"""The nearest relatives in other libraries: components of a kernel matrix of the same size."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator

import numpy as np
from sklearn import config_context
from sklearn.decomposition import KernelPCA

from unseen import CIDG, DICA

from .measure import Row, best_of, samples

N = 2000
GAMMA = 0.005


def rows() -> Iterator[Row]:
    X, y, d = samples(N)
    pca, cidg = best_of(
        3,
        lambda: KernelPCA(100, kernel="rbf", gamma=GAMMA, eigen_solver="dense").fit(X),
        lambda: CIDG(gamma=GAMMA).fit(X, y, sample_domain=d),
    )
    yield Row(f"scikit-learn's KernelPCA, dense, n={N} / our CIDG", pca / cidg, 2, False, f"{pca:.2f} s / {cidg:.2f} s")
    if importlib.util.find_spec("skada") is None:
        print("skada is not installed: nothing to compare with (pip install skada)", file=sys.stderr)
        return
    with config_context():  # importing skada turns metadata routing on
        from skada import TransferComponentAnalysisAdapter

        # Both penalize the scatter of the means of two domains; in skada's convention targets are negative.
        two = np.where(d == 0, -1, 1)
        tca, udica = best_of(
            2,
            lambda: TransferComponentAnalysisAdapter(n_components=10).fit(X, sample_domain=two),
            lambda: DICA(10, supervised=False, gamma=GAMMA).fit(X, sample_domain=two),
        )
    yield Row(f"skada's TCA, n={N} / our UDICA", tca / udica, 2, False, f"{tca:.2f} s / {udica:.2f} s")
