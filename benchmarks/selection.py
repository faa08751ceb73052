"""The whole grid for the price of one decomposition per fold."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from itertools import product
from unittest import mock

import numpy as np
import sklearn
from scipy import linalg
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from unseen import CIDG, ProjectionSearchCV
from unseen.kernels import Kernel, center_kernel
from unseen.linalg import Membership, gram_spectrum, solve, whiten
from unseen.model_selection import EnsembleClassifier, LeaveOneDomainOut

from .measure import Row, best_of, peak_bytes, samples

N = 2000
GAMMA = 0.005
GRID = {
    "conditional_weight": list(np.geomspace(1, 1e6, 10)),
    "prior_weight": list(np.geomspace(1, 1e6, 10)),
    "ridge": ["1e-2*scale", "0.1*scale", "scale", "10*scale"],
}
EIGHT = {"conditional_weight": [1.0, 1e6], "prior_weight": [1.0, 1e6], "ridge": ["1e-2*scale", "10*scale"]}


def rows() -> Iterator[Row]:
    X, y, d = samples(N)
    X = X + np.random.default_rng(1).normal(scale=2, size=X.shape)  # so hard that settings differ
    splits = list(LeaveOneDomainOut().split(X, y, d))
    search = ProjectionSearchCV(CIDG(gamma=GAMMA), GRID, cv=splits)
    parts = [train for train, _ in splits] + [np.arange(N)]
    centered = []
    for part in parts:
        K = kernel_matrix(X[part])
        center_kernel(K)
        centered.append(K)
    whole, decompositions = best_of(
        3, lambda: search.fit(X, y, sample_domain=d), lambda: [linalg.eigh(K) for K in centered]
    )
    yield Row(
        f"search of 400 settings, n={N}: ours / four eigendecompositions",
        whole / decompositions,
        2.5,
        True,
        f"{whole:.2f} s / {decompositions:.2f} s",
    )
    eight = ProjectionSearchCV(CIDG(gamma=GAMMA), EIGHT, cv=splits, refit=False).fit(X, y, sample_domain=d)
    # Fits that decompose, as the search does; and fits as they are, each of which goes without where that is sound.
    exact = mock.patch("unseen.estimators._projection.MAX_EIGH_ROWS", N)
    for how, context, bound in (("by decompositions", exact, 50), ("by factorizations", nullcontext(), 20)):
        start = time.perf_counter()
        with sklearn.config_context(enable_metadata_routing=True), context:
            pipeline = Pipeline([("p", CIDG(gamma=GAMMA)), ("c", KNeighborsClassifier(1))])
            grid = {f"p__{name}": values for name, values in EIGHT.items()}
            brute = GridSearchCV(pipeline, grid, cv=splits, refit=False).fit(X, y, sample_domain=d)
        slow = (time.perf_counter() - start) * 400 / 8
        same = np.array_equal(eight.cv_results_["rank_test_score"], brute.cv_results_["rank_test_score"])
        detail = f"{slow:.0f} s extrapolated from 8 settings / {whole:.2f} s; rankings {'agree' if same else 'DIFFER'}"
        yield Row(
            f"GridSearchCV on our own pipeline, {how} / ours", slow / whole if same else 0.0, bound, False, detail
        )
    yield from (setting_row(n) for n in (500, 2000))
    yield memory_row()
    yield from pool_rows()


def kernel_matrix(X: np.ndarray) -> np.ndarray:
    return Kernel(gamma=GAMMA).evaluate(X)


def setting_row(n: int) -> Row:
    """One more weight setting, scoring aside, in milliseconds."""
    X, y, d = samples(n)
    K = kernel_matrix(X)
    center_kernel(K)
    membership = Membership.from_codes(y, d)
    recipe = CIDG()._scatter_problem(membership.counts, 1e-4 * float(np.linalg.norm(K)) ** 2)
    pencil = whiten(gram_spectrum(K, membership), recipe)

    def many() -> None:
        for conditional, prior in product([0.0, 1.0, 1e2, 1e4], repeat=2):
            model = CIDG(conditional_weight=conditional, prior_weight=prior)
            solve(pencil, model._scatter_problem(membership.counts, recipe.ridge), membership.counts)

    (seconds,) = best_of(5, many)
    return Row(f"a further weight setting, n={n}, ms", 1e3 * seconds / 16, 2, True, "15 cells")


def pool_rows() -> Iterator[Row]:
    """A pool of five kinds of members beside each of them alone, and on single samples."""
    X, y, d = samples(N, n_features=64)
    head = make_pipeline(StandardScaler(), LogisticRegression())
    projected = [make_pipeline(CIDG(ridge=ridge), head) for ridge in ("1e-2*scale", "scale")]
    plain = [make_pipeline(classifier) for classifier in (SVC(), LinearSVC(), LogisticRegression())]
    members, share = [*projected, *plain], np.full(5, 0.2)
    pool = EnsembleClassifier(members, share, np.ones(5)).fit(X, y, sample_domain=d)
    alone = [EnsembleClassifier([member], np.ones(1), np.ones(1)).with_members([member]) for member in pool.members_]
    whole, *each = best_of(5, *(partial(one.predict_proba, X) for one in (pool, *alone)))
    detail = f"{1e3 * whole:.0f} ms / {1e3 * max(each):.0f} ms"
    yield Row(f"predictions of a pool of five, n={N}: ours / dearest member", whole / max(each), 5, True, detail)
    (single,) = best_of(50, lambda: pool.predict_proba(X[:1]))
    yield Row(f"a single sample, pool of five fitted to {N} x 64, ms", 1e3 * single, 5, True, "inductive")


def memory_row() -> Row:
    peak = peak_bytes(
        "from unseen import CIDG, ProjectionSearchCV\nfrom benchmarks.measure import samples\n"
        "from benchmarks.selection import GRID, GAMMA\n"
        "X, y, d = samples(300)\nProjectionSearchCV(CIDG(gamma=GAMMA), GRID).fit(X, y, sample_domain=d)\n"
        f"X, y, d = samples({N})",
        "ProjectionSearchCV(CIDG(gamma=GAMMA), GRID).fit(X, y, sample_domain=d)",
    )
    detail = f"{peak / 2**20:.0f} MiB"
    return Row(f"search of 400 settings, n={N}: peak memory / one n x n", peak / (8 * N * N), 6, True, detail)
