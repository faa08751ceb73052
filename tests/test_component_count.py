"""Components that rounding errors could have made are left out, by one rule, however the eigenproblem is solved."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

import textbook
from helpers import three_domains
from unseen import CIDG, DICA, KFDA, MDA, SCA
from unseen.estimators import _projection
from unseen.linalg import (
    CellStatistics,
    Membership,
    gram_spectrum,
    solve,
    whiten,
)
from unseen.model_selection import PreparedSplits
from unseen.utils.samples import Samples

N, CLASSES = 360, 6
EPS = np.finfo(float).eps


def few_dimensions(n=N, n_features=2):
    """Six classes in one or two dimensions: fewer directions than classes less one."""
    y, d = np.arange(n) % CLASSES, (np.arange(n) // CLASSES) % 3
    X = 4 * np.random.default_rng(7).normal(size=(CLASSES, 2))[y] + np.random.default_rng(0).normal(size=(n, 2))
    return (X + 0.3 * d[:, None])[:, :n_features], y, d


PATHS = {
    "eigendecomposition": {"MAX_EIGH_ROWS": 10**9},
    "Krylov": {"MAX_EIGH_ROWS": 10},
}


def eigenvalues_by(path, model, X, y, d, monkeypatch):
    """Eigenvalues of a fit that is solved in this way."""
    if path == "search":
        everything = np.arange(len(y))
        rows = PreparedSplits.from_splits(Samples(X, y, d), {0: (everything, everything[:5])})
        problem, solution = rows.decompose(model).solve(model)
        return problem.select_components(solution).eigenvalues
    with monkeypatch.context() as patch:
        for name, value in PATHS.get(path, {}).items():
            patch.setattr(_projection, name, value)
        return model.fit(X, y, sample_domain=d).eigenvalues_


def assert_same_count(found):
    counts = {path: len(values) for path, values in found.items()}
    assert len(set(counts.values())) == 1, counts
    first, *others = found.values()
    for other in others:
        np.testing.assert_allclose(other, first, rtol=0.1)  # the smallest are known to a digit or two


ESTIMATORS = [CIDG, KFDA, MDA, DICA, SCA]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_a_kernel_of_rank_two_has_two_components_on_every_path(estimator, kernel, monkeypatch):
    X, y, d = few_dimensions(n_features=2 if kernel == "linear" else 1)
    options = {"kernel": kernel, "degree": 2, "gamma": 0.1}
    found = {
        path: eigenvalues_by(path, estimator(**options), X, y, d, monkeypatch)
        for path in ("eigendecomposition", "Cholesky", "Krylov", "search")
    }
    # (0.1 x y + 1)^2 less constants has the features 0.1 x^2 and sqrt(0.2) x.
    features = X if kernel == "linear" else PolynomialFeatures(2, include_bias=False).fit_transform(X) * [0.2**0.5, 0.1]
    found["feature map"] = estimator(feature_map="linear").fit(features, y, sample_domain=d).eigenvalues_
    stream = estimator(feature_map="linear")
    for rows in np.array_split(np.arange(N), 7):
        stream.partial_fit(features[rows], y[rows], sample_domain=d[rows])
    found["stream"] = stream.finalize().eigenvalues_
    assert_same_count(found)
    assert len(found["stream"]) == 2


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("gamma", [1e-2, 2.7e-5, 1e-7])
@pytest.mark.parametrize("precomputed", [False, True])
def test_wide_kernels_have_as_many_components_on_every_path(estimator, gamma, precomputed, monkeypatch):
    X, y, d = few_dimensions(n_features=1)
    model = estimator(gamma=gamma)
    if precomputed:
        X, model = np.exp(-gamma * (X - X.T) ** 2), estimator(kernel="precomputed")
    paths = ("eigendecomposition", "Cholesky", "Krylov", "search")
    assert_same_count({path: eigenvalues_by(path, model, X, y, d, monkeypatch) for path in paths})


# Against arithmetic of 50 digits


def exact_rbf(X, gamma):
    X = np.array([[mpmath.mpf(float(value)) for value in row] for row in X], dtype=object)
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return textbook.centered(np.frompyfunc(mpmath.exp, 1, 1)(-mpmath.mpf(gamma) * squares))


def solved(A, B):
    """A^-1 B by elimination, without pivots: A is positive definite."""
    A, B = A.copy(), B.copy()
    for i in range(len(A)):
        factors = A[i + 1 :, i] / A[i, i]
        A[i + 1 :] = A[i + 1 :] - factors[:, None] * A[i]
        B[i + 1 :] = B[i + 1 :] - factors[:, None] * B[i]
    for i in reversed(range(len(A))):
        B[i] = (B[i] - A[i, i + 1 :] @ B[i + 1 :]) / A[i, i]
    return B


def exact_eigenvalues(K, A, y):
    """All but the last, which is zero, of a pencil with the between-class scatter of a centered K as its numerator."""
    sizes = {j: int((y == j).sum()) for j in np.unique(y)}
    root = np.array([K[:, y == j].sum(axis=1) / mpmath.sqrt(size) for j, size in sizes.items()], dtype=object).T
    small = root.T @ solved(A, root)
    values = mpmath.eigsy(mpmath.matrix(((small + small.T) / 2).tolist()), eigvals_only=True)
    return np.sort([float(value) for value in values])[::-1][:-1]


@pytest.mark.parametrize("ridge", [1e-2, 1e-5])
@pytest.mark.parametrize("gamma", [1e-1, 1e-4, 1e-6, 1e-8, 1e-10])
def test_what_is_kept_is_right_and_what_is_large_enough_is_kept(gamma, ridge, monkeypatch):
    X, y, d = few_dimensions(30, 1)
    with mpmath.workdps(60):
        exact = exact_rbf(X, gamma)
        size = float(np.linalg.norm(exact.astype(float)))
        ridge = ridge * size**2
        A = textbook.cidg(exact, y, d, conditional_weight=1, prior_weight=1, ridge=mpmath.mpf(ridge))[1]
        expected = exact_eigenvalues(exact, A, y)
    options = {"conditional_weight": 1.0, "prior_weight": 1.0, "ridge": ridge}
    for precomputed in (False, True):
        model = CIDG(kernel="precomputed", **options) if precomputed else CIDG(gamma=gamma, **options)
        samples = np.exp(-gamma * (X - X.T) ** 2) if precomputed else X
        # A matrix of kernel values is rounded before it is centered, beside values of one.
        rounding = EPS * len(y) * (max(size, 1.0) if precomputed else size)
        enough = np.sqrt(expected) > 1.1 * rounding / np.sqrt(ridge)
        for path in ("eigendecomposition", "search"):
            found = eigenvalues_by(path, model, samples, y, d, monkeypatch)
            assert len(found) >= np.count_nonzero(enough), path  # nothing genuine is dropped
            exact_roots = np.sqrt(np.maximum(expected[: len(found)], 0.0))
            np.testing.assert_allclose(np.sqrt(found), exact_roots, rtol=0.5, atol=0)  # and nothing is noise


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("small", [1e-5, 1e-9, 1e-12])
def test_a_direction_in_which_classes_differ_by_little_is_a_component(small, scale):
    X, y, d = three_domains(n_per_cell=20, n_features=2)
    X = scale * X * [1.0, np.sqrt(small)]  # its eigenvalue in the Gram matrix is that much smaller
    membership = Membership.from_codes(y, d)
    K = (X - X.mean(axis=0)) @ (X - X.mean(axis=0)).T
    recipe = KFDA()._scatter_problem(membership.counts, 1e-4 * np.linalg.norm(K) ** 2)
    for pencil in (
        whiten(gram_spectrum(K.copy(), membership), recipe),
        whiten(CellStatistics.from_features(X, membership).spectrum(), recipe),
    ):
        assert len(solve(pencil, recipe, membership.counts).eigenvalues) == 2


def copies_of_four_rows(seed, n_features):
    """46 samples of eight classes and five domains, some cells missing: copies of four rows of very different size."""
    rng = np.random.default_rng(seed)
    cells = np.flatnonzero(rng.random(40) < 0.6)
    d, y = np.divmod(rng.choice(cells, size=46), 8)
    rows = rng.lognormal(sigma=4, size=(4, n_features))
    return rows[rng.choice(4, size=46, p=rng.dirichlet(np.ones(4)))], y, d


def exact_rank(rows):
    """The rank of a list of lists of fractions, by elimination."""
    if not rows or not rows[0]:
        return 0
    pivot = next((row for row in rows if row[0]), None)
    if pivot is None:
        return exact_rank([row[1:] for row in rows])
    others = [row for row in rows if row is not pivot]
    return 1 + exact_rank(
        [[a - row[0] / pivot[0] * b for a, b in zip(row[1:], pivot[1:], strict=True)] for row in others]
    )


def numerator_rank(X, y):
    """The rank of the between-class scatter of a kernel for which distinct rows are linearly independent."""
    _, row = np.unique(X, axis=0, return_inverse=True)
    tables = [np.bincount(row.ravel()[members], minlength=row.max() + 1) for members in (y == j for j in np.unique(y))]
    grand = [Fraction(int(count), len(y)) for count in np.bincount(row.ravel())]
    return exact_rank(
        [[Fraction(int(k), int(table.sum())) - mean for k, mean in zip(table, grand, strict=True)] for table in tables]
    )


@pytest.mark.parametrize(
    ("seed", "n_features", "gamma"),
    [
        (240, 1, "1e4*median"),
        (2017, 1, "1e4*median"),
        (4237, 1, "1e4*median"),
        (21, 2, "1e4*median"),
        (164, 3, "median"),
    ],
)
@pytest.mark.parametrize("path", ["fit", "search"])
def test_rounding_errors_of_distances_between_copies_are_no_components(seed, n_features, gamma, path, monkeypatch):
    """The rows lie far from their mean, so that distances of copies from other rows differ by rounding errors."""
    X, y, d = copies_of_four_rows(seed, n_features)
    found = eigenvalues_by(path, KFDA(gamma=gamma, ridge="1e-6*scale"), X, y, d, monkeypatch)
    assert len(found) <= numerator_rank(X, y)
