"""Undo-Bias solves the problem that it states, and is the classifier that it says it is."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from helpers import three_domains
from undo_bias_oracle import khosla, optimum
from unseen import UndoBias
from unseen.estimators._undo_bias import BIAS
from unseen.exceptions import SingleDomainWarning


def problem(n_classes=3, n_per_cell=4, seed=0):
    """Overlapping classes, so that some samples lie on the wrong side of every margin."""
    X, y, d = three_domains(n_per_cell=n_per_cell, n_classes=n_classes, n_features=3, seed=seed)
    return X + 2 * np.random.default_rng(seed + 1).normal(size=X.shape), y, d


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "weights",
    [
        {},
        {"shared_cost": 0.7, "domain_cost": 2.0, "offset_penalty": 0.5},
        {"shared_cost": 0.05, "domain_cost": 0.1, "offset_penalty": 10.0},
    ],
    ids=str,
)
def test_objective_is_that_of_an_independent_solver(weights, n_classes):
    X, y, d = problem(n_classes)
    model = UndoBias(**weights).fit(X, y, sample_domain=d)
    for row in range(len(model.coef_)):
        best = optimum(model, X, y, d, row)
        # The dual value is a lower bound whatever its solver did: if the two meet, both are right.
        assert best * (1 - 1e-12) <= khosla(model, X, y, d, row) <= best * (1 + 1e-4)


def test_without_offsets_it_is_one_linear_svm():
    X, y, d = problem(n_classes=2)
    model = UndoBias(shared_cost=0.3, domain_cost=0.2, offset_penalty=1e10).fit(X, y, sample_domain=d)
    standard = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.full(len(X), BIAS)])
    svm = LinearSVC(loss="hinge", fit_intercept=False, C=0.5, tol=1e-6, max_iter=10**6, random_state=0).fit(standard, y)
    np.testing.assert_allclose(model.decision_function(X), svm.decision_function(standard), atol=1e-2)


@pytest.mark.parametrize(("n_classes", "rows"), [(2, 1), (3, 3), (4, 4)])
def test_two_classes_have_one_vector_and_more_have_one_each(n_classes, rows):
    X, y, d = problem(n_classes)
    model = UndoBias().fit(X, y, sample_domain=d)
    assert model.coef_.shape == (rows, 3)
    assert model.intercept_.shape == (rows,)
    assert model.domain_coef_.shape == (3, rows, 3)
    assert model.domain_intercept_.shape == (3, rows)
    assert model.decision_function(X).shape == ((len(X),) if rows == 1 else (len(X), rows))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_follow_the_decision_function(n_classes):
    X, y, d = problem(n_classes)
    names = np.array(["owl", "ant", "cat"])[y]
    model = UndoBias().fit(X, names, sample_domain=d)
    assert model.classes_.tolist() == sorted(set(names))
    scores = model.decision_function(X)
    np.testing.assert_allclose(np.atleast_2d(scores.T).T, X @ model.coef_.T + model.intercept_)
    winner = (scores > 0).astype(int) if n_classes == 2 else scores.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[winner])
    assert len(set(model.predict(X))) == n_classes


def test_names_of_classes_and_domains_do_not_matter():
    X, y, d = problem()
    codes = UndoBias().fit(X, y, sample_domain=d)
    names = UndoBias().fit(X, np.array(["a", "b", "c"])[y], sample_domain=np.array(["x", "y", "z"])[d])
    assert names.domains_.tolist() == ["x", "y", "z"]
    np.testing.assert_array_equal(codes.coef_, names.coef_)
    np.testing.assert_array_equal(codes.domain_coef_, names.domain_coef_)


def test_one_domain_warns_and_still_classifies():
    X, y, _ = three_domains()
    with pytest.warns(SingleDomainWarning, match="UndoBias was fitted without sample_domain"):
        model = UndoBias().fit(X, y)
    assert model.domains_.tolist() == [None]
    assert model.domain_coef_.shape == (1, 3, 4)
    assert model.score(X, y) > 0.8


def test_a_class_may_be_absent_from_a_domain():
    X, y, d = three_domains()
    present = (y != 0) | (d != 1)
    model = UndoBias().fit(X[present], y[present], sample_domain=d[present])
    assert np.isfinite(model.domain_coef_).all()
    assert model.score(X[present], y[present]) > 0.8


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e9])
def test_a_constant_feature_gets_no_weight(value):
    X, y, d = problem()
    with_constant = UndoBias().fit(np.insert(X, 1, value, axis=1), y, sample_domain=d)
    np.testing.assert_allclose(with_constant.coef_[:, 1], 0, atol=1e-15)
    np.testing.assert_allclose(with_constant.domain_coef_[:, :, 1], 0, atol=1e-15)
    without = UndoBias().fit(X, y, sample_domain=d)
    np.testing.assert_allclose(with_constant.coef_[:, [0, 2, 3]], without.coef_, atol=1e-2)


def test_a_feature_of_rounding_errors_stays_small():
    X, y, d = problem()
    nearly = np.where(np.arange(len(X)) % 2, 0.1, np.nextafter(0.1, 1))
    model = UndoBias().fit(np.column_stack([X, nearly]), y, sample_domain=d)
    np.testing.assert_allclose(model.coef_[:, 3] * nearly.std(), 0, atol=1e-12)


def test_units_and_origin_of_the_features_do_not_matter():
    X, y, d = problem()
    scale, shift = np.array([1e-3, 1.0, 1e4]), np.array([5.0, -100.0, 1e5])
    model, other = UndoBias().fit(X, y, sample_domain=d), UndoBias().fit(X * scale + shift, y, sample_domain=d)
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X * scale + shift), atol=1e-3)
    np.testing.assert_allclose(model.coef_, other.coef_ * scale, atol=1e-3)


def test_it_reports_how_many_passes_it_took():
    X, y, d = problem()
    model = UndoBias().fit(X, y, sample_domain=d)
    assert 1 <= model.n_iter_ < model.max_iter
