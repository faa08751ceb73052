"""Methods, functions and estimators of users cross the border of a process."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from joblib import delayed
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import unseen
from helpers import fit_model, three_domains
from unseen import UnseenClassifier
from unseen.evaluation import site_learning_curve
from unseen.model_selection import METHODS, Method, describe_method, parse_methods, register
from unseen.tables import table_from_arrays
from unseen.utils.jobs import parallel

X, Y, D = three_domains(n_per_cell=5, n_domains=4)
TABLE = table_from_arrays(X, Y, D, "test")
OWN = ("rounded", make_pipeline(FunctionTransformer(lambda X: np.round(X, 1)), LogisticRegression()))


@pytest.mark.parametrize("copied", [deepcopy, lambda method: pickle.loads(pickle.dumps(method))])
@pytest.mark.parametrize("name", ["auto", "CIDG", "logistic"])
def test_a_copy_of_a_registered_method_has_its_name_and_attributes(name, copied):
    copy = copied(METHODS[name])
    assert describe_method(copy) == describe_method(METHODS[name])
    assert [(one.name, one.own) for one in parse_methods([copy])] == [(name, False)]


def test_registered_methods_run_no_code_of_users():
    """A digest of their code would make their keys depend on the modules that a process has loaded."""
    assert {method.source for method in METHODS.values()} == {""}


def test_a_method_that_equals_a_registered_one_is_not_the_users_own():
    (method,) = parse_methods([Method(**vars(METHODS["logistic"]))])
    assert method is METHODS["logistic"]
    (changed,) = parse_methods([Method(**{**vars(METHODS["logistic"]), "grid": {"C": (7.0,)}})])
    assert changed.own


def test_a_clone_with_registered_methods_can_be_fitted(few_trees):
    model = clone(UnseenClassifier(methods=[METHODS["auto"]]))
    assert model.fit(X, Y, sample_domain=D).score(X, Y) > 0.5


def fit_and_predict(methods):
    """Run by a worker process, which receives copies of the methods."""
    return UnseenClassifier(methods=methods).fit(X, Y, sample_domain=D).predict_proba(X)


def fit_model_and_predict(methods):
    return fit_model(TABLE, methods).estimator.predict_proba(X)


def list_members(method):
    return [(member.name, member.own) for member in method.members]


@pytest.mark.parametrize("function", [fit_and_predict, fit_model_and_predict])
@pytest.mark.parametrize("items", [["logistic", METHODS["nearest mean"]], [OWN]], ids=["registered", "own"])
def test_methods_give_the_same_predictions_in_a_worker(function, items):
    methods = parse_methods(items)
    for predicted in parallel(2)(delayed(function)(methods) for _ in range(2)):
        np.testing.assert_array_equal(predicted, function(methods))


def test_a_worker_knows_methods_that_were_registered_later():
    try:
        register(Method("naive Bayes", "plain", GaussianNB(), in_ensemble=True))
        expected = list_members(METHODS["auto"])
        assert ("naive Bayes", False) in expected
        assert list(parallel(2)(delayed(list_members)(METHODS["auto"]) for _ in range(2))) == [expected] * 2
    finally:
        del METHODS["naive Bayes"]


def validated(n_jobs):
    methods = ["logistic", METHODS["nearest mean"]]
    result = unseen.validate(TABLE, methods=methods, compare_with=[OWN], n_jobs=n_jobs)
    return result.to_dict()["sites"]


def fitted(n_jobs):
    return unseen.fit(TABLE, methods=["logistic", OWN], n_jobs=n_jobs).predict_proba(X).tolist()


def learning_curve(n_jobs):
    return site_learning_curve(TABLE, methods=["logistic"], n_jobs=n_jobs).to_dict()


@pytest.mark.parametrize("verb", [validated, fitted, learning_curve])
def test_one_and_two_processes_give_the_same_results(verb):
    assert verb(2) == verb(1)


# Scorers


def f2(model, X, y):
    return fbeta_score(y, model.predict(X), beta=2, average="macro")


@pytest.mark.parametrize("scorer", [make_scorer(fbeta_score, beta=2, average="macro"), f2], ids=["scorer", "function"])
def test_a_comparison_accepts_scorers(scorer, tmp_path):
    comparison = unseen.compare(TABLE, methods=["logistic"], metric=scorer, store=tmp_path / "s.sqlite")
    assert comparison.to_dict()["verdict"]["metric"] == "score"
    for row in comparison.rows:
        (domain,) = row.accuracies
        assert 0 < row.accuracies[domain] <= 1
    assert "score" in comparison.to_html()
