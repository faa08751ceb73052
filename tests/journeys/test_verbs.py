"""Every public verb at its defaults, in two processes, on a table of realistic size, and one number of each again."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import chi2_contingency
from sklearn.metrics import accuracy_score, roc_auc_score

pytest.importorskip("skops", reason="model files need the extra")

import unseen
from journey_tables import DOMAIN, LABEL, make_table

pytestmark = [pytest.mark.journeys, pytest.mark.filterwarnings("ignore::unseen.exceptions.DataWarning")]
ROLES = {"label": LABEL, "domain": DOMAIN}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_table(tmp_path_factory.mktemp("verbs") / "table.csv", n_rows=1000, n_sites=4, mixed=True, seed=5)


@pytest.fixture(scope="module")
def model(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unseen.exceptions.DataWarning)
        return unseen.fit(data.path, **ROLES, n_jobs=2)


def test_fit_predicts_a_file_as_it_predicts_after_loading(model, data, tmp_path):
    assert model.expected_performance.lower < model.expected_performance.mean < 1
    model.save(tmp_path / "model.unseen")
    loaded = unseen.load_model(tmp_path / "model.unseen")
    probabilities = model.predict_proba(data.path)
    np.testing.assert_allclose(loaded.predict_proba(data.path), probabilities)
    assert model.classes_[probabilities.argmax(axis=1)].tolist() == model.predict(data.path).tolist()
    assert accuracy_score(data.y, model.predict(data.path)) > 0.8


def fitted(path, n_jobs):
    return unseen.fit(path, **ROLES, methods=["logistic", "CIDG"], n_jobs=n_jobs).predict_proba(path).tolist()


def validated(path, n_jobs):
    return unseen.validate(path, **ROLES, methods="logistic", compare_with=(), n_jobs=n_jobs).to_dict()["sites"]


def compared(path, n_jobs):
    comparison = unseen.compare(path, **ROLES, methods=["logistic", "CIDG"], quick=True, n_jobs=n_jobs)
    return [(row.method, row.task, row.accuracies, row.settings) for row in comparison.rows]


def learning_curve(path, n_jobs):
    return unseen.site_learning_curve(path, **ROLES, methods=["logistic"], n_jobs=n_jobs).to_dict()


@pytest.mark.parametrize("verb", [fitted, validated, compared, learning_curve])
def test_one_and_two_processes_give_the_same_results(verb, data):
    assert verb(data.path, 2) == verb(data.path, 1)


def test_validate_has_the_auc_of_its_predictions(data):
    result = unseen.validate(data.path, **ROLES, n_jobs=2)
    for row in (row for row in result.rows if row.method == "auto"):
        truth = result.predictions.truth(row)
        expected = roc_auc_score(truth, row.probabilities[:, 1])
        assert result.estimates["auto", "auc", "class 01"][row.domain].value == pytest.approx(expected)


def test_compare_accepts_a_frame_and_ranks_all_methods(data):
    pl = pytest.importorskip("polars")
    comparison = unseen.compare(pl.read_csv(data.path), **ROLES, n_jobs=2, quick=True)
    majority = [row for row in comparison.rows if row.method == "majority"]
    assert len(majority) == len(data.sites)
    for row in majority:
        ((site, score),) = row.accuracies.items()
        shares = [np.mean(data.y[data.site == site] == name) for name in np.unique(data.y)]
        assert score == pytest.approx(min(shares, key=lambda share: abs(share - score)))


def test_diagnose_tests_class_proportions(data):
    diagnosis = unseen.diagnose(data.path, **ROLES)
    counts = [[((data.site == s) & (data.y == c)).sum() for c in np.unique(data.y)] for s in data.sites]
    (test,) = [test for test in diagnosis.tests if test.name == "P(Y)"]
    assert test.statistic == pytest.approx(chi2_contingency(counts, correction=False).statistic)


def test_the_estimator_needs_arrays_only(data):
    model = unseen.UnseenClassifier(n_jobs=2).fit(data.X, data.y, sample_domain=data.site)
    scores = [row.mean for row in model.leaderboard_ if np.isfinite(row.mean)]
    assert max(scores) > 0.8
    assert accuracy_score(data.y, model.predict(data.X)) > max(scores) - 0.1
