"""The table of methods: one line makes a method known to everything that compares, fits, predicts or reports."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import unseen
from helpers import fit_model, three_domains
from unseen import UnseenClassifier
from unseen.model_selection import (
    METHODS,
    Method,
    get_method,
    is_transductive,
    method_names,
    register,
)
from unseen.models import ModelFileError, load_model, save_model
from unseen.tables import Column, Schema, Table

X, Y, CODES = three_domains(n_per_cell=8, n_features=3, seed=4)
D = np.array(["a", "b", "c"])[CODES]


class SwitchedClassifier(ClassifierMixin, BaseEstimator):
    """Declares by a constructor parameter whether it is transductive."""

    def __init__(self, transductive=False):
        self.transductive = transductive

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


class BatchClassifier(GaussianNB):
    """Declares by a class attribute that it is transductive."""

    transductive = True


@pytest.fixture
def made_up():
    """Shy logistic regression, in one line."""
    yield register(Method("shy", "plain", LogisticRegression(max_iter=500), grid={"C": [1e-3, 1e-2]}, in_ensemble=True))
    del METHODS["shy"]


def test_a_method_of_ones_own_is_among_those_that_are_compared_automatically(made_up):
    assert "shy" in method_names(in_ensemble=True)
    model = UnseenClassifier(["logistic", "shy"]).fit(X, Y, sample_domain=D)
    assert {row.model for row in model.leaderboard_ if row.params} == {"logistic", "shy"}  # pools have none


@pytest.mark.parametrize("spelling", ["linear SVM", "Linear svm", "LINEAR SVM"])
def test_capitals_do_not_matter(spelling):
    assert get_method(spelling) is METHODS["linear SVM"]


def test_an_unknown_method_is_refused_with_all_there_are():
    with pytest.raises(ValueError, match=r"no method 'magic'; there are 1-NN, KPCA, .*mapped ridge"):
        get_method("magic")


def test_settings_are_every_combination_and_quick_ones_are_two():
    grid = {"C": [1, 2, 3], "tol": [0.1, 0.2]}
    method = Method("m", "plain", LogisticRegression(), grid=grid)
    assert method.settings(3) == list(ParameterGrid(grid))
    assert method.settings(3, quick=True) == [{"C": 1, "tol": 0.1}, {"C": 3, "tol": 0.2}]
    sca = METHODS["SCA"].settings(4)
    assert {setting["n_components"] for setting in sca} == {3, 6}


def test_a_method_says_which_types_its_model_file_holds(tmp_path):
    """Without a word from the table a model of other types is refused, with a sentence that names them."""
    table = Table(X, Y, D, Schema(tuple(Column(f"x{i}", "numeric") for i in range(3))), [], "three")
    register(Method("naive Bayes", "plain", GaussianNB()))
    try:
        fit = fit_model(table, "naive Bayes")
        with pytest.raises(ModelFileError, match=r"sklearn\.naive_bayes\.GaussianNB"):
            save_model(fit.estimator, tmp_path / "bayes.unseen", {})
        register(Method("naive Bayes", "plain", GaussianNB(), trusted_types=(GaussianNB,)))
        save_model(fit.estimator, tmp_path / "bayes.unseen", {})
        again = load_model(tmp_path / "bayes.unseen")
        np.testing.assert_array_equal(again.predict(X), fit.estimator.predict(X))
    finally:
        del METHODS["naive Bayes"]


def test_a_method_behind_a_map_needs_one():
    with pytest.raises(ValueError, match="'mapped ridge' needs a feature map"):
        unseen.compare(X, Y, sample_domain=D, methods=["mapped ridge", "logistic"])


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (GaussianNB(), False),
        (SwitchedClassifier(), False),
        (SwitchedClassifier(transductive=True), True),
        (BatchClassifier(), True),
    ],
)
def test_estimators_declare_by_an_attribute_that_they_are_transductive(estimator, expected):
    pipeline = make_pipeline(StandardScaler(), estimator)
    assert is_transductive(estimator) == is_transductive(pipeline) == expected
    candidate = next(Method("m", "invariant", pipeline).candidates(2))
    assert candidate.kind == ("transductive" if expected else "inductive")
