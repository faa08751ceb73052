"""A norm penalty with an indefinite kernel has the right answer, or is refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg
from sklearn.metrics.pairwise import sigmoid_kernel

import textbook
from helpers import METHODS, make, pencil, three_domains
from unseen import CIDG, MDA, ProjectionSearchCV
from unseen.estimators import _projection
from unseen.linalg import IndefiniteKernelError, Membership, gram_spectrum, whiten

WITH_NORM = ["CIDG with norm", "SCA", "DICA", "UDICA", "MDA"]
X, Y, D = three_domains()
REFUSED = "kernel='.*' is not positive semi-definite on X.* norm penalty of .* ridge"


def indefinite(least):
    """A centered kernel matrix with a third of its eigenvalues negative, down to this."""
    K = textbook.centered(np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2)))
    values, vectors = linalg.eigh(K)
    values[: len(K) // 3] = np.linspace(least, 0, len(K) // 3)
    return textbook.centered(vectors * values @ vectors.T)


@pytest.mark.parametrize("name", WITH_NORM)
@pytest.mark.parametrize("path", ["eigendecomposition", "Krylov"])
@pytest.mark.parametrize("ridge", [0.11, 1.0])
def test_a_ridge_that_outweighs_the_least_eigenvalue_has_the_answer_of_the_textbook(name, path, ridge, monkeypatch):
    K = indefinite(-0.1)
    monkeypatch.setattr(_projection, "MAX_EIGH_ROWS", 10**9 if path == "eigendecomposition" else 10)
    model = make(name, n_components=2, kernel="precomputed", ridge=ridge).fit(K, Y, sample_domain=D)
    N, A = pencil(name, K, Y, D, ridge)
    np.testing.assert_allclose(model.eigenvalues_, textbook.solve(N, A, 2)[0], rtol=1e-7)
    B = model.dual_coef_ * np.sqrt(model.eigenvalues_)
    np.testing.assert_allclose(N @ B, A @ B * model.eigenvalues_, atol=1e-8 * np.abs(N @ B).max())


@pytest.mark.parametrize("name", WITH_NORM)
@pytest.mark.parametrize("coef0", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("gamma", [0.05, 0.25, 1.0, 3.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_a_sigmoid_kernel_has_the_answer_of_the_textbook_or_is_refused(name, coef0, gamma, scale, monkeypatch):
    K = textbook.centered(sigmoid_kernel(X, gamma=gamma, coef0=coef0))
    weights = {"within_weight": 100.0} if name == "MDA" else {}
    ridge = scale * (0.01 * np.linalg.norm(K)) ** METHODS[name][3]
    N, A = pencil(name, K, Y, D, ridge, **weights)
    model = make(name, n_components=1, kernel="sigmoid", gamma=gamma, coef0=coef0, ridge=ridge, **weights)
    answers = []
    for exact_below in (10**9, 10):  # by an eigendecomposition, and in Krylov spaces where that is sound
        monkeypatch.setattr(_projection, "MAX_EIGH_ROWS", exact_below)
        answers.append(eigenvalues_or_refusal(model))
    if isinstance(answers[0], str):
        assert answers[1] == answers[0]
        assert "not positive semi-definite" in answers[0]
        assert linalg.eigvalsh(K)[0] + ridge < 0  # which would have been enough
    else:
        assert linalg.eigvalsh(A)[0] > 0
        for found in answers:
            np.testing.assert_allclose(found, textbook.solve(N, A, 1)[0], rtol=1e-6)


def eigenvalues_or_refusal(model):
    try:
        return model.fit(X, Y, sample_domain=D).eigenvalues_
    except ValueError as error:
        return str(error)


def test_scatter_inside_cells_may_outweigh_a_negative_norm():
    K = textbook.centered(sigmoid_kernel(X, gamma=1.0, coef0=-1.0))
    ridge = 0.01 * np.linalg.norm(K)
    assert linalg.eigvalsh(K)[0] + ridge < 0
    model = make("MDA", kernel="precomputed", ridge=ridge, within_weight=100.0).fit(K, Y, sample_domain=D)
    N, A = pencil("MDA", K, Y, D, ridge, within_weight=100.0)
    np.testing.assert_allclose(model.eigenvalues_, textbook.solve(N, A, 2)[0], rtol=1e-8)


def test_the_error_says_what_is_negative_and_what_to_do():
    with pytest.raises(
        ValueError, match=r"kernel='sigmoid' .* norm penalty of MDA \(weight 1\) is .* ridge='1e-3\*scale'"
    ):
        MDA(kernel="sigmoid", ridge="1e-3*scale").fit(X, Y, sample_domain=D)
    least = linalg.eigvalsh(textbook.centered(sigmoid_kernel(X, gamma=0.25, coef0=1)))[0]
    model = CIDG(kernel="sigmoid", gamma=0.25, norm_weight=2.0, ridge=1e-6)
    advice = rf"eigenvalue {least:.3g}\..*\(weight 2\).* a ridge above {-2 * least:.3g}"
    with pytest.raises(ValueError, match=advice):
        model.fit(X, Y, sample_domain=D)
    model.set_params(ridge=-2.01 * least).fit(X, Y, sample_domain=D)
    model.set_params(ridge=1e-6, norm_weight=0).fit(X, Y, sample_domain=D)


def test_a_search_fails_such_settings_alone_and_tells_why():
    grid = {"ridge": ["1e-3*scale", 1e3]}
    search = ProjectionSearchCV(MDA(kernel="sigmoid", gamma=0.25), grid, refit=False)
    with pytest.warns(RuntimeWarning, match="1 of 2 settings failed .* ValueError: kernel='sigmoid' is not positive"):
        search.fit(X, Y, sample_domain=D)
    scores = search.cv_results_["mean_test_score"]
    assert np.isnan(scores[0])
    assert np.isfinite(scores[1])
    with pytest.raises(ValueError, match=REFUSED):
        search.set_params(param_grid={"ridge": ["1e-3*scale"]}).fit(X, Y, sample_domain=D)


def test_without_a_norm_penalty_any_symmetric_kernel_will_do():
    K = indefinite(-5.0)
    for name in ("CIDG", "KFDA"):
        model = make(name, kernel="precomputed", ridge=0.1).fit(K, Y, sample_domain=D)
        values = textbook.solve(*pencil(name, K, Y, D, 0.1), 2)[0]
        np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-7)


def test_rounding_is_not_a_negative_eigenvalue():
    membership = Membership.from_codes(Y, D)
    K = indefinite(0.0)
    values, vectors = linalg.eigh(K)
    precision = 1e-10
    for below, refused in ((0.9, False), (1.1, True)):
        values[0] = -below * precision * np.linalg.norm(values)
        spectrum = gram_spectrum(vectors * values @ vectors.T, membership, precision=precision)
        spectrum = spectrum.without_negative_rounding()
        recipe = make("DICA")._scatter_problem(membership.counts, 1e-16)
        if refused:
            with pytest.raises(IndefiniteKernelError):
                whiten(spectrum, recipe)
        else:
            whiten(spectrum, recipe)
